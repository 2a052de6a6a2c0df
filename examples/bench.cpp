// The project's measuring instrument: times the device's copy, every dslash row, the making of links, solves for one
// source, several sources and several masses, forces and updates, what measurements do to quark fields, the gauge
// Laplace operator, Wilson and clover fermions, contractions of Dirac fields, and dense algebra; verifies each. Device
// events, median of several runs. GB/s are on compulsory bytes (every link and spinor once); percent is of the copy
// bandwidth of the same run. On ranks all start together and the slowest counts; bytes and bandwidth are those of all.
// What is wrong is named in the last lines; the exit status is then 1.
#include "examples/bench.h"
#include "examples/arguments.h"
#include "examples/heatbath.h"
#include "examples/sweep.h"
#include <algorithm>
#include <sstream>

using namespace milcgpu;
using namespace examples;

namespace {

struct Part {
    const char *name;
    void (*run)(const Bench &);
    bool with_reference, on_ranks, sweeps; // sweeps: launches of one kernel, which take the device's block
};
constexpr Part parts[] = {
    {"dslash", bench_dslash, true, true, true},         {"links", bench_links, true, true, false},
    {"solves", bench_solves, false, true, false},       {"sources", bench_sources, false, true, false},
    {"masses", bench_masses, false, true, false},       {"forces", bench_forces, false, false, false},
    {"gauge", bench_gauge, false, false, true},         {"mesons", bench_mesons, false, false, true},
    {"operators", bench_operators, false, false, true}, {"wilson", bench_wilson, false, false, true},
    {"dirac", bench_dirac, false, false, false},        {"dense", bench_dense, false, false, false}};

std::vector<Part> parts_of(const std::string &names) {
    std::string all;
    for (const Part &part : parts)
        all += std::string(all.empty() ? "" : ",") + part.name;
    std::vector<Part> chosen;
    std::istringstream stream(names == "all" ? all : names);
    for (std::string name; std::getline(stream, name, ',');) {
        const auto *part =
            std::find_if(std::begin(parts), std::end(parts), [&](const Part &p) { return p.name == name; });
        if (part == std::end(parts))
            throw ArgumentError("--only: '" + name + "' is none of " + all);
        chosen.push_back(*part);
    }
    return chosen;
}

void measure(const BenchSettings &settings, const std::vector<Part> &chosen, const std::array<int, 4> &size,
             int backend, const Job &ranks, Table &table) {
    const reference::Lattice lattice{size};
    print_ranks(ranks, lattice);
    reference::Gauge gauge;
    ranks.on_first([&] { gauge = thermalized(lattice, 6.0, 5, settings.sweeps, 1); });
    const bool with_reference =
        std::any_of(chosen.begin(), chosen.end(), [](const Part &part) { return part.with_reference; });
    const System system = make_system(ranks, lattice, std::move(gauge), Action::asqtad, with_reference);
    const Connection connection(ranks, system, backend, 1, settings.block);
    const Bench bench{ranks, settings, system, connection, table};
    table.begin(bench.device(), size);
    for (const Part &part : chosen) {
        if (!part.on_ranks && ranks.size() > 1)
            std::printf("%s: left out, one rank only\n", part.name);
        else if (settings.sweep_shapes && !part.sweeps)
            std::printf("%s: left out, its operations are more than a launch\n", part.name);
        else if (settings.sweep_shapes)
            sweep_shapes(bench.device(), table, [&] { part.run(bench); });
        else
            part.run(bench);
    }
}

int run(BenchSettings &settings, Job &ranks) {
    const std::vector<Part> chosen = parts_of(settings.only);
    if (settings.hisq_terms < 1 || settings.asqtad_terms < 1)
        throw ArgumentError("--hisq-terms and --asqtad-terms must be positive");
    ranks.start(settings.grid);
    Table table(settings.csv, ranks);
    if (!settings.compare.empty())
        table.compare_with(settings.compare, settings.noise);
    const int backend = backends_of(ranks, settings.backend)[0];
    std::vector<std::array<int, 4>> sizes = {{8, 8, 8, 8}}, volumes;
    if (backend == MILCGPU_CUDA) {
        sizes = {{16, 16, 16, 16}, {24, 24, 24, 32}};
        volumes = {{8, 8, 8, 16}, {12, 12, 12, 24}, {32, 32, 32, 32}};
    }
    if (settings.quick) {
        sizes = {sizes.front()}; // verified in seconds, on one core
        settings.sweeps = 2, settings.reals = 13;
    }
    if (settings.size[0] != 0)
        sizes = {settings.size};
    // The time of a step against the volume.
    const auto solves = std::find_if(chosen.begin(), chosen.end(), [](const Part &p) { return p.run == bench_solves; });
    if (solves != chosen.end() && !settings.quick && !settings.sweep_shapes && settings.size[0] == 0) {
        BenchSettings steps = settings;
        steps.reals = 18;
        for (const std::array<int, 4> &size : volumes)
            measure(steps, {*solves}, size, backend, ranks, table);
    }
    for (const std::array<int, 4> &size : sizes)
        measure(settings, chosen, size, backend, ranks, table);
    return table.finish();
}

} // namespace

int main(int argc, char **argv) {
    BenchSettings settings;
    Arguments arguments("bench", "times every operation against the device's copy bandwidth");
    arguments.add("backend", "NAME", settings.backend, "auto, host or cuda");
    arguments.add("only", "PART,...", settings.only,
                  "dslash, links, solves, sources, masses, forces, gauge, mesons, operators, wilson, dirac, dense");
    arguments.add("size", "X Y Z T", settings.size,
                  "lattice (0: on a GPU 16^4 and 24^3 x 32, and solves of 18 reals on 8^3 x 16, 12^3 x 24, 32^4; on "
                  "the host 8^4)");
    Job::add_grid(arguments, settings.grid);
    arguments.add("quick", "", settings.quick, "under a minute on a GPU: fewer rows, 13 reals, 2 sweeps");
    arguments.add("csv", "FILE", settings.csv, "the table");
    arguments.add("compare", "FILE", settings.compare, "a table written before: names the rows that are slower now");
    arguments.add("noise", "P", settings.noise, "percent of the time that does not count as slower");
    arguments.add("sweeps", "N", settings.sweeps, "heat-bath sweeps of the gauge field (beta 6, cold start)");
    arguments.add("sweep", "", settings.sweep_shapes,
                  "dslash, gauge, mesons, operators: other launch shapes than the tables', and what they gain");
    arguments.add("block", "N", settings.block, "threads a block of every kernel (0: its own)");
    arguments.add("reals", "R", settings.reals,
                  "of a long link: 18, 13, 9 (D alone: 12, 8 too), or 0 for each of them; of a gauge link: 18, 12, 8");
    arguments.add("all-rows", "", settings.all_rows, "D: mixed link precisions and all epilogues too");
    arguments.add("mass", "M", settings.mass, "of the solves");
    arguments.add("tolerance", "R", settings.tolerance, "of the solves");
    arguments.add("reliable-delta", "D", settings.delta, "of the solves (0: the default)");
    arguments.add("pairs", "NAME", settings.pairs, "of the solves: all, or one as double/half");
    arguments.add("hisq-terms", "N", settings.hisq_terms, "poles of the HISQ force");
    arguments.add("asqtad-terms", "N", settings.asqtad_terms, "poles of the asqtad force");
    arguments.add("dense-precision", "NAME", settings.dense_precision, "all, double, single or half");
    return run_on_ranks([&](Job &ranks) { return arguments.parse(argc, argv) ? run(settings, ranks) : 0; });
}
