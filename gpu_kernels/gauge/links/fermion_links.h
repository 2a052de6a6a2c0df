// Fat and long links from the gauge field, asqtad and HISQ. Links carry the staggered phases and the boundary sign
// throughout, so path coefficients alternate in sign, as MILC's do.
//
//   fat7, asqtad:  Orginos, Toussaint, Sugar, Phys. Rev. D 60 (1999) 054503; Lepage, Phys. Rev. D 59 (1999) 074502
//     HISQ:          Follana et al., Phys. Rev. D 75 (2007) 054502: V = fat7(U), W = V (V^dag V)^(-1/2),
//                    X = asqtad-like(W)
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/halo/wide_box.h"

namespace milcgpu {

// In MILC's order (act_path_coeff), tadpole factors included.
struct PathCoefficients {
    double one_link, naik, three_staple, five_staple, seven_staple, lepage;
    // Number of layers around a box from which its fat links, and derivatives by its links, are computed.
    int reach() const { return lepage != 0 ? 2 : 1; }
};

// On a cut lattice, fields whose neighbours are read are on the wide box (WideBox of margin at least 2), with so many
// layers of its margin filled; results are on the box. On a whole lattice, a Geometry can be passed as WideBox.

// fat = (one_link - 6 lepage) U + three S(U) + lepage S_nu(S_nu(U)) + five S_rho(S_nu(U)) + seven
// S_sigma(S_rho(S_nu(U))), each summed over its directions, all different from each other and from mu, with the staple
//   S_nu(M)(x) = U_nu(x) M(x+nu) U_nu(x+mu)^dag + U_nu(x-nu)^dag M(x-nu) U_nu(x-nu+mu).
// u: 18 or 12 reals, scale 1; fat: 18 reals of the same precision. Paths with coefficient 0 cost nothing.
struct StapleSpace {
    LinkField t, m;
    // Memory for the fast kernels, 6 matrices a site, or, if that does not fit, for kernels that use 4.
    StapleSpace(Device &, const Geometry &, Precision);
    size_t bytes() const { return t.bytes() + m.bytes(); }
};
void fat_links(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const LinkField &fat,
               const StapleSpace &);

// MILC's flop count, and the minimal bytes that the passes move.
constexpr double fat_links_flops = 61632; // a site
double fat_links_bytes(Precision, int reals);

constexpr int long_links_reach = 2; // layers

// lng = naik U(x) U(x+mu) U(x+2mu). 8 matrices a site. last_use: no later launch reads u, so it is taken
// (MatrixView::take).
void long_links(Device &, const WideBox &, const LinkField &u, double naik, const LinkField &lng,
                bool last_use = false);
constexpr double long_links_flops = 1728;

// to = a + factor b (18 reals each; to may be a). b is on the wide box.
void add_links(Device &, const WideBox &, const LinkField &a, double factor, const LinkField &b, const LinkField &to);

// Multiplies by MILC's phases, x (-1)^t, y (-1)^(t+x), z (-1)^(t+x+y), and by -1 on the t links of the last time slice.
void apply_phases(Device &, const Geometry &, const LinkField &links);

// How V is unitarized: Hasenfratz, Hoffmann, Schaefer, JHEP 05 (2007) 029 (Cayley-Hamilton), or by singular values if
// |det V|^2 and the product of the eigenvalues of V^dag V differ by more than svd_relative, or |det V|^2 <
// svd_absolute.
struct UnitarizeSpec {
    double svd_relative = 1e-8, svd_absolute = 1e-8;
    bool svd_only = false;
    bool special = false; // divide by the cube root (principal, of the link without phases) of the determinant
};

// w = unitary part of v; y (nullptr: not needed): the same before `special`. Returns the number of links that needed
// singular values. Arithmetic in double. w is on the wide box, v and y on the box. 2 or 3 links read and written a
// link.
uint64_t unitarize(Device &, const WideBox &, const LinkField &v, const UnitarizeSpec &, const LinkField *y,
                   const LinkField &w, bool last_use_of_v = false);

// max over all links and elements of |U U^dag - 1|; *worst: 4 k + mu of the link, k in device order.
double unitarity_violation(Device &, const Geometry &, const LinkField &u, long long *worst);

} // namespace milcgpu
