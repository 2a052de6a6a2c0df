// Half precision: links 16-bit fixed point, spinors one 16-byte word of six 20-bit numbers and their exponent;
// arithmetic in single precision. Conversions run on the integer and fma pipes only (link_storage.h, spinor_storage.h).
//
// 4 blocks of 256 threads an SM leave 64 registers; 48 (5 blocks) were 20 to 50 % slower, 80 (3 blocks) no faster.
// Links in double take twice the registers while they are decoded: 2 blocks. Blocks of 128 threads: 64 and 256 were no
// faster.
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/half.cu";
    add_rows<SpinorHalf, Precision::double_, 2, 128>(table, file);
    add_rows<SpinorHalf, Precision::single, 4, 128>(table, file);
    add_rows<SpinorHalf, Precision::half, 4, 128>(table, file);
}

} // namespace milcgpu
