// The context behind the handles of the C interface, and the way into its functions: exceptions into statuses.
#pragma once
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/profile.h"
#include "gpu_kernels/machine/comm/boxes.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include "milc_glue/api/checks.h"
#include "milc_glue/api/forks.h"
#include "reorder/spinor_reorder.h"
#include <functional>
#include <memory>
#include <set>

namespace milcgpu {
class Halo;

// Whether solves that say nothing of eigenvectors get some (milc_glue/solve/learning.h). soon: on the smallest
// lattices, too, for tests.
enum class Learns { never, where_it_pays, soon };

// Keeps on the device what can be made again. Its context asks for it where memory is short.
class Evictable {
  public:
    enum Turn { first, later, last, turns }; // solvers; handles; packed links of handles, which are asked for together
    explicit Evictable(milcgpu_context &context, Turn turn = later) : of_(context), turn_(turn) {}
    Evictable(const Evictable &) = delete;
    // Gives back what no call is working with. False: nothing, else what it was is said.
    virtual bool release_idle() = 0;

  protected:
    void register_here(); // at the end of construction: from then on release_idle() is called
    virtual ~Evictable();

  private:
    milcgpu_context &of_;
    const Turn turn_;
};

// Solvers that a context keeps between calls (solve/kept_solver.h).
class SolverShelf : public Evictable {
  public:
    using Evictable::Evictable;
    // Those of a handle whose content changed or goes away.
    virtual void forget(const void *handle, uint64_t still_valid) = 0;
    ~SolverShelf() override = default;
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
    bool verify = true; // MILCGPU_VERIFY: checksums of what a solve stands on (verify.h)
    milcgpu::Learns learns = milcgpu::Learns::never;
    double bytes_to_learn = INFINITY;         // device memory for their making; less for tests
    bool flip_links = false;                  // planted by a test: one bit, as the next solve begins
    milcgpu::DeviceArray<uint64_t> checksums; // of what a solve stands on (verify.cpp)

    std::set<milcgpu_links *> handles;
    std::set<milcgpu::Evictable *> evictable[milcgpu::Evictable::turns];
    std::unique_ptr<milcgpu::SolverShelf> solvers; // nullptr: nothing was solved

    // What the caller keeps for later beside these, to be given back first, one after the other. False: none is left.
    std::vector<std::function<bool()>> release_more;

    bool release_idle(); // where an allocation does not fit, on all ranks; false when there is nothing left

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
        if (solvers)
            solvers->forget(handle, still_valid);
    }
};

namespace milcgpu {

void set_last_error(const char *function, const char *what) noexcept; // of this thread

constexpr const char *in_a_callback =
    "called inside a callback (progress, message, ..) of another call with this context: "
    "return from the callback first";

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
// or a forked child, and is refused; what the child has is freed at its end.
inline bool may_end(milcgpu_context &context, const char *function) noexcept {
    if (context.callbacks.running()) {
        set_last_error(function, in_a_callback);
        return false;
    }
    if (is_forked_child()) {
        set_last_error(function, after_fork);
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
    if (is_forked_child())
        return failed(Status::bad_argument, after_fork);
    const ProfilerRange range(function);
    try {
        if (context != nullptr) {
            if (context->callbacks.running())
                refuse(in_a_callback);
            context->callbacks.begin();
            if (context->lost)
                throw Error(Status::device_lost, "the device of this context was lost earlier; destroy the context");
            context->ranks->throw_if_broken();
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

} // namespace milcgpu
