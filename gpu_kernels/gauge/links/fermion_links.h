// Fat and long links from the gauge field, asqtad and HISQ. Links carry the staggered phases and the boundary sign
// throughout, so path coefficients alternate in sign, as MILC's do.
//
//   fat7, asqtad:  Orginos, Toussaint, Sugar, Phys. Rev. D 60 (1999) 054503; Lepage, Phys. Rev. D 59 (1999) 074502
//   HISQ:          Follana et al., Phys. Rev. D 75 (2007) 054502: V = fat7(U), W = V (V^dag V)^(-1/2), X =
//   asqtad-like(W)
#pragma once
#include "gpu_kernels/fields/fields.h"
#include "gpu_kernels/halo/wide_box.h"

namespace milcgpu {

// In MILC's order (act_path_coeff), tadpole factors included.
struct PathCoefficients {
    double one_link, naik, three_staple, five_staple, seven_staple, lepage;
    // How many layers around a box its fat links are made of, and derivatives by its links.
    int reach() const { return lepage != 0 ? 2 : 1; }
};

// On a lattice that is cut, fields that neighbours are read from lie on the wide box (WideBox of margin 2 at least) and
// have so many layers of its margin filled; what is made lies on the box. On a lattice that is whole, a Geometry does
// for the WideBox.

// fat = (one_link - 6 lepage) U + three S(U) + lepage S_nu(S_nu(U)) + five S_rho(S_nu(U)) + seven
// S_sigma(S_rho(S_nu(U))), each summed over its directions, all different from each other and from mu, with the staple
//   S_nu(M)(x) = U_nu(x) M(x+nu) U_nu(x+mu)^dag + U_nu(x-nu)^dag M(x-nu) U_nu(x-nu+mu).
// u: 18 or 12 reals, scale 1; fat: 18 reals of the same precision. Paths with coefficient 0 cost nothing.
struct StapleSpace {
    LinkField t, m;
    // Room for the fast way, 6 matrices a site, or, where that does not fit, for one with 4.
    StapleSpace(Device &, const Geometry &, Precision);
    size_t bytes() const { return t.bytes() + m.bytes(); }
};
void fat_links(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const LinkField &fat,
               const StapleSpace &);

// MILC's count, and the bytes that the passes move at the least.
constexpr double fat_links_flops = 61632; // a site
double fat_links_bytes(Precision, int reals);

constexpr int long_links_reach = 2; // layers

// lng = naik U(x) U(x+mu) U(x+2mu). 8 matrices a site.
// last_use: nothing reads u again, and it is taken (MatrixView::take).
void long_links(Device &, const WideBox &, const LinkField &u, double naik, const LinkField &lng,
                bool last_use = false);
constexpr double long_links_flops = 1728;

// to = a + factor b (18 reals each; to may be a). b lies on the wide box.
void add_links(Device &, const WideBox &, const LinkField &a, double factor, const LinkField &b, const LinkField &to);

// Multiplies MILC's phases in, x (-1)^t, y (-1)^(t+x), z (-1)^(t+x+y), and -1 on the t links of the last time slice.
void apply_phases(Device &, const Geometry &, const LinkField &links);

// How V is unitarized: Hasenfratz, Hoffmann, Schaefer, JHEP 05 (2007) 029 (Cayley-Hamilton), or, where |det V|^2 and
// the product of the eigenvalues of V^dag V differ by more than svd_relative, or |det V|^2 < svd_absolute, singular
// values.
struct UnitarizeSpec {
    double svd_relative = 1e-8, svd_absolute = 1e-8;
    bool svd_only = false;
    bool special = false; // divide by the cube root (principal, of the link without phases) of the determinant
};

// w = unitary part of v; y (nullptr: not wanted): the same before `special`. Returns how many links went the way of the
// singular values. Arithmetic in double. w lies on the wide box, v and y on the box. 2 or 3 links read and written a
// link.
uint64_t unitarize(Device &, const WideBox &, const LinkField &v, const UnitarizeSpec &, const LinkField *y,
                   const LinkField &w, bool last_use_of_v = false);

// max over all links and elements of |U U^dag - 1|; *worst: 4 k + mu of the link, k in device order.
double unitarity_violation(Device &, const Geometry &, const LinkField &u, long long *worst);

} // namespace milcgpu
