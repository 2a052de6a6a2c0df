// The plugin behind the use_gpu glue; see plugin.h. One per process, on top of the C interface.
#include "milc_glue/plugin.h"
#include "gpu_kernels/backend/device.h"
#include "milc_glue/host_fields.h"
#include "milc_glue/ledger.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace milcgpu;

namespace {

const double loaded_at = wall_seconds(); // the library is loaded as the program starts

// Precisions of a solve, from the fastest to the safest; after an error the next one of `safer` is tried.
struct Policy {
    const char *name;
    int precise, sloppy;
    int safer; // index, -1: MILC's own routine
};
constexpr Policy policies[] = {{"double-half", MILCGPU_DOUBLE, MILCGPU_HALF, 1},
                               {"double-single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 2},
                               {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, -1},
                               {"single-half", MILCGPU_SINGLE, MILCGPU_HALF, 4},
                               {"single", MILCGPU_SINGLE, MILCGPU_SINGLE, 2}};

// Sets of links kept on the device: HISQ with three eps_naik, their derivative, and twisted copies.
constexpr size_t most_link_sets = 8;
constexpr unsigned sampled_one_in = 32;
constexpr int sampled_from_sites = 16384; // smaller lattices are hashed whole: there a sample would be too few links
constexpr int hash_slices = 8;
constexpr int dslash_from_sites = 4096;  // below, the copies take longer than MILC's own (performance.md)
constexpr int half_from_sites = 65536;   // below, half precision iterates no faster than single (performance.md)
constexpr int single_from_sites = 10000; // below, single no faster than double

// What a set of links on the host is known by: its eighths, and a random sample of all of it.
struct LinkHash {
    uint64_t slice[hash_slices], sample;
    uint64_t all() const {
        uint64_t sum = 0;
        for (const uint64_t s : slice)
            sum = 31 * sum + s;
        return sum;
    }
};

struct LinkSet {
    const void *fat, *lng;
    LinkHash hash;
    milcgpu_links *handle;
    long used;
};

// A refined solution of a multi-mass call: what a solve that asks for it again would find.
struct Known {
    const void *source, *solution;
    int parity;
    double mass;
    uint64_t links, source_hash, solution_hash;
    bool zero_source;
    milcgpu_shift_report report;
};

struct SolutionsCompared {
    double gpu_residual, cpu_residual, relative_difference;
    double worst; // relative to what is allowed
};

const char *environment(const char *name, const char *otherwise) {
    const char *value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : otherwise;
}

class Plugin {
  public:
    bool start(const milcgpu_milc &milc);
    bool retreat();
    bool active() const { return context_ != nullptr && originals_ == 0; }
    bool takes_dslash() const { return active() && takes_dslash_; }
    void original(milcgpu_routine routine, bool entering);
    int compare() const { return compare_; }
    bool solve(const milcgpu_plugin_solve_call &call, milcgpu_solve_report &report);
    bool multi_mass(const milcgpu_plugin_multi_mass_call &call, milcgpu_shift_report *shifts,
                    milcgpu_multi_mass_report &report);
    bool dslash(const void *fat, const void *lng, int parity, const milcgpu_field &source,
                const milcgpu_field &destination);
    bool links(milcgpu_routine routine, milcgpu_fatlink_spec spec, const void *gauge, int n, const double *eps,
               void *const *fat, void *const *lng, void *v, void *y, void *w, milcgpu_fatlink_report &report);
    void back_links(const void *links, int hops, void *back);
    void gather_links(const void *first, size_t pitch, void *to);
    bool compare_solve(const milcgpu_plugin_solve_call &call, int iterations, double seconds,
                       milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds);
    bool compare_multi_mass(const milcgpu_plugin_multi_mass_call &call, int iterations, double seconds,
                            const milcgpu_field *cpu_solutions, int cpu_iterations, double cpu_seconds);
    bool compare_fields(milcgpu_routine routine, const char *what, double difference, double allowed, double seconds,
                        double cpu_seconds);
    void inject_fault(int fault) { milcgpu_inject_fault(context_, fault); }
    void at_exit();
    int sites() const { return sites_; }
    bool in_double() const { return precision_ == 2; }
    HostRecords parity_of(const milcgpu_field &field, int parity) const;

  private:
    bool read_settings();
    bool setting(const char *name, std::string &value, const char *words) const;
    const Policy *policy_for(int mixed) const;
    bool open(int backend);
    void close();
    void make_neighbours(const milcgpu_milc &milc);
    void print_start(const milcgpu_milc &milc) const;
    std::string routine_table() const;
    void say(int level, const std::string &text) const;
    int real() const { return in_double() ? MILCGPU_DOUBLE : MILCGPU_SINGLE; }
    milcgpu_field link_field(const void *links) const { return {const_cast<void *>(links), real(), 0}; }
    HostRecords link_records(const void *links) const;
    uint64_t slice_of(const void *fat, const void *lng, int slice) const;
    uint64_t sample_of(const void *fat, const void *lng) const;
    LinkHash hash_of(const void *fat, const void *lng) const;
    LinkSet &slot_for(const void *fat, const void *lng);
    void keep(LinkSet &set, const void *fat, const void *lng);
    bool drop_oldest(const LinkSet *except);
    void drop_all();
    LinkSet *links_for(const void *fat, const void *lng);
    bool fail(milcgpu_routine routine, int status);
    bool fallen_back(milcgpu_routine routine, int status, const Policy *&policy);
    const Known *known(const milcgpu_plugin_solve_call &call);
    void remember(const milcgpu_plugin_multi_mass_call &call, uint64_t links, bool zero_source,
                  const milcgpu_shift_report *shifts);
    SolutionsCompared compared(const milcgpu_plugin_solve_call &call, const milcgpu_field &gpu,
                               const milcgpu_field &cpu);
    bool line(milcgpu_routine routine, const std::string &what, double worst, double seconds, double cpu_seconds);
    milcgpu_solve_spec spec_for(const Policy &policy, const milcgpu_plugin_solve_call &call) const;
    static void progress(void *self, int step, double residual);

    milcgpu_context *context_ = nullptr;
    int precision_ = 2, sites_ = 0, even_sites_ = 0, verbosity_ = 1, compare_ = 0, reconstruct_ = 18, originals_ = 0;
    int rank_ = 0;
    bool hash_all_ = false, takes_dslash_ = false, retreated_ = false;
    double original_since_ = 0, progress_at_ = 0;
    const Policy *policy_ = nullptr; // of MILCGPU_PRECISION, or automatic
    bool policy_asked_ = false, own_routines_ = true;
    milcgpu_layout layout_{};
    std::vector<int> site_map_;
    std::vector<int> back_[2][4]; // site `1` or `3` hops back, MILC's indices
    std::vector<std::unique_ptr<LinkSet>> sets_;
    std::vector<Known> known_;
    long clock_ = 0;
    Ledger ledger_;
};

// Never destroyed: the CUDA runtime may be gone before a destructor at exit would run.
Plugin &plugin() {
    static Plugin *const only = new Plugin;
    return *only;
}

// Of the last failure, without the end of its last line.
std::string reason() {
    std::string text = milcgpu_last_error();
    while (!text.empty() && (text.back() == '\n' || text.back() == '.'))
        text.pop_back();
    return text;
}

class Stopwatch {
  public:
    explicit Stopwatch(double &sum) : sum_(sum), since_(wall_seconds()) {}
    ~Stopwatch() { sum_ += wall_seconds() - since_; }

  private:
    double &sum_;
    double since_;
};

void Plugin::say(int level, const std::string &text) const {
    if (verbosity_ < level || rank_ != 0)
        return;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        std::fprintf(stderr, "milcgpu: %s\n", text.substr(at, end - at).c_str());
        at = end + 1;
    }
}

// ---- start and exit -----------------------------------------------------------------------------------------------

// value: what it is unless the environment says otherwise. False, and said, where that is none of `words`.
bool Plugin::setting(const char *name, std::string &value, const char *words) const {
    value = environment(name, value.c_str());
    if (format(" %s ", words).find(" " + value + " ") != std::string::npos)
        return true;
    say(0, format("%s=%s is none of %s%s", name, value.c_str(), words, own_routines_ ? ". MILC runs on the CPU" : ""));
    return false;
}

// From the environment, and by what the backend is best at: the fewest reals of a link are the fastest on a GPU, and
// the slowest on a CPU.
bool Plugin::read_settings() {
    int backend = MILCGPU_HOST;
    milcgpu_backend_of(context_, &backend);
    const bool gpu = backend == MILCGPU_CUDA, single = in_double() && sites_ >= single_from_sites;
    std::string asked = "auto", reals = gpu ? "9" : "18", dslash = "auto", hash = "sample", compare = "0";
    std::string names = "auto";
    for (const Policy &policy : policies)
        names += std::string(" ") + policy.name;
    if (!setting("MILCGPU_PRECISION", asked, names.c_str()) || !setting("MILCGPU_RECONSTRUCT", reals, "18 13 12 9 8") ||
        !setting("MILCGPU_DSLASH", dslash, "auto always never") || !setting("MILCGPU_HASH", hash, "sample full") ||
        !setting("MILCGPU_COMPARE", compare, "0 1 strict"))
        return false;
    const std::string automatic =
        std::string(in_double() ? "double" : "single") + (gpu && sites_ >= half_from_sites ? "-half"
                                                          : gpu && single                  ? "-single"
                                                                                           : "");
    policy_asked_ = asked != "auto";
    for (const Policy &policy : policies)
        if (policy.name == (asked == "auto" ? automatic : asked))
            policy_ = &policy;
    reconstruct_ = std::atoi(reals.c_str());
    takes_dslash_ = dslash == "always" || (dslash == "auto" && gpu && sites_ >= dslash_from_sites);
    hash_all_ = hash == "full";
    compare_ = !own_routines_ ? 0 : compare == "strict" ? 2 : compare == "1";
    return true;
}

const Policy *Plugin::policy_for(int mixed) const {
    if (policy_asked_ || mixed == MILCGPU_MIXED_AUTO)
        return policy_;
    const int precise = real();
    const int sloppy = mixed == MILCGPU_MIXED_HALF     ? MILCGPU_HALF
                       : mixed == MILCGPU_MIXED_SINGLE ? MILCGPU_SINGLE
                                                       : precise;
    for (const Policy &policy : policies)
        if (policy.precise == precise && policy.sloppy == sloppy)
            return &policy;
    return policy_;
}

bool Plugin::open(int backend) {
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.device = std::atoi(environment("MILCGPU_DEVICE", "0"));
    options.verbosity = verbosity_;
    layout_.site_map = site_map_.data();
    return milcgpu_init(&layout_, &options, &context_) == MILCGPU_OK;
}

void Plugin::close() {
    drop_all();
    known_.clear();
    milcgpu_finalize(context_);
    context_ = nullptr;
}

bool Plugin::retreat() {
    int backend = MILCGPU_CUDA;
    if (context_ != nullptr)
        milcgpu_backend_of(context_, &backend);
    close();
    if (retreated_ || backend == MILCGPU_HOST || site_map_.empty())
        return false;
    retreated_ = true;
    say(0, "the host backend does this call and all that follow");
    return open(MILCGPU_HOST) && read_settings();
}

void Plugin::make_neighbours(const milcgpu_milc &milc) {
    const int *n = milc.extent;
    const auto place = [&](int x, int y, int z, int t) { // milcgpu_layout's order: even sites first
        const int lexicographic = x + n[0] * (y + n[1] * (z + n[2] * t));
        return lexicographic / 2 + ((x + y + z + t) % 2 != 0 ? sites_ / 2 : 0);
    };
    for (auto &hop : back_)
        for (auto &mu : hop)
            mu.resize(static_cast<size_t>(sites_));
    for (int t = 0; t < n[3]; ++t)
        for (int z = 0; z < n[2]; ++z)
            for (int y = 0; y < n[1]; ++y)
                for (int x = 0; x < n[0]; ++x)
                    for (int mu = 0; mu < 4; ++mu)
                        for (int h = 0; h < 2; ++h) {
                            int from[4] = {x, y, z, t};
                            from[mu] = (from[mu] + 3 * n[mu] - (h == 0 ? 1 : 3)) % n[mu];
                            back_[h][mu][milc.site_map[place(x, y, z, t)]] =
                                milc.site_map[place(from[0], from[1], from[2], from[3])];
                        }
}

bool Plugin::start(const milcgpu_milc &milc) {
    rank_ = milc.rank;
    verbosity_ = std::atoi(environment("MILCGPU_VERBOSE", "1"));
    own_routines_ = milc.own_routines != 0;
    if (own_routines_ && std::strcmp(environment("MILCGPU_OFF", "0"), "0") != 0)
        return false;
    const auto refused = [&](const std::string &why) {
        say(0, why + (own_routines_ ? ". MILC runs on the CPU" : ""));
        return false;
    };
    if (milc.struct_size != sizeof milc || std::strcmp(milc.header_version, MILCGPU_VERSION) != 0)
        return refused(
            format("the glue in this program was compiled with milcgpu %s, the library that is loaded is %s: "
                   "build MILC again with the milcgpu that it is to run with",
                   milc.header_version, MILCGPU_VERSION));
    if (milc.ranks != 1)
        return refused(format("%d ranks: milcgpu %s works on one rank (one GPU) a job", milc.ranks, MILCGPU_VERSION));
    if (milc.site_map == nullptr)
        return refused("MILC's site order could not be read (node_index and the sites' coordinates disagree)");
    const std::string device = environment("MILCGPU_DEVICE", "0");
    if (device.find_first_not_of("0123456789") != std::string::npos)
        return refused(format("MILCGPU_DEVICE=%s is no number: give the GPU's, from 0 on, as nvidia-smi -L counts them",
                              device.c_str()));
    precision_ = milc.precision;
    sites_ = milc.extent[0] * milc.extent[1] * milc.extent[2] * milc.extent[3];
    even_sites_ = sites_ / 2;
    site_map_.assign(milc.site_map, milc.site_map + sites_);
    layout_.struct_size = sizeof layout_;
    std::copy(milc.extent, milc.extent + 4, layout_.extent);
    if (!open(MILCGPU_AUTO))
        return refused(reason());
    make_neighbours(milc);
    if (!read_settings()) {
        milcgpu_finalize(context_);
        context_ = nullptr;
        return false;
    }
    print_start(milc);
    std::atexit([] { plugin().at_exit(); });
    return true;
}

void Plugin::print_start(const milcgpu_milc &milc) const {
    say(1, format("%s, PRECISION %d, with milcgpu %s", milc.milc, milc.precision, MILCGPU_VERSION));
    say(1, format("precision of solves: %s (MILCGPU_PRECISION), long links of the sloppy part in %d reals "
                  "(MILCGPU_RECONSTRUCT)%s",
                  own_routines_ || policy_asked_ ? policy_->name : "as MILC's switches say", reconstruct_,
                  compare_ == 0   ? ""
                  : compare_ == 1 ? "; every routine is also run by MILC and compared (MILCGPU_COMPARE)"
                                  : "; compared, and ended at the first difference (MILCGPU_COMPARE=strict)"));
    say(1, routine_table());
    milcgpu_plugin_solve_call call{};
    call.parity = MILCGPU_EVEN;
    call.tolerance = 1e-6;
    call.max_iterations = call.max_restarts = 1;
    const milcgpu_solve_spec spec = spec_for(*policy_, call);
    char plan[1000] = "";
    if (milcgpu_memory_plan(context_, real(), &spec, plan, sizeof plan, nullptr) == MILCGPU_OK)
        say(1, std::string("memory of one set of links and a solve:\n") + plan);
}

std::string Plugin::routine_table() const {
    const std::string device = milcgpu_device_name(context_);
    const char *solves = own_routines_ || policy_asked_ ? policy_->name : "as asked";
    std::string text = format("%-24s %-12s %s\n", "MILC's routine", "precision", "runs on");
    for (int r = 0; r < MILCGPU_ROUTINES; ++r) {
        const auto routine = static_cast<milcgpu_routine>(r);
        const bool on_host = routine == MILCGPU_BACK_LINKS || routine == MILCGPU_GATHER_LINKS;
        const bool left = routine == MILCGPU_DSLASH && !takes_dslash_;
        text += format("%-24s %-12s %s\n", routine_name(routine),
                       routine <= MILCGPU_KS_MULTICG ? solves
                       : in_double()                 ? "double"
                                                     : "single",
                       left      ? "MILC's own (MILCGPU_DSLASH)"
                       : on_host ? "all threads of the host"
                                 : device.c_str());
    }
    return text;
}

void Plugin::at_exit() {
    say(1, ledger_.table(wall_seconds() - loaded_at));
    const std::string comparison = ledger_.comparison();
    if (!comparison.empty())
        say(1, "comparison with MILC's own routines:\n" + comparison);
}

void Plugin::original(milcgpu_routine routine, bool entering) {
    originals_ += entering ? 1 : -1;
    if (entering && originals_ == 1)
        original_since_ = wall_seconds();
    if (!entering && originals_ == 0) {
        ++ledger_[routine].cpu_calls;
        ledger_[routine].cpu_seconds += wall_seconds() - original_since_;
    }
}

// ---- links --------------------------------------------------------------------------------------------------------

HostRecords Plugin::link_records(const void *links) const {
    const size_t bytes = 72 * (in_double() ? sizeof(double) : sizeof(float));
    return {links, static_cast<size_t>(sites_), bytes, bytes};
}

uint64_t Plugin::slice_of(const void *fat, const void *lng, int slice) const {
    const size_t from = static_cast<size_t>(sites_) * slice / hash_slices;
    const size_t count = static_cast<size_t>(sites_) * (slice + 1) / hash_slices - from;
    const auto part = [&](const void *links) {
        HostRecords records = link_records(links);
        records.data = static_cast<const unsigned char *>(links) + from * records.bytes;
        records.count = count;
        return hash_records(records, 1);
    };
    return part(fat) + 3 * part(lng);
}

uint64_t Plugin::sample_of(const void *fat, const void *lng) const {
    return hash_records(link_records(fat), sampled_one_in) + 3 * hash_records(link_records(lng), sampled_one_in);
}

LinkHash Plugin::hash_of(const void *fat, const void *lng) const {
    LinkHash hash{};
    for (int k = 0; k < hash_slices; ++k)
        hash.slice[k] = slice_of(fat, lng, k);
    hash.sample = sample_of(fat, lng);
    return hash;
}

// Where new content of these addresses goes: the set that had them, an unused one, or in place of the oldest. It is the
// newest then, so that a slot for other addresses does not take its place.
LinkSet &Plugin::slot_for(const void *fat, const void *lng) {
    for (const auto &set : sets_)
        if (set->fat == fat && set->lng == lng) {
            set->used = ++clock_;
            return *set;
        }
    if (sets_.size() >= most_link_sets)
        drop_oldest(nullptr);
    sets_.push_back(std::make_unique<LinkSet>(LinkSet{fat, lng, {}, nullptr, ++clock_}));
    return *sets_.back();
}

void Plugin::keep(LinkSet &set, const void *fat, const void *lng) {
    set.fat = fat;
    set.lng = lng;
    set.hash = hash_of(fat, lng);
    set.used = ++clock_;
}

bool Plugin::drop_oldest(const LinkSet *except) {
    const auto oldest = std::min_element(sets_.begin(), sets_.end(), [&](const auto &a, const auto &b) {
        return (a.get() == except) != (b.get() == except) ? b.get() == except : a->used < b->used;
    });
    if (oldest == sets_.end() || oldest->get() == except)
        return false;
    milcgpu_links_destroy((*oldest)->handle);
    sets_.erase(oldest);
    return true;
}

void Plugin::drop_all() {
    while (drop_oldest(nullptr))
        continue;
}

// The device's set with the content that the host's links have now. The content decides: MILC uses addresses again for
// other links, and edits links in place. A call looks at a random sample, which shows any edit that MILC makes (a
// boundary, a direction, all links), and at one eighth of everything in turn; on a small lattice, and with
// MILCGPU_HASH=full, at everything.
LinkSet *Plugin::links_for(const void *fat, const void *lng) {
    if (!hash_all_ && sites_ >= sampled_from_sites) {
        const int turn = static_cast<int>(++clock_ % hash_slices);
        for (const auto &set : sets_)
            if (set->fat == fat && set->lng == lng && set->handle != nullptr &&
                set->hash.sample == sample_of(fat, lng) && set->hash.slice[turn] == slice_of(fat, lng, turn)) {
                set->used = clock_;
                return set.get();
            }
    }
    const uint64_t all = hash_of(fat, lng).all();
    for (const auto &set : sets_)
        if (set->hash.all() == all && set->handle != nullptr) {
            set->used = ++clock_;
            return set.get();
        }
    LinkSet &set = slot_for(fat, lng);
    const milcgpu_field fat_field = link_field(fat), lng_field = link_field(lng);
    for (;;) {
        const milcgpu_status status = set.handle == nullptr
                                          ? milcgpu_links_create(context_, &fat_field, &lng_field, &set.handle)
                                          : milcgpu_links_update(set.handle, &fat_field, &lng_field, nullptr);
        if (status == MILCGPU_OK)
            break;
        if (status != MILCGPU_NO_MEMORY || !drop_oldest(&set)) {
            const std::string why = reason();
            set.used = 0;
            drop_oldest(nullptr);
            say(0, why);
            if (status == MILCGPU_DEVICE_LOST)
                close();
            return nullptr;
        }
    }
    keep(set, fat, lng);
    return &set;
}

// After an error that no other precision mends. False, for the caller to return.
bool Plugin::fail(milcgpu_routine routine, int status) {
    const char *after = !own_routines_                  ? "It could not be done"
                        : status == MILCGPU_DEVICE_LOST ? "the GPU is gone: MILC runs on the CPU from here on"
                                                        : "MILC's own routine does this call";
    say(0, format("%s: %s. %s", routine_name(routine), reason().c_str(), after));
    if (status == MILCGPU_DEVICE_LOST)
        close();
    return false;
}

// Whether there is a safer precision to try after `status`; says so, and makes it `policy`.
bool Plugin::fallen_back(milcgpu_routine routine, int status, const Policy *&policy) {
    if (status == MILCGPU_DEVICE_LOST || status == MILCGPU_BAD_ARGUMENT || policy->safer < 0)
        return false;
    const Policy *next = &policies[policy->safer];
    say(0, format("%s: %s. Trying %s precision", routine_name(routine), reason().c_str(), next->name));
    policy = next;
    ++ledger_[routine].safer;
    return true;
}

bool Plugin::links(milcgpu_routine routine, milcgpu_fatlink_spec spec, const void *gauge, int n, const double *eps,
                   void *const *fat, void *const *lng, void *v, void *y, void *w, milcgpu_fatlink_report &report) {
    RoutineAccount &account = ledger_[routine];
    const Stopwatch watch(account.seconds);
    known_.clear();
    const auto field_list = [&](void *const *from) {
        std::vector<milcgpu_field> fields;
        for (int k = 0; k < n; ++k)
            fields.push_back(link_field(from != nullptr ? from[k] : nullptr));
        return fields;
    };
    const std::vector<milcgpu_field> fats = field_list(fat), lngs = field_list(lng);
    const milcgpu_field gauge_field = link_field(gauge), vs = link_field(v), ys = link_field(y), ws = link_field(w);
    const auto wanted = [](const milcgpu_field &field) { return field.data != nullptr ? &field : nullptr; };
    const milcgpu_hisq_links hisq{wanted(vs), wanted(ys), wanted(ws)};
    const auto attempt = [&] {
        std::vector<milcgpu_fatlink_set> sets;
        std::vector<LinkSet *> kept;
        for (int k = 0; k < n; ++k) {
            const bool keeps =
                fats[k].data != nullptr && lngs[k].data != nullptr && k < static_cast<int>(most_link_sets);
            kept.push_back(keeps ? &slot_for(fats[k].data, lngs[k].data) : nullptr);
            if (keeps)
                kept[k]->hash = {}; // not what it was, whatever happens
            sets.push_back({eps[k], wanted(fats[k]), wanted(lngs[k]), keeps ? &kept[k]->handle : nullptr});
        }
        report.struct_size = sizeof report;
        const milcgpu_status status = milcgpu_fat_links(context_, &spec, &gauge_field, sets.data(), n, &hisq, &report);
        for (int k = 0; k < n && status == MILCGPU_OK; ++k)
            if (kept[k] != nullptr)
                keep(*kept[k], fats[k].data, lngs[k].data);
        return status;
    };
    milcgpu_status status = attempt();
    if (status == MILCGPU_NO_MEMORY) {
        say(1,
            format("%s: %s. Trying again without the links that were kept", routine_name(routine), reason().c_str()));
        drop_all();
        status = attempt();
    }
    if (status != MILCGPU_OK) {
        fail(routine, status);
        drop_all();
        return false;
    }
    ++account.calls;
    account.flops += report.flops;
    account.to_device += report.bytes_to_device;
    account.to_host += report.bytes_to_host;
    return true;
}

void Plugin::back_links(const void *links, int hops, void *back) {
    const Stopwatch watch(ledger_[MILCGPU_BACK_LINKS].seconds);
    ++ledger_[MILCGPU_BACK_LINKS].calls;
    const auto &from = back_[hops == 1 ? 0 : 1];
    const int *const site[4] = {from[0].data(), from[1].data(), from[2].data(), from[3].data()};
    gather_adjoint_links(links, site, static_cast<size_t>(sites_), in_double(), back);
}

void Plugin::gather_links(const void *first, size_t pitch, void *to) {
    const Stopwatch watch(ledger_[MILCGPU_GATHER_LINKS].seconds);
    ++ledger_[MILCGPU_GATHER_LINKS].calls;
    HostRecords records = link_records(first);
    records.pitch = pitch;
    gather_records(records, to);
}

// ---- solves -------------------------------------------------------------------------------------------------------

// The records of one parity; MILC has all even sites first.
HostRecords Plugin::parity_of(const milcgpu_field &field, int parity) const {
    const size_t bytes = 6 * (in_double() ? sizeof(double) : sizeof(float));
    const size_t pitch = field.pitch_bytes != 0 ? field.pitch_bytes : bytes;
    const size_t first = parity == MILCGPU_EVEN ? 0 : static_cast<size_t>(even_sites_);
    return {static_cast<const unsigned char *>(field.data) + first * pitch, static_cast<size_t>(even_sites_), bytes,
            pitch};
}

void Plugin::progress(void *self, int step, double residual) {
    Plugin &that = *static_cast<Plugin *>(self);
    if (wall_seconds() - that.progress_at_ < 10)
        return;
    that.progress_at_ = wall_seconds();
    that.say(1, format("step %d, residual %.2e", step, residual));
}

milcgpu_solve_spec Plugin::spec_for(const Policy &policy, const milcgpu_plugin_solve_call &call) const {
    milcgpu_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.parity = call.parity;
    spec.mass = call.mass;
    spec.tolerance = call.tolerance;
    spec.relative_tolerance = call.relative_tolerance;
    spec.max_iterations = call.max_iterations;
    spec.max_restarts = call.max_restarts;
    spec.precise.precision = policy.precise;
    if (policy.sloppy != policy.precise)
        spec.sloppy = {policy.sloppy, 0, reconstruct_};
    spec.progress = progress;
    spec.user = const_cast<Plugin *>(this);
    return spec;
}

// Whether this solve's answer is there already: the solution that a multi-mass call left in these addresses, for this
// source and these links, none of them changed since.
const Known *Plugin::known(const milcgpu_plugin_solve_call &call) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known &k) {
        return k.solution == call.solution.data && k.source == call.source.data && k.parity == call.parity &&
               std::fabs(k.mass - call.mass) <= (in_double() ? 1e-13 : 1e-6) * k.mass &&
               (call.tolerance <= 0 || k.report.true_residual < call.tolerance) &&
               (call.relative_tolerance <= 0 || k.report.relative_residual < call.relative_tolerance);
    });
    if (found == known_.end() || found->source_hash != hash_records(parity_of(call.source, call.parity), 1) ||
        found->solution_hash != hash_records(parity_of(call.solution, call.parity), 1))
        return nullptr;
    const LinkSet *links = links_for(call.fat, call.lng);
    return links != nullptr && links->hash.all() == found->links ? &*found : nullptr;
}

void Plugin::remember(const milcgpu_plugin_multi_mass_call &call, uint64_t links, bool zero_source,
                      const milcgpu_shift_report *shifts) {
    known_.clear();
    const uint64_t source = hash_records(parity_of(call.source, call.parity), 1);
    for (int i = 0; i < call.n_shifts; ++i)
        if (shifts[i].status == MILCGPU_OK)
            known_.push_back({call.source.data, call.solutions[i].data, call.parity, 0.5 * std::sqrt(call.offsets[i]),
                              links, source, hash_records(parity_of(call.solutions[i], call.parity), 1), zero_source,
                              shifts[i]});
}

bool Plugin::solve(const milcgpu_plugin_solve_call &call, milcgpu_solve_report &report) {
    RoutineAccount &account = ledger_[call.routine];
    const Stopwatch watch(account.seconds);
    report = {};
    report.struct_size = sizeof report;
    if (!(call.tolerance > 0) && !(call.relative_tolerance > 0))
        return false; // MILC then does one iteration's worth; nothing to gain
    if (const Known *k = known(call)) {
        ++account.calls;
        ++account.known;
        report.iterations = k->zero_source ? 0 : std::max(1, k->report.iterations); // as MILC counts
        report.restarts = k->report.iterations > 1;
        report.true_residual = report.recursion_residual = k->report.true_residual;
        report.relative_residual = call.relative_tolerance > 0 ? k->report.relative_residual : 1;
        return true;
    }
    if (context_ == nullptr) // lost while the known solution was looked for
        return false;
    int iterations = 0;
    for (const Policy *policy = policy_for(call.mixed);;) {
        LinkSet *links = links_for(call.fat, call.lng);
        if (links == nullptr)
            return false;
        progress_at_ = wall_seconds();
        const milcgpu_solve_spec spec = spec_for(*policy, call);
        milcgpu_status status = milcgpu_solve(context_, links->handle, &spec, &call.source, &call.solution, &report);
        while (status == MILCGPU_NO_MEMORY && drop_oldest(links))
            status = milcgpu_solve(context_, links->handle, &spec, &call.source, &call.solution, &report);
        iterations += report.iterations;
        account.flops += report.gflops * 1e9 * report.solver_seconds;
        account.to_device += report.bytes_to_device;
        account.to_host += report.bytes_to_host;
        const bool floor = status == MILCGPU_PRECISION_FLOOR;
        const bool done = status == MILCGPU_OK || status == MILCGPU_NOT_CONVERGED ||
                          (floor && (policy->precise == policy->sloppy || !in_double()));
        if (!done && !fallen_back(call.routine, status, policy))
            return floor || fail(call.routine, status);
        if (done || context_ == nullptr)
            break;
    }
    ++account.calls;
    report.iterations = iterations;
    return true;
}

bool Plugin::multi_mass(const milcgpu_plugin_multi_mass_call &call, milcgpu_shift_report *shifts,
                        milcgpu_multi_mass_report &report) {
    RoutineAccount &account = ledger_[MILCGPU_KS_MULTICG];
    const Stopwatch watch(account.seconds);
    known_.clear();
    std::vector<milcgpu_shift> asked;
    for (int i = 0; i < call.n_shifts; ++i)
        asked.push_back({call.offsets[i], call.tolerances[i], call.relative_tolerances[i]});
    for (const Policy *policy = policy_for(call.mixed);;) {
        LinkSet *links = links_for(call.fat, call.lng);
        if (links == nullptr)
            return false;
        progress_at_ = wall_seconds();
        milcgpu_multi_mass_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = call.parity;
        spec.n_shifts = call.n_shifts;
        spec.shifts = asked.data();
        spec.max_iterations = call.max_iterations;
        spec.max_restarts = call.max_restarts;
        spec.shared.precision = spec.precise.precision = policy->precise;
        if (policy->sloppy != policy->precise)
            spec.sloppy = {policy->sloppy, 0, reconstruct_};
        spec.leave_tolerance = 1e-16; // heavy masses as accurate as MILC has them: forces and actions sum over all
        spec.progress = progress;
        spec.user = this;
        const auto run = [&] {
            report = {};
            report.struct_size = sizeof report;
            report.shifts = shifts;
            return milcgpu_multi_mass(context_, links->handle, &spec, &call.source, call.solutions, &report);
        };
        milcgpu_status status = run();
        while (status == MILCGPU_NO_MEMORY && drop_oldest(links))
            status = run();
        account.flops += report.gflops * 1e9 * report.solver_seconds;
        account.to_device += report.bytes_to_device;
        account.to_host += report.bytes_to_host;
        if (status == MILCGPU_OK || status == MILCGPU_NOT_CONVERGED || status == MILCGPU_PRECISION_FLOOR) {
            ++account.calls;
            remember(call, links->hash.all(), report.source_norm == 0, shifts);
            return true;
        }
        if (!fallen_back(MILCGPU_KS_MULTICG, status, policy))
            return fail(MILCGPU_KS_MULTICG, status);
    }
}

bool Plugin::dslash(const void *fat, const void *lng, int parity, const milcgpu_field &source,
                    const milcgpu_field &destination) {
    RoutineAccount &account = ledger_[MILCGPU_DSLASH];
    const Stopwatch watch(account.seconds);
    LinkSet *links = links_for(fat, lng);
    if (links == nullptr)
        return false;
    milcgpu_operator what{};
    what.precision = real();
    const milcgpu_status status = milcgpu_dslash(context_, links->handle, &what, parity, &source, &destination);
    if (status != MILCGPU_OK)
        return fail(MILCGPU_DSLASH, status);
    const uint64_t bytes = static_cast<uint64_t>(even_sites_) * 6 * (in_double() ? 8 : 4);
    ++account.calls;
    account.flops += 1146.0 * even_sites_;
    account.to_device += bytes;
    account.to_host += bytes;
    return true;
}

// ---- comparison ---------------------------------------------------------------------------------------------------

bool Plugin::line(milcgpu_routine routine, const std::string &what, double worst, double seconds, double cpu_seconds) {
    RoutineAccount &account = ledger_[routine];
    const bool good = worst <= 1; // NaN is not
    ++account.compared;
    account.beyond += good ? 0 : 1;
    account.worst = worst > account.worst || !(worst == worst) ? worst : account.worst;
    account.compared_gpu_seconds += seconds;
    account.compared_cpu_seconds += cpu_seconds;
    say(0, format("compare %s: %s; seconds CPU %.4g GPU %.4g, speed-up %.1f%s", routine_name(routine), what.c_str(),
                  cpu_seconds, seconds, cpu_seconds / seconds, good ? "" : "; BEYOND TOLERANCE"));
    return good;
}

// What two solutions may differ by: |x - y| <= |A^-1| (|r_x| + |r_y|), and |A^-1| <= 1 / (4 m^2). And the GPU's
// residual must be what was asked for, or not above the CPU's (single precision cannot reach every tolerance).
SolutionsCompared Plugin::compared(const milcgpu_plugin_solve_call &call, const milcgpu_field &gpu,
                                   const milcgpu_field &cpu) {
    SolutionsCompared s{NAN, NAN, NAN, NAN};
    const LinkSet *links = context_ != nullptr ? links_for(call.fat, call.lng) : nullptr;
    if (links == nullptr ||
        milcgpu_residual(context_, links->handle, call.parity, call.mass, &call.source, &gpu, &s.gpu_residual) !=
            MILCGPU_OK ||
        milcgpu_residual(context_, links->handle, call.parity, call.mass, &call.source, &cpu, &s.cpu_residual) !=
            MILCGPU_OK)
        return s;
    const HostRecords b = parity_of(call.source, call.parity);
    const Difference d = difference_of(parity_of(gpu, call.parity), parity_of(cpu, call.parity), in_double());
    const double source = difference_of(b, b, in_double()).size;
    s.relative_difference = d.difference == 0 ? 0 : d.difference / d.size;
    const double allowed = 1.01 * (s.gpu_residual + s.cpu_residual) * source / (4 * call.mass * call.mass);
    const double reached = call.tolerance > 0 ? s.gpu_residual / std::max(call.tolerance, 1.1 * s.cpu_residual) : 0;
    s.worst = std::max(d.difference == 0 ? 0 : d.difference / allowed, reached);
    return s;
}

bool Plugin::compare_solve(const milcgpu_plugin_solve_call &call, int iterations, double seconds,
                           milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds) {
    const SolutionsCompared s = compared(call, call.solution, cpu_solution);
    return line(call.routine,
                format("%s m %.6g: iterations CPU %d GPU %d, true residual CPU %.3e GPU %.3e, difference %.2e",
                       call.parity == MILCGPU_EVEN ? "EVEN" : "ODD", call.mass, cpu_iterations, iterations,
                       s.cpu_residual, s.gpu_residual, s.relative_difference),
                s.worst, seconds, cpu_seconds);
}

bool Plugin::compare_multi_mass(const milcgpu_plugin_multi_mass_call &call, int iterations, double seconds,
                                const milcgpu_field *cpu_solutions, int cpu_iterations, double cpu_seconds) {
    milcgpu_plugin_solve_call one{};
    one.routine = MILCGPU_KS_MULTICG;
    one.fat = call.fat, one.lng = call.lng;
    one.parity = call.parity;
    one.source = call.source;
    SolutionsCompared all{0, 0, 0, 0};
    for (int i = 0; i < call.n_shifts; ++i) {
        one.mass = 0.5 * std::sqrt(call.offsets[i]);
        one.tolerance = call.tolerances[i];
        one.relative_tolerance = call.relative_tolerances[i];
        const SolutionsCompared s = compared(one, call.solutions[i], cpu_solutions[i]);
        const auto larger = [](double a, double b) { return a > b ? a : b; }; // b where a is not larger: NaN stays
        all = {larger(all.gpu_residual, s.gpu_residual), larger(all.cpu_residual, s.cpu_residual),
               larger(all.relative_difference, s.relative_difference), larger(all.worst, s.worst)};
    }
    return line(MILCGPU_KS_MULTICG,
                format("%s, %d masses: iterations CPU %d GPU %d, worst true residual CPU %.3e GPU %.3e, worst "
                       "difference %.2e",
                       call.parity == MILCGPU_EVEN ? "EVEN" : "ODD", call.n_shifts, cpu_iterations, iterations,
                       all.cpu_residual, all.gpu_residual, all.relative_difference),
                all.worst, seconds, cpu_seconds);
}

bool Plugin::compare_fields(milcgpu_routine routine, const char *what, double difference, double allowed,
                            double seconds, double cpu_seconds) {
    return line(routine, format("%s, difference %.2e (allowed %.0e)", what, difference, allowed), difference / allowed,
                seconds, cpu_seconds);
}

} // namespace

extern "C" {

int milcgpu_plugin_start(const milcgpu_milc *milc) { return plugin().start(*milc); }
int milcgpu_plugin_retreat(void) { return plugin().retreat(); }
int milcgpu_plugin_active(void) { return plugin().active(); }
int milcgpu_plugin_takes_dslash(void) { return plugin().takes_dslash(); }
void milcgpu_plugin_original(milcgpu_routine routine, int entering) { plugin().original(routine, entering != 0); }
int milcgpu_plugin_compare(void) { return plugin().compare(); }

int milcgpu_plugin_solve(const milcgpu_plugin_solve_call *call, milcgpu_solve_report *report) {
    return plugin().solve(*call, *report);
}

int milcgpu_plugin_multi_mass(const milcgpu_plugin_multi_mass_call *call, milcgpu_shift_report *shifts,
                              milcgpu_multi_mass_report *report) {
    return plugin().multi_mass(*call, shifts, *report);
}

int milcgpu_plugin_dslash(const void *fat, const void *lng, int parity, milcgpu_field source,
                          milcgpu_field destination) {
    return plugin().dslash(fat, lng, parity, source, destination);
}

int milcgpu_plugin_links(milcgpu_routine routine, const milcgpu_fatlink_spec *spec, const void *gauge, int n,
                         const double *eps, void *const *fat, void *const *lng, void *v, void *y, void *w,
                         milcgpu_fatlink_report *report) {
    return plugin().links(routine, *spec, gauge, n, eps, fat, lng, v, y, w, *report);
}

void milcgpu_plugin_back_links(const void *links, int hops, void *back) { plugin().back_links(links, hops, back); }
void milcgpu_plugin_gather_links(const void *first, size_t pitch, void *to) { plugin().gather_links(first, pitch, to); }
void *milcgpu_plugin_room(size_t bytes) { return host_room(bytes); }

int milcgpu_plugin_compare_solve(const milcgpu_plugin_solve_call *call, int iterations, double seconds,
                                 milcgpu_field cpu_solution, int cpu_iterations, double cpu_seconds) {
    return plugin().compare_solve(*call, iterations, seconds, cpu_solution, cpu_iterations, cpu_seconds);
}

int milcgpu_plugin_compare_multi_mass(const milcgpu_plugin_multi_mass_call *call, int iterations, double seconds,
                                      const milcgpu_field *cpu_solutions, int cpu_iterations, double cpu_seconds) {
    return plugin().compare_multi_mass(*call, iterations, seconds, cpu_solutions, cpu_iterations, cpu_seconds);
}

int milcgpu_plugin_compare_links(milcgpu_routine routine, int n, void *const *gpu, void *const *cpu, double seconds,
                                 double cpu_seconds) {
    double worst = 0;
    for (int k = 0; k < n; ++k)
        if (gpu[k] != nullptr && cpu[k] != nullptr)
            worst = std::max(worst, worst_link_difference(gpu[k], cpu[k], 4 * static_cast<size_t>(plugin().sites()),
                                                          plugin().in_double()));
    return plugin().compare_fields(routine, "worst link", worst, plugin().in_double() ? 1e-12 : 2e-5, seconds,
                                   cpu_seconds);
}

int milcgpu_plugin_compare_dslash(int parity, const void *source, const void *gpu, const void *cpu, double seconds,
                                  double cpu_seconds) {
    const auto records = [](const void *field, int on) {
        return plugin().parity_of({const_cast<void *>(field), 0, 0}, on);
    };
    const HostRecords x = records(source, MILCGPU_EVEN + MILCGPU_ODD - parity);
    const Difference d = difference_of(records(gpu, parity), records(cpu, parity), plugin().in_double());
    const double size = difference_of(x, x, plugin().in_double()).size; // D x may be small by cancellation
    return plugin().compare_fields(MILCGPU_DSLASH, parity == MILCGPU_EVEN ? "EVEN" : "ODD",
                                   d.difference == 0 ? 0 : d.difference / size, plugin().in_double() ? 1e-14 : 1e-5,
                                   seconds, cpu_seconds);
}

double milcgpu_plugin_seconds(void) { return wall_seconds(); }
void milcgpu_plugin_inject_fault(int fault) { plugin().inject_fault(fault); }

} // extern "C"
