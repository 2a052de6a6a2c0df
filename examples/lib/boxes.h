// Lattices divided over a grid of ranks: the box of each rank, and the place of its sites in the whole lattice.
#pragma once
#include "milc_glue/api/milcgpu.h"
#include "tests/reference/lattice.h"
#include <cstddef>

namespace examples {

// The layout of one rank, without messages. Rank = X + NX (Y + NY (Z + NZ T)); all boxes have one size.
inline milcgpu_layout layout_on_grid(const std::array<int, 4> &whole, const std::array<int, 4> &grid, int rank) {
    milcgpu_layout layout{};
    layout.struct_size = sizeof layout;
    std::array<int, 4> at{};
    for (int mu = 0, rest = rank; mu < 4; rest /= grid[mu], ++mu)
        at[mu] = rest % grid[mu];
    const reference::Lattice ranks{grid}; // ranks are numbered like sites
    for (int mu = 0; mu < 4; ++mu) {
        layout.whole[mu] = whole[mu];
        layout.extent[mu] = whole[mu] / grid[mu];
        layout.origin[mu] = at[mu] * layout.extent[mu];
        for (int side = 0; side < 2; ++side)
            layout.neighbour[mu][side] = ranks.neighbour(rank, mu, side == 0 ? -1 : 1);
    }
    return layout;
}

// Calls visit(x) for the box's sites in MILC's order, even sites of the whole lattice first. x: place in the whole
// lattice.
template <class Visit> void for_sites(const milcgpu_layout &box, const Visit &visit) {
    const auto *n = box.extent;
    const reference::Lattice here{{n[0], n[1], n[2], n[3]}};
    for (int parity = 0; parity < 2; ++parity)
        for (int k = 0; k < here.volume(); ++k) {
            auto x = here.coordinates(k);
            for (int mu = 0; mu < 4; ++mu)
                x[mu] += box.origin[mu];
            if ((x[0] + x[1] + x[2] + x[3]) % 2 == parity)
                visit(x);
        }
}

// Places of a box's sites, in MILC's order, in fields of the whole lattice: even sites first, x fastest. The parity of
// a site is its parity in the whole lattice.
inline std::vector<std::size_t> places_of(const milcgpu_layout &box) {
    const reference::Lattice all{{box.whole[0], box.whole[1], box.whole[2], box.whole[3]}};
    std::vector<std::size_t> places;
    for_sites(box, [&](const std::array<int, 4> &x) {
        const int parity = (x[0] + x[1] + x[2] + x[3]) % 2;
        places.push_back((std::size_t(parity) * all.volume() + all.site(x)) / 2);
    });
    return places;
}

} // namespace examples
