// The stencil of dslash.h for several sites of a row at once, on the host. It has the arithmetic of hops.h at each
// site, in the same order, so the results have the same bits.
//
// A row has nx/2 sites of a parity. In y, z and t the neighbours of consecutive sites are consecutive, too; in x they
// are shifted by up to two sites, and continue at the other end of the row.
#pragma once
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/fields/spinor_lanes.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/stencil/launches.h"
#include <numeric>

#if MILCGPU_LANES
namespace milcgpu {

template <class Spinor, class End> struct LanesStencil {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    static constexpr int reach = 3, sites = Real::count;
    struct Block : SitesAtOnce {
        const unsigned char *links;
    };

    CutLattice lattice;
    LaneBlocks blocks;
    int parity;
    const unsigned char *in, *links;
    Real fat_scale, long_scale;
    End end;

    void fill(const Device &, const DslashCall &call) {
        lattice = call.lattice;
        blocks = call.lanes->blocks();
        parity = call.parity;
        in = call.in.data, links = call.lanes->of(call.parity);
        fat_scale = static_cast<Real>(call.fat->scale), long_scale = static_cast<Real>(call.lng->scale);
    }

    int tiles_of_rows() const { return std::lcm(blocks.row, tile_sites) / tile_sites; }
    Block block(int site) const {
        const int row = site / blocks.row, place = site - row * blocks.row;
        const int number = row * blocks.a_row + (place + sites - 1) / sites, first = blocks.first(number);
        return {{first, site - first}, links + size_t(number) * LaneLinks::block_bytes};
    }

    NeighboursAtOnce neighbours(const Site &site, int mu, int hops) const {
        if (mu > 0)
            return {hops > 0 ? lattice.forward(site, mu, hops) : lattice.backward(site, mu, -hops), sites, 0};
        const int first = site.index(), place = site.x[0] >> 1, by = ((site.x[0] + hops) >> 1) - place;
        if (place + by < 0)
            return {first + by + blocks.row, -(place + by), first + by};
        return {first + by, std::min(sites, blocks.row - place - by), first + by - blocks.row};
    }

    void operator()(const Block &block, Sums<End::sums> (&sums)[sites]) const {
        const Site site = lattice.site(parity, block.first);
        Vec fat = {}, lng = {};
        const unsigned char *link = block.links;
        for (int mu = 0; mu < 4; ++mu)
            for_each_of<0, 1, 2, 3>([&](auto k) {
                constexpr LaneLinks::Place place = LaneLinks::place(k, Spinor::precision);
                const int hops = place.is_long ? lattice.third_hop[mu] : 1;
                const Vec x = load_spinor<Spinor>(in, 0, neighbours(site, mu, place.behind ? -hops : hops));
                Matrix<Real> u;
                for (int e = 0; e < 9; ++e, link += 2 * lane_bytes)
                    u.e[e / 3][e % 3] = {Real::load(link), Real::load(link + lane_bytes)};
                if constexpr (place.behind)
                    adjoint_multiply_subtract(place.is_long ? lng : fat, u, x);
                else
                    multiply_add(place.is_long ? lng : fat, u, x);
            });
        StoredSpinor<Spinor> made;
        const auto of_sites = end(0, static_cast<const SitesAtOnce &>(block), fat_scale * fat + long_scale * lng, made);
        for (int n = 0; n < End::sums; ++n)
            for (int l = 0; l < sites; ++l)
                sums[lanes::site_of(l, typename Real::Number())].v[n] = of_sites.v[n].v[l];
    }
};

template <class Scalar> struct OfLanes {
    using Call = DslashCall;
    using Where = OnThisBackend;
    using Spinor = SpinorLanes<Scalar>;
    static constexpr const char *name = "launch dslash";
    template <class End> using OneSource = LanesStencil<Spinor, End>;
    static constexpr KernelKey key = {Scalar::precision, Scalar::precision, 18, Epilogue::plain, 1, 4, false, true};
};

} // namespace milcgpu
#endif
