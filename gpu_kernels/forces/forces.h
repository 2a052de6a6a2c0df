// Molecular dynamics of the links: forces of the fermions and of the gauge action, momenta, updates. The formulas are
// MILC's (its RHMC: Clark, Kennedy, hep-lat/0409134; forces by differentiation of the link construction).
//
// Links U_mu(x) carry the staggered phases and the boundary sign; e(x) is 1 on even and -1 on odd sites. Momenta H are
// traceless and anti-Hermitian, dU/dt = H U.
//
// A derivative q of a real function S by a field of links V is stored as a link is, from x to x+mu:
//   dS = 2 Re sum tr(q^dag dV).
// In this form the derivative by the middle link of a staple is a staple of q, so that the kernels of the fat links
// serve both ways.
//
// All fields: both parities, 4 directions, double or single, one precision a call; matrices have 18 reals. Every
// operation here is one file, with its bytes and flops a site beside it.
#pragma once
#include "gpu_kernels/links/links.h"
#include <vector>

namespace milcgpu {

// ---- fermions

// What an outer product takes: the solutions of all terms, X on even sites as the solver left them, on odd ones D X.
struct ForceVectors {
    SpinorBlock even, odd; // a source a term, one precision (double or single)
};

// one(x, mu) = e(x) sum_t one_weights[t] X_t(x) X_t(x+mu)^dag, and three(x, mu) the same with x+3mu and three_weights:
// the derivatives of the action by fat and by long links, with (a b^dag)_rc = a_r conj(b_c). add: to what the fields
// hold. three: nullptr where it is not wanted. Throws Error(bad_argument) where weights and terms differ in number.
void outer_products(Device &, const Geometry &, const ForceVectors &, const std::vector<double> &one_weights,
                    const std::vector<double> &three_weights, bool add, const LinkField &one, const LinkField *three);
double outer_products_bytes(Precision, int terms); // compulsory, a site, of both
constexpr double outer_products_flops(int terms) { return 4.0 * 156 * terms; }

// by_u += derivative by the links u of what fat_links makes of them, where q is the derivative by the fat links. Paths
// are differentiated as they are: the two halves of a Lepage path apart, u need not be unitary. All fields of 18 reals,
// by_u another field than q.
class AdjointSpace {
  public:
    // Room for the fast way, 18 matrices a site (12 without Lepage paths), or, where that does not fit, for one with
    // 10 (8).
    AdjointSpace(Device &, const Geometry &, Precision, bool lepage);
    size_t bytes() const;
    LinkField t, g;                       // 3 directions each
    LinkField p_up, p_down, n_up, n_down; // 3 directions, or 1; `down` is empty without Lepage paths
};
void fat_links_adjoint(Device &, const Geometry &, const LinkField &u, const PathCoefficients &, const LinkField &q,
                       const LinkField &by_u, const AdjointSpace &);
constexpr double fat_links_adjoint_flops(bool lepage) { return 198.0 * (lepage ? 768 : 720); } // products alone

// by_u += derivative by u of naik U(x) U(x+mu) U(x+2mu), where q is the derivative by these long links.
void long_links_adjoint(Device &, const Geometry &, const LinkField &u, double naik, const LinkField &q,
                        const LinkField &by_u);
constexpr double long_links_adjoint_flops = 4 * 5 * 198;

// q, the derivative by W = V (V^dag V)^(-1/2), becomes the derivative by V. As MILC's: where the smallest eigenvalue of
// V^dag V is below `filter`, all three grow by it. Arithmetic in double. Singular values where UnitarizeSpec asks for
// them. 3 matrices a link.
struct UnitarizeAdjointCounts {
    uint64_t by_singular_values, filtered; // links
};
UnitarizeAdjointCounts unitarize_adjoint(Device &, const Geometry &, const LinkField &v, const UnitarizeSpec &,
                                         double filter, const LinkField &q);
constexpr double unitarize_adjoint_flops = 4 * (7 * 198 + 600); // the analytic way

// ---- momenta: 4 a site, 10 reals each (momentum_view.h)
constexpr int momentum_reals = 10;
inline LinkField momenta(Device &device, Precision precision, const Geometry &geometry) {
    return LinkField(device, precision, momentum_reals, geometry, "momenta");
}

// H += factor TA(U q^dag), TA(A) = (A - A^dag) / 2 - trace / 3: what a derivative by the links does to the momenta.
void add_force(Device &, const Geometry &, const LinkField &u, const LinkField &q, double factor,
               const LinkField &momenta);
double add_force_bytes(Precision);
constexpr double add_force_flops = 4 * (198 + 24 + 20); // a site

} // namespace milcgpu
