// The rows of the dslash table, with their launch shapes: blocks of 256 threads that must fit on an SM, which bounds
// the registers a thread.
//
// Several sources without sums, in blocks of 64 threads: in single and half a thread does 6 sources in 128 registers (8
// blocks on an SM) and 8 in 168, in double 4 in 255. In single precision 9 to 12 sources are done by two warps that
// share links; in half precision that was slower. The addresses of the sources stay in registers where that was
// faster: in double by 4 %, in half precision by 1 to 3 %, but not with six, where they do not fit. In a conjugate
// gradient, with sums, a thread does one source: four were 3 to 20 % slower at 16^4, because one block adds the sums of
// its four sources one after the other.
#pragma once
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

// Double precision: 16-byte loads by nature. The arithmetic of one site needs about 120 registers; few threads with
// many independent loads in flight serve the memory better than many with few (80 registers: 9 % slower with 13 reals),
// so registers are not bounded. Links in single leave room for 2 blocks of 256 threads an SM.
//
// Single precision: links as float4 stripes, spinors as three float2. 3 blocks of 256 threads an SM leave 80 registers,
// which the arithmetic of a site fits in.
//
// Half precision: links 16-bit fixed point, spinors one 16-byte word of six 20-bit numbers and their exponent;
// arithmetic in single precision. Conversions run on the integer and fma pipes only (link_storage.h, spinor_storage.h).
// 4 blocks of 256 threads an SM leave 64 registers; 48 (5 blocks) were 20 to 50 % slower, 80 (3 blocks) no faster.
template <class Spinor, Precision link> constexpr int blocks_an_sm() {
    if (Spinor::precision == Precision::double_)
        return link == Precision::double_ ? 1 : 2;
    return Spinor::precision == Precision::single ? 3 : 4;
}

// Vectors and links of one precision, one source.
template <class Where, class Spinor> void own_rows(std::vector<DslashKernel> &table, const char *file) {
    constexpr Precision link = Spinor::precision;
    for_all_reals([&](auto reals) { add_rows<Where, Spinor, link, reals, blocks_an_sm<Spinor, link>()>(table, file); });
}

// The same, several sources.
template <class Where> void double_sources_rows(std::vector<DslashKernel> &table, const char *file) {
    add_sources_rows<Where, SpinorDouble, Precision::double_, 1, SourcesShape<4, 4, 1>>(table, file);
}
template <class Where> void single_sources_rows(std::vector<DslashKernel> &table, const char *file) {
    add_sources_rows<Where, SpinorSingle, Precision::single, 3, SingleSources>(table, file);
}
template <class Where> void half_sources_rows(std::vector<DslashKernel> &table, const char *file) {
    add_sources_rows<Where, SpinorHalf, Precision::half, 3, HalfSources>(table, file);
}

// True residuals of links that were handed over in single: vectors in double, links as they are.
template <class Where> void full_rows(std::vector<DslashKernel> &table, const char *file) {
    constexpr Precision link = Precision::single;
    add_rows<Where, SpinorDouble, link, 18, blocks_an_sm<SpinorDouble, link>()>(table, file);
}

// The residual that computes the checksums of links as handed over. A template, so that one file alone has its kernels.
template <class Where> void checked_rows(std::vector<DslashKernel> &table, const char *file) {
    add_checked_row<Where, Precision::double_, blocks_an_sm<SpinorDouble, Precision::double_>()>(table, file);
    add_checked_row<Where, Precision::single, blocks_an_sm<SpinorDouble, Precision::single>()>(table, file);
}

} // namespace milcgpu
