// GPUs that write into each other's memory: the ranks of one node, with no host between them.
//
// Ghosts of a vector: the thread that makes a site stores it into the memory of the neighbours that need it, and with
// it a check word, which is made of the site and of the number of the exchange. Who reads a ghost takes it when the
// check word fits, and looks again when it does not. Nothing is fenced or counted, and a thread waits for no more than
// it reads. A ghost of which only a part has come passes with a chance of about 2^-64.
//
// There is room for one vector of each parity. Its ghosts may be overwritten by the next vector of that parity, because
// hops are symmetric: a site is made from those neighbours which were made from it, so they have read their copy of it.
// A launch that reads no ghosts before it sends them (send_vector in halo.cu) waits for all neighbours to come as far.
//
// Other data (links, margins of a field, vectors of several sources) go through two slots, exchange e through slot e
// mod 2: a rank stores what its neighbours need, and then tells each of them the number of the exchange. Who stores
// exchange e has waited for e - 1 of all neighbours, which they sent after they had read e - 2: the slot is free.
//
// A sum over ranks: every rank posts its sum (posted.h) in a place of its own in the memory of all, and adds what the
// others have posted, in rank order: the same bits everywhere. Two sets of places, used in turn.
//
// Ranks that cannot be reached so, those of other hosts above all, are reached through memory that the GPU shares with
// its host (RelayBox). Kernels do the same: they store ghosts and the sum of their rank there, and wait for those of
// others, which the host passes on meanwhile (halo/relay.h).
//
// All ranks start the same launches in the same order. A wait for another rank ends after `limit_ns`; it is noted, no
// wait after it takes longer than some looks, and the host reports it (Device::check_waits).
#pragma once
#include "gpu_kernels/backend/posted.h"
#include <cstddef>

namespace milcgpu {

constexpr int most_peers = 16; // ranks whose sums are posted to all of them
constexpr int widest_sum = 3;  // numbers summed at once over the sites of one field
constexpr int most_sums = 64;  // and over those of several

// Of face 2 mu + side: the neighbour behind in mu (side 0) or ahead of it (1).
constexpr const char *face_names[] = {"behind in x", "ahead in x", "behind in y", "ahead in y",
                                      "behind in z", "ahead in z", "behind in t", "ahead in t"};

// Sums of ranks on their way.
struct PostedSums {
    double of[2][most_peers][most_sums];
};

// Memory that the GPU shares with its host.
struct RelayBox {
    static constexpr int announcements = 4096; // far more launches than are ever queued
    // What is to be passed on, in the order of launches; the k-th (from 1) is announced[k % announcements].
    unsigned long long announced[announcements];
    unsigned told[8];               // by face: exchanges that the neighbour has told of
    unsigned long long sums_posted; // how often there were sums of this rank in `out`, and, below, how many
    PostedSums out, in;             // sums of this rank, and of all, in place 0
    int given_up;                   // the Wait that kernels are to give up
    static constexpr int count_bits = 16;
};

// Ghosts of a vector of a parity have been stored; bytes, word: of its elements. Or, where these are 0: this rank has
// come to the next exchange through slots.
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

// In memory of the rank that it belongs to, which the others write to as well.
struct Peers {
    struct Face {              // 2 mu + side: of the neighbour behind in mu (side 0) or ahead of it (1)
        unsigned char *slots;  // of the neighbour; nullptr: mu is not cut, or it is not reached
        unsigned *tell;        // where it hears how many exchanges this rank has sent; nullptr: the host tells it
        const unsigned *heard; // where this rank hears how many that neighbour has sent; nullptr: mu is not cut
        int rank;
    };
    static constexpr int faces = 8;
    int place, posters; // where this rank posts sums, and how many do
    Face face[faces];
    PostedSums *posted_at[most_peers]; // where sums are posted to
    PostedSums *posted;                // and where they are awaited
    RelayBox *relay;                   // nullptr: all ranks are reached directly
    unsigned char *slots;              // two, in this rank's memory
    size_t slot_bytes;
    unsigned long long limit_ns;
    WaitReport *waits;
    // What changes.
    unsigned vector_sent[2]; // by parity: the number of the vector whose ghosts are read
    unsigned vector_next[2]; // and of the one that is sent next
    unsigned exchanges;      // that this rank has sent through slots
    unsigned blocks_done;    // of the launch that sends the next one
    unsigned sums;           // over ranks, so far
    unsigned announced;
    int broken;           // the Wait that was given up first
    unsigned sent[faces]; // exchanges that the neighbour of a face has sent
    PostedSums own_posted;
};

// Ghosts of a vector lie as the vector's own sites do, in stripes of `places` sites; behind the room for them in double
// lie their check words.
constexpr int most_ghost_bytes = 48, check_bytes = 8;

// Words of 4 bytes of a site, with the number of their exchange.
template <int words> MILCGPU_HD uint64_t check_word(const uint32_t *site, unsigned number) {
    uint64_t sum = uint64_t(number) * 0x9E3779B97F4A7C15ull;
    MILCGPU_UNROLL
    for (int k = 0; k < words; ++k)
        sum += uint64_t(site[k]) * (0x85EBCA6Bu + 0x9E3779B2u * k); // odd factors
    return sum;
}

// Where ghosts lie for a launch that makes a vector of a parity from one of the other. The host knows it, so that no
// kernel loads it.
struct GhostMap {
    Peers *peers;                    // nullptr: there are none
    const unsigned char *from;       // ghosts of the vector that is read
    unsigned char *to[Peers::faces]; // where the neighbour of a face has those of the one that is made
    unsigned places;                 // of all faces
};

// What a launch over the sites of a parity has to do with peers.
struct PeerLaunch {
    GhostMap map; // no peers: ghosts lie behind the field that is read
    // Turns in which blocks take the tiles of the parity. Those from `begin` to `end` read ghosts or have sites that
    // the neighbours need. tiles[turn], or, where that is nullptr, they are the first `low` tiles and the last ones.
    const int *tiles;
    int begin, end, low, others; // others: tiles that are not among them
    bool send;                   // the next launch reads what this one makes
    bool relays;                 // map.peers->relay != nullptr
    MILCGPU_HD bool at_boundary(int turn) const { return map.peers == nullptr || (turn >= begin && turn < end); }
    MILCGPU_HD int tile(int turn) const {
        if (map.peers == nullptr)
            return turn;
        if (tiles != nullptr)
            return tiles[turn];
        const int k = turn - begin;
        return turn < begin ? low + turn : turn >= end ? low + turn - (end - begin) : k < low ? k : k + others;
    }
};

} // namespace milcgpu
