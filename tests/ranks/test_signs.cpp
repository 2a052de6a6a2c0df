// Gauge fields with and without staggered phases, as `signs` declares them: results that must not depend on them, and
// how the library judges them, alone and over all ranks. test_calls.cpp tries every call with links of the other kind.
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_gauge.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/links/gauge.h"
#include "tests/cut_support.h"
#include "tests/handles.h"
#include "tests/reference/wilson.h"
#include <cmath>
#include <complex>

using namespace tests;
using milcgpu::Backend;
using reference::Gauge;

namespace {

const reference::Lattice lattice{{2, 4, 4, 6}};

Gauge with_phases(Gauge links, const reference::Lattice &on = lattice) {
    reference::apply_phases(on, links);
    return links;
}

struct Handle {
    Session<double> session;
    milcgpu_gauge *gauge = nullptr;
    std::vector<double> host, x;
    Handle(Backend backend, const Gauge &links)
        : session(lattice, backend, 0, 0), x(6 * size_t(lattice.volume()), 0.5) {
        REQUIRE(milcgpu_gauge_create(session.context, Session<double>::precision, &gauge) == MILCGPU_OK);
        load(links);
    }
    ~Handle() { milcgpu_gauge_destroy(gauge); }
    void load(const Gauge &links) {
        host = reference::links_to_milc<double>(lattice, links);
        const milcgpu_field field = Session<double>::field(host);
        std::vector<double> zero(40 * size_t(lattice.volume()));
        const milcgpu_field momenta = Session<double>::field(zero);
        REQUIRE(milcgpu_gauge_load(gauge, &field, -1) == MILCGPU_OK);
        REQUIRE(milcgpu_momenta_load(gauge, &momenta) == MILCGPU_OK);
    }
    double action(int signs) {
        const milcgpu_loops loops{1, -0.3, 0.2, signs};
        double value = -7;
        REQUIRE(milcgpu_gauge_action(gauge, &loops, &value) == MILCGPU_OK);
        return value;
    }
};

// Flips one bit of the links on the device.
void flip(Handle &h) {
    milcgpu::Device &device = *h.session.context->device;
    uint64_t word;
    device.copy_to_host(&word, h.gauge->u.block(0, 1), sizeof word);
    word ^= uint64_t(1) << 30;
    device.copy_to_device(h.gauge->u.block(0, 1), &word, sizeof word);
}

} // namespace

TEST_CASE("gauge action, force and reunitarization do not depend on phases if the caller declares them",
          "[md][signs]") {
    for (const Backend backend : backends()) {
        const Gauge unit(4 * size_t(lattice.volume()), reference::identity()),
            bare = reference::random_gauge(lattice, 7);
        Handle in(backend, with_phases(unit)), out(backend, unit);
        CHECK(in.action(0) == 0);
        CHECK(out.action(1) == 0);
        in.load(with_phases(bare)), out.load(bare);
        CHECK(std::abs(in.action(0) - out.action(1)) < 1e-15 * std::abs(in.action(0)));
        const milcgpu_loops loops[2] = {{1, -0.3, 0.2, 0}, {1, -0.3, 0.2, 1}};
        std::vector<double> made[2];
        for (const int k : {0, 1}) {
            Handle &h = k == 0 ? in : out;
            REQUIRE(milcgpu_momenta_add_gauge_force(h.gauge, &loops[k], 6, 0.1, nullptr) == MILCGPU_OK);
            made[k].resize(40 * size_t(lattice.volume()));
            const milcgpu_field to = Session<double>::field(made[k]);
            REQUIRE(milcgpu_momenta_save(h.gauge, &to) == MILCGPU_OK);
            auto report = sized<milcgpu_reunitarize_report>();
            REQUIRE(milcgpu_gauge_update(h.gauge, 0.1, 8, nullptr) == MILCGPU_OK);
            REQUIRE(milcgpu_gauge_reunitarize(h.gauge, 0, &report) == MILCGPU_OK);
            CHECK(report.failed == 0);
        }
        CHECK(reference::relative_difference(made[1], made[0]) < 1e-15);
        // A copy keeps what the library found about the signs.
        REQUIRE(milcgpu_gauge_copy(out.gauge, out.gauge) == MILCGPU_OK);
        const GaugeHandle copy(out.session.context, MILCGPU_DOUBLE);
        REQUIRE(milcgpu_gauge_copy(out.gauge, copy) == MILCGPU_OK);
        double action;
        CHECK(milcgpu_gauge_action(copy, &loops[0], &action) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_gauge_action(copy, &loops[1], &action) == MILCGPU_OK);
        const milcgpu_loops neither{1, 0, 0, 7};
        CHECK(milcgpu_gauge_action(copy, &neither, &action) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("loops.signs is 7"));
    }
}

TEST_CASE("calls that load links refuse links of the other kind and leave the handles empty",
          "[links][mesons][wilson][signs]") {
    const Gauge bare = reference::random_gauge(lattice, 7);
    const std::string first = "direction Y. ";
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, 0, 0);
        std::vector<double> without = reference::links_to_milc<double>(lattice, bare),
                            phased = reference::links_to_milc<double>(lattice, with_phases(bare));
        const milcgpu_field out = Session<double>::field(without), in = Session<double>::field(phased);

        std::vector<double> fat(without.size(), -7);
        const milcgpu_field to = Session<double>::field(fat);
        milcgpu_fatlink_spec how;
        const auto links = [&](const milcgpu_field &from, int signs) {
            milcgpu_asqtad_defaults(0.9, &how, sizeof how);
            how.signs = signs;
            const milcgpu_fatlink_set set{0, &to, nullptr, nullptr};
            return milcgpu_links_make(session.context, &how, &from, &set, 1, nullptr, nullptr);
        };
        CHECK(links(out, 0) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("these have none"));
        CHECK(last_error_says(first + "spec.signs"));
        CHECK(links(in, 1) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("these carry them"));
        CHECK(fat == std::vector<double>(without.size(), -7));
        CHECK(links(out, 1) == MILCGPU_OK);
        CHECK(links(in, 0) == MILCGPU_OK);

        milcgpu_wilson *wilson = nullptr;
        REQUIRE(milcgpu_wilson_create(session.context, &wilson) == MILCGPU_OK);
        CHECK(milcgpu_wilson_load(wilson, &out) == MILCGPU_OK);
        CHECK(milcgpu_wilson_load(wilson, &in) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(first + "Take the phases out"));
        std::vector<double> source(24 * size_t(lattice.volume()), 1);
        const milcgpu_field spinor = Session<double>::field(source);
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        CHECK(milcgpu_wilson_dslash(wilson, &what, 1, MILCGPU_EVEN, &spinor, &spinor) == MILCGPU_BAD_ARGUMENT);
        const Gauge turned = reference::antiperiodic_in_time(lattice, bare);
        std::vector<double> boundary = reference::links_to_milc<double>(lattice, turned);
        const milcgpu_field with_boundary = Session<double>::field(boundary);
        CHECK(milcgpu_wilson_load(wilson, &with_boundary) == MILCGPU_OK);
        milcgpu_wilson_destroy(wilson);
        CHECK(links(with_boundary, 1) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("of 32 t links of the last time slice 32 "));

        const MesonLinksHandle mesons(session.context, MILCGPU_DOUBLE);
        const auto load = [&](const milcgpu_field &from, int signs, const std::array<int, 4> &x = {0, 0, 0, 0}) {
            const milcgpu_meson_links_spec spec{sizeof spec, 0, signs, {x[0], x[1], x[2], x[3]}};
            return milcgpu_meson_links_load(mesons, &spec, &from);
        };
        for (const std::array<int, 4> &origin : {std::array<int, 4>{0, 0, 0, 0}, std::array<int, 4>{1, 2, 3, 5}}) {
            Gauge moved = bare; // phases relative to the origin
            for (int site = 0; site < lattice.volume(); ++site) {
                int odd = lattice.coordinates(site)[3] + origin[3];
                for (int mu = 0; mu < 3; ++mu) {
                    if (odd % 2 != 0)
                        moved[4 * site + mu] = -1.0 * moved[4 * site + mu];
                    odd += lattice.coordinates(site)[mu] + origin[mu];
                }
            }
            std::vector<double> host = reference::links_to_milc<double>(lattice, moved);
            const milcgpu_field relative = Session<double>::field(host);
            CHECK(load(relative, MILCGPU_SIGNS_IN, origin) == MILCGPU_OK);
            CHECK(load(relative, MILCGPU_SIGNS_AS_THEY_ARE) == MILCGPU_OK);
            CHECK(load(out, MILCGPU_SIGNS_IN, origin) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("spec.signs"));
        }
        CHECK(load(out, MILCGPU_SIGNS_OUT) == MILCGPU_OK);
        CHECK(load(in, MILCGPU_SIGNS_OUT) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("these carry them"));
        CHECK(load(out, 3) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("spec.signs is 3"));
    }
}

TEST_CASE("links of a measurement or of Wilson fermions are the same from a gauge field on the device or the host",
          "[mesons][wilson][signs][faults]") {
    const Gauge bare = reference::random_gauge(lattice, 8);
    for (const Backend backend : backends()) {
        Handle h(backend, with_phases(bare)), other(backend, bare);
        const milcgpu_field phased = Session<double>::field(h.host);
        std::vector<double> boundary =
            reference::links_to_milc<double>(lattice, reference::antiperiodic_in_time(lattice, bare));
        const milcgpu_field without = Session<double>::field(boundary);
        const MesonLinksHandle mesons(h.session.context, MILCGPU_DOUBLE);
        const MesonLinksHandle single(h.session.context, MILCGPU_SINGLE);
        const WilsonHandle wilson(h.session.context);
        auto spec = filled(milcgpu_meson_links_defaults);
        spec.antiperiodic = 1, spec.signs = MILCGPU_SIGNS_IN;
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        const std::vector<double> source = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 9));
        // What a handle makes of fields.
        const auto shifted = [&] {
            std::vector<double> x = source, made;
            const milcgpu_field field = Session<double>::field(x);
            const milcgpu_quarks quarks{&field, nullptr, 0};
            const int origin[4] = {1, 0, 2, 3};
            for (int dir = 0; dir < 4; ++dir) {
                REQUIRE(milcgpu_quarks_shift(mesons, dir, MILCGPU_SYMMETRIC, origin, 1, &quarks, &quarks) ==
                        MILCGPU_OK);
                made.insert(made.end(), x.begin(), x.end());
            }
            return made;
        };
        const auto hopped = [&] {
            std::vector<double> psi(4 * source.size());
            for (size_t k = 0; k < psi.size(); ++k)
                psi[k] = source[k % source.size()];
            const milcgpu_field field = Session<double>::field(psi);
            REQUIRE(milcgpu_wilson_dslash(wilson, &what, 1, MILCGPU_EVEN_AND_ODD, &field, &field) == MILCGPU_OK);
            return psi;
        };
        REQUIRE(milcgpu_meson_links_load(mesons, &spec, &phased) == MILCGPU_OK);
        REQUIRE(milcgpu_wilson_load(wilson, &without) == MILCGPU_OK);
        const std::vector<double> from_host = shifted(), hops_from_host = hopped();
        CHECK(milcgpu_meson_links_load_gauge(mesons, &spec, h.gauge) == MILCGPU_OK);
        CHECK(milcgpu_wilson_load_gauge(wilson, 0, h.gauge) == MILCGPU_OK);
        CHECK(shifted() == from_host);
        CHECK(hopped() == hops_from_host);
        h.load(bare); // the links made before must stay as they are
        CHECK(shifted() == from_host);
        CHECK(hopped() == hops_from_host);
        // Signs, precision and context that do not fit.
        CHECK(milcgpu_wilson_load_gauge(wilson, 0, h.gauge) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("signs"));
        CHECK(milcgpu_wilson_load_gauge(wilson, 1, h.gauge) == MILCGPU_OK);
        CHECK(milcgpu_meson_links_load_gauge(mesons, &spec, h.gauge) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("spec.signs"));
        spec.signs = MILCGPU_SIGNS_OUT;
        CHECK(milcgpu_meson_links_load_gauge(mesons, &spec, h.gauge) == MILCGPU_OK);
        CHECK(shifted() == from_host);
        CHECK(milcgpu_meson_links_load_gauge(single, &spec, h.gauge) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("double"));
        CHECK(milcgpu_meson_links_load_gauge(mesons, &spec, other.gauge) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_wilson_load_gauge(wilson, 1, other.gauge) == MILCGPU_BAD_ARGUMENT);
        // A bit that flips in the gauge field, and an empty handle.
        const GaugeHandle empty(h.session.context, MILCGPU_DOUBLE);
        std::vector<double> psi(24 * size_t(lattice.volume()), 1);
        const milcgpu_field field = Session<double>::field(psi), x = Session<double>::field(h.x);
        const milcgpu_quarks quarks{&x, nullptr, 0};
        const int origin[4] = {};
        const auto both = [&](milcgpu_gauge *gauge, milcgpu_status status) {
            CHECK(milcgpu_meson_links_load_gauge(mesons, &spec, gauge) == status);
            CHECK(milcgpu_wilson_load_gauge(wilson, 1, gauge) == MILCGPU_BAD_ARGUMENT); // it is empty
            CHECK(last_error_says("empty"));
        };
        both(empty, MILCGPU_BAD_ARGUMENT);
        // Works as before.
        CHECK(milcgpu_quarks_shift(mesons, 0, MILCGPU_FORWARD, origin, 1, &quarks, &quarks) == MILCGPU_OK);
        flip(h);
        both(h.gauge, MILCGPU_CORRUPTED);
        CHECK(milcgpu_gauge_version(h.gauge) == 0);
        CHECK(milcgpu_quarks_shift(mesons, 0, MILCGPU_FORWARD, origin, 1, &quarks, &quarks) == MILCGPU_BAD_ARGUMENT);
        h.load(bare);
        flip(h);
        CHECK(milcgpu_wilson_load_gauge(wilson, 1, h.gauge) == MILCGPU_CORRUPTED);
        CHECK(milcgpu_gauge_version(h.gauge) == 0);
        CHECK(milcgpu_wilson_dslash(wilson, &what, 1, MILCGPU_EVEN, &field, &field) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("links of neither kind are taken as the call declares them; a few flipped signs do not change that",
          "[md][signs]") {
    const Gauge bare = reference::random_gauge(lattice, 7);
    const auto changed = [&](Gauge links, const std::function<std::complex<double>(int site, int mu)> &factor) {
        for (size_t k = 0; k < links.size(); ++k)
            links[k] = factor(int(k / 4), int(k % 4)) * links[k];
        return links;
    };
    const auto x_of = [](int site, int mu) { return lattice.coordinates(site)[mu]; };
    for (const Backend backend : backends()) {
        Handle h(backend, bare);
        const milcgpu_loops in{1, 0, 0, 0}, out{1, 0, 0, 1};
        double action;
        const auto takes = [&](const Gauge &links, milcgpu_status with, milcgpu_status without) {
            h.load(links);
            CHECK(milcgpu_gauge_action(h.gauge, &in, &action) == with);
            CHECK(milcgpu_gauge_action(h.gauge, &out, &action) == without);
        };
        const milcgpu_status ok = MILCGPU_OK, bad = MILCGPU_BAD_ARGUMENT;
        takes(changed(bare, [](int site, int mu) { return std::polar(1.0, 2.1 * site + mu); }), ok, ok); // U(1)
        takes(changed(with_phases(bare), [](int, int) { return std::polar(1.0, 0.3); }), ok, bad); // a twisted boundary
        takes(changed(bare, [](int, int) { return 0.4; }), bad, ok);                               // anisotropy
        takes(changed(bare, [](int, int) { return 0.0; }), ok, ok);                                // determinants of 0
        // An odd extent in time.
        takes(changed(with_phases(bare), [](int, int mu) { return mu < 3 ? -1.0 : 1.0; }), ok, ok);
        takes(changed(bare, [&](int site, int mu) { return x_of(site, 0) == 1 && mu == 0 ? -1.0 : 1.0; }), ok, ok);
        takes(changed(bare, [&](int site, int mu) { return x_of(site, 1) == 3 && mu == 1 ? -1.0 : 1.0; }), bad, ok);
        // Phases without the boundary sign: plaquettes do not show it, and gauge fixing removes it.
        const Gauge periodic = reference::antiperiodic_in_time(lattice, with_phases(bare));
        takes(periodic, ok, bad);
        auto spec = sized<milcgpu_gauge_fix_spec>();
        spec.direction = MILCGPU_LANDAU, spec.most_steps = 1, spec.tolerance = -1;
        CHECK(milcgpu_gauge_fix(h.gauge, &spec, nullptr) == bad);
        CHECK(last_error_says("of 32 t links of the last time slice 0 "));
        spec.direction = 3; // gauge fixing does not need the t links, but reunitarization does
        CHECK(milcgpu_gauge_fix(h.gauge, &spec, nullptr) == bad);
    }
}

TEST_CASE("the signs of links are judged over all ranks, and all ranks refuse", "[md][ranks][cut][signs]") {
    for (const Cut &cut : {Cut{{4, 6, 4, 6}, {1, 2, 1, 1}, 0}, Cut{{4, 4, 4, 6}, {1, 1, 1, 2}, 0},
                           Cut{{4, 4, 6, 6}, {1, 1, 2, 2}, 0}, Cut{{4, 4, 4, 6}, {1, 1, 1, 1}, 9}}) {
        const Fields fields = fields_on(cut.whole, false);
        const Gauge bare = reference::random_gauge(fields.lattice, 7);
        const std::string counts = milcgpu::format("Of %d links along x, y and z, %d have", 3 * fields.lattice.volume(),
                                                   3 * fields.lattice.volume() / 2);
        for (const Backend backend : backends())
            for (const bool phased : {true, false}) {
                CAPTURE(name(backend), text_of(cut), phased);
                const std::vector<double> whole =
                    reference::links_to_milc<double>(fields.lattice, phased ? with_phases(bare, fields.lattice) : bare);
                std::vector<int> refused(cut.ranks()), worded(cut.ranks());
                const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
                    std::vector<double> own = Fields::part(whole, here.places, 72);
                    const milcgpu_field field = field_of(own);
                    milcgpu_gauge *gauge = nullptr;
                    demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &gauge));
                    demand(milcgpu_gauge_load(gauge, &field, 0));
                    double action = 0;
                    const milcgpu_loops wrong{1, 0, 0, phased}, right{1, 0, 0, !phased};
                    int &refusals = refused[here.rank()], &words = worded[here.rank()];
                    const auto told_wrongly = [&](milcgpu_status status) {
                        refusals += status == MILCGPU_BAD_ARGUMENT;
                        words += last_error_says(counts);
                    };
                    told_wrongly(milcgpu_gauge_action(gauge, &wrong, &action));
                    words += action == 0;
                    const milcgpu_status status = milcgpu_gauge_action(gauge, &right, &action);
                    // Calls that load links themselves, and one that takes only links with phases.
                    std::vector<double> fat(own.size());
                    const milcgpu_field to = field_of(fat);
                    const milcgpu_fatlink_set set{0, &to, nullptr, nullptr};
                    auto how = filled(milcgpu_asqtad_defaults, 0.9);
                    const milcgpu_status made = milcgpu_gauge_make_links(gauge, &how, &set, 1, nullptr, nullptr);
                    if (phased)
                        demand(made);
                    else
                        told_wrongly(made);
                    for (const bool rightly : {false, true}) {
                        const int out = phased != rightly;
                        const auto call = [&](milcgpu_status of) { rightly ? demand(of) : told_wrongly(of); };
                        how.signs = out;
                        call(milcgpu_links_make(here.context, &how, &field, &set, 1, nullptr, nullptr));
                        milcgpu_meson_links *mesons = nullptr;
                        demand(milcgpu_meson_links_create(here.context, MILCGPU_DOUBLE, &mesons));
                        const milcgpu_meson_links_spec spec{sizeof spec, 1, out, {0, 0, 0, 0}};
                        const milcgpu_status loaded = milcgpu_meson_links_load(mesons, &spec, &field);
                        call(loaded);
                        milcgpu_meson_links_destroy(mesons);
                    }
                    milcgpu_wilson *wilson = nullptr;
                    demand(milcgpu_wilson_create(here.context, &wilson));
                    const milcgpu_status taken = milcgpu_wilson_load(wilson, &field);
                    if (phased)
                        told_wrongly(taken);
                    milcgpu_wilson_destroy(wilson);
                    if (!phased)
                        demand(taken);
                    // NaN on one rank: all ranks report it before any sign.
                    if (here.rank() == 0)
                        own[5] = NAN;
                    const milcgpu_status nan = milcgpu_gauge_load(gauge, &field, 0);
                    const uint64_t version = milcgpu_gauge_version(gauge);
                    milcgpu_gauge_destroy(gauge);
                    demand(status);
                    if (nan != MILCGPU_NAN_OR_INF || version != 0)
                        throw milcgpu::Error(milcgpu::Status::bad_argument, "NaN was taken");
                });
                CHECK(all_well(endings));
                // All refuse with a message, and the action stays as it was.
                CHECK(refused == std::vector<int>(cut.ranks(), 4));
                CHECK(worded == std::vector<int>(cut.ranks(), 5));
            }
    }
}
