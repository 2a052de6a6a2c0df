// Wilson rows in half precision. Those of several sources are compiled in half_sources.cu.
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

extern template void launch_wilson_of_sources<SpinorHalf, 18, HalfShape<18>>(Device &, const WilsonCall &, Epilogue);
extern template void launch_wilson_of_sources<SpinorHalf, 12, HalfShape<12>>(Device &, const WilsonCall &, Epilogue);
extern template void launch_wilson_of_sources<SpinorHalf, 8, HalfShape<8>>(Device &, const WilsonCall &, Epilogue);

void add_half_rows(std::vector<WilsonKernel> &table) {
    half_wilson_rows<OnThisBackend>(table, "gpu_kernels/wilson/half.cu");
}

} // namespace milcgpu
