// Tests of the reference: physical identities, the free field, and MILC's own links and solutions.
#include "tests/catch.h"

#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>

#include "examples/lib/lattice_file.h"
#include "tests/reference/gauge.h"
#include "tests/reference/lattice.h"
#include "tests/reference/staggered.h"
#include "tests/reference/su3.h"

using namespace reference;

namespace {

// Each direction has its own length, so that a swap of two shows.
const Lattice uneven{{4, 6, 8, 10}};

Complex dot(const Fermion &a, const Fermion &b) {
    Complex sum = 0;
    for (std::size_t site = 0; site < a.size(); site++)
        for (int i = 0; i < 3; i++)
            sum += std::conj(a[site].c[i]) * b[site].c[i];
    return sum;
}

// exp(i p x) times a constant colour vector, with momenta 2 pi k / n, in time 2 pi (k + 1/2) / n: antiperiodic.
struct PlaneWave {
    Fermion field;
    std::array<double, 4> momentum;
};

PlaneWave antiperiodic_wave(const Lattice &lattice, const std::array<int, 4> &k) {
    PlaneWave wave;
    for (int mu = 0; mu < 4; mu++)
        wave.momentum[mu] = 2 * M_PI * (k[mu] + (mu == 3 ? 0.5 : 0)) / lattice.n[mu];
    wave.field = plane_wave(lattice, k, {{{1, 0.5}, {-0.25, 2}, {0, 1}}}, 0.5);
    return wave;
}

// Momenta s_mu of links that are `fat` and `lng` times unit links: D exp(ipx) = 2 i sum_mu eta_mu(x) s_mu exp(ipx).
std::array<double, 4> lattice_momenta(const PlaneWave &wave, double fat, double lng) {
    std::array<double, 4> s{};
    for (int mu = 0; mu < 4; mu++)
        s[mu] = fat * std::sin(wave.momentum[mu]) + lng * std::sin(3 * wave.momentum[mu]);
    return s;
}

double sum_of_squares(const std::array<double, 4> &s) { return s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + s[3] * s[3]; }

Gauge scaled(Gauge links, double factor) {
    for (auto &link : links)
        link = factor * link;
    return links;
}

Gauge unit_with_phases(const Lattice &lattice) {
    Gauge links = unit_gauge(lattice);
    apply_phases(lattice, links);
    return links;
}

// Products of three unit links with phases: each has the phase of one link, but three time slices cross the boundary.
Gauge unit_long_with_phases(const Lattice &lattice) {
    Gauge links = unit_with_phases(lattice);
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.coordinates(site)[3] >= lattice.n[3] - 3)
            links[4 * std::size_t(site) + 3] = -1.0 * identity();
    return links;
}

Fermion on_parity(const Lattice &lattice, Fermion field, int parity) {
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.parity(site) != parity)
            field[site] = Vector{};
    return field;
}

} // namespace

TEST_CASE("lattice: sites, coordinates and neighbours agree, and the order is MILC's", "[reference][smoke][sanitize]") {
    const Lattice odd_extents{{3, 6, 2, 5}};
    for (int site = 0; site < odd_extents.volume(); site++) {
        CHECK(odd_extents.site(odd_extents.coordinates(site)) == site);
        for (int dir = 0; dir < 4; dir++) {
            CHECK(odd_extents.neighbour(odd_extents.neighbour(site, dir, 3), dir, -3) == site);
            CHECK(odd_extents.neighbour(site, dir, odd_extents.n[dir]) == site);
        }
    }
    CHECK(uneven.site({1, 2, 3, 4}) == 1 + 4 * (2 + 6 * (3 + 8 * 4)));
    CHECK(uneven.site({-1, 6, -9, 10}) == uneven.site({3, 0, 7, 0}));

    // With even extents, MILC's index is half the lexicographic one, plus half the volume on odd sites.
    const auto order = milc_order(uneven);
    REQUIRE(int(order.size()) == uneven.volume());
    for (int k = 0; k < uneven.volume(); k++)
        CHECK(k == order[k] / 2 + (uneven.parity(order[k]) == 1 ? uneven.volume() / 2 : 0));
}

TEST_CASE("su3: random matrices are unitary, fields survive MILC's order", "[reference][smoke][sanitize]") {
    Rng rng(7);
    for (int i = 0; i < 100; i++) {
        const Matrix u = i % 2 ? random_su3(rng) : random_near_unit_su3(rng, 0.1);
        CHECK(frobenius_norm(u * adjoint(u) - identity()) < 1e-14);
        CHECK(std::abs(det(u) - 1.0) < 1e-14);
        CHECK(frobenius_norm(reunitarize(u) - u) < 1e-14);
    }
    const Lattice lattice{{2, 4, 6, 2}};
    const Gauge links = random_gauge(lattice, 1);
    const Fermion field = random_fermion(lattice, 2);
    const auto milc_links = links_to_milc<double>(lattice, links);
    const auto milc_field = vector_to_milc<double>(lattice, field);
    CHECK(relative_difference(links_from_milc(lattice, milc_links), links) == 0);
    CHECK(relative_difference(vector_from_milc(lattice, milc_field), field) == 0);
    CHECK(relative_difference(links_from_milc(lattice, links_to_milc<float>(lattice, links)), links) < 1e-7);
    // MILC's second even site is the one at x = 2 or, in a lattice two sites wide, at y = 1, x = 1.
    const int second = lattice.site({1, 1, 0, 0});
    CHECK(milc_links[18 * (4 * 1 + 2) + 2 * (3 * 1 + 2) + 1] == links[4 * second + 2].e[1][2].imag());
    CHECK(milc_field[6 * 1 + 2 * 2] == field[second].c[2].real());
}

TEST_CASE("D is anti-hermitian and joins even with odd sites", "[reference][smoke][sanitize]") {
    const Gauge fat = near_unit_gauge(uneven, 0.8, 1), lng = scaled(random_gauge(uneven, 2), -0.1);
    const Fermion x = random_fermion(uneven, 3), y = random_fermion(uneven, 4);
    const Complex forth = dot(y, dslash(uneven, fat, lng, x)), back = dot(x, dslash(uneven, fat, lng, y));
    CHECK(std::abs(forth + std::conj(back)) < 3e-14 * std::abs(forth));

    const Fermion from_even = dslash(uneven, fat, lng, on_parity(uneven, x, 0));
    CHECK(relative_difference(from_even, dslash_on_parity(uneven, fat, lng, x, 1)) < 1e-15);
    for (int site = 0; site < uneven.volume(); site++)
        if (uneven.parity(site) == 0)
            CHECK(norm2(from_even[site]) == 0);
}

TEST_CASE("D, fat and long links are gauge covariant, the plaquette invariant", "[reference]") {
    Gauge thin = near_unit_gauge(uneven, 0.5, 11);
    const Transformation g = random_transformation(uneven, 12);
    Gauge turned = transform_links(uneven, g, thin, 1);
    CHECK(std::abs(plaquette(uneven, thin) - plaquette(uneven, turned)) < 1e-15);
    apply_phases(uneven, thin);
    apply_phases(uneven, turned);

    const PathCoefficients c = asqtad_coefficients(0.86);
    const Gauge fat = fat_links(uneven, thin, c), lng = long_links(uneven, thin, c);
    const Gauge turned_fat = fat_links(uneven, turned, c), turned_long = long_links(uneven, turned, c);
    CHECK(relative_difference(turned_fat, transform_links(uneven, g, fat, 1)) < 5e-15);
    CHECK(relative_difference(turned_long, transform_links(uneven, g, lng, 3)) < 5e-15);

    const Fermion x = random_fermion(uneven, 13);
    const Fermion expected = transform_fermion(g, dslash(uneven, fat, lng, x));
    CHECK(relative_difference(dslash(uneven, turned_fat, turned_long, transform_fermion(g, x)), expected) < 5e-15);
}

TEST_CASE("plane waves on unit links with phases are eigenvectors of D^2", "[reference][smoke][sanitize]") {
    const double f = 1.3, l = -0.2;
    const Gauge fat = scaled(unit_with_phases(uneven), f), lng = scaled(unit_long_with_phases(uneven), l);
    const PlaneWave wave = antiperiodic_wave(uneven, {1, 2, 5, 3});
    const auto s = lattice_momenta(wave, f, l);
    const Fermion d = dslash(uneven, fat, lng, wave.field);
    Fermion expected(wave.field.size());
    for (int site = 0; site < uneven.volume(); site++) {
        const auto x = uneven.coordinates(site);
        const auto sign = [](int exponent) { return exponent % 2 ? -1.0 : 1.0; };
        const double eta_s = sign(x[3]) * s[0] + sign(x[3] + x[0]) * s[1] + sign(x[3] + x[0] + x[1]) * s[2] + s[3];
        expected[site] = Complex(0, 2 * eta_s) * wave.field[site];
    }
    CHECK(relative_difference(d, expected) < 1e-13);
    // The cross terms of D^2 cancel, because the eta_mu anticommute with each other's shifts.
    Fermion d_squared = wave.field;
    for (auto &vector : d_squared)
        vector = -4 * sum_of_squares(s) * vector;
    CHECK(relative_difference(dslash(uneven, fat, lng, d), d_squared) < 1e-14);
}

TEST_CASE("free field: asqtad weights are exact, and the solution is the closed form", "[reference][smoke][sanitize]") {
    const Gauge unit = unit_with_phases(uneven);
    const PathCoefficients c = asqtad_coefficients(1);
    const Gauge fat = fat_links(uneven, unit, c), lng = long_links(uneven, unit, c);
    // Naik: 9/8 (one hop) and -1/24 (three hops) give the derivative with errors of order a^4.
    CHECK(relative_difference(fat, scaled(unit, 9.0 / 8)) < 1e-14);
    CHECK(relative_difference(lng, scaled(unit_long_with_phases(uneven), -1.0 / 24)) < 1e-14);

    const double mass = 0.03;
    const PlaneWave wave = antiperiodic_wave(uneven, {1, 0, 3, 2});
    const double eigenvalue = 4 * mass * mass + 4 * sum_of_squares(lattice_momenta(wave, 9.0 / 8, -1.0 / 24));
    for (int parity = 0; parity < 2; parity++) {
        const Fermion source = on_parity(uneven, wave.field, parity);
        const Fermion zero(source.size(), Vector{});
        const CgResult result = conjugate_gradient(uneven, fat, lng, mass, parity, source, zero, 1e-12, 100);
        Fermion expected = source;
        for (auto &vector : expected)
            vector = 1 / eigenvalue * vector;
        CHECK(relative_difference(result.x, expected) < 1e-14);
        // The source is an eigenvector: one step, and a true residual before and after it.
        CHECK(result.iterations == 3);
    }
}

TEST_CASE("CG takes a guess, solves on each parity, solves a zero source, stops at its limit",
          "[reference][sanitize]") {
    const Lattice lattice{{4, 4, 2, 6}};
    Gauge fat = near_unit_gauge(lattice, 0.3, 1);
    apply_phases(lattice, fat);
    const Gauge lng = scaled(fat, -0.04);
    const Fermion source = random_fermion(lattice, 2), guess = random_fermion(lattice, 3);
    const double mass = 0.2;
    const CgResult result = conjugate_gradient(lattice, fat, lng, mass, 1, source, guess, 1e-10, 1000);
    CHECK(result.residual < 1e-10);
    const Fermion ax = normal_operator(lattice, fat, lng, mass, 1, result.x);
    CHECK(relative_difference(ax, on_parity(lattice, source, 1)) == Approx(result.residual).epsilon(1e-3));
    CHECK(relative_difference(on_parity(lattice, result.x, 0), on_parity(lattice, guess, 0)) == 0);

    const CgResult again = conjugate_gradient(lattice, fat, lng, mass, 1, source, result.x, 1e-10, 1000);
    CHECK(again.iterations == 1);
    const CgResult capped = conjugate_gradient(lattice, fat, lng, mass, 1, source, guess, 1e-10, 5);
    CHECK(capped.residual > 1e-10);
    const CgResult none =
        conjugate_gradient(lattice, fat, lng, mass, 1, on_parity(lattice, source, 0), guess, 1e-10, 9);
    CHECK(none.iterations == 0);
    CHECK(dot(on_parity(lattice, none.x, 1), none.x) == 0.0);
    CHECK(relative_difference(on_parity(lattice, none.x, 0), on_parity(lattice, guess, 0)) == 0);
}

TEST_CASE("MILC's sample: fat and long links are MILC's", "[reference][samples]") {
    NEED_SAMPLE("lat.sample.l8");
    NEED_SAMPLE("fat.l8");
    NEED_SAMPLE("long.l8");
    auto file = examples::read_gauge(sample_file("lat.sample.l8"));
    const PlaquetteParts parts = plaquette_parts(file.lattice, file.links);
    CHECK(3 * parts.space_space == Approx(2.6204).margin(1e-4));
    CHECK(3 * parts.space_time == Approx(2.6214).margin(1e-4));
    apply_phases(file.lattice, file.links);
    const PathCoefficients c = asqtad_coefficients(0.502);
    const auto fat = examples::read_gauge(sample_file("fat.l8"));
    const auto lng = examples::read_gauge(sample_file("long.l8"));
    const double fat_error = relative_difference(fat_links(file.lattice, file.links, c), fat.links);
    const double long_error = relative_difference(long_links(file.lattice, file.links, c), lng.links);
    INFO("fat " << fat_error << ", long " << long_error);
    CHECK(fat_error < 3.5e-8); // the files hold floats
    CHECK(long_error < 3.5e-8);
}

TEST_CASE("MILC's sample: solution and iteration count are MILC's", "[reference][samples]") {
    NEED_SAMPLE("lat.sample.l8");
    NEED_SAMPLE("ksvector.src.sample.l8");
    NEED_SAMPLE("ksvector.ans.MdaggerMinv.sample.l8");
    NEED_SAMPLE("ksvector.ans.Minv.sample.l8");
    auto file = examples::read_gauge(sample_file("lat.sample.l8"));
    const Lattice &lattice = file.lattice;
    apply_phases(lattice, file.links);
    const PathCoefficients c = asqtad_coefficients(0.502);
    const Gauge fat = fat_links(lattice, file.links, c), lng = long_links(lattice, file.links, c);
    const Fermion source = examples::read_scidac_fermion(sample_file("ksvector.src.sample.l8")).vectors;
    const Fermion normal = examples::read_scidac_fermion(sample_file("ksvector.ans.MdaggerMinv.sample.l8")).vectors;
    const Fermion single = examples::read_scidac_fermion(sample_file("ksvector.ans.Minv.sample.l8")).vectors;
    const double mass = 0.1;
    CHECK(dot(source, source).real() == Approx(6.9035507265e6).epsilon(1e-9));

    Fermion applied = dslash(lattice, fat, lng, single); // (2m + D) of the solution must be the source
    for (std::size_t site = 0; site < applied.size(); site++)
        applied[site] = applied[site] + 2 * mass * single[site];
    const double single_error = relative_difference(applied, source);
    INFO("(2m + D) ans - src: " << single_error);
    CHECK(single_error < 9e-8);

    const double final_rsq[2] = {8.366e-19, 7.834e-19};
    Fermion both = normal_operator(lattice, fat, lng, mass, 0, normal);
    const Fermion odd = normal_operator(lattice, fat, lng, mass, 1, normal);
    for (std::size_t site = 0; site < both.size(); site++)
        both[site] = both[site] + odd[site];
    const double normal_error = relative_difference(both, source);
    INFO("(4m^2 - D^2) ans - src: " << normal_error);
    CHECK(normal_error < 5e-8);

    for (int parity = 0; parity < 2; parity++) {
        const Fermion zero(source.size(), Vector{});
        const CgResult result = conjugate_gradient(lattice, fat, lng, mass, parity, source, zero, 1e-9, 1000);
        INFO("parity " << parity << ": |r|^2/|b|^2 " << result.residual * result.residual);
        CHECK(result.iterations == 62);
        CHECK(result.residual * result.residual == Approx(final_rsq[parity]).epsilon(2e-3));
        CHECK(relative_difference(result.x, on_parity(lattice, normal, parity)) < 2e-7);
    }
}
