// Vectors of one precision and links of another, 9 reals a long link, on lattices that are not cut.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_9_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 9>(table, "gpu_kernels/dslash/mixed_9.cu");
}

} // namespace milcgpu
