// Sums and steps of several sources in lock-step, in place of the Gram matrices and rotations of block_steps.h. Each
// source has its own conjugate gradient, so only the diagonals of matrices count. Matrices are n x n, with n the number
// of sources. All sums are in double. gate: if it is 0 on the device, nothing is done.
#pragma once
#include "gpu_kernels/algebra/block_steps.h"
#include "gpu_kernels/algebra/dense.h"

namespace milcgpu {

// Targets of the products of each source k with itself, summed over all ranks: Re <x_k, x_k>, Re <x_k, y_k> and Re
// <y_k, y_k>, each on the diagonal of a matrix that is 0 elsewhere. nullptr: not wanted.
struct ProductsTo {
    Complex<double> *x_x, *x_y, *y_y;
};
// Bytes a site and source: x and y; flops: 36.
void sums_in_lock_step(Device &, const SpinorBlock &x, const SpinorBlock &y, const ProductsTo &, const int *gate);
// Bytes a site and source: x; flops: 12.
void sums_in_lock_step(Device &, const SpinorBlock &x, Complex<double> *x_x, const int *gate);

// y_k += c_kk x_k, or with m y_k = m_kk y_k + c_kk x_k; then z_k = y_k + d_kk p_k, with the real parts of c, m and d. y
// and z are rounded once. Bytes a site and source: 5 spinors; flops: 24, or 30.
void step_in_lock_step(Device &, const TwoRotations &, const int *gate);

} // namespace milcgpu
