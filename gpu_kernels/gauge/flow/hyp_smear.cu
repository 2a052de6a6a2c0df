// HYP smearing (gauge_fix.h), one level a launch, one thread a link. V_nu of direction mu is decorated in nu alone,
// W_rho in all directions but rho. Matrices a link, at the least: 1 read and 1 written; loads 6, 12 and 18 in its
// staples.
//
// Fields of the lower levels have four links a site for each number k: slot mu has V_nu or W_rho with nu or rho the
// k-th direction other than mu.
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/gauge/flow/su2.h"
#include "gpu_kernels/gauge/forces/steps.h"
#include "gpu_kernels/gauge/links/gram_schmidt.h"
#include "gpu_kernels/gauge/links/staples.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

namespace {

MILCGPU_HD int number_of(int other, int mu) { return other - (other > mu); }

template <Precision p> struct HypLevel {
    using Real = typename LinkReal<p>::Real;
    SitesAndParts work;
    Lattice lattice;
    MatrixView<p> u, lower[3], to; // lower: fields of the lower level
    Phases phases;
    bool phased;
    int level, k; // k: of `to`; level 2: -1: W_t, with a copy of the links of t
    bool in_space;
    double alpha;
    int hits;

    // Sum of the 2, 4 or 6 staples of the link mu at x. other: nu of V_nu, rho of W_rho.
    MILCGPU_HD Matrix<Real> staples_of(const Site &x, int parity, int mu, int other) const {
        Matrix<Real> sum = {};
        MILCGPU_ROLLED
        for (int nu = 0; nu < 4; ++nu) {
            if (nu == mu || (level == 1 && nu != other) || (level == 2 && nu == other))
                continue;
            const int last = 6 - mu - nu - other; // level 2: the remaining direction
            const int beside = level == 1 ? 0 : number_of(level == 2 ? last : mu, nu),
                      ahead = level == 1 ? 0 : number_of(level == 2 ? last : nu, mu);
            const Staples<p, 18> staples{lattice, lower[beside], mu, {}, false};
            staples.add_staple(sum, x, parity, nu, lower[ahead], mu);
        }
        return sum;
    }
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int mu = item.part, other = k < 0 ? 3 : k + (k >= mu);
        const Matrix<Real> link = u.load(item.parity, mu, item.i);
        if (in_space && (mu == 3 || (level == 1 && other == 3))) {
            to.store(item.parity, mu, item.own, link);
            return;
        }
        const Site x = lattice.site(item.parity, item.i);
        const double sign = phased ? phases.sign(x, mu) : 1;
        Matrix<double> w = times(sign, convert<double>(link)), v = times(1 - alpha, w);
        multiply_add(v, (phased ? -sign : sign) * alpha / (2 * level),
                     convert<double>(staples_of(x, item.parity, mu, other)));
        project_by_hits<false>(v, w, hits, 0); // links may be rounded to single precision
        to.store(item.parity, mu, item.own, convert<Real>(times(sign, w)));
    }
};

} // namespace

double hyp_smear_flops(const HypSpec &spec) {
    const double staples = spec.in_space ? 6 * 2 + 3 * 4 : 12 * 2 + 12 * 4 + 4 * 6, links = spec.in_space ? 9 : 28;
    return staples * 414 + links * (198 + 36 + spec.hits * (2 * 84 + 20.0));
}

static void hyp_level(Device &device, const WideBox &box, const LinkField &u, const HypSpec &spec, int level, int k,
                      const LinkField *const lower[3], const LinkField &to) {
    const SitesAndParts work = box.work(4);
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        using View = MatrixView<precision>;
        const HypLevel<precision> body{work,
                                       box.wide().lattice(),
                                       View(u),
                                       {View(*lower[0]), View(*lower[1]), View(*lower[2])},
                                       View(to),
                                       Phases(box.box(), box.wide()),
                                       spec.signs == Signs::phases_in,
                                       level,
                                       k,
                                       spec.in_space,
                                       spec.alpha[level - 1],
                                       spec.hits};
        launch(device, work.threads(), body, "HYP smearing");
    });
}

LinkField hyp_smear(Device &device, const Geometry &geometry, Halo *halo, const LinkField &links, const HypSpec &spec) {
    WithMargin around(device, geometry, halo, links.precision());
    std::vector<WithMargin> beside;
    AskedFields asked(device);
    LinkField levels[2][3], made, *const fields[] = {&levels[0][0], &levels[0][1], &levels[0][2], &levels[1][0],
                                                     &levels[1][1], &levels[1][2], &made};
    queue_of(device).collective("memory for HYP smearing", [&] {
        beside.clear();
        for (int k = 0; k < 3; ++k) {
            beside.emplace_back(device, geometry, halo, links.precision());
            levels[0][k] = around.allocate_on_box("HYP smearing, level 1");
            if (!spec.in_space)
                levels[1][k] = around.allocate_on_box("HYP smearing, level 2");
        }
        made = around.allocate_on_box("HYP smearing");
        for (LinkField *field : fields)
            if (field->bytes() > 0)
                field->clear_behind(geometry), field->keep_sum();
    });
    const LinkField &u = around.of(links, hyp_reach);
    const LinkField *lower[3] = {&u, &u, &u};
    const auto rise = [&](int level) {
        for (int k = 0; k < 3; ++k)
            hyp_level(device, around.box(), u, spec, level, k, lower, levels[level - 1][k]);
        for (int k = 0; k < 3; ++k)
            lower[k] = &beside[k].of(levels[level - 1][k], hyp_reach);
    };
    rise(1);
    if (!spec.in_space)
        rise(2);
    hyp_level(device, around.box(), u, spec, spec.in_space ? 2 : 3, -1, lower, made);
    for (const LinkField *field : fields)
        asked.unchanged(*field, "links of HYP smearing");
    asked.must_hold();
    return made;
}

} // namespace milcgpu
