// Single precision.
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<LaplaceKernel> &table) {
    constexpr const char *file = "gpu_kernels/laplace/single.cu";
    single_laplace_rows<OnThisBackend>(table, file);
    add_laplace_rows_of_sources<SpinorSingle, 3, SourcesShape<4, 6, 4>>(table, file);
}

} // namespace milcgpu
