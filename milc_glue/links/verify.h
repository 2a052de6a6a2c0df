// Whether what a call stands on is still what was loaded: links as handed over and their packed versions, clover terms,
// sources, the site map. One check for all families of operators. Links that the true residual has looked over
// (Region::taken) are not read again. MILCGPU_VERIFY=0 turns all of it off.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "milc_glue/api/context.h"
#include <functional>

namespace milcgpu {

class Verification {
  public:
    // empty: empties the handle whose links changed.
    Verification(milcgpu_context &context, const std::function<void()> &empty);
    // A vector that the answer is computed from, as it is now: takes its checksum.
    void loaded(const SpinorBlock &vector);
    // After the final residual, before anything is copied out. Throws Error(corrupted) where links or the site map
    // changed; the handle is then empty. False where only what was loaded did: load it and solve again. Throws what a
    // callback of the caller has thrown.
    bool holds(const std::vector<Region> &links); // on all ranks
    // Where a solve may leave the checksums of links that it took on the way; nullptr: it need not.
    uint64_t *checksums_of_links() const;

  private:
    bool holds_here(std::vector<Region> links);
    milcgpu_context &context_;
    const std::function<void()> &empty_;
    std::vector<SpinorBlock> loaded_;
};

// Checks that vectors which a call loads, and does not change, stay on the device as they arrived, until the last read.
class LoadedVectors {
  public:
    explicit LoadedVectors(milcgpu_context &context) : context_(context) {}
    void add(const SpinorField &field); // call it once the field is filled: takes a checksum, does not wait
    void forget() { fields_.clear(); }
    // After the last read, before anything is copied out; waits. Throws Error(corrupted) if one changed.
    void must_hold() const;

  private:
    struct Loaded {
        Region region;
        DeviceArray<uint64_t> sums; // at the start, then at the end
    };
    milcgpu_context &context_;
    std::vector<Loaded> fields_;
};

// Empties a set of links, and forgets the solvers that read them.
std::function<void()> emptying(milcgpu_links &links);

// Flips one bit of the fat links as handed over, if a test has planted that fault.
void flip_if_planted(milcgpu_links &links);

// What `solve(verification)` returns, once what it stood on (checked_regions(report)) holds: of a second time where
// what it had loaded changed meanwhile. A converged solution stands on what its true residual was computed with; where
// a solve did not converge, the packed links that it iterated with are asked as well. empty: see Verification.
template <class Solve, class StandsOn>
auto verified(milcgpu_context &context, const std::function<void()> &empty, const Solve &solve,
              const StandsOn &checked_regions) {
    for (const bool again : {false, true}) {
        Verification verification(context, empty);
        auto report = solve(verification);
        if (verification.holds(checked_regions(report)))
            return report;
        if (again)
            break;
    }
    throw Error(Status::corrupted, format("the source on the device changed while it was solved for, twice in a row. "
                                          "Memory of this %s seems to be failing: use another one",
                                          context.device->on_gpu() ? "GPU" : "host"));
}

} // namespace milcgpu
