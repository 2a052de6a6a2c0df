// Everything that stays on the device between MILC's calls, and the table of what is still to be made.
#pragma once
#include "milc_glue/api/context.h"
#include "milc_glue/residency/deferred.h"
#include "milc_glue/residency/eigen_store.h"
#include "milc_glue/residency/gauge_owner.h"
#include "milc_glue/residency/kept_gauge.h"
#include "milc_glue/residency/link_cache.h"
#include "milc_glue/residency/meson_links.h"
#include "milc_glue/residency/milc_side.h"
#include "milc_glue/residency/vector_store.h"
#include "milc_glue/residency/wilson_links.h"
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace milcgpu {

struct Residency;

// Lets quarks of octets go to the host, behind solvers and handles, which need no copy.
class OctetsOnDevice : public Evictable {
  public:
    OctetsOnDevice(milcgpu_context &context, Residency &residency)
        : Evictable(context, last), context_(context), residency_(residency) {
        register_here();
    }
    bool release_idle() override;

  private:
    milcgpu_context &context_;
    Residency &residency_;
};

struct Residency {
    DeferredValues deferred; // outlives the device: MILC's routines can make the values, too
    std::unique_ptr<LinkCache> links;
    std::unique_ptr<GaugeOwner> gauge;
    std::unique_ptr<KeptGauge> kept_gauge;
    std::unique_ptr<MesonLinksCache> meson_links;
    std::unique_ptr<WilsonLinks> wilson;
    std::unique_ptr<EigenStore> eigenvectors;
    VectorStore vectors{deferred};
    using HeldOctet = std::array<VectorStore::Held, 24>; // three colours for each corner
    std::map<const void *, HeldOctet> octets;            // by the address of the glue's milcgpu_octet
    std::optional<OctetsOnDevice> octets_on_device;
    bool lost = false;              // the newest gauge field, momenta or solutions were on a device that is gone
    bool eigenvectors_lost = false; // the newest eigenvectors were; solves continue without them
    bool solutions_again = false;   // the caller recomputes solutions that are lost: `lost` stays false then
    bool solutions_lost = false;    // the caller has to recompute them

    struct Habits {
        bool looks_at_all; // each call looks at all links before its work
        bool keeps_fields; // keeps copies of quark fields and gauge fields
    };
    void open(MilcSide &milc, milcgpu_context *context, const Habits &);
    // Ways to free memory of the device that no call needs now; each returns true if it freed some.
    std::vector<std::function<bool()>> ways_to_free();
    void drop_all();
    // Drops what the next call can load or make again.
    void drop_reloadable();
    // MILC has another lattice now: drops copies of quark fields, and what solutions solve. Links are found by their
    // content, so they stay.
    void lattice_changed();
    // Notes the content of links, or of the gauge field that they were made of. way: one number for each kind of links.
    // Returns true if the content of this kind was another one before: the lattice has changed.
    bool links_made(int way, uint64_t content);

  private:
    std::map<int, uint64_t> made_of_; // by way
};

} // namespace milcgpu
