// Solves (4 m^2 + pole_i - D D) x_i = b for all poles of a rational function at once, in each precision policy, and
// compares every residual with the independent CPU reference. Exit status: 0 if all agree, 1 if one differs, 2 for bad
// arguments.
//
// RHMC needs such a rational function for its roots of M^dag M: x^(-alpha) = sin(pi alpha) / pi times the integral of
// e^((1 - alpha) t) / (e^t + x) over t, by the trapezoid rule, so pole_i = e^(t_i), residue_i ~ e^((1 - alpha) t_i).
#include "examples/lib/arguments.h"
#include "examples/lib/system.h"
#include <cmath>
#include <cstdio>

namespace {

struct Settings {
    std::string lattice_file, csv, backend = "all", action = "asqtad";
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0, mass = 0.01, alpha = 0.25, smallest = 1e-4, largest = 10, tolerance = 1e-10;
    int sweeps = 20, poles = 12;
    unsigned long seed = 1;
    bool no_reference = false, by_residues = false;
};

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("multimass", "solves for all poles of a rational function at once, in every precision policy");
    add_gauge_field(arguments, s, "gauge field and source");
    arguments.add("action", "NAME", s.action, "the action that defines the links", examples::action_name());
    arguments.add("mass", "M", s.mass, "quark mass m; offsets are 4 m^2 + pole", from(0, 1e6));
    arguments.add("alpha", "A", s.alpha, "the function is x^(-A)", inside(0, 1));
    arguments.add("poles", "N", s.poles, "number of poles", whole(1, 32));
    arguments.add("smallest", "P", s.smallest, "smallest pole", above(0, 1e12));
    arguments.add("largest", "P", s.largest, "largest pole", above(0, 1e12));
    arguments.add("tolerance", "R", s.tolerance, "relative residual of every shift", inside(0, 1));
    arguments.add("by-residues", "", s.by_residues, "tolerances weighted by the residues, as a force needs them");
    examples::add_backend(arguments, s.backend, true);
    arguments.add("no-reference", "", s.no_reference, "do not compare with the CPU reference");
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write the table into this file", file_name());
    if (!arguments.parse(argc, argv))
        return false;
    if (s.largest < s.smallest)
        throw ArgumentError("--largest must not be below --smallest");
    return true;
}

struct Policy {
    const char *name;
    int shared, sloppy;
};
const Policy policies[] = {{"double", MILCGPU_DOUBLE, MILCGPU_DOUBLE},
                           {"double then single", MILCGPU_DOUBLE, MILCGPU_SINGLE},
                           {"double then single then half", MILCGPU_DOUBLE, MILCGPU_HALF},
                           {"single then refined", MILCGPU_SINGLE, MILCGPU_SINGLE},
                           {"half then refined", MILCGPU_HALF, MILCGPU_HALF}};

// |b - (offset - D D) x| / |b| on the even sites.
double true_residual(const examples::System &system, const std::vector<double> &x, const reference::Fermion &b,
                     double offset) {
    const auto back = reference::normal_operator(system.lattice, system.fat, system.lng, 0.5 * std::sqrt(offset), 0,
                                                 reference::vector_from_milc<double>(system.lattice, x));
    double rr = 0, bb = 0;
    for (int site = 0; site < system.lattice.volume(); ++site)
        if (system.lattice.parity(site) == 0)
            rr += reference::norm2(back[site] - b[site]), bb += reference::norm2(b[site]);
    return std::sqrt(rr / bb);
}

int run(const Settings &s, examples::Job &ranks) {
    ranks.start(s.grid);
    const std::vector<int> backends = examples::backends_of(ranks, s.backend);
    examples::Csv csv;
    ranks.on_first([&] {
        csv.open("--csv", s.csv,
                 {"backend", "policy", "offset", "shared_steps", "refinement_steps", "true_residual",
                  "reference_residual", "status"});
    });
    reference::Lattice lattice{s.size};
    std::vector<double> gauge = examples::read_or_make_gauge(
        ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
        (s.no_reference ? 2 : 4) * examples::gauge_bytes); // fat and long links, each twice
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), !s.no_reference);
    std::vector<milcgpu_pole> shifts;
    std::vector<double> residues;
    const double step = s.poles > 1 ? std::log(s.largest / s.smallest) / (s.poles - 1) : 1;
    for (int k = 0; k < s.poles; ++k) {
        const double t = std::log(s.smallest) + k * step;
        shifts.push_back({4 * s.mass * s.mass + std::exp(t), s.tolerance, 0});
        residues.push_back(step * std::sin(M_PI * s.alpha) / M_PI * std::exp((1 - s.alpha) * t));
    }
    examples::print_ranks(ranks, lattice);
    auto source = examples::random_vector(ranks, lattice, s.seed);
    const auto b = s.no_reference ? reference::Fermion() : examples::random_on_first(ranks, lattice, s.seed);
    bool all_well = true;
    for (const int backend : backends) {
        const examples::Connection connection(ranks, system, backend);
        for (const Policy &policy : policies) {
            std::vector<std::vector<double>> x(shifts.size(), std::vector<double>(source.size(), 0.0));
            std::vector<milcgpu_field> fields;
            for (auto &field : x)
                fields.push_back(examples::field_of(field));
            std::vector<milcgpu_shift_report> each(shifts.size());
            milcgpu_multi_mass_spec spec{};
            spec.struct_size = sizeof spec;
            spec.parity = MILCGPU_EVEN;
            spec.n_shifts = static_cast<int>(shifts.size());
            spec.shifts = shifts.data();
            spec.residues = s.by_residues ? residues.data() : nullptr;
            spec.max_iterations = 20000;
            spec.max_restarts = 5;
            spec.shared.precision = policy.shared;
            spec.sloppy.precision = policy.sloppy;
            milcgpu_multi_mass_report report{};
            report.struct_size = sizeof report;
            report.shifts = each.data();
            const milcgpu_field from = examples::field_of(source);
            ranks.together();
            milcgpu_staggered_multi_mass(connection.links(), &spec, &from, fields.data(), &report);
            report.shared_seconds = ranks.slowest(report.shared_seconds);
            examples::over_ranks(ranks, report);
            std::printf("\n%s, %s: %s, %d shared steps, %.4f s (shared %.4f), %.1f GFLOPS\n",
                        examples::backend_name(backend), policy.name, milcgpu_status_name(report.status), report.steps,
                        report.seconds, report.shared_seconds, report.gflops);
            if (report.message[0] != '\0')
                std::printf("  %s\n", report.message);
            std::printf("  %12s %12s %12s %14s %14s\n", "offset", "shared steps", "refinement", "true residual",
                        "by reference");
            all_well = all_well && report.status == MILCGPU_OK;
            for (size_t k = 0; k < shifts.size(); ++k) {
                const std::vector<double> whole =
                    s.no_reference ? std::vector<double>() : ranks.collect(lattice, x[k], 6);
                const bool compares = !s.no_reference && ranks.is_first();
                const double check = compares ? true_residual(system, whole, b, shifts[k].offset) : NAN;
                const bool well = each[k].status == MILCGPU_OK &&
                                  (!compares || std::fabs(check - each[k].true_residual) < 0.01 * s.tolerance);
                all_well = all_well && well;
                const std::string by_reference = examples::shown(check, 2, compares);
                std::printf("  %12.4e %12d %12d %14.2e %14s%s\n", shifts[k].offset, each[k].shared_steps, each[k].steps,
                            each[k].true_residual, by_reference.c_str(), well ? "" : "  OFF");
                csv.row(examples::backend_name(backend), policy.name, shifts[k].offset, each[k].shared_steps,
                        each[k].steps, each[k].true_residual, by_reference, milcgpu_status_name(each[k].status));
            }
        }
    }
    csv.finish();
    std::printf("\n%s%s\n", all_well ? "every shift reached its tolerance" : "some shifts are WRONG",
                s.no_reference ? "; no shift was compared with the reference" : "");
    return all_well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
