// Conjugate gradient for several sources in one Krylov space, A X = B: D. P. O'Leary, Linear Algebra Appl. 29 (1980)
// 293. R are the residuals and P the directions, with one field for each source. Small matrices replace the scalars:
//
//   alpha = <P, A P>^-1 <R, R>      X += P alpha delta      R' = R - A P alpha
//   beta  = <R, R>^-1 <R', R'>      P' = R' + P beta
//
// <P, A P> = shift <P, P> + sign <B P, B P>, and <P', P'> = <R', R'> + beta^dag <P, P> beta.
//
// During the iteration the residuals become linearly dependent, and rounding errors of large ones spoil small ones. So
// R are not the residuals themselves but orthonormal combinations of them (A. A. Dubrulle, ETNA 12 (2001) 216); the
// residuals are R delta. From time to time the basis changes: R becomes R M with M^dag <R, R> M = 1. If the residuals
// are dependent (one is zero, two are equal, one is the sum of others), some columns of M are zero.
//
// In lock-step only the diagonals of these matrices are used. That is one conjugate gradient for each source.
//
// The matrices stay on the device, where launches of a single block compute with them, in a few microseconds.
#pragma once
#include "gpu_kernels/algebra/cg_state.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/su3.h"

namespace milcgpu {

constexpr int most_block = 16; // sources that iterate together

// The part that the host reads.
struct BlockHead {
    int active; // 0: the launches still queued do nothing
    CgStop stop;
    int sources, lock_step;
    int iterations, iteration_limit;
    int lowest_at, stall;          // the iteration with the lowest residual; stop when it was `stall` iterations ago
    int negative;                  // <p, A p> < 0 for a direction p: stop
    double lowest;                 // smallest value so far of the largest |r|^2 / target
    double shift;                  // of A
    double sign;                   // of B^dag B in A: 1 or -1
    double weakest;                // a new basis uses pivots above this fraction of the diagonal element
    double leave;                  // stop when a source is done and the largest |r|^2 / target is above that
    double reliable_factor;        // stop when each |r|^2 has fallen below that times the largest; 0 = never
    double rr[most_block];         // |r|^2
    double largest_rr[most_block]; // since the start
    double target_rr[most_block];  // where a source is done
    int place[most_block];         // which solution belongs to residual j
    double scale[most_block];      // times a vector here: the vector of the caller's system
};

struct BlockState : BlockHead {
    using Matrix = Complex<double>[most_block * most_block]; // [row][column], rows contiguous
    Matrix r_r, p_p, bp_bp;                                  // <R, R>, <P, P>, <B P, B P>
    Matrix p_r, ap_r, ap_ap;                                 // <P, R>, <A P, R>, <A P, A P>
    Matrix ap_p, ap_p_inverse; // the inverse is of the well-conditioned part; 0 in the rest
    Matrix minus_alpha, beta;
    Matrix basis, delta;         // M, and R delta = residuals
    Matrix alpha[cg_kept_steps]; // alpha delta of iteration k at k mod cg_kept_steps; rows of most_block
    alignas(16) Complex<float> alpha_in_single[cg_kept_steps][most_block * most_block];
};

// How <P, R> and <A P, R> of a step are computed. before: from the recursion, which assumes that R is orthogonal to all
// earlier directions and that these are conjugate to P: <R, R> and <A P, P>; rounding errors add up from step to step.
// sums: summed over the sites.
enum class From { before, sums };

// Needs r_r. Computes `basis` for a new set of residuals R. There are no directions.
void block_start(Device &, BlockState *);
// Needs p_p and bp_bp, and with From::sums p_r. Computes alpha and -alpha.
void block_step_length(Device &, BlockState *, From p_r);
// Needs ap_ap, and with From::sums ap_r, of the residuals before the step. Computes beta, and r_r of the residuals
// after it: <R', R'> = <R, R> - alpha^dag <A P, R> - <R, A P> alpha + alpha^dag <A P, A P> alpha. Counts and judges the
// iteration. new_basis: also computes `basis`, into which the caller must transform R'; minus_alpha and beta are then
// in that basis. Without it, also computes p_p.
void block_direction(Device &, BlockState *, From ap_r, bool new_basis);
// Needs ap_r of `sources` true residuals with the `directions` directions of the last step. Computes beta for new
// directions that are conjugate to those. from[j], in lock-step: which direction belongs to residual j.
struct BlockRedirect {
    int directions, sources, from[most_block];
};
void block_redirect(Device &, BlockState *, const BlockRedirect &);

// X += scale P alpha for the last `steps` iterations, if the iteration goes on. stopped: if it has ended, for all
// iterations since the last such update. p[k]: directions of iteration k. x: in double, one source for each solution.
// Bytes a site: a spinor for each direction, and x twice; flops: 24 a direction and source, in lock-step 12 a
// direction.
struct BlockSolutions {
    SpinorBlock p[cg_kept_steps], x;
    bool lock_step;
};
void update_block_solutions(Device &, const BlockSolutions &, const BlockState *, int steps, bool stopped);

} // namespace milcgpu
