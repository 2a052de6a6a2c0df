// What stands behind the gauge handle: links and momenta on the device.
#pragma once
#include "gpu_kernels/forces/forces.h"
#include "milc_glue/context.h"
#include "milc_glue/milcgpu_md.h"

struct milcgpu_gauge {
    milcgpu_context *context;
    milcgpu::Precision precision;
    milcgpu::LinkField u, h;
    uint64_t links_version = 0, momenta_version = 0; // 0: empty
    uint64_t links_changes = 0, momenta_changes = 0; // the last version, also where there is none now
    milcgpu_gauge(milcgpu_context *of, milcgpu::Precision p)
        : context(of), precision(p), u(*of->device, p, 18, of->geometry, "gauge field"),
          h(milcgpu::momenta(*of->device, p, of->geometry)) {}
    milcgpu::Device &device() const { return *context->device; }
    const milcgpu::Geometry &geometry() const { return context->geometry; }
    void links_changed() { links_version = ++links_changes; }
    void momenta_changed() { momenta_version = ++momenta_changes; }
};

namespace milcgpu {

inline void need_links(const milcgpu_gauge &gauge) {
    if (gauge.links_version == 0)
        refuse("the gauge field is empty: load it first (milcgpu_gauge_load)");
}

} // namespace milcgpu
