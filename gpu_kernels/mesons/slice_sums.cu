// Sums over time slices, with the factors of many momenta (mesons.h). They are products of a factor in x, one in y and
// one in z, so the sums go one after the other: along x for each factor that occurs, along y for each pair, along z for
// each momentum. V/X rows, then V/(XY) lines, then T slices of numbers are left. Along x: one thread a row, parity of x
// and four factors; then one a line, parities and factor.
//
// Bytes a site: the 16 of its number, read once for four factors in x. Flops a site: 8 for each of these.
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/mesons/mesons.h"
#include <cmath>

namespace milcgpu {

namespace {

constexpr int factors_together = 4;

MILCGPU_HD Complex<double> load_number(const Complex<double> *numbers, int i) {
    uint32_t words[4];
    load_element<16, 16, Reuse::keep>(reinterpret_cast<const unsigned char *>(numbers), 0, i, words);
    Complex<double> z;
    memcpy(&z, words, sizeof z);
    return z;
}

// to[(f 2 + parity of x) rows + row]
struct SumRows {
    const Complex<double> *numbers, *factors;
    Complex<double> *to;
    int x, y, z, rows, n_factors; // extents in space
    int origin_parity, odd_x;     // of the box's first site: its parity, and that of its x
    int even_sites;
    MILCGPU_HD void operator()(int thread) const {
        const int row = thread % rows, odd = thread / rows % 2, first = thread / rows / 2 * factors_together;
        const int yzt = row % y + row / y % z + row / (y * z), begin = odd ^ odd_x;
        const Complex<double> *const from = numbers + ((yzt + begin + origin_parity) & 1) * size_t(even_sites);
        Complex<double> sum[factors_together] = {};
        for (int k = begin, i = (row * x + begin) >> 1; k < x; k += 2, ++i) {
            const Complex<double> number = load_number(from, i);
            MILCGPU_UNROLL
            for (int f = 0; f < factors_together; ++f)
                if (first + f < n_factors)
                    sum[f] = plus(sum[f], load_number(factors, (first + f) * x + k), number);
        }
        MILCGPU_UNROLL
        for (int f = 0; f < factors_together; ++f)
            if (first + f < n_factors)
                to[((first + f) * 2 + odd) * size_t(rows) + row] = sum[f];
    }
};

// to[(q 2 classes + class + classes odd) lines + line] = sum over coordinates k of that parity of
// factors[q][k] numbers[(from[q] classes + class) lines n + line n + k]
struct SumLines {
    const Complex<double> *numbers, *factors;
    const int *from;
    Complex<double> *to;
    int n, lines, classes, odd_first; // odd_first: the parity of the box's first coordinate
    MILCGPU_HD void operator()(int thread) const {
        const int line = thread % lines, rest = thread / lines, odd = rest / classes % 2, q = rest / classes / 2;
        const size_t first = (from[q] * classes + rest % classes) * size_t(lines) + line;
        Complex<double> sum = {};
        for (int k = odd ^ odd_first; k < n; k += 2)
            sum = plus(sum, load_number(factors, q * n + k), numbers[first * n + k]);
        to[size_t(rest) * lines + line] = sum;
    }
};

Complex<double> factor(int p, MomentumParity parity, int x, int n) {
    const int turns = ((p % n) * x % n + n) % n; // th = 2 pi turns / n
    const double th = 2 * M_PI * turns / n;
    return {parity == MomentumParity::odd ? 0 : std::cos(th), parity == MomentumParity::even ? 0 : std::sin(th)};
}

} // namespace

SliceSums::SliceSums(Device &device, const Geometry &geometry, const std::vector<Momentum> &momenta, const int *origin,
                     int fields)
    : device_(device), box_(geometry.lattice()), momenta_(static_cast<int>(momenta.size())) {
    std::vector<int> before(momenta.size(), 0); // output of the level before
    for (int mu = 0; mu < 3; ++mu) {
        struct Output {
            int from, p;
            MomentumParity parity;
        };
        std::vector<Output> outputs;
        for (size_t k = 0; k < momenta.size(); ++k) {
            const Output wanted = {before[k], momenta[k].p[mu], momenta[k].parity[mu]};
            size_t q = 0;
            // One output a momentum at the last level, so that momenta keep their numbers.
            while (mu < 2 && q < outputs.size() &&
                   !(outputs[q].from == wanted.from && outputs[q].p == wanted.p && outputs[q].parity == wanted.parity))
                ++q;
            if (mu == 2)
                q = outputs.size();
            if (q == outputs.size())
                outputs.push_back(wanted);
            before[k] = static_cast<int>(q);
        }
        const int n = box_.extent[mu], first = geometry.origin()[mu];
        odd_[mu] = first & 1;
        std::vector<Complex<double>> factors;
        std::vector<int> from;
        for (const Output &output : outputs) {
            from.push_back(output.from);
            for (int x = 0; x < n; ++x)
                factors.push_back(
                    factor(output.p, output.parity, first + x - origin[mu], geometry.global_extents()[mu]));
        }
        Level &level = levels_[mu];
        level.outputs = static_cast<int>(outputs.size());
        level.factors = {device, factors.size(), "factors of momenta"};
        level.from = {device, from.size(), "factors of momenta"};
        device.copy_to_device(level.factors.data(), factors.data(), level.factors.bytes());
        device.copy_to_device(level.from.data(), from.data(), level.from.bytes());
    }
    const size_t t = box_.extent[3], zt = box_.extent[2] * t, rows = box_.extent[1] * zt;
    along_x_ = {device, 2 * rows * levels_[0].outputs, "sums over time slices"};
    along_y_ = {device, 4 * zt * levels_[1].outputs, "sums over time slices"};
    sums_ = {device, classes * t * momenta_ * fields, "sums over time slices"};
}

void SliceSums::sum(int field, const Complex<double> *numbers) {
    const int x = box_.extent[0], y = box_.extent[1], z = box_.extent[2], t = box_.extent[3];
    const int groups = (levels_[0].outputs + factors_together - 1) / factors_together;
    launch(device_, 2 * y * z * t * groups,
           SumRows{numbers, levels_[0].factors.data(), along_x_.data(), x, y, z, y * z * t, levels_[0].outputs,
                   box_.origin_parity, odd_[0], box_.sites(0)},
           "sums over x");
    const auto lines = [&](int mu, const Complex<double> *from, Complex<double> *to, int count, int parities) {
        const Level &level = levels_[mu];
        launch(device_, level.outputs * 2 * parities * count,
               SumLines{from, level.factors.data(), level.from.data(), to, box_.extent[mu], count, parities, odd_[mu]},
               "sums over y and z", 64);
    };
    lines(1, along_x_.data(), along_y_.data(), z * t, 2);
    lines(2, along_y_.data(), sums_.data() + size_t(field) * classes * t * momenta_, t, 4);
}

} // namespace milcgpu
