// The device side of peers.h. Comments name the functions that all threads of a block must call.
#pragma once
#include "gpu_kernels/machine/backend/launch.h"
#include "gpu_kernels/machine/backend/peers.h"

namespace milcgpu::cuda {

__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// After this load, everything is visible that the other rank has written before it wrote `at`. Such a load may empty
// the L1 cache. So waits poll with volatile loads and do this one at their end.
__device__ __forceinline__ void acquire_from_peer(const unsigned *at) {
    [[maybe_unused]] unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
}
// Fences that acquire and release. CUDA's own fences are also sequentially consistent, which is not needed here and
// costs time.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// Calls poll() until it returns true or the time limit is over. After a wait has reached the limit, every later wait
// ends soon and reports the same. So no later result passes as right.
template <class Poll>
__device__ __forceinline__ void wait_for_peer(Peers *p, Wait what, int rank, int face, const Poll &poll) {
    volatile int *const broken = &p->broken;
    unsigned long long begin = 0;
    for (unsigned polls = 1; !poll(); ++polls) {
        if (polls % 256 != 0)
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

// Loads 16 or 8 bytes. Another rank may write a ghost at this moment, so ghosts are loaded past the L1 cache; other
// data do not change and are loaded normally. Both loads are in the code; the one that is skipped leaves zeros. (With
// the same target registers, the second load would wait for the first.)
template <int bytes> __device__ __forceinline__ void load_word(const unsigned char *from, bool ghost, uint32_t *to) {
    uint32_t other[bytes / 4];
    if constexpr (bytes == 16)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %9, 0;"
                     " mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
                     " mov.u32 %4, 0; mov.u32 %5, 0; mov.u32 %6, 0; mov.u32 %7, 0;"
                     " @p ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%8];"
                     " @!p ld.global.nc.v4.u32 {%4, %5, %6, %7}, [%8]; }"
                     : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3]), "=&r"(other[0]), "=&r"(other[1]),
                       "=&r"(other[2]), "=&r"(other[3])
                     : "l"(from), "r"(unsigned(ghost)));
    else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0;"
                     " mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
                     " @p ld.relaxed.sys.global.v2.u32 {%0, %1}, [%4];"
                     " @!p ld.global.nc.v2.u32 {%2, %3}, [%4]; }"
                     : "=&r"(to[0]), "=&r"(to[1]), "=&r"(other[0]), "=&r"(other[1])
                     : "l"(from), "r"(unsigned(ghost)));
    MILCGPU_UNROLL
    for (int k = 0; k < bytes / 4; ++k)
        to[k] |= other[k];
}
__device__ __forceinline__ uint64_t load_check(const unsigned char *from, bool ghost) {
    uint64_t check;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u64 %0, 0; @p ld.relaxed.sys.global.u64 %0, [%1]; }"
                 : "=&l"(check)
                 : "l"(from), "r"(unsigned(ghost)));
    return check;
}
template <int bytes> __device__ __forceinline__ void store_to_peer(unsigned char *to, const uint32_t *from) {
    if constexpr (bytes == 16)
        asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(from[0]), "r"(from[1]),
                     "r"(from[2]), "r"(from[3])
                     : "memory");
    else
        asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(from[0]), "r"(from[1]) : "memory");
}

// The ghosts of the last vector of a parity that was sent: sites of `bytes` bytes in words of `word` bytes.
template <int bytes, int word> class Ghosts {
  public:
    __device__ __forceinline__ Ghosts(const GhostMap &map, int parity)
        : peers_(map.peers), data_(map.from), places_(map.places),
          number_(map.peers != nullptr ? map.peers->vector_sent[parity] : 0), whole_(true) {}

    // Loads element `at` of a field. If `at` is negative, loads ghost number ~at.
    __device__ __forceinline__ void load(const unsigned char *field, size_t stride, int at, uint32_t *site) {
        const bool ghost = at < 0;
        const unsigned char *const from = ghost ? data_ : field;
        const unsigned pitch = ghost ? places_ : static_cast<unsigned>(stride), i = ghost ? ~at : at;
        MILCGPU_UNROLL
        for (int k = 0; k < bytes / word; ++k)
            load_word<word>(from + size_t(k * pitch + i) * word, ghost, site + k * word / 4);
        const uint64_t check = load_check(data_ + size_t(places_) * most_ghost_bytes + size_t(i) * check_bytes, ghost);
        whole_ &= !ghost | (check == check_word<bytes / 4>(site, number_));
    }
    // True if all ghosts that were loaded had arrived.
    __device__ __forceinline__ bool whole() const { return whole_; }

    // Waits until ghost k from the neighbour of a face has arrived, and resets whole().
    __device__ __forceinline__ void wait(int k, int face) {
        wait_for_peer(peers_, Wait::ghosts, peers_->face[face].rank, face, [&] {
            uint32_t site[bytes / 4];
            whole_ = true;
            load(nullptr, 0, ~k, site);
            return whole_;
        });
        whole_ = true;
    }

  private:
    Peers *peers_;
    const unsigned char *data_;
    unsigned places_, number_;
    bool whole_;
};

// Sends a site of the next vector of a parity to place k in the memory of the neighbour of a face.
template <int bytes, int word>
__device__ __forceinline__ void send_ghost(const GhostMap &map, int parity, int face, int k, const uint32_t *site) {
    unsigned char *const to = map.to[face];
    MILCGPU_UNROLL
    for (int j = 0; j < bytes / word; ++j)
        store_to_peer<word>(to + size_t(j * map.places + k) * word, site + j * word / 4);
    const uint64_t check = check_word<bytes / 4>(site, map.peers->vector_next[parity]);
    const uint32_t words[2] = {static_cast<uint32_t>(check), static_cast<uint32_t>(check >> 32)};
    store_to_peer<check_bytes>(to + size_t(map.places) * most_ghost_bytes + size_t(k) * check_bytes, words);
}

// Called by one thread of every launch that computes a vector of `parity`, even if the vector is not sent. No other
// thread of that launch reads what changes here.
__device__ __forceinline__ void count_vector(Peers *p, int parity) {
    p->vector_sent[parity] = p->vector_next[parity];
    p->vector_next[1 - parity] += 1;
}

// Tells the host to pass on what earlier launches of this rank have stored. Called by one thread of a launch, at its
// start.
__device__ __forceinline__ void announce(Peers *p, int parity, int bytes, int word) {
    const Announcement next{++p->announced, static_cast<unsigned>(parity), static_cast<unsigned>(bytes),
                            static_cast<unsigned>(word)};
    fence_system();
    *static_cast<volatile unsigned long long *>(&p->relay->announced[next.count % RelayBox::announcements]) =
        next.packed();
}

// Called by all threads of a block. Waits until every neighbour has sent exchange number `exchange`.
__device__ __forceinline__ void wait_for_neighbours(Peers *p, unsigned exchange) {
    for (int face = 0; face < Peers::faces && threadIdx.x == 0; ++face) {
        const volatile unsigned *const heard = p->face[face].heard;
        if (heard == nullptr)
            continue;
        wait_for_peer(p, Wait::ghosts, p->face[face].rank, face,
                      [&] { return static_cast<int>(*heard - exchange) >= 0; });
        acquire_from_peer(p->face[face].heard);
    }
    __syncthreads();
}

__device__ __forceinline__ unsigned exchanges_so_far(const Peers *p) {
    return *static_cast<const volatile unsigned *>(&p->exchanges);
}
__device__ __forceinline__ void tell_neighbours(Peers *p, unsigned exchange) {
    for (int face = 0; face < Peers::faces; ++face)
        if (p->face[face].tell != nullptr)
            *static_cast<volatile unsigned *>(p->face[face].tell) = exchange;
    if (p->relay != nullptr)
        announce(p, 0, 0, 0);
}

// Called by all threads of all blocks that take part in an exchange. The first thread of the last block calls
// last(exchange), after everything that the blocks have stored is visible.
template <class Last> __device__ __forceinline__ void end_of_exchange(Peers *p, const Last &last) {
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    fence_gpu();
    if (atomicAdd(&p->blocks_done, 1u) != gridDim.x - 1)
        return;
    p->blocks_done = 0;
    fence_system();
    const unsigned exchange = p->exchanges + 1;
    *static_cast<volatile unsigned *>(&p->exchanges) = exchange;
    last(exchange);
}

} // namespace milcgpu::cuda
