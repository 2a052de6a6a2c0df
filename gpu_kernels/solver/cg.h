// Conjugate gradient for A x = b, A = shift +- B^dag B (solver/normal_operator.h), in one precision or two.
//
// An iteration is two launches, the two halves of A (in symbols: docs/explanation.md). In one of eight iterations A is
// applied to p. In the seven others A is applied to the residual, and s = A p follows by recursion. After the eighth
// iteration one pass updates p and x for all eight, in double. The next launch finishes the sums of a launch.
//
// With two precisions the sloppy one iterates. When its residual has fallen by reliable_delta, the residual is
// recomputed in the precise one, and the direction is corrected for the difference (reliable update, blas.h).
// precision_ladder.h decides which precision iterates.
#pragma once
#include "gpu_kernels/solver/chunk_loop.h"
#include "gpu_kernels/solver/normal_operator.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <functional>
#include <memory>

namespace milcgpu {

class Deflation; // eigenvectors.h

// One iteration. A is applied to v, which is the direction p or the residual r. r_new may be the same field as r.
//   B v                                2 spinors, and the links    <p, A p>, alpha
//   s = A v (+ beta s), r -= alpha s   5 spinors, and the links    |r|^2, beta; convergence
struct CgIteration {
    const NormalOperator *A;
    SpinorBlock v, r, r_new, s, between;
    CgState *state;
    const DeferredSums *sums = nullptr; // nullptr: each launch finishes its own sum
    bool previous_deferred = false;     // the iteration before has deferred its last sum, and no launch came in between
    bool defers = false;                // this iteration leaves its last sum to the next one
    bool v_is_sent = false;             // the neighbours already have v (NormalOperator::send)
    bool check_convergence = true;      // false if relative_residual tests for convergence
};
void run_iteration(Device &, const CgIteration &);

struct CgLimits {
    double shift;                  // of A
    double tolerance = 0;          // stop when |r| / |b| < tolerance; 0 = not tested
    double relative_tolerance = 0; // and when the relative residual < relative_tolerance; 0 = not tested
    int max_iterations = 1000;     // between restarts
    int max_restarts = 5;
    double reliable_delta = 0;     // fall of the sloppy residual between evaluations; 0: ladder::reliable_delta
    double jump_limit = 0;         // of |r_new - r| / |r_new| at a reliable update, for half precision; 0: the ladder's
    uint64_t *checksums = nullptr; // on the device, for NormalOperator::most_checksums; see checked_regions
    // Deflates each true residual that is not accepted, if ladder::vectors_serve. Its vectors belong to A at shift 0.
    Deflation *deflation = nullptr;
};

struct CgReport {
    Status status = Status::ok;
    int iterations = 0; // as MILC counts: CG steps + evaluations of the true residual at (re)starts
    int steps = 0;      // CG steps
    int restarts = 0;   // (re)starts with a fresh direction, the first one included
    int reliable_updates = 0;
    int deflations = 0;
    bool deflation_off = false;   // it did harm: the solve continued without it
    int steps_in_precise = 0;     // in double, before the change to single, on very light masses
    int steps_in_half = 0;        // if the sloppy precision is half: before the change to single, if there was one
    double source_norm = 0;       // |b|
    double true_residual = 0;     // |b - A x| / |b| in double, from the links as handed over
    double relative_residual = 0; // MILC's relative residual of x, evaluated likewise
    int breakdowns = 0;           // restarts that a breakdown of BiCGstab forced
    bool broke_down = false;      // not_converged because of them
    bool checked_links = false;   // limits.checksums hold checksums of the links of the true residual
    double recursion_residual = 0;
    double largest_jump = 0;     // of the residual at a reliable update, relative to the residual
    double seconds = 0;          // of the iterations, residuals included
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::string message;         // empty when all is well
};

// Whether x is a solution, or the best one so far.
inline bool is_answer(Status s) {
    return s == Status::ok || s == Status::not_converged || s == Status::precision_floor;
}
// Whether the status of a second source or mass is reported instead of `first`.
inline bool is_graver(Status second, Status first) {
    return is_answer(first) && (!is_answer(second) || (first == Status::ok && second != Status::ok));
}

// Runs work(); NaN or infinity in one source becomes the status of that source, so that the others continue.
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

// The message of a report with precision_floor or not_converged: its residuals and the caller's tolerances. precise:
// the precision of the solution.
std::string why_it_ended_early(const CgReport &, double tolerance, double relative_tolerance, Precision precise);

// step and |r|/|b| of the recursion. The host's loop calls it a few times a second at most.
using CgProgress = std::function<void(int step, double relative_residual)>;

struct CgOperators {
    Operator precise, sloppy;
    Operator full; // for true residuals: vectors in double, links as handed over
    // Makes the operator that continues if half precision is not enough. Called when first needed. May be empty.
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

    // The data on the device that the last solve depends on: all that it read, or (residual_alone) only the data of the
    // true residual.
    std::vector<Region> checked_regions(bool residual_alone) const;
    // The data of the true residual if the solve converged, else all. Includes the checksums that were taken while the
    // true residual was computed.
    std::vector<Region> checked_regions(const CgReport &) const;

    // For plans of memory: allocates what a solve adds if it leaves half precision or starts in double.
    void allocate_changes();

  private:
    static constexpr const char *owner = "conjugate gradient vectors";
    // An operator and the vectors to compute a residual with it.
    struct Level {
        Operator A;
        SpinorField between, residual;
    };
    // A precision that iterates: its vectors and its recorded launches.
    struct Sloppy {
        Operator A;
        SpinorField r;                      // of the last cg_kept_steps iterations
        SpinorField s, between;             // s: A times the direction
        SpinorField copy;                   // of the direction, if vectors are not double
        SpinorField fresh_residual;         // with reliable updates; else allocated for a deflation
        std::unique_ptr<ChunkLoop> loop[2]; // without and with the relative residual
        SpinorBlock before(int k) const { return r[(k + cg_kept_steps - 1) % cg_kept_steps]; }
        SpinorBlock start() const { return before(0); } // the first iteration reads the residual here
    };
    struct Residual {
        double rr, relative;
        bool checked; // with checksums of the links
        bool full;    // in double, from the links as handed over
    };
    Level make_level(const Operator &) const;
    std::unique_ptr<Sloppy> make_sloppy(const Operator &) const;

    // A solve alternates between true residuals and stretches of iterations.
    void take(const CgLimits &limits);
    void start(double target, const CgReport &report);
    void start_afresh(double rr, CgReport &report); // rr: |b - A x|^2
    bool update_reliably(CgReport &report);
    CgStop iterate(const CgProgress &progress, CgReport &report);
    bool go_down(CgStop stop, const CgReport &report);

    // The parts of an iteration.
    void bring_up(int steps, bool stopped);
    Direction direction() const { return {direction_, sloppy_->copy}; }
    SpinorBlock direction_to_apply() const { return sloppy_->copy ? sloppy_->copy : direction_; }
    CgState begin_state(int iteration_limit, double target) const;
    void put(const CgState &state) { device_.copy_to_device(state_.data(), &state, sizeof state); }

    // Residuals, and decisions from them.
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
    // Whether the next stretch of iterations starts with a new direction. stop: why the last stretch ended.
    bool is_fresh(CgStop stop) const { return !has_updates() || stop == CgStop::iteration_limit; }
    int most_iterations() const { return limits_.max_iterations * limits_.max_restarts; }

    Device &device_;
    std::function<Operator()> finer_;
    SpinorField b_, x_, direction_;        // double; the direction in the units of the sloppy system
    SpinorField precise_b_, precise_x_;    // only if the precise vectors are not double
    Level full_, lower_;                   // lower_: the precise level, if it is not the full one
    Level *precise_;                       // &full_ or &lower_
    std::unique_ptr<Sloppy> given_, fine_; // fine_: replaces half precision once half was not enough
    std::unique_ptr<Sloppy> top_;          // double, for a solve that starts in double and goes down
    Sloppy *sloppy_;                       // the one that iterates now
    Sloppy *below_ = nullptr;              // iterates after top_; nullptr unless top_ iterates now
    DeviceArray<CgState> state_;
    DeviceArray<double> sums_;
    DeferredSums deferred_;
    CgLimits limits_{};
    Deflation *deflation_ = nullptr; // nullptr once it no longer helps
    CgState last_{};                 // at the end of the iteration
    double source_rr_ = 0;
    double pass_rr_ = 0; // |r|^2 at the start of the last pass, in the precise level
    ladder::Gain gain_;
    ladder::Unit unit_; // of the sloppy system
};

} // namespace milcgpu
