// Launching a body over sites, on the GPU or on the host, without and with sums.
//
// A body is a struct with `MILCGPU_HD void operator()(int i) const`, or, for launch_sum,
// `MILCGPU_HD Sums<N> operator()(int i) const`; `finish` is called once, by one thread, with the N sums. It derives
// from Finish, or has a wanted() of its own: false where nobody asked for the sums, which are then not formed.
//
// Sums are deterministic: sites are added in tiles of 64 by a fixed tree, tiles in groups of 256 by a fixed tree,
// groups in order by a fixed tree, whatever the block size, the number of SMs or of CPU threads. No second launch, no
// atomics, no fence: each warp posts the sum of its half of a tile in a slot of its own and is gone, and the block with
// the last tile of a group waits for the slots of the group (so for blocks of lower index only, which the GPU has
// started before it), adds them and empties them. A block that fences and counts its arrival instead holds its place
// on the SM 2 us longer, which made a summing dslash 10 % slower.
//
// A launch may also defer the sums of its tiles to the next one (Pending), where a block of its own adds and finishes
// them while the others work: nothing waits for a sum until a body asks for what it gives (await in portable.h).
#pragma once
#include "gpu_kernels/backend/device.h"
#include <algorithm>

#if defined(MILCGPU_WITH_CUDA) && !defined(__CUDACC__)
#error "launch.h holds kernels: include it from .cu files only"
#endif

namespace milcgpu {

constexpr int tile_sites = 64;   // smallest block; blocks are multiples of it
constexpr int tile_slots = 2;    // one for each of its warps
constexpr int group_tiles = 256; // tiles added by one block
constexpr int max_block = 256;
constexpr int batch_rows = 4; // fields of a block in launch_sum_batch

template <int N> struct Sums {
    double v[N];
    MILCGPU_HD void add(const Sums &other) {
        MILCGPU_UNROLL
        for (int k = 0; k < N; ++k)
            v[k] += other.v[k];
    }
};

struct Finish {
    MILCGPU_HD bool wanted() const { return true; }
};

// Tiles and groups of a sum. Slots: those of the tiles, then one a group.
struct ReduceShape {
    int tiles, groups;
    explicit ReduceShape(int n)
        : tiles((n + tile_sites - 1) / tile_sites), groups((tiles + group_tiles - 1) / group_tiles) {}
    MILCGPU_HD size_t group_slots() const { return static_cast<size_t>(tile_slots) * tiles; }
    MILCGPU_HD size_t slots() const { return group_slots() + groups; }
};

template <int N> Sums<N> *sum_slots(Device &device, ReduceShape shape) {
    return reinterpret_cast<Sums<N> *>(device.sum_slots(N * shape.slots()));
}

// What the launch before deferred: sums of tiles, with room behind them for those of groups, and how to finish them.
// This launch may read what finish writes through await only.
template <int N, class Last> struct Pending {
    Sums<N> *sums; // nullptr: nothing
    ReduceShape shape;
    Last finish;
};
struct NothingPending {};

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// A launch may start while the one before it ends (programmatic dependent launch, from sm_90 on): its blocks take the
// places that fall free and wait here, which hides what starting them costs. Every kernel begins with this.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <class... Parameters, class... Arguments>
void start(Device &device, const char *what, int blocks, int threads, void (*kernel)(Parameters...),
           const Arguments &...arguments) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads);
    config.stream = static_cast<cudaStream_t>(device.stream());
    config.attrs = &early, config.numAttrs = device.starts_early() ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, arguments...);
    device.check_launch(what);
}

template <class Body> __global__ void __launch_bounds__(max_block) run(const Body body, int n) {
    wait_for_previous();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        body(i);
}

// Sum over the threads of a warp; the result is in the first.
template <int N> __device__ __forceinline__ Sums<N> warp_sum(Sums<N> s) {
    MILCGPU_UNROLL
    for (int offset = 16; offset > 0; offset /= 2)
        MILCGPU_UNROLL
    for (int k = 0; k < N; ++k)
        s.v[k] += __shfl_down_sync(0xffffffffu, s.v[k], offset);
    return s;
}

// A slot is empty (unknown_bits) or holds a sum.
template <int N> __device__ __forceinline__ void post(Sums<N> *slot, const Sums<N> &s) {
    MILCGPU_UNROLL
    for (int k = 0; k < N; ++k)
        milcgpu::post(slot->v[k], s.v[k]);
}

// A warp, all threads of which call this, posts the sum over its sites: site i, this thread's, and the 31 beside it.
template <int N> __device__ __forceinline__ void post_warp(Sums<N> *slots, int i, ReduceShape shape, const Sums<N> &s) {
    const Sums<N> sum = warp_sum(s);
    if (i % 32 == 0 && i / tile_sites < shape.tiles)
        post(&slots[i / 32], sum);
}

// 64 threads that belong together, as for a tile, and for which `mine` is set wait for `count` sums of `parts` slots
// each, add them in a fixed order and empty the slots; the total is in the first of the threads.
template <int parts, int N>
__device__ __forceinline__ Sums<N> take(bool mine, Sums<N> *slots, int count, Sums<N> *shared) {
    constexpr int at_once = group_tiles / tile_sites, numbers = parts * N;
    volatile PostedBits *words = reinterpret_cast<volatile PostedBits *>(slots);
    Sums<N> s = {};
    if (mine)
        for (int first = threadIdx.x % tile_sites; first < count; first += group_tiles) {
            PostedBits seen[at_once][numbers];
            bool missing;
            do {
                missing = false;
                MILCGPU_UNROLL
                for (int j = 0; j < at_once; ++j)
                    MILCGPU_UNROLL
                for (int k = 0; k < numbers; ++k) {
                    const int at = first + j * tile_sites;
                    seen[j][k] = at < count ? words[at * numbers + k] : 0;
                    missing |= seen[j][k] == unknown_bits;
                }
            } while (missing);
            MILCGPU_UNROLL
            for (int j = 0; j < at_once; ++j) {
                const int at = first + j * tile_sites;
                MILCGPU_UNROLL
                for (int k = 0; k < N; ++k) {
                    double value = bit_cast<double>(seen[j][k]);
                    if (parts == 2)
                        value += bit_cast<double>(seen[j][numbers - N + k]);
                    s.v[k] += value;
                }
                if (at < count)
                    MILCGPU_UNROLL
                for (int k = 0; k < numbers; ++k)
                    words[at * numbers + k] = unknown_bits;
            }
        }
    __syncthreads(); // shared may still be read from the previous sum
    s = warp_sum(s);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0)
        shared[warp] = s;
    __syncthreads();
    if (threadIdx.x % tile_sites == 0)
        s.add(shared[warp + 1]);
    return s;
}

// What the block that has the last tile of a group does about it: adds groups and total. finish is called by the first
// thread of each tile that is `mine`.
template <int N, class Last>
__device__ __forceinline__ void join_sums(const Last &finish, ReduceShape shape, Sums<N> *slots, bool mine,
                                          int end_tile, int group, Sums<N> *shared) {
    const int in_group = min(group_tiles, shape.tiles - group * group_tiles);
    if (end_tile < group * group_tiles + in_group)
        return;
    const bool first = mine && threadIdx.x % tile_sites == 0;
    Sums<N> total = take<tile_slots>(mine, slots + group * group_tiles * tile_slots, in_group, shared);
    if (shape.groups > 1) {
        Sums<N> *group_slots = slots + shape.group_slots();
        if (first)
            post(&group_slots[group], total);
        if (group < shape.groups - 1)
            return;
        total = take<1>(mine, group_slots, shape.groups, shared);
    }
    if (first)
        finish(total);
}

// Block 0 does what the launch before deferred; the others get their index among the blocks that have sites.
template <int N, class Last> __device__ __forceinline__ int finish_pending(const Pending<N, Last> &pending) {
    if (pending.sums == nullptr)
        return blockIdx.x;
    if (blockIdx.x > 0)
        return blockIdx.x - 1;
    __shared__ Sums<N> shared[max_block / 32];
    const int tiles_a_block = blockDim.x / tile_sites, tile = threadIdx.x / tile_sites;
    Sums<N> *groups = pending.sums + pending.shape.group_slots(), total;
    for (int first = 0; first < pending.shape.groups; first += tiles_a_block) {
        const int group = first + tile, behind = pending.shape.tiles - group * group_tiles;
        total = take<tile_slots>(behind > 0, pending.sums + group * group_tiles * tile_slots, min(group_tiles, behind),
                                 shared);
        if (threadIdx.x % tile_sites == 0 && behind > 0)
            post(&groups[group], total);
    }
    if (pending.shape.groups > 1) {
        __syncthreads(); // slots never used before are not empty
        total = take<1>(tile == 0, groups, pending.shape.groups, shared);
    }
    if (threadIdx.x == 0)
        pending.finish(total);
    return -1;
}
__device__ __forceinline__ int finish_pending(NothingPending) { return blockIdx.x; }

template <int N, int min_blocks, class Body, class Last, class Before>
__global__ void __launch_bounds__(max_block, min_blocks)
    run_sum(const Body body, const Last finish, int n, ReduceShape shape, Sums<N> *slots, bool defer, const int *gate,
            const Before pending) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    const int block = finish_pending(pending);
    if (block < 0)
        return;
    __shared__ Sums<N> shared[max_block / 32];
    const int i = block * blockDim.x + threadIdx.x;
    Sums<N> s = {};
    if (i < n)
        s = body(i);
    if (!finish.wanted())
        return;
    post_warp(slots, i, shape, s);
    if (defer)
        return;
    const int tiles_a_block = blockDim.x / tile_sites, first_tile = block * tiles_a_block;
    join_sums<N>(finish, shape, slots, threadIdx.x < tile_sites, first_tile + tiles_a_block, first_tile / group_tiles,
                 shared);
}

// The same for lattices too small to fill the GPU with a thread a site: 4 threads a site, a block of 256 threads a
// tile. Each computes part k of the site; the parts are added in order.
template <int N, class Body, class Last, class Before>
__global__ void __launch_bounds__(4 * tile_sites, 2)
    run_sum_in_parts(const Body body, const Last finish, int n, ReduceShape shape, Sums<N> *slots, bool defer,
                     const int *gate, const Before pending) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    const int block = finish_pending(pending);
    if (block < 0)
        return;
    using Part = typename Body::Part;
    __shared__ Sums<N> shared[4 * tile_sites / 32];
    __shared__ Part parts[3][tile_sites];
    const int lane = threadIdx.x % tile_sites, k = threadIdx.x / tile_sites;
    const int i = block * tile_sites + lane;
    Part part = {};
    if (i < n)
        part = body.part(i, k);
    if (k > 0)
        parts[k - 1][lane] = part;
    __syncthreads();
    Sums<N> s = {};
    if (k == 0 && i < n) {
        for (int other = 0; other < 3; ++other)
            part = part + parts[other][lane];
        s = body.complete(i, part);
    }
    if (!finish.wanted())
        return;
    if (k == 0)
        post_warp(slots, i, shape, s);
    if (defer)
        return;
    join_sums<N>(finish, shape, slots, threadIdx.x < tile_sites, block + 1, block / group_tiles, shared);
}

// Sums of `count` fields at once. A block has a tile of sites for 4 fields, so that what the fields share (links) is
// found in L1; blocks of the other fields of the tile follow.
template <int N, int min_blocks, class Body, class Last>
__global__ void __launch_bounds__(batch_rows *tile_sites, min_blocks)
    run_sum_batch(const Body body, const Last finish, int n, int count, ReduceShape shape, Sums<N> *slots) {
    wait_for_previous();
    __shared__ Sums<N> shared[batch_rows * tile_sites / 32];
    const int row_groups = (count + batch_rows - 1) / batch_rows;
    const int tile = blockIdx.x / row_groups, field = blockIdx.x % row_groups * batch_rows + threadIdx.x / tile_sites;
    const int i = tile * tile_sites + threadIdx.x % tile_sites;
    const bool active = field < count && body.active(field);
    Sums<N> s = {};
    if (active && i < n)
        s = body(i, field);
    Sums<N> *own_slots = slots + field * shape.slots();
    if (active)
        post_warp(own_slots, i, shape, s);
    join_sums<N>([&](const Sums<N> &total) { finish(total, field); }, shape, own_slots, active, tile + 1,
                 tile / group_tiles, shared);
}

} // namespace cuda
#endif

// body(i) for i in [0, n). block: threads a block on the GPU, a multiple of 64 up to 256.
template <class Body> void launch(Device &device, int n, const Body &body, const char *what, int block = 128) {
    if (n <= 0)
        return;
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu()) {
        const int threads = device.block() > 0 ? device.block() : block;
        cuda::start(device, what, (n + threads - 1) / threads, threads, cuda::run<Body>, body, n);
        return;
    }
#endif
    static_cast<void>(device), static_cast<void>(what), static_cast<void>(block);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; ++i)
        body(i);
}

namespace host {

// The GPU's tree over a tile, in place.
template <int N> Sums<N> tile_sum(Sums<N> *s) {
    for (int warp = 0; warp < tile_sites; warp += 32)
        for (int offset = 16; offset > 0; offset /= 2)
            for (int k = 0; k < offset; ++k)
                s[warp + k].add(s[warp + k + offset]);
    s[0].add(s[32]);
    return s[0];
}

template <int N> Sums<N> block_sum(const Sums<N> *values, int count) {
    Sums<N> lanes[tile_sites] = {};
    for (int k = 0; k < count; ++k)
        lanes[k % tile_sites].add(values[k]);
    return tile_sum<N>(lanes);
}

// body(i) for all i, and its sums over tiles as the GPU adds them.
template <int N, class Body> void tile_sums(int n, const Body &body, Sums<N> *slots) {
    const ReduceShape shape(n);
#pragma omp parallel for schedule(static)
    for (int tile = 0; tile < shape.tiles; ++tile) {
        Sums<N> lanes[tile_sites] = {};
        for (int k = 0; k < tile_sites && tile * tile_sites + k < n; ++k)
            lanes[k] = body(tile * tile_sites + k);
        slots[tile] = tile_sum<N>(lanes);
    }
}

// Their sum; slots have room for a sum a group behind them.
template <int N> Sums<N> join_sums(ReduceShape shape, Sums<N> *slots) {
    Sums<N> *group_sums = slots + shape.group_slots();
    for (int group = 0; group < shape.groups; ++group)
        group_sums[group] =
            block_sum<N>(slots + group * group_tiles, std::min(group_tiles, shape.tiles - group * group_tiles));
    return shape.groups > 1 ? block_sum<N>(group_sums, shape.groups) : group_sums[0];
}

template <int N, class Last> void finish_pending(const Pending<N, Last> &pending) {
    if (pending.sums != nullptr)
        pending.finish(join_sums<N>(pending.shape, pending.sums));
}
inline void finish_pending(NothingPending) {}

template <int N, class Body, class Last, class Before>
void run_sum(int n, const Body &body, const Last &finish, const int *gate, Sums<N> *slots, bool defer,
             const Before &pending) {
    if (gate != nullptr && *gate == 0)
        return;
    finish_pending(pending);
    tile_sums<N>(n, body, slots);
    if (finish.wanted() && !defer)
        finish(join_sums<N>(ReduceShape(n), slots));
}

} // namespace host

template <int N, class Last> bool is_pending(const Pending<N, Last> &pending) { return pending.sums != nullptr; }
inline bool is_pending(NothingPending) { return false; }

// finish(sum over i of body(i)). gate: nullptr, or a flag on the device; 0 there skips the whole launch.
// min_blocks: blocks of 256 threads that must fit on an SM (bounds the registers a thread).
// defer: nullptr, or where sums go (of tiles, room for groups) that the next launch is given as `pending`.
template <int N, int min_blocks = 1, class Body, class Last, class Before = NothingPending>
void launch_sum(Device &device, int n, const Body &body, const Last &finish, const int *gate, const char *what,
                int block = 128, Sums<N> *defer = nullptr, const Before &pending = {}) {
    const ReduceShape shape(n);
    Sums<N> *slots = defer != nullptr ? defer : sum_slots<N>(device, shape);
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu()) {
        const int threads = device.block() > 0 ? device.block() : block;
        cuda::start(device, what, (n + threads - 1) / threads + is_pending(pending), threads,
                    cuda::run_sum<N, min_blocks, Body, Last, Before>, body, finish, n, shape, slots, defer != nullptr,
                    gate, pending);
        return;
    }
#endif
    static_cast<void>(what), static_cast<void>(block);
    host::run_sum<N>(n, body, finish, gate, slots, defer != nullptr, pending);
}

// launch_sum for a heavy body that can be cut into 4 parts a site: Body::Part, part(i, k) and complete(i, sum of the
// parts) besides operator(). Cut where there are fewer sites than the GPU has room for; which way is taken depends on n
// alone (device.parts_below()).
template <int N, int min_blocks, class Body, class Last, class Before>
void launch_sum_in_parts(Device &device, int n, const Body &body, const Last &finish, const int *gate, const char *what,
                         int block, Sums<N> *defer, const Before &pending) {
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu() && n < device.parts_below()) {
        const ReduceShape shape(n);
        cuda::start(device, what, shape.tiles + is_pending(pending), 4 * tile_sites,
                    cuda::run_sum_in_parts<N, Body, Last, Before>, body, finish, n, shape,
                    defer != nullptr ? defer : sum_slots<N>(device, shape), defer != nullptr, gate, pending);
        return;
    }
#endif
    if (!device.on_gpu() && n < device.parts_below()) { // the same sums in the same order
        const auto in_parts = [&body](int i) {
            auto part = body.part(i, 0);
            for (int k = 1; k < 4; ++k)
                part = part + body.part(i, k);
            return body.complete(i, part);
        };
        host::run_sum<N>(n, in_parts, finish, gate, defer != nullptr ? defer : sum_slots<N>(device, ReduceShape(n)),
                         defer != nullptr, pending);
        return;
    }
    launch_sum<N, min_blocks>(device, n, body, finish, gate, what, block, defer, pending);
}

// finish(sum over i of body(i, field), field) for each field in [0, count) for which body.active(field).
template <int N, int min_blocks, class Body, class Last>
void launch_sum_batch(Device &device, int n, int count, const Body &body, const Last &finish, const char *what) {
    const ReduceShape shape(n);
    Sums<N> *slots = reinterpret_cast<Sums<N> *>(device.sum_slots(N * shape.slots() * count));
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu()) {
        const int row_groups = (count + batch_rows - 1) / batch_rows;
        cuda::start(device, what, shape.tiles * row_groups, batch_rows * tile_sites,
                    cuda::run_sum_batch<N, min_blocks, Body, Last>, body, finish, n, count, shape, slots);
        return;
    }
#endif
    static_cast<void>(what);
    for (int field = 0; field < count; ++field)
        if (body.active(field)) {
            host::tile_sums<N>(
                n, [&](int i) { return body(i, field); }, slots);
            finish(host::join_sums<N>(shape, slots), field);
        }
}

} // namespace milcgpu
