// Precisions of a solve, and which one is tried next after an error.
#pragma once
#include "milc_glue/milcgpu.h"
#include <array>
#include <string>

namespace milcgpu {

struct Policy {
    const char *name; // precise-sloppy, or one for both
    int precise, sloppy;
    int safer; // index of the next one after an error, -1: MILC's own routine
};

// From the least careful to the most careful.
constexpr std::array<Policy, 5> policies{{{"single-half", MILCGPU_SINGLE, MILCGPU_HALF, 1},
                                          {"single", MILCGPU_SINGLE, MILCGPU_SINGLE, 4},
                                          {"double-half", MILCGPU_DOUBLE, MILCGPU_HALF, 3},
                                          {"double-single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 4},
                                          {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, -1}}};

const Policy *policy_named(const std::string &name); // nullptr: none
const Policy *policy_of(int precise, int sloppy);    // nullptr: none
const Policy *automatic_policy(bool gpu, bool in_double,
                               int sites); // the fastest for a lattice; in_double: MILC's fields

} // namespace milcgpu
