// Gamma matrices in MILC's chiral basis (libraries/mb_gamma.c), gamma_5 = diag(1, 1, -1, -1). With two rows of two,
//
//   gamma_mu = ( 0  G_mu ; G_mu^dag  0 ),   G_mu unitary:
//
//   (G_x b)_0 = i b_1, (G_x b)_1 = i b_0    (G_y b)_0 = -b_1, (G_y b)_1 = b_0
//   (G_z b)_0 = i b_0, (G_z b)_1 = -i b_1   G_t = 1
//
// so that (1 + s gamma_mu) psi with psi = (a, b) and s = +-1 is determined by its upper half h = a + s G_mu b: the
// lower half is s G_mu^dag h. Two colour vectors are multiplied by the link instead of four. This takes only additions:
// 12 flops to project, and the lower half is added with a sign.
#pragma once
#include "gpu_kernels/fields/su3.h"

namespace milcgpu {

constexpr int spins = 4;

// Four colour vectors of a site, and the upper half of a projection.
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

// In each direction (G_mu b)_0 = +-i^power b_k, (G_mu b)_1 = +-i^power b_l, with power 1 in x and z, 0 in y and t. In x
// and y k, l are 1, 0, in z and t 0, 1. If the lower vectors are taken in the order k, l, directions of one power
// differ only in signs, and the same code serves both.
MILCGPU_HD constexpr int gamma_power(int mu) { return mu % 2 == 0 ? 1 : 0; }
MILCGPU_HD constexpr bool gamma_crosses(int mu) { return mu < 2; } // true if k, l are 1, 0

// The signs times s.
template <class T> struct GammaSigns {
    T first, second;
    MILCGPU_HD GammaSigns(int mu, T s) : first(mu == 1 ? -s : s), second(mu == 2 ? -s : s) {}
};

// sum += the spinor with upper half h and lower half s G_mu^dag h, in the order of mu.
template <int power, class T>
MILCGPU_HD void add_both_halves(WilsonVector<T> &sum, const HalfWilsonVector<T> &h, const GammaSigns<T> &s) {
    constexpr int back = (4 - power) % 4;
    sum.d[0] = sum.d[0] + h.d[0];
    sum.d[1] = sum.d[1] + h.d[1];
    sum.d[2] = add_turned<back>(sum.d[2], s.first, h.d[0]);
    sum.d[3] = add_turned<back>(sum.d[3], s.second, h.d[1]);
}

} // namespace milcgpu
