// The plugin behind the use_gpu glue: what no run of a MILC-shaped program shows.
#include "tests/failing_new.h"
#include "tests/plugin_support.h"
#include <algorithm>

using namespace tests;

namespace {

// Plants a failing allocation in `call`, at the first, second, ..., until the call runs through. `call` returns 1 if it
// did the work; then `right` must hold. After every failure a second, unspoiled call must do the work right.
void survives(const char *what, const std::function<int()> &call, const std::function<bool()> &right) {
    long failures = 0;
    for (const bool all : {false, true})
        for (long n = 0;; n = n < 40 ? n + 1 : n + n / 8) {
            INFO(what << ", allocation " << n << (all ? " and all after it" : ""));
            tests::failed_news = 0;
            int answer = -1;
            const std::string text = said_by([&] {
                tests::all_fail = all;
                tests::news_left = n;
                answer = call();
                tests::news_left = -1;
            });
            INFO(text);
            CHECK((answer == 0 || answer == 1));
            CHECK((answer == 0 || right()));
            CHECK((answer == 1 || has(text, "milcgpu: "))); // a refusal logs its reason
            if (tests::failed_news == 0)
                break;
            ++failures;
            if (milcgpu_plugin_active() != 0) {
                said_by([&] { answer = call(); });
                CHECK(answer == 1);
                CHECK(right());
            }
        }
    CHECK(failures > 0);
}

} // namespace

TEST_CASE("a failed allocation lets no exception out of the plugin and does not affect the next call",
          "[plugin][faults]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}};
        Milc milc{reference::Lattice{{4, 4, 2, 2}}};
        survives(
            "start", [&] { return milc.start() > 0 ? 1 : 0; }, [] { return milcgpu_plugin_active() != 0; });
        said_by([&] { CHECK(milc.start() == 1); });
        const auto solved = [&] { return milc.residual(milc.x, 0.4) < 1.01e-8; };
        survives(
            "solve", [&] { return milc.solve(); }, solved);
        // Each time with new links, so that the call loads them.
        survives(
            "links and solve",
            [&] {
                milc.fat[0] += 1e-3;
                return milc.solve();
            },
            solved);
        Masses masses(milc, {0.3, 0.4}, 1e-8);
        survives(
            "several masses", [&] { return masses.solve(); }, [&] { return masses.worst_residual() < 1.01e-8; });
        std::vector<double> y = milc.source;
        survives(
            "D",
            [&] {
                return milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, Milc::field(milc.source),
                                             Milc::field(y));
            },
            [] { return true; });
        auto spec = filled(milcgpu_asqtad_defaults, 0.9);
        spec.unitarity = -1;
        std::vector<double> fat(milc.fat.size()), lng(milc.lng.size());
        void *fats = fat.data(), *lngs = lng.data();
        const double eps = 0;
        milcgpu_fatlink_report made{};
        survives(
            "links",
            [&] {
                return milcgpu_plugin_links({MILCGPU_LOAD_FN_LINKS, &spec, milc.fat.data(), 1, &eps, &fats, &lngs,
                                             nullptr, nullptr, nullptr, 0},
                                            &made);
            },
            [&] { return fat[0] != 0; });
        const milcgpu_plugin_solve_call call = milc.call();
        survives(
            "comparison", [&] { return milcgpu_plugin_compare_solve(&call, 1, 10, 1, Milc::field(milc.x), 10, 1); },
            [] { return true; });
    }
}

TEST_CASE("links for the device alone leave host fields unfilled, serve solves, and report their loss", "[plugin]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double"}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        const std::vector<double> gauge = milc.fat, empty(gauge.size(), -7);
        auto spec = filled(milcgpu_asqtad_defaults, 0.9);
        spec.unitarity = -1;
        const auto make = [&](int n, int alone) {
            const std::vector<double> eps(n);
            const std::vector<void *> fats(n, milc.fat.data()), lngs(n, milc.lng.data());
            milcgpu_fatlink_report made{};
            return milcgpu_plugin_links({MILCGPU_LOAD_FN_LINKS, &spec, gauge.data(), n, eps.data(), fats.data(),
                                         lngs.data(), nullptr, nullptr, nullptr, alone},
                                        &made);
        };
        const auto solution = [&] {
            std::fill(milc.x.begin(), milc.x.end(), 0.0);
            CHECK(milc.solve() == 1);
            return milc.x;
        };
        REQUIRE(make(1, 0) == 1);
        const std::vector<double> expected = solution();
        milc.fat = milc.lng = empty;
        REQUIRE(make(1, 1) == 1);
        CHECK((milc.fat == empty && milc.lng == empty));
        CHECK(solution() == expected);
        plugin().links->drop_all();
        int answer = -1;
        const std::string text = said_by([&] { answer = milc.solve(); });
        CHECK(answer == 0);
        CHECK(has(text, "are no longer there"));
        REQUIRE(make(1, 0) == 1);
        CHECK(milc.fat != empty);
        CHECK(solution() == expected);
    }
}

TEST_CASE("links of any number of eps for the device alone are sums of two sets, and are made again after a loss",
          "[plugin]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        const std::vector<double> gauge = milc.fat, empty(gauge.size(), -7);
        auto spec = filled(milcgpu_hisq_defaults);
        spec.unitarity = -1;
        constexpr int n = MILCGPU_MOST_LINK_SETS + 2;
        std::vector<double> eps;
        for (int k = 0; k < n; ++k)
            eps.push_back(-0.07 * k);
        const auto make = [&](std::vector<std::vector<double>> &links, int first, int count, int alone) {
            std::vector<void *> fats, lngs;
            for (int k = 0; k < count; ++k)
                fats.push_back(links[2 * k].data()), lngs.push_back(links[2 * k + 1].data());
            milcgpu_fatlink_report made{};
            return milcgpu_plugin_links({MILCGPU_HISQ_LINKS, &spec, gauge.data(), count, &eps[first], fats.data(),
                                         lngs.data(), nullptr, nullptr, nullptr, alone},
                                        &made);
        };
        const auto applied = [&](const std::vector<double> &fat, const std::vector<double> &lng) {
            std::vector<double> out(milc.source.size());
            CHECK(milcgpu_plugin_dslash(fat.data(), lng.data(), MILCGPU_EVEN, Session<double>::field(milc.source),
                                        Session<double>::field(out)) == 1);
            return out;
        };
        const auto differ = [](const std::vector<double> &a, const std::vector<double> &b) {
            double worst = 0;
            for (size_t k = 0; k < a.size(); ++k)
                worst = worse(worst, std::abs(a[k] - b[k]));
            return worst;
        };
        std::vector<std::vector<double>> one(2, empty), all(2 * n, empty), expected;
        for (int k = 0; k < n; ++k) {
            REQUIRE(make(one, k, 1, 0) == 1);
            expected.push_back(applied(one[0], one[1]));
        }
        REQUIRE(make(all, 0, n, 1) == 1);
        for (int round = 0; round < 2; ++round) // more sets than fit: they are made again
            for (int k = 0; k < n; ++k)
                CHECK(differ(applied(all[2 * k], all[2 * k + 1]), expected[k]) < 1e-14);
        for (const auto &field : all)
            CHECK(field == empty);
        CHECK(differ(expected[1], expected[2]) > 1e-3);

        // Sums of host fields, too; they stay until they are forgotten.
        std::vector<std::vector<double>> parts(4, empty), sum(2, empty);
        spec.derivative = 1;
        REQUIRE(make(parts, 0, 2, 0) == 1);
        REQUIRE(milcgpu_plugin_links_sum({sum[0].data(), sum[1].data()}, {parts[0].data(), parts[1].data()}, eps[3],
                                         {parts[2].data(), parts[3].data()}) == 1);
        CHECK(differ(applied(sum[0], sum[1]), expected[3]) < 1e-14);
        REQUIRE(milcgpu_plugin_links_sum({sum[0].data(), sum[1].data()}, {parts[0].data(), parts[1].data()}, eps[5],
                                         {parts[2].data(), parts[3].data()}) == 1);
        CHECK(differ(applied(sum[0], sum[1]), expected[5]) < 1e-14);
        CHECK(sum[0] == empty);
        for (double &x : parts[0])
            x *= 2;
        CHECK(differ(applied(sum[0], sum[1]), expected[5]) < 1e-14);
        milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, nullptr);
        CHECK(differ(applied(sum[0], sum[1]), expected[5]) > 1e-3); // of the host's fields

        // Other links, made for the device alone and destroyed, do not affect them, in use or not.
        REQUIRE(make(parts, 0, 2, 0) == 1);
        REQUIRE(make(one, 1, 1, 1) == 1);
        REQUIRE(milcgpu_plugin_links_sum({sum[0].data(), sum[1].data()}, {parts[0].data(), parts[1].data()}, eps[3],
                                         {parts[2].data(), parts[3].data()}) == 1);
        milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, one[0].data());
        CHECK(differ(applied(sum[0], sum[1]), expected[3]) < 1e-14);
        plugin().links->drop_all();
        CHECK(differ(applied(sum[0], sum[1]), expected[3]) < 1e-14); // made again
        // A later change of a part does not change the sum, whether or not the sum was used.
        REQUIRE(milcgpu_plugin_links_sum({sum[0].data(), sum[1].data()}, {parts[0].data(), parts[1].data()}, eps[4],
                                         {parts[2].data(), parts[3].data()}) == 1);
        for (double &x : parts[0])
            x *= 2;
        CHECK(differ(applied(sum[0], sum[1]), expected[4]) < 1e-14);
        // After its loss the sum cannot be made of the changed parts.
        plugin().links->drop_all();
        std::vector<double> out(milc.source.size());
        const std::string text = said_by([&] {
            CHECK(milcgpu_plugin_dslash(sum[0].data(), sum[1].data(), MILCGPU_EVEN, Session<double>::field(milc.source),
                                        Session<double>::field(out)) == 0);
        });
        CHECK(has(text, "its parts"));
        milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, nullptr);
    }
}

TEST_CASE("an edit that a call's look did not see is seen during the solve, and the solve is right", "[plugin]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double"}};
        // Long enough for threads to begin, which they do after a millisecond.
        const double mass = backend == Backend::cuda ? 0.05 : 0.2;
        Milc milc(reference::Lattice{{4, 4, 8, 8}});
        said_by([&] { REQUIRE(milc.start() == 1); });
        Plugin &p = plugin();
        // Samples, as on a large lattice.
        p.links = std::make_unique<LinkCache>(p.collective, p.context, p.sites, p.real(), false, p.deferred);
        p.watch_threads = 2;
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = mass;
        Masses masses(milc, {mass, 1.5 * mass}, 1e-8);
        REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
        reference::Rng rng(3);
        int during = 0, edits = 0;
        for (int k = 0; k < 9; ++k) {
            double &real = (k % 2 == 0 ? milc.fat : milc.lng)[rng() % milc.fat.size()];
            real += 0.1;
            ++edits;
            milc.x.assign(milc.x.size(), 0);
            const bool several = k >= 6;
            const std::string text = said_by([&] {
                if (several)
                    CHECK(masses.solve() == 1);
                else
                    CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1);
            });
            INFO(text);
            during += has(text, "loaded again, and the solve continues");
            CHECK((several ? masses.worst_residual() : milc.residual(milc.x, mass)) < 1.01e-8);
        }
        CHECK(during > 0);
        CHECK(during < edits); // the sample shows some
    }
}

TEST_CASE("MILC's tolerance is reached for any MILCGPU_PRECISION", "[plugin]") {
    for (const Backend backend : tests::backends())
        for (const char *precision : {"single", "single-half", "double-half", "double"}) {
            const Environment environment(
                {{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", precision}});
            Milc milc;
            said_by([&] { REQUIRE(milc.start() == 1); });
            Masses masses(milc, {0.2, 0.5}, 1e-11);
            const std::string text = said_by([&] { CHECK(masses.solve() == 1); });
            INFO(precision << "\n" << text << table_of({plugin().ledger}, 1));
            CHECK(masses.report.status == MILCGPU_OK);
            CHECK(masses.worst_residual() < 1.01e-11);
            milcgpu_plugin_solve_call call = milc.call();
            call.tolerance = 1e-11;
            said_by([&] { CHECK(milcgpu_plugin_solve(&call, &milc.report) == 1); });
            CHECK(milc.report.status == MILCGPU_OK);
            CHECK(milc.residual(milc.x, 0.4) < 1.01e-11);
        }
}

TEST_CASE("MILCGPU_TEST=look_at_all: a solve on a GPU samples links from 16384 sites on, or looks at all", "[plugin]") {
    for (const Backend backend : tests::backends())
        for (const auto &[value, extent, all] :
             {std::tuple("0", 8, true), {"0", 16, backend == Backend::host}, {"look_at_all", 16, true}}) {
            const Environment environment{{"MILCGPU_TEST", value}, {"MILCGPU_BACKEND", backend_name(backend)}};
            Milc milc(reference::Lattice{{8, 8, 16, extent}});
            said_by([&] { REQUIRE(milc.start() == 1); });
            LinkSet *set = nullptr;
            const auto look = [&] {
                return plugin().links->look(milc.fat.data(), milc.lng.data(), Mirror::Look::sample);
            };
            for (int k = 0; k < 2; ++k)
                REQUIRE(plugin().links->ready(milc.fat.data(), milc.lng.data(), set, look()) == MILCGPU_OK);
            CHECK(plugin().links->looks_at_all() == all);
            CHECK(set->mirror.rest_is_unseen() == !all);
        }
}

TEST_CASE("links that were corrupted on the device are loaded again, and the solve is right", "[plugin][faults]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_PRECISION", "double"}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        Masses masses(milc, {0.2, 0.4}, 1e-8);
        int seen = 0;
        for (int k = 0; k < 6; ++k) {
            const bool several = k % 2 != 0;
            said_by([&] { CHECK(milc.solve() == 1); }); // loads the links
            milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
            const std::string text = said_by([&] { CHECK((several ? masses.solve() : milc.solve()) == 1); });
            INFO(text);
            seen += has(text, ". The links are loaded again\n");
            CHECK((several ? masses.worst_residual() : milc.residual(milc.x, 0.4)) < 1.01e-8);
        }
        CHECK(seen == 6);
    }
}

TEST_CASE("plugin: glue of the same interface works, and another one is refused with a message", "[plugin]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_VERBOSE", "0"}};
    const std::string version = MILCGPU_VERSION, interface = version.substr(0, version.rfind('.'));
    for (const auto &[glue, served] : {std::pair(interface + ".99", 1), {"0.2.0", 0}, {interface + "1.0", 0}}) {
        Milc milc;
        milcgpu_milc described = milc.described();
        described.header_version = glue.c_str();
        int answer = -1;
        const std::string text = said_by([&] { answer = milcgpu_plugin_start(&described); });
        INFO(glue << "\n" << text);
        CHECK(answer == served);
        CHECK(has(text, glue + ", the library that is loaded is " + version) == (served == 0));
    }
}

TEST_CASE("plugin: reports end where the header of MILC's side ends them", "[plugin]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_VERBOSE", "0"}};
    Milc milc;
    milcgpu_milc described = milc.described();
    REQUIRE(milcgpu_plugin_start(&described) == 1);
    const size_t shorter = sizeof(milcgpu_solve_report) - alignof(milcgpu_solve_report); // one member fewer
    milcgpu::plugin().report_sizes.solve = shorter;
    const milcgpu_plugin_solve_call call = milc.call();
    milcgpu_plugin_solve_call calls[2] = {call, call};
    std::vector<double> x(milc.x.size(), 0);
    calls[1].solution = Milc::field(x);
    std::vector<unsigned char> reports(3 * sizeof(milcgpu_solve_report), 0xAB);
    auto *const first = reinterpret_cast<milcgpu_solve_report *>(reports.data());
    const auto is_untouched = [&](size_t from) {
        return std::all_of(reports.begin() + from, reports.end(), [](unsigned char byte) { return byte == 0xAB; });
    };
    REQUIRE(milcgpu_plugin_solve(&call, first) == 1);
    CHECK(first->struct_size == shorter);
    CHECK(first->true_residual < 1e-6);
    CHECK(is_untouched(shorter));
    REQUIRE(milcgpu_plugin_solve_sources(2, calls, first) == 1);
    const auto *const second = reinterpret_cast<const milcgpu_solve_report *>(reports.data() + shorter);
    CHECK(second->struct_size == shorter);
    CHECK(second->true_residual < 1e-6);
    CHECK(is_untouched(2 * shorter));

    described.report_sizes.flow = sizeof(milcgpu_flow_report) + 8;
    CHECK(has(said_by([&] { CHECK(milcgpu_plugin_start(&described) == 0); }), "again"));
}

TEST_CASE("plugin: adaptive flows of a MILC in single are computed in double", "[plugin][measurements]") {
    for (const Backend backend : tests::backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        INFO(backend_name(backend));
        const reference::Lattice lattice{{4, 4, 4, 4}};
        const size_t pitch = 75; // reals of a site, as in MILC's structure
        const auto links = reference::links_to_milc<float>(lattice, reference::near_unit_gauge(lattice, 0.4, 8));
        // {lengths of all steps, final links} with PRECISION 1 or 2, from the same links.
        const auto flow = [&](auto real, int precision, int integrator) {
            using Real = decltype(real);
            Milc milc(lattice);
            milcgpu_milc described = milc.described();
            described.precision = precision;
            REQUIRE(milcgpu_plugin_start(&described) == 1);
            std::vector<Real> sites(pitch * lattice.volume(), Real(7));
            for (size_t k = 0; k < links.size(); ++k)
                sites[pitch * (k / 72) + k % 72] = Real(links[k]);
            auto spec = filled(milcgpu_flow_defaults);
            spec.integrator = integrator;
            spec.stop = 0.4, spec.tolerance = 1e-3;
            spec.signs = spec.as_milc = 1;
            std::vector<double> made;
            const auto listen = [](void *user, const milcgpu_flow_point *point) {
                static_cast<std::vector<double> *>(user)->push_back(point->step);
                return 0;
            };
            milcgpu_flow_report report{};
            const milcgpu_field field = {sites.data(), precision == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE,
                                         pitch * sizeof(Real)};
            REQUIRE(milcgpu_plugin_gradient_flow(field, &spec, listen, &made, &report) == 1);
            std::vector<double> end;
            for (size_t k = 0; k < sites.size(); ++k) {
                if (k % pitch < 72)
                    end.push_back(double(sites[k]));
                else
                    CHECK(sites[k] == 7); // the rest of a site
            }
            return std::pair(made, end);
        };
        for (const int integrator : {MILCGPU_FLOW_ADAPT_LUSCHER, MILCGPU_FLOW_ADAPT_BS, MILCGPU_FLOW_LUSCHER}) {
            const auto in_single = flow(float(), 1, integrator), in_double = flow(double(), 2, integrator);
            const bool adaptive = integrator != MILCGPU_FLOW_LUSCHER;
            INFO("integrator " << integrator);
            REQUIRE(in_single.first.size() == in_double.first.size());
            CHECK(in_single.first.size() > 4);
            double differ = 0, rounded = 0;
            for (size_t k = 0; k < in_single.first.size(); ++k)
                differ = tests::worse(differ, std::abs(in_single.first[k] - in_double.first[k]));
            CHECK((!adaptive || differ == 0));
            for (size_t k = 0; k < in_double.second.size(); ++k)
                rounded = tests::worse(rounded, std::abs(in_single.second[k] - double(float(in_double.second[k]))));
            CHECK((rounded == 0) == adaptive); // each link was rounded once
            CHECK(rounded < 1e-6);
        }
    }
}

TEST_CASE("a solution that double precision cannot bring to its tolerance never passes for MILC's", "[plugin]") {
    for (const Backend backend : tests::backends())
        for (const char *precision : {"double", "double-half"}) {
            const Environment environment{
                {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}, {"MILCGPU_PRECISION", precision}};
            Milc milc;
            REQUIRE(milc.start() == 1);
            milcgpu_plugin_solve_call beyond = milc.call();
            beyond.tolerance = 1e-18;
            CHECK(has(said_by([&] { CHECK(milcgpu_plugin_solve(&beyond, &milc.report) == 0); }), "double precision "));
            std::vector<milcgpu_plugin_solve_call> two{milc.call(), beyond};
            std::vector<double> x(milc.x.size(), 0);
            two[1].solution = Milc::field(x), two[0].tolerance = 1e-18;
            std::vector<milcgpu_solve_report> reports(2);
            CHECK(milcgpu_plugin_solve_sources(2, two.data(), reports.data()) == 0);
            Masses masses(milc, {0.3, 0.4}, 1e-18);
            CHECK(has(said_by([&] { CHECK(masses.solve() == 0); }), "MILC's own routine does this call"));
            CHECK(milc.solve() == 1);
        }
}
