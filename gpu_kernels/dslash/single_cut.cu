// Single precision, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_single_cut_rows(std::vector<DslashKernel> &table) {
    single_rows<CutLattice>(table, "gpu_kernels/dslash/single_cut.cu");
}

} // namespace milcgpu
#endif
