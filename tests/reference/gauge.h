// Phases, plaquettes, gauge transformations, fat and long links.
#pragma once

#include <vector>

#include "tests/reference/lattice.h"
#include "tests/reference/su3.h"

namespace reference {

// Multiplies in the staggered phases, t: 1, x: (-1)^t, y: (-1)^(t+x), z: (-1)^(t+x+y), and -1 on the t links of the
// last time slice (antiperiodic boundary). This is MILC's convention. Applied twice, it removes them.
void apply_phases(const Lattice &lattice, Gauge &links);

// The mean of Re tr U_P / 3; 1 on unit links. For links without phases.
struct PlaquetteParts {
    double space_space;
    double space_time;
};
PlaquetteParts plaquette_parts(const Lattice &lattice, const Gauge &links);
double plaquette(const Lattice &lattice, const Gauge &links);

// One SU(3) matrix a site.
using Transformation = std::vector<Matrix>;
Transformation random_transformation(const Lattice &lattice, unsigned long seed);

// U_mu(x) -> g(x) U_mu(x) g(x + hops*mu)^dagger: one hop for gauge and fat links, three for long links.
Gauge transform_links(const Lattice &lattice, const Transformation &g, const Gauge &links, int hops);
// psi(x) -> g(x) psi(x)
Fermion transform_fermion(const Transformation &g, const Fermion &field);

// Coefficients of the paths of fat and long links, in the order of MILC's arrays. Signs are for links with phases: a
// staple encloses one plaquette, whose four phases multiply to -1.
struct PathCoefficients {
    double one_link, naik, three_staple, five_staple, seven_staple, lepage;
};

// Asqtad: Orginos, Toussaint, Sugar, hep-lat/9903032 and Lepage, hep-lat/9809157, tadpole improved: u0^(1 - length)
// relative to the single link.
PathCoefficients asqtad_coefficients(double u0);

// fat = (one_link - 6 lepage) U + three_staple sum S_nu(U) + lepage sum S_nu(S_nu(U)) + five_staple sum S_rho(S_nu(U))
//     + seven_staple sum S_sigma(S_rho(S_nu(U))), with nu, rho, sigma, mu all different and
// S_nu(M)(x) = U_nu(x) M(x+nu) U_nu(x+mu)^dagger + U_nu(x-nu)^dagger M(x-nu) U_nu(x-nu+mu).
Gauge fat_links(const Lattice &lattice, const Gauge &links_with_phases, const PathCoefficients &coefficients);

// long = naik U(x) U(x+mu) U(x+2mu)
Gauge long_links(const Lattice &lattice, const Gauge &links_with_phases, const PathCoefficients &coefficients);

// HISQ (Follana et al., hep-lat/0610092): fat7 of U, unitarized, then asqtad-like paths of the result.
PathCoefficients hisq_fat7_coefficients();
PathCoefficients hisq_asqtad_coefficients();

// v (v^dagger v)^(-1/2), by Newton's iteration x -> (x + x^dagger^-1) / 2. v must not be singular.
Matrix unitary_part(const Matrix &v);

struct HisqLinks {
    Gauge v, w; // w in U(3)
    Gauge fat, lng;
};
// eps: 1/8 eps is added to the one-link coefficient and -1/24 eps to the Naik coefficient.
HisqLinks hisq_links(const Lattice &lattice, const Gauge &links_with_phases, double eps);

} // namespace reference
