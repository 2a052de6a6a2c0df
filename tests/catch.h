// What every test includes: Catch2 (version 3 where it is installed, else 2; the tests use only what both have), a way
// to skip that main.cpp counts, and the way to MILC's sample files.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx; // where version 2 has it
#else
#define CATCH_CONFIG_DISABLE_MATCHERS // std::regex, for them, takes as long to compile as half of the rest
#include <catch2/catch.hpp>

#include "tests/check.h"
#endif

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

// make check LONG=1, as CI and a machine with a GPU have it: sweeps over many cases are whole.
inline bool long_tests() {
    const char *const asked = std::getenv("LONG");
    return asked != nullptr && std::string(asked) == "1";
}

// The cases of a sweep: all of them in a long run, else the first and every `step`th after it.
template <class Case> std::vector<Case> sampled(const std::vector<Case> &all, size_t step) {
    std::vector<Case> some;
    for (size_t k = 0; k < all.size(); k += long_tests() ? 1 : step)
        some.push_back(all[k]);
    return some;
}

// Why: set by SKIP_TEST, read and cleared by main.cpp after each test case.
inline std::string test_skipped;

// Leaves the test case, says why, and has it counted as skipped, unless something in it failed. (Catch's own SKIP came
// with version 3.3.)
#define SKIP_TEST(why)                                                                                                 \
    do {                                                                                                               \
        test_skipped = why;                                                                                            \
        WARN("SKIPPED: " << test_skipped);                                                                             \
        return;                                                                                                        \
    } while (false)

// Leaves a test case that takes long, or is a second form of another one, to long runs.
#define LONG_TEST                                                                                                      \
    do {                                                                                                               \
        if (!long_tests())                                                                                             \
            SKIP_TEST("that make check LONG=1 runs");                                                                  \
    } while (false)

// The folder of MILC's sample files: $MILCGPU_SAMPLES, else beside the repository (the tests run in its root).
inline std::string samples_folder() {
    const char *named = std::getenv("MILCGPU_SAMPLES");
    return named ? named : "../shared/milc_samples";
}

inline std::string sample_file(const std::string &name) { return samples_folder() + "/" + name; }

inline bool have_sample(const std::string &name) { return std::ifstream(sample_file(name)).good(); }

// Leaves the test case where MILC's sample file is not there.
#define NEED_SAMPLE(name)                                                                                              \
    do {                                                                                                               \
        if (!have_sample(name))                                                                                        \
            SKIP_TEST("no " + sample_file(name) + "; set MILCGPU_SAMPLES to the folder of MILC's sample files");       \
    } while (false)
