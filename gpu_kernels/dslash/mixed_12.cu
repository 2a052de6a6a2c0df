// Vectors of one precision and links of another, 12 reals a long link, on lattices that are not cut.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_12_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 12>(table, "gpu_kernels/dslash/mixed_12.cu");
}

} // namespace milcgpu
