// Several sources at once, for any stencil. They share lattice and links, and are `source_bytes` apart.
#pragma once
#include "gpu_kernels/stencil/endings.h"

namespace milcgpu {

// Each source has its own conjugate gradient. Links are read for each source; after the first one they come from the L1
// cache.
template <class Stencil> struct SourcesStencil {
    static constexpr int together = 1;
    static constexpr bool on_host = is_on_host<Stencil>::value;
    Stencil first; // of source 0
    size_t source_bytes;
    const CgState *cg;
    MILCGPU_HD bool open(int k) const { return cg[k].active != 0; }
    ActiveSources active() const { return {&cg->active, sizeof *cg}; }
    MILCGPU_HD Stencil of_source(int k) const {
        Stencil body = first;
        body.in += k * source_bytes;
        body.end = first.end.of_source(k, k * source_bytes);
        return body;
    }
    MILCGPU_HD auto operator()(int i, int k) const { return of_source(k)(i); }
};

// Several sources without sums. A thread does `count` of them, up to `together`. Each count has its number of blocks of
// 64 threads that fit on an SM, its number of directions whose data may be loaded at the same time, and the choice
// whether the addresses of the sources stay in registers. sharing: if there are more sources than `together`, up to
// twice `sharing`, two warps that share links do up to `sharing` of them each (Hops::all_sharing, for example
// staggered/shared_links.h); 0: separate blocks do them.
template <int together_, int blocks_, int directions_> struct SourcesShape {
    static constexpr int together = together_, sharing = 0;
    static constexpr int blocks(int) { return blocks_; }
    MILCGPU_HD static constexpr int directions(int) { return directions_; }
    MILCGPU_HD static constexpr bool addresses(int) { return true; }
};
template <class Spinor, class Hops, class Shape> struct TogetherStencil : Hops, Shape {
    using typename Hops::Part;
    Ending<Spinor> end; // of source 0
    template <int count, class At> MILCGPU_HD void of(const At &i, const Sources<count> &own) const {
        Part part[count] = {};
        this->template all<Shape::directions(count), Shape::addresses(count)>(i, own, part);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            if (own.mine(r)) {
                StoredSpinor<Spinor> made;
                end.of_source(own.k(r), own.k(r) * this->source_bytes)(this->stride, i, this->scaled(part[r]), made);
            }
    }
#if defined(MILCGPU_WITH_CUDA)
    // Two warps that share links. there: this thread's site counts.
    template <int count, class Ring>
    __device__ __forceinline__ void of_sharing(int i, bool there, const Sources<count> &own, Ring &ring) const {
        Part part[count] = {};
        this->all_sharing(i, own, ring, part);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            if (own.mine(r) && there) {
                StoredSpinor<Spinor> made;
                end.of_source(own.k(r), own.k(r) * this->source_bytes)(this->stride, i, this->scaled(part[r]), made);
            }
    }
#endif
};

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {
// `count` sources for each of two warps, which share their 32 sites and the links.
template <class Body, class Ring, int count>
__global__ void __launch_bounds__(tile_sites, Body::blocks(count))
    run_sources_sharing_links(const Body body, int n, int sources, const int *gate, const TileOrder order) {
    const AfterPrevious after(order.beside);
    if (gate != nullptr && *gate == 0)
        return;
    __shared__ Ring ring;
    constexpr int sites = tile_sites / Ring::warps;
    const int first = threadIdx.x / sites * count, skipped = max(first + count - sources, 0);
    const int i = order.tile(blockIdx.x) * sites + threadIdx.x % sites;
    body.of_sharing(min(i, n - 1), i < n, Sources<count>{first - skipped, skipped, false}, ring);
}
} // namespace cuda
#endif

template <class Last> struct SourcesFinish {
    Last first;
    MILCGPU_HD bool wanted() const { return first.wanted(); }
    template <int N> MILCGPU_HD void operator()(const Sums<N> &total, int k) const {
        Last finish = first;
        finish.cg += k;
        finish(total);
    }
};

// For conjugate gradients: calls start(ending, finish).
template <class Spinor, class Where, class Start>
void with_ending_of_sources(const HalfCall &call, Epilogue epilogue, const Start &start) {
    if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              SourcesFinish<StepFinish>{{{}, call.cg, call.check_convergence}});
    else
        start(Ending<Spinor>{Epilogue::plain, nullptr, nullptr, call.out.data, 0, 0},
              SourcesFinish<SumFinish>{{nullptr, call.cg, call.along_p}});
}

// body: with lattice, links and `in` set.
template <int min_blocks, class Stencil, class Last>
void start_sources(Device &device, const HalfCall &call, int sites, SourcesStencil<Stencil> &body, const Last &finish,
                   const char *what) {
    body.source_bytes = call.in.source_bytes;
    body.cg = call.cg;
    launch_sum_sources<decltype(body.first.end)::sums, min_blocks>(device, sites, call.in.sources, body, finish, what);
}

template <class Spinor, class Hops, class Shape>
void start_together(Device &device, const HalfCall &call, Epilogue epilogue, int sites, const Tiles &tiles,
                    TogetherStencil<Spinor, Hops, Shape> &body, const char *what) {
    body.source_bytes = call.in.source_bytes;
    body.end = {epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
    const int sources = call.in.sources;
    const auto order_of = [&](int a_tile) {
        TileOrder order =
            order_of_tiles(device, sites, a_tile,
                           SlicesRead::of(body.lattice.extent[3], Hops::reach,
                                          static_cast<double>(sources) * spinor_bytes(call.in.precision) * sites));
        order.take(tiles);
        return order;
    };
#if defined(MILCGPU_WITH_CUDA)
    using Body = TogetherStencil<Spinor, Hops, Shape>;
    constexpr int most = Shape::sharing; // sources of a warp
    if constexpr (most > 0)
        if (queue_of(device).on_gpu() && sources > Shape::together && sources <= 2 * most) {
            using Ring = typename Hops::Ring;
            const TileOrder order = order_of(tile_sites / Ring::warps);
            return cuda::start(device, what, order.count, tile_sites, cuda::run_sources_sharing_links<Body, Ring, most>,
                               body, sites, sources, call.gate, order);
        }
#endif
    launch_sources(device, sites, sources, body, call.gate, order_of(tile_sites), what);
}

} // namespace milcgpu
