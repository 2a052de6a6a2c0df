// The example programs as tests run them, alone or on ranks, and the tables that they write.
#pragma once
#include "examples/lib/csv.h"
#include "tests/run_support.h"
#include <fstream>
#include <vector>

namespace tests {

// grid: "" for one rank, without a launcher.
inline Run run_program(const std::string &words, const std::string &grid = "", int ranks = 1) {
    return run("", ranks == 1 ? "" : MILCGPU_MPIRUN " -n " + std::to_string(ranks),
               MILCGPU_PROGRAMS + words + (grid.empty() ? "" : " --grid " + grid));
}

using Table = std::vector<std::vector<std::string>>;
inline Table table(const std::string &file) {
    std::ifstream lines(file);
    Table rows;
    for (std::string line; std::getline(lines, line);)
        rows.push_back(examples::csv_cells(line));
    return rows;
}

#define NEED_MPIRUN                                                                                                    \
    do {                                                                                                               \
        if (std::string(MILCGPU_MPIRUN).empty())                                                                       \
            SKIP_TEST("the example programs are built without MPI (no mpicc with mpirun beside it, or MPI=0), or not " \
                      "at all (sanitizers)");                                                                          \
    } while (false)

} // namespace tests
