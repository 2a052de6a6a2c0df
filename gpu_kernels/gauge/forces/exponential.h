// exp of anti-Hermitian 3x3 matrices minus 1, so that rounding errors of the factor of a link are relative to the
// exponent.
//
// A function of a Hermitian A is f_0 + f_1 A + f_2 A^2, because A satisfies its characteristic equation, A^3 = t A^2 -
// s A + d (Cayley and Hamilton). A series is summed in these three numbers, and two products of matrices remain at any
// order. The exact exponential in closed form: Morningstar, Peardon, Phys. Rev. D 69 (2004) 054501, hep-lat/0311018.
#pragma once
#include "gpu_kernels/gauge/forces/momentum_view.h"

namespace milcgpu {

template <class T> struct Hermitian {
    T diagonal[3];
    Complex<T> m01, m02, m12;
};

// -i h
template <class T> MILCGPU_HD Hermitian<T> hermitian(const AntiHermitian<T> &h) {
    const auto minus_i = [](Complex<T> z) { return Complex<T>{z.im, -z.re}; };
    return {{h.diagonal[0], h.diagonal[1], h.diagonal[2]}, minus_i(h.m01), minus_i(h.m02), minus_i(h.m12)};
}

template <class T> MILCGPU_HD Hermitian<T> square(const Hermitian<T> &a) {
    const T n01 = norm(a.m01), n02 = norm(a.m02), n12 = norm(a.m12);
    const T *const x = a.diagonal;
    return {{x[0] * x[0] + n01 + n02, x[1] * x[1] + n01 + n12, x[2] * x[2] + n02 + n12},
            (x[0] + x[1]) * a.m01 + a.m02 * conj(a.m12),
            (x[0] + x[2]) * a.m02 + a.m01 * a.m12,
            (x[1] + x[2]) * a.m12 + conj(a.m01) * a.m02};
}

// Coefficients of the characteristic equation.
template <class T> struct Invariants { T t, s, d; };
template <class T> MILCGPU_HD Invariants<T> invariants(const Hermitian<T> &a) {
    const T n01 = norm(a.m01), n02 = norm(a.m02), n12 = norm(a.m12);
    const T *const x = a.diagonal;
    return {x[0] + x[1] + x[2], x[0] * x[1] + x[0] * x[2] + x[1] * x[2] - n01 - n02 - n12,
            x[0] * (x[1] * x[2] - n12) - x[1] * n02 - x[2] * n01 + 2 * (a.m01 * a.m12 * conj(a.m02)).re};
}

template <class T> struct Quadratic {
    Complex<T> f0, f1, f2;
    MILCGPU_HD Matrix<T> of(const Hermitian<T> &a) const {
        const Hermitian<T> a2 = square(a);
        const auto on = [&](int k) { return f0 + a.diagonal[k] * f1 + a2.diagonal[k] * f2; };
        const auto off = [&](Complex<T> one, Complex<T> two) { return f1 * one + f2 * two; };
        return {{{on(0), off(a.m01, a2.m01), off(a.m02, a2.m02)},
                 {off(conj(a.m01), conj(a2.m01)), on(1), off(a.m12, a2.m12)},
                 {off(conj(a.m02), conj(a2.m02)), off(conj(a.m12), conj(a2.m12)), on(2)}}};
    }
};

// sum over k from 1 to the order of (i eps A)^k / k!, with eps / k in over[k].
template <class T> MILCGPU_HD Quadratic<T> exp_series_minus_one(const Invariants<T> &of, const T *over, int order) {
    const auto i_times = [](T s, Complex<T> z) { return Complex<T>{-s * z.im, s * z.re}; };
    Complex<T> f0 = {1, 0}, f1 = {0, 0}, f2 = {0, 0};
    for (int k = order; k > 0; --k) { // f = 1 + i eps / k A f
        const Complex<T> g0 = of.d * f2, g1 = f0 - of.s * f2, g2 = f1 + of.t * f2;
        f0 = Complex<T>{k > 1 ? T(1) : T(0), 0} + i_times(over[k], g0), f1 = i_times(over[k], g1),
        f2 = i_times(over[k], g2);
    }
    return {f0, f1, f2};
}

// exp(i A) - 1 of a traceless A with c0 = det A and c1 = tr A^2 / 2 above least_c1, where 9 u^2 - w^2 > 2 c1 is far
// from 0. For smaller c1 all eigenvalues are below 0.58, and the series to order 16 is exact to double precision. In
// double: few links get here, and the three numbers have the rounding errors of a difference.
constexpr double least_c1 = 0.25;
MILCGPU_HD Quadratic<double> exp_closed_minus_one(double c0, double c1) {
    using C = Complex<double>;
    const double root = sqrt(c1 / 3), ratio = fabs(c0) / (2 * root * root * root);
    const double theta = acos(ratio < 1 ? ratio : 1) / 3;
    const double u = root * cos(theta), w = sqrt(c1) * sin(theta), u2 = u * u, w2 = w * w;
    const double sinc = w2 < 0.0025 ? 1 - w2 / 6 * (1 - w2 / 20 * (1 - w2 / 42 * (1 - w2 / 72))) : sin(w) / w;
    const double cos_w = cos(w), scale = 1 / (9 * u2 - w2);
    const C once = {cos(u), -sin(u)}, twice = {cos(2 * u), sin(2 * u)}; // exp(-i u), exp(2 i u)
    const C f0 = scale * ((u2 - w2) * twice + once * C{8 * u2 * cos_w, 2 * u * (3 * u2 + w2) * sinc}),
            f1 = scale * ((2 * u) * twice - once * C{2 * u * cos_w, -(3 * u2 - w2) * sinc}),
            f2 = scale * (twice - once * C{cos_w, 3 * u * sinc});
    const double sign = c0 < 0 ? -1 : 1; // for -A they are conjugate, with a minus sign for f1
    return {{f0.re - 1, sign * f0.im}, {sign * f1.re, f1.im}, {f2.re, sign * f2.im}};
}

// How an exponential is computed: a series to this order with 1 / k in over[k], or, with order 0, exactly.
template <class T> struct Exponential {
    T over[highest_exp_order + 1];
    int order;
    explicit Exponential(int to_order) : over{}, order(to_order) {
        for (int k = 1; k <= highest_exp_order; ++k)
            over[k] = T(1) / T(k);
    }
    // exp(h) u, h traceless.
    MILCGPU_HD Matrix<T> times(const AntiHermitian<T> &h, const Matrix<T> &u) const {
        const Hermitian<T> a = hermitian(h);
        const Invariants<T> of = invariants(a);
        const bool closed = order == 0 && -of.s > T(least_c1);
        Quadratic<T> f;
        if (closed) {
            const Quadratic<double> whole = exp_closed_minus_one(of.d, -of.s);
            f = {convert<T>(whole.f0), convert<T>(whole.f1), convert<T>(whole.f2)};
        } else {
            f = exp_series_minus_one(of, over, order == 0 ? highest_exp_order : order);
        }
        Matrix<T> after = f.of(a) * u; // one rounding at the size of u
        multiply_add(after, T(1), u);
        return after;
    }
};

} // namespace milcgpu
