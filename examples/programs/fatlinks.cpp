// Makes fat and long links, asqtad and HISQ, in each precision on every backend, times this, and compares the links
// with the independent reference. Exit status: 0 if all agree, 1 if one differs, 2 for bad arguments.
#include "examples/lib/arguments.h"
#include "examples/lib/system.h"
#include <cmath>
#include <cstdio>

namespace {

struct Settings {
    std::string lattice_file, csv, backend = "all", action = "all";
    std::array<int, 4> size = {8, 8, 8, 16}, grid = {1, 1, 1, 1};
    double beta = 6.0;
    int sweeps = 20, repeat = 3;
    unsigned long seed = 1;
    bool no_reference = false, keep = false, pin = false;
};

bool read_settings(int argc, char **argv, Settings &s) {
    using namespace examples;
    Arguments arguments(
        "fatlinks",
        "makes fat and long links from a gauge field, times this, and compares the links with the reference");
    add_gauge_field(arguments, s, "gauge field");
    arguments.add("action", "NAME", s.action, "the links to make", one_of({"all", "asqtad", "hisq"}));
    examples::add_backend(arguments, s.backend, true);
    arguments.add("repeat", "N", s.repeat, "number of calls; the fastest is printed", whole(1));
    arguments.add("keep", "", s.keep, "leave the links on the device (no copies back, hence no comparison)");
    arguments.add("pin", "", s.pin, "pin the host's fields, as a program with many calls would");
    arguments.add("no-reference", "", s.no_reference, "do not compare with the CPU reference");
    examples::Job::add_grid(arguments, s.grid);
    arguments.add("csv", "FILE", s.csv, "write the table into this file", file_name());
    return arguments.parse(argc, argv);
}

struct Output {
    examples::Csv csv;
    bool all_well = true;
    void line(const char *backend, const char *action, const char *precision, int reals, bool compared,
              double fat_error, double long_error, double limit, const milcgpu_fatlink_report &r) {
        const bool well = r.status == MILCGPU_OK && (!compared || (fat_error <= limit && long_error <= limit));
        all_well = all_well && well;
        const std::string fat = examples::shown(fat_error, 1, compared), lng = examples::shown(long_error, 1, compared);
        std::printf("%-8s %-7s %-7s %5d %10s %10s %11.3f %11.3f %9.1f %9.1f  %llu%s\n", backend, action, precision,
                    reals, fat.c_str(), lng.c_str(), r.kernel_seconds * 1e3, r.seconds * 1e3, r.gflops,
                    r.gbytes_per_second, static_cast<unsigned long long>(r.svd_links), well ? "" : "  OFF");
        if (r.message[0] != '\0')
            std::printf("         %s\n", r.message);
        csv.row(backend, action, precision, reals, fat, lng, r.kernel_seconds * 1e3, r.seconds * 1e3, r.gflops,
                r.gbytes_per_second, r.svd_links);
    }
};

// Real: the type of MILC's links.
template <class Real>
void make(const examples::Job &ranks, milcgpu_context *context, const examples::System &system, int reals,
          const char *backend, const Settings &s, Output &out) {
    std::vector<Real> gauge(system.own.begin(), system.own.end());
    std::vector<Real> fat(gauge.size()), lng(gauge.size());
    const milcgpu_field from = examples::field_of(gauge), to_fat = examples::field_of(fat),
                        to_long = examples::field_of(lng);
    std::vector<Real> *const fields[] = {&gauge, &fat, &lng};
    for (std::vector<Real> *field : fields)
        if (s.pin && milcgpu_memory_pin(context, field->data(), field->size() * sizeof(Real)) != MILCGPU_OK)
            throw std::runtime_error(milcgpu_last_error());
    milcgpu_fatlink_spec spec = examples::link_spec(system);
    spec.reconstruct = reals;
    milcgpu_links *links = nullptr;
    const milcgpu_fatlink_set set{0, s.keep ? nullptr : &to_fat, s.keep ? nullptr : &to_long, &links};
    milcgpu_fatlink_report best{};
    for (int k = 0; k < s.repeat; ++k) {
        milcgpu_fatlink_report report{};
        report.struct_size = sizeof report;
        ranks.together();
        milcgpu_links_make(context, &spec, &from, &set, 1, nullptr, &report);
        const double flops = ranks.sum(report.gflops * report.kernel_seconds),
                     bytes = ranks.sum(report.gbytes_per_second * report.kernel_seconds);
        report.kernel_seconds = ranks.slowest(report.kernel_seconds);
        report.seconds = ranks.slowest(report.seconds);
        report.gflops = flops / report.kernel_seconds;
        report.gbytes_per_second = bytes / report.kernel_seconds;
        report.svd_links = static_cast<uint64_t>(ranks.sum(static_cast<double>(report.svd_links)));
        if (k == 0 || report.seconds < best.seconds)
            best = report;
    }
    milcgpu_links_destroy(links);
    for (std::vector<Real> *field : fields)
        if (s.pin)
            milcgpu_memory_unpin(context, field->data());
    double fat_error = NAN, long_error = NAN;
    std::vector<Real> all_fat, all_long;
    if (!s.no_reference && !s.keep) {
        all_fat = ranks.collect(system.lattice, fat, 72);
        all_long = ranks.collect(system.lattice, lng, 72);
    }
    const bool compares = !system.fat.empty() && !s.keep;
    if (compares) {
        fat_error =
            reference::relative_difference(reference::links_from_milc<Real>(system.lattice, all_fat), system.fat);
        long_error =
            reference::relative_difference(reference::links_from_milc<Real>(system.lattice, all_long), system.lng);
    }
    out.line(backend, system.action == examples::Action::hisq ? "hisq" : "asqtad",
             sizeof(Real) == 8 ? "double" : "single", best.reconstruct, compares, fat_error, long_error,
             sizeof(Real) == 8 ? 1e-13 : 2e-6, best);
}

int run(const Settings &s, examples::Job &ranks) {
    ranks.start(s.grid);
    const std::vector<int> backends = examples::backends_of(ranks, s.backend);
    Output out;
    ranks.on_first([&] {
        out.csv.open("--csv", s.csv,
                     {"backend", "action", "precision", "reals", "fat_error", "long_error", "kernel_ms", "ms", "gflops",
                      "gbytes_per_second", "svd_links"});
    });
    reference::Lattice lattice{s.size};
    const std::vector<double> gauge = examples::read_or_make_gauge(
        ranks, s.lattice_file, lattice, s.beta, s.seed, s.sweeps,
        (s.no_reference ? 3 : 5) * examples::gauge_bytes); // fat and long links, each twice
    const auto &n = lattice.n;
    std::printf("lattice %d x %d x %d x %d\n", n[0], n[1], n[2], n[3]);
    examples::print_ranks(ranks, lattice);
    std::printf("\n");
    std::printf("%-8s %-7s %-7s %5s %10s %10s %11s %11s %9s %9s  %s\n", "backend", "action", "prec", "reals",
                "fat error", "long error", "kernels ms", "call ms", "GFLOPS", "GB/s", "by singular values");
    for (const char *action : {"asqtad", "hisq"}) {
        if (s.action != "all" && s.action != action)
            continue;
        const examples::System system =
            examples::make_system(ranks, lattice, gauge, examples::action_of(action), !s.no_reference);
        for (const int backend : backends) {
            const milcgpu_layout layout = ranks.layout(lattice);
            const milcgpu_options options = examples::options_for(backend);
            milcgpu_context *context = nullptr;
            if (milcgpu_context_create(&layout, &options, &context) != MILCGPU_OK)
                throw std::runtime_error(milcgpu_last_error());
            for (const int reals : {18, 12}) {
                make<double>(ranks, context, system, reals, examples::backend_name(backend), s, out);
                make<float>(ranks, context, system, reals, examples::backend_name(backend), s, out);
            }
            milcgpu_context_destroy(context);
        }
    }
    out.csv.finish();
    std::printf("\n%s\n", !out.all_well              ? "some links are WRONG"
                          : s.keep || s.no_reference ? "all calls succeeded; no links were compared with the reference"
                                                     : "all links agree with the reference");
    return out.all_well ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) { return examples::run_on_ranks(argc, argv, read_settings, run); }
