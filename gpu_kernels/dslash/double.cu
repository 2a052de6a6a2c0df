// Double precision: 16-byte loads by nature. The arithmetic of one site needs about 120 registers; few threads with
// many independent loads in flight serve the memory better than many with few (80 registers: 9 % slower with 13 reals),
// so registers are not bounded. Links in single or half leave room for 2 blocks of 256 threads an SM.
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<DslashKernel> &table) {
    constexpr const char *file = "gpu_kernels/dslash/double.cu";
    add_rows<SpinorDouble, Precision::double_, 1, 128>(table, file);
    add_rows<SpinorDouble, Precision::single, 2, 128>(table, file);
    add_rows<SpinorDouble, Precision::half, 2, 128>(table, file);
    add_checked_row<SpinorDouble, Precision::double_, 1, 128>(table, file);
    add_checked_row<SpinorDouble, Precision::single, 2, 128>(table, file);
}

} // namespace milcgpu
