// Gradient flow and stout smearing of gauge fields, and their observables.
//
//   flow:   dV/dt = -Z V, Z_mu(x) = TA(V_mu(x) S_mu(x)^dag), TA(A) = (A - A^dag) / 2 - trace / 3, S the staples of the
//           action: Luescher, JHEP 08 (2010) 071, arXiv:1006.4518. Wilson: 6 staples. Symanzik: these times 5/3 and the
//           18 of the rectangles times -1/12 (Fodor et al., JHEP 09 (2014) 018). Integrators: flow_integrators.h.
//   stout:  Morningstar, Peardon, Phys. Rev. D 69 (2004) 054501: U <- exp(-rho Z) U. A step of Euler's rule.
//
// Links may carry MILC's staggered phases and boundary sign. In V S^dag they cancel, except for the factor -1 of each
// plaquette that a staple encloses. So kernels read the links as they are and multiply by that factor (`Signs`).
//
// Fields: both parities, 4 directions, double or single, one precision a call; links of 18 reals, K (which an
// integrator keeps) as momenta. On a cut lattice, links whose neighbours are read are on the wide box, all other fields
// on the box.
#pragma once
#include "gpu_kernels/gauge/forces/forces.h"

namespace milcgpu {

// Weights of the staples of U_mu along nu, [mu][nu].
struct StapleWeights {
    double of[4][4] = {};
    // 1; xi^2 for staples of spatial links along t: the flow on a lattice whose temporal spacing is xi times finer.
    static StapleWeights flow(double anisotropy);
    // rho; directions 3: only for spatial links along space.
    static StapleWeights stout(double rho, int directions);
};
constexpr int staples_reach = 1; // layers

// How Z is computed: from the staples of the present links, or, with `known`, Z is read as another kernel left it.
// symanzik: also the staples of rectangles (u with 2 layers), path by path. That allows any weights and needs no memory
// of its own, but takes 3.6 times the arithmetic of symanzik_derivative.
struct Derivative {
    const WideBox &box;
    const LinkField &u;
    Signs signs;
    StapleWeights weights;
    bool symanzik = false;
    const LinkField *known = nullptr;
    bool used_up = false; // no later launch reads u: a stage takes it (MatrixView::take)
};

// z = Z of Symanzik's action, computed as the gauge force; u with 2 layers.
constexpr LoopCoefficients symanzik_loops{5.0 / 3, -1.0 / 12, 0};
void symanzik_derivative(Device &, const WideBox &, const LinkField &u, Signs, const GaugeForceSpace &,
                         const LinkField &z);

// A stage of an integrator with two fields: K' = Z + keep K, to = exp(factor K') u. keep 0: k is not read; next:
// nullptr if K' is not needed, otherwise k or another field. `to` must differ from u. order: of the series of exp, 1 to
// 16; 0: the exact exponential.
void low_storage_stage(Device &, const Derivative &, double keep, const LinkField *k, const LinkField *next,
                       double factor, int order, const LinkField &to);
double low_storage_stage_bytes(Precision, bool known);
constexpr double staples_flops = 4 * (6 * 396 + 5 * 18); // a site
constexpr double symanzik_staples_flops = 4 * (6 * (2 * 198 + 36) + 18 * (4 * 198 + 36));
constexpr double exp_flops(int order) { return 4.0 * (216 + 189 + 17 * (order == 0 ? highest_exp_order : order)); }
double low_storage_stage_flops(bool known, int order);

// sum over j of weights[j] K_j
struct SumOfStages {
    std::vector<const LinkField *> k; // at most 13
    std::vector<double> weights;
};

// k = dexp^-1_a(Z) = Z - [a, Z] / 2 + [a, [a, Z]] / 12 - ..., with a the sum over earlier stages, and nested
// commutators below `order` (up to 8; 1: Z alone).
void stage_derivative(Device &, const Derivative &, const SumOfStages &a, int order, const LinkField &k);

// to = exp(e) u, with e = the sum, or, if commutator is not 0, e = sum + commutator [sum, K_0]. u may be `to`.
void move_links(Device &, const Geometry &, const LinkField &u, const SumOfStages &, double commutator, int order,
                const LinkField &to);
// Largest |exp(sum) u - v|_F / 9 over the links of all ranks: the distance of two solutions (Fritzsch, Ramos, JHEP 10
// (2013) 008). NaN if any is NaN.
double largest_distance(Device &, const Geometry &, const LinkField &u, const SumOfStages &, int order,
                        const LinkField &v);
double sum_of_stages_bytes(Precision, int stages);
constexpr double sum_of_stages_flops(int stages) { return 4.0 * 18 * stages; }

// As MILC's wilson_flow prints them. F_mu,nu(x) = (4 leaves of the clover - h.c.) / 8, traceless; all are means over
// the sites. Clover: -sum tr F^2 over the three planes, with time (t) and without (s). Plaquettes, rectangles: Re tr of
// a plane's plaquette, and the mean of its two rectangles, summed over three planes, divided by 3: 3 on unit links.
// charge: -sum over sites of tr(F_xy F_zt - F_xz F_yt + F_yz F_xt) / (4 pi^2).
struct FlowObservables {
    double clover_t, clover_s, plaquette_t, plaquette_s, rectangle_t, rectangle_s, charge;
};
constexpr int flow_observables_reach = 1;
FlowObservables flow_observables(Device &, const WideBox &, const LinkField &u, Signs);
double flow_observables_bytes(Precision);
constexpr double flow_observables_flops = 6 * (14 * 198 + 4 * 36 + 60);

} // namespace milcgpu
