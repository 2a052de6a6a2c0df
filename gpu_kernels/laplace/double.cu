// Double precision. As for staggered D (dslash/rows.h), registers are not bounded: few threads with many loads on their
// way serve the memory better than many with few.
#include "gpu_kernels/laplace/stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<SpinorDouble, 1, 128, 1, SourcesShape<4, 4, 1>>(table, "gpu_kernels/laplace/double.cu");
}

} // namespace milcgpu
