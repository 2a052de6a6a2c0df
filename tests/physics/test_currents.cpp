// Disconnected currents: thinned and projected noise, sums over time slices, the contribution of low modes.
#include "milc_glue/solve/currents.h"
#include "tests/cut_support.h"
#include "tests/low_modes.h"

using namespace tests;
using milcgpu::Backend;
using Handle = EigenvectorsHandle;

// |a - b| / |b|
static double difference(const std::vector<double> &a, const std::vector<double> &b) {
    double d = 0, size = 0;
    for (size_t k = 0; k < b.size(); ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(d / size);
}

TEST_CASE("currents thin and project noise, and sum over time slices what shifts and dot products give",
          "[eigen][mesons]") {
    constexpr int N = 6, step = 2, n = 8, groups = 2, origin[4] = {0, 0, 0, 0};
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const reference::Lattice &lattice = session.lattice;
        const int times = lattice.n[3], half = lattice.volume() / 2;
        struct Handles {
            milcgpu_meson_links *links = nullptr;
            milcgpu_vectors *noise = nullptr, *solutions = nullptr;
            ~Handles() {
                milcgpu_meson_links_destroy(links);
                milcgpu_vectors_destroy(noise), milcgpu_vectors_destroy(solutions);
            }
        } of;
        auto gauge = reference::links_to_milc<double>(lattice, modes.u);
        const milcgpu_field u = session.field(gauge);
        auto as_measured = filled(milcgpu_meson_links_defaults);
        as_measured.antiperiodic = 1, as_measured.signs = MILCGPU_SIGNS_IN;
        REQUIRE(milcgpu_meson_links_create(session.context, MILCGPU_DOUBLE, &of.links) == MILCGPU_OK);
        REQUIRE(milcgpu_meson_links_load(of.links, &as_measured, &u) == MILCGPU_OK);
        for (milcgpu_vectors **set : {&of.noise, &of.solutions})
            REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, n, set) == MILCGPU_OK);
        const auto how = eigen_spec(N);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &how, &made.of, nullptr) == MILCGPU_OK);
        double values[N];
        milcgpu_eigenvectors_values(*made, values, nullptr);

        using Field = std::vector<double>;
        const auto on_host = [&](milcgpu_vectors *from, int k) {
            Field field(6 * lattice.volume());
            const milcgpu_field to = session.field(field);
            REQUIRE(milcgpu_vectors_save(from, k, MILCGPU_EVEN + MILCGPU_ODD, &to) == MILCGPU_OK);
            return field;
        };
        // D of the other parity's sites, on `parity`.
        const auto with_dslash = [&](Field field, int parity) {
            const milcgpu_storage real{MILCGPU_DOUBLE, 18};
            const milcgpu_field from = session.field(field);
            REQUIRE(milcgpu_staggered_dslash(session.links, &real, parity, &from, &from) == MILCGPU_OK);
            return field;
        };
        const auto dot = [&](const Field &a, const Field &b, int parity) {
            std::complex<double> sum = 0;
            for (int i = 3 * (parity == MILCGPU_EVEN ? 0 : half); i < 3 * (parity == MILCGPU_EVEN ? half : 2 * half);
                 ++i)
                sum += std::conj(std::complex<double>(a[2 * i], a[2 * i + 1])) *
                       std::complex<double>(b[2 * i], b[2 * i + 1]);
            return sum;
        };
        // to[mu T + t] += scale Im [a^dag U b(x + mu)] on the sites of a parity.
        const auto add_currents = [&](const Field &a, const Field &b, int parity, double scale, double *to) {
            for (int mu = 0; mu < 4; ++mu) {
                Field shifted(b.size());
                const milcgpu_field from = field_of(b), there = session.field(shifted);
                const milcgpu_quarks in{&from, nullptr, 0}, out{&there, nullptr, 0};
                REQUIRE(milcgpu_quarks_shift(of.links, mu, MILCGPU_FORWARD, origin, 1, &in, &out) == MILCGPU_OK);
                for (int t = 0; t < times; ++t) {
                    Field slice(b.size()); // MILC orders the sites of a parity by time slice
                    for (const int begin : {0, half})
                        std::copy_n(shifted.begin() + 6 * (begin + t * half / times), 6 * half / times,
                                    slice.begin() + 6 * (begin + t * half / times));
                    to[mu * times + t] += scale * dot(a, slice, parity).imag();
                }
            }
        };

        const auto random = random_fermion(lattice, 61);
        const Field noise = reference::vector_to_milc<double>(lattice, random);
        const milcgpu_field field = field_of(noise);
        REQUIRE(milcgpu::thinned_sources(of.noise, 1, &field, step) == MILCGPU_OK);
        std::vector<Field> thinned;
        for (int k = 0; k < n; ++k) {
            auto expected = random;
            for (int s = 0; s < lattice.volume(); ++s) {
                const auto x = lattice.coordinates(s);
                const int place = ((x[0] % step * step + x[1] % step) * step + x[2] % step) * step + x[3] % step;
                if (place / 2 != k)
                    expected[s] = {};
            }
            thinned.push_back(on_host(of.noise, k));
            CHECK(thinned[k] == reference::vector_to_milc<double>(lattice, expected));
        }
        CHECK(milcgpu::thinned_sources(of.noise, 1, &field, 3) == MILCGPU_BAD_ARGUMENT);
        REQUIRE(milcgpu::thinned_sources(of.noise, 1, &field, step) == MILCGPU_OK);

        std::vector<Field> v(N, Field(6 * lattice.volume()));
        for (int k = 0; k < N; ++k) {
            const milcgpu_field to = session.field(v[k]);
            REQUIRE(milcgpu_eigenvectors_save(*made, k, &to) == MILCGPU_OK);
            v[k] = with_dslash(v[k], MILCGPU_ODD);
        }
        REQUIRE(milcgpu::project_out(*made, session.links, nullptr, of.noise) == MILCGPU_OK);
        std::vector<Field> projected;
        for (int k = 0; k < n; ++k) {
            projected.push_back(on_host(of.noise, k));
            Field expected = thinned[k]; // in MILC's order of operations
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                for (int j = N - 1; j >= 0; --j) {
                    const double norm = parity == MILCGPU_EVEN ? 1 : dot(v[j], v[j], parity).real();
                    const std::complex<double> c = dot(v[j], expected, parity) / norm;
                    const int begin = 3 * (parity == MILCGPU_EVEN ? 0 : half);
                    for (int i = begin; i < begin + 3 * half; ++i) {
                        const std::complex<double> part = c * std::complex<double>(v[j][2 * i], v[j][2 * i + 1]);
                        expected[2 * i] -= part.real(), expected[2 * i + 1] -= part.imag();
                    }
                }
            CAPTURE(milcgpu::name(backend), k);
            CHECK(difference(projected[k], expected) < 1e-14);
            CHECK(difference(projected[k], thinned[k]) > 1e-3);
        }

        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            std::vector<double> sums(groups * 4 * times), expected(sums.size());
            const int other = MILCGPU_EVEN + MILCGPU_ODD - parity;
            for (int k = 0; k < n; ++k) {
                const Field x = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 70 + k));
                const milcgpu_field from = field_of(x);
                for (const int on : {MILCGPU_EVEN, MILCGPU_ODD})
                    REQUIRE(milcgpu_vectors_load(of.solutions, k, on, &from) == MILCGPU_OK);
                add_currents(projected[k], with_dslash(x, other), parity, 1,
                             expected.data() + k / (n / groups) * 4 * times);
            }
            REQUIRE(milcgpu::current_sums(of.links, session.links, parity, groups, of.noise, of.solutions,
                                          sums.data()) == MILCGPU_OK);
            CHECK(difference(sums, expected) < 1e-14);
        }

        std::vector<double> weights(2 * N), low(2 * 4 * times), expected(low.size());
        for (int k = 0; k < N; ++k)
            for (const int w : {0, 1}) {
                weights[w * N + k] = w == 0 ? 1 / values[k] : k + 1;
                add_currents(v[k], v[k], MILCGPU_EVEN, -weights[w * N + k], expected.data() + w * 4 * times);
                add_currents(v[k], v[k], MILCGPU_ODD, weights[w * N + k], expected.data() + w * 4 * times);
            }
        REQUIRE(milcgpu::low_mode_currents(of.links, session.links, *made, N, 2, weights.data(), low.data()) ==
                MILCGPU_OK);
        CHECK(difference(low, expected) < 1e-14);
    }
}
