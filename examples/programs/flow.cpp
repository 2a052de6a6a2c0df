// Gradient flow of a gauge field (from a file or thermalized). Prints MILC's GFLOW lines, the scales t0 and w0 and the
// topological charge. Writes a table, which flow.gp draws. With --stout it smears first. Exit status: 0, or 1 after a
// failure.
#include "examples/lib/flow_scales.h"
#include "examples/lib/lattice_file.h"
#include "examples/lib/progress.h"
#include "examples/lib/system.h"
#include "milc_glue/api/milcgpu_file.h"
#include "milc_glue/api/milcgpu_flow.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <unistd.h>

namespace {

using examples::must;

struct Settings {
    std::string lattice_file, csv, out, backend = "auto", action = "wilson", integrator = "luscher",
                                        precision = "double";
    std::array<int, 4> size = {8, 8, 8, 8}, grid = {1, 1, 1, 1};
    double beta = 6.0, step = 0.0625, stop = MILCGPU_FLOW_AUTO_STOP, tolerance = 1e-4, anisotropy = 1, rho = 0.1;
    int sweeps = 60, exp_order = 8, every = 1, most_steps = 100000, stout = 0, stout_directions = 4;
    unsigned long seed = 1;
    bool quiet = false;
};

struct Named {
    const char *name;
    int number;
};
constexpr Named integrators[] = {
    {"luscher", MILCGPU_FLOW_LUSCHER},
    {"ck", MILCGPU_FLOW_CK},
    {"bbb", MILCGPU_FLOW_BBB},
    {"cf3", MILCGPU_FLOW_CF3},
    {"rkmk3", MILCGPU_FLOW_RKMK3},
    {"rkmk4", MILCGPU_FLOW_RKMK4},
    {"rkmk5", MILCGPU_FLOW_RKMK5},
    {"rkmk8", MILCGPU_FLOW_RKMK8},
    {"adpt", MILCGPU_FLOW_ADAPT_LUSCHER},
    {"adpt_bs", MILCGPU_FLOW_ADAPT_BS},
    {"adpt_cf3", MILCGPU_FLOW_ADAPT_CF3},
};
constexpr Named actions[] = {{"wilson", MILCGPU_FLOW_WILSON}, {"symanzik", MILCGPU_FLOW_SYMANZIK}};
constexpr Named precisions[] = {{"double", MILCGPU_DOUBLE}, {"single", MILCGPU_SINGLE}};

template <size_t count> examples::Check name_of(const Named (&known)[count]) {
    std::vector<std::string> names;
    for (const Named &one : known)
        names.push_back(one.name);
    return examples::one_of(names);
}
template <size_t count> int number_of(const std::string &word, const Named (&known)[count]) {
    return std::find_if(known, known + count, [&](const Named &one) { return word == one.name; })->number;
}

// Prints and stores the measurements along the flow.
class Record {
  public:
    Record(const examples::Job &ranks, const Settings &s, examples::Csv &csv, examples::Cells origin)
        : csv_(csv), origin_(std::move(origin)), speaks_(ranks.is_first()), quiet_(s.quiet),
          adaptive_(s.integrator.compare(0, 4, "adpt") == 0), progress_(speaks_ && (quiet_ || !isatty(STDOUT_FILENO))) {
        if (!speaks_)
            return;
        std::printf("#LABEL time Clover_t Clover_s Plaq_t Plaq_s Rect_t Rect_s charge\n");
        if (adaptive_)
            std::printf("#LABEL2 time stepsize distance local_tol/distance\n");
        tolerance_ = s.tolerance;
    }
    static int take(void *self, const milcgpu_flow_point *point) {
        static_cast<Record *>(self)->take(*point);
        return 0;
    }
    const std::vector<examples::FlowValue> &values() const { return values_; }
    void end() { progress_.clear(); }

  private:
    void take(const milcgpu_flow_point &p) {
        const milcgpu_observables &o = p.of;
        const double energy = o.clover_t + o.clover_s, t2e = p.time * p.time * energy;
        values_.push_back({p.time, energy});
        if (!speaks_)
            return;
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        if (!quiet_) {
            std::printf("GFLOW: %.16g %.16g %.16g %.16g %.16g %.16g %.16g %.16g\n", p.time, o.clover_t, o.clover_s,
                        o.plaquette_t, o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge);
            if (adaptive_)
                std::printf("ADAPT: %g %.16g %.16g %.16g\n", p.time, p.step, p.distance,
                            p.steps == 0 ? 0 : tolerance_ / p.distance);
        }
        progress_.show("flow time %.4f, t^2 E %.4f, %d steps, %.1f s", p.time, t2e, p.steps, seconds);
        csv_.row(p.time, o.clover_t, o.clover_s, o.plaquette_t, o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge,
                 t2e, p.step, p.distance, seconds, origin_);
    }

    examples::Csv &csv_;
    examples::Cells origin_; // the last cells of each row
    bool speaks_, quiet_, adaptive_;
    examples::ProgressLine progress_;
    double tolerance_ = 0;
    std::vector<examples::FlowValue> values_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A context with a gauge field.
struct Field {
    milcgpu_context *context = nullptr;
    milcgpu_gauge *gauge = nullptr;
    Field(const milcgpu_layout &layout, int backend, int precision) {
        const milcgpu_options options = examples::options_for(backend);
        must(milcgpu_context_create(&layout, &options, &context));
        if (milcgpu_gauge_create(context, precision, &gauge) != MILCGPU_OK) {
            milcgpu_context_destroy(context);
            throw std::runtime_error(milcgpu_last_error());
        }
    }
    Field(const Field &) = delete;
    ~Field() {
        milcgpu_gauge_destroy(gauge);
        milcgpu_context_destroy(context);
    }
};

template <class Real>
void flow(const examples::Job &ranks, const reference::Lattice &lattice, const std::vector<double> &links,
          const milcgpu_flow_spec &spec, const Settings &s, int backend, examples::Csv &csv) {
    Field field(ranks.layout(lattice), backend, sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE);
    std::vector<Real> own(links.begin(), links.end());
    const milcgpu_field host = examples::field_of(own);
    must(milcgpu_gauge_load(field.gauge, &host, 0));
    const milcgpu_stout_spec stout{sizeof stout, s.rho, s.stout, s.stout_directions, spec.signs};
    must(milcgpu_gauge_stout_smear(field.gauge, &stout, nullptr));
    examples::Cells origin = examples::origin_cells(lattice.n, milcgpu_context_device_name(field.context));
    char beta[32];
    std::snprintf(beta, sizeof beta, "beta %g", s.beta);
    origin.insert(origin.begin(), s.lattice_file.empty() ? beta : std::filesystem::path(s.lattice_file).filename());
    Record record(ranks, s, csv, std::move(origin));
    milcgpu_flow_report report{};
    report.struct_size = sizeof report;
    const milcgpu_status status = milcgpu_gauge_flow(field.gauge, &spec, Record::take, &record, &report);
    const std::string why = milcgpu_last_error(); // after NOT_CONVERGED the points so far are still printed
    record.end();
    if (status != MILCGPU_NOT_CONVERGED)
        must(status);
    const double seconds = ranks.slowest(report.seconds);
    if (ranks.is_first()) {
        std::printf("Number of steps = %d\n", report.last.steps);
        if (spec.integrator >= MILCGPU_FLOW_ADAPT_LUSCHER)
            std::printf("Number of rejected steps = %d\n", report.last.rejected);
        const examples::FlowScales scales = examples::flow_scales(record.values());
        const double half = 0.5 * *std::min_element(lattice.n.begin(), lattice.n.end());
        const auto print = [half](const char *name, const examples::Crossing &scale, const char *more, double second,
                                  double radius) {
            if (scale.is_coarse())
                std::printf("%s: unknown, measurements are too far apart: try a smaller --every, or smaller steps\n",
                            name);
            else if (std::isnan(scale.at))
                std::printf("%s: the flow ended before this scale\n", name);
            else
                std::printf(
                    "%s = %.6f%s %.6f%s\n", name, scale.at, more, second,
                    radius > half ? ", beyond half of the smallest extent: it depends on the size of the lattice" : "");
        };
        const double t0 = scales.t0.at, w0 = scales.w0.at;
        print("t0", scales.t0, " a^2, sqrt(8 t0) / a =", std::sqrt(8 * t0), std::sqrt(8 * t0));
        print("w0", scales.w0, " a, w0^2 / a^2 =", w0 * w0, std::sqrt(8.0) * w0);
        std::printf("charge at the end = %.6f\n", report.last.of.charge);
        std::printf("%.3f s, %.4f s per step, %.0f GFLOPS\n", seconds, seconds / std::max(1, report.last.steps),
                    report.gflops);
    }
    csv.finish();
    if (status != MILCGPU_OK)
        throw std::runtime_error(why);
    if (s.out.empty())
        return;
    must(milcgpu_gauge_save(field.gauge, &host));
    must(milcgpu_gauge_file_write(field.context, s.out.c_str(), &host, nullptr, nullptr));
    if (ranks.is_first())
        std::printf("written: %s\n", milcgpu::quoted_name(s.out).c_str());
}

int run(const Settings &s, examples::Job &ranks) {
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec);
    spec.action = number_of(s.action, actions);
    spec.integrator = number_of(s.integrator, integrators);
    const int precision = number_of(s.precision, precisions);
    spec.exp_order = s.exp_order, spec.step = s.step, spec.stop = s.stop, spec.tolerance = s.tolerance;
    spec.anisotropy = s.anisotropy, spec.every = s.every, spec.most_steps = s.most_steps;
    spec.signs = MILCGPU_SIGNS_OUT; // links from files and from the heat bath
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    ranks.start(s.grid);
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::Csv csv(std::numeric_limits<double>::max_digits10);
    ranks.on_first([&] {
        csv.open("--csv", s.csv,
                 examples::with_origin({"time", "clover_t", "clover_s", "plaquette_t", "plaquette_s", "rectangle_t",
                                        "rectangle_s", "charge", "t2e", "step", "distance", "seconds", "field"}));
        examples::check_writable("--out", s.out);
    });
    reference::Lattice lattice{s.size};
    const std::vector<double> links = examples::read_or_make_gauge(ranks, s.lattice_file, lattice, s.beta, s.seed,
                                                                   s.sweeps, 2 * examples::gauge_bytes); // and a copy
    ranks.on_first([&] { examples::check_writable("--out", s.out, examples::milc_gauge_bytes(lattice)); });
    if (ranks.is_first())
        std::printf("lattice %d x %d x %d x %d, %s flow by %s, step %g, %s precision\n", lattice.n[0], lattice.n[1],
                    lattice.n[2], lattice.n[3], s.action.c_str(), s.integrator.c_str(), s.step, s.precision.c_str());
    examples::print_ranks(ranks, lattice);
    if (precision == MILCGPU_DOUBLE)
        flow<double>(ranks, lattice, links, spec, s, backend, csv);
    else
        flow<float>(ranks, lattice, links, spec, s, backend, csv);
    return 0;
}

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("flow", "runs the gradient flow of a gauge field; prints t0, w0 and the topological charge");
    add_gauge_field(arguments, s, "gauge field");
    arguments.add("action", "NAME", s.action, "action of the flow", name_of(actions));
    arguments.add("integrator", "NAME", s.integrator, "adpt, adpt_bs, adpt_cf3 are adaptive", name_of(integrators));
    arguments.add("step", "E", s.step, "step of flow time; for an adaptive integrator the first step", above(0, 1e6));
    arguments.add(
        "stop", "T", s.stop,
        "flow time at the end; -1: far enough for t0 and w0, but at most until sqrt(8 t) is the largest extent",
        either(from(0, 1e6), one_of({"-1"})));
    arguments.add("tolerance", "R", s.tolerance, "tolerance of an adaptive integrator", above(0, 1e6));
    arguments.add("exp-order", "N", s.exp_order, "order of the series of exp; 0: the whole series", whole(0, 16));
    arguments.add("anisotropy", "XI", s.anisotropy, "anisotropy of the flow", above(0, 1e6));
    arguments.add("every", "N", s.every, "number of steps between measurements", whole(1));
    arguments.add("most-steps", "N", s.most_steps, "the flow fails after this many steps", whole(1));
    arguments.add("stout", "N", s.stout, "number of stout smearings before the flow", whole(0));
    arguments.add("rho", "R", s.rho, "weight of stout smearing", from(0, 1e6));
    arguments.add("stout-directions", "N", s.stout_directions, "4, or 3: in space only", one_of({"3", "4"}));
    arguments.add("precision", "NAME", s.precision, "precision of the links on the device", name_of(precisions));
    examples::add_backend(arguments, s.backend, false);
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write a table with a line per measurement", file_name());
    arguments.add("out", "FILE", s.out, "write the links at the end into this file (MILC version 5)", file_name());
    arguments.add("quiet", "", s.quiet, "print no GFLOW lines");
    if (!arguments.parse(argc, argv))
        return false;
    if (s.integrator.compare(0, 4, "adpt") != 0 && s.stop > s.step * s.most_steps)
        throw ArgumentError("--stop exceeds --most-steps times --step: raise --most-steps or --step");
    return true;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
