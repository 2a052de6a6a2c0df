// A MILC for tests of the plugin (milc_glue/api/plugin.h) in this process: fields on a small lattice, calls with them,
// and what is said on stderr. One plugin a process: every test starts it anew.
#pragma once
#include "milc_glue/plugin/solve.h"
#include "tests/environment.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <unistd.h>

namespace tests {

using namespace milcgpu;

// What `work` writes to stderr.
inline std::string said_by(const std::function<void()> &work) {
    std::fflush(stderr);
    const int before = dup(2);
    FILE *file = std::tmpfile();
    REQUIRE(file != nullptr);
    dup2(fileno(file), 2);
    work();
    std::fflush(stderr);
    dup2(before, 2);
    close(before);
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
        text += static_cast<char>(c);
    std::fclose(file);
    return text;
}

inline const char *backend_name(Backend backend) { return backend == Backend::cuda ? "cuda" : "host"; }

// MILC's fields on a small lattice, and calls of the plugin with them.
struct Milc {
    reference::Lattice lattice;
    std::vector<int> order;
    reference::Fermion b;
    tests::AsqtadLinks links;
    std::vector<double> fat, lng, source, x;
    milcgpu_solve_report report{};

    explicit Milc(const reference::Lattice &on = {{4, 4, 4, 4}})
        : lattice(on), order(on.volume()), b(tests::random_fermion(on, 4)), links(tests::asqtad_links(on, 6)) {
        for (int k = 0; k < lattice.volume(); ++k)
            order[k] = k;
        fat = reference::links_to_milc<double>(lattice, links.fat);
        lng = reference::links_to_milc<double>(lattice, links.lng);
        source = reference::vector_to_milc<double>(lattice, b);
        x.assign(source.size(), 0);
    }
    Milc(const Milc &) = delete;
    ~Milc() {
        plugin().close();
        plugin().verbosity = 0; // no tables after those of the tests
    }

    milcgpu_milc described() const {
        auto milc = sized<milcgpu_milc>();
        milc.header_version = MILCGPU_VERSION;
        milc.milc = "a test";
        milc.precision = 2;
        milc.ranks = 1;
        std::copy(lattice.n.begin(), lattice.n.end(), milc.extent);
        milc.own_routines = 1;
        milc.report_sizes = milcgpu_sizes_of_reports();
        milc.site_map = order.data();
        return milc;
    }
    int start() const {
        const milcgpu_milc milc = described();
        return milcgpu_plugin_start(&milc);
    }
    static milcgpu_field field(std::vector<double> &v) { return {v.data(), MILCGPU_DOUBLE, 0}; }
    milcgpu_plugin_solve_call call() {
        milcgpu_plugin_solve_call c{};
        c.routine = MILCGPU_KS_CONGRAD;
        c.mixed = MILCGPU_MIXED_AUTO;
        c.fat = fat.data(), c.lng = lng.data();
        c.parity = MILCGPU_EVEN;
        c.mass = 0.4;
        c.tolerance = 1e-8;
        c.max_iterations = 1000, c.max_restarts = 5;
        c.source = field(source), c.solution = field(x);
        return c;
    }
    int solve() {
        x.assign(x.size(), 0);
        const milcgpu_plugin_solve_call c = call();
        return milcgpu_plugin_solve(&c, &report);
    }
    // |b - A x| / |b| on even sites, with MILC's links, by the reference.
    double residual(const std::vector<double> &solution, double mass) const {
        const auto to = [&](const std::vector<double> &links_of_milc) {
            reference::Gauge out(4 * lattice.volume());
            const auto sites = reference::milc_order(lattice);
            for (int k = 0; k < lattice.volume(); ++k)
                std::copy_n(links_of_milc.data() + 72 * static_cast<size_t>(k), 72,
                            reinterpret_cast<double *>(&out[4 * static_cast<size_t>(sites[k])]));
            return out;
        };
        reference::Fermion field(lattice.volume());
        const auto sites = reference::milc_order(lattice);
        for (int k = 0; k < lattice.volume(); ++k)
            std::copy_n(solution.data() + 6 * static_cast<size_t>(k), 6, reinterpret_cast<double *>(&field[sites[k]]));
        const auto ax = reference::normal_operator(lattice, to(fat), to(lng), mass, 0, field);
        double rr = 0, bb = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            if (lattice.parity(s) == 0) {
                rr += reference::norm2(b[s] - ax[s]);
                bb += reference::norm2(b[s]);
            }
        return std::sqrt(rr / bb);
    }
};

// Several masses, as ks_multicg_offset_field asks for them.
struct Masses {
    Milc &milc;
    std::vector<double> offsets, tolerances, relative;
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_field> fields;
    std::vector<milcgpu_shift_report> shifts;
    milcgpu_multi_mass_report report{};

    Masses(Milc &of, std::vector<double> masses, double tolerance)
        : milc(of), tolerances(masses.size(), tolerance), relative(masses.size(), 0),
          x(masses.size(), std::vector<double>(of.x.size(), 0)), shifts(masses.size()) {
        for (size_t i = 0; i < masses.size(); ++i) {
            offsets.push_back(4 * masses[i] * masses[i]);
            fields.push_back(Milc::field(x[i]));
        }
    }
    milcgpu_plugin_multi_mass_call call() {
        milcgpu_plugin_multi_mass_call c{};
        c.mixed = MILCGPU_MIXED_AUTO;
        c.fat = milc.fat.data(), c.lng = milc.lng.data();
        c.parity = MILCGPU_EVEN;
        c.n_shifts = static_cast<int>(offsets.size());
        c.offsets = offsets.data(), c.tolerances = tolerances.data(), c.relative_tolerances = relative.data();
        c.max_iterations = 1000, c.max_restarts = 5;
        c.source = Milc::field(milc.source);
        c.solutions = fields.data();
        return c;
    }
    int solve() {
        const milcgpu_plugin_multi_mass_call c = call();
        return milcgpu_plugin_multi_mass(&c, shifts.data(), &report);
    }
    double worst_residual() const {
        double worst = 0;
        for (size_t i = 0; i < x.size(); ++i)
            worst = worse(worst, milc.residual(x[i], 0.5 * std::sqrt(offsets[i])));
        return worst;
    }
};

} // namespace tests
