// Whether what a solve stands on is still what was loaded: links as handed over and their packed versions, the source,
// the site map. Links that the true residual has looked over (Region::taken) are not read again. MILCGPU_VERIFY=0 turns
// all of it off.
#pragma once
#include "milc_glue/context.h"
#include <utility>

namespace milcgpu {

class Verification {
  public:
    Verification(milcgpu_context &context, milcgpu_links &links) : context_(context), links_(links) {}
    void source_loaded(const SpinorBlock &source); // takes its checksum
    // After the final residual, before anything is copied out. Throws Error(corrupted) where links or the site map
    // changed; changed links are then empty. False where only the source did: load it and solve again.
    bool holds(const std::vector<Region> &links); // on all ranks
    // Where a solve may leave the checksums of links that it took on the way; nullptr: it need not.
    uint64_t *checksums_of_links() const;

  private:
    bool holds_here(std::vector<Region> links);
    milcgpu_context &context_;
    milcgpu_links &links_;
    SpinorBlock source_;
};

// What a context's `checksums` has room for.
DeviceArray<uint64_t> room_for_checksums(Device &device);

// Flips one bit of the fat links as handed over: a planted fault.
void flip_a_bit(milcgpu_links &links);

// What `solve(verification)` returns, once what it stood on (stands_on(report)) holds: of a second time where the
// source had changed meanwhile. A converged solution stands on what its true residual was computed with; where a solve
// did not converge, the packed links that it iterated with are asked as well.
template <class Solve, class StandsOn>
auto verified(milcgpu_context &context, milcgpu_links &links, const Solve &solve, const StandsOn &stands_on) {
    if (std::exchange(context.flip_links, false))
        flip_a_bit(links);
    Verification verification(context, links);
    auto report = solve(verification);
    if (!context.verify || verification.holds(stands_on(report)))
        return report;
    report = solve(verification);
    if (!verification.holds(stands_on(report)))
        throw Error(Status::corrupted, "the source on the device changed while it was solved for, twice in a row. "
                                       "Memory of this GPU seems to be failing: use another one");
    return report;
}

} // namespace milcgpu
