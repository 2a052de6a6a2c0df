// Derivatives of what is built from links, path by path: slow, and sharing nothing with the library. A derivative q of
// S by links V is stored like a link: dS = 2 Re sum tr(q^dagger dV).
#pragma once

#include "tests/reference/gauge.h"

namespace reference {

// Steps from x to x+mu (or x+3mu): directions 0..3 go forward, 7 - direction backward, as in MILC.
struct WeightedPath {
    std::vector<int> steps;
    double coefficient;
};

// The paths of the fat link of direction mu. Lepage paths go up and down on the same side, so that no link meets its
// own adjoint.
std::vector<WeightedPath> fat_paths(const PathCoefficients &coefficients, int mu);
std::vector<WeightedPath> long_path(const PathCoefficients &coefficients, int mu);

// V_mu(x) = sum of the paths of direction mu that start at x.
Gauge sum_of_paths(const Lattice &lattice, const Gauge &links,
                   std::vector<WeightedPath> (*paths)(const PathCoefficients &, int),
                   const PathCoefficients &coefficients);
// The derivative by the links; q is the derivative by V.
Gauge path_derivative(const Lattice &lattice, const Gauge &links,
                      std::vector<WeightedPath> (*paths)(const PathCoefficients &, int),
                      const PathCoefficients &coefficients, const Gauge &q);

// e(x) sum_t weights[t] X_t(x) X_t(x + hops mu)^dagger, e = 1 on even and -1 on odd sites, (a b^dagger)_rc = a_r
// conj(b_c).
Gauge outer_products(const Lattice &lattice, const std::vector<Fermion> &x, const std::vector<double> &weights,
                     int hops);

// The derivative by v, if q is the derivative by v (v^dagger v + shift)^(-1/2): from the equation that defines the
// square root, differentiated along each of the 18 real directions.
Matrix unitary_part_derivative(const Matrix &v, const Matrix &q, double shift);

} // namespace reference
