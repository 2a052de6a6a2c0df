// MILC's colour vectors (su3_vector), or four of them a site (wilson_vector) <-> device spinors, on the sites of one
// parity.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/geometry/geometry.h"

namespace milcgpu {

struct SpinorBlock;

// How MILC stores a field: a record for each site, `pitch` bytes apart. For a field array su3_vector f[sites_on_node]
// the pitch is the element's size; for a member of `site` structures it is sizeof(site) and data points at the first
// member.
struct HostField {
    void *data;
    Precision real; // double_ or single
    size_t pitch_bytes;
    size_t record_bytes = 0; // of a field of a caller
};

// MILC's index of our k-th site, k = 0.. over even sites in lexicographic order, then odd ones. Empty (size 0): the
// identity, which is MILC's own layout_hyper_prime.
class SiteMap {
  public:
    SiteMap() = default;
    SiteMap(Device &device, const int *host_index, int sites);
    const int *data() const { return map_.data(); } // nullptr: identity
    std::vector<int> to_host() const { return map_.to_host(); }
    Region region() const { return {map_.data(), map_.bytes(), expected_, "site map"}; }

  private:
    DeviceArray<int> map_;
    uint64_t expected_ = 0;
};

// The raw copy of host records on the device: allocated once, large enough for a whole spinor field.
class SpinorReorder {
  public:
    // components: colour vectors a site in records and spinor fields.
    SpinorReorder(Device &device, const SiteMap &map, const Geometry &geometry, int components = 1);
    // True if all bits of the records that to_device would read are zero: then nothing needs to be copied.
    bool is_zero(const HostField &, int parity) const;
    // Reads the records of `parity` only (identity map) or all records (site map).
    void to_device(const HostField &from, int parity, const SpinorBlock &to);
    // Writes the records of `parity`; all others keep their content.
    void to_host(const SpinorBlock &from, int parity, const HostField &to);

  private:
    struct Span {
        unsigned char *host;
        int records, first; // records copied; index of the parity's first site in the map
    };
    Span span(const HostField &field, int parity) const;
    size_t record_bytes(Precision real) const { return 6 * components_ * real_bytes(real); }
    Device &device_;
    const SiteMap &map_;
    Geometry geometry_;
    int components_;
    DeviceArray<unsigned char> raw_;
};

} // namespace milcgpu
