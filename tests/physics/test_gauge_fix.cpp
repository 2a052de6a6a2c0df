// Coulomb and Landau gauge, APE and HYP smearing, through the C interface, against tests/reference.
#include "milc_glue/api/milcgpu_gauge.h"
#include "tests/cut_support.h"
#include "tests/handles.h"
#include "tests/reference/gauge_fix.h"
#include <cmath>

using namespace tests;
using milcgpu::Backend;
using reference::Gauge;

namespace {

template <class Real> struct Handle {
    Session<Real> session;
    milcgpu_gauge *gauge = nullptr;
    bool phased;
    Handle(const reference::Lattice &lattice, Backend backend, Gauge links, bool with_phases)
        : session(lattice, backend, 0, 0), phased(with_phases) {
        REQUIRE(milcgpu_gauge_create(session.context, Session<Real>::precision, &gauge) == MILCGPU_OK);
        if (phased)
            reference::apply_phases(lattice, links);
        std::vector<Real> host = reference::links_to_milc<Real>(lattice, links);
        const milcgpu_field field = Session<Real>::field(host);
        REQUIRE(milcgpu_gauge_load(gauge, &field, 0) == MILCGPU_OK);
    }
    ~Handle() { milcgpu_gauge_destroy(gauge); }
    Gauge links() {
        std::vector<Real> host(72 * size_t(session.lattice.volume()));
        const milcgpu_field field = Session<Real>::field(host);
        REQUIRE(milcgpu_gauge_save(gauge, &field) == MILCGPU_OK);
        Gauge made = reference::links_from_milc<Real>(session.lattice, host);
        if (phased)
            reference::apply_phases(session.lattice, made);
        return made;
    }
};

milcgpu_gauge_fix_spec fix_spec(int direction, bool phased) {
    auto spec = sized<milcgpu_gauge_fix_spec>();
    spec.direction = direction;
    spec.signs = !phased;
    return spec;
}
milcgpu_hyp_spec hyp_spec(bool phased) { return {sizeof(milcgpu_hyp_spec), 0.75, 0.6, 0.3, 1, 4, 0, !phased}; }
milcgpu_ape_spec ape_spec(double weight, int times, bool phased) {
    auto spec = sized<milcgpu_ape_spec>();
    spec.weight = weight;
    spec.times = times;
    spec.space_only = 1;
    spec.signs = !phased;
    return spec;
}

} // namespace

TEST_CASE("gauge fixing takes the steps of the reference, in every gauge, with phases and without", "[measurements]") {
    for (const Backend backend : backends())
        for (const auto &n : {std::array<int, 4>{4, 6, 2, 4}, std::array<int, 4>{2, 4, 10, 6}}) {
            const reference::Lattice lattice{n};
            const Gauge start = reference::random_gauge(lattice, 5);
            for (const int direction : {0, 2, 3, int(MILCGPU_LANDAU)})
                for (const bool phased : {false, true}) {
                    CAPTURE(name(backend), direction, phased);
                    Gauge wanted = start;
                    std::vector<double> means;
                    milcgpu_gauge_fix_spec spec = fix_spec(direction, phased);
                    spec.most_steps = 3, spec.tolerance = -1;
                    spec.boost = direction == 0 ? 1.0 : 1.7;
                    for (int k = 0; k < spec.most_steps; ++k)
                        means.push_back(reference::gauge_fix_step(lattice, wanted, direction, spec.boost));
                    std::vector<std::pair<double, double>> seen;
                    spec.user = &seen;
                    spec.progress = [](void *user, int step, double mean, double change) {
                        auto &all = *static_cast<std::vector<std::pair<double, double>> *>(user);
                        CHECK(step == static_cast<int>(all.size()));
                        all.emplace_back(mean, change);
                    };
                    Handle<double> handle(lattice, backend, start, phased);
                    auto report = sized<milcgpu_gauge_fix_report>();
                    REQUIRE(milcgpu_gauge_fix(handle.gauge, &spec, &report) == MILCGPU_OK);
                    CHECK(reference::relative_difference(handle.links(), wanted) < times_measured * 4e-16);
                    REQUIRE(seen.size() == means.size());
                    for (size_t k = 0; k < means.size(); ++k) {
                        CHECK(std::fabs(seen[k].first - means[k]) < times_measured * 4e-16);
                        CHECK(std::fabs(seen[k].second - (k == 0 ? 0 : means[k] - means[k - 1])) <
                              times_measured * 5e-16);
                    }
                    CHECK(report.steps == 3);
                    CHECK(report.mean == seen.back().first);
                    CHECK(report.failed == 0);
                    CHECK(report.flops > 0);

                    Handle<float> single(lattice, backend, start, phased);
                    REQUIRE(milcgpu_gauge_fix(single.gauge, &(spec.progress = nullptr, spec), nullptr) == MILCGPU_OK);
                    CHECK(reference::relative_difference(single.links(), wanted) < times_measured * 2.4e-7);
                }
        }
}

TEST_CASE("gauge fixing reaches its condition and changes nothing but the gauge", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Gauge start = reference::transform_links(lattice, reference::random_transformation(lattice, 8),
                                                   reference::near_unit_gauge(lattice, 0.2, 7), 1);
    for (const Backend backend : backends())
        for (const int direction : {3, int(MILCGPU_LANDAU)}) {
            CAPTURE(name(backend), direction);
            Handle<double> handle(lattice, backend, start, true);
            milcgpu_gauge_fix_spec spec = fix_spec(direction, true);
            spec.tolerance = 1e-13, spec.most_steps = 2000;
            double last = -1;
            spec.user = &last;
            spec.progress = [](void *user, int, double mean, double) {
                double &before = *static_cast<double *>(user);
                CHECK(mean > before - 1e-14); // it rises
                before = mean;
            };
            auto report = sized<milcgpu_gauge_fix_report>();
            REQUIRE(milcgpu_gauge_fix(handle.gauge, &spec, &report) == MILCGPU_OK);
            CHECK(report.steps > 20); // enough for a reunitarization on the way
            CHECK(std::fabs(report.change) < spec.tolerance);
            const Gauge fixed = handle.links();
            CHECK(reference::divergence(lattice, start, direction) > 1);
            CHECK(reference::divergence(lattice, fixed, direction) < 1e-9);
            CHECK(std::fabs(reference::gauge_mean(lattice, fixed, direction) - report.mean) < 1e-12);
            CHECK(std::fabs(reference::plaquette(lattice, fixed) - reference::plaquette(lattice, start)) < 3e-15);
            // A second call finds the condition fulfilled.
            const double mean = report.mean;
            spec.progress = nullptr;
            REQUIRE(milcgpu_gauge_fix(handle.gauge, &spec, &report) == MILCGPU_OK);
            CHECK(report.steps == 1);
            CHECK(std::fabs(report.mean - mean) < 1e-12);
        }
}

TEST_CASE("gauge fixing ends at its tolerance or limit, and refuses bad input", "[measurements]") {
    const reference::Lattice lattice{{2, 4, 4, 2}};
    const Gauge start = reference::random_gauge(lattice, 3);
    Handle<double> handle(lattice, Backend::host, start, false);
    auto report = sized<milcgpu_gauge_fix_report>();
    const auto refused = [&](const milcgpu_gauge_fix_spec &spec, const char *what) {
        CHECK(milcgpu_gauge_fix(handle.gauge, &spec, &report) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(what));
    };
    milcgpu_gauge_fix_spec spec = fix_spec(4, false);
    refused(spec, "spec.direction is 4");
    spec = fix_spec(-1, false);
    refused(spec, "spec.direction is -1");
    spec = fix_spec(3, false), spec.boost = 0.5;
    refused(spec, "spec.boost is 0.5");
    spec.boost = NAN;
    refused(spec, "spec.boost is nan");
    spec = fix_spec(3, false), spec.most_steps = -2;
    refused(spec, "spec.most_steps is -2");
    spec = fix_spec(3, false), spec.reunitarize_every = -1;
    refused(spec, "spec.reunitarize_every is -1");
    spec = fix_spec(3, false), spec.tolerance = INFINITY;
    refused(spec, "spec.tolerance is inf");
    spec = fix_spec(3, false), spec.struct_size = 8;
    refused(spec, "milcgpu_gauge_fix_spec");
    CHECK(milcgpu_gauge_fix(handle.gauge, nullptr, &report) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_gauge_fix(nullptr, &spec, &report) == MILCGPU_BAD_ARGUMENT);
    CHECK(reference::relative_difference(handle.links(), start) < 1e-15);

    spec = fix_spec(3, false), spec.most_steps = 2, spec.tolerance = 1e-15;
    CHECK(milcgpu_gauge_fix(handle.gauge, &spec, &report) == MILCGPU_NOT_CONVERGED);
    CHECK(last_error_says("spec.most_steps = 2"));
    CHECK(report.status == MILCGPU_NOT_CONVERGED);
    CHECK(report.steps == 2);
    CHECK(reference::gauge_mean(lattice, handle.links(), 3) > reference::gauge_mean(lattice, start, 3) + 0.1);

    const GaugeHandle empty(handle.session.context, MILCGPU_DOUBLE);
    spec = fix_spec(3, false);
    CHECK(milcgpu_gauge_fix(empty, &spec, nullptr) == MILCGPU_BAD_ARGUMENT);
    CHECK(last_error_says("empty"));
}

TEST_CASE("APE smearing is the reference's, with phases and without", "[measurements]") {
    for (const Backend backend : backends())
        for (const auto &n : {std::array<int, 4>{4, 6, 2, 4}, std::array<int, 4>{2, 4, 10, 2}}) {
            const reference::Lattice lattice{n};
            const Gauge start = reference::near_unit_gauge(lattice, 0.6, 15);
            for (const int hits : {-1, 0, 4})
                for (const bool phased : {false, true}) {
                    milcgpu_ape_spec spec = ape_spec(0.3, 2, phased);
                    spec.most_hits = hits;
                    spec.space_only = hits != 4;
                    spec.tolerance = hits == 4 ? -1 : 0;
                    CAPTURE(name(backend), hits, phased);
                    Handle<double> handle(lattice, backend, start, phased);
                    Gauge wanted = start;
                    int failed = 0;
                    for (int k = 0; k < spec.times; ++k) {
                        int count = 0;
                        wanted = reference::ape_smear(lattice, wanted, spec.weight, spec.space_only,
                                                      hits < 0    ? 0
                                                      : hits == 0 ? 10
                                                                  : hits,
                                                      hits == 4 ? 0 : 1e-5, &count);
                        failed += count;
                    }
                    uint64_t not_converged = 99;
                    auto report = sized<milcgpu_force_report>();
                    REQUIRE(milcgpu_gauge_ape_smear(handle.gauge, &spec, &not_converged, &report) == MILCGPU_OK);
                    const Gauge made = handle.links();
                    CHECK(reference::relative_difference(made, wanted) < times_measured * 3e-16);
                    CHECK(not_converged == static_cast<uint64_t>(failed));
                    CHECK(report.flops > 0);
                    if (hits >= 0)
                        for (const auto &u : made)
                            CHECK(std::abs(reference::det(u) - 1.0) < 1e-13);
                    Handle<float> single(lattice, backend, start, phased);
                    REQUIRE(milcgpu_gauge_ape_smear(single.gauge, &spec, nullptr, nullptr) == MILCGPU_OK);
                    CHECK(reference::relative_difference(single.links(), wanted) < times_measured * 7e-8);
                }
        }
}

TEST_CASE("APE smearing is covariant, keeps unit links, raises plaquettes and refuses bad input", "[measurements]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    const Gauge start = reference::near_unit_gauge(lattice, 0.4, 21);
    const auto g = reference::random_transformation(lattice, 22);
    const auto smeared = [&](const Gauge &links, const milcgpu_ape_spec &spec) {
        Handle<double> handle(lattice, Backend::host, links, true);
        REQUIRE(milcgpu_gauge_ape_smear(handle.gauge, &spec, nullptr, nullptr) == MILCGPU_OK);
        return handle.links();
    };
    milcgpu_ape_spec spec = ape_spec(0.4, 1, true);
    spec.most_hits = 2000, spec.tolerance = -1; // project to the nearest matrix, which is gauge covariant
    const Gauge made = smeared(start, spec);
    CHECK(reference::relative_difference(smeared(reference::transform_links(lattice, g, start, 1), spec),
                                         reference::transform_links(lattice, g, made, 1)) < 2e-14);
    CHECK(reference::plaquette_parts(lattice, made).space_space >
          reference::plaquette_parts(lattice, start).space_space + 0.1);
    spec = ape_spec(0.4, 3, true);
    CHECK(reference::relative_difference(smeared(reference::unit_gauge(lattice), spec),
                                         reference::unit_gauge(lattice)) < 1e-15);
    spec.times = 0;
    CHECK(reference::relative_difference(smeared(start, spec), start) < 1e-15);

    Handle<double> handle(lattice, Backend::host, start, true);
    const auto refused = [&](const milcgpu_ape_spec &wrong, const char *what) {
        CHECK(milcgpu_gauge_ape_smear(handle.gauge, &wrong, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(what));
    };
    refused(ape_spec(-0.1, 1, true), "spec.weight is -0.1");
    refused(ape_spec(NAN, 1, true), "spec.weight is nan");
    refused(ape_spec(0.1, -1, true), "spec.times is -1");
    spec = ape_spec(0.1, 1, true), spec.tolerance = NAN;
    refused(spec, "spec.tolerance is nan");
    spec = ape_spec(0.1, 1, true), spec.most_hits = 10001;
    refused(spec, "spec.most_hits is 10001");
    CHECK(milcgpu_gauge_ape_smear(handle.gauge, nullptr, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
    CHECK(reference::relative_difference(handle.links(), start) < 1e-15);

    // The sum of one link with its four staples in space is singular.
    Gauge odd_one = reference::unit_gauge(lattice);
    odd_one[0].e[0][0] = odd_one[0].e[1][1] = -1;
    Handle<double> singular(lattice, Backend::host, odd_one, true);
    spec = ape_spec(0.25, 1, true);
    CHECK(milcgpu_gauge_ape_smear(singular.gauge, &spec, nullptr, nullptr) == MILCGPU_NAN_OR_INF);
    CHECK(reference::relative_difference(singular.links(), odd_one) < 1e-15);
}

TEST_CASE("HYP smearing is the reference's, with phases and without", "[measurements][sanitize]") {
    for (const Backend backend : backends())
        for (const auto &n : {std::array<int, 4>{4, 6, 2, 4}, std::array<int, 4>{2, 2, 10, 4}}) {
            const reference::Lattice lattice{n};
            const Gauge start = reference::near_unit_gauge(lattice, 0.6, 16);
            for (const int directions : {4, 3})
                for (const bool phased : {false, true}) {
                    milcgpu_hyp_spec spec = hyp_spec(phased);
                    spec.directions = directions, spec.hits = phased ? 0 : 4, spec.times = directions == 3 ? 2 : 1;
                    CAPTURE(name(backend), directions, phased);
                    Gauge wanted = start;
                    for (int k = 0; k < spec.times; ++k)
                        wanted = reference::hyp_smear(lattice, wanted, {spec.alpha1, spec.alpha2, spec.alpha3},
                                                      directions == 3, phased ? 9 : 4);
                    Handle<double> handle(lattice, backend, start, phased);
                    auto report = sized<milcgpu_force_report>();
                    REQUIRE(milcgpu_gauge_hyp_smear(handle.gauge, &spec, &report) == MILCGPU_OK);
                    CHECK(reference::relative_difference(handle.links(), wanted) < times_measured * 6e-16);
                    CHECK(report.flops > 0);
                    Handle<float> single(lattice, backend, start, phased);
                    REQUIRE(milcgpu_gauge_hyp_smear(single.gauge, &spec, nullptr) == MILCGPU_OK);
                    CHECK(reference::relative_difference(single.links(), wanted) < times_measured * 1.3e-7);
                }
        }
}

TEST_CASE("HYP smearing is covariant, stays in its hypercube, keeps unit links and refuses bad input",
          "[measurements]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    Gauge start = reference::near_unit_gauge(lattice, 0.4, 23);
    const auto g = reference::random_transformation(lattice, 24);
    const auto smeared = [&](const Gauge &links, const milcgpu_hyp_spec &spec) {
        Handle<double> handle(lattice, Backend::host, links, true);
        REQUIRE(milcgpu_gauge_hyp_smear(handle.gauge, &spec, nullptr) == MILCGPU_OK);
        return handle.links();
    };
    milcgpu_hyp_spec spec = hyp_spec(true);
    spec.hits = 500; // project to the nearest matrix, which is gauge covariant
    const Gauge made = smeared(start, spec);
    CHECK(reference::relative_difference(smeared(reference::transform_links(lattice, g, start, 1), spec),
                                         reference::transform_links(lattice, g, made, 1)) < 2e-14);
    CHECK(reference::plaquette_parts(lattice, made).space_space >
          reference::plaquette_parts(lattice, start).space_space + 0.1);
    spec.hits = 0;
    CHECK(reference::relative_difference(smeared(reference::unit_gauge(lattice), spec),
                                         reference::unit_gauge(lattice)) < 1e-15);
    // The link at site 0 along x changes the links whose hypercubes contain it, and no others.
    const Gauge before = smeared(start, spec);
    start[0] = reference::near_unit_gauge(lattice, 0.4, 25)[0];
    const Gauge after = smeared(start, spec);
    for (int site = 0; site < lattice.volume(); ++site)
        for (int mu = 0; mu < 4; ++mu) {
            const auto x = lattice.coordinates(site);
            bool near = true;
            for (int nu = 0; nu < 4; ++nu) {
                const int n = lattice.n[nu], at = x[nu] > n / 2 ? x[nu] - n : x[nu]; // where the link begins
                const int first = nu == mu && mu != 0 ? -1 : nu == mu || nu == 0 ? 0 : -1, last = nu == mu ? 0 : 1;
                near = near && at >= first && at <= last;
            }
            const bool same = reference::norm2(after[4 * site + mu] - before[4 * site + mu]) < 1e-28;
            CAPTURE(site, mu);
            CHECK(same == !near);
        }

    Handle<double> handle(lattice, Backend::host, start, true);
    const auto refused = [&](const milcgpu_hyp_spec &wrong, const char *what) {
        CHECK(milcgpu_gauge_hyp_smear(handle.gauge, &wrong, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(what));
    };
    for (double *alpha : {&spec.alpha1, &spec.alpha2, &spec.alpha3}) {
        const double good = *alpha;
        *alpha = NAN;
        refused(spec, "nan");
        *alpha = good;
    }
    spec.directions = 2;
    refused(spec, "spec.directions is 2");
    spec = hyp_spec(true), spec.times = -1;
    refused(spec, "spec.times is -1");
    spec = hyp_spec(true), spec.hits = 10001;
    refused(spec, "spec.hits is 10001");
    spec = hyp_spec(true), spec.struct_size = 8;
    refused(spec, "struct_size");
    CHECK(milcgpu_gauge_hyp_smear(handle.gauge, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
    spec = hyp_spec(true), spec.alpha3 = 1.5;
    refused(spec, "spec.alpha3 is 1.5");
    spec = hyp_spec(true), spec.alpha1 = -0.1;
    refused(spec, "spec.alpha1 is -0.1");
    // Links whose products are infinite.
    Gauge large = start;
    for (auto &link : large)
        link = 1e120 * link;
    reference::apply_phases(lattice, large);
    Handle<double> far(lattice, Backend::host, start, true);
    std::vector<double> host = reference::links_to_milc<double>(lattice, large);
    const milcgpu_field field = Session<double>::field(host);
    REQUIRE(milcgpu_gauge_load(far.gauge, &field, -1) == MILCGPU_OK);
    spec = hyp_spec(true);
    CHECK(milcgpu_gauge_hyp_smear(far.gauge, &spec, nullptr) == MILCGPU_NAN_OR_INF);
    std::vector<double> kept(host.size());
    const milcgpu_field to = Session<double>::field(kept);
    REQUIRE(milcgpu_gauge_save(far.gauge, &to) == MILCGPU_OK);
    CHECK(kept == host);
    spec = hyp_spec(true), spec.times = 0;
    REQUIRE(milcgpu_gauge_hyp_smear(handle.gauge, &spec, nullptr) == MILCGPU_OK);
    CHECK(reference::relative_difference(handle.links(), start) < 1e-15);
}

TEST_CASE("gauge fixing, APE and HYP smearing over ranks and on emulated cuts give the links of one rank",
          "[measurements][ranks][cut]") {
    const Extents whole{4, 4, 6, 6};
    const Fields fields = fields_on(whole, false);
    Gauge start = reference::near_unit_gauge(fields.lattice, 0.5, 31);
    reference::apply_phases(fields.lattice, start);
    const std::vector<double> links = reference::links_to_milc<double>(fields.lattice, start);
    struct Result {
        std::vector<double> fixed, smeared, hyp;
        double mean = 0;
    };
    const auto work = [&](const Cut &cut, Backend backend) {
        Result result;
        result.fixed.resize(links.size()), result.smeared.resize(links.size());
        result.hyp.resize(links.size());
        const auto endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            milcgpu_gauge *gauge = nullptr;
            demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &gauge));
            const auto changed = [&](const auto &change, std::vector<double> &to) {
                std::vector<double> part = Fields::part(links, here.places, 72);
                const milcgpu_field field = field_of(part);
                demand(milcgpu_gauge_load(gauge, &field, 0));
                demand(change());
                demand(milcgpu_gauge_save(gauge, &field));
                Fields::put(to, part, here.places, 72);
            };
            milcgpu_gauge_fix_spec spec = fix_spec(3, true);
            spec.most_steps = 3, spec.tolerance = -1;
            auto report = sized<milcgpu_gauge_fix_report>();
            const milcgpu_ape_spec ape = ape_spec(0.3, 2, true);
            changed([&] { return milcgpu_gauge_ape_smear(gauge, &ape, nullptr, nullptr); }, result.smeared);
            const milcgpu_hyp_spec hyp = hyp_spec(true);
            changed([&] { return milcgpu_gauge_hyp_smear(gauge, &hyp, nullptr); }, result.hyp);
            changed([&] { return milcgpu_gauge_fix(gauge, &spec, &report); }, result.fixed);
            if (here.rank() == 0)
                result.mean = report.mean;
            milcgpu_gauge_destroy(gauge);
        });
        CHECK(all_well(endings));
        return result;
    };
    for (const Backend backend : backends()) {
        const Result one = work({whole, {1, 1, 1, 1}, 0}, backend);
        for (const Cut &cut :
             {Cut{whole, {1, 1, 1, 2}, 0}, Cut{whole, {1, 1, 2, 1}, 8}, Cut{whole, {1, 1, 1, 1}, 15}}) {
            CAPTURE(text_of(cut), name(backend));
            const Result many = work(cut, backend);
            CHECK(same_bits(many.fixed, one.fixed));
            CHECK(same_bits(many.smeared, one.smeared));
            CHECK(same_bits(many.hyp, one.hyp));
            CHECK(std::fabs(many.mean - one.mean) <= 1e-14);
        }
    }
}
