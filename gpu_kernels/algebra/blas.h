// Vector steps of the solvers, each one fused pass over the sites of a parity. Bytes a site are in units of one stored
// spinor (48 double, 24 single, 16 half). Sums are deterministic and stay on the device; see launch.h.
#pragma once
#include "gpu_kernels/algebra/cg_state.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/halo/send_out.h"

namespace milcgpu {

class Geometry;

// y = scale * x, between any two precisions; *sum (device, may be nullptr) = |y|^2 before y is rounded. 2 spinors.
void convert_spinor(Device &, const SpinorBlock &x, const SpinorBlock &y, double scale, double *sum);

// *sum = |x|^2 (device). 1 spinor.
void norm_squared(Device &, const SpinorBlock &x, double *sum);

// y = sum over the sources k of x of weights[k] (device) times source k, in double. Reads a spinor for each source and
// writes one; 12 flops a source.
void weighted_sum(Device &, const SpinorBlock &x, const double *weights, const SpinorBlock &y);

// y = scale (a x - y), in double; x and y of one precision. 3 spinors.
void scaled_difference(Device &, double scale, double a, const SpinorBlock &x, const SpinorBlock &y);

// Checkerboard index of the first site of x with NaN or infinity, -1 if there is none. 1 spinor.
long long first_not_finite(Device &, const SpinorBlock &x);

// Throws Error(nan_or_inf) that names `what` and the first site of x, which lives on `parity`, with NaN or infinity.
void require_finite(Device &, const SpinorBlock &x, const Geometry &, int parity, const char *what);

// Returns whether the source b, with bb = |b|^2, is not zero. Throws Error(nan_or_inf) if bb is infinite or NaN, or if
// the target tolerance^2 bb is too small for double precision. scratch: a field of the same kind, overwritten if bb is
// 0. sum: one number (device).
bool is_there(Device &, double bb, const SpinorBlock &b, const Geometry &, int parity, double tolerance,
              const SpinorBlock &scratch, double *sum);

// The largest power of two below the root mean square of a field. In units of it, vectors are of order 1.
inline double unit_of(double norm_squared, double sites) {
    return std::ldexp(1.0, std::ilogb(std::sqrt(norm_squared / sites)));
}

// A direction of conjugate gradient: p in double, and a copy in the precision of the residuals for the operator (no
// copy if that is double). p and x need double precision: on light masses p is much longer than r, and x is a sum over
// many steps.
struct Direction {
    SpinorBlock p, copy;
};

// Start of conjugate gradient: p = r; the state starts with |r|^2. p.p may be empty. 2 spinors, and one in double.
void cg_start(Device &, const SpinorBlock &r, const Direction &p, CgState *state);

// Updates direction and solution for the last `steps` iterations: x += scale alpha p, p = r + beta p for each of them.
// There is one source, or several, each with its own conjugate gradient. r[k] is the residual after iteration k of
// every cg_kept_steps. p and x are in double; copy is empty if r is in double. Sources that are not active do not
// change. With `stopped`, only sources that are not active are updated, for the iterations since their last update.
// send: for one source only; sends p to the neighbours, because the next launch applies the operator to it. Bytes a
// site and source: a spinor for each iteration and for the copy of p, and 4 in double.
struct SolutionVectors {
    SpinorBlock r[cg_kept_steps], p, copy, x;
};
void update_solutions(Device &, const SolutionVectors &, const CgState *states, int steps, bool stopped,
                      const SendOut &send = {});

// For one iteration and site, if cg_kept_steps are done at once.
constexpr double update_solutions_flops = 24;
constexpr double update_solutions_bytes(Precision residuals) {
    const double copies = residuals == Precision::double_ ? 0 : 1;
    return spinor_bytes(residuals) * (1 + copies / cg_kept_steps) +
           4.0 * spinor_bytes(Precision::double_) / cg_kept_steps;
}

// Reliable update (Sleijpen and van der Vorst, Computing 56 (1996) 141): r_new is the residual recomputed in higher
// precision, r that of the recursion. The direction is kept, with two corrections: p += r_new - r, and then p -= c
// r_new with c such that <r_new, p> = |r_new|^2, which the formula of the step length assumes. Copies r_new to `start`.
// Sets rr, pp, jump and active of the state. Called once in hundreds of iterations.
void cg_reliable_update(Device &, const SpinorBlock &r_new, const SpinorBlock &r, const SpinorBlock &start,
                        const Direction &p, CgState *state);

// Relative ("Fermilab") residual as MILC defines it: *sum (device, may be nullptr) = sum over sites |r_x|^2 / |x_x|^2,
// where a site with |x_x| = 0 counts 1. The relative residual is sqrt(2 sum / volume). x in double. With a state,
// during a solve: the residual is scale * r, state->relative is set, and the iteration is judged. 2 spinors.
void relative_residual(Device &, const SpinorBlock &r, const SpinorBlock &x, double *sum, CgState *state,
                       double volume);
// As above for fields of several components, in double.
void relative_residual_of_sites(Device &, const SpinorBlock &r, const SpinorBlock &x, double *sum);

} // namespace milcgpu
