// Gamma matrices in MILC's chiral basis (libraries/mb_gamma.c), gamma_5 = diag(1, 1, -1, -1). With two rows of two,
//
//   gamma_mu = ( 0  G_mu ; G_mu^dag  0 ),   G_mu unitary:
//
//   (G_x b)_0 = i b_1, (G_x b)_1 = i b_0    (G_y b)_0 = -b_1, (G_y b)_1 = b_0
//   (G_z b)_0 = i b_0, (G_z b)_1 = -i b_1   G_t = 1
//
// so that (1 + s gamma_mu) psi with psi = (a, b) and s = +-1 is known by its upper half h = a + s G_mu b: the lower one
// is s G_mu^dag h. Two colour vectors go through the link, not four. Additions only: 12 flops to project, and the
// lower half is added with a sign.
#pragma once
#include "gpu_kernels/su3/su3.h"

namespace milcgpu {

constexpr int spins = 4;

// Four colour vectors of a site, and the upper half of what is projected.
template <class T> struct WilsonVector { Vector<T> d[spins]; };
template <class T> struct HalfWilsonVector { Vector<T> d[2]; };

// y + s i^k x; s is +-1.
template <int k, class T> MILCGPU_HD Complex<T> add_turned(Complex<T> y, T s, Complex<T> x) {
    if constexpr (k == 0)
        return {y.re + s * x.re, y.im + s * x.im};
    else if constexpr (k == 1)
        return {y.re - s * x.im, y.im + s * x.re};
    else if constexpr (k == 2)
        return {y.re - s * x.re, y.im - s * x.im};
    else
        return {y.re + s * x.im, y.im - s * x.re};
}
template <int k, class T> MILCGPU_HD Vector<T> add_turned(const Vector<T> &y, T s, const Vector<T> &x) {
    return {{add_turned<k>(y.c[0], s, x.c[0]), add_turned<k>(y.c[1], s, x.c[1]), add_turned<k>(y.c[2], s, x.c[2])}};
}

// (G_mu b)_row = i^turn b_column
template <int mu, int row> struct GammaRow {
    static constexpr int column = mu < 2 ? 1 - row : row;
    static constexpr int turn = mu == 0 ? 1 : mu == 1 ? (row == 0 ? 2 : 0) : mu == 2 ? (row == 0 ? 1 : 3) : 0;
};

// The upper half of (1 + s gamma_mu) psi.
template <int mu, class T> MILCGPU_HD HalfWilsonVector<T> project(const WilsonVector<T> &psi, T s) {
    using First = GammaRow<mu, 0>;
    using Second = GammaRow<mu, 1>;
    return {{add_turned<First::turn>(psi.d[0], s, psi.d[2 + First::column]),
             add_turned<Second::turn>(psi.d[1], s, psi.d[2 + Second::column])}};
}

// sum += the spinor whose upper half is h and whose lower half is s G_mu^dag h.
template <int mu, class T> MILCGPU_HD void add_both_halves(WilsonVector<T> &sum, const HalfWilsonVector<T> &h, T s) {
    using First = GammaRow<mu, 0>;
    using Second = GammaRow<mu, 1>;
    sum.d[0] = sum.d[0] + h.d[0];
    sum.d[1] = sum.d[1] + h.d[1];
    Vector<T> &first = sum.d[2 + First::column], &second = sum.d[2 + Second::column];
    first = add_turned<(4 - First::turn) % 4>(first, s, h.d[0]);
    second = add_turned<(4 - Second::turn) % 4>(second, s, h.d[1]);
}

// sum -= the same.
template <int mu, class T>
MILCGPU_HD void subtract_both_halves(WilsonVector<T> &sum, const HalfWilsonVector<T> &h, T s) {
    using First = GammaRow<mu, 0>;
    using Second = GammaRow<mu, 1>;
    sum.d[0] = sum.d[0] - h.d[0];
    sum.d[1] = sum.d[1] - h.d[1];
    Vector<T> &first = sum.d[2 + First::column], &second = sum.d[2 + Second::column];
    first = add_turned<(4 - First::turn) % 4>(first, -s, h.d[0]);
    second = add_turned<(4 - Second::turn) % 4>(second, -s, h.d[1]);
}

} // namespace milcgpu
