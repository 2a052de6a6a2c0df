// Launches that sum over their sites (reduce.h) with two threads a site, in different warps. Each thread does half of
// the work, passes the sums that the other thread completes, and completes its own. Half as much work a thread leaves
// less of the GPU idle at the end of a launch, and more warps wait for memory at the same time.
//
// Body: operator() as in reduce.h, for the host; Real; Half, some Reals; prepare_pair(i, k), which may run before the
// previous launch has ended; of_pair(i, k, prepared), with two Halves `kept` and `given`; complete_half(i, k, kept,
// received), the sums of its half.
#pragma once
#include "gpu_kernels/machine/backend/reduce.h"

namespace milcgpu {

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// The numbers that two threads of a site pass to each other, in shared memory, ordered so that a warp's accesses use
// all banks.
template <class Half, class Real> struct Passed {
    static constexpr int count = sizeof(Half) / sizeof(Real);
    Real numbers[2][count][tile_sites];
    __device__ __forceinline__ void give(int k, int lane, const Half &half) {
        Real given[count];
        memcpy(given, &half, sizeof given);
        MILCGPU_UNROLL
        for (int j = 0; j < count; ++j)
            numbers[k][j][lane] = given[j];
    }
    __device__ __forceinline__ Half taken(int k, int lane) const {
        Real of_half[count];
        MILCGPU_UNROLL
        for (int j = 0; j < count; ++j)
            of_half[j] = numbers[k][j][lane];
        Half half;
        memcpy(&half, of_half, sizeof half);
        return half;
    }
};

// A block has one tile.
template <int N, int min_blocks, class Body, class Last, class Before, class Order>
__global__ void __launch_bounds__(2 * tile_sites, min_blocks)
    run_sum_in_pairs(const Body body, const Last finish, int n, const GlobalSum<N> sum, bool defer, const int *gate,
                     int pending_blocks, const Before pending, const Order order) {
    int block = static_cast<int>(blockIdx.x) - pending_blocks;
    const int lane = threadIdx.x % tile_sites, k = threadIdx.x / tile_sites,
              i = tile_of(order, block) * tile_sites + lane;
    const int first = block >= 0 && i < n ? i : 0;
    const auto prepared = body.prepare_pair(first, k);
    if (!has_sites(gate, pending_blocks, pending, block))
        return;
    using Half = typename Body::Half;
    __shared__ Passed<Half, typename Body::Real> passed;
    __shared__ Sums<N> shared[2 * tile_sites / 32], of_second[tile_sites];
    Half kept = {};
    if (i < n) {
        const auto of_pair = body.of_pair(i, k, prepared);
        passed.give(k, lane, of_pair.given);
        kept = of_pair.kept;
    }
    __syncthreads();
    Sums<N> s = {};
    if (i < n) {
        s = body.complete_half(i, k, kept, passed.taken(1 - k, lane));
    }
    if (!finish.wanted())
        return;
    if (k == 1)
        of_second[lane] = s;
    __syncthreads();
    if (k == 0) {
        s.add(of_second[lane]);
        post_warp(sum, i, s, defer);
    }
    if (defer)
        return;
    add_up(finish, sum, k == 0, block + 1, block / group_tiles, shared);
}

} // namespace cuda
#endif

// As launch_sum. min_blocks: blocks of 128 threads that must fit on an SM, which limits the registers of a thread.
// starts_early: the previous launch writes nothing that prepare_pair reads.
template <int N, int min_blocks, class Body, class Last, class Before = NothingPending>
void launch_sum_in_pairs(Device &device, int n, const Body &body, const Last &finish, const SumLaunch &how,
                         bool starts_early, const Before &pending = {}) {
    const GlobalSum<N> sum = global_sum<N>(device, n, how.defer);
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        const auto start = [&](bool finish_later, const Before &before) {
            constexpr int threads = 2 * tile_sites;
            const int pending_blocks = before.blocks(threads);
            cuda::start_as(
                device, how.what, pending_blocks + sum.shape.tiles, threads, 0, starts_early,
                cuda::run_sum_in_pairs<N, min_blocks, Body, Last, Before, OrderOf<Body>>, body, finish, n, sum,
                finish_later, how.gate, pending_blocks, before,
                OrderOf<Body>(order_of_launch(device, n, tile_sites, how.read, finish_later || !finish.wanted())));
        };
        return cuda::start_sum<false>(device, sum, finish, how, pending, start);
    }
#endif
    static_cast<void>(starts_early);
    queue_of(device).about_to(how.what);
    if constexpr (is_on_host<Body>::value)
        host::run_sum<N>(device, n, body, finish, how.gate, sum, how.defer != nullptr, pending);
    else
        host::refuse(how.what);
}

} // namespace milcgpu
