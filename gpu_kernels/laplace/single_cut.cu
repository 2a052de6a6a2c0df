// Single precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_single_cut_rows(std::vector<LaplaceKernel> &table) {
    single_laplace_rows<CutLattice>(table, "gpu_kernels/laplace/single_cut.cu");
}

} // namespace milcgpu
#endif
