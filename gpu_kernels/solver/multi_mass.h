// Multi-mass conjugate gradient: (offset_i - D D) x_i = b for all i from zero guesses in one Krylov space
// (blas/shifts.h), then every x_i brought to its own tolerance from its own true residual, where it is not there yet.
//
// The shared iteration may go down in precision as the residual falls: an operator that is off by delta moves the
// residuals by delta times the direction, which shrinks with them. So it starts in double and runs on in single and
// half for the last decades, and the shifts stay collinear to their tolerance (inexact Krylov methods: van den Eshof
// and Sleijpen, SIAM J. Matrix Anal. Appl. 26 (2004) 125). Solutions are kept in double throughout. An iteration that
// starts in single or half leaves the shifts at what that resolves, so it goes no further than shared_tolerance.
//
// Refinement takes the shifts together: A_i d_i = b - A_i x_i in single precision for all that are not done, links
// loaded once for four of them; then true residuals again. Shifts that this does not settle go through conjugate
// gradient (cg.h) one by one.
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
    // stages: the precisions of the shared iteration, coarser and coarser. full: the links that true residuals are
    // computed with. single: for the refinement together; empty: there is none. refiner: a solver of the same parity
    // and full links. Link fields must outlive the solver.
    struct StageSpec {
        OperatorSpec spec;
        LinkPair links;
    };
    MultiMassSolver(Device &, const Lattice &, int parity, const std::vector<StageSpec> &stages, const LinkPair &full,
                    const LinkPair &single, int shifts, CgSolver &refiner);

    const SpinorField &source() const { return refiner_.source(); }    // double, to be filled before solve
    const SpinorField &solution(int shift) const { return x_[shift]; } // double

    MultiMassReport solve(const MultiMassLimits &, const CgProgress &);
    int shifts() const { return static_cast<int>(x_.size()); }

    // Bytes that a solver of these stages allocates, its refiner not included.
    static size_t workspace_bytes(int sites, const std::vector<OperatorSpec> &stages, int shifts,
                                  bool refines_together);

  private:
    // One precision of the shared iteration: its vectors and its recorded launches.
    struct Stage {
        OperatorSpec spec;
        LinkPair links;
        std::vector<SpinorField> p;                   // one a shift
        SpinorField r[cg_kept_steps], image, between; // image: A times the direction of the base
        std::unique_ptr<Device::Sequence> block;      // cg_kept_steps iterations and the update of the shifts
        double block_scale = 0;                       // that it was recorded with
        int block_base = 0;
    };
    void step(Stage &, int k);
    bool start(MultiMassReport &);
    CgStop iterate(const CgProgress &, MultiMassReport &);
    CgStop iterate_stage(Stage &, double leave_at, const CgProgress &, MultiMassReport &);
    void go_down(const Stage &from, Stage &to);
    void add_work(const OperatorSpec &, double steps, MultiMassReport &) const;
    double true_residual(int shift); // |b - A x|^2 of solution(shift); the residual itself stays in residual_
    int open_batch(std::vector<bool> &settled, MultiMassReport &);
    void run_batch(const CgProgress &, MultiMassReport &);
    void update_batch(bool stopped);
    void refine_together(std::vector<bool> &settled, const CgProgress &, MultiMassReport &);
    void refine(int shift, const CgProgress &, MultiMassReport &);

    Device &device_;
    Lattice lattice_;
    int parity_;
    LinkPair full_, single_;
    CgSolver &refiner_;
    std::vector<SpinorField> x_; // one a shift
    std::vector<Stage> stages_;
    DeviceArray<CgState> state_;
    CgSums pending_sums_;
    DeviceArray<ShiftState> shift_state_;
    struct Seen {
        CgState base;
        ShiftState shifts;
    };
    std::unique_ptr<Seen, std::function<void(Seen *)>> seen_; // two pinned copies
    // The refinement together: one of each field a shift.
    struct Batch {
        std::vector<SpinorField> r[cg_kept_steps], image, between, copy, own_p;
        const SpinorField *p;
        DeviceArray<CgState> states;
        std::unique_ptr<CgState, std::function<void(CgState *)>> seen; // pinned, two copies of all
        std::unique_ptr<Device::Sequence> chunk;
    };
    std::unique_ptr<Batch> batch_;
    SpinorField residual_, full_between_; // double
    DeviceArray<double> sum_;
    MultiMassLimits limits_;
    int base_ = 0; // the shift with the smallest offset
    double scale_ = 1;
};

} // namespace milcgpu
