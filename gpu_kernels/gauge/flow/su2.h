// SU(2) matrices on two of the three colours: w + i (x sigma_1 + y sigma_2 + z sigma_3).
#pragma once
#include "gpu_kernels/gauge/links/gram_schmidt.h"

namespace milcgpu {

struct Su2 {
    double w, x, y, z;
};

// A multiple of the matrix with the largest Re tr (h k) on rows and columns a and b.
MILCGPU_HD Su2 best_su2(const Matrix<double> &k, int a, int b) {
    return {k.e[a][a].re + k.e[b][b].re, -k.e[a][b].im - k.e[b][a].im, k.e[b][a].re - k.e[a][b].re,
            k.e[b][b].im - k.e[a][a].im};
}

// m <- h m, on rows a and b of the first `columns` columns; 28 flops each
template <int columns = 3> MILCGPU_HD void multiply_rows(const Su2 &h, int a, int b, Matrix<double> &m) {
    const Complex<double> aa = {h.w, h.z}, ab = {h.y, h.x}, ba = {-h.y, h.x}, bb = {h.w, -h.z};
    MILCGPU_UNROLL
    for (int column = 0; column < columns; ++column) {
        const Complex<double> upper = m.e[a][column], lower = m.e[b][column];
        m.e[a][column] = plus(aa * upper, ab, lower);
        m.e[b][column] = plus(ba * upper, bb, lower);
    }
}

// conj(column 0 x column 1): column 2 of a special unitary matrix
MILCGPU_HD void complete_column(Matrix<double> &m) {
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        const int l = (k + 1) % 3, n = (k + 2) % 3;
        m.e[k][2] = conj(minus(m.e[l][0] * m.e[n][1], m.e[n][0], m.e[l][1]));
    }
}

// Increases Re tr w v^dag by hits of SU(2) subgroups on w, the colours 01, 12, 02 in turn, until the relative gain of
// three hits is at most `tolerance`, or until `most_hits` hits. Returns false if the last hits gained more. tolerance
// 0: always `most_hits`. special: w is in SU(3) to rounding. Then hits change two columns of it, and the third one
// follows.
template <bool special>
MILCGPU_HD bool project_by_hits(const Matrix<double> &v, Matrix<double> &w, int most_hits, double tolerance) {
    Matrix<double> action = w * adjoint(v);
    const auto value = [&] { return action.e[0][0].re + action.e[1][1].re + action.e[2][2].re; };
    double before = value(), gain = 1;
    for (int k = 0; k < most_hits && gain > tolerance; k += 3) {
        // Unrolled so that rows are constants and matrices stay in registers.
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c) {
            const int a = c == 2 ? 0 : c, b = c == 0 ? 1 : 2;
            if (k + c >= most_hits)
                continue;
            Su2 h = best_su2(action, a, b);
            const double size2 = h.w * h.w + h.x * h.x + h.y * h.y + h.z * h.z, scale = reciprocal_root(size2);
            // NaN stays NaN.
            h = size2 == 0 ? Su2{1, 0, 0, 0} : Su2{scale * h.w, scale * h.x, scale * h.y, scale * h.z};
            multiply_rows<special ? 2 : 3>(h, a, b, w);
            multiply_rows(h, a, b, action);
        }
        if (tolerance > 0 && k + 3 <= most_hits) {
            gain = (value() - before) / before;
            before = value();
        }
    }
    if (special)
        complete_column(w);
    return tolerance == 0 || gain <= tolerance;
}

} // namespace milcgpu
