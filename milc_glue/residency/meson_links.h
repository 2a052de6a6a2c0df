// Links of measurements on the device. Each set has a mirror (mirror.h) of MILC's links: a call looks at all of them.
// All ranks have the same sets in the same order, and decide together which set a call uses.
#pragma once
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/residency/collective.h"
#include "milc_glue/residency/kept_gauge.h"
#include "milc_glue/residency/mirror.h"
#include <vector>

namespace milcgpu {

class MesonLinksCache {
  public:
    // real: of MILC's links.
    MesonLinksCache(Collective &collective, milcgpu_context *context, int real, KeptGauge &kept)
        : collective_(collective), context_(context), real_(real), kept_(kept) {}
    ~MesonLinksCache() { drop_all(); }
    MesonLinksCache(const MesonLinksCache &) = delete;
    MesonLinksCache &operator=(const MesonLinksCache &) = delete;

    // The handle with the content of these links, from the kept gauge field or from the host (no links: an empty
    // handle, for local operators). origin: the links have phases relative to it, which are taken out; nullptr: they
    // stay as they are. Adds the bytes that it copies to `moved`.
    milcgpu_status ready(const HostRecords &links, const int *origin, milcgpu_meson_links *&handle, uint64_t &moved);
    // Says whether the links at this address are new: the next ready() then looks at all of them, or at none. Returns
    // false if there is no set with this address.
    bool expect(const void *links, bool are_new);
    bool drop_all(); // returns true if it dropped any
    InUse use() { return InUse(in_use_); }
    bool drop_if_idle() { return !in_use_ && drop_all(); }

  private:
    struct Set {
        Mirror mirror;
        int origin[4]; // -1 -1 -1 -1: as they are
        milcgpu_meson_links *handle;
        long used;
    };
    struct Found {
        std::vector<Set>::iterator set;
        bool same, kept; // the set has the content on all ranks; if not, the kept gauge field has it
    };
    Found found(const HostRecords &links, const int *origin);
    Collective &collective_;
    milcgpu_context *context_;
    int real_;
    KeptGauge &kept_;
    std::vector<Set> sets_;
    milcgpu_meson_links *empty_ = nullptr;
    long clock_ = 0;
    bool in_use_ = false;
};

} // namespace milcgpu
