// The observables of flow.h in one pass. One thread a site and pair of planes: xy with zt, xz with yt, yz with xt, so
// that it has both field strengths for its part of the charge. Matrices a site, at the least: 4 read; 96 loaded.
//
// A leaf of the clover is a plaquette that starts at x. Two adjacent leaves, joined without the link that they share,
// are a rectangle around x. So the two rectangles of a plane cost two products and two traces, and links need not be
// unitary: a truncated series of exp leaves them 1e-10 away from it.
#include "gpu_kernels/gauge/flow/flow.h"
#include "gpu_kernels/gauge/forces/momentum_view.h"
#include "gpu_kernels/gauge/forces/steps.h"

namespace milcgpu {

namespace {

constexpr int sums = 7; // in the order of FlowObservables

// Re tr(a^dag b)
template <class T> MILCGPU_HD double inner(const AntiHermitian<T> &a, const AntiHermitian<T> &b) {
    const auto both = [](Complex<T> x, Complex<T> y) { return x.re * y.re + x.im * y.im; };
    T diagonal = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        diagonal += a.diagonal[k] * b.diagonal[k];
    return 2 * (both(a.m01, b.m01) + both(a.m02, b.m02) + both(a.m12, b.m12)) + diagonal;
}

template <Precision p> struct MeasureFlow {
    using Real = typename LinkReal<p>::Real;
    using M = Matrix<Real>;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u;
    int plaquette_sign;

    // The product from x + a along b, then back along a to x + b.
    MILCGPU_HD M around_corner(const Site &x, int parity, int a, int b) const {
        return link_along(lattice, u, walk(lattice, x, a), 1 - parity, b) *
               adjoint(link_along(lattice, u, walk(lattice, x, b), 1 - parity, a));
    }
    struct OfPlane {
        AntiHermitian<Real> f; // 4 F
        double plaquette, rectangle;
    };
    MILCGPU_HD OfPlane of_plane(const Site &x, int parity, int mu, int nu) const {
        int a = 2 * mu, b = 2 * nu;
        OfPlane of = {};
        M last = {}; // leaf without the last link back to x
        MILCGPU_ROLLED
        for (int k = 0; k < 4; ++k) {
            const M corner = around_corner(x, parity, a, b), back = adjoint(link_along(lattice, u, x, parity, b));
            if (k == 1 || k == 2)
                of.rectangle += real_trace_adjoint(last, adjoint(corner * back));
            last = link_along(lattice, u, x, parity, a) * corner;
            const M leaf = last * back;
            multiply_add(of.f, Real(1), traceless_antihermitian(leaf));
            if (k == 0)
                of.plaquette = leaf.e[0][0].re + double(leaf.e[1][1].re) + leaf.e[2][2].re;
            const int turned = opposite(a);
            a = b, b = turned;
        }
        return of;
    }
    MILCGPU_HD Sums<sums> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {};
        const int pair = item.part;
        const Site x = lattice.site(item.parity, item.i);
        const OfPlane space = of_plane(x, item.parity, pair == 2 ? 1 : 0, pair == 0 ? 1 : 2),
                      time = of_plane(x, item.parity, 2 - pair, 3);
        const double charge = inner(space.f, time.f);
        return {{inner(time.f, time.f), inner(space.f, space.f), plaquette_sign * time.plaquette,
                 plaquette_sign * space.plaquette, time.rectangle, space.rectangle, pair == 1 ? -charge : charge}};
    }
};

} // namespace

double flow_observables_bytes(Precision p) { return 4 * link_bytes(p, 18); }

FlowObservables flow_observables(Device &device, const WideBox &box, const LinkField &u, Signs signs) {
    const SitesAndParts work = box.work(3);
    Sums<sums> s = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const MeasureFlow<precision> body{box.wide().lattice(), work, MatrixView<precision>(u),
                                          signs == Signs::phases_in ? -1 : 1};
        s = sum_to_host<sums>(device, work.threads(), body, "observables of a flow");
    });
    const double sites = box.box().global_volume(), of_4f = 1.0 / 16, pi = 3.14159265358979323846;
    return {s.v[0] * of_4f / sites, s.v[1] * of_4f / sites, s.v[2] / (3 * sites),          s.v[3] / (3 * sites),
            s.v[4] / (6 * sites),   s.v[5] / (6 * sites),   s.v[6] * of_4f / (4 * pi * pi)};
}

} // namespace milcgpu
