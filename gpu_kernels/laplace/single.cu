// Single precision. As for staggered D (dslash/rows.h), 3 blocks of 256 threads an SM leave 80 registers.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<SpinorSingle, 3, 128, 3, SourcesShape<4, 6, 4>>(table, "gpu_kernels/laplace/single.cu");
}

} // namespace milcgpu
