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
#include "gpu_kernels/gauge/links/fermion_links.h"
#include <array>
#include <vector>

namespace milcgpu {

class Halo;

// ---- fermions

// What an outer product takes: the solutions of all terms, X on even sites as the solver left them, on odd ones D X.
struct ForceVectors {
    SpinorBlock even, odd; // a source a term, one precision (double or single)
};

// one(x, mu) = e(x) sum_t one_weights[t] X_t(x) X_t(x+mu)^dag, and three(x, mu) the same with x+3mu and three_weights:
// the derivatives of the action by fat and by long links, with (a b^dag)_rc = a_r conj(b_c). add: to what the fields
// hold. three: nullptr where it is not wanted. Throws Error(bad_argument) where weights and terms differ in number.
// Where the lattice is cut, `one` and `three` lie on the wide box, and vectors have their ghosts.
void outer_products(Device &, const WideBox &, const ForceVectors &, const std::vector<double> &one_weights,
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
void fat_links_adjoint(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const LinkField &q,
                       const LinkField &by_u, const AdjointSpace &);
constexpr double fat_links_adjoint_flops(bool lepage) { return 198.0 * (lepage ? 768 : 720); } // products alone

// by_u += derivative by u of naik U(x) U(x+mu) U(x+2mu), where q is the derivative by these long links.
void long_links_adjoint(Device &, const WideBox &, const LinkField &u, double naik, const LinkField &q,
                        const LinkField &by_u);
constexpr double long_links_adjoint_flops = 4 * 5 * 198;

// q, the derivative by W = V (V^dag V)^(-1/2), becomes the derivative by V. As MILC's: where the smallest eigenvalue of
// V^dag V is below `filter`, all three grow by it. Arithmetic in double. Singular values where UnitarizeSpec asks for
// them. v lies on the box, q on the wide box. 3 matrices a link.
struct UnitarizeAdjointCounts {
    uint64_t by_singular_values, filtered; // links
};
UnitarizeAdjointCounts unitarize_adjoint(Device &, const WideBox &, const LinkField &v, const UnitarizeSpec &,
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

// ---- the gauge action: beta / 3 times sum over sites and loops of c (3 - Re tr loop), with 6 plaquettes, 12
// rectangles of two links by one, and 16 bent loops a site (x, y, z, -x, -y, -z and the like along any three
// directions). Luescher, Weisz, Commun. Math. Phys. 97 (1985) 59; Alford et al., Phys. Lett. B 361 (1995) 87; with
// dynamical HISQ quarks: Hart et al., Phys. Rev. D 79 (2009) 074008. Coefficients are those for links without phases:
// the signs that the phases give a loop (-1 for plaquettes and bent loops, which enclose an odd number of plaquettes)
// are put in here, where the links have them. Loops with coefficient 0 cost nothing.
struct LoopCoefficients {
    double plaquette = 1, rectangle = 0, bent = 0;
    Signs signs = Signs::phases_in; // of the links
    // How many layers around a box have links of loops that touch it.
    int reach() const { return rectangle != 0 ? 2 : 1; }
};

// H <- TA(H - factor U_mu(x) sum c P), P over the paths from x+mu back to x that close a loop with U_mu(x), 48 a link.
// factor: eps beta / 3. On a lattice that is cut u lies on the wide box, with reach() layers of its margin, and momenta
// on the box. Space: 28 matrices an even site of the wide box, and up to 264 MB (double) unless there are plaquettes
// alone.
struct GaugeForceSpace {
    Precision precision;
    size_t stride, slice; // even sites that pieces and rests have room for
    DeviceArray<unsigned char> pieces, rests;
    GaugeForceSpace(Device &, const WideBox &, Precision, const LoopCoefficients &);
    size_t bytes() const { return pieces.bytes() + rests.bytes(); }
};
void gauge_force(Device &, const WideBox &, const LinkField &u, const LoopCoefficients &, double factor,
                 const LinkField &momenta, const GaugeForceSpace &);
// A site; 130 matrix products with all three coefficients, 40 with plaquettes alone.
double gauge_force_bytes(Precision, const LoopCoefficients &);
double gauge_force_flops(const LoopCoefficients &);

// sum over sites and loops of c (3 - Re tr loop), in double; deterministic, as all sums here. Not times beta / 3. u as
// for the force.
double gauge_action(Device &, const WideBox &, const LinkField &u, const LoopCoefficients &);
double gauge_action_bytes(Precision);
double gauge_action_flops(const LoopCoefficients &);

// Mean of Re tr over the three planes of space, and the three with time, and over the sites, of the links as they are,
// as MILC's d_plaquette gives it: 3 on unit links, -3 on those with phases.
constexpr int plaquettes_reach = 1; // layers
struct PlaquetteMeans {
    double space, time;
};
PlaquetteMeans plaquettes(Device &, const WideBox &, const LinkField &u);
double plaquettes_bytes(Precision);
constexpr double plaquettes_flops = 6 * (2 * 198 + 35);

// Mean over space of the trace of the product of the time links of the links as they are, each begun at the even site
// of the first two time slices, as MILC's ploop does: 3 on unit links, -3 on those with phases (the boundary sign).
Complex<double> polyakov_loop(Device &, const Geometry &, const LinkField &u);
// The same where ranks cut the lattice in time: so many of them hold a line, one behind the other. Their parts of it go
// round, and the rank at the first time slice counts it.
Complex<double> polyakov_loop(Device &, const Geometry &, const LinkField &u, Halo &, int ranks_of_a_line);
double polyakov_loop_bytes(Precision);
constexpr double polyakov_loop_flops = 198; // a site

// A closed loop: its steps as in gauge/links/walk.h, the first one from the site that it is counted at.
constexpr int longest_loop = 128, loops_reach = 2; // layers
struct LoopPath {
    int length; // 1 to longest_loop
    unsigned char steps[longest_loop];
    std::array<int, 4> end() const;                  // where it leads to, from 0
    int reach(int mu) const;                         // how far from its first site it comes along mu
    int sign(const std::array<int, 4> &whole) const; // what phases and boundary sign give it, on a lattice of this size
};
// Mean over sites of the trace, without phases and boundary sign, which the links have or not (signs). u on the wide
// box, with as many layers of its margin as the loop reaches in directions that are cut.
Complex<double> loop_trace(Device &, const WideBox &, const LinkField &u, const LoopPath &, Signs signs);

// ---- momenta and links
// sum over links of |H|^2 / 2 - 4 = |m01|^2 + |m02|^2 + |m12|^2 + (m00^2 + m11^2 + m22^2) / 2 - 4, in double.
// The first form leaves it on the device and does not wait.
void momentum_action(Device &, const Geometry &, const LinkField &momenta, double *action);
double momentum_action(Device &, const Geometry &, const LinkField &momenta);
double momentum_action_bytes(Precision);
constexpr double momentum_action_flops = 4 * 19;

// U <- U + (eps/1) H (U + (eps/2) H (U + ... (eps/order) H U)): exp(eps H) U to this order, 8 in MILC's ks_imp_rhmc, 6
// in its ks_imp_dyn; 1 to highest_exp_order. The same polynomial, summed in fewer products. In place, in the precision
// of the fields.
constexpr int highest_exp_order = 16;
void update_links(Device &, const Geometry &, const LinkField &u, const LinkField &momenta, double eps, int order);
double update_links_bytes(Precision);
constexpr double update_links_flops(int order) { return 4 * (216.0 + 189 + 17 * order); }

// A sweep over all links with S = -beta/3 sum over plaquettes of Re tr U, of links without phases on a lattice that is
// whole: odd sites, then even ones, direction after direction, the three SU(2) subgroups of a link one after the other
// (Cabibbo, Marinari, Phys. Lett. B 119 (1982) 387), as MILC's pure gauge program has them.
//
// Over-relaxation: each subgroup to the other side of its maximum, with the same action (Brown, Woch, Phys. Rev.
// Lett. 58 (1987) 2394). Heat bath: each subgroup anew. Its random numbers are those of a generator a site, MILC's:
// generator_words words a site, a word of all sites (even, then odd) after the other; then how often each was asked,
// which is added to. Words: 7 of the shift register, then, in two each, the low one first, multiplier, addend and state
// of the congruence, what a number is multiplied with (a float), and which bit of the state is the lowest that is used.
constexpr int generator_words = 15;
void overrelax(Device &, const Geometry &, const LinkField &u);
void heat_bath(Device &, const Geometry &, const LinkField &u, double beta, uint32_t *generators);
// A site: each of eight launches reads all links, and writes those of one direction on the sites of one parity; the
// heat bath reads and writes the generators of the sites, too.
double overrelax_bytes(Precision);
double heat_bath_bytes(Precision);
constexpr double overrelax_flops = 4 * (13 * 198 + 6 * 18 + 3 * 60 + 5 * 84); // a site

// Links back to the sign of their phase times SU(3), as MILC does it: row 0 normalised, row 1 orthogonal to it and
// normalised, row 2 the conjugate of their cross product, in double. Tested on the way, each against the tolerance:
// | |row 0|^2 - 1 |, |<row 0, row 1>|^2, | |row 1|^2 - 1 |, |row 2 - new|^2. A link that fails one of them, NaN among
// them, is left as it is, so that the caller finds what there was. Over many ranks all but first_failed, which is this
// rank's, is of all of them.
struct ReunitarizeReport {
    uint64_t failed;          // links
    long long first_failed;   // 4 k + mu, k in device order (even sites, then odd); -1: none
    double largest_deviation; // of all tests, as a float; NaN where there is one
    double sum_of_squares;    // of the deviations of all four tests, over all links
};
// phased: the links carry phases and boundary sign.
ReunitarizeReport reunitarize(Device &, const Geometry &, const LinkField &u, double tolerance = 1e-4,
                              bool phased = true);
double reunitarize_bytes(Precision);
constexpr double reunitarize_flops = 4 * 190; // a site, roots aside

} // namespace milcgpu
