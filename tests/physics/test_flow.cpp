// Gradient flow, stout smearing and their observables through the C interface: against the slow reference, against
// MILC's wilson_flow, and by identities of physics.
#include "examples/lib/flow_scales.h"
#include "examples/lib/heatbath.h"
#include "examples/lib/lattice_file.h"
#include "gpu_kernels/fields/asked_fields.h"
#include "gpu_kernels/gauge/flow/flow_integrators.h"
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/links/gauge.h"
#include "tests/cut_support.h"
#include "tests/handles.h"
#include "tests/reference/flow.h"
#include "tests/reference/gauge_force.h"
#include "tests/support.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;
using reference::Gauge;

namespace {

using Observables = std::vector<double>; // in the order of milcgpu_observables
Observables list(const milcgpu_observables &o) {
    return {o.clover_t, o.clover_s, o.plaquette_t, o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge};
}
Observables list(const reference::FlowObservables &o) {
    return {o.clover_t, o.clover_s, o.plaquette_t, o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge};
}
double largest_difference(const Observables &a, const Observables &b) {
    double largest = 0;
    for (size_t k = 0; k < a.size(); ++k)
        largest = worse(largest, std::abs(a[k] - b[k]));
    return largest;
}

// A gauge field on the device. Links go in and come out without phases, whether or not the handle has them.
template <class Real> struct Field {
    Session<Real> session;
    bool phases_out;
    milcgpu_gauge *gauge = nullptr;
    milcgpu_flow_spec spec;
    milcgpu_flow_report report = sized<milcgpu_flow_report>();
    std::vector<milcgpu_flow_point> points;
    int end_after = -1; // measurements until the callback ends the flow
    size_t in_flow = 0; // the largest number of bytes in use at a measurement

    Field(const reference::Lattice &lattice, Backend backend, bool without_phases = true, int block = 0)
        : session(lattice, backend, block, 0), phases_out(without_phases) {
        REQUIRE(milcgpu_gauge_create(session.context, Session<Real>::precision, &gauge) == MILCGPU_OK);
        milcgpu_flow_defaults(&spec, sizeof spec);
        spec.signs = phases_out, spec.exp_order = 0;
    }
    ~Field() { milcgpu_gauge_destroy(gauge); }
    void load(Gauge links) {
        if (!phases_out)
            reference::apply_phases(session.lattice, links);
        auto milc = reference::links_to_milc<Real>(session.lattice, links);
        const milcgpu_field from = Session<Real>::field(milc);
        REQUIRE(milcgpu_gauge_load(gauge, &from, 0) == MILCGPU_OK);
    }
    Gauge saved() {
        std::vector<Real> milc(72 * size_t(session.lattice.volume()));
        const milcgpu_field to = Session<Real>::field(milc);
        REQUIRE(milcgpu_gauge_save(gauge, &to) == MILCGPU_OK);
        Gauge links = reference::links_from_milc<Real>(session.lattice, milc);
        if (!phases_out)
            reference::apply_phases(session.lattice, links);
        return links;
    }
    Observables measured() {
        milcgpu_observables o;
        REQUIRE(milcgpu_gauge_measure(gauge, phases_out, &o) == MILCGPU_OK);
        return list(o);
    }
    static int take(void *self, const milcgpu_flow_point *point) {
        Field &f = *static_cast<Field *>(self);
        f.points.push_back(*point);
        f.in_flow = std::max(f.in_flow, f.gauge->device().used_bytes());
        return int(f.points.size()) == f.end_after;
    }
    milcgpu_status try_flow() {
        points.clear();
        return milcgpu_gauge_flow(gauge, &spec, take, this, &report);
    }
    void flow(double step, double stop) {
        spec.step = step, spec.stop = stop;
        const milcgpu_status status = try_flow();
        INFO(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    void stout(double rho, int times = 1, int directions = 4) {
        const milcgpu_stout_spec how{sizeof how, rho, times, directions, phases_out};
        REQUIRE(milcgpu_gauge_stout_smear(gauge, &how, nullptr) == MILCGPU_OK);
    }
};

// The largest distance of a link of a from the link of b.
double distance(const Gauge &a, const Gauge &b) {
    double largest = 0;
    for (size_t k = 0; k < a.size(); ++k)
        largest = worse(largest, reference::frobenius_norm(a[k] - b[k]));
    return largest;
}
double from_unitary(const Gauge &u) {
    double largest = 0;
    for (const auto &link : u)
        largest = worse(largest, reference::frobenius_norm(link * reference::adjoint(link) - reference::identity()));
    return largest;
}

constexpr double rounding(double in_double, double in_single, bool is_double) {
    return times_measured * (is_double ? in_double : in_single);
}
const reference::Lattice shapes[] = {{{4, 6, 10, 4}}, {{2, 4, 4, 8}}};

Gauge smooth(const reference::Lattice &lattice, unsigned long seed) {
    return reference::near_unit_gauge(lattice, 0.25, seed);
}

const std::vector<int> fixed = {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_CK,    MILCGPU_FLOW_BBB,   MILCGPU_FLOW_CF3,
                                MILCGPU_FLOW_RKMK3,   MILCGPU_FLOW_RKMK4, MILCGPU_FLOW_RKMK5, MILCGPU_FLOW_RKMK8};
const std::vector<int> adaptive = {MILCGPU_FLOW_ADAPT_LUSCHER, MILCGPU_FLOW_ADAPT_BS, MILCGPU_FLOW_ADAPT_CF3};

// Calls f(Real{}, backend, phases_out) for both precisions, all backends and both kinds of links.
template <class F> void everywhere(const F &f) {
    for (const Backend backend : backends())
        for (const bool phases_out : {false, true}) {
            CAPTURE(name(backend), phases_out);
            f(0.0, backend, phases_out);
            f(0.0f, backend, phases_out);
        }
}

} // namespace

TEST_CASE("flow observables are the reference's, with phases and without", "[measurements][sanitize]") {
    for (const reference::Lattice &lattice : shapes) {
        const Gauge rough = reference::random_gauge(lattice, 3), thermal = examples::thermalized(lattice, 5.8, 7, 5, 1);
        for (const Gauge *links : {&rough, &thermal}) {
            const Observables expected = list(reference::flow_observables(lattice, *links));
            everywhere([&](auto real, Backend backend, bool phases_out) {
                using Real = decltype(real);
                Field<Real> f(lattice, backend, phases_out);
                f.load(*links);
                CHECK(largest_difference(f.measured(), expected) <= rounding(6e-15, 4e-8, sizeof(Real) == 8));
            });
        }
    }
}

TEST_CASE("a step of Luescher's integrator is his formula, for every action", "[measurements][sanitize]") {
    const reference::Lattice lattice = shapes[1];
    const Gauge start = reference::random_gauge(lattice, 5);
    const double eps = 0.05;
    const reference::FlowAction anisotropic = {1, 0, 1.3 * 1.3}, both = {5.0 / 3, -1.0 / 12, 1.3 * 1.3};
    for (const auto &[action, number, xi] :
         {std::tuple(reference::wilson_flow(), MILCGPU_FLOW_WILSON, 0.0),
          std::tuple(reference::symanzik_flow(), MILCGPU_FLOW_SYMANZIK, 0.0),
          std::tuple(anisotropic, MILCGPU_FLOW_WILSON, 1.3), std::tuple(both, MILCGPU_FLOW_SYMANZIK, 1.3)}) {
        const Gauge expected = reference::luescher_step(lattice, start, action, eps);
        CHECK(distance(expected, start) > 0.1);
        everywhere([&, number = number, xi = xi](auto real, Backend backend, bool phases_out) {
            using Real = decltype(real);
            Field<Real> f(lattice, backend, phases_out);
            f.load(start);
            f.spec.action = number, f.spec.anisotropy = xi;
            f.flow(eps, eps);
            CAPTURE(number, xi, sizeof(Real));
            const Gauge got = f.saved();
            CHECK(distance(got, expected) <= rounding(1e-15, 2e-7, sizeof(Real) == 8));
            CHECK(from_unitary(got) <= rounding(3e-15, 4e-7, sizeof(Real) == 8));
            CHECK(f.points.size() == 2);
        });
    }
}

TEST_CASE("stout smearing follows its definition, for small and large exponents", "[measurements][sanitize]") {
    const reference::Lattice lattice = shapes[1];
    const Gauge rough = reference::random_gauge(lattice, 8), soft = smooth(lattice, 9),
                // Links of one Abelian direction, where two eigenvalues agree or nearly agree.
        flux = reference::constant_flux({{2, 4, 4, 8}}, 1, 1);
    reference::Rng rng(4);
    Gauge degenerate(rough.size()), nearly(rough.size());
    for (size_t k = 0; k < rough.size(); ++k) {
        const double angle = 2 * reference::uniform(rng);
        degenerate[k] = reference::identity();
        for (int c = 0; c < 3; ++c)
            degenerate[k].e[c][c] = std::polar(1.0, c == 2 ? -2 * angle : angle);
        nearly[k] = reference::reunitarize(degenerate[k] + 1e-6 * reference::random_matrix(rng));
    }
    for (const double rho : {1e-4, 0.1, 0.9})
        for (const int directions : {3, 4})
            for (const Gauge *links : std::vector<const Gauge *>{&rough, &soft, &flux, &degenerate, &nearly}) {
                const Gauge expected = reference::stout(lattice, *links, rho, directions);
                everywhere([&](auto real, Backend backend, bool phases_out) {
                    using Real = decltype(real);
                    Field<Real> f(lattice, backend, phases_out);
                    f.load(*links);
                    f.stout(rho, 1, directions);
                    CAPTURE(rho, directions, sizeof(Real));
                    const double large = rho > 0.5 ? 10 : 1; // exponents
                    CHECK(distance(f.saved(), expected) <= large * rounding(2e-15, 2e-7, sizeof(Real) == 8));
                });
            }
    // Two steps in one call equal two calls; no step, and the links in time if three directions are smeared, change
    // nothing.
    Field<double> f(lattice, Backend::host);
    f.load(rough);
    f.stout(0.1, 0);
    CHECK(distance(f.saved(), rough) == 0);
    f.stout(0.1, 1, 3);
    const Gauge once = f.saved();
    double of_time = 0;
    for (size_t k = 3; k < once.size(); k += 4)
        of_time = worse(of_time, reference::frobenius_norm(once[k] - rough[k]));
    CHECK(of_time == 0);
    f.stout(0.1, 1, 3);
    const Gauge twice = f.saved();
    f.load(rough);
    f.stout(0.1, 2, 3);
    CHECK(distance(f.saved(), twice) == 0);
}

TEST_CASE("stout smearing is Euler's step of the flow", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge start = smooth(lattice, 2);
    double error[2];
    for (const int half : {0, 1}) {
        const double eps = half ? 0.005 : 0.01;
        Field<double> flown(lattice, Backend::host), smeared(lattice, Backend::host);
        flown.load(start), smeared.load(start);
        flown.spec.integrator = MILCGPU_FLOW_RKMK8;
        flown.flow(eps, eps);
        smeared.stout(eps);
        error[half] = distance(flown.saved(), smeared.saved());
        CHECK(error[half] < 30 * eps * eps);
    }
    CHECK(error[0] / error[1] == Approx(4).epsilon(0.1));
}

TEST_CASE("each integrator of the flow has its order", "[measurements]") {
    const reference::Lattice lattice{{2, 4, 2, 4}};
    const Gauge start = smooth(lattice, 12);
    Field<double> f(lattice, Backend::host);
    const auto flown = [&](int integrator, double step) {
        f.load(start);
        f.spec.integrator = integrator, f.spec.every = 1000;
        f.flow(step, 0.4);
        return f.saved();
    };
    for (const int action : {MILCGPU_FLOW_WILSON, MILCGPU_FLOW_SYMANZIK}) {
        f.spec.action = action;
        const Gauge exact = flown(MILCGPU_FLOW_RKMK8, 0.025);
        const auto order = [&](int integrator, double step) {
            const double coarse = distance(flown(integrator, step), exact),
                         fine = distance(flown(integrator, step / 2), exact);
            CAPTURE(integrator, coarse, fine);
            CHECK(coarse < 0.01);
            CHECK(fine > 1e-12);
            return std::log2(coarse / fine);
        };
        for (const auto &[integrator, expected] :
             {std::pair(MILCGPU_FLOW_LUSCHER, 3), std::pair(MILCGPU_FLOW_CK, 4), std::pair(MILCGPU_FLOW_BBB, 4),
              std::pair(MILCGPU_FLOW_CF3, 3), std::pair(MILCGPU_FLOW_RKMK3, 3), std::pair(MILCGPU_FLOW_RKMK4, 4),
              std::pair(MILCGPU_FLOW_RKMK5, 5)}) {
            const double found = order(integrator, 0.05);
            CAPTURE(action, integrator, found);
            CHECK(found > expected - 0.35);
            CHECK(found < expected + 0.8);
        }
        const double eighth = order(MILCGPU_FLOW_RKMK8, 0.1);
        CHECK(eighth > 7);
    }
}

TEST_CASE("gauge transformations commute with the flow and leave the observables", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    const Gauge start = smooth(lattice, 21);
    const auto g = reference::random_transformation(lattice, 22);
    for (const Backend backend : backends())
        for (const int action : {MILCGPU_FLOW_WILSON, MILCGPU_FLOW_SYMANZIK})
            for (const int integrator : {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_RKMK4, MILCGPU_FLOW_ADAPT_BS}) {
                Field<double> one(lattice, backend, false), other(lattice, backend, false);
                for (Field<double> *f : {&one, &other}) {
                    f->spec.action = action, f->spec.integrator = integrator;
                    f->load(f == &one ? start : reference::transform_links(lattice, g, start, 1));
                    f->flow(0.1, 0.2);
                    f->stout(0.1);
                }
                CHECK(distance(reference::transform_links(lattice, g, one.saved(), 1), other.saved()) <=
                      times_measured * 1e-15);
                CHECK(largest_difference(one.measured(), other.measured()) <= times_measured * 1e-15);
            }
}

TEST_CASE("a field of constant flux stays, with the known energy, charge and automatic stop", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const double turn_s = 2 * M_PI / 16, turn_t = 2 * M_PI * 2 / 24;
    const double clover_s = 2 * std::pow(std::sin(turn_s), 2), clover_t = 2 * std::pow(std::sin(turn_t), 2);
    const Observables expected = {clover_t,
                                  clover_s,
                                  2 + (1 + 2 * std::cos(turn_t)) / 3,
                                  2 + (1 + 2 * std::cos(turn_s)) / 3,
                                  2 + (1 + 2 * std::cos(2 * turn_t)) / 3,
                                  2 + (1 + 2 * std::cos(2 * turn_s)) / 3,
                                  lattice.volume() * 2 * std::sin(turn_s) * std::sin(turn_t) / (4 * M_PI * M_PI)};
    everywhere([&](auto real, Backend backend, bool phases_out) {
        using Real = decltype(real);
        const bool is_double = sizeof(Real) == 8;
        Field<Real> f(lattice, backend, phases_out);
        const Gauge start = reference::constant_flux(lattice, 1, 2);
        f.load(start);
        CHECK(largest_difference(f.measured(), expected) <= rounding(5e-16, 3e-7, is_double));
        f.flow(0.1, MILCGPU_FLOW_AUTO_STOP);
        CHECK(largest_difference(f.measured(), expected) <= rounding(5e-16, 3e-7, is_double));
        const double energy = clover_s + clover_t;
        // t^2 E > 0.45, and its slope over a step, 2 t^2 E - t eps E, > 0.35
        int steps = 1;
        while (!(0.01 * steps * steps * energy > 0.45 && 0.01 * energy * steps * (2 * steps - 1) > 0.35))
            ++steps;
        CHECK(f.report.last.steps == steps);
        CHECK(f.report.last.time == Approx(0.1 * steps).epsilon(1e-13));
        std::vector<examples::FlowValue> values;
        for (const auto &p : f.points)
            values.push_back({p.time, p.of.clover_t + p.of.clover_s});
        const auto scales = examples::flow_scales(values);
        CHECK(scales.t0.at == Approx(std::sqrt(0.3 / energy)).epsilon(0.01));
        CHECK(scales.w0.at * scales.w0.at == Approx(std::sqrt(0.15 / energy)).epsilon(0.02));
        // A reflection changes the sign of the charge.
        Gauge reflected = reference::constant_flux(lattice, -1, 2);
        f.load(reflected);
        CHECK(f.measured()[6] == Approx(-expected[6]));
    });
    // Unit links stay exactly as they are.
    for (const int integrator : {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_RKMK8, MILCGPU_FLOW_ADAPT_LUSCHER}) {
        Field<double> f(lattice, Backend::host, false);
        f.load(reference::unit_gauge(lattice));
        f.spec.integrator = integrator;
        f.flow(0.25, 1);
        CHECK(distance(f.saved(), reference::unit_gauge(lattice)) == 0);
        CHECK(f.measured() == Observables{0, 0, 3, 3, 3, 3, 0});
    }
}

TEST_CASE("an automatic stop gives up where sqrt(8 t) is the largest extent", "[measurements]") {
    const reference::Lattice lattice{{2, 4, 2, 4}};
    for (const int integrator : {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_ADAPT_BS}) {
        Field<double> f(lattice, Backend::host);
        f.load(reference::unit_gauge(lattice));
        f.spec.integrator = integrator, f.spec.step = 0.25, f.spec.stop = MILCGPU_FLOW_AUTO_STOP;
        CHECK(f.try_flow() == MILCGPU_NOT_CONVERGED);
        CHECK(f.report.last.time > 2); // sqrt(16) = 4
        CHECK(f.points[f.points.size() - 2].time <= 2);
        CHECK(distance(f.saved(), reference::unit_gauge(lattice)) < 1e-13);
    }
    Field<double> f(lattice, Backend::host); // half of the smallest extent is 1
    for (const double stop : {0.124, 0.126}) {
        f.load(smooth(lattice, 3));
        f.flow(0.0625, stop);
        CHECK(f.report.beyond_half_box == (stop > 0.125));
    }
}

TEST_CASE("steps up to the longest stable one lower the action, and a flow whose action rises ends with a message",
          "[measurements]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge start = examples::thermalized(lattice, 6.0, 11, 8, 1);
    const auto says = [](const std::string &what) {
        INFO(milcgpu_last_error());
        CHECK(last_error_says(what));
    };
    for (const int action : {MILCGPU_FLOW_WILSON, MILCGPU_FLOW_SYMANZIK})
        for (const double xi : {1.0, 1.5}) {
            if (xi != 1 && action == MILCGPU_FLOW_SYMANZIK)
                continue; // the generic code, path by path, takes long
            for (const int integrator :
                 action == MILCGPU_FLOW_WILSON ? fixed : std::vector<int>{0, MILCGPU_FLOW_RKMK5}) {
                const double longest = milcgpu::longest_stable_step(
                    {milcgpu::flow_integrator(integrator), action == MILCGPU_FLOW_SYMANZIK, xi, {}, 0});
                CAPTURE(action, xi, integrator, longest);
                Field<double> f(lattice, Backend::host, false);
                f.spec.action = action, f.spec.integrator = integrator, f.spec.anisotropy = xi;
                f.load(start);
                f.spec.every = 1000;
                f.flow(0.97 * longest, 2);
                CHECK(f.report.message[0] == 0);
                f.load(start);
                f.spec.step = 1.3 * longest, f.spec.stop = 6;
                CHECK(f.try_flow() == MILCGPU_BAD_ARGUMENT);
                says("spec.step ");
                says(milcgpu::format("%.3g", longest));
                CHECK(f.points.size() == 1); // the flow looks at every step
                CHECK(distance(f.saved(), start) < 1e-15);
                if (integrator != MILCGPU_FLOW_LUSCHER)
                    continue;
                f.spec.as_milc = 1; // MILC does not stop
                CHECK(f.try_flow() == MILCGPU_OK);
                CHECK(f.report.last.time >= 6);
                CHECK(has(f.report.message, "spec.step "));
            }
        }
    CHECK(milcgpu::longest_stable_step({milcgpu::flow_integrator(MILCGPU_FLOW_LUSCHER), false, 1, {}, 0}) ==
          Approx(0.15705).epsilon(1e-3)); // 2.5127 / 16
    // With MILC's sample tolerance an adaptive integrator takes steps that are too long; with the default it does not.
    Field<double> f(lattice, Backend::host), exact(lattice, Backend::host);
    f.spec.integrator = MILCGPU_FLOW_ADAPT_BS;
    exact.load(start);
    exact.flow(0.05, 3);
    f.load(start);
    f.flow(0.05, 3);
    CHECK(distance(f.saved(), exact.saved()) < 1e-3);
    f.load(start);
    f.spec.tolerance = 0.01, f.spec.stop = 10;
    CHECK(f.try_flow() == MILCGPU_BAD_ARGUMENT);
    says("spec.tolerance is 0.01");
    // A first step that is too long, beyond the end or infinite is repeated with a shorter one.
    for (const double first : {0.4, 1e6, 1e300}) {
        f.load(start);
        f.spec.tolerance = 1e-4;
        f.flow(first, 0.4);
        CHECK(f.report.last.rejected > 0);
        CHECK(f.report.last.time == Approx(0.4));
        for (size_t k = 1; k < f.points.size(); ++k)
            CHECK(f.points[k].distance <= 1e-4);
    }
    f.load(start);
    f.spec.as_milc = 1; // MILC does not check a step that it shortens to end there
    f.flow(0.5, 0.4);
    CHECK(f.report.last.steps == 1);
    CHECK(has(f.report.message, "0.4"));
}

TEST_CASE("an instanton has charge 1 but for the clover's a^2, and its action falls along the flow", "[measurements]") {
    double missing[2];
    for (const int larger : {0, 1}) {
        const int n = larger ? 10 : 8;
        const double radius = larger ? 3 : 2.2;
        const reference::Lattice lattice{{n, n, n, n}};
        Field<double> f(lattice, Backend::host);
        f.load(reference::instanton(lattice, radius));
        f.flow(0.125, 0.5);
        REQUIRE(f.points.size() == 5);
        // The action of plaquettes; 1 for a self-dual field of charge 1.
        const auto action = [&](const milcgpu_flow_point &p) {
            return 6 * lattice.volume() * (6 - p.of.plaquette_t - p.of.plaquette_s) / (8 * M_PI * M_PI);
        };
        for (size_t k = 1; k < f.points.size(); ++k)
            CHECK(action(f.points[k]) < action(f.points[k - 1]));
        CHECK(action(f.points.back()) > 1);
        CHECK(action(f.points.back()) < 1.2);
        missing[larger] = 1 - f.points.back().of.charge;
    }
    CAPTURE(missing[0], missing[1]);
    CHECK(missing[1] < 0.1);
    CHECK(missing[1] > 0);
    CHECK(missing[0] / missing[1] == Approx(9 / (2.2 * 2.2)).epsilon(0.1));
}

TEST_CASE("adaptive integrators keep their tolerance, repeat bad steps and end at the time requested",
          "[measurements]") {
    LONG_TEST;
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge start = reference::random_gauge(lattice, 31);
    Field<double> exact(lattice, Backend::host);
    exact.load(start);
    exact.spec.integrator = MILCGPU_FLOW_RKMK5, exact.spec.every = 1000;
    exact.flow(0.005, 0.5);
    for (const int integrator : adaptive) {
        double error[2];
        int steps[2];
        for (const int tight : {0, 1}) {
            Field<double> f(lattice, Backend::host, false);
            f.load(start);
            f.spec.integrator = integrator, f.spec.tolerance = tight ? 1e-6 : 1e-4;
            f.flow(0.3, 0.5);
            CAPTURE(integrator, tight, f.report.last.rejected, f.report.last.steps);
            CHECK(f.report.last.rejected >= 1);
            CHECK(f.report.last.time == Approx(0.5).epsilon(1e-14));
            // The last step is shortened to end there; the flow would go on with the step length that it had reached.
            const double last = f.report.last.step, before = f.points[f.points.size() - 2].step;
            CHECK(last < before);
            CHECK(f.report.next_step > 0.6 * before);
            CHECK(f.report.next_step < 3 * before);
            for (size_t k = 1; k < f.points.size(); ++k) {
                CHECK(f.points[k].distance > 0);
                CHECK(f.points[k].distance <= f.spec.tolerance);
                CHECK(f.points[k].time == Approx(f.points[k - 1].time + f.points[k].step));
            }
            error[tight] = distance(f.saved(), exact.saved());
            steps[tight] = f.report.last.steps;
            CHECK(error[tight] < 100 * f.spec.tolerance);
        }
        CHECK(steps[1] > 3 * steps[0]); // 100^(1/3) = 4.6
        CHECK(error[1] < error[0] / 30);
    }
}

TEST_CASE("a flow continues another one with the same bits, for any launch shape", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 8, 8}};
    const Gauge start = reference::random_gauge(lattice, 41);
    for (const Backend backend : backends())
        for (const int integrator : {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_RKMK4}) {
            Gauge first;
            Observables measured;
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                Field<double> f(lattice, backend, false, threads.block);
                f.load(start);
                f.spec.integrator = integrator;
                f.flow(0.125, 0.5);
                if (choice == 0)
                    first = f.saved(), measured = f.measured();
                CHECK(distance(f.saved(), first) == 0);
                CHECK(f.measured() == measured);
                CHECK(list(f.report.last.of) == measured);
                CHECK(f.points.size() == 5);
                // In two parts: the callback ends the first, the limit on steps the second.
                f.load(start);
                const auto version = milcgpu_gauge_version(f.gauge);
                f.end_after = 2;
                f.flow(0.125, 0.5);
                CHECK(f.report.ended_by_caller == 1);
                CHECK(f.report.last.steps == 1);
                CHECK(milcgpu_gauge_version(f.gauge) > version);
                f.end_after = -1;
                f.spec.stop = MILCGPU_FLOW_AUTO_STOP, f.spec.most_steps = 3, f.spec.every = 2;
                CHECK(f.try_flow() == MILCGPU_NOT_CONVERGED);
                CHECK(f.report.status == MILCGPU_NOT_CONVERGED);
                CHECK(has(f.report.message, "most_steps = 3"));
                CHECK(f.points.size() == 3); // after 0, 2, 3 steps
                CHECK(distance(f.saved(), first) == 0);
                CHECK(f.report.flops > 0);
            }
        }
}

TEST_CASE("a flow takes the memory that milcgpu_flow.h says", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 2, 2}};
    for (const Backend backend : backends()) {
        Field<double> f(lattice, backend);
        f.load(smooth(lattice, 61));
        milcgpu::Device &device = f.gauge->device();
        const auto taken_by = [](size_t bytes) { return milcgpu::Device::allocated_bytes(bytes); };
        const auto field = [&](int reals) {
            return taken_by(milcgpu::LinkField::bytes_of(milcgpu::Precision::double_, reals, f.gauge->geometry()));
        };
        const size_t links = field(18), momenta = field(10), checksums = taken_by(milcgpu::AskedFields::bytes());
        size_t of_force = 0;
        {
            const milcgpu::GaugeForceSpace space(device, f.gauge->geometry(), milcgpu::Precision::double_,
                                                 milcgpu::symanzik_loops);
            of_force = taken_by(space.pieces.bytes()) + taken_by(space.rests.bytes());
        }
        const auto takes = [&](int integrator, int sets, int kept) {
            for (const int action : {MILCGPU_FLOW_WILSON, MILCGPU_FLOW_SYMANZIK}) {
                f.spec.integrator = integrator, f.spec.action = action;
                f.flow(0.01, 0.02); // allocates the room for sums, which stays
                const size_t before = device.used_bytes();
                f.in_flow = 0;
                f.flow(0.01, 0.02);
                CAPTURE(name(backend), integrator, action);
                const bool symanzik = action == MILCGPU_FLOW_SYMANZIK;
                CHECK(f.in_flow - before ==
                      sets * links + (kept + symanzik) * momenta + symanzik * of_force + checksums);
                CHECK(device.used_bytes() == before);
            }
        };
        for (const int integrator : {MILCGPU_FLOW_LUSCHER, MILCGPU_FLOW_CK, MILCGPU_FLOW_BBB, MILCGPU_FLOW_CF3})
            takes(integrator, 2, 1);
        takes(MILCGPU_FLOW_RKMK3, 2, 3);
        takes(MILCGPU_FLOW_RKMK4, 2, 4);
        takes(MILCGPU_FLOW_RKMK5, 2, 6);
        takes(MILCGPU_FLOW_RKMK8, 2, 13);
        takes(MILCGPU_FLOW_ADAPT_LUSCHER, 3, 2);
        takes(MILCGPU_FLOW_ADAPT_CF3, 3, 2);
        takes(MILCGPU_FLOW_ADAPT_BS, 2, 4);
    }
}

TEST_CASE("flow and smearing refuse bad input and leave links as they were; links are copied between handles",
          "[measurements][sanitize]") {
    const reference::Lattice lattice{{2, 4, 4, 2}};
    Field<double> f(lattice, Backend::host), other(lattice, Backend::host);
    CHECK(f.try_flow() == MILCGPU_BAD_ARGUMENT);
    CHECK(last_error_says("milcgpu_gauge_load"));
    const Gauge links = reference::random_gauge(lattice, 51);
    f.load(links);
    f.spec.stop = 0.2;
    const auto refused = [&](auto &place, auto value, const char *what, milcgpu_status status = MILCGPU_BAD_ARGUMENT) {
        const auto good = place;
        place = value;
        CAPTURE(what);
        CHECK(f.try_flow() == status);
        CHECK(last_error_says(what));
        CHECK(f.report.status == status);
        place = good;
        CHECK(distance(f.saved(), links) == 0);
    };
    const double nan = std::nan("");
    refused(f.spec.struct_size, size_t(8), "struct_size");
    refused(f.spec.action, 2, "spec.action");
    refused(f.spec.integrator, 4, "spec.integrator");
    refused(f.spec.exp_order, 17, "spec.exp_order");
    refused(f.spec.exp_order, -1, "spec.exp_order");
    for (const double step : {0.0, -0.1, nan, double(INFINITY)})
        refused(f.spec.step, step, "spec.step");
    for (const double stop : {-0.5, nan, double(INFINITY)})
        refused(f.spec.stop, stop, "spec.stop");
    refused(f.spec.stop, 1e7, "most_steps");
    refused(f.spec.anisotropy, -1.0, "spec.anisotropy");
    refused(f.spec.anisotropy, nan, "spec.anisotropy");
    refused(f.spec.every, -1, "spec.every");
    refused(f.spec.most_steps, -1, "spec.most_steps");
    f.spec.integrator = MILCGPU_FLOW_ADAPT_BS;
    for (const double tolerance : {0.0, -1.0, nan, 1e-17})
        refused(f.spec.tolerance, tolerance, "spec.tolerance");
    f.spec.integrator = MILCGPU_FLOW_LUSCHER;
    f.spec.exp_order = 8, f.spec.stop = 1e300; // links overflow
    refused(f.spec.step, 1e300, "spec.step is 1e+300", MILCGPU_NAN_OR_INF);
    f.spec.stop = 10;
    refused(f.spec.step, 5.0, "spec.step is 5", MILCGPU_NAN_OR_INF);
    CHECK(milcgpu_gauge_flow(f.gauge, nullptr, nullptr, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_gauge_flow(nullptr, &f.spec, nullptr, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_gauge_measure(f.gauge, 1, nullptr) == MILCGPU_BAD_ARGUMENT);

    milcgpu_stout_spec how{sizeof how, 0.1, 1, 4, 1};
    const auto stout_refused = [&](auto &place, auto value, const char *what) {
        const auto good = place;
        place = value;
        CHECK(milcgpu_gauge_stout_smear(f.gauge, &how, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(what));
        place = good;
    };
    stout_refused(how.struct_size, size_t(1), "struct_size");
    stout_refused(how.rho, nan, "spec.rho");
    stout_refused(how.rho, -0.1, "spec.rho");
    stout_refused(how.times, -1, "spec.times");
    stout_refused(how.directions, 2, "spec.directions");
    how.rho = 1e105; // its powers overflow
    CHECK(milcgpu_gauge_stout_smear(f.gauge, &how, nullptr) == MILCGPU_NAN_OR_INF);
    how.rho = 0.1;
    CHECK(distance(f.saved(), links) == 0);

    // Without memory.
    const auto without_memory = [&](const auto &call) {
        REQUIRE(milcgpu_fault_inject(f.session.context, MILCGPU_FAULT_ALLOCATION) == MILCGPU_OK);
        CHECK(call() == MILCGPU_NO_MEMORY);
        CHECK(distance(f.saved(), links) == 0);
    };
    f.spec = other.spec;
    without_memory([&] { return f.try_flow(); });
    without_memory([&] { return milcgpu_gauge_stout_smear(f.gauge, &how, nullptr); });
    milcgpu_observables untouched{-7, -7, -7, -7, -7, -7, -7};
    without_memory([&] { return milcgpu_gauge_measure(f.gauge, 1, &untouched); });
    CHECK(list(untouched) == Observables(7, -7));

    // No step: one measurement.
    f.spec = other.spec;
    f.flow(0.1, 0);
    CHECK(f.points.size() == 1);
    CHECK(distance(f.saved(), links) == 0);

    // Handles of a copy must have one context and one precision.
    GaugeHandle second(f.session.context, MILCGPU_DOUBLE);
    const GaugeHandle in_single(f.session.context, MILCGPU_SINGLE);
    CHECK(milcgpu_gauge_copy(second, f.gauge) == MILCGPU_BAD_ARGUMENT); // the source is empty
    CHECK(distance(f.saved(), links) == 0);
    CHECK(milcgpu_gauge_copy(f.gauge, in_single) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_gauge_copy(f.gauge, other.gauge) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_gauge_copy(f.gauge, nullptr) == MILCGPU_BAD_ARGUMENT);
    REQUIRE(milcgpu_gauge_copy(f.gauge, second) == MILCGPU_OK);
    f.flow(0.1, 0.2);
    CHECK(distance(f.saved(), links) > 0.1);
    std::swap(f.gauge, second.of);
    CHECK(distance(f.saved(), links) == 0);
}

TEST_CASE("flow, smearing and observables on cut lattices have the bits of whole ones", "[measurements][ranks][cut]") {
    struct Flowed {
        std::vector<double> links[4];
        std::vector<double> numbers;
    };
    const auto made_on = [](const Cut &cut, Backend backend) {
        const Fields fields = fields_on(cut.whole, false);
        const auto whole =
            reference::links_to_milc<double>(fields.lattice, reference::random_gauge(fields.lattice, 61));
        Flowed made;
        for (auto &links : made.links)
            links.resize(whole.size());
        std::vector<std::vector<double>> numbers(cut.ranks());
        const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            struct Handle {
                milcgpu_gauge *gauge = nullptr;
                ~Handle() { milcgpu_gauge_destroy(gauge); }
            } handle;
            std::vector<double> own = Fields::part(whole, here.places, 72);
            const milcgpu_field field = field_of(own);
            demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &handle.gauge));
            demand(milcgpu_gauge_load(handle.gauge, &field, 0));
            struct Listener {
                std::vector<double> *numbers;
                int rank;
                static int take(void *self, const milcgpu_flow_point *p) {
                    const Listener &l = *static_cast<Listener *>(self);
                    const Observables o = list(p->of);
                    l.numbers->insert(l.numbers->end(), o.begin(), o.end());
                    l.numbers->push_back(p->step);
                    return l.rank == 1 && p->steps == 2; // one rank ends the flow
                }
            } listener{&numbers[here.rank()], here.rank()};
            const auto flow = [&](int action, int integrator, double stop, int slot, double xi = 1) {
                auto spec = filled(milcgpu_flow_defaults);
                spec.action = action, spec.integrator = integrator, spec.stop = stop, spec.step = 0.05;
                spec.tolerance = 1e-3, spec.signs = 1, spec.anisotropy = xi;
                demand(milcgpu_gauge_flow(handle.gauge, &spec, Listener::take, &listener, nullptr));
                demand(milcgpu_gauge_save(handle.gauge, &field));
                Fields::put(made.links[slot], own, here.places, 72);
            };
            flow(MILCGPU_FLOW_WILSON, MILCGPU_FLOW_LUSCHER, 0.1, 0);
            flow(MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_RKMK4, 0.1, 1);
            flow(MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_LUSCHER, 0.05, 2, 1.2);
            flow(MILCGPU_FLOW_WILSON, MILCGPU_FLOW_ADAPT_BS, 0.05, 2);
            const milcgpu_stout_spec stout{sizeof stout, 0.1, 2, 3, 1};
            demand(milcgpu_gauge_stout_smear(handle.gauge, &stout, nullptr));
            demand(milcgpu_gauge_save(handle.gauge, &field));
            Fields::put(made.links[3], own, here.places, 72);
        });
        REQUIRE(all_well(endings));
        made.numbers = numbers[0];
        for (const auto &each : numbers)
            CHECK(same_bits(each, numbers[0]));
        return made;
    };
    const Cut cuts[] = {
        {{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, {{10, 6, 4, 2}, {2, 2, 1, 1}, 4}, {{4, 6, 4, 4}, {1, 1, 1, 1}, 15}};
    for (const Backend backend : backends())
        for (const Cut &cut : cuts) {
            CAPTURE(text_of(cut), name(backend));
            const Flowed one = made_on({cut.whole, {1, 1, 1, 1}, 0}, backend), many = made_on(cut, backend);
            for (int slot = 0; slot < 4; ++slot) {
                CAPTURE(slot);
                CHECK(same_bits(one.links[slot], many.links[slot]));
            }
            CHECK(many.numbers.size() == one.numbers.size());
            CHECK(largest_difference(many.numbers, one.numbers) <= 3e-15);
        }
}

TEST_CASE("the flow of MILC's sample lattices gives the GFLOW lines of MILC's wilson_flow", "[measurements][samples]") {
    struct Run {
        const char *file;
        int action, integrator;
        double step, stop, tolerance, xi;
        int steps, rejected;
    };
    const Run runs[] = {
        {"lat.sample.l8888", MILCGPU_FLOW_WILSON, MILCGPU_FLOW_LUSCHER, 0.1, 0, 0.01, 1, 0, 0},
        {"lat.sample.l8888", MILCGPU_FLOW_WILSON, MILCGPU_FLOW_LUSCHER, 0.1, 0.25, 0.01, 1, 3, 0},
        {"lat.sample.l8888", MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_LUSCHER, 0.1, 0.25, 0.01, 1, 3, 0},
        {"lat.sample.l4444", MILCGPU_FLOW_WILSON, MILCGPU_FLOW_LUSCHER, 0.1, 0.25, 0.01, 1.5, 3, 0},
        {"lat.sample.l4444", MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_LUSCHER, 0.1, 0.25, 0.01, 1.5, 3, 0},
        {"lat.sample.l4444", MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_BBB, 0.1, 0.25, 0.01, 1, 3, 0},
        {"lat.sample.l4444", MILCGPU_FLOW_WILSON, MILCGPU_FLOW_RKMK8, 0.1, 0.25, 0.01, 1, 3, 0},
        {"lat.sample.l4444", MILCGPU_FLOW_SYMANZIK, MILCGPU_FLOW_ADAPT_BS, 0.2, 1, 1e-3, 1, 11, 4},
        {"lat.sample.l4444", MILCGPU_FLOW_WILSON, MILCGPU_FLOW_ADAPT_LUSCHER, 0.2, 1, 1e-3, 1, 12, 1},
    };
    // The last lines of MILC's develop branch (9782cb00) in double precision, exp_order 8.
    const Observables expected[] = {
        {1.000776107492127, 1.001492641893891, 1.782359230441908, 1.779002100573841, 1.152780566812792,
         1.148043127261345, 0.01874165944246184},
        {0.376950651908832, 0.387693219473316, 2.837474137594126, 2.833620043392485, 2.595525985580151,
         2.585178894948691, -0.08195337847429025},
        {0.2934877259159993, 0.3024549575405564, 2.901354071993679, 2.898442826926251, 2.721468746999763,
         2.713070677578019, -0.08627527484014941},
        {0.140439319320828, 0.1718799075561407, 2.940876835470717, 2.907263697251013, 2.845432095986363,
         2.786788705919296, -0.004653530209100913},
        {0.09136693512241448, 0.1168768771496185, 2.966846949593975, 2.949259352135815, 2.907123361845362,
         2.869172815647937, -0.003650073718474385},
        {0.1617822692102897, 0.1537355523444508, 2.930303181049074, 2.934812611156782, 2.819751495718816,
         2.830436304721143, -0.006573515467831381},
        {0.2418735469861027, 0.2333096453540705, 2.868038905158263, 2.875755900835896, 2.698083293581417,
         2.714001172182929, -0.01004249213469498},
        {0.003710190230557918, 0.003445208711867199, 2.998804682899398, 2.998932429677787, 2.996780367415097,
         2.997047633852388, -5.789538746137898e-06},
        {0.006186885403510296, 0.005710464270134967, 2.998182114944192, 2.99834176011076, 2.994344312963792,
         2.99480910620378, -1.968009966396232e-05},
    };
    for (size_t k = 0; k < std::size(runs); ++k) {
        const Run &run = runs[k];
        NEED_SAMPLE(run.file);
        examples::GaugeFile file = examples::read_gauge(sample_file(run.file));
        for (auto &u : file.links) // as MILC does after reading
            u = reference::reunitarize(u);
        for (const Backend backend : backends()) {
            Field<double> f(file.lattice, backend);
            f.load(file.links);
            f.spec.action = run.action, f.spec.integrator = run.integrator, f.spec.exp_order = 8;
            f.spec.tolerance = run.tolerance, f.spec.anisotropy = run.xi, f.spec.every = 1000;
            f.flow(run.step, run.stop);
            CAPTURE(run.file, run.action, run.integrator);
            CHECK(f.report.last.steps == run.steps);
            CHECK(f.report.last.rejected == run.rejected);
            CHECK(largest_difference(list(f.report.last.of), expected[k]) <= times_measured * 1.5e-14);
        }
    }
}

TEST_CASE("t0 and w0 of a known curve are exact", "[measurements]") {
    std::vector<examples::FlowValue> values;
    for (int k = 0; k <= 100; ++k) {
        const double t = 0.05 * k;
        values.push_back({t, t == 0 ? 0 : 0.1 / t}); // t^2 E = 0.1 t, t d/dt t^2 E = 0.1 t
    }
    const auto scales = examples::flow_scales(values);
    CHECK(scales.t0.at == Approx(3));
    CHECK(scales.w0.at == Approx(std::sqrt(3.0)));
    CHECK(!scales.t0.is_coarse());
    CHECK(!scales.w0.is_coarse());
    values.resize(50);
    for (const examples::Crossing &none : {examples::flow_scales(values).t0, examples::flow_scales(values).w0}) {
        CHECK(std::isnan(none.at));
        CHECK(!none.is_coarse());
    }
}

// t^2 E = c t^2 / (t + b) bends for t below b and is straight above, like the curve of a gauge field.
TEST_CASE("t0 and w0 are within a per cent of their values for any distance of measurements, or are marked as coarse",
          "[measurements]") {
    for (const double b : {0.1, 0.5, 2.0, 8.0})
        for (const double c : {0.05, 0.1, 0.3}) {
            CAPTURE(b, c);
            const double t0 = (0.3 + std::sqrt(0.09 + 1.2 * c * b)) / (2 * c);
            double low = 0, high = 100; // w0^2, where t d/dt (t^2 E) = c t^2 (t + 2 b) / (t + b)^2 = 0.3
            for (int k = 0; k < 60; ++k) {
                const double t = (low + high) / 2;
                (c * t * t * (t + 2 * b) < 0.3 * (t + b) * (t + b) ? low : high) = t;
            }
            int good = 0;
            for (double step = 0.01; step < 40; step *= 1.1) {
                std::vector<examples::FlowValue> values;
                for (int k = 0; k < 3 || values[k - 1].time < 2 * t0; ++k)
                    values.push_back({step * k, c / (step * k + b)});
                const auto scales = examples::flow_scales(values);
                CAPTURE(step, t0, scales.t0.at, scales.t0.error, low, scales.w0.at, scales.w0.error);
                CHECK((scales.t0.is_coarse() || std::abs(scales.t0.at / t0 - 1) < 0.01));
                CHECK((scales.w0.is_coarse() || std::abs(scales.w0.at / std::sqrt(low) - 1) < 0.01));
                if (step < 0.03 * std::min(low, t0)) {
                    CHECK(!scales.t0.is_coarse());
                    CHECK(!scales.w0.is_coarse());
                }
                good += !scales.w0.is_coarse();
            }
            CHECK(good > 30);
        }
}
