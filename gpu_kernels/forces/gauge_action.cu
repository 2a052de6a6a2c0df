// The gauge action of forces.h. One thread a site and plane a b, which also has the bent loops from this plane into the
// directions after it. With W the product of the links along steps from x, every loop is W(a, .., c) W(c, .., a)^dag:
// plaquettes W(a, b), rectangles W(a, a, b) and W(a, b, b), bent loops W(a, +-b, +-c). 2 products a plaquette, 4 for
// another loop: 124 a site. Matrices a site at the least: reads 4; loads 192.
#include "gpu_kernels/forces/steps.h"

namespace milcgpu {

namespace {

template <Precision p> struct GaugeAction {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u;
    double plaquette, rectangle, bent;

    struct Steps {
        int first, middle, last; // middle < 0: there is none
    };
    MILCGPU_HD Matrix<Real> product(Site x, int parity, const Steps &s) const {
        Matrix<Real> m = link_along(lattice, u, x, parity, s.first);
        x = walk(lattice, x, s.first), parity = 1 - parity;
        if (s.middle >= 0) {
            m = m * link_along(lattice, u, x, parity, s.middle);
            x = walk(lattice, x, s.middle), parity = 1 - parity;
        }
        return m * link_along(lattice, u, x, parity, s.last);
    }
    MILCGPU_HD Sums<1> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return {{0}};
        const int nu = plane(item.part).nu, a = 2 * plane(item.part).mu, b = 2 * nu;
        const Site x = lattice.site(item.parity, item.i);
        double sum = 0;
        for (int loop = 0; loop < 3 + 4 * (3 - nu); ++loop) {
            const int third = loop - 3,
                      c = b + 2 + third / 2; // third: through c forward and back, each with b forward and back
            const double coefficient = loop == 0 ? plaquette : loop < 3 ? rectangle : bent;
            if (coefficient == 0)
                continue;
            const Steps there = loop == 0  ? Steps{a, -1, b}
                                : loop < 3 ? Steps{a, loop == 1 ? a : b, b}
                                           : Steps{a, third & 1 ? opposite(b) : b, c};
            const Steps back = {there.last, there.middle, there.first};
            const double trace = real_trace_adjoint(product(x, item.parity, there), product(x, item.parity, back));
            const bool turned = loop == 0 || loop > 2; // by the phases: around one or three plaquettes
            sum += coefficient * (3 - (turned ? -trace : trace));
        }
        return {{sum}};
    }
};

} // namespace

double gauge_action_bytes(Precision p) { return 4 * link_bytes(p, 18); }

double gauge_action_flops(const LoopCoefficients &c) {
    constexpr double product = 198, trace = 36;
    return 6 * (2 * product + trace) + ((c.rectangle != 0 ? 12 : 0) + (c.bent != 0 ? 16 : 0)) * (4 * product + trace);
}

double gauge_action(Device &device, const Geometry &geometry, const LinkField &u, const LoopCoefficients &c) {
    const SitesAndParts work(geometry, planes);
    double action = 0;
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const GaugeAction<precision> body{geometry.lattice(), work,        MatrixView<precision>(u),
                                          c.plaquette,        c.rectangle, c.bent};
        action = sum_to_host<1>(device, work.threads(), body, "gauge action").v[0];
    });
    return action;
}

} // namespace milcgpu
