// Double precision.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<LaplaceKernel> &table) {
    double_laplace_rows<OnThisBackend>(table, "gpu_kernels/laplace/double.cu");
}

} // namespace milcgpu
