// Vectors of one precision and links of another, 18 reals a long link, on cut lattices.
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_18_cut_rows(std::vector<DslashKernel> &table) {
    mixed_rows<CutLattice, 18>(table, "gpu_kernels/dslash/mixed_18_cut.cu");
}

} // namespace milcgpu
#endif
