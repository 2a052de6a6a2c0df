// One set of fat and long links on a device, as MILC passed it or as it was computed here, and the packed versions that
// solves requested.
#pragma once
#include "gpu_kernels/fields/lane_links.h"
#include "reorder/resident_field.h"

namespace milcgpu {

// A version of the links, kept alive while this object lives.
struct HeldLinks {
    ResidentField::Held fat, lng;
    std::shared_ptr<const LaneLinks> lanes;
    LinkPair pair;
};

class ResidentLinks {
  public:
    // Empty until update(). host_real: precision of MILC's links. changes: the count of changes of a previous set, to
    // continue from. halo: needed if the geometry is cut; all ranks then call functions that are not const together.
    ResidentLinks(Device &device, const SiteMap &map, const Geometry &geometry, Precision host_real,
                  uint64_t changes = 0, Halo *halo = nullptr, const ResidentField::Warn &warn = {});

    // Copies both fields from the host. If an element is not finite, throws Error(nan_or_inf) with its place, and the
    // set is empty. Returns false if the content has not changed (by its hash): packed versions stay valid then.
    bool update(const HostField &fat, const HostField &lng);

    // As above for links that are computed on the device: `make` fills both fields (18 reals, precision host_real).
    bool update(const std::function<void(const LinkField &fat, const LinkField &lng)> &make);

    // Drops the content: solves are refused until the next update.
    void clear() { generation_ = 0; }
    bool empty() const { return generation_ == 0; }
    uint64_t generation() const { return generation_; } // grows when the content changes
    uint64_t changes() const { return changes_; }       // the last generation, even if the set is empty now
    uint64_t tag() const { return fat_links_.tag(); }   // of this content, in this process
    uint64_t content() const { return content_; }       // a hash of both fields' bits, on this rank
    Precision host_real() const { return host_real_; }

    // A version with `reals` reals a long link, or 18 (ResidentField::version).
    LinkPair version(Precision precision, int reals) { return held_version(precision, reals).pair; }
    HeldLinks held_version(Precision precision, int reals);
    // Both fields as passed, with their links for several sites at once in this precision, which must fit
    // (LaneLinks::fit) on all ranks.
    HeldLinks held_lanes(Precision precision);
    bool has_lanes(Precision precision) const { return lanes_.count(precision) > 0; } // the same on all ranks
    // Device memory in bytes of both fields as passed, and of these versions beside them.
    static size_t bytes_as_given(Precision host, const Geometry &);
    static size_t packed_bytes(const ResidentField::Versions &, Precision host, const Geometry &);
    // Frees packed versions that nobody holds. Returns true if it freed anything.
    bool drop_unused();
    // As passed.
    LinkPair full() const { return {fat_.get(), lng_.get()}; }
    double long_scale() const { return long_links_.statistics().mean_norm; }

  private:
    Device &device_;
    const SiteMap &map_;
    Geometry geometry_;
    Halo *halo_;
    Precision host_real_;
    std::shared_ptr<LinkField> fat_, lng_; // refilled by each update
    ResidentField fat_links_, long_links_;
    std::map<Precision, std::shared_ptr<const LaneLinks>> lanes_; // of 18 reals
    uint64_t content_ = 0;                                        // of both, a hash
    uint64_t generation_ = 0, changes_;
};

} // namespace milcgpu
