// Double precision: 16-byte loads by nature. The arithmetic of one site needs about 120 registers; two blocks of 256 an SM
// (128 registers) keep 16 warps of independent loads in flight, enough for the memory's latency.
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/double.cu";
    add_rows<SpinorDouble, Precision::double_, 2, 128>(table, file);
    add_rows<SpinorDouble, Precision::single, 2, 128>(table, file);
    add_rows<SpinorDouble, Precision::half, 2, 128>(table, file);
}

} // namespace milcgpu
