// How threads are mapped to sites.
#pragma once
#include "gpu_kernels/machine/geometry/geometry.h"

namespace milcgpu {

// `parts` threads work on each site, on both parities, in an order in which threads that share data share caches. A
// warp takes one part of 32 sites. The next warps take the other parts of these sites, and then those of the adjacent
// 32 sites of the other parity. If the extents allow it (32 divides the sites of a parity in a time slice), up to 32
// such chunks are taken in each of 4 (or 2) successive time slices before the next ones, so that neighbours in time
// meet in the L2 cache.
//
// The sites may be a subset of a larger lattice on which the kernel works: then `places` has the index of each site
// there, odd ones from places[most_sites()] on.
class SitesAndParts {
  public:
    SitesAndParts(const Geometry &geometry, int parts_a_site, const int *places = nullptr)
        : sites_{geometry.sites(0), geometry.sites(1)}, most_(geometry.most_sites()), parts_(parts_a_site),
          chunks_((geometry.most_sites() + warp - 1) / warp), places_(places) {
        const int times = geometry.lattice().extent[3], slabs = times % 4 == 0 ? 4 : 2;
        int width = 1;
        if (times % slabs == 0 && geometry.volume() % (2 * warp * times) == 0) {
            slice_ = geometry.volume() / (2 * warp * times);
            for (int k = 1; k <= std::min(slice_, 32); ++k)
                if (slice_ % k == 0)
                    width = k;
            tile_ = Divisor(static_cast<uint32_t>(slabs * slice_));
            column_ = Divisor(static_cast<uint32_t>(slabs * width));
            width_ = Divisor(static_cast<uint32_t>(width));
        }
    }
    int threads() const { return 2 * chunks_ * warp * parts_; }
    struct Item {
        int parity, i, part;
        bool valid;
        int own; // index among the sites of this work; i: in the lattice that the kernel works on
    };
    MILCGPU_HD Item item(int thread) const {
        const int group = thread / warp, of_a_parity = group / parts_, parity = of_a_parity % 2;
        const int own = place(of_a_parity / 2) * warp + thread % warp;
        const bool valid = own < sites(parity);
        const int i = places_ != nullptr && valid ? places_[parity * most_ + own] : own;
        return {parity, i, group % parts_, valid, own};
    }
    MILCGPU_HD int sites(int parity) const { return parity ? sites_[1] : sites_[0]; }

  private:
    static constexpr int warp = 32;
    // The chunk of a given turn: columns of `width` chunks in each of the time slices of a tile.
    MILCGPU_HD int place(int turn) const {
        const uint32_t in_tile = turn - tile_.quotient(turn) * tile_.d, column = column_.quotient(in_tile);
        const uint32_t in_column = in_tile - column * column_.d, time = width_.quotient(in_column);
        return static_cast<int>(turn - in_tile + time * slice_ + column * width_.d + in_column - time * width_.d);
    }
    int sites_[2], most_, parts_, chunks_, slice_ = 1; // slice: chunks of a time slice
    Divisor tile_{1}, column_{1}, width_{1};
    const int *places_;
};

} // namespace milcgpu
