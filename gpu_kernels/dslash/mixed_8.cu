// Vectors of one precision and links of another, 8 reals a long link, on all lattices.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_8_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 8>(table, "gpu_kernels/dslash/mixed_8.cu");
}
#if defined(MILCGPU_WITH_CUDA)
void add_mixed_8_cut_rows(std::vector<DslashKernel> &table) {
    mixed_rows<CutLattice, 8>(table, "gpu_kernels/dslash/mixed_8.cu");
}
#endif

} // namespace milcgpu
