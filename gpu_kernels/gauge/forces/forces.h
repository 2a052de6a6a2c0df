// Molecular dynamics of the links: forces of the fermions and of the gauge action, momenta, updates. The formulas are
// MILC's (its RHMC: Clark, Kennedy, hep-lat/0409134; forces by differentiation of the link construction).
//
// Links U_mu(x) carry the staggered phases and the boundary sign; e(x) is 1 on even and -1 on odd sites. Momenta H are
// traceless and anti-Hermitian, dU/dt = H U.
//
// The derivative q of a real function S by a field of links V is stored like a link, from x to x+mu:
//   dS = 2 Re sum tr(q^dag dV).
// In this form the derivative by the middle link of a staple is a staple of q, so that the kernels of the fat links
// serve both.
//
// All fields: both parities, 4 directions, double or single, one precision a call; matrices have 18 reals. Every
// operation is in a file of its own, with its bytes and flops a site beside it.
#pragma once
#include "gpu_kernels/gauge/links/fermion_links.h"
#include <array>
#include <vector>

namespace milcgpu {

class Halo;

// ---- fermions

// by_u += derivative by the links u, given the derivative q by the fat links that fat_links makes of u. Paths are
// differentiated as they are: the two halves of a Lepage path separately, and u need not be unitary. All fields of 18
// reals; by_u must differ from q.
class AdjointSpace {
  public:
    // Memory for the fast kernels, 18 matrices a site (12 without Lepage paths), or, if that does not fit, for kernels
    // that use 10 (8).
    AdjointSpace(Device &, const Geometry &, Precision, bool lepage);
    size_t bytes() const;
    LinkField t, g;                       // 3 directions each
    LinkField p_up, p_down, n_up, n_down; // 3 directions, or 1; `down` is empty without Lepage paths
};
void fat_links_adjoint(Device &, const WideBox &, const LinkField &u, const PathCoefficients &, const LinkField &q,
                       const LinkField &by_u, const AdjointSpace &);
constexpr double fat_links_adjoint_flops(bool lepage) { return 198.0 * (lepage ? 768 : 720); } // only the products

// by_u += derivative by u, given the derivative q by the long links naik U(x) U(x+mu) U(x+2mu).
void long_links_adjoint(Device &, const WideBox &, const LinkField &u, double naik, const LinkField &q,
                        const LinkField &by_u);
constexpr double long_links_adjoint_flops = 4 * 5 * 198;

// Replaces q, the derivative by W = V (V^dag V)^(-1/2), by the derivative by V. As in MILC: if the smallest eigenvalue
// of V^dag V is below `filter`, all three are increased by it. Arithmetic in double. Uses singular values if
// UnitarizeSpec requires them. v is on the box, q on the wide box. 3 matrices a link.
struct UnitarizeAdjointCounts {
    uint64_t by_singular_values, filtered; // links
};
UnitarizeAdjointCounts unitarize_adjoint(Device &, const WideBox &, const LinkField &v, const UnitarizeSpec &,
                                         double filter, const LinkField &q);
constexpr double unitarize_adjoint_flops = 4 * (7 * 198 + 600); // the analytic formula

// ---- momenta: 4 a site, 10 reals each (momentum_view.h)
constexpr int momentum_reals = 10;
inline LinkField momenta(Device &device, Precision precision, const Geometry &geometry) {
    return LinkField(device, precision, momentum_reals, geometry, "momenta");
}

// H += factor TA(U q^dag), TA(A) = (A - A^dag) / 2 - trace / 3: adds the derivative by the links to the momenta.
void add_force(Device &, const Geometry &, const LinkField &u, const LinkField &q, double factor,
               const LinkField &momenta);
double add_force_bytes(Precision);
constexpr double add_force_flops = 4 * (198 + 24 + 20); // a site

// ---- the gauge action: beta / 3 times sum over sites and loops of c (3 - Re tr loop), with 6 plaquettes, 12
// rectangles of two links by one, and 16 bent loops a site (x, y, z, -x, -y, -z and the like along any three
// directions). Luescher, Weisz, Commun. Math. Phys. 97 (1985) 59; Alford et al., Phys. Lett. B 361 (1995) 87; with
// dynamical HISQ quarks: Hart et al., Phys. Rev. D 79 (2009) 074008. Coefficients are those for links without phases.
// If the links have phases, the kernels multiply loops by the signs that these give (-1 for plaquettes and bent loops,
// which enclose an odd number of plaquettes). Loops with coefficient 0 cost nothing.
struct LoopCoefficients {
    double plaquette = 1, rectangle = 0, bent = 0;
    Signs signs = Signs::phases_in; // of the links
    // Number of layers around a box that have links of loops through its links.
    int reach() const { return rectangle != 0 ? 2 : 1; }
};

// H <- TA(H - factor U_mu(x) sum c P), P over the paths from x+mu back to x that close a loop with U_mu(x), 48 a link.
// factor: eps beta / 3. On a cut lattice u is on the wide box, with reach() layers of its margin filled, and momenta
// are on the box. Memory: 28 matrices an even site of the wide box, and up to 1.1 GB (double) more unless there are
// only plaquettes; 264 MB if memory is short.
struct GaugeForceSpace {
    Precision precision;
    size_t stride, slice; // number of even sites that pieces and rests have memory for
    DeviceArray<unsigned char> pieces, rests;
    GaugeForceSpace(Device &, const WideBox &, Precision, const LoopCoefficients &);
    size_t bytes() const { return pieces.bytes() + rests.bytes(); }
};
void gauge_force(Device &, const WideBox &, const LinkField &u, const LoopCoefficients &, double factor,
                 const LinkField &momenta, const GaugeForceSpace &);
// Bytes a site; 130 matrix products with all three coefficients, 40 with only plaquettes.
double gauge_force_bytes(Precision, const LoopCoefficients &);
double gauge_force_flops(const LoopCoefficients &);

// sum over sites and loops of c (3 - Re tr loop), in double; deterministic, as all sums here. Without the factor beta /
// 3. u as for the force.
double gauge_action(Device &, const WideBox &, const LinkField &u, const LoopCoefficients &);
double gauge_action_bytes(Precision);
double gauge_action_flops(const LoopCoefficients &);

// Mean of Re tr over the three planes of space, and over the three with time, and over the sites, with the links as
// they are, like MILC's d_plaquette: 3 on unit links, -3 on unit links with phases.
constexpr int plaquettes_reach = 1; // layers
struct PlaquetteMeans {
    double space, time;
};
PlaquetteMeans plaquettes(Device &, const WideBox &, const LinkField &u);
double plaquettes_bytes(Precision);
constexpr double plaquettes_flops = 6 * (2 * 198 + 35);

// Mean over space of the trace of the product of the time links, with the links as they are, where each line starts at
// the even site of the first two time slices, like MILC's ploop: 3 on unit links, -3 on unit links with phases (the
// boundary sign).
Complex<double> polyakov_loop(Device &, const Geometry &, const LinkField &u);
// As above if ranks cut the lattice in time: so many consecutive ranks share a line. They pass their parts of it
// around, and the rank at the first time slice counts it.
Complex<double> polyakov_loop(Device &, const Geometry &, const LinkField &u, Halo &, int ranks_of_a_line);
double polyakov_loop_bytes(Precision);
constexpr double polyakov_loop_flops = 198; // a site

// A closed loop: its steps as in gauge/links/walk.h; it is counted at its first site.
constexpr int longest_loop = 128, loops_reach = 2; // layers
struct LoopPath {
    int length; // 1 to longest_loop
    unsigned char steps[longest_loop];
    std::array<int, 4> end() const; // displacement from its first site
    int reach(int mu) const;        // how far it goes from its first site along mu
    // The factor by phases and boundary sign, on a lattice of this size
    int sign(const std::array<int, 4> &whole) const;
};
// Mean over sites of the trace, without phases and boundary sign; `signs` says whether the links have them. u on the
// wide box; in directions that are cut, as many layers of its margin must be filled as the loop reaches.
Complex<double> loop_trace(Device &, const WideBox &, const LinkField &u, const LoopPath &, Signs signs);

// ---- momenta and links
// sum over links of |H|^2 / 2 - 4 = |m01|^2 + |m02|^2 + |m12|^2 + (m00^2 + m11^2 + m22^2) / 2 - 4, in double. The first
// function leaves the result on the device and does not wait.
void momentum_action(Device &, const Geometry &, const LinkField &momenta, double *action);
double momentum_action(Device &, const Geometry &, const LinkField &momenta);
double momentum_action_bytes(Precision);
constexpr double momentum_action_flops = 4 * 19;

// U <- U + (eps/1) H (U + (eps/2) H (U + ... (eps/order) H U)): exp(eps H) U to this order, 8 in MILC's ks_imp_rhmc, 6
// in its ks_imp_dyn; 1 to highest_exp_order. The same polynomial is summed in fewer products. In place, in the
// precision of the fields.
constexpr int highest_exp_order = 16;
void update_links(Device &, const Geometry &, const LinkField &u, const LinkField &momenta, double eps, int order);
double update_links_bytes(Precision);
constexpr double update_links_flops(int order) { return 4 * (216.0 + 189 + 17 * order); }

// A sweep over all links with S = -beta/3 sum over plaquettes of Re tr U, for links without phases on a whole lattice:
// odd sites, then even ones, direction after direction, the three SU(2) subgroups of a link one after the other
// (Cabibbo, Marinari, Phys. Lett. B 119 (1982) 387), as in MILC's pure gauge program.
//
// Over-relaxation: reflects each subgroup at its maximum, with the same action (Brown, Woch, Phys. Rev. Lett. 58 (1987)
// 2394). Heat bath: draws each subgroup anew. Its random numbers come from one generator for each site, MILC's:
// generator_words words a site, stored as one word of all sites (even, then odd) after the other, and then the number
// of draws of each generator, to which the call adds. Words: 7 of the shift register; then, in two words each, the low
// one first: multiplier, addend and state of the congruence; the factor of a number (a float); and the lowest bit of
// the state that is used.
constexpr int generator_words = 15;
void overrelax(Device &, const Geometry &, const LinkField &u);
void heat_bath(Device &, const Geometry &, const LinkField &u, double beta, uint32_t *generators);
// Bytes a site: each of eight launches reads all links, and writes the links of one direction on the sites of one
// parity; the heat bath also reads and writes the generators of these sites.
double overrelax_bytes(Precision);
double heat_bath_bytes(Precision);
constexpr double overrelax_flops = 4 * (13 * 198 + 6 * 18 + 3 * 60 + 5 * 84); // a site

// Projects links to the sign of their phase times SU(3), as in MILC: row 0 normalised, row 1 orthogonal to it and
// normalised, row 2 the conjugate of their cross product, in double. Tests against the tolerance: | |row 0|^2 - 1 |,
// |<row 0, row 1>|^2, | |row 1|^2 - 1 |, |row 2 - new|^2. A link that fails one of them, also by NaN, is not changed,
// so that the caller can inspect it. The report covers all ranks, except first_failed, which is this rank's.
struct ReunitarizeReport {
    uint64_t failed;          // links
    long long first_failed;   // 4 k + mu, k in device order (even sites, then odd); -1: none
    double largest_deviation; // of all tests, as a float; NaN if any is NaN
    double sum_of_squares;    // of the deviations of all four tests, over all links
};
// phased: the links carry phases and boundary sign.
ReunitarizeReport reunitarize(Device &, const Geometry &, const LinkField &u, double tolerance = 1e-4,
                              bool phased = true);
double reunitarize_bytes(Precision);
constexpr double reunitarize_flops = 4 * 190; // a site, without roots

} // namespace milcgpu
