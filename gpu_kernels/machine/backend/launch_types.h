// Parameters of a launch: which of several sources are active; where it reads and stores ghosts of other ranks (peers.h
// says how they travel); the order of its tiles.
#pragma once
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

struct Peers;

constexpr int ghost_faces = 8; // of a box
constexpr int widest_sum = 3;  // most numbers summed at once over the sites of one field
constexpr int most_sums = 64;  // the same over several fields

// Which of several sources a launch works on: those whose number on the device is not 0. There is one number a source,
// `bytes` apart, the same on all ranks.
struct ActiveSources {
    const int *first = nullptr; // nullptr: all sources are active
    size_t bytes = 0;
    MILCGPU_HD bool has(int k) const { return first == nullptr || *at(k) != 0; }
    ActiveSources from(int k) const { return {first == nullptr ? nullptr : at(k), bytes}; }
    MILCGPU_HD const int *at(int k) const {
        return reinterpret_cast<const int *>(reinterpret_cast<const char *>(first) + k * bytes);
    }
};

// Where ghosts are stored, for a launch that computes a vector of one parity from one of the other. The host fills this
// in, so that kernels need not load it.
struct GhostMap {
    Peers *peers;                   // nullptr: no ghosts
    const unsigned char *from;      // ghosts of the vector that the launch reads
    unsigned char *to[ghost_faces]; // where each neighbour keeps the ghosts of the new vector
    unsigned places;                // of all faces
};

// What a launch over the sites of a parity needs to exchange ghosts.
struct PeerLaunch {
    GhostMap map; // if map.peers is nullptr, ghosts are behind the field that is read
    // Blocks take the tiles of the parity in turns. Tiles at a cut read ghosts or have sites that neighbours need;
    // their turns are from `begin` to `end`. tiles[turn] names the tile. If `tiles` is nullptr, the tiles at a cut are
    // the first `low` ones and the last ones.
    const int *tiles;
    int begin, end, low, others; // others: tiles that are not at a cut
    bool send;                   // the next launch reads the new vector, so its ghosts are sent
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

// The tiles that a launch works on, for a box that is cut in t alone and whose slices of constant t are whole tiles:
// all tiles, the tiles of slices away from the cut, or the tiles of the `near` slices at either end, which read ghosts
// or are sent.
struct Tiles {
    enum class Which { all, inner, at_cut } which = Which::all;
    int near = 0;
    bool beside = false; // the launch runs beside the previous one
};

// What a stencil reads: slices of constant t, and the bytes of the slices between the two furthest neighbours of a
// site, plus one slice that is written.
struct SlicesRead {
    int slices = 1;
    double bytes = 0; // 0: tiles are taken in their stored order
    static SlicesRead of(int slices, int reach, double field_bytes) {
        return {slices, (2 * reach + 2) * field_bytes / slices};
    }
};

// The order in which blocks take the tiles of a stencil. A site and its furthest neighbours are whole slices of
// constant t apart. If these slices do not fit in the L2 cache, each slice is cut into parts, and a part is swept over
// all t before the next part. Tiles beyond whole slices come last, in their stored order.
struct TileOrder {
    int count;               // tiles that the launch takes
    int part, slice, slices; // tiles of a part and of a slice, and number of slices of the launch; part 0: stored order
    int gap_at = 0, gap = 0; // after the first gap_at of these slices, the launch skips `gap` slices
    bool beside = false;     // the launch runs beside the previous one
    MILCGPU_HD int tile(int turn) const {
        if (part == 0 || turn >= slice * slices)
            return turn;
        const int first = turn / (part * slices) * part, width = first + part < slice ? part : slice - first;
        const int rest = turn - first * slices, t = rest / width;
        return (t < gap_at ? t : t + gap) * slice + first + rest - t * width;
    }
    void take(const Tiles &tiles) {
        if (tiles.which == Tiles::Which::all)
            return;
        const int inner = slices - 2 * tiles.near;
        part = part == 0 ? slice : part;
        if (tiles.which == Tiles::Which::inner)
            slices = inner, gap = tiles.near;
        else
            slices = 2 * tiles.near, gap_at = tiles.near, gap = inner;
        count = slice * slices;
        beside = tiles.beside;
    }
};

// Replaces a TileOrder in kernels without code for one: stored order.
struct AsTheyLie {
    explicit AsTheyLie(const TileOrder &) {}
};

} // namespace milcgpu
