// A launch that makes a vector of a parity, and sends its ghosts if the map has peers (machine/backend/peers.h).
#pragma once
#include "gpu_kernels/machine/backend/launch_types.h"
#include "gpu_kernels/machine/geometry/lattice.h"

namespace milcgpu {

struct SendOut {
    GhostMap map{};
    CutLattice lattice;
    int parity = 0;
};

} // namespace milcgpu
