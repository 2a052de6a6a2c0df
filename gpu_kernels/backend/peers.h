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
// All ranks start the same launches in the same order. A wait for another rank ends after `limit_ns`; it is noted, no
// wait after it takes longer than some looks, and the host reports it (Device::check_waits).
#pragma once
#include "gpu_kernels/backend/posted.h"
#include <cstddef>

namespace milcgpu {

constexpr int most_peers = 16; // ranks
constexpr int widest_sum = 3;  // numbers summed at once over the sites of one field

// Of face 2 mu + side: the neighbour behind in mu (side 0) or ahead of it (1).
constexpr const char *face_names[] = {"behind in x", "ahead in x", "behind in y", "ahead in y",
                                      "behind in z", "ahead in z", "behind in t", "ahead in t"};

// In memory of the rank that it belongs to, which the others write to as well.
struct Peers {
    struct Face {             // 2 mu + side: of the neighbour behind in mu (side 0) or ahead of it (1)
        unsigned char *slots; // of the neighbour; nullptr: mu is not cut
        unsigned *sent;       // where it hears how many exchanges this rank has sent
        int rank;
    };
    static constexpr int faces = 8;
    int rank, ranks;
    Face face[faces];
    double *posted_at[most_peers]; // `posted` of every rank
    unsigned char *slots;          // two, in this rank's memory
    size_t slot_bytes;
    unsigned long long limit_ns;
    WaitReport *waits;
    // What changes.
    unsigned vector_sent[2]; // by parity: the number of the vector whose ghosts are read
    unsigned vector_next[2]; // and of the one that is sent next
    unsigned exchanges;      // that this rank has sent through slots
    unsigned blocks_done;    // of the launch that sends the next one
    unsigned sums;           // over ranks, so far
    int broken;              // the Wait that was given up first
    unsigned sent[faces];    // exchanges that the neighbour of a face has sent
    double posted[2][most_peers][widest_sum];
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
