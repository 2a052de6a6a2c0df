// BiCGstab (van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631) for M x = b: its scalars, which stay on the device
// as in conjugate gradient (cg_state.h), and its passes over vectors. r0 is the shadow residual.
//
//   launch                            reads, writes (vectors)        sums
//   v = M p                           the operator's, and r0         <r0, v>: alpha = rho / <r0, v>
//   r -= alpha v                      r v, r                         |r|^2
//   t = M r                           the operator's                 <r, t>, |t|^2: omega = <t, r> / |t|^2
//   x += alpha p + omega r,
//   r -= omega t                      x p r t r0, x r                |r|^2, rho' = <r0, r>: beta, judged
//   p = r + beta (p - omega v)        r p v, p                       -
//
// beta = (rho' / rho) (alpha / omega). The passes read and write 14 vectors, besides those of the operator. All are in
// the precision that iterates. x here is the change of the solution since the last true residual; it is in single if
// the precision is half.
//
// If t and r are nearly orthogonal (the cosine c of their angle is below 0.7), omega is multiplied by 0.7 / c. Without
// that, rho' would be mostly rounding errors (Sleijpen and van der Vorst, Numer. Algorithms 10 (1995) 203). Example, a
// quenched 8^4 lattice near its critical kappa, two sources: 193 steps in double instead of 408 and 908; in single 250
// steps instead of no convergence.
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/su3.h"
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

enum class BicgStop { running, target, reliable_update, iteration_limit, nan_or_inf, breakdown };

constexpr double least_cosine = 0.7; // of the angle between t and r; see above

struct BicgState {
    int active; // 0: the launches still queued do nothing
    BicgStop stop;
    double shadow[3], stable[3]; // Re <r0, v>, Im <r0, v>, |v|^2; and Re <r, t>, Im <r, t>, |t|^2
    Complex<double> rho;         // <r0, r>
    Complex<double> rho_before;  // rho of the iteration before
    Complex<double> alpha, omega, beta;
    double rr, r0r0, ss;    // |r|^2, |r0|^2, |r - alpha v|^2
    double largest_rr;      // since the last true residual
    double jump;            // |r_new - r|^2 at the last true residual
    double target_rr;       // stop when rr < target_rr
    double reliable_factor; // stop when rr < reliable_factor * largest_rr; 0 = never
    double lost;            // breakdown if |rho|^2 is below this times |r0|^2 |r|^2, because rho is then rounding error
    int iterations, iteration_limit;

    static MILCGPU_HD Complex<double> quotient(Complex<double> a, Complex<double> b) {
        const double size = norm(b);
        return size == 0 ? Complex<double>{0, 0} : (1 / size) * (a * conj(b));
    }
    // alpha and omega of this iteration, from its sums. They are 0 if the method breaks down; then x and r do not
    // change.
    MILCGPU_HD Complex<double> next_alpha() const { return quotient(rho, {shadow[0], shadow[1]}); }
    MILCGPU_HD Complex<double> next_omega() const {
        const Complex<double> product = {stable[0], -stable[1]};
        const double size = norm(product), all = stable[2] * ss; // size / all is the squared cosine
        if (size == 0)
            return {0, 0};
        const double longer = size < least_cosine * least_cosine * all ? least_cosine * sqrt(all / size) : 1;
        return (longer / stable[2]) * product;
    }

    // At a start, with r = r0 = p.
    MILCGPU_HD void start(double rr_of_start) {
        rr = largest_rr = r0r0 = rr_of_start;
        rho = {rr_of_start, 0};
        stop = BicgStop::running;
        active = 1;
    }
    // At the end of an iteration.
    MILCGPU_HD void record(double new_rr, Complex<double> new_rho) {
        alpha = next_alpha();
        omega = next_omega();
        rho_before = rho;
        ++iterations;
        take_residual(new_rr, new_rho);
        check_convergence();
    }
    // Replaces the residual of the recursion by a true residual. by: |r_new - r|^2.
    MILCGPU_HD void replace(double new_rr, Complex<double> new_rho, double by) {
        jump = by;
        largest_rr = 0;
        take_residual(new_rr, new_rho);
        stop = BicgStop::running;
        active = 1;
    }

  private:
    MILCGPU_HD void take_residual(double new_rr, Complex<double> new_rho) {
        rr = new_rr;
        largest_rr = fmax(largest_rr, rr);
        rho = new_rho;
        beta = quotient(rho, rho_before) * quotient(alpha, omega);
    }
    // NaN is tested for first, and every later test is false for NaN. So NaN never counts as convergence.
    MILCGPU_HD void check_convergence() {
        if (!(rr < INFINITY) || !(norm(beta) < INFINITY) || !(norm(alpha) < INFINITY) || !(norm(omega) < INFINITY))
            stop = BicgStop::nan_or_inf;
        else if (rr < target_rr)
            stop = BicgStop::target;
        else if (norm(alpha) == 0 || norm(omega) == 0 || norm(rho) <= lost * r0r0 * rr)
            stop = BicgStop::breakdown;
        else if (rr < reliable_factor * largest_rr)
            stop = BicgStop::reliable_update;
        else if (iterations >= iteration_limit)
            stop = BicgStop::iteration_limit;
        active = stop == BicgStop::running;
    }
};

constexpr Precision bicgstab_gain_precision(Precision p) { return p == Precision::half ? Precision::single : p; }

struct BicgVectors {
    SpinorBlock r, r0, p, v, t;
    SpinorBlock gain; // x above
};

// r0 = p = r, and the state begins with |r|^2. 3 vectors.
void bicgstab_start(Device &, const BicgVectors &, BicgState *);
// The three passes of the table.
void bicgstab_half_step(Device &, const BicgVectors &, BicgState *);
void bicgstab_step(Device &, const BicgVectors &, BicgState *);
void bicgstab_direction(Device &, const BicgVectors &, const BicgState *);
// Replaces r by the true residual r_new, and computes the next direction. Sets rr, rho, beta, jump and active of the
// state. 4 vectors, and those of bicgstab_direction.
void bicgstab_replace(Device &, const SpinorBlock &r_new, const BicgVectors &, BicgState *);
// x += scale gain, gain = 0; x in double. 2 vectors, and 2 in double.
void bicgstab_collect(Device &, double scale, const SpinorBlock &gain, const SpinorBlock &x);

// Flops and bytes of the three passes of one iteration, for each colour vector.
constexpr double bicgstab_flops = (24 + 12) + (72 + 12 + 24) + 48;
constexpr double bicgstab_bytes(Precision p) {
    return 12.0 * spinor_bytes(p) + 2.0 * spinor_bytes(bicgstab_gain_precision(p));
}

} // namespace milcgpu
