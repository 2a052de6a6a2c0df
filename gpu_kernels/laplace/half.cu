// Half precision: links 16-bit fixed point, vectors as in su3/spinor_storage.h, arithmetic in single. As for staggered
// D (dslash/rows.h), 4 blocks of 256 threads an SM leave 64 registers.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<SpinorHalf, 4, 128, 3, SourcesShape<4, 6, 1>>(table, "gpu_kernels/laplace/half.cu");
}

} // namespace milcgpu
