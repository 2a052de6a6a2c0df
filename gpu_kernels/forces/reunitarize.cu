// Links back to SU(3) with their phase. One thread a link. Matrices a link: read and written.
#include "gpu_kernels/comm/ranks.h"
#include "gpu_kernels/forces/steps.h"

namespace milcgpu {

namespace {

using C = Complex<double>;

// Largest deviation as the bits of a float, which order as integers do, NaN above all numbers; ~index of the first link
// that failed, 0: none.
struct Worst {
    uint32_t bits, not_link;
};

MILCGPU_HD double row_norm(const Matrix<double> &u, int row) {
    return norm(u.e[row][0]) + norm(u.e[row][1]) + norm(u.e[row][2]);
}

MILCGPU_HD void normalise_row(Matrix<double> &u, int row, double size2) {
    const double scale = 1 / sqrt(size2);
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        u.e[row][k] = scale * u.e[row][k];
}

struct Deviations {
    double d[4];
};

// u: without its phase
MILCGPU_HD Deviations gram_schmidt(Matrix<double> &u) {
    Deviations of;
    const double first = row_norm(u, 0);
    of.d[0] = fabs(first - 1);
    normalise_row(u, 0, first);
    C along = {0, 0};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        along = plus(along, conj(u.e[0][k]), u.e[1][k]);
    of.d[1] = norm(along);
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        u.e[1][k] = minus(u.e[1][k], along, u.e[0][k]);
    const double second = row_norm(u, 1);
    of.d[2] = fabs(second - 1);
    normalise_row(u, 1, second);
    const C old[3] = {u.e[2][0], u.e[2][1], u.e[2][2]};
    complete_row(u);
    of.d[3] = norm(u.e[2][0] - old[0]) + norm(u.e[2][1] - old[1]) + norm(u.e[2][2] - old[2]);
    return of;
}

template <Precision p> struct Reunitarize {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    Phases phases;
    SitesAndParts work;
    MatrixView<p> u;
    double tolerance;
    Worst *worst;

    static MILCGPU_HD Matrix<double> times(double sign, Matrix<double> m) {
        MILCGPU_UNROLL
        for (int k = 0; k < 9; ++k)
            m.e[k / 3][k % 3] = sign * m.e[k / 3][k % 3];
        return m;
    }
    MILCGPU_HD Sums<2> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0, 0}};
        const double sign = phases.sign(lattice.site(item.parity, item.i), item.part);
        Matrix<double> link =
            times(sign, convert<double>(u.template load<Reuse::written>(item.parity, item.part, item.i)));
        const Deviations deviations = gram_schmidt(link);
        double largest = 0, squares = 0;
        bool good = true;
        MILCGPU_UNROLL
        for (int k = 0; k < 4; ++k) {
            const double d = deviations.d[k];
            good = good && d <= tolerance;
            largest = d > largest || d != d ? d : largest;
            squares += d * d;
        }
        atomic_max(&worst->bits, largest == largest ? bit_cast<uint32_t>(static_cast<float>(largest)) : 0x7FC00000u);
        if (good)
            u.store(item.parity, item.part, item.i, convert<Real>(times(sign, link)));
        else
            atomic_max(&worst->not_link,
                       ~static_cast<uint32_t>(4 * (item.i + item.parity * work.sites(0)) + item.part));
        return {{good ? 0.0 : 1.0, squares}};
    }
};

} // namespace

double reunitarize_bytes(Precision p) { return 4 * 2 * link_bytes(p, 18); }

ReunitarizeReport reunitarize(Device &device, const Geometry &geometry, const LinkField &u, double tolerance) {
    const SitesAndParts work(geometry, 4);
    DeviceArray<Worst> worst;
    device.agree("room for a reunitarization", [&] { worst = {device, 1, "reunitarization"}; });
    device.fill_zero(worst.data(), worst.bytes());
    Sums<2> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const Reunitarize<precision> body{geometry.lattice(),       Phases(geometry), work,
                                          MatrixView<precision>(u), tolerance,        worst.data()};
        sums = sum_to_host<2>(device, work.threads(), body, "reunitarize");
    });
    Worst found = worst.to_host()[0];
    if (device.ranks() != nullptr)
        for (const Worst &other : device.ranks()->gathered("a reunitarization", found))
            found.bits = std::max(found.bits, other.bits);
    return {static_cast<uint64_t>(sums.v[0]), found.not_link != 0 ? static_cast<long long>(~found.not_link) : -1,
            bit_cast<float>(found.bits), sums.v[1]};
}

} // namespace milcgpu
