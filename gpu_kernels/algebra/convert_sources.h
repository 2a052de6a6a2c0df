// y_k = scale[k] x_from[k] for several sources, x in double. Block conjugate gradient gets its residuals from this:
// with their norms, and without the sources that are done.
#pragma once
#include "gpu_kernels/algebra/block_steps.h"

namespace milcgpu {

struct SourceScales {
    double scale[most_block];
    int from[most_block];
};
// sums[k] (device; nullptr: not wanted) = |x_from[k]|^2, added up like the norm of one source. 2 spinors a source.
void convert_sources(Device &, const SpinorBlock &x, const SpinorBlock &y, const SourceScales &, double *sums);

} // namespace milcgpu
