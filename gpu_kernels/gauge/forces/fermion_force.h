// The derivatives of the actions of staggered fermions by the links, put together from forces.h.
//
// With terms t, residues r_t and solutions X_t (even sites; D X_t on odd ones) they are those of
//   2 Re sum_t r_t <X_t even, D X_t odd> at fixed X,
// and MD moves the momenta by add_force with factor 2 eps. These are the equations of motion of MILC's RHMC and R
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
// Where the lattice is cut there is a Halo, and all ranks call together. Fields lie on the wide box, of margin 2; of u
// the layers are there that its paths reach, and the derivative is right on the box. What is made on the way, and w,
// has its margin exchanged here, each time as little of it as the step after needs.
//
// asked: is asked about what is made on the way. The derivative counts once it holds (must_hold).
LinkField asqtad_derivative(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const ForceTerms &,
                            AskedFields &asked, Halo *halo = nullptr);
double asqtad_derivative_flops(const PathCoefficients &, int terms); // a site

// As HISQ links are made: V = level_1(U), W = its unitary part, fat and long links = level_2(W) + eps_naik
// naik_part(W).
struct HisqForceSpec {
    PathCoefficients level_1, level_2, naik_part;
    // A term belongs to one set of eps_naik: terms in order of the sets, and how many each has (none is allowed).
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
// v, w: as they were made of u; v lies on the box.
HisqDerivative hisq_derivative(Device &, const WideBox &, const LinkField &u, const LinkField &v, const LinkField &w,
                               const HisqForceSpec &, const ForceTerms &, AskedFields &asked, Halo *halo = nullptr);
double hisq_derivative_flops(const HisqForceSpec &, int terms); // a site

} // namespace milcgpu
