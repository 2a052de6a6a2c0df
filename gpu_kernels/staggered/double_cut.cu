// Double precision, one source, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_double_cut_rows(std::vector<DslashKernel> &table) {
    own_rows<CutLattice, SpinorDouble>(table, "gpu_kernels/staggered/double_cut.cu");
}

} // namespace milcgpu
#endif
