// One set of fat and long links on a device: the copy as MILC handed it over or as it was made here (18 reals), and the
// packed versions that solves asked for, made on the device when first named and kept until the links change.
#pragma once
#include "reorder/link_reorder.h"
#include <functional>
#include <map>
#include <memory>

namespace milcgpu {

class Halo;

// A version of the links, and the right to it: what is packed is not given back while somebody holds this.
struct HeldLinks {
    LinkPair pair;
    std::shared_ptr<const LinkField> fat, lng; // nullptr: not packed
};

class ResidentLinks {
  public:
    // Empty until update(). host_real: precision of MILC's links. changes: that a set before this one has counted.
    // halo: needed where the geometry is cut; all ranks then call what is not const together.
    ResidentLinks(Device &device, const SiteMap &map, const Geometry &geometry, Precision host_real,
                  uint64_t changes = 0, Halo *halo = nullptr);

    // Copies both fields from the host. Throws Error(nan_or_inf) with the place when an element is not finite; the set
    // is then empty. Returns false when the content is what it was (by checksum): packed versions stay valid then.
    bool update(const HostField &fat, const HostField &lng);

    // The same for links that are made on the device: `make` fills both fields (18 reals, precision host_real).
    bool update(const std::function<void(const LinkField &fat, const LinkField &lng)> &make);

    // Forgets the content: solves are refused until the next update.
    void clear() { generation_ = 0; }
    bool empty() const { return generation_ == 0; }
    uint64_t generation() const { return generation_; } // grows when the content changes
    uint64_t changes() const { return changes_; }       // the last generation, also of a set that is empty now
    uint64_t checksum() const { return fat_statistics_.checksum ^ (lng_statistics_.checksum << 1); }
    Precision host_real() const { return host_real_; }

    // A version with `reals` reals a long link. Falls back to 18 where the packed form does not hold the links to
    // accepted_error(); what was granted is in the result's lng->reals(), and warnings() says it once.
    LinkPair version(Precision precision, int reals) { return held_version(precision, reals).pair; }
    HeldLinks held_version(Precision precision, int reals);
    // Gives back what is packed and held by nobody. Returns whether there was anything.
    bool drop_unused();
    // As handed over.
    LinkPair full() const { return {&fat_, &lng_}; }
    double long_scale() const { return lng_statistics_.mean_norm; }

    // Messages since the last call (fall-backs), one a line.
    std::string take_warnings();

  private:
    using Packed = std::shared_ptr<const LinkField>;
    Packed keep(PackedLinks &packed, int layers) const;
    Packed packed_fat(Precision precision);
    Packed packed_long(Precision precision, int reals);
    Device &device_;
    const SiteMap &map_;
    Geometry geometry_;
    Halo *halo_;
    Precision host_real_;
    LinkField fat_, lng_;
    LinkStatistics fat_statistics_{}, lng_statistics_{};
    std::map<Precision, Packed> fat_versions_;
    std::map<std::pair<Precision, int>, Packed> long_versions_;
    std::map<std::pair<Precision, int>, bool> refused_;
    uint64_t generation_ = 0, changes_;
    std::string warnings_;
};

} // namespace milcgpu
