// Wilson rows in single precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

void add_single_cut_rows(std::vector<WilsonKernel> &table) {
    single_wilson_rows<CutLattice>(table, "gpu_kernels/wilson/single_cut.cu");
}

} // namespace milcgpu
#endif
