// Sets of links on the device, and whether they still hold what MILC's links hold. MILC makes links anew in the same
// addresses and edits them in place, so the content decides.
#pragma once
#include "milc_glue/host_fields.h"
#include "milc_glue/milcgpu.h"
#include <array>
#include <memory>
#include <vector>

namespace milcgpu {

constexpr int hash_slices = 8;
// HISQ with three eps_naik, their derivative, and twisted copies.
constexpr size_t most_link_sets = 8;

// What a set of links on the host is known by: its eighths, and a random sample of all of it.
struct LinkHash {
    std::array<uint64_t, hash_slices> slice;
    uint64_t sample;
    uint64_t all() const;
};

struct LinkSet {
    const void *fat, *lng; // MILC's addresses
    LinkHash hash;         // of what was loaded
    milcgpu_links *handle;
    long used;
};

class LinkCache {
  public:
    // real: of MILC's links. whole: every call looks at everything.
    LinkCache(milcgpu_context *context, int sites, int real, bool whole)
        : context_(context), sites_(sites), real_(real), whole_(whole) {}
    ~LinkCache() { drop_all(); }
    LinkCache(const LinkCache &) = delete;
    LinkCache &operator=(const LinkCache &) = delete;

    // The device's set with the content that the host's links have now, loaded where there is none.
    milcgpu_status ready(const void *fat, const void *lng, LinkSet *&set);

    // Where new content of these addresses goes: the set that had them, an unused one, or in place of the oldest. It is
    // the newest then, so that a slot for other addresses does not take its place.
    LinkSet &slot_for(const void *fat, const void *lng);
    // The set holds what the host's links hold now.
    void keep(LinkSet &set, const void *fat, const void *lng);
    bool drop_oldest(const LinkSet *except);
    void drop_all();

    milcgpu_field field(const void *links) const { return {const_cast<void *>(links), real_, 0}; }

  private:
    HostRecords records(const void *links, size_t from, size_t count) const;
    uint64_t slice_of(const void *fat, const void *lng, int slice) const;
    uint64_t sample_of(const void *fat, const void *lng) const;
    LinkHash hash_of(const void *fat, const void *lng) const;
    LinkSet *current(const void *fat, const void *lng);
    milcgpu_status load(LinkSet &set, const void *fat, const void *lng);

    milcgpu_context *context_;
    int sites_, real_;
    bool whole_;
    std::vector<std::unique_ptr<LinkSet>> sets_;
    long clock_ = 0;
};

} // namespace milcgpu
