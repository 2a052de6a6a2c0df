#include "gpu_kernels/machine/backend/wake.h"
#if defined(MILCGPU_WITH_CUDA)
#include <cuda_runtime.h>

void milcgpu::wake(int ordinal) noexcept {
    if (cudaSetDevice(ordinal) != cudaSuccess || cudaFree(nullptr) != cudaSuccess)
        cudaGetLastError();
}
#else
void milcgpu::wake(int) noexcept {}
#endif
