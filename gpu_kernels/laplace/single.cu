// Single precision.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<LaplaceKernel> &table) {
    single_laplace_rows<OnThisBackend>(table, "gpu_kernels/laplace/single.cu");
}

} // namespace milcgpu
