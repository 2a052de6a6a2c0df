// A field of MILC's and the device's copy of it: which of the two is the newest, and how a call finds out. Everything
// that has a copy on the device between calls uses this type. The owner makes the copy:
//
//   owner              field                     looked at           who may have the newest
//   link_cache.h       fat and long links        whole, or a sample  host, both; the device, of deferred links
//   meson_links.h      links of measurements     whole, or none      host, both
//   wilson_links.h     links of Wilson fermions  whole               host, both
//   gauge_owner.h      gauge field, momenta      whole               host, both, device
//   kept_gauge.h       what fixing or smearing   whole               host, both
//                      has made
//   vector_store.h     quark fields, solutions   whole               host, both; the device, of quarks in MILC's
//                      and their sources                             cache for baryons that MILC has changed since
//
// Solutions and eigenvectors that the device alone has are in the table of deferred values (deferred.h), with all that
// is still to be made.
//
// MILC allocates new fields at old addresses and edits fields in place, unannounced. So the content decides, by a tag
// of hashes. A call looks at all of the content before it returns a result. The sample is an eighth of the field,
// spread over the whole lattice: a call that looks only at the sample first looks at the rest while the device works
// (link_watch.h). A mirror knows the field of one rank: its owner asks all ranks (collective.h) before it acts on an
// answer.
#pragma once
#include "milc_glue/host/host_fields.h"
#include <atomic>
#include <utility>

namespace milcgpu {

class Mirror {
  public:
    enum class Newest { host, both, device };
    enum class Look { whole, sample, none }; // none: reads nothing, because the caller knows that nobody has written
    using Tag = ContentHash;                 // without a sample if the look is always whole

    Mirror() = default;
    // second: a field that belongs to the first one, as long links belong to fat links.
    Mirror(const HostRecords &field, Look look, const HostRecords &second = {})
        : field_(field), second_(second), look_(look), next_(look) {}

    bool is_at(const void *field, const void *second = nullptr) const {
        return field_.data == field && second_.data == second;
    }
    const HostRecords &field() const { return field_; }
    std::pair<const void *, const void *> addresses() const { return {field_.data, second_.data}; }
    Newest newest() const { return newest_; }
    bool is(Newest newest) const { return newest_ == newest; }
    unsigned long version() const { return version_; } // changes with each write that was announced or seen

    // The field has moved to another address. The state stays.
    void lies_at(const HostRecords &field) { field_ = field; }
    // The tag of all that the host has now.
    Tag tag_now() const;
    // True if both have this content.
    bool has(const Tag &tag) const { return newest_ == Newest::both && tag_ == tag; }
    // True if both have the content of this copy, which may have another stride.
    bool has_copy(const HostRecords &copy) const;
    // True if both have the same content, as far as the next look reads it.
    bool is_same() const;
    // True if the host's field is as it was when the tag was taken, whichever side is the newest.
    bool is_untouched() const { return tag_ == tag_now(); }
    // A look has found no change. all: it was a look at the whole field.
    void looked(bool all);
    void look_next(Look look) { next_ = look; } // once

    void both_have(const Tag &tag);
    void both_have() { both_have(tag_now()); }
    void host_wrote(); // announced, or seen by a look
    // poison: fills the host's old copy with NaN, for tests.
    void device_wrote(bool poison = false);
    // The device's copy is wrong or gone.
    void forget_copy() { newest_ = Newest::host; }

    // True if the last look was only at the sample. saw_rest: returns true if the rest has not changed, by its hash.
    bool rest_is_unseen() const { return rest_is_unseen_; }
    bool saw_rest(uint64_t hash);

  private:
    static inline std::atomic<unsigned long> versions_{0};
    HostRecords field_{}, second_{};
    Look look_ = Look::whole, next_ = Look::whole;
    Newest newest_ = Newest::host;
    Tag tag_{}; // of the host's field when both were equal or when the device wrote
    unsigned long version_ = ++versions_;
    bool rest_is_unseen_ = false;
};

// A hash of two fields that belong together. It is linear, so shares of them may be hashed by themselves.
inline uint64_t combined(uint64_t field, uint64_t second) { return field + 0x9E3779B97F4A7C15u * second; }

} // namespace milcgpu
