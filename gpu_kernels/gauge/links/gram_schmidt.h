// Projects a matrix near SU(3) to SU(3), like MILC's reunit_su3: Gram and Schmidt.
#pragma once
#include "gpu_kernels/fields/reconstruct.h"

namespace milcgpu {

// 1 / sqrt(x), to one unit in the last place on the GPU
MILCGPU_HD double reciprocal_root(double x) {
#if MILCGPU_ON_DEVICE
    return rsqrt(x);
#else
    return 1 / sqrt(x);
#endif
}

MILCGPU_HD Matrix<double> times(double factor, Matrix<double> m) {
    MILCGPU_UNROLL
    for (int k = 0; k < 9; ++k)
        m.e[k / 3][k % 3] = factor * m.e[k / 3][k % 3];
    return m;
}

MILCGPU_HD double row_norm(const Matrix<double> &u, int row) {
    return norm(u.e[row][0]) + norm(u.e[row][1]) + norm(u.e[row][2]);
}

MILCGPU_HD void normalise_row(Matrix<double> &u, int row, double size2) {
    const double scale = reciprocal_root(size2);
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        u.e[row][k] = scale * u.e[row][k];
}

struct Deviations {
    double d[4];
};

// Makes rows 0 and 1 orthonormal and computes row 2 from them. Returns what MILC tests: | |row|^2 - 1 |, |<row 0, row
// 1>|^2, and the squared change of row 2.
MILCGPU_HD Deviations gram_schmidt(Matrix<double> &u) {
    Deviations of;
    const double first = row_norm(u, 0);
    of.d[0] = fabs(first - 1);
    normalise_row(u, 0, first);
    Complex<double> along = {0, 0};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        along = plus(along, conj(u.e[0][k]), u.e[1][k]);
    of.d[1] = norm(along);
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        u.e[1][k] = minus(u.e[1][k], along, u.e[0][k]);
    const double second = row_norm(u, 1);
    of.d[2] = fabs(second - 1);
    normalise_row(u, 1, second);
    const Complex<double> old[3] = {u.e[2][0], u.e[2][1], u.e[2][2]};
    complete_row(u);
    of.d[3] = norm(u.e[2][0] - old[0]) + norm(u.e[2][1] - old[1]) + norm(u.e[2][2] - old[2]);
    return of;
}

} // namespace milcgpu
