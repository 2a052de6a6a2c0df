// The derivatives of the actions of staggered fermions by the links, composed of the operations of forces.h.
//
// With terms t, residues r_t and solutions X_t (even sites; D X_t on odd ones) they are those of
//   2 Re sum_t r_t <X_t even, D X_t odd> at fixed X,
// and MD changes the momenta by add_force with factor 2 eps. These are the equations of motion of MILC's RHMC and R
// algorithm: Gottlieb et al., Phys. Rev. D 35 (1987) 2531; Clark, Kennedy, Phys. Rev. Lett. 98 (2007) 051601; for HISQ:
// Bazavov et al., Phys. Rev. D 82 (2010) 074501.
#pragma once
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/gauge/forces/forces.h"

namespace milcgpu {

// Input of an outer product: the solutions of all terms, X on even sites from the solver, D X on odd ones.
struct ForceVectors {
    SpinorBlock even, odd; // a source a term, one precision (double or single)
};

// one(x, mu) = e(x) sum_t one_weights[t] X_t(x) X_t(x+mu)^dag, and three(x, mu) the same with x+3mu and three_weights:
// the derivatives of the action by fat and by long links, with (a b^dag)_rc = a_r conj(b_c). add: adds to the content
// of the fields. three: nullptr if it is not needed. Throws Error(bad_argument) if the numbers of weights and terms
// differ. If the lattice is cut, `one` and `three` are on the wide box, and vectors have their ghosts.
void outer_products(Device &, const WideBox &, const ForceVectors &, const std::vector<double> &one_weights,
                    const std::vector<double> &three_weights, bool add, const LinkField &one, const LinkField *three);
double outer_products_bytes(Precision, int terms); // compulsory, a site, for both
constexpr double outer_products_flops(int terms) { return 4.0 * 156 * terms; }

struct ForceTerms {
    ForceVectors x;
    std::vector<double> residues;
};

// u: links with phases, 18 reals. All fields in one precision, double or single.
//
// If the lattice is cut there is a Halo, and all ranks call together. Fields are on the wide box, of margin 2. The
// layers of u that its paths reach must be filled; the derivative is right on the box. These functions exchange the
// margins of intermediate fields and of w, each time only as much as the next step needs.
//
// asked: receives the tests of intermediate fields. The derivative is valid only if they hold (must_hold).
LinkField asqtad_derivative(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const ForceTerms &,
                            AskedFields &asked, Halo *halo = nullptr);
double asqtad_derivative_flops(const PathCoefficients &, int terms); // a site

// The construction of HISQ links: V = level_1(U), W = its unitary part, fat and long links = level_2(W) + eps_naik
// naik_part(W).
struct HisqForceSpec {
    PathCoefficients level_1, level_2, naik_part;
    // Terms in the order of their sets of eps_naik. Each term belongs to one set; n is the number of terms, and may be
    // 0.
    struct Set {
        double eps_naik;
        int terms;
    };
    std::vector<Set> sets;
    UnitarizeSpec unitarize;
    double filter; // MILC's HISQ_FORCE_FILTER
};
struct HisqDerivative {
    LinkField by_u;
    UnitarizeAdjointCounts counts;
};
// v, w: as they were computed from u; v is on the box.
struct HisqLevels {
    const LinkField &u, &v, &w;
};
HisqDerivative hisq_derivative(Device &, const WideBox &, const HisqLevels &, const HisqForceSpec &, const ForceTerms &,
                               AskedFields &asked, Halo *halo = nullptr);
double hisq_derivative_flops(const HisqForceSpec &, int terms); // a site

} // namespace milcgpu
