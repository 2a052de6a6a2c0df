// Eigenvectors of links whose eigenvalues have a closed form, in levels of many vectors: free links, with a twisted
// boundary, and pure gauge.
#include "milc_glue/api/milcgpu_eigen.h"
#include "tests/handles.h"
#include "tests/support.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;

namespace {

// HISQ links of unit links, with a boundary phase in x and, unless `periodic`, MILC's sign in t.
struct Free {
    reference::Lattice lattice;
    double twist;
    bool gauge, periodic;
    double rough = 0; // the largest angle of random phases on the links, which split the levels

    // The eigenvalue of each even or odd site's momentum: 4 sum over mu of (9/8 sin k - 1/24 sin 3 k)^2.
    std::vector<double> values() const {
        std::vector<double> all, half;
        for (int s = 0; s < lattice.volume(); ++s) {
            const auto x = lattice.coordinates(s);
            double l = 0;
            for (int mu = 0; mu < 4; ++mu) {
                const double boundary = mu == 0                ? twist
                                        : mu == 3 && !periodic ? M_PI
                                                               : 0,
                             k = (2 * M_PI * x[mu] + boundary) / lattice.n[mu];
                l += 4 * std::pow(9 * std::sin(k) / 8 - std::sin(3 * k) / 24, 2);
            }
            all.push_back(l);
        }
        std::sort(all.begin(), all.end());
        for (size_t k = 0; k < all.size(); k += 2) // both parities have the same values, three times for the colours
            half.insert(half.end(), 3, all[k]);
        return half;
    }
    void make(Session<double> &session) const {
        reference::Gauge u = reference::unit_gauge(lattice);
        std::vector<reference::Matrix> g(lattice.volume(), reference::identity());
        reference::Rng rng(7);
        for (reference::Matrix &link : u) {
            const double a = rough * (reference::uniform(rng) - 0.5), b = rough * (reference::uniform(rng) - 0.5);
            link.e[0][0] *= std::polar(1.0, a), link.e[1][1] *= std::polar(1.0, b),
                link.e[2][2] *= std::polar(1.0, -a - b);
        }
        for (reference::Matrix &one : g)
            one = gauge ? reference::random_su3(rng) : one;
        for (int s = 0; s < lattice.volume(); ++s) {
            const auto x = lattice.coordinates(s);
            if (x[0] == lattice.n[0] - 1)
                u[4 * s] = std::polar(1.0, twist) * u[4 * s];
            if (periodic && x[3] == lattice.n[3] - 1)
                u[4 * s + 3] = -1.0 * u[4 * s + 3];
            for (int mu = 0; mu < 4; ++mu)
                u[4 * s + mu] = g[s] * u[4 * s + mu] * reference::adjoint(g[lattice.neighbour(s, mu, 1)]);
        }
        reference::apply_phases(lattice, u);
        auto links = reference::links_to_milc<double>(lattice, u);
        const milcgpu_field from = session.field(links);
        auto spec = filled(milcgpu_hisq_defaults);
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &session.links};
        REQUIRE(milcgpu_links_make(session.context, &spec, &from, &set, 1, nullptr, nullptr) == MILCGPU_OK);
    }
};

struct Asked {
    int count, precision;
    double tolerance;
};

// Checks every value that was found: not below its exact value but for rounding, nor above it by more than the
// tolerance.
void check_values(const Free &free, const std::vector<Asked> &all) {
    const std::vector<double> exact = free.values();
    for (const Backend backend : backends()) {
        Session<double> session(free.lattice, backend);
        free.make(session);
        for (const Asked &asked : all) {
            auto spec = filled(milcgpu_eigen_defaults);
            spec.count = asked.count, spec.precision = asked.precision, spec.tolerance = asked.tolerance;
            EigenvectorsHandle made;
            auto report = sized<milcgpu_eigen_report>();
            const milcgpu_status status = milcgpu_eigenvectors_compute(session.links, &spec, &made.of, &report);
            CAPTURE(milcgpu::name(backend), free.lattice.n, free.twist, free.gauge, asked.count, asked.precision,
                    asked.tolerance, milcgpu_last_error(), report.message, report.restarts, report.edge);
            REQUIRE(status == MILCGPU_OK);
            CHECK(report.left_out <= (asked.tolerance > 0 ? 0 : asked.count / 16));
            std::vector<double> values(report.count), residuals(report.count);
            REQUIRE(milcgpu_eigenvectors_values(*made, values.data(), residuals.data()) == MILCGPU_OK);
            for (int k = 0; k < report.count; ++k) {
                CAPTURE(k, values[k], exact[k], residuals[k]);
                CHECK(values[k] > exact[k] * (1 - 1e-6 - free.rough) - 1e-6);
                CHECK(values[k] < exact[k] * (asked.tolerance > 0 ? 1 + 1e-6 + free.rough : 1.1) + 1e-6);
                if (asked.tolerance > 0)
                    CHECK(residuals[k] < asked.tolerance * report.highest);
            }
        }
    }
}

} // namespace

TEST_CASE("eigenvectors of free links have the closed form's values, in whole levels", "[eigen]") {
    const int half = MILCGPU_HALF, single = MILCGPU_SINGLE;
    // Levels of 48 and 144 vectors.
    check_values(
        {{{4, 4, 4, 4}}, 0, false, false},
        {{1, single, 0}, {16, half, 0}, {16, single, 1e-5}, {17, single, 0}, {50, half, 0}, {96, single, 1e-5}});
    check_values({{{4, 4, 4, 4}}, 0.9, true, false},
                 {{1, half, 0}, {12, single, 0}, {16, single, 1e-5}, {40, half, 0}});
    check_values({{{4, 4, 4, 6}}, 0.9, true, false},
                 {{1, single, 0}, {12, half, 0}, {17, single, 1e-5}, {50, single, 1e-5}, {60, half, 0}});
    check_values({{{4, 4, 4, 16}}, 0, false, false}, {{16, single, 0}, {17, single, 1e-5}});
}

TEST_CASE("eigenvectors of free links include zero modes, also on two sites a direction", "[eigen]") {
    check_values({{{4, 4, 4, 4}}, 0, true, true}, {{4, MILCGPU_SINGLE, 0}, {30, MILCGPU_HALF, 0}});
    for (const double twist : {0.0, 0.7})
        check_values({{{2, 2, 2, 2}}, twist, true, false},
                     {{1, MILCGPU_SINGLE, 0}, {4, MILCGPU_HALF, 0}, {6, MILCGPU_SINGLE, 1e-5}});
    check_values({{{2, 2, 4, 4}}, 0.4, false, false},
                 {{1, MILCGPU_HALF, 0}, {20, MILCGPU_SINGLE, 1e-5}, {24, MILCGPU_HALF, 0}});
}

TEST_CASE("eigenvectors of free links on 8^4 sites are right if the smeared density is below every value", "[eigen]") {
    check_values({{{8, 8, 8, 8}}, 0, false, false}, {{16, MILCGPU_HALF, 0}, {16, MILCGPU_SINGLE, 1e-5}});
    if (long_tests())
        check_values({{{8, 8, 8, 8}}, 0.4, true, false}, {{50, MILCGPU_SINGLE, 1e-5}, {64, MILCGPU_HALF, 0}});
}

TEST_CASE("few eigenvectors of nearly free links are right if a level is split by less than a filter resolves",
          "[eigen]") {
    for (const double rough : {1e-5, 1e-4, 1e-3, 5e-3, 2e-2})
        check_values({{{4, 4, 4, 4}}, 0, false, false, rough},
                     {{1, MILCGPU_SINGLE, 1e-6}, {4, MILCGPU_SINGLE, 1e-6}, {15, MILCGPU_SINGLE, 1e-6}});
}
