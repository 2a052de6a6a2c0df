// The stencil of dslash.h for several consecutive sites at once, on the host. At each site it does the arithmetic of
// hops.h in the same order, so the results have the same bits.
//
// A row has nx/2 sites of a parity. In y, z and t the neighbours of consecutive sites of a row are consecutive, too. In
// x the neighbours are the sites of the same row, shifted by up to two sites, and continue at the other end of the row.
// A block may reach over several rows. So the neighbours of each block are listed beside its links: computing them took
// up to two thirds of the time of D.
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
    const unsigned char *in, *links;
    const int *neighbours;
    unsigned end_of_in; // the number of sites of `in`, ghosts included

    void fill(const Device &, const DslashCall &call) {
        lattice = call.lattice;
        end_of_in = static_cast<unsigned>(call.in.stride);
        in = call.in.data, links = call.lanes->of(call.parity), neighbours = call.lanes->neighbours(call.parity);
    }

    // The sums of fat and of long links; with one_sum `fat` has both. The links have the scale 1.
    struct Sum {
        Vec fat, lng;
    };
    // A sum has one accumulator: two of them and a vector do not fit in 16 registers. So all fat links come first,
    // unless both have one sum.
    template <bool one_sum = false> MILCGPU_HD Sum all(int first, const unsigned char *from) const {
        const size_t block = first / sites;
        const unsigned char *const link = links + block * LaneLinks::block_bytes,
                                   *ahead = link + LaneLinks::block_bytes;
        const int *const at = neighbours + block * LaneLinks::links * sites;
        Sum sum = {};
        const auto add_two = [&](Vec & to, int k) __attribute__((always_inline)) { // k: LaneLinks::place
            constexpr int bytes = LaneLinks::reals * lane_bytes;
            const auto neighbour = [&](int of) __attribute__((always_inline)) {
                return load_spinor<Spinor>(from, 0, NeighboursAtOnce{at + of * sites, end_of_in});
            };
            add<false>(to, link + k * bytes, ahead, neighbour(k));
            add<true>(to, link + (k + 1) * bytes, ahead, neighbour(k + 1));
        };
        for (int mu = 0; mu < 4; ++mu) {
            add_two(sum.fat, 4 * mu);
            if constexpr (one_sum)
                add_two(sum.fat, 4 * mu + 2);
        }
        for (int mu = 0; !one_sum && mu < 4; ++mu)
            add_two(sum.lng, 4 * mu + 2);
        return sum;
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
