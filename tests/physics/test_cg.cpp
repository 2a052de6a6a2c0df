// Conjugate gradient through the C interface: all precision pairs, stopping rules, determinism, MILC's samples.
#include "examples/lib/lattice_file.h"
#include "milc_glue/api/context.h"
#include "milc_glue/solve/kept_solver.h"
#include "tests/handles.h"
#include "tests/support.h"

using namespace tests;
using milcgpu::Backend;

namespace {

struct Solved {
    milcgpu_status status;
    milcgpu_solve_report report;
    std::vector<double> x;
};

Solved solve(Session<double> &session, const milcgpu_solve_spec &spec, const reference::Fermion &source,
             const reference::Fermion &guess) {
    Solved s{MILCGPU_OK, sized<milcgpu_solve_report>(), reference::vector_to_milc<double>(session.lattice, guess)};
    auto b = reference::vector_to_milc<double>(session.lattice, source);
    const milcgpu_field from = session.field(b), to = session.field(s.x);
    s.status = milcgpu_staggered_solve(session.links, &spec, &from, &to, &s.report);
    return s;
}

reference::Fermion zero(const reference::Lattice &lattice) { return reference::Fermion(lattice.volume()); }

// |b - A x| / |b| by the reference.
double residual(const reference::Lattice &lattice, const AsqtadLinks &links, double mass, int parity,
                const reference::Fermion &b, const std::vector<double> &x) {
    const auto ax = reference::normal_operator(lattice, links.fat, links.lng, mass, parity,
                                               reference::vector_from_milc<double>(lattice, x));
    return parity_difference(lattice, ax, b, parity);
}

// The error of |r| / |b| as measured.
constexpr double residual_error = times_measured * 1e-15;
// Steps in a mixed precision over steps in one precision: at most 1.7 % more were measured.
constexpr double more_steps = 1 + times_measured * 0.017;

} // namespace

TEST_CASE("every precision pair reaches its tolerance by the reference's residual", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 41);
    const auto b = random_fermion(lattice, 42);
    struct Pair {
        int precise, sloppy;
        double tolerance;
    };
    const Pair pairs[] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-10}, {MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                          {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},   {MILCGPU_SINGLE, MILCGPU_SINGLE, 3e-5},
                          {MILCGPU_SINGLE, MILCGPU_HALF, 3e-5},    {MILCGPU_HALF, MILCGPU_HALF, 6e-3}};
    // Without double, the residual ends at epsilon |A| |x| / |b|: 1e-5 in single, 2e-3 in half on this system.
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            int pure_steps[4] = {}; // by the precise precision
            for (const Pair &pair : pairs)
                for (const int reconstruct : sampled<int>({18, 13}, parity == MILCGPU_EVEN ? 1 : 2)) {
                    milcgpu_solve_spec spec = solve_spec(0.05, pair.tolerance, pair.precise, pair.sloppy);
                    spec.parity = parity;
                    spec.sloppy.reconstruct = reconstruct;
                    const Solved s = solve(session, spec, b, zero(lattice));
                    CAPTURE(milcgpu::name(backend), parity, pair.precise, pair.sloppy, reconstruct, s.report.steps,
                            s.report.true_residual, s.report.message);
                    CHECK(s.status == MILCGPU_OK);
                    CHECK(s.report.sloppy_reconstruct == reconstruct);
                    CHECK(s.report.true_residual < pair.tolerance);
                    const double checked = residual(lattice, links, 0.05, parity == MILCGPU_EVEN ? 0 : 1, b, s.x);
                    CHECK(std::fabs(checked - s.report.true_residual) <= residual_error);
                    if (pair.precise == pair.sloppy && reconstruct == 18)
                        pure_steps[pair.precise] = s.report.steps;
                    CHECK(s.report.steps <= more_steps * pure_steps[pair.precise]);
                }
        }
    }
}

// If the two counts differ by one step, the last residual of one solver lies at the tolerance but for rounding.
TEST_CASE("conjugate gradient takes the steps of the textbook's algorithm and gives its solution", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 43);
    const auto b = random_fermion(lattice, 44);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const double mass : {0.5, 0.05})
            for (const double tolerance : {1e-3, 1e-10}) {
                const auto twin = reference::conjugate_gradient(lattice, links.fat, links.lng, mass, 0, b,
                                                                zero(lattice), tolerance, 5000);
                const Solved s =
                    solve(session, solve_spec(mass, tolerance, MILCGPU_DOUBLE, MILCGPU_DOUBLE), b, zero(lattice));
                CAPTURE(milcgpu::name(backend), mass, tolerance, twin.iterations, twin.residual, s.report.steps,
                        s.report.iterations, s.report.true_residual);
                CHECK(s.status == MILCGPU_OK);
                CHECK(std::abs(s.report.iterations - twin.iterations) <= 1);
                CHECK(s.report.true_residual == Approx(twin.residual).epsilon(0.05));
                const auto x = reference::vector_from_milc<double>(lattice, s.x);
                CHECK(parity_difference(lattice, x, twin.x, 0) < 0.02 * tolerance); // 0.004 was measured
            }
    }
}

TEST_CASE("on light masses single precision replaces half, unless the caller forbids it", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 45);
    const auto b = random_fermion(lattice, 46);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        milcgpu_solve_spec spec = solve_spec(0.05, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        const Solved heavy = solve(session, spec, b, zero(lattice));
        CHECK(heavy.report.steps_in_half == heavy.report.steps);
        spec.mass = 0.001;
        const Solved light = solve(session, spec, b, zero(lattice));
        CHECK(light.status == MILCGPU_OK);
        CHECK(light.report.steps_in_half == 0);
        const Solved in_double =
            solve(session, solve_spec(0.001, 1e-10, MILCGPU_DOUBLE, MILCGPU_DOUBLE), b, zero(lattice));
        CHECK(light.report.steps <=
              more_steps * in_double.report.steps); // it started in double and went down to single
        spec.jump_limit = 1e9;
        const Solved stubborn = solve(session, spec, b, zero(lattice));
        CHECK(stubborn.status == MILCGPU_OK);
        CHECK(stubborn.report.steps_in_half == stubborn.report.steps);
        CHECK(stubborn.report.largest_jump > 0);
        spec.mass = 0.05;
        spec.jump_limit = 1e-9; // the first update is beyond it
        const Solved nervous = solve(session, spec, b, zero(lattice));
        CHECK(nervous.status == MILCGPU_OK);
        CHECK(nervous.report.steps_in_half > 0);
        CHECK(nervous.report.steps_in_half < nervous.report.steps);
    }
}

TEST_CASE("on heavy masses half precision needs fewer true residuals, and no more steps than double", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 47);
    const auto b = random_fermion(lattice, 48);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        const auto with = [&](double mass, int sloppy, double delta) {
            milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, sloppy);
            spec.reliable_delta = delta;
            const Solved s = solve(session, spec, b, zero(lattice));
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.report.true_residual < 1e-10);
            return s.report;
        };
        const auto heavy = with(0.5, MILCGPU_HALF, 0), often = with(0.5, MILCGPU_HALF, 0.3);
        CAPTURE(milcgpu::name(backend), heavy.steps, heavy.reliable_updates, often.reliable_updates);
        CHECK(heavy.reliable_updates < 0.5 * often.reliable_updates);
        CHECK(heavy.steps <= more_steps * with(0.5, MILCGPU_DOUBLE, 0).steps);
        CHECK(with(0.01, MILCGPU_HALF, 0).reliable_updates == with(0.01, MILCGPU_HALF, 0.3).reliable_updates);
    }
}

TEST_CASE("every precision and reconstruction works with every coarser one, and finer ones are refused", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 43);
    const auto b = random_fermion(lattice, 44);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links, 0, 0);
        int run = 0, refused = 0;
        for (int p = MILCGPU_DOUBLE; p <= MILCGPU_HALF; ++p)
            for (const int reals : {18, 12})
                for (int s = MILCGPU_DOUBLE; s <= MILCGPU_HALF; ++s)
                    for (const int sloppy_reals : {18, 12}) {
                        milcgpu_solve_spec spec = solve_spec(0.5, 5e-3, p, s);
                        spec.precise.reconstruct = reals;
                        spec.sloppy.reconstruct = sloppy_reals;
                        const Solved got = solve(session, spec, b, zero(lattice));
                        CAPTURE(p, reals, s, sloppy_reals, got.report.message, got.report.true_residual);
                        if (s < p) { // the sloppy precision must not exceed the precise one
                            CHECK(got.status == MILCGPU_NOT_BUILT);
                            CHECK(has(got.report.message, "double/half"));
                            ++refused;
                        } else {
                            CHECK(got.status == MILCGPU_OK);
                            ++run;
                        }
                    }
        CHECK(run + refused == 36);
        CHECK(run == 24);
    }
}

TEST_CASE("a solve obeys guess, iteration limit, restarts and relative residual, and solves a zero source", "[cg]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 51);
    const auto b = random_fermion(lattice, 52);
    for (const Backend backend : backends()) {
        CAPTURE(milcgpu::name(backend));
        Session<double> session(lattice, backend, links);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            CAPTURE(sloppy);
            milcgpu_solve_spec spec = solve_spec(0.04, 1e-9, MILCGPU_DOUBLE, sloppy);
            const Solved first = solve(session, spec, b, zero(lattice));
            REQUIRE(first.status == MILCGPU_OK);
            CHECK(first.report.restarts >= 1);
            // The guess is the solution: one evaluation, no step.
            const Solved again = solve(session, spec, b, reference::vector_from_milc<double>(lattice, first.x));
            CHECK(again.report.iterations == 1);
            CHECK(again.report.steps == 0);
            CHECK(again.x == first.x);
            // Stopped half way, the solve returns a partial solution and its true residual.
            milcgpu_solve_spec limited = spec;
            limited.max_iterations = first.report.steps / 2;
            limited.max_restarts = 1;
            const Solved part = solve(session, limited, b, zero(lattice));
            CHECK(part.status == MILCGPU_NOT_CONVERGED);
            CHECK(part.report.true_residual > 1e-9);
            CHECK(std::fabs(residual(lattice, links, 0.04, 0, b, part.x) - part.report.true_residual) <
                  times_measured * 1.5e-11 * part.report.true_residual);
            // With a restart every 10 iterations the solve still converges, more slowly.
            milcgpu_solve_spec restarted = spec;
            restarted.max_iterations = 30;
            restarted.max_restarts = 100;
            const Solved slow = solve(session, restarted, b, zero(lattice));
            CHECK(slow.status == MILCGPU_OK);
            CHECK(slow.report.restarts > 2);
            // MILC's relative residual, computed here.
            milcgpu_solve_spec relative = spec;
            relative.tolerance = 0;
            relative.relative_tolerance = 1e-6;
            const Solved local = solve(session, relative, b, zero(lattice));
            CHECK(local.status == MILCGPU_OK);
            const auto x = reference::vector_from_milc<double>(lattice, local.x);
            const auto ax = reference::normal_operator(lattice, links.fat, links.lng, 0.04, 0, x);
            double sum = 0;
            for (int s = 0; s < lattice.volume(); ++s)
                if (lattice.parity(s) == 0)
                    sum += reference::norm2(b[s] - ax[s]) / reference::norm2(x[s]);
            const double by_hand = std::sqrt(2 * sum / lattice.volume());
            CHECK(by_hand < 1e-6);
            CHECK(std::fabs(local.report.relative_residual - by_hand) < times_measured * 2e-10 * by_hand);
        }
        const milcgpu_solve_spec spec = solve_spec(0.04, 1e-9, MILCGPU_DOUBLE, MILCGPU_HALF);
        const Solved none = solve(session, spec, zero(lattice), b);
        CHECK(none.status == MILCGPU_OK);
        CHECK(none.report.iterations == 0);
        double even = 0, odd = 0;
        for (size_t k = 0; k < none.x.size(); ++k)
            (k < none.x.size() / 2 ? even : odd) += std::fabs(none.x[k]);
        CHECK(even == 0); // solved parity zeroed, the other untouched
        CHECK(odd > 0);
    }
}

TEST_CASE("a solve has the same bits twice and for any number of threads, in lock-step and one by one",
          "[cg][determinism]") {
    struct Case {
        std::array<int, 4> extents;
        int sloppy, parts_below;
    };
    const std::array<int, 4> small{8, 8, 8, 8}, two_groups{16, 12, 12, 16}; // groups of tiles
    for (const Case &c : sampled<Case>({{two_groups, MILCGPU_HALF, both_ways[1]},
                                        {small, MILCGPU_HALF, both_ways[0]},
                                        {small, MILCGPU_DOUBLE, both_ways[1]},
                                        {two_groups, MILCGPU_DOUBLE, both_ways[0]}},
                                       2)) {
        const reference::Lattice lattice{c.extents};
        const AsqtadLinks links{unitary_links(lattice, 61, 0.3, false), unitary_links(lattice, 63, 0.05, false)};
        const auto b = random_fermion(lattice, 62);
        for (const Backend backend : backends()) {
            std::vector<double> first;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Session<double> session(lattice, backend, threads.block);
                session.context->device->set_parts_below(c.parts_below);
                REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
                for (int repeat = 0; repeat < (choice == 0 ? 2 : 1); ++repeat) {
                    const Solved s = solve(session, solve_spec(1.0, 1e-5, MILCGPU_DOUBLE, c.sloppy), b, zero(lattice));
                    CHECK(s.status == MILCGPU_OK);
                    if (first.empty())
                        first = s.x;
                    CAPTURE(milcgpu::name(backend), c.extents[0], c.sloppy, c.parts_below, choice, repeat);
                    CHECK((s.x == first));
                }
            }
        }
    }
}

TEST_CASE("the library keeps the four solvers used last, and a new solver gives the same solution", "[cg][api]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 63);
    const auto b = random_fermion(lattice, 64);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        const auto &kept = milcgpu::kept_solvers(*session.context).all;
        constexpr int kinds = 6;
        Solved first[kinds];
        size_t used = 0;
        for (int round = 0; round < 2; ++round) {
            for (int kind = 0; kind < kinds; ++kind) {
                milcgpu_solve_spec spec = solve_spec(0.5, 1e-9, MILCGPU_DOUBLE, MILCGPU_DOUBLE + kind % 3);
                spec.parity = kind < 3 ? MILCGPU_EVEN : MILCGPU_ODD;
                const Solved s = solve(session, spec, b, zero(lattice));
                REQUIRE(s.status == MILCGPU_OK);
                if (round == 0)
                    first[kind] = s;
                CAPTURE(milcgpu::name(backend), round, kind);
                CHECK(s.x == first[kind].x);
                CHECK(kept.size() == std::min<size_t>(kind + 1 + round * kinds, 4));
                CHECK(kept.front().parity == kind / 3);
            }
            if (round == 0)
                used = session.context->device->used_bytes();
        }
        CHECK(session.context->device->used_bytes() == used);
        const milcgpu::CgSolver *oldest = kept.back().cg.get(); // kind 2 of the second round
        milcgpu_solve_spec spec = solve_spec(0.5, 1e-9, MILCGPU_DOUBLE, MILCGPU_HALF);
        CHECK(solve(session, spec, b, zero(lattice)).status == MILCGPU_OK);
        CHECK(kept.front().cg.get() == oldest); // reused, not allocated again
        CHECK(kept.back().cg.get() != oldest);
    }
}

TEST_CASE("without memory for the descent of a light mass the solve runs in one precision", "[cg][errors]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 45);
    const auto b = random_fermion(lattice, 46);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        milcgpu::Device &device = *session.context->device;
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        const auto with_mass = [](double mass) { return solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE); };
        // Makes the solver and links in single; on the host a heavier mass would iterate with links in half.
        REQUIRE(solve(session, with_mass(0.007), b, zero(lattice)).status == MILCGPU_OK);
        const size_t before = device.used_bytes();
        for (const int granted : {0, 1, 2}) { // fields of the descent before the one that does not fit
            device.inject(milcgpu::Fault::allocation, granted);
            const Solved s = solve(session, with_mass(0.001), b, zero(lattice));
            device.inject(milcgpu::Fault::none);
            CAPTURE(milcgpu::name(backend), granted, s.report.message);
            CHECK(s.status == MILCGPU_OK);
            CHECK(residual(lattice, links, 0.001, 0, b, s.x) < 1e-10);
            CHECK(device.used_bytes() == before); // all of it was freed
        }
        CHECK(solve(session, with_mass(0.001), b, zero(lattice)).status == MILCGPU_OK);
        CHECK(device.used_bytes() > before); // so the faults did hit the descent
    }
}

TEST_CASE("host data in single precision, strided and mapped, give the same solution", "[cg][layout]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const AsqtadLinks links = asqtad_links(lattice, 71);
    const auto b = random_fermion(lattice, 72);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        const milcgpu_solve_spec spec = solve_spec(0.1, 1e-11, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        const Solved plain = solve(session, spec, b, zero(lattice));
        const auto expected = reference::vector_from_milc<double>(lattice, plain.x);
        // Lexicographic records of 9 reals, 3 of them not ours; links in site structures of 80 reals.
        const int volume = lattice.volume();
        const std::vector<int> map = reference::milc_order(lattice);
        const milcgpu_layout layout = layout_of({{4, 4, 4, 6}}, map.data());
        const Context context(layout, backend);
        std::vector<float> site(volume * 160, 5), vectors(volume * 9, 5), result(volume * 9, 5);
        for (int s = 0; s < volume; ++s)
            for (int k = 0; k < 72; ++k) {
                const auto part = [&](const reference::Gauge &l) {
                    const reference::Complex e = l[4 * s + k / 18].e[k % 18 / 6][k % 6 / 2];
                    return float(k % 2 ? e.imag() : e.real());
                };
                site[s * 160 + k] = part(links.fat);
                site[s * 160 + 80 + k] = part(links.lng);
                if (k < 6) {
                    vectors[s * 9 + k] = float(k % 2 ? b[s].c[k / 2].imag() : b[s].c[k / 2].real());
                    result[s * 9 + k] = 0;
                }
            }
        const milcgpu_field fat{site.data(), MILCGPU_SINGLE, 640}, lng{site.data() + 80, MILCGPU_SINGLE, 640};
        const LinksHandle handle(context, &fat, &lng);
        const milcgpu_field source{vectors.data(), MILCGPU_SINGLE, 36}, x{result.data(), MILCGPU_SINGLE, 36};
        CHECK(milcgpu_staggered_solve(handle, &spec, &source, &x, nullptr) == MILCGPU_OK);
        double difference = 0, size = 0;
        for (int s = 0; s < volume; ++s)
            for (int k = 0; k < 9; ++k) {
                const bool solved = lattice.parity(s) == 0 && k < 6;
                const double value = !solved ? (k < 6 ? 0 : 5)
                                     : k % 2 ? expected[s].c[k / 2].imag()
                                             : expected[s].c[k / 2].real();
                difference += std::pow(result[s * 9 + k] - value, 2);
                size += solved ? value * value : 0;
            }
        CHECK(std::sqrt(difference / size) <= times_measured * 9.1e-8); // links and source rounded to single
    }
}

TEST_CASE("the solve of MILC's own sample gives MILC's solution and its count of iterations", "[cg][samples]") {
    NEED_SAMPLE("fat.l8");
    const auto fat = examples::read_gauge(sample_file("fat.l8"));
    const auto lng = examples::read_gauge(sample_file("long.l8"));
    const auto source = examples::read_scidac_fermion(sample_file("ksvector.src.sample.l8"));
    const auto answer = examples::read_scidac_fermion(sample_file("ksvector.ans.MdaggerMinv.sample.l8"));
    for (const Backend backend : backends()) {
        Session<double> session(fat.lattice, backend);
        REQUIRE(session.load(fat.links, lng.links) == MILCGPU_OK);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
                milcgpu_solve_spec spec = solve_spec(0.1, 1e-9, MILCGPU_DOUBLE, sloppy);
                spec.parity = parity;
                const Solved s = solve(session, spec, source.vectors, zero(fat.lattice));
                const auto x = reference::vector_from_milc<double>(fat.lattice, s.x);
                CAPTURE(milcgpu::name(backend), sloppy, parity, s.report.iterations, s.report.true_residual);
                CHECK(s.status == MILCGPU_OK);
                CHECK(parity_difference(fat.lattice, x, answer.vectors, parity == MILCGPU_EVEN ? 0 : 1) < 1.5e-7);
                if (sloppy == MILCGPU_DOUBLE) {
                    CHECK(s.report.iterations == 62); // MILC's own count, both parities
                    CHECK(std::fabs(s.report.true_residual * s.report.true_residual -
                                    (parity == MILCGPU_EVEN ? 8.366e-19 : 7.834e-19)) < 1e-21);
                }
            }
    }
}
