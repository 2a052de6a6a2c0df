// Launches a body over sites, on the GPU or on the host. A body is a struct with `MILCGPU_HD void operator()(int i)
// const`. Launches that also sum: reduce.h.
#pragma once
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/launch_queue.h"
#include "gpu_kernels/machine/backend/launch_types.h"
#include <algorithm>
#include <cmath>

#if defined(MILCGPU_WITH_CUDA) && !defined(__CUDACC__)
#error "launch.h holds kernels: include it from .cu files only"
#endif

namespace milcgpu {

constexpr int max_block = 256; // threads of the largest block of any kernel

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// A launch may start while the previous one ends (programmatic dependent launch, from sm_90 on). Its blocks start as
// soon as the GPU has room, and wait here for the end of the previous launch. That hides the time that it takes to
// start blocks. Every kernel begins with this call.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Replaces that call in a kernel that may run beside the previous launch. That launch has started, and the launches
// before it have ended. The kernel does not end before the previous launch, so work that waits for the kernel waits for
// both.
class AfterPrevious {
  public:
    __device__ __forceinline__ explicit AfterPrevious(bool beside) : beside_(beside) {
        if (!beside)
            wait_for_previous();
#if __CUDA_ARCH__ >= 900
        else
            cudaTriggerProgrammaticLaunchCompletion();
#endif
    }
    __device__ __forceinline__ ~AfterPrevious() {
#if __CUDA_ARCH__ >= 900
        if (beside_ && blockIdx.x == gridDim.x - 1)
            cudaGridDependencySynchronize();
#endif
    }

  private:
    const bool beside_;
};

// shared_bytes: dynamic shared memory of the kernel. starts_early: it may start while the previous launch ends.
template <class... Parameters, class... Arguments>
void start_as(Device &device, const char *what, int blocks, int threads, size_t shared_bytes, bool starts_early,
              void (*kernel)(Parameters...), const Arguments &...arguments) {
    LaunchQueue &queue = queue_of(device);
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(queue.stream());
    config.attrs = &early, config.numAttrs = queue.next_starts_early() && starts_early ? 1 : 0;
    queue.about_to(what);
    queue.before_launch_of(reinterpret_cast<const void *>(kernel));
    if (shared_bytes > 48 * 1024) // CUDA allows more only on request
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    cudaLaunchKernelEx(&config, kernel, arguments...);
    queue.check_launch(what);
}

template <class... Parameters, class... Arguments>
void start_with_shared(Device &device, const char *what, int blocks, int threads, size_t shared_bytes,
                       void (*kernel)(Parameters...), const Arguments &...arguments) {
    start_as(device, what, blocks, threads, shared_bytes, true, kernel, arguments...);
}

template <class... Parameters, class... Arguments>
void start(Device &device, const char *what, int blocks, int threads, void (*kernel)(Parameters...),
           const Arguments &...arguments) {
    start_with_shared(device, what, blocks, threads, 0, kernel, arguments...);
}

template <class Body> __device__ __forceinline__ void run_body(const Body &body, int n) {
    wait_for_previous();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        body(i);
}
template <class Body> __global__ void __launch_bounds__(max_block) run(const Body body, int n) { run_body(body, n); }
template <class Body, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks) run_bounded(const Body body, int n) {
    run_body(body, n);
}

} // namespace cuda
#endif

// The order of tiles of `a_tile` sites. Slices stay whole if the slices that are read take at most slices_fit of the L2
// cache; otherwise each part of them takes about part_of_cache of it. Time saved by this order:
//   12 sources in single at 40^4 (74 MB), 5 to 8 parts; 4 sources (25 MB), 3 to 6 (H100, whole steps)    10 %; 6 %
//   one source at 64^3 x 48, double (50 MB), single (25 MB) (H200, D)                                    4 %; 1 to 3 %
//   one source at 96^3 x 16, double, single, half (H200, D)                                              3, 5, 6 %
//   Wilson, one source in double at 64^3 x 16; 12 at 24^3 x 32 (H100, D)                                 16 %; 15 %
constexpr double slices_fit = 0.4, part_of_cache = 0.22;
inline TileOrder order_of_tiles(const Device &device, int sites, int a_tile, const SlicesRead &read) {
    const int slice = (sites / read.slices + a_tile / 2) / a_tile;
    TileOrder order{(sites - 1) / a_tile + 1, 0, slice, sites / a_tile / std::max(slice, 1)};
    const double cache = static_cast<double>(queue_of(device).cache_bytes());
    if (read.bytes > slices_fit * cache && slice >= 2)
        order.part =
            (slice - 1) / static_cast<int>(std::fmin(std::ceil(read.bytes / (part_of_cache * cache)), slice)) + 1;
    return order;
}

// sites: the number of sites that the n calls of body cover together.
template <class Body> void run_on_host(int n, int sites, const Body &body) {
    for_each_on_host(n, sites >= few_sites, body);
}

// Calls body(i) for i in [0, n). block: threads per block on the GPU, a multiple of 64 up to 256.
template <class Body> void launch(Device &device, int n, const Body &body, const char *what, int block = 128) {
#if defined(MILCGPU_WITH_CUDA)
    if (n > 0 && queue_of(device).on_gpu()) {
        const int threads = queue_of(device).block() > 0 ? queue_of(device).block() : block;
        cuda::start(device, what, (n + threads - 1) / threads, threads, cuda::run<Body>, body, n);
        return;
    }
#endif
    static_cast<void>(block);
    queue_of(device).about_to(what);
    run_on_host(n, n, body);
}

// As above, in blocks of `threads`. The compiler limits registers so that `blocks` of them fit on a multiprocessor.
template <int threads, int blocks, class Body>
void launch_bounded(Device &device, int n, const Body &body, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (n > 0 && queue_of(device).on_gpu()) {
        cuda::start(device, what, (n + threads - 1) / threads, threads, cuda::run_bounded<Body, threads, blocks>, body,
                    n);
        return;
    }
#endif
    queue_of(device).about_to(what);
    run_on_host(n, n, body);
}

} // namespace milcgpu
