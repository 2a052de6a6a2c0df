// Wilson rows in half precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

void add_half_cut_rows(std::vector<WilsonKernel> &table) {
    half_wilson_rows<CutLattice>(table, "gpu_kernels/wilson/half_cut.cu");
}

} // namespace milcgpu
#endif
