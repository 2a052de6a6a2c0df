// Links on a device, 4 a site: the field as it was given or computed here (18 reals), and the packed versions that
// operators need. A packed version is made on the device at its first request and kept until the content changes. It
// has the checksum of what was written and, if there is a halo, the ghosts that backward terms read.
#pragma once
#include "reorder/link_reorder.h"
#include <functional>
#include <map>
#include <memory>
#include <set>

namespace milcgpu {

class Halo;

class ResidentField {
  public:
    using Held = std::shared_ptr<const LinkField>; // packed links are not freed while somebody holds them
    using Warn = std::function<void(const std::string &)>;
    using Versions = std::set<std::pair<Precision, int>>; // by precision and reals a link

    // name: for messages. hops: layers of ghosts of a link that `halo` fills; nullptr: no ghosts. All ranks then call
    // functions that are not const together.
    ResidentField(Device &device, const Geometry &geometry, const char *name, Warn warn, int hops = 0,
                  Halo *halo = nullptr)
        : device_(device), geometry_(geometry), name_(name), warn_(std::move(warn)), hops_(hops), halo_(halo) {}

    // Sets new content, with its ghosts and checksum. Drops the packed versions of the old content.
    void hold(Held given, const LinkStatistics &);
    void clear() { hold(nullptr, {}); }
    bool empty() const { return given_ == nullptr; }
    const LinkField &as_given() const { return *given_; }
    // Identifies this content, and all that is made from it, within this process. 0: empty.
    uint64_t tag() const { return tag_; }
    const LinkStatistics &statistics() const { return statistics_; }

    // The version in that precision with so many reals a link. If the packed form does not hold the links to
    // accepted_error(), the result has 18 reals, which is logged once; its reals() says what it has.
    Held version(Precision, int reals);
    // Device memory of these versions beside a field that was given in `given`.
    static size_t bytes_of(const Versions &, Precision given, const Geometry &);
    // Frees packed versions that nobody holds. Returns true if it freed anything.
    bool drop_unused();

  private:
    Device &device_;
    Geometry geometry_;
    const char *name_;
    Warn warn_;
    int hops_;
    Halo *halo_;
    Held given_;
    LinkStatistics statistics_{};
    uint64_t tag_ = 0;
    std::map<std::pair<Precision, int>, Held> packed_; // nullptr: that form does not hold these links
};

} // namespace milcgpu
