// SU(2) matrices on two of the three colours: w + i (x sigma_1 + y sigma_2 + z sigma_3).
#pragma once
#include "gpu_kernels/su3/su3.h"

namespace milcgpu {

struct Su2 {
    double w, x, y, z;
};

// Proportional to the one with the largest Re tr (h k) on rows and columns a and b.
MILCGPU_HD Su2 best_su2(const Matrix<double> &k, int a, int b) {
    return {k.e[a][a].re + k.e[b][b].re, -k.e[a][b].im - k.e[b][a].im, k.e[b][a].re - k.e[a][b].re,
            k.e[b][b].im - k.e[a][a].im};
}

// m <- h m, on rows a and b; 84 flops
MILCGPU_HD void multiply_rows(const Su2 &h, int a, int b, Matrix<double> &m) {
    const Complex<double> aa = {h.w, h.z}, ab = {h.y, h.x}, ba = {-h.y, h.x}, bb = {h.w, -h.z};
    MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column) {
        const Complex<double> upper = m.e[a][column], lower = m.e[b][column];
        m.e[a][column] = plus(aa * upper, ab, lower);
        m.e[b][column] = plus(ba * upper, bb, lower);
    }
}

} // namespace milcgpu
