#include "milc_glue/routines/state.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/api/context.h"
#include "milc_glue/residency/link_watch.h"
#include "milc_glue/residency/reason.h"
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <new>
#include <utility>

namespace milcgpu {

// Never destroyed, because the CUDA runtime may be gone when destructors run at exit. In static memory, so that no
// entry fails before it can print why.
Plugin &plugin() {
    alignas(Plugin) static unsigned char scratch[sizeof(Plugin)];
    static Plugin *const only = new (scratch) Plugin;
    return *only;
}

namespace {

// Passes the words for what was thrown to use().
template <class Use> void with_words_thrown(const Use &use) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        use("the host's memory is exhausted");
    } catch (const std::exception &error) {
        use(error.what());
    } catch (...) {
        use("an unknown error");
    }
}

// A line of the library's.
void say(void *user, const char *line) {
    const char *const call = static_cast<const Plugin *>(user)->running.text;
    std::fprintf(stderr, "milcgpu: %s%s%s\n", call, *call != 0 ? ": " : "", line);
}

} // namespace

void say_thrown(const char *where, const char *after) noexcept {
    with_words_thrown([&](const char *what) {
        if (plugin().rank == 0)
            std::fprintf(stderr, "milcgpu: %s: %s. %s\n", where, what, after);
    });
}

void leave_call(const char *where, const char *after) noexcept {
    with_words_thrown([&](const char *what) {
        Plugin &p = plugin();
        ++p.certificate.thrown;
        p.collective.give_up(what);
        if (p.collective.broken() && p.end_all != nullptr) {
            char words[1000];
            std::snprintf(words, sizeof words, "%s: %s. MILC cannot go on: all ranks end", where, what);
            answer_of("a note", "It is left out", 0, [&] {
                p.certificate.note(words);
                return 0;
            });
            if (p.start.stopped != nullptr)
                p.start.stopped();
            p.end_all(p.end_all_user, words);
        } else if (p.rank == 0) { // errors of other ranks reach it, with their names
            std::fprintf(stderr, "milcgpu: %s: %s. %s\n", where, what, after);
        }
    });
}

milcgpu_status Plugin::with_idle_given_back(const std::function<milcgpu_status()> &work) {
    size_t least_used = SIZE_MAX;
    milcgpu_status status = MILCGPU_OK;
    do
        status = collective(work());
    while (status == MILCGPU_NO_MEMORY && context->device->reclaim_on_all_ranks(least_used));
    return status;
}

void Plugin::log(int level, const std::string &text) {
    if (verbosity >= level)
        print(text);
    if (level > 0 || rank != 0)
        return;
    certificate.note(text);
    if (start.file_is_due < INFINITY)
        start.file_is_due = 0;
}

void Plugin::print(const std::string &text) const {
    if (rank != 0)
        return;
    const std::string shown = printable(text);
    for (size_t at = 0; at < shown.size();) {
        const size_t end = std::min(shown.find('\n', at), shown.size());
        std::fprintf(stderr, "milcgpu: %.*s\n", static_cast<int>(end - at), shown.c_str() + at);
        at = end + 1;
    }
}

// MILCGPU_DEVICE; else the ranks of a host take its devices in turn.
int Plugin::device_number() const {
    const int count = settings.is_given("MILCGPU_DEVICE") ? 0 : Device::gpu_count();
    return count > 0 ? node_rank % count : std::stoi(settings["MILCGPU_DEVICE"]);
}

// Chooses by the settings and by what is fastest: links of the fewest reals are the fastest on a GPU, and the slowest
// on a CPU.
bool Plugin::open(int backend) {
    constexpr int dslash_from_sites = 4096; // on smaller lattices the copies take longer than MILC's own D
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.device = device_number();
    options.verbosity = verbosity;
    options.message = say;
    options.user = this;
    options.learn = 1;
    layout.site_map = site_map.data();
    if (collective(milcgpu_context_create(&layout, &options, &context)) != MILCGPU_OK)
        return false;
    context->device->set_memory_limit(static_cast<size_t>(memory_by_test()) * sites);
    milcgpu_context_backend(context, &backend);
    const bool gpu = backend == MILCGPU_CUDA;
    policy =
        precision_is_set() ? policy_named(settings["MILCGPU_PRECISION"]) : automatic_policy(gpu, sites, in_double());
    policy = &policies[collective(policy - policies.data())]; // by the largest box
    reconstruct = !settings.is("MILCGPU_RECONSTRUCT", "auto") ? std::stoi(settings["MILCGPU_RECONSTRUCT"])
                  : gpu                                       ? 9
                                                              : 18;
    takes_dslash =
        settings.asks_for("dslash") || (!settings.asks_for("no_dslash") && gpu && sites >= dslash_from_sites);
    // With fewer threads a hash takes as long as the copy that it saves.
    constexpr int threads_to_hash = 4;
    const bool keeps =
        settings.asks_for("keep") || (!settings.asks_for("load") && gpu && idle_threads() + 1 >= threads_to_hash);
    Habits habits;
    habits.looks_at_all = !gpu || sites < links_whole_below_sites || settings.asks_for("look_at_all");
    habits.keeps_fields = !collective(!keeps);
    Residency::open(*this, context, habits);
    context->release_more = ways_to_free();
    watch_threads = idle_threads();
    return true;
}

void Plugin::bring_to_host(const char *who, const std::function<void()> &copy) {
    constexpr int tries = 3; // another program may free memory in between
    for (int left = tries - 1;; --left) {
        try {
            return copy();
        } catch (const Error &error) {
            if (error.status() != Status::no_memory || left == 0)
                throw;
            log(1, format("%s: %s. Trying again without what can be loaded again", who, error.what()));
        }
        drop_reloadable();
    }
}

void Plugin::close() {
    const auto attempt = [&](bool needed, const auto &copy) {
        std::string why;
        try {
            copy();
        } catch (const std::exception &error) {
            why = error.what();
        }
        return needed ? collective.words(why) : why;
    };
    const std::string solutions = attempt(vectors.defers(), [&] { vectors.all_to_host(); });
    lose_solutions(solutions);
    const std::string why = attempt(gauge != nullptr, [&] {
        if (gauge != nullptr) // all ranks call it, whatever this one has found above
            gauge->to_host(MILCGPU_LINKS | MILCGPU_MOMENTA, "the end of the device's work");
    });
    if (!why.empty()) {
        certificate.lost = lost = true;
        log(0, why);
    }
    drop();
}

void Plugin::lattice_changed() {
    say_unwritten(false); // their links are gone
    Residency::lattice_changed();
}

void Plugin::say_unwritten(bool all) {
    for (EigenFile &file : eigen_files)
        if ((all || file.of == 0) && !std::exchange(file.done, true))
            log(0, format("%s: no eigenvectors were written into %s: no solve without a twist and with eps_naik 0 was "
                          "deflated on its lattice; give one of them 'deflate yes'",
                          routine_name(MILCGPU_EIGENSOLVE), file.name.c_str()));
}

void Plugin::lose_solutions(const std::string &why) {
    if (why.empty())
        return;
    deferred.drop(MILCGPU_SOLUTIONS);
    (solutions_again ? solutions_lost : lost) = true;
    certificate.lost = certificate.lost || lost;
    log(0, why + (solutions_again ? ". They are made again" : ""));
}

void Plugin::count_for_certificate() {
    if (context == nullptr)
        return;
    certificate.sources += std::exchange(context->sources_reloaded, 0);
    certificate.memory.sites = std::max(1, sites);
    certificate.used(*context->device);
}

void Plugin::drop() {
    end_failures();
    drop_all();
    count_for_certificate();
    milcgpu_context_destroy(context);
    context = nullptr;
}

Plugin::LinksAtHead Plugin::links_at_head(milcgpu_routine routine, const void *fat, const void *lng, Mirror::Look look,
                                          const uint64_t *content, bool also, const std::function<void()> &make_room) {
    constexpr uint64_t asks_for_content = 1, also_bit = 2;
    const uint64_t seen = links->look(fat, lng, look);
    const Collective::Words all =
        collective.on_all_ranks({seen, content != nullptr ? links->with_content(seen, *content) : 0,
                                 (content != nullptr ? asks_for_content : 0) | (also ? also_bit : 0)});
    LinksAtHead head{nullptr, false, (all[2] & also_bit) != 0};
    const milcgpu_status status = links->ready(fat, lng, head.set, all[0]);
    if (status == MILCGPU_OK) {
        if ((all[2] & asks_for_content) != 0)
            head.same_content = LinkCache::found(all[0]) ? links->is_among(*head.set, all[1])
                                                         : !collective(head.set->content() != *content);
        return head;
    }
    if (status == MILCGPU_NO_MEMORY && make_room) {
        make_room();
        return links_at_head(routine, fat, lng, look, content, false);
    }
    head.set = nullptr;
    if (collective.on_all_ranks(links->are_deferred(fat, lng)) != 0) {
        const std::string why = links->why_no_sum();
        const char *const gone = "links that were made on the device, and never copied, are no longer there";
        log(why.empty() ? 1 : 0,
            format("%s: %s: they are made again", name_of(routine), why.empty() ? gone : why.c_str()));
        return head;
    }
    report_failure(routine, status);
    return head;
}

void Plugin::end_context_after(int status) {
    if (!ends_context(status))
        return;
    if (status != MILCGPU_DEVICE_LOST)
        site_map.clear(); // old messages may still arrive: no other start
    close();
}

void Plugin::report_failure(milcgpu_routine routine, int status) {
    const bool with_gauge = gauge != nullptr && gauge->newer_on_device(MILCGPU_LINKS | MILCGPU_MOMENTA) != 0;
    const char *after = !own_routines                   ? "It could not be done"
                        : !ends_context(status)         ? "MILC's own routine does this call"
                        : status != MILCGPU_DEVICE_LOST ? "MILC runs on the CPU from here on"
                        : with_gauge                    ? "the device is lost"
                                                        : "the device is lost: MILC runs on the CPU from here on";
    ++ledger[routine].failed;
    certificate.not_finite += status == MILCGPU_NAN_OR_INF;
    certificate.messages += status == MILCGPU_COMM && context != nullptr && context->ranks->lost() != 0;
    log_failure(routine, format("%s: %s. %s", name_of(routine), reason().c_str(), after));
    end_context_after(status);
}

void Plugin::log_failure(milcgpu_routine routine, const std::string &text, int level) {
    constexpr size_t most = 8; // lines may differ in their numbers
    std::vector<std::string> &said = failures[routine].said;
    const std::string line = without_sizes(text);
    if (std::find(said.begin(), said.end(), line) != said.end()) {
        if (level == 0) {
            ++failures[routine].more;
            certificate.note(text);
        }
        return;
    }
    log(level, text);
    if (said.size() < most)
        said.push_back(line);
}

// Allocates nothing: the routine's work is done.
void Plugin::end_failures(milcgpu_routine routine) noexcept {
    Failures &of = failures[routine];
    if (of.more > 0 && rank == 0)
        std::fprintf(stderr, "milcgpu: %s: the same in %ld more %s\n", routine_name(routine), of.more,
                     of.more == 1 ? "call" : "calls");
    of.said.clear();
    of.more = 0;
}

void Plugin::end_failures() noexcept {
    for (int r = 0; r < MILCGPU_ROUTINES; ++r)
        end_failures(static_cast<milcgpu_routine>(r));
}

} // namespace milcgpu
