// The improved staggered operator and its conjugate gradient. Fields cover the full lattice, in lexicographic order, in
// double.
#pragma once

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

// (D x)(i) = sum_mu fat_mu(i) x(i+mu) - fat_mu(i-mu)^dagger x(i-mu)
//                 + lng_mu(i) x(i+3mu) - lng_mu(i-3mu)^dagger x(i-3mu)
// Phases, boundary signs and coefficients are in the links. D is anti-hermitian and joins even with odd sites.
Fermion dslash(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src);

// The same on the sites of one parity (0 even, 1 odd); the result is zero on the other sites.
Fermion dslash_on_parity(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src, int parity);

// (4 m^2 - D D) x on the sites of one parity. The other sites of x are not read; the result is zero there.
Fermion normal_operator(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                        const Fermion &x);

struct CgResult {
    Fermion x;       // the guess on the other parity
    int iterations;  // one for each step and each true residual, as in MILC
    double residual; // |b - A x| / |b| on the parity, computed from x
};

// Solves (4 m^2 - D D) x = source on one parity until |b - A x| < tolerance |b|, with at most max_iterations (counted
// as above). Restarts from the true residual if the recursion has converged but the true residual has not and, like
// MILC, after every restart_every iterations (0: never). A zero source gives x = 0.
CgResult conjugate_gradient(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                            const Fermion &source, const Fermion &guess, double tolerance, int max_iterations,
                            int restart_every = 0);

} // namespace reference
