// Wilson rows in half precision.
#include "gpu_kernels/wilson/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<WilsonKernel> &table) {
    half_wilson_rows<OnThisBackend>(table, "gpu_kernels/wilson/half.cu");
}

} // namespace milcgpu
