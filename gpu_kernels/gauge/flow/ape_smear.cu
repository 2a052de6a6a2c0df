// APE smearing with projection by hits (gauge_fix.h). One thread a link. Matrices a link, at the least: one read and
// one written.
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/gauge/flow/su2.h"
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/gauge/links/gram_schmidt.h"
#include "gpu_kernels/gauge/links/staple_products.h"

namespace milcgpu {

namespace {

template <Precision p, bool phased> struct ApeSmear {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    Lattice lattice;
    MatrixView<p> u, to;
    Phases phases;
    bool staples_in_time;
    double weight, tolerance;
    int most_hits;
    uint64_t *failed;

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part;
        const Site x = lattice.site(item.parity, item.i);
        Matrix<Real> sum = {};
        int count = 0;
        MILCGPU_ROLLED // when unrolled, all loads come first, and registers spill
            for (int k = 0; k < 3; ++k) {
            const int nu = k + (k >= mu), opposite = 1 - item.parity;
            if (mu < 3 && nu == 3 && !staples_in_time)
                continue;
            const int ahead = lattice.forward(x, mu, 1), up = lattice.forward(x, nu, 1);
            add_staple_up(sum, Elements(u, item.parity, nu, item.i), Elements(u, opposite, mu, up),
                          Elements(u, opposite, nu, ahead));
            const Site down = lattice.hop(x, nu, -1);
            add_staple_down(sum, Elements(u, opposite, nu, down.index()), Elements(u, opposite, mu, down.index()),
                            Elements(u, item.parity, nu, lattice.forward(down, mu, 1)));
            count += 2;
        }
        const bool negative = phased && phases.sign(x, mu) < 0;
        const double norm = (negative ? -1 : 1) / (1 + weight * count);
        Matrix<double> v = times(norm, convert<double>(u.load(item.parity, mu, item.i)));
        multiply_add(v, (phased ? -weight : weight) * norm, convert<double>(sum));
        Matrix<double> w = v;
        if (most_hits > 0)
            gram_schmidt(w);
        if (most_hits > 0 && !project_by_hits<true>(v, w, most_hits, tolerance))
            atomic_add(failed, 1);
        to.store(item.parity, mu, item.own, convert<Real>(times(negative ? -1 : 1, w)));
    }
};

} // namespace

double ape_smear_bytes(Precision p) { return 8 * link_bytes(p, 18); }
double ape_smear_flops(const ApeSpec &spec) {
    const double staples = (spec.staples_in_time ? 18 : 12) + 6;
    return staples * 414 + 4 * (190 + 198 + spec.most_hits * (84 + 56 + 20.0));
}

void ape_smear(Device &device, const WideBox &box, const LinkField &u, const ApeSpec &spec, const LinkField &to,
               uint64_t *failed) {
    const SitesAndParts work = box.work(4);
    const Lattice lattice = box.wide().lattice();
    const Phases phases(box.box(), box.wide());
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        const MatrixView<precision> from(u), into(to);
        const auto run = [&](const auto &body) {
            launch_bounded<128, 4>(device, work.threads(), body, "APE smearing");
        };
        // Two kernels: with phases, registers spill.
        if (spec.signs == Signs::phases_in)
            run(ApeSmear<precision, true>{work, lattice, from, into, phases, spec.staples_in_time, spec.weight,
                                          spec.tolerance, spec.most_hits, failed});
        else
            run(ApeSmear<precision, false>{work, lattice, from, into, phases, spec.staples_in_time, spec.weight,
                                           spec.tolerance, spec.most_hits, failed});
    });
}

} // namespace milcgpu
