// The handle of the links of a measurement, and quark fields on the host or on the device.
#pragma once
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/measure/quark_operators.h"
#include "gpu_kernels/solver/normal_operator.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_mesons.h"
#include "milc_glue/links/vectors.h"
#include "milc_glue/links/verify.h"
#include "reorder/resident_links.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

struct milcgpu_meson_links : milcgpu::Evictable {
    milcgpu_context *context;
    milcgpu::Precision precision;
    milcgpu::WideBox box;
    milcgpu::LinkField u;                 // with the margin, if the lattice is cut
    milcgpu::LinkStatistics statistics{}; // of u
    milcgpu::LinkProducts products;
    bool loaded = false, antiperiodic = false;
    bool busy = false;                           // in a call
    std::optional<milcgpu::Verification> fields; // of the host that this call reads
    milcgpu_meson_links(milcgpu_context *of, milcgpu::Precision p)
        : Evictable(*of), context(of), precision(p), box(box_of(*of)), u(links_on(box.wide())),
          products(*of->device, box.wide(), u, [this](const milcgpu::LinkField &made_of) { uses(made_of); }) {
        register_here();
    }
    ~milcgpu_meson_links() override { context->forget(this); }
    milcgpu::Device &device() const { return *context->device; }
    milcgpu::Halo *halo() const { return context->halo.get(); } // nullptr: the lattice is whole
    const milcgpu::Geometry &geometry() const { return context->geometry; }
    int extent(int mu) const { return geometry().global_extents()[mu]; }
    milcgpu::LinkField links_on(const milcgpu::Geometry &sites) const {
        milcgpu::LinkField made(device(), precision, 18, sites.without_ghosts(), "links of a measurement");
        made.clear(); // padding counts in checksums
        return made;
    }
    // The time slice whose t links are negative for this origin; -1: none.
    int t_sign(const int *origin) const { return antiperiodic ? extent(3) - 1 - origin[3] : -1; }
    void clear() {
        loaded = false;
        products.forget();
        context->forget(this);
        on_box_.reset();
    }
    // Frees products, and what solves keep; they are made again when needed. Returns false if there are
    // none, or if they are in use.
    bool release_idle() override {
        if (busy)
            return false;
        const bool kept = on_box_ != nullptr;
        context->forget(this);
        on_box_.reset();
        if (!products.forget() && !kept)
            return false;
        context->log(2, "memory is short: products of links of measurements are freed");
        return true;
    }
    // Notes links or products that this call reads.
    const milcgpu::LinkField &uses(const milcgpu::LinkField &field) {
        used_.insert(&field);
        return field;
    }
    // Notes fat links of `fat`, which this call holds.
    void uses(milcgpu_links *fat, const milcgpu::HeldLinks &held) { used_fat_.emplace_back(fat, held); }
    // For operators that are solved: the links on the box, with the ghosts that backward terms of one hop read, from
    // which versions are packed. Made when first needed. The call uses all of them.
    const milcgpu::ResidentField &on_box();
    // After on_box(): the version that spec names; sets spec.reals to the granted ones.
    milcgpu::ResidentField::Held version(milcgpu::OperatorSpec &spec);
    size_t bytes_on_box() const; // beside u
    void uses_nothing() { used_.clear(), used_fat_.clear(), fields.reset(); }
    // Call it after the last read of all that this call uses, before it returns anything. Throws if something changed
    // on the device. The links are then gone, on all ranks.
    void look_at_used();
    // For a solve, which checks `regions`: these and all that this call uses.
    std::vector<milcgpu::Region> with_used(std::vector<milcgpu::Region> regions) const;

  private:
    static milcgpu::WideBox box_of(const milcgpu_context &context) {
        if (!context.halo)
            return context.geometry;
        return {*context.device, context.geometry, milcgpu::neighbours_margin};
    }
    std::shared_ptr<milcgpu::ResidentField> on_box_;
    std::set<const milcgpu::LinkField *> used_;
    std::vector<std::pair<milcgpu_links *, milcgpu::HeldLinks>> used_fat_;
};

namespace milcgpu {

class CallArguments;

// The sum over neighbours of an operator that is not a pair, or of one half of a pair.
Neighbours neighbours_of(milcgpu_meson_links &, const SpinTaste &, const int *origin, const LinkField *fat);

// Fat links in the handle's precision, which this object holds.
struct HeldFat {
    HeldLinks held;
    LinkField around; // with a margin, if the lattice is cut
    const LinkField *field() const { return around.bytes() > 0 ? &around : held.pair.fat; }
};
void check_fat_links(milcgpu_meson_links &, milcgpu_links *fat, const char *label);
HeldFat fat_links_of(milcgpu_meson_links &, milcgpu_links *fat); // all ranks call it together

void check_origin(const Geometry &, const int *origin, int directions = 4);
std::vector<Momentum> momenta_of(int n, const milcgpu_momentum *);
// Checks term k of a specification of correlators.
template <class Term, class Spec> void check_term(const Term &term, int k, const Spec &spec) {
    if (term.momentum >= spec.n_momenta || term.correlator >= spec.n_correlators)
        refuse(format("spec.terms[%d]: momentum %d of %d, correlator %d of %d", k, term.momentum, spec.n_momenta,
                      term.correlator, spec.n_correlators));
}
// The sums over all ranks.
void sum_over_ranks(Device &, std::vector<Complex<double>> &);
// Adds to the caller's numbers. Throws if one is not finite, before it writes any. add_correlators: their sums over all
// ranks.
void add_finite(const std::vector<Complex<double>> &added, const char *made_of, double *correlators);
void add_correlators(Device &, std::vector<Complex<double>> &added, const char *made_of, double *correlators);

// Where n quark fields of a call are.
std::vector<VectorPlace> places_of(CallArguments &, milcgpu_meson_links &, const milcgpu_quarks *, int n,
                                   const char *what);
// n colour vectors on the device, to read and to write.
class Quarks {
  public:
    // Loads the host's fields. in_place: results replace them.
    Quarks(CallArguments &, milcgpu_meson_links &, const milcgpu_quarks *, int n, const char *what,
           bool in_place = false);
    // Memory for results that go to `to`: the vectors themselves, or others if these are being read or are the host's.
    Quarks(CallArguments &, milcgpu_meson_links &, const milcgpu_quarks *to, const Quarks &read, const char *what);
    void begin(); // once no rank refuses the call: results that are made in place are empty until they are delivered
    const FullVectors &vectors() const { return vectors_; }
    // Copies results to their destination: `made`, or by default the vectors here. Throws if there is NaN or infinity,
    // before it writes to the host.
    void deliver(const FullVectors &made);
    void deliver() { deliver(vectors_); }
    // Marks vectors on the device as empty until they are delivered, and drops checks of the host's fields.
    void changes();
    SpinorField allocate(int parity, const char *owner) const; // as many vectors

  private:
    void look_at(CallArguments &, const milcgpu_quarks *, const char *what, bool written, const char *owner);
    milcgpu_meson_links &links_;
    int n_;
    std::vector<VectorPlace> places_;
    milcgpu_vectors *device_ = nullptr;
    int first_ = 0;
    bool in_place_ = false;
    SpinorField own_[2];
    FullVectors vectors_;
};

struct Busy {
    milcgpu_meson_links &links;
    explicit Busy(milcgpu_meson_links &of) : links(of) {
        links.busy = true;
        links.uses_nothing();
    }
    Busy(const Busy &) = delete;
    ~Busy() {
        links.busy = false;
        links.uses_nothing();
    }
};

inline void need_links(const milcgpu_meson_links &links) {
    if (!links.loaded)
        refuse("there are no links: load them first (milcgpu_meson_links_load)");
}

// Functions of the C interface between a number and its label. The index is what find() returns, or -1 and a message if
// it throws; the label that name() returns is copied with its final 0.
int index_of_label(const char *function, const char *label, const std::function<int()> &find);
milcgpu_status label_of_index(const char *function, char *label, size_t size, const std::function<std::string()> &name);

// A call of all ranks on `context`. body returns a function that makes the line that says what was done: once outputs
// are written nothing may fail.
template <class Body> milcgpu_status timed_call(milcgpu_context *context, const char *function, const Body &body) {
    return guarded(context, function, [&] {
        require(context, function, "context");
        const double start = wall_seconds();
        const auto done = body(*context);
        context->log(2, [&] { return format("%s: %.3f ms", done().c_str(), (wall_seconds() - start) * 1e3); });
        return Status::ok;
    });
}

// Runs body(links) with its context's device current, and turns its errors into a status. body returns a function that
// makes the text for the log. On several ranks all ranks call it, and whatever one rank may refuse alone is inside
// same_on_all_ranks() or Device::collective().
template <class Body>
milcgpu_status with_meson_links(milcgpu_meson_links *links, const char *function, const Body &body) {
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        const double start = wall_seconds();
        const Busy in_use(*links);
        const auto done = body(*links); // outputs are written now: nothing may fail behind it
        links->context->log(2, [&] {
            return format("%s, %s: %.3f ms", done().c_str(), name(links->precision), (wall_seconds() - start) * 1e3);
        });
        return Status::ok;
    });
}

} // namespace milcgpu
