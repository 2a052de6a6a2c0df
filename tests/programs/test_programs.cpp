// The example programs, alone and on ranks: results, files, options, messages.
#include "examples/lib/lattice_file.h"
#include "gpu_kernels/machine/backend/lanes.h"
#include "milc_glue/api/milcgpu.h"
#include "milc_glue/host/lime.h"
#include "tests/program_support.h"
#include "tests/reference/gauge.h"
#include "tests/source_text.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using tests::Folder;
using tests::Run;
using tests::succeeded;
using tests::Table;
using tests::table;

namespace {

Run run(const std::string &words, const std::string &grid = "", int ranks = 1) {
    return tests::run_program(words, grid, ranks);
}

// Four ranks, cut in two directions, write the table of one rank, except `varying` columns (times, rounding). The
// numbers of steps may differ by one, because sums are added in another order.
void compare(const std::string &words, size_t steps, const std::vector<size_t> &varying) {
    const Folder folder;
    const std::string with_table = words + " --backend host --csv " + folder.path.string() + "/csv";
    succeeded(run(with_table));
    const Table one = table(folder.path.string() + "/csv");
    const Run r = succeeded(run(with_table, "1 1 2 2", 4));
    CHECK(r.count("4 ranks, grid 1x1x2x2, each with 4 x 4 x 4 x 4 sites\n") == 1); // only rank 0 prints
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

TEST_CASE("programs: solve on ranks, from a file that ranks wrote, has the steps of one rank", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string file = folder.path.string() + "/lat";
    const Run made = succeeded(run("make_lattice --size 4 4 8 8 --sweeps 5 --out " + file, "1 1 1 2", 2));
    CHECK(made.count("written: ") == 1);
    const std::string history = folder.path.string() + "/demo_history.csv";
    compare("solve --mass 0.3 --history " + history + " --lattice " + file, 3, {5, 6, 7, 8, 9});
    tests::check_pictures(history, {"demo"});
}

TEST_CASE("programs: make_lattice on ranks writes the bytes of one rank, and no rank has the whole lattice",
          "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string file = folder.path.string() + "/lat";
    const auto behind_the_time = [&](const std::string &grid, int ranks) {
        succeeded(run("make_lattice --size 8 4 4 8 --sweeps 2 --out " + file, grid, ranks));
        return tests::text_of(file).substr(84);
    };
    const std::string one = behind_the_time("", 1);
    CHECK(behind_the_time("2 1 1 2", 4) == one);
    // The links of this lattice take 151 MB in double precision, and MPI needs memory, too.
    succeeded(tests::run("", MILCGPU_MPIRUN " -n 8",
                         "sh -c 'ulimit -d 110000; exec " MILCGPU_PROGRAMS
                         "make_lattice --size 16 16 16 64 --sweeps 0 --grid 1 1 2 4 --out " +
                             file + "'"));
    CHECK(std::filesystem::file_size(file) == 96 + 288 * 16 * 16 * 16 * 64);
}

TEST_CASE("programs: the last line of check_lattice tells if a file is right, on one rank and on four",
          "[lattice_file][ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string file = folder.path.string() + "/lat", bad = folder.path.string() + "/bad";
    const auto last_line = [](const Run &r) {
        const size_t end = r.output.size() - 1, before = r.output.rfind('\n', end - 1);
        return r.output.substr(before + 1, end - before - 1);
    };
    for (const std::string format : {"milc", "nersc"}) {
        INFO(format);
        const Run made = succeeded(run("make_lattice --size 8 4 4 8 --sweeps 2 --format " + format + " --out " + file));
        const Run one = succeeded(run("check_lattice " + file)), four = run("check_lattice " + file, "2 1 1 2", 4);
        CHECK(last_line(one) == "right");
        CHECK(four.count(one.output) == 1); // MPI may print warnings before it
        CHECK(four.count("\nright\n") == 1);
        const std::string plaquette = made.output.substr(made.output.find("final plaquette ") + 16, 10);
        CHECK(one.count("\nplaquette       " + plaquette + " (") == 1);
        std::string bytes = tests::text_of(file);
        const size_t middle = bytes.size() - 288 * 8 * 4 * 4 * 4;
        bytes[middle] = char(bytes[middle] ^ 1);
        std::ofstream(bad) << bytes;
        const Run wrong = run("check_lattice " + bad);
        CHECK(wrong.status == 1);
        CHECK(last_line(wrong).rfind("WRONG: ", 0) == 0);
        CHECK(wrong.count("checksum") == 1);
    }
    std::string bytes = tests::text_of(file);
    const size_t at = bytes.find("PLAQUETTE =  ") + 13;
    bytes[at] = bytes[at] == '9' ? '8' : '9';
    std::ofstream(bad) << bytes;
    const Run wrong = run("check_lattice " + bad, "2 1 1 2", 4);
    CHECK(wrong.status == 1);
    CHECK(wrong.count("\nWRONG: ") == 1);
    CHECK(wrong.count("plaquette of the links is 0.") == 1);
    // Links outside of SU(3), with the checksum of such links.
    const reference::Lattice lattice{{4, 4, 4, 4}};
    reference::Gauge links = reference::random_gauge(lattice, 3);
    links[17] = -1.0 * links[17];
    examples::write_milc_gauge(bad, lattice, links);
    const Run sign = run("check_lattice " + bad);
    CHECK(sign.status == 1);
    CHECK(sign.count("WRONG: " + bad + ": the link at x y z t = 0 1 0 0 in direction y ") == 1);
}

TEST_CASE("programs: solves of several masses and sources, and links, on ranks are equal to one rank", "[ranks][mpi]") {
    NEED_MPIRUN;
    compare("multimass --size 4 4 8 8 --sweeps 3 --poles 3 --smallest 0.05 --largest 1", 3, {4, 5, 6});
    compare("sources --size 4 4 8 8 --sweeps 3 --sources 3 --masses 0.8", 6, {8, 9, 10, 11});
    compare("fatlinks --size 4 4 8 8 --sweeps 3 --repeat 1", 0, {3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("programs: bench on ranks times all ranks together", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const Run r =
        succeeded(run("bench --backend host --size 4 4 8 4 --mass 0.1 --pairs double/single --reals 18 "
                      "--only dslash,links,solves,masses,forces,gauge --hisq-terms 2 --asqtad-terms 2 --csv " +
                          folder.path.string() + "/csv",
                      "1 1 2 1", 2));
    CHECK(r.count("every result is right\n") == 1);
    CHECK(r.count("\ncg step 18  ") == 1);
    CHECK(r.count("gauge: skipped, it runs on one rank only\n") == 1);
    const Table rows = table(folder.path.string() + "/csv");
    const int lanes = MILCGPU_LANES ? 3 : 0;                   // D on several sites at once
    REQUIRE(rows.size() == 1 + 1 + 3 + lanes + 4 + 1 + 4 + 8); // heading, copy, D, links, a solve, 10 masses, forces
    for (size_t row = 0; row < rows.size(); ++row) {
        REQUIRE(rows[row].size() == 19);
        CHECK(rows[row][4] == (row == 0 ? "lattice" : "4x4x8x4"));
        CHECK(rows[row][5] == (row == 0 ? "grid" : "1x1x2x1"));
        CHECK(rows[row][6] == (row == 0 ? "ranks" : "2"));
        CHECK(rows[row][16] == (row == 0 ? "sites" : "512"));
        CHECK(rows[row][17] == (row == 0 ? "card" : "host backend"));
        CHECK((row == 0 ? rows[row][18] == "date" : rows[row][18].size() == 10));
    }
}

TEST_CASE("programs: bench times all operations on one rank, and finds the operations that became slower",
          "[ranks][mpi]") {
    LONG_TEST;
    NEED_MPIRUN;
    const Folder folder;
    const std::string csv = folder.path.string() + "/bench.csv", old = folder.path.string() + "/old";
    const std::string words = "bench --backend host --size 4 4 4 4 --sweeps 1 --mass 0.2 --quick --hisq-terms 2 "
                              "--asqtad-terms 2 --csv " +
                              csv;
    const Run all = succeeded(run(words));
    const Table rows = table(csv);
    for (const char *kind :
         {"copy", "dslash", "links", "cg step", "solve", "forces", "mesons", "Laplace", "Wilson", "clover", "dense"})
        CHECK(std::count_if(rows.begin(), rows.end(), [&](const auto &row) { return row[0] == kind; }) > 0);
    CHECK(all.count("\n4x4x4x4       ") > 30); // the summary
    for (const auto &row : rows)
        CHECK(row.size() == rows[0].size());
    CHECK(std::count_if(rows.begin(), rows.end(), [](const auto &row) {
              return row[1].find(", all staples") != std::string::npos; // a cell with a comma
          }) > 0);
    tests::check_pictures(csv, {"roofline", "step_time", "several_sources"});

    // Earlier times that are a thousandth of the measured times, and a thousand times the measured times.
    const std::string again = words + " --only dslash --compare " + old;
    const auto compared = [&](double factor) {
        std::ofstream file(old);
        for (size_t row = 0; row < rows.size(); ++row) {
            std::vector<std::string> cells = rows[row];
            if (row > 1)
                cells.at(7) = std::to_string(factor * std::stod(cells.at(7)));
            file << examples::csv_line(cells);
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

    // Other options override --quick.
    const Run as_said =
        run("bench --backend host --size 4 4 4 4 --sweeps 1 --reals 18 --quick --only dslash --csv " + csv);
    CHECK(as_said.count("gauge field on the host: 1 sweeps\n") == 1);
    CHECK(as_said.count("dslash 18 plain") > 0);
    CHECK(as_said.count("dslash 13 ") == 0);
    CHECK(all.count("dslash 13 plain") > 0);
    CHECK(all.count("dslash 18 ") == 0);

    const auto refused = [&](const std::string &options, const std::string &why) {
        const Run r = run("bench --backend host " + options);
        CHECK(r.status == 2);
        CHECK(r.count(why) == 1);
    };
    const Run sweep =
        succeeded(run("bench --backend host --size 4 4 4 4 --sweeps 1 --quick --pairs double/single --reals 18 "
                      "--only dslash,dense --sweep"));
    CHECK(sweep.count("\nrun 3 of 3: four threads a site\n") == 1);
    CHECK(sweep.count("\ndense: skipped, its operations have more than one launch\n") == 1);
    CHECK(sweep.count(" launch shapes beat the tables' shapes ") == 1);
    refused("--sweep --csv " + csv, "omit --csv");
    std::ofstream(old) << "kind,what\n";
    for (const std::string &file : {std::string("/nowhere/csv"), std::string("/dev/zero"), old})
        refused("--compare " + file, "--compare: " + file + " is not a table");
    std::ofstream(old) << "kind,what,precision,sources,lattice,grid,ranks,us,gflops,gbytes_per_second,percent_of_copy,"
                          "flops_per_byte,error,steps,cublas_us,sites,card,date\n";
    refused("--compare " + old, "--compare: " + old + " has no rows");
    std::ofstream(old, std::ios::app) << "copy,a GPU,,1,4x4x4x4,1x1x1x1,1,0,0,4,100,0,0,0,0,256,a GPU,2026-11-25\n"
                                         "gauge,APE step, all staples,double,1,4x4x4x4,1x1x1x1,1,2,3,4,5,6,7,0,0,256,"
                                         "a GPU,2026-11-25\n";
    refused("--compare " + old, "--compare: " + old + ": a row without its 18 cells");
    refused("--only dslash,linsk", "--only: 'dslash,linsk' ");
    refused("--csv /nowhere/csv", "--csv: /nowhere/csv ");
    const Run nothing = run("bench --backend host --size 2 2 2 2 --sweeps 0 --only solves --reals 12");
    CHECK(nothing.status == 1);
    CHECK(nothing.count("nothing was measured") == 1);
}

TEST_CASE("programs: RHMC on ranks has the trajectories of one rank", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string words = "rhmc --backend host --size 4 4 4 8 --sweeps 3 --warm 0 --trajectories 1 --steps 2 "
                              "--length 0.1 --csv " +
                              folder.path.string() + "/csv --history " + folder.path.string() + "/demo_energy.csv";
    succeeded(run(words, "1 1 1 2", 2));
    const Table many = table(folder.path.string() + "/csv");
    REQUIRE(run(words).status == 0);
    const Table one = table(folder.path.string() + "/csv");
    REQUIRE(many.size() == 2);
    CHECK(many[1][2] == one[1][2]); // accepted
    CHECK(std::abs(std::stod(many[1][1]) - std::stod(one[1][1])) < 1e-6);
    CHECK(std::abs(std::stod(many[1][3]) - std::stod(one[1][3])) < 1e-6);
    tests::check_pictures(folder.path.string() + "/demo_energy.csv", {"demo_energy"});
}

TEST_CASE("programs: a failure on one rank ends all ranks, with one message", "[ranks][mpi]") {
    NEED_MPIRUN;
    const Run all = run("solve --lattice /nowhere/lat", "1 1 1 2", 2);
    CHECK(all.status == 1);
    CHECK(all.count("solve: ") == 1);
    CHECK(all.count("solve: /nowhere/lat ") == 1);
    // If one rank fails, the message names it, and the other rank does not wait.
    const std::string words = MILCGPU_PROGRAMS "solve --size 4 4 4 8 --sweeps 0 --backend host --grid 1 1 1 2";
    // (Rank 1 by the variable of Open MPI or MPICH: "PROGRAM : PROGRAM" crashes mpirun of Open MPI 5.0.7, in
    // Debian 13.)
    const Run one = tests::run("", MILCGPU_MPIRUN " -n 2",
                               "sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || wrong=\"--grid 1 1 2 1\"; exec " +
                                   words + " $wrong'");
    CHECK(one.status != 0);
    CHECK(one.count("solve: rank 1 of 2: --grid 1 1 2 1 ") == 1);
    CHECK(one.seconds < 60);
    const Run alone = run("solve --grid 1 1 1 2"); // without mpirun
    CHECK(alone.status == 2);
    CHECK(alone.count("solve: --grid 1 1 1 2 is for 2 rank(s)") == 1);
}

TEST_CASE("programs: flow prints and writes its results, equal on ranks, and ends with a message",
          "[measurements][ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string();
    const std::string words = "flow --size 4 4 4 8 --sweeps 3 --step 0.1 --stop 0.2 --integrator adpt --tolerance 1e-3 "
                              "--stout 1 --backend host --csv " +
                              path + "/flow.csv --out ";
    const Run alone = succeeded(run(words + path + "/lat"));
    const Table one = table(path + "/flow.csv");
    tests::check_pictures(path + "/flow.csv", {"flow"});
    const Run r = succeeded(run(words + path + "/lat2", "1 1 1 2", 2));
    const Table many = table(path + "/flow.csv");
    CHECK(alone.count("GFLOW: ") == int(one.size()) - 1);
    CHECK(alone.count("ADAPT: ") == int(one.size()) - 1);
    CHECK(alone.count("t0: the flow ended") == 1);
    CHECK(r.count("GFLOW: ") == int(one.size()) - 1); // only rank 0 prints
    REQUIRE(one.size() >= 3);
    REQUIRE(one[0].size() == 16);
    CHECK(one[1][12] == "beta 6");
    CHECK(one[1][13] == "4x4x4x8");
    CHECK(one[1][14] == "host backend");
    CHECK(one.back()[0] == "0.20000000000000001");
    REQUIRE(many.size() == one.size());
    CHECK(many[0] == one[0]);
    for (size_t row = 1; row < one.size(); ++row)
        for (size_t column = 0; column < 11; ++column) // not the seconds
            CHECK(std::abs(std::stod(many[row].at(column)) - std::stod(one[row][column])) < 1e-11);
    // The file has the links of the end of the flow, in single precision. Each rank reads and writes its box.
    std::string of_one;
    for (const auto &[grid, ranks] : {std::pair("1 1 1 1", 1), std::pair("1 1 1 2", 2)}) {
        succeeded(run("flow --stop 0 --backend host --csv " + path + "/csv --lattice " + path + "/lat2 --out " + path +
                          "/lat3",
                      grid, ranks));
        const Table end = table(path + "/csv");
        REQUIRE(end.size() == 2);
        CHECK(end[1][12] == "lat2");
        for (size_t column = 1; column < 8; ++column)
            CHECK(std::abs(std::stod(end[1].at(column)) - std::stod(one.back()[column])) < 3e-7);
        const std::string written = tests::text_of(path + "/lat3").substr(84); // after the time
        CHECK((ranks == 1 ? of_one = written : of_one) == written);
    }
    // Scales beyond half of the box are marked; if a flow fails, its table stays, and a message names a step that is
    // too long.
    const std::string small = "flow --size 4 4 4 4 --quiet --backend host --csv " + path + "/small.csv --beta ";
    const Run marked = succeeded(run(small + "5.5 --sweeps 10"));
    CHECK(marked.count(", beyond half of the smallest extent") == 2);
    const Run up = run(small + "7 --sweeps 3");
    CHECK(up.status == 1);
    CHECK(up.count("sqrt(8 t) is 4.06 at flow time 2.0625") == 1);
    CHECK(table(path + "/small.csv").size() == 35);
    const Run too_long = run(small + "5.5 --sweeps 10 --step 0.3");
    CHECK(too_long.status == 1);
    CHECK(too_long.count("spec.step is 0.3") == 1);
    CHECK(too_long.count("t0 = ") == 0);
}

TEST_CASE("programs: eigen computes, writes and reads modes, equal on ranks, and sources reads its file",
          "[eigen][ranks][mpi]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string(), field = " --size 4 4 4 8 --sweeps 3 --action hisq --backend host",
                      words = "eigen" + field + " --parity odd --count 6 --csv " + path + "/eigen.csv --out " + path +
                              "/vectors --out-precision double";
    const Run alone = succeeded(run(words));
    const Table one = table(path + "/eigen.csv");
    tests::check_pictures(path + "/eigen.csv", {"eigen"});
    CHECK(alone.count("  residual ") == 6);
    CHECK(alone.count("modes below lambda: ") == 1);
    CHECK(std::filesystem::file_size(path + "/vectors") == 100 + 6 * (8 + 256 * 48));
    REQUIRE(one.size() == 7);
    CHECK(one[0] == examples::Cells{"mode", "l", "lambda", "residual", "line", "lattice", "card", "date"});
    for (int k = 1; k <= 6; ++k)
        CHECK(std::stod(one[k][2]) == Approx(std::sqrt(std::stod(one[k][1])) / 2));
    CHECK(std::stod(one[6][4]) == Approx(6).margin(2));
    // Two ranks read the file.
    const Run r = succeeded(
        run("eigen" + field + " --quiet --from " + path + "/vectors --csv " + path + "/again.csv", "1 1 1 2", 2));
    CHECK(r.count("6 eigenvectors of " + path + "/vectors read in ") == 1);
    const Table again = table(path + "/again.csv");
    REQUIRE(again.size() == 7);
    // The name of a file with a control character is printed without it.
    std::filesystem::copy(path + "/vectors", path + "/\x1bvectors");
    const Run renamed = succeeded(run("eigen" + field + " --quiet --from '" + path + "/\x1bvectors'"));
    CHECK(renamed.count("\x1b") == 0);
    for (int k = 1; k <= 6; ++k)
        CHECK(std::stod(again[k][1]) == Approx(std::stod(one[k][1])).epsilon(1e-5));
    // A file of even sites deflates sources; a file of odd sites is refused.
    const auto sources = [&](const std::string &more) {
        return run("sources" + field + " --sources 1 --ways one-by-one --masses 0.02" + more);
    };
    const Run odd = sources(" --eigenvectors-from " + path + "/vectors");
    CHECK(odd.status == 1);
    CHECK(odd.count("the solve is on the others") == 1);
    const Run few = run("eigen" + field + " --count 10 --out " + path + "/few"),
              more = run("eigen" + field + " --count 12 --start " + path + "/few --out " + path + "/even");
    REQUIRE(more.status == 0);
    CHECK(more.count("12 eigenvectors in ") == 1);
    succeeded(sources(" --csv " + path + "/plain"));
    const Run deflated =
        succeeded(sources(" --eigenvectors-from " + path + "/even --eigenvectors 10 --csv " + path + "/deflated"));
    CHECK(deflated.count("10 eigenvectors of ") == 1);
    CHECK(std::stoi(table(path + "/deflated").at(1).at(6)) < std::stoi(table(path + "/plain").at(1).at(6)));
}

TEST_CASE("programs: each program has --help and --version and the options of the docs, and refuses others",
          "[programs]") {
    NEED_MPIRUN;
    std::vector<std::string> code;
    for (const auto &page : tests::pages())
        if (page != "docs/changelog.md") // old options
            for (const std::string &line : tests::code_of(page))
                code.push_back(line);
    size_t in_docs = 0;
    for (const std::string name : {"bench", "check_lattice", "eigen", "fatlinks", "flow", "gemm_ladder", "list_kernels",
                                   "make_lattice", "multimass", "rhmc", "solve", "sources", "spectrum"}) {
        CHECK(succeeded(run(name + " --version")).output == name + ", milcgpu " MILCGPU_VERSION "\n");
        const Run help = succeeded(run(name + " --help"));
        CHECK(help.count("Usage: " + name) == 1);
        CHECK(help.count("--version") == 1);
        std::string lines; // only lines with the name, because a regular expression is slow
        for (const std::string &line : code)
            if (line.find(name + " ") != std::string::npos)
                lines += line + "\n";
        for (const auto &command : tests::matches(lines, "(?:^|[ /\n-])" + name + "((?: +[^ \n;|&]+)+)"))
            for (const auto &option : tests::matches(command[1], " (--[a-z-]+)")) {
                INFO("in the docs: " << command[0]);
                CHECK(help.count(option[1]) > 0);
                ++in_docs;
            }
        const Run refused = run(name + " --nonsense 3");
        CHECK(refused.count(name + ": unknown option '--nonsense'") == 1);
        CHECK(refused.status == 2);
    }
    CHECK(in_docs > 20);
}

TEST_CASE("programs: a log has no progress lines that overwrite each other", "[programs]") {
    NEED_MPIRUN;
    const Run solve = succeeded(run("solve --size 4 4 4 4 --sweeps 2 --mass 0.3 --backend host"));
    CHECK(solve.count("\r") == 0);
    CHECK(solve.count("  step ") == 0); // none in the first minute
}

TEST_CASE("programs: a bad value of an option is refused before any work", "[programs]") {
    NEED_MPIRUN;
    const auto refused = [](const std::string &words, const std::string &why) {
        const Run r = run(words);
        CHECK(r.status == 2);
        CHECK(r.count(why) == 1);
        CHECK(r.count("\n") == 1);
    };
    for (const std::string program :
         {"solve", "multimass", "sources", "eigen", "fatlinks", "rhmc", "flow", "spectrum", "bench", "make_lattice"}) {
        refused(program + " --size 65536 65536 2 2", "--size: 1.71799e+10 sites, but at most 2.68435e+08 ");
        for (const std::string extent : {"-1", "3", "nan", "99999999999"})
            refused(program + " --size 4 4 4 " + extent, "--size: '" + extent + "' must be even");
        refused(program + " --size 0 4 4 4", "--size: ");
        refused(program + " --grid 1 1 1 0", "--grid: '0' must be");
        refused(program + " --sweeps -1", "--sweeps: '-1' must be");
        const bool makes = program == "make_lattice";
        if (program != "bench")
            for (const std::string beta : {"0", "inf", "1e308", "\"\""})
                refused(program + " --beta " + beta, "--beta: ");
        if (!makes)
            refused(program + " --backend gpu", "--backend: 'gpu' must be");
        const std::string out = makes ? " --out " : " --csv "; // the reasons: test_output.cpp
        refused(program + out + "\"\"", out.substr(1, 5) + ": ");
        refused(program + out + "/tmp", "/tmp cannot be written: ");
        refused(program + out + "/nowhere/file", "/nowhere/file cannot be written: ");
        if (!makes)
            refused(program + " --backend host --csv /dev/full", "/dev/full cannot be written: ");
    }
    // Files that are read are not overwritten, and options that exclude each other are named.
    for (const auto &[words, options] :
         {std::pair("eigen --lattice a --out ./a", "--lattice and --out name the same file"),
          {"spectrum --lattice a,b,./a", "--lattice names "},
          {"solve --lattice a --size 4 4 4 4", "--lattice excludes --size"},
          {"spectrum --lattice a --sweeps 3", "--lattice excludes --sweeps"},
          {"spectrum --lattice a,b --csv b", "--csv and --lattice name the same file, b"},
          {"rhmc --csv a --history a", "--csv and --history name the same file, a"},
          {"solve --grid 65536 65536 1 1", "4.29497e+09 rank(s)"},
          {"sources --eigenvectors -1", "--eigenvectors"},
          {"eigen --from a --start b", "--from reads vectors and --start "},
          {"eigen --from a --tolerance 1e-5", "omit --tolerance"},
          {"multimass --smallest 2 --largest 1", "--largest must not be below --smallest"},
          {"flow --stop 1000 --step 0.001 --most-steps 10", "raise --most-steps or --step"}})
        refused(words, options);
    for (const std::string words : {"solve --history /dev/full", "rhmc --history /dev/full", "flow --out /nowhere/file",
                                    "eigen --out /nowhere/file"})
        refused(words, words.substr(words.rfind(' ') + 1) + " cannot be written");
    const std::pair<std::string, std::vector<std::string>> bad[] = {
        {"solve", {"--repeat 0", "--pairs none", "--mass nan", "--tolerance 1", "--reconstruct 14", "--seed -1"}},
        {"eigen", {"--count -1", "--parity both"}},
        {"sources", {"--sources 1,,2", "--masses ,", "--ways blocks"}},
        {"bench", {"--pairs none", "--dense-precision quad", "--block 100"}},
        {"multimass", {"--poles 0"}},
        {"fatlinks", {"--repeat 0"}},
        {"rhmc", {"--poles 13"}},
        {"flow", {"--integrator euler", "--stop -0.5"}},
        {"gemm_ladder", {"--size 255"}}};
    for (const auto &[program, options] : bad)
        for (const std::string &option : options) {
            const size_t value = option.find(' ');
            refused(program + " " + option, option.substr(0, value) + ": '" + option.substr(value + 1) + "' must be ");
        }
}

TEST_CASE("programs: bad lattice files and lattices beyond memory are refused before any work", "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string(), good = path + "/good", bad = path + "/bad", odd = path + "/odd";
    const reference::Lattice lattice{{4, 4, 4, 4}};
    reference::Gauge links = reference::random_gauge(lattice, 3);
    examples::write_milc_gauge(good, lattice, links);
    links[4 * lattice.site({3, 1, 0, 2}) + 2] = 5.0 * links[4 * lattice.site({3, 1, 0, 2}) + 2];
    examples::write_milc_gauge(bad, lattice, links);
    examples::write_milc_gauge(odd, {{3, 4, 4, 4}}, reference::random_gauge({{3, 4, 4, 4}}, 3));
    std::ofstream(path + "/cut") << std::ifstream(good).rdbuf();
    std::filesystem::resize_file(path + "/cut", 5000);
    for (const std::string program :
         {"solve", "multimass", "sources", "eigen", "fatlinks", "rhmc", "flow", "spectrum"}) {
        const auto refused = [&](const std::string &file, const std::string &why) {
            const Run r = run(program + " --backend host --lattice " + file);
            CHECK(r.status == 1);
            CHECK(r.count(why) == 1);
        };
        refused(bad, "the link at x y z t = 3 1 0 2 in direction z ");
        refused(odd, "a lattice of 3 x 4 x 4 x 4 sites");
        refused(path + "/cut", "/cut, byte 5000: ");
        refused(path, path + " cannot be opened");
    }
    // All files of a list are checked before the first is measured.
    const Run list = run("spectrum --backend host --lattice " + good + "," + bad);
    CHECK(list.status == 1);
    CHECK(list.count("configuration 1 ") == 0);
    for (const std::string words : {"make_lattice", "flow --backend host", "solve --backend host"}) {
        const Run r =
            tests::run("", "", "sh -c 'ulimit -v 4000000; exec " MILCGPU_PROGRAMS + words + " --size 64 64 64 64'");
        CHECK(r.status == 1);
        CHECK(r.count("a lattice of 64 x 64 x 64 x 64 sites ") == 1);
        CHECK(r.count("there are 4.1 GB") == 1);
    }
}

TEST_CASE("programs: control characters of files and names do not reach the terminal, and no program waits for a pipe",
          "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string(),
                      heading = "kind,what,precision,sources,lattice,grid,ranks,us,gflops,"
                                "gbytes_per_second\n",
                      red = "\x1b[31m", long_text(1 << 20, 'x'), name = path + "/\x1b[2J\nname";
    const auto xml = [](const std::string &type, const std::string &text) {
        return milcgpu::lime_record(type, text, {true, false});
    };
    const std::string data = xml("ildg-binary-data", "");
    const std::pair<std::string, std::string> lattices[] = {
        {xml("scidac-private-file-xml", "<dims>" + red + "</dims>") + data, "dims '\\x1b[31m' are not four numbers"},
        {xml("scidac-private-file-xml", "<dims>" + long_text + "</dims>") + data, "dims 'xxxxxxxxx"},
        {xml("ildg-format", "<lx>4</lx><ly>4</ly><lz>4</lz><lt>4</lt><precision>" + red + "</precision>") + data,
         "precision '\\x1b[31m' of a gauge field"},
        {milcgpu::lime_header(red, 1000, {true, false}), "record '\\x1b[31m' of 1000 bytes runs past the end"}};
    const auto said = [&](const std::string &words, const std::string &why) {
        const Run r = run(words);
        CHECK((r.status == 1 || r.status == 2)); // 124: timed out
        CHECK(r.count(why) == 1);
        CHECK(r.output.size() < 1000);
        CHECK(std::none_of(r.output.begin(), r.output.end(), [](char c) { return c != '\n' && (c < ' ' || c > '~'); }));
        CHECK(r.count("\n") == 1);
    };
    for (const auto &[bytes, why] : lattices) {
        std::ofstream(name, std::ios::binary) << bytes;
        said("flow --backend host --lattice '" + name + "'", "/\\x1b[2J\\nname, byte ");
        said("flow --backend host --lattice '" + name + "'", why);
    }
    for (const std::string &line : {red, long_text}) {
        std::ofstream(name) << heading << line << "\n";
        said("bench --quick --backend host --compare '" + name + "'",
             "cells or its numbers: '" + std::string(line == red ? "\\x1b[31m'" : "xxxx"));
    }
    REQUIRE(mkfifo((path + "/pipe").c_str(), 0600) == 0);
    said("bench --quick --backend host --compare " + path + "/pipe", "/pipe is not a table");
    said("flow --backend host --lattice " + path + "/pipe", "/pipe cannot be opened");
    said("flow --backend host --lattice '" + red + "'", "\\x1b[31m cannot be opened");
    said("flow --backend host '--" + red + "'", "unknown option '--\\x1b[31m'");
    said("flow --backend host --csv '" + path + "/" + red + "/x'", "/\\x1b[31m/x cannot be written");
}

TEST_CASE(
    "programs: MILCGPU_BACKEND and MILCGPU_VERBOSE have an effect, and wrong settings are refused before any work",
    "[programs]") {
    NEED_MPIRUN;
    const std::string words = MILCGPU_PROGRAMS "solve --size 2 2 2 2 --sweeps 0 --mass 0.5 --pairs double/double";
    const auto solve = [&](const std::string &settings, const std::string &options = "") {
        return tests::run(settings, "", words + options);
    };
    const Run silent = solve("MILCGPU_VERBOSE=0"), says = solve("MILCGPU_VERBOSE=1"), more = solve("MILCGPU_VERBOSE=2");
    CHECK(silent.status == 0);
    CHECK(silent.count("milcgpu: ") == 0);
    CHECK(says.count("host backend") == 1);
    CHECK(more.count("milcgpu: ") > says.count("milcgpu: "));
    CHECK(silent.count("\nhost ") == 1); // not every backend
    CHECK(silent.count("\ncuda ") == 0);
    const auto refused = [&](const std::string &settings, const std::string &why, const std::string &options = "") {
        const Run r = solve(settings, options);
        CHECK(r.status != 0);
        CHECK(r.count(why) > 0);
        CHECK(r.count("making a gauge field") == 0);
    };
    for (const std::string setting :
         {"MILCGPU_BACKEND=gpu", "MILCGPU_BACKEND=all", "MILCGPU_VERBOSE=3", "MILCGPU_VERIFY=2"})
        refused(setting, setting);
    for (const std::string choice : {" --backend cuda", ""})
        refused("CUDA_VISIBLE_DEVICES= MILCGPU_BACKEND=" + std::string(choice.empty() ? "cuda" : "host"),
                "cuda backend: ", choice);
    CHECK(solve("MILCGPU_BACKEND=gpu", " --backend host").status == 0); // an option overrides the setting
}

TEST_CASE("programs: a table file is whole or absent, and pipes get rows at once", "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string csv = folder.path.string() + "/csv",
                      words = "solve --size 2 2 2 2 --sweeps 0 --mass 0.5 --pairs double/double --backend host ";
    std::ofstream(csv) << "of before\n";
    // The disk is full after the heading: one block of 512 bytes.
    const Run full = tests::run("", "",
                                "sh -c 'trap \"\" XFSZ; ulimit -f 1; " MILCGPU_PROGRAMS + words +
                                    "--size 4 4 4 4 --sweeps 1 --mass 0.01 --history " + csv + "'");
    CHECK(full.status == 1);
    CHECK(full.count("--history: " + csv + " cannot be written: File too large") == 1);
    CHECK(table(csv) == Table{{"of before"}});
    CHECK(run(words + "--csv " + csv).status == 0);
    CHECK(table(csv).size() == 2);
    for (const std::string place : {"", " | cat", " >$CSV; cat $CSV"}) {
        const Run r =
            tests::run("CSV=" + csv, "", "sh -c '" MILCGPU_PROGRAMS + words + "--csv /dev/stdout" + place + "'");
        CHECK(r.count("backend,pair,asked,steps,") == 1);
        CHECK(r.count("\nhost,double/double,") == 1);
        CHECK(r.count("agrees with the reference ") == 1);
    }
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1); // no temporary files
    for (const std::string program : {"make_lattice --size 2 2 2 2 --sweeps 0", "list_kernels", "flow --help"}) {
        const Run r = tests::run("", "", "sh -c '" MILCGPU_PROGRAMS + program + " >/dev/full'");
        CHECK(r.status == 1);
        CHECK(r.count(": what is printed cannot be written: ") == 1);
    }
    const Run out = run("make_lattice --size 2 2 2 2 --sweeps 0 --out /dev/full");
    CHECK(out.status == 2);
    CHECK(out.count("/dev/full cannot be written: ") == 1);
    CHECK(out.count("\nwritten: ") == 0);
}

TEST_CASE("programs: a program without stdin, stdout or stderr writes the same files, and fails if it cannot print",
          "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string path = folder.path.string(), made = " --size 4 4 4 4 --sweeps 1 --out " + path,
                      given = " --backend host --lattice " + path + "/lattice";
    const auto sh = [](const std::string &words) {
        return tests::run("", "", "sh -c 'exec " MILCGPU_PROGRAMS + words + "'");
    };
    REQUIRE(sh("make_lattice" + made + "/lattice").status == 0);
    struct Writes {
        std::string program, option;
        size_t from; // after the time
    };
    for (const auto &[program, option, from] :
         {Writes{"make_lattice" + made + "/", "", 96}, Writes{"eigen" + given, " --count 2 --out " + path + "/", 92},
          Writes{"solve" + given, " --mass 0.5 --pairs double/double --history " + path + "/", 0}}) {
        const auto written = [&path, from = from](const std::string &name) {
            const std::string text = tests::text_of(path + "/" + name);
            return text.size() < from ? "" : text.substr(from);
        };
        REQUIRE(sh(program + option + "open").status == 0);
        for (const std::string closed : {">&-", "<&-", "2>&-", "<&- >&- 2>&-"}) {
            const Run r = sh(program + option + "closed " + closed);
            CHECK(r.status == (closed.find(" >&-") != closed.npos || closed == ">&-" ? 1 : 0));
            CHECK(r.count(": what is printed cannot be written: ") == (closed == ">&-" ? 1 : 0));
            CHECK(written("closed") != "");
            CHECK(written("closed") == written("open"));
            std::filesystem::remove(path + "/closed");
        }
        std::filesystem::remove(path + "/open");
    }
}

TEST_CASE("programs: without a reference no output tells of agreement, and each pair has its tolerance in the table",
          "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const std::string csv = folder.path.string() + "/csv",
                      field = " --size 4 4 4 4 --sweeps 1 --backend host --csv " + csv;
    const Run with = succeeded(run("solve --mass 0.3" + field));
    CHECK(with.count("agrees with the reference") == 1);
    const Table rows = table(csv);
    REQUIRE(rows.size() == 7);
    CHECK(rows[0][2] == "asked");
    CHECK(rows[1][2] == "1e-10"); // double/double
    CHECK(rows[4][2] == "0.0001");
    CHECK(rows[6][2] == "0.02"); // half/half
    CHECK(with.count("half/half         2e-02 ") == 1);
    for (const std::string program :
         {"solve --mass 0.3", "multimass --poles 2", "fatlinks --repeat 1", "fatlinks --repeat 1 --keep"}) {
        const Run without =
            succeeded(run(program + (program.find("--keep") == std::string::npos ? " --no-reference" : "") + field));
        CHECK(without.count("agree") == 0);
        CHECK(without.count("nan") == 0);
        CHECK(without.count("compared with the reference\n") == 1);
        for (const auto &row : table(csv))
            CHECK(std::count(row.begin(), row.end(), "nan") == 0);
    }
}

TEST_CASE("programs: the ladder of matrix products fails without a GPU", "[programs]") {
    NEED_MPIRUN;
    const Folder folder;
    const Run r =
        tests::run("CUDA_VISIBLE_DEVICES=", "", MILCGPU_PROGRAMS "gemm_ladder --csv " + folder.path.string() + "/csv");
    CHECK(r.status == 1);
    CHECK(r.count("gemm_ladder: ") == 1);
    CHECK(r.count("\n") == 1);
    CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("benchmarks: as_long.awk scales seconds of a short run to the iterations of a long run and to its sites",
          "[programs]") {
    const Folder folder;
    const std::string length = folder.path / "long", cut = folder.path / "short";
    const std::string check = "CONGRAD5: time = 0.25 (fn D) masses = 1 iters = 1 mflops = 7\n";
    const auto solve = [](const std::string &time, const std::string &steps) {
        return "CONGRAD5: time = " + time + " (multicg_offset D) masses = 9 iters = " + steps + " mflops = 7\n";
    };
    std::ofstream(length) << solve("9", "40") << "CONGRAD5: time = 0 (fn D) masses = 1 iters = 3 mflops = 7\n";
    const std::string rest = "FFTIME:  time = 2 (HISQ D) terms = 37\nAggregate time to do one trajectory 4\n";
    std::ofstream(cut) << solve("0.5", "10") << check << rest << "Time = 5 seconds\n";
    const std::string script = "awk -v sites=2 -f examples/benchmarks/as_long.awk " + length + " ";
    const Run right = succeeded(tests::run("", "", script + cut));
    CHECK(right.output == solve("4", "40") + "CONGRAD5: time = 0.5 (fn D) masses = 1 iters = 1 mflops = 7\n" +
                              "FFTIME: time = 4 (HISQ D) terms = 37\nAggregate time to do one trajectory 11\n"
                              "Time = 13 seconds\n");
    std::ofstream(cut, std::ios::app) << check;
    const Run wrong = tests::run("", "", script + cut);
    CHECK(wrong.status != 0);
    CHECK(wrong.count("as_long.awk: LONG has 1 solves 'fn', SHORT 2\n") == 1);
    std::ofstream(cut) << solve("0.5", "10") << check
                       << "CONGRAD5: time = 1 (other D) masses = 1 iters = 9 mflops = 7\n";
    CHECK(tests::run("", "", script + cut).count("as_long.awk: LONG has 0 solves 'other', SHORT 1\n") == 1);
}

TEST_CASE("benchmarks: campaign.sh prints the solves of each part; solves.awk prints figures without the first solve",
          "[programs]") {
    const auto input = [](const std::string &arguments) {
        return tests::run("MASS=.02", "", "sh examples/benchmarks/campaign.sh " + arguments);
    };
    struct {
        const char *part;
        int sets, masses, sources, quarks; // of a time slice
    } const parts[] = {{"masses", 2, 20, 2, 20}, {"three", 1, 1, 1, 1}, {"nine", 3, 3, 9, 9}, {"heavy", 2, 10, 2, 10}};
    for (const auto &part : parts) {
        CAPTURE(part.part);
        const Run r = succeeded(input(std::string(part.part) + " 4 4 4 8 warm 2"));
        CHECK(r.count("\nwarm\n") == 1);
        CHECK(r.count("\ncontinue\n") == 1);
        CHECK(r.count("\nt0 4\n") > 0);
        CHECK(r.count("\nset_type ") == 2 * part.sets);
        CHECK(r.count("\nmass ") == 2 * part.masses);
        CHECK(r.count("\nforget_source\n") == 2 * part.sources);
        CHECK(r.count("\nidentity\n") == 2 * part.quarks);
    }
    const Run probe = succeeded(input("probe 4 4 4 8 warm"));
    CHECK(probe.count("\nset_type ") == 5);
    CHECK(probe.count("\nmass ") == 6);
    CHECK(probe.count("\nsource ") == 17);
    CHECK(probe.count("\nmax_cg_iterations 10000\n") == 5);
    CHECK(probe.count("\nidentity\n") == 5);
    const Run eigen = succeeded(input("eigen 4 4 4 8 warm"));
    CHECK(eigen.count("\nmax_number_of_eigenpairs 256\nfresh_ks_eigen\n") == 1);
    CHECK(eigen.count("\ndeflate yes\n") == 8);
    CHECK(eigen.count("\nt0 6\n") == 1);
    CHECK(eigen.count("\nr_offset 0 0 0 6\n") == 2);
    CHECK(probe.count("\nmax_number_of_eigenpairs 0\nnumber_of_pbp_masses 0\n") == 1);
    const std::string heavy = input("heavy 4 4 4 8 warm 1").output;
    CHECK(heavy.find("\nmass 0.02228\nnaik_term_epsilon -0.000335\n") != std::string::npos);
    CHECK(input("heavy 4 4 4 8 l.lat").count("\nreload_serial l.lat\n") == 1);
    CHECK(input("light 4 4 4 8 warm").status == 2);
    CHECK(input("three 4 4 4 8").status == 2);

    const Folder folder;
    const std::string file = folder.path / "out";
    std::ofstream out(file);
    for (const char *percent : {"900", "900", "900", "50", "25", "75"})
        out << "CONGRAD5: time = " << percent << "e-2 (fn D) masses = 1 iters = 40 mflops = " << percent << "e1\n";
    out.close();
    CHECK(tests::run("", "", "awk -v rhs=3 -f examples/benchmarks/solves.awk " + file).output ==
          " 3 right-hand side(s): 1.5000 s per solve, 0.5000 s and 40 iterations each, 0.5 GF per rank\n");
}

TEST_CASE("benchmarks: beside_cpu.sh prints the seconds of MILC's two builds, and stops if a program fails",
          "[programs]") {
    const Folder folder;
    const auto build = [&](const std::string &name, const std::string &program) {
        const std::string at = folder.path / name / "ks_spectrum";
        std::filesystem::create_directories(at);
        std::ofstream(at + "/ks_spectrum_hisq") << "#!/bin/sh\n" << program;
        std::filesystem::permissions(at + "/ks_spectrum_hisq", std::filesystem::perms::owner_all);
    };
    const auto table = [&](const std::string &part) {
        return tests::run("THREADS='3 1'", "",
                          "sh examples/benchmarks/beside_cpu.sh " + (folder.path / "plain").string() + " " +
                              (folder.path / "with").string() + " " + part);
    };
    const std::string done = "echo RUNNING COMPLETED\n";
    build("plain", "grep -q '^max_cg_iterations 5000$' && sleep 2\n" + done), build("with", done);
    const Run r = succeeded(table("solve:4:8"));
    const std::string row = "\n| solve 4^3 x 8 | 1 |";
    double plain = 0, with = 9;
    REQUIRE(r.count(row) == 1);
    CHECK(std::sscanf(r.output.c_str() + r.output.find(row) + row.size(), "%*f | %lf | %*f | %lf", &plain, &with) == 2);
    CHECK(plain > with + 1);
    CHECK(r.count("\n| solve 4^3 x 8 | 3 | ") == 1);
    CHECK(table("solves:4:8").status == 2);
    build("with", "echo out of memory; exit 1\n");
    const Run failed = table("run:4:8");
    CHECK(failed.status == 1);
    CHECK(failed.count("out of memory") == 1);
}
