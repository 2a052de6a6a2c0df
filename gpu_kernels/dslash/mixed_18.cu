// Vectors of one precision and links of another, 18 reals a long link, on lattices that are not cut.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_mixed_18_rows(std::vector<DslashKernel> &table) {
    mixed_rows<OnThisBackend, 18>(table, "gpu_kernels/dslash/mixed_18.cu");
}

} // namespace milcgpu
