// Shifted systems (A + sigma) x = b in the Krylov space of the base system A x = b: B. Jegerlehner, hep-lat/9612014.
// The residuals are parallel, r_sigma = zeta r, so a shift needs no operator of its own, only its vectors x and p.
//
// x and p are updated once in cg_kept_steps iterations, from the residuals of all these iterations. That moves 4
// spinors per shift once in cg_kept_steps iterations instead of in each. Solutions are in double, whatever the
// precision of the iteration.
#pragma once
#include "gpu_kernels/algebra/cg_state.h"
#include "gpu_kernels/fields/spinor_block.h"

namespace milcgpu {

constexpr int max_shifts = 32;

struct Shift {
    double sigma;                     // >= 0
    double target_rr;                 // the shift is done when zeta^2 |r|^2 < target_rr
    double zeta, ratio;               // ratio: zeta of this iteration over zeta of the previous one
    double alpha_before, beta_before; // of the base system, one iteration before
    int active;
    int done;    // iterations of the base system that zeta includes
    int steps;   // iterations until it was done
    int pending; // iterations that update_shifts must still do, at most cg_kept_steps, with
    double alpha[cg_kept_steps], residual[cg_kept_steps], beta[cg_kept_steps]; // x += alpha p, p = residual r + beta p

    MILCGPU_HD void advance(const CgState &base) {
        pending = 0;
        if (!active)
            return;
        for (; done < base.iterations; ++done, ++pending) {
            const double a = base.step_alpha[done % cg_kept_steps], b = base.step_beta[done % cg_kept_steps];
            ratio = 1 / (1 + sigma * a + a * beta_before / alpha_before * (1 - ratio));
            zeta *= ratio;
            alpha[pending] = a * ratio;
            residual[pending] = zeta;
            beta[pending] = b * ratio * ratio;
            alpha_before = a, beta_before = b;
        }
        steps = done;
        if (zeta * zeta * base.rr < target_rr)
            active = 0;
    }
};

struct ShiftState {
    int count;
    Shift shift[max_shifts];
};

// Advances the scalars of all shifts by the iterations of the base system since the last call.
void advance_shifts(Device &, const CgState *base, ShiftState *shifts);

// Updates the vectors, after advance_shifts. r[k] is the residual after the k-th pending iteration. x belongs to the
// caller's system: it is scale times the vector of the iteration. r and p have one precision; x is double.
struct ShiftVectors {
    SpinorBlock r;    // cg_kept_steps sources
    SpinorBlock p, x; // one source for each shift
};
void update_shifts(Device &, const ShiftVectors &, const ShiftState *shifts, double scale);

// r_k = b - (offset[k] x_k + r_k) for each source k of x and r, in double; b is one vector. sums[k] (device) = |r_k|^2,
// added up like the norm of one source. 4 spinors a source.
struct Offsets {
    double of[max_shifts];
};
void shifted_residuals(Device &, const SpinorBlock &b, const SpinorBlock &x, const Offsets &, const SpinorBlock &r,
                       double *sums);

} // namespace milcgpu
