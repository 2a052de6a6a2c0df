// GPUs that write into each other's memory: the ranks of one node, with no host between them.
//
// An exchange: every rank stores what its neighbours need into one of two slots of their memory (exchange e into slot e
// mod 2), and then tells each neighbour how many exchanges it has sent. Who reads waits for all its neighbours; who
// stores exchange e has waited for exchange e - 1 of all of them, which they sent after they had read e - 2: the slot
// is free. Launches of other ranks that are skipped are not a matter of this: all ranks send all exchanges, also from
// launches that have nothing else to do.
//
// A sum over ranks: every rank posts its sum (posted.h) in a place of its own in the memory of all, and adds what the
// others have posted, in rank order: the same bits everywhere. Two sets of places, used in turn.
//
// A wait for another rank ends after `limit_ns`; it is noted, no wait after it takes longer than some looks, and the
// host reports it (Device::check_waits).
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
    unsigned exchanges;   // that this rank has sent
    unsigned blocks_done; // of the launch that sends the next one
    unsigned sums;        // over ranks, so far
    int broken;           // the Wait that was given up first
    unsigned sent[faces]; // exchanges that the neighbour of a face has sent
    double posted[2][most_peers][widest_sum];
};

// What a launch over the sites of a parity has to do with peers.
struct PeerLaunch {
    Peers *peers;     // nullptr: nothing; ghosts lie behind the field that is read
    const int *order; // the tiles of the parity in the order in which blocks take them
    int begin, end;   // those in between, in that order, read ghosts or have sites that the neighbours need
    unsigned cuts;    // bit mu: mu is cut
    bool send;        // what this launch makes is the next exchange
};

} // namespace milcgpu
