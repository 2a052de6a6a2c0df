// U <- exp(eps H) U, as a series. One thread a link. Matrices a link: U read and written, 10 reals of momentum read.
//
// The series is a polynomial in the Hermitian A = -i H. A satisfies its characteristic equation, A^3 = t A^2 - s A + d
// (Cayley and Hamilton), so every such polynomial is f_0 + f_1 A + f_2 A^2: the series is summed in these three
// numbers, and two products of matrices remain at any order. (Morningstar, Peardon, hep-lat/0311018, do so for the
// whole series.)
#include "gpu_kernels/forces/momentum_view.h"

namespace milcgpu {

namespace {

constexpr int highest_order = 16;

template <Precision p> struct UpdateLinks {
    using Real = typename LinkReal<p>::Real;
    using C = Complex<Real>;
    SitesAndParts work;
    MatrixView<p> u;
    MomentumView<p> momenta;
    Real eps_over[highest_order + 1]; // eps / k
    int order;

    struct Hermitian {
        Real diagonal[3];
        C m01, m02, m12;
    };
    static MILCGPU_HD C minus_i(C z) { return {z.im, -z.re}; }
    static MILCGPU_HD C i_times(Real s, C z) { return {-s * z.im, s * z.re}; }

    // sum over k from 1 up to the order of (i eps)^k / k! A^k: without the 1, so that rounding is relative to eps A.
    MILCGPU_HD Matrix<Real> series(const Hermitian &a) const {
        const Real n01 = norm(a.m01), n02 = norm(a.m02), n12 = norm(a.m12);
        const Real *const x = a.diagonal;
        const Hermitian square = {{x[0] * x[0] + n01 + n02, x[1] * x[1] + n01 + n12, x[2] * x[2] + n02 + n12},
                                  (x[0] + x[1]) * a.m01 + a.m02 * conj(a.m12),
                                  (x[0] + x[2]) * a.m02 + a.m01 * a.m12,
                                  (x[1] + x[2]) * a.m12 + conj(a.m01) * a.m02};
        const Real t = x[0] + x[1] + x[2], s = x[0] * x[1] + x[0] * x[2] + x[1] * x[2] - n01 - n02 - n12,
                   d = x[0] * (x[1] * x[2] - n12) - x[1] * n02 - x[2] * n01 + 2 * (a.m01 * a.m12 * conj(a.m02)).re;
        C f0 = {1, 0}, f1 = {0, 0}, f2 = {0, 0};
        for (int k = order; k > 0; --k) { // f = 1 + i eps / k A f
            const C g0 = d * f2, g1 = f0 - s * f2, g2 = f1 + t * f2;
            f0 = C{k > 1 ? Real(1) : Real(0), 0} + i_times(eps_over[k], g0), f1 = i_times(eps_over[k], g1),
            f2 = i_times(eps_over[k], g2);
        }
        const auto on = [&](int k) { return f0 + x[k] * f1 + square.diagonal[k] * f2; };
        const auto off = [&](C one, C two) { return f1 * one + f2 * two; };
        return {{{on(0), off(a.m01, square.m01), off(a.m02, square.m02)},
                 {off(conj(a.m01), conj(square.m01)), on(1), off(a.m12, square.m12)},
                 {off(conj(a.m02), conj(square.m02)), off(conj(a.m12), conj(square.m12)), on(2)}}};
    }

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Matrix<Real> before = u.template load<Reuse::written>(item.parity, item.part, item.i);
        const AntiHermitian<Real> h = momenta.load(item.parity, item.part, item.i);
        const Hermitian a = {
            {h.diagonal[0], h.diagonal[1], h.diagonal[2]}, minus_i(h.m01), minus_i(h.m02), minus_i(h.m12)};
        Matrix<Real> after = series(a) * before; // one rounding of what is as large as U
        multiply_add(after, Real(1), before);
        u.store(item.parity, item.part, item.i, after);
    }
};

} // namespace

double update_links_bytes(Precision p) { return 4 * (2 * link_bytes(p, 18) + link_bytes(p, momentum_reals)); }

void update_links(Device &device, const Geometry &geometry, const LinkField &u, const LinkField &momenta, double eps,
                  int order) {
    const bool fits = u.precision() == momenta.precision() && u.reals() == 18 && momenta.reals() == momentum_reals &&
                      order >= 1 && order <= highest_order;
    if (!fits)
        throw Error(Status::bad_argument,
                    format("update of the links: links of 18 reals and momenta of 10, both double or both single, and "
                           "an order from 1 to %d are needed; the order is %d",
                           highest_order, order));
    const SitesAndParts work(geometry, 4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using Real = typename LinkReal<precision>::Real;
        UpdateLinks<precision> body{work, MatrixView<precision>(u), MomentumView<precision>(momenta), {}, order};
        for (int k = 1; k <= order; ++k)
            body.eps_over[k] = static_cast<Real>(eps) / static_cast<Real>(k);
        launch(device, work.threads(), body, "update links");
    });
}

} // namespace milcgpu
