// The rows of the dslash table with their launch shapes: the number of blocks of 256 threads that must fit on an SM,
// which limits the registers of a thread.
//
// Several sources without sums run in blocks of 64 threads: in single and half a thread does 6 sources in 128 registers
// (8 blocks on an SM) and 8 in 168, in double 4 in 255. In single precision 9 to 12 sources are done by two warps that
// share links; in half precision that was slower. The addresses of the sources stay in registers where that was faster:
// in double by 4 %, in half precision by 1 to 3 %, but not with six, where they do not fit. In a conjugate gradient,
// with sums, a thread does one source: four were 3 to 20 % slower at 16^4, because one block adds the sums of its four
// sources one after the other.
#pragma once
#include "gpu_kernels/staggered/lanes_stencil.h"
#include "gpu_kernels/staggered/staggered_stencil.h"

namespace milcgpu {

// As SourcesShape in sources.h.
struct SingleSources {
    static constexpr int together = 8, sharing = 6;
    static constexpr int blocks(int count) { return count == 6 ? 8 : 6; }
    MILCGPU_HD static constexpr int directions(int count) { return count <= 2 ? 4 : 1; }
    MILCGPU_HD static constexpr bool addresses(int) { return false; }
};
struct HalfSources {
    static constexpr int together = 8, sharing = 0;
    static constexpr int blocks(int count) { return count == 4 || count == 6 ? 8 : 6; }
    MILCGPU_HD static constexpr int directions(int) { return 1; }
    MILCGPU_HD static constexpr bool addresses(int count) { return count != 6; }
};

// Double precision: loads have 16 bytes anyway. The arithmetic of one site needs about 120 registers; few threads with
// many independent loads in flight use the memory better than many threads with few loads (80 registers: 9 % slower
// with 13 reals), so registers are not limited. Links in single leave room for 2 blocks of 256 threads on an SM.
//
// Single precision: links as float4 stripes, spinors as three float2. 3 blocks of 256 threads on an SM leave 80
// registers, in which the arithmetic of a site fits.
//
// Half precision: links 16-bit fixed point, spinors one 16-byte word of six 20-bit numbers and their exponent;
// arithmetic in single precision. Conversions run on the integer and fma pipes only (link_storage.h, spinor_storage.h).
// 4 blocks of 256 threads on an SM leave 64 registers; 48 (5 blocks) were 20 to 50 % slower, 80 (3 blocks) no faster.
template <class Spinor, Precision link> constexpr int blocks_an_sm() {
    if (Spinor::precision == Precision::double_)
        return link == Precision::double_ ? 1 : 2;
    return Spinor::precision == Precision::single ? 3 : 4;
}

// One source, with vectors and links of one precision.
template <class Where, class Spinor> void add_own_rows(std::vector<DslashKernel> &table) {
    constexpr Precision link = Spinor::precision;
    for_each_of<18, 13, 12, 9, 8>([&](auto reals) {
        using Of = OfStaggered<Where, Spinor, link, reals>;
        add_rows_of_one<Of, blocks_an_sm<Spinor, link>(), one_source_block>(table, Of::key);
    });
}
template <class Where> void double_rows(std::vector<DslashKernel> &table) { add_own_rows<Where, SpinorDouble>(table); }
template <class Where> void single_rows(std::vector<DslashKernel> &table) { add_own_rows<Where, SpinorSingle>(table); }
template <class Where> void half_rows(std::vector<DslashKernel> &table) { add_own_rows<Where, SpinorHalf>(table); }

// Several sources, with vectors and links of one precision.
template <class Where, class Spinor, int min_blocks, class Shape, int... reals_of_rows>
void add_sources_rows(std::vector<DslashKernel> &table) {
    for_each_of<reals_of_rows...>([&](auto reals) {
        using Of = OfStaggered<Where, Spinor, Spinor::precision, reals>;
        add_rows_of_several<Of, min_blocks, Shape>(table, Of::key);
    });
}
template <class Where> void double_sources_rows(std::vector<DslashKernel> &table) {
    add_sources_rows<Where, SpinorDouble, 1, SourcesShape<4, 4, 1>, 18, 13, 12, 9, 8>(table);
}
template <class Where> void single_sources_rows(std::vector<DslashKernel> &table) {
    add_sources_rows<Where, SpinorSingle, 3, SingleSources, 18>(table);
}
// A part of its own, for which gcc may vectorize (compile.mk).
template <class Where> void single_fewer_reals_rows(std::vector<DslashKernel> &table) {
    add_sources_rows<Where, SpinorSingle, 3, SingleSources, 13, 12, 9, 8>(table);
}
template <class Where> void half_sources_rows(std::vector<DslashKernel> &table) {
    add_sources_rows<Where, SpinorHalf, 3, HalfSources, 18, 13, 12, 9, 8>(table);
}

// True residuals of links that the caller passed in single: vectors in double, links as passed. On whole lattices also
// the residuals that compute the checksums of links as passed.
template <class Where> void true_residual_rows(std::vector<DslashKernel> &table) {
    using Of = OfStaggered<Where, SpinorDouble, Precision::single, 18>;
    add_rows_of_one<Of, blocks_an_sm<SpinorDouble, Precision::single>(), one_source_block>(table, Of::key);
    if constexpr (std::is_same<Where, OnThisBackend>::value) {
        constexpr int of_double = blocks_an_sm<SpinorDouble, Precision::double_>(),
                      of_single = blocks_an_sm<SpinorDouble, Precision::single>();
        const auto add = [&](Precision link, DslashKernel::Launch *launch, int min_blocks) {
            table.push_back({{Precision::double_, link, 18, Epilogue::residual, 1, 4, true},
                             launch,
                             {one_source_block, min_blocks, 1}});
        };
        add(Precision::double_, launch_checked_stencil<Where, Precision::double_, of_double>, of_double);
        add(Precision::single, launch_checked_stencil<Where, Precision::single, of_single>, of_single);
    }
}

// Several sites at once, on the host. The launch shape is the GPU's, and means nothing here.
template <class Where> void lanes_rows([[maybe_unused]] std::vector<DslashKernel> &table) {
#if MILCGPU_LANES
    const auto add = [&](auto of) {
        using Of = decltype(of);
        add_rows_of_one<Of, 1, one_source_block>(table, Of::key);
        add_rows_of_several<Of, 1, SourcesShape<1, 1, 4>>(table, Of::key);
    };
    add(OfLanes<SpinorSingle, Precision::single>()), add(OfLanes<SpinorSingle, Precision::half>());
    add(OfLanes<SpinorDouble, Precision::double_>());
#endif
}

} // namespace milcgpu
