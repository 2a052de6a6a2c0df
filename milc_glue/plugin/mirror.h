// A field of MILC's and the device's copy of it: which of the two has the newest content, and how a call finds out.
// There is one answer for all that stays on the device between calls. What a copy is made of is its owner's:
//
//   owner              field                     looked at           who may have the newest
//   link_cache.h       fat and long links        whole, or a sample  host, both; the device, of deferred links
//   meson_links.h      links of measurements     whole, or told      host, both
//   wilson_links.h     links of Wilson fermions  whole               host, both
//   gauge_owner.h      gauge field, momenta      whole               host, both, device
//   quark_fields.h     quark fields              whole               host, both
//   known_solutions.h  source and solution       whole               both
//
// Solutions and eigenvectors that the device alone has are in the table of deferred values (deferred.h), with all that is
// still to be made.
//
// MILC makes fields anew in the same addresses and edits them in place without a word. So the content decides, by a tag
// of hashes. All of it has been looked at before a call returns a result. The sample is an eighth that is spread over
// the whole lattice: who looks at the sample alone looks at the rest while the device works (link_watch.h). A mirror
// knows of one rank's field: its owner asks all ranks (collective.h) before it acts on an answer.
#pragma once
#include "milc_glue/host/host_fields.h"
#include <atomic>

namespace milcgpu {

class Mirror {
  public:
    enum class Newest { host, both, device };
    enum class Look { whole, sample, told }; // told: nothing is read, because the caller knows that nobody has written
    using Tag = ContentHash;                 // what is always looked at whole has no sample

    Mirror() = default;
    // second: a field that belongs to the first, as long links belong to fat links.
    Mirror(const HostRecords &field, Look look, const HostRecords &second = {})
        : field_(field), second_(second), look_(look), next_(look) {}

    bool is_at(const void *field, const void *second = nullptr) const {
        return field_.data == field && second_.data == second;
    }
    Newest newest() const { return newest_; }
    bool is(Newest newest) const { return newest_ == newest; }
    unsigned long version() const { return version_; } // another one after each write that was announced or seen

    // The same field, where it has another address, too. The mirror's state stays.
    void lies_at(const HostRecords &field) { field_ = field; }
    // What the host has, all of it.
    Tag tag_now() const;
    // Both have this.
    bool has(const Tag &tag) const { return newest_ == Newest::both && tag_ == tag; }
    // Both have what is here, in records of another stride, or the same.
    bool has_copy(const HostRecords &copy) const;
    // Both have the same, as far as the next look sees.
    bool is_same() const;
    // The host's field is as it was when the tag was taken, whoever has the newest.
    bool is_untouched() const { return tag_ == tag_now(); }
    // A look has found it the same. all: it was one at all of it.
    void looked(bool all);
    void look_next(Look look) { next_ = look; } // once

    void both_have(const Tag &tag);
    void both_have() { both_have(tag_now()); }
    void host_wrote(); // or somebody has seen that it did
    // poison: the host's old copy becomes NaN, for tests.
    void device_wrote(bool poison = false);
    // What the device has is not to be trusted any more, or is gone.
    void forget_copy() { newest_ = Newest::host; }

    // The last look was at the sample alone. saw_rest: whether the rest is the same, too, by its hash.
    bool rest_is_unseen() const { return rest_is_unseen_; }
    bool saw_rest(uint64_t hash);

  private:
    static inline std::atomic<unsigned long> versions_{0};
    HostRecords field_{}, second_{};
    Look look_ = Look::whole, next_ = Look::whole;
    Newest newest_ = Newest::host;
    Tag tag_{}; // of the host's field when both were equal, or when the device wrote
    unsigned long version_ = ++versions_;
    bool rest_is_unseen_ = false;
};

// A hash of two fields that belong together, of a share of them as well: it is linear, as the hash itself.
inline uint64_t combined(uint64_t field, uint64_t second) { return field + 0x9E3779B97F4A7C15u * second; }

} // namespace milcgpu
