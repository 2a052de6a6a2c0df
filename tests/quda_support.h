// What the tests of milc_glue/quda_compat share: MILC's sites, and programs of their own, because one program has one
// lattice and one precision there.
#pragma once
#include "milc_glue/quda_compat/quda_milc_interface.h"
#include "tests/support.h"
#include <cstddef>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace tests {

// What MILC's sites hold, among other things; the stride is an odd number of reals.
template <class Real> struct Site {
    char before[24];
    Real link[4][18];
    Real between;
    Real mom[4][10];
    Real after[sizeof(double) / sizeof(Real)];
};

template <class Real> QudaMILCSiteArg_t site_argument(Site<Real> *sites) {
    using S = Site<Real>;
    return {sites, nullptr, offsetof(S, link), nullptr, offsetof(S, mom), sizeof(S)};
}

inline std::string self() { // this program
    char path[4096] = "";
    REQUIRE(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    return path;
}

// Runs one test in a program of its own.
inline int alone(const char *tag) { return std::system((self() + " " + tag).c_str()); }

} // namespace tests
