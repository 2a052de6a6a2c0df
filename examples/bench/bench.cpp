// Times every operation and verifies each result: the device's copy, every dslash row, the making of links, solves for
// one source, several sources and several masses, forces and updates, operations on quark fields, the gauge Laplace
// operator, Wilson and clover fermions, contractions of Dirac fields, and dense algebra. Times are the median of
// several runs, by device events. GB/s count compulsory bytes (every link and spinor once); percent refers to the copy
// bandwidth of the same run. On ranks all ranks start together and the slowest counts; bytes and bandwidth are sums
// over ranks. The last lines name wrong results; the exit status is then 1.
#include "examples/bench/bench.h"
#include "examples/bench/sweep.h"
#include "examples/lib/arguments.h"
#include "examples/lib/heatbath.h"
#include <algorithm>

using namespace milcgpu;
using namespace examples;

namespace {

struct Part {
    const char *name;
    void (*run)(const Bench &);
    bool with_reference, on_ranks, sweeps; // sweeps: launches of one kernel, whose block can be set
};
constexpr Part parts[] = {
    {"dslash", bench_dslash, true, true, true},         {"links", bench_links, true, true, false},
    {"solves", bench_solves, false, true, false},       {"sources", bench_sources, false, true, false},
    {"masses", bench_masses, false, true, false},       {"forces", bench_forces, false, true, false},
    {"gauge", bench_gauge, false, false, true},         {"mesons", bench_mesons, false, false, true},
    {"operators", bench_operators, false, false, true}, {"wilson", bench_wilson, false, false, true},
    {"dirac", bench_dirac, false, false, false},        {"dense", bench_dense, false, false, false},
    {"deflation", bench_deflation, false, false, false}};

std::vector<Part> parts_of(const std::string &names) {
    std::vector<Part> chosen;
    for (const std::string &name : between_commas(names))
        for (const Part &part : parts)
            if (name == "all" || name == part.name)
                chosen.push_back(part);
    return chosen;
}

Check part_names() {
    std::vector<std::string> names = {"all"};
    for (const Part &part : parts)
        names.push_back(part.name);
    return list_of_each(one_of(names));
}

void measure(const BenchSettings &settings, const std::vector<Part> &chosen, const std::array<int, 4> &size,
             int backend, const Job &ranks, Table &table) {
    const reference::Lattice lattice{size};
    check_lattice(ranks, lattice, 4 * gauge_bytes); // fat and long links, and a copy
    print_ranks(ranks, lattice);
    // On large lattices this takes minutes.
    ranks.on_first([&] {
        std::printf("gauge field on the host: %d sweeps\n", settings.sweeps);
        std::fflush(stdout);
    });
    reference::Gauge gauge;
    ranks.on_first([&] { gauge = thermalized(lattice, 6.0, 5, settings.sweeps, 1); });
    const bool with_reference =
        std::any_of(chosen.begin(), chosen.end(), [](const Part &part) { return part.with_reference; });
    if (with_reference)
        ranks.on_first([&] {
            std::printf("links by the reference\n");
            std::fflush(stdout);
        });
    System system =
        make_system(ranks, lattice, deal_links<double>(ranks, lattice, gauge), Action::asqtad, with_reference);
    if (!with_reference)
        collect_gauge(ranks, system); // also for rows that only one rank does
    const Connection connection(ranks, system, backend, settings.block);
    const Bench bench{ranks, settings, system, connection, table};
    table.begin(bench.device(), size);
    for (const Part &part : chosen) {
        if (!part.on_ranks && ranks.size() > 1)
            std::printf("%s: skipped, it runs on one rank only\n", part.name);
        else if (settings.sweep_shapes && !part.sweeps)
            std::printf("%s: skipped, its operations have more than one launch\n", part.name);
        else if (settings.sweep_shapes)
            sweep_shapes(bench.device(), table, [&] { part.run(bench); });
        else
            part.run(bench);
    }
}

int run(BenchSettings &settings, Job &ranks) {
    const std::vector<Part> chosen = parts_of(settings.only);
    if (settings.sweep_shapes && (!settings.csv.empty() || !settings.compare.empty() || settings.block != 0))
        throw ArgumentError("--sweep chooses its own blocks and writes no table: omit --csv, --compare and --block");
    ranks.start(settings.grid);
    const int backend = backends_of(ranks, settings.backend)[0];
    Table table(settings.csv, ranks);
    if (!settings.compare.empty())
        table.compare_with(settings.compare, settings.noise);
    std::vector<std::array<int, 4>> sizes = {{8, 8, 8, 8}}, volumes;
    if (backend == MILCGPU_CUDA) {
        sizes = {{16, 16, 16, 16}, {24, 24, 24, 32}};
        volumes = {{8, 8, 8, 16}, {12, 12, 12, 24}, {32, 32, 32, 32}};
    }
    if (settings.quick) {
        sizes = {sizes.front()}; // verified in seconds, on one core
        settings.sweeps = 2, settings.reals = 13;
    }
    settings.sweeps = settings.asked_sweeps.value_or(settings.sweeps);
    settings.reals = settings.asked_reals.value_or(settings.reals);
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
    add_backend(arguments, settings.backend, false);
    arguments.add("only", "PART,...", settings.only, "the operations to time", part_names());
    arguments.add_size(settings.size,
                       "lattice; 0 0 0 0: on a GPU 16^4 and 24^3 x 32, and solves with 18 reals also on 8^3 x 16, "
                       "12^3 x 24, 32^4; on the host 8^4",
                       true);
    Job::add_grid(arguments, settings.grid);
    arguments.add("quick", "", settings.quick,
                  "less than a minute on a GPU: fewer rows; --reals 13 and --sweeps 2 by default");
    arguments.add("csv", "FILE", settings.csv, "write the table into this file", file_name());
    arguments.add("compare", "FILE", settings.compare, "an earlier table; names the rows that are slower now",
                  file_name());
    arguments.add("noise", "P", settings.noise, "a row up to P percent slower does not count as slower", from(0, 1e6));
    arguments.add("sweeps", "N", settings.asked_sweeps,
                  "heat-bath sweeps of the gauge field, beta 6, cold start; default 8, with --quick 2", whole(0));
    arguments.add(
        "sweep", "", settings.sweep_shapes,
        "try other launch shapes than the tables have, and print their gain; for dslash, gauge, mesons, operators");
    arguments.add("block", "N", settings.block, "threads per block for every kernel; 0: as the kernel's table says",
                  one_of({"0", "64", "128", "256"}));
    arguments.add(
        "reals", "R", settings.asked_reals,
        "real numbers of a long link: 18, 13, 9 (for D also 12, 8), or 0 for all of them (the default without "
        "--quick); of a gauge link: 18, 12, 8",
        one_of({"0", "18", "13", "12", "9", "8"}));
    arguments.add("all-rows", "", settings.all_rows, "D: all epilogues, and links in single with vectors in double");
    arguments.add("mass", "M", settings.mass, "mass of the solves", above(0, 1e6));
    arguments.add("tolerance", "R", settings.tolerance, "tolerance of the solves", inside(0, 1));
    arguments.add("reliable-delta", "D", settings.delta, "reliable_delta of the solves; 0: the library's choice",
                  delta());
    arguments.add("pairs", "NAME", settings.pairs, "precisions of the solves", pair_name(true));
    arguments.add("hisq-terms", "N", settings.hisq_terms, "poles of the HISQ force", whole(1, 1000));
    arguments.add("asqtad-terms", "N", settings.asqtad_terms, "poles of the asqtad force", whole(1, 1000));
    arguments.add("dense-precision", "NAME", settings.dense_precision, "precision of dense algebra",
                  one_of({"all", "double", "single", "half"}));
    return run_on_ranks([&](Job &ranks) { return arguments.parse(argc, argv) ? run(settings, ranks) : 0; });
}
