// Who has the newest: MILC in host memory, MILC's routine and the device write each field that has a copy on the
// device, each two of these in every order, with NaN in every copy that is not the newest. Reads on both sides must
// then give the CPU's result.
#include "milc_glue/solve/eigen_handle.h"
#include "tests/plugin_support.h"
#include "tests/reference/gauge_force.h"
#include "tests/reference/mesons.h"
#include "tests/reference/wilson.h"

using namespace tests;
using reference::Gauge;

namespace {

struct Edit {
    const char *name;
    std::function<void()> run;
};

// Each two edits in every order, with and without a look in between.
void in_every_order(const std::vector<Edit> &edits, const std::function<void()> &check) {
    for (const Edit &first : edits)
        for (const Edit &second : edits)
            for (const bool look : {false, true}) {
                INFO(first.name << (look ? ", a look, " : ", ") << second.name);
                first.run();
                if (look)
                    check();
                second.run();
                check();
            }
}

const reference::Lattice lattice{{2, 2, 2, 4}};

double difference(const std::vector<double> &a, const std::vector<double> &b) {
    double worst = 0;
    for (size_t k = 0; k < a.size(); ++k)
        worst = worse(worst, std::abs(a[k] - b[k]));
    return worst;
}

// Copies into MILC's fields, which keep their addresses.
void put(const std::vector<double> &from, std::vector<double> &to) { std::copy(from.begin(), from.end(), to.begin()); }

// Runs `work` as MILC's own version of the routine, without the device.
void by_milc(milcgpu_routine routine, const std::function<void()> &work) {
    milcgpu_plugin_original(routine, 1);
    work();
    milcgpu_plugin_original(routine, 0);
}

Gauge smooth_gauge(unsigned long seed) { return reference::near_unit_gauge(lattice, 0.35, seed); }

} // namespace

TEST_CASE("newest of gauge field, momenta and Wilson links is right after two edits in every order",
          "[plugin][md][operators][mirror]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "nan"}};
        Milc milc(lattice);
        REQUIRE(milc.start() == 1);
        constexpr int links = MILCGPU_LINKS, momenta = MILCGPU_MOMENTA, both = links | momenta;
        constexpr double eps = 0.05, beta = 1.5;
        milcgpu_loops loops{};
        loops.plaquette = 1;
        loops.signs = 1;
        const std::vector<reference::Loops> plaquettes = {{1, reference::plaquettes()}};
        // The fields of the CPU, and the same in MILC's sites.
        Gauge u = smooth_gauge(1), h = reference::random_momenta(lattice, 2);
        std::vector<double> site_u = reference::links_to_milc<double>(lattice, u),
                            site_h = reference::momenta_to_milc(lattice, h);
        const milcgpu_plugin_lattice sites{Milc::field(site_u), Milc::field(site_h)};
        const reference::WilsonField psi = reference::random_wilson_field(lattice, 3);
        std::vector<double> milc_psi = reference::field_to_milc<double>(lattice, psi, 1);
        const auto put_u = [&] { put(reference::links_to_milc<double>(lattice, u), site_u); };
        const auto put_h = [&] { put(reference::momenta_to_milc(lattice, h), site_h); };
        const auto need = [](int what) { REQUIRE(milcgpu_plugin_host_needs(what, "a test") == 1); };
        unsigned long seed = 10;
        const std::vector<Edit> edits = {
            {"MILC's links",
             [&] {
                 u = smooth_gauge(++seed);
                 put_u();
                 milcgpu_plugin_host_wrote(links);
             }},
            {"links, and nobody announces it",
             [&] {
                 need(links);
                 std::swap_ranges(&site_u[0], &site_u[18], &site_u[72]);
                 u = reference::links_from_milc<double>(lattice, site_u);
             }},
            {"MILC's update",
             [&] {
                 need(both);
                 by_milc(MILCGPU_UPDATE_U, [&] {
                     u = reference::update_links(reference::links_from_milc<double>(lattice, site_u), h, eps, 8);
                     put_u();
                 });
                 milcgpu_plugin_host_wrote(links);
             }},
            {"update",
             [&] {
                 u = reference::update_links(u, h, eps, 8);
                 REQUIRE(milcgpu_plugin_update_links(&sites, eps, 8) == 1);
                 CHECK(std::isnan(site_u[0]));
             }},
            {"MILC's momenta",
             [&] {
                 h = reference::random_momenta(lattice, ++seed);
                 put_h();
                 milcgpu_plugin_host_wrote(momenta);
             }},
            {"momenta, and nobody announces it",
             [&] {
                 need(momenta);
                 for (double &x : site_h)
                     x = -x;
                 for (reference::Matrix &x : h)
                     x = -1.0 * x;
             }},
            {"MILC's force",
             [&] {
                 need(both);
                 by_milc(MILCGPU_GAUGE_FORCE_KS, [&] {
                     const Gauge read = reference::links_from_milc<double>(lattice, site_u);
                     h = reference::add_gauge_force(lattice, read, plaquettes, eps * beta / 3, h);
                     put_h();
                 });
                 milcgpu_plugin_host_wrote(momenta);
             }},
            {"force",
             [&] {
                 h = reference::add_gauge_force(lattice, u, plaquettes, eps * beta / 3, h);
                 REQUIRE(milcgpu_plugin_gauge_force(&sites, &loops, beta, eps) == 1);
                 CHECK(std::isnan(site_h[0]));
             }},
        };
        in_every_order(edits, [&] {
            double action = 0;
            REQUIRE(milcgpu_plugin_gauge_action(&sites, &loops, &action) == 1);
            CHECK(std::abs(action / reference::gauge_action(lattice, u, plaquettes) - 1) < 1e-14);
            need(both);
            CHECK(difference(site_u, reference::links_to_milc<double>(lattice, u)) < 1e-14);
            CHECK(difference(site_h, reference::momenta_to_milc(lattice, h)) < 1e-14);
            // The same sites as links of Wilson fermions.
            std::vector<double> d_psi(milc_psi.size());
            REQUIRE(milcgpu_plugin_wilson_dslash(Milc::field(site_u), 1, MILCGPU_EVEN_AND_ODD, Milc::field(milc_psi),
                                                 Milc::field(d_psi)) == 1);
            CHECK(difference(d_psi, reference::field_to_milc<double>(
                                        lattice, reference::wilson_dslash(lattice, u, psi, 1), 1)) < 1e-13);
            // From here on both sides hold the field, and tests of what is made of it follow.
            u = reference::links_from_milc<double>(lattice, site_u);
        });
    }
}

TEST_CASE("newest of fermion links and of links of measurements is right after two edits in every order",
          "[plugin][links][mirror]") {
    for (const Backend backend : backends())
        for (const bool hisq : {false, true}) {
            CAPTURE(hisq);
            const Environment environment{
                {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
            Milc milc(lattice);
            REQUIRE(milc.start() == 1);
            milcgpu_fatlink_spec spec;
            hisq ? milcgpu_hisq_defaults(&spec, sizeof spec) : milcgpu_asqtad_defaults(0.9, &spec, sizeof spec);
            spec.unitarity = -1;
            // The CPU's links of two gauge fields.
            std::vector<double> gauge[2], made_fat[2], made_lng[2];
            for (const int k : {0, 1}) {
                Gauge u = smooth_gauge(20 + k);
                reference::apply_phases(lattice, u);
                const reference::HisqLinks by_hisq =
                    hisq ? reference::hisq_links(lattice, u, 0) : reference::HisqLinks{};
                const auto coefficients = reference::asqtad_coefficients(0.9);
                gauge[k] = reference::links_to_milc<double>(lattice, u);
                made_fat[k] = reference::links_to_milc<double>(
                    lattice, hisq ? by_hisq.fat : reference::fat_links(lattice, u, coefficients));
                made_lng[k] = reference::links_to_milc<double>(
                    lattice, hisq ? by_hisq.lng : reference::long_links(lattice, u, coefficients));
            }
            // The contents of MILC's fields if the CPU did all; `of` is the gauge field of the last links.
            std::vector<double> fat, lng;
            int of = 0;
            bool deferred = false;
            const auto make = [&](int device_only) {
                const double eps = 0;
                void *const fats = milc.fat.data(), *const lngs = milc.lng.data();
                milcgpu_fatlink_report report{};
                REQUIRE(
                    milcgpu_plugin_links({hisq ? MILCGPU_HISQ_LINKS : MILCGPU_LOAD_FN_LINKS, &spec, gauge[of].data(), 1,
                                          &eps, &fats, &lngs, nullptr, nullptr, nullptr, device_only},
                                         &report) == 1);
                deferred = device_only != 0;
            };
            const auto fill = [&] { // as the glue does before MILC reads or writes them
                if (!deferred)
                    return;
                milcgpu_plugin_drop_deferred(MILCGPU_FERMION_LINKS, nullptr);
                make(0);
            };
            const auto next = [&] {
                fill();
                of = 1 - of;
                fat = made_fat[of], lng = made_lng[of];
            };
            next();
            make(0);
            const std::vector<Edit> edits = {
                {"a link in place",
                 [&] {
                     fill();
                     for (auto *links : {&fat, &milc.fat})
                         (*links)[72 + 5] += 0.5;
                 }},
                {"MILC's links",
                 [&] {
                     next();
                     by_milc(MILCGPU_LOAD_FN_LINKS, [&] { put(fat, milc.fat), put(lng, milc.lng); });
                 }},
                {"links",
                 [&] {
                     next();
                     make(0);
                 }},
                {"links, deferred",
                 [&] {
                     next();
                     make(1);
                     std::fill(milc.fat.begin(), milc.fat.end(), NAN);
                     std::fill(milc.lng.begin(), milc.lng.end(), NAN);
                 }},
            };
            const auto apply = [&] {
                return reference::vector_to_milc<double>(
                    lattice, reference::dslash_on_parity(lattice, reference::links_from_milc<double>(lattice, fat),
                                                         reference::links_from_milc<double>(lattice, lng), milc.b, 0));
            };
            in_every_order(edits, [&] {
                std::vector<double> out(milc.source.size(), 0);
                REQUIRE(milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, Milc::field(milc.source),
                                              Milc::field(out)) == 1);
                CHECK(difference(out, apply()) < 5e-14);
            });
            fill();
            // The same fields as links of measurements, by the shift of a field.
            edits[2].run();
            in_every_order({edits.begin(), edits.begin() + 3}, [&] {
                std::vector<double> out(milc.source.size(), 0);
                REQUIRE(milcgpu_plugin_shift(milc.fat.data(), 1, MILCGPU_FORWARD, Milc::field(milc.source),
                                             Milc::field(out)) == 1);
                const auto expected = reference::shift(lattice, reference::links_from_milc<double>(lattice, fat), 1,
                                                       reference::ShiftWay::forward, milc.b);
                CHECK(difference(out, reference::vector_to_milc<double>(lattice, expected)) < 3e-14);
            });
        }
}

TEST_CASE("newest of source, solution and quark fields is right after two edits in every order", "[plugin][mirror]") {
    for (const Backend backend : backends())
        for (const bool stays : {false, true}) { // in a trajectory solutions stay on the device
            CAPTURE(stays);
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)},
                                          {"MILCGPU_VERBOSE", "0"},
                                          {"MILCGPU_PRECISION", "double"},
                                          {"MILCGPU_TEST", "keep,nan"}};
            Milc milc(lattice);
            REQUIRE(milc.start() == 1);
            const std::vector<double> links = reference::links_to_milc<double>(lattice, smooth_gauge(31));
            Masses masses(milc, {0.4, 0.6}, 1e-9);
            std::vector<double> &x = masses.x[0];
            milcgpu_plugin_solve_call one = milc.call();
            one.solution = Milc::field(x);
            const auto need = [] { REQUIRE(milcgpu_plugin_vectors_need() == 1); };
            const auto solve = [&] {
                milcgpu_solve_report report;
                REQUIRE(milcgpu_plugin_solve(&one, &report) == 1);
            };
            if (stays)
                milcgpu_plugin_vectors_begin(2, 0);
            const std::vector<Edit> edits = {
                {"a number in place",
                 [&] {
                     need();
                     x[6 * 3 + 2] += 0.25;
                 }},
                {"the source in place",
                 [&] {
                     milc.source[6 * 2 + 1] += 0.25;
                     milc.b = reference::vector_from_milc<double>(lattice, milc.source);
                 }},
                {"MILC's solve",
                 [&] {
                     need();
                     by_milc(MILCGPU_KS_CONGRAD, [&] { std::fill(x.begin(), x.end(), 0.25); });
                 }},
                {"all masses",
                 [&] {
                     REQUIRE(masses.solve() == 1);
                     CHECK(std::isnan(x[0]) == stays);
                 }},
                {"a solve", solve},
                {"smearing",
                 [&] {
                     need();
                     REQUIRE(milcgpu_plugin_gauss_smear(links.data(), 1.5, 1, -1, Milc::field(x)) == 1);
                 }},
            };
            in_every_order(edits, [&] {
                // A measurement reads MILC's field.
                need();
                std::vector<double> out(x.size());
                REQUIRE(milcgpu_plugin_shift(links.data(), 2, MILCGPU_BACKWARD, Milc::field(x), Milc::field(out)) == 1);
                const auto expected =
                    reference::shift(lattice, reference::links_from_milc<double>(lattice, links), 2,
                                     reference::ShiftWay::backward, reference::vector_from_milc<double>(lattice, x));
                CHECK(difference(out, reference::vector_to_milc<double>(lattice, expected)) < 3e-14);
                // A known solution still solves.
                solve();
                need();
                CHECK(milc.residual(x, one.mass) < 1.01 * one.tolerance);
            });
            milcgpu_plugin_vectors_end();
        }
}

TEST_CASE("newest of eigenvectors is right after two edits in every order", "[plugin][eigen][mirror]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "nan"}};
        Milc milc(lattice);
        REQUIRE(milc.start() == 1);
        constexpr int n = 3;
        std::vector<double> own[n], expected[n], read[n],
            lowest[n]; // MILC's fields; the newest; those of a file; the CPU's
        void *fields[n];
        const size_t even = milc.source.size() / 2;
        milcgpu_plugin_eigen_call call{milc.fat.data(), milc.lng.data(), MILCGPU_EVEN, n, fields, 1e-10, 1};
        double values[n], residuals[n];
        milcgpu_eigen_report report;
        const auto need = [] { REQUIRE(milcgpu_plugin_eigen_need() == 1); };
        const auto compute = [&] { REQUIRE(milcgpu_plugin_eigensolve(&call, values, residuals, &report) == 1); };
        for (int k = 0; k < n; ++k) {
            own[k].assign(milc.source.size(), 0);
            fields[k] = own[k].data();
        }
        compute();
        need();
        std::copy(own, own + n, lowest);
        for (int k = 0; k < n; ++k) { // in another order, with another sign
            read[k] = lowest[n - 1 - k];
            for (double &number : read[k])
                number = -number;
        }
        const auto write = [&](const std::vector<double> *from) {
            for (int k = 0; k < n; ++k)
                put(from[k], own[k]), expected[k] = from[k];
            milcgpu_plugin_eigenvectors_drop();
        };
        const std::vector<Edit> edits = {
            {"MILC reads a file", [&] { write(read); }},
            {"MILC's eigensolver",
             [&] {
                 need();
                 by_milc(MILCGPU_EIGENSOLVE, [&] { write(lowest); });
             }},
            {"eigensolver",
             [&] {
                 compute();
                 std::copy(lowest, lowest + n, expected);
                 CHECK(std::isnan(own[n - 1][even - 1]));
             }},
            {"a deflated solve",
             [&] {
                 milcgpu_plugin_solve_call one = milc.call();
                 const bool there = milcgpu_plugin_eigen_on_device(fields) == 1;
                 REQUIRE(milcgpu_plugin_eigen_ready(&call) == 1);
                 CHECK((milcgpu_plugin_eigen_on_device(fields) == 1) == there); // nothing was copied
                 one.deflate = MILCGPU_DEFLATED_BY_MILCS;
                 milc.x.assign(milc.x.size(), 0);
                 REQUIRE(milcgpu_plugin_solve(&one, &milc.report) == 1);
                 CHECK(milc.report.deflations > 0);
                 CHECK(milc.residual(milc.x, one.mass) < 1.01 * one.tolerance);
             }},
        };
        edits[0].run();
        in_every_order(edits, [&] {
            need();
            for (int k = 0; k < n; ++k) {
                own[k].resize(even), expected[k].resize(even);
                CHECK(difference(own[k], expected[k]) < 1e-15);
                own[k].resize(2 * even), expected[k].resize(2 * even);
            }
        });
        // One vector twice: the solve is not deflated.
        need();
        write(lowest);
        put(lowest[0], own[1]);
        CHECK(milcgpu_plugin_eigen_ready(&call) == 0);
        CHECK(last_error_says("vectors 0 and 1 "));
        // If memory is too short in single precision, vectors take 16 bytes a site.
        milcgpu_plugin_inject_fault(MILCGPU_FAULT_ALLOCATION);
        compute();
        CHECK(residuals[0] > 1e-6);
        CHECK(residuals[0] < 1e-4);
        // Vectors of other fields are not these; vectors that were lost with the device are reported.
        compute();
        void *others[n] = {milc.x.data(), fields[1], fields[2]};
        CHECK(milcgpu_plugin_eigen_on_device(others) == 0);
        plugin().eigenvectors->mirrored()->handle->set.reset(); // as a flipped bit does
        CHECK(milcgpu_plugin_eigen_ready(&call) == 0);
        CHECK(milcgpu_plugin_eigen_need() == 0);
        compute();
        plugin().close();
        CHECK(milcgpu_plugin_eigen_need() == 0);
        milcgpu_plugin_eigenvectors_drop();
        CHECK(milcgpu_plugin_eigen_need() == 1);
    }
}

TEST_CASE("compare mode judges eigenvectors: a missing value, and a vector that is no eigenvector", "[plugin][eigen]") {
    const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_VERBOSE", "0"}};
    Milc milc(lattice);
    REQUIRE(milc.start() == 1);
    constexpr int n = 3;
    std::vector<double> own[n], cpu[n];
    void *fields[n], *cpu_fields[n];
    const double values[n] = {0.1, 0.5, 0.9}, residuals[n] = {1e-6, 1e-6, 1e-6};
    double cpu_values[n] = {0.1, 0.5, 0.9}, cpu_residuals[n] = {1e-6, 1e-6, 1e-6};
    for (int k = 0; k < n; ++k) {
        own[k].assign(milc.source.size(), 0);
        own[k][6 * k] = 1;
        cpu[k] = own[k];
        fields[k] = own[k].data(), cpu_fields[k] = cpu[k].data();
    }
    const milcgpu_plugin_eigen_comparison of{MILCGPU_EVEN, n,          1e-10,         fields, cpu_fields, values,
                                             residuals,    cpu_values, cpu_residuals, 1,      1};
    const auto good = [&] { return milcgpu_plugin_compare_eigen(&of); };
    CHECK(good() == 1);
    cpu_values[1] = 0.51; // MILC's vector may not have converged
    CHECK(good() == 1);
    cpu_values[1] = 0.49;
    CHECK(good() == 0);
    cpu_values[1] = 0.5;
    std::swap(cpu[0][0], cpu[0][6]); // in the same eigenspace
    CHECK(good() == 1);
    std::swap(cpu[0][6], cpu[0][60]);
    CHECK(good() == 0);
    std::swap(cpu[0][60], cpu[0][0]);
    cpu[1][3] = NAN;
    CHECK(good() == 0);
    cpu[1][3] = 0;
    CHECK(good() == 1);
    cpu_residuals[0] = 1; // MILC's vector is no eigenvector, which does not blame ours
    std::swap(cpu[0][0], cpu[0][60]);
    CHECK(good() == 1);
}
