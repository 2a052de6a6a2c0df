// The improved staggered operator and its conjugate gradient. Fields are full-lattice, sites lexicographic, double.
#pragma once

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

// (D x)(i) = sum_mu fat_mu(i) x(i+mu) - fat_mu(i-mu)^dagger x(i-mu)
//                 + lng_mu(i) x(i+3mu) - lng_mu(i-3mu)^dagger x(i-3mu)
// Phases, boundary signs and coefficients are in the links. D is anti-hermitian and joins even with odd sites.
Fermion dslash(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src);

// The same on the sites of one parity (0 even, 1 odd); the other sites of the result are zero.
Fermion dslash_on_parity(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src, int parity);

// (4 m^2 - D D) x on the sites of one parity; the other sites of x are not read, those of the result are zero.
Fermion normal_operator(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                        const Fermion &x);

struct CgResult {
    Fermion x;       // the guess where the parity is the other one
    int iterations;  // one for each step and one for each true residual, as MILC counts
    double residual; // |b - A x| / |b|, computed, not recurred; on the parity
};

// Solves (4 m^2 - D D) x = source on one parity until |b - A x| < tolerance |b|, at most max_iterations (as counted).
// It starts again from the true residual if the recursion has converged and the true residual has not, and, as MILC
// does, after every restart_every iterations (0: never). A zero source: x = 0.
CgResult conjugate_gradient(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                            const Fermion &source, const Fermion &guess, double tolerance, int max_iterations,
                            int restart_every = 0);

} // namespace reference
