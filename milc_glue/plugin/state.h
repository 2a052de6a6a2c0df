// What the entries of the plugin share: MILC's side, the settings, the context, and what is kept between calls. One per
// process, on top of the C interface; the entries are in start.cpp, links.cpp, solve.cpp and comparison.cpp.
#pragma once
#include "gpu_kernels/machine/backend/device.h"
#include "milc_glue/api/forks.h"
#include "milc_glue/api/settings.h"
#include "milc_glue/host/host_fields.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/deferred.h"
#include "milc_glue/plugin/eigen_store.h"
#include "milc_glue/plugin/gauge_owner.h"
#include "milc_glue/plugin/known_solutions.h"
#include "milc_glue/plugin/ledger.h"
#include "milc_glue/plugin/link_cache.h"
#include "milc_glue/plugin/meson_links.h"
#include "milc_glue/plugin/precision.h"
#include "milc_glue/plugin/quark_fields.h"
#include "milc_glue/plugin/reason.h"
#include "milc_glue/plugin/resident_vectors.h"
#include "milc_glue/plugin/wilson_links.h"
#include <map>
#include <memory>

namespace milcgpu {

struct Plugin {
    milcgpu_context *context = nullptr; // NULL: MILC works by itself

    // MILC's side, from the start on.
    int precision = 2, sites = 0, even_sites = 0, rank = 0; // sites of this rank
    bool own_routines = true;                               // MILC's own are there to fall back on
    milcgpu_layout layout{};
    Collective collective;
    void (*end_all)(void *user, const char *why) = nullptr; // of MILC's ranks; nullptr: there is one
    void *end_all_user = nullptr;
    int node_rank = 0;                                 // among the ranks of the whole program on this host
    std::array<bool, MILCGPU_ROUTINES> own_was_said{}; // that MILC's own does the routine
    std::vector<int> site_map;                         // empty: not started

    // The environment, and what follows from it for this lattice and backend.
    Settings settings;
    const Policy *policy = nullptr; // of solves that ask for none, and of all where MILCGPU_PRECISION is set
    milcgpu_report_sizes report_sizes = milcgpu_sizes_of_reports(); // of MILC's side
    int verbosity = 1, compare = 0, reconstruct = 18;
    int watch_threads = 0; // that look at links while a GPU solves
    bool takes_dslash = false, retreated = false, floor_was_said = false, said_gathers = false,
         said_mass_by_mass = false;

    DeferredValues deferred; // outlives the device: MILC's routines can make them, too
    std::unique_ptr<LinkCache> links;
    std::unique_ptr<GaugeOwner> gauge;
    std::unique_ptr<MesonLinksCache> meson_links;
    std::unique_ptr<WilsonLinks> wilson;
    std::unique_ptr<EigenStore> eigenvectors;
    bool measuring = false; // a routine works with meson_links
    std::unique_ptr<QuarkFields> quarks;
    ResidentVectors vectors{deferred};
    bool lost = false;              // gauge field, momenta or solutions were on a device that is gone
    bool eigenvectors_lost = false; // the same of these; solves go on without
    // Solutions alone were, and who made them makes them again.
    bool solutions_again = false, solutions_lost = false;
    KnownSolutions known;
    std::map<int, uint64_t> links_made_of; // contents of gauge fields, by the way
    // Files that eigenvectors are to be written to (milcgpu_plugin_eigenvectors).
    struct EigenFile {
        std::string name;
        std::vector<uint64_t> of, not_of; // contents of links on this rank: of is empty until they come, then one
        bool done;
    };
    std::vector<EigenFile> eigen_files;
    Ledger ledger;
    int originals = 0; // calls of MILC's original that are under way, one in another
    double original_since = 0;

    bool active() const { return context != nullptr && links != nullptr && originals == 0; }
    bool in_double() const { return precision == 2; }
    bool poisons() const { return settings.asks_for("nan"); }
    int sites_of(int parity) const { return parity == MILCGPU_EVEN ? even_sites : sites - even_sites; }
    size_t bytes_of(int reals) const { return reals * (in_double() ? sizeof(double) : sizeof(float)); } // MILC's
    int real() const { return in_double() ? MILCGPU_DOUBLE : MILCGPU_SINGLE; }
    bool precision_is_set() const { return !settings.is("MILCGPU_PRECISION", "auto"); }

    // Each rank does work() by itself; returns the worst status, on all ranks. Where memory of a device is short, it is
    // repeated as long as a rank has idle memory to give back.
    milcgpu_status with_idle_given_back(const std::function<milcgpu_status()> &work);
    void log(int level, const std::string &text) const; // a line, or several, on stderr
    int device_number() const;
    bool open(int backend); // false: milcgpu_last_error() says why
    void close();
    void drop(); // the same without a copy of what only the device has
    // What belongs to a lattice that is gone is dropped: quark fields, known solutions. (Links go by content: the next
    // ones take their place.) Said by whoever writes the gauge field.
    void lattice_changed();
    // Links were made by this way (a number) of a gauge field with this content: where it was another one the last
    // time, the lattice has changed.
    void links_made(int way, uint64_t content);
    void say_unwritten(bool all); // eigen_files that stay unwritten: all, or those whose links have not come
    void lose_solutions(const std::string &why); // says it; an empty why: none are lost
    // The device's links with the content of these; nullptr, and said, where they could not be loaded. sample: the
    // caller looks at the rest of the host's links (LinkWatch) before it returns a result.
    LinkSet *links_for(milcgpu_routine routine, const void *fat, const void *lng,
                       Mirror::Look look = Mirror::Look::whole) {
        return links_at_head(routine, fat, lng, look).set;
    }
    // The same at the head of a call, with what else it asks of all ranks, in one gather (one more where links are
    // loaded). content: what something was made of, LinkSet::content().
    struct LinksAtHead {
        LinkSet *set;
        bool same_content, also; // on all ranks
    };
    LinksAtHead links_at_head(milcgpu_routine routine, const void *fat, const void *lng, Mirror::Look look,
                              const uint64_t *content = nullptr, bool also = true);
    // Whether the context is of no more use after this status.
    bool ends_context(int status) const {
        return status == MILCGPU_DEVICE_LOST || status == MILCGPU_COMM ||
               (status == MILCGPU_TIMED_OUT && collective.size() > 1);
    }
    // Closes it then. Where ranks have lost one another no other one is opened.
    void end_context_after(int status);
    // Says what milcgpu_last_error() has, and what happens now, for an error that nothing here mends.
    void report_failure(milcgpu_routine routine, int status);
    // A line on an error in this routine. The same line is said once while calls of the routine fail; when one
    // succeeds, or the device's work ends, a line says how many more there were.
    void log_failure(milcgpu_routine routine, const std::string &text);
    void end_failures(milcgpu_routine routine) noexcept;
    void end_failures() noexcept; // of all routines
    struct Failures {
        std::vector<std::string> said;
        long more = 0;
    };
    std::array<Failures, MILCGPU_ROUTINES> failures{};

    HostRecords link_records(const void *links_of_all_sites) const;
    // The records of one parity; MILC has all even sites first.
    HostRecords parity_of(const milcgpu_field &field, int parity) const;
};

Plugin &plugin();

// One line of what was thrown, to be called where it is caught. Allocates nothing.
void say_thrown(const char *where, const char *after) noexcept;

// Runs the work of an entry. Nothing that it throws leaves it: one line says what it was, and the answer is
// `otherwise`. It is in a forked child, too, without a line: there MILC's own routines work alone.
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

// In the handler of an exception, for an entry that all ranks have called and that cannot go on: prints a line, and
// tells the other ranks. If they cannot be reached any more, it asks the caller to end all of them.
void leave_call(const char *where, const char *after) noexcept;

// The same for an entry that all ranks call together.
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

// An entry that does a routine's work: 1, or 0 for MILC's own.
template <class Work> int done_by(milcgpu_routine routine, const Work &work) noexcept {
    return common_answer_of(routine_name(routine),
                            plugin().own_routines ? "MILC's own routine does this call" : "It could not be done", 0,
                            [&] {
                                const bool done = work();
                                if (done)
                                    plugin().end_failures(routine);
                                return done;
                            });
}

// What `attempt` returns; where memory was short, of a second time without the sets of links that were kept.
template <class Attempt> milcgpu_status with_links_dropped(milcgpu_routine routine, const Attempt &attempt) {
    Plugin &p = plugin();
    const milcgpu_status status = attempt();
    if (status != MILCGPU_NO_MEMORY)
        return status;
    p.log(1, format("%s: %s. Trying again without the links that were kept", routine_name(routine), reason().c_str()));
    p.links->drop_all();
    p.meson_links->drop_all();
    p.wilson->drop();
    p.eigenvectors->drop_all_but_newest();
    return attempt();
}

class Stopwatch {
  public:
    explicit Stopwatch(double &sum) : sum_(sum), since_(wall_seconds()) {}
    ~Stopwatch() { sum_ += wall_seconds() - since_; }

  private:
    double &sum_;
    double since_;
};

} // namespace milcgpu
