// Vectors of one precision and links of another, 8 reals a long link, on lattices that are not cut.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_8_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 8>(table, "gpu_kernels/dslash/mixed_8.cu");
}

} // namespace milcgpu
