// Runs of the MILC-shaped programs of tests/milc_host, and what they say.
#pragma once
#include "gpu_kernels/machine/backend/device.h"
#include "tests/install_support.h"
#include "tests/support.h"
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tests::milc_host {

struct Run : tests::Run {
    // The lines with results of molecular dynamics.
    std::string numbers() const {
        std::istringstream lines(output);
        std::string all;
        for (std::string line; std::getline(lines, line);)
            for (const char *begin : {"trajectory ", "PLAQ:", "P_LOOP:", "G_LOOP:", "GACTION:"})
                if (line.rfind(begin, 0) == 0)
                    all += line + "\n";
        return all;
    }
    // How often a field was copied back to the host for a routine.
    long copies(const std::string &who) const {
        const size_t at = output.find("milcgpu: " + who + " ");
        return at == std::string::npos ? 0 : std::strtol(output.c_str() + at + who.size() + 10, nullptr, 10);
    }
    // A routine's line of the table at exit.
    struct Line {
        long device = -1, cpu = -1; // calls
        double to = -1, from = -1;  // MB
    };
    Line line_of(const std::string &routine) const {
        std::istringstream lines(output);
        for (std::string text; std::getline(lines, text);) {
            Line line;
            char name[64];
            if (std::sscanf(text.c_str(), "milcgpu: %63s %ld %*d %*f %*f%% %*f %lf %lf %*d %ld", name, &line.device,
                            &line.to, &line.from, &line.cpu) == 5 &&
                name == routine)
                return line;
        }
        return {};
    }
    std::pair<long, long> calls(const std::string &routine) const {
        return {line_of(routine).device, line_of(routine).cpu};
    }
    // What the table at the start says of a routine.
    std::string runs_on(const std::string &routine) const {
        const std::string name = milcgpu::format("\nmilcgpu: %-24s ", routine.c_str());
        const size_t at = output.find(name), from = at + name.size() + 14;
        return at == std::string::npos ? "" : output.substr(from, output.find('\n', from) - from);
    }
    // The tables at the start and at exit say the same: what MILC's own does, the device has not done. What the device
    // does, MILC's own has not done, unless the table at the start or a line says why.
    void check_tables() const {
        std::istringstream lines(output);
        int routines = 0;
        for (std::string text; std::getline(lines, text);) {
            char name[64], precision[16], on[64];
            if (std::sscanf(text.c_str(), "milcgpu: %63s %15s %63[^\n]", name, precision, on) != 3 ||
                text.rfind(milcgpu::format("milcgpu: %-24s %-13s ", name, precision), 0) != 0 ||
                line_of(name).device < 0)
                continue;
            INFO(text);
            if (std::string(precision) == "-") // D of solutions on the device is done there
                CHECK((line_of(name).device == 0 || std::string(name) == "dslash_fn_field"));
            else if (!has(text, "MILC's own") && !says("milcgpu: " + std::string(name) + ": "))
                CHECK(line_of(name).cpu == 0);
            ++routines;
        }
        CHECK(routines >= 5);
    }
    double megabytes_from(const std::string &routine) const { return line_of(routine).from; }
    // The lines of events that several tests plant.
    bool beyond_tolerance() const { return says("BEYOND TOLERANCE"); }
    bool lost_gpu() const { return says("the device is lost: MILC runs on the CPU from here on"); }
    bool short_of_memory() const { // the library retried with less, or left the call to MILC
        return says("Trying again") || says("MILC's own routine does this call");
    }
};

// One start serves all tests that ask for the same.
inline Run run(const std::string &program, const std::string &environment, const std::string &arguments = "") {
    // D is taken over, though the lattice is small, unless the environment says no_dslash.
    const std::string test = "MILCGPU_TEST=";
    const size_t words = environment.find(test);
    const std::string more = environment.find("no_dslash") != std::string::npos ? environment
                             : words == std::string::npos
                                 ? environment + " " + test + "dslash"
                                 : std::string(environment).insert(words + test.size(), "dslash,");
    const std::string command =
        "OMP_NUM_THREADS=1 " + more + " " + MILC_HOST_PROGRAMS + program + "/program " + arguments + " 2>&1";
    static std::map<std::string, Run> runs;
    const auto [at, is_new] = runs.try_emplace(command);
    if (is_new || has(arguments, "lattice_file")) {
        at->second = {shell(command)};
        const std::string &said = at->second.output;
        for (size_t end = said.find(" \n"); end != std::string::npos; end = said.find(" \n", end + 1)) // of a line
            CHECK(said.compare(said.rfind('\n', end) + 1, 8, "milcgpu:") != 0);
    } else
        note_run(command, at->second);
    return at->second;
}

// A run that must end well: of the program's own checks none is wrong, and compare mode finds nothing beyond tolerance.
inline Run right(const std::string &program, const std::string &environment, const std::string &arguments = "",
                 const std::string &checks = "") {
    const Run &r = run(program, environment, arguments);
    CHECK(r.status == 0);
    if (has(environment, "MILCGPU_BACKEND=host"))
        CHECK_FALSE(r.says(" GPU"));
    CHECK(has("\n" + r.output, "\n0 of " + checks));
    CHECK_FALSE(r.beyond_tolerance());
    return r;
}

// Short runs have neither hisq-P1 nor hisq-master-P2 (tests.mk).
inline const std::vector<const char *> programs =
    sampled<const char *>({"asqtad-P1", "asqtad-P2", "hisq-P2", "hisq-P1", "hisq-newer-P2"}, 2);

inline std::vector<std::string> backend_settings() {
    std::vector<std::string> settings{"MILCGPU_BACKEND=host"};
    if (milcgpu::Device::gpu_count() > 0)
        settings.push_back("MILCGPU_BACKEND=cuda");
    return settings;
}

} // namespace tests::milc_host
