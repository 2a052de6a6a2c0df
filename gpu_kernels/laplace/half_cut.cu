// Half precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/laplace/laplace_stencil.h"

namespace milcgpu {

void add_half_cut_rows(std::vector<LaplaceKernel> &table) {
    half_laplace_rows<CutLattice>(table, "gpu_kernels/laplace/half_cut.cu");
}

} // namespace milcgpu
#endif
