// The stencil of dslash.h for several consecutive sites at once, on the host. At each site it does the arithmetic of
// hops.h in the same order, so the results have the same bits.
//
// A row has nx/2 sites of a parity. In y, z and t the neighbours of consecutive sites of a row are consecutive, too. In
// x the neighbours are the sites of the same row, shifted by up to two sites, and continue at the other end of the row.
// A block of sites may reach over several rows.
#pragma once
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/stencil/launches.h"

#if MILCGPU_LANES
namespace milcgpu {

// D of one source or of several. The links of a block come from memory for the first source, and from the cache for the
// others.
template <class Spinor> struct LanesHops {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    static constexpr int reach = 3, sites = Real::count, sites_at_once = sites;
    static constexpr bool on_host = true;

    CutLattice lattice;
    int row, parity; // row: its sites
    const unsigned char *in, *links;

    void fill(const Device &, const DslashCall &call) {
        lattice = call.lattice;
        row = lattice.extent[0] / 2, parity = call.parity;
        in = call.in.data, links = call.lanes->of(call.parity);
    }

    // The sums of fat and of long links; with one_sum `fat` has both. The links have the scale 1.
    struct Sum {
        Vec fat, lng;
    };
    template <bool one_sum = false> MILCGPU_HD Sum all(int first, const unsigned char *from) const {
        const Site site = lattice.site(parity, first);
        const unsigned char *const link = links + size_t(first / sites) * LaneLinks::block_bytes;
        if ((site.x[0] >> 1) + sites <= row) // the usual case
            return sums<one_sum>(link, InRow{*this, from, site});
        return over_rows<one_sum>(link, from, first);
    }

  private:
    // ahead: the bytes of the next block that are to be prefetched, in the order of memory. The CPU does not prefetch
    // them soon enough by itself: D from memory took twice as long.
    template <bool behind>
    static MILCGPU_HD void add(Vec &sum, const unsigned char *link, const unsigned char *&ahead, const Vec &x) {
        Matrix<Real> u;
        for (int e = 0; e < 9; ++e, link += 2 * lane_bytes, ahead += 2 * lane_bytes) {
            __builtin_prefetch(ahead);
            u.e[e / 3][e % 3] = {Real::load(link), Real::load(link + lane_bytes)};
        }
        if constexpr (behind)
            adjoint_multiply_subtract(sum, u, x);
        else
            multiply_add(sum, u, x);
    }
    // A sum has one accumulator: two of them and a vector do not fit in 16 registers. So all fat links come first,
    // unless both have one sum. at(mu, hops): the vectors of the neighbours. k: LaneLinks::place.
    template <bool one_sum, class At> MILCGPU_HD Sum sums(const unsigned char *link, const At &at) const {
        constexpr int bytes = LaneLinks::reals * lane_bytes;
        const unsigned char *ahead = link + LaneLinks::block_bytes;
        Sum sum = {};
        const auto add_two = [&](Vec & to, int mu, int k, int hops) __attribute__((always_inline)) {
            add<false>(to, link + (4 * mu + k) * bytes, ahead, at(mu, hops));
            add<true>(to, link + (4 * mu + k + 1) * bytes, ahead, at(mu, -hops));
        };
        for (int mu = 0; mu < 4; ++mu) {
            add_two(sum.fat, mu, 0, 1);
            if constexpr (one_sum)
                add_two(sum.fat, mu, 2, lattice.third_hop[mu]);
        }
        for (int mu = 0; !one_sum && mu < 4; ++mu)
            add_two(sum.lng, mu, 2, lattice.third_hop[mu]);
        return sum;
    }

    // The neighbours of a block whose sites are in one row. site: the first of them.
    struct InRow {
        const LanesHops &d;
        const unsigned char *from;
        const Site site;
        MILCGPU_HD Vec operator()(int mu, int hops) const {
            if (mu > 0)
                return load_spinor<Spinor>(
                    from, 0,
                    SitesAtOnce{hops > 0 ? d.lattice.forward(site, mu, hops) : d.lattice.backward(site, mu, -hops)});
            const int row_begins = site.index() - (site.x[0] >> 1), begin = (site.x[0] + hops) >> 1;
            if (begin >= 0 && begin + sites <= d.row)
                return load_spinor<Spinor>(from, 0, SitesAtOnce{row_begins + begin});
            NeighboursAtOnce<sites> to;
            to.consecutive = false;
            for (int l = 0; l < sites; ++l) {
                const int x = begin + l;
                to.at[l] = row_begins + x + (x < 0 ? d.row : x >= d.row ? -d.row : 0);
            }
            return load_spinor<Spinor>(from, 0, to);
        }
    };

    // The rows that a block of sites reaches: the block's first site in each row, and the number within the block of
    // the first site behind the row.
    struct Rows {
        int count = 0, end[sites];
        Site begin[sites];
    };
    Rows rows(int first) const {
        Rows of;
        for (int l = 0; l < sites; l = of.end[of.count++]) {
            const Site &site = of.begin[of.count] = lattice.site(parity, first + l);
            of.end[of.count] = std::min(sites, l + row - (site.x[0] >> 1));
        }
        return of;
    }
    NeighboursAtOnce<sites> neighbours(const Rows &of, int mu, int hops) const {
        NeighboursAtOnce<sites> to;
        to.consecutive = mu > 0;
        for (int r = 0, l = 0; r < of.count; ++r) {
            const Site &site = of.begin[r];
            const int end = of.end[r], place = site.x[0] >> 1;
            const int by = mu > 0 ? 0 : ((site.x[0] + hops) >> 1) - place;
            const int at = mu == 0    ? site.index() + by
                           : hops > 0 ? lattice.forward(site, mu, hops)
                                      : lattice.backward(site, mu, -hops);
            to.consecutive &= r == 0 || at == to.at[0] + l;
            for (int k = 0, x = place + by; l < end; ++l, ++k, ++x)
                to.at[l] = at + k + (x < 0 ? row : x >= row ? -row : 0);
        }
        return to;
    }
    template <bool one_sum>
    __attribute__((noinline)) Sum over_rows(const unsigned char *link, const unsigned char *from, int first) const {
        const Rows of = rows(first);
        return sums<one_sum>(
            link, [&](int mu, int hops) __attribute__((always_inline)) {
                return load_spinor<Spinor>(from, 0, neighbours(of, mu, hops));
            });
    }
};

template <class Spinor, class End> struct LanesStencil : LanesHops<Spinor> {
    using Base = LanesHops<Spinor>;
    End end;
    void operator()(int first, Sums<End::sums> *sums) const {
        StoredSpinor<Spinor> made;
        const auto sum = this->all(first, this->in);
        const auto of_sites = end(0, SitesAtOnce{first}, sum.fat + sum.lng, made);
        for (int n = 0; n < End::sums; ++n)
            for (int l = 0; l < Base::sites; ++l)
                sums[lanes::site_of(l, typename Base::Real::Number())].v[n] = of_sites.v[n].v[l];
    }
};

// For TogetherStencil. It sums as SourcesHops does. The host takes one source after the other.
template <class Spinor> struct LanesOfSources : LanesHops<Spinor> {
    using Base = LanesHops<Spinor>;
    using typename Base::Vec;
    using Part = typename Base::Sum;
    static constexpr size_t stride = 0;
    static constexpr bool one_sum = Spinor::precision != Precision::double_;
    size_t source_bytes;
    Vec scaled(const Part &sum) const {
        if constexpr (one_sum)
            return sum.fat;
        else
            return sum.fat + sum.lng;
    }
    template <int, bool, int count>
    void all(const SitesAtOnce &at, const Sources<count> &own, Part (&sum)[count]) const {
        static_assert(count == 1, "one source after the other");
        sum[0] = Base::template all<one_sum>(at.first, own.first_of(this->in, source_bytes));
    }
};

template <class Scalar> struct OfLanes {
    using Call = DslashCall;
    using Where = OnThisBackend;
    using Spinor = SpinorLanes<Scalar>;
    static constexpr const char *name = "launch dslash", *name_of_several = "launch dslash on several sources",
                                *name_without_sums = "launch dslash on several sources, no sums";
    template <class End> using OneSource = LanesStencil<Spinor, End>;
    template <class End> using EachSource = OneSource<End>;
    using Together = LanesOfSources<Spinor>;
    static constexpr KernelKey key = {Scalar::precision, Scalar::precision, 18, Epilogue::plain, 1, 4, false, true};
};

} // namespace milcgpu
#endif
