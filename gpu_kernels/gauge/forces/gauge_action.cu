// The gauge action of forces.h. One thread a site and plane; it also has some of the bent loops, distributed as evenly
// as possible: 18 or 26 products a thread. (If bent loops went to the planes in which they begin, a thread would have
// 10 to 42, and a block holds its place until its slowest warp is done.) With W the product of the links along steps
// from x, every loop is W(a, .., c) W(c, .., a)^dag: plaquettes W(a, b), rectangles W(a, a, b) and W(a, b, b), bent
// loops W(a, +-b, +-c). 2 products a plaquette, 4 for another loop: 124 a site. Matrices a site, at the least: 4 read;
// 192 loaded.
#include "gpu_kernels/gauge/forces/steps.h"

namespace milcgpu {

namespace {

template <Precision p> struct GaugeAction {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u;
    double plaquette, rectangle, bent;
    bool phased;

    struct Steps {
        int first, middle, last; // middle < 0: no middle step
    };
    // The bent loops along three directions are two pairs: one forward along the last direction, and one backward.
    MILCGPU_HD Steps bent_loop(int pair, int of_pair) const {
        const int directions = pair / 2; // xyz, xyt, xzt, yzt
        const int a = directions == 3 ? 2 : 0, b = directions < 2 ? 2 : 4, c = (directions == 0 ? 4 : 6) + pair % 2;
        return {a, of_pair == 0 ? b : opposite(b), c};
    }
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
        const int a = 2 * plane(item.part).mu, b = 2 * plane(item.part).nu;
        const int pairs = item.part < 2 ? 2 : 1; // of the 8 pairs: this one, and the one 6 further on
        const Site x = lattice.site(item.parity, item.i);
        double sum = 0;
        for (int loop = 0; loop < 3 + 2 * pairs; ++loop) {
            const double coefficient = loop == 0 ? plaquette : loop < 3 ? rectangle : bent;
            if (coefficient == 0)
                continue;
            const Steps there = loop == 0  ? Steps{a, -1, b}
                                : loop < 3 ? Steps{a, loop == 1 ? a : b, b}
                                           : bent_loop(item.part + (loop < 5 ? 0 : planes), (loop - 3) % 2);
            const Steps back = {there.last, there.middle, there.first};
            const double trace = real_trace_adjoint(product(x, item.parity, there), product(x, item.parity, back));
            // The phases change its sign if it encloses one or three plaquettes
            const bool turned = phased && (loop == 0 || loop > 2);
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

double gauge_action(Device &device, const WideBox &box, const LinkField &u, const LoopCoefficients &c) {
    const SitesAndParts work = box.work(planes);
    double action = 0;
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const GaugeAction<precision> body{box.wide().lattice(), work,   MatrixView<precision>(u),   c.plaquette,
                                          c.rectangle,          c.bent, c.signs == Signs::phases_in};
        action = sum_to_host<1>(device, work.threads(), body, "gauge action").v[0];
    });
    return action;
}

} // namespace milcgpu
