// GPUs that write into each other's memory: the ranks of one node, without the host in between.
//
// Ghosts of a vector: the thread that computes a site stores it into the memory of the neighbours that need it,
// together with a check word, computed from the site and the number of the exchange. A thread that reads a ghost
// compares the check word, and reads again until it fits. So no fence and no counter is needed, and a thread waits only
// for the ghosts that it reads. A ghost of which only a part has arrived passes as complete with a chance of about
// 2^-64.
//
// There is memory for the ghosts of one vector of each parity. The next vector of that parity may overwrite them,
// because hops are symmetric: a site is computed from the same neighbours that are computed from it. These neighbours
// have read its old value before they sent the values that it is computed from. A launch that sends without reading
// ghosts (send_vector in halo.cu) first waits until all neighbours have reached the same point.
//
// Other data (links, margins of a field, vectors of several sources) go through two slots; exchange e uses slot e mod
// 2. A rank stores what its neighbours need, and then tells each of them the number of the exchange. Before it stores
// exchange e, it has waited for exchange e - 1 of all neighbours. They sent that after they had read e - 2. So the slot
// is free.
//
// A sum over ranks: every rank posts its sum (posted.h) in its own place in the memory of all ranks. Each rank adds
// what all have posted, in rank order, and so gets the same bits. There are two sets of places, used in turn.
//
// If GPUs of one host do not reach each other's memory, all this is in host memory that the ranks share. Ranks on other
// hosts are reached through memory that the GPU shares with its own host (RelayBox): kernels use that memory in the
// same way, and the host passes the data on meanwhile (halo/relay.h).
//
// All ranks start the same launches in the same order. A wait for another rank ends after `limit_ns`. The kernel
// records it, all later waits end soon, and the host reports it (Device::check_waits).
#pragma once
#include "gpu_kernels/machine/backend/launch_types.h"
#include "gpu_kernels/machine/backend/posted.h"
#include "gpu_kernels/machine/content_hash.h"
#include <cstddef>

namespace milcgpu {

constexpr int most_peers = 16; // ranks whose sums are posted to all of them

// Of face 2 mu + side: the neighbour behind in mu (side 0) or ahead of it (1).
constexpr const char *face_names[] = {"behind in x", "ahead in x", "behind in y", "ahead in y",
                                      "behind in z", "ahead in z", "behind in t", "ahead in t"};

// Sums of ranks in flight.
struct PostedSums {
    double of[2][most_peers][most_sums];
};

// Memory that the GPU shares with its host.
struct RelayBox {
    static constexpr int announcements = 4096; // far more than the queue ever has launches
    // What the host must pass on, in the order of launches. The k-th item (from 1) is announced[k % announcements].
    unsigned long long announced[announcements];
    unsigned told[8];               // for each face: how many exchanges the neighbour has sent
    unsigned long long sums_posted; // how often this rank has posted sums in `out`; lowest bits: how many sums
    PostedSums out, in;             // sums of this rank, and of all, in place 0
    int given_up;                   // the Wait that kernels must report; 0: they go on waiting
    static constexpr int count_bits = 16;
};

// Says that ghosts of a vector have been stored: its parity, and bytes and word size of its elements. If these are 0,
// it says that this rank has sent its next exchange through the slots.
struct Announcement {
    unsigned count;
    unsigned parity, bytes, word;
    MILCGPU_HD unsigned long long packed() const {
        return static_cast<unsigned long long>(count) << 32 | parity << 16 | bytes << 8 | word;
    }
    static Announcement of(unsigned long long w) {
        return {static_cast<unsigned>(w >> 32), static_cast<unsigned>(w >> 16 & 255),
                static_cast<unsigned>(w >> 8 & 255), static_cast<unsigned>(w & 255)};
    }
};

// In the memory of one rank's GPU; the other ranks write to it as well. If ranks share host memory, `sent` and
// `own_posted` of a copy there are used.
struct Peers {
    struct Face {             // 2 mu + side: of the neighbour behind in mu (side 0) or ahead of it (1)
        unsigned char *slots; // the neighbour's; nullptr: mu is not cut, or this GPU cannot reach that memory
        unsigned *tell; // counts, for the neighbour, the exchanges that this rank has sent; nullptr: the host does
        const unsigned *heard; // counts those that the neighbour has sent; nullptr: mu is not cut
        int rank;
    };
    static constexpr int faces = ghost_faces;
    int place, posters; // this rank's place for sums, and how many ranks there are
    Face face[faces];
    PostedSums *posted_at[most_peers]; // the places for sums in the memory of all ranks
    PostedSums *posted;                // the places in this rank's memory
    RelayBox *relay;                   // nullptr: all ranks are reached directly
    unsigned char *slots;              // two, in this rank's memory
    size_t slot_bytes;
    unsigned long long limit_ns;
    WaitReport *waits;
    // The members below change during a solve.
    unsigned vector_sent[2]; // by parity: the number of the vector whose ghosts are read
    unsigned vector_next[2]; // and of the vector that is sent next
    unsigned exchanges;      // that this rank has sent through slots
    unsigned blocks_done;    // of the launch that sends the next exchange
    unsigned sums;           // over ranks, so far
    unsigned announced;
    int broken;           // the first Wait that reached its limit; 0: none
    unsigned sent[faces]; // exchanges that the neighbour of a face has sent
    PostedSums own_posted;
};

// Ghosts of a vector are stored like the vector's own sites, in stripes of `places` sites. Their check words are behind
// the memory that ghosts in double would take.
constexpr int most_ghost_bytes = 48, check_bytes = 8;

// The check word of a site, from its words of 4 bytes and the number of the exchange.
template <int words> MILCGPU_HD uint64_t check_word(const uint32_t *site, unsigned number) {
    uint64_t sum = uint64_t(number) * 0x9E3779B97F4A7C15ull;
    MILCGPU_UNROLL
    for (int k = 0; k < words; ++k)
        sum += uint64_t(site[k]) * (uint32_t(scrambled(k + 1)) | 1u); // odd factors in no progression
    return sum;
}

} // namespace milcgpu
