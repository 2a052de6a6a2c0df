// A World (calls_support.h) on one rank, in a test of Catch.
#pragma once
#include "examples/lib/boxes.h"
#include "tests/calls_support.h"
#include "tests/support.h"
#include <map>

namespace tests {

inline const WholeFields &fields_of(const std::array<int, 4> &n, double roughness = 0.3) {
    static std::map<std::pair<std::array<int, 4>, double>, WholeFields> made;
    return made.try_emplace({n, roughness}, reference::Lattice{n}, roughness).first->second;
}

// A World on one rank.
struct Whole {
    Session<double> session;
    World world;
    explicit Whole(milcgpu::Backend backend, const std::array<int, 4> &n = {4, 4, 4, 4}, double roughness = 0.3,
                   bool phased = true, bool single = false)
        : session({n}, backend, 0, 0),
          world(session.context, fields_of(n, roughness),
                examples::places_of(examples::layout_on_grid(n, {1, 1, 1, 1}, 0)), phased, single) {}
};

} // namespace tests
