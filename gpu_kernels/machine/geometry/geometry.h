// The box of sites of one rank, as a part of the whole lattice. Fields are allocated for a geometry. Volumes, norms,
// phases and parities refer to the whole lattice and are computed here.
#pragma once
#include "gpu_kernels/machine/geometry/lattice.h"
#include <algorithm>

namespace milcgpu {

class Geometry {
  public:
    using Extents = std::array<int, 4>;
    Geometry() = default;
    // One rank has the whole lattice.
    explicit Geometry(const Extents &extents) : Geometry(extents, {0, 0, 0, 0}, extents, 0) {}
    // The box of `local` extents at `origin` of a lattice of `global` extents. Local extents may be odd. Directions in
    // which the box is smaller than the lattice are cut: there a field has memory for ghosts, the nearest `ghost_depth`
    // layers of the neighbours on both sides. Bits of `emulated` (1 x, 2 y, 4 z, 8 t): directions that are whole but
    // treated as cut; their neighbour is this box itself.
    Geometry(const Extents &local, const Extents &origin, const Extents &global, int ghost_depth, unsigned emulated = 0)
        : origin_(origin), global_(global) {
        unsigned cuts = emulated;
        for (int mu = 0; mu < 4; ++mu)
            cuts |= (local[mu] != global[mu]) << mu;
        const int origin_parity = (origin[0] + origin[1] + origin[2] + origin[3]) % 2;
        lattice_ = CutLattice(local, origin_parity, 0, 0, 0);
        lattice_ = CutLattice(local, origin_parity, cuts, ghost_depth, most_sites());
    }

    const CutLattice &lattice() const { return lattice_; }
    int sites(int parity) const { return lattice_.sites(parity); } // local, 0 even, 1 odd
    int most_sites() const { return std::max(sites(0), sites(1)); }
    int volume() const { return lattice_.volume(); } // local
    double global_volume() const { return double(global_[0]) * global_[1] * global_[2] * global_[3]; }
    const Extents &origin() const { return origin_; }
    const Extents &global_extents() const { return global_; }

    bool cut(int mu) const { return lattice_.cut(mu); }
    bool is_cut() const { return lattice_.is_cut(); }
    // For fields whose neighbours are never read.
    Geometry without_ghosts() const {
        Geometry bare = *this;
        const int *const n = lattice_.extent;
        bare.lattice_ = CutLattice({n[0], n[1], n[2], n[3]}, lattice_.origin_parity, 0, 0, 0);
        return bare;
    }
    // Places for ghosts of one parity, over all faces.
    size_t ghost_sites() const {
        size_t sites = 0;
        for (int mu = 0; mu < 4; ++mu)
            if (cut(mu))
                sites += size_t(2) * lattice_.depth * lattice_.layer[mu];
        return sites;
    }
    // Sites from one stripe of a field to the next. Stripes start on 128-byte lines for every word size (at least 2
    // bytes).
    size_t stride() const { return (most_sites() + ghost_sites() + 63) / 64 * 64; }

  private:
    CutLattice lattice_;
    Extents origin_{}, global_{};
};

enum class Signs { phases_in, phases_out }; // for links: with the signs below, or without

// Staggered phases by global coordinates: x (-1)^t, y (-1)^(t+x), z (-1)^(t+x+y), and -1 on the t links of the last
// time slice of the whole lattice (antiperiodic boundary).
struct Phases {
    int origin[4], last_t, last_t_again; // last_t_again: the last slice once more, for coordinates beyond the lattice
    explicit Phases(const Geometry &g) : Phases(g, g) {}
    // For `wide`, a box with a margin around g.
    Phases(const Geometry &g, const Geometry &wide)
        : origin{wide.origin()[0], wide.origin()[1], wide.origin()[2], wide.origin()[3]},
          last_t(g.global_extents()[3] - 1), last_t_again(2 * last_t + 1) {}
    // Phases of x, y and z links, by coordinates relative to a site.
    Phases relative_to(const int site[4]) const {
        Phases moved = *this;
        for (int mu = 0; mu < 4; ++mu)
            moved.origin[mu] -= site[mu];
        return moved;
    }
    MILCGPU_HD int sign(const Site &s, int mu) const {
        const int x = s.x[0] + origin[0], y = s.x[1] + origin[1], t = s.x[3] + origin[3];
        const int odd = mu == 3 ? t == last_t || t == last_t_again : mu == 0 ? t : mu == 1 ? t + x : t + x + y;
        return odd & 1 ? -1 : 1;
    }
};

} // namespace milcgpu
