// Gauge fixing, APE and HYP smearing, link by link as in MILC's routines; for links without phases.
#pragma once

#include "tests/reference/gauge.h"

#include <array>

namespace reference {

// One step: all odd sites, then all even ones; on each site the SU(2) subgroups of colours 01, 12, 20, with new sums
// over links for each. left_out: the direction that the condition omits, or a number above 3. Returns the mean of Re tr
// U / 3, half of it from odd sites before even ones are transformed.
double gauge_fix_step(const Lattice &lattice, Gauge &links, int left_out, double boost);

// The mean of Re tr U / 3 over all directions but left_out.
double gauge_mean(const Lattice &lattice, const Gauge &links, int left_out);

// The mean over sites of |D|^2, with D the sum over directions of A_mu(x) - A_mu(x - mu) and A the traceless
// anti-hermitian part of U. 0 if the gauge condition holds.
double divergence(const Lattice &lattice, const Gauge &links, int left_out);

// U' = projection of (U + weight staples) / (1 + weight count). space_only: spatial links use staples in space alone,
// time links all six. hits 0: no projection. not_converged: the number of links that did not reach the tolerance.
Gauge ape_smear(const Lattice &lattice, const Gauge &links, double weight, bool space_only, int hits, double tolerance,
                int *not_converged);

// HYP smearing with alpha_1, alpha_2, alpha_3; in_space: no decorations in t, and time links stay. The projection makes
// so many hits, from the link itself.
Gauge hyp_smear(const Lattice &lattice, const Gauge &links, const std::array<double, 3> &alpha, bool in_space,
                int hits);

} // namespace reference
