// The scales t0 and w0 of a gradient flow: t^2 E(t) = 0.3 at t0 (Luescher, arXiv:1006.4518), t d/dt (t^2 E) = 0.3 at
// w0^2 (Borsanyi et al., arXiv:1203.4469).
#pragma once
#include <cmath>
#include <vector>

namespace examples {

struct FlowValue {
    double time, energy; // E
};

// The time at which the piecewise linear curve first reaches `level`; NaN if it does not.
inline double first_crossing(const std::vector<double> &x, const std::vector<double> &y, double level) {
    for (std::size_t k = 1; k < x.size(); ++k)
        if (y[k - 1] < level && y[k] >= level)
            return x[k - 1] + (level - y[k - 1]) / (y[k] - y[k - 1]) * (x[k] - x[k - 1]);
    return NAN;
}

struct FlowScales {
    double t0,
        w0; // t0 in units of the lattice spacing squared, w0 in units of the spacing; NaN if the flow ended before
};

// Times must rise. A derivative is the difference over a step, taken at the middle of the step, so errors are of second
// order in the step.
inline FlowScales flow_scales(const std::vector<FlowValue> &values, double level = 0.3) {
    std::vector<double> time, t2e, middle, slope;
    for (const FlowValue &v : values) {
        time.push_back(v.time), t2e.push_back(v.time * v.time * v.energy);
        const std::size_t k = time.size() - 1;
        if (k > 0) {
            middle.push_back((time[k] + time[k - 1]) / 2);
            slope.push_back(middle.back() * (t2e[k] - t2e[k - 1]) / (time[k] - time[k - 1]));
        }
    }
    return {first_crossing(time, t2e, level), std::sqrt(first_crossing(middle, slope, level))};
}

} // namespace examples
