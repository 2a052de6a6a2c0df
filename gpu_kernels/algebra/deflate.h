// The small steps of a deflation, between the products with the eigenvectors (algebra/dense.h).
#pragma once
#include "gpu_kernels/algebra/convert_sources.h"

namespace milcgpu {

// c[i][k] /= values[i] + shift, of n eigenvectors and `sources` right sides, in double on the device. A sum that is 0
// or negative gives 0. Reads and writes 16 bytes a number, and 8 of `values`.
void divide_by_eigenvalues(Device &, Complex<double> *c, const double *values, int n, int sources, double shift);

// before_k = x_place[k], and x_place[k] += scale[k] y_k, x and before in double; y in any precision, one source of it
// and of before for each k. 4 spinors, three of them double; 12 flops a site and source. how.from: the places.
void add_sources(Device &, const SpinorBlock &y, const SpinorBlock &x, const SourceScales &how,
                 const SpinorBlock &before);

} // namespace milcgpu
