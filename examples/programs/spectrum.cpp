// Masses of pion, rho and nucleon on gauge fields from files or from a heat bath: Coulomb gauge fixing, HISQ or asqtad
// links, propagators from wall and from smeared sources, correlators, effective masses with jackknife errors. hadrons.h
// has the formulas. Prints a table, and with --csv also writes it into a file, which spectrum.gp draws.
//
// It checks the residual of M G = eta, Goldstone's Ward identity, and the contraction by a sum on the host. On unit
// links (--sweeps 0) it also compares every correlator of the wall with free quarks. Exit status: 0, or 1 if a check or
// a call failed, 2 for bad arguments.
#include "examples/lib/hadrons.h"
#include "examples/lib/heatbath.h"
#include "examples/lib/progress.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace {

using examples::ArgumentError;
using examples::Correlator;
using examples::Estimate;
using examples::Hadron;
using examples::ProgressLine;
using reference::Gauge;

struct Settings {
    std::string lattice_files, csv, backend = "auto", action = "hisq", masses = "0.1", source = "both", wall = "corner",
                                    precisions = "double/single";
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0, tolerance = 1e-10, width = 2;
    int sweeps = 60, configurations = 1, between = 20, sources_in_time = 1, first_slice = 0, smear_steps = 20;
    unsigned long seed = 1, transform = 0;
    bool not_fixed = false, octets = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The gauge fields, one after the other.
class GaugeFields {
  public:
    GaugeFields(const examples::Job &ranks, const Settings &s, ProgressLine &progress)
        : ranks_(ranks), settings_(s), progress_(progress),
          files_(s.lattice_files.empty() ? std::vector<std::string>() : examples::between_commas(s.lattice_files)),
          lattice_{s.size} {
        constexpr double bytes_a_site = 3 * examples::gauge_bytes; // and two copies of the links
        if (files_.empty()) {
            examples::check_lattice(ranks, lattice_, bytes_a_site / ranks.size());
            return;
        }
        first_ = examples::read_or_make_gauge(ranks, files_[0], lattice_, 0, 0, 0, bytes_a_site);
        for (int k = 1; k < count(); ++k) // all files are checked before the first measurement
            from_file(k);
    }
    const reference::Lattice &lattice() const { return lattice_; }
    int count() const { return files_.empty() ? settings_.configurations : int(files_.size()); }
    double seconds() const { return seconds_; } // of the heat bath

    // This rank's links without phases. Call it for 0 to count() - 1, in this order.
    std::vector<double> take(int k) {
        std::vector<double> own = files_.empty() ? by_heat_bath(k) : k == 0 ? std::move(first_) : from_file(k);
        if (settings_.transform == 0)
            return own;
        const std::vector<double> whole = ranks_.collect(lattice_, own, 72);
        Gauge result;
        ranks_.on_first([&] {
            result = reference::transform_links(lattice_,
                                                reference::random_transformation(lattice_, settings_.transform + k),
                                                reference::links_from_milc<double>(lattice_, whole), 1);
        });
        return examples::deal_links<double>(ranks_, lattice_, result);
    }

  private:
    std::vector<double> from_file(int k) {
        if (examples::lattice_of(ranks_, files_[k]).n != lattice_.n)
            throw std::runtime_error(milcgpu::quoted_name(files_[k]) + " has extents that differ from " +
                                     milcgpu::quoted_name(files_[0]));
        return examples::read_box(ranks_, lattice_, files_[k]);
    }
    std::vector<double> by_heat_bath(int k) {
        const auto start = std::chrono::steady_clock::now();
        milcgpu::wait_passively();
        if (k == 0)
            box_ = std::make_unique<examples::LinkBox>(examples::link_box(ranks_, lattice_));
        while (done_ < settings_.sweeps + k * settings_.between) {
            examples::heatbath_sweep(*box_, settings_.beta, settings_.seed, ++done_);
            for (int times = 0; times < 4; ++times)
                examples::overrelax_sweep(*box_);
            const auto parts = examples::plaquettes(ranks_, lattice_, *box_);
            progress_.show("heat bath: step %d, %.3e", done_, (parts.space_space + parts.space_time) / 2);
        }
        seconds_ += seconds_since(start);
        return box_->own();
    }

    const examples::Job &ranks_;
    const Settings &settings_;
    ProgressLine &progress_;
    std::vector<std::string> files_;
    reference::Lattice lattice_;
    std::vector<double> first_;              // of the files
    std::unique_ptr<examples::LinkBox> box_; // of the heat bath
    int done_ = 0;                           // sweeps
    double seconds_ = 0;
};

// The worst value of each check, and its limit.
class Checks {
  public:
    void add(const char *what, double value, double limit) {
        for (Check &check : checks_)
            if (check.what == what) {
                if (!(value / limit <= check.value / check.limit) && !std::isnan(check.value)) // NaN is the worst
                    check.value = value, check.limit = limit;
                return;
            }
        checks_.push_back({what, value, limit});
    }
    // The exit status.
    int finish() const {
        bool well = true;
        for (const Check &check : checks_) {
            const bool good = check.value <= check.limit;
            std::printf("%-58s %8.1e, allowed %8.1e%s\n", check.what.c_str(), check.value, check.limit,
                        good ? "" : "  WRONG");
            well = well && good;
        }
        std::printf(well ? "every check is right\n" : "some checks are WRONG\n");
        return well ? 0 : 1;
    }

  private:
    struct Check {
        std::string what;
        double value, limit;
    };
    std::vector<Check> checks_;
};

// For a mass and a source: the correlators of each configuration and slice.
using Samples = std::vector<Correlator>;
struct Series {
    double mass;
    std::string source;
    std::vector<Samples> of[examples::n_hadrons];
};

// The means over slices of each configuration, or the slices of a single one.
Samples samples_of(const std::vector<Samples> &configurations) {
    if (configurations.size() == 1)
        return configurations[0];
    Samples means;
    for (const Samples &slices : configurations) {
        means.emplace_back(slices.at(0).size(), 0.0);
        for (const Correlator &c : slices)
            for (size_t t = 0; t < c.size(); ++t)
                means.back()[t] += c[t] / double(slices.size());
    }
    return means;
}

double effective_mass(Hadron hadron, const Correlator &mean, int t) {
    const Correlator c = examples::folded(mean, hadron == examples::nucleon);
    return hadron == examples::pion  ? examples::meson_mass(c, t)
           : hadron == examples::rho ? examples::meson_mass_with_partner(c, t)
                                     : examples::nucleon_mass(c, t);
}

void print_number(const char *format, int width, double value) {
    std::isfinite(value) ? std::printf(format, value) : std::printf("%*s", width, "-");
}

// origin: the last cells of each row.
void print(const Series &series, examples::Csv &csv, const examples::Cells &origin) {
    Samples samples[examples::n_hadrons];
    for (int k = 0; k < examples::n_hadrons; ++k)
        samples[k] = samples_of(series.of[k]);
    std::printf("\nquark mass %g, %s source; errors from %zu %s\n%3s", series.mass, series.source.c_str(),
                samples[0].size(), series.of[0].size() > 1 ? "configurations" : "slice(s) of one configuration", "t");
    for (const char *name : examples::hadron_names)
        std::printf(" %11s %8s %7s %7s ", name, "+-", "mass", "+-");
    std::printf("\n");
    std::ostringstream mass; // a short label
    mass << series.mass;
    const int nt = int(samples[0].at(0).size());
    for (int t = 0; t < nt; ++t) {
        if (t <= nt / 2)
            std::printf("%3d", t);
        for (int k = 0; k < examples::n_hadrons; ++k) {
            const Hadron hadron = Hadron(k);
            const Estimate c = examples::jackknife(samples[k], [&](const Correlator &mean) { return mean[t]; });
            const Estimate m = examples::jackknife(
                samples[k], [&](const Correlator &mean) { return effective_mass(hadron, mean, t); });
            csv.row(mass.str(), series.source, examples::hadron_names[k], t, c.value, c.error, m.value, m.error,
                    origin);
            if (t > nt / 2)
                continue;
            print_number(" %11.4e", 12, c.value);
            print_number(" %8.1e", 9, c.error);
            print_number(" %7.4f", 8, m.value);
            print_number(" %7.4f ", 8, m.error);
        }
        if (t <= nt / 2)
            std::printf("\n");
    }
}

// Correlators of the wall on unit links, where each quark is constant, or alternates, in space.
void check_free(const reference::Lattice &lattice, const examples::HadronSpec &spec, double mass,
                const examples::HadronResult &wall, Checks &checks) {
    const int nt = lattice.n[3];
    const std::vector<double> g = examples::free_quark(nt, mass);
    const double sites = double(lattice.volume()) / nt, corners = sites / 8;
    const double on = spec.shape == examples::Wall::full   ? sites
                      : spec.shape == examples::Wall::even ? sites / 2
                                                           : corners;
    const double size[] = {3 * on, spec.shape == examples::Wall::corner ? 3 * corners : 0, corners};
    double worst = 0, largest[examples::n_hadrons] = {};
    for (int t = 0; t < nt; ++t)
        for (int k = 0; k < examples::n_hadrons; ++k) {
            const double power = k == examples::nucleon ? std::pow(g[t], 3) : g[t] * g[t];
            largest[k] = std::max(largest[k], std::fabs(power) * std::max(size[k], corners));
            worst = examples::worse(worst, std::fabs(wall.of[k][t] - size[k] * power));
        }
    worst /= *std::min_element(largest, largest + examples::n_hadrons);
    checks.add("correlators of free quarks, relative to the largest", worst, 1e-11 + 10 * spec.tolerance / mass);
}

examples::HadronSpec spec_of(const Settings &s, ProgressLine &progress) {
    examples::HadronSpec spec{};
    spec.wall = s.source != "smeared", spec.smeared = s.source != "wall";
    spec.shape = s.wall == "corner" ? examples::Wall::corner
                 : s.wall == "even" ? examples::Wall::even
                                    : examples::Wall::full;
    spec.fix_gauge = spec.wall && !s.not_fixed;
    spec.width = s.width, spec.smear_steps = s.smear_steps;
    spec.tolerance = s.tolerance;
    spec.how = examples::pair_of(s.precisions);
    spec.progress = [&](const char *what, int step, double value) {
        progress.show("%s: step %d, %.3e", what, step, value);
    };
    return spec;
}

// Correlators of all masses and sources, configuration by configuration.
class Spectrum {
  public:
    Spectrum(const examples::Job &ranks, const reference::Lattice &lattice, const Settings &s,
             examples::HadronSpec spec, std::vector<double> masses, int configurations, int backend,
             ProgressLine &progress)
        : ranks_(ranks), lattice_(lattice), settings_(s), spec_(spec), masses_(std::move(masses)), progress_(progress),
          hadrons_(ranks, lattice, examples::action_of(s.action), backend, std::move(spec)) {
        for (const double mass : masses_)
            for (const std::string &source : {s.wall + "-wall", std::string("smeared")})
                if (source == "smeared" ? spec_.smeared : spec_.wall) {
                    series_.push_back({mass, source, {}});
                    for (auto &of_each : series_.back().of)
                        of_each.resize(configurations);
                }
    }

    void measure(int k, std::vector<double> gauge) {
        const examples::Hadrons::Loaded loaded = hadrons_.load(std::move(gauge));
        progress_.clear();
        std::printf("configuration %d of %zu: plaquette %.6f", k + 1, series_[0].of[0].size(), loaded.plaquette);
        if (spec_.fix_gauge)
            std::printf(", Coulomb gauge after %d steps, mean trace %.6f", loaded.fix_steps, loaded.fix_mean);
        std::printf("\n");
        if (settings_.octets && k == 0)
            std::printf("memory of octets and their tie-ups:\n%s",
                        hadrons_.octets_plan(masses_.size() > 1 ? 2 : 1).c_str());
        const int nt = lattice_.n[3];
        for (int n = 0; n < settings_.sources_in_time; ++n)
            measure_slice(k, (settings_.first_slice + n * nt / settings_.sources_in_time) % nt, loaded.free);
        for (const double mass : masses_)
            if (loaded.free) {
                const double energy = examples::free_energy(mass);
                std::printf("  free quarks of mass %g have energy %.6f: pion and rho %.6f, nucleon %.6f\n", mass,
                            energy, 2 * energy, 3 * energy);
            }
    }

    // Tables and times. The exit status.
    int finish(double heat_bath_seconds, examples::Csv &csv) const {
        for (const Series &series : series_)
            print(series, csv, examples::origin_cells(lattice_.n, hadrons_.device_name()));
        csv.finish();
        std::printf("\nseconds: heat bath %.2f", ranks_.slowest(heat_bath_seconds));
        for (int part = 0; part < examples::Hadrons::n_parts; ++part)
            std::printf(", %s %.2f", examples::Hadrons::part_names[part], ranks_.slowest(hadrons_.seconds()[part]));
        std::printf("\n");
        return checks_.finish();
    }

  private:
    // Baryons of two quarks of the first mass and one of the last.
    void measure_octets(int slice) {
        constexpr int n = sizeof examples::Hadrons::classes / sizeof *examples::Hadrons::classes;
        const auto light = hadrons_.make_octet(masses_.front(), slice);
        examples::Hadrons::Octet last;
        if (masses_.size() > 1)
            last = hadrons_.make_octet(masses_.back(), slice);
        const auto &other = masses_.size() > 1 ? last : light;
        const std::vector<Correlator> all = hadrons_.golterman_bailey(light, other, slice);
        progress_.clear();
        checks_.add("|eta - M G| / |eta| of octets", examples::worse(light.residual, other.residual), spec_.tolerance);
        std::printf("octets at t = %d: %d and %d steps. Operators 16+ M1/2, masses %g %g %g\n%3s", slice, light.steps,
                    other.steps, masses_.front(), masses_.front(), masses_.back(), "t");
        for (const char *name : examples::Hadrons::classes)
            std::printf(" %13s", name);
        for (int t = 0; t < lattice_.n[3]; ++t) {
            std::printf("\n%3d", t);
            for (int k = 0; k < n; ++k)
                std::printf(" %13.6e", all[k * n + k][t]);
        }
        std::printf("\n");
    }

    void measure_slice(int k, int slice, bool free) {
        if (settings_.octets)
            measure_octets(slice);
        hadrons_.make_sources(slice);
        for (size_t at = 0; at < series_.size();) {
            const double mass = series_[at].mass;
            const auto start = std::chrono::steady_clock::now();
            const std::vector<examples::HadronResult> results = hadrons_.measure(mass);
            progress_.clear();
            double residual = 0;
            for (const examples::HadronResult &r : results) {
                for (int h = 0; h < examples::n_hadrons; ++h)
                    series_[at].of[h][k].push_back(r.of[h]);
                ++at;
                residual = examples::worse(residual, r.residual);
                checks_.add("|eta - M G| / |eta|", r.residual, spec_.tolerance);
                checks_.add("Ward identity, sum |G|^2 = Re <eta, G> / 2m", r.ward, r.ward_limit);
                checks_.add("pion, contracted and summed on the host", r.norm, 1e-12);
            }
            std::printf("  source at t = %d, mass %g: %d steps, residual %.1e, %.2f s\n", slice, mass, results[0].steps,
                        residual, seconds_since(start));
            if (free && spec_.wall)
                check_free(lattice_, spec_, mass, results[0], checks_);
        }
    }

    const examples::Job &ranks_;
    reference::Lattice lattice_;
    const Settings &settings_;
    examples::HadronSpec spec_;
    std::vector<double> masses_;
    ProgressLine &progress_;
    examples::Hadrons hadrons_;
    std::vector<Series> series_; // for each mass and source
    Checks checks_;
};

int run(const Settings &s, examples::Job &ranks) {
    const auto masses = examples::list_of<double>(s.masses);
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    ranks.start(s.grid);
    const int backend = examples::backends_of(ranks, s.backend)[0];
    examples::Csv csv(17);
    ranks.on_first([&] {
        csv.open("--csv", s.csv,
                 examples::with_origin({"quark_mass", "source", "hadron", "t", "correlator", "error", "effective_mass",
                                        "error_of_mass"}));
    });
    ProgressLine progress(ranks.is_first());
    const examples::HadronSpec spec = spec_of(s, progress);
    GaugeFields fields(ranks, s, progress);
    const reference::Lattice lattice = fields.lattice();
    const int nt = lattice.n[3];
    if (s.first_slice >= nt)
        throw ArgumentError("--first-slice must be below the extent in time, " + std::to_string(nt));
    if (nt % s.sources_in_time != 0)
        throw ArgumentError("--sources-in-time must divide the extent in time, " + std::to_string(nt));
    std::printf("lattice %d x %d x %d x %d, %s quarks, %d configuration(s), %d source(s) in time each\n", lattice.n[0],
                lattice.n[1], lattice.n[2], nt, s.action.c_str(), fields.count(), s.sources_in_time);
    examples::print_ranks(ranks, lattice);
    Spectrum spectrum(ranks, lattice, s, spec, masses, fields.count(), backend, progress);
    for (int k = 0; k < fields.count(); ++k)
        spectrum.measure(k, fields.take(k));
    return spectrum.finish(fields.seconds(), csv);
}

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments("spectrum", "computes correlators and masses of pion, rho and nucleon");
    arguments.add("lattice", "FILE,FILE,...", s.lattice_files,
                  "gauge fields (MILC version 5 or SciDAC); without files the program makes them by heat bath",
                  list_of_each(file_name()));
    arguments.add_size(s.size, "extents of fields that the program makes");
    arguments.add("beta", "B", s.beta, "coupling 6/g^2 of these fields", above(0, 1e6));
    arguments.add("sweeps", "N", s.sweeps, "heat-bath sweeps before the first field; 0: unit links, free quarks",
                  whole(0));
    arguments.add("configurations", "N", s.configurations, "number of fields to make", whole(1));
    arguments.add("between", "N", s.between, "sweeps between two fields", whole(1));
    arguments.add("seed", "N", s.seed, "seed of the fields");
    arguments.exclude("size", "lattice"), arguments.exclude("sweeps", "lattice");
    arguments.add("transform", "SEED", s.transform, "seed of a random gauge transformation, for tests; 0: none");
    arguments.add("action", "NAME", s.action, "action of the quarks", action_name());
    arguments.add("masses", "M,M,...", s.masses, "quark masses", list_of_each(above(0, 1e6)));
    arguments.add("source", "NAME", s.source, "quark sources; for smeared sources the sinks are smeared, too",
                  one_of({"wall", "smeared", "both"}));
    arguments.add("wall", "NAME", s.wall, "sites of the wall", one_of({"corner", "even", "full"}));
    arguments.add("not-fixed", "", s.not_fixed, "no Coulomb gauge fixing for the wall");
    arguments.add("width", "W", s.width, "width of the Gaussian of smeared quarks, in lattice spacings", from(0, 1e6));
    arguments.add("smear-steps", "N", s.smear_steps, "steps of smearing", whole(0));
    arguments.add("octets", "", s.octets,
                  "also Golterman-Bailey baryons, of eight corner walls for the first and the last mass");
    arguments.add("sources-in-time", "N", s.sources_in_time, "number of time slices with sources, evenly spread",
                  whole(1));
    arguments.add("first-slice", "T", s.first_slice, "the first of these slices", whole(0));
    arguments.add("tolerance", "R", s.tolerance, "|eta - M G| / |eta| of every propagator", inside(0, 1));
    arguments.add("precisions", "P", s.precisions, "precisions of the solves", pair_name(false));
    add_backend(arguments, s.backend, false);
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write the correlators and masses of pion, rho and nucleon into this file",
                  file_name());
    return arguments.parse(argc, argv);
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
