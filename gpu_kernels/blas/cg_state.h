// The scalars of conjugate gradient, which stay on the device: kernels read and write them there, the host looks at a
// copy a step behind. Squared norms are of the sloppy system, over the sites of the parity solved for.
#pragma once
#include "gpu_kernels/backend/portable.h"

namespace milcgpu {

constexpr int cg_history_length = 64; // iterations between two looks of the host, at most
constexpr int cg_kept_steps = 4;      // whose alpha and beta are kept, for shifted systems (shifts.h)

enum class CgStop { running, target, reliable_update, iteration_limit, nan_or_inf, not_positive };

struct CgState {
    int active; // 0: the launches still queued do nothing
    CgStop stop;
    double shift;           // 4 m^2
    double scale;           // a vector here times scale is the vector of the system as given
    double rr;              // |r|^2 of the recursion
    double pp;              // |p|^2
    double curvature;       // <p, A p> = shift |p|^2 + |D p|^2
    double alpha;           // rr / curvature
    double rr_new, pp_new;  // of the iteration under way
    double jump;            // |r_new - r|^2 at the last reliable update
    double largest_rr;      // since the last reliable update
    double target_rr;       // stop when rr < target_rr
    double reliable_factor; // stop when rr < reliable_factor * largest_rr; 0 = never
    double relative_target; // stop (also) when relative < relative_target; 0 = not tested
    double relative;        // sum over sites |r_x|^2 / |x_x|^2 (scaled: see blas/relative_residual.cu)
    int iterations, iteration_limit;
    double step_alpha[cg_kept_steps], step_beta[cg_kept_steps]; // of iteration k at k mod length
    float history[cg_history_length]; // sqrt(rr) of the last iterations, iteration k at k mod length

    // After every iteration: rr_new becomes rr, and the one place where an iteration is judged. Every test is false for
    // NaN, and NaN is asked for first, so NaN never passes as convergence.
    MILCGPU_HD void advance() {
        history[iterations % cg_history_length] = static_cast<float>(sqrt(rr_new));
        step_alpha[iterations % cg_kept_steps] = alpha;
        step_beta[iterations % cg_kept_steps] = rr_new / rr;
        ++iterations;
        rr = rr_new;
        pp = pp_new;
        largest_rr = fmax(largest_rr, rr);
        if (curvature <= 0.0)
            stop = CgStop::not_positive;
        else if (!(rr < INFINITY) || !(pp < INFINITY) || !(alpha < INFINITY))
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
