// Single precision, one source, on lattices that are not cut. The host backend takes the cut form for both: it costs a
// test a neighbour there, and half the time to compile.
#include "gpu_kernels/staggered/rows.h"

namespace milcgpu {

void add_single_rows(std::vector<DslashKernel> &table) {
    own_rows<OnThisBackend, SpinorSingle>(table, "gpu_kernels/staggered/single.cu");
}

} // namespace milcgpu
