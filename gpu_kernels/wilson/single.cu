// Wilson rows in single precision.
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<WilsonKernel> &table) {
    single_wilson_rows<OnThisBackend>(table, "gpu_kernels/wilson/single.cu");
}

} // namespace milcgpu
