// BiCGstab for M x = b, M any LinearOperator (solver/linear_operator.h). It works with M itself. Conjugate gradient
// would need M^dag M, whose condition number is the square. Passes and scalars: algebra/bicgstab_steps.h.
//
// One precision or two. The sloppy precision iterates from r = b - M x. It sums up the change of x in a vector of its
// own, the gain. When its residual has fallen by reliable_delta, a reliable update follows (Sleijpen and van der Vorst,
// Computing 56 (1996) 141): the gain is added to x in double, and the residual is computed in double with the full
// operator. The iteration goes on from that residual with the same direction and shadow residual. It starts again, with
// a new shadow residual, in two cases: the residual has changed by more than jump_limit at the update, or the method
// has broken down (<r0, M p>, <r0, r> or <M r, r> is zero).
//
// Steps to 1e-10 on a quenched 8^4 lattice, beta 5.9 (two sources), in double, single, half: kappa 0.155 129, 126, 131;
// 0.158 (near critical) 161, 186, 203; 0.16 (beyond) 193, 250, 305.
#pragma once
#include "gpu_kernels/algebra/bicgstab_steps.h"
#include "gpu_kernels/solver/chunk_loop.h"
#include "gpu_kernels/solver/linear_operator.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <functional>
#include <memory>

namespace milcgpu {

using SharedMatrix = std::shared_ptr<const LinearOperator>;

struct BicgLimits {
    double tolerance = 0;      // stop when |b - M x| / |b| < tolerance
    int max_iterations = 1000; // until the next restart
    int max_restarts = 5;      // because of max_iterations; restarts for other reasons are not limited
    double reliable_delta = 0; // how far the sloppy residual falls between true ones; 0: ladder::reliable_delta
    double jump_limit = 0.5;   // of |r_new - r| / |r_new| at an evaluation
};

struct BicgReport {
    Status status = Status::ok;
    int steps = 0;            // iterations: two applications of M each
    int restarts = 0;         // starts with a new shadow residual, the first one included
    int reliable_updates = 0; // true residuals after which the direction was kept
    int breakdowns = 0;       // restarts that a breakdown forced
    bool broke_down = false;  // the solve ended by them
    double source_norm = 0;   // |b|
    double true_residual = 0; // |b - M x| / |b| in double, by the full operator
    double recursion_residual = 0;
    double largest_jump = 0;     // of the residual at an evaluation, relative to the residual
    double seconds = 0;          // of the iterations, residuals included
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::string message;         // empty when all is well
};

// step and |r|/|b| of the recursion; called a few times a second at most from the host's loop.
using BicgProgress = std::function<void(int step, double relative_residual)>;

struct BicgOperators {
    SharedMatrix full;   // that true residuals are computed with: vectors in double, links as handed over
    SharedMatrix sloppy; // that iterates; may be `full`
};

class BicgstabSolver {
  public:
    BicgstabSolver(Device &, const BicgOperators &);

    const SpinorField &source() const { return b_; }   // double, to be filled before solve
    const SpinorField &solution() const { return x_; } // double: guess before, solution after

    // Fills solution(). Throws Error(bad_argument) where a limit makes no sense, Error(nan_or_inf) for NaN or infinity
    // in source or guess. The outcome of the iteration is in the report's status: ok, not_converged, precision_floor,
    // nan_or_inf; the solution is then that of the last evaluation of the residual.
    BicgReport solve(const BicgLimits &, const BicgProgress &progress);

    std::vector<Region> checked_regions() const; // the resident data of both operators

    // Bytes that a solver allocates.
    static size_t workspace_bytes(const Geometry &, Precision sloppy, int components);

  private:
    bool load_source(double tolerance, BicgReport &);
    double true_residual(); // |b - M x|^2; the residual itself stays in residual_
    // rr: |b - M x|^2.
    void start_afresh(double rr, const BicgLimits &, BicgReport &);
    void go_on_from_residual(double rr, const BicgLimits &, BicgReport &);
    void iterate(const BicgProgress &, BicgReport &);
    void step();
    bool ended(double rr, BicgStop, const ladder::Gain &, const BicgLimits &, BicgReport &) const;
    void count_work(BicgReport &) const;
    double read(const double *device_value) const;

    Device &device_;
    BicgOperators of_;
    SpinorField b_, x_, residual_;          // double
    SpinorField r_, r0_, p_, v_, t_, gain_; // of the iteration
    SpinorField fresh_;                     // a true residual in its precision
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
