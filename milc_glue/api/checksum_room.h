// What a context's `checksums` has room for (links/verify.h).
#pragma once
#include "gpu_kernels/algebra/block_steps.h"
#include "gpu_kernels/solver/normal_operator.h"

namespace milcgpu::checksum_room {

// The most vectors that are checked at once: of each Wilson source both parities, and what is iterated on.
constexpr size_t most_loaded = 2 * most_block + 1;
// Behind the checksums of vectors as they were loaded: those of links that the solve took, then those of the pass at
// the end.
constexpr size_t first_of_links = most_loaded, first_of_pass = first_of_links + NormalOperator::most_checksums;
constexpr size_t all = first_of_pass + most_loaded + most_regions;

} // namespace milcgpu::checksum_room
