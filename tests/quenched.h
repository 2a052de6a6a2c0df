// Quenched lattices with low modes, of which several tests make eigenvectors: each is made once.
#pragma once
#include "examples/lib/heatbath.h"
#include <array>
#include <map>

namespace tests {

inline const reference::Gauge &quenched(const reference::Lattice &lattice, unsigned long seed) {
    static std::map<std::pair<std::array<int, 4>, unsigned long>, reference::Gauge> all;
    reference::Gauge &u = all[{lattice.n, seed}];
    if (u.empty())
        u = examples::thermalized(lattice, 5.6, seed, 8, 1);
    return u;
}

} // namespace tests
