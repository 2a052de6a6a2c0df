// The driver of solves for all families of operators: solvers that are kept between calls; sources in groups, together
// or one after the other; passes; checks of the data that answers depend on; reports, the status of the call, the line
// at verbosity 2. A family adds what is special to it (OperatorFamily, SourcesOfCall); its entry checks the arguments.
//
// b, x and b - A x of all sources of a group are known in double: before a pass (Group), and inside the solvers at the
// start and at each reliable update (CgSolver::true_residual, BlockCgSolver::true_residuals). Code that improves
// guesses for all families belongs in one of these places. Deflation (gpu_kernels/solver/eigenvectors.h) is inside the
// solvers.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "milc_glue/api/context.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_arguments.h"

namespace milcgpu {

constexpr OperatorSpec in_double = {Precision::double_, Precision::double_, 18};

// Makes an operator with its parameters, on a parity, in any precision, for solvers.
class OperatorFamily {
  public:
    explicit OperatorFamily(milcgpu_context &of) : context(of) {}
    OperatorFamily(const OperatorFamily &) = delete;
    virtual ~OperatorFamily() = default;
    Device &device() const { return *context.device; }

    // The key of kept solvers, without precisions. most_kept: the limit of this key's shelf.
    virtual SolverKey key() const = 0;
    virtual size_t most_kept() const = 0;
    // Sets spec.reals to the reals that the links are held in.
    virtual void grant(OperatorSpec &spec) = 0;
    // Makes A, which keeps the links that it reads. The solver keeps the maker.
    virtual OperatorMaker maker() = 0;
    virtual OperatorSpec full() const { return in_double; } // links as handed over
    virtual void make_solver(KeptSolver &);                 // conjugate gradient, unless overridden
    // Empties the handle whose links changed on the device.
    virtual void empty() = 0;

    milcgpu_context &context;
};

// The parts of a kept solver, made with its maker: conjugate gradient for s.precise and s.sloppy; the operator in a
// precision in which several sources iterate.
void make_cg(Device &, KeptSolver &s, OperatorSpec full);
Operator operator_of_several(KeptSolver &, OperatorSpec spec);

// A source during the passes of its solve.
struct SourceOnTheWay {
    double wanted;    // tolerance of the caller
    double tolerance; // of the next pass
    CgReport report{};
    int passes = 0;
    bool ended = false;
};

// Sources first to first + count - 1 of a call, solved at once.
struct Group {
    KeptSolver &solver;
    int first, count;
    bool alone;          // by the solver for one source
    SpinorBlock b, x;    // of the systems of the iteration, in double; x: guesses, then solutions
    Precision precise;   // of the solutions of a pass
    bool zero_guesses{}; // on all ranks
    std::vector<SourceOnTheWay> of{};
    // Runs work() on source k. NaN or infinity ends that source alone.
    template <class Work> void look(int k, const Work &work) {
        note_not_finite(of[k].report, work);
        of[k].ended = of[k].ended || of[k].report.status == Status::nan_or_inf;
    }
};

// The work of a group of sources.
struct GroupWork {
    int sources = 0, steps = 0; // together
    double bytes = 0, flops = 0;
    double true_residual = 0; // the largest
    bool deflated = false, deflation_off = false;
};

// The sources of a call: how they are loaded, completed and written.
class SourcesOfCall {
  public:
    virtual ~SourcesOfCall() = default;
    // Loads b, x and the data beside them, and tells the verification. A source that cannot be solved is set to zero
    // and has ended, with its status.
    virtual void load(Group &, Verification &) = 0;
    // After a pass, for the sources that were in it: computes the other sites and the true residual, unless these are
    // the solver's. Each source then has ended, or has the tolerance of its next pass.
    virtual void complete(Group &group) {
        for (SourceOnTheWay &source : group.of)
            source.ended = true;
    }
    virtual void write(const Group &, int k) = 0;
    // Whether the report has the solver's own true residual; the answer then depends only on the data of that residual.
    virtual bool residual_of_solver() const { return false; }
    virtual void add_checked_regions(std::vector<Region> &) const {}
    // Allocates the data beside a solver for this many sources at once.
    virtual void allocate(KeptSolver &, int sources) { static_cast<void>(sources); }
    // For messages if memory is short: the bytes of the whole solve; may be empty.
    virtual std::string needs(int sources) const {
        static_cast<void>(sources);
        return {};
    }
    // The fall of the sloppy residual between true ones, in this precision.
    virtual double reliable_delta(double asked, Precision) const { return asked; }
    virtual uint64_t links_version() const { return 0; }
    // The vectors to deflate the next group with, or nullptr. Called before each group by all ranks; taken() afterwards
    // gets the work of the group.
    virtual const Eigenvectors *eigenvectors() { return nullptr; }
    virtual void taken(const GroupWork &) {}
    // "Laplace solve", "kappa 0.1".
    virtual std::string name() const = 0;
    virtual std::string parameters() const = 0;
};

// A call for one source or for several.
struct SourcesCall {
    const char *function; // in messages
    int n = 1;
    int together = MILCGPU_ONE_BY_ONE; // milcgpu_together
    bool numbered = false;             // several: messages say which source it is
};

struct SolveTask : SourcesCall {
    SolveArguments a; // afterwards with what was granted
    OfEachSource each;
    CgProgress progress;
};

// The numbers of each source that must be equal on all ranks. check_one_source refuses members that only calls for
// several sources use.
Numbers numbers_of(const OfEachSource &);
void check_one_source(const milcgpu_solve_spec &);
std::vector<milcgpu_solve_report> empty_reports(int n);
// The end of an entry for one source. filled: empty if the call failed before it had a report.
milcgpu_status hand_back_one(milcgpu_status status, const std::vector<milcgpu_solve_report> &filled,
                             milcgpu_solve_report *report);

// Solves for all sources of the task. Returns the status of the first source without a solution, else of the first that
// is not ok; its message is the last error. Throws what ends the call as a whole.
Status solve_in_groups(OperatorFamily &, SourcesOfCall &, SolveTask &, std::vector<milcgpu_solve_report> &reports);

// A kept or a new solver, busy for the lifetime of this object. Sets the specifications to the granted ones.
class SolverInUse {
  public:
    SolverInUse(OperatorFamily &, OperatorSpec &precise, OperatorSpec &sloppy);
    SolverInUse(const SolverInUse &) = delete;
    ~SolverInUse() { kept_.busy = nullptr; }
    KeptSolver &solver() const { return *solver_; }

  private:
    KeptSolvers &kept_;
    KeptSolver *solver_;
};

} // namespace milcgpu
