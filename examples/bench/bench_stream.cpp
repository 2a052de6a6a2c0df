#include "examples/bench/bench_stream.h"
#include "gpu_kernels/machine/portable.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/machine/backend/launch.h"
#endif

namespace examples {
using namespace milcgpu;

#if defined(MILCGPU_WITH_CUDA)
namespace {

constexpr int threads = 512, processors = 132; // of an H100 or H200

struct Chunks {
    uint4 *data;
    size_t count;
    explicit Chunks(const Stream &s) : data(reinterpret_cast<uint4 *>(s.data)), count(s.bytes / sizeof(uint4)) {}
};

__device__ uint32_t sum_of_words(const uint4 &v) { return v.x + v.y + v.z + v.w; }

template <int at_once> __global__ void __launch_bounds__(threads) read_words(Chunks x, Chunks y, uint32_t *sums) {
    cuda::wait_for_previous();
    const size_t apart = size_t(gridDim.x) * threads, all = x.count + y.count;
    uint32_t sum = 0;
    for (size_t i = size_t(blockIdx.x) * threads + threadIdx.x; i < all; i += at_once * apart) {
        uint4 v[at_once];
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
            const size_t at = i + k * apart;
            v[k] = at < x.count ? x.data[at] : at < all ? y.data[at - x.count] : uint4{};
        }
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k)
            sum += sum_of_words(v[k]);
    }
    __shared__ uint32_t of_warp[threads / 32];
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = __reduce_add_sync(~0u, threadIdx.x < threads / 32 ? of_warp[threadIdx.x] : 0);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = sum;
    }
}

template <int at_once, bool onto>
__global__ void __launch_bounds__(threads) write_words(Chunks x, Chunks y, uint32_t *aside) {
    cuda::wait_for_previous();
    const size_t apart = size_t(gridDim.x) * threads, all = max(x.count, y.count);
    uint32_t sum = 0; // of words that are read and not written
    for (size_t i = size_t(blockIdx.x) * threads + threadIdx.x; i < all; i += at_once * apart) {
        uint4 v[at_once], w[at_once];
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
            const size_t at = i + k * apart;
            v[k] = at < x.count ? x.data[at] : uint4{};
            w[k] = onto && at < y.count ? y.data[at] : uint4{};
        }
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
            if (i + k * apart < y.count)
                y.data[i + k * apart] = {v[k].x ^ w[k].x, v[k].y ^ w[k].y, v[k].z ^ w[k].z, v[k].w ^ w[k].w};
            else
                sum |= sum_of_words(v[k]);
        }
    }
    if (sum == 0x9e3779b9u) // almost never true, but keeps the compiler from removing the reads
        aside[blockIdx.x] = sum;
}

} // namespace

int plain_read(Device &device, int shape, const Stream &x, const Stream &y, uint32_t *sums) {
    const int blocks = processors << shape / 2;
    cuda::start(device, "plain read", blocks, threads, shape % 2 == 0 ? read_words<4> : read_words<8>, Chunks(x),
                Chunks(y), sums);
    return blocks;
}

void plain_write(Device &device, int shape, const Stream &x, const Stream &y, bool onto, uint32_t *aside) {
    cuda::start(device, "plain write", processors << shape / 2, threads,
                shape % 2 == 0 ? onto ? write_words<4, true> : write_words<4, false>
                : onto ? write_words<8, true>
                               : write_words<8, false>,
                Chunks(x), Chunks(y), aside);
}
#else
int plain_read(Device &, int, const Stream &, const Stream &, uint32_t *) { return 0; }
void plain_write(Device &, int, const Stream &, const Stream &, bool, uint32_t *) {}
#endif

} // namespace examples
