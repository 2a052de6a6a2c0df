// Wilson rows in double precision.
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<WilsonKernel> &table) {
    double_wilson_rows<OnThisBackend>(table, "gpu_kernels/wilson/double.cu");
}

} // namespace milcgpu
