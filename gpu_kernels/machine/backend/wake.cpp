#include "gpu_kernels/machine/backend/wake.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/machine/backend/device.h"
#include <cuda_runtime.h>

void milcgpu::wake(int number) noexcept {
    const int count = Device::gpu_count();
    if (count > 0 && (cudaSetDevice(number % count) != cudaSuccess || cudaFree(nullptr) != cudaSuccess))
        cudaGetLastError();
}
#else
void milcgpu::wake(int) noexcept {}
#endif
