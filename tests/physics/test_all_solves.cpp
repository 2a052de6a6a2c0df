// Rules that the solves of all families of operators share: what a source that changes on the device does, and what a
// progress callback must not do.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/reference/wilson.h"
#include "tests/support.h"
#include <functional>

using namespace tests;
using milcgpu::format;

namespace {

using Progress = void (*)(void *, int, double);
using Words = std::vector<double>;

constexpr double marker = 1.234567890123456, other = 1.734567890123456; // in source 1
constexpr int sources = 3;

// A session with handles for all families, and a solve of each.
struct World {
    reference::Lattice lattice{{4, 4, 2, 4}};
    Session<double> session;
    milcgpu_wilson *wilson = nullptr;
    milcgpu_meson_links *meson = nullptr;
    milcgpu_vectors *vectors = nullptr;
    milcgpu_gauge *gauge = nullptr;
    std::vector<Words> colour, dirac; // sources

    explicit World(milcgpu::Backend backend) : session(lattice, backend, 0, 0) {
        const AsqtadLinks links = asqtad_links(lattice, 901);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        Words u = reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.2, 902));
        const milcgpu_field field = session.field(u);
        REQUIRE(milcgpu_wilson_create(session.context, &wilson) == MILCGPU_OK);
        REQUIRE(milcgpu_wilson_load(wilson, &field) == MILCGPU_OK);
        REQUIRE(milcgpu_meson_links_create(session.context, MILCGPU_DOUBLE, &meson) == MILCGPU_OK);
        const milcgpu_meson_links_spec as_they_are{sizeof as_they_are, 0, MILCGPU_SIGNS_OUT, {}};
        REQUIRE(milcgpu_meson_links_load(meson, &as_they_are, &field) == MILCGPU_OK);
        REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, sources, &vectors) == MILCGPU_OK);
        REQUIRE(milcgpu_gauge_create(session.context, MILCGPU_DOUBLE, &gauge) == MILCGPU_OK);
        REQUIRE(milcgpu_gauge_load(gauge, &field, 0) == MILCGPU_OK);
        for (int k = 0; k < sources; ++k) {
            colour.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 903 + k)));
            dirac.push_back(
                reference::field_to_milc<double>(lattice, reference::random_wilson_field(lattice, 913 + k), 1));
        }
    }
    World(const World &) = delete;
    ~World() {
        milcgpu_gauge_destroy(gauge);
        milcgpu_vectors_destroy(vectors);
        milcgpu_meson_links_destroy(meson);
        milcgpu_wilson_destroy(wilson);
    }

    static std::vector<milcgpu_field> fields(std::vector<Words> &of) {
        std::vector<milcgpu_field> all;
        for (Words &words : of)
            all.push_back(Session<double>::field(words));
        return all;
    }
    static milcgpu_solve_spec how(double mass, Progress progress, void *user) {
        milcgpu_solve_spec spec = solve_spec(mass, 1e-9, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        spec.progress = progress, spec.user = user;
        return spec;
    }
    static milcgpu_multi_mass_spec masses(Progress progress, void *user) {
        static const milcgpu_pole shifts[sources] = {{0.3, 1e-9, 0}, {0.05, 1e-9, 0}, {2, 1e-9, 0}};
        auto spec = sized<milcgpu_multi_mass_spec>();
        spec.parity = MILCGPU_EVEN;
        spec.n_shifts = sources, spec.shifts = shifts;
        spec.max_iterations = 500, spec.max_restarts = 5;
        spec.shared.precision = MILCGPU_DOUBLE;
        spec.progress = progress, spec.user = user;
        return spec;
    }
};

// A call that solves for `sources` and writes `solutions`.
struct Family {
    std::string name;
    bool dirac;
    int marked_site; // where the value of source 1 becomes the marker
    std::function<milcgpu_status(World &, Progress, void *, std::vector<milcgpu_field> &, std::vector<milcgpu_field> &)>
        solve;
};

std::vector<Family> families(const World &world) {
    const int odd = world.lattice.volume() / 2; // the first odd site
    using Fields = std::vector<milcgpu_field>;
    std::vector<Family> all = {
        {"staggered, one source", false, 0,
         [](World &w, Progress p, void *user, Fields &b, Fields &x) {
             const milcgpu_solve_spec spec = World::how(0.2, p, user);
             return milcgpu_staggered_solve(w.session.links, &spec, &b[1], &x[1], nullptr);
         }},
        {"staggered, several masses", false, 0,
         [](World &w, Progress p, void *user, Fields &b, Fields &x) {
             const milcgpu_multi_mass_spec spec = World::masses(p, user);
             return milcgpu_staggered_multi_mass(w.session.links, &spec, &b[1], x.data(), nullptr);
         }},
        {"staggered, several masses to vectors", false, 0,
         [](World &w, Progress p, void *user, Fields &b, Fields &x) {
             const milcgpu_multi_mass_spec spec = World::masses(p, user);
             const milcgpu_status status =
                 milcgpu_staggered_multi_mass_vectors(w.session.links, &spec, &b[1], w.vectors, 0, nullptr);
             for (int k = 0; k < sources && status == MILCGPU_OK; ++k)
                 milcgpu_vectors_save(w.vectors, k, MILCGPU_EVEN, &x[k]);
             return status;
         }},
    };
    for (const int together : {int(MILCGPU_BLOCK), int(MILCGPU_LOCK_STEP), int(MILCGPU_ONE_BY_ONE)}) {
        const std::string way = format(", %d sources, way %d", sources, together);
        all.push_back({"staggered" + way, false, 0, [together](World &w, Progress p, void *user, Fields &b, Fields &x) {
                           const milcgpu_solve_spec spec = World::how(0.2, p, user);
                           return milcgpu_staggered_solve_sources(w.session.links, &spec, together, sources, b.data(),
                                                                  x.data(), nullptr);
                       }});
        // On a site of each parity; in a short run on one site.
        for (const int site :
             long_tests() || together == MILCGPU_BLOCK ? std::vector<int>{0, odd} : std::vector<int>{0}) {
            const std::string where = way + (site == 0 ? ", even site" : ", odd site");
            all.push_back(
                {"Laplace" + where, false, site, [together](World &w, Progress p, void *user, Fields &b, Fields &x) {
                     auto spec = sized<milcgpu_laplace_solve_spec>();
                     spec.directions = 3, spec.kappa = 0.12, spec.tolerance = 1e-9;
                     spec.max_iterations = 500, spec.max_restarts = 5;
                     spec.precise.precision = MILCGPU_DOUBLE;
                     spec.together = together;
                     spec.progress = p, spec.user = user;
                     const milcgpu_quarks from{b.data(), nullptr, 0}, to{x.data(), nullptr, 0};
                     return milcgpu_laplace_solve(w.meson, &spec, sources, &from, &to, nullptr);
                 }});
            for (const int even_odd : {0, 1})
                for (const int method : {int(MILCGPU_WILSON_CG), int(MILCGPU_WILSON_BICGSTAB)})
                    if (method == MILCGPU_WILSON_CG || together == MILCGPU_ONE_BY_ONE)
                        all.push_back({format("%s, method %d, even_odd %d", even_odd == 0 ? "Wilson" : "clover", method,
                                              even_odd) +
                                           where,
                                       true, site, [=](World &w, Progress p, void *user, Fields &b, Fields &x) {
                                           const milcgpu_solve_spec how = World::how(0, p, user);
                                           const milcgpu_wilson_spec spec{sizeof spec, 0.12, even_odd == 0 ? 0 : 1.1,
                                                                          even_odd, method};
                                           return milcgpu_wilson_solve_sources(w.wilson, &spec, &how, together, sources,
                                                                               b.data(), x.data(), nullptr);
                                       }});
        }
    }
    all.push_back({"Wilson, several masses", true, 0, [](World &w, Progress p, void *user, Fields &b, Fields &x) {
                       const milcgpu_multi_mass_spec how = World::masses(p, user);
                       const milcgpu_wilson_spec spec{sizeof spec, 0.12, 0, 0, MILCGPU_WILSON_CG};
                       return milcgpu_wilson_multi_mass(w.wilson, &spec, &how, &b[1], x.data(), nullptr);
                   }});
    return all;
}

struct Solved {
    milcgpu_status status;
    std::vector<Words> x;
    std::string error;
};

// With guesses 0.5.
Solved run(World &w, const Family &family, Progress progress, void *user) {
    std::vector<Words> b = family.dirac ? w.dirac : w.colour;
    Solved s{MILCGPU_OK, std::vector<Words>(sources, Words(b[0].size(), 0.5)), ""};
    b[1][b[1].size() / w.lattice.volume() * family.marked_site + 2] = marker;
    std::vector<milcgpu_field> from = World::fields(b), to = World::fields(s.x);
    s.status = family.solve(w, progress, user, from, to);
    if (s.status != MILCGPU_OK)
        s.error = milcgpu_last_error();
    return s;
}

bool untouched(const Solved &s) {
    return std::all_of(s.x.begin(), s.x.end(), [](const Words &x) { return x == Words(x.size(), 0.5); });
}

// Changes the marked value wherever it is on the device, in the first `left` attempts to solve.
struct Changes {
    milcgpu::Device &device;
    int left;
    static void progress(void *user, int, double) {
        Changes &changes = *static_cast<Changes *>(user);
        if (changes.left > 0 && changes.device.replace(marker, other) > 0)
            --changes.left;
    }
};

} // namespace

TEST_CASE("a solve loads a source again that changed on the device; a second change gives CORRUPTED",
          "[faults][all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        for (const Family &family : families(w)) {
            CAPTURE(milcgpu::name(backend), family.name);
            const Solved right = run(w, family, nullptr, nullptr);
            REQUIRE(right.status == MILCGPU_OK);
            Changes once{*w.session.context->device, 1}, twice{*w.session.context->device, 2};
            const Solved again = run(w, family, Changes::progress, &once);
            CAPTURE(again.error);
            CHECK(once.left == 0);
            CHECK(again.status == MILCGPU_OK);
            CHECK(again.x == right.x);
            const Solved failed = run(w, family, Changes::progress, &twice);
            CAPTURE(failed.error);
            CHECK(twice.left == 0);
            CHECK(failed.status == MILCGPU_CORRUPTED);
            CHECK(has(failed.error, "twice in a row"));
            if (!has(family.name, "way 3")) // way 3 solves the other sources
                CHECK(untouched(failed));
            CHECK(run(w, family, nullptr, nullptr).x == right.x);
        }
        // A source that stays on the device has its own checksum and is not loaded again.
        Words b = w.colour[1], x(b.size());
        b[2] = marker;
        const milcgpu_field from = w.session.field(b), to = w.session.field(x);
        REQUIRE(milcgpu_vectors_load(w.vectors, 0, MILCGPU_EVEN, &from) == MILCGPU_OK);
        REQUIRE(milcgpu_vectors_load(w.vectors, 1, MILCGPU_EVEN, &to) == MILCGPU_OK);
        Changes once{*w.session.context->device, 1};
        const milcgpu_solve_spec spec = World::how(0.2, Changes::progress, &once);
        const milcgpu_vector source{w.vectors, 0}, solution{w.vectors, 1};
        CHECK(milcgpu_staggered_solve_vectors(w.session.links, &spec, MILCGPU_TOGETHER_AUTO, 1, &source, &solution,
                                              nullptr) == MILCGPU_CORRUPTED);
        CHECK(last_error_says("vector 0 on even"));
    }
}

namespace {

// Calls the library in each progress call.
struct Nested {
    World &w;
    int calls = 0, refused = 0;
    void call() {
        Words x(w.colour[0].size());
        const milcgpu_field b = Session<double>::field(w.colour[0]), to = Session<double>::field(x);
        const milcgpu_solve_spec spec = World::how(0.7, nullptr, nullptr);
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        double action = 0;
        for (const milcgpu_status status :
             {milcgpu_staggered_solve(w.session.links, &spec, &b, &to, nullptr),
              milcgpu_staggered_dslash(w.session.links, &what, MILCGPU_EVEN, &b, &to),
              milcgpu_vectors_load(w.vectors, 0, MILCGPU_EVEN, &b), milcgpu_momenta_action(w.gauge, &action)}) {
            ++calls;
            refused += status == MILCGPU_BAD_ARGUMENT && last_error_says("callback");
        }
        // Nor may the callback destroy a handle.
        milcgpu_links_destroy(w.session.links);
        milcgpu_wilson_destroy(w.wilson);
        milcgpu_meson_links_destroy(w.meson);
        milcgpu_vectors_destroy(w.vectors);
        milcgpu_gauge_destroy(w.gauge);
        milcgpu_context_destroy(w.session.context);
    }
    static void progress(void *user, int, double) { static_cast<Nested *>(user)->call(); }
};

// Throws from the given call on: a standard exception, or a value.
struct Thrower {
    int from, calls = 0;
    bool standard;
    static void progress(void *user, int, double) { static_cast<Thrower *>(user)->call(); }
    void call() {
        if (calls++ < from)
            return;
        if (standard)
            throw std::runtime_error("enough");
        throw 42;
    }
    bool said(const char *error) const { return has(error, standard ? "(enough)" : "unknown type"); }
};

} // namespace

TEST_CASE("a progress callback may not call the library, and its exceptions do not pass through C",
          "[errors][all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        for (const Family &family : families(w)) {
            if (family.marked_site != 0)
                continue;
            CAPTURE(milcgpu::name(backend), family.name);
            const Solved right = run(w, family, nullptr, nullptr);
            Nested nested{w};
            CHECK(run(w, family, Nested::progress, &nested).x == right.x);
            CHECK(nested.calls > 0);
            CHECK(nested.refused == nested.calls);
            for (const bool standard : {true, false}) {
                Thrower thrower{0, 0, standard};
                const Solved thrown = run(w, family, Thrower::progress, &thrower);
                CAPTURE(thrown.error);
                CHECK(thrown.status == MILCGPU_BAD_ARGUMENT);
                CHECK(thrower.said(thrown.error.c_str()));
                CHECK(untouched(thrown));
                CHECK(run(w, family, nullptr, nullptr).x == right.x);
            }
        }
    }
}

TEST_CASE("callbacks of flow, gauge fixing, message lines and lists may not call the library nor throw through C",
          "[errors][all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        Nested nested{w};
        Thrower thrower{1, 0, true};
        auto flow = filled(milcgpu_flow_defaults);
        flow.stop = 0.1, flow.step = 0.05, flow.signs = 1;
        const auto flows = [&](auto *user) {
            using User = std::remove_pointer_t<decltype(user)>;
            return milcgpu_gauge_flow(
                w.gauge, &flow,
                [](void *of, const milcgpu_flow_point *) {
                    static_cast<User *>(of)->call();
                    return 0;
                },
                user, nullptr);
        };
        auto fix = sized<milcgpu_gauge_fix_spec>();
        fix.direction = MILCGPU_LANDAU, fix.signs = 1, fix.most_steps = 3, fix.tolerance = -1;
        const auto fixes = [&](auto *user) {
            using User = std::remove_pointer_t<decltype(user)>;
            fix.user = user;
            fix.progress = [](void *of, int, double, double) { static_cast<User *>(of)->call(); };
            return milcgpu_gauge_fix(w.gauge, &fix, nullptr);
        };
        const uint64_t version = milcgpu_gauge_version(w.gauge);
        CHECK(flows(&thrower) == MILCGPU_BAD_ARGUMENT);
        CHECK(thrower.said(milcgpu_last_error()));
        CHECK(thrower.calls == 2);
        thrower.calls = 0;
        CHECK(fixes(&thrower) == MILCGPU_BAD_ARGUMENT);
        CHECK(thrower.said(milcgpu_last_error()));
        CHECK(milcgpu_gauge_version(w.gauge) == version); // untouched
        CHECK(flows(&nested) == MILCGPU_OK);
        CHECK(fixes(&nested) == MILCGPU_OK);
        CHECK(nested.calls == 4 * 6);
        CHECK(nested.refused == nested.calls);
        // The library writes lines while it writes outputs, so it drops what `message` throws.
        w.session.context->verbosity = 2;
        w.session.context->message = [](void *, const char *) { throw 42; };
        const Family one = families(w)[0];
        CHECK(run(w, one, nullptr, nullptr).status == MILCGPU_OK);
        milcgpu_kernels_list([](void *, const char *) { throw 42; }, nullptr);
        CHECK(last_error_says("milcgpu_kernels_list: "));
    }
}

TEST_CASE("each solver that takes a guess solves for a source 1e-20 of the guess, in every precision", "[all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        for (const double size : {1e-20, 1e-40})
            for (const int sloppy : {int(MILCGPU_DOUBLE), int(MILCGPU_SINGLE), int(MILCGPU_HALF)}) {
                const auto tiny = [size](Words b) {
                    for (double &value : b)
                        value *= size;
                    return b;
                };
                Words b = tiny(w.colour[0]), d = tiny(w.dirac[0]), x(b.size(), 0.5), y(d.size(), 0.5);
                const milcgpu_field from = w.session.field(b), to = w.session.field(x);
                const milcgpu_field dirac_from = w.session.field(d), dirac_to = w.session.field(y);
                milcgpu_solve_spec how = solve_spec(0.3, 1e-8, MILCGPU_DOUBLE, sloppy);
                double residual = 1;
                CAPTURE(milcgpu::name(backend), size, sloppy);
                CHECK(milcgpu_staggered_solve(w.session.links, &how, &from, &to, nullptr) == MILCGPU_OK);
                REQUIRE(milcgpu_staggered_residual(w.session.links, how.parity, how.mass, &from, &to, &residual) ==
                        MILCGPU_OK);
                CHECK(residual < 1e-8);
                how.mass = 0;
                for (const int method : {int(MILCGPU_WILSON_CG), int(MILCGPU_WILSON_BICGSTAB)}) {
                    y.assign(y.size(), 0.5);
                    const milcgpu_wilson_spec spec{sizeof spec, 0.12, 0, 0, method};
                    CAPTURE(method);
                    CHECK(milcgpu_wilson_solve(w.wilson, &spec, &how, &dirac_from, &dirac_to, nullptr) == MILCGPU_OK);
                    REQUIRE(milcgpu_wilson_residual(w.wilson, &spec, how.parity, &dirac_from, &dirac_to, &residual) ==
                            MILCGPU_OK);
                    CHECK(residual < 1e-8);
                }
            }
    }
}

// A point source under a large shift is solved in a few steps, until the residual is 0 in the precision of the
// iteration. Then <p, A p> is 0 although the operator is positive.
TEST_CASE("a solve whose residual falls to 0 in its precision reports the residual that it reached", "[all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        Words b(w.colour[0].size());
        b[0] = 1;
        const milcgpu_field from = w.session.field(b);
        for (const double offset : {1.0, 1e8, 1e14})
            for (const auto &[tolerance, relative] : {std::pair(1e-12, 0.0), {1e-30, 0}, {0, 1e-30}})
                for (int precise = MILCGPU_DOUBLE; precise <= MILCGPU_HALF; ++precise)
                    for (int sloppy = precise; sloppy <= MILCGPU_HALF; ++sloppy) {
                        CAPTURE(milcgpu::name(backend), offset, tolerance, relative, precise, sloppy);
                        milcgpu_solve_spec how = solve_spec(std::sqrt(offset) / 2, tolerance, precise, sloppy);
                        how.relative_tolerance = relative;
                        Words x(b.size());
                        const milcgpu_field to = w.session.field(x);
                        auto report = sized<milcgpu_solve_report>();
                        const milcgpu_status status =
                            milcgpu_staggered_solve(w.session.links, &how, &from, &to, &report);
                        CAPTURE(status, report.true_residual, report.message);
                        // The call returned a solution.
                        CHECK(status <= MILCGPU_PRECISION_FLOOR);
                        const double floor = precise == MILCGPU_HALF ? 3e-4 : precise == MILCGPU_SINGLE ? 1e-6 : 1e-12;
                        CHECK(report.true_residual < floor);
                        CHECK((status != MILCGPU_OK || tolerance <= 0 || report.true_residual < tolerance));
                        // As the refinement of several masses does, which begins with the solutions of the shared
                        // iteration.
                        const milcgpu_pole poles[] = {{offset, tolerance, relative}, {3 * offset, tolerance, relative}};
                        Words y(b.size());
                        const milcgpu_field both[] = {to, w.session.field(y)};
                        auto spec = filled(milcgpu_multi_mass_defaults);
                        spec.n_shifts = 2, spec.shifts = poles, spec.precise.precision = precise;
                        spec.sloppy.precision = sloppy;
                        const milcgpu_status of_masses =
                            milcgpu_staggered_multi_mass(w.session.links, &spec, &from, both, nullptr);
                        CAPTURE(of_masses, milcgpu_last_error());
                        CHECK(of_masses <= MILCGPU_PRECISION_FLOOR);
                    }
    }
}

TEST_CASE("the message of a Wilson or Laplace solve names the residual and the tolerance of the call", "[all_solves]") {
    for (const milcgpu::Backend backend : backends()) {
        World w(backend);
        const auto says = [](const milcgpu_solve_report &report) {
            const std::string tolerance =
                format(report.status == MILCGPU_PRECISION_FLOOR ? "(tolerance %.1e)" : "the tolerance %.1e;",
                       report.status == MILCGPU_PRECISION_FLOOR ? 1e-17 : 1e-9);
            return has(report.message, tolerance.c_str()) &&
                   has(report.message, format("%.1e of |source|", report.true_residual).c_str());
        };
        for (const bool floor : {true, false}) {
            milcgpu_solve_spec how = World::how(0, nullptr, nullptr);
            how.tolerance = floor ? 1e-17 : 1e-9;
            how.max_iterations = floor ? 1000 : 4, how.max_restarts = floor ? 20 : 1;
            const int expected = floor ? MILCGPU_PRECISION_FLOOR : MILCGPU_NOT_CONVERGED;
            for (const int even_odd : {0, 1})
                for (const int method : {int(MILCGPU_WILSON_CG), int(MILCGPU_WILSON_BICGSTAB)}) {
                    Words x(w.dirac[0].size());
                    const milcgpu_field b = w.session.field(w.dirac[0]), to = w.session.field(x);
                    const milcgpu_wilson_spec spec{sizeof spec, 0.12, 1, even_odd, method};
                    auto report = sized<milcgpu_solve_report>();
                    CHECK(milcgpu_wilson_solve(w.wilson, &spec, &how, &b, &to, &report) == expected);
                    CAPTURE(method, even_odd, report.message, report.true_residual);
                    CHECK(says(report));
                }
            auto spec = sized<milcgpu_laplace_solve_spec>();
            spec.directions = 4, spec.kappa = 0.12, spec.tolerance = how.tolerance;
            spec.max_iterations = how.max_iterations, spec.max_restarts = how.max_restarts;
            spec.precise.precision = MILCGPU_DOUBLE;
            Words x(w.colour[0].size());
            const milcgpu_field b = w.session.field(w.colour[0]), to = w.session.field(x);
            const milcgpu_quarks from{&b, nullptr, 0}, made{&to, nullptr, 0};
            auto report = sized<milcgpu_solve_report>();
            CHECK(milcgpu_laplace_solve(w.meson, &spec, 1, &from, &made, &report) == expected);
            CAPTURE(report.message, report.true_residual);
            CHECK(says(report));
        }
    }
}
