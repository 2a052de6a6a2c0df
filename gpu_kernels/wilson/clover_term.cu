// The clover term from the gauge field, its inverse, and its product with a field. clover_term.h has formulas, layout
// and flops.
//
// The term is computed once for a gauge field. A thread computes one chirality of a site and for it all six f: that is
// twice the products that are needed, but a block of 36 reals and one f fit in registers, and the block is stored at
// once.
#include "gpu_kernels/fields/for_precision.h"
#include "gpu_kernels/gauge/links/walk.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/sum_to_host.h"
#include "gpu_kernels/wilson/clover_term.h"

namespace milcgpu {

CloverField::CloverField(Device &device, Precision precision, const Geometry &geometry, const char *owner)
    : precision_(precision), sites_{geometry.sites(0), geometry.sites(1)}, stride_(geometry.stride()),
      data_(device, bytes_of(precision, geometry), owner), sum_(device.zero_sum()) {
    device.fill_zero(data_.data(), data_.bytes());
}

namespace {

template <Precision links> struct MakeClover {
    using M = Matrix<double>;
    Lattice lattice;
    SitesAndParts work; // parts: chiralities
    MatrixView<links> u;
    CloverView<Precision::double_> r;
    double cku0;

    MILCGPU_HD M step(const Site &x, int parity, int along) const {
        return convert<double>(link_along(lattice, u, x, parity, along));
    }
    // h = i (G - G^dag) / 8
    MILCGPU_HD M field_strength(const Site &x, int parity, int mu, int nu) const {
        M leaves = {};
        int a = 2 * mu, b = 2 * nu;
        MILCGPU_ROLLED
        for (int k = 0; k < 4; ++k) {
            const M there = step(x, parity, a) * step(walk(lattice, x, a), 1 - parity, b);
            const M back = step(x, parity, b) * step(walk(lattice, x, b), 1 - parity, a);
            multiply_add(leaves, there, adjoint(back));
            const int turned = opposite(a);
            a = b, b = turned;
        }
        M h;
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row)
            MILCGPU_UNROLL
        for (int column = 0; column < 3; ++column) {
            const Complex<double> difference = leaves.e[row][column] - conj(leaves.e[column][row]);
            h.e[row][column] = {-0.125 * difference.im, 0.125 * difference.re};
        }
        return h;
    }
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = lattice.site(item.parity, item.i);
        const double s = item.part == 0 ? -1 : 1;
        M a = {}, b = {};
        MILCGPU_ROLLED
        for (int k = 0; k < planes; ++k) {
            const Plane of = plane(k);
            const M h = field_strength(x, item.parity, of.mu, of.nu);
            const bool diagonal = k == 0 || k == 5; // xy, zt
            if (diagonal)
                multiply_add(a, k == 0 ? 1.0 : s, h);
            else {
                const double re = k == 2 ? 1 : k == 3 ? s : 0, im = k == 1 ? 1 : k == 4 ? -s : 0; // yz, xt; xz, yt
                MILCGPU_UNROLL
                for (int e = 0; e < 9; ++e)
                    b.e[e / 3][e % 3] = plus(b.e[e / 3][e % 3], {re, im}, h.e[e / 3][e % 3]);
            }
        }
        CloverBlock<double> block;
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row) {
            block.diagonal[row] = 1 + cku0 * a.e[row][row].re;
            block.diagonal[3 + row] = 1 - cku0 * a.e[row][row].re;
            MILCGPU_UNROLL
            for (int column = 0; column < 3; ++column) {
                block.below[(3 + row) * (2 + row) / 2 + column] = cku0 * b.e[row][column];
                if (column < row) {
                    block.below[row * (row - 1) / 2 + column] = cku0 * a.e[row][column];
                    block.below[(3 + row) * (2 + row) / 2 + 3 + column] = -cku0 * a.e[row][column];
                }
            }
        }
        r.store(item.parity, item.part, item.own, block);
    }
};

// An element: stored below the diagonal, the conjugate of that above it.
template <class T> MILCGPU_HD Complex<T> element(const CloverBlock<T> &block, int row, int column) {
    return row == column  ? Complex<T>{block.diagonal[row], 0}
           : row > column ? block.below[row * (row - 1) / 2 + column]
                          : conj(block.below[column * (column - 1) / 2 + row]);
}

// Pivots of LDL^dag: the sum of log |pivot|, and whether any is negative.
struct Pivots {
    double trace_log;
    bool negative;
};

// Replaces block by its inverse. A sweep with pivot k takes A to B: B_kk = -1 / A_kk, B_ik = A_ik / A_kk, and B_ij =
// A_ij - A_ik A_kj / A_kk. All six sweeps give -A^-1; the matrix stays hermitian.
MILCGPU_HD Pivots invert(CloverBlock<double> &block) {
    Pivots pivots = {0, false};
    MILCGPU_UNROLL
    for (int k = 0; k < 6; ++k) {
        const double pivot = block.diagonal[k], over = 1 / pivot;
        pivots.trace_log += log(fabs(pivot));
        pivots.negative = pivots.negative || pivot < 0;
        Complex<double> column[6];
        MILCGPU_UNROLL
        for (int i = 0; i < 6; ++i)
            column[i] = element(block, i, k);
        MILCGPU_UNROLL
        for (int i = 0; i < 6; ++i) {
            if (i == k)
                continue;
            const Complex<double> scaled = over * column[i];
            block.diagonal[i] -= scaled.re * column[i].re + scaled.im * column[i].im;
            MILCGPU_UNROLL
            for (int j = 0; j < i; ++j)
                if (j != k) {
                    Complex<double> &e = block.below[i * (i - 1) / 2 + j];
                    e = minus(e, scaled, conj(column[j]));
                }
            if (i > k)
                block.below[i * (i - 1) / 2 + k] = scaled;
            else
                block.below[k * (k - 1) / 2 + i] = conj(scaled);
        }
        block.diagonal[k] = -over;
    }
    MILCGPU_UNROLL
    for (int k = 0; k < 6; ++k)
        block.diagonal[k] = -block.diagonal[k];
    MILCGPU_UNROLL
    for (int k = 0; k < 15; ++k)
        block.below[k] = -1.0 * block.below[k];
    return pivots;
}

// The largest |element| of a b - 1; NaN if any is NaN.
MILCGPU_HD double distance_from_one(const CloverBlock<double> &a, const CloverBlock<double> &b) {
    double largest = 0;
    MILCGPU_UNROLL
    for (int row = 0; row < 6; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < 6; ++column) {
        Complex<double> sum = {row == column ? -1.0 : 0.0, 0};
        MILCGPU_UNROLL
        for (int k = 0; k < 6; ++k)
            sum = plus(sum, element(a, row, k), element(b, k, column));
        const double size = fabs(sum.re) + fabs(sum.im);
        largest = size <= largest ? largest : size;
    }
    return largest;
}

MILCGPU_HD bool is_finite(const CloverBlock<double> &block) {
    double zero = 0; // NaN for NaN and for infinity
    MILCGPU_UNROLL
    for (int k = 0; k < 6; ++k)
        zero += block.diagonal[k] * 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 15; ++k)
        zero += block.below[k].re * 0 + block.below[k].im * 0;
    return zero == 0;
}

constexpr double accepted_distance = 1e-8;

// Sums: log |pivots|, and numbers of blocks: not finite, without inverse, indefinite.
struct InvertClover {
    CloverView<Precision::double_> r, inverse;
    int parity, sites;
    MILCGPU_HD Sums<4> operator()(int thread) const {
        const int chirality = thread >= sites, i = thread - chirality * sites;
        const CloverBlock<double> given = r.load<Reuse::written>(parity, chirality, i);
        CloverBlock<double> block = given;
        const Pivots pivots = invert(block);
        const bool finite = is_finite(given), good = distance_from_one(given, block) < accepted_distance;
        if (!good)
            MILCGPU_UNROLL
        for (int k = 0; k < 6; ++k)
            block.diagonal[k] = NAN;
        inverse.store(parity, chirality, i, block);
        return {{good ? pivots.trace_log : 0.0, finite ? 0.0 : 1.0, good || !finite ? 0.0 : 1.0,
                 good && pivots.negative ? 1.0 : 0.0}};
    }
};

template <Precision p> struct ConvertClover {
    CloverView<Precision::double_> from;
    CloverView<p> to;
    int sites[2];
    MILCGPU_HD void operator()(int thread) const {
        const int even = 2 * sites[0], parity = thread >= even, of_parity = thread - parity * even,
                  of_chirality = parity == 0 ? sites[0] : sites[1], chirality = of_parity >= of_chirality,
                  i = of_parity - chirality * of_chirality;
        to.store(parity, chirality, i, from.load(parity, chirality, i));
    }
};

template <class S> struct MultiplyClover {
    CloverView<S::precision> r;
    SpinorView<S> in, out;
    size_t component; // elements from one component to the next
    int parity;
    MILCGPU_HD Sums<1> operator()(int i) const {
        for (int chirality = 0; chirality < 2; ++chirality) {
            const int first = static_cast<int>(2 * chirality * component) + i;
            const int second = first + static_cast<int>(component);
            Vector<typename S::Real> x = in.load(first), y = in.load(second);
            multiply(r.load(parity, chirality, i), x, y);
            out.store(first, x);
            out.store(second, y);
        }
        return {};
    }
};

} // namespace

void make_clover(Device &device, const WideBox &box, const LinkField &u, double cku0, const CloverField &r) {
    if (u.reals() != 18 || u.precision() == Precision::half)
        throw Error(Status::bad_argument,
                    format("clover term: needs links of 18 reals in double or single; these have %d reals in %s",
                           u.reals(), name(u.precision())));
    if (r.precision() != Precision::double_)
        throw Error(Status::bad_argument,
                    format("clover term: is computed in double; this field is in %s", name(r.precision())));
    if (!(std::fabs(cku0) < INFINITY))
        throw Error(Status::bad_argument,
                    format("clover term: cku0 = kappa c_sw / u0^3 is %g; it must be finite", cku0));
    const SitesAndParts work = box.work(2);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision links = decltype(p)::value;
        const MakeClover<links> body{box.wide().lattice(), work, MatrixView<links>(u),
                                     CloverView<Precision::double_>(r), cku0};
        launch(device, work.threads(), body, "make a clover term");
    });
}

CloverInverse invert_clover(Device &device, const CloverField &r, int parity, const CloverField &inverse) {
    if (r.precision() != Precision::double_ || inverse.precision() != Precision::double_)
        throw Error(Status::bad_argument,
                    format("inverse of a clover term: is computed in double; these fields are in %s and %s",
                           name(r.precision()), name(inverse.precision())));
    using View = CloverView<Precision::double_>;
    const int sites = r.sites(parity);
    const Sums<4> sums =
        sum_to_host<4>(device, 2 * sites, InvertClover{View(r), View(inverse), parity, sites}, "invert a clover term");
    const char *const where = parity == 0 ? "even" : "odd";
    if (sums.v[1] > 0)
        throw Error(Status::nan_or_inf,
                    format("clover term: %.0f of %d blocks on %s sites hold NaN or infinity. Check the gauge field",
                           sums.v[1], 2 * sites, where));
    if (sums.v[2] > 0)
        throw Error(Status::bad_argument,
                    format("clover term: %.0f of %d blocks on %s sites have no inverse. The clover coefficient is too "
                           "large for this gauge field",
                           sums.v[2], 2 * sites, where));
    return {sums.v[0], static_cast<long long>(sums.v[3])};
}

void convert_clover(Device &device, const CloverField &from, const CloverField &to) {
    if (from.precision() != Precision::double_)
        throw Error(Status::bad_argument,
                    format("clover term: is converted from double; this field is in %s", name(from.precision())));
    for_precision(to.precision(), [&](auto format) {
        constexpr Precision p = decltype(format)::precision;
        const ConvertClover<p> body{
            CloverView<Precision::double_>(from), CloverView<p>(to), {from.sites(0), from.sites(1)}};
        launch(device, 2 * (from.sites(0) + from.sites(1)), body, "convert a clover term");
    });
}

void multiply_clover(Device &device, const CloverField &r, int parity, const SpinorBlock &in, const SpinorBlock &out,
                     const int *gate) {
    if (in.precision != r.precision() || out.precision != r.precision() || in.components != 4 || out.components != 4)
        throw Error(Status::bad_argument, format("clover term in %s: needs fields of 4 components in this precision; "
                                                 "these are in %s with %d and in %s with %d",
                                                 name(r.precision()), name(in.precision), in.components,
                                                 name(out.precision), out.components));
    for_precision(r.precision(), [&](auto format) {
        using S = decltype(format);
        const MultiplyClover<S> body{CloverView<S::precision>(r), SpinorView<S>(in), SpinorView<S>(out), r.stride(),
                                     parity};
        launch_sum<1>(device, r.sites(parity), body, StoreSum{nullptr}, {"multiply by a clover term", gate});
    });
}

} // namespace milcgpu
