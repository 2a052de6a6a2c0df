// MILC's gauge links on the device as Wilson and clover fermions take them, a mirror (mirror.h): every call looks at
// all of the host's links, which takes little beside a solve.
#pragma once
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/kept_gauge.h"
#include "milc_glue/plugin/mirror.h"

namespace milcgpu {

class WilsonLinks {
  public:
    // real: of MILC's links.
    WilsonLinks(Collective &collective, milcgpu_context *context, int real, KeptGauge &kept)
        : collective_(collective), context_(context), real_(real), kept_(kept) {}
    ~WilsonLinks() { drop(); }
    WilsonLinks(const WilsonLinks &) = delete;
    WilsonLinks &operator=(const WilsonLinks &) = delete;

    // The device's handle with what these links hold now, 4 a record: from there if it is kept, else from the host.
    // moved: bytes, added to.
    milcgpu_status ready(const HostRecords &links, milcgpu_wilson *&handle, uint64_t &moved);
    bool drop(); // whether there was anything

  private:
    Collective &collective_;
    milcgpu_context *context_;
    int real_;
    KeptGauge &kept_;
    milcgpu_wilson *handle_ = nullptr;
    Mirror mirror_;
};

} // namespace milcgpu
