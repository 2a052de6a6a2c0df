// Factors of momenta, and sums over one direction with them (momentum_sums.h). One thread for each line, class, parity
// and output. Bytes: 16 a number and output.
#include "gpu_kernels/algebra/momentum_sums.h"
#include "gpu_kernels/machine/backend/launch.h"
#include <cmath>

namespace milcgpu {

namespace {

struct SumLines {
    const Complex<double> *numbers, *factors;
    const int *from;
    Complex<double> *to;
    int n, inner, lines, classes, parities, odd_first; // odd_first: the parity of the box's first coordinate
    MILCGPU_HD void operator()(int thread) const {
        const int line = thread % lines, rest = thread / lines, q = rest / classes / parities;
        const int begin = parities == 2 ? (rest / classes % 2) ^ odd_first : 0;
        const int outer = line / inner;
        const size_t first =
            (from[q] * classes + rest % classes) * size_t(lines) * n + outer * inner * n + (line - outer * inner);
        Complex<double> sum = {};
        for (int k = begin; k < n; k += parities)
            sum = plus(sum, factors[q * n + k], numbers[first + k * inner]);
        to[size_t(rest) * lines + line] = sum;
    }
};

} // namespace

Complex<double> momentum_factor(int p, MomentumParity parity, int x, int n) {
    const int turns = ((p % n) * x % n + n) % n; // th = 2 pi turns / n
    const double th = 2 * M_PI * turns / n;
    return {parity == MomentumParity::odd ? 0 : std::cos(th), parity == MomentumParity::even ? 0 : std::sin(th)};
}

MomentumSums::MomentumSums(Device &device, const Geometry &geometry, const std::vector<Momentum> &momenta,
                           const int *origin, const std::array<int, 3> &order)
    : device_(device) {
    std::vector<int> before(momenta.size(), 0); // output of the previous level
    for (int k = 0; k < 3; ++k) {
        const int mu = order[k];
        struct Output {
            int from, p;
            MomentumParity parity;
        };
        std::vector<Output> outputs;
        for (size_t m = 0; m < momenta.size(); ++m) {
            const Output wanted = {before[m], momenta[m].p[mu], momenta[m].parity[mu]};
            size_t q = 0;
            // At the last level each momentum has its own output, in the order of the momenta.
            while (k < 2 && q < outputs.size() &&
                   !(outputs[q].from == wanted.from && outputs[q].p == wanted.p && outputs[q].parity == wanted.parity))
                ++q;
            if (k == 2)
                q = outputs.size();
            if (q == outputs.size())
                outputs.push_back(wanted);
            before[m] = static_cast<int>(q);
        }
        const int n = geometry.lattice().extent[mu], first = geometry.origin()[mu];
        extent_[mu] = n, odd_[mu] = first & 1;
        std::vector<Complex<double>> factors;
        std::vector<int> from;
        for (const Output &output : outputs) {
            from.push_back(output.from);
            for (int x = 0; x < n; ++x)
                factors.push_back(
                    momentum_factor(output.p, output.parity, first + x - origin[mu], geometry.global_extents()[mu]));
        }
        Level &level = levels_[k];
        level.direction = mu, level.outputs = static_cast<int>(outputs.size());
        level.factors = {device, factors.size(), "factors of momenta"};
        level.from = {device, from.size(), "factors of momenta"};
        queue_of(device).copy_to_device(level.factors.data(), factors.data(), level.factors.bytes());
        queue_of(device).copy_to_device(level.from.data(), from.data(), level.from.bytes());
    }
}

void MomentumSums::add(int k, const Shape &shape, const Complex<double> *numbers, Complex<double> *to) const {
    const Level &level = levels_[k];
    const int n = extent_[level.direction], lines = shape.outer * shape.inner;
    launch(device_, level.outputs * shape.parities * shape.classes * lines,
           SumLines{numbers, level.factors.data(), level.from.data(), to, n, shape.inner, lines, shape.classes,
                    shape.parities, odd_[level.direction]},
           "sums along a direction", 64);
}

} // namespace milcgpu
