// Single precision, several sources, on lattices that are not cut.
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_single_sources_rows(std::vector<DslashKernel> &table) {
    single_sources_rows<OnThisBackend>(table, "gpu_kernels/staggered/single_sources.cu");
}

} // namespace milcgpu
