// The gauge field that gauge fixing, smearing or a flow has made last, on the device. The next routine that reads the
// same content, at whatever address, uses it, and so do links of Wilson fermions and of measurements. So a field that
// passes several routines is copied to the device once.
//
// A mirror (mirror.h) tells whether a field of the host has the same content, by a hash of all of it. Nothing is kept
// if a hash takes as long as a copy.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/residency/mirror.h"
#include <utility>

namespace milcgpu {

// While one lives, drop_if_idle() of the cache that returned it drops nothing.
class InUse {
  public:
    explicit InUse(bool &mark) : mark_(mark), before_(std::exchange(mark, true)) {}
    InUse(const InUse &) = delete;
    ~InUse() { mark_ = before_; }

  private:
    bool &mark_;
    const bool before_;
};

class KeptGauge {
  public:
    // stays: fields are kept; otherwise every call loads what it reads.
    KeptGauge(milcgpu_context *context, int real, bool stays) : context_(context), real_(real), stays_(stays) {}
    ~KeptGauge() { drop(); }
    KeptGauge(const KeptGauge &) = delete;
    KeptGauge &operator=(const KeptGauge &) = delete;

    bool stays() const { return stays_; }
    // True if this rank has a handle; and if the handle has the content of the host's field. The caller asks all ranks
    // before it acts on an answer.
    bool exists() const { return gauge_ != nullptr; }
    bool has(const HostRecords &links) const { return exists() && mirror_.has_copy(links); }
    milcgpu_gauge *handle() const { return gauge_; }
    InUse use() { return InUse(in_use_); }
    bool drop_if_idle() { return !in_use_ && drop(); }
    // Creates an empty handle.
    milcgpu_status make() {
        drop();
        return milcgpu_gauge_create(context_, real_, &gauge_);
    }
    void begin() { mirror_.forget_copy(); } // call it before the handle is written
    // The handle and the host's field have the same content now.
    void now_has(const HostRecords &links) {
        mirror_ = {links, Mirror::Look::whole};
        mirror_.both_have();
    }
    bool drop() { // returns true if there was a handle
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
