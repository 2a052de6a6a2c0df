// Single precision: links as float4 stripes, spinors as three float2.
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/single.cu";
    add_rows<SpinorSingle, Precision::double_, 2, 128>(table, file);
    add_rows<SpinorSingle, Precision::single, 3, 128>(table, file);
    add_rows<SpinorSingle, Precision::half, 3, 128>(table, file);
}

void add_single_batch_rows(std::vector<DslashBatchKernel> &table) {
    add_batch_rows<SpinorSingle, Precision::single, 3>(table, "gpu_kernels/dslash/single.cu");
}

} // namespace milcgpu
