// Single precision: links as float4 stripes, spinors as three float2.
//
// 3 blocks of 256 threads an SM leave 80 registers, which the arithmetic of a site fits in; with links in double, which
// take twice the registers while they are decoded, 2 blocks. Blocks of 128 threads: 64 and 256 were no faster.
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/single.cu";
    add_rows<SpinorSingle, Precision::double_, 2, 128>(table, file);
    add_rows<SpinorSingle, Precision::single, 3, 128>(table, file);
    add_rows<SpinorSingle, Precision::half, 3, 128>(table, file);
    add_sources_rows<SpinorSingle, Precision::single, 3>(table, file);
}

} // namespace milcgpu
