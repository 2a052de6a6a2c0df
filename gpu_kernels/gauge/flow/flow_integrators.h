// Integrators of the gradient flow, those of MILC's wilson_flow, and what steps a gauge field along it.
//
// Low storage: K_i = Z(U_i) + keep_i K_(i-1), U_(i+1) = exp(-factor_i eps K_i) U_i
//   Luescher      third order, 3 stages: JHEP 08 (2010) 071, as coefficients of Williamson, J. Comput. Phys. 35 (1980)
//                 48
//   CK            fourth order, 5 stages: Carpenter, Kennedy, NASA TM 109112 (1994)
//   BBB           fourth order, 6 stages: Berland, Bogey, Bailly, Comput. Fluids 35 (2006) 1459
//   CF3           third order, 3 stages: Williamson's seventh scheme. Lie groups: Bazavov, Chuna, arXiv:2101.05320
// Munthe-Kaas: U_i = exp(-eps sum_j a_ij K_j) U_0, K_i = dexp^-1(Z(U_i)); RKMK3 and BS have one commutator instead, at
// their end.
//   RKMK3, 4, 5, 8  orders by their numbers: Ralston's, the 3/8 rule, Butcher's, Dormand and Prince (1981)
// Adaptive, each with a solution of lower order beside it:
//   Luescher's (Fritzsch, Ramos, JHEP 10 (2013) 008; MILC's CF3 has the same numbers), and BS: Bogacki, Shampine, Appl.
//   Math. Lett. 2 (1989) 321
#pragma once
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/flow/flow.h"
#include "gpu_kernels/halo/halo.h"
#include <memory>

namespace milcgpu {

struct FlowIntegrator {
    const char *name;
    int order;
    std::vector<double> keep, factor;       // low storage: one a stage. Empty: the table below
    std::vector<std::vector<double>> table; // a_ij, row i for i > 0
    std::vector<double> weights;            // of the K_i in a step
    bool one_commutator;                    // eps^2 / 6 [sum of weights K, K_0], instead of dexp^-1
    std::vector<double> lower;              // adaptive: weights for the solution of lower order; if there is one
                                            // more than stages, the last one is for Z at the end of the step
    bool adaptive() const { return !lower.empty(); }
    bool low_storage() const { return !keep.empty(); }
    int stages() const { return static_cast<int>(low_storage() ? keep.size() : weights.size()); }
    // The last stage of a step is the first of the next one
    bool last_is_first() const { return lower.size() > weights.size() && !low_storage(); }
    double amplification(double z) const; // of a mode a with da/dt = -lambda a, by a step of z / lambda
};

// In MILC's order and with its numbers: 0 to 3, 10 to 13, 20 to 22. nullptr: no integrator has this number.
const FlowIntegrator *flow_integrator(int number);

struct FlowMethod {
    const FlowIntegrator *integrator;
    bool symanzik;
    double anisotropy;
    Signs signs;
    int exp_order; // as in low_storage_stage
};

// The longest step that amplifies no mode of smooth links. Their fastest mode, at the corner of the Brillouin zone,
// decays as exp(-16 t) with Wilson's flow, with xi as exp(-4 (3 + xi^2) t), and 5/3 times as fast with Symanzik's.
double longest_stable_step(const FlowMethod &);
// The action that the flow lowers, for a site: the sum over planes of w (c_0 (1 - P) + c_1 (1 - R) for both rectangles)
// times 3, P and R Re tr / 3, w xi^2 for planes with time; (c_0, c_1) Wilson (1, 0), Symanzik (5/3, -1/12).
double flow_action(const FlowMethod &, const FlowObservables &);

// Steps of a gauge field along its flow. The initial field is not changed. All ranks call together.
class GradientFlow {
  public:
    // `start` must outlive this object.
    GradientFlow(Device &, const Geometry &, Halo *halo, const LinkField &start, const FlowMethod &);
    // Tries a step; it counts once it is accepted. Returns the distance of the solution of lower order, or 0 if there
    // is none. Throws Error(corrupted) if links of a step are not what the previous step wrote.
    double try_step(double eps);
    void accept();
    FlowObservables observables();
    // Returns the links at the present flow time; empty if no step was accepted. The object cannot be used afterwards.
    // Throws Error(corrupted) if its data have changed by themselves.
    LinkField take();
    double flops() const { return flops_; } // so far, a site

  private:
    // last_use: no later launch reads these links. Then each link is taken (MatrixView::take), except on a cut lattice,
    // where a copy is read.
    Derivative derivative_at(const LinkField &links, bool last_use = false);
    void test_stage(const LinkField &links); // tests links that were taken, before others are written there
    bool is_whole() const { return around_.box().margin() == 0; }
    // True if each field except the first is taken.
    bool takes_fields() const {
        return method_.integrator->low_storage() && !method_.integrator->adaptive() && is_whole();
    }
    bool by_gauge_force() const { return method_.symanzik && method_.anisotropy == 1; } // which has no weights
    double low_storage_step(double eps);
    double munthe_kaas_step(double eps);
    SumOfStages stages(const std::vector<double> &weights, double times) const;
    double distance(const SumOfStages &lower);

    Device &device_;
    const Geometry &geometry_;
    FlowMethod method_;
    WithMargin around_;
    std::vector<LinkField> fields_; // links
    std::vector<LinkField> k_;
    LinkField z_;
    std::unique_ptr<GaugeForceSpace> space_; // for the gauge force
    const LinkField *start_, *now_, *tried_ = nullptr;
    AskedFields asked_;
    bool first_known_ = false; // k_[0] is Z at now_
    double flops_ = 0;
};

// Stout smearing: computes Z and moves the links, `times` times. Returns the links.
LinkField stout(Device &, const Geometry &, Halo *halo, const LinkField &u, Signs, double rho, int directions,
                int times);
// For a site and one smearing; in 3 directions a third of it
constexpr double stout_flops = staples_flops + 4 * 216 + exp_flops(0);

} // namespace milcgpu
