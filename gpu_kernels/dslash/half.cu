// Half precision: links 16-bit fixed point, spinors one 16-byte word of six 20-bit numbers and their exponent;
// arithmetic in single precision. Conversions run on the integer and fma pipes only (link_storage.h, spinor_storage.h).
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_half_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/half.cu";
    add_rows<SpinorHalf, Precision::double_, 2, 128>(table, file);
    add_rows<SpinorHalf, Precision::single, 4, 128>(table, file);
    add_rows<SpinorHalf, Precision::half, 4, 128>(table, file);
}

} // namespace milcgpu
