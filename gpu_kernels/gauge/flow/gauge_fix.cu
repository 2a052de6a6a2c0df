// A step of relaxation towards Coulomb or Landau gauge (gauge_fix.h). One thread a site of the parity. Matrices a site
// and step, for both parities: those of the condition read twice, eight read and written.
//
// A transformation g changes U_mu(x) to g U_mu(x) and U_mu(x-mu)^dag to g U_mu(x-mu)^dag. So their sum K becomes g K,
// and all three hits and the final value follow from K alone.
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/gauge/flow/su2.h"
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/gauge/links/gram_schmidt.h"

namespace milcgpu {

namespace {

template <Precision p> struct RelaxGauge {
    using Real = typename LinkReal<p>::Real;
    Lattice lattice;
    SitesAndParts work;
    InnerBox box;
    bool cut;
    Phases phases;
    bool phased;
    MatrixView<p> u;
    unsigned directions;
    double boost;
    int parity;

    // The best hit on rows a and b for k, overrelaxed. If all elements are zero: no change.
    MILCGPU_HD Su2 hit(const Matrix<double> &k, int a, int b) const {
        Su2 h = best_su2(k, a, b);
        const double vector2 = h.x * h.x + h.y * h.y + h.z * h.z, scalar2 = h.w * h.w;
        if (!(vector2 + scalar2 > 0))
            return {1, 0, 0, 0};
        const double scale = (boost * scalar2 + vector2) / (scalar2 + vector2);
        const double size = 1 / sqrt(scalar2 + scale * scale * vector2);
        return {size * h.w, size * scale * h.x, size * scale * h.y, size * scale * h.z};
    }
    MILCGPU_HD Matrix<double> link(int of_parity, int mu, const Site &x) const {
        const double sign = phased ? phases.sign(x, mu) : 1;
        return times(sign, convert<double>(u.template load<Reuse::written>(of_parity, mu, x.index())));
    }
    MILCGPU_HD Sums<1> operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid || item.parity != parity)
            return {{0}};
        const Site x = lattice.site(parity, item.i);
        Matrix<double> k = {}, g = {};
        for (int mu = 0; mu < 4; ++mu)
            if ((directions >> mu & 1) != 0) {
                multiply_add(k, 1.0, link(parity, mu, x));
                multiply_add(k, 1.0, adjoint(link(1 - parity, mu, lattice.hop(x, mu, -1))));
            }
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            g.e[c][c] = {1, 0};
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c) {
            const Su2 h = hit(k, c, (c + 1) % 3);
            multiply_rows(h, c, (c + 1) % 3, k);
            multiply_rows(h, c, (c + 1) % 3, g);
        }
        const Matrix<Real> left = convert<Real>(g), right = adjoint(left);
        // One link after the other, because few registers are left.
        uint64_t weighs_more = 0;
        const MatrixView<p, 18, GatheredSum> links(u, {u.sum, &weighs_more});
        MILCGPU_ROLLED
        for (int step = 0; step < 8; ++step) {
            const int mu = step / 2;
            const bool behind = step % 2 != 0;
            links.modify(behind ? 1 - parity : parity, mu, behind ? lattice.hop(x, mu, -1).index() : item.i,
                         [&](auto &link) { link = behind ? link * right : left * link; });
        }
        u.sum.add(item.i, weighs_more);
        return {{!cut || box.has(x) ? k.e[0][0].re + k.e[1][1].re + k.e[2][2].re : 0}};
    }
};

} // namespace

double relax_gauge_bytes(Precision p, const GaugeCondition &c) { return (16 + 2 * c.count()) * link_bytes(p, 18); }
double relax_gauge_flops(const GaugeCondition &c) { return 36 * c.count() + 3 * (2 * 84 + 30) + 8 * 198; }

double relax_gauge(Device &device, const WideBox &box, const LinkField &u, const GaugeCondition &condition,
                   int parity) {
    const SitesAndParts work = box.work(1, 1);
    Sums<1> sums = {};
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const RelaxGauge<precision> body{box.wide().lattice(),
                                         work,
                                         box.inner(),
                                         box.margin() > 0,
                                         Phases(box.box(), box.wide()),
                                         condition.signs == Signs::phases_in,
                                         MatrixView<precision>(u),
                                         condition.directions,
                                         condition.boost,
                                         parity};
        sums = sum_to_host<1>(device, work.threads(), body, "relax gauge");
    });
    return sums.v[0];
}

} // namespace milcgpu
