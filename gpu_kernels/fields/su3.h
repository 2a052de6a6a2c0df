// 3x3 complex algebra in registers: the smallest set that the kernels need. Flop counts: matrix times vector 66.
// Products of matrices have a second form for CPUs (matrix_rows.h), with the same operations in the same order.
#pragma once
#include "gpu_kernels/fields/matrix_rows.h"
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

template <class T> struct Complex { T re, im; };

template <class T> MILCGPU_HD Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> MILCGPU_HD Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> MILCGPU_HD Complex<T> operator*(T s, Complex<T> a) { return {s * a.re, s * a.im}; }
template <class T> MILCGPU_HD Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> MILCGPU_HD Complex<T> conj(Complex<T> a) { return {a.re, -a.im}; }
// i^power z
template <class T> MILCGPU_HD Complex<T> times_i(Complex<T> z, int power) {
    const bool swap = (power & 1) != 0, negative = (power & 2) != 0;
    const Complex<T> turned = {swap ? -z.im : z.re, swap ? z.re : z.im};
    return {negative ? -turned.re : turned.re, negative ? -turned.im : turned.im};
}
template <class T> MILCGPU_HD T norm(Complex<T> a) { return a.re * a.re + a.im * a.im; }
// c + a b and c - a b, in four fused multiply-adds
template <class T> MILCGPU_HD Complex<T> plus(Complex<T> c, Complex<T> a, Complex<T> b) {
    c.re += a.re * b.re;
    c.im += a.re * b.im;
    c.re -= a.im * b.im;
    c.im += a.im * b.re;
    return c;
}
template <class T> MILCGPU_HD Complex<T> minus(Complex<T> c, Complex<T> a, Complex<T> b) {
    return plus(c, {-a.re, -a.im}, b);
}
// s - |a|^2, in two fused multiply-adds
template <class T> MILCGPU_HD T minus_norm(T s, Complex<T> a) {
    s -= a.re * a.re;
    return s - a.im * a.im;
}
template <class To, class From> MILCGPU_HD Complex<To> convert(Complex<From> a) {
    return {static_cast<To>(a.re), static_cast<To>(a.im)};
}

template <class T> struct Vector { Complex<T> c[3]; };

template <class T> struct Matrix {
    Complex<T> e[3][3]; // [row][column]
};

// acc += U x
template <class T> MILCGPU_HD void multiply_add(Vector<T> &acc, const Matrix<T> &u, const Vector<T> &x) {
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        acc.c[row].re += u.e[row][k].re * x.c[k].re;
        acc.c[row].im += u.e[row][k].re * x.c[k].im;
        acc.c[row].re -= u.e[row][k].im * x.c[k].im;
        acc.c[row].im += u.e[row][k].im * x.c[k].re;
    }
}

// acc -= U^dag x
template <class T> MILCGPU_HD void adjoint_multiply_subtract(Vector<T> &acc, const Matrix<T> &u, const Vector<T> &x) {
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k) {
        acc.c[row].re -= u.e[k][row].re * x.c[k].re;
        acc.c[row].im -= u.e[k][row].re * x.c[k].im;
        acc.c[row].re -= u.e[k][row].im * x.c[k].im;
        acc.c[row].im += u.e[k][row].im * x.c[k].re;
    }
}

// c += a b
template <class T> MILCGPU_HD_ONCE void multiply_add(Matrix<T> &c, const Matrix<T> &a, const Matrix<T> &b) {
#if MILCGPU_LANES
    rows::add_product<T>(
        c, [&](int row, int k) { return a.e[row][k]; }, rows::factor<T>(b));
#else
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column)
        MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        c.e[row][column] = plus(c.e[row][column], a.e[row][k], b.e[k][column]);
#endif
}

template <class T> MILCGPU_HD Matrix<T> adjoint(const Matrix<T> &a) {
    Matrix<T> b;
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column)
        b.e[row][column] = conj(a.e[column][row]);
    return b;
}

template <class T> MILCGPU_HD Matrix<T> operator*(const Matrix<T> &a, const Matrix<T> &b) {
    Matrix<T> c = {};
    multiply_add(c, a, b);
    return c;
}

// sum += a b c^dag, row by row, and sum += a^dag b c, column by column, so that no intermediate matrix is stored.
template <class T>
MILCGPU_HD_ONCE void add_staple_up(Matrix<T> &sum, const Matrix<T> &a, const Matrix<T> &b, const Matrix<T> &c) {
#if MILCGPU_LANES
    Matrix<T> ab = {};
    rows::add_product<T>(
        ab, [&](int row, int k) { return a.e[row][k]; }, rows::factor<T>(b));
    rows::add_product<T>(
        sum, [&](int row, int k) { return ab.e[row][k]; }, rows::factor_adjoint<T>(c));
#else
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row) {
        Complex<T> ab[3] = {};
        MILCGPU_UNROLL
        for (int column = 0; column < 3; ++column)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            ab[column] = plus(ab[column], a.e[row][k], b.e[k][column]);
        MILCGPU_UNROLL
        for (int column = 0; column < 3; ++column)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            sum.e[row][column] = plus(sum.e[row][column], ab[k], conj(c.e[column][k]));
    }
#endif
}
template <class T>
MILCGPU_HD_ONCE void add_staple_down(Matrix<T> &sum, const Matrix<T> &a, const Matrix<T> &b, const Matrix<T> &c) {
#if MILCGPU_LANES
    Matrix<T> bc = {};
    rows::add_product<T>(
        bc, [&](int row, int k) { return b.e[row][k]; }, rows::factor<T>(c));
    rows::add_product<T>(
        sum, [&](int row, int k) { return conj(a.e[k][row]); }, rows::factor<T>(bc));
#else
    MILCGPU_UNROLL
    for (int column = 0; column < 3; ++column) {
        Complex<T> bc[3] = {};
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            bc[row] = plus(bc[row], b.e[row][k], c.e[k][column]);
        MILCGPU_UNROLL
        for (int row = 0; row < 3; ++row)
            MILCGPU_UNROLL
        for (int k = 0; k < 3; ++k)
            sum.e[row][column] = plus(sum.e[row][column], conj(a.e[k][row]), bc[k]);
    }
#endif
}

// c += s a
template <class T> MILCGPU_HD void multiply_add(Matrix<T> &c, T s, const Matrix<T> &a) {
    MILCGPU_UNROLL
    for (int k = 0; k < 9; ++k) {
        c.e[k / 3][k % 3].re += s * a.e[k / 3][k % 3].re;
        c.e[k / 3][k % 3].im += s * a.e[k / 3][k % 3].im;
    }
}

template <class T> MILCGPU_HD Complex<T> determinant(const Matrix<T> &u) {
    const Complex<T> a = u.e[1][1] * u.e[2][2] - u.e[1][2] * u.e[2][1];
    const Complex<T> b = u.e[1][2] * u.e[2][0] - u.e[1][0] * u.e[2][2];
    const Complex<T> c = u.e[1][0] * u.e[2][1] - u.e[1][1] * u.e[2][0];
    return u.e[0][0] * a + u.e[0][1] * b + u.e[0][2] * c;
}

template <class T> MILCGPU_HD Vector<T> operator*(T s, const Vector<T> &x) {
    return {{s * x.c[0], s * x.c[1], s * x.c[2]}};
}
template <class T> MILCGPU_HD Vector<T> operator*(Complex<T> s, const Vector<T> &x) {
    return {{s * x.c[0], s * x.c[1], s * x.c[2]}};
}
template <class T> MILCGPU_HD Vector<T> operator+(const Vector<T> &x, const Vector<T> &y) {
    return {{x.c[0] + y.c[0], x.c[1] + y.c[1], x.c[2] + y.c[2]}};
}
template <class T> MILCGPU_HD Vector<T> operator-(const Vector<T> &x, const Vector<T> &y) {
    return {{x.c[0] - y.c[0], x.c[1] - y.c[1], x.c[2] - y.c[2]}};
}
template <class T> MILCGPU_HD T norm(const Vector<T> &x) { return norm(x.c[0]) + norm(x.c[1]) + norm(x.c[2]); }
// Re <x, y>
template <class T> MILCGPU_HD T real_dot(const Vector<T> &x, const Vector<T> &y) {
    T sum = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        sum += x.c[k].re * y.c[k].re + x.c[k].im * y.c[k].im;
    return sum;
}

template <class To, class From> MILCGPU_HD Vector<To> convert(const Vector<From> &x) {
    Vector<To> y;
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        y.c[k] = {static_cast<To>(x.c[k].re), static_cast<To>(x.c[k].im)};
    return y;
}

template <class To, class From> MILCGPU_HD Matrix<To> convert(const Matrix<From> &u) {
    Matrix<To> v;
    MILCGPU_UNROLL
    for (int row = 0; row < 3; ++row)
        MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        v.e[row][k] = {static_cast<To>(u.e[row][k].re), static_cast<To>(u.e[row][k].im)};
    return v;
}

} // namespace milcgpu
