// Checks that the inputs of a call on the device are still what was loaded: links and their packed versions, clover
// terms, sources, quark fields, the site map. All families of operators and all measurements use this check. Links that
// the true residual has already checked (Region::taken) are not read again. MILCGPU_VERIFY=0 turns it off.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "milc_glue/api/context.h"
#include <functional>

namespace milcgpu {

class Verification {
  public:
    // One at a time in a context. empty(): empties the handle whose links changed.
    explicit Verification(milcgpu_context &context, std::function<void()> empty = {});
    // Takes the checksum of vectors that the result depends on, as they arrived.
    void loaded(const SpinorBlock &vectors);
    // Call it after the final residual, before anything is copied out. Throws Error(corrupted) if links or the site map
    // changed; the handle is then empty. Returns false if only a loaded vector changed: load it and solve again.
    // Rethrows what a callback of the caller has thrown.
    bool holds(const std::vector<Region> &links); // on all ranks
    // The same on this rank for the loaded vectors alone. Throws Error(corrupted) if one changed.
    void loaded_must_hold() const;
    // Where a solve may store the checksums of links that it computed on the way; nullptr: nowhere.
    uint64_t *checksums_of_links() const;

  private:
    bool holds_here(std::vector<Region> links) const;
    milcgpu_context &context_;
    std::function<void()> empty_;
    std::vector<SpinorBlock> loaded_;
};

// Empties a set of links, and forgets the solvers that read them.
std::function<void()> emptying(milcgpu_links &links);

// Flips one bit of the loaded fat links if a test has requested this fault.
void flip_if_planted(milcgpu_links &links);

// Returns what `solve(verification)` returns, after a check of the solve's inputs (checked_regions(report)). If a
// loaded vector changed meanwhile, solves a second time. A converged solution depends on what its true residual was
// computed with; if a solve did not converge, the packed links that it iterated with are checked, too. empty: see
// Verification.
template <class Solve, class StandsOn>
auto verified(milcgpu_context &context, const std::function<void()> &empty, const Solve &solve,
              const StandsOn &checked_regions) {
    for (const bool again : {false, true}) {
        Verification verification(context, empty);
        auto report = solve(verification);
        if (verification.holds(checked_regions(report)))
            return report;
        ++context.sources_reloaded;
        if (again)
            break;
    }
    throw Error(Status::corrupted, format("the source on the device changed while it was solved for, twice in a row. "
                                          "Memory of this %s seems to be failing: use another one",
                                          context.device->on_gpu() ? "GPU" : "host"));
}

} // namespace milcgpu
