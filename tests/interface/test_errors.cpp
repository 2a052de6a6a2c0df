// Bad input and failures: each gives its status and a message that names the cause, and does not change outputs.
#include "gpu_kernels/machine/backend/lanes.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/residency/reason.h"
#include "tests/handles.h"
#include "tests/support.h"
#include <limits>

using namespace tests;
using milcgpu::Backend;

namespace {

// A small system that tests then break.
struct Prepared {
    reference::Lattice lattice{{4, 4, 4, 4}};
    Session<double> session;
    std::vector<double> source, x;
    milcgpu_solve_spec spec = solve_spec(0.1, 1e-8, MILCGPU_DOUBLE, MILCGPU_HALF);
    milcgpu_solve_report report = sized<milcgpu_solve_report>();

    explicit Prepared(Backend backend, int verbosity = 0) : session(lattice, backend, 0, verbosity) {
        const AsqtadLinks links = asqtad_links(lattice, 81);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 82));
        x.assign(source.size(), 0.25);
    }
    milcgpu_status solve() {
        const milcgpu_field from = session.field(source), to = session.field(x);
        return milcgpu_staggered_solve(session.links, &spec, &from, &to, &report);
    }
    bool untouched() const { return x == std::vector<double>(source.size(), 0.25); }
    void refused(milcgpu_status status, const char *word) {
        const milcgpu_status got = solve();
        CAPTURE(milcgpu_last_error());
        CHECK(got == status);
        CHECK(report.status == status);
        CHECK(last_error_says(word));
        CHECK(untouched());
    }
};

} // namespace

TEST_CASE("the table of memory is in the log once, and again if its owners change", "[errors][plugin]") {
    const Prepared p(Backend::host);
    milcgpu::LoggedReason reason;
    const auto said = [&] {
        REQUIRE(milcgpu_fault_inject(p.session.context, MILCGPU_FAULT_ALLOCATION) == MILCGPU_OK);
        milcgpu_vectors *made = nullptr;
        REQUIRE(milcgpu_vectors_create(p.session.context, MILCGPU_DOUBLE, 1, &made) == MILCGPU_NO_MEMORY);
        CHECK(last_error_says(":\n"));
        return reason();
    };
    CHECK(said().find(" MiB  ") != std::string::npos);
    CHECK(said().find('\n') == std::string::npos);
    const VectorsHandle other(p.session.context, MILCGPU_DOUBLE, 1);
    CHECK(said().find(" MiB  vectors") != std::string::npos);
}

TEST_CASE("layouts that the library cannot work on are refused", "[errors][smoke][sanitize]") {
    milcgpu_context *context = nullptr;
    auto options = sized<milcgpu_options>();
    options.backend = MILCGPU_HOST;
    for (const int bad : {5, 0, 1, -4}) {
        const milcgpu_layout layout = layout_of({{4, 4, bad, 4}});
        CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("extent[Z] is " + std::to_string(bad)));
        CHECK(context == nullptr);
    }
    milcgpu_layout layout = layout_of({{4, 4, 4, 4}});
    CHECK(milcgpu_context_create(nullptr, &options, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_context_create(&layout, &options, nullptr) == MILCGPU_BAD_ARGUMENT);
    layout.struct_size = 7;
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(last_error_says("struct_size is 7"));
    layout.struct_size = sizeof layout;
    std::vector<int> map(256, 3);
    layout.site_map = map.data();
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(last_error_says("a repetition"));
    layout.site_map = nullptr;
    options.block_size = 100;
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
    options.block_size = 0;
    options.backend = 9;
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
    options.backend = MILCGPU_CUDA;
    options.device = 4711;
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_BAD_ARGUMENT);
    CHECK(context == nullptr);
}

TEST_CASE("bad solves are refused, each by name", "[errors][smoke][sanitize]") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    for (const Backend backend : backends()) {
        Prepared p(backend);
        const milcgpu_solve_spec good = p.spec;
        const auto with = [&](auto change, milcgpu_status status, const char *word) {
            p.spec = good;
            change(p.spec);
            p.refused(status, word);
            p.spec = good;
        };
        using Spec = milcgpu_solve_spec &;
        with([](Spec s) { s.struct_size -= 8; }, MILCGPU_BAD_ARGUMENT, "struct_size");
        with([](Spec s) { s.parity = 3; }, MILCGPU_BAD_ARGUMENT, "parity is 3");
        with([](Spec s) { s.precise.precision = 4; }, MILCGPU_BAD_ARGUMENT, "spec.precise.precision is 4");
        with([](Spec s) { s.sloppy.precision = -1; }, MILCGPU_BAD_ARGUMENT, "spec.sloppy.precision is -1");
        with([](Spec s) { s.sloppy.reconstruct = 11; }, MILCGPU_NOT_BUILT, "11 reals");
        with([](Spec s) { s.precise.precision = MILCGPU_SINGLE, s.sloppy.precision = MILCGPU_DOUBLE; },
             MILCGPU_NOT_BUILT, "built (precise/sloppy vectors): double/double");
        for (const double bad : {nan, infinity})
            with([&](Spec s) { s.mass = bad; }, MILCGPU_BAD_ARGUMENT, "mass");
        for (const double bad : {0.0, -1e-8, nan, infinity})
            with([&](Spec s) { s.tolerance = bad; }, MILCGPU_BAD_ARGUMENT, "tolerance");
        with([](Spec s) { s.max_iterations = 0; }, MILCGPU_BAD_ARGUMENT, "spec.max_iterations is 0");
        with([](Spec s) { s.max_restarts = 0; }, MILCGPU_BAD_ARGUMENT, "spec.max_restarts is 0");
        with([](Spec s) { s.reliable_delta = 1; }, MILCGPU_BAD_ARGUMENT, "reliable_delta");
        with([](Spec s) { s.links_version = 99; }, MILCGPU_BAD_ARGUMENT, "stale links");
        const milcgpu_field from = p.session.field(p.source), to = p.session.field(p.x);
        const milcgpu_field empty{nullptr, MILCGPU_DOUBLE, 0};
        milcgpu_field narrow = to, half = to;
        narrow.pitch_bytes = 40;
        half.precision = MILCGPU_HALF;
        milcgpu_links *l = p.session.links;
        CHECK(milcgpu_staggered_solve(nullptr, &good, &from, &to, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve(l, nullptr, &from, &to, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve(l, &good, nullptr, &to, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve(l, &good, &empty, &to, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("source: data is NULL"));
        CHECK(milcgpu_staggered_solve(l, &good, &from, &narrow, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve(l, &good, &from, &half, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_dslash(l, nullptr, MILCGPU_EVEN, &from, &to) == MILCGPU_BAD_ARGUMENT);
        const milcgpu_storage what{MILCGPU_DOUBLE, 0};
        CHECK(milcgpu_staggered_dslash(l, &what, 0, &from, &to) == MILCGPU_BAD_ARGUMENT);
        CHECK(p.untouched());
        CHECK(p.solve() == MILCGPU_OK); // after all that
    }
}

TEST_CASE("the report says that a source is 0 on the parity of its solve, if it lives on the other one",
          "[errors][smoke]") {
    for (const Backend backend : backends()) {
        Prepared p(backend);
        std::fill(p.source.begin(), p.source.begin() + 3 * p.lattice.volume(), 0);
        const std::string words = "the source is 0 on all sites that this call reads";
        CHECK(p.solve() == MILCGPU_OK);
        CHECK(has(p.report.message, words));
        const milcgpu_field from = p.session.field(p.source), to = p.session.field(p.x);
        const milcgpu_pole pole{0.04, 1e-8, 0};
        auto several = sized<milcgpu_multi_mass_spec>();
        milcgpu_multi_mass_defaults(&several, sizeof several);
        several.n_shifts = 1, several.shifts = &pole;
        auto report = sized<milcgpu_multi_mass_report>();
        CHECK(milcgpu_staggered_multi_mass(p.session.links, &several, &from, &to, &report) == MILCGPU_OK);
        CHECK(has(report.message, words));
        for (size_t k = 0; k < p.x.size(); ++k)
            REQUIRE(p.x[k] == (k < p.x.size() / 2 ? 0 : 0.25));
        p.spec.parity = MILCGPU_ODD;
        CHECK(p.solve() == MILCGPU_OK);
        CHECK(p.report.message == std::string());
    }
}

TEST_CASE("NaN and infinity in links, source or guess are found and named", "[errors][smoke][sanitize]") {
    for (const Backend backend : backends())
        for (const double bad : {double(NAN), double(INFINITY)}) {
            Prepared p(backend);
            const auto good_source = p.source;
            p.source[6 * 17 + 2] = bad;
            p.refused(MILCGPU_NAN_OR_INF, "source: the site x y z t = 2 0 2 0 holds");
            p.source = good_source;
            p.source[6 * 200] = bad; // the odd half is not read
            p.x.assign(p.source.size(), 0);
            CHECK(p.solve() == MILCGPU_OK);
            p.x.assign(p.source.size(), 0.25);
            p.x[6 * 23 + 5] = bad;
            CHECK(p.solve() == MILCGPU_NAN_OR_INF);
            CHECK(last_error_says("initial guess: the site x y z t = 3 3 2 0 holds"));
            auto fat = p.session.fat;
            fat[18 * 9] = bad;
            const milcgpu_field f = p.session.field(fat), l = p.session.field(p.session.lng);
            CHECK(milcgpu_links_update(p.session.links, &f, &l, nullptr) == MILCGPU_NAN_OR_INF);
            CHECK(last_error_says("in the link of x y z t = 1 1 0 0, direction Y. Check"));
            CHECK(milcgpu_links_version(p.session.links) == 0);
            CHECK(p.solve() == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("links are empty"));
        }
}

TEST_CASE("a tolerance below the precision ends with PRECISION_FLOOR and the true residual", "[errors]") {
    for (const Backend backend : backends()) {
        Prepared p(backend);
        const struct {
            int precise, sloppy;
            double tolerance, reached;
        } cases[] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-20, 1e-12},
                     {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-20, 1e-12},
                     {MILCGPU_SINGLE, MILCGPU_HALF, 1e-10, 1e-3},
                     {MILCGPU_HALF, MILCGPU_HALF, 1e-8, 1e-2}};
        for (const auto &c : cases) {
            p.spec = solve_spec(0.1, c.tolerance, c.precise, c.sloppy);
            p.spec.max_restarts = 50;
            p.x.assign(p.source.size(), 0);
            CAPTURE(c.precise, c.sloppy, p.report.message, p.report.true_residual);
            CHECK(p.solve() == MILCGPU_PRECISION_FLOOR);
            CHECK(p.report.true_residual > c.tolerance);
            CHECK(p.report.true_residual < c.reached);
            CHECK(last_error_says(" precision gives no more "));
            CHECK(last_error_says("a larger tolerance, or a higher precision") == (c.precise != MILCGPU_DOUBLE));
        }
    }
}

TEST_CASE("sources of any size, zero mass", "[errors]") {
    for (const Backend backend : backends()) {
        Prepared p(backend);
        const auto unit = p.source;
        p.x.assign(p.source.size(), 0);
        for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
            for (const double size : {1e-100, 1e-30, 1e30, 1e100}) {
                for (size_t k = 0; k < unit.size(); ++k)
                    p.source[k] = size * unit[k];
                p.spec = solve_spec(0.1, 1e-10, MILCGPU_DOUBLE, sloppy);
                p.x.assign(p.source.size(), 0);
                CAPTURE(sloppy, size, p.report.message);
                CHECK(p.solve() == MILCGPU_OK);
                CHECK(p.report.true_residual < 1e-10);
            }
        p.source = unit;
        p.spec = solve_spec(0.0, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        p.x.assign(p.source.size(), 0);
        CHECK(p.solve() == MILCGPU_OK); // this field has no zero mode
    }
}

// Their squares, or the squares of their residuals, underflow or overflow in double precision.
TEST_CASE("sources that are too small or too large for a solve are refused with their norms", "[errors][norms]") {
    for (const Backend backend : backends()) {
        const reference::Lattice lattice{{4, 4, 4, 4}};
        const AsqtadLinks links = asqtad_links(lattice, 61);
        Session<double> session(lattice, backend, links, 0, 0);
        auto gauge = reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.2, 62));
        const milcgpu_field plain = session.field(gauge);
        const WilsonHandle wilson(session.context);
        REQUIRE(milcgpu_wilson_load(wilson, &plain) == MILCGPU_OK);
        const MesonLinksHandle mesons(session.context, MILCGPU_DOUBLE);
        const milcgpu_meson_links_spec as_they_are{sizeof as_they_are, 1, MILCGPU_SIGNS_OUT, {}};
        REQUIRE(milcgpu_meson_links_load(mesons, &as_they_are, &plain) == MILCGPU_OK);
        const auto unit = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 63));
        for (const double size : {1e-315, 1e-170, 1e-160, 1e-150, 1e155}) {
            std::vector<double> b, x(4 * unit.size(), 0.25);
            for (int spin = 0; spin < 4; ++spin)
                for (const double real : unit)
                    b.push_back(size * real);
            const std::vector<double> before = x;
            const milcgpu_field from = session.field(b), to = session.field(x), sources[] = {from, from},
                                solutions[] = {to, {x.data() + unit.size(), MILCGPU_DOUBLE, 0}};
            const auto refused = [&](const char *solve, milcgpu_status status) {
                CAPTURE(name(backend), size, solve, milcgpu_last_error());
                CHECK(status == MILCGPU_NAN_OR_INF);
                CHECK(last_error_says("source: its norm "));
                CHECK(x == before);
            };
            for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_HALF}) {
                const auto how = solve_spec(0.1, 1e-10, MILCGPU_DOUBLE, sloppy);
                refused("one", milcgpu_staggered_solve(session.links, &how, &from, &to, nullptr));
                for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE})
                    refused("several", milcgpu_staggered_solve_sources(session.links, &how, together, 2, sources,
                                                                       solutions, nullptr));
            }
            const milcgpu_pole shifts[] = {{0.04, 1e-10, 0}, {0.1, 1e-10, 0}};
            auto masses = sized<milcgpu_multi_mass_spec>();
            masses.parity = MILCGPU_EVEN;
            masses.n_shifts = 2, masses.shifts = shifts;
            masses.max_iterations = 500, masses.max_restarts = 5;
            masses.shared.precision = masses.precise.precision = MILCGPU_DOUBLE;
            refused("masses", milcgpu_staggered_multi_mass(session.links, &masses, &from, solutions, nullptr));
            for (const auto method : {MILCGPU_WILSON_CG, MILCGPU_WILSON_BICGSTAB}) {
                const milcgpu_wilson_spec spec{sizeof spec, 0.11, 0, 0, method};
                auto how = solve_spec(0, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
                refused("Wilson", milcgpu_wilson_solve(wilson, &spec, &how, &from, &to, nullptr));
            }
            auto laplace = sized<milcgpu_laplace_solve_spec>();
            laplace.directions = 3, laplace.kappa = 0.12;
            laplace.tolerance = 1e-10, laplace.max_iterations = 500, laplace.max_restarts = 5;
            laplace.precise.precision = laplace.sloppy.precision = MILCGPU_DOUBLE;
            const milcgpu_quarks in{&from, nullptr, 0}, out{&to, nullptr, 0};
            refused("Laplace", milcgpu_laplace_solve(mesons, &laplace, 1, &in, &out, nullptr));
            double residual = -1;
            if (size < 1)
                refused("residual",
                        milcgpu_staggered_residual(session.links, MILCGPU_EVEN, 0.1, &from, &to, &residual));
            CHECK(residual == -1);
        }
    }
}

TEST_CASE("no memory and a lost device: a status, a message, nothing written", "[errors][smoke][sanitize]") {
    for (const Backend backend : backends()) {
        Prepared p(backend);
        CHECK(milcgpu_fault_inject(p.session.context, MILCGPU_FAULT_ALLOCATION) == MILCGPU_OK);
        p.refused(MILCGPU_NO_MEMORY, "do not fit");
        CHECK(last_error_says("links as handed over"));
        p.x.assign(p.source.size(), 0.25);
        CHECK(p.solve() == MILCGPU_OK); // memory is back, all is well
        p.x.assign(p.source.size(), 0.25);
        CHECK(milcgpu_fault_inject(p.session.context, MILCGPU_FAULT_DEVICE_LOST) == MILCGPU_OK);
        p.refused(MILCGPU_DEVICE_LOST, "device lost");
        p.refused(MILCGPU_DEVICE_LOST, "lost earlier");
        CHECK(milcgpu_fault_inject(p.session.context, 17) != MILCGPU_OK);
    }
}

TEST_CASE("memory plan, kernel list, messages, progress", "[api][smoke]") {
    for (const Backend backend : backends()) {
        Prepared p(backend, 2);
        char text[2000];
        size_t bytes = 0;
        CHECK(milcgpu_memory_plan(p.session.context, MILCGPU_DOUBLE, &p.spec, text, sizeof text, &bytes) == MILCGPU_OK);
        CHECK(bytes > 256u * 4 * 144 * 2);
        CHECK(has(text, "links as handed over"));
        int rows = 0;
        milcgpu_kernels_list([](void *user, const char *) { ++*static_cast<int *>(user); }, &rows);
        // heading; one source, with checksums, of several sites at once, and several; Laplace; Wilson
        const int at_once = MILCGPU_LANES ? 24 : 0;
        CHECK(rows == 1 + 64 + 2 + at_once + 60 + 1 + 144 + 1 + 99);
        struct Seen {
            int calls = 0, last_step = 0;
            double last = 1;
        } seen;
        p.spec.user = &seen;
        p.spec.progress = [](void *user, int step, double residual) {
            Seen &s = *static_cast<Seen *>(user);
            ++s.calls;
            s.last_step = step;
            s.last = residual;
        };
        CHECK(p.solve() == MILCGPU_OK);
        CHECK(seen.calls > 0);
        CHECK(seen.last_step == p.report.steps);
        CHECK(seen.last < 1e-7);
        CHECK(p.session.messages.size() >= 2);
        CHECK(p.session.messages.back().find("solve double/half") == 0);
    }
}
