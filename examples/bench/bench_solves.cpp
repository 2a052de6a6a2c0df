// Whole solves by the C interface: one source, several sources, several masses.
#include "examples/bench/bench.h"
#include <algorithm>

namespace examples {
using namespace milcgpu;

namespace {

// |b - (4 m^2 - D D) x| / |b| of the caller's solution. NaN if it cannot be computed, or if the solver reported another
// number.
double checked_residual(const Connection &connection, double mass, std::vector<double> &source, std::vector<double> &x,
                        double reported) {
    double residual = NAN;
    const milcgpu_field from = field_of(source), solution = field_of(x);
    const bool known =
        milcgpu_staggered_residual(connection.links(), MILCGPU_EVEN, mass, &from, &solution, &residual) == MILCGPU_OK;
    return known && std::fabs(residual - reported) <= 0.01 * reported + 1e-14 ? residual : NAN;
}

} // namespace

void bench_solves(const Bench &bench) {
    const Job &ranks = bench.ranks;
    const BenchSettings &settings = bench.settings;
    const System &system = bench.system;
    auto source = deal_vector(ranks, system.lattice, random_on_first(ranks, system.lattice, 2));
    for (const PrecisionPair &pair : precision_pairs())
        for (const int reals : {18, 13, 9}) {
            if ((settings.pairs != "all" && settings.pairs != pair.name) || !bench.wants(reals))
                continue;
            milcgpu_solve_spec spec{};
            spec.struct_size = sizeof spec;
            spec.parity = MILCGPU_EVEN;
            spec.mass = settings.mass;
            spec.tolerance = std::fmax(settings.tolerance, pair.reachable);
            spec.max_iterations = 20000;
            spec.max_restarts = 3;
            spec.precise.precision = pair.precise;
            spec.sloppy.precision = pair.sloppy;
            spec.sloppy.reconstruct = reals;
            spec.reliable_delta = settings.delta;
            if (pair.precise == pair.sloppy)
                spec.precise.reconstruct = reals;
            const Operation what{"cg step", format("%d", reals), pair.name, 1, "", settings.mass};
            std::vector<milcgpu_solve_report> reports;
            std::vector<double> x;
            for (int run = 0; run < 5; ++run) {
                milcgpu_solve_report report{};
                report.struct_size = sizeof report;
                x.assign(source.size(), 0.0);
                const milcgpu_field from = field_of(source), to = field_of(x);
                ranks.together();
                if (milcgpu_staggered_solve(bench.connection.links(), &spec, &from, &to, &report) != MILCGPU_OK)
                    bench.table.wrong(what, report.message);
                over_ranks(ranks, report);
                if (run > 0 || !bench.on_gpu()) // the first run packs links and records the graph
                    reports.push_back(report);
                if (!bench.on_gpu())
                    break;
            }
            const double last_residual = reports.back().true_residual; // of x
            std::sort(reports.begin(), reports.end(), [](auto &a, auto &b) { return a.seconds < b.seconds; });
            const milcgpu_solve_report &r = reports[reports.size() / 2];
            const double work = r.solver_seconds / r.steps * 1e9; // time per step of the whole call, including copies
            bench.table.row(what, {r.seconds / r.steps, r.gflops * work, r.gbytes_per_second * work, r.steps},
                            checked_residual(bench.connection, spec.mass, source, x, last_residual), spec.tolerance);
        }
}

// 10 masses in one solve. The time of a step is the time of the whole call divided by the shared steps.
void bench_masses(const Bench &bench) {
    const Job &ranks = bench.ranks;
    const System &system = bench.system;
    auto source = deal_vector(ranks, system.lattice, random_on_first(ranks, system.lattice, 2));
    std::vector<milcgpu_pole> shifts;
    for (int i = 0; i < 10; ++i) {
        const double mass = 0.02 + 0.01 * i * i;
        shifts.push_back({4 * mass * mass, bench.settings.tolerance, 0});
    }
    struct Policy {
        const char *name; // first and last precision
        int shared, sloppy, reals;
    };
    const Policy policies[] = {
        {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, 18},        {"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE, 13},
        {"double/single", MILCGPU_DOUBLE, MILCGPU_SINGLE, 18}, {"double/half", MILCGPU_DOUBLE, MILCGPU_HALF, 18},
        {"double/half", MILCGPU_DOUBLE, MILCGPU_HALF, 13},     {"double/half", MILCGPU_DOUBLE, MILCGPU_HALF, 9},
        {"single", MILCGPU_SINGLE, MILCGPU_SINGLE, 18}};
    for (const Policy &policy : policies) {
        if (!bench.wants(policy.reals))
            continue;
        const Operation what{"cg step", format("%d 10 masses", policy.reals), policy.name};
        std::vector<std::vector<double>> x(shifts.size(), std::vector<double>(source.size(), 0.0));
        std::vector<milcgpu_field> fields;
        for (auto &field : x)
            fields.push_back(field_of(field));
        milcgpu_multi_mass_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = MILCGPU_EVEN;
        spec.n_shifts = static_cast<int>(shifts.size());
        spec.shifts = shifts.data();
        spec.max_iterations = 20000;
        spec.max_restarts = 5;
        spec.shared.precision = policy.shared;
        spec.shared.reconstruct = policy.reals;
        spec.sloppy.precision = policy.sloppy;
        spec.sloppy.reconstruct = policy.reals;
        std::vector<milcgpu_shift_report> each(shifts.size());
        milcgpu_multi_mass_report best{};
        for (int run = 0; run < (bench.on_gpu() ? 3 : 1); ++run) {
            milcgpu_multi_mass_report report{};
            report.struct_size = sizeof report;
            report.shifts = each.data();
            const milcgpu_field from = field_of(source);
            ranks.together();
            if (milcgpu_staggered_multi_mass(bench.connection.links(), &spec, &from, fields.data(), &report) !=
                MILCGPU_OK)
                bench.table.wrong(what, report.message);
            report.shared_seconds = ranks.slowest(report.shared_seconds);
            over_ranks(ranks, report);
            if (run == 0 || report.seconds < best.seconds)
                best = report;
        }
        double worst = 0;
        int refinement = 0;
        for (size_t i = 0; i < each.size(); ++i) {
            const double residual = checked_residual(bench.connection, 0.5 * std::sqrt(shifts[i].offset), source, x[i],
                                                     each[i].true_residual);
            worst = residual <= worst || worst != worst ? worst : residual; // NaN is the worst
            refinement += each[i].steps;
        }
        std::printf("          %.4f s per call, %.4f s in shared steps, %d steps of refinement\n", best.seconds,
                    best.shared_seconds, refinement);
        const double work = best.solver_seconds / best.steps * 1e9;
        bench.table.row(what,
                        {best.seconds / best.steps, best.gflops * work, best.gbytes_per_second * work, best.steps},
                        worst, bench.settings.tolerance);
    }
}

// Random sources. Times are the time of the whole call divided by the number of sources.
void bench_sources(const Bench &bench) {
    const Job &ranks = bench.ranks;
    struct Refinement {
        const char *name;
        int together;
    };
    constexpr Refinement ways[] = {{"block", MILCGPU_BLOCK}, {"lock-step", MILCGPU_LOCK_STEP}};
    constexpr int most = 16;
    const int reals = bench.settings.reals == 0 ? 13 : bench.settings.reals;
    std::vector<std::vector<double>> b;
    for (int k = 0; k < most; ++k)
        b.push_back(deal_vector(ranks, bench.system.lattice, random_on_first(ranks, bench.system.lattice, 2 + k)));
    // Here the library uses single instead of half.
    const PrecisionPair pair = pair_of("double/single");
    for (const int n : {2, 4, 8, 12, most})
        for (const Refinement &way : ways) {
            if (bench.settings.quick && (n != 12 || way.together != MILCGPU_BLOCK))
                continue;
            const Operation what{"solve", format("%d %s", reals, way.name), pair.name, n, "", bench.settings.mass};
            std::vector<std::vector<double>> x;
            milcgpu_solve_spec spec{};
            spec.struct_size = sizeof spec;
            spec.parity = MILCGPU_EVEN;
            spec.mass = bench.settings.mass;
            spec.reliable_delta = bench.settings.delta;
            spec.tolerance = bench.settings.tolerance;
            spec.max_iterations = 20000;
            spec.max_restarts = 5;
            spec.precise.precision = pair.precise;
            spec.sloppy.precision = pair.sloppy;
            spec.sloppy.reconstruct = reals;
            std::vector<milcgpu_solve_report> reports(n);
            Cost best{INFINITY, 0, 0};
            for (int run = 0; run < (bench.on_gpu() ? 2 : 1); ++run) {
                x.assign(n, std::vector<double>(b[0].size(), 0.0));
                std::vector<milcgpu_field> from, to;
                for (int k = 0; k < n; ++k) {
                    from.push_back(field_of(b[k])), to.push_back(field_of(x[k]));
                    reports[k] = {};
                    reports[k].struct_size = sizeof reports[k];
                }
                ranks.together();
                if (milcgpu_staggered_solve_sources(bench.connection.links(), &spec, way.together, n, from.data(),
                                                    to.data(), reports.data()) != MILCGPU_OK)
                    bench.table.wrong(what, milcgpu_last_error());
                Cost cost{0, 0, 0};
                for (milcgpu_solve_report &report : reports) {
                    over_ranks(ranks, report);
                    cost.seconds += report.seconds / n;
                    cost.flops += report.gflops * report.solver_seconds * 1e9 / n;
                    cost.bytes += report.gbytes_per_second * report.solver_seconds * 1e9 / n;
                    cost.steps = std::max(cost.steps, report.steps);
                }
                if (cost.seconds < best.seconds)
                    best = cost;
            }
            double worst = 0;
            for (int k = 0; k < n; ++k) {
                const double residual =
                    checked_residual(bench.connection, spec.mass, b[k], x[k], reports[k].true_residual);
                worst = residual <= worst || worst != worst ? worst : residual; // NaN is the worst
            }
            bench.table.row(what, best, worst, spec.tolerance);
        }
}

} // namespace examples
