// Operations of measurements on quark fields, step by step from their definitions: every order of shifts in turn, every
// site's phase from its sine and cosine. Fields cover the full lattice, in lexicographic order, in double.
#pragma once

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

using Origin = std::array<int, 4>;

// Staggered phases relative to the origin; if `antiperiodic`, -1 on the t links of time slice nt - 1 - origin[3].
Gauge phased_links(const Lattice &lattice, const Gauge &links, const Origin &origin, bool antiperiodic);

enum class ShiftWay { forward, backward, symmetric };

// forward: U_dir(x) f(x + dir); backward: U_dir(x - dir)^dagger f(x - dir); symmetric: half their sum.
Fermion shift(const Lattice &lattice, const Gauge &links, int dir, ShiftWay way, const Fermion &field);

// With h = x - origin and e = (-1)^(sum of h): e times the mean over all orders, with their signs, of Z_mu times the
// symmetric shift, Z_mu = (-1)^h_mu e, times (-1)^h_mu e for each direction of spin. Bits: 1 x, 2 y, 4 z, 8 t; the
// shifts go in the directions of spin xor taste. phased: links with phases.
Fermion spin_taste(const Lattice &lattice, const Gauge &phased, const Origin &origin, unsigned spin, unsigned taste,
                   const Fermion &field);

// sum over k = x, y, z of [W_k(x) f(x + hop k) + W_k(x - hop k)^dagger f(x - hop k)] - 6 f, with W the product of `hop`
// links; on all time slices (-1), or on one, with zero on the others.
Fermion laplacian(const Lattice &lattice, const Gauge &links, int hop, int slice, const Fermion &field);

// The product over x, y, z of cos th ('E'), i sin th ('O') or exp(i th) ('B'), th = 2 pi p (x - origin) / extent.
Complex momentum_factor(const Lattice &lattice, int site, const std::array<int, 3> &p,
                        const std::array<char, 3> &parity, const Origin &origin);
// For each t the sum over the time slice of that factor times a^dagger b.
std::vector<Complex> slice_sums(const Lattice &lattice, const Fermion &a, const Fermion &b, const std::array<int, 3> &p,
                                const std::array<char, 3> &parity, const Origin &origin);

Complex dot(const Fermion &a, const Fermion &b);

} // namespace reference
