#include "tests/cuda_faults/steps.h"
#include "milc_glue/api/milcgpu_dirac.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/measured_steps.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include "tests/sized.h"
#include <algorithm>
#include <cstring>

namespace {

// 3072 sites a parity: fields of double are copied by way of pinned buffers, those of float directly.
const reference::Lattice lattice{{8, 8, 8, 12}};
constexpr size_t float_pitch = 40; // bytes a site of a strided field of float

struct Host {
    Field gauge, phased, fat, lng, source, strided_source; // phased: gauge with phases in; the last of float
    Host() {
        reference::Rng rng(91);
        reference::Gauge links(4 * lattice.volume());
        for (auto &u : links)
            u = reference::random_near_unit_su3(rng, 0.35);
        gauge = reference::links_to_milc<double>(lattice, links);
        reference::apply_phases(lattice, links);
        phased = reference::links_to_milc<double>(lattice, links);
        const auto coefficients = reference::asqtad_coefficients(0.9);
        fat = reference::links_to_milc<double>(lattice, reference::fat_links(lattice, links, coefficients));
        lng = reference::links_to_milc<double>(lattice, reference::long_links(lattice, links, coefficients));
        source = reference::vector_to_milc<double>(lattice, reference::random_fermion(lattice, 92));
        strided_source.resize(source.size());
        for (size_t k = 0; k < source.size(); ++k) {
            const float value = static_cast<float>(source[k]);
            std::memcpy(reinterpret_cast<char *>(strided_source.data()) + k / 6 * float_pitch + k % 6 * sizeof value,
                        &value, sizeof value);
        }
    }
};
Host &host() {
    static Host made;
    return made;
}

milcgpu_field field_of(Field &data) { return {data.data(), MILCGPU_DOUBLE, 0}; }

} // namespace

milcgpu_status Session::open() {
    auto layout = tests::sized<milcgpu_layout>();
    std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
    auto options = tests::sized<milcgpu_options>();
    options.backend = MILCGPU_CUDA;
    return milcgpu_context_create(&layout, &options, &context);
}

milcgpu_status Session::load() {
    const milcgpu_field fat = field_of(host().fat), lng = field_of(host().lng);
    return milcgpu_links_create(context, &fat, &lng, &links);
}

void Session::close() {
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);
    links = nullptr, context = nullptr;
}

namespace {

// The status of the first of these calls that fails; the others are not made.
milcgpu_status first_failure(const std::vector<std::function<milcgpu_status()>> &calls) {
    for (const auto &call : calls)
        if (const milcgpu_status status = call(); status != MILCGPU_OK)
            return status;
    return MILCGPU_OK;
}

milcgpu_solve_spec a_solve(const milcgpu_storage &sloppy) {
    auto spec = tests::sized<milcgpu_solve_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.tolerance = 1e-10, spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE, spec.sloppy = sloppy;
    return spec;
}

milcgpu_multi_mass_spec several_masses(int n, const milcgpu_pole *shifts, int sloppy) {
    auto spec = tests::sized<milcgpu_multi_mass_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.n_shifts = n, spec.shifts = shifts;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.shared.precision = MILCGPU_DOUBLE, spec.sloppy.precision = sloppy;
    return spec;
}

milcgpu_status solve(Session &s, Field &x) {
    milcgpu_solve_spec spec = a_solve({MILCGPU_HALF, 13});
    spec.mass = 0.1;
    const milcgpu_field from = field_of(host().source), to = field_of(x);
    return milcgpu_staggered_solve(s.links, &spec, &from, &to, nullptr);
}

milcgpu_status solve_several(Session &s, std::vector<Field> &x) {
    const milcgpu_pole shifts[] = {{0.04, 1e-10, 0}, {0.16, 1e-10, 0}, {1, 1e-10, 0}};
    const milcgpu_multi_mass_spec spec = several_masses(3, shifts, MILCGPU_HALF);
    const milcgpu_field from = field_of(host().source), to[] = {field_of(x[0]), field_of(x[1]), field_of(x[2])};
    return milcgpu_staggered_multi_mass(s.links, &spec, &from, to, nullptr);
}

milcgpu_status solve_together(Session &s, std::vector<Field> &x) {
    milcgpu_solve_spec spec = a_solve({MILCGPU_SINGLE, 13});
    spec.mass = 0.1;
    static Field second(host().source.rbegin(), host().source.rend());
    const milcgpu_field from[] = {field_of(host().source), field_of(second)}, to[] = {field_of(x[0]), field_of(x[1])};
    return milcgpu_staggered_solve_sources(s.links, &spec, MILCGPU_BLOCK, 2, from, to, nullptr);
}

// HISQ: V on the host, a set on the host, one more in a handle.
milcgpu_status make_links(Session &s, std::vector<Field> &out) {
    milcgpu_fatlink_spec spec;
    milcgpu_hisq_defaults(&spec, sizeof spec);
    spec.signs = 1;
    milcgpu_links *made = nullptr;
    const milcgpu_field gauge = field_of(host().gauge), fat = field_of(out[0]), lng = field_of(out[1]),
                        second = field_of(out[2]), v = field_of(out[3]);
    const milcgpu_fatlink_set sets[] = {{0, &fat, &lng, nullptr}, {-0.1, &second, nullptr, &made}};
    const milcgpu_hisq_links hisq{&v, nullptr, nullptr};
    const milcgpu_status status = milcgpu_links_make(s.context, &spec, &gauge, sets, 2, &hisq, nullptr);
    milcgpu_links_destroy(made);
    return status;
}

milcgpu_status apply(Session &s, Field &out) {
    const milcgpu_storage what{MILCGPU_SINGLE, 13};
    const milcgpu_field from{host().strided_source.data(), MILCGPU_SINGLE, float_pitch};
    const milcgpu_field to{out.data(), MILCGPU_SINGLE, float_pitch};
    return milcgpu_staggered_dslash(s.links, &what, MILCGPU_EVEN, &from, &to);
}

milcgpu_status pin(Session &s) {
    const milcgpu_status status =
        milcgpu_memory_pin(s.context, host().source.data(), host().source.size() * sizeof(double));
    if (status != MILCGPU_OK)
        return status;
    const milcgpu_status unpinned = milcgpu_memory_unpin(s.context, host().source.data());
    if (unpinned == MILCGPU_NO_MEMORY) // it is pinned still, and the next call must find it as this one did
        milcgpu_memory_unpin(s.context, host().source.data());
    return unpinned;
}

// HISQ force, links a step on and reunitarized, gauge force; the momenta, in which all of it shows, are read back.
milcgpu_status trajectory_step(Session &s, Field &out) {
    milcgpu_fatlink_spec made;
    milcgpu_hisq_defaults(&made, sizeof made);
    const double residues[] = {0.7, -0.2};
    const milcgpu_force_spec spec{sizeof spec, &made, 0.01, 2, residues, 0, nullptr, 0};
    const milcgpu_loops loops{1, -0.06, -0.03, 0};
    static Field none(40 * lattice.volume(), 0), second(host().source.rbegin(), host().source.rend());
    const milcgpu_field u = field_of(host().phased), zero = field_of(none), momenta = field_of(out),
                        x[] = {field_of(host().source), field_of(second)};
    auto unitary = tests::sized<milcgpu_reunitarize_report>();
    double action = 0;
    milcgpu_gauge *handle = nullptr;
    const milcgpu_status status = first_failure(
        {[&] { return milcgpu_gauge_create(s.context, MILCGPU_DOUBLE, &handle); },
         [&] { return milcgpu_gauge_load(handle, &u, 0); }, [&] { return milcgpu_momenta_load(handle, &zero); },
         [&] { return milcgpu_momenta_add_fermion_force(handle, &spec, x, nullptr); },
         [&] { return milcgpu_gauge_update(handle, 0.01, 8, nullptr); },
         [&] { return milcgpu_gauge_reunitarize(handle, 0, &unitary); },
         [&] { return milcgpu_momenta_add_gauge_force(handle, &loops, 6, 0.01, nullptr); },
         [&] { return milcgpu_momenta_action(handle, &action); },
         [&] { return milcgpu_momenta_save(handle, &momenta); }});
    milcgpu_gauge_destroy(handle);
    return status;
}

// Solutions of several masses stay on the device, their odd part follows, and a sum of them is read back.
milcgpu_status vectors_on_device(Session &s, Field &out) {
    const milcgpu_pole shifts[] = {{0.04, 1e-10, 0}, {0.16, 1e-10, 0}};
    const milcgpu_multi_mass_spec spec = several_masses(2, shifts, MILCGPU_DOUBLE);
    const milcgpu_field from = field_of(host().source), to = field_of(out);
    const double weights[] = {0.5, 0.25};
    milcgpu_vectors *handle = nullptr;
    const milcgpu_status status =
        first_failure({[&] { return milcgpu_vectors_create(s.context, MILCGPU_DOUBLE, 2, &handle); },
                       [&] { return milcgpu_staggered_multi_mass_vectors(s.links, &spec, &from, handle, 0, nullptr); },
                       [&] { return milcgpu_vectors_dslash(handle, 0, s.links, MILCGPU_ODD); },
                       [&] { return milcgpu_vectors_dslash(handle, 1, s.links, MILCGPU_ODD); },
                       [&] { return milcgpu_vectors_sum(handle, 0, 2, weights, MILCGPU_ODD, &to); }});
    milcgpu_vectors_destroy(handle);
    return status;
}

// Four spins at a site, from the source.
Field &dirac_source() {
    static Field made;
    for (size_t i = 0; made.size() < 4 * host().source.size(); ++i)
        made.push_back(host().source[i % host().source.size()] + 0.1 * double(i % 7));
    return made;
}

milcgpu_status clover_solve(Session &s, std::vector<Field> &x, int method) {
    auto wilson = tests::sized<milcgpu_wilson_spec>();
    wilson.kappa = 0.1, wilson.clover = 1, wilson.method = method;
    const milcgpu_solve_spec spec = a_solve({MILCGPU_HALF, 12});
    const milcgpu_field links = field_of(host().gauge), b = field_of(dirac_source()), from[] = {b, b};
    std::vector<milcgpu_field> to;
    for (Field &field : x)
        to.push_back(field_of(field));
    const int n = static_cast<int>(to.size());
    milcgpu_wilson *handle = nullptr;
    const milcgpu_status status = first_failure(
        {[&] { return milcgpu_wilson_create(s.context, &handle); }, [&] { return milcgpu_wilson_load(handle, &links); },
         [&] {
             return n == 1 ? milcgpu_wilson_solve(handle, &wilson, &spec, &b, &to[0], nullptr)
                           : milcgpu_wilson_solve_sources(handle, &wilson, &spec, MILCGPU_BLOCK, n, from, to.data(),
                                                          nullptr);
         }});
    milcgpu_wilson_destroy(handle);
    return status;
}

milcgpu_status laplace_solve(Session &s, Field &x) {
    auto spec = tests::sized<milcgpu_laplace_solve_spec>();
    spec.directions = 3, spec.kappa = 0.12, spec.tolerance = 1e-10;
    spec.max_iterations = 1000, spec.max_restarts = 5;
    spec.precise.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_SINGLE;
    const milcgpu_field u = field_of(host().gauge), from = field_of(host().source), to = field_of(x);
    const milcgpu_quarks b = {&from, nullptr, 0}, solution = {&to, nullptr, 0};
    auto load = tests::sized<milcgpu_meson_links_spec>();
    load.signs = MILCGPU_SIGNS_OUT;
    milcgpu_meson_links *handle = nullptr;
    const milcgpu_status status =
        first_failure({[&] { return milcgpu_meson_links_create(s.context, MILCGPU_DOUBLE, &handle); },
                       [&] { return milcgpu_meson_links_load(handle, &load, &u); },
                       [&] { return milcgpu_laplace_solve(handle, &spec, 1, &b, &solution, nullptr); }});
    milcgpu_meson_links_destroy(handle);
    return status;
}

milcgpu_status dirac_mesons(Session &s, Field &out) {
    const milcgpu_momentum momentum = {{1, 0, 0}, {MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN, MILCGPU_EVEN}};
    const milcgpu_dirac_term term = {15, 15, 0, 0, 1.0, 0};
    auto spec = tests::sized<milcgpu_dirac_meson_spec>();
    spec.n_momenta = spec.n_terms = spec.n_correlators = 1;
    spec.momenta = &momentum, spec.terms = &term;
    static Field spins;
    const size_t reals = 4 * 4 * host().source.size();
    for (size_t i = 0; spins.size() < reals; ++i)
        spins.push_back(dirac_source()[i % dirac_source().size()]);
    const milcgpu_field propagator = field_of(spins);
    return milcgpu_dirac_mesons(s.context, &spec, 1, &propagator, &propagator, out.data());
}

using measured_steps::OfQuarks;
template <OfQuarks what> milcgpu_status of_quarks(Session &s, std::vector<Field> &out) {
    return measured_steps::measure_quarks(what, s.context, host().gauge, host().source, out[0]);
}

} // namespace

std::vector<Step> steps() {
    const size_t vector = host().source.size(), link = host().gauge.size();
    return {
        {"init", 0, {}, [](Session &s, std::vector<Field> &) { return s.open(); }},
        {"pin", 1, {}, [](Session &s, std::vector<Field> &) { return pin(s); }},
        {"links_create", 1, {}, [](Session &s, std::vector<Field> &) { return s.load(); }},
        {"dslash", 2, {vector}, [](Session &s, std::vector<Field> &out) { return apply(s, out[0]); }},
        {"residual",
         2,
         {1},
         [](Session &s, std::vector<Field> &out) {
             const milcgpu_field b = field_of(host().source);
             return milcgpu_staggered_residual(s.links, MILCGPU_EVEN, 0.1, &b, &b, out[0].data());
         }},
        {"solve", 2, {vector}, [](Session &s, std::vector<Field> &out) { return solve(s, out[0]); }},
        {"multi_mass", 2, {vector, vector, vector}, solve_several},
        {"solve_sources", 2, {vector, vector}, solve_together},
        {"fat_links", 1, {link, link, link, link}, make_links},
        {"spin_taste", 1, {vector}, of_quarks<OfQuarks::four_link_operator>},
        {"gauss_smear", 1, {vector}, of_quarks<OfQuarks::smearing>},
        {"contract", 1, {size_t(2 * measured_steps::correlators * lattice.n[3])}, of_quarks<OfQuarks::contraction>},
        {"smooth_links",
         1,
         {link},
         [](Session &s, std::vector<Field> &out) {
             return measured_steps::smooth_links(s.context, host().gauge, out[0]);
         }},
        {"trajectory_step",
         1,
         {40 * size_t(lattice.volume())},
         [](Session &s, std::vector<Field> &out) { return trajectory_step(s, out[0]); }},
        {"vectors_on_device",
         2,
         {vector},
         [](Session &s, std::vector<Field> &out) { return vectors_on_device(s, out[0]); }},
        {"clover_bicgstab",
         1,
         {4 * vector},
         [](Session &s, std::vector<Field> &out) { return clover_solve(s, out, MILCGPU_WILSON_BICGSTAB); }},
        {"clover_sources",
         1,
         {4 * vector, 4 * vector},
         [](Session &s, std::vector<Field> &out) { return clover_solve(s, out, MILCGPU_WILSON_CG); }},
        {"laplace_solve", 1, {vector}, [](Session &s, std::vector<Field> &out) { return laplace_solve(s, out[0]); }},
        {"dirac_mesons",
         1,
         {size_t(2 * lattice.n[3])},
         [](Session &s, std::vector<Field> &out) { return dirac_mesons(s, out[0]); }},
    };
}
