// Vector steps of the solvers, each one fused pass over the sites of a parity. Bytes a site are in units of one stored
// spinor (48 double, 24 single, 16 half). Sums are deterministic and stay on the device; see launch.h.
#pragma once
#include "gpu_kernels/blas/cg_state.h"
#include "gpu_kernels/su3/fields.h"

namespace milcgpu {

// y = scale * x, between any two precisions; *sum (device, may be nullptr) = |y|^2 before y is rounded. 2 spinors.
void convert_spinor(Device &, const SpinorField &x, const SpinorField &y, double scale, double *sum);

// y += scale * x, then x = 0, between any two precisions. 4 spinors.
void drain(Device &, const SpinorField &x, const SpinorField &y, double scale);

// *sum = |x|^2 (device). 1 spinor.
void norm_squared(Device &, const SpinorField &x, double *sum);

// Checkerboard index of the first site of x with NaN or infinity, -1 if there is none. 1 spinor.
long long first_not_finite(Device &, const SpinorField &x);

// Throws Error(nan_or_inf) that names `what` and the first site of x, which lives on `parity`, with NaN or infinity.
void require_finite(Device &, const SpinorField &x, int parity, const char *what);

// The power of two next below the root mean square of a field: in units of it, vectors are of order 1.
inline double unit_of(double norm_squared, int sites) {
    return std::ldexp(1.0, std::ilogb(std::sqrt(norm_squared / sites)));
}

// Start of conjugate gradient: p = r, x = 0 (x may be an empty field: then there is none), state->rr = state->pp =
// |r|^2, counters cleared, active. 3 spinors.
void cg_start(Device &, const SpinorField &r, const SpinorField &p, const SpinorField &x, CgState *state);

// End of an iteration: beta = rr_new / rr, x += alpha p, p = r + beta p, pp = |p|^2; then the iteration is judged
// (CgState::advance), unless `judge` is false because relative_residual follows. 5 spinors (x may be of higher
// precision, or empty: 3 spinors).
void cg_direction(Device &, const SpinorField &r, const SpinorField &p, const SpinorField &x, CgState *state,
                  bool judge);

// Reliable update (Sleijpen and van der Vorst, Computing 56 (1996) 141): r_new is the residual recomputed in higher
// precision. The search direction is kept: p += r_new - r, then p is made to satisfy <r, p> = |r|^2, which the step
// length assumes; r = r_new, x = 0. State: rr, pp, jump, active. 9 spinors, once in hundreds of iterations.
void cg_reliable_update(Device &, const SpinorField &r_new, const SpinorField &r, const SpinorField &p,
                        const SpinorField &x, CgState *state);

// Relative ("Fermilab") residual as MILC defines it: *sum (device, may be nullptr) = sum over sites |r_x|^2 / |x_x|^2,
// a site with |x_x| = 0 counting 1; the residual is sqrt(2 sum / volume). The solution is y. With a state, while a
// solve is under way: the solution is y + scale * x and the residual scale * r (x in the format that goes with r),
// state->relative is set and the iteration is judged. 2 or 3 spinors.
void relative_residual(Device &, const SpinorField &r, const SpinorField &x, const SpinorField &y, double *sum,
                       CgState *state, double volume);

// Precision of the partial solution that goes with vectors of a precision: sums need more than half holds.
constexpr Precision solution_precision(Precision vectors) {
    return vectors == Precision::half ? Precision::single : vectors;
}

} // namespace milcgpu
