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
    // The consecutive sites of a block. Half links go with vectors in single.
    static constexpr int sites(Precision precision) { return precision == Precision::double_ ? 4 : 8; }
    static constexpr size_t block_bytes(Precision precision) {
        return size_t{links} * link_bytes(precision, reals) * sites(precision);
    }
    // The k-th link of a site. behind: it starts at the neighbour behind, and D applies its adjoint.
    struct Place {
        int mu;
        bool is_long, behind;
    };
    static constexpr Place place(int k) { return {k / 4, k % 4 >= 2, k % 2 != 0}; }
    // Whether there are kernels of several sites for vectors and links in these precisions and long links of so many
    // reals.
    static constexpr bool built(Precision vectors, Precision precision, int long_reals) {
        return MILCGPU_LANES != 0 && long_reals == reals && vectors != Precision::half &&
               (precision == vectors || (precision == Precision::half && vectors == Precision::single));
    }
    // Whether links of this precision can be packed on this lattice.
    static bool fit(const Geometry &, Precision);
    static size_t bytes_of(const Geometry &, Precision);
    // A number for fat and one for long links.
    struct FatLong {
        double fat, lng;
    };
    // Packs fields of 18 reals and scale 1, in double or single. Both must have their ghosts. largest: the largest
    // |real| of each field on all ranks, which half links are stored in units of.
    LaneLinks(Device &, const Geometry &, const LinkField &fat, const LinkField &lng, Precision,
              const FatLong &largest = {1, 1});
    const unsigned char *of(int parity) const { return data_.data() + parity * (links_bytes_ / 2); }
    // The neighbours of the sites of a block, for each of its links in turn. If they are consecutive, the first of them
    // is stored as ~index.
    const int *neighbours(int parity) const {
        return reinterpret_cast<const int *>(data_.data() + links_bytes_ +
                                             parity * ((data_.bytes() - links_bytes_) / 2));
    }
    Precision precision() const { return precision_; }
    // A link is scale * (its stored numbers).
    double fat_scale() const { return scale_.fat; }
    double long_scale() const { return scale_.lng; }
    Region region() const { return {data_.data(), data_.bytes(), checksum_, "links of several sites"}; }

  private:
    Precision precision_;
    FatLong scale_{1, 1};
    size_t links_bytes_; // the neighbours come after the links
    DeviceArray<unsigned char> data_;
    uint64_t checksum_ = 0;
};

} // namespace milcgpu
