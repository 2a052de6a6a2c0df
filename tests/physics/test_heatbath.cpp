// The generator of gauge fields: known plaquettes, the action that over-relaxation conserves, independence of the
// number of threads; and the command lines of the examples.
#include "tests/catch.h"
#include "tests/handles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <omp.h>

#include "examples/lib/arguments.h"
#include "examples/lib/heatbath.h"
#include "milc_glue/api/milcgpu_md.h"
#include "tests/handles.h"
#include "tests/ranks_support.h"
#include "tests/reference/gauge.h"
#include "tests/reference/su3.h"
#include "tests/support.h"

using namespace reference;
using tests::backends;
using tests::has;
using tests::last_error_says;
using tests::Session;
using tests::sized;
using tests::thrown_by;

namespace {

struct Measured {
    double mean, error;
};

// The mean and its error from ten bins, which are longer than the autocorrelation of the series.
Measured binned(const std::vector<double> &series) {
    constexpr std::size_t bins = 10;
    const std::size_t length = series.size() / bins;
    std::array<double, bins> means{};
    Measured result{0, 0};
    for (std::size_t bin = 0; bin < bins; bin++) {
        for (std::size_t i = 0; i < length; i++)
            means[bin] += series[bin * length + i] / double(length);
        result.mean += means[bin] / bins;
    }
    for (const double mean : means)
        result.error += (mean - result.mean) * (mean - result.mean) / (bins * (bins - 1));
    result.error = std::sqrt(result.error);
    return result;
}

Measured mean_plaquette(const Lattice &lattice, double beta, int discarded, int measured, int overrelax) {
    std::vector<double> series;
    examples::thermalized(lattice, beta, 2024, discarded + measured, overrelax,
                          [&](int sweep, const examples::LinkBox &box) {
                              if (sweep > discarded)
                                  series.push_back(plaquette(lattice, box.links));
                          });
    return binned(series);
}

struct ThreadCount {
    explicit ThreadCount(int count) : before(omp_get_max_threads()) { omp_set_num_threads(count); }
    ~ThreadCount() { omp_set_num_threads(before); }
    int before;
};

std::string argument_error(examples::Arguments &arguments, std::vector<const char *> words) {
    words.insert(words.begin(), "/somewhere/milcgpu-program");
    return thrown_by([&] { arguments.parse(int(words.size()), words.data()); });
}

} // namespace

TEST_CASE("heat bath gives the plaquette of the strong coupling expansion", "[heatbath]") {
    LONG_TEST;
    // To this order each plaquette is independent: <t> of t = Re tr U / 3 with weight exp(beta t) over SU(3). With <t>
    // = 0, <t^2> = 1/18, <t^3> = 1/108 at beta = 0, <t> = beta/18 + beta^2/216 and a term of order beta^4.
    const double beta = 1;
    const Measured plaquette = mean_plaquette({{4, 4, 4, 4}}, beta, 20, 1000, 0);
    INFO("plaquette " << plaquette.mean << " +- " << plaquette.error);
    CHECK(plaquette.error < 4e-4);
    CHECK(std::abs(plaquette.mean - (beta / 18 + beta * beta / 216)) < 4 * plaquette.error + 1e-4);
}

TEST_CASE("heat bath gives the plaquettes of beta 5.7 and 6.0 on 8^4", "[heatbath]") {
    for (const auto &[beta, expected] : sampled<std::pair<double, double>>({{5.7, 0.5491}, {6.0, 0.5937}}, 2)) {
        const Measured plaquette = mean_plaquette({{8, 8, 8, 8}}, beta, 20, 30, 2);
        INFO("beta " << beta << ": plaquette " << plaquette.mean << " +- " << plaquette.error);
        CHECK(plaquette.error < 1.2e-3);
        // The known values have four digits, and the finite size of this lattice changes as much.
        CHECK(std::abs(plaquette.mean - expected) < 4 * plaquette.error + 2e-4);
    }
}

TEST_CASE("over-relaxation moves the field and keeps the action", "[heatbath][smoke][sanitize]") {
    const Lattice lattice{{4, 2, 6, 4}};
    examples::LinkBox box(examples::layout_on_grid(lattice.n, {1, 1, 1, 1}, 0));
    examples::thermalize(box, 5.5, 3, 5, 1);
    const Gauge before = box.links, &links = box.links;
    examples::overrelax_sweep(box);
    CHECK(std::abs(plaquette(lattice, links) - plaquette(lattice, before)) < 1e-15);
    CHECK(relative_difference(links, before) > 0.1);
    double worst = 0;
    for (const auto &link : links) {
        const double off = frobenius_norm(link * adjoint(link) - identity()) + std::abs(det(link) - 1.0);
        worst = off <= worst || worst != worst ? worst : off; // keeps NaN
    }
    CHECK(worst < 2e-14);
}

namespace {

// MILC's random number generators, seeded: 15 words a site.
std::vector<uint32_t> generators(int sites, Rng &rng) {
    std::vector<uint32_t> words(15 * size_t(sites));
    const float scale = 1.f / 0x1000000;
    for (int site = 0; site < sites; site++) {
        uint32_t *const w = &words[15 * size_t(site)];
        for (int k = 0; k < 7; k++)
            w[k] = uint32_t(uniform(rng) * 0x1000000);
        w[7] = 100005 + 8 * site, w[9] = 12345;
        w[11] = uint32_t(uniform(rng) * 0x1000000), w[12] = uint32_t(uniform(rng) * 0x1000000);
        std::memcpy(&w[13], &scale, sizeof scale);
        w[14] = 40;
    }
    return words;
}

} // namespace

TEST_CASE("the library's over-relaxation keeps the action; its heat bath gives the plaquettes of the examples' one",
          "[heatbath][md]") {
    const Lattice lattice{{4, 4, 4, 4}};
    Rng rng(12);
    for (const double beta : {1.8, 5.7}) { // at 1.8 both algorithms that draw a number run
        const Measured expected = mean_plaquette(lattice, beta, 20, 100, 2);
        for (const milcgpu::Backend backend : backends()) {
            CAPTURE(name(backend), beta);
            Session<double> session(lattice, backend, 0, 0);
            const tests::GaugeHandle gauge(session.context, MILCGPU_DOUBLE);
            std::vector<double> links = links_to_milc<double>(lattice, near_unit_gauge(lattice, 0.3, 5));
            const milcgpu_field field = session.field(links);
            REQUIRE(milcgpu_gauge_load(gauge, &field, 0) == MILCGPU_OK);
            const auto measured = [&] {
                double space, time;
                REQUIRE(milcgpu_gauge_plaquettes(gauge, &space, &time) == MILCGPU_OK);
                return (space + time) / 6;
            };
            std::vector<uint32_t> drawn(lattice.volume());
            std::vector<double> series;
            for (int sweep = 0; sweep < 120; sweep++) {
                const std::vector<uint32_t> words = generators(lattice.volume(), rng);
                REQUIRE(milcgpu_gauge_heat_bath(gauge, beta, 1, words.data(), drawn.data()) == MILCGPU_OK);
                const double before = measured();
                REQUIRE(milcgpu_gauge_overrelax(gauge, 2) == MILCGPU_OK);
                if (std::abs(measured() - before) > 1e-13)
                    FAIL("the action changed");
                if (sweep >= 20)
                    series.push_back(before);
            }
            CHECK(*std::min_element(drawn.begin(), drawn.end()) >= 4 * 3 * 6);
            std::vector<uint32_t> words = generators(lattice.volume(), rng);
            for (const float factor : {0.0f, -1.0f, 1.0f, NAN}) {
                std::memcpy(&words[15 + 13], &factor, sizeof factor);
                std::fill(drawn.begin(), drawn.end(), 7);
                CHECK(milcgpu_gauge_heat_bath(gauge, beta, 1, words.data(), drawn.data()) == MILCGPU_BAD_ARGUMENT);
                CHECK(last_error_says("word 13 of the site x y z t = 2 0 0 0 "));
                CHECK(drawn[0] == 7);
            }
            words = generators(lattice.volume(), rng);
            for (const uint32_t lowest : {41u, 64u, 4000000000u}) {
                words[3 * 15 + 14] = lowest;
                CHECK(milcgpu_gauge_heat_bath(gauge, beta, 1, words.data(), drawn.data()) == MILCGPU_BAD_ARGUMENT);
                CHECK(last_error_says("word 14 of the site x y z t = 3 1 0 0 "));
                CHECK(drawn[0] == 7);
            }
            auto report = sized<milcgpu_reunitarize_report>();
            REQUIRE(milcgpu_gauge_reunitarize(gauge, 0, &report) == MILCGPU_OK);
            CHECK(report.largest_deviation < 1e-12);
            const Measured plaquette = binned(series);
            INFO("plaquette " << plaquette.mean << " +- " << plaquette.error << ", the examples' " << expected.mean
                              << " +- " << expected.error);
            CHECK(plaquette.error < 5e-3);
            CHECK(std::abs(plaquette.mean - expected.mean) < 4 * std::hypot(plaquette.error, expected.error));
            // Links with phases have another action.
            std::vector<double> turned = links_to_milc<double>(lattice, [&] {
                Gauge g = near_unit_gauge(lattice, 0.3, 5);
                apply_phases(lattice, g);
                return g;
            }());
            const milcgpu_field with_phases = session.field(turned);
            REQUIRE(milcgpu_gauge_load(gauge, &with_phases, 0) == MILCGPU_OK);
            CHECK(milcgpu_gauge_overrelax(gauge, 1) == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("phases"));
            // A link whose staples are zero has no action: over-relaxation and heat bath leave it.
            std::vector<double> zero(links.size(), 0.0);
            const milcgpu_field of_zeros = session.field(zero);
            REQUIRE(milcgpu_gauge_load(gauge, &of_zeros, -1) == MILCGPU_OK);
            CHECK(milcgpu_gauge_overrelax(gauge, 1) == MILCGPU_OK);
            words = generators(lattice.volume(), rng);
            CHECK(milcgpu_gauge_heat_bath(gauge, beta, 1, words.data(), drawn.data()) == MILCGPU_OK);
            zero[0] = 1;
            CHECK(milcgpu_gauge_save(gauge, &of_zeros) == MILCGPU_OK);
            CHECK(std::all_of(zero.begin(), zero.end(), [](double x) { return x == 0; }));
        }
    }
}

TEST_CASE("heat bath gives the plaquette of weak coupling", "[heatbath][smoke]") {
    // Equipartition of S = beta sum (1 - P): a site has 6 plaquettes and 8*4 Gaussian modes less 8 of gauge, each with
    // a mean action of 1/2. So 6 beta (1 - P) = 12.
    const Measured plaquette = mean_plaquette({{4, 4, 4, 4}}, 100, 20, 100, 1);
    INFO("plaquette " << plaquette.mean << " +- " << plaquette.error);
    CHECK(1 - plaquette.mean == Approx(2.0 / 100).epsilon(0.03));
}

TEST_CASE("the field of a heat bath depends on the seed, not on the number of threads or ranks", "[heatbath][smoke]") {
    const Lattice lattice{{4, 4, 2, 6}};
    const auto field = [&](int threads, std::uint64_t seed) {
        const ThreadCount scope(threads);
        return examples::thermalized(lattice, 6.0, seed, 3, 2);
    };
    const Gauge one = field(1, 9);
    CHECK(links_to_milc<double>(lattice, one) == links_to_milc<double>(lattice, field(3, 9)));
    CHECK(relative_difference(field(1, 10), one) > 0.1);
    // Boxes of odd extents, and a direction in which both neighbours are the same rank.
    const std::array<int, 4> grid{2, 1, 1, 2};
    const std::vector<double> whole = links_to_milc<double>(lattice, one);
    std::vector<int> wrong(4, 1);
    std::vector<double> sums(4);
    CHECK(tests::all_well(tests::on_ranks(4, [&](milcgpu::Ranks &ranks) {
        const milcgpu_layout layout = tests::layout_on_grid(lattice.n, grid, ranks.rank());
        examples::LinkBox box(layout, [&](const Gauge &out, Gauge &in, int, int from) {
            const auto all = ranks.gathered("links", out.data());
            std::copy_n(all[std::size_t(from)], in.size(), in.begin());
            ranks.gathered("links", 0); // before `out` is destroyed
        });
        examples::thermalize(box, 6.0, 9, 3, 2);
        std::vector<double> part;
        for (const std::size_t place : examples::places_of(layout))
            part.insert(part.end(), whole.begin() + 72 * place, whole.begin() + 72 * (place + 1));
        const auto plaquettes = box.plaquette_sums();
        sums[std::size_t(ranks.rank())] = plaquettes[0] + plaquettes[1];
        const bool same = box.own() == part;
        box.load(part);
        wrong[std::size_t(ranks.rank())] = !same || box.plaquette_sums() != plaquettes;
    })));
    CHECK(std::count(wrong.begin(), wrong.end(), 1) == 0);
    CHECK(std::abs((sums[0] + sums[1] + sums[2] + sums[3]) / (6 * lattice.volume()) - plaquette(lattice, one)) < 1e-15);
}

TEST_CASE("heat bath refuses odd extents", "[heatbath][smoke][sanitize]") {
    CHECK_THROWS_AS(examples::LinkBox(examples::layout_on_grid({4, 3, 4, 4}, {1, 1, 1, 1}, 0)), std::invalid_argument);
}

TEST_CASE("command lines have types and defaults, and bad ones are refused", "[arguments][smoke][sanitize]") {
    std::array<int, 4> size{1, 2, 3, 4};
    double mass = 0.5;
    std::uint64_t seed = 7;
    std::string out = "none";
    bool loud = false;
    examples::Arguments arguments("program", "does nothing");
    arguments.add("size", "X Y Z T", size, "extents");
    arguments.add("mass", "M", mass, "quark mass");
    arguments.add("seed", "S", seed, "seed");
    arguments.add("out", "FILE", out, "output");
    arguments.add("loud", "", loud, "print more");

    CHECK(argument_error(arguments, {}) == "");
    CHECK(mass == 0.5);
    CHECK(argument_error(arguments, {"--size", "8", "8", "6", "4", "--loud", "--mass", "1e-3", "--out", "a b"}) == "");
    CHECK(size == std::array<int, 4>{8, 8, 6, 4});
    CHECK(mass == 1e-3);
    CHECK(loud);
    CHECK(out == "a b");

    CHECK(argument_error(arguments, {"--mass=0.25", "--seed", "010"}) == "");
    CHECK(mass == 0.25);
    CHECK(seed == 10); // not octal
    CHECK(argument_error(arguments, {"--mass", "2", "--mass", "-3"}) == "");
    CHECK(mass == -3);

    CHECK(argument_error(arguments, {"--masss", "1"}) == "unknown option '--masss' (see milcgpu-program --help)");
    CHECK(argument_error(arguments, {"stray"}) == "unknown option 'stray' (see milcgpu-program --help)");
    CHECK(argument_error(arguments, {"--mass", "1x"}) == "--mass: '1x' must be a number");
    CHECK_FALSE(argument_error(arguments, {"--mass", ""}).empty());
    CHECK(argument_error(arguments, {"--mass"}) == "--mass: 1 required M missing (see milcgpu-program --help)");
    CHECK(argument_error(arguments, {"--size", "8", "8", "8"}) ==
          "--size: 4 required X Y Z T missing (see milcgpu-program --help)");
    CHECK_FALSE(argument_error(arguments, {"--size", "8", "8", "8", "4.5"}).empty());
    CHECK_FALSE(argument_error(arguments, {"--seed", "-1"}).empty());
    CHECK(has(arguments.help(), "--mass M"));
    CHECK(has(arguments.help(), "default 1 2 3 4"));
}
