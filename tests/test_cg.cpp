// Conjugate gradient through the C interface: all precision pairs, stopping rules, determinism, MILC's samples.
#include "examples/lattice_file.h"
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
    Solved s{MILCGPU_OK, empty_report(), reference::vector_to_milc<double>(session.lattice, guess)};
    auto b = reference::vector_to_milc<double>(session.lattice, source);
    const milcgpu_field from = session.field(b), to = session.field(s.x);
    s.status = milcgpu_solve(session.context, session.links, &spec, &from, &to, &s.report);
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

} // namespace

TEST_CASE("every precision pair reaches its tolerance, true residual by the reference", "[cg]") {
    const reference::Lattice lattice{{8, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 41);
    const auto b = random_fermion(lattice, 42);
    struct Pair {
        int precise, sloppy;
        double tolerance;
    };
    const Pair pairs[] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-10}, {MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                          {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},   {MILCGPU_SINGLE, MILCGPU_SINGLE, 5e-5},
                          {MILCGPU_SINGLE, MILCGPU_HALF, 5e-5},    {MILCGPU_HALF, MILCGPU_HALF, 1e-2}};
    // Without double, the residual ends at epsilon |A| |x| / |b|: 1e-5 in single, 2e-3 in half on this system.
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            int double_steps = 0;
            for (const Pair &pair : pairs)
                for (const int reconstruct : {18, 13}) {
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
                    CHECK(std::fabs(checked - s.report.true_residual) <= 1e-3 * checked + 1e-14);
                    if (pair.precise == MILCGPU_DOUBLE && pair.sloppy == MILCGPU_DOUBLE)
                        double_steps = s.report.steps;
                    if (pair.precise == MILCGPU_DOUBLE)
                        CHECK(s.report.steps <= 1.15 * double_steps);
                }
        }
    }
}

TEST_CASE("on light masses half precision gives way to single, unless told otherwise", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 45);
    const auto b = random_fermion(lattice, 46);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        milcgpu_solve_spec spec = solve_spec(0.05, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        const Solved heavy = solve(session, spec, b, zero(lattice));
        CHECK(heavy.report.steps_in_half == heavy.report.steps);
        spec.mass = 0.001;
        const Solved light = solve(session, spec, b, zero(lattice));
        CHECK(light.status == MILCGPU_OK);
        CHECK(light.report.steps_in_half == 0);
        const Solved in_double =
            solve(session, solve_spec(0.001, 1e-10, MILCGPU_DOUBLE, MILCGPU_DOUBLE), b, zero(lattice));
        CHECK(light.report.steps <= 1.15 * in_double.report.steps); // it started in double and went down to single
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

TEST_CASE("108 combinations of spinor, link and reconstruction and their sloppy partners", "[cg]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 43);
    const auto b = random_fermion(lattice, 44);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, 0, 0);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        int run = 0, refused = 0;
        for (int p = MILCGPU_DOUBLE; p <= MILCGPU_HALF; ++p)
            for (int pl = MILCGPU_DOUBLE; pl <= MILCGPU_HALF; ++pl)
                for (const int reals : {18, 12})
                    for (int s = MILCGPU_DOUBLE; s <= MILCGPU_HALF; ++s)
                        for (const int sloppy_reals : {18, 12}) {
                            milcgpu_solve_spec spec = solve_spec(0.5, 5e-3, p, s);
                            spec.precise.link_precision = pl;
                            spec.precise.reconstruct = reals;
                            spec.sloppy.reconstruct = sloppy_reals;
                            const Solved got = solve(session, spec, b, zero(lattice));
                            CAPTURE(p, pl, reals, s, sloppy_reals, got.report.message, got.report.true_residual);
                            if (s < p) { // sloppy finer than precise
                                CHECK(got.status == MILCGPU_NOT_BUILT);
                                CHECK(std::string(got.report.message).find("double/half") != std::string::npos);
                                ++refused;
                            } else {
                                CHECK(got.status == MILCGPU_OK);
                                ++run;
                            }
                        }
        CHECK(run + refused == 108);
        CHECK(run == 72);
    }
}

TEST_CASE("initial guess, iteration limit, restarts, relative residual, zero source", "[cg]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 51);
    const auto b = random_fermion(lattice, 52);
    for (const Backend backend : backends()) {
        CAPTURE(milcgpu::name(backend));
        Session<double> session(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            CAPTURE(sloppy);
            milcgpu_solve_spec spec = solve_spec(0.04, 1e-9, MILCGPU_DOUBLE, sloppy);
            const Solved first = solve(session, spec, b, zero(lattice));
            REQUIRE(first.status == MILCGPU_OK);
            CHECK(first.report.restarts >= 1);
            // The solution as a guess: one evaluation, no step.
            const Solved again = solve(session, spec, b, reference::vector_from_milc<double>(lattice, first.x));
            CHECK(again.report.iterations == 1);
            CHECK(again.report.steps == 0);
            CHECK(again.x == first.x);
            // Half way: partial solution, honest residual.
            milcgpu_solve_spec limited = spec;
            limited.max_iterations = first.report.steps / 2;
            limited.max_restarts = 1;
            const Solved part = solve(session, limited, b, zero(lattice));
            CHECK(part.status == MILCGPU_NOT_CONVERGED);
            CHECK(part.report.true_residual > 1e-9);
            CHECK(std::fabs(residual(lattice, links, 0.04, 0, b, part.x) - part.report.true_residual) <
                  1e-6 * part.report.true_residual);
            // Restarts every 10 iterations still converge, more slowly.
            milcgpu_solve_spec restarted = spec;
            restarted.max_iterations = 30;
            restarted.max_restarts = 100;
            const Solved slow = solve(session, restarted, b, zero(lattice));
            CHECK(slow.status == MILCGPU_OK);
            CHECK(slow.report.restarts > 2);
            // MILC's relative residual, by hand.
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
            CHECK(std::fabs(local.report.relative_residual - by_hand) < 1e-6 * by_hand);
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

TEST_CASE("the same solve twice is bitwise the same, whatever the block size", "[cg][determinism]") {
    const reference::Lattice lattice{{8, 6, 8, 10}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const auto b = random_fermion(lattice, 62);
    for (const Backend backend : backends())
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            std::vector<double> first;
            for (const int block : {0, 64, 128, 256}) {
                Session<double> session(lattice, backend, block);
                REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
                for (int repeat = 0; repeat < 2; ++repeat) {
                    milcgpu_solve_spec spec = solve_spec(0.1, 1e-10, MILCGPU_DOUBLE, sloppy);
                    const Solved s = solve(session, spec, b, zero(lattice));
                    CHECK(s.status == MILCGPU_OK);
                    if (first.empty())
                        first = s.x;
                    CAPTURE(milcgpu::name(backend), sloppy, block, repeat);
                    CHECK(s.x == first);
                }
            }
        }
}

TEST_CASE("host data in single precision, strided and mapped, give the same solution", "[cg][layout]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const AsqtadLinks links = asqtad_links(lattice, 71);
    const auto b = random_fermion(lattice, 72);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        const milcgpu_solve_spec spec = solve_spec(0.1, 1e-11, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        const Solved plain = solve(session, spec, b, zero(lattice));
        const auto expected = reference::vector_from_milc<double>(lattice, plain.x);
        // Lexicographic records of 9 reals, 3 of them somebody else's; links in site structures of 80 reals.
        const int volume = lattice.volume();
        const std::vector<int> map = reference::milc_order(lattice);
        milcgpu_layout layout{sizeof layout, {4, 4, 4, 6}, map.data()};
        milcgpu_options options{};
        options.struct_size = sizeof options;
        options.backend = backend == Backend::cuda ? MILCGPU_CUDA : MILCGPU_HOST;
        milcgpu_context *context = nullptr;
        REQUIRE(milcgpu_init(&layout, &options, &context) == MILCGPU_OK);
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
        milcgpu_links *handle = nullptr;
        REQUIRE(milcgpu_links_create(context, &fat, &lng, &handle) == MILCGPU_OK);
        const milcgpu_field source{vectors.data(), MILCGPU_SINGLE, 36}, x{result.data(), MILCGPU_SINGLE, 36};
        CHECK(milcgpu_solve(context, handle, &spec, &source, &x, nullptr) == MILCGPU_OK);
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
        CHECK(std::sqrt(difference / size) < 1e-4); // links and source rounded to single
        milcgpu_links_destroy(handle);
        milcgpu_finalize(context);
    }
}

TEST_CASE("MILC's own sample: links, source and solution", "[cg][samples]") {
    if (!have_sample("fat.l8"))
        SKIP_TEST("no " + sample_file("fat.l8") + "; set MILCGPU_SAMPLES to the folder of MILC's sample files");
    const auto fat = examples::read_scidac_gauge(sample_file("fat.l8"));
    const auto lng = examples::read_scidac_gauge(sample_file("long.l8"));
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
