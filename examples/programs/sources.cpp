// Solves (4 m^2 - D D) x = b for several sources at once: in one Krylov space, in lock-step, and one after the other;
// for lists of masses, numbers of sources and precisions. Recomputes the residual of every solution. Prints a table,
// and with --csv also writes it into a file. Exit status: 0 if every residual is within its tolerance, 1 if one is not,
// 2 for bad arguments.
#include "examples/lib/arguments.h"
#include "examples/lib/eigenvectors.h"
#include "examples/lib/origin.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace {

struct Settings {
    std::string lattice_file, csv, backend = "auto", action = "asqtad", masses = "0.05", sources = "1,2,4",
                                   precisions = "double/single", ways = "block,lock-step,one-by-one", eigenvectors_from;
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0, tolerance = 1e-10, delta = 0;
    int sweeps = 20, runs = 1, reals = 18, progress = 0, eigenvectors = 0, learn = 0;
    unsigned long seed = 1;
};

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("sources", "solves for several sources at once, in one Krylov space or in lock-step");
    add_gauge_field(arguments, s, "gauge field and sources");
    arguments.add("action", "NAME", s.action, "the action that defines the links", examples::action_name());
    arguments.add("masses", "M,M,...", s.masses, "quark masses", list_of_each(above(0, 1e6)));
    arguments.add("sources", "N,N,...", s.sources, "numbers of sources", list_of_each(whole(1, 1000)));
    arguments.add("precisions", "P,P,...", s.precisions, "pairs of precisions",
                  list_of_each(examples::pair_name(false)));
    arguments.add("ways", "W,W,...", s.ways, "ways to solve for the sources",
                  list_of_each(one_of({"auto", "block", "lock-step", "one-by-one"})));
    arguments.add("reals", "R", s.reals, "real numbers of a long link in the sloppy precision",
                  one_of({"18", "13", "12", "9", "8"}));
    arguments.add("tolerance", "R", s.tolerance,
                  "relative residual of every source; a pair that cannot reach it gets a larger one", inside(0, 1));
    arguments.add("reliable-delta", "D", s.delta,
                  "factor by which the residual falls before it is recomputed; 0: the library's choice",
                  examples::delta());
    arguments.add("eigenvectors", "N", s.eigenvectors,
                  "number of eigenvectors to compute first and deflate all solves with; 0: none", whole(0, 100000));
    arguments.add("eigenvectors-from", "FILE", s.eigenvectors_from,
                  "read the eigenvectors from this file of MILC's, without QIO; with --eigenvectors 0 all of them",
                  file_name());
    arguments.add("learn", "0|1", s.learn, "1: the library computes eigenvectors as soon as they pay, and says so",
                  whole(0, 1));
    arguments.add("runs", "N", s.runs, "runs of each solve; the fastest counts", whole(1));
    arguments.add("progress", "N", s.progress, "print the residual every N steps; 0: never", whole(0));
    examples::add_backend(arguments, s.backend, false);
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write the table into this file", file_name());
    return arguments.parse(argc, argv);
}

int way_of(const std::string &name) {
    return name == "auto"        ? MILCGPU_TOGETHER_AUTO
           : name == "block"     ? MILCGPU_BLOCK
           : name == "lock-step" ? MILCGPU_LOCK_STEP
                                 : MILCGPU_ONE_BY_ONE;
}

struct Progress {
    int every, next;
};
void show_progress(void *user, int step, double residual) {
    Progress &progress = *static_cast<Progress *>(user);
    if (step < progress.next)
        return;
    progress.next = step + progress.every;
    std::printf("    step %d, residual %.3e\n", step, residual);
    std::fflush(stdout);
}

struct Outcome {
    double seconds = INFINITY, solver_seconds = 0; // of a call, with and without copies
    double all_seconds = 0;                        // of all runs
    double worst = 0;                              // largest residual
    int steps = 0, updates = 0;                    // the maximum over sources
    bool well = true;
};

Outcome solve(const examples::Job &ranks, const examples::Connection &connection, milcgpu_solve_spec &spec, int way,
              const std::vector<std::vector<double>> &sources, int runs) {
    const int n = static_cast<int>(sources.size());
    auto b = sources;
    std::vector<std::vector<double>> x(n);
    std::vector<milcgpu_solve_report> reports(n);
    Outcome out;
    for (int run = 0; run < runs; ++run) {
        std::vector<milcgpu_field> from, to;
        for (int k = 0; k < n; ++k) {
            x[k].assign(b[k].size(), 0.0);
            from.push_back(examples::field_of(b[k])), to.push_back(examples::field_of(x[k]));
            reports[k] = {};
            reports[k].struct_size = sizeof reports[k];
        }
        ranks.together();
        double seconds = 0, solver_seconds = 0;
        if (milcgpu_staggered_solve_sources(connection.links(), &spec, way, n, from.data(), to.data(),
                                            reports.data()) != MILCGPU_OK) {
            std::printf("  %s\n", milcgpu_last_error());
            out.well = false;
        }
        for (const milcgpu_solve_report &report : reports)
            seconds += report.seconds, solver_seconds += report.solver_seconds;
        seconds = ranks.slowest(seconds);
        out.all_seconds += seconds;
        if (seconds < out.seconds)
            out.seconds = seconds, out.solver_seconds = ranks.slowest(solver_seconds);
    }
    for (int k = 0; k < n; ++k) {
        double residual = NAN;
        const milcgpu_field from = examples::field_of(b[k]), to = examples::field_of(x[k]);
        milcgpu_staggered_residual(connection.links(), spec.parity, spec.mass, &from, &to, &residual);
        out.well = out.well && residual < spec.tolerance &&
                   std::fabs(residual - reports[k].true_residual) < 1e-3 * spec.tolerance;
        out.worst = residual <= out.worst || out.worst != out.worst ? out.worst : residual; // NaN is the worst
        out.steps = std::max(out.steps, reports[k].steps);
        out.updates = std::max(out.updates, reports[k].reliable_updates);
    }
    return out;
}

int run(const Settings &s, examples::Job &ranks) {
    const auto masses = examples::list_of<double>(s.masses);
    const auto counts = examples::list_of<int>(s.sources);
    std::vector<examples::PrecisionPair> pairs;
    for (const auto &name : examples::list_of<std::string>(s.precisions))
        pairs.push_back(examples::pair_of(name));
    const auto ways = examples::list_of<std::string>(s.ways);
    const int most = *std::max_element(counts.begin(), counts.end());
    ranks.start(s.grid);
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::Csv csv;
    ranks.on_first([&] {
        csv.open("--csv", s.csv,
                 examples::with_origin({"backend", "mass", "precisions", "sources", "way", "asked", "steps", "updates",
                                        "seconds", "solver_seconds", "seconds_a_source", "residual", "status",
                                        "eigenvectors"}));
    });
    reference::Lattice lattice{s.size};
    std::vector<double> gauge =
        examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
                                     2 * examples::gauge_bytes + 96.0 * most); // and sources and solutions
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), false);
    examples::print_ranks(ranks, lattice);
    std::vector<std::vector<double>> sources;
    for (int k = 0; k < most; ++k)
        sources.push_back(examples::random_vector(ranks, lattice, s.seed + 1 + k));
    bool all_well = true;
    double all_seconds = 0;
    const examples::Connection connection(ranks, system, backend, 0, s.learn != 0);
    const examples::Cells origin = examples::origin_cells(lattice.n, milcgpu_context_device_name(connection.context()));
    examples::EigenChoice choice;
    choice.count = s.eigenvectors, choice.from = s.eigenvectors_from;
    const examples::Eigenvectors eigenvectors(ranks, connection, choice);
    eigenvectors.print(std::max(1, static_cast<int>(eigenvectors.values().size()) / 8));
    std::printf("%8s %-14s %7s %-11s %8s %7s %8s %12s %12s %14s %11s\n", "mass", "precisions", "sources", "way",
                "asked", "steps", "updates", "s a call", "s of solver", "ms a source", "residual");
    for (const double mass : masses)
        for (const examples::PrecisionPair &pair : pairs)
            for (const int count : counts)
                for (const std::string &way : ways) {
                    milcgpu_solve_spec spec{};
                    spec.struct_size = sizeof spec;
                    spec.parity = MILCGPU_EVEN;
                    spec.mass = mass;
                    spec.tolerance = std::fmax(s.tolerance, pair.reachable);
                    spec.max_iterations = 100000;
                    spec.max_restarts = 5;
                    spec.precise.precision = pair.precise;
                    spec.sloppy.precision = pair.sloppy;
                    spec.sloppy.reconstruct = s.reals;
                    spec.reliable_delta = s.delta;
                    spec.eigenvectors = eigenvectors.handle();
                    Progress progress{s.progress, 0};
                    if (s.progress > 0 && ranks.is_first())
                        spec.progress = show_progress, spec.user = &progress;
                    const std::vector<std::vector<double>> some(sources.begin(), sources.begin() + count);
                    const Outcome out = solve(ranks, connection, spec, way_of(way), some, s.runs);
                    std::printf("%8g %-14s %7d %-11s %8.0e %7d %8d %12.4f %12.4f %14.3f %11.2e%s\n", mass, pair.name,
                                count, way.c_str(), spec.tolerance, out.steps, out.updates, out.seconds,
                                out.solver_seconds, out.seconds / count * 1e3, out.worst, out.well ? "" : "  OFF");
                    std::fflush(stdout);
                    csv.row(examples::backend_name(backend), mass, pair.name, count, way, spec.tolerance, out.steps,
                            out.updates, out.seconds, out.solver_seconds, out.seconds / count, out.worst,
                            out.well ? "ok" : "off", eigenvectors.values().size(), origin);
                    all_well = all_well && out.well;
                    all_seconds += out.all_seconds;
                }
    csv.finish();
    std::printf("\nall calls together: %.3f s\n", all_seconds);
    std::printf("%s\n",
                all_well ? "every residual is within its tolerance" : "some residuals are NOT within their tolerance");
    return all_well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
