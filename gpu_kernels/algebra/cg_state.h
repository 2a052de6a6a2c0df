// The scalars of conjugate gradient. They stay on the device, where kernels read and write them; the host reads a copy
// that is some steps old. Squared norms are those of the sloppy system, over the sites of the parity of the solve.
//
// The operator is A = shift + sign B^dag B with any B (solver/normal_operator.h): <v, A v> = shift |v|^2 + sign |B
// v|^2.
#pragma once
#include "gpu_kernels/machine/backend/posted.h"

namespace milcgpu {

constexpr int cg_history_length = 64; // the most iterations between two reads of the host
constexpr int cg_kept_steps = 8;      // iterations whose residuals, alpha and beta are kept, for one update of x and p

// source_done: with several sources, if one has reached its target and another is far from its own.
enum class CgStop { running, target, reliable_update, iteration_limit, nan_or_inf, not_positive, source_done };

struct CgState {
    int active; // 0: the launches still queued do nothing
    CgStop stop;
    WaitReport *waits;      // Device::waits
    double shift;           // of A
    double sign = 1;        // of B^dag B in A: 1 or -1
    double scale;           // times a vector here: the vector of the caller's system
    double rr;              // |r|^2 of the recursion
    double pp;              // |p|^2
    double beta;            // of the next step: p = r + beta p
    double cross;           // <r, A p> with the new r and the old p
    double curvature;       // <p, A p>
    double alpha;           // of this step: rr / curvature; unknown (posted.h) until the sum is known
    double carry;           // of this step: A p = A r + carry (the last A p), so it is beta or 0; known when alpha is
    double rr_new;          // |r|^2 after this iteration
    double jump;            // |r_new - r|^2 at the last reliable update
    double largest_rr;      // since the last reliable update
    double target_rr;       // stop when rr < target_rr
    double reliable_factor; // stop when rr < reliable_factor * largest_rr; 0 = never
    double relative_target; // also stop when relative < relative_target; 0 = not tested
    double relative;        // sum over sites |r_x|^2 / |x_x|^2 (scaled: see algebra/relative_residual.cu)
    int iterations, iteration_limit;
    double step_alpha[cg_kept_steps], step_beta[cg_kept_steps]; // of iteration k at k mod length
    float history[cg_history_length]; // sqrt(rr) of the last iterations, iteration k at k mod length

    // At a start, with <r, p> = |r|^2.
    MILCGPU_HD void start(double rr_of_start, double pp_of_start) {
        rr = largest_rr = rr_of_start;
        pp = pp_of_start;
        alpha = carry = unknown();
        stop = CgStop::running;
        active = 1;
    }

    // sign |B v|^2. Not a multiplication by the sign, because with it the compiler would form other fused
    // multiply-adds, and results would change in the last bit.
    MILCGPU_HD double with_sign(double bv_bv) const { return sign < 0 ? -bv_bv : bv_bv; }

    // Computes the step length from |B p|^2.
    MILCGPU_HD void set_step_along_p(double bp_bp) {
        curvature = shift * pp + with_sign(bp_bp);
        post(carry, 0.0);
        post(alpha, rr / curvature);
    }

    // Computes it from |B r|^2, for p = r + beta p. Mathematically <p, A p> is at least shift |r|^2 if sign is 1,
    // because <r, p> = |r|^2, and positive if sign is -1. If rounding errors have spoiled that, the direction becomes p
    // = r.
    MILCGPU_HD void set_step_along_r(double br_br) {
        const double along_r = shift * rr + with_sign(br_br);
        curvature = along_r + 2 * beta * cross + beta * beta * curvature;
        if ((sign > 0 && curvature < shift * rr) || curvature <= 0.0) {
            step_beta[(iterations - 1) % cg_kept_steps] = beta = 0;
            pp = rr;
            curvature = along_r;
        }
        post(carry, beta);
        post(alpha, rr / curvature);
    }

    // After every iteration: rr_new becomes rr.
    MILCGPU_HD void record() {
        if (is_unknown(alpha)) // the wait for it reached its limit
            note_given_up(waits, Wait::step_length);
        history[iterations % cg_history_length] = static_cast<float>(sqrt(rr_new));
        step_alpha[iterations % cg_kept_steps] = alpha;
        alpha = carry = unknown();
        step_beta[iterations % cg_kept_steps] = beta = rr_new / rr;
        pp = rr_new + beta * beta * pp; // <r_new, p> = 0
        ++iterations;
        rr = rr_new;
        largest_rr = fmax(largest_rr, rr);
    }

    // The only place where an iteration is judged, after record. NaN is tested for first, and every later test is false
    // for NaN. So NaN never counts as convergence.
    MILCGPU_HD void check_convergence() {
        const double last_alpha = step_alpha[(iterations - 1) % cg_kept_steps];
        if (curvature <= 0.0)
            stop = CgStop::not_positive;
        else if (!(rr < INFINITY) || !(last_alpha < INFINITY))
            stop = CgStop::nan_or_inf;
        else if (rr < target_rr && (relative_target <= 0.0 || relative < relative_target))
            stop = CgStop::target;
        else if (rr < reliable_factor * largest_rr)
            stop = CgStop::reliable_update;
        else if (iterations >= iteration_limit)
            stop = CgStop::iteration_limit;
        active = stop == CgStop::running;
    }
};

} // namespace milcgpu
