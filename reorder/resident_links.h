// One set of fat and long links on a device: the copy as MILC handed it over or as it was made here (18 reals), and the
// packed versions that solves asked for, made on the device when first named and kept until the links change.
#pragma once
#include "reorder/link_reorder.h"
#include <functional>
#include <map>
#include <memory>

namespace milcgpu {

class ResidentLinks {
  public:
    // Empty until update(). host_real: precision of MILC's links.
    ResidentLinks(Device &device, const SiteMap &map, const Geometry &geometry, Precision host_real);

    // Copies both fields from the host. Throws Error(nan_or_inf) with the place when an element is not finite; the set
    // is then empty. Returns false when the content is what it was (by checksum): packed versions stay valid then.
    bool update(const HostField &fat, const HostField &lng);

    // The same for links that are made on the device: `make` fills both fields (18 reals, precision host_real).
    bool update(const std::function<void(const LinkField &fat, const LinkField &lng)> &make);

    // Forgets the content: solves are refused until the next update.
    void clear();
    bool empty() const { return generation_ == 0; }
    uint64_t generation() const { return generation_; } // grows when the content changes
    uint64_t checksum() const { return fat_statistics_.checksum ^ (lng_statistics_.checksum << 1); }
    Precision host_real() const { return host_real_; }

    // A version with `reals` reals a long link. Falls back to 18 where the packed form does not hold the links to
    // accepted_error(); what was granted is in the result's lng->reals(), and warnings() says it once.
    LinkPair version(Precision precision, int reals);
    // As handed over.
    LinkPair full() const { return {&fat_, &lng_}; }
    double long_scale() const { return lng_statistics_.mean_norm; }

    // Messages since the last call (fall-backs), one a line.
    std::string take_warnings();

  private:
    const LinkField &packed_fat(Precision precision);
    const LinkField &packed_long(Precision precision, int reals);
    LinkStatistics examine(const LinkField &field, const char *name);
    Device &device_;
    const SiteMap &map_;
    Geometry geometry_;
    Precision host_real_;
    LinkField fat_, lng_;
    LinkStatistics fat_statistics_{}, lng_statistics_{};
    std::map<Precision, LinkField> fat_versions_;
    std::map<std::pair<Precision, int>, LinkField> long_versions_;
    std::map<std::pair<Precision, int>, bool> refused_;
    uint64_t generation_ = 0, changes_ = 0;
    std::string warnings_;
};

} // namespace milcgpu
