// What the files of the C interface share: the context behind the handles, checks of arguments, exceptions into
// statuses.
#pragma once
#include "gpu_kernels/backend/profile.h"
#include "gpu_kernels/comm/boxes.h"
#include "gpu_kernels/operators/staggered.h"
#include "gpu_kernels/solver/bicgstab.h"
#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/solver/multi_mass.h"
#include "milc_glue/api/milcgpu.h"
#include "reorder/resident_links.h"
#include <functional>
#include <list>
#include <memory>
#include <set>

namespace milcgpu {
// A handle that keeps what can be made again, on the device. Its context asks for it where memory is short.
class Evictable {
  public:
    explicit Evictable(milcgpu_context &context) : of_(context) {}
    Evictable(const Evictable &) = delete;
    // Gives back what no call is working with. False: nothing, else what it was is said.
    virtual bool release_idle() = 0;

  protected:
    void register_here(); // at the end of construction: from then on give_back() is called
    virtual ~Evictable();

  private:
    milcgpu_context &of_;
};
} // namespace milcgpu

namespace milcgpu {
// The caller's functions that a call with a context calls. Calls with the context are refused in them. An exception
// does not pass through C: it is kept, the function is not called again in this call, and the call ends with it on all
// ranks, before any output is written.
class Callbacks {
  public:
    bool running() const { return running_; }
    void begin() { threw_.clear(); } // a call
    void throw_what_they_threw() const {
        if (!threw_.empty())
            throw Error(Status::bad_argument, threw_);
    }
    // Calls function(), named `name` in messages.
    template <class Function> void run(const char *name, const Function &function) {
        if (!threw_.empty())
            return;
        const std::string what = thrown_by(function);
        if (!what.empty())
            threw_ =
                format("%s threw an exception (%s). Outputs are untouched. End it without one", name, what.c_str());
    }
    // The same at the end of a call, when outputs are written: what it throws is dropped.
    template <class Function> void run_last(const Function &function) { thrown_by(function); }

  private:
    template <class Function> std::string thrown_by(const Function &function) {
        std::string what;
        running_ = true;
        try {
            function();
        } catch (const std::exception &thrown) {
            what = format("%s", thrown.what());
        } catch (...) {
            what = "of an unknown type";
        }
        running_ = false;
        return what;
    }
    bool running_ = false;
    std::string threw_;
};
} // namespace milcgpu

namespace milcgpu {
// Makes an operator in a specification, whose reals become what was granted.
using OperatorMaker = std::function<Operator(OperatorSpec &)>;

// What a solver is for.
struct SolverKey {
    const void *handle = nullptr; // whose links it reads
    uint64_t tag = 0;             // of their content (ResidentField)
    const void *shelf = nullptr;  // solvers that share one have a limit of their own
    int parity = 0;
    std::array<double, 4> parameters{}; // of the operator
    OperatorSpec precise, sloppy;
    bool operator==(const SolverKey &o) const {
        return handle == o.handle && tag == o.tag && parity == o.parity && parameters == o.parameters &&
               precise == o.precise && sloppy == o.sloppy;
    }
};

// Solvers keep their vectors and recorded launches between calls: RHMC calls thousands of times with a few sets of
// parameters.
struct KeptSolver : SolverKey {
    OperatorMaker make;
    CgOperators operators;
    std::unique_ptr<CgSolver> cg;
    std::unique_ptr<BicgstabSolver> bicgstab; // in place of cg
    // Made when first needed. What they leave goes through cg.
    std::unique_ptr<MultiMassSolver> multi_mass;
    OperatorSpec shared; // of multi_mass
    std::unique_ptr<BlockCgSolver> block;
    std::vector<std::shared_ptr<void>> beside; // what a family keeps for each source that it takes at once
};
} // namespace milcgpu

struct milcgpu_context {
    milcgpu_context();
    ~milcgpu_context();
    std::unique_ptr<milcgpu::Ranks> ranks = std::make_unique<milcgpu::Ranks>(); // that share the lattice
    milcgpu::Box box;                                                           // of the lattice that this rank has
    std::unique_ptr<milcgpu::Device> device;
    milcgpu::Geometry geometry;
    std::unique_ptr<milcgpu::Halo> halo; // nullptr: nothing is cut
    milcgpu::SiteMap map;
    std::unique_ptr<milcgpu::SpinorReorder> reorder;
    int verbosity = 1;
    void (*message)(void *, const char *) = nullptr;
    void *user = nullptr;
    mutable milcgpu::Callbacks callbacks;
    bool lost = false;
    bool verify = true;                       // MILCGPU_VERIFY: checksums of what a solve stands on (verify.h)
    bool flip_links = false;                  // planted by a test: one bit, as the next solve begins
    milcgpu::DeviceArray<uint64_t> checksums; // of what a solve stands on (verify.cpp)

    std::list<milcgpu::KeptSolver> solvers; // the last used first
    std::set<milcgpu_links *> handles;
    std::set<milcgpu::Evictable *> evictable;
    // What the call in progress works with; nullptr: nothing yet.
    const milcgpu::KeptSolver *busy = nullptr;
    bool busy_with_several = false; // its multi-mass solver or that of several sources, too

    // What the caller keeps for later beside these, to be given back first; empty: nothing. False: none is left.
    std::function<bool()> release_more;

    // Where an allocation does not fit: the solver that was used longest ago, when all idle ones are gone what is
    // evictable, then the packed links that nobody reads. False when there is nothing left.
    bool release_idle();

    void log(int level, const std::string &line) const {
        if (verbosity < level || ranks->rank() != 0)
            return;
        if (message != nullptr)
            callbacks.run_last([&] { message(user, line.c_str()); });
        else
            std::fprintf(stderr, "milcgpu: %s\n", line.c_str());
    }
    std::function<void(const std::string &)> warn() const {
        return [this](const std::string &line) { log(1, line); };
    }
    // The same at the end of a call, when results are written: a line that finds no memory is left out.
    template <class Line> auto log(int level, const Line &line) const -> decltype(line(), void()) {
        try {
            if (verbosity >= level)
                log(level, line());
        } catch (const std::bad_alloc &) {
        }
    }
    // Solvers of a handle whose content changed or goes away.
    void forget(const void *handle, uint64_t still_valid = 0) {
        solvers.remove_if([&](const milcgpu::KeptSolver &s) { return s.handle == handle && s.tag != still_valid; });
    }
};

struct milcgpu_links {
    milcgpu_context *context;
    std::unique_ptr<milcgpu::ResidentLinks> links;
    uint64_t changes = 0; // versions that earlier sets of this handle have counted
    explicit milcgpu_links(milcgpu_context *of) : context(of) { context->handles.insert(this); }
    milcgpu_links(const milcgpu_links &) = delete;
    ~milcgpu_links() { context->handles.erase(this); }
};

namespace milcgpu {

void set_last_error(const char *function, const char *what) noexcept; // of this thread

constexpr const char *in_a_callback =
    "called inside a callback (progress, message, ..) of another call with this context: "
    "return from the callback first";

[[noreturn]] inline void refuse(const std::string &what) { throw Error(Status::bad_argument, what); }

// of: the function that is called, which every message has in front, or what the pointer belongs to.
inline void require(const void *pointer, const char *of, const char *what) {
    if (pointer == nullptr)
        refuse((std::string(of).rfind("milcgpu_", 0) == 0 ? "" : format("%s: ", of)) + format("%s is NULL", what));
}

inline Precision precision_of(int code, const char *what) {
    if (code != MILCGPU_DOUBLE && code != MILCGPU_SINGLE && code != MILCGPU_HALF)
        refuse(format("%s is %d: must be MILCGPU_DOUBLE (1), MILCGPU_SINGLE (2) or MILCGPU_HALF (3)", what, code));
    return static_cast<Precision>(code - 1);
}

// Of a field in the host's memory. what: its name in the message.
inline Precision host_precision_of(int code, const char *what) {
    const Precision real = precision_of(code, what);
    if (real == Precision::half)
        refuse(format("%s is half: half precision is a format of the device; host fields are single or double", what));
    return real;
}

// The most entries of an array that a caller hands in. A larger count was never set, or has overflowed.
constexpr int most_entries = 1000000;
inline void require_count(int count, int least, const char *what) {
    if (count < least || count > most_entries)
        refuse(format("%s is %d: must be %d to %d", what, count, least, most_entries));
}

inline HostField host_field(const milcgpu_field *field, size_t reals_a_site, const char *what) {
    require(field, what, "the field");
    require(field->data, what, "data");
    const Precision real = host_precision_of(field->precision, format("%s: precision", what).c_str());
    constexpr size_t longest_pitch = size_t(1) << 31; // times the sites of a rank, an int: an address
    const size_t record = reals_a_site * real_bytes(real);
    const size_t pitch = field->pitch_bytes == 0 ? record : field->pitch_bytes;
    if (pitch < record || pitch % real_bytes(real) != 0)
        refuse(format("%s: pitch of %zu bytes, but a record has %zu and whole reals", what, pitch, record));
    if (pitch > longest_pitch)
        refuse(format("%s: pitch of %zu bytes: at most %zu", what, pitch, longest_pitch));
    return {field->data, real, pitch};
}

int parity_index(int parity); // 0 even, 1 odd
OperatorSpec operator_of(const milcgpu_storage &given, const char *what);
ResidentLinks &resident(milcgpu_links &links);                           // throws where there are none
ResidentLinks &resident(milcgpu_context *context, milcgpu_links *links); // of another handle's context
// With links in the precision and reals of spec, which stay as long as the operator does; spec.reals becomes what was
// granted.
Operator level_operator(milcgpu_links &links, int parity, OperatorSpec &spec);
// out = D in, on the sites of `parity`. The ghosts of `in` are filled first. Throws Error(nan_or_inf) that names a
// place in `in`, or else in the result, where that is not finite.
void apply_dslash(milcgpu_context &, const LinkPair &links, int parity, const SpinorBlock &in, const SpinorBlock &out);
// With vectors in double and the links as handed over.
OperatorSpec full_spec(const milcgpu_links &links);
Operator full_operator(milcgpu_links &links, int parity);
// The name of a number: eps, spec.boost, spec.origin[2], spec.terms[3].factor; of a pointer with " != NULL".
struct Name {
    const char *parts[3] = {};
    int index[3] = {-1, -1, -1};
    int last = 0;
    bool pointer = false;
    Name(const char *name) : parts{name} {}
    std::string text() const;
};
// What all ranks must have alike, by name. Throws Error(bad_argument) on all of them where they do not.
struct RankNumber {
    Name name;
    double value;
};
void require_same_on_all_ranks(milcgpu_context &, const std::vector<RankNumber> &values);
using Numbers = std::vector<RankNumber>;
// A specification of one solve, looked over.
struct SolveArguments {
    int parity;
    OperatorSpec precise, sloppy;
    CgLimits limits;
};
SolveArguments checked_solve(const milcgpu_solve_spec &);
// 4 m^2 of a mass that is called `what`. Throws where it is not finite.
double shift_of_mass(double mass, const char *what);
void check_iterations(int max_iterations, int max_restarts); // throws where their product is too large

// Several sources: what each has for itself, and the arguments of the first of n, looked over with those of the others.
struct OfEachSource {
    std::vector<double> tolerances;
    std::vector<int> max_iterations;
};
SolveArguments checked_sources(const milcgpu_solve_spec &, int n, OfEachSource &);
milcgpu_solve_spec spec_of_source(const milcgpu_solve_spec &, int k); // of source k alone
void check_together(int together, int n);
int sources_at_once(int n); // of n sources: groups alike, of at most most_block
// make(most), or with half of them while memory is short.
template <class Make> void make_for_most(int most, const Make &make) {
    for (;; most = (most + 1) / 2)
        try {
            return make(most);
        } catch (const Error &error) {
            if (error.status() != Status::no_memory || most == 1)
                throw;
        }
}
// milcgpu_staggered_residual, and with it MILC's relative residual, where that is wanted: relative may be nullptr.
milcgpu_status true_residuals(milcgpu_links *, int parity, double mass, const milcgpu_field *source,
                              const milcgpu_field *solution, double *residual, double *relative);
// The caller's progress function, of a specification that stays as long as the solve.
template <class Spec> CgProgress progress_of(milcgpu_context &context, const Spec &spec) {
    if (spec.progress == nullptr)
        return {};
    return [&](int step, double residual) {
        context.callbacks.run("spec.progress", [&] { spec.progress(spec.user, step, residual); });
        context.device->make_current();
    };
}
// From the solver's report, but for seconds and bytes of the call.
void fill_report(const CgReport &, const SolveArguments &, milcgpu_solve_report &);
void check_pair(const OperatorSpec &precise, const OperatorSpec &sloppy); // throws not_built
void check_version(uint64_t asked, const ResidentLinks &links);           // throws where links are stale

// What a solve takes on the device, in bytes. All of it is there at once where links are loaded again between two
// solves. Where that does not fit, the solver that waits for the next solve is given back first.
struct MemoryPlan {
    size_t in_use, links, raw, packed, terms, vectors;
    size_t more; // beside it, where the solve has to change its precision on the way
    size_t total() const { return in_use + links + raw + packed + terms + vectors; }
};
// Links and vectors of a solve for one mass, with links for `others`. host: precision of the links as handed over.
// sources: at once.
MemoryPlan solve_plan(const Geometry &, Precision host, const std::vector<OperatorSpec> &others,
                      const OperatorSpec &precise, const OperatorSpec &sloppy, int sources = 1);
// Of the calls that the C interface plans. Throws Error(bad_argument) as these do.
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_solve_spec &);
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_multi_mass_spec &);
std::string table_of(const MemoryPlan &plan, size_t free_bytes);
void fill_plan(const milcgpu_context &, MemoryPlan plan, char *text, size_t text_size, size_t *bytes);

// The set of links behind a handle that has just been made or is to be given new content in `real`.
ResidentLinks &renewed(milcgpu_links &handle, Precision real);
// After that content has come.
void forget_solvers(milcgpu_links &handle);

// Seconds of a call, and bytes over the bus, for its report.
class CallMeter {
  public:
    explicit CallMeter(const Device &device) : device_(device), before_(device.transfers()) {}
    template <class Report> void fill(Report &report) const {
        report.bytes_to_device = device_.transfers().to_device_bytes - before_.to_device_bytes;
        report.bytes_to_host = device_.transfers().to_host_bytes - before_.to_host_bytes;
        report.seconds = wall_seconds() - start_;
    }

  private:
    const Device &device_;
    TransferCounters before_;
    double start_ = wall_seconds();
};

// For entries that only end something: makes the GPU current, which may be lost already. False: a callback asks for it,
// and is refused.
inline bool may_end(milcgpu_context &context, const char *function) noexcept {
    if (context.callbacks.running()) {
        set_last_error(function, in_a_callback);
        return false;
    }
    try {
        context.device->make_current();
    } catch (const std::exception &) {
    }
    return true;
}

// Runs `body` and turns what it throws into a status and a message.
template <class Body> milcgpu_status guarded(milcgpu_context *context, const char *function, const Body &body) {
    const auto failed = [&](Status status, const char *what) {
        set_last_error(function, what);
        if (context != nullptr && status == Status::device_lost)
            context->lost = true;
        return static_cast<milcgpu_status>(status);
    };
    const ProfilerRange range(function);
    try {
        if (context != nullptr) {
            if (context->callbacks.running())
                refuse(in_a_callback);
            context->callbacks.begin();
            if (context->lost)
                throw Error(Status::device_lost, "the device of this context was lost earlier; destroy the context");
            context->ranks->throw_if_broken();
            context->busy = nullptr;
            context->device->begin_call();
        }
        return static_cast<milcgpu_status>(body());
    } catch (const Error &error) {
        return failed(error.status(), error.what());
    } catch (const std::bad_alloc &) {
        return failed(Status::no_memory, "host memory is exhausted");
    } catch (const std::exception &error) {
        return failed(Status::bad_argument, error.what());
    } catch (...) { // of a function that the caller has lent
        return failed(Status::bad_argument, "a function of the caller's threw an exception of an unknown type");
    }
}

// The same with a handle of links: body(context).
template <class Body> milcgpu_status with_links(milcgpu_links *links, const char *function, const Body &body) {
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        return body(*links->context);
    });
}

} // namespace milcgpu
