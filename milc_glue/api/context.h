// The context behind the handles of the C interface, and the entry into its functions, which turns exceptions into
// statuses.
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

// Whether solves without eigenvectors in their spec may get some (milc_glue/solve/learning.h). soon: on the smallest
// lattices, too, for tests.
enum class Learns { never, where_it_pays, soon };

// Keeps data on the device that can be made again. Its context frees them if memory is short.
class Evictable {
  public:
    enum Turn { first, later, last, turns }; // solvers; handles; packed links of handles, which are freed together
    explicit Evictable(milcgpu_context &context, Turn turn = later) : of_(context), turn_(turn) {}
    Evictable(const Evictable &) = delete;
    // Frees what no call is using. Returns false if there was nothing; else logs what it freed.
    virtual bool release_idle() = 0;

  protected:
    void register_here(); // call it at the end of construction: from then on release_idle() may be called
    virtual ~Evictable();

  private:
    milcgpu_context &of_;
    const Turn turn_;
};

// Solvers that a context keeps between calls (solve/kept_solver.h).
class SolverShelf : public Evictable {
  public:
    using Evictable::Evictable;
    // Drops the solvers of a handle whose content changed or is destroyed.
    virtual void forget(const void *handle, uint64_t still_valid) = 0;
    ~SolverShelf() override = default;
};
} // namespace milcgpu

namespace milcgpu {
// Callbacks of the caller during a call with a context. Inside them, calls with the context are refused. An exception
// does not pass through C: it is kept, the callback is not called again in this call, and the call fails with it on all
// ranks before any output is written.
class Callbacks {
  public:
    bool running() const { return running_; }
    void begin() { threw_.clear(); } // at the start of a call
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
            threw_ = format("%s threw an exception (%s). Outputs are untouched. It must return without an exception",
                            name, what.c_str());
    }
    // The same at the end of a call, when outputs are written: exceptions are dropped.
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
    std::unique_ptr<milcgpu::Ranks> ranks = std::make_unique<milcgpu::Ranks>(); // the ranks that share the lattice
    milcgpu::Box box;                                                           // this rank's part of the lattice
    std::unique_ptr<milcgpu::Device> device;
    milcgpu::Geometry geometry;
    std::unique_ptr<milcgpu::Halo> halo; // nullptr: nothing is cut
    milcgpu::SiteMap map;
    std::unique_ptr<milcgpu::SpinorReorder> reorder;
    int verbosity = 1;
    void (*message)(void *, const char *) = nullptr;
    void *user = nullptr;
    mutable milcgpu::Callbacks callbacks;
    char lost[400] = ""; // why the device was lost; empty: it was not
    bool verify = true;  // MILCGPU_VERIFY: checksums of the inputs of a solve (verify.h)
    milcgpu::Learns learns = milcgpu::Learns::never;
    double bytes_to_learn = INFINITY;         // device memory for computing them; less for tests
    long sources_reloaded = 0;                // that had changed on the device when their solve ended
    bool flip_links = false;                  // requested by a test: flip one bit as the next solve begins
    milcgpu::DeviceArray<uint64_t> checksums; // of the inputs of a solve (verify.cpp)

    std::set<milcgpu_links *> handles;
    std::set<milcgpu::Evictable *> evictable[milcgpu::Evictable::turns];
    std::unique_ptr<milcgpu::SolverShelf> solvers; // nullptr: nothing was solved

    // Frees what the caller keeps for later, one thing per call, before all of the above. Returns false if nothing is
    // left.
    std::vector<std::function<bool()>> release_more;

    bool is_half_full_on_any_rank() const; // its device: then large idle data go before others are allocated
    bool release_idle(); // if an allocation does not fit, on all ranks; returns false if nothing is left to free

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
    // The same at the end of a call, when results are written: a line that needs more memory than there is, is dropped.
    template <class Line> auto log(int level, const Line &line) const -> decltype(line(), void()) {
        try {
            if (verbosity >= level)
                log(level, line());
        } catch (const std::bad_alloc &) {
        }
    }
    // Drops the solvers of a handle whose content changed or is destroyed.
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

// For entries that only destroy something: makes the GPU current, which may be lost already. Returns false, with an
// error, in a callback and in a forked child; the child's memory is freed when it exits.
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
        if (context != nullptr && status == Status::device_lost && *context->lost == 0)
            std::snprintf(context->lost, sizeof context->lost, "%s", what);
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
            if (*context->lost != 0)
                throw Error(Status::device_lost, format("the device was lost earlier: %s", context->lost));
            context->ranks->throw_if_broken();
            context->device->begin_call();
        }
        const auto status = [&] {
            try {
                return body();
            } catch (const std::exception &) { // it may be what a lost message led to
                if (context != nullptr)
                    context->ranks->throw_if_lost();
                throw;
            }
        }();
        if (context != nullptr)
            context->ranks->throw_if_lost();
        return static_cast<milcgpu_status>(status);
    } catch (const Error &error) {
        return failed(error.status(), error.what());
    } catch (const std::bad_alloc &) {
        return failed(Status::no_memory, "host memory is exhausted");
    } catch (const std::exception &error) {
        return failed(Status::bad_argument, error.what());
    } catch (...) { // thrown by a function of the caller
        return failed(Status::bad_argument, "a function of the caller's threw an exception of an unknown type");
    }
}

} // namespace milcgpu
