// True residuals, on lattices that are not cut: vectors in double, links as they were handed over.
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_true_residual_rows(std::vector<DslashKernel> &table) {
    full_rows<OnThisBackend>(table, "gpu_kernels/staggered/true_residual.cu");
    checked_rows<OnThisBackend>(table, "gpu_kernels/staggered/true_residual.cu");
}

} // namespace milcgpu
