// Shared by the kernels of the forces.
#pragma once
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/gauge/links/walk.h"
#include "gpu_kernels/machine/backend/sum_to_host.h"

namespace milcgpu {

// Re tr(a b^dag), 35 flops
template <class T> MILCGPU_HD T real_trace_adjoint(const Matrix<T> &a, const Matrix<T> &b) {
    T sum = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 9; ++k)
        sum += a.e[k / 3][k % 3].re * b.e[k / 3][k % 3].re + a.e[k / 3][k % 3].im * b.e[k / 3][k % 3].im;
    return sum;
}

} // namespace milcgpu
