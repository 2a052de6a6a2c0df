// A gauge field that several routines of a measurement use is loaded once (residency/kept_gauge.h).
#include "tests/mesons_support.h"
#include "tests/plugin_support.h"
#include "tests/reference/gauge_force.h"
#include "tests/reference/wilson.h"

using namespace tests;

namespace {

struct Measured {
    std::vector<double> sites, smeared, shifted, applied, again;
    std::vector<uint64_t> moved; // bytes to the device in gauge fields, and in all else
};

// Fixes the gauge of links in MILC's sites, smears a copy of them, applies a shift and Wilson's D with the results, and
// a shift after an edit.
Measured measured(const char *backend, const char *words) {
    const Environment environment{{"MILCGPU_BACKEND", backend}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", words}};
    const reference::Lattice lattice{{4, 4, 4, 4}};
    Milc milc(lattice);
    REQUIRE(milc.start() == 1);
    plugin().ledger = {}; // of other tests in this process
    constexpr size_t reals = 72, pitch = 80;
    const std::vector<double> gauge =
        reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.35, 71));
    Measured m;
    m.sites.assign(pitch * lattice.volume(), 7.0);
    const auto row = [&](std::vector<double> &of, size_t from, size_t k) { return of.begin() + from * k; };
    for (size_t k = 0; k < size_t(lattice.volume()); ++k)
        std::copy_n(gauge.begin() + reals * k, reals, row(m.sites, pitch, k));
    const auto count = [&](milcgpu_routine routine, int done) {
        REQUIRE(done == 1);
        m.moved.push_back(std::exchange(plugin().ledger[routine].to_device, 0));
    };
    auto fix = filled(milcgpu_gauge_fix_defaults);
    fix.most_steps = 3;
    fix.signs = MILCGPU_SIGNS_OUT;
    milcgpu_gauge_fix_report report{};
    const milcgpu_field in_sites{m.sites.data(), MILCGPU_DOUBLE, pitch * sizeof(double)};
    count(MILCGPU_GAUGE_FIX, milcgpu_plugin_gauge_fix(in_sites, &fix, &report));
    std::vector<double> copied(gauge.size()), quark(6 * size_t(lattice.volume()), 0.5);
    for (size_t k = 0; k < size_t(lattice.volume()); ++k)
        std::copy_n(row(m.sites, pitch, k), reals, row(copied, reals, k));
    auto ape = filled(milcgpu_ape_defaults);
    ape.weight = 0.4;
    ape.times = 2;
    ape.signs = MILCGPU_SIGNS_OUT;
    m.smeared.assign(gauge.size(), 0.0);
    m.shifted.assign(quark.size(), 0.0);
    m.again = m.shifted;
    uint64_t failed = 0;
    count(MILCGPU_APE_SMEAR, milcgpu_plugin_ape_smear(Milc::field(copied), &ape, Milc::field(m.smeared), &failed));
    count(MILCGPU_SHIFT_FIELD,
          milcgpu_plugin_shift(m.smeared.data(), 1, MILCGPU_FORWARD, Milc::field(quark), Milc::field(m.shifted)));
    std::vector<double> psi = reference::field_to_milc<double>(lattice, reference::random_wilson_field(lattice, 3), 1);
    m.applied.assign(psi.size(), 0.0);
    count(MILCGPU_WILSON_DSLASH, milcgpu_plugin_wilson_dslash(Milc::field(m.smeared), 1, MILCGPU_EVEN_AND_ODD,
                                                              Milc::field(psi), Milc::field(m.applied)));
    m.smeared[72 + 18 + 4] += 0.5; // a link in the direction of the shift
    count(MILCGPU_SHIFT_FIELD,
          milcgpu_plugin_shift(m.smeared.data(), 1, MILCGPU_FORWARD, Milc::field(quark), Milc::field(m.again)));
    return m;
}

} // namespace

TEST_CASE("a gauge field is loaded once for gauge fixing, smearing and all readers", "[measurements][plugin][mirror]") {
    for (const Backend backend : backends()) {
        const Measured kept = measured(backend_name(backend), "keep"), loaded = measured(backend_name(backend), "load");
        constexpr uint64_t field = 576 * 256;
        CHECK((kept.sites == loaded.sites));
        CHECK((kept.smeared == loaded.smeared));
        CHECK((kept.shifted == loaded.shifted));
        CHECK((kept.applied == loaded.applied));
        CHECK((kept.again == loaded.again));
        CHECK((kept.again != kept.shifted));
        const std::vector<uint64_t> saved{0, field, field, field};
        for (size_t k = 0; k < saved.size(); ++k)
            CHECK(kept.moved[k] + saved[k] == loaded.moved[k]);
        CHECK(kept.moved[0] == field);
        CHECK(kept.moved[1] == 0);
        CHECK(kept.moved[4] >= field); // an edited field is loaded again
    }
}
