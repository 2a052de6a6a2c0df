// Conjugate gradient for A x = b, A = shift +- B^dag B (operators/normal_operator.h), in one precision or two.
//
// Two launches an iteration, the two halves of A. docs/cg.md gives the scheme in symbols: seven iterations of eight
// apply A to the residual and carry s = A p by recursion, the eighth brings p and x up for all of them, in double, and
// the next starts from p. Sums are finished by the launch that follows.
//
// Two precisions: iterate in the sloppy one; when its residual has fallen by reliable_delta, recompute it in the
// precise one, and go on with a search direction corrected for the jump (reliable update, blas.h). Which precision
// iterates when: precision_ladder.h.
#pragma once
#include "gpu_kernels/operators/normal_operator.h"
#include "gpu_kernels/solver/chunk_loop.h"

namespace milcgpu {

using Operator = std::shared_ptr<const NormalOperator>;

// An iteration: v is p or r (p where they differ), r_new may be r.
//   B v                                2 spinors, and the links    <p, A p>, alpha
//   s = A v (+ beta s), r -= alpha s   5 spinors, and the links    |r|^2, beta; judged
struct CgIteration {
    const NormalOperator *A;
    SpinorBlock v, r, r_new, s, between;
    bool judge = true; // false where relative_residual does it
    CgState *state;
    const DeferredSums *sums; // nullptr: each launch finishes its own
    // With sums: the iteration before has deferred its last sum, and nothing came in between; the same holds for this
    // one and the next.
    bool pending, defer;
    bool sent = false; // the neighbours have been sent v (NormalOperator::send)
};
void iterate(Device &, const CgIteration &);

struct CgLimits {
    double shift;                  // of A
    double tolerance = 0;          // stop when |r| / |b| < tolerance; 0 = not tested
    double relative_tolerance = 0; // and when the relative residual < relative_tolerance; 0 = not tested
    int max_iterations = 1000;     // between restarts
    int max_restarts = 5;
    double reliable_delta = 0;     // fall of the sloppy residual between evaluations; 0: ladder::reliable_delta
    double jump_limit = 0;         // of |r_new - r| / |r_new| at a reliable update, for half precision; 0: the ladder's
    uint64_t *checksums = nullptr; // room for NormalOperator::most_checksums on the device; see stands_on
};

struct CgReport {
    Status status = Status::ok;
    int iterations = 0; // as MILC counts: CG steps + evaluations of the true residual at (re)starts
    int steps = 0;      // CG steps
    int restarts = 0;   // (re)starts with a fresh direction, the first one included
    int reliable_updates = 0;
    int steps_in_precise = 0;     // before going down to single, on very light masses
    int steps_in_half = 0;        // before the change to single precision, where the sloppy precision is half
    double source_norm = 0;       // |b|
    double true_residual = 0;     // |b - A x| / |b| in double, from the links as handed over
    double relative_residual = 0; // MILC's relative residual of x, evaluated likewise
    bool checked_links = false;   // limits.checksums are those of the links that the true residual was computed with
    double recursion_residual = 0;
    double largest_jump = 0;     // of the residual at a reliable update, relative to the residual
    double seconds = 0;          // of the iterations, residuals included
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::string message;         // empty when all is well
};

// step and |r|/|b| of the recursion; called a few times a second at most from the host's loop.
using CgProgress = std::function<void(int step, double relative_residual)>;

struct CgOperators {
    Operator precise, sloppy;
    Operator full; // that true residuals are computed with: vectors in double, links as handed over
    // What a solver in half precision changes to when that is not enough; asked for when first needed. May be empty.
    std::function<Operator()> finer;
};

class CgSolver {
  public:
    CgSolver(Device &, const CgOperators &);

    const SpinorField &source() const { return b_; }   // double, to be filled before solve
    const SpinorField &solution() const { return x_; } // double: guess before, solution after

    // Fills solution(). NaN or infinity in source or guess throws Error(nan_or_inf); the outcome of the iteration
    // itself is in the report's status.
    CgReport solve(const CgLimits &limits, const CgProgress &progress);

    // The resident data that the last solve stands on: all that it used, or what the true residual was computed with.
    std::vector<Region> stands_on(bool residual_alone) const;
    // What its report says that it stands on: where it did not converge, all that it used. With the checksums that the
    // true residual took on the way.
    std::vector<Region> stands_on(const CgReport &) const;

    // Bytes that a solver of these precisions allocates, with links as handed over in `full`; and those that a solve
    // adds where it gives up half precision or starts in the precise one.
    static size_t workspace_bytes(const Geometry &, const OperatorSpec &precise, const OperatorSpec &sloppy,
                                  Precision full, int components = 1);
    static size_t later_bytes(const Geometry &, const OperatorSpec &precise, const OperatorSpec &sloppy,
                              int components = 1);

  private:
    // Residuals with one operator.
    struct Level {
        Operator A;
        SpinorField between, residual;
    };
    // The precision that iterates: its vectors and its recorded launches.
    struct Sloppy {
        Operator A;
        SpinorField r;                      // cg_kept_steps of them
        SpinorField s, between;             // s: A times the direction
        SpinorField copy;                   // of the direction, where vectors are not double
        SpinorField fresh_residual;         // where there are reliable updates
        std::unique_ptr<ChunkLoop> loop[2]; // without and with the relative residual
        SpinorBlock before(int k) const { return r[(k + cg_kept_steps - 1) % cg_kept_steps]; }
        SpinorBlock start() const { return before(0); } // where the first iteration looks for the residual
    };
    struct Residual {
        double rr, relative;
        bool checked; // with checksums of the links
    };
    Level make_level(const Operator &) const;
    std::unique_ptr<Sloppy> make_sloppy(const Operator &) const;

    // The stretches of a solve.
    void start(double target, const CgReport &report);
    void start_afresh(CgReport &report);
    bool update_reliably(CgReport &report);
    CgStop iterate(const CgProgress &progress, CgReport &report);
    bool go_down(CgStop stop, const CgReport &report);

    // The parts of an iteration.
    void bring_up(int steps, bool stopped);
    ChunkLoop &chunks();
    Direction direction() const { return {direction_, sloppy_->copy}; }
    SpinorBlock direction_to_apply() const { return sloppy_->copy ? sloppy_->copy : direction_; }
    CgState begin_state(int iteration_limit, double target) const;
    void put(const CgState &state) { device_.copy_to_device(state_.data(), &state, sizeof state); }

    // Residuals and what follows from them.
    bool load_source(CgReport &report);
    Residual true_residual(Level &level, bool likely_the_last);
    bool accepted(const Residual &residual) const;
    bool ended(const Residual &residual, CgStop stop, int without_gain, CgReport &report) const;
    void finish(CgReport &report, const Residual *last_full);
    void count_work(CgReport &report) const;
    bool prepare_descent();
    void change_to_finer();

    double read(const double *device_value) const;
    double target_rr() const;
    int steps_left(const CgReport &report) const;
    bool pure() const { return precise_->A->spec() == sloppy_->A->spec(); }
    int most_iterations() const { return limits_.max_iterations * limits_.max_restarts; }

    Device &device_;
    std::function<Operator()> finer_;
    SpinorField b_, x_, direction_;        // double; the direction in the units of the sloppy system
    SpinorField precise_b_, precise_x_;    // where the precise vectors are not double; empty otherwise
    Level full_, lower_;                   // lower_: the precise level where it is not the full one
    Level *precise_;                       // &full_ or &lower_
    std::unique_ptr<Sloppy> given_, fine_; // fine_: in place of half, from the first time that it was needed
    std::unique_ptr<Sloppy> top_;          // in the precise precision, where a solve descends
    Sloppy *sloppy_;                       // the one that iterates
    Sloppy *below_ = nullptr;              // what top_ goes down to, while it iterates
    DeviceArray<CgState> state_;
    DeviceArray<double> sums_;
    DeferredSums deferred_;
    CgLimits limits_{};
    CgState last_{}; // where the iteration ended
    double source_rr_ = 0, scale_ = 1;
};

} // namespace milcgpu
