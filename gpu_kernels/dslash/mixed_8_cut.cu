// Vectors of one precision and links of another, 8 reals a long link, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_8_cut_rows(std::vector<DslashKernel> &table) {
    mixed_rows<CutLattice, 8>(table, "gpu_kernels/dslash/mixed_8_cut.cu");
}

} // namespace milcgpu
#endif
