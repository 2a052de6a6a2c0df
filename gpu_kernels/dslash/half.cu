// Half precision, on lattices that are not cut. The host backend takes the cut form for both: it costs a test a
// neighbour there, and half the time to compile.
#include "gpu_kernels/dslash/rows.h"

namespace milcgpu {

void add_half_rows(std::vector<DslashKernel> &table) { half_rows<OnThisBackend>(table, "gpu_kernels/dslash/half.cu"); }

} // namespace milcgpu
