// The device side of send_out.h: the launch that makes a vector sends its ghosts.
#pragma once
#include "gpu_kernels/machine/backend/peers_cuda.h"
#include "gpu_kernels/machine/geometry/lattice.h"

namespace milcgpu::cuda {

// Sends site i, as stored, to all neighbours that have it among their ghosts: a site near the beginning goes to the
// neighbour behind, whose ghosts ahead include it.
template <int bytes, int word>
__device__ __forceinline__ void send_site(const GhostMap &map, const CutLattice &lattice, int parity, int i,
                                          const uint32_t *stored) {
    const Site site = lattice.site(parity, i);
    MILCGPU_UNROLL
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && lattice.cut(mu); ++side) {
            const int away = side == 0 ? site.x[mu] : lattice.extent[mu] - 1 - site.x[mu];
            if (away < lattice.depth)
                send_ghost<bytes, word>(map, parity, 2 * mu + side,
                                        lattice.ghost[mu][1 - side] + away * lattice.layer[mu] +
                                            lattice.place(site, mu) - lattice.first_ghost,
                                        stored);
        }
}

} // namespace milcgpu::cuda
