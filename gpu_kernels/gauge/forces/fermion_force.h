// The derivatives of the actions of staggered fermions by the links, composed of the operations of forces.h.
//
// With terms t, residues r_t and solutions X_t (even sites; D X_t on odd ones) they are those of
//   2 Re sum_t r_t <X_t even, D X_t odd> at fixed X,
// and MD changes the momenta by add_force with factor 2 eps. These are the equations of motion of MILC's RHMC and R
// algorithm: Gottlieb et al., Phys. Rev. D 35 (1987) 2531; Clark, Kennedy, Phys. Rev. Lett. 98 (2007) 051601; for HISQ:
// Bazavov et al., Phys. Rev. D 82 (2010) 074501.
#pragma once
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/forces/forces.h"

namespace milcgpu {

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
