// How a system is solved, of every family of operators: the solver, kept between calls; sources in groups, together or
// one after the other; passes; the check of what the answers stand on; reports, the status of the call, the line at
// verbosity 2. A family says what is its own (OperatorFamily, SourcesOfCall), and its entry looks at the arguments.
//
// b, x and b - A x are known in double, of all sources of a group: before a pass (Group), and inside the solvers where
// they start and at each reliable update (CgSolver::true_residual, BlockCgSolver::true_residuals). Whatever
// improves guesses, for all families, belongs in one of these places. Deflation (gpu_kernels/solver/eigenvectors.h) is
// inside the solvers.
#pragma once
#include "gpu_kernels/solver/eigenvectors.h"
#include "milc_glue/api/context.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_arguments.h"
#include <optional>

namespace milcgpu {

constexpr OperatorSpec in_double = {Precision::double_, Precision::double_, 18};

// An operator with its parameters, on a parity, in any precision: what a solver is made of.
class OperatorFamily {
  public:
    explicit OperatorFamily(milcgpu_context &of) : context(of) {}
    OperatorFamily(const OperatorFamily &) = delete;
    virtual ~OperatorFamily() = default;
    Device &device() const { return *context.device; }

    // What a kept solver must have alike, but for its precisions. most_kept: of this key's shelf.
    virtual SolverKey key() const = 0;
    virtual size_t most_kept() const = 0;
    // spec.reals becomes what the links are held in.
    virtual void grant(OperatorSpec &spec) = 0;
    // Makes A, which keeps the links that it reads. It lives as long as the solver does.
    virtual OperatorMaker maker() = 0;
    virtual OperatorSpec full() const { return in_double; } // links as handed over
    virtual void make_solver(KeptSolver &);                 // conjugate gradient; another method replaces it
    // Empties the handle whose links changed on the device.
    virtual void empty() = 0;

    milcgpu_context &context;
};

// What make_solver and the solver of several sources make, and what that takes on the device, from the extents alone.
// sources: at once; 1: by the solver of one source.
struct PlannedSolver {
    std::vector<OperatorSpec> operators;
    std::optional<OperatorSpec> later; // where the solve has to change its precision on the way
    size_t vectors, later_vectors;
};
PlannedSolver planned_solver(const Geometry &, const OperatorSpec &full, const OperatorSpec &precise,
                             const OperatorSpec &sloppy, int sources, int components = 1);

// On its way to its tolerance.
struct SourceOnTheWay {
    double wanted;    // tolerance of the caller
    double tolerance; // of the next pass
    CgReport report{};
    int passes = 0;
    bool ended = false;
};

// Sources first to first + count of a call, solved at once.
struct Group {
    KeptSolver &solver;
    int first, count;
    bool alone;          // by the solver of one source
    SpinorBlock b, x;    // of the systems that are iterated on, in double; x: guesses, then solutions
    Precision precise;   // of the solutions that a pass makes
    bool zero_guesses{}; // known on all ranks
    std::vector<SourceOnTheWay> of{};
    // Work on source k, where NaN or infinity ends that source alone.
    template <class Work> void look(int k, const Work &work) {
        note_not_finite(of[k].report, work);
        of[k].ended = of[k].ended || of[k].report.status == Status::nan_or_inf;
    }
};

// What a group of sources has taken.
struct GroupWork {
    int sources = 0, steps = 0; // together
    double bytes = 0, flops = 0;
    double true_residual = 0; // the largest
    bool deflated = false, deflation_off = false;
};

// Where the sources of a call are, and what is to be done with them.
class SourcesOfCall {
  public:
    virtual ~SourcesOfCall() = default;
    // b and x, and what is kept beside them; tells the verification. A source that cannot be solved has ended then,
    // with its status, and is zero.
    virtual void load(Group &, Verification &) = 0;
    // After a pass, of the sources that were in it: the other sites and the true residual, where these are not the
    // solver's. Each has ended then, or has the tolerance of its next pass.
    virtual void complete(Group &group) {
        for (SourceOnTheWay &source : group.of)
            source.ended = true;
    }
    virtual void write(const Group &, int k) = 0;
    // Whether the caller is told the solver's own true residual: the answer then stands on what that was computed with.
    virtual bool residual_of_solver() const { return false; }
    // Adds device memory that the answer depends on besides the solver's.
    virtual void add_regions(std::vector<Region> &) const {}
    // Makes what is kept beside a solver for so many sources at once.
    virtual void allocate(KeptSolver &, int sources) { static_cast<void>(sources); }
    // What the whole solve needs, where memory is short; empty: nothing is said.
    virtual std::string needs(int sources) const {
        static_cast<void>(sources);
        return {};
    }
    // The fall of the sloppy residual between true ones, in this precision.
    virtual double reliable_delta(double asked, Precision) const { return asked; }
    virtual uint64_t links_version() const { return 0; }
    // To deflate the next group with; nullptr: nothing. Asked before each group, by all ranks together. And what that
    // group has taken then.
    virtual const Eigenvectors *eigenvectors() { return nullptr; }
    virtual void taken(const GroupWork &) {}
    // "Laplace solve", "kappa 0.1".
    virtual std::string name() const = 0;
    virtual std::string parameters() const = 0;
};

struct SolveTask {
    const char *function; // in messages
    SolveArguments a;     // what is granted, afterwards
    OfEachSource each;
    int together;  // milcgpu_together
    bool numbered; // messages say which source it is
    CgProgress progress;
};

// Arguments of calls that solve: what ranks must have alike of each source, as many numbers on all of them; and the
// refusal of what only calls for several sources take.
Numbers numbers_of(const OfEachSource &);
void check_one_source(const milcgpu_solve_spec &);
std::vector<milcgpu_solve_report> empty_reports(int n);
// The end of an entry for one source. filled: empty where the call failed before it had a report.
milcgpu_status hand_back_one(milcgpu_status status, const std::vector<milcgpu_solve_report> &filled,
                             milcgpu_solve_report *report);

// Solves for reports.size() sources. Returns the status of the first source without a solution, else of the first that
// is not ok; its message is the last error. Throws what ends the call as a whole.
Status solve(OperatorFamily &, SourcesOfCall &, SolveTask &, std::vector<milcgpu_solve_report> &reports);

// One that was kept, or a new one; the specifications become what was granted. It is busy from then on, and idle when
// this ends.
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
