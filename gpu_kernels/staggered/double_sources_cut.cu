// Double precision, several sources, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_double_sources_cut_rows(std::vector<DslashKernel> &table) {
    double_sources_rows<CutLattice>(table, "gpu_kernels/staggered/double_sources_cut.cu");
}

} // namespace milcgpu
#endif
