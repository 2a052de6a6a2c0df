// Staggered baryons, term by term from their definitions (Golterman, Smit, Nucl. Phys. B 255 (1985) 328; Bailey,
// hep-lat/0611023). A propagator is a field for each source colour. Corners of the unit cube are numbers x + 2 y + 4 z.
#pragma once

#include "tests/reference/mesons.h"
#include <string>

namespace reference {

using Propagator = std::array<Fermion, 3>; // by source colour
using Octet = std::array<Propagator, 8>;   // by source corner
using Triple = std::array<int, 3>;         // a corner for each quark

// Numbers k/1000 of the linear congruence x <- 1103515245 x + 12345 mod 2^31, in single precision.
Propagator congruent_propagator(const Lattice &lattice, unsigned seed);

// A step in each direction of `corner`: half the sum of both neighbours, or the neighbour ahead (one_sided). In all
// orders, and divided by their number.
Propagator shifted(const Lattice &lattice, const Propagator &q, int corner, bool one_sided = false);

// eps_{abc} eps_{def} p[a][d] q[b][e] r[c][f]
Complex tie(const Matrix &p, const Matrix &q, const Matrix &r);

// What is summed over a time slice.
struct SliceOfSites {
    int corner = 0; // sites whose x, y, z have these parities
    bool wall = false, one_sided = false;
    std::array<int, 3> p{}; // momentum_factor; without it if all are 0
    std::array<char, 3> parity{'B', 'B', 'B'};
    Origin origin{};
};

// For each t the sum of tie() over the sites, or tie() of the sums (wall). Quark f of octets[f] comes from source[f]
// and is shifted by sink[f].
std::vector<Complex> tie_up(const Lattice &lattice, const std::array<const Octet *, 3> &octets, const Triple &source,
                            const Triple &sink, const SliceOfSites &sites);

// MILC's: the sum over sites of even x, y, z of the determinant whose row c is source colour c of propagator c; and of
// the real part of sum_perm sgn(p) det(rows j: q(x + j) + q(x - j) with source colour p(j)).
std::vector<Complex> nucleon(const Lattice &lattice, const std::array<const Propagator *, 3> &q);
std::vector<Complex> delta(const Lattice &lattice, const Propagator &q);

// A Golterman-Bailey operator, "16+ M 42": irrep, symmetry (S, A, M), class. What it consists of: weights and corners.
struct Weighted {
    double weight;
    Triple corners;
};
std::vector<Weighted> gb_source(const std::string &name, bool has_current);
// flip: complemented corners. whole: with S symmetrised and M projected, as MILC had it until February 2024.
std::vector<Weighted> gb_sink(const std::string &name, bool flip, bool whole);

struct Current {
    int displacement = 0, signs = 0; // corners
};
Current gb_current(const std::string &label); // "2point", "GX-G1"

// The correlator, MILC's prop[t] with factor 1.
std::vector<Complex> gb_correlator(const Lattice &lattice, const std::array<const Octet *, 3> &octets,
                                   const std::string &source, const std::string &sink, const std::string &current,
                                   bool cube, bool flip, bool whole, const SliceOfSites &sites);

} // namespace reference
