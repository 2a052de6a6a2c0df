// Runs tests/mpi_ranks/program.cpp with every MPI that was found when it was built.
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <vector>

using tests::Run;

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

Run run(const Mpi &mpi, int ranks, const std::string &what, const std::string &settings = "") {
    return tests::run(settings, mpi.launcher + " -n " + std::to_string(ranks), mpi.program + " " + what);
}

// Runs `what` with each MPI on each of these numbers of ranks; look(run, ranks) checks the run.
template <class Look>
void with_each_mpi(const std::vector<int> &sizes, const std::string &what, const std::string &settings,
                   const Look &look) {
    for (const Mpi &mpi : mpis())
        for (const int ranks : sizes) {
            const Run r = run(mpi, ranks, what, settings);
            look(r, ranks);
        }
}

// All checks of the program were right: `each` on each rank; 0: any number above 0.
void all_right(const Run &r, int ranks, int each = 0) {
    CHECK(r.status == 0);
    const std::string line = " checks on " + std::to_string(ranks) + " ranks, 0 wrong\n";
    REQUIRE(r.count(line) == 1);
    const size_t end = r.output.find(line), digits = r.output.find_last_not_of("0123456789", end - 1) + 1;
    const int checks = std::stoi(r.output.substr(digits));
    CHECK((each > 0 ? checks == each * ranks : checks > 0));
}

} // namespace

#define NEED_MPI                                                                                                       \
    do {                                                                                                               \
        if (mpis().empty())                                                                                            \
            SKIP_TEST("no mpicxx with mpirun beside it (Debian: libopenmpi-dev openmpi-bin)");                         \
    } while (false)

TEST_CASE("mpi: contexts start on ranks, and a bad one is refused on all", "[ranks][mpi]") {
    NEED_MPI;
    // Without TCP: Open MPI 5 writes notes about it, which mix with each other.
    with_each_mpi({2, 4}, "start", "OMPI_MCA_btl=^tcp", [](const Run &r, int ranks) {
        all_right(r, ranks);
        // One line, without the MPI's notes, which begin with [place].
        CHECK(r.count("\n") - r.count("\n[") - (r.output.rfind("[", 0) == 0) == 1);
    });
}

TEST_CASE("mpi: memory that is short on one rank while a context is made fails on all", "[ranks][mpi]") {
    NEED_MPI;
    with_each_mpi({2}, "memory", "", [](const Run &r, int ranks) { all_right(r, ranks); });
}

TEST_CASE("mpi: gathers, sums, decisions and exchanges are right", "[ranks][mpi]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "messages", "", [](const Run &r, int ranks) { all_right(r, ranks, 250); });
}

TEST_CASE("mpi: a solve over ranks has the iterations and the solution of one rank", "[ranks][mpi]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "solve", "", [](const Run &r, int ranks) { all_right(r, ranks, 5); });
}

TEST_CASE("mpi: measurements over ranks have the fields, correlators and solutions of one rank",
          "[ranks][mpi][measurements][cut]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "measure", "", [](const Run &r, int ranks) { all_right(r, ranks, 9); });
}

TEST_CASE("mpi: a solve with a clover term over ranks has the iterations and the solution of one rank",
          "[ranks][mpi][operators]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "wilson", "", [](const Run &r, int ranks) { all_right(r, ranks, 5); });
}

TEST_CASE("mpi: MILC's clover solves and D of Wilson fermions over ranks have the numbers of one rank",
          "[ranks][mpi][operators][plugin]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "clover", "", [](const Run &r, int ranks) {
        all_right(r, ranks, 16);
        CHECK(r.count("milcgpu: compare bicgilu_cl_field: ") == 3);
        CHECK(r.count("BEYOND TOLERANCE") == 2);      // from one rank alone
        CHECK(r.count("holds NaN or infinity") == 2); // tried again in double
    });
}

TEST_CASE("mpi: the ranks of the plugin ask each other by one gather at the head of a call",
          "[ranks][mpi][plugin][agreed]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "heads", "", [](const Run &r, int ranks) { all_right(r, ranks); });
}

TEST_CASE("mpi: messages in GPU memory work; the host backend's memory counts as such for MPI",
          "[ranks][mpi][gpu_mpi]") {
    NEED_MPI;
    for (const char *what : {"solve", "measure", "wilson"})
        with_each_mpi({2}, what, "MILCGPU_GPU_MPI=1 MILCGPU_VERBOSE=1", [](const Run &r, int ranks) {
            all_right(r, ranks);
            CHECK(r.count("from GPU memory into GPU memory (MILCGPU_GPU_MPI=1; a test pattern came whole") == 1);
        });
    // The library asks the MPI first; Debian's MPIs say no, and the library tries nothing.
    with_each_mpi({2}, "solve", "MILCGPU_VERBOSE=1", [](const Run &r, int) {
        CHECK(r.status == 0);
        CHECK(r.count("into GPU memory") == r.count(": yes; a test pattern"));
    });
}

TEST_CASE("mpi: two nodes (network namespaces) have node-local ranks, and solve over TCP", "[ranks][mpi]") {
    NEED_MPI;
    const std::string before = tests::run("", "", "ip netns list").output;
    for (const Mpi &mpi : mpis()) {
        const Run r = tests::run("", "sh tests/mpi_ranks/two_nodes.sh " + mpi.launcher, mpi.program + " nodes");
        if (r.status == 77)
            SKIP_TEST(r.output);
        all_right(r, 4, 6);
        const std::string sent = "sent from node 1 to node 2: ";
        REQUIRE(r.count(sent) == 1);
        CHECK(std::stol(r.output.substr(r.output.find(sent) + sent.size())) > 500000); // 1 MB: ghosts of 100 steps
    }
    CHECK(tests::run("", "", "ip netns list").output == before);
}

TEST_CASE("mpi: all others name a rank that stops, and the job ends", "[ranks][mpi]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "stopped", "MILCGPU_TIMEOUT=1", [](const Run &r, int ranks) {
        CHECK(r.status != 0);
        CHECK(r.count("TIMED_OUT: after, rank ") == ranks - 1);
        CHECK(r.count("waited 1 s for messages with rank " + std::to_string(ranks - 1) + " (gather)") == ranks - 1);
        CHECK(r.seconds < 60);
    });
}

TEST_CASE("mpi: a rank that is killed ends the job", "[ranks][mpi]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "killed", "MILCGPU_TIMEOUT=1", [](const Run &r, int) {
        CHECK(r.status != 0);
        CHECK(r.count("nothing was missed") == 0);
        CHECK(r.seconds < 60);
    });
}

TEST_CASE("mpi: the plugin for MILC starts on all ranks or on none, and rank 0 logs and has the settings",
          "[ranks][mpi][plugin]") {
    NEED_MPI;
    for (const Mpi &mpi : mpis())
        for (const int ranks : {2, 4}) {
            const std::string n = std::to_string(ranks), last = "rank " + std::to_string(ranks - 1) + " of " + n;
            const tests::Folder folder;
            const std::string table = folder.path / "table.json";
            const Run r = run(mpi, ranks, "plugin", "MILCGPU_VERBOSE=1 MILCGPU_TABLE=" + table);
            all_right(r, ranks);
            CHECK(tests::text_of(table).find("\"ranks\":" + n + ",") != std::string::npos);
            CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
            for (const std::string &once :
                 {last + ": MILC's site order could not be read",
                  last + ": MILCGPU_DEVICE=first is none of 0 to 999. MILC runs on the CPU\n",
                  "links. -geom 1 1 1 " + n + " ", n + " ranks, and no mpi.h was found when MILC was built",
                  "settings (MILCGPU_...) of " + last + " differ from those of rank 0",
                  std::string("milcgpu: settings: MILCGPU_PRECISION=double-single MILCGPU_BACKEND=host"),
                  std::string("milcgpu: MILC's routine"), n + " ranks, each with 4 x 4 x 4 x 4 sites\n",
                  "of " + n + " ranks: sums, and the seconds of the slowest\n",
                  std::string("update_u                 double        host, ")}) {
                INFO(once);
                CHECK(r.count(once) == 1);
            }
            for (int rank = 0; rank < ranks; ++rank)
                CHECK(r.count("     " + std::to_string(rank) + "  (0, 0, 0, " + std::to_string(4 * rank) + ") ") == 1);
            CHECK(r.count("ks_congrad_parity              1       0      " + n + ".000") == 1);
        }
}

TEST_CASE("mpi: MILC's own GPU switches over ranks have the numbers of one rank", "[ranks][mpi][quda]") {
    NEED_MPI;
    with_each_mpi({2, 4}, "quda", "", [](const Run &r, int ranks) { all_right(r, ranks, 34); });
}

TEST_CASE("mpi: if a rank of MILC's job is lost, the plugin ends all of them with a message", "[ranks][mpi][plugin]") {
    NEED_MPI;
    // At the head of a call the time limit is 60 times as long.
    for (const Mpi &mpi : mpis()) {
        Run r = run(mpi, 2, "lost", "MILCGPU_TIMEOUT=0.05");
        if (r.count("milcgpu_context_create: the start") > 0) // took longer: the host is busy
            r = run(mpi, 2, "lost", "MILCGPU_TIMEOUT=0.8");
        CHECK(r.status != 0);
        CHECK(r.count("ended: a decision: answers of all ranks, rank ") >= 1);
        CHECK(r.count("messages with rank 1") >= 1);
        CHECK(r.count("MILC cannot go on: all ranks end") >= 1);
        CHECK(r.count("the job should have ended") == 0);
        CHECK(r.seconds < 60);
    }
}

TEST_CASE("mpi: if one rank alone ends MILC's run after an error, all end 5 s later with the certificate",
          "[ranks][mpi][plugin][certificate]") {
    NEED_MPI;
    const tests::Folder folder;
    const std::string file = folder.path / "run.json", settings = "MILCGPU_TABLE=" + file;
    const auto verdict = [&] { return tests::has(tests::text_of(file), "UNFINISHED: MILC stopped before its end"); };
    for (const int who : {0, 1}) {
        const std::string rank = std::to_string(who);
        with_each_mpi({2}, "terminate " + rank, settings, [&](const Run &r, int) {
            CHECK(r.status != 0);
            CHECK(r.count("milcgpu: rank " + rank + " of 2 has ended, status 4, and others go on: all ranks end") == 1);
            CHECK(r.count("the job should have ended") == 0);
            CHECK(verdict() == (who == 0));
            CHECK(tests::has(tests::text_of(file), "\"verdict\":\"UNFINISHED: "));
            CHECK(r.seconds > 5);
            CHECK(r.seconds < 60);
        });
    }
    with_each_mpi({2}, "terminate all", settings, [&](const Run &r, int) {
        CHECK(r.count("termination: node ") == 2);
        CHECK(r.count("others go on") == 0);
        CHECK(verdict());
    });
}
