// The device side of reduce.h: how warps post their sums, and which block adds them.
#pragma once
#include "gpu_kernels/machine/backend/peers_cuda.h"

namespace milcgpu::cuda {

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

// Posts the sum over the 32 sites of a warp; all its threads call this, each with its site i. defer: also empties the
// slots of the groups, for which blocks of the next launch will wait.
template <int N>
__device__ __forceinline__ void post_warp(const GlobalSum<N> &sum, int i, const Sums<N> &s, bool defer) {
    const Sums<N> of_warp = warp_sum(s);
    if (i % 32 != 0 || i / tile_sites >= sum.shape.tiles)
        return;
    post(&sum.slots[i / 32], of_warp);
    if (defer && i / tile_sites % group_tiles == 0 && i % tile_sites == 0)
        for (int k = 0; k < N; ++k)
            *reinterpret_cast<volatile PostedBits *>(&sum.groups()[i / tile_sites / group_tiles].v[k]) = unknown_bits;
}

// Called by all threads of a block; each 64 of them are a team. Teams with `mine` wait for `count` sums of `parts`
// slots each, add them in a fixed order and empty the slots. The first thread of the team gets the total.
template <int parts, int N>
__device__ __forceinline__ Sums<N> take(bool mine, Sums<N> *slots, int count, WaitReport *waits, Sums<N> *shared) {
    constexpr int at_once = group_tiles / tile_sites, numbers = parts * N;
    volatile PostedBits *words = reinterpret_cast<volatile PostedBits *>(slots);
    Sums<N> s = {};
    bool given_up = false;
    if (mine)
        for (int first = threadIdx.x % tile_sites; first < count; first += group_tiles) {
            PostedBits seen[at_once][numbers];
            unsigned polls = 0;
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
                ++polls;
            } while (missing & (polls < most_polls));
            given_up |= polls >= most_polls; // (`missing` here cost D in single precision 4 to 8 bytes of spills)
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
    // This barrier also protects `shared`, which may still be read for the previous sum. (Reporting the wait inside the
    // loop took 90 more instructions for each of four loops.)
    if (__syncthreads_or(given_up))
        note_given_up(waits, parts == 1 ? Wait::group_sums : Wait::warp_sums);
    s = warp_sum(s);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0)
        shared[warp] = s;
    __syncthreads();
    if (threadIdx.x % tile_sites == 0)
        s.add(shared[warp + 1]);
    return s;
}

// The block with the last tile of a group adds the group. The block of the last group then adds all groups. They wait
// only for blocks of lower index, which the GPU has started before. The first thread of each tile with `mine` calls
// finish.
template <int N, class Last>
__device__ __forceinline__ void add_up(const Last &finish, const GlobalSum<N> &sum, bool mine, int end_tile, int group,
                                       Sums<N> *shared) {
    const int in_group = min(group_tiles, sum.shape.tiles - group * group_tiles);
    if (end_tile < group * group_tiles + in_group)
        return;
    const bool first = mine && threadIdx.x % tile_sites == 0;
    Sums<N> total = take<tile_slots>(mine, sum.slots + group * group_tiles * tile_slots, in_group, sum.waits, shared);
    if (sum.shape.groups > 1) {
        if (first)
            post(&sum.groups()[group], total);
        if (group < sum.shape.groups - 1)
            return;
        total = take<1>(mine, sum.groups(), sum.shape.groups, sum.waits, shared);
    }
    if (first)
        finish(total);
}

// The first blocks of a launch (Pending::blocks) add the sum that the previous launch deferred; 64 threads add a group.
// The previous launch has ended, so they wait only for each other's groups. Returns true in the last of these blocks,
// whose first thread gets the sum.
template <int N> __device__ __forceinline__ bool add_deferred(const GlobalSum<N> &sum, int block, Sums<N> &total) {
    __shared__ Sums<N> shared[max_block / 32];
    const int tile = threadIdx.x / tile_sites, group = block * (blockDim.x / tile_sites) + tile;
    const int behind = sum.shape.tiles - group * group_tiles;
    total = take<tile_slots>(behind > 0, sum.slots + group * group_tiles * tile_slots, min(group_tiles, behind),
                             sum.waits, shared);
    if (sum.shape.groups == 1)
        return true;
    if (threadIdx.x % tile_sites == 0 && behind > 0)
        post(&sum.groups()[group], total);
    if (static_cast<int>((block + 1) * (blockDim.x / tile_sites)) < sum.shape.groups)
        return false;
    total = take<1>(tile == 0, sum.groups(), sum.shape.groups, sum.waits, shared);
    return true;
}

// Called by all threads of a block, at most once in a launch. Replaces numbers[0] to numbers[count - 1] in shared
// memory by their sums over all ranks. If there are at most widest_sum numbers, only the first thread may read them.
template <int most> __device__ __forceinline__ void add_over_peers(Peers *p, double *numbers, int count) {
    __shared__ double all[most_peers][most];
    __syncthreads();
    const unsigned turn = p->sums % 2;
    const int posters = p->posters;
    RelayBox *const relay = p->relay;
    for (int j = threadIdx.x; j < count * posters; j += blockDim.x)
        milcgpu::post(p->posted_at[j / count]->of[turn][p->place][j % count], numbers[j % count]);
    if (relay != nullptr) {
        __syncthreads();
        if (threadIdx.x == 0) {
            fence_system();
            *static_cast<volatile unsigned long long *>(&relay->sums_posted) =
                (p->sums + 1ull) << RelayBox::count_bits | count;
        }
    }
    for (int j = threadIdx.x; j < count * posters; j += blockDim.x) {
        const int rank = j / count;
        double &place = p->posted->of[turn][rank][j % count];
        const volatile PostedBits *const at = reinterpret_cast<const volatile PostedBits *>(&place);
        PostedBits seen = unknown_bits;
        wait_for_peer(p, Wait::sum_of_rank, rank, 0, [&] { return (seen = *at) != unknown_bits; });
        all[rank][j % count] = bit_cast<double>(seen);
        *reinterpret_cast<volatile PostedBits *>(&place) = unknown_bits;
    }
    __syncthreads();
    constexpr bool few = most <= widest_sum; // then the first thread adds them alone
    for (int k = few ? 0 : threadIdx.x; k < count && (!few || threadIdx.x == 0); k += few ? 1 : blockDim.x) {
        double total = all[0][k];
        for (int rank = 1; rank < posters; ++rank)
            total += all[rank][k];
        numbers[k] = total;
    }
    if (!few)
        __syncthreads();
    if (threadIdx.x == 0)
        p->sums += 1;
}

// The work of the first blocks of a launch (Pending): they add and finish the deferred sum, without the host. peers:
// nullptr if there is one rank.
template <int N, class Last>
__device__ __forceinline__ void finish_pending(const Pending<N, Last> &pending, Peers *peers) {
    __shared__ Sums<N> shared;
    Sums<N> total;
    if (!add_deferred(pending.sum, blockIdx.x, total))
        return;
    if (peers != nullptr) {
        if (threadIdx.x == 0)
            shared = total;
        add_over_peers<N>(peers, shared.v, N);
        if (threadIdx.x == 0)
            total = shared;
    }
    if (threadIdx.x == 0)
        pending.finish(total);
}
__device__ __forceinline__ void finish_pending(NothingPending, Peers *) {}
template <class First, class Second>
__device__ __forceinline__ void finish_pending(const EitherPending<First, Second> &pending, Peers *peers) {
    if (pending.first.any())
        finish_pending(pending.first, peers);
    else
        finish_pending(pending.second, peers);
}

template <class Body> __device__ __forceinline__ auto prepare(const Body &body, int i) {
    if constexpr (prepares<Body>::value)
        return body.prepare(i);
    else
        return 0;
}

// The head of a launch that sums. Returns true in blocks with sites, with the block's number among these. Otherwise the
// block is done: it has finished the pending sum, or the launch is skipped.
template <class Before>
__device__ __forceinline__ bool has_sites(const int *gate, int pending_blocks, const Before &pending, int &block) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return false;
    block = static_cast<int>(blockIdx.x) - pending_blocks;
    if (block < 0) {
        finish_pending(pending, nullptr);
        return false;
    }
    return true;
}

// The tile of a turn; turns of blocks that finish a pending sum are negative, and stay so.
__device__ __forceinline__ int tile_of(const AsTheyLie &, int turn) { return turn; }
__device__ __forceinline__ int tile_of(const TileOrder &order, int turn) {
    return turn < 0 || order.part == 0 ? turn : order.tile(turn);
}

// kernel: number of the body's kernel, if it has several. pending_blocks: number of blocks that finish the pending sum.
// (The division that computes it delayed every block: D in single precision took 1 % longer.)
template <int N, int min_blocks, int kernel, class Body, class Last, class Before, class Order>
__global__ void __launch_bounds__(max_block, min_blocks)
    run_sum(const Body body, const Last finish, int n, const GlobalSum<N> sum, bool defer, const int *gate,
            int pending_blocks, const Before pending, const Order order) {
    int block = static_cast<int>(blockIdx.x) - pending_blocks;
    const int i = tile_of(order, block) * blockDim.x + threadIdx.x;
    const auto prepared = prepare(body, block >= 0 && i < n ? i : 0);
    if (!has_sites(gate, pending_blocks, pending, block))
        return;
    __shared__ Sums<N> shared[max_block / 32];
    Sums<N> s = {};
    if (i < n) {
        if constexpr (kernel > 0)
            s = body.template of_kernel<kernel>(i);
        else if constexpr (prepares<Body>::value)
            s = body(i, prepared);
        else
            s = body(i);
    }
    if (!finish.wanted())
        return;
    post_warp(sum, i, s, defer);
    if (defer)
        return;
    const int tiles_a_block = blockDim.x / tile_sites, first_tile = block * tiles_a_block;
    add_up(finish, sum, threadIdx.x < tile_sites, first_tile + tiles_a_block, first_tile / group_tiles, shared);
}

// As above, for lattices that are too small to fill the GPU with one thread per site: 4 threads per site, so a block of
// 256 threads has one tile. Thread k of a site computes part k; the parts are added in order. 2 blocks per SM leave 128
// registers to a thread, which is enough for one direction.
template <int N, class Body, class Last, class Before, class Order>
__global__ void __launch_bounds__(site_parts *tile_sites, 2)
    run_sum_in_parts(const Body body, const Last finish, int n, const GlobalSum<N> sum, bool defer, const int *gate,
                     int pending_blocks, const Before pending, const Order) {
    int block;
    if (!has_sites(gate, pending_blocks, pending, block))
        return;
    using Part = typename Body::Part;
    __shared__ Sums<N> shared[site_parts * tile_sites / 32];
    __shared__ Part parts[site_parts - 1][tile_sites];
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
        for (int other = 0; other < site_parts - 1; ++other)
            part = part + parts[other][lane];
        s = body.complete(i, part);
    }
    if (!finish.wanted())
        return;
    if (k == 0)
        post_warp(sum, i, s, defer);
    if (defer)
        return;
    add_up(finish, sum, threadIdx.x < tile_sites, block + 1, block / group_tiles, shared);
}

// Sums of several sources at once. A block has a tile of sites with up to 4 threads a site, each for Body::together
// sources, so that shared data (links) are found in L1; `groups` blocks share the sources of a tile.
template <int N, int min_blocks, class Body, class Last, class Order>
__global__ void __launch_bounds__(sources_a_block *tile_sites, min_blocks)
    run_sum_sources(const Body body, const Last finish, int n, int sources, int groups, const GlobalSum<N> sum,
                    bool defer, const Order order) {
    constexpr int together = Body::together;
    wait_for_previous();
    __shared__ Sums<N> shared[sources_a_block * tile_sites / 32];
    const int tile = tile_of(order, blockIdx.x / groups),
              first = (blockIdx.x % groups * (blockDim.x / tile_sites) + threadIdx.x / tile_sites) * together;
    const int i = tile * tile_sites + threadIdx.x % tile_sites;
    bool open[together];
    MILCGPU_UNROLL
    for (int r = 0; r < together; ++r)
        open[r] = first + r < sources && body.open(first + r);
    Sums<N> s[together] = {};
    if constexpr (together > 1) {
        if (i < n)
            body.of(i, first, open, s);
    } else if (open[0] && i < n) {
        s[0] = body(i, first);
    }
    if (!finish.wanted())
        return;
    MILCGPU_UNROLL
    for (int r = 0; r < together; ++r)
        if (open[r])
            post_warp(sum.of_source(first + r), i, s[r], defer);
    if (defer)
        return;
    MILCGPU_UNROLL
    for (int r = 0; r < together; ++r)
        add_up([&](const Sums<N> &total) { finish(total, first + r); }, sum.of_source(first + r), open[r], tile + 1,
               tile / group_tiles, shared);
}

// Several sources without sums. A block has one tile of sites for `count` sources. The next blocks have the other
// sources. All blocks run the same code: a mixture made 6 sources in single 1.6 times slower. So the last block of a
// tile may repeat sources that the previous block stores.
template <class Body, int count>
__global__ void __launch_bounds__(tile_sites, Body::blocks(count))
    run_sources(const Body body, int n, int sources, const int *gate, const TileOrder order) {
    const AfterPrevious after(order.beside);
    if (gate != nullptr && *gate == 0)
        return;
    const int groups = (sources + count - 1) / count, turn = blockIdx.x / groups, first = blockIdx.x % groups * count;
    const int i = order.tile(turn) * tile_sites + threadIdx.x, skipped = max(first + count - sources, 0);
    const bool twice = sources < count;
    if (i < n)
        body.of(i, Sources<count>{twice ? 0 : first - skipped, skipped, twice});
}
// The kernels for 2, 4, ... up to Body::together sources a thread.
template <class Body, int count = Body::together>
void (*kernel_of_sources(int a_thread))(const Body, int, int, const int *, const TileOrder) {
    if constexpr (count > 2)
        if (a_thread < count)
            return kernel_of_sources<Body, count - 2>(a_thread);
    return run_sources<Body, count>;
}

// Adds the sum that the previous launch deferred: the sum of this rank. Runs with Pending::blocks blocks.
template <int N>
__global__ void __launch_bounds__(max_block) add_slots(const GlobalSum<N> sum, Sums<N> *total, const int *gate) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    Sums<N> own;
    if (add_deferred(sum, blockIdx.x, own) && threadIdx.x == 0)
        *total = own;
}

// As above for several sources, with `blocks` blocks for each. Sources that are done get 0.
template <int N>
__global__ void __launch_bounds__(max_block)
    add_slots_of_sources(const ActiveSources sources, const GlobalSum<N> sum, int blocks, Sums<N> *totals) {
    wait_for_previous();
    const int source = blockIdx.x / blocks, block = blockIdx.x % blocks;
    Sums<N> own = {};
    const bool active = sources.has(source);
    if (active && !add_deferred(sum.of_source(source), block, own))
        return;
    if ((active || block == 0) && threadIdx.x == 0)
        totals[source] = own;
}

// One block: adds the sums of this rank to those of the others and calls finish for each source. peers: nullptr if
// `totals` are sums over all ranks already.
template <int N, class Last>
__global__ void __launch_bounds__(max_block)
    finish_sources(const ActiveSources active, const Last finish, int sources, const Sums<N> *totals, Peers *peers) {
    __shared__ Sums<N> all[most_sums / N];
    wait_for_previous();
    for (int source = threadIdx.x; source < sources; source += blockDim.x)
        all[source] = totals[source];
    if (peers != nullptr)
        add_over_peers<most_sums>(peers, all[0].v, N * sources);
    else
        __syncthreads();
    for (int source = threadIdx.x; source < sources; source += blockDim.x)
        if (active.has(source))
            finish(all[source], source);
}

// One thread calls finish with the sum of all ranks.
template <int N, class Last> __global__ void finish_with(const Last finish, const Sums<N> *total, const int *gate) {
    wait_for_previous();
    if (gate == nullptr || *gate != 0)
        finish(*total);
}

// A launch of Pending blocks only.
template <int N, class Last>
__global__ void __launch_bounds__(max_block)
    finish_deferred(const Last finish, const GlobalSum<N> sum, Peers *peers, const int *gate) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    finish_pending(Pending<N, Last>{sum, finish}, peers);
}

// A launch over the sites of a cut box. The sum is deferred. The body has exchange (a PeerLaunch), parity (of the new
// vector), operator()(i), inner(i) for sites that neither read ghosts nor are sent, part(i, k) and complete(i, part).
template <int N, int min_blocks, bool in_parts, class Body, class Before>
__global__ void __launch_bounds__(max_block, in_parts ? 2 : min_blocks)
    run_sum_cut(const Body body, int n, const GlobalSum<N> sum, bool wanted, const int *gate, int pending_blocks,
                const Before pending) {
    const PeerLaunch &exchange = body.exchange;
    const int block = static_cast<int>(blockIdx.x) - pending_blocks;
    const int turn = in_parts ? block : block * (blockDim.x / tile_sites) + threadIdx.x / tile_sites;
    const int tile = turn >= 0 && turn < sum.shape.tiles ? exchange.tile(turn) : sum.shape.tiles;
    wait_for_previous(); // what was read above never changes
    // Block 0 reads the gate as the previous launch left it, which is the same on all ranks. Only finish can close the
    // gate, and it needs block 0's part of the pending sum first.
    const bool open = gate == nullptr || *gate != 0;
    if (exchange.map.peers != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
        count_vector(exchange.map.peers, body.parity); // every launch counts, even if the gate is closed
        if (exchange.relays && open)
            announce(exchange.map.peers, 1 - body.parity, Body::bytes, Body::word);
    }
    if (!open)
        return;
    if (block < 0)
        return finish_pending(pending, exchange.map.peers);
    const int i = tile * tile_sites + threadIdx.x % tile_sites;
    Sums<N> s = {};
    if constexpr (in_parts) {
        using Part = typename Body::Part;
        __shared__ Part parts[site_parts - 1][tile_sites];
        const int lane = threadIdx.x % tile_sites, k = threadIdx.x / tile_sites;
        Part part = {};
        if (i < n)
            part = body.part(i, k);
        if (k > 0)
            parts[k - 1][lane] = part;
        __syncthreads();
        if (k > 0)
            return;
        for (int other = 0; other < site_parts - 1; ++other)
            part = part + parts[other][lane];
        if (i < n)
            s = body.complete(i, part);
    } else if (i < n) {
        s = exchange.at_boundary(turn) ? body(i) : body.inner(i);
    }
    if (wanted)
        post_warp(sum, i, s, true);
}

} // namespace milcgpu::cuda
