// Means of the plaquettes and of the Polyakov loop. One thread a site; one a site of space. Matrices a site at the
// least: reads 4; 1.
#include "gpu_kernels/forces/steps.h"

namespace milcgpu {

namespace {

template <Precision p> struct Plaquettes {
    Lattice lattice;
    int even_sites;
    MatrixView<p> u;
    MILCGPU_HD Sums<2> operator()(int thread) const {
        const int parity = thread >= even_sites, i = parity ? thread - even_sites : thread;
        const Site x = lattice.site(parity, i);
        Sums<2> sums = {};
        for (int nu = 1; nu < 4; ++nu)
            for (int mu = 0; mu < nu; ++mu) {
                const auto right = u.load(parity, mu, i) * u.load(1 - parity, nu, lattice.hop(x, mu, 1).index());
                const auto left = u.load(parity, nu, i) * u.load(1 - parity, mu, lattice.hop(x, nu, 1).index());
                const double trace = real_trace_adjoint(right, left);
                if (nu < 3)
                    sums.v[0] += trace;
                else
                    sums.v[1] += trace;
            }
        return sums;
    }
};

// The even sites of the first two time slices are the first of their parity, as many as a slice has sites.
template <Precision p> struct PolyakovLoop {
    Lattice lattice;
    MatrixView<p> u;
    MILCGPU_HD Sums<2> operator()(int i) const {
        Site x = lattice.site(0, i);
        auto product = u.load(0, 3, i);
        for (int t = 1; t < lattice.extent[3]; ++t) {
            x = lattice.hop(x, 3, 1);
            product = product * u.load(t & 1, 3, x.index());
        }
        Sums<2> trace = {};
        MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k) {
            trace.v[0] += product.e[k][k].re;
            trace.v[1] += product.e[k][k].im;
        }
        return trace;
    }
};

} // namespace

double plaquettes_bytes(Precision p) { return 4 * link_bytes(p, 18); }
double polyakov_loop_bytes(Precision p) { return link_bytes(p, 18); }

PlaquetteMeans plaquettes(Device &device, const Geometry &geometry, const LinkField &u) {
    Sums<2> sums = {};
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const Plaquettes<precision> body{geometry.lattice(), geometry.sites(0), MatrixView<precision>(u)};
        sums = sum_to_host<2>(device, geometry.volume(), body, "plaquettes");
    });
    const double planes = 3 * geometry.global_volume();
    return {sums.v[0] / planes, sums.v[1] / planes};
}

Complex<double> polyakov_loop(Device &device, const Geometry &geometry, const LinkField &u) {
    const int space = geometry.volume() / geometry.lattice().extent[3];
    Sums<2> sums = {};
    for_link_precision(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const PolyakovLoop<precision> body{geometry.lattice(), MatrixView<precision>(u)};
        sums = sum_to_host<2>(device, space, body, "Polyakov loop");
    });
    return {sums.v[0] / space, sums.v[1] / space};
}

} // namespace milcgpu
