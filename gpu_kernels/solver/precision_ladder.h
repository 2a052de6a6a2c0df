// Which precision iterates, and when it gives way to another: the decisions and the measured constants of all solvers.
//
// Reliable updates (one mass). The sloppy precision iterates; when its residual has fallen by reliable_delta, the
// residual is recomputed in the precise one. On light masses the solution grows to 1 / (4 m^2) times the residual, and
// 16-bit links no longer resolve the residual: at an update it would jump by more than itself, and half precision would
// need several times the iterations (7300 against 2560 on a quenched 16^3 x 32 lattice at mass 0.002). Where the links'
// rounding predicts that (half_is_hopeless), the solve runs in single precision from the start; where a measured jump
// exceeds jump_limit, from there on.
//
// Descent. What the rounding of an operator does to the residual is proportional to the direction, which shrinks with
// the residual. So an iteration may start in the precise precision and go down to a coarser one when its residual has
// fallen to go_down_at times its tolerance, without any update. One mass does so where the mass is so light that
// updates in single precision, too, lose what the iteration knew of the lowest modes (3800 steps against 2300 on such a
// lattice); several masses always do, because the residuals of the shifts must stay collinear.
#pragma once
#include "gpu_kernels/operators/normal_operator.h"

namespace milcgpu::ladder {

// Fall of the residual between evaluations. In half precision the residual's jump at an evaluation is what costs steps
// (2163 at 0.1, 1958 at 0.3 on a quenched 16^3 x 32 lattice, 1543 in double); in single it is too small to matter.
constexpr double reliable_delta(Precision sloppy) { return sloppy == Precision::half ? 0.3 : 0.1; }

// Of |r_new - r| / |r_new| at a reliable update, for half precision.
constexpr double jump_limit = 0.5;

// Three times in a row the iteration believed in a gain of 2 in |r|^2, and evaluation did not show it: the precision
// has no more to give. (That the residual of conjugate gradient rises for a while means nothing.)
constexpr int patience = 3;

// The residual at which an iteration goes down, as a multiple of the (smallest) tolerance. Measured on quenched
// lattices down to mass 0.002. One mass: at 1e6 a few steps more than in double, at 1e7 up to 15 % more. Several
// masses can do with 1e7, because the refinement that follows is shared: a few steps; at 1e8 hundreds. (1e6 would cost
// them 5 to 10 % more time.)
enum class Masses { one, several };
constexpr double go_down_at(Masses masses, Precision to) {
    return to == Precision::single ? (masses == Masses::one ? 1e6 : 1e7) : to == Precision::half ? 5e4 : INFINITY;
}

// Links' rounding relative to the lowest eigenvalue (4 m^2) above which updates in single precision cost steps.
constexpr double descend_above = 3e-3;

// Refinement of several masses together in single precision: |r|^2 falls by no more than this in one pass, which is
// what single precision can be trusted with; and so many passes at most.
constexpr double single_reach = 1e-10;
constexpr int passes_together = 4;

// What iterates several sources together where `sloppy` is asked for: single for half. 12 sources on a quenched 24^3 x
// 32 lattice, mass 0.01: 689 steps in single, 867 in half, 557 in double, and a step in half takes 0.9 of one in
// single.
inline OperatorSpec of_several(const OperatorSpec &sloppy) {
    return sloppy.spinor == Precision::half ? OperatorSpec{Precision::single, Precision::single, sloppy.reals} : sloppy;
}

// Whether n sources of one mass are solved for faster together than one after the other; sites: of a parity, on a rank.
// At 24^3 x 32 and mass 0.01 a source took 281, 199, 151 ms with 2, 3, 4 sources together, and alone 187 where half
// precision iterates, 302 where it is single. On a GPU a step together has some 90 us that do not depend on the sites.
inline bool together_pays(int n, double sites, bool alone_in_half, bool on_gpu) {
    return n >= (alone_in_half ? 4 : 2) && (!on_gpu || n * sites >= 1 << 18);
}

inline bool half_is_hopeless(const NormalOperator &sloppy, double shift, double jump_limit) {
    return sloppy.spec().spinor == Precision::half && sloppy.spec().link == Precision::half &&
           sloppy.rounding(Precision::half) / sloppy.lowest(shift) > std::fmax(1.0, jump_limit);
}

inline bool must_descend(const NormalOperator &precise, const NormalOperator &given, Precision iterates, double shift) {
    return precise.spec().spinor == Precision::double_ && iterates == Precision::single &&
           given.rounding(Precision::single) / given.lowest(shift) > descend_above;
}

} // namespace milcgpu::ladder
