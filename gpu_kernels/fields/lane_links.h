// The links of the staggered D for several consecutive sites at once (machine/backend/lanes.h). The 16 links of such a
// block of sites are stored together, in the order in which D reads them, real by real: D then reads one stream of
// memory, where 16 streams would take three times as long. So links of the other parity, which D reads behind a site,
// are stored a second time.
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/machine/backend/lanes.h"

namespace milcgpu {

class LaneLinks {
  public:
    static constexpr int reals = 18, links = 16; // of a link; of a site
    static constexpr size_t block_bytes = size_t{links} * reals * lane_bytes;
    // Which link of a site comes k-th. behind: from behind.
    struct Place {
        int mu;
        bool is_long, behind;
    };
    static constexpr Place place(int k) { return {k / 4, k % 4 >= 2, k % 2 != 0}; }
    // Whether D of links in this precision, with so many reals a long link, takes several sites at once on some lattice.
    static constexpr bool built(Precision precision, int long_reals) {
        return MILCGPU_LANES != 0 && precision != Precision::half && long_reals == reals;
    }
    // And on this lattice.
    static bool fit(const Geometry &, Precision, int long_reals);
    static size_t bytes_of(const Geometry &, Precision);
    // Packs fields of 18 reals and scale 1, in double or single. Both have their ghosts.
    LaneLinks(Device &, const Geometry &, const LinkField &fat, const LinkField &lng, Precision);
    const unsigned char *of(int parity) const { return data_.data() + parity * (data_.bytes() / 2); }
    Precision precision() const { return precision_; }
    Region region() const { return {data_.data(), data_.bytes(), checksum_, "links of several sites"}; }

  private:
    Precision precision_;
    DeviceArray<unsigned char> data_;
    uint64_t checksum_ = 0;
};

} // namespace milcgpu
