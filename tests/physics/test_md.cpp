// Molecular dynamics through the C interface: gauge field and momenta that stay on the device.
#include "milc_glue/api/milcgpu_md.h"
#include "milc_glue/links/gauge.h"
#include "tests/handles.h"
#include "tests/reference/forces.h"
#include "tests/reference/gauge_force.h"
#include "tests/support.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;
using reference::Gauge;

namespace {

const reference::Lattice lattice{{2, 4, 4, 2}};

Gauge links_with_phases() {
    Gauge u = reference::near_unit_gauge(lattice, 0.3, 11);
    reference::apply_phases(lattice, u);
    return u;
}

// A handle with links and zero momenta, and the arguments of a force.
template <class Real> struct Trajectory {
    Session<Real> session;
    milcgpu_gauge *gauge = nullptr;
    std::vector<Real> links, momenta;
    std::vector<std::vector<Real>> vectors;
    std::vector<milcgpu_field> x;
    std::vector<double> residues = {0.7, -0.2, 1.3};
    std::vector<milcgpu_force_set> sets = {{0, 1}, {-0.2, 2}};
    milcgpu_fatlink_spec how;
    milcgpu_force_spec spec{};
    milcgpu_force_report report = sized<milcgpu_force_report>();

    explicit Trajectory(Backend backend, bool hisq = true) : session(lattice, backend, 0, 0) {
        links = reference::links_to_milc<Real>(lattice, links_with_phases());
        momenta.assign(40 * size_t(lattice.volume()), 0);
        for (size_t t = 0; t < residues.size(); ++t)
            vectors.push_back(reference::vector_to_milc<Real>(lattice, random_fermion(lattice, 20 + t)));
        for (auto &v : vectors)
            x.push_back(Session<Real>::field(v));
        hisq ? milcgpu_hisq_defaults(&how, sizeof how) : milcgpu_asqtad_defaults(0.9, &how, sizeof how);
        spec = {sizeof spec, &how, 0.03, int(residues.size()), residues.data(), hisq ? int(sets.size()) : 0,
                sets.data(), 0};
        REQUIRE(milcgpu_gauge_create(session.context, Session<Real>::precision, &gauge) == MILCGPU_OK);
    }
    ~Trajectory() { milcgpu_gauge_destroy(gauge); }
    milcgpu_status load() {
        const milcgpu_field u = Session<Real>::field(links), h = Session<Real>::field(momenta);
        const milcgpu_status status = milcgpu_gauge_load(gauge, &u, 0);
        return status == MILCGPU_OK ? milcgpu_momenta_load(gauge, &h) : status;
    }
    milcgpu_status force() { return milcgpu_momenta_add_fermion_force(gauge, &spec, x.data(), &report); }
    std::vector<Real> saved() {
        std::vector<Real> result(momenta.size(), Real(-7));
        const milcgpu_field h = Session<Real>::field(result);
        REQUIRE(milcgpu_momenta_save(gauge, &h) == MILCGPU_OK);
        return result;
    }
};

// The asqtad force made of the reference's pieces, as MILC's reals.
std::vector<double> asqtad_reference(const std::vector<double> &residues, double eps) {
    const Gauge u = links_with_phases();
    const auto c = reference::asqtad_coefficients(0.9);
    std::vector<reference::Fermion> x;
    for (size_t t = 0; t < residues.size(); ++t)
        x.push_back(random_fermion(lattice, 20 + t));
    const Gauge by_fat = reference::outer_products(lattice, x, residues, 1),
                by_long = reference::outer_products(lattice, x, residues, 3);
    const Gauge fat = reference::path_derivative(lattice, u, reference::fat_paths, c, by_fat),
                lng = reference::path_derivative(lattice, u, reference::long_path, c, by_long);
    Gauge h(u.size());
    for (size_t k = 0; k < h.size(); ++k)
        h[k] = (2 * eps) * reference::traceless_antihermitian(u[k] * reference::adjoint(fat[k] + lng[k]));
    return reference::momenta_to_milc(lattice, h);
}

} // namespace

TEST_CASE("links and momenta come back bit for bit, and versions tell what changed", "[md][sanitize]") {
    for (const Backend backend : backends()) {
        Trajectory<double> t(backend);
        CHECK(milcgpu_gauge_version(t.gauge) == 0);
        CHECK(milcgpu_momenta_version(t.gauge) == 0);
        for (size_t k = 0; k < t.momenta.size(); ++k)
            t.momenta[k] = 0.01 * double(k % 97);
        REQUIRE(t.load() == MILCGPU_OK);
        CHECK(t.saved() == t.momenta);
        std::vector<double> back(t.links.size());
        const milcgpu_field to = Session<double>::field(back);
        REQUIRE(milcgpu_gauge_save(t.gauge, &to) == MILCGPU_OK);
        CHECK(back == t.links);
        const auto links = milcgpu_gauge_version(t.gauge), momenta = milcgpu_momenta_version(t.gauge);
        REQUIRE(t.force() == MILCGPU_OK);
        CHECK(milcgpu_gauge_version(t.gauge) == links);
        CHECK(milcgpu_momenta_version(t.gauge) > momenta);
        CHECK(t.report.flops > 0);
        CHECK(t.report.bytes_to_host < 1000);
        CHECK(t.report.bytes_to_device == 3 * t.vectors[0].size() * sizeof(double));
    }
}

TEST_CASE("the asqtad force through the C interface is the reference's, added to the momenta", "[md][sanitize]") {
    for (const Backend backend : backends()) {
        const auto check = [&](auto real) {
            using Real = decltype(real);
            Trajectory<Real> t(backend, false);
            REQUIRE(t.load() == MILCGPU_OK);
            REQUIRE(t.force() == MILCGPU_OK);
            REQUIRE(t.force() == MILCGPU_OK);
            const auto got = t.saved();
            const auto once = asqtad_reference(t.residues, t.spec.eps);
            double difference = 0, size = 0;
            for (size_t k = 0; k < got.size(); ++k) {
                difference += std::pow(got[k] - 2 * once[k], 2);
                size += std::pow(2 * once[k], 2);
            }
            CAPTURE(name(backend), sizeof(Real));
            CHECK(std::sqrt(difference / size) <= times_measured * (sizeof(Real) == 8 ? 6e-16 : 3e-7));
        };
        check(0.0);
        check(0.0f);
    }
}

TEST_CASE("molecular dynamics refuses bad input by name and changes nothing", "[md][sanitize]") {
    for (const Backend backend : backends()) {
        Trajectory<double> t(backend);
        CHECK(t.force() == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("milcgpu_gauge_load"));
        REQUIRE(t.load() == MILCGPU_OK);
        const auto before = t.saved();
        const auto refused = [&](const char *what, milcgpu_status status = MILCGPU_BAD_ARGUMENT) {
            CAPTURE(name(backend), what, milcgpu_last_error());
            const auto version = milcgpu_momenta_version(t.gauge);
            CHECK(t.force() == status);
            CHECK(last_error_says(what));
            CHECK(t.report.status == status);
            CHECK(has(t.report.message, what));
            CHECK(milcgpu_momenta_version(t.gauge) == version);
            CHECK(t.saved() == before);
        };
        const auto with = [&](auto &place, auto value, const char *what, milcgpu_status status = MILCGPU_BAD_ARGUMENT) {
            const auto good = place;
            place = value;
            refused(what, status);
            place = good;
        };
        with(t.residues[1], std::nan(""), "spec.residues[1] is nan");
        with(t.spec.eps, double(INFINITY), "eps");
        with(t.spec.n_terms, -1, "n_terms");
        with(t.sets[1].n_terms, 1, "n_terms is 3");
        with(t.sets[0].eps_naik, std::nan(""), "spec.sets[0].eps_naik is nan");
        with(t.how.special_unitary, 1, "special_unitary", MILCGPU_NOT_BUILT);
        with(t.how.signs, 1, "signs");
        with(t.how.struct_size, size_t(3), "struct_size");
        with(t.spec.residues, static_cast<const double *>(nullptr), "residues");
        with(t.vectors[2][7], std::nan(""), "NaN", MILCGPU_NAN_OR_INF);
        REQUIRE(t.force() == MILCGPU_OK);
        t.spec.n_terms = 0, t.spec.n_sets = 0;
        const auto after = t.saved();
        CHECK(t.force() == MILCGPU_OK);
        CHECK(t.saved() == after);
        // Links of another precision, links with NaN, links that are not unitary.
        std::vector<float> single(t.links.begin(), t.links.end());
        const milcgpu_field in_float = Session<float>::field(single), in_double = Session<double>::field(t.links);
        CHECK(milcgpu_gauge_load(t.gauge, &in_float, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("single precision"));
        CHECK(milcgpu_gauge_version(t.gauge) > 0);
        t.links[100] += 0.1;
        CHECK(milcgpu_gauge_load(t.gauge, &in_double, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("not unitary"));
        CHECK(milcgpu_gauge_version(t.gauge) == 0);
        CHECK(milcgpu_gauge_load(t.gauge, &in_double, -1) == MILCGPU_OK);
        t.links[100] = std::nan("");
        CHECK(milcgpu_gauge_load(t.gauge, &in_double, -1) == MILCGPU_NAN_OR_INF);
        t.momenta[3] = INFINITY;
        const milcgpu_field infinite = Session<double>::field(t.momenta);
        CHECK(milcgpu_momenta_load(t.gauge, &infinite) == MILCGPU_NAN_OR_INF);
        CHECK(last_error_says("momenta: number 3 of x y z t = 0 0 0 0, direction X, is "));
        CHECK(milcgpu_momenta_version(t.gauge) == 0);
        milcgpu_gauge *other = t.gauge;
        CHECK(milcgpu_gauge_create(t.session.context, MILCGPU_HALF, &other) == MILCGPU_BAD_ARGUMENT);
        CHECK(other == nullptr);
        CHECK(milcgpu_momenta_add_fermion_force(nullptr, &t.spec, t.x.data(), nullptr) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("links made from a gauge handle are those made from the host's gauge field", "[md][fatlinks][sanitize]") {
    for (const Backend backend : backends()) {
        Trajectory<double> t(backend);
        std::vector<std::vector<double>> made[2];
        for (auto &fields : made)
            fields.assign(3, std::vector<double>(t.links.size(), -7));
        auto report = sized<milcgpu_fatlink_report>();
        const auto make = [&](std::vector<std::vector<double>> &to, bool from_host, int reconstruct) {
            const milcgpu_field fat = Session<double>::field(to[0]), lng = Session<double>::field(to[1]),
                                w = Session<double>::field(to[2]), u = Session<double>::field(t.links);
            const milcgpu_fatlink_set set{-0.1, &fat, &lng, nullptr};
            const milcgpu_hisq_links hisq{nullptr, nullptr, &w};
            milcgpu_fatlink_spec how = t.how;
            how.reconstruct = reconstruct;
            return from_host ? milcgpu_links_make(t.session.context, &how, &u, &set, 1, &hisq, &report)
                             : milcgpu_gauge_make_links(t.gauge, &how, &set, 1, &hisq, &report);
        };
        CHECK(make(made[1], false, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("milcgpu_gauge_load"));
        REQUIRE(t.load() == MILCGPU_OK);
        CHECK(make(made[1], false, 12) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("reconstruct"));
        const milcgpu_fatlink_spec good = t.how;
        t.how.signs = 1;
        CHECK(make(made[1], false, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("signs"));
        t.how = good, t.how.precision = MILCGPU_SINGLE;
        CHECK(make(made[1], false, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(made[1][0] == std::vector<double>(t.links.size(), -7));
        t.how = good, t.how.precision = MILCGPU_DOUBLE, t.how.unitarity = 1e-300; // the call ignores it
        REQUIRE(make(made[1], false, 18) == MILCGPU_OK);
        for (auto &field : made[1])
            std::fill(field.begin(), field.end(), -7);
        t.how = good;
        REQUIRE(make(made[0], true, 0) == MILCGPU_OK);
        REQUIRE(make(made[1], false, 0) == MILCGPU_OK);
        CHECK(report.bytes_to_device == 0);
        CHECK(made[0] == made[1]);
    }
}

namespace {

// Two flavours with the action phi^dagger (4 m^2 - D D)^-1 phi on even sites, by leapfrog: everything but the vectors
// stays on the device.
struct Dynamics : Trajectory<double> {
    static constexpr double mass = 0.4, beta = 5.5;
    milcgpu_loops loops{1, -0.06, -0.03, 0};
    std::vector<double> phi, solution;
    double one = 1;

    Dynamics(Backend backend, bool hisq) : Trajectory<double>(backend, hisq) {
        reference::Rng rng(5);
        for (size_t k = 0; k < momenta.size() / 10; ++k) { // traceless, like MILC's
            for (int j = 0; j < 8; ++j)
                momenta[10 * k + j] = 0.7 * reference::gaussian(rng).real();
            momenta[10 * k + 8] = -momenta[10 * k + 6] - momenta[10 * k + 7];
        }
        phi = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 41));
        solution.assign(phi.size(), 0);
        spec = {sizeof spec, &how, 0, 1, &one, 0, nullptr, 0};
    }
    void must(milcgpu_status status) {
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    // Solves with the current links: solution = X on even sites, D X on odd ones.
    void solve() {
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &session.links};
        must(milcgpu_gauge_make_links(gauge, &how, &set, 1, nullptr, nullptr));
        milcgpu_solve_spec s = solve_spec(mass, 1e-13, MILCGPU_DOUBLE, 0);
        const milcgpu_field b = Session<double>::field(phi), x = Session<double>::field(solution);
        std::fill(solution.begin(), solution.end(), 0.0); // the solution must not depend on the one before
        must(milcgpu_staggered_solve(session.links, &s, &b, &x, nullptr));
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        must(milcgpu_staggered_dslash(session.links, &what, MILCGPU_ODD, &x, &x));
    }
    double energy() {
        double g, h, f = 0;
        must(milcgpu_gauge_action(gauge, &loops, &g));
        must(milcgpu_momenta_action(gauge, &h));
        solve();
        for (size_t k = 0; k < phi.size() / 2; ++k) // even sites come first
            f += phi[k] * solution[k];
        return beta / 3 * g + h + f;
    }
    void kick(double eps) {
        solve();
        const milcgpu_field x = Session<double>::field(solution);
        spec.eps = eps;
        must(milcgpu_momenta_add_fermion_force(gauge, &spec, &x, nullptr));
        must(milcgpu_momenta_add_gauge_force(gauge, &loops, beta, eps, nullptr));
    }
    void move(double eps) { must(milcgpu_gauge_update(gauge, eps, 8, nullptr)); }
    void run(int steps, double eps) {
        move(eps / 2);
        for (int k = 0; k < steps; ++k) {
            kick(eps);
            move(k < steps - 1 ? eps : eps / 2);
        }
    }
    std::vector<double> saved_links() {
        std::vector<double> result(links.size());
        const milcgpu_field to = Session<double>::field(result);
        must(milcgpu_gauge_save(gauge, &to));
        return result;
    }
};

} // namespace

TEST_CASE("a trajectory keeps its energy to second order in the step, and is reversible", "[md]") {
    for (const Backend backend : backends())
        for (const bool hisq : {false, true}) {
            CAPTURE(name(backend), hisq);
            Dynamics d(backend, hisq);
            std::vector<double> jumps;
            for (const int steps : {4, 8, 16, 32}) {
                REQUIRE(d.load() == MILCGPU_OK);
                const double before = d.energy();
                d.run(steps, 0.4 / steps);
                jumps.push_back(d.energy() - before);
            }
            CAPTURE(jumps[0], jumps[1], jumps[2], jumps[3]);
            for (int k = 1; k < 4; ++k) {
                const double slope = std::log2(jumps[k - 1] / jumps[k]);
                CHECK(std::abs(slope - 2) <= 0.1);
            }
            // Back: the links return to the start, up to the order of the exponential and the solver's residual.
            REQUIRE(d.load() == MILCGPU_OK);
            d.run(8, 0.05);
            d.momenta = d.saved();
            for (double &h : d.momenta)
                h = -h;
            const milcgpu_field turned = Session<double>::field(d.momenta);
            REQUIRE(milcgpu_momenta_load(d.gauge, &turned) == MILCGPU_OK);
            d.run(8, 0.05);
            const auto back = d.saved_links();
            double worst = 0;
            for (size_t k = 0; k < back.size(); ++k)
                worst = worse(worst, std::abs(back[k] - d.links[k]));
            CHECK(worst <= 1e-11);
            double space, time, re, im;
            REQUIRE(milcgpu_gauge_plaquettes(d.gauge, &space, &time) == MILCGPU_OK);
            REQUIRE(milcgpu_gauge_polyakov_loop(d.gauge, &re, &im) == MILCGPU_OK);
            CHECK(space < -1.0);                                                                 // phases in
            const int lengths[3] = {4, 4, 4}, planes[12] = {0, 1, 7, 6, 0, 2, 7, 5, 1, 2, 6, 5}; // in space
            double traces[6];
            REQUIRE(milcgpu_gauge_loop_traces(d.gauge, MILCGPU_SIGNS_IN, 3, lengths, planes, traces) == MILCGPU_OK);
            CHECK(std::abs(traces[0] + traces[2] + traces[4] + 3 * space) <= 5e-15);
            auto r = sized<milcgpu_reunitarize_report>();
            REQUIRE(milcgpu_gauge_reunitarize(d.gauge, 0, &r) == MILCGPU_OK);
            CHECK(r.failed == 0);
            CHECK(r.largest_deviation <= 3e-11);
        }
}

TEST_CASE("gauge force, updates and actions refuse bad input and change nothing", "[md][sanitize]") {
    for (const Backend backend : backends()) {
        Dynamics d(backend, true);
        milcgpu_gauge *const g = d.gauge;
        double value = -7, other = -7;
        auto unitary = sized<milcgpu_reunitarize_report>();
        CHECK(milcgpu_gauge_action(g, &d.loops, &value) == MILCGPU_BAD_ARGUMENT); // no links were loaded
        CHECK(milcgpu_momenta_action(g, &value) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_gauge_update(g, 0.1, 8, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_gauge_reunitarize(g, 0, &unitary) == MILCGPU_BAD_ARGUMENT);
        REQUIRE(d.load() == MILCGPU_OK);
        const auto links = d.saved_links(), momenta = d.saved();
        const auto refused = [&](milcgpu_status status, const char *what) {
            CAPTURE(name(backend), what, milcgpu_last_error());
            CHECK(status == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says(what));
            CHECK(d.saved_links() == links);
            CHECK(d.saved() == momenta);
        };
        const double nan = std::nan("");
        const milcgpu_loops bad{1, nan, 0, 0};
        refused(milcgpu_gauge_update(g, nan, 8, nullptr), "eps is nan");
        refused(milcgpu_gauge_update(g, 0.1, 0, nullptr), "order is 0");
        refused(milcgpu_gauge_update(g, 0.1, 17, nullptr), "order is 17");
        refused(milcgpu_momenta_add_gauge_force(g, &d.loops, INFINITY, 0.1, nullptr), "beta is inf");
        refused(milcgpu_momenta_add_gauge_force(g, &bad, 5, 0.1, nullptr), "loops.rectangle is nan");
        refused(milcgpu_momenta_add_gauge_force(g, nullptr, 5, 0.1, nullptr), "loops is NULL");
        refused(milcgpu_gauge_action(g, &bad, &value), "loops");
        refused(milcgpu_gauge_action(g, &d.loops, nullptr), "action is NULL");
        refused(milcgpu_momenta_action(g, nullptr), "action is NULL");
        refused(milcgpu_gauge_plaquettes(g, &value, nullptr), "time is NULL");
        refused(milcgpu_gauge_polyakov_loop(g, nullptr, &other), "real is NULL");
        const int length = 4, plaquette[4] = {0, 1, 7, 6}, open[4] = {0, 1, 7, 7}, other_step[4] = {0, 1, 8, 6};
        const int too_long = 129;
        double trace[2] = {-7, -7};
        refused(milcgpu_gauge_loop_traces(g, 0, 1, &length, open, trace),
                "loop 0 is not closed: it ends -1 sites along x");
        refused(milcgpu_gauge_loop_traces(g, 0, 1, &length, other_step, trace), "steps[2] is 8");
        refused(milcgpu_gauge_loop_traces(g, 0, 1, &too_long, plaquette, trace), "lengths[0] is 129");
        refused(milcgpu_gauge_loop_traces(g, 1, 1, &length, plaquette, trace), "signs");
        refused(milcgpu_gauge_loop_traces(g, 0, 0, &length, plaquette, trace), "n is 0");
        CHECK(trace[0] == -7);
        refused(milcgpu_gauge_reunitarize(g, -1, &unitary), "tolerance is -1");
        refused(milcgpu_gauge_reunitarize(g, 0, nullptr), "report is NULL");
        CHECK(value == -7);
        CHECK(other == -7);
        const auto version = milcgpu_gauge_version(g);
        REQUIRE(milcgpu_gauge_update(g, 0.1, 6, &d.report) == MILCGPU_OK);
        CHECK(milcgpu_gauge_version(g) > version);
        CHECK(d.report.flops == 64 * 4 * (216.0 + 189 + 17 * 6));       // 64 sites
        CHECK(d.report.bytes_to_device + d.report.bytes_to_host < 100); // checksums, no field
        // Momenta far too large: the links overflow, and the next call reports it.
        std::fill(d.momenta.begin(), d.momenta.end(), 1e200);
        const milcgpu_field huge = Session<double>::field(d.momenta);
        CHECK(milcgpu_momenta_load(g, &huge) == MILCGPU_NAN_OR_INF); // their action is infinite
        std::fill(d.momenta.begin(), d.momenta.end(), 1e150);
        REQUIRE(milcgpu_momenta_load(g, &huge) == MILCGPU_OK);
        REQUIRE(milcgpu_gauge_update(g, 1, 8, nullptr) == MILCGPU_OK);
        CHECK(milcgpu_gauge_action(g, &d.loops, &value) == MILCGPU_NAN_OR_INF);
        CHECK(value == -7);
        const milcgpu_field x = Session<double>::field(d.phi);
        d.spec.eps = 0.1;
        CHECK(milcgpu_momenta_add_fermion_force(g, &d.spec, &x, nullptr) == MILCGPU_NAN_OR_INF);
    }
}

TEST_CASE("the next call that uses the gauge field or the momenta notices a bit that flipped",
          "[faults][md][sanitize]") {
    for (const Backend backend : backends()) {
        Trajectory<double> d(backend);
        std::fill(d.momenta.begin(), d.momenta.end(), 0.25);
        std::vector<double> out(d.links.size());
        const milcgpu_field room = Session<double>::field(out);
        const milcgpu_loops loops{1, -0.04, 0.0005, 0};
        double value;
        milcgpu_reunitarize_report unitary{sizeof unitary, 0, 0, 0, 0};
        const std::vector<std::pair<bool, std::function<milcgpu_status()>>> calls = {
            {true, [&] { return milcgpu_gauge_update(d.gauge, 0.01, 8, nullptr); }},
            {false, [&] { return milcgpu_gauge_update(d.gauge, 0.01, 8, nullptr); }},
            {true, [&] { return milcgpu_momenta_add_gauge_force(d.gauge, &loops, 5, 0.01, nullptr); }},
            {false, [&] { return milcgpu_momenta_add_gauge_force(d.gauge, &loops, 5, 0.01, nullptr); }},
            {true, [&] { return d.force(); }},
            {false, [&] { return d.force(); }},
            {true, [&] { return milcgpu_gauge_reunitarize(d.gauge, 0, &unitary); }},
            {true, [&] { return milcgpu_gauge_action(d.gauge, &loops, &value); }},
            {false, [&] { return milcgpu_momenta_action(d.gauge, &value); }},
            {true, [&] { return milcgpu_gauge_save(d.gauge, &room); }},
            {false, [&] { return milcgpu_momenta_save(d.gauge, &room); }}};
        for (size_t k = 0; k < calls.size(); ++k) {
            const auto &[in_links, call] = calls[k];
            CAPTURE(name(backend), k, in_links);
            REQUIRE(d.load() == MILCGPU_OK);
            const milcgpu::LinkField &field = in_links ? d.gauge->u : d.gauge->h;
            // A mantissa bit of an odd site's link in t.
            unsigned char byte, *const place = field.block(1, 3) + 5;
            d.gauge->device().copy_to_host(&byte, place, 1);
            byte ^= 0x10;
            d.gauge->device().copy_to_device(place, &byte, 1);
            CHECK(call() == MILCGPU_CORRUPTED);
            CHECK(last_error_says(in_links ? "the gauge field" : "the momenta"));
            CHECK((in_links ? milcgpu_gauge_version(d.gauge) : milcgpu_momenta_version(d.gauge)) == 0);
            CHECK(call() == MILCGPU_BAD_ARGUMENT); // the handle is empty
        }
        REQUIRE(d.load() == MILCGPU_OK);
        for (const auto &[in_links, call] : calls)
            CHECK(call() == MILCGPU_OK);
    }
}

TEST_CASE("a HISQ force uses the V of which fermion links were made only if its own would be the same",
          "[forces][md][sanitize]") {
    const auto check = [](auto real, Backend backend) {
        using Real = decltype(real);
        Trajectory<Real> d(backend);
        milcgpu_fatlink_spec other = d.how;
        other.fat7.three_staple *= 1.1;
        milcgpu_links *made = nullptr;
        const auto make = [&](const milcgpu_fatlink_spec &how) {
            milcgpu_fatlink_set set{};
            set.links = &made;
            REQUIRE(milcgpu_gauge_make_links(d.gauge, &how, &set, 1, nullptr, nullptr) == MILCGPU_OK);
        };
        const auto update = [&] { REQUIRE(milcgpu_gauge_update(d.gauge, 0.1, 6, nullptr) == MILCGPU_OK); };
        struct Force {
            std::vector<Real> momenta;
            double flops;
        };
        const auto force_after = [&](const auto &steps) {
            REQUIRE(d.load() == MILCGPU_OK);
            REQUIRE(d.force() == MILCGPU_OK); // momenta that change links
            steps();
            REQUIRE(d.force() == MILCGPU_OK);
            return Force{d.saved(), d.report.flops};
        };
        const Force alone = force_after([] {}), with_v = force_after([&] { make(d.how); }),
                    with_other = force_after([&] { make(other); }), moved = force_after(update),
                    late = force_after([&] {
                        make(d.how);
                        update();
                    });
        CHECK(with_v.momenta == alone.momenta);
        CHECK(with_v.flops < alone.flops); // V was there
        CHECK(with_other.momenta == alone.momenta);
        CHECK(with_other.flops == alone.flops);
        CHECK(late.momenta == moved.momenta);
        CHECK_FALSE(late.momenta == alone.momenta);
        CHECK(force_after([&] {
                  make(d.how);
                  REQUIRE(d.force() == MILCGPU_OK);
              }).flops == alone.flops); // the force before this one has used V up
        // A bit of V flips between the two calls.
        REQUIRE(d.load() == MILCGPU_OK);
        REQUIRE(d.force() == MILCGPU_OK);
        const std::vector<Real> before = d.saved();
        make(d.how);
        const milcgpu_paths &fat7 = d.how.fat7;
        const milcgpu::PathCoefficients paths{fat7.one_link,    fat7.naik,         fat7.three_staple,
                                              fat7.five_staple, fat7.seven_staple, fat7.lepage};
        milcgpu::LinkField v = d.gauge->first_level.take(paths, d.gauge->links_version);
        REQUIRE(v.bytes() > 0);
        unsigned char byte, *const place = v.block(1, 3) + 5;
        d.gauge->device().copy_to_host(&byte, place, 1);
        byte ^= 0x10;
        d.gauge->device().copy_to_device(place, &byte, 1);
        d.gauge->first_level.keep(std::move(v), paths, d.gauge->links_version);
        CHECK(d.force() == MILCGPU_CORRUPTED);
        CHECK(last_error_says("HISQ's V"));
        CHECK(d.saved() == before);
        CHECK(d.force() == MILCGPU_OK);
        CHECK(d.saved() == alone.momenta);
        milcgpu_links_destroy(made);
    };
    for (const Backend backend : backends()) {
        check(double(), backend);
        check(float(), backend);
    }
}

// |a - b| / |b|. On the host D of several vectors has the bits of D of one; GPUs round it otherwise.
template <class Real> double error_of(const std::vector<Real> &a, const std::vector<Real> &b) {
    double difference = 0, size = 0;
    for (size_t k = 0; k < a.size(); ++k)
        difference += std::pow(double(a[k]) - b[k], 2), size += std::pow(double(b[k]), 2);
    return std::sqrt(difference / size);
}

TEST_CASE("solutions on the device are those on the host, and so are D of them and the force",
          "[forces][md][sanitize]") {
    const auto check = [](auto real, Backend backend) {
        using Real = decltype(real);
        // D of these solutions is small beside its terms: 1e-6 in single on the host, if it takes vectors together, too
        const double rounding = backend == Backend::host ? 0 : times_measured * (sizeof(Real) == 8 ? 2e-15 : 1e-6);
        Trajectory<Real> d(backend);
        const Gauge links = links_with_phases();
        std::vector<Real> phi = d.vectors[0];
        const milcgpu_field source = Session<Real>::field(phi);
        REQUIRE(d.session.load(links, links) == MILCGPU_OK);
        REQUIRE(d.load() == MILCGPU_OK);
        const int n = 3;
        const milcgpu_pole shifts[n] = {{0.04, 1e-5, 0}, {0.2, 1e-5, 0}, {0.9, 1e-5, 0}};
        auto solve = sized<milcgpu_multi_mass_spec>();
        solve.parity = MILCGPU_EVEN;
        solve.n_shifts = n;
        solve.shifts = shifts;
        solve.max_iterations = 500;
        solve.max_restarts = 5;
        solve.shared.precision = Session<Real>::precision;
        REQUIRE(milcgpu_staggered_multi_mass(d.session.links, &solve, &source, d.x.data(), nullptr) == MILCGPU_OK);
        milcgpu_storage full{};
        full.precision = Session<Real>::precision;
        for (const milcgpu_field &x : d.x)
            REQUIRE(milcgpu_staggered_dslash(d.session.links, &full, MILCGPU_ODD, &x, &x) == MILCGPU_OK);
        REQUIRE(d.force() == MILCGPU_OK);
        const std::vector<Real> expected = d.saved();

        const VectorsHandle v(d.session.context, Session<Real>::precision, n);
        REQUIRE(d.load() == MILCGPU_OK);
        CHECK(milcgpu_momenta_add_force_of_vectors(d.gauge, &d.spec, v, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 0 is empty on even"));
        CHECK(milcgpu_vectors_dslash(v, 1, d.session.links, MILCGPU_ODD) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_multi_mass_vectors(d.session.links, &solve, &source, v, 1, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vectors 1 to 3"));
        REQUIRE(milcgpu_staggered_multi_mass_vectors(d.session.links, &solve, &source, v, 0, nullptr) == MILCGPU_OK);
        CHECK(milcgpu_momenta_add_force_of_vectors(d.gauge, &d.spec, v, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 0 is empty on odd"));
        // The first call computes D of all solutions. A vector is empty until its own call, which must use links and
        // even sites as they are then.
        const auto dslash = [&](int i) { return milcgpu_vectors_dslash(v, i, d.session.links, MILCGPU_ODD); };
        std::vector<Real> unread(d.vectors[0].size());
        const milcgpu_field to_unread = Session<Real>::field(unread);
        REQUIRE(dslash(0) == MILCGPU_OK);
        CHECK(milcgpu_vectors_save(v, 1, MILCGPU_ODD, &to_unread) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 1 is empty on odd"));
        const milcgpu_field x0 = Session<Real>::field(d.vectors[0]), x1 = Session<Real>::field(d.vectors[1]);
        REQUIRE(milcgpu_vectors_load(v, 1, MILCGPU_EVEN, &x0) == MILCGPU_OK);
        REQUIRE(dslash(1) == MILCGPU_OK);
        REQUIRE(milcgpu_vectors_save(v, 1, MILCGPU_ODD, &to_unread) == MILCGPU_OK);
        const auto odd = [](const std::vector<Real> &of) {
            return std::vector<Real>(of.begin() + of.size() / 2, of.end());
        };
        CHECK(error_of(odd(unread), odd(d.vectors[0])) <= rounding);
        REQUIRE(milcgpu_vectors_load(v, 1, MILCGPU_EVEN, &x1) == MILCGPU_OK);
        const Gauge others = random_links(lattice, 17);
        REQUIRE(d.session.load(others, others) == MILCGPU_OK);
        REQUIRE(dslash(2) == MILCGPU_OK);
        REQUIRE(milcgpu_vectors_save(v, 2, MILCGPU_ODD, &to_unread) == MILCGPU_OK);
        CHECK(error_of(odd(unread), odd(d.vectors[2])) > 0.1);
        REQUIRE(d.session.load(links, links) == MILCGPU_OK);
        REQUIRE(milcgpu_staggered_multi_mass_vectors(d.session.links, &solve, &source, v, 0, nullptr) == MILCGPU_OK);
        for (int i = 0; i < n; ++i)
            REQUIRE(dslash(i) == MILCGPU_OK);
        auto report = sized<milcgpu_force_report>();
        REQUIRE(milcgpu_momenta_add_force_of_vectors(d.gauge, &d.spec, v, &report) == MILCGPU_OK);
        CHECK(report.bytes_to_device + report.bytes_to_host < 1000); // counters and checksums, no field
        CHECK(error_of(d.saved(), expected) <= rounding);
        for (int i = 0; i < n; ++i) {
            std::vector<Real> back(d.vectors[i].size(), Real(-7));
            const milcgpu_field to = Session<Real>::field(back);
            REQUIRE(milcgpu_vectors_save(v, i, MILCGPU_EVEN, &to) == MILCGPU_OK);
            REQUIRE(milcgpu_vectors_save(v, i, MILCGPU_ODD, &to) == MILCGPU_OK);
            CHECK(error_of(back, d.vectors[i]) <= rounding);
            REQUIRE(milcgpu_vectors_load(v, i, MILCGPU_EVEN, &to) == MILCGPU_OK);
        }
        CHECK(milcgpu_vectors_load(v, n, MILCGPU_EVEN, &source) == MILCGPU_BAD_ARGUMENT);

        // Sums of the solutions, on one parity.
        const double weights[n] = {0.7, -0.2, 1.3};
        std::vector<Real> sum(d.vectors[0].size(), Real(-7));
        const milcgpu_field to = Session<Real>::field(sum);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            REQUIRE(milcgpu_vectors_sum(v, 1, 2, weights, parity, &to) == MILCGPU_OK);
            const size_t half = sum.size() / 2, first = parity == MILCGPU_EVEN ? 0 : half;
            double worst = 0;
            for (size_t k = first; k < first + half; ++k)
                worst = tests::worse(worst,
                                     std::fabs(sum[k] - (weights[0] * d.vectors[1][k] + weights[1] * d.vectors[2][k])));
            CHECK(worst < (sizeof(Real) == 8 ? 1e-14 : 1e-5)); // of numbers up to 30
            if (parity == MILCGPU_EVEN)
                CHECK(std::count(sum.begin(), sum.end(), Real(-7)) == static_cast<long>(half));
        }
        const std::vector<Real> before = sum;
        CHECK(milcgpu_vectors_sum(v, 1, n, weights, MILCGPU_EVEN, &to) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_vectors_sum(v, 0, 0, weights, MILCGPU_EVEN, &to) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_vectors_sum(v, 0, n, nullptr, MILCGPU_EVEN, &to) == MILCGPU_BAD_ARGUMENT);
        const double infinite[n] = {1, INFINITY, 1};
        CHECK(milcgpu_vectors_sum(v, 0, n, infinite, MILCGPU_EVEN, &to) == MILCGPU_NAN_OR_INF);
        CHECK(sum == before);
    };
    for (const Backend backend : backends()) {
        check(double(), backend);
        check(float(), backend);
    }
}
