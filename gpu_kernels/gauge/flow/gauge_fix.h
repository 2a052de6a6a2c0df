// Gauge fixing by relaxation, APE and HYP smearing.
#pragma once
#include "gpu_kernels/gauge/flow/flow.h"

namespace milcgpu {

// Coulomb or Landau gauge: maximizes the sum of Re tr U_mu(x) over the links of `directions`. On each site of a parity
// the gauge transformation g(x) is the product of three SU(2) matrices, for the colours 01, 12, 20 in turn. Each is the
// best one for the present links, overrelaxed: its vector part a is scaled by (boost a0^2 + a^2) / (a0^2 + a^2)
// (Mandula, Ogilvie, Phys. Lett. B 248 (1990) 156, in MILC's form). All eight links of the site are transformed.
struct GaugeCondition {
    unsigned directions; // bit mu
    double boost;
    Signs signs;
    int count() const {
        return (directions & 1) + (directions >> 1 & 1) + (directions >> 2 & 1) + (directions >> 3 & 1);
    }
};
constexpr int gauge_fix_reach = 2; // layers
// Transforms the sites of `parity`, in place. On a cut box also the sites of the adjacent margin, so that links to the
// neighbours become right. Returns the sum over these sites of Re tr (U_mu(x) + U_mu(x-mu)) over the directions, after
// the transformation.
double relax_gauge(Device &, const WideBox &, const LinkField &u, const GaugeCondition &, int parity);
// Bytes of a step on both parities, a site.
double relax_gauge_bytes(Precision, const GaugeCondition &);
double relax_gauge_flops(const GaugeCondition &);

// APE smearing (Albanese et al., Phys. Lett. B 192 (1987) 163) as in MILC: V = (U + weight times its staples) / (1 +
// weight times their number) is projected to SU(3) by maximizing Re tr (U' V^dag). U' starts as V made unitary by Gram
// and Schmidt. Hits of SU(2) subgroups, the colours 01, 12, 02 in turn, follow until the relative gain of three hits is
// below `tolerance`, or until `most_hits` hits. tolerance 0: always `most_hits`.
struct ApeSpec {
    double weight;
    bool staples_in_time; // for spatial links; links in time have all six staples in space and time in any case
    int most_hits;
    double tolerance;
    Signs signs;
};
constexpr int ape_reach = 1;
// `to` must differ from u. Adds to *failed, on the device, the number of this rank's links whose hits did not reach the
// tolerance.
void ape_smear(Device &, const WideBox &, const LinkField &u, const ApeSpec &, const LinkField &to, uint64_t *failed);
double ape_smear_bytes(Precision); // a site
double ape_smear_flops(const ApeSpec &);

// HYP smearing (Hasenfratz, Knechtli, Phys. Rev. D 64 (2001) 034504) as in MILC. With P the projection to SU(3) by
// `hits` hits as above, starting from U_mu:
//   V_mu;nu  = P[(1 - alpha_3) U_mu + alpha_3 / 2 times the staples of U in the plane of nu],
//     W_mu;rho = P[(1 - alpha_2) U_mu + alpha_2 / 4 times the staples in nu, other than mu and rho, of V_mu;eta and
//                 V_nu;eta, eta the remaining direction],
//   U'_mu    = P[(1 - alpha_1) U_mu + alpha_1 / 6 times the staples in nu of W_mu;nu and W_nu;mu].
// In space: U'_mu = W_mu;t, without decorations in t; links in t do not change.
struct HypSpec {
    double alpha[3]; // by level: alpha_3, alpha_2, alpha_1
    bool in_space;
    int hits;
    Signs signs;
};
constexpr int hyp_reach = 1; // of a level; three levels exceed the margin, so ghosts are exchanged for each
LinkField hyp_smear(Device &, const Geometry &, Halo *, const LinkField &u, const HypSpec &);
double hyp_smear_flops(const HypSpec &); // a site

} // namespace milcgpu
