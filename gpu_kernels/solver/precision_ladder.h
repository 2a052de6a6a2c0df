// Which precision iterates, and when the next one takes over: the decisions and the measured constants of all solvers.
//
// Reliable updates (one mass). The sloppy precision iterates. When its residual has fallen by reliable_delta, it is
// recomputed in the precise one. On light masses the solution is up to 1 / (4 m^2) times the residual, so the rounding
// errors of 16-bit links can be larger than the residual. At an update the residual would then change by more than its
// own size, and half precision would need several times the iterations (7300 against 2560 on a quenched 16^3 x 32
// lattice at mass 0.002). If the size of the rounding errors predicts that (half_is_hopeless), the solve runs in single
// precision from the start. If a measured change exceeds jump_limit, it goes on in single precision from there.
//
// Descent. The error that a rounded operator makes in the residual is proportional to the direction, which shrinks with
// the residual. So an iteration may start in the precise precision. When its residual has fallen to go_down_at times
// its tolerance, it goes on in a coarser precision, without any update. One mass does so only if the mass is so light
// that updates cost steps in single precision, too (3800 steps against 2300 on such a lattice). Several masses always
// do, because the residuals of the shifts must stay parallel.
#pragma once
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/solver/normal_operator.h"
#include <cmath>

namespace milcgpu::ladder {

// Factor by which the residual falls between two true residuals. In half precision the change of the residual at an
// update costs steps (2163 at 0.1, 1958 at 0.3 on a quenched 16^3 x 32 lattice, 1543 in double). In single precision it
// is too small to matter.
constexpr double reliable_delta(Precision sloppy) { return sloppy == Precision::half ? 0.3 : 0.1; }

// As above, with a deflation at each true residual. A deflation takes the time of 20 steps in half precision with 1000
// vectors, and solves low modes, along which rounding errors do harm. Example: 96 vectors on a quenched 8^3 x 16
// lattice take 82, 82, 86 and 93 steps with 0.1, 0.03, 0.01 and 0.003, at masses from 0.01 to 0.0005 and in all
// precisions.
// Steps on light masses grow below 0.03: with 64 vectors at mass 0.0005 105 with 0.03, 116 with 0.02. 12 sources in one
// Krylov space take 92 steps and 7 deflations there, and 89 and 10 with reliable_delta_of_several. Each deflation
// computes two true residuals.
constexpr double reliable_delta_deflated = 0.03;

// Few vectors leave low modes, along which rounding costs steps. Then true residuals are computed as often as without
// vectors. rounding: NormalOperator::rounding(half) / the lowest eigenvalue that is left. Example: random links of
// 4^3 x 8 sites, mass 0.002. With 1, 2, 4 and 8 vectors `rounding` is 0.3, 0.09, 0.03 and 0.01, and a solve in half
// takes 1117, 836, 628 and 436 steps with 0.3, and 1360, 1000, 689 and 443 with 0.03.
// Without vectors, half precision on heavy masses has as little rounding: then true residuals are most of the time of a
// short solve. Example: quenched 8^3 x 16 lattice, |r| / |b| = 1e-8. With 0.3 and 0.03 a solve takes 29 steps at mass
// 0.73, 118 at 0.164 and 297 at 0.05, with 13 or 14 and with 4 or 5 true residuals.
constexpr double few_vectors_above = 0.02;
constexpr double reliable_delta_with(double rounding) {
    return rounding > few_vectors_above ? reliable_delta(Precision::half) : reliable_delta_deflated;
}

// Links in half beside vectors in single: a reliable update changes the residual by about 0.25 rounding / delta times
// its norm. On a quenched 16^3 x 32 lattice at masses 0.1 to 0.02 a change of 0.15 costs no steps, one of 0.33 2 %.
inline double reliable_delta_of_half_links(double rounding) {
    return std::fmin(std::fmax(2 * rounding, 0.003), reliable_delta(Precision::single));
}

// Whether a solve uses its vectors. first: the lowest eigenvalue of the vectors, plus the shift; left: the lowest one
// that they leave; without: the lowest one of a solve without them. If half precision is hopeless without vectors, such
// a solve does most of its steps in double, 732 in the example above. With vectors it iterates in a coarser precision.
// If rounding still matters there, and the vectors leave more than a third of the steps (expected_steps), the coarser
// precision costs more steps than the vectors save.
constexpr bool vectors_serve(double rounding_of_half, double first, double left, double without) {
    return rounding_of_half <= without || rounding_of_half <= few_vectors_above * left || left >= 9 * first;
}

// Steps of a solve to |r| / |b| = residual, with logarithm = ln(2 / residual): 0.9 of the bound by the condition
// number. lowest: of the eigenvalues that are left. Within 10 % with 16 to 384 vectors on quenched 8^3 x 16 and 12^3 x
// 24 lattices, at masses from 0.01 to 0.0005.
inline double expected_steps(double highest, double lowest, double logarithm) {
    return 0.45 * std::sqrt(highest / lowest) * logarithm;
}

// A deflation that raises |r|^2 by more than this factor has raised it by more than rounding. It is then undone unless
// it has reduced the error in the norm of A (Deflation::lessened_error). |r| alone says nothing: a vector that has not
// converged has a part of high modes, which raises |r| and which the next steps remove. Example: on a quenched 8^3 x 16
// lattice at mass 0.0005, 128 vectors with |A v - l v| up to 0.2, 3.4 and 5 raise |r| by up to 1, 1.03 and 1.17, and
// solves take 59, 66 and 124 steps, where they take 905 without. <dx, r + r'> is <dx, r> to 3e-4 there.
constexpr double deflation_raises = 1.1;

// reliable_delta for several sources in one Krylov space. Rounding adds to their residuals a part that is not yet in
// the space, like a further source. It takes many steps if it is found late, and matters while it is above the
// tolerance. over_target: the largest residual divided by its tolerance. Example: 12 sources on a quenched 24^3 x 32
// lattice at mass 0.01 take 569 steps with 0.1, 544 with 0.3 and 543 with both of these numbers (9, 17 and 10 true
// residuals of 1.9 ms each; a step takes half a millisecond).
constexpr double reliable_delta_of_several(Precision sloppy, double over_target) {
    const double rounding = sloppy == Precision::double_ ? 1e-16 : 1e-7;
    return sloppy == Precision::half || rounding * over_target > 1 ? 0.3 : 0.03;
}

// Half precision goes on after a reliable update if |r_new - r| / |r_new| is at most this.
constexpr double jump_limit = 0.5;

// The precision is exhausted if this happens three times in a row: the iteration claims to have gained a factor of 2 in
// |r|^2, and the true residual does not show it. (A residual that only rises for a while is normal for conjugate
// gradient.)
constexpr int patience = 3;

// What the true residuals of a solve show of it.
struct Gain {
    double best_rr = INFINITY; // the smallest |r|^2
    int without = 0;           // true residuals in a row without that factor of 2
    void note(double rr, bool should) {
        without = rr < 0.5 * best_rr ? 0 : without + should;
        best_rr = std::fmin(best_rr, rr);
    }
    bool is_over() const { return without >= patience; }
};

// If a guess is much larger than the solution, the squares of its residual may exceed the range of single precision
// (1e38) in units of the source. Above this ratio of |r|^2 the iteration starts in units of its residual, and takes a
// new unit when the residual has fallen by this ratio. Below it a solve keeps the unit of its source.
constexpr double reach_of_a_unit = 0x1p80;

// The unit of an iteration's vectors, a power of two that makes them of order 1.
struct Unit {
    double scale = 1;
    double rr = 0; // it is the unit of a vector with this |r|^2
    void choose(double source_rr, double residual_rr, double sites) {
        rr = residual_rr > reach_of_a_unit * source_rr ? residual_rr : source_rr;
        scale = unit_of(rr, sites);
    }
    // Whether this unit is too large for the residual, so that the iteration must take a new one.
    bool is_too_large(double source_rr, double residual_rr) const {
        return rr > source_rr && residual_rr * reach_of_a_unit < rr;
    }
};

// The residual at which an iteration goes down, as a multiple of the (smallest) tolerance. Measured on quenched
// lattices down to mass 0.002. One mass: 1e6 takes a few steps more than double precision, 1e7 up to 15 % more. Several
// masses: 1e7 takes a few more steps in the refinement, which the masses share; 1e8 takes hundreds; 1e6 would take 5 to
// 10 % more time.
// Several sources in one Krylov space: 12 sources at 24^3 x 32 and mass 0.002 take 1060 steps with 1e6, 1072 with 1e7,
// 1712 with 1e8 and 3271 without a descent.
enum class Masses { one, several };
constexpr double go_down_at(Masses masses, Precision to) {
    return to == Precision::single ? (masses == Masses::one ? 1e6 : 1e7) : to == Precision::half ? 5e4 : INFINITY;
}

// Whether several masses start in precision `to`, because their first residual is below the one at which the iteration
// goes down. tightest: the smallest tolerance. The first residual must be far below for half precision: there the first
// steps of light masses make errors, which the refinement has to remove. At 48^3 x 64 a solve with nine masses to
// 1.5e-4 takes 0.52 s if it starts in single, 0.58 s if it starts in half. The iteration does at least 16 steps
// (chunk_loop.h) in its first precision; a solve of molecular dynamics with heavy masses has 25 to 80 steps.
constexpr bool starts_in(Precision to, double tightest) {
    return tightest * go_down_at(Masses::several, to) >= (to == Precision::half ? 10 : 0.9);
}

// Whether a solution with |b - A x| / |b| below this tolerance is loose. All-mode averaging and truncated solvers add
// the mean of (exact - loose) over few sources to the mean of the loose solutions of many. This has no bias only if a
// loose solution is a function of its own source, the same in every call. In one Krylov space it is not: its error
// depends on the other sources, and differs by its own size from the error of a solve by itself. Such methods use 1e-2
// to 1e-4. MILC's inputs use solutions with tolerances of 1e-5 or less as they are. 1 + 1e-6: a tolerance may have been
// rounded to single.
constexpr double loose_tolerance = 1e-5;
constexpr bool is_loose(double tolerance) { return tolerance > (1 + 1e-6) * loose_tolerance; }
// The same with a tolerance of the relative residual beside it. 0: not set.
constexpr bool is_loose(double tolerance, double relative) {
    return (tolerance <= 0 || is_loose(tolerance)) && (relative <= 0 || is_loose(relative));
}

// Rounding error of the links divided by the lowest eigenvalue (4 m^2). Above this number, updates in single precision
// cost steps.
constexpr double descend_above = 3e-3;

// Sources in one Krylov space start in double above this number, if there are at least so many. With fewer sources the
// saved steps do not pay: a step in double takes 2.3 times as long as one in single. 8, 12, 16 sources at 24^3 x 32 and
// mass 0.001 take 1.19, 1.32, 1.39 s with a descent and 1.49, 1.68, 2.00 without, at 0.002 1.14, 1.24, 1.34 and 1.48,
// 1.73, 1.82. At mass 0.004 12 sources take 1.22 and 1.02, and 4 sources gain nothing at any mass.
constexpr double descend_together_above = 1e-2;
constexpr int descend_together_from = 8;

// Refinement of several masses in single precision: |r|^2 falls by at most this factor in one pass, because single
// precision cannot be trusted with more. And the most passes.
constexpr double single_reach = 1e-10;
constexpr int passes_together = 4;

// The precision in which several sources iterate if the caller asks for `sloppy`: single instead of half. Example: 12
// sources on a quenched 24^3 x 32 lattice at mass 0.01 take 557 steps in double, 689 in single and 867 in half, and a
// step in half takes 0.9 times as long as one in single. With deflation they iterate in half if that pays: with 96
// vectors on a quenched 8^3 x 16 lattice they take 74 steps in both, at mass 0.01 and 0.0005, with as many true
// residuals. With few vectors half does not pay: 4 sources on random links of 4^3 x 8 sites at mass 0.01 take 842, 503,
// 390, 299 and 201 steps in half with 1, 2, 4, 8 and 16 vectors, 375, 340, 293, 240 and 180 in single, and 429 in
// single without vectors.
inline OperatorSpec of_several(const OperatorSpec &sloppy) {
    return sloppy.spinor == Precision::half ? OperatorSpec{Precision::single, Precision::single, sloppy.reals} : sloppy;
}

// Whether a block solve of n sources of one mass is faster than n solves. sites: of a parity, on a rank. Example: at
// 24^3 x 32 and mass 0.01 a source took 281, 199, 151 ms in a block of 2, 3, 4. Alone it took 187 ms in half precision
// and 302 ms in single. On a GPU about 90 us of a block step do not depend on the number of sites. On the host Gram
// matrices and rotations take longer than the saved steps: at 16^4 and mass 0.05 a source took 1.08 and 1.18 s in a
// block of 3 and 12, 0.81 and 0.84 s in lock-step, 0.66 and 0.69 s alone (one core, Zen 5).
inline bool together_pays(int n, double sites, bool alone_in_half, Backend backend) {
    return backend != Backend::host && n >= (alone_in_half ? 4 : 2) && n * sites >= 1 << 18;
}

// Whether lock-step in half precision, if half serves, is faster for sources that took `steps` steps in one Krylov
// space. expected: steps of a source by itself (expected_steps). One Krylov space saves more steps if the lowest
// eigenvalues are further apart. If they are close it saves none: 12 sources on a warm 40^4 lattice at mass 0.01 take
// 2474 steps and 8.8 s, in lock-step 2510 steps and 7.6 s. If there are few steps, half precision gains less than its
// further true residuals cost. In single precision a step in lock-step takes as long as one of a block.
constexpr bool lock_step_pays(int steps, double expected) { return steps >= 150 && steps >= 0.8 * expected; }

// Above this ratio of rounding(half) to the lowest eigenvalue that is left, several sources iterate in single, deflated
// or not.
constexpr double several_in_half_up_to = 5e-3;

// lowest: of the eigenvalues that the iteration meets, NormalOperator::lowest or Deflation::lowest.
// Links in half beside vectors in single save less time: on a quenched 16^3 x 32 lattice a step takes 0.57 to 0.75 of
// the time, and a solve 1.2 and 1.5 times the steps at ratios of 0.4 and 0.8.
inline bool half_is_hopeless(const NormalOperator &sloppy, double lowest, double jump_limit) {
    const double most = sloppy.spec().spinor == Precision::half ? 1.0 : 0.5;
    return sloppy.spec().link == Precision::half &&
           sloppy.rounding(Precision::half) / lowest > std::fmax(most, jump_limit);
}

inline bool must_descend(const NormalOperator &precise, const NormalOperator &given, Precision iterates, double lowest,
                         double above = descend_above) {
    return precise.spec().spinor == Precision::double_ && iterates == Precision::single &&
           given.rounding(Precision::single) / lowest > above;
}

} // namespace milcgpu::ladder
