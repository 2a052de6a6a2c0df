// Random vectors whose numbers do not depend on how a lattice is cut.
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/machine/geometry/geometry.h"

namespace milcgpu {

// x_k, for each source k: every component is +-1 +-i, chosen by a hash of the seed, of first + k, and of the site in
// the whole lattice; x has one colour vector a site, on `parity`. Writes 1 spinor for each source.
void random_vectors(Device &, const Geometry &, int parity, uint64_t seed, int first, const SpinorBlock &x);

} // namespace milcgpu
