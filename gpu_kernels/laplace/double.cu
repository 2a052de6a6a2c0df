// Double precision.
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<LaplaceKernel> &table) {
    constexpr const char *file = "gpu_kernels/laplace/double.cu";
    double_laplace_rows<OnThisBackend>(table, file);
    add_laplace_rows_of_sources<SpinorDouble, 1, SourcesShape<4, 4, 1>>(table, file);
}

} // namespace milcgpu
