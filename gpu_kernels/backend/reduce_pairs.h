// Launches that sum over their sites (reduce.h) with two threads a site. Thread k of a site does half k of its work in
// another warp than the other thread, passes what that one ends, and ends the rest. Half as much work a thread leaves
// less of the GPU idle at the end of a launch, and more warps wait for memory at the same time.
//
// Body: operator() as in reduce.h, for the host; Real; Half, some Reals; near_pair(i, k), which needs no memory;
// prepare_pair(i, k, what that made), which may run before the launch before has ended; of_pair(i, k, what that made),
// with two Halves `kept` and `given`; complete_half(i, k, kept, received), the sums of its half.
#pragma once
#include "gpu_kernels/backend/l2_sides.h"
#include "gpu_kernels/backend/reduce.h"

namespace milcgpu {

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// What two threads of a site pass to each other, in shared memory, number by number: a warp's numbers have all banks.
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
template <int N, int min_blocks, class Body, class Last, class Before>
__global__ void __launch_bounds__(2 * tile_sites, min_blocks)
    run_sum_in_pairs(const Body body, const Last finish, int n, const GlobalSum<N> sum, bool defer, const int *gate,
                     int pending_blocks, const Before pending) {
    int block = static_cast<int>(blockIdx.x) - pending_blocks;
    const int lane = threadIdx.x % tile_sites, k = threadIdx.x / tile_sites, i = block * tile_sites + lane;
    const int first = block >= 0 && i < n ? i : 0;
    const auto prepared = body.prepare_pair(first, k, body.near_pair(first, k));
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

// The two warps that do the same sites wait for each other. Barrier 0 is that of the block.
__device__ __forceinline__ void wait_for_other_half(int lane) {
    asm volatile("bar.sync %0, 64;" ::"r"(1 + lane / 32) : "memory");
}

// The same for as many blocks as fit on the GPU, without a sum. Each claims tiles of its side (l2_sides.h), two ahead:
// what it prepares for the next tile is on its way before this one is ended. whole: all tiles are, so that no branch is
// needed. Then the neighbours for the next tile are found before this tile is done, and only the two warps of the same
// sites wait for each other before it is ended. In bodies that wait for memory alone (Wilson D in single with 18 and 12
// reals) the compiler places loads better with the branches, and they are faster so.
template <int min_blocks, bool whole, class Body, class Before>
__global__ void __launch_bounds__(2 * tile_sites, min_blocks)
    run_in_pairs_by_side(const Body body, int n, const int *gate, int pending_blocks, const Before pending,
                         const TilesBySide tiles) {
    __shared__ int claimed_tile[2];
    const bool claims = threadIdx.x == 0 && static_cast<int>(blockIdx.x) >= pending_blocks;
    TilesBySide::Claimant who = {};
    if (claims) {
        who = tiles.claimant();
        claimed_tile[0] = tiles.tile(who, tiles.claim(who.side));
        claimed_tile[1] = claimed_tile[0] >= 0 ? tiles.tile(who, tiles.claim(who.side)) : -1;
    } else if (threadIdx.x == 0) {
        claimed_tile[0] = claimed_tile[1] = -1;
    }
    __syncthreads();
    const int lane = threadIdx.x % tile_sites, k = threadIdx.x / tile_sites;
    int tile = claimed_tile[0], next = claimed_tile[1], i = tile * tile_sites + lane, block;
    __syncthreads(); // all have read it: the loop writes it again
    // Loads do not pass a branch: without a site they are of the first.
    const auto near_of = [&](int of_tile) {
        struct Found {
            int at;
            decltype(body.near_pair(0, k)) near;
        };
        const int at = of_tile >= 0 && (whole || i < n) ? i : 0;
        return Found{at, body.near_pair(at, k)};
    };
    auto found = near_of(tile);
    auto prepared = body.prepare_pair(found.at, k, found.near);
    if (!has_sites(gate, pending_blocks, pending, block)) {
        if (claims)
            tiles.skip();
        return;
    }
    using Half = typename Body::Half;
    __shared__ Passed<Half, typename Body::Real> passed;
    for (int turn = 0; tile >= 0; turn ^= 1) {
        unsigned claimed = 0;
        if (claims && next >= 0)
            claimed = tiles.claim(who.side);
        const int now = i;
        i = next * tile_sites + lane;
        if constexpr (whole)
            found = near_of(next);
        Half kept = {};
        if (whole || now < n) {
            const auto of_pair = body.of_pair(now, k, prepared);
            passed.give(k, lane, of_pair.given);
            kept = of_pair.kept;
        }
        if constexpr (!whole)
            found = near_of(next);
        prepared = body.prepare_pair(found.at, k, found.near);
        if (claims)
            claimed_tile[turn] = next >= 0 ? tiles.tile(who, claimed) : -1;
        if constexpr (whole)
            wait_for_other_half(lane);
        else
            __syncthreads();
        if (whole || now < n) {
            body.complete_half(now, k, kept, passed.taken(1 - k, lane));
        }
        if constexpr (whole)
            __syncthreads();
        tile = next, next = claimed_tile[turn];
        if constexpr (!whole)
            __syncthreads();
    }
}

} // namespace cuda
#endif

// As launch_sum. min_blocks: blocks of 128 threads that must fit on an SM, which limits the registers of a thread.
// starts_early: the launch before writes nothing that prepare_pair reads.
template <int N, int min_blocks, class Body, class Last, class Before = NothingPending>
void launch_sum_in_pairs(Device &device, int n, const Body &body, const Last &finish, const SumLaunch &how,
                         bool starts_early, const Before &pending = {}) {
    const GlobalSum<N> sum = global_sum<N>(device, n, how.defer);
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu()) {
        const auto start = [&](bool finish_later, const Before &before) {
            constexpr int threads = 2 * tile_sites;
            const int pending_blocks = before.blocks(threads);
            cuda::start_as(device, how.what, pending_blocks + sum.shape.tiles, threads, 0, starts_early,
                           cuda::run_sum_in_pairs<N, min_blocks, Body, Last, Before>, body, finish, n, sum,
                           finish_later, how.gate, pending_blocks, before);
        };
        return cuda::start_sum<false>(device, sum, finish, how, pending, start);
    }
#endif
    static_cast<void>(starts_early);
    device.about_to(how.what);
    host::run_sum<N>(device, n, body, finish, how.gate, sum, how.defer != nullptr, pending);
}

// Without a sum, by the sides of the L2 cache: each side takes half of the time slices. Returns false, and launches
// nothing, where that does not pay: where a block would have few tiles, or where four slices (slice_bytes: all that a
// launch moves) are more than the cache holds, or (whole) where the last tile is not whole. Wilson D on an H200 took 2
// to 11 % less time below that, and up to 3 % more above.
template <int min_blocks, bool whole, class Body, class Before>
bool launch_in_pairs_by_side(Device &device, int n, double slice_bytes, const Body &body, const SumLaunch &how,
                             bool starts_early, const Before &pending) {
#if defined(MILCGPU_WITH_CUDA)
    constexpr int least_turns = 3, threads = 2 * tile_sites;
    const L2Sides sides = device.ranks() == nullptr ? l2_sides(device) : L2Sides();
    const int blocks = min_blocks * (sides.sms[0] + sides.sms[1]), tiles = (n + tile_sites - 1) / tile_sites;
    if (sides.side == nullptr || (whole && n % tile_sites != 0) || tiles < least_turns * blocks ||
        4 * slice_bytes > device.cache_bytes())
        return false;
    const int pending_blocks = pending.blocks(threads);
    cuda::start_as(device, how.what, pending_blocks + blocks, threads, 0, starts_early,
                   cuda::run_in_pairs_by_side<min_blocks, whole, Body, Before>, body, n, how.gate, pending_blocks,
                   pending, TilesBySide(sides, tiles, blocks));
    return true;
#else
    static_cast<void>(device), static_cast<void>(n), static_cast<void>(slice_bytes), static_cast<void>(body);
    static_cast<void>(how), static_cast<void>(starts_early), static_cast<void>(pending);
    return false;
#endif
}

} // namespace milcgpu
