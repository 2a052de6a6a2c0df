// Solves (4 m^2 - D D) x = b for several sources at once: in one Krylov space, in lock-step, and one after the other;
// for lists of masses, numbers of sources and precisions. Every solution's residual is computed again. Writes a table
// and, with --csv, the same as a file. Exit status: 0 when every residual is as asked, 1 when one is not, 2 for bad
// arguments.
#include "examples/arguments.h"
#include "examples/system.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace {

struct Settings {
    std::string lattice_file, csv, backend = "auto", action = "asqtad", masses = "0.05", sources = "1,2,4",
                                   precisions = "double/single", ways = "block,lock-step,one-by-one";
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0, tolerance = 1e-10, delta = 0;
    int sweeps = 20, runs = 1, reals = 18, progress = 0;
    unsigned long seed = 1;
};

bool read_settings(int argc, char **argv, Settings &s) {
    examples::Arguments arguments("sources", "several sources at once, in one Krylov space or in lock-step");
    arguments.add("lattice", "FILE", s.lattice_file, "gauge field (MILC version 5 or SciDAC); without it one is made");
    arguments.add("size", "X Y Z T", s.size, "extents of a field made here");
    arguments.add("beta", "B", s.beta, "its coupling");
    arguments.add("sweeps", "N", s.sweeps, "its heat-bath sweeps");
    arguments.add("seed", "N", s.seed, "of the field and of the sources");
    arguments.add("action", "NAME", s.action, "asqtad or hisq");
    arguments.add("masses", "M,M,...", s.masses, "quark masses");
    arguments.add("sources", "N,N,...", s.sources, "numbers of sources");
    arguments.add("precisions", "P,P,...", s.precisions, "pairs as double/half");
    arguments.add("ways", "W,W,...", s.ways, "of block, lock-step, one-by-one");
    arguments.add("reals", "R", s.reals, "of a long link in the sloppy precision: 18, 13, 12, 9 or 8");
    arguments.add("tolerance", "R", s.tolerance, "relative residual of every source");
    arguments.add("reliable-delta", "D", s.delta, "fall of the residual between two evaluations (0: the default)");
    arguments.add("runs", "N", s.runs, "of each solve; the fastest counts");
    arguments.add("progress", "N", s.progress, "a line with the residual every N steps");
    arguments.add("backend", "NAME", s.backend, "auto, host or cuda");
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "the table");
    return arguments.parse(argc, argv);
}

int way_of(const std::string &name) {
    const char *const names[] = {"block", "lock-step", "one-by-one"};
    for (int k = 0; k < 3; ++k)
        if (name == names[k])
            return MILCGPU_BLOCK + k;
    throw examples::ArgumentError("--ways: '" + name + "' is none of block, lock-step, one-by-one");
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
    double seconds = INFINITY, solver_seconds = 0; // of a call; without copies
    double worst = 0;                              // residual
    int steps = 0, updates = 0;                    // the most of a source
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
        if (milcgpu_solve_sources(connection.context(), connection.links(), &spec, way, n, from.data(), to.data(),
                                  reports.data()) != MILCGPU_OK) {
            std::printf("  %s\n", milcgpu_last_error());
            out.well = false;
        }
        for (const milcgpu_solve_report &report : reports)
            seconds += report.seconds, solver_seconds += report.solver_seconds;
        seconds = ranks.slowest(seconds);
        if (seconds < out.seconds)
            out.seconds = seconds, out.solver_seconds = ranks.slowest(solver_seconds);
    }
    for (int k = 0; k < n; ++k) {
        double residual = NAN;
        const milcgpu_field from = examples::field_of(b[k]), to = examples::field_of(x[k]);
        milcgpu_residual(connection.context(), connection.links(), spec.parity, spec.mass, &from, &to, &residual);
        out.well = out.well && residual < spec.tolerance &&
                   std::fabs(residual - reports[k].true_residual) < 1e-3 * spec.tolerance;
        out.worst = residual <= out.worst ? out.worst : residual; // NaN is the worst
        out.steps = std::max(out.steps, reports[k].steps);
        out.updates = std::max(out.updates, reports[k].reliable_updates);
    }
    return out;
}

int run(const Settings &s, examples::Job &ranks) {
    const auto masses = examples::list_of<double>(s.masses, "masses");
    const auto counts = examples::list_of<int>(s.sources, "sources");
    std::vector<examples::PrecisionPair> pairs;
    for (const auto &name : examples::list_of<std::string>(s.precisions, "precisions"))
        pairs.push_back(examples::pair_of(name, "precisions"));
    const auto ways = examples::list_of<std::string>(s.ways, "ways");
    for (const auto &way : ways)
        way_of(way);
    const int most = *std::max_element(counts.begin(), counts.end());
    if (*std::min_element(counts.begin(), counts.end()) < 1)
        throw examples::ArgumentError("--sources must be positive");
    ranks.start(s.grid);
    reference::Lattice lattice{s.size};
    reference::Gauge gauge = examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps);
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), false);
    examples::print_ranks(ranks, lattice);
    std::vector<std::vector<double>> sources;
    for (int k = 0; k < most; ++k)
        sources.push_back(
            examples::deal_vector(ranks, lattice, examples::random_on_first(ranks, lattice, s.seed + 1 + k)));
    std::ofstream csv;
    if (!s.csv.empty() && ranks.is_first())
        csv.open(s.csv);
    csv << "backend,mass,precisions,sources,way,steps,updates,seconds,solver_seconds,seconds_a_source,residual,"
           "status\n";
    bool all_well = true;
    const int backend = examples::backends_of(ranks, s.backend)[0];
    const examples::Connection connection(ranks, system, backend, 1);
    std::printf("%8s %-14s %7s %-11s %7s %8s %12s %12s %14s %11s\n", "mass", "precisions", "sources", "way", "steps",
                "updates", "s a call", "s of solver", "ms a source", "residual");
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
                    Progress progress{s.progress, 0};
                    if (s.progress > 0 && ranks.is_first())
                        spec.progress = show_progress, spec.user = &progress;
                    const std::vector<std::vector<double>> some(sources.begin(), sources.begin() + count);
                    const Outcome out = solve(ranks, connection, spec, way_of(way), some, s.runs);
                    std::printf("%8g %-14s %7d %-11s %7d %8d %12.4f %12.4f %14.3f %11.2e%s\n", mass, pair.name, count,
                                way.c_str(), out.steps, out.updates, out.seconds, out.solver_seconds,
                                out.seconds / count * 1e3, out.worst, out.well ? "" : "  OFF");
                    std::fflush(stdout);
                    csv << examples::backend_name(backend) << "," << mass << "," << pair.name << "," << count << ","
                        << way << "," << out.steps << "," << out.updates << "," << out.seconds << ","
                        << out.solver_seconds << "," << out.seconds / count << "," << out.worst << ","
                        << (out.well ? "ok" : "off") << "\n";
                    all_well = all_well && out.well;
                }
    std::printf("\n%s\n", all_well ? "every residual is as it was asked for" : "NOT every residual is as asked");
    return all_well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    return examples::run_on_ranks([&](examples::Job &ranks) {
        Settings settings;
        return read_settings(argc, argv, settings) ? run(settings, ranks) : 0;
    });
}
