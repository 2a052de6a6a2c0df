// True residuals, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_true_residual_cut_rows(std::vector<DslashKernel> &table) {
    full_rows<CutLattice>(table, "gpu_kernels/staggered/true_residual_cut.cu");
}

} // namespace milcgpu
#endif
