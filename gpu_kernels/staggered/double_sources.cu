// Double precision, several sources, on lattices that are not cut.
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_double_sources_rows(std::vector<DslashKernel> &table) {
    double_sources_rows<OnThisBackend>(table, "gpu_kernels/staggered/double_sources.cu");
}

} // namespace milcgpu
