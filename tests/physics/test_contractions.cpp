// Contractions through the C interface; fields on the device, links that change, and what contractions, shifts,
// operators and smearing refuse.
#include "milc_glue/links/links_handle.h"
#include "milc_glue/measure/meson_links_handle.h"
#include "milc_glue/residency/meson_links.h"
#include "tests/mesons_support.h"
#include <utility>

using namespace tests;

TEST_CASE("contractions are direct sums, for every kind of operator, parity letter and momentum",
          "[measurements][sanitize]") {
    const std::vector<Sink> sinks = {
        {"G5-G5", 'g', 0, false},    {"GX-GX", 'g', 0, false},   {"G1-G1", 'g', 0, false},
        {"GYT-GYT", 'g', 0, false},  {"G5-G5Z", 'g', 0, false},  {"G1-GXY", 'g', 0, false},
        {"GT-G5", 'g', 0, false},    {"rhotsfn", 'p', 3, true},  {"rhoxsape", 'p', 0, false},
        {"rhoysffn", 'f', 1, true},  {"rhozsbfn", 'b', 2, true}, {"rhotsfape", 'f', 3, false},
        {"rhotsbape", 'b', 3, false}};
    const auto check = [&](Backend backend, const Lattice &lattice, int n, auto real) {
        using Real = decltype(real);
        Measurement<Real> m(lattice, backend, links_for(lattice, 40));
        const Gauge fat = with_fat_links(m.session, 41);
        const Origin origin = {1, 0, 1, 1};
        const Correlators c(origin, sinks);
        std::vector<Fermion> a, b;
        for (int k = 0; k < n; ++k) {
            a.push_back(m.rounded(random_fermion(lattice, 42 + k)));
            b.push_back(m.rounded(random_fermion(lattice, 52 + k)));
        }
        const auto wanted = c.wanted(lattice, reference::phased_links(lattice, m.u, origin, true), fat, a, b);
        CAPTURE(name(backend), sizeof(Real), n, lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]);
        CHECK(correlators_apart(m.contract(c.spec, a, b, m.session.links), wanted, a, b) <=
              times_measured * (sizeof(Real) == 8 ? 8e-17 : 2.6e-9));
    };
    for (const Backend backend : backends()) {
        for (const Lattice &lattice : shapes)
            check(backend, lattice, 1, 0.0);
        check(backend, small, 4, 0.0);
        check(backend, small, 1, 0.0f);
    }
}

TEST_CASE("pion5 without momentum is the norm of each slice", "[measurements]") {
    for (const Backend backend : backends()) {
        Measurement<double> m(small, backend, links_for(small, 60));
        const std::vector<Fermion> psi = {random_fermion(small, 61), random_fermion(small, 62)};
        const milcgpu_momentum none = {{0, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
        const milcgpu_meson_term term = {milcgpu_spin_taste_index("pion5"), 0, 0, 1, 0};
        const milcgpu_meson_spec spec = {sizeof spec, {1, 2, 3, 4}, 1, 1, 1, &none, &term};
        const auto got = m.contract(spec, psi, psi);
        std::vector<double> norms(small.n[3]);
        for (const auto &field : psi)
            for (int site = 0; site < small.volume(); ++site)
                norms[small.coordinates(site)[3]] += reference::norm2(field[site]);
        for (int t = 0; t < small.n[3]; ++t) {
            CHECK(std::abs(got[t] - norms[t]) <= times_measured * 5e-16 * norms[t]);
            CHECK(std::abs(got[t].imag()) <= times_measured * 3e-18 * norms[t]);
        }
    }
}

TEST_CASE("contractions have the same bits for any launch shape", "[measurements]") {
    const Lattice lattice{{4, 8, 4, 8}};
    const Gauge u = links_for(lattice, 70);
    const std::vector<Fermion> a = {random_fermion(lattice, 71), random_fermion(lattice, 72)},
                               b = {random_fermion(lattice, 73), random_fermion(lattice, 74)};
    const Correlators c({0, 1, 0, 0}, {{"GX-GX", 'g', 0, false}, {"G1-G5", 'g', 0, false}});
    for (const Backend backend : backends()) {
        std::vector<std::vector<double>> shifted;
        std::vector<std::vector<reference::Complex>> sums;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            Measurement<double> m(lattice, backend, u, true, threads.block);
            sums.push_back(m.contract(c.spec, a, b));
            shifted.push_back(m.apply(a, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
                return milcgpu_quarks_spin_taste(m.links, nullptr, milcgpu_spin_taste_index("GZ-GT"), c.origin.data(),
                                                 n, from, to);
            })[1]);
            CHECK(shifted.back() == shifted.front());
            CHECK(sums.back() == sums.front());
        }
    }
}

TEST_CASE("contractions of vectors on the device have the bits of host fields", "[measurements][sanitize]") {
    const Lattice lattice{{4, 4, 6, 2}};
    for (const Backend backend : backends()) {
        Measurement<double> m(lattice, backend, links_for(lattice, 80));
        std::vector<Fermion> fields;
        Resident r(m.session.context, 5), other(m.session.context, 3);
        for (int k = 0; k < 5; ++k) {
            fields.push_back(random_fermion(lattice, 81 + k));
            r.load(k, reference::vector_to_milc<double>(lattice, fields[k]));
        }
        const int index = milcgpu_spin_taste_index("GX-GZ");
        const auto op = [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_spin_taste(m.links, nullptr, index, origins[1].data(), n, from, to);
        };
        const Origin origin = {1, 0, 3, 1};
        const auto at_origin = [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_spin_taste(m.links, nullptr, index, origin.data(), n, from, to);
        };
        const auto quarks = r.from(1), elsewhere = other.from(0), overlapping = r.from(2);
        CHECK(op(3, &quarks, &elsewhere) == MILCGPU_BAD_ARGUMENT); // t 5 is outside
        const auto wanted = m.apply({fields[1], fields[2], fields[3]}, at_origin);
        const size_t size = wanted[0].size();
        m.must(at_origin(3, &quarks, &elsewhere));
        for (int k = 0; k < 3; ++k)
            CHECK(other.saved(k, size) == wanted[k]);
        m.must(at_origin(3, &quarks, &overlapping)); // vectors 2 to 4 become O of 1 to 3
        for (int k = 0; k < 3; ++k)
            CHECK(r.saved(2 + k, size) == wanted[k]);
        CHECK(r.saved(1, size) == reference::vector_to_milc<double>(lattice, fields[1]));
        for (const int steps : {2, 3}) {
            r.load(0, reference::vector_to_milc<double>(lattice, fields[0]));
            const auto first = r.from(0);
            m.must(milcgpu_quarks_gauss_smear(m.links, 2, 1.5, steps, 1, 1, &first));
            CHECK(r.saved(0, size) == reference::vector_to_milc<double>(lattice, m.smear(2, 1.5, steps, 1, fields[0])));
        }
        m.must(milcgpu_quarks_laplacian(m.links, 2, -1, 1, &quarks));
        CHECK(r.saved(1, size) == reference::vector_to_milc<double>(lattice, m.laplacian(2, -1, fields[1])));
        const Correlators c({0, 0, 1, 0}, {{"GX-GX", 'g', 0, false}, {"GX-G1", 'g', 0, false}});
        for (int k = 0; k < 5; ++k)
            r.load(k, reference::vector_to_milc<double>(lattice, fields[k]));
        std::vector<reference::Complex> sums(size_t(c.spec.n_correlators) * lattice.n[3], {0.5, -2});
        const auto left = r.from(0), right = r.from(2);
        m.must(milcgpu_quarks_contract(m.links, &c.spec, nullptr, nullptr, 2, &left, &right,
                                       reinterpret_cast<double *>(sums.data())));
        for (auto &z : sums)
            z -= reference::Complex(0.5, -2);
        CHECK(sums == m.contract(c.spec, {fields[0], fields[1]}, {fields[2], fields[3]}));
    }
}

TEST_CASE("links with phases and boundary sign give the numbers of links without", "[measurements]") {
    for (const Backend backend : backends()) {
        const Gauge u = links_for(small, 90);
        Measurement<double> m(small, backend, u);
        const Fermion psi = random_fermion(small, 91);
        const int index = milcgpu_spin_taste_index("GXT-G5");
        const Fermion wanted = m.spin_taste(index, origins[0], psi), bare = m.shift(2, MILCGPU_FORWARD, nullptr, psi);
        for (const Origin &origin : origins) {
            auto host = reference::links_to_milc<double>(small, reference::phased_links(small, u, origin, true));
            const milcgpu_field field = Session<double>::field(host);
            const milcgpu_meson_links_spec spec{
                sizeof spec, 1, MILCGPU_SIGNS_IN, {origin[0], origin[1], origin[2], origin[3]}};
            m.must(milcgpu_meson_links_load(m.links, &spec, &field));
            CHECK(reference::relative_difference(m.spin_taste(index, origins[0], psi), wanted) == 0);
            CHECK(reference::relative_difference(m.shift(2, MILCGPU_FORWARD, nullptr, psi), bare) == 0);
        }
    }
}

TEST_CASE("new links replace the old ones and their products", "[measurements]") {
    Measurement<double> m(small, Backend::host, links_for(small, 92));
    const Fermion psi = random_fermion(small, 93);
    const int index = milcgpu_spin_taste_index("G1-GXY");
    m.spin_taste(index, origins[0], psi);
    m.smear(2, 1, 1, -1, psi);
    m.must(m.load(links_for(small, 94), false));
    Measurement<double> fresh(small, Backend::host, links_for(small, 94), false);
    CHECK(reference::relative_difference(m.spin_taste(index, origins[0], psi),
                                         fresh.spin_taste(index, origins[0], psi)) == 0);
    CHECK(reference::relative_difference(m.smear(2, 1, 1, -1, psi), fresh.smear(2, 1, 1, -1, psi)) == 0);
}

TEST_CASE("local operators and their contractions need no links, all others do", "[measurements]") {
    const Fermion a = random_fermion(small, 98), b = random_fermion(small, 99);
    Correlators c({1, 0, 3, 5}, {{"G5-G5", 'g', 0, false}, {"GYT-GYT", 'g', 0, false}, {"G1-G1", 'g', 0, false}});
    for (const Backend backend : backends()) {
        Measurement<double> m(small, backend, links_for(small, 95));
        const auto with_links = m.contract(c.spec, {a}, {b});
        const Fermion local = m.spin_taste(milcgpu_spin_taste_index("GX-GX"), c.origin, a);
        milcgpu_meson_links *const loaded = m.links;
        m.must(milcgpu_meson_links_create(m.session.context, MILCGPU_DOUBLE, &m.links));
        CHECK(m.contract(c.spec, {a}, {b}) == with_links);
        CHECK(reference::relative_difference(m.spin_taste(milcgpu_spin_taste_index("GX-GX"), c.origin, a), local) == 0);
        auto host = reference::vector_to_milc<double>(small, a);
        const milcgpu_field field = Session<double>::field(host);
        const milcgpu_quarks quarks{&field, nullptr, 0};
        const auto refused = [](milcgpu_status status) {
            CHECK(status == MILCGPU_BAD_ARGUMENT);
            CHECK(last_error_says("load "));
        };
        const int *const origin = c.origin.data();
        refused(milcgpu_quarks_spin_taste(m.links, nullptr, milcgpu_spin_taste_index("GX-G1"), origin, 1, &quarks,
                                          &quarks));
        refused(milcgpu_quarks_shift(m.links, 0, 0, origin, 1, &quarks, &quarks));
        refused(milcgpu_quarks_gauss_smear(m.links, 2, 1, 1, -1, 1, &quarks));
        refused(milcgpu_quarks_laplacian(m.links, 1, -1, 1, &quarks));
        c.terms[3].spin_taste = milcgpu_spin_taste_index("GX-G1");
        std::vector<double> sums(2 * size_t(c.spec.n_correlators) * small.n[3], 3);
        refused(milcgpu_quarks_contract(m.links, &c.spec, nullptr, nullptr, 1, &quarks, &quarks, sums.data()));
        CHECK(sums == std::vector<double>(sums.size(), 3));
        c.terms[3].spin_taste = c.terms[2].spin_taste;
        milcgpu_meson_links_destroy(std::exchange(m.links, loaded));
    }
}

TEST_CASE("measurements refuse bad input by name and leave outputs untouched", "[measurements][sanitize]") {
    for (const Backend backend : backends()) {
        Measurement<double> m(small, backend, links_for(small, 95));
        auto host = reference::vector_to_milc<double>(small, random_fermion(small, 96));
        std::vector<double> out(host.size(), -7);
        std::vector<float> single(host.begin(), host.end());
        const milcgpu_field in_host = Session<double>::field(host), in_out = Session<double>::field(out),
                            in_single = Session<float>::field(single);
        const milcgpu_quarks from{&in_host, nullptr, 0}, to{&in_out, nullptr, 0}, nothing{nullptr, nullptr, 0},
            wrong{&in_single, nullptr, 0};
        Resident empty(m.session.context, 2);
        const milcgpu_quarks no_content = empty.from(0), outside = empty.from(2);
        const int *const origin = origins[0].data(), late[4] = {0, 0, 0, 6};
        const auto refused = [&](milcgpu_status status, const char *what, milcgpu_status as = MILCGPU_BAD_ARGUMENT) {
            CAPTURE(name(backend), what, milcgpu_last_error());
            CHECK(status == as);
            CHECK(last_error_says(what));
            CHECK(out == std::vector<double>(host.size(), -7));
        };
        const auto op = [&](int index, const int *about = nullptr) {
            return milcgpu_quarks_spin_taste(m.links, nullptr, index, about, 1, &from, &to);
        };
        refused(op(milcgpu_spin_taste_index("rhots"), origin), "rhots");
        refused(op(milcgpu_spin_taste_index("rhoxsape"), origin), "operator of two fields");
        refused(op(milcgpu_spin_taste_index("rhoxsffn"), origin), "rhoxsffn");
        refused(op(46, origin), "index 46");
        refused(op(384, origin), "index 384");
        refused(op(-1, origin), "index -1");
        refused(op(130), "origin is NULL");
        refused(op(130, late), "origin[T] is 6");
        CHECK(milcgpu_spin_taste_index("pion6") == -1);
        CHECK(last_error_says("'pion6'"));
        CHECK(milcgpu_spin_taste_index("GX-GXYZ") == -1);
        CHECK(milcgpu_spin_taste_index(nullptr) == -1);
        char label[4];
        refused(milcgpu_spin_taste_label(0, label, sizeof label), "needs 6 characters");
        const auto shift = [&](int dir, int way, int n, const milcgpu_quarks *a, const milcgpu_quarks *b) {
            return milcgpu_quarks_shift(m.links, dir, way, origin, n, a, b);
        };
        refused(shift(4, 0, 1, &from, &to), "dir is 4");
        refused(shift(0, 3, 1, &from, &to), "way is 3");
        refused(shift(0, 0, 0, &from, &to), "n is 0");
        refused(shift(0, 0, 1, nullptr, &to), "quark fields is NULL");
        refused(shift(0, 0, 1, &nothing, &to), "one of host and device");
        refused(shift(0, 0, 1, &wrong, &to), "single precision");
        refused(shift(0, 0, 1, &no_content, &to), "is empty");
        refused(shift(0, 0, 1, &from, &outside), "this set has vectors 0 to 1");
        const auto smear = [&](int hop, double width, int steps, int slice) {
            return milcgpu_quarks_gauss_smear(m.links, hop, width, steps, slice, 1, &to);
        };
        refused(smear(3, 1, 2, -1), "hop is 3");
        refused(smear(2, -1, 2, -1), "width is -1");
        refused(smear(2, std::nan(""), 2, -1), "width is nan");
        refused(smear(2, INFINITY, 2, -1), "width is inf");
        refused(smear(2, 1, -2, -1), "steps is -2");
        refused(smear(2, 1, 2, 6), "slice is 6");
        refused(smear(2, 1, 2, -2), "slice is -2");
        refused(milcgpu_quarks_laplacian(m.links, 2, 6, 1, &to), "slice is 6");
        refused(milcgpu_quarks_laplacian(m.links, 0, 0, 1, &to), "hop is 0");
        // Contractions.
        Correlators c({0, 0, 0, 0}, {{"GX-G1", 'g', 0, false}, {"GX-GX", 'g', 0, false}});
        std::vector<double> correlators(2 * size_t(c.spec.n_correlators) * small.n[3], 3);
        const auto contract = [&](const char *what, milcgpu_status as = MILCGPU_BAD_ARGUMENT) {
            refused(milcgpu_quarks_contract(m.links, &c.spec, nullptr, nullptr, 1, &from, &from, correlators.data()),
                    what, as);
            CHECK(correlators == std::vector<double>(correlators.size(), 3));
        };
        const auto with = [&](auto &place, auto value, const char *what) {
            const auto good = place;
            place = value;
            contract(what);
            place = good;
        };
        with(c.terms[2].momentum, 8, "terms[2]: momentum 8 of 8");
        with(c.terms[2].correlator, -1, "spec.terms[2].correlator is -1");
        with(c.terms[2].phase, 4, "spec.terms[2].phase is 4");
        with(c.terms[2].factor, std::nan(""), "spec.terms[2].factor is nan");
        with(c.terms[2].spin_taste, 99, "index 99");
        with(c.terms[2].spin_taste, milcgpu_spin_taste_index("rhoxsfn"), "fat links, which are NULL");
        with(c.momenta[1].parity[2], 0, "spec.momenta[1].parity[2] is 0");
        with(c.spec.origin[1], -1, "origin[Y] is -1");
        with(c.spec.n_momenta, 0, "n_momenta is 0");
        with(c.spec.n_terms, -1, "n_terms is -1");
        with(c.spec.n_correlators, 0, "n_correlators is 0");
        with(c.spec.struct_size, size_t(8), "struct_size");
        // NaN in a source, and in the links.
        const double good = host[17];
        host[17] = std::nan("");
        contract("NaN", MILCGPU_NAN_OR_INF);
        refused(shift(1, 2, 1, &from, &to), "NaN", MILCGPU_NAN_OR_INF);
        host[17] = good;
        CHECK(shift(1, 2, 1, &from, &from) == MILCGPU_OK); // in place
        Gauge u = links_for(small, 97);
        u[5].e[1][2] = std::nan("");
        CHECK(m.load(u, true) == MILCGPU_NAN_OR_INF);
        refused(op(130, origin), "milcgpu_meson_links_load");
        milcgpu_meson_links *none = m.links;
        CHECK(milcgpu_meson_links_create(m.session.context, MILCGPU_HALF, &none) == MILCGPU_BAD_ARGUMENT);
        CHECK(none == nullptr);
        CHECK(milcgpu_quarks_laplacian(nullptr, 2, -1, 1, &to) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("measurements find a bit that flips in their links or in products of them", "[faults][measurements]") {
    const auto flip = [](Measurement<double> &m, const milcgpu::LinkField &field) {
        unsigned char byte, *const place = field.block(1, 1) + 6;
        m.session.context->device->copy_to_host(&byte, place, 1);
        byte ^= 4;
        m.session.context->device->copy_to_device(place, &byte, 1);
    };
    struct Case {
        const char *what;
        const char *before, *after; // operators: one whose products exist at the flip, one applied afterwards
        unsigned flipped;           // directions of the product it flips in; 0: the links
    };
    const Case cases[] = {{"links, used again", "G1-GZT", "G1-GT", 0},
                          {"links of which a product is to be made", "", "G1-GZT", 0},
                          {"a product, used again", "G1-GZT", "G1-GZT", 12},
                          {"a product of which another is to be made", "G1-GZT", "GX-GZT", 12}};
    for (const Backend backend : backends())
        for (const Case &c : cases) {
            Measurement<double> m(small, backend, links_for(small, 98));
            const Fermion psi = random_fermion(small, 99);
            if (*c.before != 0)
                m.spin_taste(milcgpu_spin_taste_index(c.before), origins[0], psi);
            flip(m, c.flipped != 0 ? m.links->products.corners(c.flipped) : m.links->u);
            auto host = reference::vector_to_milc<double>(small, psi);
            const auto before = host;
            const milcgpu_field of_host = Session<double>::field(host);
            const milcgpu_quarks quarks{&of_host, nullptr, 0};
            CAPTURE(name(backend), c.what);
            const int after = milcgpu_spin_taste_index(c.after);
            CHECK(milcgpu_quarks_spin_taste(m.links, nullptr, after, origins[0].data(), 1, &quarks, &quarks) ==
                  MILCGPU_CORRUPTED);
            CHECK(host == before);
            // The handle is empty now.
            CHECK(milcgpu_quarks_laplacian(m.links, 2, -1, 1, &quarks) == MILCGPU_BAD_ARGUMENT);
            m.must(m.load(m.u, true));
            m.spin_taste(after, origins[0], psi);
        }
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Measurement<double> m(small, backend, links_for(small, 98));
        with_fat_links(m.session, 97);
        const Fermion psi = random_fermion(small, 99);
        const int current = milcgpu_spin_taste_index("rhoxsffn");
        m.spin_taste(current, origins[0], psi, m.session.links);
        flip(m, *m.session.links->links->held_version(milcgpu::Precision::double_, 18).pair.fat);
        auto host = reference::vector_to_milc<double>(small, psi);
        const milcgpu_field of_host = Session<double>::field(host);
        const milcgpu_quarks quarks{&of_host, nullptr, 0};
        CHECK(milcgpu_quarks_spin_taste(m.links, m.session.links, current, origins[0].data(), 1, &quarks, &quarks) ==
              MILCGPU_CORRUPTED);
        CHECK(last_error_says("fat links"));
        CHECK(milcgpu_quarks_spin_taste(m.links, m.session.links, current, origins[0].data(), 1, &quarks, &quarks) ==
              MILCGPU_BAD_ARGUMENT); // the handle is empty now
    }
}

TEST_CASE("products of links are freed if memory is short, and made again", "[measurements]") {
    for (const Backend backend : backends()) {
        CAPTURE(name(backend));
        Measurement<double> m(small, backend, links_for(small, 98));
        const Fermion psi = random_fermion(small, 99);
        const int index = milcgpu_spin_taste_index("G5-G1");
        const Fermion first = m.spin_taste(index, origins[0], psi);
        CHECK(m.session.context->release_idle());
        CHECK(!m.session.context->release_idle());
        const Fermion again = m.spin_taste(index, origins[0], psi);
        CHECK(reference::relative_difference(again, first) == 0);
    }
}

TEST_CASE("MILC's links of measurements are loaded again if their content has changed", "[measurements][plugin]") {
    for (const Backend backend : backends()) {
        const Lattice lattice{{4, 4, 4, 8}};
        Session<double> session(lattice, backend, 0, 0);
        auto host = reference::links_to_milc<double>(
            lattice, reference::phased_links(lattice, links_for(lattice, 110), origins[0], true));
        auto other = host;
        const auto records = [&](const std::vector<double> &links) {
            return milcgpu::HostRecords{links.data(), size_t(lattice.volume()), 576, 576};
        };
        milcgpu::Collective one_rank;
        milcgpu::KeptGauge none(session.context, MILCGPU_DOUBLE, false);
        milcgpu::MesonLinksCache cache(one_rank, session.context, MILCGPU_DOUBLE, none);
        const uint64_t field = host.size() * sizeof(double);
        milcgpu_meson_links *first = nullptr, *handle = nullptr;
        uint64_t moved = 0;
        const auto ready = [&](const std::vector<double> &links, const int *origin) {
            CAPTURE(milcgpu_last_error());
            REQUIRE(cache.ready(records(links), origin, handle, moved) == MILCGPU_OK);
        };
        ready(host, nullptr);
        first = handle;
        for (int k = 0; k < 20; ++k)
            ready(host, nullptr);
        CHECK(handle == first);
        CHECK(moved == field);
        for (const size_t k : {size_t{100}, host.size() - 1}) { // one changed link is found at once
            host[k] += 1;
            ready(host, nullptr);
            CHECK(handle == first);
        }
        CHECK(moved == 3 * field);
        // The caller says that the links changed.
        host[100] += 1;
        CHECK(cache.expect(host.data(), false));
        ready(host, nullptr);
        CHECK(moved == 3 * field);
        CHECK(cache.expect(host.data(), true));
        ready(host, nullptr);
        CHECK(moved == 4 * field);
        CHECK_FALSE(cache.expect(other.data(), true));
        moved -= field;
        // Each pair of phases and address has its own handle; the fourth takes the place of the first.
        ready(host, origins[0].data());
        CHECK(handle != first);
        ready(other, nullptr);
        ready(other, origins[0].data());
        CHECK(handle == first);
        CHECK(moved == 6 * field);
        other[5] = std::nan("");
        CHECK(cache.ready(records(other), origins[0].data(), handle, moved) == MILCGPU_NAN_OR_INF);
    }
}
