// MILC's gauge field and momenta, members of its sites, a mirror (mirror.h) each, and who made a copy back necessary.
// Molecular dynamics moves both hundreds of times a trajectory; a copy is made only when somebody reads what the other
// side has written.
#pragma once
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/plugin.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/mirror.h"
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

    // The device has what MILC has, links with phases in; `what` is MILCGPU_LINKS, MILCGPU_MOMENTA or both. Where both
    // sides are equal, a hash of the host's field tells whether MILC has written since. moved: bytes, added to. also: a
    // question of the call's own, for the same gather: in, whether it holds here, out, whether on all ranks; nullptr:
    // none.
    milcgpu_status on_device(const milcgpu_plugin_lattice &, int what, uint64_t &moved, bool *also = nullptr);
    milcgpu_gauge *handle() const { return gauge_; }

    void device_wrote(int what, bool poison); // poison: fills the host's old copy with NaN, for tests
    void host_wrote(int what);
    void load_again();                        // what both sides have: the device's copy is not to be trusted
    int newer_on_device(int what) const;      // of these
    bool has_links(const void *packed) const; // the device has these, by their hash
    unsigned long links_version() const { return links_.version(); }
    // Whether the links have been written since they had this version, as far as that was announced or seen. A version
    // of another owner: no.
    bool links_changed(unsigned long since) const { return since >= born_ && since != links_.version(); }
    milcgpu_status save_links(void *packed) const { return collective_(save(MILCGPU_LINKS, {packed, real_, 0})); }

    // The host has what the device has. Throws Error where that cannot be had any more: the device is lost, or MILC
    // wrote meanwhile, so that neither copy is right; what is lost on one rank is lost on all. who: the routine of
    // MILC's that needs it.
    void to_host(int what, const char *who);
    // The same where MILC's routine has worked on the host's old copy to be compared: its result goes.
    void over_host(int what);

    // Of the device's momenta (or links) from what the host has, and the size of these.
    Difference difference(int one);

    std::string table() const; // of copies back to the host, by who made them necessary

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
