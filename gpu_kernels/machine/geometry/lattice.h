// Sites of one rank and their neighbours, as kernels see them. Only this file knows where a neighbour is stored: in a
// direction that is cut over ranks, among the ghosts. geometry.h has the global coordinates, on the host.
//
// Sites are numbered as in MILC: lexicographic index l = x + X (y + Y (z + Z t)), within a parity l/2. Exactly one site
// of the pair 2i, 2i+1 is even for any extents, even for odd ones: lexicographic neighbours with the same i differ in
// parity, because a row of odd length starts the next row with the other parity.
#pragma once
#include "gpu_kernels/machine/error.h"
#include "gpu_kernels/machine/portable.h"
#include <array>

namespace milcgpu {

// Division by a constant without a divide instruction (Granlund and Montgomery 1994, doi:10.1145/178243.178249), n <
// 2^31.
struct Divisor {
    uint32_t d, multiplier, shift;
    Divisor() = default;
    explicit Divisor(uint32_t divisor) : d(divisor), multiplier(0), shift(0) {
        while ((1u << shift) < d)
            ++shift;
        multiplier = static_cast<uint32_t>(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1);
    }
    MILCGPU_HD uint32_t quotient(uint32_t n) const { return (multiply_high(multiplier, n) + n) >> shift; }
};

struct Site {
    int x[4];
    int lexicographic;
    MILCGPU_HD int index() const { return lexicographic >> 1; } // within its parity
    // x[mu] for mu that is not known at compile time: an indexed array would leave the registers.
    MILCGPU_HD int along(int mu) const { return mu < 2 ? (mu == 0 ? x[0] : x[1]) : mu == 2 ? x[2] : x[3]; }
};

struct Lattice {
    int extent[4];     // local
    int origin_parity; // (sum of the global coordinates of the local origin) mod 2
    int stride_lexicographic[4];
    int third_hop[4]; // 3 mod extent: with extent 2, three hops equal one
    Divisor divide[3];

    Lattice() = default;
    Lattice(const std::array<int, 4> &extents, int parity_of_origin) : origin_parity(parity_of_origin) {
        int stride = 1;
        for (int mu = 0; mu < 4; ++mu) {
            extent[mu] = extents[mu];
            stride_lexicographic[mu] = stride;
            stride *= extents[mu];
            third_hop[mu] = 3 % extents[mu];
            if (mu < 3)
                divide[mu] = Divisor(static_cast<uint32_t>(extents[mu]));
        }
    }

    MILCGPU_HD int volume() const { return stride_lexicographic[3] * extent[3]; }
    // Sites of a parity (0 even, 1 odd): equal unless all extents are odd.
    MILCGPU_HD int sites(int parity) const { return (volume() + (parity == origin_parity ? 1 : 0)) / 2; }

    MILCGPU_HD Site site(int parity, int i) const {
        Site s;
        uint32_t l = 2u * static_cast<uint32_t>(i);
        uint32_t rest = l;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 3; ++mu) {
            const uint32_t q = divide[mu].quotient(rest);
            s.x[mu] = static_cast<int>(rest - q * static_cast<uint32_t>(extent[mu]));
            rest = q;
        }
        s.x[3] = static_cast<int>(rest);
        if (((s.x[0] + s.x[1] + s.x[2] + s.x[3] + origin_parity + parity) & 1) != 0) {
            ++l; // the other one of the pair; with odd extents this may carry into y, z, t
            ++s.x[0];
            MILCGPU_UNROLL
            for (int mu = 0; mu < 3; ++mu)
                if (s.x[mu] == extent[mu]) {
                    s.x[mu] = 0;
                    ++s.x[mu + 1];
                }
        }
        s.lexicographic = static_cast<int>(l);
        return s;
    }

    // The site `hops` (-extent < hops < extent) further along mu. An odd number of hops changes the parity.
    MILCGPU_HD Site hop(const Site &s, int mu, int hops) const {
        Site to = s;
        MILCGPU_UNROLL
        for (int k = 0; k < 4; ++k) // mu is not known at compile time: an indexed array would leave the registers
            if (k == mu) {
                const int x = s.x[k] + hops;
                to.x[k] = x >= extent[k] ? x - extent[k] : x < 0 ? x + extent[k] : x;
                to.lexicographic += (to.x[k] - s.x[k]) * stride_lexicographic[k];
            }
        return to;
    }

    // A site in a loop over mu = 0, 1, 2, 3 that calls turn_to(s, mu) in this order. It takes fewer registers than all
    // coordinates.
    struct InTurn {
        int x; // along mu
        int lexicographic;
        uint32_t rest; // lexicographic / (the extents up to mu)
        MILCGPU_HD int along(int) const { return x; }
    };
    MILCGPU_HD InTurn in_turn(const Site &s) const {
        return {0, s.lexicographic, static_cast<uint32_t>(s.lexicographic)};
    }
    MILCGPU_HD void turn_to(InTurn &s, int mu) const {
        const uint32_t q = mu < 3 ? divide[mu].quotient(s.rest) : 0;
        s.x = static_cast<int>(s.rest - q * static_cast<uint32_t>(extent[mu]));
        s.rest = q;
    }

    // Checkerboard index of the site `hops` (0 < hops < extent) further along +mu or -mu, periodic. At: Site or InTurn.
    template <class At> MILCGPU_HD int forward(const At &s, int mu, int hops) const {
        const int wrap = s.along(mu) + hops >= extent[mu] ? extent[mu] : 0;
        return (s.lexicographic + (hops - wrap) * stride_lexicographic[mu]) >> 1;
    }
    template <class At> MILCGPU_HD int backward(const At &s, int mu, int hops) const {
        const int wrap = s.along(mu) < hops ? extent[mu] : 0;
        return (s.lexicographic - (hops - wrap) * stride_lexicographic[mu]) >> 1;
    }
};

// A box that is cut in some directions. In those a neighbour outside the box is a ghost: a copy of a site of the next
// rank, stored behind the box's own sites of its parity. Ghosts are grouped into faces, one for each cut direction and
// side. A face has `depth` layers, the nearest first. A layer has `layer[mu]` places, one for two sites, one of each
// parity.
//
// The place of a site in its layer is l3/2, where l3 is the lexicographic index without the coordinate mu. Sites of one
// parity have distinct places, for the same reason that they have distinct indices.
struct CutLattice : Lattice {
    int depth = 0;
    int first_ghost = 0;   // index
    int ghost[4][2] = {};  // index of the first ghost behind [0] and ahead [1]; 0: mu is not cut
    int layer[4] = {};     // places
    int across[4][4] = {}; // [mu][nu]: step from a site to the next along nu in a layer; 0 if nu is mu

    CutLattice() = default;
    // Bit mu of `cuts` is set if mu is cut. Ghosts start at index `first`.
    CutLattice(const std::array<int, 4> &extents, int parity_of_origin, unsigned cuts, int ghost_depth, int first)
        : Lattice(extents, parity_of_origin), depth(ghost_depth), first_ghost(first) {
        for (int mu = 0; mu < 4; ++mu) {
            for (int nu = 0; nu < 4; ++nu)
                across[mu][nu] = nu == mu ? 0 : stride_lexicographic[nu] / (nu > mu ? extents[mu] : 1);
            layer[mu] = (volume() / extents[mu] + 1) / 2;
            if ((cuts >> mu & 1) == 0)
                continue;
            third_hop[mu] = 3;
            for (int side = 0; side < 2; ++side, first += depth * layer[mu])
                ghost[mu][side] = first;
        }
    }
    // If a neighbour may be a ghost, all coordinates are needed.
    using InTurn = Site;
    MILCGPU_HD InTurn in_turn(const Site &s) const { return s; }
    MILCGPU_HD void turn_to(InTurn &, int) const {}

    MILCGPU_HD bool cut(int mu) const { return ghost[mu][0] != 0; }
    MILCGPU_HD bool is_cut() const { return cut(0) || cut(1) || cut(2) || cut(3); }
    // True if hops of up to `depth` from this site reach ghosts. Such a site is a ghost of a neighbour, too.
    bool near_cut(const Site &s) const {
        for (int mu = 0; mu < 4; ++mu)
            if (cut(mu) && (s.x[mu] < depth || s.x[mu] >= extent[mu] - depth))
                return true;
        return false;
    }

    MILCGPU_HD int place(const Site &s, int mu) const {
        return (s.x[0] * across[mu][0] + s.x[1] * across[mu][1] + s.x[2] * across[mu][2] + s.x[3] * across[mu][3]) >> 1;
    }
    // Up to `depth` hops if mu is cut.
    MILCGPU_HD int forward(const Site &s, int mu, int hops) const {
        const int beyond = s.along(mu) + hops - extent[mu];
        return beyond >= 0 && cut(mu) ? ghost[mu][1] + beyond * layer[mu] + place(s, mu)
                                      : Lattice::forward(s, mu, hops);
    }
    MILCGPU_HD int backward(const Site &s, int mu, int hops) const {
        const int beyond = hops - 1 - s.along(mu);
        return beyond >= 0 && cut(mu) ? ghost[mu][0] + beyond * layer[mu] + place(s, mu)
                                      : Lattice::backward(s, mu, hops);
    }

    // The site of this box in place k of layer `away` (0: the nearest) of the neighbour's ghosts on `side`. For the
    // neighbour ahead, whose ghosts are behind it, it is in the topmost layers of this box. Returns false if the place
    // is empty.
    MILCGPU_HD bool sent(int parity, int mu, int side, int away, int k, Site &s) const {
        s.x[mu] = side == 0 ? extent[mu] - 1 - away : away;
        for (int l3 = 2 * k; l3 <= 2 * k + 1; ++l3) {
            int rest = l3, sum = s.x[mu] + origin_parity;
            for (int nu = 0; nu < 4; ++nu)
                if (nu != mu) {
                    s.x[nu] = rest % extent[nu];
                    rest /= extent[nu];
                    sum += s.x[nu];
                }
            if (rest == 0 && sum % 2 == parity) {
                s.lexicographic = 0;
                for (int nu = 0; nu < 4; ++nu)
                    s.lexicographic += s.x[nu] * stride_lexicographic[nu];
                return true;
            }
        }
        return false;
    }
};

// The kind of lattice that kernels for lattices that are not cut are built for. Builds for the host alone use one kind
// for all lattices.
#if defined(MILCGPU_WITH_CUDA)
using OnThisBackend = Lattice;
#else
using OnThisBackend = CutLattice;
#endif

} // namespace milcgpu
