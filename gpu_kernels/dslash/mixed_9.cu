// Vectors of one precision and links of another, 9 reals a long link, on all lattices.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_9_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 9>(table, "gpu_kernels/dslash/mixed_9.cu");
}
#if defined(MILCGPU_WITH_CUDA)
void add_mixed_9_cut_rows(std::vector<DslashKernel> &table) {
    mixed_rows<CutLattice, 9>(table, "gpu_kernels/dslash/mixed_9.cu");
}
#endif

} // namespace milcgpu
