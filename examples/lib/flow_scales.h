// The scales t0 and w0 of a gradient flow: t^2 E(t) = 0.3 at t0 (Luescher, arXiv:1006.4518), t d/dt (t^2 E) = 0.3 at
// w0^2 (Borsanyi et al., arXiv:1203.4469).
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace examples {

struct FlowValue {
    double time, energy; // E
};

// Where a curve first rises to a level, by linear interpolation, and the error of that. NaN: the curve does not rise so
// far.
struct Crossing {
    double at, error;
    bool is_coarse() const { return error > 0.005 * at || std::isinf(error); }
};

// The second differences on both sides give the error. They see nothing of a curve that bends between two points, so an
// interval of more than half of the result gives no error: infinity.
inline Crossing first_crossing(const std::vector<double> &x, const std::vector<double> &y, double level) {
    const auto slope = [&](std::size_t k) { return (y[k] - y[k - 1]) / (x[k] - x[k - 1]); };
    const auto bend = [&](std::size_t k) { return std::abs(slope(k) - slope(k - 1)) / (x[k] - x[k - 2]); };
    for (std::size_t k = 1; k < x.size(); ++k)
        if (y[k - 1] < level && y[k] >= level) {
            const double step = x[k] - x[k - 1], at = x[k - 1] + (level - y[k - 1]) / slope(k);
            if (k < 2 || step > at / 2)
                return {at, INFINITY};
            return {at, std::max(bend(k), k + 1 < x.size() ? bend(k + 1) : 0) * step * step / 4 / slope(k)};
        }
    return {NAN, 0};
}

// In units of the lattice spacing squared, and of the spacing.
struct FlowScales {
    Crossing t0, w0;
};

// Times rise. Derivatives are differences over a step, taken for its middle: errors are of second order in the steps.
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
    const Crossing t0 = first_crossing(time, t2e, level), square = first_crossing(middle, slope, level);
    if (std::isnan(square.at)) // the last middle may lie before w0^2 although the flow went beyond it
        return {t0, {NAN, std::isinf(t0.error) ? t0.error : 0}};
    return {t0, {std::sqrt(square.at), square.error / (2 * std::sqrt(square.at))}};
}

} // namespace examples
