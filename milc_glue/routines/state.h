// The state of the plugin, one in each process: MILC's side, what stays on the device, the settings, the context, the
// log. And how an entry of the plugin runs.
#pragma once
#include "gpu_kernels/machine/comm/clock.h"
#include "milc_glue/api/forks.h"
#include "milc_glue/api/settings.h"
#include "milc_glue/residency/certificate.h"
#include "milc_glue/residency/milc_side.h"
#include "milc_glue/residency/policy.h"
#include "milc_glue/residency/reason.h"
#include "milc_glue/residency/residency.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace milcgpu {

// What the start of MILC's program leaves.
struct Start {
    // Threads do work of MILC's own routines: milcgpu_plugin_begin() was called, and no setting is against it.
    bool all_threads_work = false;
    // Started by milcgpu_plugin_wake(). The process does not exit before it ends. If OpenMP has a thread for each core,
    // MILC's loops have one less meanwhile: all threads would wait for the one that shares its core.
    std::thread waking;
    int threads_then = 0;          // MILC's number of threads; 0: not changed
    bool tables_are_due = false;   // those at exit
    void (*stopped)() = nullptr;   // prints them if they are due, for a run that does not reach its end
    double file_is_due = INFINITY; // the next time for the file of MILCGPU_TABLE
    std::filesystem::file_time_type file_time = std::filesystem::file_time_type::min(); // when this run wrote it last
    milcgpu_milc milc{}; // as the door gave it, for a table after a retreat to the host
    std::string name;    // milc.milc
};

// A call of a routine of MILC's, in the words that begin its lines: "mat_invert: m 0.01".
struct CallName {
    milcgpu_routine routine = MILCGPU_ROUTINES;
    char text[80] = "";
    template <class... Numbers> void append(const char *about, Numbers... numbers) {
        const size_t length = std::strlen(text);
        std::snprintf(text + length, sizeof text - length, about, numbers...);
    }
};

struct Trajectory;

struct Plugin : MilcSide, Residency {
    milcgpu_context *context = nullptr; // NULL: MILC works by itself
    CallName running;                   // the call that is under way

    Start start;
    LoggedReason reason; // of the last failure

    // Settings, and what follows from them for this lattice and backend.
    Settings settings;
    const Policy *policy = nullptr; // of solves that ask for none; of all solves if MILCGPU_PRECISION is set
    int verbosity = 1, compare = 0, reconstruct = 18;
    int watch_threads = 0; // they work while a GPU solves (IdleThreads)
    bool takes_dslash = false, retreated = false, floor_was_said = false, said_gathers = false,
         said_mass_by_mass = false;

    // Files that eigenvectors are to be written to (milcgpu_plugin_eigenvectors).
    struct EigenFile {
        std::string name;
        uint64_t of = 0; // content of links, on all ranks; 0: they have not come
        std::set<uint64_t> not_of{};
        bool done = false;
    };
    std::vector<EigenFile> eigen_files;
    double seconds_between_lines = 30;      // of work that takes long
    std::unique_ptr<Trajectory> trajectory; // nullptr: none has begun
    double step_logged = 0;                 // of a flow, too long: the last that a line has named
    Ledger ledger;
    Certificate certificate;
    int originals = 0; // depth of calls of MILC's originals
    double original_since = 0;

    bool active() const { return context != nullptr && links != nullptr && originals == 0; }
    bool poisons() const { return settings.asks_for("nan"); }
    bool precision_is_set() const { return !settings.is("MILCGPU_PRECISION", "auto"); }

    // Runs work() on each rank and returns the worst status of all ranks. If memory of a device is short, it frees idle
    // memory and runs work() again, as long as a rank has some.
    milcgpu_status with_idle_given_back(const std::function<milcgpu_status()> &work);
    // Runs copy(), which brings to MILC what the device alone has, and throws the same Error on all ranks. If memory is
    // short, it drops what can be loaded again and runs copy() again, because MILC cannot go on without the values.
    void bring_to_host(const char *who, const std::function<void()> &copy);
    const char *name_of(milcgpu_routine routine) const { // begins a line about a call, which may be under way
        return routine == running.routine ? running.text : routine_name(routine);
    }
    // One or several lines on stderr; those of level 0 are also notes of the certificate.
    void log(int level, const std::string &text);
    void print(const std::string &text) const; // lines on stderr that are no notes
    // Writes the file of MILCGPU_TABLE as the run goes on, so that it is there however the run ends: if the last one is
    // a second old, and old enough for all of them to cost 0.5 % at most.
    void keep_file() {
        if (wall_seconds() >= start.file_is_due)
            write_file_so_far();
    }
    void write_file_so_far();
    void count_for_certificate(); // what the context has counted since the last time
    int device_number() const;
    bool open(int backend); // false: milcgpu_last_error() says why
    void close();
    void drop(); // close() without a copy of what only the device has
    // Called before the gauge field is written.
    void lattice_changed();
    void links_made(int way, uint64_t content) {
        if (Residency::links_made(way, content))
            lattice_changed();
    }
    void say_unwritten(bool all); // logs eigen_files that stay unwritten: all, or those whose links have not come
    void lose_solutions(const std::string &why); // logs that solutions are lost, unless `why` is empty
    // The device's links with the content of these; nullptr after a line in the log if they could not be loaded.
    // sample: the caller looks at the rest of the host's links (LinkWatch) before it returns a result.
    LinkSet *links_for(milcgpu_routine routine, const void *fat, const void *lng,
                       Mirror::Look look = Mirror::Look::whole) {
        return links_at_head(routine, fat, lng, look).set;
    }
    // The same at the head of a call, with the call's other questions to all ranks in one gather (two if links are
    // loaded). content: LinkSet::content() of the links that something was made of. also: a local condition. make_room:
    // called on all ranks if memory for the links is short; the links are then loaded again, without `also`.
    struct LinksAtHead {
        LinkSet *set;
        bool same_content, also; // on all ranks
    };
    LinksAtHead links_at_head(milcgpu_routine routine, const void *fat, const void *lng, Mirror::Look look,
                              const uint64_t *content = nullptr, bool also = true,
                              const std::function<void()> &make_room = {});
    // True if the context cannot be used after this status.
    bool ends_context(int status) const {
        return status == MILCGPU_DEVICE_LOST || status == MILCGPU_COMM ||
               (status == MILCGPU_TIMED_OUT && collective.size() > 1);
    }
    // Closes the context if so. If ranks have lost one another, no other context is opened.
    void end_context_after(int status);
    // Logs milcgpu_last_error() and what happens next, after an error that ends the call.
    void report_failure(milcgpu_routine routine, int status);
    // Logs an error in this routine. The same line, whatever its numbers of MiB, is logged once while calls of the
    // routine fail; when a call succeeds, or the device's work ends, a line says how often it was skipped.
    void log_failure(milcgpu_routine routine, const std::string &text, int level = 0);
    void end_failures(milcgpu_routine routine) noexcept;
    void end_failures() noexcept; // of all routines
    struct Failures {
        std::vector<std::string> said; // without sizes
        long more = 0;
    };
    std::array<Failures, MILCGPU_ROUTINES> failures{};
};

Plugin &plugin();

// Prints what was thrown, on one line. Call it in the handler. Allocates nothing.
void say_thrown(const char *where, const char *after) noexcept;

// Runs the work of an entry. If the work throws, a line says what, and the answer is `otherwise`. In a forked child the
// answer is `otherwise`, without a line: there MILC's own routines do all the work.
template <class Work, class Answer>
Answer answer_of(const char *where, const char *after, Answer otherwise, const Work &work) noexcept {
    if (is_forked_child())
        return otherwise;
    try {
        return static_cast<Answer>(work());
    } catch (...) {
        say_thrown(where, after);
        return otherwise;
    }
}

// In the handler of an exception, for an entry that all ranks have called: prints a line and tells the other ranks. If
// these cannot be reached, it ends all ranks by end_all.
void leave_call(const char *where, const char *after) noexcept;

// answer_of() for an entry that all ranks call together.
template <class Work, class Answer>
Answer common_answer_of(const char *where, const char *after, Answer otherwise, const Work &work) noexcept {
    if (is_forked_child())
        return otherwise;
    plugin().collective.begin_call();
    try {
        return static_cast<Answer>(work());
    } catch (...) {
        leave_call(where, after);
        return otherwise;
    }
}

// Returns the status of attempt(). If memory is short, it drops the links that are kept and attempts it once more.
template <class Attempt> milcgpu_status with_links_dropped(milcgpu_routine routine, const Attempt &attempt) {
    Plugin &p = plugin();
    const milcgpu_status status = attempt();
    if (status != MILCGPU_NO_MEMORY)
        return status;
    const std::string why = p.reason();
    p.log_failure(routine,
                  format("%s: %s. Trying again without the links that were kept", p.name_of(routine), why.c_str()), 1);
    p.drop_reloadable();
    return attempt();
}

// How long the rest of a work takes if a part of it, `done`, took these seconds. NaN: not known.
inline double seconds_left(double seconds, double done) {
    return done > 0 ? std::max(0.0, seconds * (1 - done) / done) : NAN;
}

// Log lines of work that takes long: none in the first 30 seconds, then one every 30 seconds.
class ProgressLines {
  public:
    ProgressLines(Plugin &plugin, const char *work) : plugin_(plugin), work_(work) {}
    double seconds() const { return wall_seconds() - since_; }
    // line(): its text, behind the name of the work. left: seconds_left().
    template <class Line> void log(double left, const Line &line) {
        const double now = wall_seconds();
        if (now - logged_at_ < plugin_.seconds_between_lines)
            return;
        logged_at_ = now;
        plugin_.certificate.at = std::string(work_) + ": " + line();
        if (left >= 0)
            plugin_.certificate.at += format(", about %.3g s left", left);
        plugin_.log(1, plugin_.certificate.at);
        plugin_.keep_file();
    }

  private:
    Plugin &plugin_;
    const char *work_;
    double since_ = wall_seconds(), logged_at_ = since_;
};

struct Trajectory {
    std::optional<ProgressLines> lines;   // while it runs
    int updates = 0, updates_of_last = 0; // of the gauge field
};

class Stopwatch {
  public:
    explicit Stopwatch(double &sum) : sum_(sum), since_(wall_seconds()) {}
    ~Stopwatch() { sum_ += wall_seconds() - since_; }

  private:
    double &sum_;
    double since_;
};

} // namespace milcgpu
