// The plugin behind the use_gpu glue (milc_glue/plugin.h), in this process: what no run of a MILC-shaped program can
// show. One plugin a process: every test starts it anew.
#include "milc_glue/context.h"
#include "milc_glue/plugin/solve.h"
#include "tests/failing_new.h"
#include "tests/support.h"
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <unistd.h>

using namespace milcgpu;

namespace {

// ---- a MILC ---------------------------------------------------------------------------------------------------------

// Variables of the environment, for as long as this lives.
class Environment {
  public:
    Environment(std::initializer_list<std::pair<std::string, std::string>> variables) : variables_(variables) {
        for (const auto &[name, value] : variables_)
            setenv(name.c_str(), value.c_str(), 1);
    }
    Environment(const Environment &) = delete;
    ~Environment() {
        for (const auto &[name, value] : variables_)
            unsetenv(name.c_str());
    }

  private:
    std::vector<std::pair<std::string, std::string>> variables_;
};

// What `work` writes to stderr.
std::string said_by(const std::function<void()> &work) {
    std::fflush(stderr);
    const int before = dup(2);
    FILE *file = std::tmpfile();
    REQUIRE(file != nullptr);
    dup2(fileno(file), 2);
    work();
    std::fflush(stderr);
    dup2(before, 2);
    close(before);
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
        text += static_cast<char>(c);
    std::fclose(file);
    return text;
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

const char *backend_name(Backend backend) { return backend == Backend::cuda ? "cuda" : "host"; }

// MILC's fields on a small lattice, and calls of the plugin with them.
struct Milc {
    reference::Lattice lattice;
    std::vector<int> order;
    reference::Fermion b;
    tests::AsqtadLinks links;
    std::vector<double> fat, lng, source, x;
    milcgpu_solve_report report{};

    explicit Milc(const reference::Lattice &on = {{4, 4, 4, 4}})
        : lattice(on), order(on.volume()), b(tests::random_fermion(on, 4)), links(tests::asqtad_links(on, 6)) {
        for (int k = 0; k < lattice.volume(); ++k)
            order[k] = k;
        fat = reference::links_to_milc<double>(lattice, links.fat);
        lng = reference::links_to_milc<double>(lattice, links.lng);
        source = reference::vector_to_milc<double>(lattice, b);
        x.assign(source.size(), 0);
    }
    Milc(const Milc &) = delete;
    ~Milc() {
        plugin().close();
        plugin().verbosity = 0; // no tables after those of the tests
    }

    milcgpu_milc described() const {
        milcgpu_milc milc{};
        milc.struct_size = sizeof milc;
        milc.header_version = MILCGPU_VERSION;
        milc.milc = "a test";
        milc.precision = 2;
        milc.ranks = 1;
        std::copy(lattice.n.begin(), lattice.n.end(), milc.extent);
        milc.own_routines = 1;
        milc.site_map = order.data();
        return milc;
    }
    int start() const {
        const milcgpu_milc milc = described();
        return milcgpu_plugin_start(&milc);
    }
    static milcgpu_field field(std::vector<double> &v) { return {v.data(), MILCGPU_DOUBLE, 0}; }
    milcgpu_plugin_solve_call call() {
        milcgpu_plugin_solve_call c{};
        c.routine = MILCGPU_KS_CONGRAD;
        c.mixed = MILCGPU_MIXED_AUTO;
        c.fat = fat.data(), c.lng = lng.data();
        c.parity = MILCGPU_EVEN;
        c.mass = 0.4;
        c.tolerance = 1e-8;
        c.max_iterations = 1000, c.max_restarts = 5;
        c.source = field(source), c.solution = field(x);
        return c;
    }
    int solve() {
        x.assign(x.size(), 0);
        const milcgpu_plugin_solve_call c = call();
        return milcgpu_plugin_solve(&c, &report);
    }
    // |b - A x| / |b| on even sites, with MILC's links, by the reference.
    double residual(const std::vector<double> &solution, double mass) const {
        const auto to = [&](const std::vector<double> &links_of_milc) {
            reference::Gauge out(4 * lattice.volume());
            const auto sites = reference::milc_order(lattice);
            for (int k = 0; k < lattice.volume(); ++k)
                std::copy_n(links_of_milc.data() + 72 * static_cast<size_t>(k), 72,
                            reinterpret_cast<double *>(&out[4 * static_cast<size_t>(sites[k])]));
            return out;
        };
        reference::Fermion field(lattice.volume());
        const auto sites = reference::milc_order(lattice);
        for (int k = 0; k < lattice.volume(); ++k)
            std::copy_n(solution.data() + 6 * static_cast<size_t>(k), 6, reinterpret_cast<double *>(&field[sites[k]]));
        const auto ax = reference::normal_operator(lattice, to(fat), to(lng), mass, 0, field);
        double rr = 0, bb = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            if (lattice.parity(s) == 0) {
                rr += reference::norm2(b[s] - ax[s]);
                bb += reference::norm2(b[s]);
            }
        return std::sqrt(rr / bb);
    }
};

// Several masses, as ks_multicg_offset_field asks for them.
struct Masses {
    Milc &milc;
    std::vector<double> offsets, tolerances, relative;
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_field> fields;
    std::vector<milcgpu_shift_report> shifts;
    milcgpu_multi_mass_report report{};

    Masses(Milc &of, std::vector<double> masses, double tolerance)
        : milc(of), tolerances(masses.size(), tolerance), relative(masses.size(), 0),
          x(masses.size(), std::vector<double>(of.x.size(), 0)), shifts(masses.size()) {
        for (size_t i = 0; i < masses.size(); ++i) {
            offsets.push_back(4 * masses[i] * masses[i]);
            fields.push_back(Milc::field(x[i]));
        }
    }
    milcgpu_plugin_multi_mass_call call() {
        milcgpu_plugin_multi_mass_call c{};
        c.mixed = MILCGPU_MIXED_AUTO;
        c.fat = milc.fat.data(), c.lng = milc.lng.data();
        c.parity = MILCGPU_EVEN;
        c.n_shifts = static_cast<int>(offsets.size());
        c.offsets = offsets.data(), c.tolerances = tolerances.data(), c.relative_tolerances = relative.data();
        c.max_iterations = 1000, c.max_restarts = 5;
        c.source = Milc::field(milc.source);
        c.solutions = fields.data();
        return c;
    }
    int solve() {
        const milcgpu_plugin_multi_mass_call c = call();
        return milcgpu_plugin_multi_mass(&c, shifts.data(), &report);
    }
    double worst_residual() const {
        double worst = 0;
        for (size_t i = 0; i < x.size(); ++i)
            worst = std::max(worst, milc.residual(x[i], 0.5 * std::sqrt(offsets[i])));
        return worst;
    }
};

// Plants a failing allocation in `call` at the first, second, ... until it runs through. `call` answers 1 when the work
// was done; then `right` must hold. After every failure the same call, left alone, must be done and right.
void survives(const char *what, const std::function<int()> &call, const std::function<bool()> &right) {
    long failures = 0;
    for (const bool all : {false, true})
        for (long n = 0;; n = n < 40 ? n + 1 : n + n / 8) {
            INFO(what << ", allocation " << n << (all ? " and all after it" : ""));
            tests::failed_news = 0;
            int answer = -1;
            const std::string text = said_by([&] {
                tests::all_fail = all;
                tests::news_left = n;
                answer = call();
                tests::news_left = -1;
            });
            INFO(text);
            CHECK((answer == 0 || answer == 1));
            CHECK((answer == 0 || right()));
            CHECK((answer == 1 || has(text, "milcgpu: "))); // a refusal is said
            if (tests::failed_news == 0)
                break;
            ++failures;
            if (milcgpu_plugin_active() != 0) {
                said_by([&] { answer = call(); });
                CHECK(answer == 1);
                CHECK(right());
            }
        }
    CHECK(failures > 0);
}

} // namespace

TEST_CASE("no allocation that fails lets an exception out of the plugin, or spoils what follows", "[plugin][faults]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}};
        Milc milc;
        survives(
            "start", [&] { return milc.start(); }, [] { return milcgpu_plugin_active() != 0; });
        said_by([&] { CHECK(milc.start() == 1); });
        const auto solved = [&] { return milc.residual(milc.x, 0.4) < 1.01e-8; };
        survives(
            "solve", [&] { return milc.solve(); }, solved);
        // With links that are new each time, so that loading them is part of it.
        survives(
            "links and solve",
            [&] {
                milc.fat[0] += 1e-3;
                return milc.solve();
            },
            solved);
        Masses masses(milc, {0.3, 0.4}, 1e-8);
        survives(
            "several masses", [&] { return masses.solve(); }, [&] { return masses.worst_residual() < 1.01e-8; });
        std::vector<double> y = milc.source;
        survives(
            "D",
            [&] {
                return milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, Milc::field(milc.source),
                                             Milc::field(y));
            },
            [] { return true; });
        milcgpu_fatlink_spec spec;
        milcgpu_asqtad_spec(0.9, &spec);
        spec.unitarity = -1;
        std::vector<double> fat(milc.fat.size()), lng(milc.lng.size());
        void *fats = fat.data(), *lngs = lng.data();
        const double eps = 0;
        milcgpu_fatlink_report made{};
        survives(
            "links",
            [&] {
                return milcgpu_plugin_links(MILCGPU_LOAD_FN_LINKS, &spec, milc.fat.data(), 1, &eps, &fats, &lngs,
                                            nullptr, nullptr, nullptr, &made);
            },
            [&] { return fat[0] != 0; });
        const milcgpu_plugin_solve_call call = milc.call();
        survives(
            "comparison", [&] { return milcgpu_plugin_compare_solve(&call, 10, 1, Milc::field(milc.x), 10, 1); },
            [] { return true; });
    }
}

TEST_CASE("an edit that a call's look did not see is seen during the solve, and the solve is right", "[plugin]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double"}};
        Milc milc(reference::Lattice{{4, 4, 8, 8}});
        said_by([&] { REQUIRE(milc.start() == 1); });
        Plugin &p = plugin();
        p.links = std::make_unique<LinkCache>(p.context, p.sites, p.real(), 0); // as on a large lattice
        p.watch_threads = 2;
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.2;
        Masses masses(milc, {0.2, 0.3}, 1e-8);
        REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
        reference::Rng rng(3);
        int during = 0, edits = 0;
        for (int k = 0; k < 9; ++k) {
            double &real = (k % 2 == 0 ? milc.fat : milc.lng)[rng() % milc.fat.size()];
            real += 0.1;
            ++edits;
            milc.x.assign(milc.x.size(), 0);
            const bool several = k >= 6;
            const std::string text = said_by([&] {
                if (several)
                    CHECK(masses.solve() == 1);
                else
                    CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1);
            });
            INFO(text);
            during += has(text, "They are loaded again, and the solve goes on");
            // With 1 or 2 cores the threads may not have come to the end of all parts; then a later call sees it.
            const double residual = several ? masses.worst_residual() : milc.residual(milc.x, 0.2);
            if (has(text, "loaded again") || plugin().links->slot_for(call.fat, call.lng).unseen == 0)
                CHECK(residual < 1.01e-8);
        }
        CHECK(during > 0);
        CHECK(during < edits); // some are in the part that is looked at before
    }
}

TEST_CASE("whatever MILCGPU_PRECISION says, MILC's tolerance is reached", "[plugin]") {
    for (const Backend backend : tests::backends())
        for (const char *precision : {"single", "single-half", "double-half", "double"}) {
            const Environment environment(
                {{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", precision}});
            Milc milc;
            said_by([&] { REQUIRE(milc.start() == 1); });
            Masses masses(milc, {0.2, 0.5}, 1e-11);
            const std::string text = said_by([&] { CHECK(masses.solve() == 1); });
            INFO(precision << "\n" << text << plugin().ledger.table(1));
            CHECK(masses.report.status == MILCGPU_OK);
            CHECK(masses.worst_residual() < 1.01e-11);
            milcgpu_plugin_solve_call call = milc.call();
            call.tolerance = 1e-11;
            said_by([&] { CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1); });
            CHECK(milc.report.status == MILCGPU_OK);
            CHECK(milc.residual(milc.x, 0.4) < 1.01e-11);
        }
}

TEST_CASE("precisions by the size of the lattice", "[plugin]") {
    const auto chosen = [](bool gpu, bool in_double, int sites) {
        return std::string(automatic_policy(gpu, in_double, sites)->name);
    };
    CHECK(chosen(true, true, 65536) == "double-half");
    CHECK(chosen(true, true, 65535) == "double-single");
    CHECK(chosen(true, true, 10000) == "double-single");
    CHECK(chosen(true, true, 9999) == "double");
    CHECK(chosen(true, false, 65536) == "single-half");
    CHECK(chosen(true, false, 65535) == "single");
    CHECK(chosen(true, false, 256) == "single");
    for (const int sites : {256, 10000, 65536, 10000000}) {
        CHECK(chosen(false, true, sites) == "double");
        CHECK(chosen(false, false, sites) == "single");
    }
}

TEST_CASE("after an error: by safety, by memory where that was short, each precision once", "[plugin]") {
    const auto bytes = [](const Policy &policy) { // packed links beside those handed over, in double
        return size_t{100} + (policy.precise == MILCGPU_SINGLE ? 30 : 0) +
               (policy.sloppy == MILCGPU_HALF     ? 40
                : policy.sloppy == MILCGPU_SINGLE ? 50
                                                  : 0);
    };
    const auto path = [&](const char *first, std::vector<int> statuses, bool in_double) {
        Ladder ladder(policy_named(first), in_double);
        std::string text = first;
        for (const int status : statuses)
            text += ladder.next(status, bytes) ? std::string(" ") + ladder.policy().name : " -";
        return text;
    };
    const int nan = MILCGPU_NAN_OR_INF, full = MILCGPU_NO_MEMORY, floor = MILCGPU_PRECISION_FLOOR;
    CHECK(path("double-half", {nan, nan, nan}, true) == "double-half double-single double -");
    CHECK(path("single-half", {nan, nan, nan, nan}, false) == "single-half single double-single double -");
    CHECK(path("double-half", {full, full}, true) == "double-half double -"); // double-single needs more
    CHECK(path("double-single", {full, full}, true) == "double-single double -");
    CHECK(path("double", {full}, true) == "double -");
    CHECK(path("single-half", {full, full}, true) == "single-half double -"); // never coarser than MILC's fields
    CHECK(path("double-half", {full, nan}, true) == "double-half double -");
    CHECK(path("double-half", {nan, full, nan}, true) == "double-half double-single double -");
    CHECK(path("single-half", {floor, floor, floor}, true) == "single-half double-single double -");
    CHECK(path("double-half", {floor, floor}, true) == "double-half double-single double");
    for (const int status : {MILCGPU_DEVICE_LOST, MILCGPU_BAD_ARGUMENT, MILCGPU_TIMED_OUT})
        CHECK(path("double-half", {status}, true) == "double-half -");
    for (const Policy &policy : policies) {
        CHECK(floor_is_done(policy, false)); // MILC in single precision would end there, too
        CHECK(floor_is_done(policy, true) == (std::string(policy.name) == "double"));
    }
}

TEST_CASE("the plan of memory is smaller where no packed links are needed", "[plugin][faults]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment(
            {{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double-half"}});
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        milcgpu_plugin_solve_call call = milc.call();
        const auto plan = [&](const char *name) {
            const milcgpu_solve_spec spec = solve_spec(plugin(), *policy_named(name), call);
            const MemoryPlan bytes = plan_of(*plugin().context, MILCGPU_DOUBLE, spec);
            return bytes.packed + bytes.vectors;
        };
        CHECK(plan("double") < plan("double-half"));
        CHECK(plan("double-half") < plan("double-single"));
    }
}

TEST_CASE("settings: a value that is none is refused by name, and what was set is listed", "[plugin]") {
    Milc milc;
    const auto refusal = [&](const char *name, const char *value) {
        const Environment environment{{name, value}};
        int started = 1;
        const std::string text = said_by([&] { started = milc.start(); });
        INFO(name << "=" << value << "\n" << text);
        CHECK(started == 0);
        CHECK(milcgpu_plugin_active() == 0);
        CHECK(has(text, std::string("milcgpu: ") + name + "=" + value + " is none of "));
        CHECK(has(text, ". MILC runs on the CPU\n"));
        return text;
    };
    CHECK(has(refusal("MILCGPU_VERBOSE", "two"), "is none of 0 1 2."));
    refusal("MILCGPU_VERBOSE", "quiet");
    refusal("MILCGPU_OFF", "maybe");
    CHECK(has(refusal("MILCGPU_DEVICE", "99999999999"), "is none of 0 to 999."));
    for (const char *bad : {"-1", "1x", "1000", "0 1"})
        refusal("MILCGPU_DEVICE", bad);
    for (const Setting &setting : setting_table())
        for (const char *bad : {"banana", " ", "0 1", "1 "})
            refusal(setting.name, bad);
    for (const Setting &setting : setting_table()) { // every value that the table allows is one
        std::string words = setting.allowed != nullptr ? setting.allowed : "0 7 999";
        for (size_t at = 0; at < words.size();) {
            const size_t end = std::min(words.find(' ', at), words.size());
            const Environment environment{{setting.name, words.substr(at, end - at)}};
            CHECK(Settings::of_environment()[setting.name] == words.substr(at, end - at));
            CHECK(Settings::of_environment().given() == std::string(setting.name) + "=" + words.substr(at, end - at));
            at = end + 1;
        }
    }
    for (const auto &[value, off] : {std::pair("1", true), {"yes", true}, {"0", false}, {"no", false}}) {
        const Environment environment{{"MILCGPU_OFF", value}};
        int started = -1;
        const std::string text = said_by([&] { started = milc.start(); });
        CHECK(started == !off);
        CHECK(text.empty() == off);
    }
    const Environment environment{{"MILCGPU_VERBOSE", "2"}, {"MILCGPU_HASH", "full"}, {"MILCGPU_DSLASH", ""}};
    const std::string text = said_by([&] { CHECK(milc.start() == 1); });
    CHECK(has(text, "milcgpu: settings: MILCGPU_HASH=full MILCGPU_VERBOSE=2\n"));
    for (const Setting &setting : setting_table())
        CHECK(has(text, setting.meaning));
    CHECK(plugin().links->looks_at_all());
}

TEST_CASE("MILCGPU_HASH: from 16384 sites on a call looks at a part, or with full at all", "[plugin]") {
    for (const auto &[value, extent, all] :
         {std::tuple("sample", 8, true), {"sample", 16, false}, {"full", 8, true}, {"full", 16, true}}) {
        const Environment environment{{"MILCGPU_HASH", value}, {"MILCGPU_BACKEND", "host"}};
        Milc milc(reference::Lattice{{8, 8, 16, extent}});
        said_by([&] { REQUIRE(milc.start() == 1); });
        CHECK(plugin().links->looks_at_all() == all);
        LinkSet *set = nullptr;
        REQUIRE(plugin().links->ready(milc.fat.data(), milc.lng.data(), set) == MILCGPU_OK);
        const uint64_t before = milcgpu_links_version(set->handle);
        int calls = 0;
        for (milc.lng[12345] += 1; milcgpu_links_version(set->handle) == before && calls < 20; ++calls)
            REQUIRE(plugin().links->ready(milc.fat.data(), milc.lng.data(), set) == MILCGPU_OK);
        CHECK(calls <= (all ? 1 : hash_parts));
    }
}

TEST_CASE("the table at the start names what is left to MILC", "[plugin]") {
    Milc milc;
    milcgpu_milc described = milc.described();
    described.left[MILCGPU_HISQ_LINKS] = "not in this program";
    const Environment environment{{"MILCGPU_BACKEND", "host"}};
    const std::string text = said_by([&] { CHECK(milcgpu_plugin_start(&described) == 1); });
    INFO(text);
    CHECK(has(text, "milcgpu: create_hisq_links_milc   -             not in this program\n"));
    CHECK(has(text, "milcgpu: dslash_fn_field          -             MILC's own (MILCGPU_DSLASH)\n"));
    CHECK(has(text, "milcgpu: load_fn_links            double        host"));
    const std::string twice = said_by([] {
        milcgpu_plugin_leaves(MILCGPU_LOAD_FN_LINKS, "a reason");
        milcgpu_plugin_leaves(MILCGPU_LOAD_FN_LINKS, "a reason");
    });
    CHECK(twice == "milcgpu: load_fn_links: a reason\n");
}

TEST_CASE("links that were corrupted on the device are loaded again, and the solve is right", "[plugin][faults]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double"}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        Masses masses(milc, {0.2, 0.4}, 1e-8);
        int seen = 0;
        for (int k = 0; k < 6; ++k) {
            const bool several = k % 2 != 0;
            said_by([&] { CHECK(milc.solve() == 1); }); // links are on the device
            milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
            const std::string text = said_by([&] { CHECK((several ? masses.solve() : milc.solve()) == 1); });
            INFO(text);
            seen += has(text, ". The links are loaded again\n");
            CHECK((several ? masses.worst_residual() : milc.residual(milc.x, 0.4)) < 1.01e-8);
        }
        CHECK(seen == 6);
    }
}

TEST_CASE("docs/milc.md lists every setting with its values", "[plugin]") {
    std::ifstream file("docs/milc.md");
    REQUIRE(file); // the tests run in the root of the source tree
    const std::string docs{std::istreambuf_iterator<char>(file), {}};
    for (const Setting &setting : setting_table()) {
        INFO(setting.name);
        const size_t at = docs.find(std::string("| `") + setting.name + "` |");
        REQUIRE(at != std::string::npos);
        const std::string line = docs.substr(at, docs.find('\n', at) - at);
        std::string words = setting.allowed != nullptr ? setting.allowed : std::to_string(largest_setting);
        for (size_t from = 0; from < words.size();) {
            const size_t end = std::min(words.find(' ', from), words.size());
            CHECK(has(line, "`" + words.substr(from, end - from) + "`"));
            from = end + 1;
        }
        CHECK(has(line, std::string("| `") + setting.otherwise + "`")); // the default comes first
    }
}
