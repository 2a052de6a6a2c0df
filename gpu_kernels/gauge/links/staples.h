// Staples of links of one direction mu, for the fat links and their derivatives:
//   S_nu(M)(x) = U_nu(x) M(x+nu) U_nu(x+mu)^dag + U_nu(x-nu)^dag M(x-nu) U_nu(x-nu+mu),
// the upper and the lower part, for any field M whose matrices go from x to x+mu.
#pragma once
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/gauge/links/fermion_links.h"

namespace milcgpu {

template <Precision p, int reals> struct Staples {
    using Real = typename LinkReal<p>::Real;
    using M = Matrix<Real>;
    Lattice lattice;
    MatrixView<p, reals> u;
    int mu;
    InnerBox box;  // of a wide lattice
    bool along_mu; // true if the sites beside the box along mu are needed, too

    // True if nested staples, which end on the box, need a result at x. Sums of 3-staples M_sigma are read one hop
    // along sigma. They read S_nu at their own sites and one hop along the third direction; S_nu with nu = sigma only
    // for Lepage paths, and not further than a hop.
    MILCGPU_HD unsigned outside(const Site &x) const { return box.outside(x) & ~(along_mu ? 1u << mu : 0u); }
    MILCGPU_HD bool takes_sum(const Site &x, int sigma) const { return (outside(x) & ~(1u << sigma)) == 0; }
    MILCGPU_HD bool takes_staple(const Site &x, int nu, bool lepage) const {
        const unsigned out = outside(x), along_nu = 1u << nu;
        return (out & 1u << mu) == 0 && ((out & along_nu) == 0 || (lepage && out == along_nu));
    }

    // k-th direction (0..2) other than mu
    MILCGPU_HD int other(int k) const { return k + (k >= mu); }

    // sum += upper part of S_nu(m[slot])
    template <class View>
    MILCGPU_HD void add_upper(M &sum, const Site &x, int parity, int nu, const View &m, int slot) const {
        const int opposite = 1 - parity;
        const Site up = lattice.hop(x, nu, 1), forward = lattice.hop(x, mu, 1);
        add_staple_up(sum, u.load(parity, nu, x.index()), m.load(opposite, slot, up.index()),
                      u.load(opposite, nu, forward.index()));
    }
    template <class View>
    MILCGPU_HD void add_lower(M &sum, const Site &x, int parity, int nu, const View &m, int slot) const {
        const int opposite = 1 - parity;
        const Site down = lattice.hop(x, nu, -1), down_forward = lattice.hop(down, mu, 1);
        add_staple_down(sum, u.load(opposite, nu, down.index()), m.load(opposite, slot, down.index()),
                        u.load(parity, nu, down_forward.index()));
    }
    template <class View>
    MILCGPU_HD void add_staple(M &sum, const Site &x, int parity, int nu, const View &m, int slot) const {
        add_upper(sum, x, parity, nu, m, slot);
        add_lower(sum, x, parity, nu, m, slot);
    }
};

// t[k] = S_nu(from[mu]), nu the k-th direction other than mu. One thread a site and k; with 6 parts a site, parts 3 to
// 5 do the same for the second field.
template <Precision p, int reals, class View> struct ThreeStaple {
    Staples<p, reals> staples;
    SitesAndParts work;
    View from, from_second;
    ScratchView<p> t, t_second;
    bool lepage;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = staples.lattice.site(item.parity, item.i);
        const bool second = item.part >= 3;
        const int k = second ? item.part - 3 : item.part;
        if (!staples.takes_staple(x, staples.other(k), lepage))
            return;
        typename Staples<p, reals>::M sum = {};
        staples.add_staple(sum, x, item.parity, staples.other(k), second ? from_second : from, staples.mu);
        (second ? t_second : t).store(item.parity, k, item.i, sum);
    }
};

} // namespace milcgpu
