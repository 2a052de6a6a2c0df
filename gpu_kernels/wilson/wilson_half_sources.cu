// Wilson rows in half precision, several sources. They take long to compile, so they have a file of their own.
#include "gpu_kernels/wilson/wilson_stencil.h"

namespace milcgpu {

template void launch_wilson_of_sources<SpinorHalf, 18, HalfShape<18>>(Device &, const WilsonCall &, Epilogue);
template void launch_wilson_of_sources<SpinorHalf, 12, HalfShape<12>>(Device &, const WilsonCall &, Epilogue);
template void launch_wilson_of_sources<SpinorHalf, 8, HalfShape<8>>(Device &, const WilsonCall &, Epilogue);

} // namespace milcgpu
