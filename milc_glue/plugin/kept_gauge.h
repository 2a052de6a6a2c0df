// The gauge field that a routine of measurements has made last, on the device: gauge fixing, smearing or a flow. The
// next routine that reads the same content, at whatever address, takes it from here, and so do links of Wilson fermions
// and of measurements. So a field that goes through several routines goes to the device once.
//
// A mirror (mirror.h) of the host's field: content is all of it. It is not kept where a hash takes as long as a copy.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/plugin/mirror.h"
#include <utility>

namespace milcgpu {

class KeptGauge {
  public:
    // stays: fields are kept; else every call loads what it reads.
    KeptGauge(milcgpu_context *context, int real, bool stays) : context_(context), real_(real), stays_(stays) {}
    ~KeptGauge() { drop(); }
    KeptGauge(const KeptGauge &) = delete;
    KeptGauge &operator=(const KeptGauge &) = delete;

    bool stays() const { return stays_; }
    // This rank has a handle; and it has the content of the host's field. Ranks decide together what they do then.
    bool exists() const { return gauge_ != nullptr; }
    bool has(const HostRecords &links) const { return exists() && mirror_.has_copy(links); }
    milcgpu_gauge *handle() const { return gauge_; }
    // While one lives, memory that is short elsewhere does not take the handle.
    struct Use {
        KeptGauge &gauge;
        explicit Use(KeptGauge &of) : gauge(of) { gauge.in_use_ = true; }
        Use(const Use &) = delete;
        ~Use() { gauge.in_use_ = false; }
    };
    bool drop_if_idle() { return !in_use_ && drop(); }
    // A new handle, empty.
    milcgpu_status make() {
        drop();
        return milcgpu_gauge_create(context_, real_, &gauge_);
    }
    // The handle is about to be written; and it has what the host's field has.
    void begin() { mirror_.forget_copy(); }
    void now_has(const HostRecords &links) {
        mirror_ = {links, Mirror::Look::whole};
        mirror_.both_have();
    }
    bool drop() { // whether there was anything
        begin();
        milcgpu_gauge_destroy(gauge_);
        return std::exchange(gauge_, nullptr) != nullptr;
    }

  private:
    milcgpu_context *context_;
    int real_;
    bool stays_;
    milcgpu_gauge *gauge_ = nullptr;
    Mirror mirror_;
    bool in_use_ = false;
};

} // namespace milcgpu
