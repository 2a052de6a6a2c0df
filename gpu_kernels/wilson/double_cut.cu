// Wilson rows in double precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

void add_double_cut_rows(std::vector<WilsonKernel> &table) {
    double_wilson_rows<CutLattice>(table, "gpu_kernels/wilson/double_cut.cu");
}

} // namespace milcgpu
#endif
