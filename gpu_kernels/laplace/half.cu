// Half precision.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<LaplaceKernel> &table) {
    half_laplace_rows<OnThisBackend>(table, "gpu_kernels/laplace/half.cu");
}

} // namespace milcgpu
