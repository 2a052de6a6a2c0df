// Launches of the stencil. A translation unit a precision (double.cu, single.cu, half.cu; for cut lattices
// double_cut.cu ...) instantiates them for its spinor format, all link precisions and all reconstructions, with the
// launch shape of rows.h.
#pragma once
#include "gpu_kernels/blas/shifts.h"
#include "gpu_kernels/dslash/cut_stencil.h"
#include "gpu_kernels/dslash/dslash.h"

namespace milcgpu {

// Rows of lattices that are not cut; without a GPU they serve those that are as well.
#if defined(MILCGPU_WITH_CUDA)
using OnThisBackend = Lattice;
#else
using OnThisBackend = CutLattice;
#endif

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

// min_blocks, block: see launch_sum.
template <class Where, class Spinor, Precision link, int reals, int min_blocks, int block>
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
        body.end = end;
        const SumLaunch how{"launch dslash", call.cg != nullptr ? &call.cg->active : call.gate, block, call.defer};
        launch_sum<sums, min_blocks>(device, call.lattice.sites(call.parity), body, finish, how, pending);
    };
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.judge};
    const ReduceShape before(call.lattice.sites(1 - call.parity));
    if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg}, step,
              Pending<1, SumFinish>{{reinterpret_cast<Sums<1> *>(call.pending), before, device.waits()}, plain});
    else
        start(Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha}, plain,
              Pending<2, StepFinish>{{reinterpret_cast<Sums<2> *>(call.pending), before, device.waits()}, step});
}

// The epilogue residual, which also takes the checksums of the links. One launch reads every link of both parities
// once (extents are even): those of its own sites forward, those of the others backward.
//
// What changed before this launch reads it is seen, also where the first half had read it unchanged. What changes after
// that is not part of the residual.
template <class Where, class Spinor, Precision link, int reals, int min_blocks, int block>
void launch_checked_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    Stencil<Where, Spinor, link, reals, Ending<Spinor>, Reuse::stream, CheckedLinks> body{};
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
                              {"launch dslash", nullptr, block});
}

// Several sources at once, each in a conjugate gradient of its own. Links are read once a source, from L1 after the
// first.
template <class Where, class Spinor, Precision link, int reals, class End> struct SourcesStencil {
    Stencil<Where, Spinor, link, reals, End, Reuse::keep> first; // of source 0
    size_t source_bytes;
    const CgState *cg;
    MILCGPU_HD const int *gate(int k) const { return &cg[k].active; }
    MILCGPU_HD Sums<End::sums> operator()(int i, int k) const {
        auto body = first;
        body.in += k * source_bytes;
        body.end = first.end.of_source(k, k * source_bytes);
        return body(i);
    }
};

// Several sources at once without sums: a thread does `together` of them, and `blocks` blocks of 64 threads fit on an
// SM. directions: whose loads may be on their way together.
template <int together_, int blocks_, int directions_> struct SourcesShape {
    static constexpr int together = together_, blocks = blocks_, directions = directions_;
};
template <class Where, class Spinor, Precision link, int reals, class Shape>
struct TogetherStencil : SourcesHops<Where, Spinor, link, reals>, Shape {
    using Base = SourcesHops<Where, Spinor, link, reals>;
    using typename Base::Part;
    Ending<Spinor> end; // of source 0
    // Sources own.k[r], r < wanted.
    template <int count, int most> MILCGPU_HD void of(int i, const Sources<most> &own, int wanted = count) const {
        Part part[count] = {};
        this->template all<Shape::directions>(i, own, part);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            if (r < wanted) {
                StoredSpinor<Spinor> made;
                end.of_source(own.k[r], own.k[r] * this->source_bytes)(
                    this->stride, i, this->fat_scale * part[r].fat + this->long_scale * part[r].lng, made);
            }
    }
};

template <class Last> struct SourcesFinish {
    Last first;
    template <int N> MILCGPU_HD void operator()(const Sums<N> &total, int k) const {
        Last finish = first;
        finish.cg += k;
        finish(total);
    }
};

template <class Where, class Spinor, Precision link, int reals, int min_blocks, class Shape>
void launch_sources_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    const auto start = [&](const auto &end, const auto &finish) {
        using End = std::decay_t<decltype(end)>;
        SourcesStencil<Where, Spinor, link, reals, End> body{};
        fill_links(body.first, call.lattice, call.parity, *call.fat, *call.lng);
        body.first.stride = call.in.stride;
        body.first.in = call.in.data;
        body.first.end = end;
        body.source_bytes = call.in.source_bytes;
        body.cg = call.cg;
        launch_sum_sources<End::sums, min_blocks>(device, call.lattice.sites(call.parity), call.in.sources, body,
                                                  finish, "launch dslash on several sources");
    };
    if (call.cg == nullptr) {
        TogetherStencil<Where, Spinor, link, reals, Shape> body{};
        fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
        body.stride = call.in.stride;
        body.in = call.in.data;
        body.source_bytes = call.in.source_bytes;
        body.end = {epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
        launch_sources(device, call.lattice.sites(call.parity), call.in.sources, body, call.gate,
                       "launch dslash on several sources, no sums");
    } else if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              SourcesFinish<StepFinish>{{{}, call.cg, call.judge}});
    else
        start(Ending<Spinor>{Epilogue::plain, nullptr, nullptr, call.out.data, 0, 0},
              SourcesFinish<SumFinish>{{nullptr, call.cg, call.along_p}});
}

// function(integral constant) for each number of reals of a long link.
template <class Function> void for_all_reals(const Function &function) {
    function(std::integral_constant<int, 18>());
    function(std::integral_constant<int, 13>());
    function(std::integral_constant<int, 12>());
    function(std::integral_constant<int, 9>());
    function(std::integral_constant<int, 8>());
}

// The rows of one spinor and link precision and one source: 5 reconstructions x 4 epilogues.
template <class Where, class Spinor, Precision link, int min_blocks, int block>
void add_rows(std::vector<DslashKernel> &table, const char *file) {
    for_all_reals([&](auto reals) {
        for (const EpilogueTraits &end : epilogues)
            table.push_back({Spinor::precision,
                             link,
                             reals,
                             end.epilogue,
                             1,
                             false,
                             launch_stencil<Where, Spinor, link, reals, min_blocks, block>,
                             file,
                             {block, min_blocks, 1}});
    });
}

// The residual that takes the checksums of links as handed over.
template <class Where, class Spinor, Precision link, int min_blocks, int block>
void add_checked_row(std::vector<DslashKernel> &table, const char *file) {
    table.push_back({Spinor::precision,
                     link,
                     18,
                     Epilogue::residual,
                     1,
                     true,
                     launch_checked_stencil<Where, Spinor, link, 18, min_blocks, block>,
                     file,
                     {block, min_blocks, 1}});
}

// The same for several sources.
template <class Where, class Spinor, Precision link, int min_blocks, class Shape>
void add_sources_rows(std::vector<DslashKernel> &table, const char *file) {
    for_all_reals([&](auto reals) {
        for (const EpilogueTraits &end : epilogues)
            table.push_back({Spinor::precision,
                             link,
                             reals,
                             end.epilogue,
                             max_shifts,
                             false,
                             launch_sources_stencil<Where, Spinor, link, reals, min_blocks, Shape>,
                             file,
                             {tile_sites, Shape::blocks, Shape::together}});
    });
}

} // namespace milcgpu
