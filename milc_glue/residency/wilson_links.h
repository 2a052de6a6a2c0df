// MILC's gauge links on the device for Wilson and clover fermions, with a mirror (mirror.h): every call looks at all of
// the host's links, which is cheap beside a solve.
#pragma once
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/residency/collective.h"
#include "milc_glue/residency/kept_gauge.h"
#include "milc_glue/residency/mirror.h"

namespace milcgpu {

class WilsonLinks {
  public:
    // real: of MILC's links.
    WilsonLinks(Collective &collective, milcgpu_context *context, int real, KeptGauge &kept)
        : collective_(collective), context_(context), real_(real), kept_(kept) {}
    ~WilsonLinks() { drop(); }
    WilsonLinks(const WilsonLinks &) = delete;
    WilsonLinks &operator=(const WilsonLinks &) = delete;

    // The handle with the content of these links, 4 in each record, from the kept gauge field or from the host. Adds
    // the bytes that it copies to `moved`.
    milcgpu_status ready(const HostRecords &links, milcgpu_wilson *&handle, uint64_t &moved);
    bool drop(); // returns true if there was a handle

  private:
    Collective &collective_;
    milcgpu_context *context_;
    int real_;
    KeptGauge &kept_;
    milcgpu_wilson *handle_ = nullptr;
    Mirror mirror_;
};

} // namespace milcgpu
