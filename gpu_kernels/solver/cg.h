// Conjugate gradient for (4 m^2 - D D) x = b on one parity, in one precision or two.
//
// Two launches an iteration, the two D. D is anti-hermitian, so <p, A p> = 4 m^2 |p|^2 + |D p|^2 is known after the
// first, and the new residual rides on the second. p would have to be renewed between iterations; instead, they apply A
// to the residual, and s = A p follows by recursion as p does (A. T. Chronopoulos and C. W. Gear, J. Comput. Appl.
// Math. 25 (1989) 153). After every cg_kept_steps of them p and x are brought up for all in one pass, in double, and the
// next starts from p: so the rounding of the recursion never lasts. Sums are finished by the launch that follows.
//
// Two precisions: iterate in the sloppy one; when its residual has fallen by reliable_delta, recompute it in the
// precise one, and go on with a search direction corrected for the jump (reliable update, blas.h). Iterations therefore
// grow little over a pure double solve.
//
// On light masses the solution grows to 1 / (4 m^2) times the residual, and 16-bit links no longer resolve the
// residual: at an update it would jump by more than itself, and half precision would need several times the iterations
// (7300 against 2560 on a quenched 16^3 x 32 lattice at mass 0.002). Where the links' rounding predicts that, the solve
// runs in single precision from the start; where a measured jump exceeds jump_limit, from there on.
//
// On lighter masses still, reliable updates in single, too, lose what the iteration knew of the lowest modes (3800
// steps against 2300 on such a lattice). There the solve starts in the precise precision and goes down to single when
// the residual has fallen far enough: what rounding of the operator does is proportional to the direction, which
// shrinks with the residual, so no update is needed (see multi_mass.h).
#pragma once
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/dslash/dslash.h"
#include <functional>
#include <memory>

namespace milcgpu {

// One precision of a solve: vectors, links, reals of a long link.
struct OperatorSpec {
    Precision spinor, link;
    int reals;
    bool operator==(const OperatorSpec &o) const { return spinor == o.spinor && link == o.link && reals == o.reals; }
};

// out = b - (shift - D D) x on `parity`; between = D x, on the other; *sum (device) = |out|^2.
void residual(Device &, const Lattice &, int parity, const LinkPair &links, double shift, const SpinorField &b,
              const SpinorField &x, const SpinorField &between, const SpinorField &out, double *sum);

// Sums of an iteration, each deferred to the launch that follows (dslash.h).
struct CgSums {
    DeviceArray<double> plain, step;
    CgSums() = default;
    CgSums(Device &, const Lattice &, int parity);
};

// An iteration: v is p or r (p where they differ), r_new may be r.
//   D v                                2 spinors, and the links    <p, A p>, alpha
//   s = A v (+ beta s), r -= alpha s   5 spinors, and the links    |r|^2, beta; judged
struct CgIteration {
    Lattice lattice;
    int parity;
    const LinkPair *links;
    const SpinorField *v, *r, *r_new, *s, *between;
    bool judge = true; // false where relative_residual does it
    CgState *state;
    const CgSums *sums;
    bool pending, defer; // the iteration before has deferred its sum; this one may
};
void iterate(Device &, const CgIteration &);

struct CgLimits {
    double mass;
    double tolerance = 0;          // stop when |r| / |b| < tolerance; 0 = not tested
    double relative_tolerance = 0; // and when the relative residual < relative_tolerance; 0 = not tested
    int max_iterations = 1000;     // between restarts
    int max_restarts = 5;
    double reliable_delta = 0; // fall of the sloppy residual between evaluations; 0: by the sloppy precision
    double jump_limit = 0.5;   // of |r_new - r| / |r_new| at a reliable update, for half precision
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
    double recursion_residual = 0;
    double largest_jump = 0;     // of the residual at a reliable update, relative to the residual
    double seconds = 0;          // of the iterations, residuals included
    double flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::string message;         // empty when all is well
};

// What a solver in half precision changes to when that is not enough; made when first needed.
struct FinerLevel {
    OperatorSpec spec;
    LinkPair links;
};

// step and |r|/|b| of the recursion; called a few times a second at most from the host's loop.
using CgProgress = std::function<void(int step, double relative_residual)>;

class CgSolver {
  public:
    // Link fields must outlive the solver. full: the operator that true residuals are computed with (double vectors,
    // links as handed over).
    CgSolver(Device &, const Lattice &, int parity, const OperatorSpec &precise, const LinkPair &precise_links,
             const OperatorSpec &sloppy, const LinkPair &sloppy_links, const LinkPair &full_links,
             std::function<FinerLevel()> finer);

    const SpinorField &source() const { return b_; }   // double, to be filled before solve
    const SpinorField &solution() const { return x_; } // double: guess before, solution after

    // Fills solution(). NaN or infinity in source or guess throws Error(nan_or_inf); the outcome of the iteration
    // itself is in the report's status.
    CgReport solve(const CgLimits &limits, const CgProgress &progress);

    // Bytes that a solver of these precisions allocates.
    static size_t workspace_bytes(int sites, const OperatorSpec &precise, const OperatorSpec &sloppy);

  private:
    // One precision's operator and the fields it works on.
    struct Level {
        OperatorSpec spec;
        LinkPair links;
        SpinorField between; // D of a vector, on the other parity
        SpinorField residual;
    };
    // The precision that iterates: its vectors and its recorded launches.
    struct Sloppy {
        OperatorSpec spec;
        LinkPair links;
        SpinorField r[cg_kept_steps], image, between, fresh_residual; // image: A times the direction
        SpinorField copy;                           // of the direction, for dslash, where vectors are not double
        std::unique_ptr<Device::Sequence> chunk[2]; // without and with the relative residual
        const SpinorField &before(int k) const { return r[(k + cg_kept_steps - 1) % cg_kept_steps]; }
        const SpinorField &start() const { return before(0); } // where the first iteration looks for the residual
    };
    struct Residual {
        double rr, relative;
    };
    bool load_source(CgReport &report);
    Residual read_residual(const Level &level);
    Residual true_residual(Level &level);
    double read(const double *device_value);
    Level make_level(const OperatorSpec &spec, const LinkPair &links);
    std::unique_ptr<Sloppy> make_sloppy(const OperatorSpec &spec, const LinkPair &links);
    void reliable_update();
    bool jumped_too_far(CgReport &report);
    double noise_of_links(Precision p) const;
    bool half_is_hopeless() const;
    bool prepare_descent();
    CgStop descend(const CgProgress &progress, CgReport &report);
    void start_sloppy(double target, const CgReport &report);
    CgStop iterate_and_add(const CgProgress &progress, CgReport &report);
    int steps_left(const CgReport &report) const;
    double target_rr() const;
    void change_to_finer();
    void iterate_once(int k);
    void update_solution(int steps, bool stopped);
    const SpinorField &direction_copy() const { return sloppy_->copy.sites() != 0 ? sloppy_->copy : direction_; }
    CgStop iterate(const CgProgress &progress, CgReport &report);
    CgStop advance(bool fresh, const CgProgress &progress, CgReport &report);
    bool accepted(const Residual &residual) const;
    bool ended(const Residual &residual, CgStop stop, int without_gain, CgReport &report) const;
    void finish(CgReport &report, const Residual *last_full);
    CgState begin_state(int iteration_limit, double target) const;
    void put(const CgState &state) { device_.copy_to_device(state_.data(), &state, sizeof state); }
    bool pure() const { return precise_->spec == sloppy_->spec; }
    int most_iterations() const { return limits_.max_iterations * limits_.max_restarts; }

    Device &device_;
    Lattice lattice_;
    int parity_;
    SpinorField b_, x_, direction_;        // double; the direction in the units of the sloppy system
    SpinorField precise_b_, precise_x_;    // where the precise vectors are not double; empty otherwise
    Level full_, lower_;                   // lower_: the precise level where it is not the full one
    Level *precise_;                       // &full_ or &lower_
    std::unique_ptr<Sloppy> given_, fine_; // fine_: in place of half, from the first time that it was needed
    std::unique_ptr<Sloppy> top_;          // in the precise precision, where a solve descends
    Sloppy *sloppy_;                       // the one that iterates
    std::function<FinerLevel()> finer_;
    DeviceArray<CgState> state_;
    DeviceArray<double> sums_;
    CgSums pending_sums_;
    std::unique_ptr<CgState, std::function<void(CgState *)>> seen_; // two pinned copies of the state
    CgLimits limits_{};
    CgState last_{}; // where the iteration ended
    double shift_ = 0, source_rr_ = 0, scale_ = 1;
};

} // namespace milcgpu
