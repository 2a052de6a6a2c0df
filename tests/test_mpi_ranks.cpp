// Runs tests/mpi_ranks/program.cpp under every MPI that was there when it was built.
#include "tests/catch.h"
#include <chrono>
#include <cstdio>
#include <sstream>
#include <sys/wait.h>
#include <vector>

namespace {

struct Mpi {
    std::string launcher, program;
};

std::vector<Mpi> mpis() {
    std::ifstream list(MPI_RANKS_LIST);
    std::vector<Mpi> found;
    for (Mpi mpi; list >> mpi.launcher >> mpi.program;)
        found.push_back(mpi);
    return found;
}

struct Run {
    int status = -1;
    std::string output; // both streams
    double seconds = 0;
    int count(const std::string &text) const {
        int found = 0;
        for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
            ++found;
        return found;
    }
};

// As root and with more ranks than cores, as in CI. What one MPI does not know it does not read.
constexpr const char *environment =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMP_NUM_THREADS=1 MILCGPU_BACKEND=host MILCGPU_VERBOSE=0 "
    "ASAN_OPTIONS=detect_leaks=0"; // of MPI's own

Run run(const Mpi &mpi, int ranks, const std::string &what, const std::string &settings = "") {
    const std::string command = std::string("timeout -k 5 100 env ") + environment + " " + settings + " " +
                                mpi.launcher + " -n " + std::to_string(ranks) + " " + mpi.program + " " + what +
                                " 2>&1 </dev/null";
    Run result;
    const auto begin = std::chrono::steady_clock::now();
    FILE *pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr;)
        result.output += line;
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
}

} // namespace

#define NEED_MPI                                                                                                       \
    do {                                                                                                               \
        if (mpis().empty())                                                                                            \
            SKIP_TEST("no mpicxx with mpirun beside it (Debian: libopenmpi-dev openmpi-bin)");                         \
    } while (false)

TEST_CASE("mpi: contexts on ranks, and what refuses them on all", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const Run r = run(mpi, ranks, "start");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.count(" checks on " + std::to_string(ranks) + " ranks, 0 wrong\n") == 1);
            CHECK(r.count("\n") == 1); // no rank says anything else
        }
}

TEST_CASE("mpi: memory that is short on one rank while a context is made", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis()) {
        const Run r = run(mpi, 2, "memory");
        INFO(mpi.launcher << "\n" << r.output);
        CHECK(r.status == 0);
        CHECK(r.count(" checks on 2 ranks, 0 wrong\n") == 1);
    }
}

TEST_CASE("mpi: gathers, sums, decisions and exchanges", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const Run r = run(mpi, ranks, "messages");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.count(std::to_string(250 * ranks) + " checks on " + std::to_string(ranks) + " ranks, 0 wrong\n") ==
                  1);
        }
}

TEST_CASE("mpi: a solve over ranks has the iterations and the solution of one rank", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const Run r = run(mpi, ranks, "solve");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.count(std::to_string(5 * ranks) + " checks on " + std::to_string(ranks) + " ranks, 0 wrong\n") ==
                  1);
        }
}

TEST_CASE("mpi: a rank that stops is named by all others, and the job ends", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const Run r = run(mpi, ranks, "stopped", "MILCGPU_TIMEOUT=1");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status != 0);
            CHECK(r.count("TIMED_OUT: after, rank ") == ranks - 1);
            CHECK(r.count("waited 1 s for messages with rank " + std::to_string(ranks - 1) + " (gather)") == ranks - 1);
            CHECK(r.seconds < 60);
        }
}

TEST_CASE("mpi: a rank that is killed ends the job", "[ranks][mpi]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const Run r = run(mpi, ranks, "killed", "MILCGPU_TIMEOUT=1");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status != 0);
            CHECK(r.count("nothing was missed") == 0);
            CHECK(r.seconds < 60);
        }
}

TEST_CASE("mpi: the plugin for MILC starts on all ranks or on none, with one voice and the settings of rank 0",
          "[ranks][mpi][plugin]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const std::string n = std::to_string(ranks), last = "rank " + std::to_string(ranks - 1) + " of " + n;
            const Run r = run(mpi, ranks, "plugin", "MILCGPU_VERBOSE=1");
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.count(" checks on " + n + " ranks, 0 wrong\n") == 1);
            for (const std::string &once :
                 {last + ": MILC's site order could not be read",
                  last + ": MILCGPU_DEVICE=first is none of 0 to 999. MILC runs on the CPU\n",
                  "a rank has 4 x 4 x 4 x 2 sites: a direction that is cut needs 3 of them, the reach of the long "
                  "links. "
                  "-geom 1 1 1 " +
                      n + " ",
                  n + " ranks, and no mpi.h was found when MILC was built",
                  "settings (MILCGPU_...) of " + last + " are not those of rank 0, which hold for all ranks\n",
                  std::string("milcgpu: settings: MILCGPU_PRECISION=double-single MILCGPU_BACKEND=host"),
                  std::string("milcgpu: MILC's routine"), n + " ranks, each with 4 x 4 x 4 x 4 sites\n",
                  "of " + n + " ranks: sums, and the seconds of the slowest\n",
                  std::string("update_u                 double        host, ")}) {
                INFO(once);
                CHECK(r.count(once) == 1);
            }
            for (int rank = 0; rank < ranks; ++rank)
                CHECK(r.count("     " + std::to_string(rank) + "  (0, 0, 0, " + std::to_string(4 * rank) + ") ") == 1);
            CHECK(r.count("ks_congrad_parity              1       0     " + std::string(1, ' ') + n + ".000") == 1);
        }
}

TEST_CASE("mpi: where a rank of MILC's job is lost, the plugin ends all of them, in words", "[ranks][mpi][plugin]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2}) {
            const Run r = run(mpi, ranks, "lost", "MILCGPU_TIMEOUT=0.05"); // at the head of a call 60 times that
            INFO(mpi.launcher << " -n " << ranks << "\n" << r.output);
            CHECK(r.status != 0);
            CHECK(r.count("ended: a decision: answers of all ranks, rank ") >= 1);
            CHECK(r.count("messages with rank " + std::to_string(ranks - 1)) >= 1);
            CHECK(r.count("MILC cannot go on: all ranks end") >= 1);
            CHECK(r.count("the job should have ended") == 0);
            CHECK(r.seconds < 60);
        }
}
