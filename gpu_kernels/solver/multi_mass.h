// Multi-mass conjugate gradient: (offset_i + B^dag B) x_i = b for all i from zero guesses in one Krylov space
// (blas/shifts.h), then every x_i brought to its own tolerance from its own true residual, where it is not there yet.
//
// The shared iteration may go down in precision as the residual falls: an operator that is off by delta moves the
// residuals by delta times the direction, which shrinks with them. So it starts in double and runs on in single and
// half for the last decades, and the shifts stay collinear to their tolerance (inexact Krylov methods: van den Eshof
// and Sleijpen, SIAM J. Matrix Anal. Appl. 26 (2004) 125). Solutions are kept in double throughout. An iteration that
// starts in single or half leaves the shifts at what that resolves, so it goes no further than shared_tolerance.
//
// Refinement (multi_mass_refine.cpp) takes the shifts together: A_i d_i = b - A_i x_i in single precision for all that
// are not done, links loaded once for four of them; then true residuals again. Shifts that this does not settle go
// through conjugate gradient (cg.h) one by one.
#pragma once
#include "gpu_kernels/blas/shifts.h"
#include "gpu_kernels/solver/cg.h"

namespace milcgpu {

struct ShiftLimits {
    double offset;             // > 0
    double tolerance;          // of |b - A_i x_i| / |b|; 0 = not tested
    double relative_tolerance; // of MILC's relative residual; 0 = not tested
};

struct MultiMassLimits {
    std::vector<ShiftLimits> shifts;   // in any order
    int max_iterations = 1000;         // of the shared iteration, and between restarts of each refinement
    int max_restarts = 5;              // of each refinement; 0: no refinement. None either after max_iterations
    double leave_tolerance = INFINITY; // a shift stays in the shared iteration until its residual is below this, too
    double shared_tolerance = 0; // where the shared iteration ends, for tolerances below it; 0: as the tolerances say

    // What ends the shared iteration for a shift, and for all of them.
    double end_of(const ShiftLimits &shift) const {
        return std::fmax(shift.tolerance > 0 ? shift.tolerance : shift.relative_tolerance, shared_tolerance);
    }
};

struct ShiftReport {
    CgReport cg;          // status, true and relative residual; iterations of the refinement
    int shared_steps = 0; // until the shift left the shared iteration
};

struct MultiMassReport {
    Status status = Status::ok; // the worst of the shifts'
    int steps = 0;              // of the shared iteration
    int iterations = 0;         // as MILC counts the shared iteration: steps + 1
    double source_norm = 0, seconds = 0, shared_seconds = 0;
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::vector<ShiftReport> shifts;
    std::string message;
};

class MultiMassSolver {
  public:
    // stages: the operator in the precisions of the shared iteration, coarser and coarser. full: that true residuals
    // are computed with. single: for the refinement together; empty: there is none. refiner: a solver of the same
    // parity and full operator; it must outlive this one.
    MultiMassSolver(Device &, const std::vector<Operator> &stages, const Operator &full, const Operator &single,
                    int shifts, CgSolver &refiner);

    const SpinorField &source() const { return refiner_.source(); } // double, to be filled before solve
    SpinorBlock solution(int shift) const { return x_[shift]; }     // double

    MultiMassReport solve(const MultiMassLimits &, const CgProgress &);
    int shifts() const { return x_.sources(); }
    std::vector<Region> stands_on(bool residual_alone) const; // as CgSolver's

    // Bytes that a solver of these stages allocates, its refiner not included.
    static size_t workspace_bytes(const Geometry &, const std::vector<OperatorSpec> &stages, int shifts,
                                  bool refines_together);

  private:
    // One precision of the shared iteration: its vectors and its recorded launches.
    struct Stage {
        Operator A;
        SpinorField p;                   // a source a shift
        SpinorField r;                   // cg_kept_steps of them
        SpinorField s, between;          // s: A times the direction of the base
        std::unique_ptr<ChunkLoop> loop; // cg_kept_steps iterations and the update of the shifts
        double loop_scale = 0;           // that it was recorded with
        int loop_base = 0;
    };
    // The refinement together: each field has a source a shift.
    struct Batch {
        SpinorField r[cg_kept_steps], s, between, copy;
        SpinorField own_p; // where the shared iteration's is not in double
        SpinorBlock p;
        DeviceArray<CgState> states;
        std::unique_ptr<ChunkLoop> loop;
    };
    void step(Stage &, int k);
    ChunkLoop &chunks(Stage &);
    bool start(MultiMassReport &);
    CgStop iterate(const CgProgress &, MultiMassReport &);
    CgStop iterate_stage(Stage &, double leave_at, const CgProgress &, MultiMassReport &);
    void go_down(const Stage &from, Stage &to);
    void add_work(const NormalOperator &, double steps, MultiMassReport &) const;
    void add_work_of_shifts(MultiMassReport &) const;

    double true_residual(int shift); // |b - A x|^2 of solution(shift); the residual itself stays in residual_
    void make_batch();
    int open_batch(std::vector<bool> &settled, MultiMassReport &);
    void run_batch(const CgProgress &, MultiMassReport &);
    void bring_up_batch(bool stopped);
    void refine_together(std::vector<bool> &settled, const CgProgress &, MultiMassReport &);
    void refine(int shift, const CgProgress &, MultiMassReport &);

    Device &device_;
    Operator full_, single_;
    CgSolver &refiner_;
    SpinorField x_; // double, a source a shift
    std::vector<Stage> stages_;
    DeviceArray<CgState> state_;
    DeferredSums deferred_;
    DeviceArray<ShiftState> shift_state_;
    std::unique_ptr<Batch> batch_;
    SpinorField residual_, full_between_; // double
    DeviceArray<double> sum_;
    MultiMassLimits limits_;
    int base_ = 0; // the shift with the smallest offset
    double scale_ = 1;
};

} // namespace milcgpu
