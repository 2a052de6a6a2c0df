// Links on a device, 4 a site: the field as it was given or made here (18 reals), and the packed versions that
// operators ask for, made on the device when first named and kept until the content changes. Packed versions have the
// checksum of what was put there and, where there is a halo, the ghosts that backward terms read.
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
    using Held = std::shared_ptr<const LinkField>; // what is packed is not given back while somebody holds it
    using Warn = std::function<void(const std::string &)>;
    using Versions = std::set<std::pair<Precision, int>>; // by precision and reals a link

    // name: in messages. hops: of a link, the layers of ghosts that `halo` fills; nullptr: there are none. All ranks
    // then call what is not const together.
    ResidentField(Device &device, const Geometry &geometry, const char *name, Warn warn, int hops = 0,
                  Halo *halo = nullptr)
        : device_(device), geometry_(geometry), name_(name), warn_(std::move(warn)), hops_(hops), halo_(halo) {}

    // New content, with its ghosts and checksum. What was packed of the last one is gone.
    void hold(Held given, const LinkStatistics &);
    void clear() { hold(nullptr, {}); }
    bool empty() const { return given_ == nullptr; }
    const LinkField &as_given() const { return *given_; }
    // Of this content, and so of all that is made of it: a number that no other content of this process has. 0: empty.
    uint64_t tag() const { return tag_; }
    const LinkStatistics &statistics() const { return statistics_; }

    // In that precision with so many reals a link. 18 reals where the packed form does not hold the links to
    // accepted_error(), which is said once; what was granted is in the result's reals().
    Held version(Precision, int reals);
    // What these take on the device beside a field that was given in `given`.
    static size_t bytes_of(const Versions &, Precision given, const Geometry &);
    // Gives back what is packed and held by nobody. Returns whether there was anything.
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
