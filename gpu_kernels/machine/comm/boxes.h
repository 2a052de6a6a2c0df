// The box of the lattice that each rank has, its neighbours, and the check that all boxes fit together.
#pragma once
#include "gpu_kernels/machine/comm/ranks.h"
#include <array>

namespace milcgpu {

constexpr int halo_depth = 3; // sites of a neighbour that the stencil reads: those of the long links

struct Box {
    std::array<int, 4> extent, whole, origin;
    std::array<std::array<int, 2>, 4> neighbour; // ranks behind [0] and ahead [1]; this rank if mu is not cut
    int emulated;                                // directions (bit mu) that are whole but treated as cut

    bool cut(int mu) const { return extent[mu] != whole[mu]; }
    bool emulates(int mu) const { return (emulated >> mu & 1) != 0; }
    bool has_halo(int mu) const { return cut(mu) || emulates(mu); }
    bool has_halo() const { return has_halo(0) || has_halo(1) || has_halo(2) || has_halo(3); }
    double sites() const { return double(extent[0]) * extent[1] * extent[2] * extent[3]; }
    double whole_sites() const { return double(whole[0]) * whole[1] * whole[2] * whole[3]; }
    std::string text() const; // "4 x 4 x 4 x 8 at 0 0 0 8"
};

// Checks what one rank can see alone. Throws Error(bad_argument) that names the member of milcgpu_layout.
void check_box(const Box &box, int rank, int size);

// Checks that the boxes of all ranks tile the lattice and that neighbours touch face to face. Each box must have passed
// check_box. All ranks pass the same boxes. Throws the same Error(bad_argument) on all ranks; it names a rank and its
// fault.
void check_boxes(const std::vector<Box> &boxes);

} // namespace milcgpu
