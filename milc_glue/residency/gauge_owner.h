// MILC's gauge field and momenta, members of its sites. Each has a mirror (mirror.h); a table counts which routines
// made a copy back to the host necessary. Molecular dynamics changes both hundreds of times in a trajectory; a field is
// copied only if one side reads what the other side has written.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/residency/collective.h"
#include "milc_glue/residency/mirror.h"
#include <map>
#include <string>

namespace milcgpu {

class GaugeOwner {
  public:
    GaugeOwner(Collective &collective, milcgpu_context *context, int real, int sites)
        : collective_(collective), context_(context), real_(real), sites_(sites) {}
    ~GaugeOwner() { milcgpu_gauge_destroy(gauge_); }
    GaugeOwner(const GaugeOwner &) = delete;
    GaugeOwner &operator=(const GaugeOwner &) = delete;

    // Brings what MILC has to the device, links with phases in; `what` is MILCGPU_LINKS, MILCGPU_MOMENTA or both. If
    // both sides were equal, a hash of the host's field tells whether MILC has written since. Adds the bytes that it
    // copies to `moved`. also (in/out): a local condition; true afterwards if it holds on every rank; nullptr: no
    // condition.
    milcgpu_status on_device(const milcgpu_plugin_lattice &, int what, uint64_t &moved, bool *also = nullptr);
    milcgpu_gauge *handle() const { return gauge_; }

    void device_wrote(int what, bool poison); // poison: fills the host's old copy with NaN, for tests
    void host_wrote(int what);
    void load_again();                   // the next on_device() loads what both sides had: the device's copy is wrong
    int newer_on_device(int what) const; // the fields of `what` that only the device has
    bool has_links(const void *packed) const; // the device has these links, by their hash
    unsigned long links_version() const { return links_.version(); }
    // True if the links have been written since they had this version, as far as that was announced or seen. False for
    // a version from before this owner.
    bool links_changed(unsigned long since) const { return since >= born_ && since != links_.version(); }
    milcgpu_status save_links(void *packed) const { return collective_(save(MILCGPU_LINKS, {packed, real_, 0})); }

    // Copies to the host the fields of `what` that only the device has. Throws Error, on all ranks, if a field is lost
    // on one: its device is gone, or MILC has written the host's field in the meantime, so that neither copy is right.
    // who: MILC's routine that needs the fields.
    void to_host(int what, const char *who);
    // The same, but overwrites what is there: MILC's routine has changed the host's old copy, for a comparison.
    void over_host(int what);

    // The difference between the device's momenta (or links) and the host's, and the size of these.
    Difference difference(int one);

    std::string table() const; // of copies back to the host, by the routine that made them necessary

  private:
    struct Copies {
        long count = 0;
        uint64_t bytes = 0;
    };
    Mirror &mirror(int one) { return one == MILCGPU_LINKS ? links_ : momenta_; }
    const Mirror &mirror(int one) const { return one == MILCGPU_LINKS ? links_ : momenta_; }
    HostRecords records(int one) const;
    const milcgpu_field &field(int one) const { return one == MILCGPU_LINKS ? lattice_.links : lattice_.momenta; }
    milcgpu_status load(int one) const;
    milcgpu_status save(int one, const milcgpu_field &to) const;

    Collective &collective_;
    milcgpu_context *context_;
    int real_, sites_;
    milcgpu_gauge *gauge_ = nullptr;
    milcgpu_plugin_lattice lattice_{};
    Mirror links_, momenta_;
    const unsigned long born_ = links_.version();
    std::map<std::string, Copies> copies_;
};

} // namespace milcgpu
