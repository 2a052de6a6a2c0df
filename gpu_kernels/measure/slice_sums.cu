// Sums over time slices, with the factors of many momenta (quark_operators.h): along x for each factor that occurs,
// along y for each pair, along z for each momentum (momentum_sums.h). This leaves V/X rows, then V/(XY) lines, then T
// slices of numbers. Along x: one thread a row, parity of x and four factors.
//
// Bytes a site: the 16 of its number, read once for four factors in x. Flops a site: 8 for each of these.
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/measure/quark_operators.h"

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

} // namespace

SliceSums::SliceSums(Device &device, const Geometry &geometry, const std::vector<Momentum> &momenta, const int *origin,
                     int fields)
    : device_(device), box_(geometry.lattice()), odd_x_(geometry.origin()[0] & 1),
      momenta_(device, geometry, momenta, origin, {0, 1, 2}) {
    const size_t t = box_.extent[3], zt = box_.extent[2] * t, rows = box_.extent[1] * zt;
    along_x_ = {device, 2 * rows * momenta_.level(0).outputs, "sums over time slices"};
    along_y_ = {device, 4 * zt * momenta_.level(1).outputs, "sums over time slices"};
    sums_ = {device, classes * t * momenta_.momenta() * fields, "sums over time slices"};
}

void SliceSums::sum(int field, const Complex<double> *numbers) {
    const int x = box_.extent[0], y = box_.extent[1], z = box_.extent[2], t = box_.extent[3];
    const MomentumSums::Level &along_x = momenta_.level(0);
    const int groups = (along_x.outputs + factors_together - 1) / factors_together;
    launch(device_, 2 * y * z * t * groups,
           SumRows{numbers, along_x.factors.data(), along_x_.data(), x, y, z, y * z * t, along_x.outputs,
                   box_.origin_parity, odd_x_, box_.sites(0)},
           "sums over x");
    momenta_.add(1, {2, z * t, 1, 2}, along_x_.data(), along_y_.data());
    momenta_.add(2, {4, t, 1, 2}, along_y_.data(), sums_.data() + size_t(field) * classes * t * momenta_.momenta());
}

} // namespace milcgpu
