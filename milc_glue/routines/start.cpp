// Start and exit: what is offloaded, and the tables that say so.
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include "gpu_kernels/machine/backend/wake.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/sized.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/api/test_hooks.h"
#include "milc_glue/host/host_memory.h"
#include "milc_glue/host/whole_file.h"
#include "milc_glue/residency/idle_threads.h"
#include "milc_glue/routines/rank_start.h"
#include "milc_glue/routines/solve.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <omp.h>
#include <optional>
#include <thread>
#include <utility>

using namespace milcgpu;

namespace {

const double loaded_at = wall_seconds(); // the library is loaded as the program starts

// True if MILC's program has solves that are offloaded; the gradient flow has none.
bool has_solves(const milcgpu_milc &milc) {
    bool any = false;
    for (int r = 0; r <= MILCGPU_KS_MULTICG; ++r)
        any = any || milc.not_offloaded[r] == nullptr;
    return any;
}

// The part of a routine that stays MILC's own, if the device does the rest.
const char *rest_of(const Plugin &p, milcgpu_routine routine) {
    return routine == MILCGPU_SPIN_TASTE                    ? "; local operators: host"
           : routine == MILCGPU_PLAQUETTE && p.compare == 0 ? "; of links that MILC has: MILC's own"
                                                            : "";
}

std::string routine_table(const Plugin &p, const milcgpu_milc &milc) {
    const std::string device = milcgpu_context_device_name(p.context), host = "host, " + threads_in_words();
    const char *solves = p.own_routines || p.precision_is_set() ? p.policy->name : "as asked";
    const std::string wilson_dslash =
        p.settings.asks_for("no_dslash") ? "MILC's own (MILCGPU_AUTO=0)" : "MILC's own, which is no slower here";
    const std::string dslash = wilson_dslash + (milc.keeps_solutions == 0 || p.settings.asks_for("copy_back")
                                                    ? ""
                                                    : ", but for solutions that a trajectory keeps on the device");
    std::string text = format("%-24s %-13s %s\n", "MILC's routine", "precision", "runs on"), absent;
    for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
        const auto routine = static_cast<milcgpu_routine>(r);
        if (!has_solves(milc) && milc.not_offloaded[r] != nullptr)
            continue;
        if (milc.not_offloaded[r] != nullptr && std::strcmp(milc.not_offloaded[r], MILCGPU_ABSENT) == 0) {
            absent += (absent.empty() ? MILCGPU_ABSENT ": " : ", ") + std::string(routine_name(routine));
            continue;
        }
        const bool on_host = routine == MILCGPU_BACK_LINKS || routine == MILCGPU_GATHER_LINKS ||
                             routine == MILCGPU_RANDOM_MOMENTA || routine == MILCGPU_RANDOM_SOURCE;
        const char *left = milc.not_offloaded[r] != nullptr                      ? milc.not_offloaded[r]
                           : routine == MILCGPU_DSLASH && !p.takes_dslash        ? dslash.c_str()
                           : routine == MILCGPU_WILSON_DSLASH && !p.takes_dslash ? wilson_dslash.c_str()
                                                                                 : nullptr;
        text += format(
            "%-24s %-13s %s\n", routine_name(routine),
            left != nullptr                                                                                     ? "-"
            : routine <= MILCGPU_KS_MULTICG || routine == MILCGPU_MAT_INVERT || routine == MILCGPU_CLOVER_SOLVE ? solves
            : !p.in_double()                ? "single"
            : routine == MILCGPU_EIGENSOLVE ? "by tolerance"
                                            : "double",
            left != nullptr ? left
            : on_host       ? host.c_str()
                            : (device + (p.own_routines ? rest_of(p, routine) : "")).c_str());
    }
    return text + absent;
}

void print_start(Plugin &p, const milcgpu_milc &milc) {
    p.log(1, format("%s, PRECISION %d, with milcgpu %s", milc.milc, milc.precision, MILCGPU_VERSION));
    if (!p.settings.given().empty())
        p.log(1, "settings: " + p.settings.given());
    p.log(2, "all settings (allowed):\n" + p.settings.list());
    const auto origin = [&](const char *name) {
        return p.settings.is(name, "auto") ? format("automatic, %s sets it", name) : std::string(name);
    };
    const std::string compared = p.compare == 0 ? ""
                                 : p.compare == 1
                                     ? "; every routine is also run by MILC and compared (MILCGPU_COMPARE)"
                                     : "; compared, and ended at the first difference (MILCGPU_COMPARE=strict)";
    if (has_solves(milc))
        p.log(1, format("precision of solves: %s (%s), long links of the sloppy part in %d reals (%s)%s",
                        p.own_routines || p.precision_is_set() ? p.policy->name : "as MILC's switches say",
                        origin("MILCGPU_PRECISION").c_str(), p.reconstruct, origin("MILCGPU_RECONSTRUCT").c_str(),
                        compared.c_str()));
    else if (p.compare != 0)
        p.log(1, compared.substr(2));
    p.log(1, routine_table(p, milc));
    if (p.collective.size() > 1)
        p.log(1, rank_table(p));
    if (!has_solves(milc))
        return;
    milcgpu_plugin_solve_call call{};
    call.parity = MILCGPU_EVEN;
    call.tolerance = 1e-6;
    call.max_iterations = call.max_restarts = 1;
    const milcgpu_solve_spec spec = solve_spec(p, *p.policy, call);
    char plan[1000] = "";
    if (milcgpu_memory_plan(p.context, p.real(), &spec, plan, sizeof plan, nullptr) == MILCGPU_OK)
        p.log(1, std::string("memory of one set of links and a solve:\n") + plan);
}

// Before the start, which logs a setting that is refused.
std::optional<Settings> settings_if_good() {
    try {
        return Settings::of_environment();
    } catch (const Error &) {
        return {};
    }
}

void remove_older(const std::string &name) {
    std::error_code absent;
    if (std::filesystem::is_regular_file(std::filesystem::symlink_status(name, absent)))
        std::filesystem::remove(name, absent);
}

void spare_a_thread(Start &start) {
    const int threads = omp_get_max_threads();
    if (threads < omp_get_num_procs() || threads < 3)
        return;
    start.threads_then = threads;
    omp_set_num_threads(threads - 1);
}
void wait_until_awake() {
    Start &start = plugin().start;
    if (start.waking.joinable())
        start.waking.join();
    if (start.threads_then != 0 && omp_get_max_threads() == start.threads_then - 1)
        omp_set_num_threads(start.threads_then);
    start.threads_then = 0;
}

// Rank 0 writes the file of MILCGPU_TABLE. Returns false, after a line in the log, if it cannot be written.
bool write_file(const std::vector<Ledger> &of_ranks, double run_seconds) {
    Plugin &p = plugin();
    const std::string name = table_file(p.settings["MILCGPU_TABLE"]);
    if (name.empty() || p.rank != 0)
        return true;
    try {
        const TableKind kind = name.back() == 'v'   ? TableKind::csv
                               : name.back() == 'n' ? TableKind::json
                                                    : TableKind::txt;
        std::error_code absent;
        std::filesystem::file_time_type &mine = p.start.file_time;
        if (const auto seen = std::filesystem::last_write_time(name, absent);
            !absent && seen > mine && mine != mine.min()) {
            p.log(0, format("MILCGPU_TABLE: another program also writes %s: give each run a file of its own",
                            name.c_str()));
            mine = mine.max(); // once
        }
        const std::string text = p.certificate.file(kind, of_ranks, run_seconds);
        WholeFile file;
        file.open(name, 0, true); // a pipe would block
        file.write(text.data(), text.size());
        file.finish();
        if (mine != mine.max())
            mine = std::filesystem::last_write_time(name, absent);
        return true;
    } catch (const std::exception &error) {
        p.log(0, format("MILCGPU_TABLE: %s. The table at exit comes on stderr", error.what()));
        return false;
    }
}

void print_tables(const std::vector<Ledger> &of_ranks) {
    Plugin &p = plugin();
    p.start.tables_are_due = false;
    p.start.file_is_due = INFINITY;
    p.end_failures();
    p.say_unwritten(true);
    p.count_for_certificate();
    const double run_seconds = wall_seconds() - loaded_at;
    const bool written = write_file(of_ranks, run_seconds);
    p.start.file_time = std::filesystem::file_time_type::min(); // from here on other runs may write it
    if (!written || p.verbosity > 0)
        p.print(table_of(of_ranks, run_seconds));
    if (p.gauge != nullptr)
        p.log(1, p.gauge->table());
    const std::string comparison = p.ledger.comparison();
    if (!comparison.empty())
        p.log(1, "comparison with MILC's own routines:\n" + comparison);
    p.log(1, "certificate of the run\n" + p.certificate.text(of_ranks, run_seconds));
}

// For a MILC that has not announced its end; messages no longer pass.
void print_exit() {
    answer_of("the tables at exit", "They are left out", 0, [] {
        if (plugin().start.tables_are_due) {
            plugin().certificate.stopped = true;
            print_tables({plugin().ledger});
        }
        return 0;
    });
}

// Prints the tables at the start; those at exit are due from then on.
void begin_tables(Plugin &p) {
    print_start(p, p.start.milc);
    Certificate &c = p.certificate;
    if (c.ended) // the run before
        c = {};
    char date[20] = "";
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    std::strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    c.date = date;
    c.milc = format("%s: %s, PRECISION %d", program_invocation_short_name, p.start.milc.milc, p.start.milc.precision);
    c.device = milcgpu_context_device_name(p.context);
    c.settings = p.settings.given();
    std::copy_n(p.start.milc.ranks == 1 ? p.start.milc.extent : p.start.milc.whole, 4, c.lattice.begin());
    p.start.tables_are_due = true;
    p.start.stopped = print_exit;
    if (table_file(p.settings["MILCGPU_TABLE"]) != "" && p.rank == 0)
        p.write_file_so_far();
    static const int registered = std::atexit(print_exit);
    static_cast<void>(registered);
}

// MAJOR.MINOR: the version of the interface between glue and library.
std::string interface_of(const std::string &version) { return version.substr(0, version.rfind('.')); }

bool are_known(const milcgpu_report_sizes &of) {
    return is_size_of<milcgpu_solve_report>(of.solve) && is_size_of<milcgpu_multi_mass_report>(of.multi_mass) &&
           is_size_of<milcgpu_fatlink_report>(of.fatlink) && is_size_of<milcgpu_force_report>(of.force) &&
           is_size_of<milcgpu_reunitarize_report>(of.reunitarize) &&
           is_size_of<milcgpu_gauge_fix_report>(of.gauge_fix) && is_size_of<milcgpu_flow_report>(of.flow) &&
           is_size_of<milcgpu_eigen_report>(of.eigen);
}

// Why MILC cannot be served; empty if it can.
std::string refusal_of_glue(const milcgpu_milc &milc) {
    if (milc.struct_size != sizeof milc || !are_known(milc.report_sizes) ||
        interface_of(milc.header_version) != interface_of(MILCGPU_VERSION))
        return format("the glue in this program was compiled with milcgpu %s, the library that is loaded is %s%s: "
                      "build MILC again with the milcgpu that it is to run with",
                      milc.header_version, MILCGPU_VERSION,
                      std::strcmp(milc.header_version, MILCGPU_VERSION) == 0 ? ", but from other sources" : "");
    return "";
}
std::string refusal(const milcgpu_milc &milc) {
    if (milc.ranks != 1 && milc.messages == nullptr)
        return format("%d ranks, and no mpi.h was found when MILC was built: milcgpu cannot pass messages", milc.ranks);
    if (milc.site_map == nullptr)
        return "MILC's site order could not be read (node_index and the sites' coordinates disagree, or an extent of "
               "the whole lattice is odd)";
    return refusal_of_cut(milc);
}

int refused(Plugin &p, const std::string &why) {
    p.log(0, why + (p.own_routines ? ". MILC runs on the CPU" : ""));
    return 0;
}

constexpr size_t most_pieces = 256; // enough for the threads of a host, if records are few and large

// All threads call part(what, from, to) for pieces of 0 ... n - 1. Returns the results, or-ed.
int in_pieces(size_t n, int (*part)(void *, size_t, size_t), void *what) {
    constexpr size_t most = 2048;
    const size_t piece = std::clamp(n / most_pieces, size_t{1}, most);
    int results = 0;
#pragma omp parallel for reduction(| : results) if (n > most)
    for (size_t from = 0; from < n; from += piece)
        results |= part(what, from, std::min(from + piece, n));
    return results;
}

} // namespace

void Plugin::write_file_so_far() {
    const double since = wall_seconds();
    count_for_certificate();
    const bool written = write_file({ledger}, since - loaded_at);
    const double now = wall_seconds();
    start.file_is_due = written ? now + std::max(1.0, 200 * (now - since)) : INFINITY;
}

extern "C" {

void milcgpu_plugin_begin(int node_ranks) {
    answer_of("memory for fields", "The C library manages it as without milcgpu", 0, [&] {
        const std::optional<Settings> settings = settings_if_good();
        if (settings) // if the run ends before it writes this file, an older one must not pass for its own
            remove_older(table_file((*settings)["MILCGPU_TABLE"]));
        if (settings && !settings->is_on("MILCGPU_OFF") && !settings->asks_for("no_pool") &&
            !plugin().start.all_threads_work) {
            use_threads_of_rank(node_ranks);
            require_threads();
            keep_freed_memory(node_ranks);
            plugin().start.all_threads_work = true;
        }
        return 0;
    });
}

void milcgpu_plugin_touch(size_t bytes) {
    if (plugin().start.all_threads_work)
        touch_next_block(bytes);
}
int milcgpu_plugin_fill(void *to, int byte, size_t bytes) {
    if (!plugin().start.all_threads_work)
        return 0;
    fill_bytes(to, byte, bytes);
    return 1;
}
int milcgpu_plugin_copy(void *to, const void *from, size_t bytes) {
    if (!plugin().start.all_threads_work)
        return 0;
    copy_bytes(to, from, bytes);
    return 1;
}

int milcgpu_plugin_by_all_threads(size_t n, int (*part)(void *, size_t, size_t), void *what) {
    return plugin().start.all_threads_work ? in_pieces(n, part, what) : -1;
}

void *milcgpu_plugin_begin_work(size_t n, int (*part)(void *, size_t, size_t), void *what) {
    std::unique_ptr<IdleThreads> work;
    answer_of("work beside the GPU", "It is done afterwards", 0, [&] {
        work = std::make_unique<IdleThreads>(plugin().start.all_threads_work ? plugin().watch_threads : 0);
        const size_t pieces = std::min(n, most_pieces);
        if (!work->begin(pieces, [=](size_t k) { part(what, n * k / pieces, n * (k + 1) / pieces); }))
            work.reset();
        return 0;
    });
    return work.release();
}
void milcgpu_plugin_end_work(void *work, int all) {
    const std::unique_ptr<IdleThreads> threads(static_cast<IdleThreads *>(work));
    if (threads && all)
        threads->end();
}

int milcgpu_plugin_routine_by_all_threads(milcgpu_routine routine, size_t n, int (*part)(void *, size_t, size_t),
                                          void *what) {
    Plugin &p = plugin();
    if (!p.active())
        return 0;
    RoutineAccount &account = p.ledger[routine];
    const Stopwatch watch(account.seconds);
    in_pieces(n, part, what);
    ++account.calls;
    return 1;
}

void milcgpu_plugin_wake(int node_rank) {
    answer_of("the GPU's early start", "It starts with the first routine", 0, [&] {
        const std::optional<Settings> settings = settings_if_good();
        if (node_rank < 0 || !settings || settings->is_on("MILCGPU_OFF") || settings->is("MILCGPU_BACKEND", "host") ||
            plugin().start.waking.joinable())
            return 0;
        const int number = settings->is_given("MILCGPU_DEVICE") ? std::stoi((*settings)["MILCGPU_DEVICE"]) : node_rank;
        plugin().start.waking = std::thread([number] { wake(number); });
        spare_a_thread(plugin().start);
        std::atexit(wait_until_awake);
        return 0;
    });
}

int milcgpu_plugin_start(const milcgpu_milc *milc) {
    wait_until_awake();
    Plugin &p = plugin();
    const char *after = milc->own_routines != 0 ? "MILC runs on the CPU" : "It could not be done";
    const int started = common_answer_of("start", after, -1, [&] {
        p.close();
        p.site_map.clear();
        p.eigen_files.clear();
        p.rank = milc->rank;
        p.own_routines = milc->own_routines != 0;
        const std::string mismatch = refusal_of_glue(*milc);
        if (!mismatch.empty())
            return refused(p, mismatch);
        p.report_sizes = milc->report_sizes;
        join_ranks(p, *milc);
        const std::string bad_setting = p.collective.words(take_settings(p));
        if (!bad_setting.empty())
            return refused(p, bad_setting);
        p.verbosity = std::stoi(p.settings["MILCGPU_VERBOSE"]);
        p.seconds_between_lines = p.settings.asks_for("progress") ? 0 : 30;
        if (p.own_routines && p.settings.is_on("MILCGPU_OFF"))
            return 0;
        const std::string why = p.collective.words(refusal(*milc));
        if (!why.empty())
            return refused(p, why);
        p.compare = !p.own_routines                              ? 0
                    : p.settings.is("MILCGPU_COMPARE", "strict") ? 2
                                                                 : p.settings.is_on("MILCGPU_COMPARE");
        take_lattice(p, *milc);
        p.start.milc = *milc;
        p.start.name = milc->milc;
        p.start.milc.milc = p.start.name.c_str();
        if (!p.open(MILCGPU_AUTO)) // a door without MILC's own routines retreats to the host next: the map stays
            return refused(p, p.reason());
        begin_tables(p);
        return 1;
    });
    if (started <= 0)
        p.close();
    return started;
}

int milcgpu_plugin_stopped(void) {
    const bool is_on = plugin().start.tables_are_due;
    print_exit();
    return is_on;
}

void milcgpu_plugin_input_left(void) { plugin().certificate.unread = true; }

int milcgpu_plugin_exit(int status) {
    const auto judged = [status](const Settings &settings, bool bad) {
        return status == 0 && bad && is_judged(settings["MILCGPU_TABLE"]) ? MILCGPU_EXIT_BAD : status;
    };
    if (!plugin().start.tables_are_due) // MILC may have left its input before the first call of milcgpu
        return answer_of("the status at exit", "It is MILC's", status, [&] {
            const std::optional<Settings> settings = settings_if_good();
            return settings && !settings->is_on("MILCGPU_OFF") ? judged(*settings, plugin().certificate.unread)
                                                               : status;
        });
    return common_answer_of("the tables at exit", "They are left out", status, [&] {
        Plugin &p = plugin();
        p.certificate.ended = true;
        print_tables(p.collective.gathered(p.ledger));
        if (p.collective.size() > 1)
            p.drop();
        return judged(p.settings, p.certificate.unread || p.certificate.is_bad(p.ledger));
    });
}

int milcgpu_plugin_agreed(int mine) {
    return common_answer_of("a decision", "The careful way is taken", 1, [&] { return plugin().collective(mine); });
}

int milcgpu_plugin_retreat(void) {
    Plugin &p = plugin();
    return common_answer_of("host backend", "It could not be done", 0, [&] {
        int backend = MILCGPU_CUDA;
        if (p.context != nullptr)
            milcgpu_context_backend(p.context, &backend);
        if (backend == MILCGPU_HOST) // memory is short now; the next call may find some
            return false;
        p.close();
        if (p.retreated || p.site_map.empty())
            return false;
        if (!p.open(MILCGPU_HOST)) // memory is short; a later call may find some
            return false;
        p.retreated = true;
        p.log(0, "the host backend does this call and all that follow");
        if (!p.start.tables_are_due)
            begin_tables(p);
        return true;
    });
}

int milcgpu_plugin_active(void) { return plugin().active(); }
int milcgpu_plugin_takes_dslash(void) {
    const Plugin &p = plugin();
    return p.active() && (p.takes_dslash || p.vectors.defers());
}
int milcgpu_plugin_gathers(void) {
    Plugin &p = plugin();
    const bool yes = p.active() && !p.settings.asks_for("no_gather");
    if (yes && !std::exchange(p.said_gathers, true))
        p.log(1, "all colours of a set of propagators, and random sources of a condensate, are solved for in one call "
                 "(MILCGPU_AUTO=0: one after the other)");
    return yes;
}
int milcgpu_plugin_mass_by_mass(int n, const double *masses) {
    Plugin &p = plugin();
    // A solve takes steps in proportion to 1 / mass, or fewer for masses below the spectrum. Solved together, all
    // masses take the steps of the lightest, on either parity.
    constexpr double parities = 2;
    const double lightest = *std::min_element(masses, masses + n);
    double steps = 0; // in units of the steps of the lightest mass
    for (int i = 0; i < n; ++i)
        steps += lightest / masses[i];
    const bool yes = p.active() && !p.settings.asks_for("no_gather") && lightest > 0 && steps <= parities;
    if (yes && !std::exchange(p.said_mass_by_mass, true))
        p.log(1, "masses of a set that lie far apart are solved one by one, on the even sites alone (MILCGPU_AUTO=0: "
                 "together, on both parities)");
    return yes;
}
int milcgpu_plugin_compare(void) { return plugin().compare; }

void milcgpu_plugin_original(milcgpu_routine routine, int entering) {
    Plugin &p = plugin();
    p.originals += entering != 0 ? 1 : -1;
    if (entering != 0 && p.originals == 1)
        p.original_since = wall_seconds();
    if (entering == 0 && p.originals == 0) {
        ++p.ledger[routine].cpu_calls;
        p.ledger[routine].cpu_seconds += wall_seconds() - p.original_since;
        p.keep_file();
    }
}

void milcgpu_plugin_says_once(milcgpu_routine routine, const char *text) {
    answer_of(routine_name(routine), "MILC's own routine does this call", 0, [&] {
        Plugin &p = plugin();
        if (*text != 0 && p.start.milc.not_offloaded[routine] == nullptr && // else in the table
            p.certificate.remarks.insert({routine, text}).second)
            p.log(1, format("%s: %s", routine_name(routine), text));
        return 0;
    });
}

void milcgpu_plugin_ended(void) { plugin().certificate.ended = true; }

void milcgpu_plugin_lattice_is(const double *plaquettes, const unsigned *checksum) {
    answer_of("the plaquettes of the certificate", "They are left out", 0, [&] {
        if (plaquettes != nullptr)
            plugin().certificate.measured(plaquettes[0], plaquettes[1]);
        if (checksum != nullptr)
            plugin().certificate.checksum = format("%x", *checksum);
        return 0;
    });
}

double milcgpu_plugin_seconds(void) { return wall_seconds(); }
void milcgpu_plugin_inject_fault(int fault) { milcgpu_fault_inject(plugin().context, fault); }
void milcgpu_plugin_fail_allocations(int n) {
    if (plugin().context != nullptr)
        plugin().context->device->inject(Fault::allocation, -n);
}

} // extern "C"
