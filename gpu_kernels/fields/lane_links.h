// The links of the staggered D for several consecutive sites at once (machine/backend/lanes.h). The 16 links of such a
// block of sites are stored together, in the order in which D reads them, real by real. So D reads one stream of
// memory; 16 streams take three times as long. The links behind a site start at sites of the other parity, so each link
// is stored twice: once for the site where it starts, and once for the site where it ends.
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/machine/backend/lanes.h"

namespace milcgpu {

class LaneLinks {
  public:
    static constexpr int reals = 18, links = 16; // reals of a link; links that D reads at a site
    static constexpr size_t block_bytes = size_t{links} * reals * lane_bytes;
    // The k-th link of a site. behind: it starts at the neighbour behind, and D applies its adjoint.
    struct Place {
        int mu;
        bool is_long, behind;
    };
    static constexpr Place place(int k) { return {k / 4, k % 4 >= 2, k % 2 != 0}; }
    // Whether D with links in this precision, and long links of so many reals, takes several sites at once on some
    // lattice.
    static constexpr bool built(Precision precision, int long_reals) {
        return MILCGPU_LANES != 0 && precision != Precision::half && long_reals == reals;
    }
    // Whether it does so on this lattice.
    static bool fit(const Geometry &, Precision, int long_reals);
    static size_t bytes_of(const Geometry &, Precision);
    // Packs fields of 18 reals and scale 1, in double or single. Both must have their ghosts.
    LaneLinks(Device &, const Geometry &, const LinkField &fat, const LinkField &lng, Precision);
    const unsigned char *of(int parity) const { return data_.data() + parity * (links_bytes_ / 2); }
    // The neighbours of the sites of a block, for each of its links in turn. If they are consecutive, the first of them
    // is stored as ~index.
    const int *neighbours(int parity) const {
        return reinterpret_cast<const int *>(data_.data() + links_bytes_ +
                                             parity * ((data_.bytes() - links_bytes_) / 2));
    }
    Precision precision() const { return precision_; }
    Region region() const { return {data_.data(), data_.bytes(), checksum_, "links of several sites"}; }

  private:
    Precision precision_;
    size_t links_bytes_; // the neighbours come after the links
    DeviceArray<unsigned char> data_;
    uint64_t checksum_ = 0;
};

} // namespace milcgpu
