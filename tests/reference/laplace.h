// The gauge Laplace operator M = 1 - kappa D in 3 (x y z) or 4 directions, and its free form. Fields cover the full
// lattice, in lexicographic order, in double. Links are without phases.
#pragma once

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

// (D f)(x) = sum over mu < directions of U_mu(x) f(x + mu) + U_mu(x - mu)^dagger f(x - mu)
Fermion laplace_sum(const Lattice &lattice, const Gauge &links, int directions, const Fermion &field);

// f - kappa D f
Fermion laplace_matrix(const Lattice &lattice, const Gauge &links, int directions, double kappa, const Fermion &field);

// f - kappa^2 D D f on the sites of one parity. The other sites of f are not read; the result is zero there.
Fermion laplace_even_odd(const Lattice &lattice, const Gauge &links, int directions, double kappa, int parity,
                         const Fermion &field);

// The eigenvalue of M on unit links for the plane wave with momentum 2 pi p_mu / n_mu: 1 - 2 kappa sum over mu <
// directions of cos.
double free_laplace_eigenvalue(const Lattice &lattice, int directions, double kappa, const std::array<int, 4> &p);

// M^-1 on unit links, from `source` to each site (a number, times the unit matrix of colour), by the sum over all
// momenta.
std::vector<double> free_laplace_propagator(const Lattice &lattice, int directions, double kappa, int source);

} // namespace reference
