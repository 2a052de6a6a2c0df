// Conjugate gradient for several sources at once, A x_k = b_k with one operator. Links are loaded once for all sources.
//
//     block      one Krylov space for all sources (algebra/block_steps.h): fewer steps than separate solves, above all
//                 with many sources and light masses
//     lock_step  a Krylov space for each source: as many steps as separate solves
//
// If all sources are loose (ladder::is_loose), lock-step iterates each source to its own target and stops there. It
// makes no reliable updates, because their time would depend on the other sources. If rounding keeps the true residual
// of a source above its tolerance, that source continues alone.
//
// The sloppy precision iterates. Many sources of a very light mass start in double (precision_ladder.h). When all
// residuals have fallen by reliable_delta, they are recomputed in double from the links as handed over. The iteration
// continues with directions that are conjugate to the last ones. A source that has reached its tolerance or its limit
// of iterations is left out from then on. If tolerances differ, residuals are also recomputed as soon as one source is
// done and another is far from its tolerance. Two kinds of sources are solved alone by conjugate gradient (cg.h), from
// the solution so far: sources whose residual no longer falls, and sources with a tolerance for the relative residual.
#pragma once
#include "gpu_kernels/algebra/lock_step.h"
#include "gpu_kernels/solver/cg.h"
#include <memory>

namespace milcgpu {

enum class Together { block, lock_step };

struct SourcesLimits {
    double shift; // of A
    Together together = Together::block;
    bool all_are_loose = false;
    std::vector<double> tolerances;            // of |b - A x| / |b|, one a source; 0 = not tested
    std::vector<int> max_iterations;           // as CgLimits', one a source
    double relative_tolerance = 0;             // of MILC's relative residual; 0 = not tested
    int max_restarts = 5;                      // as CgLimits'
    double reliable_delta = 0, jump_limit = 0; // as CgLimits'; default: ladder::reliable_delta_of_several
    bool zero_guesses = false;                 // on all ranks: the first residuals are the sources
    Deflation *deflation = nullptr;            // as CgLimits', with memory for all sources
};

struct SourcesReport {
    Status status = Status::ok; // of the first source without a solution; if all have one, of the first that is not ok
    std::string message;
    int steps_together = 0, reliable_updates = 0, deflations = 0;
    double seconds = 0, flops = 0, bytes = 0; // of the whole solve, compulsory bytes
    std::vector<CgReport> sources;            // a step of several sources together counts as a step of each
};

class BlockCgSolver {
  public:
    // sloppy: the operator of the iteration. single: the solver for sources that are solved alone; it has the same
    // parity and full operator, and must outlive this object.
    BlockCgSolver(Device &, const Operator &full, const Operator &sloppy, int sources, CgSolver &single);

    int sources() const { return b_.sources(); } // at most
    const OperatorSpec &spec() const { return sloppy_->A->spec(); }
    const SpinorBlock &all_sources() const { return b_; }
    const SpinorBlock &all_solutions() const { return x_; }
    SpinorBlock source(int k) const { return b_[k]; }   // double, to be filled before solve
    SpinorBlock solution(int k) const { return x_[k]; } // double: guess before, solution after

    // Solves the first sources, one for each tolerance. If a source or its guess has NaN or infinity, its status is
    // nan_or_inf and its solution stays unchanged; the other sources are solved.
    SourcesReport solve(const SourcesLimits &, const CgProgress &);

    std::vector<Region> checked_regions(bool residual_alone) const; // as CgSolver's

    // For plans of memory: allocates what a solve adds if it starts in double.
    void allocate_changes();

  private:
    // Numbers of the sources that iterate together, in the order of their fields.
    using Open = std::vector<int>;
    // A precision that iterates: its vectors and its recorded launches.
    struct Level {
        Operator A;
        SpinorField r, p[cg_kept_steps], ap, between;
        std::unique_ptr<ChunkLoop> loops[most_block + 1]; // index: how many sources iterate together
        double recorded_shift = 0;                        // loops were recorded with this shift
        Together recorded_together = Together::block;     // and for this kind of solve
        int last = 0;                                     // index in p of the directions of the last step
    };
    std::unique_ptr<Level> make_level(const Operator &, int sources) const;
    Open load_sources(SourcesReport &);
    std::vector<double> true_residuals(const Open &, bool of_zero);
    enum class Gain { counted, not_counted };
    Open still_open(const Open &, const std::vector<double> &rr, CgStop, Gain, SourcesReport &, Open &stopped);
    Open deflated(const Open &all, const Open &open, CgStop, SourcesReport &, Open &stopped);
    void put_head(const Open &, const SourcesReport &);
    void start(const Open &, const SourcesReport &);
    void update_reliably(const Open &, SourcesReport &);
    bool prepare_descent(int sources);
    void go_down();
    CgStop iterate(bool after_update, const CgProgress &, SourcesReport &);
    void solve_alone(int source, const CgProgress &, SourcesReport &);
    void orthonormalize();
    void step(int k, bool after_update);
    static constexpr int steps_a_chunk = 4; // a divisor of cg_kept_steps
    void add_to_solutions(int steps, bool stopped);
    bool without_host() const; // whether the host has no work between the launches of an iteration
    void gram_of_all_ranks(const SpinorBlock &, const SpinorBlock &, Complex<double> *);
    void products(const SpinorBlock &x, Complex<double> *x_x);
    void products(const SpinorBlock &x, const SpinorBlock &y, const ProductsTo &);
    bool lock_step() const { return limits_.together == Together::lock_step; }
    bool separately() const { return lock_step() && limits_.all_are_loose; }
    ChunkLoop &chunks();
    void add_work(int steps, SourcesReport &) const;
    SpinorBlock some(const SpinorField &field) const { return field.block().first(int(open_.size())); }
    int count() const { return static_cast<int>(limits_.tolerances.size()); }
    int steps_left(int k, const SourcesReport &report) const {
        return limits_.max_iterations[k] * limits_.max_restarts - report.steps_together;
    }

    Device &device_;
    Operator full_;
    CgSolver &single_;
    SpinorField b_, x_, residual_, full_between_; // double
    std::unique_ptr<Level> sloppy_, top_;         // top_: in double; allocated when a solve first starts there
    Level *level_ = nullptr;                      // the one that iterates now
    DeviceArray<BlockState> state_;
    DeviceArray<double> gram_scratch_, sums_;
    Open open_; // the sources that iterate now
    // For each source: |b|^2, the progress of its true residuals, and the unit of its vectors (a vector here times
    // scale_ is the vector of the caller's system).
    std::vector<double> source_rr_;
    std::vector<ladder::Gain> gain_;
    std::vector<double> scale_;
    SourcesLimits limits_;
    Deflation *deflation_ = nullptr; // nullptr once it no longer helps
};

} // namespace milcgpu
