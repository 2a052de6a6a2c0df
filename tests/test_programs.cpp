// The example programs on ranks: the numbers of one rank, with one voice.
#include "milc_glue/milcgpu.h"
#include "tests/program_support.h"
#include <algorithm>
#include <cstdlib>

using tests::Folder;
using tests::Run;
using tests::Table;
using tests::table;

namespace {

Run run(const std::string &words, const std::string &grid = "", int ranks = 1) {
    return tests::run_program(words, grid, ranks);
}

// Four ranks in two directions beside one: rows of the tables, but for `varying` columns, which are times and rounding.
// Steps may be one apart, for their sums are added in another order.
void compare(const std::string &words, size_t steps, const std::vector<size_t> &varying) {
    const Folder folder;
    const std::string with_table = words + " --backend host --csv " + folder.path.string() + "/csv";
    const Run alone = run(with_table);
    const Table one = table(folder.path.string() + "/csv");
    const Run r = run(with_table, "1 1 2 2", 4);
    INFO(alone.output << "\n" << r.output);
    CHECK(alone.status == 0);
    CHECK(r.status == 0);
    CHECK(r.count("4 ranks, grid 1x1x2x2, each with 4 x 4 x 4 x 4 sites\n") == 1); // one voice
    Table many = table(folder.path.string() + "/csv");
    REQUIRE(one.size() > 1);
    REQUIRE(many.size() == one.size());
    for (size_t row = 0; row < one.size(); ++row) {
        for (const size_t column : varying)
            if (row > 0)
                many[row].at(column) = one[row].at(column);
        if (row > 0 && steps > 0 && std::abs(std::stoi(many[row].at(steps)) - std::stoi(one[row].at(steps))) == 1)
            many[row][steps] = one[row][steps];
        CHECK(many[row] == one[row]);
    }
}

} // namespace

TEST_CASE("programs: solve on ranks, from a file that one of them wrote, has the steps of one rank", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string file = folder.path.string() + "/lat";
    const Run made = run("make_lattice --size 4 4 8 8 --sweeps 5 --out " + file, "1 1 1 2", 2);
    INFO(made.output);
    CHECK(made.status == 0);
    CHECK(made.count("written: ") == 1);
    const std::string history = folder.path.string() + "/demo_history.csv";
    compare("solve --mass 0.1 --history " + history + " --lattice " + file, 2, {4, 5, 6, 7, 8});
    tests::check_pictures(history, {"demo"});
}

TEST_CASE("programs: several masses and links on ranks are those of one", "[ranks][mpi]") {
    NEED_MPIRUN;
    compare("multimass --size 4 4 8 8 --sweeps 3 --poles 3", 3, {4, 5, 6});
    compare("sources --size 4 4 8 8 --sweeps 3 --sources 3 --masses 0.2", 5, {7, 8, 9, 10});
    compare("fatlinks --size 4 4 8 8 --sweeps 3 --repeat 1", 0, {3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("programs: bench on ranks times all of it together", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const Run r = run("bench --backend host --size 4 4 8 4 --mass 0.1 --pairs double/single --reals 18 "
                      "--only dslash,links,solves,masses,forces --csv " +
                          folder.path.string() + "/csv",
                      "1 1 2 1", 2);
    INFO(r.output);
    CHECK(r.status == 0);
    CHECK(r.count("every result is right\n") == 1);
    CHECK(r.count("\ncg step 18  ") == 1);
    CHECK(r.count("forces: left out, one rank only\n") == 1);
    const Table rows = table(folder.path.string() + "/csv");
    REQUIRE(rows.size() == 1 + 1 + 3 + 4 + 1 + 4); // heading, copy, rows of D, links, a solve, 10 masses
    for (size_t row = 0; row < rows.size(); ++row) {
        REQUIRE(rows[row].size() == 18);
        CHECK(rows[row][4] == (row == 0 ? "lattice" : "4x4x8x4"));
        CHECK(rows[row][5] == (row == 0 ? "grid" : "1x1x2x1"));
        CHECK(rows[row][6] == (row == 0 ? "ranks" : "2"));
        CHECK(rows[row][15] == (row == 0 ? "sites" : "512"));
        CHECK(rows[row][16] == (row == 0 ? "card" : "host backend"));
        CHECK((row == 0 ? rows[row][17] == "date" : rows[row][17].size() == 10));
    }
}

TEST_CASE("programs: bench times all on one rank, and finds what became slower", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string csv = folder.path.string() + "/bench.csv", old = folder.path.string() + "/old";
    const std::string words = "bench --backend host --size 4 4 4 4 --sweeps 1 --mass 0.2 --quick --hisq-terms 2 "
                              "--asqtad-terms 2 --csv " +
                              csv;
    const Run all = run(words);
    INFO(all.output);
    REQUIRE(all.status == 0);
    const Table rows = table(csv);
    for (const char *kind :
         {"copy", "dslash", "links", "cg step", "solve", "forces", "mesons", "Laplace", "Wilson", "clover", "dense"})
        CHECK(std::count_if(rows.begin(), rows.end(), [&](const auto &row) { return row[0] == kind; }) > 0);
    CHECK(all.count("\n4x4x4x4       ") > 30); // the summary
    tests::check_pictures(csv, {"roofline", "step_time", "several_sources"});

    // Times of before that nothing can reach, by a thousandth and by a thousand times.
    const std::string again = words + " --only dslash --compare " + old;
    const auto compared = [&](double factor) {
        std::ofstream file(old);
        for (size_t row = 0; row < rows.size(); ++row)
            for (size_t column = 0; column < rows[row].size(); ++column) {
                const bool scaled = column == 7 && row > 1;
                file << (column == 0 ? "" : ",")
                     << (scaled ? std::to_string(factor * std::stod(rows[row][column])) : rows[row][column])
                     << (column + 1 == rows[row].size() ? "\n" : "");
            }
        file.close();
        return run(again);
    };
    const auto of_dslash = std::count_if(rows.begin(), rows.end(), [](const auto &row) { return row[0] == "dslash"; });
    const std::string all_rows = std::to_string(of_dslash), of = " of " + std::to_string(rows.size() - 2);
    const Run slower = compared(1e-3), faster = compared(1e3);
    CHECK(slower.count("\nslower: dslash,") == of_dslash);
    CHECK(slower.count(all_rows + of + " rows compared: " + all_rows + " slower, 0 faster") == 1);
    CHECK(faster.count("\nslower: ") == 0);
    CHECK(faster.count(all_rows + of + " rows compared: 0 slower, " + all_rows + " faster") == 1);

    const Run sweep =
        run("bench --backend host --size 4 4 4 4 --sweeps 1 --quick --only dslash,dense --sweep --csv " + csv);
    INFO(sweep.output);
    CHECK(sweep.status == 0);
    CHECK(sweep.count("\nrun 3 of 3: four threads a site\n") == 1);
    CHECK(sweep.count("\ndense: left out, its operations are more than a launch\n") == 1);
    CHECK(sweep.count(" launch shapes gain more than the noise over those of the tables\n") == 1);
    CHECK(table(csv).size() == 2); // heading and copy

    const auto refused = [&](const std::string &options, const std::string &why) {
        const Run r = run("bench --backend host " + options);
        INFO(r.output);
        CHECK(r.status == 2);
        CHECK(r.count(why) == 1);
    };
    refused("--compare /nowhere/csv", "--compare: /nowhere/csv is no table that this version of the program has");
    std::ofstream(old) << "kind,what\n";
    refused("--compare " + old, "--compare: " + old + " is no table");
    std::ofstream(old) << "kind,what,precision,sources,lattice,grid,ranks,us,gflops,gbytes_per_second,percent_of_copy,"
                          "flops_per_byte,error,steps,cublas_us,sites,card,date\n";
    refused("--compare " + old, "--compare: " + old + " has no rows");
    refused("--only dslash,linsk", "--only: 'linsk' is none of dslash,links,solves,sources,masses,forces,gauge,mesons,"
                                   "operators,wilson,dirac,dense");
    refused("--csv /nowhere/csv", "--csv: /nowhere/csv cannot be written");
}

TEST_CASE("programs: RHMC on ranks has the trajectories of one", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string words = "rhmc --backend host --size 4 4 4 8 --sweeps 3 --warm 0 --trajectories 1 --steps 2 "
                              "--length 0.1 --csv " +
                              folder.path.string() + "/csv --history " + folder.path.string() + "/demo_energy.csv";
    const Run r = run(words, "1 1 1 2", 2);
    INFO(r.output);
    REQUIRE(r.status == 0);
    const Table many = table(folder.path.string() + "/csv");
    REQUIRE(run(words).status == 0);
    const Table one = table(folder.path.string() + "/csv");
    REQUIRE(many.size() == 2);
    CHECK(many[1][2] == one[1][2]); // accepted
    CHECK(std::abs(std::stod(many[1][1]) - std::stod(one[1][1])) < 1e-6);
    CHECK(std::abs(std::stod(many[1][3]) - std::stod(one[1][3])) < 1e-6);
    tests::check_pictures(folder.path.string() + "/demo_energy.csv", {"demo_energy"});
}

TEST_CASE("programs: what cannot be done on ranks ends all of them, said once", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Run all = run("solve --lattice /nowhere/lat", "1 1 1 2", 2);
    INFO(all.output);
    CHECK(all.status == 1);
    CHECK(all.count("solve: ") == 1);
    CHECK(all.count("solve: /nowhere/lat: ") == 1);
    // One that fails by itself is named, and the other does not wait for it.
    const std::string words = MILCGPU_PROGRAMS "solve --size 4 4 4 8 --sweeps 0 --backend host --grid 1 1 1 2";
    // (Rank 1 by the variable of Open MPI or MPICH: "PROGRAM : PROGRAM" crashes mpirun of Open MPI 5.0.7, in
    // Debian 13.)
    const Run one = tests::run(
        "", MILCGPU_MPIRUN " -n 2",
        "sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || wrong=\"--action nonsense\"; exec " + words + " $wrong'");
    INFO(one.output);
    CHECK(one.status != 0);
    CHECK(one.count("solve: rank 1 of 2: action 'nonsense'") == 1);
    CHECK(one.seconds < 60);
    const Run alone = run("solve --grid 1 1 1 2"); // without mpirun
    CHECK(alone.status == 2);
    CHECK(alone.count("solve: --grid 1 1 1 2 is for 2 rank(s), but 1 were started") == 1);
}

TEST_CASE("programs: flow prints and keeps what it finds, alike on ranks, and ends in words",
          "[measurements][ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string();
    const std::string words = "flow --size 4 4 4 8 --sweeps 3 --step 0.1 --stop 0.2 --integrator adpt --tolerance 1e-3 "
                              "--stout 1 --backend host --csv " +
                              path + "/flow.csv --out ";
    const Run alone = run(words + path + "/lat");
    INFO(alone.output);
    REQUIRE(alone.status == 0);
    const Table one = table(path + "/flow.csv");
    tests::check_pictures(path + "/flow.csv", {"flow"});
    const Run r = run(words + path + "/lat2", "1 1 1 2", 2);
    INFO(r.output);
    REQUIRE(r.status == 0);
    const Table many = table(path + "/flow.csv");
    CHECK(alone.count("GFLOW: ") == int(one.size()) - 1);
    CHECK(alone.count("ADAPT: ") == int(one.size()) - 1);
    CHECK(alone.count("t0: the flow did not come so far") == 1);
    CHECK(r.count("GFLOW: ") == int(one.size()) - 1); // one voice
    REQUIRE(one.size() >= 3);
    REQUIRE(one[0].size() == 15);
    CHECK(one[1][12] == "4x4x4x8");
    CHECK(one[1][13] == "host backend");
    CHECK(one.back()[0] == "0.20000000000000001");
    REQUIRE(many.size() == one.size());
    CHECK(many[0] == one[0]);
    for (size_t row = 1; row < one.size(); ++row)
        for (size_t column = 0; column < 11; ++column) // not the seconds
            CHECK(std::abs(std::stod(many[row].at(column)) - std::stod(one[row][column])) < 1e-11);
    // What was written is where the flow ended: float32.
    const Run again = run("flow --stop 0 --backend host --csv " + path + "/csv --lattice " + path + "/lat2");
    REQUIRE(again.status == 0);
    const Table end = table(path + "/csv");
    REQUIRE(end.size() == 2);
    for (size_t column = 1; column < 8; ++column)
        CHECK(std::abs(std::stod(end[1].at(column)) - std::stod(one.back()[column])) < 3e-7);

    const Run unknown = run("flow --integrator euler");
    CHECK(unknown.status == 2);
    CHECK(unknown.count("'euler' is not known; known are: luscher ck") == 1);
    CHECK(run("flow --size 2 2 2 2 --sweeps 0 --step -1 --backend host").count("spec.step is -1") == 1);
}

TEST_CASE("programs: each has --help and --version, and refuses what it does not know", "[programs]") {
    NEED_MPIRUN;
    for (const std::string name : {"bench", "fatlinks", "flow", "gemm_ladder", "list_kernels", "make_lattice",
                                   "multimass", "rhmc", "solve", "sources", "spectrum"}) {
        const Run version = run(name + " --version");
        CHECK(version.output == name + ", milcgpu " MILCGPU_VERSION "\n");
        CHECK(version.status == 0);
        const Run help = run(name + " --help");
        INFO(help.output);
        CHECK(help.count("Usage: " + name) == 1);
        CHECK(help.count("--version") == 1);
        CHECK(help.status == 0);
        const Run refused = run(name + " --nonsense 3");
        CHECK(refused.output == name + ": unknown option '--nonsense' (see " + name + " --help)\n");
        CHECK(refused.status == 2);
    }
}

TEST_CASE("programs: a log has no progress line in it that is written over", "[programs]") {
    NEED_MPIRUN;
    const Run solve = run("solve --size 4 4 4 4 --sweeps 2 --mass 0.3 --backend host");
    INFO(solve.output);
    CHECK(solve.status == 0);
    CHECK(solve.count("\r") == 0);
    CHECK(solve.count("  step ") == 0); // none in the first minute
}
