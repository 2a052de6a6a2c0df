// Wilson and clover fermions with explicit 4x4 gamma matrices. Full-lattice fields, sites lexicographic, double.
//
// Conventions are MILC's: D_s psi(x) = sum_mu (1 + s g_mu) U_mu(x) psi(x+mu) + (1 - s g_mu) U_mu(x-mu)^dag psi(x-mu),
// s = +1 in M = R - kappa D_+. (Most codes have s = -1.) No staggered phases; a boundary sign is in the links.
#pragma once

#include <array>
#include <complex>
#include <vector>

#include "tests/reference/gauge.h"
#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

struct WilsonVector {
    Vector d[4]; // spin, then colour
};
using WilsonField = std::vector<WilsonVector>; // [site], lexicographic sites

WilsonVector operator+(WilsonVector a, const WilsonVector &b);
WilsonVector operator-(WilsonVector a, const WilsonVector &b);
WilsonVector operator*(Complex s, WilsonVector a);
double norm2(const WilsonVector &a);

WilsonField operator+(WilsonField a, const WilsonField &b);
WilsonField operator-(WilsonField a, const WilsonField &b);
WilsonField operator*(Complex s, WilsonField a);
double norm2(const WilsonField &a);
Complex dot(const WilsonField &a, const WilsonField &b); // <a, b>

WilsonField random_wilson_field(const Lattice &lattice, unsigned long seed);
// The field on the sites of one parity, zero on the others.
WilsonField on_parity(const Lattice &lattice, WilsonField field, int parity);
// psi(x) -> g(x) psi(x)
WilsonField transform_wilson_field(const Transformation &g, const WilsonField &field);

// A matrix on the spin index, [row][column].
using SpinMatrix = std::array<std::array<Complex, 4>, 4>;
SpinMatrix unit_spin_matrix();
SpinMatrix operator+(SpinMatrix a, const SpinMatrix &b);
SpinMatrix operator*(Complex s, SpinMatrix a);
SpinMatrix operator*(const SpinMatrix &a, const SpinMatrix &b);
SpinMatrix adjoint(const SpinMatrix &a);
double norm2(const SpinMatrix &a);
WilsonVector operator*(const SpinMatrix &a, const WilsonVector &psi);
WilsonField operator*(const SpinMatrix &a, const WilsonField &psi);

// gamma_x, gamma_y, gamma_z, gamma_t for 0 to 3 and gamma_5 = diag(1, 1, -1, -1) for 4: chiral, hermitian.
const SpinMatrix &gamma_matrix(int mu);
// sigma_mu,nu = i/2 [gamma_mu, gamma_nu]
SpinMatrix sigma_matrix(int mu, int nu);

// D_s psi on all sites.
WilsonField wilson_dslash(const Lattice &lattice, const Gauge &links, const WilsonField &psi, int s);

// -1 on the t links of the last time slice.
Gauge antiperiodic_in_time(const Lattice &lattice, Gauge links);

// f_mu,nu = (G - G^dag) / 8 with G the sum of the four leaves around the site. Each leaf is a plaquette that starts at
// the site and turns from mu to nu. Traces are kept, as in MILC.
Matrix field_strength(const Lattice &lattice, const Gauge &links, int site, int mu, int nu);

// The clover term of a site: chirality 0 (spins 0, 1) and 1 (spins 2, 3), row 3 (spin mod 2) + colour. Hermitian.
using Block6 = std::array<std::array<Complex, 6>, 6>;
struct CloverSite {
    Block6 block[2];
};
using Clover = std::vector<CloverSite>; // [site]

Clover unit_clover(const Lattice &lattice);
// R = 1 + cku0 i sum_(mu<nu) sigma_mu,nu f_mu,nu; MILC's CKU0 = kappa Clov_c / u0^3.
Clover clover_term(const Lattice &lattice, const Gauge &links, double cku0);
// Gauss-Jordan elimination with pivots. A singular block gives infinity or NaN.
Block6 inverse(const Block6 &a);
Clover inverse(const Clover &a);
Block6 operator*(const Block6 &a, const Block6 &b);
double norm2(const Block6 &a);
// log |det| summed over both blocks of the sites of one parity, by elimination with pivots.
double trace_log(const Lattice &lattice, const Clover &a, int parity);
WilsonField operator*(const Clover &r, const WilsonField &psi);

// MILC's storage of a site: the diagonal elements, and the elements below the diagonal row by row, [chirality].
struct MilcClover {
    double di[2][6];
    Complex tr[2][15];
};
MilcClover milc_clover(const CloverSite &r);

// M_s = R - kappa D_s. s = +1: M; s = -1: M^dag.
WilsonField wilson_matrix(const Lattice &lattice, const Gauge &links, const Clover &r, double kappa,
                          const WilsonField &psi, int s);
// R_p - kappa^2 D_pq R_q^-1 D_qp on parity p; q is the other parity. psi is read on p alone; the result is zero on q.
WilsonField wilson_even_odd(const Lattice &lattice, const Gauge &links, const Clover &r, double kappa,
                            const WilsonField &psi, int s, int parity);
WilsonField wilson_even_odd(const Lattice &lattice, const Gauge &links, const Clover &r, const Clover &inverse_r,
                            double kappa, const WilsonField &psi, int s, int parity);

// M_s^-1 eta on unit links without clover term, in closed form in momentum space: M(p) = A - 2 i s kappa sum_mu g_mu
// sin p_mu, A = 1 - 2 kappa sum_mu cos p_mu. antiperiodic: in time, like links of antiperiodic_in_time.
WilsonField free_wilson_propagator(const Lattice &lattice, double kappa, const WilsonField &eta, int s,
                                   bool antiperiodic);

} // namespace reference
