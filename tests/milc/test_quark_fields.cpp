// Quark fields that stay on the device between routines: bytes over the bus, content that changes at the same address,
// flipped bits, short memory.
#include "gpu_kernels/machine/backend/host_threads.h"
#include "milc_glue/api/context.h"
#include "tests/mesons_support.h"
#include "tests/plugin_support.h"
#include <algorithm>

using namespace tests;

namespace {

// Contractions of two fields by the plugin: a local operator, a one-link operator, a momentum.
struct Contraction {
    Milc &milc;
    std::vector<double> links, correlators;
    explicit Contraction(Milc &of)
        : milc(of), links(reference::links_to_milc<double>(of.lattice, random_links(of.lattice, 401))) {}
    // Returns the bytes copied to the device; -1: the call was not done.
    long long run(std::vector<double> &left, std::vector<double> &right) {
        const milcgpu_momentum momenta[] = {{{0, 0, 0}, {2, 2, 2}}, {{1, 0, 1}, {3, 2, 1}}};
        const milcgpu_meson_term terms[] = {{128 + 4 * 17, 0, 0, 1, 0}, {128 + 15, 1, 1, 0.5, 1}};
        auto spec = sized<milcgpu_meson_spec>();
        spec.n_momenta = spec.n_terms = spec.n_correlators = 2;
        spec.momenta = momenta, spec.terms = terms;
        correlators.assign(2 * 2 * static_cast<size_t>(milc.lattice.n[3]), 0);
        const void *const none[2] = {nullptr, nullptr};
        uint64_t &moved = plugin().ledger[MILCGPU_MESON_CONT].to_device;
        const uint64_t before = moved;
        const int done = milcgpu_plugin_contract(links.data(), 1, none, none, &spec, Milc::field(left),
                                                 Milc::field(right), correlators.data());
        return done == 1 ? static_cast<long long>(moved - before) : -1;
    }
};

std::vector<double> field_of(const Milc &milc, unsigned long seed) {
    return reference::vector_to_milc<double>(milc.lattice, random_fermion(milc.lattice, seed));
}

// The correlators if every call loads its fields.
std::vector<double> loaded_anew(const reference::Lattice &lattice, const char *backend, std::vector<double> left,
                                std::vector<double> right) {
    const Environment environment{{"MILCGPU_BACKEND", backend}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "load"}};
    Milc milc(lattice);
    REQUIRE(milc.start() == 1);
    Contraction contraction(milc);
    REQUIRE(contraction.run(left, right) >= 0);
    return contraction.correlators;
}

} // namespace

TEST_CASE("quark fields: a content crosses the bus once from any address, and one flipped bit is another content",
          "[measurements][plugin][quark_fields]") {
    for (const Backend backend : backends())
        for (const reference::Lattice &lattice : {shapes[0], shapes[1]}) {
            const Environment environment{
                {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
            const auto expected = [&](const std::vector<double> &left, const std::vector<double> &right) {
                return loaded_anew(lattice, backend_name(backend), left, right);
            };
            const long long bytes = 48LL * lattice.volume();
            std::vector<double> last, a, b;
            {
                Milc milc(lattice);
                REQUIRE(milc.start() == 1);
                Contraction contraction(milc);
                a = field_of(milc, 402), b = field_of(milc, 403);
                CHECK(contraction.run(a, a) == bytes + 12 * bytes); // and the links
                CHECK(contraction.run(a, b) == bytes);
                CHECK(contraction.run(b, a) == 0);
                CHECK(contraction.run(b, b) == 0);
                std::vector<double> copy = a; // at another address
                CHECK(contraction.run(copy, b) == 0);
                // Freed, and another field at its address.
                const std::vector<double> other = field_of(milc, 404);
                std::copy(other.begin(), other.end(), copy.begin());
                CHECK(contraction.run(copy, b) == bytes);
                // Any one bit: the first, the last, one of a record in between.
                for (const size_t k : {size_t{0}, b.size() - 1, b.size() / 2 + 3}) {
                    uint64_t word;
                    std::memcpy(&word, &b[k], 8);
                    word ^= uint64_t{1} << (k % 52);
                    std::memcpy(&b[k], &word, 8);
                    CHECK(contraction.run(a, b) == bytes);
                }
                // Two reals swapped.
                std::swap(b[6], b[12]);
                CHECK(contraction.run(a, b) == bytes);
                // The next routine finds the results of an operator, a shift and a smearing.
                std::vector<double> made(a.size());
                const int origin[4] = {};
                for (const milcgpu_routine routine : {MILCGPU_SPIN_TASTE, MILCGPU_SHIFT_FIELD})
                    plugin().ledger[routine].to_device = 0;
                CHECK(milcgpu_plugin_spin_taste(contraction.links.data(), 1, nullptr, nullptr, 128 + 15, origin,
                                                Milc::field(a), Milc::field(made)) == 1);
                CHECK(plugin().ledger[MILCGPU_SPIN_TASTE].to_device == 0);
                CHECK(milcgpu_plugin_shift(contraction.links.data(), 1, MILCGPU_FORWARD, Milc::field(made),
                                           Milc::field(made)) == 1);
                CHECK(plugin().ledger[MILCGPU_SHIFT_FIELD].to_device == static_cast<uint64_t>(12 * bytes)); // links
                CHECK(milcgpu_plugin_gauss_smear(contraction.links.data(), 1.5, 3, -1, Milc::field(made)) == 1);
                CHECK(milcgpu_plugin_laplacian(contraction.links.data(), 1, Milc::field(copy)) == 1);
                CHECK(contraction.run(copy, made) == 0);
                const std::vector<double> finite = made;
                made[0] = NAN;
                const std::vector<double> before = made;
                said_by([&] {
                    CHECK(milcgpu_plugin_gauss_smear(contraction.links.data(), 1.5, 3, -1, Milc::field(made)) == 0);
                });
                CHECK(std::memcmp(made.data(), before.data(), made.size() * sizeof(double)) == 0);
                made = finite;
                last = contraction.correlators;
                a = copy, b = made;
            }
            CHECK(last == expected(a, b)); // the same bits
        }
}

TEST_CASE("quark fields: a contraction finds the source and the solution of a solve",
          "[measurements][plugin][quark_fields]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Contraction contraction(milc);
        std::vector<double> b = field_of(milc, 411), x(b.size(), 0.0), other = field_of(milc, 412);
        const milcgpu_field source = Milc::field(b), solution = Milc::field(x);
        REQUIRE(contraction.run(other, other) > 0);
        milcgpu_plugin_invert_call call{};
        call.solve = milc.call();
        call.solve.routine = MILCGPU_MAT_INVERT;
        call.odd_from_even = 1;
        call.n = 1;
        call.sources = &source, call.solutions = &solution;
        milcgpu_solve_report even, odd;
        const uint64_t field = 48u * milc.lattice.volume();
        RoutineAccount &account = plugin().ledger[MILCGPU_MAT_INVERT];
        for (const double mass : {0.4, 0.3}) {
            account = {};
            call.solve.mass = mass;
            REQUIRE(milcgpu_plugin_invert(&call, &even, &odd) == 1);
            // The guess on even sites, and the first time the source.
            const uint64_t expected = (mass == 0.4 ? field : 0) + field / 2;
            CHECK(account.to_device >= expected);
            CHECK(account.to_device < expected + field / 4);
            std::vector<double> copied = x; // as create_ksp_field_copy does
            CHECK(contraction.run(copied, b) == 0);
        }
    }
}

TEST_CASE("quark fields: a flipped bit, short memory and a lost device lead to reloads, not to wrong numbers",
          "[measurements][plugin][quark_fields][faults]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Contraction contraction(milc);
        std::vector<double> a = field_of(milc, 421), b = field_of(milc, 422);
        REQUIRE(contraction.run(a, b) > 0);
        const std::vector<double> right = contraction.correlators;
        const long long bytes = 48LL * milc.lattice.volume();

        // Flips bits of all device memory in turn until one of a field is hit.
        Device &device = *plugin().context->device;
        reference::Rng rng(423);
        bool met = false;
        for (int flips = 0; flips < 1000 && !met; ++flips) {
            const size_t bit =
                static_cast<size_t>(reference::uniform(rng) * 8.0 * static_cast<double>(device.used_bytes()));
            const std::string owner = device.flip_bit(bit);
            met = owner == "vectors";
            if (!met)
                device.flip_bit(bit); // back
        }
        REQUIRE(met);
        long long moved = -1;
        const std::string text = said_by([&] { moved = contraction.run(a, b); });
        CHECK(has(text, "no longer"));
        CHECK(moved == 2 * bytes + 12 * bytes); // fields and links are loaded again
        CHECK(contraction.correlators == right);

        // Memory for only some fields beside links and a solve: the oldest are dropped, and all calls succeed.
        VectorStore &store = plugin().vectors;
        const size_t rest = device.used_bytes() - store.copies() * bytes;
        device.set_memory_limit(rest + 64 * static_cast<size_t>(bytes));
        std::vector<std::vector<double>> many;
        for (int k = 0; k < 80; ++k)
            many.push_back(field_of(milc, 430 + k));
        for (auto &field : many) {
            const std::string said = said_by([&] { CHECK(contraction.run(field, field) == bytes); });
            CHECK(said.empty());
        }
        CHECK(store.copies() > 30);
        CHECK(store.copies() <= 64);
        CHECK(contraction.run(many.back(), many.back()) == 0);
        CHECK(contraction.run(many[0], many[0]) == bytes);
        const size_t before = store.copies();
        const std::string solved = said_by([&] { CHECK(milc.solve() == 1); });
        CHECK(solved.empty()); // no call failed
        CHECK(store.copies() + 24 < before);
        CHECK(milc.residual(milc.x, 0.4) < 1.01e-8);
        device.set_memory_limit(0);

        // The device is lost while one field is loaded and another is in use.
        for (int after = 0; after < 3; ++after) {
            if (milcgpu_plugin_active() == 0)
                said_by([&] { REQUIRE(milc.start() == 1); });
            REQUIRE(contraction.run(a, a) >= 0);
            std::vector<double> fresh = field_of(milc, 450 + after);
            plugin().context->device->inject(Fault::device_lost, after);
            const std::string lost = said_by([&] { CHECK(contraction.run(a, fresh) == -1); });
            CHECK(has(lost, "MILC runs on the CPU"));
            CHECK(milcgpu_plugin_active() == 0);
        }
    }
}

TEST_CASE("quark fields of a destroyed lattice are dropped", "[measurements][plugin][quark_fields]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "keep"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Contraction contraction(milc);
        auto spec = filled(milcgpu_asqtad_defaults, 0.9);
        spec.unitarity = -1;
        const std::vector<double> gauge = milc.fat;
        const auto links_of = [&](const std::vector<double> &lattice) {
            const double eps = 0;
            void *fat = milc.fat.data(), *lng = milc.lng.data();
            milcgpu_fatlink_report made{};
            REQUIRE(milcgpu_plugin_links({MILCGPU_LOAD_FN_LINKS, &spec, lattice.data(), 1, &eps, &fat, &lng, nullptr,
                                          nullptr, nullptr, 0},
                                         &made) == 1);
        };
        const Device &device = *plugin().context->device;
        const VectorStore &store = plugin().vectors;
        links_of(gauge);
        std::vector<double> a = field_of(milc, 461), b = field_of(milc, 462);
        REQUIRE(contraction.run(a, b) > 0);
        links_of(gauge); // made again from the same gauge field
        CHECK(store.copies() == 2);
        CHECK(contraction.run(a, b) == 0);
        const size_t full = device.used_bytes();
        links_of(contraction.links);
        CHECK(store.copies() == 0);
        CHECK(device.used_bytes() <= full - 2 * 48u * milc.lattice.volume());
        CHECK(contraction.run(a, b) == 2 * 48LL * milc.lattice.volume());
        CHECK(device.used_bytes() == full);
    }
}

TEST_CASE("quark fields: each routine loads them by itself if told so, and always on the host backend",
          "[measurements][plugin][quark_fields]") {
    for (const char *setting : {"load", "0"}) {
        const Environment environment{{"MILCGPU_BACKEND", "host"}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", setting}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        Contraction contraction(milc);
        std::vector<double> a = field_of(milc, 441);
        REQUIRE(contraction.run(a, a) > 0);
        CHECK(contraction.run(a, a) == 48LL * milc.lattice.volume());
        CHECK(plugin().vectors.copies() == 0);
    }
}

TEST_CASE("hash_bytes: every bit counts, for any number and order of threads", "[measurements][plugin][quark_fields]") {
    for (const size_t bytes :
         {size_t{24}, size_t{4096}, size_t{8 * 1539}, milcgpu::few_bytes + 24}) { // the last for a team of threads
        std::vector<uint64_t> words(bytes / 8);
        for (size_t k = 0; k < words.size(); ++k)
            words[k] = 0x123456789abcdefu * (k + 1);
        const uint64_t hash = milcgpu::hash_bytes(words.data(), bytes);
        std::vector<uint64_t> seen{hash};
        for (const size_t k : {size_t{0}, words.size() / 2, words.size() - 1})
            for (int bit = 0; bit < 64; bit += 9) {
                words[k] ^= uint64_t{1} << bit;
                seen.push_back(milcgpu::hash_bytes(words.data(), bytes));
                words[k] ^= uint64_t{1} << bit;
            }
        std::swap(words[0], words[1]);
        seen.push_back(milcgpu::hash_bytes(words.data(), bytes));
        std::swap(words[0], words[1]);
        CHECK(milcgpu::hash_bytes(words.data(), bytes) == hash);
        std::sort(seen.begin(), seen.end());
        CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
        for (int choice = 0; choice < thread_choices(Backend::host); ++choice) {
            const Threads threads(Backend::host, choice);
            CHECK(milcgpu::hash_bytes(words.data(), bytes) == hash);
        }
    }
}

namespace {

// Octets as MILC caches them, and a tie-up of three by the plugin.
struct HeldOctet {
    std::vector<std::vector<double>> fields;
    HeldOctet(const Milc &milc, unsigned long seed) {
        for (int k = 0; k < 24; ++k)
            fields.push_back(field_of(milc, seed + k));
    }
    ~HeldOctet() { milcgpu_plugin_drop_octet(this); }
    int hold() {
        const void *at[24];
        for (int k = 0; k < 24; ++k)
            at[k] = fields[k].data();
        return milcgpu_plugin_hold_octet(this, at);
    }
};
std::vector<double> tied(const Milc &milc, const HeldOctet &a, const HeldOctet &b, const HeldOctet &c) {
    const int op = milcgpu_gb_operator_index("16+ M1/2 42");
    const milcgpu_gb_term term{op, op, 0, 0, 1, 0, 1, 0};
    milcgpu_gb_spec spec;
    milcgpu_gb_defaults(&spec, sizeof spec);
    spec.n_terms = spec.n_correlators = 1, spec.terms = &term;
    const void *const octets[3] = {&a, &b, &c};
    std::vector<double> correlator(2 * milc.lattice.n[3]);
    return milcgpu_plugin_gb_baryon(&spec, octets, nullptr, correlator.data()) == 1 ? correlator
                                                                                    : std::vector<double>();
}

} // namespace

TEST_CASE("octets that MILC has cached leave the device if memory is short, and come back as they were",
          "[baryons][plugin][quark_fields][memory]") {
    for (const Backend backend : backends())
        for (const char *keeps : {"keep", "load"}) {
            CAPTURE(name(backend), keeps);
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_TEST", keeps}};
            std::vector<double> of_a, of_b, of_both;
            const auto run = [&](bool is_short) {
                Milc milc;
                REQUIRE(milc.start() == 1);
                Device &device = *plugin().context->device;
                HeldOctet a(milc, 501), b(milc, 601);
                const std::vector<double> first = a.fields[0];
                const size_t before = device.used_bytes();
                REQUIRE(a.hold() == 1);
                const size_t octet = device.used_bytes() - before;
                if (is_short)
                    device.set_memory_limit(before + octet + octet / 2);
                for (int k = 0; k < 12; ++k) // MILC's fields change; the caches do not
                    std::fill(a.fields[k].begin(), a.fields[k].end(), NAN);
                REQUIRE(b.hold() == 1);
                CHECK((device.used_bytes() < before + 2 * octet) == is_short);
                for (int k = 0; k < 2; ++k) {
                    const auto got_b = tied(milc, b, b, b), got_a = tied(milc, a, a, a);
                    REQUIRE(got_a.size() > 0);
                    if (!is_short)
                        of_a = got_a, of_b = got_b;
                    CHECK(got_a == of_a);
                    CHECK(got_b == of_b);
                }
                if (is_short)
                    CHECK(tied(milc, a, a, b).empty()); // both do not fit
                device.set_memory_limit(0);
                const auto got = tied(milc, a, a, b);
                if (!is_short)
                    of_both = got;
                CHECK(got == of_both);
                if (is_short) { // MILC's own routine gets what it needs from the copy
                    device.set_memory_limit(before + octet + octet / 2);
                    REQUIRE(tied(milc, b, b, b) == of_b);
                    std::vector<double> quark(milc.source.size());
                    CHECK(milcgpu_plugin_held_quark(&a, 0, nullptr) == 0);
                    CHECK(milcgpu_plugin_held_quark(&a, 0, quark.data()) == 2);
                    CHECK(quark == first);
                    CHECK(milcgpu_plugin_held_quark(&a, 0, nullptr) == 1);
                    const std::vector<double> last = a.fields[23];
                    std::fill(a.fields[23].begin(), a.fields[23].end(), NAN); // after the quark has left the device
                    CHECK(milcgpu_plugin_held_quark(&a, 23, quark.data()) == 2);
                    CHECK(quark == last);
                }
            };
            for (const bool is_short : {false, true})
                CHECK(has(said_by([&] { run(is_short); }), "do not fit") == is_short);
        }
}

TEST_CASE("a bit that flips in a cached octet: its quarks are loaded again, or their correlators are refused in words",
          "[baryons][plugin][quark_fields][faults]") {
    for (const Backend backend : backends()) {
        const Environment environment{
            {"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "0"}, {"MILCGPU_TEST", "load"}};
        Milc milc;
        REQUIRE(milc.start() == 1);
        HeldOctet octet(milc, 701);
        REQUIRE(octet.hold() == 1);
        const auto right = tied(milc, octet, octet, octet);
        REQUIRE(right.size() > 0);
        const auto tied_after_flip = [&](std::vector<double> &got) {
            Device &device = *plugin().context->device;
            size_t bit = 0; // of a quark: its vectors are the only ones
            while (device.flip_bit(bit) != "vectors") {
                device.flip_bit(bit); // back
                bit += 8 * 1024;
            }
            return said_by([&] { got = tied(milc, octet, octet, octet); });
        };
        std::vector<double> got;
        CHECK(has(tied_after_flip(got), "no longer what was put there"));
        CHECK(got == right);
        for (auto &field : octet.fields) // MILC's fields change
            field[0] += 1;
        const std::string said = tied_after_flip(got);
        CHECK(has(said, "a quark is no longer on the device, and MILC's field has changed since create_qk_oct_cache"));
        CHECK(got.empty());
    }
}
