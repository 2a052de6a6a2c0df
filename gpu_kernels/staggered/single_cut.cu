// Single precision, one source, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_single_cut_rows(std::vector<DslashKernel> &table) {
    own_rows<CutLattice, SpinorSingle>(table, "gpu_kernels/staggered/single_cut.cu");
}

} // namespace milcgpu
#endif
