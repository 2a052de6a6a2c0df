// The gauge handle: links and momenta on the device.
#pragma once
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "milc_glue/api/sized.h"
#include "milc_glue/links/link_checks.h"
#include <cmath>
#include <cstring>

namespace milcgpu {

// HISQ's V, the fat7 links of the gauge field. In a trajectory the force needs those from which the fermion links were
// made, so they are kept until then.
class FirstLevel : public Evictable {
  public:
    explicit FirstLevel(milcgpu_context &context) : Evictable(context), context_(context) { register_here(); }
    // links: the version of the gauge field.
    void keep(LinkField &&v, const PathCoefficients &fat7, uint64_t links) {
        v_ = std::move(v), fat7_ = fat7, links_ = links;
    }
    // Returns V, with its checksum; or a field without memory, if V of these links is not there.
    LinkField take(const PathCoefficients &fat7, uint64_t links) {
        LinkField v = std::move(v_);
        drop();
        const bool same = links == links_ && std::memcmp(&fat7, &fat7_, sizeof fat7) == 0;
        return same ? std::move(v) : LinkField();
    }
    void drop() { v_ = LinkField(); }
    bool release_idle() override {
        if (v_.bytes() == 0)
            return false;
        context_.log(2, "memory is short: HISQ's V is freed; the force makes it again");
        drop();
        return true;
    }

  private:
    milcgpu_context &context_;
    LinkField v_;
    PathCoefficients fat7_{};
    uint64_t links_ = 0;
};

} // namespace milcgpu

struct milcgpu_gauge {
    milcgpu_context *context;
    milcgpu::Precision precision;
    milcgpu::LinkField u, h;
    milcgpu::LinkSigns signs;                        // of u, as loaded: no call changes them
    milcgpu::DeviceArray<uint64_t> sum;              // memory for a checksum: taking one must not fail
    uint64_t links_version = 0, momenta_version = 0; // 0: empty
    uint64_t links_changes = 0, momenta_changes = 0; // the last version, kept also while the field is empty
    milcgpu::FirstLevel first_level;
    milcgpu_gauge(milcgpu_context *of, milcgpu::Precision p)
        : context(of), precision(p), u(*of->device, p, 18, of->geometry.without_ghosts(), "gauge field"),
          h(milcgpu::momenta(*of->device, p, of->geometry.without_ghosts())), sum(*of->device, 1, "checksums"),
          first_level(*of) {
        for (milcgpu::LinkField *field : {&u, &h})
            field->clear(), field->keep_sum();
    }
    milcgpu::Device &device() const { return *context->device; }
    const milcgpu::Geometry &geometry() const { return context->geometry; }
    // Ends a call that wrote a field: sets its checksum, and marks it as filled.
    void links_changed() {
        first_level.drop();
        changed(u, links_version, links_changes, "the gauge field");
    }
    void momenta_changed() { changed(h, momenta_version, momenta_changes, "the momenta"); }

    uint64_t checksum_of(const milcgpu::LinkField &field) const {
        return milcgpu::checksum(sum, field.block(0, 0), field.bytes());
    }

  private:
    void changed(milcgpu::LinkField &field, uint64_t &version, uint64_t &changes, const char *what);
};

namespace milcgpu {

inline void need_content(const milcgpu_gauge &gauge, const LinkField &field, const char *what) {
    if (gauge.context->verify && gauge.checksum_of(field) != field.checksum)
        throw Error(Status::corrupted, format("the device no longer holds %s that was put there: a bit flipped, or "
                                              "other code wrote there. It is empty now, and so is what the call was "
                                              "making of it: load it again",
                                              what));
}

// Throws unless the field is filled and still is what the last call wrote. If that fails on one rank, the field is
// empty on all ranks from then on.
inline void need_unchanged(milcgpu_gauge &gauge, const LinkField &field, uint64_t &version, const char *what,
                           const char *empty) {
    const auto look = [&] {
        if (version == 0)
            refuse(empty);
        need_content(gauge, field, what);
    };
    try {
        gauge.device().collective("the check of resident fields", look);
    } catch (const Error &error) {
        if (error.status() == Status::corrupted)
            version = 0;
        throw;
    }
}
constexpr const char *no_links = "the gauge field is empty: load it first (milcgpu_gauge_load)",
                     *no_momenta = "there are no momenta: load them first (milcgpu_momenta_load)";
// Call it after the last read of the field, before anything made from the field is written elsewhere. Throws if the
// field has changed during the call.
inline void need_links(milcgpu_gauge &gauge) {
    need_unchanged(gauge, gauge.u, gauge.links_version, "the gauge field", no_links);
}
// Throws unless the links have the signs that the call assumes.
inline void need_signs(milcgpu_gauge &gauge, const SaidSigns &said) {
    need_signs(gauge.device(), gauge.geometry(), gauge.u, gauge.signs, Phases(gauge.geometry()), said);
}
inline void need_links(milcgpu_gauge &gauge, const SaidSigns &said) {
    need_links(gauge);
    need_signs(gauge, said);
}
constexpr const char *says_phases = "spec.signs says which links these are: 0 with phases and boundary sign, 1 "
                                    "without";
inline Signs signs_of(int signs) { return signs != 0 ? Signs::phases_out : Signs::phases_in; }
// signs: from the caller's spec. boundary: as in SaidSigns, for links with phases.
inline SaidSigns said_by(const char *what, int signs, bool boundary = false) {
    return {signs_of(signs), what, boundary && signs == 0};
}
// The links of D: the call accepts no others.
constexpr SaidSigns links_of_d{Signs::phases_in,
                               "Load links with phases and boundary sign; milcgpu_links_make also takes them without "
                               "(spec.signs 1)"};
inline void need_momenta(milcgpu_gauge &gauge) {
    need_unchanged(gauge, gauge.h, gauge.momenta_version, "the momenta", no_momenta);
}
// Prepares a call that checks the field at its end.
inline void need_some(milcgpu_gauge &gauge, uint64_t version, const char *empty) {
    gauge.device().collective("the check of resident fields", [&] {
        if (version == 0)
            refuse(empty);
    });
}
inline void need_some_links(milcgpu_gauge &gauge) { need_some(gauge, gauge.links_version, no_links); }
inline void need_some_links(milcgpu_gauge &gauge, const SaidSigns &said) {
    need_some_links(gauge);
    need_signs(gauge, said);
}
inline void need_some_momenta(milcgpu_gauge &gauge) { need_some(gauge, gauge.momenta_version, no_momenta); }

// What milcgpu_gauge_load and milcgpu_gauge_plaquettes do, for other calls of all ranks. function: the call, for
// messages.
void load_links(milcgpu_gauge &, const char *function, const milcgpu_field *links, double unitarity);
PlaquetteMeans checked_plaquettes(milcgpu_gauge &);

// Runs body(gauge) with its context's device current, and turns its errors into a status. On several ranks all ranks
// call it, and whatever one rank may refuse alone is inside same_on_all_ranks() or Device::collective().
template <class Body>
milcgpu_status with_gauge(milcgpu_gauge *gauge, const char *function, const Body &body, const char *what = "gauge") {
    return guarded(gauge != nullptr ? gauge->context : nullptr, function, [&] {
        require(gauge, function, what);
        body(*gauge);
        return Status::ok;
    });
}

inline void must_be_finite(double value) {
    if (!std::isfinite(value))
        throw Error(Status::nan_or_inf, format("the result is %g: links or momenta have NaN or infinity, or are too "
                                               "large",
                                               value));
}
inline void set_if_given(double value, double *to) {
    must_be_finite(value);
    *to = value;
}

// An entry with a report. body(gauge, report) returns a function that makes the text of the line at verbosity 2: once
// fields are written nothing may fail.
template <class Report, class Body>
milcgpu_status reported(milcgpu_gauge *gauge, const char *function, Report *report, const Body &body) {
    Report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_gauge(gauge, function, [&](milcgpu_gauge &g) {
        require_sizes(report, 1);
        const CallMeter meter(g.device());
        const auto done = body(g, filled);
        filled.gflops = filled.kernel_seconds > 0 ? filled.flops / filled.kernel_seconds * 1e-9 : 0;
        meter.fill(filled);
        g.context->log(2, [&] {
            return format("%s, %s: %.3f ms (kernels %.3f ms, %.0f GFLOPS)", done().c_str(), name(g.precision),
                          filled.seconds * 1e3, filled.kernel_seconds * 1e3, filled.gflops);
        });
    });
    return report_to_caller(status, filled, report);
}

// Fills the report of an entry that returned OK early.
template <class Report>
milcgpu_status not_converged(milcgpu_gauge &gauge, const char *function, Report *report, const std::string &why) {
    const auto fail = [&]() -> Status { throw Error(Status::not_converged, why); };
    const milcgpu_status status = guarded(gauge.context, function, fail);
    Report filled = report != nullptr ? full_copy(report) : Report();
    return report_to_caller(status, filled, report);
}

} // namespace milcgpu

inline void milcgpu_gauge::changed(milcgpu::LinkField &field, uint64_t &version, uint64_t &changes, const char *what) {
    version = 0; // in case the next lines fail
    device().collective("a checksum", [&] {
        if (context->verify)
            field.checksum = field.sum_of_content();
        milcgpu::need_content(*this, field, what);
    });
    version = ++changes;
}
