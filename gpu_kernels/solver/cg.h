// Conjugate gradient for A x = b, A = shift +- B^dag B (solver/normal_operator.h), in one precision or two.
//
// Two launches an iteration, the two halves of A. docs/explanation.md has it in symbols. A is applied to p once in
// eight iterations, and to the residual in the seven others, where s = A p follows by recursion. After the eighth
// iteration p and x are updated for all eight in one pass, in double. The sums of a launch are finished by the next
// launch.
//
// Two precisions: the sloppy one iterates. When its residual has fallen by reliable_delta, the residual is recomputed
// in the precise one, and the direction is corrected for the difference (reliable update, blas.h). Which precision
// iterates when: precision_ladder.h.
#pragma once
#include "gpu_kernels/solver/chunk_loop.h"
#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <functional>
#include <memory>

namespace milcgpu {

class Deflation; // eigenvectors.h

// An iteration. A is applied to v, which is the direction p or the residual r. r_new may be the same field as r.
//   B v                                2 spinors, and the links    <p, A p>, alpha
//   s = A v (+ beta s), r -= alpha s   5 spinors, and the links    |r|^2, beta; judged
struct CgIteration {
    const NormalOperator *A;
    SpinorBlock v, r, r_new, s, between;
    bool check_convergence = true; // false if relative_residual judges the iteration
    CgState *state;
    const DeferredSums *sums; // nullptr: each launch finishes its own
    // With sums. pending: the iteration before has deferred its last sum, and no launch came in between. defer: this
    // iteration defers its last sum to the next one.
    bool pending, defer;
    bool sent = false; // the neighbours already have v (NormalOperator::send)
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
    uint64_t *checksums = nullptr; // room for NormalOperator::most_checksums on the device; see checked_regions
    // At each true residual that is not accepted, if ladder::vectors_serve. Its vectors are those of A at shift 0.
    Deflation *deflation = nullptr;
};

struct CgReport {
    Status status = Status::ok;
    int iterations = 0; // as MILC counts: CG steps + evaluations of the true residual at (re)starts
    int steps = 0;      // CG steps
    int restarts = 0;   // (re)starts with a fresh direction, the first one included
    int reliable_updates = 0;
    int deflations = 0;
    bool deflation_off = false;   // it did harm: the solve went on without
    int steps_in_precise = 0;     // in double, before the change to single, on very light masses
    int steps_in_half = 0;        // if the sloppy precision is half: before the change to single, if there was one
    double source_norm = 0;       // |b|
    double true_residual = 0;     // |b - A x| / |b| in double, from the links as handed over
    double relative_residual = 0; // MILC's relative residual of x, evaluated likewise
    bool broke_down = false;      // not_converged because BiCGstab broke down
    bool checked_links = false;   // limits.checksums are those of the links that the true residual was computed with
    double recursion_residual = 0;
    double largest_jump = 0;     // of the residual at a reliable update, relative to the residual
    double seconds = 0;          // of the iterations, residuals included
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::string message;         // empty when all is well
};

// Whether x holds a solution, or the best one so far.
inline bool is_answer(Status s) {
    return s == Status::ok || s == Status::not_converged || s == Status::precision_floor;
}
// Of two sources or masses: whether the status `second` is to be reported instead of `first`.
inline bool is_graver(Status second, Status first) {
    return is_answer(first) && (!is_answer(second) || (first == Status::ok && second != Status::ok));
}

// NaN or infinity in one source gives that source its status. The others go on.
template <class Work> void note_not_finite(CgReport &own, const Work &work) {
    try {
        work();
    } catch (const Error &error) {
        if (error.status() != Status::nan_or_inf)
            throw;
        own.status = error.status();
        own.message = error.what();
    }
}

// The message of a report with precision_floor or not_converged, with its residuals and the tolerances that the caller
// knows. precise: the precision of the solution.
std::string why_it_ended_early(const CgReport &, double tolerance, double relative_tolerance, Precision precise);

// step and |r|/|b| of the recursion; called a few times a second at most from the host's loop.
using CgProgress = std::function<void(int step, double relative_residual)>;

struct CgOperators {
    Operator precise, sloppy;
    Operator full; // for true residuals: vectors in double, links as handed over
    // Makes the operator to go on with if half precision is not enough. Called when it is first needed. May be empty.
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

    // The data on the device that the last solve depends on: all that it used, or (residual_alone) only those that the
    // true residual was computed with.
    std::vector<Region> checked_regions(bool residual_alone) const;
    // The same by the solve's report: if it converged, the data of the true residual, else all. Includes the checksums
    // that were taken while the true residual was computed.
    std::vector<Region> checked_regions(const CgReport &) const;

    // Bytes that a solver of these precisions allocates; `full` is the precision of the links as handed over.
    // later_bytes: what a solve adds if it gives up half precision or starts in double.
    static size_t workspace_bytes(const Geometry &, const OperatorSpec &precise, const OperatorSpec &sloppy,
                                  Precision full, int components = 1);
    static size_t later_bytes(const Geometry &, const OperatorSpec &precise, const OperatorSpec &sloppy,
                              int components = 1);

  private:
    static constexpr const char *owner = "conjugate gradient vectors";
    // What a residual with one operator needs.
    struct Level {
        Operator A;
        SpinorField between, residual;
    };
    // A precision that iterates: its vectors and its recorded launches.
    struct Sloppy {
        Operator A;
        SpinorField r;                      // of the last cg_kept_steps iterations
        SpinorField s, between;             // s: A times the direction
        SpinorField copy;                   // of the direction, where vectors are not double
        SpinorField fresh_residual;         // where there are reliable updates; else made for a deflation
        std::unique_ptr<ChunkLoop> loop[2]; // without and with the relative residual
        SpinorBlock before(int k) const { return r[(k + cg_kept_steps - 1) % cg_kept_steps]; }
        SpinorBlock start() const { return before(0); } // where the first iteration expects the residual
    };
    struct Residual {
        double rr, relative;
        bool checked; // with checksums of the links
        bool full;    // in double, from the links as handed over
    };
    Level make_level(const Operator &) const;
    std::unique_ptr<Sloppy> make_sloppy(const Operator &) const;

    // A solve is a row of stretches of iterations, with a true residual between them.
    void take(const CgLimits &limits);
    void start(double target, const CgReport &report);
    void start_afresh(double rr, CgReport &report); // rr: |b - A x|^2
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

    // Residuals, and decisions that are made from them.
    bool load_source(CgReport &report);
    Residual true_residual(Level &level, bool likely_the_last);
    Residual residual_after(CgStop stop, CgReport &report);
    bool accepted(const Residual &residual) const;
    Residual deflated(const Residual &before, CgReport &report);
    void go_on_without_deflation(CgReport &report);
    bool nothing_was_left() const;
    void note_breakdown(CgReport &report) const;
    bool ended(const Residual &residual, CgStop stop, CgReport &report) const;
    void finish(CgReport &report, const Residual *last_full);
    void count_work(CgReport &report) const;
    bool prepare_descent();
    bool half_is_hopeless() const;
    void change_to_finer();

    double read(const double *device_value) const;
    double target_rr() const;
    int steps_left(const CgReport &report) const;
    bool pure() const { return precise_->A->spec() == sloppy_->A->spec(); }
    bool has_updates() const { return !pure() || deflation_ != nullptr; }
    // Whether a stretch that follows one with this end starts without its direction.
    bool is_fresh(CgStop stop) const { return !has_updates() || stop == CgStop::iteration_limit; }
    int most_iterations() const { return limits_.max_iterations * limits_.max_restarts; }

    Device &device_;
    std::function<Operator()> finer_;
    SpinorField b_, x_, direction_;        // double; the direction in the units of the sloppy system
    SpinorField precise_b_, precise_x_;    // only if the precise vectors are not double
    Level full_, lower_;                   // lower_: the precise level, if it is not the full one
    Level *precise_;                       // &full_ or &lower_
    std::unique_ptr<Sloppy> given_, fine_; // fine_: replaces half precision once that was not enough
    std::unique_ptr<Sloppy> top_;          // double, for a solve that starts in double and goes down
    Sloppy *sloppy_;                       // the one that iterates
    Sloppy *below_ = nullptr;              // where the solve goes on after top_; nullptr if top_ does not iterate
    DeviceArray<CgState> state_;
    DeviceArray<double> sums_;
    DeferredSums deferred_;
    CgLimits limits_{};
    Deflation *deflation_ = nullptr; // of this solve, as long as it helps
    CgState last_{};                 // where the iteration ended
    double source_rr_ = 0;
    double pass_rr_ = 0; // |r|^2 that the last pass began with, in the precise level
    ladder::Gain gain_;
    ladder::Unit unit_; // of the sloppy system
};

} // namespace milcgpu
