// What measurements do to quarks and links, for tests in which something fails on the way. Each has one output, which
// is written at its end.
#pragma once
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include "milc_glue/api/milcgpu_mesons.h"
#include "tests/sized.h"
#include <vector>

namespace measured_steps {

using Reals = std::vector<double>; // in MILC's order

constexpr int correlators = 2;
enum class OfQuarks { four_link_operator, smearing, contraction };

// out: a field (that of smearing is what is smeared), or correlators times T complex numbers.
inline milcgpu_status measure_quarks(OfQuarks what, milcgpu_context *context, const Reals &gauge, const Reals &source,
                                     Reals &out) {
    const auto field = [](const Reals &of) {
        return milcgpu_field{const_cast<double *>(of.data()), MILCGPU_DOUBLE, 0};
    };
    const milcgpu_field from = field(source), made = field(out), u = field(gauge);
    const milcgpu_quarks quarks = {&from, nullptr, 0}, to = {&made, nullptr, 0};
    const int origin[4] = {0, 1, 0, 0};
    milcgpu_meson_links *links = nullptr;
    auto load = tests::sized<milcgpu_meson_links_spec>();
    load.antiperiodic = 1, load.signs = MILCGPU_SIGNS_OUT;
    milcgpu_status status = milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &links);
    status = status != MILCGPU_OK ? status : milcgpu_meson_links_load(links, &load, &u);
    if (status != MILCGPU_OK) {
    } else if (what == OfQuarks::four_link_operator) {
        status = milcgpu_quarks_spin_taste(links, nullptr, milcgpu_spin_taste_index("G5-G1"), origin, 1, &quarks, &to);
    } else if (what == OfQuarks::smearing) {
        status = milcgpu_quarks_gauss_smear(links, 2, 2.0, 3, -1, 1, &to);
    } else {
        const milcgpu_momentum momentum = {{1, 0, 0}, {MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN, MILCGPU_EVEN}};
        const milcgpu_meson_term terms[correlators] = {{milcgpu_spin_taste_index("pion5"), 0, 0, 1.0, 0},
                                                       {milcgpu_spin_taste_index("rhois"), 0, 0, 1.0, 1}};
        auto spec = tests::sized<milcgpu_meson_spec>();
        spec.n_momenta = 1, spec.n_terms = spec.n_correlators = correlators;
        spec.momenta = &momentum, spec.terms = terms;
        status = milcgpu_quarks_contract(links, &spec, nullptr, nullptr, 1, &quarks, &quarks, out.data());
    }
    milcgpu_meson_links_destroy(links);
    return status;
}

// out: links after two steps of gauge fixing, APE smearing, stout smearing and two steps of the flow.
inline milcgpu_status smooth_links(milcgpu_context *context, const Reals &gauge, Reals &out) {
    milcgpu_gauge *handle = nullptr;
    milcgpu_status status = milcgpu_gauge_create(context, MILCGPU_DOUBLE, &handle);
    const auto then = [&](const auto &call) {
        if (status == MILCGPU_OK)
            status = call();
    };
    then([&] {
        const milcgpu_field from = {const_cast<double *>(gauge.data()), MILCGPU_DOUBLE, 0};
        return milcgpu_gauge_load(handle, &from, 0);
    });
    then([&] {
        auto spec = tests::sized<milcgpu_gauge_fix_spec>();
        spec.direction = 3, spec.most_steps = 2, spec.tolerance = -1, spec.signs = 1;
        return milcgpu_gauge_fix(handle, &spec, nullptr);
    });
    then([&] {
        auto spec = tests::sized<milcgpu_ape_spec>();
        spec.weight = 0.1, spec.times = 2, spec.signs = 1;
        return milcgpu_gauge_ape_smear(handle, &spec, nullptr, nullptr);
    });
    then([&] {
        const milcgpu_stout_spec spec = {sizeof spec, 0.1, 1, 4, 1};
        return milcgpu_gauge_stout_smear(handle, &spec, nullptr);
    });
    then([&] {
        milcgpu_flow_spec spec;
        milcgpu_flow_defaults(&spec, sizeof spec);
        spec.step = 0.05, spec.stop = 0.1, spec.signs = 1;
        return milcgpu_gauge_flow(handle, &spec, nullptr, nullptr, nullptr);
    });
    then([&] {
        const milcgpu_field to = {out.data(), MILCGPU_DOUBLE, 0};
        return milcgpu_gauge_save(handle, &to);
    });
    milcgpu_gauge_destroy(handle);
    return status;
}

} // namespace measured_steps
