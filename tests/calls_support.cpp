#include "tests/calls_support.h"
#include "tests/reference/gauge.h"
#include "tests/reference/staggered.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace tests {

namespace {

void must(milcgpu_status status) {
    if (status != MILCGPU_OK)
        throw std::runtime_error(milcgpu_last_error());
}

// One folder for all Worlds of this process, so that ranks name the same files.
struct Files {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("milcgpu_calls." + std::to_string(getpid()));
    Files() { std::filesystem::create_directories(path); }
    ~Files() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

} // namespace

WholeFields::WholeFields(const reference::Lattice &on, double roughness) : lattice(on) {
    const size_t volume = size_t(lattice.volume());
    reference::Gauge gauge = roughness > 1   ? reference::random_gauge(lattice, 7)
                             : roughness > 0 ? reference::near_unit_gauge(lattice, roughness, 7)
                                             : reference::unit_gauge(lattice);
    bare = reference::links_to_milc<double>(lattice, gauge);
    reference::apply_phases(lattice, gauge);
    phased = reference::links_to_milc<double>(lattice, gauge);
    const auto paths = reference::asqtad_coefficients(0.9);
    fat = reference::links_to_milc<double>(lattice, reference::fat_links(lattice, gauge, paths));
    lng = reference::links_to_milc<double>(lattice, reference::long_links(lattice, gauge, paths));
    for (int k = 0; k < 4; ++k)
        colour.push_back(reference::vector_to_milc<double>(lattice, reference::random_fermion(lattice, 20 + k)));
    for (size_t k = 0; k < 40 * volume; ++k)
        momenta.push_back(k % 10 == 9 ? 0 : 0.3 * std::sin(double(k)));
    // Of the numbers of colour vectors: spins and propagators need no more.
    for (int k = 0; k < 4; ++k) {
        dirac.emplace_back(24 * volume);
        for (size_t i = 0; i < dirac[k].size(); ++i)
            dirac[k][i] = colour[(k + i % 24 / 6) % 4][6 * (i / 24) + i % 6];
    }
    quark.resize(96 * volume);
    for (size_t i = 0; i < quark.size(); ++i)
        quark[i] = dirac[i % 96 / 24][24 * (i / 96) + i % 24];
}

HostData::HostData(Reals content, bool in_single) : numbers(std::move(content)) {
    if (in_single)
        single.assign(numbers.begin(), numbers.end());
    field = {in_single ? static_cast<void *>(single.data()) : numbers.data(),
             in_single ? MILCGPU_SINGLE : MILCGPU_DOUBLE, 0};
}

Reals World::own(const Reals &whole, size_t reals) const {
    Reals part;
    for (const size_t place : places_)
        part.insert(part.end(), whole.begin() + reals * place, whole.begin() + reals * (place + 1));
    return part;
}

HostData &World::input(Reals content) {
    fields_.emplace_back(std::move(content), precision == MILCGPU_SINGLE);
    return fields_.back();
}

Reals World::content_of(const milcgpu_field &field) const {
    for (const HostData &data : fields_)
        if (data.field.data == field.data)
            return data.content();
    throw std::logic_error("no field of this World");
}

milcgpu_field World::output(const char *name, size_t reals) {
    HostData &data = input(Reals(reals * sites, 0.25));
    outputs_.push_back({name, reals, &data, data.numbers});
    return data.field;
}

World::World(milcgpu_context *of, const WholeFields &whole, const std::vector<size_t> &places, bool with_phases,
             bool single)
    : context(of), lattice(whole.lattice), phased(with_phases), signs(with_phases ? 0 : 1),
      precision(single ? MILCGPU_SINGLE : MILCGPU_DOUBLE), sites(places.size()), whole_(whole), places_(places) {
    for (const Reals &one : whole.colour)
        b.push_back(input(own(one, 6)).field);
    for (const Reals &one : whole.dirac)
        psi.push_back(input(own(one, 24)).field);
    links_in = input(own(phased ? whole.phased : whole.bare, 72)).field;
    bare_in = input(own(whole.bare, 72)).field;
    momenta_in = input(own(whole.momenta, 40)).field;
    fat_in = input(own(whole.fat, 72)).field, lng_in = input(own(whole.lng, 72)).field;
    quark.assign(2, input(own(whole.quark, 96)).field);
    for (size_t k = 0; k < 15 * sites; ++k) // of MILC's generators: milcgpu_gauge_heat_bath
        generators.push_back(k % 15 == 9                   ? 12345
                             : k % 15 == 8 || k % 15 == 10 ? 0
                                                           : uint32_t(1 + k * 2654435761u) >> 8);
    const float scale = 1.f / 0x1000000;
    for (size_t site = 0; site < sites; ++site) {
        generators[15 * site + 7] = uint32_t(100005 + 8 * site), generators[15 * site + 14] = 40;
        std::memcpy(&generators[15 * site + 13], &scale, sizeof scale);
    }
    drawn.resize(sites);
    for (const char *name : {"x[0]", "x[1]", "x[2]", "x[3]"})
        x.push_back(output(name, 6));
    for (const char *name : {"dirac_x[0]", "dirac_x[1]", "dirac_x[2]", "dirac_x[3]"})
        dirac_x.push_back(output(name, 24));
    for (const char *name : {"fat_x[0]", "fat_x[1]", "fat_x[2]"})
        fat_x.push_back(output(name, 72));
    for (const char *name : {"lng_x[0]", "lng_x[1]", "lng_x[2]"})
        lng_x.push_back(output(name, 72));
    v_x = output("v_x", 72), y_x = output("y_x", 72), w_x = output("w_x", 72);
    numbers_x = output("numbers_x", 32), links_x = output("links_x", 72), momenta_x = output("momenta_x", 40);
    sums.assign(40000, 0.25);
    set_structs();
}

void World::set_structs() {
    const int reals = precision;
    as_given = {reals, 18};
    milcgpu_solve_defaults(&solve, sizeof solve);
    solve.mass = 0.3, solve.tolerance = precision == MILCGPU_DOUBLE ? 1e-10 : 1e-5;
    solve.precise = {reals, 18}, solve.sloppy = {MILCGPU_SINGLE, 18}, solve.reliable_delta = 0.1;
    solve_sloppy = solve_half = wilson_solve = solve;
    solve_sloppy.sloppy = solve_half.precise = solve_half.sloppy = {MILCGPU_HALF, 18};
    solve_half.tolerance = 1e-3;
    wilson_solve.mass = 0;
    for (int k = 0; k < 4; ++k)
        shifts[k] = {0.3 + 0.4 * k, solve.tolerance, 0};
    milcgpu_multi_mass_defaults(&masses, sizeof masses);
    masses.n_shifts = 2, masses.shifts = shifts, masses.residues = weights;
    masses.max_iterations = 500, masses.max_restarts = 5, masses.shared_tolerance = 1e-6;
    masses.shared = masses.precise = {reals, 18}, masses.sloppy = {MILCGPU_SINGLE, 18};
    milcgpu_asqtad_defaults(0.9, &asqtad, sizeof asqtad);
    milcgpu_hisq_defaults(&hisq, sizeof hisq);
    asqtad.signs = hisq.signs = signs;
    hisq.svd_relative = 1e-15; // so that some links go by singular values, if links are rough
    fat_links = asqtad;
    for (int k = 0; k < 3; ++k)
        sets[k] = {-0.1 * k, &fat_x[k], &lng_x[k], &made_links[k]};
    one_set[0] = sets[0];
    hisq_links = {&v_x, &y_x, &w_x};
    force_sets[0] = {0, 1}, force_sets[1] = {-0.2, 1}, force_sets[2] = {0.1, 0};
    force = {sizeof force, &hisq, 0.03, 2, weights, 2, force_sets, 0.02};
    asqtad_force = {sizeof force, &asqtad, 0.03, 2, weights, 0, nullptr, 0};
    loops = {0.8, -0.3, 0.45, signs}, plaquettes = {1, 0, 0, signs}; // none is far smaller than the others
    milcgpu_eigen_defaults(&lowest, sizeof lowest);
    lowest.count = 1, lowest.precision = MILCGPU_SINGLE;
    milcgpu_gauge_fix_defaults(&fix, sizeof fix);
    fix.direction = 3, fix.boost = 1.5, fix.most_steps = 3, fix.tolerance = -1, fix.reunitarize_every = 2;
    fix.signs = ape.signs = hyp.signs = stout.signs = flow.signs = signs;
    ape.struct_size = sizeof ape, ape.weight = 0.2, ape.times = 2;
    milcgpu_hyp_defaults(&hyp, sizeof hyp);
    hyp.times = 1, hyp.signs = signs;
    stout = {sizeof stout, 0.1, 2, 4, signs};
    milcgpu_flow_defaults(&flow, sizeof flow);
    flow.integrator = MILCGPU_FLOW_LUSCHER, flow.step = 0.02, flow.stop = 0.04, flow.signs = signs;
    adaptive_flow = flow;
    adaptive_flow.integrator = MILCGPU_FLOW_ADAPT_BS, adaptive_flow.action = MILCGPU_FLOW_SYMANZIK;
    milcgpu_meson_links_defaults(&load, sizeof load);
    load.antiperiodic = 1, load.signs = MILCGPU_SIGNS_OUT;
    load_gauge = load;
    load_gauge.signs = signs;
    for (milcgpu_momentum &one : momenta)
        one = {{0, 1, 0}, {MILCGPU_EVEN, MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN}};
    const int local = milcgpu_spin_taste_index("pion5"), shifted = milcgpu_spin_taste_index("G5-G5X");
    meson_terms[0] = {local, 0, 1, 1, 0}, meson_terms[1] = {shifted, 1, 1, 0.5, 1}, meson_terms[2] = meson_terms[1];
    contraction = {sizeof contraction, {}, 2, 2, 2, momenta, meson_terms};
    for (milcgpu_tie_up &one : tie_ups)
        one = {{0, 5, 3}, {1, 6, 4}};
    milcgpu_tie_up_defaults(&tie_up, sizeof tie_up);
    tie_up.corner = 5, tie_up.one_sided = 1, tie_up.n_list = 2, tie_up.list = tie_ups;
    tie_up_wall = tie_up_at_momentum = tie_up;
    tie_up_wall.wall = 1, tie_up_wall.one_sided = 0, tie_up_at_momentum.momentum = momenta[0];
    const int mixed = milcgpu_gb_operator_index("16+ M1/2 42"), symmetric = milcgpu_gb_operator_index("8 S 61");
    gb_terms[0] = {mixed, mixed, 0, 0, 0, 1, 1, 0}, gb_terms[1] = {symmetric, mixed, 0, 0, 0, 1, 0.5, 1};
    gb_terms[2] = gb_terms[1];
    milcgpu_gb_defaults(&three_point, sizeof three_point);
    three_point.n_terms = three_point.n_correlators = 2, three_point.terms = gb_terms;
    two_point = three_point;
    three_point.current = milcgpu_spin_taste_index("GX-G1");
    two_point.whole_sinks = two_point.one_sided = 1, two_point.momentum = momenta[0];
    for (milcgpu_dirac_term &one : dirac_terms)
        one = {3, 3, 1, 1, 1, 1};
    slices = {sizeof slices, 0, {}, 2, momenta};
    dirac_mesons = {sizeof dirac_mesons, 0, {}, 2, 2, 2, momenta, dirac_terms};
    clover = {sizeof clover, 0.11, 1.2, 0, MILCGPU_WILSON_CG};
    clover_bicgstab = clover;
    clover_bicgstab.method = MILCGPU_WILSON_BICGSTAB;
    laplace = {sizeof laplace, 3, 0.1, {reals, 18}};
    milcgpu_laplace_solve_defaults(&laplace_solve, sizeof laplace_solve);
    laplace_solve.kappa = 0.12, laplace_solve.tolerance = solve.tolerance, laplace_solve.reliable_delta = 0.1;
    laplace_solve.precise = {reals, 18}, laplace_solve.sloppy = {MILCGPU_SINGLE, 18};
    laplace_solve.together = MILCGPU_BLOCK; // one by one, the first solution is written before the second source starts
    from = {b.data(), nullptr, 0}, to = in_place = {x.data(), nullptr, 0};
    for (milcgpu_solve_report &report : reports)
        report.struct_size = sizeof report;
    of_masses.struct_size = sizeof of_masses, of_links.struct_size = sizeof of_links;
    of_force.struct_size = sizeof of_force, of_unitary.struct_size = sizeof of_unitary;
    of_eigen.struct_size = sizeof of_eigen, of_flow.struct_size = sizeof of_flow;
    milcgpu_nersc_defaults(&nersc, sizeof nersc);
    of_fixing.struct_size = sizeof of_fixing, of_file.struct_size = sizeof of_file;
    layout.struct_size = sizeof layout, options.struct_size = sizeof options;
    std::copy(lattice.n.begin(), lattice.n.end(), layout.extent);
    options.device = -1;
}

World::~World() { drop_all(); }

void World::drop_all() {
    drop_made();
    milcgpu_eigenvectors_destroy(std::exchange(eigen_, nullptr));
    milcgpu_vectors_destroy(std::exchange(vectors_, nullptr));
    milcgpu_wilson_destroy(std::exchange(wilson_, nullptr));
    milcgpu_meson_links_destroy(std::exchange(meson_, nullptr));
    for (milcgpu_gauge **one : {&gauge_, &bare_, &spare_})
        milcgpu_gauge_destroy(std::exchange(*one, nullptr));
    for (milcgpu_links **one : {&links_, &of_eps_[0], &of_eps_[1]})
        milcgpu_links_destroy(std::exchange(*one, nullptr));
}

void World::start_again(milcgpu_context *other) {
    drop_all();
    context = other != nullptr ? other : context;
    refill();
}

void World::drop_made() {
    for (milcgpu_links *&one : made_links)
        milcgpu_links_destroy(std::exchange(one, nullptr));
    milcgpu_gauge_destroy(std::exchange(made_gauge, nullptr));
    milcgpu_meson_links_destroy(std::exchange(made_meson, nullptr));
    milcgpu_wilson_destroy(std::exchange(made_wilson, nullptr));
    milcgpu_vectors_destroy(std::exchange(made_vectors, nullptr));
    milcgpu_eigenvectors_destroy(std::exchange(made_eigen, nullptr));
    milcgpu_context_destroy(std::exchange(made_context, nullptr));
}

milcgpu_links *World::links() {
    if (links_ == nullptr)
        must(milcgpu_links_create(context, &fat_in, &lng_in, &links_));
    return links_;
}

milcgpu_links *World::with_derivative(int which) {
    if (of_eps_[0] == nullptr) {
        milcgpu_fatlink_spec how = hisq;
        how.derivative = 1;
        const milcgpu_fatlink_set both[] = {{0, nullptr, nullptr, &of_eps_[0]}, {0, nullptr, nullptr, &of_eps_[1]}};
        must(milcgpu_links_make(context, &how, &links_in, both, 2, nullptr, nullptr));
    }
    return of_eps_[which];
}

void World::fill(milcgpu_gauge *handle, bool with_phases) {
    must(milcgpu_gauge_load(handle, with_phases ? &links_in : &bare_in, -1));
    must(milcgpu_momenta_load(handle, &momenta_in));
}

milcgpu_gauge *World::gauge() {
    if (gauge_ == nullptr) {
        must(milcgpu_gauge_create(context, precision, &gauge_));
        fill(gauge_, true);
    }
    return gauge_;
}
milcgpu_gauge *World::moved() {
    must(milcgpu_gauge_update(gauge(), 0.1, 4, nullptr));
    return gauge_;
}
milcgpu_gauge *World::bare() {
    if (bare_ == nullptr) {
        must(milcgpu_gauge_create(context, precision, &bare_));
        fill(bare_, false);
    }
    return bare_;
}
milcgpu_gauge *World::spare() {
    if (spare_ == nullptr) {
        must(milcgpu_gauge_create(context, precision, &spare_));
        fill(spare_, true);
    }
    return spare_;
}

milcgpu_meson_links *World::meson() {
    if (meson_ == nullptr) {
        must(milcgpu_meson_links_create(context, precision, &meson_));
        must(milcgpu_meson_links_load(meson_, &load, &bare_in));
    }
    return meson_;
}

milcgpu_wilson *World::wilson() {
    if (wilson_ == nullptr) {
        must(milcgpu_wilson_create(context, &wilson_));
        must(milcgpu_wilson_load(wilson_, &bare_in));
    }
    return wilson_;
}

milcgpu_vectors *World::vectors() {
    if (vectors_ == nullptr) {
        must(milcgpu_vectors_create(context, precision, 6, &vectors_));
        on_device = {nullptr, vectors_, 0}, to_device = {nullptr, vectors_, 2};
        for (int k = 0; k < 3; ++k)
            first[k] = {vectors_, k % 2}, third[k] = {vectors_, 3 + k % 2};
        for (int k = 0; k < 24; ++k)
            octets[k] = {vectors_, k % 3 == 1 ? 3 : 0};
        refill();
    }
    return vectors_;
}

milcgpu_eigenvectors *World::eigen() {
    if (eigen_ == nullptr) {
        must(milcgpu_eigenvectors_create(links(), MILCGPU_EVEN, 0, 2, &eigen_));
        for (int k = 0; k < 2; ++k)
            must(milcgpu_eigenvectors_load(eigen_, links(), k, &b[k]));
    }
    return eigen_;
}

void World::start_smearing() {
    for (Output &output : outputs_)
        for (int k = 0; k < 4; ++k)
            if (output.data->field.data == x[k].data)
                output.before = own(whole_.colour[k], 6);
    refill();
}

const char *World::file(const char *name) {
    static const Files files;
    paths_.push_back((files.path / name).string());
    return paths_.back().c_str();
}

void World::written(const char *name) {
    const bool lattice_file = std::string(name) == "lattice";
    must(lattice_file ? milcgpu_gauge_file_write(context, file(name), &bare_in, "now", nullptr)
                      : milcgpu_eigenvectors_write(eigen(), file(name), MILCGPU_SINGLE, "now"));
}

void World::refill_outputs() {
    for (const Output &output : outputs_) {
        std::copy(output.before.begin(), output.before.end(), output.data->numbers.begin());
        if (!output.data->single.empty())
            std::copy(output.before.begin(), output.before.end(), output.data->single.begin());
    }
    std::fill(sums.begin(), sums.end(), 0.25);
    value = other = 0, integer = 0, count = 0, bytes = 0;
    observables = {};
}

void World::refill() {
    refill_outputs();
    for (milcgpu_gauge *handle : {gauge_, spare_})
        if (handle != nullptr)
            fill(handle, true);
    if (bare_ != nullptr)
        fill(bare_, false);
    if (meson_ != nullptr)
        must(milcgpu_meson_links_load(meson_, &load, &bare_in));
    if (wilson_ != nullptr)
        must(milcgpu_wilson_load(wilson_, &bare_in));
    if (links_ != nullptr)
        must(milcgpu_links_update(links_, &fat_in, &lng_in, nullptr));
    for (int k = 0; vectors_ != nullptr && k < 6; ++k)
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            must(milcgpu_vectors_load(vectors_, k, parity, &b[k % 4]));
    for (int k = 0; eigen_ != nullptr && k < 2; ++k)
        must(milcgpu_eigenvectors_load(eigen_, links(), k, &b[k]));
}

State World::outputs() const {
    State all;
    for (const Output &output : outputs_)
        all.push_back({output.name, output.reals, output.data->content()});
    const milcgpu_observables &o = observables;
    all.push_back({"numbers",
                   0,
                   {value, other, double(integer), double(count), o.clover_t, o.clover_s, o.plaquette_t, o.plaquette_s,
                    o.rectangle_t, o.rectangle_s, o.charge, double(of_unitary.failed), of_unitary.largest_deviation,
                    of_unitary.mean_square_deviation}});
    all.push_back({"sums", 0, sums});
    return all;
}

State World::state() {
    State all = outputs();
    const auto add = [&](std::string name, size_t reals, Reals numbers) {
        all.push_back({std::move(name), reals, std::move(numbers)});
    };
    // What read() makes of a handle: a field of `reals` a site.
    const auto add_read = [&](const std::string &name, size_t reals, const auto &read) {
        HostData room(Reals(reals * sites, 0), precision == MILCGPU_SINGLE);
        add(name, reals, read(room.field) == MILCGPU_OK ? room.content() : Reals());
    };
    const struct {
        const char *name;
        milcgpu_gauge *handle;
    } gauges[] = {{"gauge", gauge_}, {"bare", bare_}, {"spare", spare_}};
    for (const auto &one : gauges)
        if (one.handle != nullptr) {
            add_read(one.name, 72, [&](const milcgpu_field &to) { return milcgpu_gauge_save(one.handle, &to); });
            add_read(one.name + std::string(", momenta"), 40,
                     [&](const milcgpu_field &to) { return milcgpu_momenta_save(one.handle, &to); });
        }
    milcgpu_solve_spec how = solve; // a solve checks the links that it reads
    how.tolerance = precision == MILCGPU_DOUBLE ? 1e-11 : 1e-5, how.sloppy = how.precise;
    const auto add_links = [&](const std::string &name, milcgpu_links *handle) {
        if (handle != nullptr)
            add_read(name, 6, [&](const milcgpu_field &to) {
                return milcgpu_staggered_solve(handle, &how, &b[0], &to, nullptr);
            });
    };
    add_links("links", links_);
    if (links_ != nullptr) { // of x[0] as a solution
        double r = 0;
        const bool well = milcgpu_staggered_residual(links_, MILCGPU_EVEN, solve.mass, &b[0], &x[0], &r) == MILCGPU_OK;
        add("residual", 0, well ? Reals{r} : Reals());
    }
    for (int k = 0; k < 3; ++k)
        add_links("made links[" + std::to_string(k) + "]", made_links[k]);
    const auto add_meson = [&](const char *name, milcgpu_meson_links *handle) {
        for (int dir = 0; handle != nullptr && dir < 4; ++dir)
            add_read(name + std::to_string(dir), 6, [&](const milcgpu_field &field) {
                const milcgpu_quarks result{&field, nullptr, 0};
                return milcgpu_quarks_shift(handle, dir, MILCGPU_SYMMETRIC, origin, 1, &from, &result);
            });
    };
    add_meson("links of a measurement, ", meson_);
    const auto add_wilson = [&](const char *name, milcgpu_wilson *handle) {
        if (handle != nullptr)
            add_read(name, 24, [&](const milcgpu_field &field) {
                return milcgpu_wilson_dslash(handle, &as_given, 1, MILCGPU_EVEN_AND_ODD, &psi[0], &field);
            });
    };
    add_wilson("Wilson links", wilson_);
    for (int k = 0; vectors_ != nullptr && k < 6; ++k)
        add_read("vectors[" + std::to_string(k) + "]", 6, [&](const milcgpu_field &field) {
            return milcgpu_vectors_save(vectors_, k, MILCGPU_EVEN + MILCGPU_ODD, &field);
        });
    for (milcgpu_eigenvectors *one : {eigen_, made_eigen})
        if (const int n = milcgpu_eigenvectors_count(one); n > 0) {
            Reals values(n);
            const milcgpu_status status = milcgpu_eigenvectors_values(one, values.data(), nullptr);
            add("eigenvalues", 0, status == MILCGPU_OK ? values : Reals());
        }
    return all;
}

std::vector<uint64_t> World::counts() const {
    return {of_links.svd_links, of_force.svd_links, of_force.filtered_links};
}

// clang-format off
#define ROW(function, traits, ...)          {#function, "", traits, [](World &w) -> BoundCall { return bound(w, function, __VA_ARGS__); }}
#define MORE(function, variant, traits, ...) {#function, variant, traits, [](World &w) -> BoundCall { return bound(w, function, __VA_ARGS__); }}
#define DEFAULTS(function)                  ROW(function, Call::alone, {}, nullptr, size_t(0))

const std::vector<Call> &calls() {
    constexpr int none = Call::none, alone = Call::alone, takes_phases = Call::takes_phases, solves = Call::solves,
                  loose = Call::loose;
    static const std::vector<Call> all = {
        // milcgpu.h
        ROW(milcgpu_version, alone, {}),
        ROW(milcgpu_last_error, alone, {}),
        ROW(milcgpu_status_name, alone, {}, 0),
        ROW(milcgpu_context_create, alone, {1}, &w.layout, &w.options, &w.made_context),
        ROW(milcgpu_context_destroy, alone, {}, nullptr),
        ROW(milcgpu_context_device_name, alone, {}, w.context),
        ROW(milcgpu_context_backend, alone, {}, w.context, &w.integer),
        ROW(milcgpu_memory_pin, alone, {}, w.context, w.quark[0].data, size_t(64)),
        ROW(milcgpu_memory_unpin, alone, {}, w.context, w.quark[0].data),
        ROW(milcgpu_links_create, solves, {}, w.context, &w.fat_in, &w.lng_in, &w.made_links[0]),
        ROW(milcgpu_links_update, solves, {3}, w.links(), &w.lng_in, &w.lng_in, &w.integer),
        ROW(milcgpu_links_add, solves, {}, w.with_derivative(0), -0.3, w.with_derivative(1), &w.made_links[0]),
        ROW(milcgpu_links_version, alone, {}, w.links()),
        ROW(milcgpu_links_destroy, alone, {}, nullptr),
        ROW(milcgpu_staggered_dslash, none, {}, w.links(), &w.as_given, MILCGPU_EVEN, &w.b[0], &w.x[0]),
        ROW(milcgpu_staggered_residual, none, {}, w.links(), MILCGPU_EVEN, 0.1, &w.b[0], &w.b[1], &w.value),
        ROW(milcgpu_staggered_solve, solves, {4}, w.links(), &w.solve, &w.b[0], &w.x[0], w.reports),
        MORE(milcgpu_staggered_solve, "double and half", solves, {4}, w.links(), &w.solve_sloppy, &w.b[0], &w.x[0], w.reports),
        MORE(milcgpu_staggered_solve, "half", solves | loose, {4}, w.links(), &w.solve_half, &w.b[0], &w.x[0], w.reports),
        ROW(milcgpu_staggered_solve_sources, solves, {6}, w.links(), &w.solve, MILCGPU_BLOCK, 2, w.b.data(), w.x.data(), w.reports),
        MORE(milcgpu_staggered_solve_sources, "in lock-step", solves, {6}, w.links(), &w.solve, MILCGPU_LOCK_STEP, 3, w.b.data(), w.x.data(), w.reports),
        ROW(milcgpu_staggered_multi_mass, solves, {4}, w.links(), &w.masses, &w.b[0], w.x.data(), &w.of_masses),
        ROW(milcgpu_links_make, solves, {5, 6}, w.context, &w.hisq, &w.links_in, w.sets, 2, &w.hisq_links, &w.of_links),
        MORE(milcgpu_links_make, "asqtad", solves, {5, 6}, w.context, &w.asqtad, &w.links_in, w.one_set, 1, nullptr, nullptr),
        MORE(milcgpu_links_make, "three eps_naik", solves, {5, 6}, w.context, &w.hisq, &w.links_in, w.sets, 3, nullptr, nullptr),
        ROW(milcgpu_memory_plan, alone, {3, 5}, w.context, MILCGPU_DOUBLE, &w.solve, w.text, sizeof w.text, &w.bytes),
        ROW(milcgpu_sources_plan, alone, {5, 7}, w.context, MILCGPU_DOUBLE, &w.solve, MILCGPU_BLOCK, 2, w.text, sizeof w.text, &w.bytes),
        ROW(milcgpu_multi_mass_plan, alone, {3, 5}, w.context, MILCGPU_DOUBLE, &w.masses, w.text, sizeof w.text, &w.bytes),
        ROW(milcgpu_kernels_list, alone, {}, [](void *, const char *) {}, nullptr),
        // Functions _defaults
        ROW(milcgpu_asqtad_defaults, alone, {}, 0.9, nullptr, size_t(0)),
        DEFAULTS(milcgpu_hisq_defaults), DEFAULTS(milcgpu_solve_defaults), DEFAULTS(milcgpu_multi_mass_defaults),
        DEFAULTS(milcgpu_fatlink_defaults), DEFAULTS(milcgpu_force_defaults), DEFAULTS(milcgpu_eigen_defaults),
        DEFAULTS(milcgpu_gauge_fix_defaults), DEFAULTS(milcgpu_ape_defaults), DEFAULTS(milcgpu_hyp_defaults),
        DEFAULTS(milcgpu_nersc_defaults), DEFAULTS(milcgpu_flow_defaults), DEFAULTS(milcgpu_stout_defaults), DEFAULTS(milcgpu_meson_links_defaults),
        DEFAULTS(milcgpu_meson_defaults), DEFAULTS(milcgpu_dirac_defaults), DEFAULTS(milcgpu_dirac_meson_defaults),
        DEFAULTS(milcgpu_laplace_defaults), DEFAULTS(milcgpu_laplace_solve_defaults), DEFAULTS(milcgpu_wilson_defaults),
        // milcgpu_md.h
        ROW(milcgpu_gauge_create, none, {}, w.context, MILCGPU_DOUBLE, &w.made_gauge),
        ROW(milcgpu_gauge_destroy, alone, {}, nullptr),
        ROW(milcgpu_gauge_load, none, {}, w.gauge(), &w.links_in, 0.0),
        ROW(milcgpu_gauge_save, none, {}, w.gauge(), &w.links_x),
        ROW(milcgpu_momenta_load, none, {}, w.gauge(), &w.momenta_in),
        ROW(milcgpu_momenta_save, none, {}, w.gauge(), &w.momenta_x),
        ROW(milcgpu_gauge_version, alone, {}, w.gauge()),
        ROW(milcgpu_momenta_version, alone, {}, w.gauge()),
        ROW(milcgpu_gauge_make_links, solves | takes_phases, {4, 5}, w.gauge(), &w.hisq, w.sets, 2, &w.hisq_links, &w.of_links),
        MORE(milcgpu_gauge_make_links, "asqtad", solves | takes_phases, {4, 5}, w.gauge(), &w.asqtad, w.one_set, 1, nullptr, nullptr),
        ROW(milcgpu_vectors_create, alone, {}, w.context, MILCGPU_DOUBLE, 1, &w.made_vectors),
        ROW(milcgpu_vectors_destroy, alone, {}, nullptr),
        ROW(milcgpu_vectors_load, alone, {}, w.vectors(), 0, MILCGPU_EVEN, &w.b[3]),
        ROW(milcgpu_vectors_save, alone, {}, w.vectors(), 0, MILCGPU_EVEN, &w.x[0]),
        ROW(milcgpu_vectors_dslash, none, {}, w.vectors(), 0, w.links(), MILCGPU_ODD),
        ROW(milcgpu_vectors_minus_dslash, none, {}, w.links(), MILCGPU_EVEN, 1.0, 0.2, (w.vectors(), w.first[0]), w.first[1], w.third[0]),
        ROW(milcgpu_vectors_sum, none, {}, w.vectors(), 0, 2, w.weights, MILCGPU_EVEN, &w.x[0]),
        ROW(milcgpu_staggered_multi_mass_vectors, solves, {5}, w.links(), &w.masses, &w.b[0], w.vectors(), 1, &w.of_masses),
        ROW(milcgpu_staggered_solve_vectors, solves, {6}, w.links(), &w.solve, MILCGPU_BLOCK, 2, (w.vectors(), w.first), w.third, w.reports),
        ROW(milcgpu_momenta_add_fermion_force, takes_phases, {3}, w.gauge(), &w.force, w.b.data(), &w.of_force),
        MORE(milcgpu_momenta_add_fermion_force, "asqtad", takes_phases, {3}, w.gauge(), &w.asqtad_force, w.b.data(), nullptr),
        ROW(milcgpu_momenta_add_force_of_vectors, takes_phases, {3}, w.gauge(), &w.force, w.vectors(), &w.of_force),
        ROW(milcgpu_momenta_add_gauge_force, none, {4}, w.gauge(), &w.loops, 5.5, 0.01, &w.of_force),
        MORE(milcgpu_momenta_add_gauge_force, "plaquettes", none, {4}, w.gauge(), &w.plaquettes, 5.5, 0.01, nullptr),
        ROW(milcgpu_gauge_update, none, {3}, w.gauge(), 0.1, 6, &w.of_force),
        ROW(milcgpu_gauge_overrelax, alone, {}, w.bare(), 2),
        ROW(milcgpu_gauge_heat_bath, alone, {}, w.bare(), 6.0, 1, w.generators.data(), w.drawn.data()),
        ROW(milcgpu_gauge_reunitarize, none, {}, w.moved(), 0.5, &w.of_unitary),
        ROW(milcgpu_gauge_action, none, {}, w.gauge(), &w.loops, &w.value),
        ROW(milcgpu_momenta_action, none, {}, w.gauge(), &w.value),
        ROW(milcgpu_gauge_plaquettes, none, {}, w.gauge(), &w.value, &w.other),
        ROW(milcgpu_gauge_polyakov_loop, none, {}, w.gauge(), &w.value, &w.other),
        ROW(milcgpu_gauge_loop_traces, none, {}, w.gauge(), w.signs, 2, w.lengths, w.steps, w.sums.data()),
        // milcgpu_eigen.h
        ROW(milcgpu_eigenvectors_compute, solves, {3}, w.links(), &w.lowest, &w.made_eigen, &w.of_eigen),
        ROW(milcgpu_eigenvectors_plan, alone, {}, w.context, &w.lowest, &w.bytes),
        ROW(milcgpu_eigenvectors_create, none, {}, w.links(), MILCGPU_EVEN, MILCGPU_SINGLE, 2, &w.made_eigen),
        ROW(milcgpu_eigenvectors_load, none, {}, w.eigen(), w.links(), 0, &w.b[2]),
        ROW(milcgpu_eigenvectors_save, none, {}, w.eigen(), 0, &w.x[0]),
        ROW(milcgpu_eigenvectors_count, alone, {}, w.eigen()),
        ROW(milcgpu_eigenvectors_values, alone, {1, 2}, w.eigen(), w.sums.data(), w.sums.data() + 2),
        ROW(milcgpu_eigenvectors_write, none, {3}, w.eigen(), w.file("vectors"), MILCGPU_SINGLE, "now"),
        ROW(milcgpu_eigenvectors_read, none, {}, w.links(), (w.written("eigen"), w.file("eigen")), MILCGPU_SINGLE, 1, &w.made_eigen),
        ROW(milcgpu_eigenvectors_destroy, alone, {}, nullptr),
        // milcgpu_file.h
        ROW(milcgpu_gauge_file_write, none, {3, 4}, w.context, w.file("written"), &w.bare_in, "now", &w.of_file),
        ROW(milcgpu_gauge_file_write_nersc, none, {4}, w.context, w.file("nersc"), &w.bare_in, &w.nersc, &w.of_file),
        ROW(milcgpu_gauge_file_look, alone, {}, (w.written("lattice"), w.file("lattice")), &w.of_file),
        ROW(milcgpu_gauge_file_read, none, {3}, w.context, (w.written("lattice"), w.file("lattice")), &w.links_x, &w.of_file),
        // milcgpu_flow.h, milcgpu_gauge.h
        ROW(milcgpu_gauge_flow, none, {2, 3, 4}, w.gauge(), &w.flow, [](void *, const milcgpu_flow_point *) { return 0; }, &w.other, &w.of_flow),
        MORE(milcgpu_gauge_flow, "Symanzik, adaptive", none, {2, 3, 4}, w.gauge(), &w.adaptive_flow, nullptr, nullptr, nullptr),
        ROW(milcgpu_gauge_measure, none, {}, w.gauge(), w.signs, &w.observables),
        ROW(milcgpu_gauge_stout_smear, none, {2}, w.gauge(), &w.stout, &w.of_force),
        ROW(milcgpu_gauge_copy, none, {}, w.gauge(), w.spare()),
        ROW(milcgpu_gauge_fix, none, {2}, w.gauge(), &w.fix, &w.of_fixing),
        ROW(milcgpu_gauge_ape_smear, none, {2, 3}, w.gauge(), &w.ape, &w.count, &w.of_force),
        ROW(milcgpu_gauge_hyp_smear, none, {2}, w.gauge(), &w.hyp, &w.of_force),
        // milcgpu_mesons.h
        ROW(milcgpu_meson_links_create, none, {}, w.context, MILCGPU_DOUBLE, &w.made_meson),
        ROW(milcgpu_meson_links_destroy, alone, {}, nullptr),
        ROW(milcgpu_meson_links_load, none, {}, w.meson(), &w.load_gauge, &w.links_in),
        ROW(milcgpu_meson_links_load_gauge, none, {}, w.meson(), &w.load_gauge, w.gauge()),
        ROW(milcgpu_quarks_shift, none, {3}, w.meson(), 0, MILCGPU_SYMMETRIC, w.origin, 2, (w.vectors(), &w.on_device), &w.to_device),
        ROW(milcgpu_spin_taste_index, alone, {}, "pion5"),
        ROW(milcgpu_spin_taste_label, alone, {}, 0, w.text, sizeof w.text),
        ROW(milcgpu_quarks_spin_taste, none, {1}, w.meson(), w.links(), milcgpu_spin_taste_index("G5-G5X"), w.origin, 2, &w.from, &w.to),
        MORE(milcgpu_quarks_spin_taste, "four links", none, {1}, w.meson(), w.links(), milcgpu_spin_taste_index("G1-G5"), w.origin, 1, &w.from, &w.to),
        MORE(milcgpu_quarks_spin_taste, "on the device", none, {1}, w.meson(), w.links(), milcgpu_spin_taste_index("G5-G5X"), w.origin, 2, (w.vectors(), &w.on_device), &w.to_device),
        ROW(milcgpu_quarks_gauss_smear, none, {}, w.meson(), 2, 0.4, 3, -1, 2, (w.start_smearing(), &w.in_place)),
        ROW(milcgpu_quarks_laplacian, none, {}, w.meson(), 1, -1, 2, (w.start_smearing(), &w.in_place)),
        ROW(milcgpu_quarks_contract, none, {2, 3}, w.meson(), &w.contraction, w.links(), w.links(), 2, &w.from, &w.from, w.sums.data()),
        // milcgpu_dirac.h
        ROW(milcgpu_gamma_index, alone, {}, MILCGPU_GAMMAS_MILC, "G5"),
        ROW(milcgpu_gamma_label, alone, {}, MILCGPU_GAMMAS_MILC, 0, w.text, sizeof w.text),
        ROW(milcgpu_gamma_matrix, alone, {}, MILCGPU_GAMMAS_MILC, 0, w.column, w.power),
        ROW(milcgpu_dirac_sites, none, {}, w.context, MILCGPU_OPEN_SPIN, &w.psi[0], &w.psi[1], &w.numbers_x),
        ROW(milcgpu_dirac_slices, none, {}, w.context, &w.slices, &w.psi[0], &w.psi[1], w.sums.data()),
        ROW(milcgpu_dirac_mesons, none, {}, w.context, &w.dirac_mesons, 1, w.quark.data(), w.quark.data(), w.sums.data()),
        ROW(milcgpu_dirac_open_mesons, none, {}, w.context, &w.dirac_mesons, 1, w.quark.data(), w.quark.data(), w.sums.data()),
        // milcgpu_laplace.h, milcgpu_wilson.h
        ROW(milcgpu_laplace_apply, none, {}, w.meson(), &w.laplace, MILCGPU_LAPLACE_M, 3, 2, &w.from, &w.to),
        ROW(milcgpu_laplace_solve, solves, {5}, w.meson(), &w.laplace_solve, 2, &w.from, &w.to, w.reports),
        ROW(milcgpu_laplace_plan, alone, {3, 5}, w.meson(), &w.laplace_solve, 1, w.text, sizeof w.text, &w.bytes),
        ROW(milcgpu_wilson_create, none, {}, w.context, &w.made_wilson),
        ROW(milcgpu_wilson_destroy, alone, {}, nullptr),
        ROW(milcgpu_wilson_load, none, {}, w.wilson(), &w.bare_in),
        ROW(milcgpu_wilson_load_gauge, none, {}, w.wilson(), w.signs, w.gauge()),
        ROW(milcgpu_wilson_dslash, none, {}, w.wilson(), &w.as_given, 1, MILCGPU_EVEN, &w.psi[0], &w.dirac_x[0]),
        ROW(milcgpu_wilson_matrix, none, {}, w.wilson(), &w.clover, &w.as_given, 1, MILCGPU_EVEN, &w.psi[0], &w.dirac_x[0]),
        ROW(milcgpu_wilson_solve, solves, {5}, w.wilson(), &w.clover, &w.wilson_solve, &w.psi[0], &w.dirac_x[0], w.reports),
        MORE(milcgpu_wilson_solve, "BiCGstab", solves, {5}, w.wilson(), &w.clover_bicgstab, &w.wilson_solve, &w.psi[0], &w.dirac_x[0], w.reports),
        ROW(milcgpu_wilson_solve_sources, solves, {7}, w.wilson(), &w.clover, &w.wilson_solve, MILCGPU_BLOCK, 2, w.psi.data(), w.dirac_x.data(), w.reports),
        ROW(milcgpu_wilson_residual, none, {}, w.wilson(), &w.clover, MILCGPU_EVEN, &w.psi[0], &w.psi[1], &w.value),
        ROW(milcgpu_wilson_multi_mass, solves, {5}, w.wilson(), &w.clover, &w.masses, &w.psi[0], w.dirac_x.data(), &w.of_masses),
        // milcgpu_baryons.h
        ROW(milcgpu_baryon_nucleon, none, {}, (w.vectors(), w.context), w.octets, w.sums.data()),
        ROW(milcgpu_baryon_delta, none, {}, w.context, (w.vectors(), w.octets[1]), w.sums.data()),
        ROW(milcgpu_octets_tie_up, none, {}, (w.vectors(), w.context), &w.tie_up, w.octets, w.sums.data()),
        MORE(milcgpu_octets_tie_up, "wall", none, {}, (w.vectors(), w.context), &w.tie_up_wall, w.octets, w.sums.data()),
        MORE(milcgpu_octets_tie_up, "at a momentum", none, {}, (w.vectors(), w.context), &w.tie_up_at_momentum, w.octets, w.sums.data()),
        ROW(milcgpu_octets_plan, alone, {4, 6}, w.context, MILCGPU_DOUBLE, 8, 715, w.text, sizeof w.text, &w.bytes),
        ROW(milcgpu_gb_operator_index, alone, {}, "8' S 7"),
        ROW(milcgpu_gb_operator_label, alone, {}, 0, w.text, sizeof w.text),
        ROW(milcgpu_gb_correlate, none, {}, (w.vectors(), w.context), &w.three_point, w.octets, w.sums.data()),
        MORE(milcgpu_gb_correlate, "two-point", none, {}, (w.vectors(), w.context), &w.two_point, w.octets, w.sums.data()),
        DEFAULTS(milcgpu_tie_up_defaults), DEFAULTS(milcgpu_gb_defaults),
    };
    return all;
}
// clang-format on

bool is_of_a_solve(const Call &call, const Part &part) {
    const auto begins = [&](const char *with) { return part.name.rfind(with, 0) == 0; };
    return part.name == "links" || begins("made links[") ||
           (call.traits & Call::solves &&
            (begins("x[") || begins("dirac_x[") || begins("vectors[") || begins("eigenvalues")));
}

bool same_state(const State &a, const State &b) {
    bool same = a.size() == b.size();
    for (size_t k = 0; same && k < a.size(); ++k)
        same = a[k].numbers == b[k].numbers;
    return same;
}

namespace {

// The name of the first part with a number that is neither near that of a right state nor the one of `before`, if
// given.
std::string first_wrong(const Call &call, const State &now, const State &right, const State *before = nullptr) {
    for (size_t k = 0; k < right.size(); ++k) {
        if (k >= now.size() || now[k].numbers.size() != right[k].numbers.size())
            return right[k].name;
        const Reals &a = now[k].numbers, &b = right[k].numbers;
        if (right[k].name == "residual" || (call.traits & Call::loose && right[k].name == "x[0]"))
            continue;
        double largest = 0;
        for (const double number : b)
            largest = std::fmax(largest, std::abs(number));
        const double allowed = largest * (right[k].name == "eigenvalues"  ? 0.1 // as milcgpu_eigen.h says
                                          : is_of_a_solve(call, right[k]) ? 1e-7
                                                                          : 1e-12);
        for (size_t i = 0; i < a.size(); ++i)
            if (!(std::abs(a[i] - b[i]) <= allowed) && (before == nullptr || a[i] != (*before)[k].numbers[i]))
                return right[k].name;
    }
    return "";
}

} // namespace

FaultedCall run_with_fault(World &w, const Call &call, const State &clean, const std::function<void()> &plant,
                           const std::function<bool()> &lift) {
    const BoundCall with = call.with(w);
    const State before = w.outputs();
    FaultedCall ran;
    plant();
    ran.status = with.run();
    ran.happened = lift();
    ran.message = milcgpu_last_error();
    if (ran.status == MILCGPU_OK || clean.empty()) {
        ran.wrong = first_wrong(call, w.state(), clean);
        return ran;
    }
    ran.written = !same_state(w.outputs(), before);
    const State right(clean.begin(), clean.begin() + before.size());
    ran.wrong = first_wrong(call, w.outputs(), right, &before);
    w.refill_outputs();
    ran.next = with.run();
    ran.emptied = ran.next == MILCGPU_BAD_ARGUMENT;
    if (ran.emptied) {
        w.refill();
        ran.next = call.with(w).run(); // prepares handles of the call again
    }
    if (ran.wrong.empty())
        ran.wrong = ran.next == MILCGPU_OK            ? first_wrong(call, w.state(), clean)
                    : same_state(w.outputs(), before) ? ""
                                                      : "outputs of the next call";
    return ran;
}

} // namespace tests
