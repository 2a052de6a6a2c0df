// Multi-mass conjugate gradient through the C interface.
#include "examples/lib/heatbath.h"
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_md.h"
#include "tests/support.h"
#include <cstring>
#include <map>
#include <random>

using namespace milcgpu;
using namespace tests;

namespace {

struct Result {
    milcgpu_status status;
    milcgpu_multi_mass_report report = sized<milcgpu_multi_mass_report>();
    std::vector<milcgpu_shift_report> shifts;
    std::vector<std::vector<double>> x;
};

milcgpu_multi_mass_spec multi_mass_spec(int shared, int sloppy = 0) {
    auto spec = sized<milcgpu_multi_mass_spec>();
    spec.parity = MILCGPU_EVEN;
    spec.max_iterations = 4000;
    spec.max_restarts = 10;
    spec.shared.precision = shared;
    spec.sloppy.precision = sloppy;
    return spec;
}

std::vector<milcgpu_pole> shifts_of(const std::vector<double> &offsets, double tolerance) {
    std::vector<milcgpu_pole> shifts;
    for (const double offset : offsets)
        shifts.push_back({offset, tolerance, 0});
    return shifts;
}

Result solve(Session<double> &session, milcgpu_multi_mass_spec spec, const std::vector<milcgpu_pole> &shifts,
             std::vector<double> b) {
    Result result;
    result.shifts.resize(shifts.size());
    result.x.assign(shifts.size(), std::vector<double>(b.size(), -7.0));
    std::vector<milcgpu_field> fields;
    for (auto &x : result.x)
        fields.push_back(Session<double>::field(x));
    const milcgpu_field from = Session<double>::field(b);
    spec.n_shifts = static_cast<int>(shifts.size());
    spec.shifts = shifts.data();
    result.report.shifts = result.shifts.data();
    result.status = milcgpu_staggered_multi_mass(session.links, &spec, &from, fields.data(), &result.report);
    return result;
}

struct Thermalized {
    reference::Lattice lattice{{4, 4, 4, 8}};
    AsqtadLinks links;
    reference::Fermion b;
    std::vector<double> b_milc;
    Thermalized() {
        reference::Gauge gauge = examples::thermalized(lattice, 6.0, 31, 20, 2);
        const auto c = reference::asqtad_coefficients(std::pow(reference::plaquette(lattice, gauge), 0.25));
        reference::apply_phases(lattice, gauge);
        links = {reference::fat_links(lattice, gauge, c), reference::long_links(lattice, gauge, c)};
        b = reference::random_fermion(lattice, 32);
        b_milc = reference::vector_to_milc<double>(lattice, b);
    }
    // |b - (offset - D D) x| / |b| on the even sites, by the reference.
    double residual(const std::vector<double> &x, double offset) const {
        const auto solution = reference::vector_from_milc<double>(lattice, x);
        const auto back =
            reference::normal_operator(lattice, links.fat, links.lng, 0.5 * std::sqrt(offset), 0, solution);
        return parity_difference(lattice, back, b, 0);
    }
};

const Thermalized &thermalized() {
    static const Thermalized system;
    return system;
}

// 4 m^2 for masses from 0.002 on.
std::vector<double> offsets(int count) {
    std::vector<double> result;
    for (int i = 0; i < count; ++i) {
        const double mass = 0.002 + 0.01 * i * i;
        result.push_back(4 * mass * mass);
    }
    return result;
}

// The error of |r| / |b| as measured.
constexpr double residual_error = times_measured * 4e-16;

} // namespace

TEST_CASE("every shift meets its tolerance by the reference's residual, in all precisions", "[multi_mass]") {
    const Thermalized &system = thermalized();
    struct Policy {
        int shared, sloppy;
        double tolerance;
    };
    const Policy policies[] = {{MILCGPU_DOUBLE, 0, 1e-6},
                               {MILCGPU_DOUBLE, 0, 1e-10},
                               {MILCGPU_DOUBLE, 0, 1e-12},
                               {MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                               {MILCGPU_DOUBLE, MILCGPU_HALF, 5e-4}, // starts in half
                               {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-5}, // in single
                               {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-6},
                               {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},
                               {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-12},
                               {MILCGPU_SINGLE, 0, 1e-10},
                               {MILCGPU_SINGLE, MILCGPU_HALF, 1e-10},
                               {MILCGPU_HALF, 0, 1e-6}};
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
        for (const Policy &policy : policies)
            for (const int count : sampled<int>({3, 1, 32, 20}, 2)) {
                if (count == 32 && (&policy - policies) % 3 != 0 && !long_tests())
                    continue;
                const auto at = offsets(count);
                const auto result = solve(session, multi_mass_spec(policy.shared, policy.sloppy),
                                          shifts_of(at, policy.tolerance), system.b_milc);
                CAPTURE(name(backend), policy.shared, policy.sloppy, policy.tolerance, count, result.report.message);
                REQUIRE(result.status == MILCGPU_OK);
                for (int i = 0; i < count; ++i) {
                    CAPTURE(i, result.shifts[i].shared_steps, result.shifts[i].steps);
                    const double residual = system.residual(result.x[i], at[i]);
                    CHECK(residual < 1.001 * policy.tolerance);
                    CHECK(std::fabs(residual - result.shifts[i].true_residual) <= residual_error);
                    CHECK(result.x[i][0] != -7);
                    CHECK(result.x[i].back() == -7); // an odd site
                }
            }
    }
}

TEST_CASE("shifts in any order, equal or single, give the solutions of single-mass CG", "[multi_mass][sanitize]") {
    const Thermalized &system = thermalized();
    const std::vector<double> at = {0.3, 0.01, 1.7, 0.01, 0.05};
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
        const auto result = solve(session, multi_mass_spec(MILCGPU_DOUBLE), shifts_of(at, 1e-10), system.b_milc);
        REQUIRE(result.status == MILCGPU_OK);
        CHECK(result.x[1] == result.x[3]);
        for (size_t i = 0; i < at.size(); ++i) {
            const auto single = reference::conjugate_gradient(system.lattice, system.links.fat, system.links.lng,
                                                              0.5 * std::sqrt(at[i]), 0, system.b,
                                                              reference::Fermion(system.b.size()), 1e-10, 5000);
            const auto mine = reference::vector_from_milc<double>(system.lattice, result.x[i]);
            CAPTURE(name(backend), i);
            // |x - x'| <= (|r| + |r'|) / offset, and the norm of the solution is at least |b| / (offset + 64).
            CHECK(parity_difference(system.lattice, mine, single.x, 0) < 2.1e-10 * (at[i] + 64) / at[i]);
            if (i == 1)
                CHECK(std::abs(result.report.steps + 2 - single.iterations) <= 1); // MILC's count has 2 residuals
            CHECK(result.shifts[i].shared_steps <= result.report.steps);
        }
        // Heavier shifts leave the shared iteration earlier.
        CHECK(result.shifts[2].shared_steps < result.shifts[1].shared_steps);
        const auto alone = solve(session, multi_mass_spec(MILCGPU_DOUBLE), shifts_of({0.01}, 1e-10), system.b_milc);
        REQUIRE(alone.status == MILCGPU_OK);
        CHECK(alone.report.steps == result.report.steps);
        const auto none = solve(session, multi_mass_spec(MILCGPU_DOUBLE), {}, system.b_milc);
        CHECK(none.status == MILCGPU_OK);
    }
}

TEST_CASE("each shift meets its own tolerance, absolute, relative or by residue", "[multi_mass]") {
    const Thermalized &system = thermalized();
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
        // A heavy shift with the tighter tolerance; one with the relative residual alone.
        const std::vector<milcgpu_pole> shifts = {{0.01, 1e-5, 0}, {0.2, 1e-11, 0}, {0.05, 0, 1e-8}};
        const auto result = solve(session, multi_mass_spec(MILCGPU_DOUBLE), shifts, system.b_milc);
        REQUIRE(result.status == MILCGPU_OK);
        CHECK(system.residual(result.x[0], 0.01) < 1e-5);
        CHECK(system.residual(result.x[1], 0.2) < 1.001e-11);
        CHECK(result.shifts[2].relative_residual < 1e-8);
        auto spec = multi_mass_spec(MILCGPU_DOUBLE);
        const double residues[] = {1, 1000, 0.001};
        spec.residues = residues;
        const auto weighted = solve(session, spec, shifts_of({0.01, 0.02, 0.03}, 1e-7), system.b_milc);
        REQUIRE(weighted.status == MILCGPU_OK);
        CHECK(system.residual(weighted.x[1], 0.02) < 1.001e-10);
        CHECK(weighted.shifts[2].shared_steps < weighted.shifts[0].shared_steps);
        const double far_apart[] = {1e-9, 1}; // the tolerance would be 1e-16; the library limits it to 1e-14
        spec.residues = far_apart;
        const auto least = solve(session, spec, shifts_of({0.01, 3.0}, 1e-7), system.b_milc);
        CHECK(least.shifts[1].status == MILCGPU_OK);
        CHECK(system.residual(least.x[1], 3.0) < 1.1e-14);
    }
}

TEST_CASE("a zero source, the iteration limit and a tolerance out of reach are reported", "[multi_mass][errors]") {
    const Thermalized &system = thermalized();
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
        CAPTURE(name(backend));
        const auto zero = solve(session, multi_mass_spec(MILCGPU_DOUBLE), shifts_of({0.01, 0.1}, 1e-10),
                                std::vector<double>(system.b_milc.size(), 0.0));
        CHECK(zero.status == MILCGPU_OK);
        for (const auto &x : zero.x)
            CHECK((x[0] == 0 && x[x.size() / 2 - 1] == 0 && x.back() == -7));

        auto spec = multi_mass_spec(MILCGPU_DOUBLE);
        spec.max_iterations = 20;
        const auto limited = solve(session, spec, shifts_of({0.01, 3.0}, 1e-10), system.b_milc);
        CHECK(limited.status == MILCGPU_NOT_CONVERGED);
        CHECK(limited.shifts[0].status == MILCGPU_NOT_CONVERGED);
        CHECK(limited.report.steps == 20);
        CHECK(has(limited.report.message, "offset 0.01: 21 iterations (starts: 1)"));
        for (int i = 0; i < 2; ++i) {
            const double residual = system.residual(limited.x[i], i == 0 ? 0.01 : 3.0);
            CHECK(residual == Approx(limited.shifts[i].true_residual).epsilon(1e-6));
            CHECK(residual < 1);
        }

        const std::vector<milcgpu_pole> shifts = {{0.0001, 1e-17, 0}, {0.1, 1e-10, 0}};
        const auto floor = solve(session, multi_mass_spec(MILCGPU_DOUBLE), shifts, system.b_milc);
        CHECK(floor.status == MILCGPU_PRECISION_FLOOR);
        CHECK(floor.shifts[0].status == MILCGPU_PRECISION_FLOOR);
        CHECK(floor.shifts[1].status == MILCGPU_OK); // the others do not hold it back
        CHECK(system.residual(floor.x[0], 0.0001) == Approx(floor.shifts[0].true_residual).epsilon(0.2));
        CHECK(system.residual(floor.x[1], 0.1) < 1e-10);
    }
}

TEST_CASE("a shift that fails leaves the others as they are without it", "[multi_mass][errors]") {
    const Thermalized &system = thermalized();
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend);
        // Expects that these shifts fail with these statuses, and that all others are as in a call without them.
        const auto failing = [&](const milcgpu_multi_mass_spec &spec, const std::vector<milcgpu_pole> &shifts,
                                 const std::map<int, milcgpu_status> &fail, const std::vector<double> &b) {
            const auto all = solve(session, spec, shifts, b);
            std::vector<milcgpu_pole> well;
            for (int i = 0; i < int(shifts.size()); ++i)
                if (fail.count(i) == 0)
                    well.push_back(shifts[i]);
            const auto without = solve(session, spec, well, b);
            const auto &[first, status] = *fail.begin();
            CAPTURE(name(backend), all.report.message, without.report.message);
            CHECK(all.status == status);
            CHECK(all.report.status == status);
            CHECK(has(all.report.message, milcgpu::format("offset %g: ", shifts[first].offset)));
            CHECK(last_error_says(without.report.message));
            for (int i = 0, k = 0; i < int(shifts.size()); ++i) {
                CAPTURE(i, all.shifts[i].status, all.shifts[i].true_residual);
                if (fail.count(i) == 1) {
                    CHECK(all.shifts[i].status == fail.at(i));
                    CHECK(all.x[i] == std::vector<double>(b.size(), -7.0));
                    continue;
                }
                CHECK(all.shifts[i].status == without.shifts[k].status);
                CHECK(all.shifts[i].true_residual < std::fmax(shifts[i].tolerance, 1e-14));
                CHECK(largest_difference(all.x[i], without.x[k]) < 1e-6);
                ++k;
            }
        };
        REQUIRE(session.load(system.links.fat, system.links.lng) == MILCGPU_OK);
        // An offset that overflows in single precision fails in the shared iteration, or in the refinement.
        for (const int sloppy : {0, int(MILCGPU_HALF)}) {
            const auto spec = multi_mass_spec(MILCGPU_SINGLE, sloppy);
            failing(spec, shifts_of({0.1, 1e39, 0.02}, 1e-10), {{1, MILCGPU_NAN_OR_INF}}, system.b_milc);
            failing(spec, shifts_of({2e39, 0.1, 1e39}, 1e-10), {{0, MILCGPU_NAN_OR_INF}, {2, MILCGPU_NAN_OR_INF}},
                    system.b_milc);
            CHECK(solve(session, spec, shifts_of({1e39, 2e39}, 1e-10), system.b_milc).status == MILCGPU_NAN_OR_INF);
        }
        // The call returns the graver status: an overflow counts more than a tolerance that is not reached.
        failing(multi_mass_spec(MILCGPU_SINGLE), {{0.1, 1e-18, 0}, {1e39, 1e-10, 0}}, {{1, MILCGPU_NAN_OR_INF}},
                system.b_milc);
        // On the device a shift that fails keeps the content of its vector.
        milcgpu_vectors *vectors = nullptr;
        REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, 3, &vectors) == MILCGPU_OK);
        std::vector<double> b = system.b_milc, back(b.size(), 0.0);
        const milcgpu_field from = session.field(b), to = session.field(back);
        REQUIRE(milcgpu_vectors_load(vectors, 1, MILCGPU_EVEN, &from) == MILCGPU_OK);
        const auto shifts = shifts_of({0.1, 1e39, 0.02}, 1e-10);
        auto spec = multi_mass_spec(MILCGPU_SINGLE);
        spec.n_shifts = 3, spec.shifts = shifts.data();
        CHECK(milcgpu_staggered_multi_mass_vectors(session.links, &spec, &from, vectors, 0, nullptr) ==
              MILCGPU_NAN_OR_INF);
        for (const int i : {0, 1, 2}) {
            CHECK(milcgpu_vectors_save(vectors, i, MILCGPU_EVEN, &to) == MILCGPU_OK);
            if (i == 1)
                CHECK(std::equal(back.begin(), back.begin() + back.size() / 2, b.begin()));
            else
                CHECK(system.residual(back, shifts[i].offset) < 1e-10);
        }
        milcgpu_vectors_destroy(vectors);
        // On zero links an offset whose inverse overflows in single precision is the base of the iteration.
        REQUIRE(session.load(reference::Gauge(system.links.fat.size()), reference::Gauge(system.links.fat.size())) ==
                MILCGPU_OK);
        failing(multi_mass_spec(MILCGPU_SINGLE), shifts_of({3, 1e-60, 1, 1e-60}, 1e-10),
                {{1, MILCGPU_NAN_OR_INF}, {3, MILCGPU_NAN_OR_INF}}, system.b_milc);
    }
}

TEST_CASE("bad multi-mass solves are refused by name", "[multi_mass][errors][sanitize]") {
    const Thermalized &system = thermalized();
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
        const auto refused = [&](const std::vector<milcgpu_pole> &shifts, const auto &change, milcgpu_status status,
                                 const char *word) {
            auto spec = multi_mass_spec(MILCGPU_DOUBLE);
            change(spec);
            const auto result = solve(session, spec, shifts, system.b_milc);
            CAPTURE(name(backend), word, result.report.message);
            CHECK(result.status == status);
            CHECK(result.report.shifts == result.shifts.data()); // the caller's
            CHECK(result.report.status == status);
            CHECK(has(result.report.message, word));
            for (const auto &x : result.x)
                CHECK(x[0] == -7);
        };
        const auto nothing = [](milcgpu_multi_mass_spec &) {};
        const auto good = shifts_of({0.1, 0.2}, 1e-8);
        for (const double bad : {-1.0, 0.0, double(NAN), double(INFINITY)})
            refused(shifts_of({0.1, bad}, 1e-8), nothing, MILCGPU_BAD_ARGUMENT, "spec.shifts[1].offset");
        for (const double bad : {-1.0, 0.0, double(NAN)})
            refused(shifts_of({0.1}, bad), nothing, MILCGPU_BAD_ARGUMENT, "tolerance");
        refused(std::vector<milcgpu_pole>(33, {0.1, 1e-8, 0}), nothing, MILCGPU_BAD_ARGUMENT, "n_shifts is 33");
        refused(
            good, [](auto &s) { s.parity = 3; }, MILCGPU_BAD_ARGUMENT, "parity");
        refused(
            good, [](auto &s) { s.struct_size = 4; }, MILCGPU_BAD_ARGUMENT, "struct_size");
        refused(
            good, [](auto &s) { s.max_iterations = 0; }, MILCGPU_BAD_ARGUMENT, "max_iterations");
        refused(
            good, [](auto &s) { s.shared.precision = 0; }, MILCGPU_BAD_ARGUMENT, "spec.shared.precision");
        refused(
            good, [](auto &s) { s.links_version = 77; }, MILCGPU_BAD_ARGUMENT, "stale links");
        refused(
            good, [](auto &s) { s.precise.precision = MILCGPU_SINGLE; }, MILCGPU_NOT_BUILT, "finer");
        refused(
            good, [](auto &s) { s.shared.precision = MILCGPU_HALF, s.sloppy.precision = MILCGPU_SINGLE; },
            MILCGPU_BAD_ARGUMENT, "finer than spec.shared");
        auto b = system.b_milc;
        b[17] = NAN;
        const auto result = solve(session, multi_mass_spec(MILCGPU_DOUBLE), good, b);
        CHECK(result.status == MILCGPU_NAN_OR_INF);
        CHECK(result.x[0][0] == -7);
        auto spec = multi_mass_spec(MILCGPU_DOUBLE);
        spec.n_shifts = 2;
        const milcgpu_field from = Session<double>::field(b);
        CHECK(milcgpu_staggered_multi_mass(session.links, &spec, &from, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_multi_mass(session.links, nullptr, &from, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("refinement of several masses works with every reconstruction of the batch kernels",
          "[multi_mass][sanitize]") {
    const Thermalized &system = thermalized();
    const auto at = offsets(6); // two groups of fields a block
    for (const Backend backend : backends()) {
        Session<double> session(system.lattice, backend, system.links);
#if defined(__SANITIZE_ADDRESS__)
        const std::vector<int> all_reals = {18, 9}; // another test runs the others
#else
        const std::vector<int> all_reals = {18, 13, 12, 9, 8};
#endif
        for (const int reals : all_reals) {
            auto spec = multi_mass_spec(MILCGPU_SINGLE);
            spec.shared.reconstruct = spec.sloppy.reconstruct = reals;
            spec.sloppy.precision = MILCGPU_SINGLE;
            spec.shared_tolerance = 1e-3;
            const auto result = solve(session, spec, shifts_of(at, 1e-9), system.b_milc);
            CAPTURE(name(backend), reals, result.report.message);
            REQUIRE(result.status == MILCGPU_OK);
            for (size_t i = 0; i < at.size(); ++i) {
                CHECK(result.shifts[i].steps > 0);
                CHECK(system.residual(result.x[i], at[i]) < 1.001e-9);
            }
            if (reals != 18)
                continue;
            // Launches work on fewer and fewer of the first masses; in descending order, on all to the end, with the
            // same bits.
            const auto descending = solve(session, spec, shifts_of({at.rbegin(), at.rend()}, 1e-9), system.b_milc);
            REQUIRE(descending.status == MILCGPU_OK);
            CHECK(std::vector<std::vector<double>>(descending.x.rbegin(), descending.x.rend()) == result.x);
        }
    }
}

TEST_CASE("multi-mass solves have the same bits twice and for any number of threads, on small and large lattices",
          "[multi_mass][determinism]") {
    LONG_TEST;
    const auto shifts = shifts_of({4.0, 6.0, 16.0}, 1e-7);
    for (const int parts_below : both_ways) {
        const bool many = parts_below > 0; // two groups of tiles
        const reference::Lattice lattice{{many ? 16 : 8, many ? 12 : 8, many ? 12 : 8, many ? 16 : 8}};
        const AsqtadLinks links{unitary_links(lattice, 33, 0.3, false), unitary_links(lattice, 35, 0.05, false)};
        const auto b = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 34));
        for (const Backend backend : backends()) {
            std::vector<std::vector<double>> first;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Session<double> session(lattice, backend, threads.block);
                session.context->device->set_parts_below(parts_below);
                REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
                for (int repeat = 0; repeat < (choice == 0 ? 2 : 1); ++repeat) {
                    const auto result = solve(session, multi_mass_spec(MILCGPU_SINGLE, MILCGPU_HALF), shifts, b);
                    REQUIRE(result.status == MILCGPU_OK);
                    if (first.empty())
                        first = result.x;
                    CAPTURE(name(backend), parts_below, choice, repeat);
                    CHECK((result.x == first));
                }
            }
        }
    }
}

namespace {

// Shift 0 has three pending iterations, shift 1 has none.
template <class Real> void compare_update_of_shifts(const std::array<int, 4> &box) {
    Device device{Backend::host, 0};
    const Geometry geometry(box, {0, 0, 0, 0}, {24, 24, 24, 24}, 3, 0);
    const Precision precision = sizeof(Real) == 8 ? Precision::double_ : Precision::single;
    SpinorField r(device, precision, geometry, 0, "test", cg_kept_steps), p(device, precision, geometry, 0, "test", 2),
        x(device, Precision::double_, geometry, 0, "test", 2);
    std::mt19937 random{3};
    std::normal_distribution<double> gauss;
    const auto filled = [&](const SpinorField &field, auto type) {
        std::vector<decltype(type)> reals(field.bytes() / sizeof type);
        for (auto &real : reals)
            real = static_cast<decltype(type)>(gauss(random));
        std::memcpy(field.data(), reals.data(), field.bytes());
        return reals;
    };
    const auto from = filled(r, Real());
    auto direction = filled(p, Real());
    auto solution = filled(x, double());
    ShiftState state{};
    state.count = 2;
    Shift &shift = state.shift[0];
    shift.pending = 3;
    const size_t reals = 6 * geometry.sites(0);
    std::vector<double> step(reals);
    for (int k = 0; k < shift.pending; ++k) {
        shift.alpha[k] = 0.3 + k, shift.residual[k] = 0.7 - k, shift.beta[k] = 0.1 + 0.2 * k;
        for (size_t e = 0; e < reals; ++e) {
            step[e] += shift.alpha[k] * direction[e];
            direction[e] =
                static_cast<Real>(shift.residual[k] * from[k * r.bytes() / cg_kept_steps / sizeof(Real) + e] +
                                  shift.beta[k] * direction[e]);
        }
    }
    update_shifts(device, {r, p, x}, &state, 0.5);
    const double rounding = 20 * (sizeof(Real) == 8 ? 2e-16 : 1e-7);
    const Real *const new_p = reinterpret_cast<const Real *>(p.data());
    const double *const new_x = reinterpret_cast<const double *>(x.data());
    double worst = 0;
    for (size_t e = 0; e < solution.size(); ++e) {
        worst = std::max(worst, std::abs(static_cast<double>(new_p[e] - direction[e])));
        worst = std::max(worst, std::abs(new_x[e] - solution[e] - (e < reals ? 0.5 * step[e] : 0)));
    }
    CHECK(worst < rounding);
}

} // namespace

// The host updates tiles of eight sites: 2 sites, two tiles and one of 2 sites, whole tiles alone.
TEST_CASE("the shifts of every site of a box are updated, whatever its number of sites", "[multi_mass]") {
    for (const std::array<int, 4> &box : {std::array<int, 4>{2, 2, 1, 1}, {2, 2, 3, 3}, {4, 4, 4, 8}}) {
        compare_update_of_shifts<double>(box);
        compare_update_of_shifts<float>(box);
    }
}
