// Shared by the unitarization of links and its derivative, for V = W (V^dag V)^(1/2): eigenvalues of V^dag V from its
// characteristic polynomial, and, if these are not accurate, singular values by Jacobi rotations. Double.
#pragma once
#include "gpu_kernels/gauge/links/fermion_links.h"

namespace milcgpu::polar {

using M = Matrix<double>;
using C = Complex<double>;

// Eigenvalues of a Hermitian positive 3x3 matrix q with trace c0, half the trace of q^2 in c1 and a third of the trace
// of q^3 in c2.
MILCGPU_HD void eigenvalues(double c0, double c1, double c2, double *g) {
    const double s = c1 / 3 - c0 * c0 / 18;
    g[0] = g[1] = g[2] = c0 / 3;
    if (!(fabs(s) >= 1e-14)) // MILC's limit in double
        return;
    const double r = c2 / 2 - c0 * c1 / 3 + c0 * c0 * c0 / 27, root = sqrt(s);
    const double angle = acos(fmax(-1.0, fmin(1.0, r / (s * root)))) / 3;
    for (int k = 0; k < 3; ++k)
        g[k] += 2 * root * cos(angle + k * (2 * M_PI / 3));
}

// Q = V^dag V, its square and its eigenvalues.
struct GramMatrix {
    M q, q2;
    double g[3];
    MILCGPU_HD explicit GramMatrix(const M &v) : q(adjoint(v) * v), q2(q * q) {
        double c0 = 0, c1 = 0, c2 = 0;
        for (int k = 0; k < 3; ++k) {
            c0 += q.e[k][k].re;
            c1 += q2.e[k][k].re / 2;
            for (int j = 0; j < 3; ++j)
                c2 += (q2.e[k][j].re * q.e[j][k].re - q2.e[k][j].im * q.e[j][k].im) / 3;
        }
        eigenvalues(c0, c1, c2, g);
    }
    // False if the spec requires singular values.
    MILCGPU_HD bool is_accurate(const M &v, const UnitarizeSpec &spec) const {
        const double product = g[0] * g[1] * g[2], exact = norm(determinant(v));
        return !spec.svd_only && exact >= spec.svd_absolute && fabs(exact - product) <= spec.svd_relative * exact &&
               g[0] > 0 && g[1] > 0 && g[2] > 0;
    }
};

struct Columns {
    C c[3][3]; // [column][row]
};

MILCGPU_HD C inner(const C *a, const C *b) { return conj(a[0]) * b[0] + conj(a[1]) * b[1] + conj(a[2]) * b[2]; }

// a, b = a cos - conj(e) b sin, a sin + conj(e) b cos
MILCGPU_HD void rotate_columns(C *a, C *b, double cosine, double sine, C e) {
    for (int row = 0; row < 3; ++row) {
        const C turned = conj(e) * b[row], old = a[row];
        a[row] = cosine * old - sine * turned;
        b[row] = sine * old + cosine * turned;
    }
}

// a = scale V r with orthogonal columns, r unitary: the lengths of the columns are scale times the singular values of
// V. Returns the scale, which avoids overflow.
MILCGPU_HD double one_sided_jacobi(const M &v, Columns &a, Columns &r) {
    r = {};
    double largest = 0;
    for (int k = 0; k < 9; ++k)
        largest = fmax(largest, fmax(fabs(v.e[k / 3][k % 3].re), fabs(v.e[k / 3][k % 3].im)));
    const double scale = largest > 0 ? 1 / largest : 1;
    for (int column = 0; column < 3; ++column) {
        r.c[column][column].re = 1;
        for (int row = 0; row < 3; ++row)
            a.c[column][row] = scale * v.e[row][column];
    }
    for (int sweep = 0; sweep < 20; ++sweep) {
        bool turned = false;
        for (int pair = 0; pair < 3; ++pair) {
            const int i = pair == 2, j = pair == 0 ? 1 : 2;
            const double aa = inner(a.c[i], a.c[i]).re, bb = inner(a.c[j], a.c[j]).re;
            const C c = inner(a.c[i], a.c[j]);
            const double size = sqrt(norm(c));
            if (!(size > 1e-17 * sqrt(aa * bb)) || !(size > 1e-300))
                continue;
            turned = true;
            const double zeta = (bb - aa) / (2 * size);
            const double t = (zeta >= 0 ? 1.0 : -1.0) / (fabs(zeta) + sqrt(1 + zeta * zeta));
            const double cosine = 1 / sqrt(1 + t * t);
            const C e = (1 / size) * c;
            rotate_columns(a.c[i], a.c[j], cosine, cosine * t, e);
            rotate_columns(r.c[i], r.c[j], cosine, cosine * t, e);
        }
        if (!turned)
            break;
    }
    return scale;
}

} // namespace milcgpu::polar
