// Conjugate gradient for several sources in one Krylov space, A X = B: D. P. O'Leary, Linear Algebra Appl. 29 (1980)
// 293. R are the residuals and P the directions, one field a source each. Small matrices take the place of numbers:
//
//   alpha = <P, A P>^-1 <R, R>      X += P alpha delta      R' = R - A P alpha
//   beta  = <R, R>^-1 <R', R'>      P' = R' + P beta
//
// <P, A P> = shift <P, P> + sign <B P, B P>, and <P', P'> = <R', R'> + beta^dag <P, P> beta.
//
// Residuals become dependent on each other, and rounding of the large ones would spoil what a small one has beyond
// them. So R are orthonormal combinations of the residuals (A. A. Dubrulle, ETNA 12 (2001) 216), R delta are the
// residuals themselves, and from time to time another basis is taken: R becomes R M with M^dag <R, R> M = 1. A zero
// residual, two equal ones, one that is the sum of others: there are fewer columns of M, the others are zero.
//
// With the diagonals of these matrices alone it is a conjugate gradient for each source by itself, in lock-step.
//
// The matrices stay on the device. A launch of one block works on them, which takes a few microseconds.
#pragma once
#include "gpu_kernels/blas/cg_state.h"
#include "gpu_kernels/su3/fields.h"

namespace milcgpu {

constexpr int most_block = 16; // sources that iterate together

// The part that the host looks at.
struct BlockHead {
    int active; // 0: the launches still queued do nothing
    CgStop stop;
    int sources, lock_step;
    int iterations, iteration_limit;
    int lowest_at, stall;          // the iteration with the lowest residual; stop when it was so many before
    int negative;                  // <p, A p> < 0 for a direction p: stop
    double lowest;                 // of the largest |r|^2 / target
    double shift;                  // of A
    double sign;                   // of B^dag B in A: 1 or -1
    double weakest;                // pivot that counts in a new basis, as a part of its number on the diagonal
    double leave;                  // stop when a source is done and the largest |r|^2 / target is above that
    double reliable_factor;        // stop when each |r|^2 has fallen below that times the largest; 0 = never
    double rr[most_block];         // |r|^2
    double largest_rr[most_block]; // since the start
    double target_rr[most_block];  // where a source is done
    int place[most_block];         // among the solutions, of the solution of each residual
    double scale[most_block];      // a field of the iteration times scale is that of the system as given
};

struct BlockState : BlockHead {
    using Matrix = Complex<double>[most_block * most_block]; // [row][column], rows one behind the other
    Matrix r_r, p_p, bp_bp;                                  // <R, R>, <P, P>, <B P, B P>
    Matrix p_r, ap_r;                                        // <P, R>, <A P, R>
    Matrix r_r_inverse, ap_p_inverse;                        // of the part that is well-conditioned, else 0
    Matrix minus_alpha, beta;
    Matrix basis, delta;         // M, and R delta = residuals
    Matrix alpha[cg_kept_steps]; // alpha delta of iteration k at k mod cg_kept_steps; in single, too
    Complex<float> alpha_in_single[cg_kept_steps][most_block * most_block];
};

// Whence <P, R> and <A P, R> of a step come: from the matrices before, or from sums of their own, p_r and ap_r. What
// follows from the matrices before is off by all rounding since they were last taken.
enum class From { before, sums };

// After r_r of residuals: basis, in which they are to be taken.
void block_start(Device &, BlockState *);
// After r_r of residuals in a new basis: all that is known then. After block_start for directions P = R.
void block_in_basis(Device &, BlockState *);
// After bp_bp, and p_r where it comes from sums: alpha and its negative.
void block_step_length(Device &, BlockState *, From p_r);
// After r_r of the new residuals, and ap_r where it comes from sums: beta; the iteration is counted and judged. Where
// there is no new basis, also p_p. Else beta is for residuals in `basis`, in which they are to be taken now.
void block_direction(Device &, BlockState *, From ap_r, bool new_basis);
// After ap_r of residuals that were computed afresh, `sources` of them, with the directions of the last
// step, `directions` of them: beta for directions conjugate to those. from[j], lock-step: the direction of residual j.
struct BlockRedirect {
    int directions, sources, from[most_block];
};
void block_redirect(Device &, BlockState *, const BlockRedirect &);

// X += scale P alpha for the last iterations: `steps` of them where the iteration goes on; `stopped`: those since the
// last such update, where it has ended. p[k]: directions of iteration k. x: in double, a source for each solution.
// Bytes a site: a spinor for each direction, and x twice; flops: 24 a direction and source.
struct BlockSolutions {
    SpinorBlock p[cg_kept_steps], x;
};
void update_block_solutions(Device &, const BlockSolutions &, const BlockState *, int steps, bool stopped);

} // namespace milcgpu
