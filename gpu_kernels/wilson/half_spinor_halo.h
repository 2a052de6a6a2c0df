// What D reads of the neighbours if the lattice is cut over ranks: half spinors.
//
// From the site ahead in mu it needs (1 + s gamma_mu) psi(x+mu), from the site behind U_mu(x-mu)^dag (1 - s gamma_mu)
// psi(x-mu). Both are determined by their upper halves (gamma.h). The sender projects, and multiplies with its own
// link: so 12 reals travel instead of 24, and links need no ghosts.
//
// They travel in the precision in which D is computed, double or single, so that D has the same bits as on a whole
// lattice. Bytes for a site of a face, each way: 96 in double, 48 in single and half. The sender reads a spinor, and
// for the rank ahead a link; flops 12, and 2 * 66 with the link.
#pragma once
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/geometry/geometry.h"

namespace milcgpu {

class Halo;

struct WilsonHalo {
    // geometry: of the box. All ranks call together; halo must outlive this object.
    WilsonHalo(Device &, Halo &halo, const Geometry &geometry);
    Halo &halo;
    CutLattice lattice;                // with one layer of ghosts
    size_t places = 0;                 // of ghosts, in all faces
    DeviceArray<unsigned char> ghosts; // vector d of the ghost with index g: element d places + g - first_ghost
};

} // namespace milcgpu
