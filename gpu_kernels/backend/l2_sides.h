// The two sides of a GPU's L2 cache, and launches that follow them.
//
// The cache of an H100 or H200 has two halves. Each byte of memory belongs to one of them, by a pattern of 4 KB; an SM
// that reads a byte of the other half gets it over a path that is as slow as the memory (2.4 TB/s measured, where 4.4
// come from the own half). A vector that SMs of both sides need crosses once even if it belongs to one of them. If the
// SMs of one side take one half of the lattice, a vector is needed on one side only, but for the sites at the cuts, and
// crosses half as often.
//
// As many blocks as fit run until all is done. Each claims tiles of its side's half, one after the other, and then what
// is left of the other half. Results do not depend on which block takes which tile, nor on the table of sides.
#pragma once
#include "gpu_kernels/backend/portable.h"

namespace milcgpu {

class Device;

// Claims of the launches of one queue, in memory of the GPU. At rest all are 0.
//
// Each block claims tiles of its side until there are none, then those of the other side. So every block claims once in
// vain on each side, and the last claim of a launch on a side is known by its number: whoever makes it empties the
// counter. Nothing else has to know which launch it is, as in a recorded sequence nothing could. A launch may claim
// while the one before still works, so launches that follow each other have counters of their own.
struct alignas(128) TileClaims {
    unsigned of_side[2][32]; // 128 bytes apart; the first of each counts
    unsigned skipped;        // blocks of a launch that is skipped
};

struct L2Sides {
    const unsigned char *side = nullptr; // of each SM by its number, 0 or 1, on the GPU; nullptr: not known
    TileClaims *claims = nullptr;        // for the next launch, on the GPU
    int sms[2] = {0, 0};
};
// Of the queue of this device. They are measured when they are first asked for, in less than a millisecond.
L2Sides l2_sides(const Device &device);

// What a launch does by sides: each takes a part of the tiles.
struct TilesBySide {
    const unsigned char *side_of_sm;
    TileClaims *claims;
    unsigned count[2];
    unsigned blocks;
    TilesBySide() = default;
    TilesBySide(const L2Sides &sides, int tiles, int blocks_)
        : side_of_sm(sides.side), claims(sides.claims), blocks(blocks_) {
        count[0] = static_cast<unsigned>(double(tiles) * sides.sms[0] / (sides.sms[0] + sides.sms[1]));
        count[1] = tiles - count[0];
    }

#if defined(__CUDACC__)
    // What the thread that claims for a block knows.
    struct Claimant {
        int side;
        bool at_other;
    };
    __device__ __forceinline__ Claimant claimant() const {
        unsigned sm;
        asm("mov.u32 %0, %%smid;" : "=r"(sm));
        return {side_of_sm[sm], false};
    }
    __device__ __forceinline__ unsigned claim(int side) const { return atomicAdd(claims->of_side[side], 1u); }
    // The tile of a claim, or of one on the other side; -1: none is left.
    __device__ __forceinline__ int tile(Claimant &who, unsigned claimed) const {
        int found = at_or_empty(who.side, claimed);
        if (found < 0 && !who.at_other) {
            who = {1 - who.side, true};
            found = at_or_empty(who.side, claim(who.side));
        }
        return found;
    }
    // In a launch that is skipped, by each block that has claimed, once.
    __device__ __forceinline__ void skip() const {
        if (atomicAdd(&claims->skipped, 1u) + 1 == blocks) {
            claims->skipped = 0;
            claims->of_side[0][0] = claims->of_side[1][0] = 0;
        }
    }

  private:
    __device__ __forceinline__ int at_or_empty(int side, unsigned claimed) const {
        const unsigned tiles = side == 0 ? count[0] : count[1];
        if (claimed == tiles + blocks - 1)
            claims->of_side[side][0] = 0;
        return claimed < tiles ? static_cast<int>(claimed + (side == 0 ? 0 : count[0])) : -1;
    }
#endif
};

} // namespace milcgpu
