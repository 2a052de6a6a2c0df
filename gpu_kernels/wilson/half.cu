// Wilson rows in half precision: links 16-bit fixed point, spinors an exponent a colour vector; arithmetic in single
// precision. 2 blocks of 256 threads an SM leave 128 registers.
#include "gpu_kernels/wilson/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<WilsonKernel> &table) {
    add_wilson_rows<SpinorHalf, WilsonShape<2, 128, 2, 2>>(table, "gpu_kernels/wilson/half.cu");
}

} // namespace milcgpu
