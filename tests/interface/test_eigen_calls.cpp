// Eigenvectors by the C interface: computed, saved, loaded, used by solves, on cut lattices; refusals.
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/eigen_handle.h"
#include "tests/cut_support.h"
#include "tests/low_modes.h"
#include <cstring>

using namespace tests;
using milcgpu::Backend;

namespace {

using Handle = EigenvectorsHandle;

struct Solved {
    milcgpu_status status;
    std::vector<milcgpu_solve_report> reports;
};
Solved solve(Session<double> &session, milcgpu_eigenvectors *with, int n, int sloppy, int parity = MILCGPU_EVEN) {
    auto spec = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, sloppy);
    spec.eigenvectors = with, spec.parity = parity;
    Solved s{MILCGPU_OK, std::vector<milcgpu_solve_report>(n, sized<milcgpu_solve_report>())};
    std::vector<std::vector<double>> b(n), x(n);
    std::vector<milcgpu_field> from, to;
    for (int k = 0; k < n; ++k) {
        b[k] = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, 40 + k));
        x[k].assign(b[k].size(), 0);
        from.push_back(session.field(b[k])), to.push_back(session.field(x[k]));
    }
    s.status = n == 1 ? milcgpu_staggered_solve(session.links, &spec, from.data(), to.data(), s.reports.data())
                      : milcgpu_staggered_solve_sources(session.links, &spec, MILCGPU_BLOCK, n, from.data(), to.data(),
                                                        s.reports.data());
    return s;
}

} // namespace

TEST_CASE("eigenvectors of the C interface: computed, saved and loaded, used by solves", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        CAPTURE(milcgpu::name(backend), milcgpu_last_error());
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            Handle made, loaded;
            auto spec = eigen_spec(24);
            spec.parity = parity;
            int told[2] = {};
            spec.user = told;
            spec.progress = [](void *user, int done, int of) {
                static_cast<int *>(user)[0] = done, static_cast<int *>(user)[1] = of;
            };
            size_t planned = 0;
            REQUIRE(milcgpu_eigenvectors_plan(session.context, &spec, &planned) == MILCGPU_OK);
            CHECK(planned > 24 * 16 * size_t(session.lattice.volume()) / 2);
            auto report = sized<milcgpu_eigen_report>();
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, &report) == MILCGPU_OK);
            REQUIRE(report.count == 24);
            CHECK(milcgpu_eigenvectors_count(*made) == 24);
            CHECK((told[0] == report.basis && told[1] == report.basis));
            CHECK(report.links_version == milcgpu_links_version(session.links));
            std::vector<double> values(24), residuals(24), again(24);
            REQUIRE(milcgpu_eigenvectors_values(*made, values.data(), residuals.data()) == MILCGPU_OK);
            CHECK(std::is_sorted(values.begin(), values.end()));
            REQUIRE(milcgpu_eigenvectors_create(session.links, parity, MILCGPU_SINGLE, 24, &loaded.of) == MILCGPU_OK);
            CHECK(solve(session, *loaded, 1, MILCGPU_HALF, parity).status == MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "empty"));
            std::vector<double> vector(6 * session.lattice.volume(), 7);
            const milcgpu_field there = session.field(vector);
            for (int k = 0; k < 24; ++k) {
                REQUIRE(milcgpu_eigenvectors_save(*made, k, &there) == MILCGPU_OK);
                REQUIRE(milcgpu_eigenvectors_load(*loaded, session.links, k, &there) == MILCGPU_OK);
            }
            const auto v = reference::vector_from_milc<double>(session.lattice, vector);
            double size = 0;
            for (int s = 0; s < session.lattice.volume(); ++s)
                size += session.lattice.parity(s) == (parity == MILCGPU_EVEN ? 0 : 1) ? reference::norm2(v[s]) : 0;
            CHECK(size == Approx(1).epsilon(1e-5));
            REQUIRE(milcgpu_eigenvectors_values(*loaded, again.data(), nullptr) == MILCGPU_OK);
            for (int k = 0; k < 24; ++k)
                CHECK(again[k] == Approx(values[k]).epsilon(1e-6));
            const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE, parity).reports[0].steps;
            for (milcgpu_eigenvectors *with : {*made, *loaded}) {
                const Solved one = solve(session, with, 1, MILCGPU_HALF, parity),
                             several = solve(session, with, 3, MILCGPU_SINGLE, parity);
                CAPTURE(plain, one.reports[0].steps, one.reports[0].message, several.reports[0].steps);
                CHECK(one.status == MILCGPU_OK);
                CHECK(one.reports[0].steps < plain / 2);
                CHECK(one.reports[0].deflations > 2);
                CHECK(one.reports[0].deflation_off == 0);
                CHECK(std::string(one.reports[0].message).empty());
                CHECK(several.status == MILCGPU_OK);
                CHECK(several.reports[2].steps <= one.reports[0].steps);
                CHECK(several.reports[2].deflations > 1);
            }
            CHECK(solve(session, *made, 1, MILCGPU_HALF, MILCGPU_EVEN + MILCGPU_ODD - parity).status ==
                  MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "eigenvectors"));
        }
    }
}

TEST_CASE("the C interface computes one eigenvector, and as many as a lattice has if more are requested", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE).reports[0].steps;
        for (const int count : {1, 300}) {
            const auto spec = eigen_spec(count);
            Handle made;
            auto report = sized<milcgpu_eigen_report>();
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, &report) == MILCGPU_OK);
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE), several = solve(session, *made, 4, MILCGPU_HALF);
            CAPTURE(milcgpu::name(backend), count, report.count, report.message, plain, s.reports[0].steps);
            CHECK(report.count == milcgpu_eigenvectors_count(*made));
            CHECK((count == 1 ? report.count == 1 : report.count >= 16 && report.count < 300));
            CHECK((report.message[0] != 0) == (count == 300));
            // What only double can reach is said.
            auto exact = eigen_spec(4);
            exact.tolerance = 1e-9;
            Handle none, in_double;
            CHECK(milcgpu_eigenvectors_compute(session.links, &exact, &none.of, nullptr) == MILCGPU_NOT_CONVERGED);
            CHECK(
                has(milcgpu_last_error(), "above the tolerance 1.0e-09: set a larger one, or keep vectors in double"));
            exact.precision = MILCGPU_DOUBLE;
            CHECK(milcgpu_eigenvectors_compute(session.links, &exact, &in_double.of, nullptr) == MILCGPU_OK);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].eigenvectors == report.count);
            CHECK(s.reports[0].deflations >= 1);
            CHECK(s.reports[0].steps <= (count == 1 ? plain : plain / 2));
            for (const milcgpu_solve_report &own : several.reports)
                CHECK((own.true_residual < 1e-10 && own.deflations >= 1));
        }
    }
}

TEST_CASE("several sources are deflated in half precision if that costs few steps", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        for (const bool rough : {false, true}) {
            const AsqtadLinks links = asqtad_links(session.lattice, 9);
            if (rough)
                REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
            const auto spec = eigen_spec(4);
            Handle made;
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
            const milcgpu_solve_report plain = solve(session, nullptr, 4, MILCGPU_HALF).reports[0],
                                       with = solve(session, *made, 4, MILCGPU_HALF).reports[0];
            CAPTURE(milcgpu::name(backend), rough, plain.steps, with.steps);
            CHECK(with.steps_in_half == (rough ? 0 : with.steps));
            CHECK(with.steps < plain.steps);
        }
    }
}

TEST_CASE("eigenvectors of other links are not used, and a flipped bit is found", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3), other(backend, 4);
        Session<double> &session = modes.session;
        CAPTURE(milcgpu::name(backend), milcgpu_last_error());
        const auto spec = eigen_spec(16);
        Handle made, of_other;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_compute(other.session.links, &spec, &of_other.of, nullptr) == MILCGPU_OK);
        CHECK(solve(session, *of_other, 1, MILCGPU_SINGLE).status == MILCGPU_BAD_ARGUMENT); // another context
        const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE).reports[0].steps;
        {
            const AsqtadLinks links = asqtad_links(session.lattice, 9);
            std::swap(session.links, other.session.links); // keep the links of another context
            milcgpu_links *const kept = session.links;
            session.links = nullptr;
            REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
            const Solved s = solve(session, *made, 2, MILCGPU_SINGLE);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].deflations == 0);
            CHECK((s.reports[0].deflation_off == 1 && s.reports[1].deflation_off == 1));
            CHECK(has(s.reports[0].message, "eigenvector 0 is not one of these links"));
            CHECK(has(session.messages.back(), s.reports[0].message));
            std::vector<double> vector(6 * session.lattice.volume());
            const milcgpu_field there = session.field(vector);
            CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_BAD_ARGUMENT);
            milcgpu_links_destroy(session.links);
            session.links = kept;
            std::swap(session.links, other.session.links);
        }
        // Flip half of the bits of a vector, also of exponents: products with it are not finite.
        const milcgpu::SpinorBlock bad = (*made.of->set)[1];
        std::vector<unsigned char> bytes(16 * bad.sites);
        modes.device().copy_to_host(bytes.data(), bad.data, bytes.size());
        for (unsigned char &byte : bytes)
            byte ^= 0xAA;
        modes.device().copy_to_device(bad.data, bytes.data(), bytes.size());
        std::vector<double> vector(6 * session.lattice.volume(), 7), before = vector;
        const milcgpu_field there = session.field(vector);
        SECTION("a solve goes on without") {
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].steps <= 1.3 * plain);
            CHECK(s.reports[0].deflation_off == 1);
            CHECK(milcgpu_eigenvectors_count(*made) == 0);
            CHECK(has(s.reports[0].message, "a bit flipped"));
        }
        SECTION("a copy to the host fails") {
            CHECK(milcgpu_eigenvectors_save(*made, 1, &there) == MILCGPU_CORRUPTED);
            CHECK(vector == before);
            CHECK(milcgpu_eigenvectors_count(*made) == 0);
            CHECK(milcgpu_eigenvectors_values(*made, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_eigenvectors_save(*made, 3, &there) == MILCGPU_BAD_ARGUMENT);
        }
    }
}

TEST_CASE("eigenvectors of twisted links, or of another eps_naik, are noticed or do no harm", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(24);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        for (const double eps : {0.0, -0.3, -1e-5}) { // 0: twisted
            modes.twist(eps == 0 ? 0.4 : -0.4);
            modes.make(eps);
            modes.twist(eps == 0 ? 0 : 0.4);
            const int plain = solve(session, nullptr, 1, MILCGPU_HALF).reports[0].steps;
            for (const int n : {1, 3}) {
                const Solved s = solve(session, *made, n, MILCGPU_HALF);
                CAPTURE(milcgpu::name(backend), eps, n, plain, s.reports[0].steps, s.reports[0].message);
                CHECK(s.status == MILCGPU_OK);
                for (const milcgpu_solve_report &report : s.reports) {
                    CHECK(report.true_residual < 1e-10);
                    CHECK(report.steps <= plain * (eps == -1e-5 ? 0.5 : 1.2));
                    CHECK(report.deflation_off == (eps != -1e-5));
                }
                CHECK(has(s.reports[0].message, "eigenvector ") == (eps != -1e-5));
            }
        }
    }
}

TEST_CASE("plans count what a deflation takes; solves of vectors on the device are deflated, too", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(20);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        milcgpu_solve_spec how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        const milcgpu::Operator full = modes.in(Precision::double_);
        for (const int n : {1, 4}) {
            size_t planned[2];
            for (const bool with : {false, true}) {
                how.eigenvectors = with ? *made : nullptr;
                REQUIRE((n == 1 ? milcgpu_memory_plan(session.context, MILCGPU_DOUBLE, &how, nullptr, 0, planned + with)
                                : milcgpu_sources_plan(session.context, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, n, nullptr,
                                                       0, planned + with)) == MILCGPU_OK);
            }
            const size_t before = modes.device().used_bytes();
            const Deflation deflation(modes.device(), *made.of->set, *full, n);
            CAPTURE(milcgpu::name(backend), n, planned[0], planned[1]);
            CHECK(planned[1] - planned[0] == modes.device().used_bytes() - before);
        }
        const VectorsHandle vectors(session.context, MILCGPU_DOUBLE, 2);
        const auto source = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, 40));
        const milcgpu_field from = field_of(source);
        REQUIRE(milcgpu_vectors_load(vectors, 0, MILCGPU_EVEN, &from) == MILCGPU_OK);
        const std::vector<double> zero(source.size());
        const milcgpu_field guess = field_of(zero);
        REQUIRE(milcgpu_vectors_load(vectors, 1, MILCGPU_EVEN, &guess) == MILCGPU_OK);
        const milcgpu_vector b{vectors, 0}, x{vectors, 1};
        CAPTURE(milcgpu_last_error());
        auto report = sized<milcgpu_solve_report>();
        CHECK(milcgpu_staggered_solve_vectors(session.links, &how, MILCGPU_ONE_BY_ONE, 1, &b, &x, &report) ==
              MILCGPU_OK);
        CHECK(report.deflations > 2);
        CHECK(report.true_residual < 1e-10);
    }
}

TEST_CASE("a flipped bit that raises no residual: solutions stay right, and one of the next calls reports it",
          "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(40); // more than are compared in a call
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_count(*made) == 40);
        unsigned char byte;
        modes.device().copy_to_host(&byte, (*made.of->set)[35].data, 1);
        byte ^= 1;
        modes.device().copy_to_device((*made.of->set)[35].data, &byte, 1);
        std::vector<double> vector(6 * session.lattice.volume());
        const milcgpu_field there = session.field(vector);
        CHECK(milcgpu_eigenvectors_save(*made, 34, &there) == MILCGPU_OK);
        for (const bool noticed : {false, true}) {
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE);
            CAPTURE(milcgpu::name(backend), s.reports[0].message);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].deflations > 2);
            CHECK(s.reports[0].deflation_off == 0);
            CHECK(has(s.reports[0].message, "a bit flipped") == noticed);
            CHECK(milcgpu_eigenvectors_count(*made) == (noticed ? 0 : 40));
        }
    }
}

TEST_CASE("vectors may be loaded in any order, must be independent, and are checked against the links of a solve",
          "[eigen]") {
    constexpr int n = 12;
    for (const Backend backend : backends()) {
        Modes modes(backend, 3), other(backend, 4);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(n);
        Handle made[2];
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made[0].of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_compute(other.session.links, &spec, &made[1].of, nullptr) == MILCGPU_OK);
        std::vector<double> vector(6 * session.lattice.volume());
        const milcgpu_field there = session.field(vector);
        const auto load = [&](Handle &to, const Handle &from, int index, int k) {
            REQUIRE(milcgpu_eigenvectors_save(*from, k, &there) == MILCGPU_OK);
            return milcgpu_eigenvectors_load(*to, session.links, index, &there);
        };
        const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE).reports[0].steps,
                  sorted = solve(session, *made[0], 1, MILCGPU_SINGLE).reports[0].steps;
        Handle reversed, twice, of_other;
        for (Handle *to : {&reversed, &twice, &of_other})
            REQUIRE(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, n, &to->of) == MILCGPU_OK);
        CAPTURE(milcgpu::name(backend), plain, sorted, milcgpu_last_error());
        for (int k = 0; k < n; ++k) {
            CHECK(load(reversed, made[0], k, n - 1 - k) == MILCGPU_OK);
            CHECK(load(of_other, made[1], k, k) == MILCGPU_OK);
            CHECK(load(twice, made[0], k, k == 7 ? 2 : k) == (k == n - 1 ? MILCGPU_BAD_ARGUMENT : MILCGPU_OK));
        }
        CHECK(has(milcgpu_last_error(), "vectors 2 and 7 are not orthogonal"));
        CHECK(solve(session, *twice, 1, MILCGPU_SINGLE).status == MILCGPU_BAD_ARGUMENT); // one is empty
        CHECK(load(twice, made[0], 7, 7) == MILCGPU_OK);
        CHECK(load(twice, made[0], n - 1, n - 1) == MILCGPU_OK);
        CHECK(solve(session, *twice, 1, MILCGPU_SINGLE).reports[0].steps == sorted);
        const Solved in_reverse = solve(session, *reversed, 1, MILCGPU_SINGLE),
                     with_others = solve(session, *of_other, 1, MILCGPU_SINGLE);
        CHECK(in_reverse.reports[0].steps <= sorted + 2);
        CHECK(in_reverse.reports[0].deflation_off == 0);
        CHECK(with_others.reports[0].steps == plain);
        CHECK(with_others.reports[0].deflation_off == 1);
        CHECK(has(with_others.reports[0].message, "eigenvector 0 "));
        CHECK(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, 3 * session.lattice.volume() / 2 + 1,
                                          &reversed.of) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "768"));
    }
}

TEST_CASE("wrong arguments of eigenvectors are refused", "[eigen]") {
    Modes modes(Backend::host, 3, {{4, 4, 4, 4}});
    Session<double> &session = modes.session;
    Handle made;
    const auto refused = [&](milcgpu_eigen_spec spec, const char *words) {
        CHECK(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), words));
        CHECK(*made == nullptr);
    };
    refused(eigen_spec(0), "spec.count");
    auto spec = eigen_spec(0);
    size_t bytes = 7;
    CHECK(milcgpu_eigenvectors_plan(session.context, &spec, &bytes) == MILCGPU_BAD_ARGUMENT);
    CHECK(bytes == 7);
    CHECK(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, 0, &made.of) == MILCGPU_BAD_ARGUMENT);
    spec = eigen_spec(4);
    spec.precision = 4;
    refused(spec, "precision");
    spec = eigen_spec(4);
    spec.parity = 3;
    refused(spec, "spec.parity");
    spec = eigen_spec(4);
    spec.tolerance = NAN;
    refused(spec, "spec.tolerance");
    spec.tolerance = 1e-20;
    CHECK(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_NOT_CONVERGED);
    CHECK(has(milcgpu_last_error(), "tolerance 1.0e-20"));
    CHECK(*made == nullptr);
    spec = eigen_spec(4);
    spec.progress = [](void *, int, int) { throw 1; };
    refused(spec, "spec.progress");
    REQUIRE(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, 2, &made.of) == MILCGPU_OK);
    std::vector<double> vector(6 * session.lattice.volume());
    const milcgpu_field there = session.field(vector);
    for (const int index : {-1, 2})
        CHECK(milcgpu_eigenvectors_load(*made, session.links, index, &there) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_NAN_OR_INF); // 0
    CHECK(milcgpu_eigenvectors_save(*made, 0, &there) == MILCGPU_BAD_ARGUMENT);              // empty
    vector[0] = NAN;
    CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_NAN_OR_INF);
}

TEST_CASE("eigenvectors on a cut lattice are the eigenvectors of the whole lattice", "[eigen]") {
    const std::array<int, 4> whole{4, long_tests() ? 6 : 4, 6, 8};
    Fields fields{{whole}, {}, {}, {}};
    {
        Modes modes(Backend::host, 3, fields.lattice);
        fields.fat.resize(72 * fields.lattice.volume()), fields.lng.resize(fields.fat.size());
        const milcgpu_field fat = field_of(fields.fat), lng = field_of(fields.lng);
        modes.make(0, &fat, &lng);
        fields.source = reference::vector_to_milc<double>(fields.lattice, random_fermion(fields.lattice, 6));
    }
    for (const Backend backend : backends()) {
        std::vector<double> of_whole;
        int steps_of_whole = 0, plain = 0;
        for (const std::array<int, 4> &grid :
             {std::array<int, 4>{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 2}}) {
            if (grid[1] == 2 && !long_tests())
                continue; // eight ranks
            const int ranks = grid[1] * grid[2] * grid[3];
            std::vector<std::vector<double>> seen(ranks);
            int steps = 0, refusals[2] = {};
            std::string words[2];
            const auto endings = on_cut(fields, {whole, grid, 0}, backend, [&](Here &here, Ending &) {
                Handle made;
                auto spec = eigen_spec(12);
                demand(milcgpu_eigenvectors_compute(here.links, &spec, &made.of, nullptr));
                std::vector<double> &own = seen[here.rank()];
                own.resize(milcgpu_eigenvectors_count(*made));
                demand(milcgpu_eigenvectors_values(*made, own.data(), nullptr));
                const milcgpu_field b = field_of(here.source);
                for (milcgpu_eigenvectors *with : {static_cast<milcgpu_eigenvectors *>(nullptr), *made}) {
                    if (with == nullptr && ranks > 1)
                        continue;
                    std::vector<double> solution(here.source.size());
                    const milcgpu_field x = field_of(solution);
                    auto how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
                    how.eigenvectors = with;
                    auto report = sized<milcgpu_solve_report>();
                    demand(milcgpu_staggered_solve(here.links, &how, &b, &x, &report));
                    if (here.rank() == 0)
                        (with != nullptr ? steps : plain) = report.steps;
                }
                if (ranks != 2)
                    return;
                Handle fewer;
                spec.count = 4;
                demand(milcgpu_eigenvectors_compute(here.links, &spec, &fewer.of, nullptr));
                std::vector<double> solution(here.source.size());
                const milcgpu_field x = field_of(solution);
                auto how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
                how.eigenvectors = here.rank() == 0 ? *made : *fewer;
                refusals[here.rank()] = milcgpu_staggered_solve(here.links, &how, &b, &x, nullptr);
                words[here.rank()] = milcgpu_last_error();
                Handle started;
                spec.start = how.eigenvectors;
                CHECK(milcgpu_eigenvectors_compute(here.links, &spec, &started.of, nullptr) == MILCGPU_BAD_ARGUMENT);
                CHECK(has(milcgpu_last_error(), "spec.start "));
            });
            CHECK(all_well(endings));
            if (ranks == 1)
                of_whole = seen[0], steps_of_whole = steps;
            CAPTURE(milcgpu::name(backend), ranks, plain, steps, steps_of_whole);
            REQUIRE(seen[0].size() == 12);
            for (const std::vector<double> &values : seen)
                CHECK(values == seen[0]);
            for (int k = 0; k < 12; ++k)
                CHECK(seen[0][k] == Approx(of_whole[k]).epsilon(1e-3));
            CHECK(std::abs(steps - steps_of_whole) <= 2);
            CHECK(steps < plain);
            for (const int rank : {0, 1})
                if (ranks == 2) {
                    CHECK(refusals[rank] == MILCGPU_BAD_ARGUMENT);
                    CHECK(has(words[rank], "spec.eigenvectors "));
                }
        }
    }
}
