// What stands behind the gauge handle: links and momenta on the device.
#pragma once
#include "gpu_kernels/backend/checksum.h"
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
    void links_changed() {
        links_version = ++links_changes;
        note(u);
    }
    void momenta_changed() {
        momenta_version = ++momenta_changes;
        note(h);
    }

  private:
    void note(milcgpu::LinkField &field) {
        if (context->verify)
            field.checksum = milcgpu::checksum(device(), field.block(0, 0), field.bytes());
    }
};

namespace milcgpu {

// The field is what the last call left there. Where it is not, it is empty from then on.
inline void need_unchanged(milcgpu_gauge &gauge, const LinkField &field, uint64_t &version, const char *what) {
    if (!gauge.context->verify || checksum(gauge.device(), field.block(0, 0), field.bytes()) == field.checksum)
        return;
    version = 0;
    throw Error(Status::corrupted, format("the device no longer holds %s that the last call left there: a bit flipped, "
                                          "or somebody wrote there. It is empty now: load it again",
                                          what));
}
inline void need_links(milcgpu_gauge &gauge) {
    if (gauge.links_version == 0)
        refuse("the gauge field is empty: load it first (milcgpu_gauge_load)");
    need_unchanged(gauge, gauge.u, gauge.links_version, "the gauge field");
}
inline void need_momenta(milcgpu_gauge &gauge) {
    if (gauge.momenta_version == 0)
        refuse("there are no momenta: load them first (milcgpu_momenta_load)");
    need_unchanged(gauge, gauge.h, gauge.momenta_version, "the momenta");
}

} // namespace milcgpu
