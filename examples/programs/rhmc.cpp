// Rational hybrid Monte Carlo of asqtad or HISQ quarks with a one-loop Symanzik gauge action. Gauge field and momenta
// stay on the device for whole trajectories. Prints a line per trajectory: delta H, accepted or not, plaquette, seconds
// by part.
//
// n_f degenerate flavours: the weight det(A)^(n_f/4), A = 4 m^2 - D D on even sites, as phi^dag A^(-n_f/4) phi. phi =
// A^(n_f/8) R; the action is |A^(-n_f/8) phi|^2; forces use A^(-n_f/4) (Clark, Kennedy, Phys. Rev. Lett. 98 (2007)
// 051601). Each power is a rational function (rational.h). The integrator is Omelyan's of second order. Exit status: 0,
// or 1 if a solve failed or delta H is not finite.
#include "examples/lib/arguments.h"
#include "examples/lib/rational.h"
#include "examples/lib/system.h"
#include "milc_glue/api/milcgpu_md.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace {

using examples::must;

struct Settings {
    std::string lattice_file, csv, history, backend = "auto", action = "hisq";
    std::array<int, 4> size = {4, 4, 4, 4}, grid = {1, 1, 1, 1};
    double beta = 6.5, mass = 0.1, length = 0.5, tolerance = 1e-10;
    int flavours = 2, trajectories = 5, warm = 3, steps = 8, poles = 8, sweeps = 10;
    unsigned long seed = 1;
};

enum Part { links, solves, fermion_force, gauge_force, updates, actions, parts };
const char *const part_names[parts] = {"links", "solves", "fermion force", "gauge force", "updates", "actions"};

class Rhmc {
  public:
    Rhmc(const examples::Job &ranks, const examples::System &system, int backend, const Settings &s)
        : ranks_(ranks), settings_(s), lattice_(system.lattice), connection_(ranks, system, backend),
          context_(connection_.context()), solver_links_(connection_.links()), how_(examples::link_spec(system)),
          origin_(examples::origin_cells(lattice_.n, milcgpu_context_device_name(context_))), rng_(s.seed) {
        for (const size_t place : examples::places_of(ranks.layout(lattice_)))
            even_ += place < size_t(lattice_.volume() / 2) ? 6 : 0;
        // One-loop Symanzik with tadpole factor u0; HISQ adds the contribution of the flavours. Digits as in MILC's
        // actions.
        const double u2 = system.u0 * system.u0, log_u0 = std::log(system.u0);
        const bool hisq = s.action == "hisq";
        const double rectangle = hisq ? 0.6264 - 1.1746 * s.flavours : 0.6264;
        const double bent = hisq ? 0.0433 - 0.0156 * s.flavours : 0.04335;
        loops_ = {1, -(1 - rectangle * log_u0) / (20 * u2), bent * log_u0 / u2, 0};
        std::printf("u0 %.17g, coefficients of rectangles and bent loops %.6e %.6e\n", system.u0, loops_.rectangle,
                    loops_.bent);
        must(milcgpu_gauge_create(context_, MILCGPU_DOUBLE, &gauge_));
        saved_ = system.own;
        load_links();
        const double smallest = 4 * s.mass * s.mass, largest = smallest + 1.3 * largest_of_dd();
        const double power = s.flavours / 4.0;
        force_ = examples::rational_power(-power, s.poles, smallest, largest);
        action_ = examples::rational_power(-power / 2, s.poles, smallest, largest);
        heat_ = examples::rational_power(power / 2, s.poles, smallest, largest);
        std::printf("spectrum of A in [%.3g, %.3g]; relative errors of the powers %.1e %.1e %.1e with %d poles\n",
                    smallest, largest, force_.error, action_.error, heat_.error, s.poles);
    }
    ~Rhmc() { milcgpu_gauge_destroy(gauge_); }
    Rhmc(const Rhmc &) = delete;

    struct Result {
        double delta_h, plaquette;
        bool accepted;
        std::array<double, parts> seconds;
        double total;
    };
    // history: delta H against the time within the trajectory.
    Result trajectory(bool warm, examples::Csv &history, int number) {
        const auto start = std::chrono::steady_clock::now();
        std::fill(seconds_, seconds_ + parts, 0.0);
        refresh();
        const double before = energy();
        history.row(number, 0, 0, origin_);
        const double eps = settings_.length / settings_.steps, lambda = 0.1931833275037836; // Omelyan et al. (2003)
        for (int step = 0; step < settings_.steps; ++step) {
            move(lambda * eps);
            kick(eps / 2);
            move((1 - 2 * lambda) * eps);
            kick(eps / 2);
            move(lambda * eps);
            if (!settings_.history.empty()) // all ranks must call it
                history.row(number, (step + 1) * eps, energy() - before, origin_);
        }
        Result result{};
        result.delta_h = energy() - before;
        if (!std::isfinite(result.delta_h))
            throw std::runtime_error("delta H is not finite: raise --steps");
        result.accepted = warm || ranks_.of_first(std::exp(-result.delta_h) > reference::uniform(rng_));
        if (result.accepted) {
            milcgpu_reunitarize_report unitary{};
            unitary.struct_size = sizeof unitary;
            must(milcgpu_gauge_reunitarize(gauge_, 0, &unitary));
            const milcgpu_field to = examples::field_of(saved_);
            must(milcgpu_gauge_save(gauge_, &to));
        } else {
            load_links();
        }
        double space, time;
        must(milcgpu_gauge_plaquettes(gauge_, &space, &time));
        result.plaquette = -(space + time) / 6; // the links carry phases
        std::transform(seconds_, seconds_ + parts, result.seconds.begin(), [&](double s) { return ranks_.slowest(s); });
        result.total = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return result;
    }

  private:
    template <class Work> void timed(Part part, const Work &work) {
        const auto start = std::chrono::steady_clock::now();
        work();
        seconds_[part] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    void load_links() {
        const milcgpu_field from = examples::field_of(saved_);
        must(milcgpu_gauge_load(gauge_, &from, 0));
    }

    void make_links() {
        if (milcgpu_gauge_version(gauge_) == links_version_)
            return;
        timed(links, [&] {
            const milcgpu_fatlink_set set{0, nullptr, nullptr, &solver_links_};
            must(milcgpu_gauge_make_links(gauge_, &how_, &set, 1, nullptr, nullptr));
        });
        links_version_ = milcgpu_gauge_version(gauge_);
    }

    // (A + pole_k)^-1 source on even sites, for all poles.
    const std::vector<std::vector<double>> &solve(const examples::Rational &r, std::vector<double> &source) {
        make_links();
        solutions_.assign(r.pole.size(), std::vector<double>(source.size()));
        std::vector<milcgpu_field> to;
        std::vector<milcgpu_pole> shifts;
        for (size_t k = 0; k < r.pole.size(); ++k) {
            to.push_back(examples::field_of(solutions_[k]));
            shifts.push_back({4 * settings_.mass * settings_.mass + r.pole[k], settings_.tolerance, 0});
        }
        milcgpu_multi_mass_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = MILCGPU_EVEN;
        spec.n_shifts = static_cast<int>(shifts.size());
        spec.shifts = shifts.data();
        spec.max_iterations = 20000, spec.max_restarts = 5;
        spec.shared.precision = MILCGPU_DOUBLE;
        spec.sloppy.precision = MILCGPU_SINGLE;
        const milcgpu_field from = examples::field_of(source);
        timed(solves, [&] { must(milcgpu_staggered_multi_mass(solver_links_, &spec, &from, to.data(), nullptr)); });
        return solutions_;
    }
    // r(A) source on even sites.
    std::vector<double> apply(const examples::Rational &r, std::vector<double> &source) {
        const auto &x = solve(r, source);
        std::vector<double> result(source.size(), 0.0);
        for (size_t j = 0; j < even_; ++j) {
            result[j] = r.constant * source[j];
            for (size_t k = 0; k < x.size(); ++k)
                result[j] += r.residue[k] * x[k][j];
        }
        return result;
    }

    double normal() { return reference::gaussian(rng_).real(); }
    // This rank's part of numbers that are drawn for all sites of the whole lattice in MILC's order, so that every grid
    // gets the same numbers.
    template <class Draw> std::vector<double> drawn(size_t reals, size_t sites, const Draw &draw) {
        return examples::drawn(
            ranks_, lattice_, reals, sites,
            [&](const std::array<int, 4> &x) {
                return (size_t(x[0] + x[1] + x[2] + x[3]) % 2 * lattice_.volume() + lattice_.site(x)) / 2;
            },
            draw);
    }
    // Normal numbers on the first sites.
    std::vector<double> random(size_t sites) {
        return drawn(6, sites, [&](double *to) { std::generate_n(to, 6, [&] { return std::sqrt(0.5) * normal(); }); });
    }
    void refresh() {
        const double half = std::sqrt(0.5); // |R|^2 and |H|^2 / 2 give the variance 1/2
        std::vector<double> momenta = drawn(40, size_t(lattice_.volume()), [&](double *to) {
            for (int dir = 0; dir < 4; ++dir, to += 10) {
                std::generate_n(to, 6, [&] { return half * normal(); });
                const double r3 = half * normal(), r8 = half * normal() / std::sqrt(3.0);
                to[6] = r8 + r3, to[7] = r8 - r3, to[8] = -2 * r8, to[9] = 0;
            }
        });
        const milcgpu_field h = examples::field_of(momenta);
        must(milcgpu_momenta_load(gauge_, &h));
        std::vector<double> source = random(lattice_.volume() / 2);
        phi_ = apply(heat_, source);
    }
    // The sum over the even sites of all ranks.
    double norm2(const std::vector<double> &v) const {
        double sum = 0;
        for (size_t j = 0; j < even_; ++j)
            sum += v[j] * v[j];
        return ranks_.sum(sum);
    }

    double energy() {
        double g = 0, h = 0;
        timed(actions, [&] {
            must(milcgpu_gauge_action(gauge_, &loops_, &g));
            must(milcgpu_momenta_action(gauge_, &h));
        });
        return settings_.beta / 3 * g + h + norm2(apply(action_, phi_));
    }

    void kick(double eps) {
        solve(force_, phi_);
        std::vector<milcgpu_field> x;
        for (auto &solution : solutions_)
            x.push_back(examples::field_of(solution));
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        timed(solves, [&] {
            for (const milcgpu_field &each : x)
                must(milcgpu_staggered_dslash(solver_links_, &what, MILCGPU_ODD, &each, &each));
        });
        const milcgpu_force_spec spec{sizeof spec,           &how_, eps, static_cast<int>(x.size()),
                                      force_.residue.data(), 0,     {},  0};
        timed(fermion_force, [&] { must(milcgpu_momenta_add_fermion_force(gauge_, &spec, x.data(), nullptr)); });
        timed(gauge_force,
              [&] { must(milcgpu_momenta_add_gauge_force(gauge_, &loops_, settings_.beta, eps, nullptr)); });
    }
    void move(double eps) {
        timed(updates, [&] { must(milcgpu_gauge_update(gauge_, eps, 8, nullptr)); });
    }

    // The largest eigenvalue of -D D, from below, by 60 steps of the power method.
    double largest_of_dd() {
        make_links();
        std::vector<double> v = random(lattice_.volume());
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        const milcgpu_field field = examples::field_of(v);
        const auto size = [&] { return std::sqrt(norm2(v)); };
        double eigenvalue = 0;
        for (int step = 0; step < 60; ++step) {
            const double before = size();
            must(milcgpu_staggered_dslash(solver_links_, &what, MILCGPU_ODD, &field, &field));
            must(milcgpu_staggered_dslash(solver_links_, &what, MILCGPU_EVEN, &field, &field));
            const double after = size();
            eigenvalue = after / before;
            for (double &each : v)
                each /= after;
        }
        return eigenvalue;
    }

    const examples::Job &ranks_;
    const Settings &settings_;
    reference::Lattice lattice_;
    examples::Connection connection_;
    milcgpu_context *context_;
    milcgpu_links *solver_links_;
    milcgpu_fatlink_spec how_;
    examples::Cells origin_; // the last cells of each row of the history
    milcgpu_loops loops_;
    milcgpu_gauge *gauge_ = nullptr;
    uint64_t links_version_ = 0;
    reference::Rng rng_;
    std::vector<double> phi_, saved_; // saved_: the last accepted links
    size_t even_ = 0;                 // reals of a vector on this rank's even sites, which come first
    std::vector<std::vector<double>> solutions_;
    examples::Rational force_, action_, heat_;
    double seconds_[parts] = {};
};

int run(const Settings &s, examples::Job &ranks) {
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    ranks.start(s.grid);
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::Csv csv, history;
    ranks.on_first([&] {
        examples::Cells columns = {"trajectory", "delta_h", "accepted", "plaquette", "seconds"};
        columns.insert(columns.end(), part_names, part_names + parts);
        csv.open("--csv", s.csv, columns);
        history.open("--history", s.history, examples::with_origin({"trajectory", "time", "delta_h"}));
    });
    reference::Lattice lattice{s.size};
    std::vector<double> gauge = examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
                                                             3 * examples::gauge_bytes); // and two copies of the links
    const examples::System system =
        examples::make_system(ranks, lattice, std::move(gauge), examples::action_of(s.action), false);
    std::printf(
        "lattice %d x %d x %d x %d, beta %g, %d flavours of %s quarks of mass %g, trajectories of %g in %d steps\n",
        lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3], s.beta, s.flavours, s.action.c_str(), s.mass, s.length,
        s.steps);
    examples::print_ranks(ranks, lattice);
    Rhmc rhmc(ranks, system, backend, s);
    double sum = 0, squares = 0, plaquette = 0;
    int accepted = 0, counted = 0;
    for (int k = 1; k <= s.warm + s.trajectories; ++k) {
        const bool warm = k <= s.warm;
        const Rhmc::Result r = rhmc.trajectory(warm, history, k);
        std::printf("%4d  delta H %+.6f  %s  plaquette %.6f  %.2f s:", k, r.delta_h,
                    warm         ? "warming up"
                    : r.accepted ? "accepted  "
                                 : "rejected  ",
                    r.plaquette, r.total);
        for (int part = 0; part < parts; ++part)
            std::printf(" %s %.2f", part_names[part], r.seconds[part]);
        std::printf("\n");
        csv.row(k, r.delta_h, r.accepted, r.plaquette, r.total, r.seconds);
        if (warm)
            continue;
        ++counted, accepted += r.accepted, plaquette += r.plaquette;
        const double weight = std::exp(-r.delta_h);
        sum += weight, squares += weight * weight;
    }
    if (counted > 1) {
        const double mean = sum / counted, error = std::sqrt((squares / counted - mean * mean) / (counted - 1));
        std::printf("<exp(-delta H)> = %.4f +- %.4f, %d of %d accepted, mean plaquette %.6f\n", mean, error, accepted,
                    counted, plaquette / counted);
    }
    csv.finish();
    history.finish();
    return 0;
}

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("rhmc", "rational hybrid Monte Carlo of staggered quarks");
    add_gauge_field(arguments, s, "gauge field and run", "coupling 10 / g^2 of the gauge action");
    arguments.add("action", "NAME", s.action, "action of the quarks", examples::action_name());
    arguments.add("flavours", "N", s.flavours, "number of degenerate flavours", whole(1, 3));
    arguments.add("mass", "M", s.mass, "quark mass", above(0, 1e6));
    arguments.add("trajectories", "N", s.trajectories, "number of trajectories after the warm-up", whole(0));
    arguments.add("warm", "N", s.warm, "warm-up trajectories, which are always accepted", whole(0));
    arguments.add("length", "T", s.length, "length of a trajectory", above(0, 1e6));
    arguments.add("steps", "N", s.steps, "steps of a trajectory", whole(1));
    arguments.add("poles", "N", s.poles, "poles of each rational function", whole(2, 12));
    arguments.add("tolerance", "R", s.tolerance, "relative residual of every solve", inside(0, 1));
    examples::add_backend(arguments, s.backend, false);
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write a table with a line per trajectory", file_name());
    arguments.add("history", "FILE", s.history,
                  "write delta H within the trajectories into this file (costs one more solve per step)", file_name());
    return arguments.parse(argc, argv);
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
