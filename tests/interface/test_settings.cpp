// How the plugin follows the environment and the lattice: settings, precisions and their order, the table at the start.
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/staggered/dslash.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/start_context.h"
#include "milc_glue/solve/memory_plan.h"
#include "tests/plugin_support.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <algorithm>
#include <clocale>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tests;

TEST_CASE("the size of the lattice decides the precisions", "[plugin]") {
    const auto chosen = [](bool gpu, bool in_double, int sites) {
        return std::string(automatic_policy(gpu, sites, in_double)->name);
    };
    CHECK(chosen(true, true, 65536) == "double-half");
    CHECK(chosen(true, true, 65535) == "double-single");
    CHECK(chosen(true, true, 10000) == "double-single");
    CHECK(chosen(true, true, 9999) == "double");
    CHECK(chosen(true, false, 65536) == "single-half");
    CHECK(chosen(true, false, 65535) == "single");
    CHECK(chosen(true, false, 256) == "single");
    for (const int sites : {256, 4095, 4096, 65536, 10000000}) {
        CHECK(chosen(false, true, sites) == (sites < 4096 ? "double" : "double-single"));
        CHECK(chosen(false, false, sites) == "single");
    }
}

TEST_CASE("after an error a safer precision follows, or one of less memory if memory was short, each once",
          "[plugin]") {
    const auto bytes = [](const Policy &policy) { // of packed links; MILC's are in double
        return size_t{100} + (policy.precise == MILCGPU_SINGLE ? 30 : 0) +
               (policy.sloppy == MILCGPU_HALF     ? 40
                : policy.sloppy == MILCGPU_SINGLE ? 50
                                                  : 0);
    };
    const auto path = [&](const char *first, std::vector<int> statuses, bool in_double) {
        Collective one_rank;
        Ladder ladder(one_rank, policy_named(first), in_double);
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
    CHECK(path("double-half", {floor, floor, floor}, true) == "double-half double-single double -");
    for (const int status : {MILCGPU_DEVICE_LOST, MILCGPU_BAD_ARGUMENT, MILCGPU_TIMED_OUT})
        CHECK(path("double-half", {status}, true) == "double-half -");
}

TEST_CASE("if memory is short, the plan of memory is smaller where no packed links are needed", "[plugin][faults]") {
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
        const size_t with_room = plan("double");
        Device &device = *plugin().context->device;
        device.set_memory_limit(device.used_bytes());
        const size_t lanes =
            Device::allocated_bytes(LaneLinks::bytes_of(plugin().context->geometry, Precision::double_));
        CHECK(with_room == plan("double") + (MILCGPU_LANES ? lanes : 0)); // links of several sites
        CHECK(plan("double") < plan("double-half"));
        CHECK(plan("double-half") < plan("double-single"));
    }
}

TEST_CASE("MILCGPU_RECONSTRUCT may have the numbers of reals that kernels are built for", "[plugin]") {
    const std::vector<Setting> &settings = setting_table();
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [](const Setting &s) { return std::string(s.name) == "MILCGPU_RECONSTRUCT"; });
    REQUIRE(setting != settings.end());
    for (const Precision sloppy : {Precision::single, Precision::half}) {
        std::string built = "auto";
        for (const DslashKernel &row : dslash_table())
            if (row.spinor == sloppy && row.does({sloppy, sloppy, row.reals, Epilogue::step}))
                built += format(" %d", row.reals);
        CHECK(built == setting->allowed);
    }
}

// Values that a setting may have: all of them, or examples if there are too many.
static std::string words_of(const Setting &setting) {
    const std::string name = setting.name;
    return name == "MILCGPU_DEVICE"    ? "0 7 999"
           : name == "MILCGPU_TIMEOUT" ? "0.5 60 1e4"
           : name == "MILCGPU_TABLE"   ? "0 t.csv a/t.json t.txt t.json,status"
           : name == "MILCGPU_TEST"    ? "0 keep keep,cut=y,share_gpu cut=xt nan,cut=xyzt memory=1 load,memory=9999999"
                                       : setting.allowed;
}

TEST_CASE("settings: a bad value is refused by name, and the settings that are set are listed", "[plugin]") {
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
    // The message names the values that the setting may have.
    for (const auto &[name, bad, values] :
         {std::tuple("MILCGPU_VERBOSE", "two", "0 1 2."),
          {"MILCGPU_RECONSTRUCT", "17", "auto 18 13 12 9 8."},
          {"MILCGPU_DEVICE", "99999999999", "0 to 999."},
          {"MILCGPU_TIMEOUT", "0", "numbers above 0."},
          {"MILCGPU_TABLE", "table.dat", ".csv, .json or .txt, with or without ,status behind."},
          {"MILCGPU_TEST", "kept", "0 look_at_all copy_back "}})
        CHECK(has(refusal(name, bad), values));
    for (const auto &[name, bad] : {std::pair("MILCGPU_VERBOSE", "quiet"),
                                    {"MILCGPU_OFF", "maybe"},
                                    {"MILCGPU_DEVICE", "-1"},
                                    {"MILCGPU_DEVICE", "1x"},
                                    {"MILCGPU_DEVICE", "1000"},
                                    {"MILCGPU_DEVICE", "0 1"},
                                    {"MILCGPU_TIMEOUT", "-1"},
                                    {"MILCGPU_TIMEOUT", "nan"},
                                    {"MILCGPU_TIMEOUT", "inf"},
                                    {"MILCGPU_TIMEOUT", "60s"},
                                    {"MILCGPU_TABLE", ".csv"},
                                    {"MILCGPU_TABLE", ",status"},
                                    {"MILCGPU_TABLE", "t.json,strict"},
                                    {"MILCGPU_TABLE", "t.csv.gz"}})
        refusal(name, bad);
    {
        const Environment two_lines{{"MILCGPU_TABLE", "a\nb.csv"}}; // settings travel between ranks as lines
        CHECK_THROWS(Settings::of_environment());
    }
    for (const char *bad :
         {"cut=xx", "cut=", "cut", "keep,", ",keep", "keep nan", "keep,kept", "dslash,nan,no_dslash", "load,keep",
          "copy_back,nan", "memory=", "memory=0", "memory=-1", "memory=1e4", "memory=10000000"})
        refusal("MILCGPU_TEST", bad);
    for (const Setting &setting : setting_table())
        for (const char *bad : {"banana", " ", "0 1", "1 "})
            refusal(setting.name, bad);
    for (const Setting &setting : setting_table()) { // each value that the table allows is accepted
        const std::string words = words_of(setting);
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
    const Environment environment{{"MILCGPU_VERBOSE", "2"}, {"MILCGPU_AUTO", "0"}, {"MILCGPU_TEST", ""}};
    const std::string text = said_by([&] { CHECK(milc.start() == 1); });
    CHECK(has(text, "milcgpu: settings: MILCGPU_AUTO=0 MILCGPU_VERBOSE=2\n"));
    for (const Setting &setting : setting_table())
        CHECK(has(text, setting.meaning));
    CHECK(plugin().links->looks_at_all());
}

TEST_CASE("settings: MILCGPU_AUTO=0 includes words of MILCGPU_TEST, and docs/reference.md lists all words",
          "[plugin]") {
    CHECK(setting_table().size() == 15);
    const std::string reference = [] {
        std::ifstream file("docs/reference.md");
        REQUIRE(file); // the tests run in the root of the source tree
        return std::string{std::istreambuf_iterator<char>(file), {}};
    }();
    int by_auto_0 = 0;
    for (const TestWord &word : test_words()) {
        INFO(word.name);
        CHECK(has(reference,
                  std::string("| `") + word.name + "` | " + (word.by_auto_0 ? "yes" : "") + " | " + word.meaning));
        CHECK_FALSE(asked_for(word.name));
        by_auto_0 += word.by_auto_0;
        const Environment environment{{"MILCGPU_AUTO", "0"}};
        CHECK(asked_for(word.name) == word.by_auto_0);
        CHECK(Settings::of_environment().asks_for(word.name) == word.by_auto_0);
        const Environment words{{"MILCGPU_TEST", std::string("cut=xt,") + word.name}};
        CHECK(asked_for(word.name));
        CHECK(Settings::of_environment().asks_for(word.name));
        CHECK(cut_by_test() >= 9);
    }
    CHECK(by_auto_0 == 6);
    // A start with MILCGPU_AUTO=0: nothing is kept on the device, and no sources are gathered.
    Milc milc;
    const Environment environment{{"MILCGPU_AUTO", "0"}, {"MILCGPU_VERBOSE", "0"}};
    REQUIRE(milc.start() == 1);
    CHECK(plugin().links->looks_at_all());
    CHECK_FALSE(plugin().takes_dslash);
    CHECK(milcgpu_plugin_resident() == 0);
    CHECK(milcgpu_plugin_gathers() == 0);
}

TEST_CASE("an unknown name of the environment is reported at the start, with the nearest known one", "[plugin]") {
    CHECK(unknown_names().empty());
    for (const std::string &name : known_names()) {
        const Environment environment{{name.c_str(), ""}};
        CHECK(unknown_names().empty());
    }
    Milc milc;
    const Environment environment{{"MILCGPU_COMPAER", "1"}, {"MILCGPU_BACKEND", "host"}};
    const std::string text = said_by([&] { CHECK(milc.start() == 1); });
    CHECK(matches(text, "milcgpu: MILCGPU_COMPAER .*MILCGPU_COMPARE\n").size() == 1);
    {
        const Environment silent{{"MILCGPU_VERBOSE", "0"}};
        CHECK(said_by([&] { CHECK(milc.start() == 1); }).empty());
    }
    const Environment second{{"MILCGPU_OF", ""}};
    for (const char *names : {"MILCGPU_COMPAER [^.]*MILCGPU_COMPARE\\b", "MILCGPU_OF [^.]*MILCGPU_OFF\\b"})
        CHECK(matches(unknown_names(), names).size() == 1);
    for (const FormerSetting &former : former_settings()) {
        const Environment set{{former.name, "1"}};
        CHECK(matches(unknown_names(), std::string(former.name) + " .*MILCGPU_TEST=").size() == 1);
        // Each word that the message names exists, and the message names MILCGPU_AUTO=0 if that includes the word.
        const std::string text = former.instead;
        bool by_auto_0 = false;
        for (const auto &groups : matches(text, "MILCGPU_TEST=([a-z_]+(?:=[a-z]+)?)")) {
            const Environment said{{"MILCGPU_TEST", groups[1]}};
            INFO(groups[1]);
            CHECK_NOTHROW(Settings::of_environment());
            for (const TestWord &one : test_words())
                by_auto_0 = by_auto_0 || (one.by_auto_0 && groups[1] == one.name);
        }
        CHECK(has(text, "MILCGPU_AUTO=0") == by_auto_0);
    }
    auto layout = sized<milcgpu_layout>();
    std::fill(layout.extent, layout.extent + 4, 4);
    milcgpu_context *context = nullptr; // a program without MILC
    CHECK(has(said_by([&] { CHECK(milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_OK); }),
              "milcgpu: MILCGPU_COMPAER "));
    milcgpu_context_destroy(context);
    for (const char *of_ranks : {"MILCGPU_DIRECT", "MILCGPU_GPU_MPI"}) { // also refused on one rank
        const Environment wrong{{of_ranks, "7"}};
        CHECK(milcgpu_context_create(&layout, nullptr, &context) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), std::string(of_ranks) + "=7 is none of "));
    }
}

TEST_CASE("the table at the start names the routines that are left to MILC", "[plugin]") {
    Milc milc;
    milcgpu_milc described = milc.described();
    described.not_offloaded[MILCGPU_HISQ_LINKS] = described.not_offloaded[MILCGPU_OVERRELAX] = MILCGPU_ABSENT;
    described.keeps_solutions = 1;
    const Environment environment{{"MILCGPU_BACKEND", "host"}};
    const std::string text = said_by([&] { CHECK(milcgpu_plugin_start(&described) == 1); });
    INFO(text);
    CHECK(has(text, "milcgpu: not in this program: create_hisq_links_milc, relax\n"));
    CHECK(has(text, "but for solutions that a trajectory keeps"));
    CHECK(has(text, "milcgpu: load_fn_links            double        host"));
    CHECK(has(text, "local operators: host\n"));
    described.keeps_solutions = 0;
    const std::string spectrum = said_by([&] { CHECK(milcgpu_plugin_start(&described) == 1); });
    CHECK(has(spectrum, "milcgpu: dslash_fn_field          -             MILC's own, "));
    CHECK_FALSE(has(spectrum, "but for solutions that a trajectory keeps"));
    const std::string twice = said_by([] {
        milcgpu_plugin_says_once(MILCGPU_LOAD_FN_LINKS, "a reason");
        milcgpu_plugin_says_once(MILCGPU_LOAD_FN_LINKS, "a reason");
        milcgpu_plugin_says_once(MILCGPU_LOAD_FN_LINKS, "another");
        milcgpu_plugin_says_once(MILCGPU_LOAD_FN_LINKS, "a reason");
        milcgpu_plugin_says_once(MILCGPU_LOAD_FN_LINKS, "");
        milcgpu_plugin_says_once(MILCGPU_HISQ_LINKS, "a reason"); // the table has its reason
    });
    CHECK(twice == "milcgpu: load_fn_links: a reason\nmilcgpu: load_fn_links: another\n");
}

TEST_CASE("the table at exit as a file: CSV, JSON, and one that cannot be written", "[plugin]") {
    const tests::Folder folder;
    for (const char *kind : {".csv", ".json", ".txt"}) {
        const std::string name = (folder.path / "table").string() + kind;
        const Environment environment{{"MILCGPU_TABLE", name + ",status"}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc;
        const bool csv = std::string(kind) == ".csv";
        const std::string said = said_by([&] {
            CHECK(milc.start() == 1);
            CHECK(milc.solve() == 1);
            CHECK(has(text_of(name), csv ? "\n\"outside of milcgpu\",0,0," : "UNFINISHED")); // of the start
            plugin().start.file_is_due = 0;
            CHECK(milc.solve() == 1);
            CHECK(has(text_of(name), "ks_congrad_parity"));
            CHECK(milcgpu_plugin_exit(0) == 0);
        });
        CHECK(said.empty());
        const std::string table = text_of(name);
        INFO(table);
        if (std::string(kind) == ".txt") {
            CHECK(table.find("routine ") == 0);
            CHECK(has(table, "\nverdict: GOOD\n"));
            continue;
        }
        CHECK(table.find(csv ? "routine,calls,known,seconds," : "{\"version\":\"") == 0);
        CHECK(has(table, csv ? "\n\"ks_congrad_parity\"," : "{\"routine\":\"ks_congrad_parity\",\"calls\":"));
        CHECK(
            has(table, csv ? "\n\"outside of milcgpu\",0,0," : ",\n {\"routine\":\"outside of milcgpu\",\"calls\":0,"));
    }
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 3);
    std::filesystem::create_directory(folder.path / "folder.csv");
    for (const char *name : {"nowhere/t.csv", "folder.csv"}) {
        const std::string path = folder.path / name;
        const Environment environment{{"MILCGPU_TABLE", path}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc;
        const std::string line = said_by([&] { CHECK(milc.start() == 1); }); // the run goes on
        CHECK(line.find("milcgpu: MILCGPU_TABLE: " + path + " cannot be written: ") == 0);
        CHECK(line.find('\n') == line.size() - 1);
        CHECK(milc.solve() == 1);
        const std::string at_exit = said_by([] { milcgpu_plugin_exit(0); });
        CHECK(at_exit.find(line + "milcgpu: routine ") == 0); // in spite of MILCGPU_VERBOSE=0
        CHECK(has(at_exit, "milcgpu: ks_congrad_parity "));
    }
}

TEST_CASE("a program's locale with a decimal comma changes no number that is written or read", "[plugin][errors]") {
    const Folder folder;
    if (std::system(("localedef -i de_DE -f UTF-8 " + (folder.path / "de_DE.UTF-8").string() + " 2>/dev/null").c_str()))
        SKIP_TEST("no localedef that makes de_DE.UTF-8");
    const Environment places{{"LOCPATH", folder.path}};
    struct Comma {
        Comma() { REQUIRE(std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr); }
        ~Comma() { std::setlocale(LC_ALL, "C"); }
    } comma;
    char by_libc[8];
    std::snprintf(by_libc, sizeof by_libc, "%.1f", 1.5);
    REQUIRE(std::string(by_libc) == "1,5");
    CHECK(milcgpu::format("%.1f %g", 1.5, 0.25) == "1.5 0.25");
    CHECK(milcgpu::seconds_of("1.5") == 1.5);
    CHECK_FALSE(milcgpu::seconds_of("1,5").has_value());
    const std::string table = folder.path / "t.csv";
    {
        const Environment environment{{"MILCGPU_TABLE", table}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TIMEOUT", "61.5"}};
        Milc milc;
        CHECK(milc.start() == 1);
        CHECK(milc.solve() == 1);
        milcgpu_plugin_exit(0);
    }
    const std::string rows = text_of(table);
    const auto commas = [](const std::string &line) { // but those in quotes
        const std::string bare = replaced(line, "\"[^\"]*\"", "");
        return std::count(bare.begin(), bare.end(), ',');
    };
    std::istringstream lines(rows);
    std::string heading, row;
    REQUIRE(std::getline(lines, heading));
    INFO(rows);
    while (std::getline(lines, row))
        CHECK(commas(row) == commas(heading));
    CHECK(rows.find('.') != std::string::npos);
    CHECK(std::string(std::localeconv()->decimal_point) == ","); // the program's own
}

TEST_CASE("docs/milc.md lists every setting with its values", "[plugin]") {
    const std::string docs = text_of("docs/milc.md");
    for (const Setting &setting : setting_table()) {
        INFO(setting.name);
        const size_t at = docs.find(std::string("| `") + setting.name + "` |");
        REQUIRE(at != std::string::npos);
        const std::string line = docs.substr(at, docs.find('\n', at) - at);
        const std::string words = setting.allows == nullptr ? setting.allowed : setting.otherwise;
        for (size_t from = 0; from < words.size();) {
            const size_t end = std::min(words.find(' ', from), words.size());
            CHECK(has(line, "`" + words.substr(from, end - from) + "`"));
            from = end + 1;
        }
        CHECK(has(line, std::string("| `") + setting.otherwise + "`")); // the default comes first
    }
}

TEST_CASE("every name MILCGPU_... that code reads or docs list is known, and the docs list every known name",
          "[plugin]") {
    const std::vector<std::string> known = known_names();
    std::set<std::string> found;
    const auto find = [&](const std::string &text, const char *what) {
        for (const auto &groups : matches(lines_with("MILCGPU_", text), what)) {
            const std::string &name = groups[1];
            INFO(name);
            CHECK(std::find(known.begin(), known.end(), name) != known.end());
            found.insert(name);
        }
    };
    for (const char *folder : {"gpu_kernels", "reorder", "milc_glue", "examples", "tests"})
        for (const auto &file : std::filesystem::recursive_directory_iterator(folder)) {
            const std::string extension = file.path().extension();
            if (extension == ".cpp" || extension == ".cu" || extension == ".h" || extension == ".c")
                find(text_of(file.path()), "(?:getenv|setting|is|is_on)\\(\"(MILCGPU_[A-Z_]+)\"");
        }
    find(text_of("milc_glue/use_gpu/milc_gpu.mk"), "\\$\\((MILCGPU_[A-Z_]+)\\)");
    find(text_of("milc_glue/install/modulefile.in"), "setenv (MILCGPU_[A-Z_]+)");
    CHECK(found.size() > 12);
    const std::string reference = text_of("docs/reference.md"), milc = text_of("docs/milc.md");
    for (const std::string &page : {reference, milc})
        find(page, "\\| `(MILCGPU_[A-Z_]+)` \\| `");
    for (const std::string &name : known) {
        INFO(name);
        CHECK((has(milc, "| `" + name + "` |") || has(reference, "`" + name + "`")));
    }
}
