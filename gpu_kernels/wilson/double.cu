// Wilson rows in double precision. Registers are not bounded: few threads with many loads in flight.
#include "gpu_kernels/wilson/stencil.h"

namespace milcgpu {

void add_double_rows(std::vector<WilsonKernel> &table) {
    add_wilson_rows<SpinorDouble, WilsonShape<1, 128, 1, 1>>(table, "gpu_kernels/wilson/double.cu");
}

} // namespace milcgpu
