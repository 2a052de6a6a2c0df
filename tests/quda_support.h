// For the tests of milc_glue/quda_compat: MILC's sites, and programs for single tests, because a program has one
// lattice and one precision there.
#pragma once
#include "milc_glue/quda_compat/quda_milc_interface.h"
#include "tests/environment.h"
#include "tests/support.h"
#include <cstddef>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace tests {

// A site of MILC's; the stride is an odd number of reals.
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

// Runs the test with this tag in its own program.
inline int alone(const char *tag) { return std::system((self() + " " + tag).c_str()); }

// Runs work(double{}) and work(float{}) each in its own program, which runs the calling test by its tag.
template <class Work> void in_each_precision(const char *tag, const Work &work) {
    const char *const here = std::getenv("QUDA_TEST_PRECISION");
    if (here != nullptr)
        return *here == '2' ? work(double{}) : work(float{});
    for (const char *precision : {"2", "1"}) {
        const Environment own{{"QUDA_TEST_PRECISION", precision}};
        CAPTURE(precision);
        CHECK(alone(tag) == 0);
    }
}

} // namespace tests
