// Colour vectors and 3x3 matrices in double, random ones of each kind, and fields of them in MILC's order.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/reference/lattice.h"

namespace reference {

using Complex = std::complex<double>;

struct Vector {
    Complex c[3];
};

struct Matrix {
    Complex e[3][3];
};

using Gauge = std::vector<Matrix>;   // [4*site + dir], lexicographic sites
using Fermion = std::vector<Vector>; // [site], lexicographic sites

// a*b without the check for NaN and infinity that the standard operator makes after each product: several times faster.
inline Complex times(Complex a, Complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

inline Vector operator+(Vector a, const Vector &b) {
    for (int i = 0; i < 3; i++)
        a.c[i] += b.c[i];
    return a;
}

inline Vector operator-(Vector a, const Vector &b) {
    for (int i = 0; i < 3; i++)
        a.c[i] -= b.c[i];
    return a;
}

inline Vector operator*(Complex s, Vector a) {
    for (auto &c : a.c)
        c = times(s, c);
    return a;
}

inline Vector operator*(double s, Vector a) {
    for (auto &c : a.c)
        c *= s;
    return a;
}

inline Matrix operator+(Matrix a, const Matrix &b) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            a.e[i][j] += b.e[i][j];
    return a;
}

inline Matrix operator-(Matrix a, const Matrix &b) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            a.e[i][j] -= b.e[i][j];
    return a;
}

inline Matrix operator*(Complex s, Matrix a) {
    for (auto &row : a.e)
        for (auto &e : row)
            e = times(s, e);
    return a;
}

inline Matrix operator*(double s, Matrix a) {
    for (auto &row : a.e)
        for (auto &e : row)
            e *= s;
    return a;
}

inline Matrix operator*(const Matrix &a, const Matrix &b) {
    Matrix product;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            product.e[i][j] = times(a.e[i][0], b.e[0][j]) + times(a.e[i][1], b.e[1][j]) + times(a.e[i][2], b.e[2][j]);
    return product;
}

inline Vector operator*(const Matrix &a, const Vector &b) {
    Vector product;
    for (int i = 0; i < 3; i++)
        product.c[i] = times(a.e[i][0], b.c[0]) + times(a.e[i][1], b.c[1]) + times(a.e[i][2], b.c[2]);
    return product;
}

inline Matrix adjoint(const Matrix &a) {
    Matrix result;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            result.e[i][j] = std::conj(a.e[j][i]);
    return result;
}

inline Complex trace(const Matrix &a) { return a.e[0][0] + a.e[1][1] + a.e[2][2]; }

inline Complex det(const Matrix &a) {
    return times(a.e[0][0], times(a.e[1][1], a.e[2][2]) - times(a.e[1][2], a.e[2][1])) -
           times(a.e[0][1], times(a.e[1][0], a.e[2][2]) - times(a.e[1][2], a.e[2][0])) +
           times(a.e[0][2], times(a.e[1][0], a.e[2][1]) - times(a.e[1][1], a.e[2][0]));
}

inline double norm2(const Vector &a) { return std::norm(a.c[0]) + std::norm(a.c[1]) + std::norm(a.c[2]); }

// The square of the Frobenius norm.
inline double norm2(const Matrix &a) {
    double sum = 0;
    for (const auto &row : a.e)
        for (const auto &e : row)
            sum += std::norm(e);
    return sum;
}

inline double frobenius_norm(const Matrix &a) { return std::sqrt(norm2(a)); }

inline Matrix identity() {
    Matrix unit{};
    for (int i = 0; i < 3; i++)
        unit.e[i][i] = 1;
    return unit;
}

// The SU(3) matrix close to `a`: Gram-Schmidt on the first two rows; the third is the conjugate of their cross product.
Matrix reunitarize(Matrix a);

// The C++ standard fixes the words of the generator but not its distributions, hence uniform() and gaussian().
using Rng = std::mt19937_64;

// Uniform in (0, 1), 53 bits.
inline double uniform(Rng &rng) { return ((rng() >> 11) + 0.5) * 0x1p-53; }

// Real and imaginary part are independent with variance 1 each (Box-Muller).
Complex gaussian(Rng &rng);

Vector random_vector(Rng &rng);

// Any 3x3 matrix; fat links may have any.
Matrix random_matrix(Rng &rng);

// Haar distributed: Gram-Schmidt of a Gaussian matrix.
Matrix random_su3(Rng &rng);

// Close to 1: 1 + epsilon * (Gaussian matrix), unitarized.
Matrix random_near_unit_su3(Rng &rng, double epsilon);

Gauge unit_gauge(const Lattice &lattice);

Gauge random_gauge(const Lattice &lattice, unsigned long seed);

Gauge near_unit_gauge(const Lattice &lattice, double epsilon, unsigned long seed);

Fermion random_fermion(const Lattice &lattice, unsigned long seed);

// exp(i p x) times a colour vector. Momenta: p = 2 pi k / n for extents n, in time 2 pi (k + half) / n.
Fermion plane_wave(const Lattice &lattice, const std::array<int, 4> &k, const Vector &colour, double half = 0);

// |a - b| / |b| over whole fields of numbers, vectors or matrices; NaN if their sizes differ.
template <class Element> double relative_difference(const std::vector<Element> &a, const std::vector<Element> &b) {
    constexpr std::size_t reals = sizeof(Element) / sizeof(double);
    static_assert(reals * sizeof(double) == sizeof(Element), "in double");
    const double *x = reinterpret_cast<const double *>(a.data()), *y = reinterpret_cast<const double *>(b.data());
    long double difference = a.size() == b.size() ? 0 : NAN, size = 0;
    for (std::size_t i = 0; a.size() == b.size() && i < reals * b.size(); i++) {
        difference += (x[i] - y[i]) * (x[i] - y[i]);
        size += y[i] * y[i];
    }
    return std::sqrt(double(difference / size));
}

// MILC's arrays: sites in MILC's order, `per_site` elements a site, an element's complex numbers in row-major order,
// real part first. Element is Vector (6 reals, 1 a site) or Matrix (18 reals, 4 a site).
template <class Real, class Element>
std::vector<Real> field_to_milc(const Lattice &lattice, const std::vector<Element> &field, int per_site) {
    constexpr std::size_t reals = sizeof(Element) / sizeof(double);
    const auto order = milc_order(lattice);
    std::vector<Real> milc(field.size() * reals);
    for (std::size_t i = 0; i < field.size(); i++) {
        const std::size_t source = std::size_t(order[i / per_site]) * per_site + i % per_site;
        const double *from = reinterpret_cast<const double *>(&field[source]);
        for (std::size_t k = 0; k < reals; k++)
            milc[i * reals + k] = Real(from[k]);
    }
    return milc;
}

template <class Element, class Real>
std::vector<Element> field_from_milc(const Lattice &lattice, const Real *milc, int per_site) {
    constexpr std::size_t reals = sizeof(Element) / sizeof(double);
    const auto order = milc_order(lattice);
    std::vector<Element> field(order.size() * per_site);
    for (std::size_t i = 0; i < field.size(); i++) {
        double *to = reinterpret_cast<double *>(&field[std::size_t(order[i / per_site]) * per_site + i % per_site]);
        for (std::size_t k = 0; k < reals; k++)
            to[k] = milc[i * reals + k];
    }
    return field;
}

// Compiled once, in su3.cpp.
extern template std::vector<float> field_to_milc(const Lattice &, const std::vector<Vector> &, int);
extern template std::vector<double> field_to_milc(const Lattice &, const std::vector<Vector> &, int);
extern template std::vector<float> field_to_milc(const Lattice &, const std::vector<Matrix> &, int);
extern template std::vector<double> field_to_milc(const Lattice &, const std::vector<Matrix> &, int);
extern template std::vector<Vector> field_from_milc(const Lattice &, const float *, int);
extern template std::vector<Vector> field_from_milc(const Lattice &, const double *, int);
extern template std::vector<Matrix> field_from_milc(const Lattice &, const float *, int);
extern template std::vector<Matrix> field_from_milc(const Lattice &, const double *, int);

// 18 reals a link at [4*i + dir], i in MILC's order. Real is float or double.
template <class Real> std::vector<Real> links_to_milc(const Lattice &lattice, const Gauge &links) {
    return field_to_milc<Real>(lattice, links, 4);
}

template <class Real> Gauge links_from_milc(const Lattice &lattice, const std::vector<Real> &milc) {
    return field_from_milc<Matrix>(lattice, milc.data(), 4);
}

// 6 reals a site.
template <class Real> std::vector<Real> vector_to_milc(const Lattice &lattice, const Fermion &field) {
    return field_to_milc<Real>(lattice, field, 1);
}

template <class Real> Fermion vector_from_milc(const Lattice &lattice, const std::vector<Real> &milc) {
    return field_from_milc<Vector>(lattice, milc.data(), 1);
}

} // namespace reference
