// Precisions of a solve, and which one is tried next after an error.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/plugin/collective.h"
#include <array>
#include <functional>
#include <string>

namespace milcgpu {

struct Policy {
    const char *name; // precise-sloppy, or one for both
    int precise, sloppy;
    int safer; // index of the next one after an error, -1: MILC's own routine
};

// From the least careful to the most careful. inline: policies are told apart by their place in the one table.
inline constexpr std::array<Policy, 5> policies{{{"single-half", MILCGPU_SINGLE, MILCGPU_HALF, 1},
                                                 {"single", MILCGPU_SINGLE, MILCGPU_SINGLE, 3},
                                                 {"double-half", MILCGPU_DOUBLE, MILCGPU_HALF, 3},
                                                 {"double-single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 4},
                                                 {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, -1}}};

const Policy *policy_named(const std::string &name); // nullptr: none
const Policy *policy_of(int precise, int sloppy);    // nullptr: none
// The fastest for a lattice. in_double: MILC's fields are.
const Policy *automatic_policy(bool gpu, bool in_double, int sites);

// The precisions that one call goes through, each at most once.
class Ladder {
  public:
    Ladder(Collective &collective, const Policy *first, bool in_double)
        : collective_(collective), policy_(first), in_double_(in_double) {}
    const Policy &policy() const { return *policy_; }

    // Makes policy() the next one to try after `status`. Where memory was short, that is the one which needs least, if
    // it needs less (bytes: what a policy needs on the device) and its solutions are of MILC's precision; where single
    // precision is at its end, one in double; else the next safer one. False: none is left, or no precision mends this.
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
