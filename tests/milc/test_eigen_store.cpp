// Eigenvectors that the plugin keeps for each content of links (milc_glue/residency/eigen_store.h), if memory is short
// and if they do not pay.
#include "milc_glue/api/context.h"
#include "tests/plugin_support.h"
#include "tests/run_support.h"

using namespace tests;

namespace {

milcgpu_plugin_eigenvectors some(int count) {
    milcgpu_plugin_eigenvectors wanted{};
    wanted.count = count;
    wanted.precision = MILCGPU_HALF;
    return wanted;
}

struct Deflated {
    Milc &milc;
    milcgpu_plugin_eigenvectors wanted = some(48);
    std::string said;
    int deflations = 0, iterations = 0;

    explicit Deflated(Milc &of) : milc(of) {}
    // wants: make eigenvectors if there are none; else use them only if there are some. Returns true if a solve used
    // some.
    bool solve(bool wants, int parity = MILCGPU_EVEN) {
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.02;
        call.parity = parity;
        call.max_iterations = 5000;
        call.deflate = MILCGPU_DEFLATED_BY_KEPT;
        call.eigenvectors = wants ? &wanted : nullptr;
        milc.x.assign(milc.x.size(), 0);
        int done = 0;
        said = said_by([&] { done = milcgpu_plugin_solve(&call, &milc.report); });
        deflations = milc.report.deflations, iterations = milc.report.iterations;
        return done != 0 && milc.report.status == MILCGPU_OK && milc.report.true_residual < call.tolerance;
    }
    bool says(const char *words) const { return has(said, words); }
};

} // namespace

TEST_CASE("kept eigenvectors are dropped for those of other links if memory is short", "[plugin][eigen]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}};
        Milc milc;
        std::string started = said_by([&] { REQUIRE(milc.start() == 1); });
        Device &device = *plugin().context->device;
        Deflated of(milc);
        CAPTURE(backend_name(backend));

        CHECK(of.solve(false));
        CHECK(of.deflations == 0);
        const int plain = of.iterations;
        CHECK(of.solve(true));
        CAPTURE(of.said, plain, of.iterations);
        CHECK(of.says("48 eigenvectors"));
        CHECK(of.deflations > 1);
        CHECK(of.iterations < plain);
        CHECK(of.solve(false)); // uses the kept ones
        CHECK(of.deflations > 1);

        // Other links: the vectors of the first ones take the memory.
        const std::vector<double> first = milc.fat;
        const double edit = milc.fat[0];
        milc.fat[0] = edit + 0.1;
        device.set_memory_limit(device.used_bytes() + device.used_bytes() / 8);
        CHECK(of.solve(true));
        CAPTURE(of.said);
        CHECK(of.says("without eigenvectors"));
        device.set_memory_limit(0);
        CHECK(of.solve(true));
        milc.fat = first;
        CHECK(of.solve(false));
        CHECK(of.deflations == 0);
        milcgpu_plugin_eigenvectors_drop();

        // Not even the vectors of these links fit: the solve goes on without them and does not retry.
        device.set_memory_limit(device.used_bytes() + 4096);
        CHECK(of.solve(true));
        CHECK(of.says("ks_eigensolve"));
        CHECK(of.deflations == 0);
        device.set_memory_limit(0);
        CHECK(of.solve(true));
        CHECK_FALSE(of.says("ks_eigensolve"));
        CHECK(of.deflations == 0);
        milcgpu_plugin_eigenvectors_drop();
        CHECK(of.solve(true));
        CHECK(of.deflations > 1);
    }
}

TEST_CASE("a file of eigenvectors is for no links that were once named without it, however many those are",
          "[plugin][eigen]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_VERBOSE", "1"}};
    const Folder folder;
    const std::string file = (folder.path / "vectors").string();
    Milc milc(reference::Lattice{{2, 2, 2, 4}});
    said_by([&] { REQUIRE(milc.start() == 1); });
    const double edit = milc.fat[0];
    const auto solve = [&](int links, int saved) {
        milc.fat[0] = edit + 0.01 * links;
        milcgpu_plugin_eigenvectors wanted = some(saved != 0 ? 2 : 0);
        wanted.write_to = file.c_str();
        wanted.saved = saved;
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.5;
        call.deflate = MILCGPU_DEFLATED_BY_KEPT;
        call.eigenvectors = &wanted;
        milc.x.assign(milc.x.size(), 0);
        said_by([&] { REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1); });
        return std::filesystem::exists(file);
    };
    constexpr int twisted = 70;
    for (int links = 1; links <= twisted; ++links)
        solve(links, 0);
    CHECK_FALSE(solve(1, 1));
    CHECK_FALSE(solve(twisted, 1));
    CHECK(solve(0, 1));
}

TEST_CASE("eigenvectors on the other parity belong to the links that MILC named, whatever happens to the links",
          "[plugin][eigen]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        const reference::Lattice lattice{{4, 4, 2, 4}};
        Milc milc(lattice);
        REQUIRE(milc.start() == 1);
        constexpr int n = 3;
        const size_t reals = milc.source.size(), half = reals / 2;
        const std::vector<double> fat = milc.fat, lng = milc.lng;
        std::vector<std::vector<double>> own(n, std::vector<double>(reals)), odd(n), loaded = own;
        std::vector<void *> fields, other_fields;
        for (int k = 0; k < n; ++k)
            fields.push_back(own[k].data()), other_fields.push_back(loaded[k].data());
        const milcgpu_plugin_eigen_call call{
            milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, n, fields.data(), 1e-10, 1};
        milcgpu_plugin_eigen_call on_odd = call;
        on_odd.parity = MILCGPU_ODD;
        double values[n], residuals[n], norms[n], expected_residuals[n];
        milcgpu_eigen_report report;
        const auto compute = [&] {
            milc.fat = fat, milc.lng = lng;
            REQUIRE(milcgpu_plugin_eigensolve(&call, values, residuals, &report) == 1);
            REQUIRE(milcgpu_plugin_eigen_other_parity(&call) == 1);
        };
        const auto dslash = [&](std::vector<double> &field, int parity) {
            const milcgpu_field f = Milc::field(field);
            REQUIRE(milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), parity, f, f) == 1);
        };
        // A deferred value, made from the even part.
        compute();
        REQUIRE(milcgpu_plugin_eigen_check(&on_odd, values, expected_residuals, norms) == 1);
        REQUIRE(milcgpu_plugin_eigen_need() == 1);
        CHECK(milcgpu_plugin_eigen_other_parity(&call) == 0); // MILC's fields are the newest
        CHECK(milcgpu_plugin_eigen_check(&on_odd, values, residuals, norms) == 0);
        for (int k = 0; k < n; ++k) {
            odd[k] = own[k];
            dslash(odd[k], MILCGPU_ODD);
            double size = 0;
            for (size_t i = half; i < reals; ++i)
                size += odd[k][i] * odd[k][i];
            for (size_t i = half; i < reals; ++i)
                odd[k][i] /= std::sqrt(size);
        }
        const auto twist = [&] {
            for (std::vector<double> *const links : {&milc.fat, &milc.lng})
                for (size_t i = links->size() / 4; i < links->size() / 2; ++i)
                    (*links)[i] *= -1;
        };
        const auto use = [&] {
            std::vector<double> field = milc.source;
            dslash(field, MILCGPU_EVEN);
        };
        const auto make = [&](int device_only) {
            auto spec = filled(milcgpu_asqtad_defaults, 0.9);
            spec.unitarity = -1;
            const double eps = 0;
            void *const fats = milc.fat.data(), *const lngs = milc.lng.data();
            milcgpu_fatlink_report made{};
            REQUIRE(milcgpu_plugin_links({MILCGPU_LOAD_FN_LINKS, &spec, fat.data(), 1, &eps, &fats, &lngs, nullptr,
                                          nullptr, nullptr, device_only},
                                         &made) == 1);
            use();
        };
        const std::vector<std::pair<const char *, std::function<void()>>> changes = {
            {"nothing", [] {}},
            {"twisted", [&] { twist(); }},
            {"twisted, and used", [&] { twist(), use(); }},
            {"twisted, used, and back", [&] { twist(), use(), twist(), use(); }},
            {"others in their place", [&] { make(0); }},
            {"others in their place, on the device alone",
             [&] { make(1), milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, nullptr); }},
            {"twisted, and no links on the device", [&] { twist(), use(), plugin().links->drop_all(); }},
            {"more sets than are kept",
             [&] {
                 twist();
                 for (int k = 0; k < MILCGPU_MOST_LINK_SETS + 1; ++k) {
                     std::vector<double> more = milc.fat;
                     more[0] += k;
                     std::vector<double> field = milc.source;
                     const milcgpu_field f = Milc::field(field);
                     REQUIRE(milcgpu_plugin_dslash(more.data(), milc.lng.data(), MILCGPU_EVEN, f, f) == 1);
                 }
             }},
            {"gone", [&] { std::fill(milc.fat.begin(), milc.fat.end(), NAN); }},
        };
        // Any reader fills them.
        const auto filled = [&] {
            REQUIRE(milcgpu_plugin_eigen_need() == 1);
            for (int k = 0; k < n; ++k)
                CHECK(tests::largest_difference(own[k], odd[k], half, half) < 5e-15);
        };
        const auto on_device = [&](double off) {
            milc.fat = fat;
            REQUIRE(milcgpu_plugin_eigen_both_parities(&call) == 1);
            const EigenStore::Set *const set = plugin().eigenvectors->of_fields(MILCGPU_ODD);
            REQUIRE(set != nullptr);
            REQUIRE(plugin().eigenvectors->save(*set, n, other_fields.data()) == MILCGPU_OK);
            for (int k = 0; k < n; ++k)
                CHECK(tests::largest_difference(loaded[k], odd[k], half, half) < off);
        };
        for (const auto &[change, run] : changes)
            for (const int reader : {0, 1, 2}) {
                CAPTURE(backend_name(backend), change, reader);
                for (int k = 0; k < n; ++k)
                    own[k].assign(reals, NAN), loaded[k] = own[k];
                compute();
                run();
                if (reader == 0) {
                    filled();
                } else if (reader == 1) {
                    on_device(4e-7);
                } else { // from MILC's fields, in 16 bytes a site
                    filled();
                    on_device(4e-6);
                }
            }
        // MILC recomputes that part in its fields.
        for (int k = 0; k < n; ++k)
            for (size_t i = half; i < reals; ++i)
                odd[k][i] = own[k][i] *= -1;
        CHECK(milcgpu_plugin_eigen_other_parity(&call) == 0);
        on_device(4e-6);
        // The current links are those of the last look.
        compute();
        twist();
        REQUIRE(milcgpu_plugin_eigen_check(&on_odd, values, residuals, norms) == 1);
        CHECK(residuals[0] > 100 * expected_residuals[0]);
        twist();
        REQUIRE(milcgpu_plugin_eigen_check(&on_odd, values, residuals, norms) == 1);
        CHECK(residuals[0] == Approx(expected_residuals[0]));
    }
}

TEST_CASE("links have one content, whether made on the device, copied from there or loaded", "[plugin]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        const std::vector<double> gauge = milc.fat;
        auto spec = filled(milcgpu_asqtad_defaults, 0.9);
        spec.unitarity = -1;
        const auto content = [&] {
            const LinkSet *const set = plugin().links_for(MILCGPU_KS_CONGRAD, milc.fat.data(), milc.lng.data());
            return set != nullptr ? set->content() : 0;
        };
        uint64_t made[2];
        for (const int device_only : {1, 0}) {
            const double eps = 0;
            void *const fats = milc.fat.data(), *const lngs = milc.lng.data();
            milcgpu_fatlink_report report{};
            REQUIRE(milcgpu_plugin_links({MILCGPU_LOAD_FN_LINKS, &spec, gauge.data(), 1, &eps, &fats, &lngs, nullptr,
                                          nullptr, nullptr, device_only},
                                         &report) == 1);
            made[device_only] = content();
        }
        CHECK(made[0] != 0);
        CHECK(made[0] == made[1]);
        plugin().links->drop_all();
        CHECK(content() == made[0]);
        milc.fat[7] += 1e-15 + std::fabs(milc.fat[7]) * 1e-15;
        CHECK(content() != made[0]);
    }
}
