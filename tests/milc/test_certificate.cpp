// The certificate of a run: its verdicts, and the files of runs that end well and badly.
#include "milc_glue/routines/solve.h"
#include "tests/milc_host_support.h"
#include "tests/source_text.h"
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace tests::milc_host;
using tests::has;

TEST_CASE("certificate: the verdict is good, mended, bad or unfinished, and names the worst solution",
          "[plugin][certificate]") {
    using namespace milcgpu;
    Certificate run;
    std::vector<Ledger> ledger(1);
    RoutineAccount &solves = ledger[0][MILCGPU_KS_CONGRAD], &others = ledger[0][MILCGPU_KS_MULTICG];
    CHECK(run.verdict(ledger[0]) == "UNFINISHED: the run goes on, or was killed");
    run.stopped = true;
    CHECK(run.verdict(ledger[0]) == "UNFINISHED: MILC stopped before its end");
    run.ended = true;
    solves.solved(true, 0.9e-6, 1e-6);
    others.solved(true, 0.95e-9, 1e-9);
    others.solved(true, 0.1e-9, 1e-9);
    others.solved(true, 0, 0); // no tolerance of its own
    CHECK(run.verdict(ledger[0]) == "GOOD");
    const auto text = [&] { return run.text(ledger, 1); };
    CHECK(has(text(), "\nsolutions: 4\nworst solution: true residual 9.50e-10, asked 1.00e-09, in ks_multicg_offset_"));
    ++run.sources, solves.reloaded = 2, solves.failed = 1, run.messages = 1;
    CHECK(run.verdict(ledger[0]) == "MENDED: messages between ranks that were lost: 1; loads after data on the "
                                    "device had changed: 3; calls that the device could not do: 1");
    CHECK_FALSE(run.is_bad(ledger[0]));
    solves.solved(false, NAN, 1e-6);
    solves.solved(false, 1e-2, 1e-6);
    CHECK(has(text(), "worst solution: true residual nan, asked 1.00e-06, in ks_congrad_parity\n"));
    CHECK(run.verdict(ledger[0]).find("BAD: solutions without the residual that was asked for: 2; messages ") == 0);
    CHECK(has(run.file(TableKind::json, ledger, 1), "\"residual\":\"nan\","));
    for (const bool lost : {true, false}) {
        Certificate other;
        Ledger one;
        other.ended = true;
        other.lost = lost;
        one[MILCGPU_PLAQUETTE].beyond = !lost;
        CHECK(other.is_bad(one));
    }
    for (int k = 0; k < 60; ++k) {
        run.note("the same");
        run.note(format("\"%d\"\n\t", k));
    }
    Certificate short_memory;
    for (const double free : {23194.0, 23154.75})
        short_memory.note(
            format("2.7 MiB do not fit: %.2f MiB free:\n   0.8 MiB  links\n   0.4 MiB  momenta\n. M", free));
    CHECK(has(short_memory.file(TableKind::txt, ledger, 1),
              "\nnote: 2.7 MiB do not fit: 23194.00 MiB free: 0.8 MiB  links, 0.4 MiB  momenta, . M (2 times)\n"));
    const std::string notes = run.file(TableKind::txt, ledger, 1);
    CHECK_FALSE(has(text(), "the same"));
    CHECK(has(notes, "\nnote: the same (60 times)\nnote: '0'"));
    CHECK(has(notes, "\nnote: more lines of this kind (11 times)\n"));
}

TEST_CASE("certificate: a good run, one with a flipped bit, one that fell back, and a bad one",
          "[milc_host][certificate]") {
    const tests::Folder folder;
    const auto certified = [&](const std::string &arguments, const std::string &kind, int status = 0,
                               const std::string &setting = "") {
        const std::string file = folder.path / ("run" + kind);
        const Run r = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_TABLE=" + file + " " + setting, arguments);
        CHECK(r.status == status);
        const std::string name = file.substr(0, file.find(','));
        if (has(name, ".json") && std::system("command -v python3 >/dev/null") == 0)
            tests::succeeded(tests::shell("python3 -m json.tool " + name));
        return tests::text_of(name);
    };
    const std::string good = certified("inverts none", ".json");
    CHECK(has(good, ",\"verdict\":\"GOOD\",\n\"routines\":[{"));
    CHECK(has(good, "\"lattice\":[4,6,2,4],"));
    CHECK(has(good, ",\"shortages_of_memory\":0,"));
    CHECK(has(good, "],\n\"memory\":[{\"of\":\""));
    CHECK(has(good, "{\"of\":\"fat links as handed over\",\"arrays\":"));
    CHECK(has(good, "\"remark\":[\"mat_invert: MILC's own: M^dag on one parity is not built\"],\"note\":[],"));
    const std::string flipped = certified("inverts flip", ".json,status");
    CHECK(has(flipped, "\"verdict\":\"MENDED: loads after data on the device had changed: 4\""));
    CHECK(has(flipped, "fat links changed. A bit flipped"));
    const std::string alone = certified("inverts device", ".txt");
    CHECK(has(alone, "\nverdict: MENDED: calls that the device could not do: 1\n"));
    CHECK(has(alone, "\nnote: mat_invert: m 0.1: milcgpu_vectors_load: host backend: device lost"));
    const std::string short_file = folder.path / "short.txt";
    const Run short_run = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_TEST=memory=3500 MILCGPU_TABLE=" + short_file,
                              "trajectory none update");
    CHECK(short_run.says("milcgpu: imp_gauge_force: the same in 3 more calls\n")); // other memory is free each time
    CHECK(short_run.count("milcgpu: imp_gauge_force: milcgpu_") <= 4);
    CHECK(has(tests::text_of(short_file), " times)\n"));
    CHECK(has(tests::text_of(short_file), "\nverdict: MENDED: calls that the device could not do: "));
    for (const int judged : {0, 1}) // some of its solves have too few iterations
        CHECK(has(certified("", judged ? ".txt,status" : ".txt", judged ? MILCGPU_EXIT_BAD : 0),
                  "\nverdict: BAD: solutions without the residual that was asked for: 4\n"));
    // MILC ends with status 0 after an error in its input, and if the input ends in the middle of a set.
    const std::pair<const char *, bool> inputs[] = {{"mass 0.1\\n# next\\nmass 0.2\\n\\n # end\\n", true},
                                                    {"mass 0.1\\n# next\\nmass", false},
                                                    {"mass 0.1 mess 0.2 mass 0.3", false}};
    int number = 0;
    for (const auto &[text, whole] : inputs)
        for (const char *write : {"printf '%s' >%s", "mkfifo %2$s; (printf '%1$s' >%2$s &) >/dev/null 2>&1"}) {
            const std::string name = folder.path / std::to_string(++number);
            tests::succeeded(tests::shell(milcgpu::format(write, text, name.c_str())));
            CHECK(has(certified("inverts none", ".txt,status", whole ? 0 : MILCGPU_EXIT_BAD, "MILC_HOST_INPUT=" + name),
                      "\nverdict: UNFINISHED: MILC did not run all of its input\n") == !whole);
        }
    const std::string typo = folder.path / "typo"; // MILC leaves the input before milcgpu starts: no certificate
    std::ofstream(typo) << "mess 0.1\n";
    for (const char *setting : {"run.txt", "run.txt,status", "run.txt,status MILCGPU_OFF=1"})
        CHECK(run("hisq-P2", "MILCGPU_BACKEND=host MILC_HOST_INPUT=" + typo + " MILCGPU_TABLE=" + setting, "input")
                  .status == (std::string(setting) == "run.txt,status" ? MILCGPU_EXIT_BAD : 0));
    const std::string old = folder.path / "old.txt"; // of a run before one that MILC ends before milcgpu starts
    std::ofstream(old) << "verdict: GOOD\n";
    CHECK(run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_TABLE=" + old, "setup threads bad").status == 1);
    CHECK_FALSE(std::filesystem::exists(old));
    // Another program writes the same file meanwhile.
    const std::string file = folder.path / "run.txt", pipe = folder.path / "pipe";
    REQUIRE(std::filesystem::remove(file));
    tests::succeeded(tests::shell("mkfifo " + pipe + "; ((exec 3>" + pipe + "; for k in $(seq 900); do if [ -e " +
                                  file + " ]; then break; fi; sleep .01; done; touch -d '1 hour' " + file +
                                  ") &) >/dev/null 2>&1"));
    CHECK(has(certified("inverts none", ".txt", 0, "MILC_HOST_INPUT=" + pipe),
              "\nnote: MILCGPU_TABLE: another program also writes " + file + ": give each run a file of its own\n"));
    const std::string trajectory = certified("trajectory none update", ".txt");
    const Run measured = run("hisq-P2", "MILCGPU_OFF=1", "trajectory none update");
    double space = 0, time = 0;
    const size_t at = trajectory.find("\nfirst plaquettes: ");
    REQUIRE(at != std::string::npos);
    REQUIRE(std::sscanf(trajectory.c_str() + at, "\nfirst plaquettes: %lf %lf", &space, &time) == 2);
    CHECK(measured.says(milcgpu::format("trajectory measured: plaquettes %.5f", space)));
    CHECK(has(trajectory, "\nlast plaquettes: 1."));
}

TEST_CASE("progress: solves, eigenvectors and trajectories say how far they are, and short ones say nothing",
          "[milc_host][certificate]") {
    const auto lines = [](const std::string &setting, const std::string &arguments) {
        const Run r = run("hisq-P2", "MILCGPU_BACKEND=host " + setting, arguments);
        CHECK(r.status == 0);
        std::istringstream output(r.output);
        std::map<std::string, std::string> last; // by the work
        for (std::string line; std::getline(output, line);)
            for (const char *work : {"trajectory", "ks_multicg_offset_field", "mat_invert", "ks_eigensolve"})
                if (line.rfind(std::string("milcgpu: ") + work + ": ", 0) == 0 &&
                    (has(line, " s left") || has(line, "trajectory: ")))
                    last[work] = line;
        return last;
    };
    const std::string soon = "MILCGPU_TEST=progress";
    auto trajectory = lines(soon, "trajectory none update"), inverts = lines(soon, "inverts none"),
         eigen = lines(soon, "eigen none");
    CHECK(has(trajectory["trajectory"], " updates of the gauge field"));
    for (const std::string &solve : {trajectory["ks_multicg_offset_field"], inverts["mat_invert"]}) {
        int step = 0;
        double residual = 0, target = 0, left = -1;
        const size_t at = solve.find(": step ");
        REQUIRE(at != std::string::npos);
        REQUIRE(std::sscanf(solve.c_str() + at, ": step %d, |r| / |b| = %lf, target %lf", &step, &residual, &target) ==
                3);
        CHECK(residual < 1);
        CHECK(std::sscanf(solve.c_str() + solve.find(", about"), ", about %lf s left", &left) == 1);
        CHECK(left >= 0);
        CHECK(left < 1);
    }
    CHECK(has(eigen["ks_eigensolve"], " of 64 Lanczos vectors of pass 3, about "));
    // Of sources that are solved one by one, the time left is that of the present source.
    milcgpu::Plugin &p = milcgpu::plugin();
    const double between = p.seconds_between_lines;
    p.seconds_between_lines = 0;
    milcgpu::SolveLines sources(p, MILCGPU_MAT_INVERT, 1e-10, 0);
    const auto left = [&](int step, double residual) {
        sources.log(step, residual);
        double seconds = -1;
        std::sscanf(p.certificate.at.c_str() + std::min(p.certificate.at.find(", about "), p.certificate.at.size()),
                    ", about %lf s left", &seconds);
        return seconds;
    };
    CHECK(left(8, 1) == -1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(left(400, 1e-5) >= 0.2);
    CHECK(left(8, 1) == -1);
    CHECK(left(400, 1e-5) >= 0);
    CHECK(left(400, 1e-5) < 0.2);
    p.seconds_between_lines = between;
    milcgpu_plugin_trajectory(1);
    milcgpu::plugin().trajectory->updates = 40;
    milcgpu_plugin_trajectory(0);
    CHECK(milcgpu::plugin().trajectory->updates_of_last == 40);
    for (const char *arguments : {"trajectory none update", "inverts none", "eigen none"})
        CHECK(lines("", arguments).empty());
}

TEST_CASE("certificate: a run that is killed or cannot go on leaves it as far as it came", "[milc_host][certificate]") {
    const tests::Folder folder;
    const std::string file = folder.path / "run.json", to_file = "MILCGPU_BACKEND=host MILCGPU_TABLE=" + file;
    const Run killed = run("hisq-P2", to_file + " MILC_HOST_KILL=1", "trajectory flip links");
    CHECK(killed.status != 0);
    CHECK_FALSE(killed.says("verdict"));
    const std::string so_far = tests::text_of(file);
    CHECK(has(so_far, "\"verdict\":\"UNFINISHED: the run goes on, or was killed; loads after data on the device had "
                      "changed: 1\""));
    CHECK(has(so_far, "{\"routine\":\"ks_multicg_offset_field\",\"calls\":"));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
    const Run lost = run("asqtad-P2", to_file, "trajectory device fermion");
    CHECK(lost.status == 1);
    CHECK(has(tests::text_of(file), "\"verdict\":\"UNFINISHED: MILC stopped before its end; losses of values that "
                                    "only the device had: 1"));
}
