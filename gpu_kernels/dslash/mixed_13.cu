// Vectors of one precision and links of another, 13 reals a long link, on lattices that are not cut.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_13_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 13>(table, "gpu_kernels/dslash/mixed_13.cu");
}

} // namespace milcgpu
