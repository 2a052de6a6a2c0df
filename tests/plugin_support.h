// A MILC for tests of the plugin (milc_glue/api/plugin.h) in this process: fields on a small lattice, calls with them,
// and what is said on stderr. One plugin a process: every test starts it anew.
#pragma once
#include "milc_glue/routines/solve.h"
#include "tests/environment.h"
#include "tests/support.h"
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <unistd.h>

namespace tests {

using namespace milcgpu;

// What `work` writes to stderr.
std::string said_by(const std::function<void()> &work);

inline const char *backend_name(Backend backend) { return backend == Backend::cuda ? "cuda" : "host"; }

// MILC's fields on a small lattice, and calls of the plugin with them.
struct Milc {
    reference::Lattice lattice;
    std::vector<int> order;
    reference::Fermion b;
    tests::AsqtadLinks links;
    std::vector<double> fat, lng, source, x;
    milcgpu_solve_report report{};

    explicit Milc(const reference::Lattice &on = {{4, 4, 4, 4}});
    Milc(const Milc &) = delete;
    ~Milc();

    milcgpu_milc described() const;
    int start() const {
        const milcgpu_milc milc = described();
        return milcgpu_plugin_start(&milc);
    }
    static milcgpu_field field(std::vector<double> &v) { return {v.data(), MILCGPU_DOUBLE, 0}; }
    milcgpu_plugin_solve_call call();
    int solve() {
        x.assign(x.size(), 0);
        const milcgpu_plugin_solve_call c = call();
        return milcgpu_plugin_solve(&c, &report);
    }
    // |b - A x| / |b| on even sites, with MILC's links, by the reference.
    double residual(const std::vector<double> &solution, double mass) const;
};

// Several masses, as ks_multicg_offset_field asks for them.
struct Masses {
    Milc &milc;
    std::vector<double> offsets, tolerances, relative;
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_field> fields;
    std::vector<milcgpu_shift_report> shifts;
    milcgpu_multi_mass_report report{};

    Masses(Milc &of, std::vector<double> masses, double tolerance);
    milcgpu_plugin_multi_mass_call call();
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
