// Solves (4 m^2 - D D) x = b on a real gauge field in every precision pair, on every backend of this machine, and
// compares each solution with an independent CPU reference. Exit status: 0 if all agree, 1 if one differs, 2 for bad
// arguments.
#include "examples/lib/arguments.h"
#include "examples/lib/progress.h"
#include "examples/lib/system.h"
#include <chrono>
#include <cmath>
#include <cstdio>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Settings {
    std::string lattice_file, csv, history, backend = "all", pairs = "all", action = "asqtad";
    std::array<int, 4> size = {8, 8, 8, 16};
    double beta = 6.0, mass = 0.02, tolerance = 1e-10, reliable_delta = 0, jump_limit = 0;
    int sweeps = 60, max_iterations = 5000, reconstruct = 18, repeat = 1;
    std::array<int, 4> grid = {1, 1, 1, 1};
    unsigned long seed = 1;
    bool no_reference = false;
};

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("solve",
                        "solves for staggered quarks on a gauge field, in every precision pair and on every backend");
    add_gauge_field(arguments, s, "gauge field and source");
    arguments.add("action", "NAME", s.action, "the action that defines the links", examples::action_name());
    arguments.add("mass", "M", s.mass, "quark mass m, M = 2m + D", above(0, 1e6));
    arguments.add("tolerance", "R", s.tolerance, "relative residual; a pair that cannot reach it gets a larger one",
                  inside(0, 1));
    arguments.add("max-iterations", "N", s.max_iterations, "most iterations between restarts", whole(1, 100000000));
    arguments.add("reconstruct", "R", s.reconstruct, "real numbers of a long link in the sloppy precision",
                  one_of({"18", "13", "12", "9", "8"}));
    arguments.add("reliable-delta", "D", s.reliable_delta,
                  "factor by which the sloppy residual falls before it is recomputed; 0: the library's choice",
                  examples::delta());
    arguments.add("jump-limit", "J", s.jump_limit,
                  "jump of the residual that ends half precision; 0: the library's choice", from(0, 1e6));
    examples::add_backend(arguments, s.backend, true);
    arguments.add("pairs", "NAME", s.pairs, "the pairs of precisions", examples::pair_name(true));
    arguments.add("repeat", "N", s.repeat, "solves of each pair; the fastest is printed", whole(1));
    arguments.add("no-reference", "", s.no_reference, "do not compare with the CPU reference (residuals only)");
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write the table into this file", file_name());
    arguments.add("history", "FILE", s.history, "write the residuals of the recursion into this file, for a picture",
                  file_name());
    return arguments.parse(argc, argv);
}

// Data of the progress callback: an occasional line, and the history.
struct Progress {
    std::string label;
    examples::Cells origin;
    examples::Csv *history;
    examples::ProgressLine line{};
    static void report(void *user, int step, double residual) {
        Progress &p = *static_cast<Progress *>(user);
        if (p.history != nullptr)
            p.history->row(p.label, step, residual, p.origin);
        p.line.show("%-22s step %6d  |r|/|b| %.2e", p.label.c_str(), step, residual);
    }
};

struct Expected {
    reference::Fermion x;
    double residual = 0;
};

// A solution with residual r differs from the exact solution by at most |r| / (4 m^2), because the smallest eigenvalue
// of A is at least 4 m^2.
double allowed_difference(const Expected &expected, double residual, double mass, double b_norm, double x_norm) {
    return 1.01 * (residual + expected.residual) * b_norm / (4 * mass * mass) / x_norm;
}

struct Norms {
    double b = 0, x = 0, difference = 0;
};
Norms norms(const examples::System &system, const reference::Fermion &b, const std::vector<double> &x,
            const reference::Fermion &expected) {
    const auto mine = reference::vector_from_milc<double>(system.lattice, x);
    Norms n;
    for (int s = 0; s < system.lattice.volume(); ++s)
        if (system.lattice.parity(s) == 0) {
            n.b += reference::norm2(b[s]);
            n.x += reference::norm2(expected[s]);
            n.difference += reference::norm2(mine[s] - expected[s]);
        }
    return {std::sqrt(n.b), std::sqrt(n.x), std::sqrt(n.difference)};
}

int run(const Settings &s, examples::Job &ranks) {
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); // keeps the order with the progress line on stderr
    ranks.start(s.grid);
    const std::vector<int> backends = examples::backends_of(ranks, s.backend);
    examples::Csv csv, history;
    ranks.on_first([&] {
        csv.open("--csv", s.csv,
                 {"backend", "pair", "asked", "steps", "reliable_updates", "true_residual", "difference", "seconds",
                  "gflops", "gbytes_per_second", "status"});
        history.open("--history", s.history, examples::with_origin({"label", "step", "residual"}));
    });
    reference::Lattice lattice{s.size};
    std::vector<double> gauge = examples::read_or_make_gauge(
        ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
        (s.no_reference ? 2 : 4) * examples::gauge_bytes); // fat and long links, each twice
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), !s.no_reference);
    const auto &n = system.lattice.n;
    std::printf("lattice %d x %d x %d x %d, u0 %.6f, %s links, mass %g, even sites\n", n[0], n[1], n[2], n[3],
                system.u0, s.action.c_str(), s.mass);
    examples::print_ranks(ranks, system.lattice);
    auto source = examples::random_vector(ranks, system.lattice, s.seed);
    const auto b = s.no_reference ? reference::Fermion() : examples::random_on_first(ranks, system.lattice, s.seed);
    Expected expected;
    ranks.on_first([&] {
        if (s.no_reference)
            return;
        const double start = now();
        const auto solved =
            reference::conjugate_gradient(system.lattice, system.fat, system.lng, s.mass, 0, b,
                                          reference::Fermion(b.size()), s.tolerance, 5 * s.max_iterations);
        expected.x = solved.x;
        expected.residual = solved.residual;
        std::printf("CPU reference: %d iterations, true residual %.2e, %.2f s\n\n", solved.iterations, solved.residual,
                    now() - start);
    });
    std::printf("%-8s %-14s %8s %6s %8s %10s %10s %10s %9s %9s  %s\n", "backend", "pair", "asked", "steps", "updates",
                "residual", "difference", "seconds", "GFLOPS", "GB/s", "status");
    bool all_well = true;
    for (const int backend : backends) {
        const examples::Connection connection(ranks, system, backend);
        for (const auto &pair : examples::precision_pairs()) {
            if (s.pairs != "all" && s.pairs != pair.name)
                continue;
            milcgpu_solve_spec spec{};
            spec.struct_size = sizeof spec;
            spec.parity = MILCGPU_EVEN;
            spec.mass = s.mass;
            spec.tolerance = std::fmax(s.tolerance, pair.reachable);
            spec.max_iterations = s.max_iterations;
            spec.max_restarts = 10;
            spec.precise.precision = pair.precise;
            spec.sloppy.precision = pair.sloppy;
            spec.sloppy.reconstruct = s.reconstruct;
            spec.reliable_delta = s.reliable_delta;
            spec.jump_limit = s.jump_limit;
            Progress progress{
                std::string(examples::backend_name(backend)) + " " + pair.name,
                examples::origin_cells(system.lattice.n, milcgpu_context_device_name(connection.context())), &history};
            spec.progress = ranks.is_first() ? Progress::report : nullptr;
            spec.user = &progress;
            milcgpu_solve_report report{}, best{};
            std::vector<double> x;
            for (int k = 0; k < s.repeat; ++k) {
                x.assign(source.size(), 0.0);
                report.struct_size = sizeof report;
                const milcgpu_field from = examples::field_of(source), to = examples::field_of(x);
                ranks.together();
                milcgpu_staggered_solve(connection.links(), &spec, &from, &to, &report);
                examples::over_ranks(ranks, report);
                if (k == 0 || report.seconds < best.seconds)
                    best = report;
                progress.history = nullptr; // one history is enough
            }
            progress.line.clear();
            bool well = best.status == MILCGPU_OK && best.true_residual < spec.tolerance;
            double difference = NAN;
            const bool compares = !s.no_reference && ranks.is_first();
            const std::vector<double> whole =
                s.no_reference ? std::vector<double>() : ranks.collect(system.lattice, x, 6);
            if (compares) {
                const Norms size = norms(system, b, whole, expected.x);
                difference = size.difference / size.x;
                well = well && difference <= allowed_difference(expected, best.true_residual, s.mass, size.b, size.x);
            }
            all_well = all_well && well;
            const std::string shown = examples::shown(difference, 2, compares);
            std::printf("%-8s %-14s %8.0e %6d %8d %10.2e %10s %10.4f %9.1f %9.1f  %s%s\n",
                        examples::backend_name(backend), pair.name, spec.tolerance, best.steps, best.reliable_updates,
                        best.true_residual, shown.c_str(), best.seconds, best.gflops, best.gbytes_per_second,
                        milcgpu_status_name(best.status), well ? "" : "  OFF");
            if (best.reliable_updates > 0)
                std::printf("         largest jump of the residual at an update: %.1e; %d steps in half precision\n",
                            best.largest_jump, best.steps_in_half);
            if (best.message[0] != '\0')
                std::printf("         %s\n", best.message);
            csv.row(examples::backend_name(backend), pair.name, spec.tolerance, best.steps, best.reliable_updates,
                    best.true_residual, shown, best.seconds, best.gflops, best.gbytes_per_second,
                    milcgpu_status_name(best.status));
        }
    }
    csv.finish();
    history.finish();
    std::printf("\n%s\n", !all_well ? "some solutions are WRONG"
                          : s.no_reference
                              ? "every residual is within its tolerance; no solution was compared with the reference"
                              : "every residual is within its tolerance, and every solution agrees with the reference "
                                "within the limit of its residual");
    return all_well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
