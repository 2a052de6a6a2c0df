// Programs that tests start, alone or on ranks of a real MPI, and what they said.
#pragma once
#include "tests/catch.h"
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

namespace tests {

// A folder that is gone afterwards.
class Folder {
  public:
    Folder();
    Folder(const Folder &) = delete;
    ~Folder();
    std::filesystem::path path;
};

struct Run {
    int status = -1;
    std::string output; // both streams
    double seconds = 0;
    bool says(const std::string &text) const { return output.find(text) != std::string::npos; }
    int count(const std::string &text) const;
};

// The commands that a test ran last, with their output: if a check fails, main.cpp prints them, so that no test has to.
// Pass a run that is used again to note_run.
inline std::string last_runs[2];
inline void note_run(const std::string &command, const Run &run) {
    last_runs[0] = std::exchange(last_runs[1], command + "\n" + run.output);
}

// A shell command, without the settings of the make that runs the tests.
Run shell(const std::string &command);

// The run, which must have succeeded.
inline Run succeeded(Run run) {
    REQUIRE(run.status == 0);
    return run;
}

// As root and with more ranks than cores, as in CI; ranks that wait leave the cores to others, since other tests run,
// too. What one MPI does not know it does not read.
constexpr const char *run_environment =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "OMPI_MCA_mpi_yield_when_idle=1 "
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMP_NUM_THREADS=1 MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 "
    "ASAN_OPTIONS=detect_leaks=0"; // of MPI's own

// settings: of the environment, NAME=VALUE. launcher: "" for none.
Run run(const std::string &settings, const std::string &launcher, const std::string &program);

// examples/draw.sh on tables, in shell words. The tests run in the root of the source tree.
inline bool has_gnuplot() { return std::system("command -v gnuplot >/dev/null") == 0; }
inline Run draw(const std::string &tables, const std::string &settings = "") {
    return run(settings, "", "/bin/sh examples/draw.sh " + tables);
}
// One table, as a program has written it.
void check_pictures(const std::string &table, const std::vector<std::string> &pictures);

} // namespace tests
