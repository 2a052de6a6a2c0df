// Wilson rows in single precision. 2 blocks of 256 threads an SM leave 128 registers.
#include "gpu_kernels/wilson/stencil.h"

namespace milcgpu {

void add_single_rows(std::vector<WilsonKernel> &table) {
    add_wilson_rows<SpinorSingle, WilsonShape<2, 128, 2, 2>>(table, "gpu_kernels/wilson/single.cu");
}

} // namespace milcgpu
