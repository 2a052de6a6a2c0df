// Half precision.
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<LaplaceKernel> &table) {
    constexpr const char *file = "gpu_kernels/laplace/half.cu";
    half_laplace_rows<OnThisBackend>(table, file);
    add_laplace_rows_of_sources<SpinorHalf, 3, SourcesShape<4, 6, 1>>(table, file);
}

} // namespace milcgpu
