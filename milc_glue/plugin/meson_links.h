// Links of measurements on the device, a mirror (mirror.h) of MILC's each: a call looks at all of them. All ranks have
// the same sets in the same order, and decide together which one a call finds.
#pragma once
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/kept_gauge.h"
#include "milc_glue/plugin/mirror.h"
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

    // The device's handle with what these links hold now (no links: an empty one, for local operators). origin: they
    // have phases relative to it, which are taken out; nullptr: they stay as they are. moved: bytes, added to.
    milcgpu_status ready(const HostRecords &links, const int *origin, milcgpu_meson_links *&handle, uint64_t &moved);
    // What the caller knows of links at this address: how the next ready() looks at them. False: none are here.
    bool expect(const void *links, bool are_new);
    bool drop_all(); // whether there was anything

  private:
    struct Set {
        Mirror mirror;
        int origin[4]; // -1 -1 -1 -1: as they are
        milcgpu_meson_links *handle;
        long used;
    };
    std::vector<Set>::iterator found(const HostRecords &links, const int *origin, bool &same, bool &kept);
    Collective &collective_;
    milcgpu_context *context_;
    int real_;
    KeptGauge &kept_;
    std::vector<Set> sets_;
    milcgpu_meson_links *empty_ = nullptr;
    long clock_ = 0;
};

} // namespace milcgpu
