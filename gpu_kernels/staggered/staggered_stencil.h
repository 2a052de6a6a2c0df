// Launches of the stencil. staggered_rows.h has their shapes.
#pragma once
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/staggered/cut_stencil.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/stencil/sources.h"

namespace milcgpu {

// Which links stay in the L2 cache from one launch to the next. On 16^4 and an H200 (60 MiB):
// - All links together take at most 0.8 of the cache (single, half): they stay. Steps take 10 to 25 % less time.
// - They do not fit in it, and the fat links take at most 0.8 of it (double, 18, 13 and 12 reals): fat links stay; D
//   alone takes 3 to 6 % less time. If all links were kept, they would evict each other and the vectors: 10 % more.
// - In between (double, 9 and 8 reals) most links stay by themselves, so all links stream. With fat links kept, a whole
//   solve took 7 % more time.
inline L2Policy l2_policy(const Device &device, const DslashCall &call) {
    const double cache = queue_of(device).cache_bytes(), fat = call.fat->bytes(), all = fat + call.lng->bytes();
    if (all <= 0.8 * cache)
        return L2Policy::all;
    return all >= cache && fat <= 0.8 * cache ? L2Policy::fat : L2Policy::none;
}

template <class Body>
void fill_links(Body &body, const CutLattice &lattice, int parity, const LinkField &fat, const LinkField &lng) {
    body.lattice = lattice;
    body.parity = parity;
    body.link_stride = fat.stride();
    for (const int other : {0, 1}) {
        body.fat[other] = fat.block((parity + other) % 2, 0);
        body.lng[other] = lng.block((parity + other) % 2, 0);
    }
    body.fat_block = fat.block(0, 1) - fat.block(0, 0);
    body.long_block = lng.block(0, 1) - lng.block(0, 0);
    body.fat_scale = static_cast<typename Body::Real>(fat.scale);
    body.long_scale = static_cast<typename Body::Real>(lng.scale);
}

constexpr int one_source_block = 128; // threads; 64 and 256 were no faster

// min_blocks: see launch_sum.
template <class Where, class Spinor, Precision link, int reals, int min_blocks>
void launch_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    const auto start = [&](auto end, const auto &finish, const auto &pending) {
        constexpr int sums = decltype(end)::sums;
        using End = decltype(end);
        constexpr bool cut_on_gpu = !std::is_same<Where, OnThisBackend>::value;
        std::conditional_t<cut_on_gpu, CutStencil<Spinor, link, reals, End>, Stencil<Where, Spinor, link, reals, End>>
            body{};
        fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
        if constexpr (cut_on_gpu)
            body.exchange = call.exchange;
        body.stride = call.in.stride;
        body.in = call.in.data;
        body.kept = l2_policy(device, call);
        body.end = end;
        const SumLaunch how{
            "launch dslash",
            call.cg != nullptr ? &call.cg->active : call.gate,
            one_source_block,
            call.defer,
            true,
            SlicesRead::of(call.lattice.extent[3], body.reach,
                           static_cast<double>(call.lattice.sites(1 - call.parity)) * spinor_bytes(call.in.precision))};
        launch_sum<sums, min_blocks>(device, call.lattice.sites(call.parity), body, finish, how, pending);
    };
    with_ending<Spinor, Where>(device, call, epilogue, call.lattice.sites(1 - call.parity), start);
}

// The epilogue residual that also computes the checksums of the links. One launch reads every link of both parities
// once (extents are even): forward links of its own sites, backward links of the other parity.
//
// It finds a change that happens before this launch reads the link, even if the first half still read the old value. A
// change after that does not affect the residual.
template <class Where, Precision link, int min_blocks>
void launch_checked_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    Stencil<Where, SpinorDouble, link, 18, Ending<SpinorDouble>, L2Policy::none, CheckedLinks> body{};
    fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
    body.checksums = call.checksums;
    body.fat_pieces = static_cast<uint32_t>(body.fat_block / 16);
    body.long_pieces = static_cast<uint32_t>(body.long_block / 16);
    for (const int other : {0, 1}) {
        const uint32_t blocks = (call.parity + other) % 2 * 4;
        body.fat_piece[other] = blocks * body.fat_pieces;
        body.long_piece[other] = blocks * body.long_pieces;
    }
    body.stride = call.in.stride;
    body.in = call.in.data;
    body.end = {epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
    launch_sum<1, min_blocks>(device, call.lattice.sites(call.parity), body, SumFinish{call.sum, nullptr, false},
                              {"launch dslash", nullptr, one_source_block});
}

template <class Where, class Spinor, Precision link, int reals, int min_blocks, class Shape>
void launch_sources_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    const int sites = call.lattice.sites(call.parity);
    const auto fill = [&](auto &body) {
        fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
        body.stride = call.in.stride;
        body.in = call.in.data;
    };
    if (call.cg == nullptr) {
        TogetherStencil<Spinor, SourcesHops<Where, Spinor, link, reals>, Shape> body{};
        fill(body);
        body.set_unit();
        start_together(device, call, epilogue, sites, call.tiles, body, "launch dslash on several sources, no sums");
    } else {
        with_ending_of_sources<Spinor, Where>(call, epilogue, [&](const auto &end, const auto &finish) {
            SourcesStencil<Stencil<Where, Spinor, link, reals, std::decay_t<decltype(end)>, L2Policy::all>> body{};
            fill(body.first);
            body.first.end = end;
            start_sources<min_blocks>(device, call, sites, body, finish, "launch dslash on several sources");
        });
    }
}

// Calls function(integral constant) for each number of reals of a long link.
template <class Function> void for_all_reals(const Function &function) {
    function(std::integral_constant<int, 18>());
    function(std::integral_constant<int, 13>());
    function(std::integral_constant<int, 12>());
    function(std::integral_constant<int, 9>());
    function(std::integral_constant<int, 8>());
}

// The rows of one spinor and link precision, one reconstruction and one source: 4 epilogues.
template <class Where, class Spinor, Precision link, int reals, int min_blocks>
void add_rows(std::vector<DslashKernel> &table) {
    for (const EpilogueTraits &end : epilogues)
        table.push_back({Spinor::precision,
                         link,
                         reals,
                         end.epilogue,
                         1,
                         false,
                         launch_stencil<Where, Spinor, link, reals, min_blocks>,
                         {one_source_block, min_blocks, 1}});
}

// The residual that computes the checksums of links as passed.
template <class Where, Precision link, int min_blocks> void add_checked_row(std::vector<DslashKernel> &table) {
    table.push_back({Precision::double_,
                     link,
                     18,
                     Epilogue::residual,
                     1,
                     true,
                     launch_checked_stencil<Where, link, min_blocks>,
                     {one_source_block, min_blocks, 1}});
}

// Rows of several sources, 5 reconstructions.
template <class Where, class Spinor, Precision link, int min_blocks, class Shape>
void add_sources_rows(std::vector<DslashKernel> &table) {
    for_all_reals([&](auto reals) {
        for (const EpilogueTraits &end : epilogues)
            table.push_back({Spinor::precision,
                             link,
                             reals,
                             end.epilogue,
                             max_shifts,
                             false,
                             launch_sources_stencil<Where, Spinor, link, reals, min_blocks, Shape>,
                             {tile_sites, Shape::blocks(Shape::together), Shape::together}});
    });
}

} // namespace milcgpu
