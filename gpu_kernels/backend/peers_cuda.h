// The device side of peers.h. Functions that all threads of a block call are named as such.
#pragma once
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/backend/peers.h"
#include "gpu_kernels/backend/reduce.h"

namespace milcgpu::cuda {

__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// What another rank has written before it wrote this is seen after it. Such a load may empty the L1 cache, so who waits
// looks with volatile loads, and makes this one at the end.
__device__ __forceinline__ void acquire_from_peer(const unsigned *at) {
    [[maybe_unused]] unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
}
// They acquire and release; they are not sequentially consistent, which CUDA's own fences are and nobody needs here.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// Looks until there is something to see, or for too long. The first wait that was too long is noted, and again by every
// one after it: nothing that stands on them is taken for right.
template <class Look>
__device__ __forceinline__ void wait_for_peer(Peers *p, Wait what, int rank, int face, const Look &look) {
    volatile int *const broken = &p->broken;
    unsigned long long begin = 0;
    for (unsigned looks = 1; !look(); ++looks) {
        if (looks % 256 != 0)
            continue;
        const unsigned long long now = nanoseconds();
        begin = begin == 0 ? now : begin;
        if (*broken == 0 && now - begin > p->limit_ns) {
            *broken = static_cast<int>(what);
            *static_cast<volatile int *>(&p->waits->rank) = rank;
            *static_cast<volatile int *>(&p->waits->face) = face;
            __threadfence_system();
        }
        if (*broken != 0) {
            note_given_up(p->waits, static_cast<Wait>(*broken));
            return;
        }
    }
}

// Waits until every neighbour has sent its last exchange. Returns the slot that it lies in.
__device__ __forceinline__ const unsigned char *wait_for_ghosts(Peers *p, unsigned cuts) {
    const unsigned exchange = *static_cast<volatile unsigned *>(&p->exchanges);
    for (int face = 0; cuts >> face / 2 != 0; ++face) {
        if ((cuts >> face / 2 & 1) == 0)
            continue;
        const volatile unsigned *const sent = &p->sent[face];
        wait_for_peer(p, Wait::ghosts, p->face[face].rank, face,
                      [&] { return static_cast<int>(*sent - exchange) >= 0; });
        acquire_from_peer(&p->sent[face]);
    }
    return p->slots + exchange % 2 * p->slot_bytes;
}

// Ghosts as a thread asks for them: it waits where it needs the first one. Without peers they lie behind `in`.
struct Ghosts {
    const PeerLaunch &launch;
    const unsigned char *there; // nullptr: not waited for
    __device__ __forceinline__ Ghosts(const PeerLaunch &l, const unsigned char *in)
        : launch(l), there(l.peers == nullptr ? in : nullptr) {}
    __device__ __forceinline__ const unsigned char *of(int mu) {
        if ((launch.cuts >> mu & 1) != 0)
            wait();
        return there;
    }
    __device__ __forceinline__ void wait() {
        if (there == nullptr)
            there = wait_for_ghosts(launch.peers, launch.cuts);
    }
};

// Where the neighbour of a face wants the next exchange.
__device__ __forceinline__ unsigned char *slot_to_fill(const Peers *p, int face) {
    const unsigned exchange = *static_cast<const volatile unsigned *>(&p->exchanges) + 1;
    return p->face[face].slots + exchange % 2 * p->slot_bytes;
}

// All threads of each of the `blocks` blocks that store a part of the next exchange, after their stores: the last of
// them tells the neighbours. Stores of other blocks are ordered before that through the counter.
__device__ __forceinline__ void end_of_stores(Peers *p, unsigned blocks) {
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    fence_gpu();
    if (atomicAdd(&p->blocks_done, 1u) != blocks - 1)
        return;
    p->blocks_done = 0;
    fence_system();
    const unsigned exchange = p->exchanges + 1;
    *static_cast<volatile unsigned *>(&p->exchanges) = exchange;
    for (int face = 0; face < Peers::faces; ++face)
        if (p->face[face].slots != nullptr)
            *static_cast<volatile unsigned *>(p->face[face].sent) = exchange;
}

// All threads: the sum of all ranks from that of this rank, which the first thread has; the first thread gets it. One
// block of a launch calls this, at most once.
template <int N> __device__ __forceinline__ Sums<N> add_over_peers(Peers *p, const Sums<N> &own) {
    __shared__ Sums<N> mine, all[most_peers];
    if (threadIdx.x == 0)
        mine = own;
    __syncthreads();
    const unsigned turn = p->sums % 2;
    const int rank = threadIdx.x;
    if (rank < p->ranks) {
        double *const to = p->posted_at[rank] + (turn * most_peers + p->rank) * widest_sum;
        for (int k = 0; k < N; ++k)
            milcgpu::post(to[k], mine.v[k]);
        for (int k = 0; k < N; ++k) {
            double &place = p->posted[turn][rank][k];
            const volatile PostedBits *const at = reinterpret_cast<const volatile PostedBits *>(&place);
            PostedBits seen = unknown_bits;
            wait_for_peer(p, Wait::sum_of_rank, rank, 0, [&] { return (seen = *at) != unknown_bits; });
            all[rank].v[k] = bit_cast<double>(seen);
            *reinterpret_cast<volatile PostedBits *>(&place) = unknown_bits;
        }
    }
    __syncthreads();
    Sums<N> total = all[0];
    if (threadIdx.x == 0) {
        for (int other = 1; other < p->ranks; ++other)
            total.add(all[other]);
        p->sums += 1;
    }
    return total;
}

} // namespace milcgpu::cuda
