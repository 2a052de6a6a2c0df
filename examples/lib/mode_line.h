// The number of modes below lambda = sqrt(l) / 2, as a straight line by least squares.
#pragma once
#include <cmath>
#include <vector>

namespace examples {

struct ModeLine {
    double offset, slope;
};

// lambda: in rising order.
inline ModeLine mode_line(const std::vector<double> &lambda) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const double at : lambda) {
        const double below = n + 0.5; // half of the mode itself
        n += 1, x += at, y += below, xx += at * at, xy += at * below;
    }
    const double slope = n > 1 ? (n * xy - x * y) / (n * xx - x * x) : NAN;
    return {(y - slope * x) / n, slope};
}

} // namespace examples
