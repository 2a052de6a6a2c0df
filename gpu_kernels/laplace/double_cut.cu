// Double precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_double_cut_rows(std::vector<LaplaceKernel> &table) {
    double_laplace_rows<CutLattice>(table, "gpu_kernels/laplace/double_cut.cu");
}

} // namespace milcgpu
#endif
