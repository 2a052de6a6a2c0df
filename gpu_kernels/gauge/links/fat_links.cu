// The fat links of fermion_links.h, for one direction mu after the other. Staples are linear, so the sums over paths
// nest (nu, rho, sigma are the three directions other than mu):
//
//   1. T_nu    = S_nu(U)                                                                      3 staples
//   2. M_sigma = three U + lepage T_sigma + five (T_nu + T_rho) + seven (S_rho(T_nu) + S_nu(T_rho))   6 staples
//   3. fat     = (one_link - 6 lepage) U + sum_sigma S_sigma(M_sigma)                           3 staples
//
// This takes 12 staples a link instead of 18. Blocks are chosen so that staples of a site share links in the L1 cache;
// the number of blocks on a multiprocessor is what was fastest on an H200. One thread a site and staple (1), a site and
// sigma (2), a site (3). Bytes a link, at the least, in matrices: 1 reads 4 of U, writes 3; 2 reads 4 of U and 3,
// writes 3; 3 reads 4 of U and 3, writes 1. Each staple loads 6 matrices; those of neighbours come from the caches.
#include "gpu_kernels/gauge/links/staples.h"

namespace milcgpu {

namespace {

template <Precision p, int reals> struct NestedStaple {
    Staples<p, reals> staples;
    SitesAndParts work;
    ScratchView<p> t, m;
    int first_sigma; // part k is sigma = first_sigma + k, stored in slot k of m
    typename LinkReal<p>::Real three, five, seven, lepage;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int sigma = first_sigma + item.part, nu = (sigma + 1) % 3, rho = (sigma + 2) % 3;
        const Site x = staples.lattice.site(item.parity, item.i);
        if (!staples.takes_sum(x, staples.other(sigma)))
            return;
        typename Staples<p, reals>::M sum = {};
        if (seven != 0) {
            staples.add_staple(sum, x, item.parity, staples.other(rho), t, nu);
            staples.add_staple(sum, x, item.parity, staples.other(nu), t, rho);
            MILCGPU_UNROLL
            for (int k = 0; k < 9; ++k)
                sum.e[k / 3][k % 3] = seven * sum.e[k / 3][k % 3];
        }
        multiply_add(sum, five, t.load(item.parity, nu, item.i));
        multiply_add(sum, five, t.load(item.parity, rho, item.i));
        if (lepage != 0)
            multiply_add(sum, lepage, t.load(item.parity, sigma, item.i));
        multiply_add(sum, three, staples.u.load(item.parity, staples.mu, item.i));
        m.store(item.parity, item.part, item.i, sum);
    }
};

// View: the place of M_sigma: m (slot k for the k-th sigma), or the links themselves (slot mu) if there are only
// 3-staples.
template <Precision p, int reals, class View> struct FatLink {
    Staples<p, reals> staples;
    SitesAndParts work;
    View m;
    MatrixView<p> fat; // on the box
    int first_sigma, sigmas;
    bool links_are_m, add; // add: adds to the content of fat
    typename LinkReal<p>::Real link, staple;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int parity = item.parity, i = item.i;
        const Site x = staples.lattice.site(parity, i);
        typename Staples<p, reals>::M sum = {};
        for (int k = 0; k < sigmas; ++k)
            staples.add_staple(sum, x, parity, staples.other(first_sigma + k), m, links_are_m ? staples.mu : k);
        typename Staples<p, reals>::M total =
            add ? fat.take(parity, staples.mu, item.own) : typename Staples<p, reals>::M{};
        multiply_add(total, staple, sum);
        if (!add)
            multiply_add(total, link, staples.u.load(parity, staples.mu, i));
        fat.store(parity, staples.mu, item.own, total);
    }
};

template <Precision p, int reals>
void run(Device &device, const WideBox &box, const LinkField &u, const PathCoefficients &c, const LinkField &fat,
         const StapleSpace *space) {
    using Real = typename LinkReal<p>::Real;
    constexpr bool is_double = p == Precision::double_;
    const Real link = static_cast<Real>(c.one_link - 6 * c.lepage);
    const SitesAndParts a_link = box.work(1);
    const auto finish = [&](const Staples<p, reals> &staples, const auto &view, bool links_are_m, int first, int sigmas,
                            double staple) {
        launch_bounded<128, is_double ? 3 : 4>(
            device, a_link.threads(),
            FatLink<p, reals, std::decay_t<decltype(view)>>{staples, a_link, view, MatrixView<p>(fat), first, sigmas,
                                                            links_are_m, first > 0, link, static_cast<Real>(staple)},
            "sum fat links");
    };
    for (int mu = 0; mu < 4; ++mu) {
        const Staples<p, reals> staples{box.wide().lattice(), MatrixView<p, reals>(u), mu, box.inner(), false};
        if (space == nullptr) {
            finish(staples, MatrixView<p, reals>(u), true, 0, c.three_staple != 0 ? 3 : 0, c.three_staple);
            continue;
        }
        const SitesAndParts all = box.work(3, 1); // staples adjacent to a link of the box
        launch_bounded<192, is_double ? 2 : 4>(
            device, all.threads(),
            ThreeStaple<p, reals, MatrixView<p, reals>>{staples, all, staples.u, staples.u, ScratchView<p>(space->t),
                                                        ScratchView<p>(space->t), c.lepage != 0},
            "3-staples");
        const int at_once = space->m.directions();
        for (int first = 0; first < 3; first += at_once) {
            const SitesAndParts some = box.work(at_once, 1);
            launch_bounded<192, is_double ? 2 : 3>(
                device, some.threads(),
                NestedStaple<p, reals>{staples, some, ScratchView<p>(space->t), ScratchView<p>(space->m), first,
                                       static_cast<Real>(c.three_staple), static_cast<Real>(c.five_staple),
                                       static_cast<Real>(c.seven_staple), static_cast<Real>(c.lepage)},
                "nested staples");
            finish(staples, ScratchView<p>(space->m), false, first, at_once, 1);
        }
    }
}

} // namespace

StapleSpace::StapleSpace(Device &device, const Geometry &geometry, Precision precision) {
    const auto field = [&](int directions) {
        return LinkField(device, precision, 18, geometry, "staples", directions);
    };
    t = field(3);
    try {
        m = field(3);
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
        m = field(1);
    }
}

double fat_links_bytes(Precision p, int reals) { return 4 * (12 * link_bytes(p, reals) + 13 * link_bytes(p, 18)); }

void fat_links(Device &device, const WideBox &box, const LinkField &u, const PathCoefficients &c, const LinkField &fat,
               const StapleSpace &space) {
    const bool fits = u.precision() == fat.precision() && u.precision() == space.t.precision() && fat.reals() == 18 &&
                      (u.reals() == 18 || u.reals() == 12) && u.scale == 1;
    if (!fits)
        throw Error(
            Status::bad_argument,
            "fat links need links of 18 or 12 reals, fat links of 18 and memory for staples, all double or all single");
    const bool nested = c.five_staple != 0 || c.seven_staple != 0 || c.lepage != 0;
    for_real(u.precision(), [&](auto p) {
        constexpr Precision precision = decltype(p)::value;
        if (u.reals() == 18)
            run<precision, 18>(device, box, u, c, fat, nested ? &space : nullptr);
        else
            run<precision, 12>(device, box, u, c, fat, nested ? &space : nullptr);
    });
}

} // namespace milcgpu
