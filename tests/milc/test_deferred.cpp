// The table of deferred values (milc_glue/residency/deferred.h): by hand, and against a model by random steps.
#include "milc_glue/residency/deferred.h"
#include "tests/plugin_support.h"
#include <set>

using namespace tests;

namespace {

// Values are names; `text` records what was made and dropped, in order.
struct Table {
    DeferredValues values;
    std::string text;
    std::map<std::string, char> fields; // the address of a name is the field's address
    const void *at(const std::string &name) { return &fields.try_emplace(name).first->second; }
    std::string name_of(const void *field) const {
        for (const auto &[name, byte] : fields)
            if (&byte == field)
                return name;
        return "?";
    }
    void defer(
        const std::vector<std::string> &names, const std::vector<std::string> &inputs,
        const std::function<void()> &also = [] {}, int kind = MILCGPU_FERMION_LINKS) {
        const auto maker = std::make_shared<DeferredValues::Maker>();
        maker->make = [this, names, also](const DeferredValues::Value &) {
            also();
            for (const std::string &name : names)
                text += name + " ";
        };
        maker->drop = [this](const void *field) { text += "-" + name_of(field) + " "; };
        maker->end = [this] { text += ". "; };
        std::vector<const void *> of;
        std::vector<DeferredValues::Input> made_of;
        for (const std::string &name : names)
            of.push_back(at(name));
        for (const std::string &name : inputs)
            made_of.push_back({at(name), 0});
        values.add(kind, of, made_of, maker);
    }
    std::string said() { return std::exchange(text, {}); }
};

} // namespace

TEST_CASE("deferred: a change of an input makes each value that depends on it, once, before the change", "[deferred]") {
    Table t;
    t.defer({"a", "b"}, {"gauge"});
    t.defer({"sum"}, {"a", "b"}, [&] { t.values.hand_out(MILCGPU_FERMION_LINKS, t.at("a")); });
    CHECK(t.values.hand_out(MILCGPU_FERMION_LINKS, t.at("a"))); // the sum, which needs a and so b, comes first
    CHECK(t.said() == "a b . sum . ");
    CHECK(t.values.empty());
    CHECK_FALSE(t.values.before_change(t.at("gauge")));
    t.defer({"a", "b"}, {"gauge"});
    t.defer(
        {"copy"}, {"gauge"}, [] {}, MILCGPU_GAUGE_COPY);
    t.defer({"other"}, {"elsewhere"});
    CHECK(t.values.before_change(t.at("gauge")));
    CHECK(t.said() == "a b . copy . ");
    CHECK(t.values.fulfil(MILCGPU_FERMION_LINKS));
    CHECK(t.said() == "other . ");
}

TEST_CASE("deferred: a value that is deferred again each time it is made is an error, not an endless loop",
          "[deferred]") {
    Table t;
    std::function<void()> again = [&] { t.defer({"a"}, {}, again); };
    again();
    CHECK_THROWS_AS(t.values.fulfil(MILCGPU_FERMION_LINKS), milcgpu::Error);
    t.values.drop(MILCGPU_FERMION_LINKS, t.at("a"));
    CHECK_FALSE(t.values.fulfil(MILCGPU_FERMION_LINKS));
}

TEST_CASE("deferred: what MILC frees is not made; values of the same maker and others are", "[deferred]") {
    Table t;
    t.defer({"a", "b"}, {});
    t.defer({"c"}, {});
    t.values.drop(MILCGPU_FERMION_LINKS, t.at("a"));
    CHECK(t.said() == "-a ");
    CHECK(t.values.find(MILCGPU_FERMION_LINKS, t.at("a")) == nullptr);
    CHECK(t.values.find(MILCGPU_FERMION_LINKS, t.at("b")) != nullptr);
    CHECK_FALSE(t.values.fulfil(MILCGPU_FERMION_LINKS, t.at("a")));
    t.values.drop(MILCGPU_FERMION_LINKS, t.at("b"));
    CHECK(t.said() == "-b . "); // the maker is dropped with the last of its fields
    t.defer({"c"}, {});         // another value at the same address
    CHECK(t.said() == ". ");
    t.defer(
        {"c"}, {}, [] {}, MILCGPU_ZEROS); // another kind: both kinds are dropped
    CHECK(t.values.fulfil(DeferredValues::any_kind, t.at("c")));
    CHECK(t.said() == "c . c . ");
    t.defer(
        {"vector"}, {}, [] {}, MILCGPU_EIGENVECTORS); // MILC has freed it without a word, and links are there
    CHECK_FALSE(t.values.hand_out(MILCGPU_FERMION_LINKS, t.at("vector")));
    CHECK(t.said().empty());
    t.values.drop(MILCGPU_EIGENVECTORS);
    CHECK(t.said() == "-vector . ");
}

TEST_CASE("deferred: filling a field is no change of it, and a value without a maker waits for its owner",
          "[deferred]") {
    Table t;
    t.defer({"a"}, {}, [&] { CHECK_FALSE(t.values.before_change(t.at("a"))); });
    t.defer({"sum"}, {"a"});
    CHECK(t.values.fulfil(MILCGPU_FERMION_LINKS, t.at("a")));
    CHECK(t.said() == "a . ");
    t.values.add({MILCGPU_FERMION_LINKS, {t.at("by hand")}, {{t.at("a"), 0}}});
    CHECK(t.values.before_change(t.at("a")));
    CHECK(t.said() == "sum . ");
    CHECK_FALSE(t.values.fulfil(MILCGPU_FERMION_LINKS));
    t.values.drop_without_maker();
    CHECK(t.values.empty());
}

TEST_CASE("deferred: after random steps each field that is read has the value at the time of its request",
          "[deferred]") {
    reference::Rng rng{17};
    constexpr int fields = 6;
    for (int sequence = 0; sequence < 300; ++sequence) {
        DeferredValues table;
        std::array<long, fields> there{}, wanted{}; // the fields' contents, and the contents that MILC must see
        const auto at = [&](int k) { return static_cast<const void *>(&there[k]); };
        for (int step = 0; step < 40; ++step) {
            const int k = static_cast<int>(rng() % fields), a = static_cast<int>(rng() % fields),
                      b = static_cast<int>(rng() % fields);
            switch (rng() % 4) {
            case 0: // written in place
                table.hand_out(MILCGPU_FERMION_LINKS, at(k));
                there[k] = wanted[k] = static_cast<long>(rng() % 1000);
                break;
            case 1: // read
                table.fulfil(DeferredValues::any_kind, at(k));
                CHECK(there[k] == wanted[k]);
                break;
            case 2: // freed, and another field at its address
                table.before_change(at(k));
                table.drop(DeferredValues::any_kind, at(k));
                there[k] = wanted[k] = -step;
                break;
            default: { // a sum of two others, deferred
                if (k == a || k == b)
                    break;
                table.before_change(at(k));
                const auto maker = std::make_shared<DeferredValues::Maker>();
                maker->make = [&, k, a, b](const DeferredValues::Value &) {
                    for (const int part : {a, b})
                        table.fulfil(DeferredValues::any_kind, at(part));
                    there[k] = there[a] + there[b];
                };
                table.drop(DeferredValues::any_kind, at(k));
                wanted[k] = wanted[a] + wanted[b];
                there[k] = -1000;
                table.add(MILCGPU_FERMION_LINKS, {at(k)}, {{at(a), 0}, {at(b), 0}}, maker);
            }
            }
        }
        table.fulfil(DeferredValues::any_kind);
        CHECK(there == wanted);
    }
}

TEST_CASE("deferred: a write to the gauge field makes its deferred links without a notice from the glue",
          "[deferred][plugin]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc(reference::Lattice{{2, 2, 2, 4}});
        REQUIRE(milc.start() == 1);
        std::vector<double> momenta(static_cast<size_t>(40) * milc.lattice.volume(), 0.0), gauge = milc.fat;
        for (size_t k = 0; k < gauge.size(); ++k) // unit links
            gauge[k] = k % 18 == 0 || k % 18 == 8 || k % 18 == 16 ? 1 : 0;
        const milcgpu_plugin_lattice sites{Milc::field(gauge), Milc::field(momenta)};
        static int made, held;
        made = held = 0;
        const void *const field = milc.fat.data(), *const gauge_field = nullptr;
        const auto defer = [&] {
            const milcgpu_plugin_deferral links = {MILCGPU_FERMION_LINKS,
                                                   1,
                                                   1,
                                                   &field,
                                                   &gauge_field,
                                                   [](void *, void *) {
                                                       ++made;
                                                       held += milcgpu_plugin_inputs_hold();
                                                   },
                                                   nullptr,
                                                   nullptr};
            REQUIRE(milcgpu_plugin_defer(&links) == 1);
        };
        REQUIRE(milcgpu_plugin_load_links(&sites) == 1);
        defer();
        REQUIRE(milcgpu_plugin_plaquettes(&sites, &momenta[0], &momenta[1]) == 1); // reads the links
        momenta.assign(momenta.size(), 0.0);
        CHECK(made == 0);
        REQUIRE(milcgpu_plugin_update_links(&sites, 0.1, 6) == 1);
        CHECK(made == 1);
        defer();
        milcgpu_plugin_host_writes(MILCGPU_MOMENTA);
        CHECK(made == 1);
        milcgpu_plugin_host_writes(MILCGPU_LINKS);
        CHECK(made == 2);
        CHECK(held == 2);
        // Several fields of one maker: each of them makes all.
        const void *const two[2] = {milc.fat.data(), milc.lng.data()};
        const milcgpu_plugin_deferral both = {MILCGPU_FERMION_LINKS,          2,       0,      two, nullptr,
                                              [](void *, void *) { ++made; }, nullptr, nullptr};
        REQUIRE(milcgpu_plugin_defer(&both) == 1);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_FERMION_LINKS, two[0]) == 1);
        CHECK(milcgpu_plugin_hand_out(MILCGPU_FERMION_LINKS, two[1]) == 1);
        CHECK(made == 3);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_FERMION_LINKS, two[0]) == 0);
        // A value is lost: MILC must not read its field.
        static milcgpu_plugin_deferral again{};
        again = {MILCGPU_BACKWARD_LINKS,
                 1,
                 0,
                 two,
                 nullptr,
                 [](void *, void *) { milcgpu_plugin_defer(&again); },
                 nullptr,
                 nullptr};
        REQUIRE(milcgpu_plugin_defer(&again) == 1);
        CHECK(milcgpu_plugin_fulfil(MILCGPU_BACKWARD_LINKS, two[0]) == -1);
        milcgpu_plugin_drop_deferred(MILCGPU_BACKWARD_LINKS, two[0]);
        CHECK(milcgpu_plugin_fulfil(MILCGPU_BACKWARD_LINKS, two[0]) == 0);
        // No notice: the mirror sees the change, and the value is made.
        REQUIRE(milcgpu_plugin_host_needs(MILCGPU_LINKS, "a test") == 1);
        defer();
        gauge[72 + 1] += 1e-9;
        REQUIRE(milcgpu_plugin_load_links(&sites) == 1);
        CHECK(milcgpu_plugin_fulfil(MILCGPU_FERMION_LINKS, nullptr) == 1);
        CHECK(made == 4);
        CHECK(held == 2);
    }
}

TEST_CASE("deferred: a solution on the device is known for its own source, and for no other", "[deferred][plugin]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "nan"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Masses masses(milc, {0.3, 0.5}, 1e-9);
        milcgpu_plugin_vectors_begin(2, 0);
        const milcgpu_plugin_multi_mass_call all = masses.call();
        REQUIRE(milcgpu_plugin_multi_mass(&all, masses.shifts.data(), &masses.report) == 1);
        CHECK(std::isnan(masses.x[0][0]));
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[0].data()) == 1);
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.3;
        call.solution = masses.fields[0];
        const long &known = plugin().ledger[MILCGPU_KS_CONGRAD].known;
        const long before = known;
        REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
        CHECK(known == before + 1);
        milc.source[0] += 0.5; // in place, without a notice
        REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
        CHECK(known == before + 1);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[0].data()) == 0);
        CHECK(std::isfinite(masses.x[0][0]));
        // D there and back: what the device has now is no solution.
        milc.b = reference::vector_from_milc<double>(milc.lattice, milc.source);
        REQUIRE(milcgpu_plugin_multi_mass(&all, masses.shifts.data(), &masses.report) == 1);
        for (const int parity : {MILCGPU_ODD, MILCGPU_EVEN})
            REQUIRE(milcgpu_plugin_dslash(milc.fat.data(), milc.lng.data(), parity, call.solution, call.solution) == 1);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[0].data()) == 1);
        REQUIRE(milcgpu_plugin_solve(&call, &milc.report) == 1);
        CHECK(known == before + 1);
        CHECK(milc.residual(masses.x[0], call.mass) < 1.01 * call.tolerance);
        CHECK(milcgpu_plugin_vectors_end() == 0);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[1].data()) == 0);
    }
}

TEST_CASE("deferred: if memory is short, memory for solutions makes room for the gauge field's copy and for links",
          "[deferred][plugin]") {
    constexpr int most = 150; // solutions: 7200 bytes per site
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Device &device = *plugin().context->device;
        Masses masses(milc, {0.3, 0.5}, 1e-9);
        const auto solve_by_device = [&] {
            milcgpu_plugin_vectors_begin(most, 0);
            REQUIRE(masses.solve() == 1);
        };
        std::vector<double> momenta(static_cast<size_t>(40) * milc.lattice.volume(), 0.0), gauge = milc.fat;
        const milcgpu_plugin_lattice sites{Milc::field(gauge), Milc::field(momenta)};
        REQUIRE(milcgpu_plugin_update_links(&sites, 0.1, 6) == 1);
        solve_by_device();
        REQUIRE(milcgpu_plugin_vectors_end() == 0); // its memory stays
        plugin().links->drop_all();
        device.set_memory_limit(device.used_bytes() + 4096);
        CHECK(milcgpu_plugin_host_needs(MILCGPU_LINKS, "a test") == 1);
        device.set_memory_limit(0);
        solve_by_device();
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[0].data()) == 1);
        REQUIRE(milcgpu_plugin_vectors_need() == 1);
        CHECK(masses.worst_residual() < 1.01e-9);
        // Room for the solutions or the links, not for both.
        plugin().links->drop_all();
        plugin().vectors.free_deferred();
        device.set_memory_limit(device.used_bytes() + static_cast<size_t>(8000) * milc.lattice.volume());
        const long failed = plugin().ledger[MILCGPU_KS_MULTICG].failed;
        solve_by_device();
        device.set_memory_limit(0);
        CHECK(plugin().ledger[MILCGPU_KS_MULTICG].failed == failed);
        CHECK(milcgpu_plugin_is_deferred(MILCGPU_SOLUTIONS, masses.x[0].data()) == 0);
        CHECK(masses.worst_residual() < 1.01e-9);
        REQUIRE(milcgpu_plugin_vectors_end() == 0);
    }
}
