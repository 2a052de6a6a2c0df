// The gauge action of forces.h. One thread a site. With W_abc(x) the product of the links along the steps a, b, c from
// x, rectangles (a a b and a b b) and bent loops (a b c, b and c forward or back) are both W_abc W_cba^dag. 2 products
// a plaquette, 4 for another loop: 124 a site. Matrices a site at the least: reads 4; loads 248.
#include "gpu_kernels/forces/steps.h"

namespace milcgpu {

namespace {

template <Precision p> struct GaugeAction {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    int even_sites;
    MatrixView<p> u;
    double plaquette, rectangle, bent; // with the signs of the phases
    double constant;                   // 3 times the coefficients of a site

    MILCGPU_HD Matrix<Real> product(const Site &x, int parity, int a, int b) const {
        return link_along(lattice, u, x, parity, a) * link_along(lattice, u, walk(lattice, x, a), 1 - parity, b);
    }
    MILCGPU_HD Matrix<Real> product(const Site &x, int parity, int a, int b, int c) const {
        const Site last = walk(lattice, walk(lattice, x, a), b);
        return product(x, parity, a, b) * link_along(lattice, u, last, parity, c);
    }
    MILCGPU_HD double hexagon(const Site &x, int parity, int a, int b, int c) const {
        return real_trace_adjoint(product(x, parity, a, b, c), product(x, parity, c, b, a));
    }
    MILCGPU_HD Sums<1> operator()(int thread) const {
        const int parity = thread >= even_sites;
        const Site x = lattice.site(parity, parity ? thread - even_sites : thread);
        double squares = 0, rectangles = 0, hexagons = 0;
        for (int mu = 0; mu < 4; ++mu)
            for (int nu = mu + 1; nu < 4; ++nu) {
                squares += real_trace_adjoint(product(x, parity, mu, nu), product(x, parity, nu, mu));
                if (rectangle != 0)
                    for (const int middle : {mu, nu})
                        rectangles += hexagon(x, parity, mu, middle, nu);
                if (bent != 0)
                    for (int rho = nu + 1; rho < 4; ++rho)
                        for (int signs = 0; signs < 4; ++signs)
                            hexagons +=
                                hexagon(x, parity, mu, signs & 1 ? opposite(nu) : nu, signs & 2 ? opposite(rho) : rho);
            }
        return {{constant - plaquette * squares - rectangle * rectangles - bent * hexagons}};
    }
};

} // namespace

double gauge_action_bytes(Precision p) { return 4 * link_bytes(p, 18); }

double gauge_action_flops(const LoopCoefficients &c) {
    constexpr double product = 198, trace = 36;
    return 6 * (2 * product + trace) + ((c.rectangle != 0 ? 12 : 0) + (c.bent != 0 ? 16 : 0)) * (4 * product + trace);
}

double gauge_action(Device &device, const Geometry &geometry, const LinkField &u, const LoopCoefficients &c) {
    double action = 0;
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const GaugeAction<precision> body{geometry.lattice(),
                                          geometry.sites(0),
                                          MatrixView<precision>(u),
                                          -c.plaquette,
                                          c.rectangle,
                                          -c.bent,
                                          3 * (6 * c.plaquette + 12 * c.rectangle + 16 * c.bent)};
        action = sum_to_host<1>(device, geometry.volume(), body, "gauge action").v[0];
    });
    return action;
}

} // namespace milcgpu
