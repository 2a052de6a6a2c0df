// Multi-mass conjugate gradient: (offset_i + B^dag B) x_i = b for all i. First comes a shared iteration: all x_i from
// zero guesses in one Krylov space (algebra/shifts.h). Then every x_i whose true residual is still above its tolerance
// is refined.
//
// The shared iteration may go down in precision as the residual falls. An error delta of the operator changes the
// residuals by delta times the direction, and the direction shrinks with the residuals. So the iteration starts in
// double (in single or half if all tolerances are loose: ladder::starts_in) and ends in single and half, and the
// residuals of the shifts stay parallel to within their tolerance (inexact Krylov methods: van den Eshof and Sleijpen,
// SIAM J. Matrix Anal. Appl. 26 (2004) 125). Solutions are always in double. An iteration that starts in single or half
// cannot get below the rounding errors of that precision, so it ends at shared_tolerance.
//
// The refinement (multi_mass_refine.cpp) solves A_i d_i = b - A_i x_i in single precision, together for all shifts that
// are not done. Links are loaded once for four shifts. True residuals follow. Shifts that are still not done are solved
// by conjugate gradient (cg.h) one by one.
//
// The base of the shared iteration is the shift with the smallest offset. If the iteration of the base breaks down, the
// shared iteration begins again without this shift.
#pragma once
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/solver/cg.h"
#include <memory>

namespace milcgpu {

struct ShiftLimits {
    double offset;             // > 0
    double tolerance;          // of |b - A_i x_i| / |b|; 0 = not tested
    double relative_tolerance; // of MILC's relative residual; 0 = not tested
};

struct MultiMassLimits {
    std::vector<ShiftLimits> shifts;   // in any order
    int max_iterations = 1000;         // of the shared iteration, and between restarts of each refinement
    int max_restarts = 5;              // of each refinement; 0: no refinement; none after max_iterations either
    double leave_tolerance = INFINITY; // a shift does not leave the shared iteration above this
    double shared_tolerance = 0;       // replaces tolerances that are below it in the shared iteration; 0: none

    // A shift leaves the shared iteration at this residual. The iteration ends when all shifts have left.
    double end_of(const ShiftLimits &shift) const {
        return std::fmax(shift.tolerance > 0 ? shift.tolerance : shift.relative_tolerance, shared_tolerance);
    }
};

struct ShiftReport {
    CgReport cg;          // status, true and relative residual; iterations of the refinement
    int shared_steps = 0; // until the shift left the shared iteration
};

struct MultiMassReport {
    Status status = Status::ok; // of the first shift without a solution, else of the first that is not ok
    int steps = 0;              // of the shared iteration
    int iterations = 0;         // as MILC counts the shared iteration: steps + 1
    double source_norm = 0, seconds = 0, shared_seconds = 0;
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::vector<ShiftReport> shifts;
    std::string message;
};

class MultiMassSolver {
  public:
    // stages: the operator in the precisions of the shared iteration, the finest first. full: the operator of true
    // residuals. single: the operator that refines several shifts together; empty: shifts are refined one by one.
    // refiner: the solver for one shift; it has the same parity and full operator, and must outlive this object.
    MultiMassSolver(Device &, const std::vector<Operator> &stages, const Operator &full, const Operator &single,
                    int shifts, CgSolver &refiner);

    const SpinorField &source() const { return refiner_.source(); } // double, to be filled before solve
    SpinorBlock solution(int shift) const { return x_[shift]; }     // double

    MultiMassReport solve(const MultiMassLimits &, const CgProgress &);
    int shifts() const { return x_.sources(); }
    std::vector<Region> checked_regions(bool residual_alone) const; // as CgSolver's

    // Allocates what the refinement of several shifts together needs.
    void allocate_refinement();

  private:
    // A precision of the shared iteration: its vectors and its recorded launches.
    struct Stage {
        Operator A;
        SpinorField p;                   // for each shift
        SpinorField r;                   // of the last cg_kept_steps iterations
        SpinorField s, between;          // s: A times the direction of the base
        std::unique_ptr<ChunkLoop> loop; // cg_kept_steps iterations and the update of the shifts
        double loop_scale = 0;           // scale and base that the loop was recorded with
        int loop_base = 0;
    };
    // The refinement of several shifts: each field has a vector for each shift.
    struct Batch {
        SpinorField r[cg_kept_steps], s, between, copy;
        SpinorField own_p;        // only if p of the shared iteration is not in double
        SpinorBlock p;            // first the true residuals, in double
        SpinorField full_between; // of residuals_together shifts
        DeviceArray<double> sums; // as many
        DeviceArray<CgState> states;
        std::vector<int> sizes; // chunk k works on the first sizes[k] shifts: all of them, half as many, ..., two
        std::unique_ptr<ChunkLoop> loop;
    };
    void step(Stage &, int k);
    ChunkLoop &chunks(Stage &);
    bool choose_base();
    double tightest() const; // the residual at which the last shift leaves
    bool start(MultiMassReport &);
    CgStop iterate(const CgProgress &, MultiMassReport &);
    CgStop iterate_stage(Stage &, double leave_at, const CgProgress &, MultiMassReport &);
    void go_down(const Stage &from, Stage &to);
    void add_work(const NormalOperator &, double steps, MultiMassReport &) const;
    void add_work_of_shifts(MultiMassReport &) const;

    std::vector<double> true_residuals(int first, int count); // |b - A x|^2; the residuals stay in batch_->p
    std::unique_ptr<Batch> make_batch() const;
    int open_batch(std::vector<bool> &settled, MultiMassReport &);
    void run_batch(const CgProgress &, MultiMassReport &);
    void bring_up_batch(int count, bool stopped);
    void refine_together(std::vector<bool> &settled, const CgProgress &, MultiMassReport &);
    void refine(int shift, const CgProgress &, MultiMassReport &);

    Device &device_;
    Operator full_, single_;
    CgSolver &refiner_;
    SpinorField x_; // double, for each shift
    std::vector<Stage> stages_;
    DeviceArray<CgState> state_;
    DeferredSums deferred_;
    DeviceArray<ShiftState> shift_state_;
    std::unique_ptr<Batch> batch_;
    DeviceArray<double> sum_;
    MultiMassLimits limits_;
    std::vector<bool> lost_; // shifts that the shared iteration goes on without
    int base_ = 0;           // of the other shifts, the one with the smallest offset
    size_t first_ = 0;       // the stage that this solve starts in
    double scale_ = 1;
};

} // namespace milcgpu
