// Half precision, one source, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_half_cut_rows(std::vector<DslashKernel> &table) {
    own_rows<CutLattice, SpinorHalf>(table, "gpu_kernels/staggered/half_cut.cu");
}

} // namespace milcgpu
#endif
