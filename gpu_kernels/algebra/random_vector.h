// Rough vectors whose numbers do not depend on how a lattice is cut.
#pragma once
#include "gpu_kernels/fields/fields.h"

namespace milcgpu {

// x_k, of each source k: every component is +-1 +-i by a hash of the seed, of first + k, and of the site in the whole
// lattice, with x of one colour vector a site on `parity`. Writes 1 spinor a source.
void random_vectors(Device &, const Geometry &, int parity, uint64_t seed, int first, const SpinorBlock &x);

} // namespace milcgpu
