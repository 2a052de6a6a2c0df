// Vectors of one precision and links of another, 12 reals a long link, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_12_cut_rows(std::vector<DslashKernel> &table) {
    mixed_rows<CutLattice, 12>(table, "gpu_kernels/dslash/mixed_12_cut.cu");
}

} // namespace milcgpu
#endif
