// Single precision, on lattices that are not cut. The host backend takes the cut form for both: it costs a test a
// neighbour there, and half the time to compile.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_single_rows(std::vector<DslashKernel> &table) {
    single_rows<OnThisBackend>(table, "gpu_kernels/dslash/single.cu");
}

} // namespace milcgpu
