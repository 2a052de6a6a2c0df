// Precisions of a solve, and which one is tried next after an error.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/residency/collective.h"
#include <array>
#include <functional>
#include <string>

namespace milcgpu {

struct Policy {
    const char *name; // precise-sloppy, or one for both
    int precise, sloppy;
    int safer; // index of the next one after an error, -1: MILC's own routine
};

// From the least careful to the most careful. inline, because the place in this one table identifies a policy.
inline constexpr std::array<Policy, 5> policies{{{"single-half", MILCGPU_SINGLE, MILCGPU_HALF, 1},
                                                 {"single", MILCGPU_SINGLE, MILCGPU_SINGLE, 3},
                                                 {"double-half", MILCGPU_DOUBLE, MILCGPU_HALF, 3},
                                                 {"double-single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 4},
                                                 {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, -1}}};

const Policy *policy_named(const std::string &name); // nullptr: none
const Policy *policy_of(int precise, int sloppy);    // nullptr: none
// The fastest for a lattice. in_double: MILC's fields are in double.
const Policy *automatic_policy(bool gpu, int sites, bool in_double);

// The precisions that one call goes through, each at most once.
class Ladder {
  public:
    Ladder(Collective &collective, const Policy *first, bool in_double)
        : collective_(collective), policy_(first), in_double_(in_double) {}
    const Policy &policy() const { return *policy_; }

    // Sets policy() to the next policy after `status`. After NO_MEMORY this is the policy that needs the fewest bytes,
    // if it needs fewer than this one (bytes: on the device) and solves to MILC's precision. After PRECISION_FLOOR in
    // single it is one in double; else the next safer one. Returns false if none is left, or if no precision helps.
    bool next(int status, const std::function<size_t(const Policy &)> &bytes);

  private:
    const Policy *leaner(const std::function<size_t(const Policy &)> &bytes) const;
    const Policy *safer(int status) const;
    bool untried(const Policy &policy) const { return !tried_[&policy - policies.data()]; }

    Collective &collective_;
    const Policy *policy_;
    bool in_double_;
    std::array<bool, policies.size()> tried_{};
};

} // namespace milcgpu
