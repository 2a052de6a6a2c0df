// Several sources at once through the C interface: true residuals by the reference; steps; sources that are linearly
// dependent, zero or NaN; statuses.
#include "gpu_kernels/fields/lane_links.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/api/context.h"
#include "milc_glue/solve/kept_solver.h"
#include "tests/cut_support.h"
#include "tests/support.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;

namespace {

struct Sources {
    const reference::Lattice &lattice;
    std::vector<std::vector<double>> b, x;
    std::vector<milcgpu_solve_report> reports;

    Sources(const reference::Lattice &on, const std::vector<reference::Fermion> &fields)
        : lattice(on), reports(fields.size(), sized<milcgpu_solve_report>()) {
        for (const reference::Fermion &field : fields) {
            b.push_back(reference::vector_to_milc<double>(on, field));
            x.emplace_back(b.back().size(), 0.0);
        }
    }
    int count() const { return static_cast<int>(b.size()); }
    milcgpu_status solve(Session<double> &session, const milcgpu_solve_spec &spec, int together) {
        std::vector<milcgpu_field> from, to;
        for (int k = 0; k < count(); ++k)
            from.push_back(session.field(b[k])), to.push_back(session.field(x[k]));
        return milcgpu_staggered_solve_sources(session.links, &spec, together, count(), from.data(), to.data(),
                                               reports.data());
    }
    reference::Fermion solution(int k) const { return reference::vector_from_milc<double>(lattice, x[k]); }
};

std::vector<reference::Fermion> random_sources(const reference::Lattice &lattice, int count, unsigned long seed = 62) {
    std::vector<reference::Fermion> fields;
    for (int k = 0; k < count; ++k)
        fields.push_back(random_fermion(lattice, seed + k));
    return fields;
}

double residual(const reference::Lattice &lattice, const AsqtadLinks &links, double mass, const reference::Fermion &b,
                const reference::Fermion &x) {
    return parity_difference(lattice, reference::normal_operator(lattice, links.fat, links.lng, mass, 0, x), b, 0);
}

constexpr int both[] = {MILCGPU_BLOCK, MILCGPU_LOCK_STEP};

} // namespace

// Measured: steps in lock-step relative to steps of one source alone, and steps in a block relative to steps in
// lock-step.
constexpr double more_in_lock_step = 1 + times_measured * 0.008;

TEST_CASE("any number of sources reaches its tolerance by the reference's residual, in each precision", "[sources]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const double mass = 0.1, tolerance = 1e-10;
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int count : sampled<int>({3, 1, 2, 18, 12}, 3))
            for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
                if (sloppy == MILCGPU_HALF && count != 3)
                    continue; // several sources iterate in single instead
                const auto fields = random_sources(lattice, count);
                const milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, sloppy);
                int steps[2];
                for (const int together : both) {
                    Sources all(lattice, fields);
                    CAPTURE(milcgpu::name(backend), count, sloppy, together, milcgpu_last_error());
                    CHECK(all.solve(session, spec, together) == MILCGPU_OK);
                    for (int k = 0; k < count; ++k) {
                        const double truth = residual(lattice, links, mass, fields[k], all.solution(k));
                        CAPTURE(k, truth, all.reports[k].true_residual, all.reports[k].steps, all.reports[k].message);
                        CHECK(truth < tolerance);
                        CHECK(std::fabs(all.reports[k].true_residual - truth) <= times_measured * 4e-16);
                        CHECK(all.reports[k].gflops > 0);
                        if (count == 1)
                            continue;
                        CHECK(all.reports[k].steps_in_half == 0); // in single, even if the caller requests half
                        CHECK(all.reports[k].bytes_to_device <    // a guess of zero is not copied
                              1.5 * (all.b[k].size() / 2 * sizeof(double)));
                    }
                    steps[together == MILCGPU_LOCK_STEP] = all.reports[0].steps;
                }
                Sources alone(lattice, {fields[0]});
                REQUIRE(alone.solve(session, spec, MILCGPU_ONE_BY_ONE) == MILCGPU_OK);
                CAPTURE(count, sloppy, steps[0], steps[1], alone.reports[0].steps);
                CHECK(steps[1] <= more_in_lock_step * alone.reports[0].steps);
                if (count >= 12) // a block takes little more than half of the steps
                    CHECK(steps[0] < 0.5 * steps[1]);
                else if (count > 1)
                    CHECK(steps[0] < steps[1]);
            }
    }
}

TEST_CASE("many sources of a very light mass start in double, or in single if memory is short", "[sources]") {
    LONG_TEST;
    const reference::Lattice lattice{{4, 4, 6, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const double light = 0.002, heavy = 0.01;
    const auto fields = random_sources(lattice, 8);
    for (const Backend backend : backends()) {
        CAPTURE(milcgpu::name(backend));
        const auto solved = [&](Session<double> &session, int sloppy, double mass, double tolerance = 1e-10) {
            Sources all(lattice, fields);
            const milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, sloppy);
            CHECK(all.solve(session, spec, MILCGPU_BLOCK) == MILCGPU_OK);
            CAPTURE(milcgpu_last_error());
            for (int k = 0; k < all.count(); ++k)
                CHECK(residual(lattice, links, mass, fields[k], all.solution(k)) < tolerance);
            return all;
        };
        Session<double> session(lattice, backend, links);
        const int in_double = solved(session, MILCGPU_DOUBLE, light).reports[0].steps;
        milcgpu::kept_solvers(*session.context).all.clear();
        const Sources descended = solved(session, MILCGPU_SINGLE, light);
        milcgpu::Device &device = *session.context->device;
        // Memory for the first solve but not for its vectors in double, nor for links of several sites in double.
        const size_t of_eight = milcgpu::SpinorField::allocated_bytes(milcgpu::Precision::double_,
                                                                      session.context->geometry, 8),
                     lanes = MILCGPU_LANES ? milcgpu::Device::allocated_bytes(milcgpu::LaneLinks::bytes_of(
                                                 session.context->geometry, milcgpu::Precision::double_))
                                           : 0,
                     later = (milcgpu::cg_kept_steps + 3) * of_eight + lanes;
        const size_t used = device.used_bytes();
        milcgpu::kept_solvers(*session.context).all.clear();
        device.set_memory_limit(used - later);
        const Sources without = solved(session, MILCGPU_SINGLE, light);
        CAPTURE(in_double, descended.reports[0].steps, without.reports[0].steps);
        CHECK(descended.reports[0].steps <= (1 + times_measured * 0.15) * in_double);
        CHECK(without.reports[0].steps > 2 * in_double); // 4.2 times as many were measured
        device.set_memory_limit(0);
        solved(session, MILCGPU_SINGLE, heavy);
        CHECK(device.used_bytes() == used - later);
        solved(session, MILCGPU_SINGLE, light, 1e-6); // a solve at this tolerance would change to single at once
        CHECK(device.used_bytes() == used - later);
        CHECK(solved(session, MILCGPU_SINGLE, light).x == descended.x);
        CHECK(device.used_bytes() == used - lanes); // the operator in double was made while memory was short
    }
}

TEST_CASE("after a solve in which a block gains nothing, sources iterate in lock-step and in half", "[sources]") {
    LONG_TEST;
    for (const Backend backend : backends()) {
        if (backend == Backend::host)
            continue; // one source after the other, as on few sites on a GPU
        const reference::Lattice lattice{{16, 16, 16, 32}};
        const AsqtadLinks links = asqtad_links(lattice, 61);
        const auto fields = random_sources(lattice, 4);
        Session<double> session(lattice, backend, links);
        for (const double mass : {1.0, 0.1}) { // few steps, and many
            const bool faster = mass == 0.1;
            const milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
            int steps[2];
            for (const bool second : {false, true}) {
                Sources all(lattice, fields);
                CAPTURE(milcgpu::name(backend), mass, second, milcgpu_last_error());
                CHECK(all.solve(session, spec, MILCGPU_TOGETHER_AUTO) == MILCGPU_OK);
                for (int k = 0; k < all.count(); ++k)
                    CHECK(residual(lattice, links, mass, fields[k], all.solution(k)) < 1e-10);
                steps[second] = all.reports[0].steps;
                const milcgpu::KeptSolver &kept = milcgpu::kept_solvers(*session.context).all.front();
                CAPTURE(steps[second]);
                CHECK(kept.faster_in_lock_step.count(4 * mass * mass) == faster);
                CHECK(kept.block->spec().spinor ==
                      (faster && second ? milcgpu::Precision::half : milcgpu::Precision::single));
            }
            CAPTURE(mass, steps[0], steps[1]);
            CHECK(steps[1] <= steps[0] * (faster ? 1.25 : 1.0));
            Sources block(lattice, fields); // the caller requests a block, whatever the library measured
            CHECK(block.solve(session, spec, MILCGPU_BLOCK) == MILCGPU_OK);
            CHECK(block.reports[0].steps == steps[0]);
        }
    }
}

TEST_CASE("sources at several masses in turn take the steps that they take alone", "[sources]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const auto fields = random_sources(lattice, 3);
    for (const Backend backend : backends()) {
        const auto steps = [&](Session<double> &session, double mass) {
            Sources all(lattice, fields);
            CAPTURE(milcgpu::name(backend), mass, milcgpu_last_error());
            const milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            CHECK(all.solve(session, spec, MILCGPU_BLOCK) == MILCGPU_OK);
            CHECK(residual(lattice, links, mass, fields[0], all.solution(0)) < 1e-10);
            return all.reports[0].steps;
        };
        Session<double> shared(lattice, backend);
        REQUIRE(shared.load(links.fat, links.lng) == MILCGPU_OK);
        for (const double mass : {0.2, 0.05, 0.2}) {
            Session<double> own(lattice, backend);
            REQUIRE(own.load(links.fat, links.lng) == MILCGPU_OK);
            const int alone = steps(own, mass);
            CHECK(steps(shared, mass) == alone);
        }
    }
}

TEST_CASE("sources that depend on each other, are zero or hold NaN do not affect the others", "[sources]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const double mass = 0.2, tolerance = 1e-9;
    auto fields = random_sources(lattice, 2);
    fields.push_back(fields[0]);           // 2: equal to the first
    fields.emplace_back(lattice.volume()); // 3: zero
    fields.push_back(fields[0]);           // 4: the sum of the first two
    for (int s = 0; s < lattice.volume(); ++s)
        fields[4][s] = fields[0][s] + fields[1][s];
    fields.push_back(fields[1]); // 5: NaN on an even site
    int even = 0;
    while (lattice.parity(even) != 0)
        ++even;
    fields[5][even].c[1] = NAN;
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
            for (const int together : both) {
                const milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, sloppy);
                Sources two(lattice, {fields[0], fields[1]}), all(lattice, fields);
                REQUIRE(two.solve(session, spec, together) == MILCGPU_OK);
                all.x[5].assign(all.x[5].size(), 7.0);
                CHECK(all.solve(session, spec, together) == MILCGPU_NAN_OR_INF);
                CAPTURE(milcgpu::name(backend), sloppy, together, milcgpu_last_error(), two.reports[0].steps);
                for (const int k : {0, 1, 2, 4}) {
                    CAPTURE(k, all.reports[k].steps, all.reports[k].message);
                    CHECK(all.reports[k].status == MILCGPU_OK);
                    CHECK(residual(lattice, links, mass, fields[k], all.solution(k)) < tolerance);
                    CHECK(std::abs(all.reports[k].steps - two.reports[0].steps) <=
                          times_measured * 0.08 * two.reports[0].steps);
                }
                CHECK(all.reports[3].status == MILCGPU_OK);
                CHECK(all.reports[3].steps == 0);
                CHECK(all.x[3] == std::vector<double>(all.x[3].size(), 0.0));
                CHECK(all.reports[5].status == MILCGPU_NAN_OR_INF);
                CHECK(has(all.reports[5].message, "source: the site x y z t = 0 0 0 0 "));
                CHECK(all.x[5] == std::vector<double>(all.x[5].size(), 7.0));
                CHECK(last_error_says("source 5"));
            }
    }
}

TEST_CASE("several sources obey guesses, limits, floors and relative residuals", "[sources]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 63);
    const double mass = 0.1;
    const auto fields = random_sources(lattice, 3);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int together : both) {
            CAPTURE(milcgpu::name(backend), together);
            milcgpu_solve_spec spec = solve_spec(mass, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            Sources all(lattice, fields);
            REQUIRE(all.solve(session, spec, together) == MILCGPU_OK);
            const int steps = all.reports[0].steps;
            CHECK(all.solve(session, spec, together) == MILCGPU_OK); // the guesses are the solutions
            for (const auto &report : all.reports)
                CHECK(report.steps == 0);
            all.x[1].assign(all.x[1].size(), 0.0); // one source needs a solve
            CHECK(all.solve(session, spec, together) == MILCGPU_OK);
            CHECK(all.reports[0].steps == 0);
            CHECK(all.reports[1].steps >= 0.9 * steps);

            Sources limited(lattice, fields);
            spec.max_iterations = 7, spec.max_restarts = 1;
            CHECK(limited.solve(session, spec, together) == MILCGPU_NOT_CONVERGED);
            for (int k = 0; k < 3; ++k) {
                CHECK(limited.reports[k].status == MILCGPU_NOT_CONVERGED);
                CHECK(limited.reports[k].steps <= 8);
                CHECK(std::fabs(residual(lattice, links, mass, fields[k], limited.solution(k)) -
                                limited.reports[k].true_residual) <= times_measured * 4e-16);
            }

            spec = solve_spec(mass, 1e-18, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            Sources floor(lattice, fields);
            CHECK(floor.solve(session, spec, together) == MILCGPU_PRECISION_FLOOR);
            for (int k = 0; k < 3; ++k)
                CHECK(floor.reports[k].status == MILCGPU_PRECISION_FLOOR);

            spec = solve_spec(mass, 0, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            spec.relative_tolerance = 1e-8;
            Sources relative(lattice, fields);
            CHECK(relative.solve(session, spec, together) == MILCGPU_OK);
            for (const auto &report : relative.reports)
                CHECK(report.relative_residual < 1e-8);
        }
    }
}

TEST_CASE("each source has its own tolerance and limit, and stops alone", "[sources]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const double mass = 0.2, tolerances[] = {1e-4, 1e-11, 1e-8, 1e-4, 1e-6, 1e-9};
    constexpr int count = 6;
    auto fields = random_sources(lattice, count);
    fields[4] = reference::Fermion(lattice.volume()); // zero
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE}) {
            milcgpu_solve_spec spec = solve_spec(mass, 0, MILCGPU_DOUBLE, sloppy);
            spec.source_tolerances = tolerances;
            Sources alone(lattice, fields);
            REQUIRE(alone.solve(session, spec, MILCGPU_ONE_BY_ONE) == MILCGPU_OK);
            for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE}) {
                CAPTURE(milcgpu::name(backend), sloppy, together, milcgpu_last_error());
                spec.source_max_iterations = nullptr;
                spec.max_iterations = 1000, spec.max_restarts = 5;
                Sources all(lattice, fields);
                CHECK(all.solve(session, spec, together) == MILCGPU_OK);
                const auto check = [&](const Sources &of, int k) {
                    const milcgpu_solve_report &report = of.reports[k];
                    CAPTURE(k, report.steps, alone.reports[k].steps, report.message);
                    CHECK(report.status == MILCGPU_OK);
                    CHECK(report.true_residual < tolerances[k]);
                    if (k == 4) {
                        CHECK(report.steps == 0);
                        return;
                    }
                    const double truth = residual(lattice, links, mass, fields[k], of.solution(k));
                    CHECK(std::fabs(report.true_residual - truth) <= times_measured * 4e-16);
                    // At most the steps of the source alone, plus one restart for each source that finished before it.
                    CHECK(report.steps <= more_in_lock_step * alone.reports[k].steps + count);
                };
                for (int k = 0; k < count; ++k)
                    check(all, k);
                // Steps follow the tolerances, which ask for 4 digits, then 6, 8, 9, 11.
                CHECK(all.reports[0].steps < 0.6 * all.reports[1].steps);
                CHECK(all.reports[3].steps < 0.6 * all.reports[1].steps);
                CHECK(all.reports[2].steps < all.reports[5].steps);
                CHECK(all.reports[5].steps < all.reports[1].steps);

                const int limits[] = {1000, 7, 1000, 1000, 1, 9};
                spec.source_max_iterations = limits;
                spec.max_iterations = 3; // the one limit of all sources
                spec.max_restarts = together == MILCGPU_ONE_BY_ONE ? 1 : 2;
                Sources limited(lattice, fields);
                CHECK(limited.solve(session, spec, together) == MILCGPU_NOT_CONVERGED);
                for (const int k : {0, 2, 3, 4})
                    check(limited, k);
                for (const int k : {1, 5}) {
                    const milcgpu_solve_report &report = limited.reports[k];
                    CAPTURE(k, report.steps);
                    CHECK(report.status == MILCGPU_NOT_CONVERGED);
                    CHECK(report.steps >= limits[k] * spec.max_restarts - 1);
                    CHECK(report.steps <= limits[k] * spec.max_restarts + 1);
                    CHECK(has(report.message,
                              milcgpu::format("%d iterations (starts: %d)", report.iterations, report.restarts)));
                    CHECK(std::fabs(report.true_residual - residual(lattice, links, mass, fields[k],
                                                                    limited.solution(k))) <= times_measured * 4e-16);
                }
                if (together != MILCGPU_ONE_BY_ONE)
                    CHECK(last_error_says("source 1"));
            }
        }
    }
}

TEST_CASE("several sources have the same bits for any threads, on odd sites and if memory holds only some",
          "[sources]") {
    const reference::Lattice lattice{{4, 4, 8, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 64);
    const auto fields = random_sources(lattice, 5);
    for (const Backend backend : backends())
        for (const int together : both) {
            CAPTURE(milcgpu::name(backend), together);
            milcgpu_solve_spec spec = solve_spec(0.1, 1e-9, MILCGPU_DOUBLE, MILCGPU_HALF);
            spec.parity = MILCGPU_ODD;
            std::vector<std::vector<double>> first;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Session<double> session(lattice, backend, links, threads.block);
                Sources all(lattice, fields);
                CHECK(all.solve(session, spec, together) == MILCGPU_OK);
                if (choice == 0)
                    first = all.x;
                CHECK(all.x == first);
            }
            Session<double> session(lattice, backend, links, 0, 2);
            Sources all(lattice, fields);
            REQUIRE(all.solve(session, spec, together) == MILCGPU_OK); // the links are packed from here on
            milcgpu::Device &device = *session.context->device;
            const size_t with_vectors = device.used_bytes();
            milcgpu::kept_solvers(*session.context).all.front().block.reset();
            session.messages.clear();
            const size_t of_five = with_vectors - device.used_bytes();
            device.set_memory_limit(device.used_bytes() + of_five * 3 / 4); // the vectors of three sources
            all.x.assign(all.count(), std::vector<double>(all.b[0].size(), 0.0));
            CHECK(all.solve(session, spec, together) == MILCGPU_OK);
            const auto in_groups = std::count_if(session.messages.begin(), session.messages.end(),
                                                 [](const auto &line) { return has(line, "solve of"); });
            CHECK(in_groups == 2);
        }
}

TEST_CASE("several sources over ranks and on emulated cuts have the solutions of one rank", "[sources][ranks][cut]") {
    constexpr int count = 3;
    const Extents whole{4, 4, 6, 8};
    const Fields fields = fields_on(whole, false);
    std::vector<std::vector<double>> sources;
    for (const reference::Fermion &field : random_sources(fields.lattice, count))
        sources.push_back(reference::vector_to_milc<double>(fields.lattice, field));
    const auto solve = [&](const Cut &cut, Backend backend, int together, std::vector<int> &steps) {
        std::vector<std::vector<double>> solutions(count, std::vector<double>(fields.source.size()));
        const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            const milcgpu_solve_spec spec = solve_spec(0.2, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            std::vector<std::vector<double>> b, x(count, std::vector<double>(here.source.size()));
            std::vector<milcgpu_field> from, to;
            for (int k = 0; k < count; ++k)
                b.push_back(Fields::part(sources[k], here.places, 6));
            for (int k = 0; k < count; ++k)
                from.push_back(field_of(b[k])), to.push_back(field_of(x[k]));
            std::vector<milcgpu_solve_report> reports(count, sized<milcgpu_solve_report>());
            demand(milcgpu_staggered_solve_sources(here.links, &spec, together, count, from.data(), to.data(),
                                                   reports.data()));
            for (int k = 0; k < count; ++k)
                Fields::put(solutions[k], x[k], here.places);
            steps[here.rank()] = reports[0].steps;
        });
        CHECK(all_well(endings));
        return solutions;
    };
    for (const Backend backend : backends())
        for (const int together : both) {
            std::vector<int> steps_one(1);
            const auto one = solve({whole, {1, 1, 1, 1}, 0}, backend, together, steps_one);
            for (const Cut &cut : {Cut{whole, {1, 1, 1, 2}, 0}, Cut{whole, {1, 1, 1, 1}, 12}}) {
                CAPTURE(milcgpu::name(backend), together, text_of(cut));
                std::vector<int> steps(cut.ranks());
                const auto many = solve(cut, backend, together, steps);
                for (int rank = 0; rank < cut.ranks(); ++rank) {
                    CHECK(steps[rank] == steps[0]);
                    CHECK(std::abs(steps[rank] - steps_one[0]) <= 1);
                }
                for (int k = 0; k < count; ++k)
                    for (size_t j = 0; j < one[k].size(); ++j)
                        REQUIRE(std::fabs(many[k][j] - one[k][j]) < 2e-8);
            }
        }
}

TEST_CASE("a short solve of several sources, for the sanitizers", "[.][sources][sanitize][smoke]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 66);
    const auto fields = random_sources(lattice, 5);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE})
            for (const int together : both) {
                Sources all(lattice, fields);
                CHECK(all.solve(session, solve_spec(0.5, 1e-4, MILCGPU_DOUBLE, sloppy), together) == MILCGPU_OK);
            }
    }
}

TEST_CASE("a short solve of many sources of a very light mass, for the sanitizers", "[sources][sanitize]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 66);
    const auto fields = random_sources(lattice, milcgpu::ladder::descend_together_from);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        Sources all(lattice, fields);
        CHECK(all.solve(session, solve_spec(0.002, 2e-8, MILCGPU_DOUBLE, MILCGPU_SINGLE), MILCGPU_BLOCK) == MILCGPU_OK);
        CAPTURE(milcgpu::name(backend), milcgpu_last_error(), all.reports[0].steps);
        CHECK(all.reports[0].steps < 90); // 70 were measured, 112 if the solve does not start in double
    }
}

TEST_CASE("few sources are solved one by one if that is faster", "[sources]") {
    CHECK(!milcgpu::ladder::together_pays(3, 221184, true, Backend::cuda));
    CHECK(milcgpu::ladder::together_pays(4, 221184, true, Backend::cuda));
    CHECK(milcgpu::ladder::together_pays(2, 221184, false, Backend::cuda));
    CHECK(!milcgpu::ladder::together_pays(12, 8192, true, Backend::cuda)); // 8^3 x 32
    CHECK(!milcgpu::ladder::together_pays(12, 221184, false, Backend::host));
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 67);
    Session<double> session(lattice, Backend::host, links);
    const auto fields = random_sources(lattice, 4);
    const milcgpu_solve_spec spec = solve_spec(0.1, 1e-6, MILCGPU_DOUBLE, MILCGPU_SINGLE);
    for (const auto &[together, count, block] :
         {std::make_tuple(MILCGPU_TOGETHER_AUTO, 4, false), std::make_tuple(MILCGPU_BLOCK, 4, true),
          std::make_tuple(MILCGPU_LOCK_STEP, 2, true), std::make_tuple(MILCGPU_BLOCK, 1, false)}) {
        CAPTURE(together, count);
        milcgpu::kept_solvers(*session.context).all.clear();
        Sources all(lattice, {fields.begin(), fields.begin() + count});
        CHECK(all.solve(session, spec, together) == MILCGPU_OK);
        CHECK((milcgpu::kept_solvers(*session.context).all.front().block != nullptr) == block);
    }
}

TEST_CASE("a tolerance whose square is 0 is refused, and one out of reach ends at the floor of double precision",
          "[sources][errors]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 65);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_HALF})
            for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE}) {
                auto spec = solve_spec(0.3, 1e-150, MILCGPU_DOUBLE, sloppy);
                Sources all(lattice, random_sources(lattice, 3));
                const milcgpu_status ended = all.solve(session, spec, together);
                CAPTURE(milcgpu::name(backend), sloppy, together, milcgpu_status_name(ended), milcgpu_last_error());
                if (backend == Backend::host)
                    CHECK(ended == MILCGPU_PRECISION_FLOOR);
                else // an H200 ended at the iteration limit, with the same residual
                    CHECK((ended == MILCGPU_PRECISION_FLOOR || ended == MILCGPU_NOT_CONVERGED));
                for (int k = 0; k < 3; ++k)
                    CHECK(residual(lattice, links, 0.3, random_fermion(lattice, 62 + k), all.solution(k)) < 1e-14);
                spec.tolerance = 1e-160;
                CHECK(all.solve(session, spec, together) == MILCGPU_BAD_ARGUMENT);
                CHECK(last_error_says("spec.tolerance is 1e-160"));
            }
    }
    milcgpu::CgReport report;
    report.status = milcgpu::Status::not_converged;
    CHECK(has(milcgpu::why_it_ended_early(report, 0, 1e-3, milcgpu::Precision::double_), "relative 1.0e-03;"));
}

TEST_CASE("a solve of several sources refuses bad input", "[sources]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 65);
    Session<double> session(lattice, Backend::host, links);
    Sources all(lattice, random_sources(lattice, 2));
    const milcgpu_solve_spec spec = solve_spec(0.1, 1e-9, MILCGPU_DOUBLE, MILCGPU_HALF);
    const auto before = all.x;
    const auto says = [&](milcgpu_status status, const char *text) {
        CHECK(status == MILCGPU_BAD_ARGUMENT);
        CAPTURE(milcgpu_last_error());
        CHECK(last_error_says(text));
        CHECK(all.x == before);
    };
    says(all.solve(session, spec, 4), "together is 4");
    says(all.solve(session, spec, -1), "together is -1");
    milcgpu_solve_spec own = spec;
    for (const double wrong : {-1.0, double(NAN), 0.0, double(INFINITY)}) {
        const double tolerances[] = {1e-3, wrong};
        own.source_tolerances = tolerances;
        says(all.solve(session, own, 0), "spec.source_tolerances[1] ");
    }
    own.source_tolerances = nullptr;
    const int none_left[] = {5, 0};
    own.source_max_iterations = none_left;
    says(all.solve(session, own, 0), "spec.source_max_iterations[1] is 0");
    const milcgpu_field alone = session.field(all.b[0]), to = session.field(all.x[0]);
    says(milcgpu_staggered_solve(session.links, &own, &alone, &to, nullptr), "for several sources");
    const milcgpu_field field = session.field(all.b[0]);
    says(milcgpu_staggered_solve_sources(session.links, &spec, 0, -1, &field, &field, nullptr), "is -1");
    says(milcgpu_staggered_solve_sources(session.links, &spec, 0, 1, nullptr, &field, nullptr), "sources");
    says(milcgpu_staggered_solve_sources(session.links, &spec, 0, 1, &field, nullptr, nullptr), "solutions");
    says(milcgpu_staggered_solve_sources(session.links, nullptr, 0, 1, &field, &field, nullptr), "spec");
    milcgpu_field half = field;
    half.precision = MILCGPU_HALF;
    const milcgpu_field two[] = {field, half};
    says(milcgpu_staggered_solve_sources(session.links, &spec, 0, 2, two, two, nullptr), "sources[1]");
    all.reports[1].struct_size = 3;
    says(all.solve(session, spec, 0), "struct_size is 3");
    CHECK(milcgpu_staggered_solve_sources(session.links, &spec, 0, 0, nullptr, nullptr, nullptr) == MILCGPU_OK);
}
