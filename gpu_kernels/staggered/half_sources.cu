// Half precision, several sources, on lattices that are not cut.
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_half_sources_rows(std::vector<DslashKernel> &table) {
    half_sources_rows<OnThisBackend>(table, "gpu_kernels/staggered/half_sources.cu");
}

} // namespace milcgpu
