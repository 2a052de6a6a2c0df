// The observables of flow.h in one pass. One thread a site and pair of planes: xy with zt, xz with yt, yz with xt, so
// that it has both field strengths of its part of the charge. Matrices a site at the least: reads 4; loads 96.
//
// A leaf of the clover is a plaquette, begun at x. Two leaves side by side, one after the other, are a rectangle around
// x: what they share drops out of unitary links. So rectangles cost two traces a plane.
#include "gpu_kernels/forces/momentum_view.h"
#include "gpu_kernels/forces/steps.h"
#include "gpu_kernels/gauge/flow.h"

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

    MILCGPU_HD M two_links(const Site &x, int parity, int a, int b) const {
        return link_along(lattice, u, x, parity, a) * link_along(lattice, u, walk(lattice, x, a), 1 - parity, b);
    }
    // From x along a, b, -a, -b.
    MILCGPU_HD M leaf(const Site &x, int parity, int a, int b) const {
        return two_links(x, parity, a, b) * adjoint(two_links(x, parity, b, a));
    }
    struct OfPlane {
        AntiHermitian<Real> f; // 4 F
        double plaquette, rectangle;
    };
    MILCGPU_HD OfPlane of_plane(const Site &x, int parity, int mu, int nu) const {
        int a = 2 * mu, b = 2 * nu;
        M last = leaf(x, parity, a, b);
        OfPlane of = {traceless_antihermitian(last), 0, 0};
        MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            of.plaquette += last.e[k][k].re;
        MILCGPU_ROLLED
        for (int k = 1; k < 4; ++k) {
            const int turned = opposite(a);
            a = b, b = turned;
            const M next = leaf(x, parity, a, b);
            multiply_add(of.f, Real(1), traceless_antihermitian(next));
            if (k < 3)
                of.rectangle += real_trace_adjoint(last, adjoint(next));
            last = next;
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
