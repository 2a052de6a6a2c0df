// Conjugate gradient for several sources in one Krylov space, A X = B: D. P. O'Leary, Linear Algebra Appl. 29 (1980)
// 293. R are the residuals and P the directions, one field a source each. Small matrices take the place of numbers:
//
//   alpha = <P, A P>^-1 <R, R>      X += P alpha delta      R' = R - A P alpha
//   beta  = <R, R>^-1 <R', R'>      P' = R' + P beta
//
// <P, A P> = shift <P, P> + <B P, B P>, and <P', P'> = <R', R'> + beta^dag <P, P> beta.
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
    double shift;                  // of A
    double weakest;                // pivot that counts, as a part of its number on the diagonal
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
    Matrix p_r, ap_r;                                        // <P, R>, <A P, R>: where they do not follow from others
    Matrix r_r_inverse, ap_p_inverse;                        // of the part that is well-conditioned, else 0
    Matrix minus_alpha, beta;
    Matrix basis, delta;         // M, and R delta = residuals
    Matrix alpha[cg_kept_steps]; // alpha delta of iteration k at k mod cg_kept_steps; in single, too
    Complex<float> alpha_in_single[cg_kept_steps][most_block * most_block];
};

// Whence the matrices of a step come: from those of the step before, or, in the first step after a start with
// directions that are not conjugate to the residuals, from p_r and ap_r.
enum class BlockStep { steady, given };

// After r_r of residuals: basis, in which they are to be taken, and all that is known then. A start with P = R.
void block_start(Device &, BlockState *);
// After bp_bp, and p_r where given: alpha and its negative.
void block_step_length(Device &, BlockState *, BlockStep);
// After r_r of the new residuals, and ap_r where given: beta and p_p; the iteration is counted and judged. new_basis:
// and `basis`, in which the residuals are to be taken before the next direction.
void block_direction(Device &, BlockState *, BlockStep, bool new_basis);
// After block_start and ap_r of residuals that were computed afresh, `sources` of them, with the directions of the last
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
