// BiCGstab for M x = b, M any LinearOperator (solver/linear_operator.h). It applies M itself. Conjugate gradient
// would apply M^dag M, whose condition number is the square. Passes and scalars: algebra/bicgstab_steps.h.
//
// One precision or two. The sloppy precision iterates from r = b - M x and sums the change of x in a separate vector,
// the gain. When its residual has fallen by reliable_delta, a reliable update follows (Sleijpen and van der Vorst,
// Computing 56 (1996) 141): the gain is added to x in double, and the residual is computed in double with the full
// operator. The iteration continues from that residual with the same direction and shadow residual. It restarts with a
// new shadow residual in two cases: the residual has changed by more than jump_limit at the update, or the method has
// broken down (<r0, M p>, <r0, r> or <M r, r> is zero).
//
// Steps to 1e-10 on a quenched 8^4 lattice, beta 5.9 (two sources), in double, single, half: kappa 0.155 129, 126, 131;
// 0.158 (near critical) 161, 186, 203; 0.16 (beyond) 193, 250, 305.
#pragma once
#include "gpu_kernels/algebra/bicgstab_steps.h"
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/linear_operator.h"
#include <memory>

namespace milcgpu {

using SharedMatrix = std::shared_ptr<const LinearOperator>;

struct BicgOperators {
    SharedMatrix full;   // for true residuals: vectors in double, links as handed over
    SharedMatrix sloppy; // for the iteration; may be `full`
};

class BicgstabSolver {
  public:
    BicgstabSolver(Device &, const BicgOperators &);

    const SpinorField &source() const { return b_; }   // double, to be filled before solve
    const SpinorField &solution() const { return x_; } // double: guess before, solution after

    // Fills solution(). Reads tolerance, max_iterations, max_restarts, reliable_delta and jump_limit of the limits;
    // only restarts because of max_iterations count for max_restarts. Throws Error(bad_argument) if one of the first
    // three is not positive, Error(nan_or_inf) for NaN or infinity in source or guess. The outcome of the iteration is
    // in the report's status: ok, not_converged, precision_floor, nan_or_inf. The solution is the one of the last true
    // residual. A step is two applications of M.
    CgReport solve(const CgLimits &, const CgProgress &);

    std::vector<Region> checked_regions() const; // the resident data of both operators

  private:
    bool load_source(double tolerance, CgReport &);
    double true_residual(); // |b - M x|^2; the residual itself stays in residual_
    // rr: |b - M x|^2.
    void start_afresh(double rr, const CgLimits &, CgReport &);
    void go_on_from_residual(double rr, const CgLimits &, CgReport &);
    void iterate(const CgProgress &, CgReport &);
    void step();
    bool ended(double rr, BicgStop, const ladder::Gain &, const CgLimits &, CgReport &) const;
    void count_work(CgReport &) const;
    double read(const double *device_value) const;

    Device &device_;
    BicgOperators of_;
    SpinorField b_, x_, residual_;          // double
    SpinorField r_, r0_, p_, v_, t_, gain_; // of the iteration
    SpinorField fresh_;                     // a true residual in the precision of the iteration
    BicgVectors vectors_;
    DeviceArray<BicgState> state_;
    DeviceArray<double> sum_;
    std::unique_ptr<ChunkLoop> loop_;
    BicgState last_{}; // where the iteration ended
    int steps_before_ = 0;
    double source_rr_ = 0;
    ladder::Unit unit_; // of the sloppy system
};

} // namespace milcgpu
