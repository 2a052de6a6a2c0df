// Shifts, spin-taste operators and smearing through the C interface.
#include "tests/mesons_support.h"

using namespace tests;

namespace {

template <class Real> void check_all_operators(Backend backend, bool antiperiodic) {
    Measurement<Real> m(small, backend, links_for(small, 3), antiperiodic);
    const Fermion psi = m.rounded(random_fermion(small, 4));
    for (const Origin &origin : origins) {
        const Gauge phased = reference::phased_links(small, m.u, origin, antiperiodic);
        for (int index = 128; index < 384; ++index) {
            const unsigned spin = bits_of(gammas[(index - 128) / 16]), taste = bits_of(gammas[(index - 128) % 16]);
            const Fermion wanted = reference::spin_taste(small, phased, origin, spin, taste, psi);
            CAPTURE(name(backend), sizeof(Real), index, origin[3]);
            CHECK(reference::relative_difference(m.spin_taste(index, origin, psi), wanted) <= field_error<Real>);
        }
    }
}

} // namespace

TEST_CASE("all 256 spin-taste operators are the reference's, at an even and an odd origin", "[measurements]") {
    for (const Backend backend : backends()) {
        check_all_operators<double>(backend, true);
        check_all_operators<float>(backend, false);
    }
}

TEST_CASE("operators of one to four links are the reference's on other shapes", "[measurements][sanitize]") {
    for (const Backend backend : backends())
        for (const Lattice &lattice : shapes) {
            Measurement<double> m(lattice, backend, links_for(lattice, 5));
            const Fermion psi = random_fermion(lattice, 6);
            const Origin origin = {1, 1, 0, 1};
            const Gauge phased = reference::phased_links(lattice, m.u, origin, true);
            for (const char *label : {"G5-G5", "GX-G1", "GT-G5T", "GXY-G5", "G1-GZX", "G5-GXT", "GYZ-GT", "G1-G5"}) {
                const std::string text = label;
                const size_t hyphen = text.find('-');
                const Fermion wanted = reference::spin_taste(lattice, phased, origin, bits_of(text.substr(0, hyphen)),
                                                             bits_of(text.substr(hyphen + 1)), psi);
                CAPTURE(name(backend), label, lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]);
                const Fermion got = m.spin_taste(milcgpu_spin_taste_index(label), origin, psi);
                CHECK(reference::relative_difference(got, wanted) <= field_error<double>);
            }
        }
}

TEST_CASE("the named operators are those of MILC's table", "[measurements]") {
    const struct {
        const char *name, *same;
        double sign;
    } table[] = {{"pion5", "G5-G5", 1},   {"pion05", "G1-G1", 1},  {"pioni5", "G5-G5Z", -1}, {"pionij", "G1-GZ", 1},
                 {"pioni", "G1-GXY", 1},  {"pioni0", "GT-G5Z", 1}, {"pions", "G1-G5T", 1},   {"pion0", "GT-G5", -1},
                 {"rhoi", "GZ-GZ", 1},    {"rhox", "GX-GX", 1},    {"rhoy", "GY-GY", 1},     {"rhoz", "GZ-GZ", 1},
                 {"rhoi0", "GZT-GZT", 1}, {"rhox0", "GXT-GXT", 1}, {"rhoy0", "GYT-GYT", 1},  {"rhoz0", "GZT-GZT", 1},
                 {"rhoxs", "GX-G1", 1},   {"rhoys", "GY-G1", 1},   {"rhozs", "GZ-G1", 1},    {"rhots", nullptr, 0},
                 {"rhois", "GZ-G1", 1},   {"rho0", "GZT-GT", -1}};
    Measurement<double> m(small, Backend::host, links_for(small, 7));
    const Fermion psi = random_fermion(small, 8);
    int index = 0;
    char label[16];
    for (const auto &row : table) {
        CAPTURE(row.name);
        CHECK(milcgpu_spin_taste_index(row.name) == index);
        REQUIRE(milcgpu_spin_taste_label(index, label, sizeof label) == MILCGPU_OK);
        CHECK(std::string(label) == row.name);
        if (row.same != nullptr) {
            Fermion wanted = m.spin_taste(milcgpu_spin_taste_index(row.same), origins[1], psi);
            for (auto &v : wanted)
                v = row.sign * v;
            CHECK(reference::relative_difference(m.spin_taste(index, origins[1], psi), wanted) == 0);
        }
        ++index;
    }
    for (const char *ending : {"sfn", "sffn", "sbfn", "sape", "sfape", "sbape"})
        for (const char direction : {'x', 'y', 'z', 't'}) {
            const std::string wanted = std::string("rho") + direction + ending;
            CHECK(milcgpu_spin_taste_index(wanted.c_str()) == index);
            REQUIRE(milcgpu_spin_taste_label(index++, label, sizeof label) == MILCGPU_OK);
            CHECK(label == wanted);
        }
    CHECK(index == 46);
    for (int general = 128; general < 384; ++general) {
        REQUIRE(milcgpu_spin_taste_label(general, label, sizeof label) == MILCGPU_OK);
        CHECK(milcgpu_spin_taste_index(label) == general);
        CHECK(label == std::string(gammas[(general - 128) / 16]) + "-" + gammas[(general - 128) % 16]);
    }
}

TEST_CASE("vector currents of fat and of APE links are the reference's", "[measurements][sanitize]") {
    const auto check = [](Backend backend, auto real) {
        using Real = decltype(real);
        Measurement<Real> m(small, backend, links_for(small, 9));
        const Gauge fat = with_fat_links(m.session, 10);
        const Fermion psi = m.rounded(random_fermion(small, 11));
        const Gauge phased = reference::phased_links(small, m.u, origins[1], true);
        for (int dir = 0; dir < 4; ++dir)
            for (const bool forward : {true, false})
                for (const bool use_fat : {true, false}) {
                    const std::string label =
                        std::string("rho") + "xyzt"[dir] + (forward ? "sf" : "sb") + (use_fat ? "fn" : "ape");
                    const ShiftWay way = forward ? ShiftWay::forward : ShiftWay::backward;
                    const Fermion wanted =
                        times_parity(small, reference::shift(small, use_fat ? fat : phased, dir, way, psi));
                    CAPTURE(name(backend), label);
                    const Fermion got =
                        m.spin_taste(milcgpu_spin_taste_index(label.c_str()), origins[1], psi, m.session.links);
                    CHECK(reference::relative_difference(got, wanted) <= field_error<Real>);
                }
    };
    for (const Backend backend : backends()) {
        check(backend, 0.0);
        check(backend, 0.0f);
    }
}

TEST_CASE("shifts are the reference's, with phases and without, of any number of fields", "[measurements][sanitize]") {
    const auto check = [](Backend backend, const Lattice &lattice, auto real) {
        using Real = decltype(real);
        Measurement<Real> m(lattice, backend, links_for(lattice, 12));
        const Fermion psi = m.rounded(random_fermion(lattice, 13));
        const Origin origin = {0, 1, 1, 1};
        const Gauge phased = reference::phased_links(lattice, m.u, origin, true);
        for (int dir = 0; dir < 4; ++dir)
            for (const int way : {MILCGPU_FORWARD, MILCGPU_BACKWARD, MILCGPU_SYMMETRIC}) {
                CAPTURE(name(backend), dir, way, lattice.n[0], sizeof(Real));
                const auto wanted = [&](const Gauge &links) {
                    return reference::shift(lattice, links, dir, static_cast<ShiftWay>(way), psi);
                };
                CHECK(reference::relative_difference(m.shift(dir, way, nullptr, psi), wanted(m.u)) <=
                      field_error<Real>);
                CHECK(reference::relative_difference(m.shift(dir, way, origin.data(), psi), wanted(phased)) <=
                      field_error<Real>);
            }
        // Several fields in one call are equal, to rounding, to one field in each call.
        std::vector<Fermion> fields;
        for (int k = 0; k < 5; ++k)
            fields.push_back(random_fermion(lattice, 14 + k));
        const auto both_ways = [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_quarks_shift(m.links, 3, MILCGPU_SYMMETRIC, origin.data(), n, from, to);
        };
        const auto together = m.apply(fields, both_ways);
        for (size_t k = 0; k < fields.size(); ++k) {
            const auto alone = m.apply(std::vector<Fermion>{fields[k]}, both_ways)[0];
            double worst = 0;
            for (size_t i = 0; i < alone.size(); ++i) {
                const double off = std::fabs(double(together[k][i] - alone[i]));
                worst = off <= worst ? worst : off; // NaN is the worst
            }
            CHECK(worst <= 4 * field_error<Real>); // of numbers of size 1
        }
    };
    for (const Backend backend : backends())
        for (const Lattice &lattice : shapes) {
            check(backend, lattice, 0.0);
            check(backend, lattice, 0.0f);
        }
}

TEST_CASE("a backward shift is the adjoint of a forward one, and operators are covariant", "[measurements]") {
    const Lattice lattice{{4, 4, 2, 6}};
    const Origin origin = {1, 0, 1, 2};
    const auto g = reference::random_transformation(lattice, 20);
    const Gauge u = links_for(lattice, 21);
    const Fermion a = random_fermion(lattice, 22), b = random_fermion(lattice, 23);
    for (const Backend backend : backends()) {
        Measurement<double> m(lattice, backend, u);
        for (int dir = 0; dir < 4; ++dir) {
            const auto left = reference::dot(a, m.shift(dir, MILCGPU_FORWARD, origin.data(), b)),
                       right = reference::dot(m.shift(dir, MILCGPU_BACKWARD, origin.data(), a), b);
            CAPTURE(name(backend), dir);
            CHECK(std::abs(left - right) <= times_measured * 3e-17 * std::abs(reference::dot(a, a)));
        }
        Measurement<double> moved(lattice, backend, reference::transform_links(lattice, g, u, 1));
        const Fermion g_a = reference::transform_fermion(g, a);
        for (const char *label : {"G5X-G5", "GXT-GY", "GX-GYZ", "G1-G5"}) {
            const int index = milcgpu_spin_taste_index(label);
            CAPTURE(name(backend), label);
            CHECK(reference::relative_difference(moved.spin_taste(index, origin, g_a),
                                                 reference::transform_fermion(g, m.spin_taste(index, origin, a))) <=
                  times_measured * 7e-16);
        }
        for (const int hop : {1, 2})
            CHECK(reference::relative_difference(moved.smear(hop, 2, 5, -1, g_a),
                                                 reference::transform_fermion(g, m.smear(hop, 2, 5, -1, a))) <=
                  times_measured * 7e-16);
    }
}

TEST_CASE("the sixteen local operators add up to the sites at the corners of the hypercubes", "[measurements]") {
    Measurement<double> m(small, Backend::host, links_for(small, 24));
    const Fermion psi = random_fermion(small, 25);
    for (const Origin &origin : origins) {
        Fermion sum(psi.size());
        for (int k = 0; k < 16; ++k) {
            const Fermion one = m.spin_taste(128 + 17 * k, origin, psi);
            for (size_t site = 0; site < sum.size(); ++site)
                sum[site] = sum[site] + one[site];
        }
        for (int site = 0; site < small.volume(); ++site) {
            bool corner = true;
            for (int mu = 0; mu < 4; ++mu)
                corner = corner && (small.coordinates(site)[mu] - origin[mu]) % 2 == 0;
            const double apart = reference::norm2(sum[site] - (corner ? 16.0 : 0.0) * psi[site]);
            CHECK(std::sqrt(apart) <= times_measured * 5e-15 * std::sqrt(reference::norm2(psi[site])));
        }
    }
}

namespace {

double momentum(const Lattice &lattice, const std::array<int, 4> &p, int mu) {
    return 2 * M_PI * p[mu] / lattice.n[mu];
}

Fermion scaled(reference::Complex s, Fermion field) {
    for (auto &v : field)
        v = s * v;
    return field;
}

} // namespace

TEST_CASE("on unit links plane waves are eigenvectors of shifts and of the Laplacian, and constants stay",
          "[measurements]") {
    const Lattice lattice{{6, 10, 6, 6}};
    const std::array<int, 4> p = {1, 2, -1, 1};
    const reference::Vector colour{{{1, 0}, {0, 2}, {-3, 1}}};
    const Fermion wave = reference::plane_wave(lattice, p, colour),
                  constant = reference::plane_wave(lattice, {0, 0, 0, 0}, colour);
    for (const Backend backend : backends()) {
        Measurement<double> m(lattice, backend, reference::unit_gauge(lattice), false);
        const double error = times_measured * 1.4e-15;
        for (int dir = 0; dir < 4; ++dir) {
            const auto e = std::polar(1.0, momentum(lattice, p, dir));
            const auto apart = [&](int way, reference::Complex eigenvalue) {
                return reference::relative_difference(m.shift(dir, way, nullptr, wave), scaled(eigenvalue, wave));
            };
            CHECK(apart(MILCGPU_FORWARD, e) <= error);
            CHECK(apart(MILCGPU_BACKWARD, std::conj(e)) <= error);
            CHECK(apart(MILCGPU_SYMMETRIC, e.real()) <= error);
        }
        for (const int hop : {1, 2}) {
            double eigenvalue = 0;
            for (int k = 0; k < 3; ++k)
                eigenvalue += 2 - 2 * std::cos(hop * momentum(lattice, p, k));
            CHECK(reference::relative_difference(m.laplacian(hop, -1, wave), scaled(eigenvalue, wave)) <= error);
            const double width = 1.7;
            const double factor = std::pow(1 - width * width / (4.0 * 12 * hop * hop) * eigenvalue, 12);
            CHECK(reference::relative_difference(m.smear(hop, width, 12, -1, wave), scaled(factor, wave)) <= error);
            CHECK(reference::relative_difference(m.smear(hop, width, 12, -1, constant), constant) <= error);
        }
    }
}

TEST_CASE("smearing is a number of steps of the Laplacian, on one slice or on all", "[measurements][sanitize]") {
    const auto check = [](Backend backend, const Lattice &lattice, auto real) {
        using Real = decltype(real);
        Measurement<Real> m(lattice, backend, links_for(lattice, 30));
        const Fermion psi = m.rounded(random_fermion(lattice, 31));
        for (const int hop : {1, 2})
            for (const int slice : {-1, 0, lattice.n[3] - 1})
                for (const int steps : {1, 4}) {
                    const double width = 1.3, a = width * width / (4 * steps * hop * hop);
                    Fermion wanted = psi;
                    for (int k = 0; k < steps; ++k) {
                        const Fermion more = reference::laplacian(lattice, m.u, hop, slice, wanted);
                        for (size_t site = 0; site < wanted.size(); ++site)
                            wanted[site] = wanted[site] + a * more[site];
                    }
                    const Fermion got = m.smear(hop, width, steps, slice, psi);
                    CAPTURE(name(backend), sizeof(Real), hop, slice, steps, lattice.n[0]);
                    CHECK(reference::relative_difference(got, wanted) <= field_error<Real>);
                    for (int site = 0; site < lattice.volume() && slice >= 0; ++site)
                        if (lattice.coordinates(site)[3] != slice)
                            CHECK(reference::norm2(got[site] - psi[site]) == 0);
                    Fermion minus = reference::laplacian(lattice, m.u, hop, slice, psi);
                    for (int site = 0; site < lattice.volume(); ++site)
                        minus[site] =
                            slice < 0 || lattice.coordinates(site)[3] == slice ? -1.0 * minus[site] : psi[site];
                    CHECK(reference::relative_difference(m.laplacian(hop, slice, psi), minus) <= field_error<Real>);
                }
        CHECK(reference::relative_difference(m.smear(2, 1.0, 0, -1, psi), psi) == 0);
        CHECK(reference::relative_difference(m.smear(2, 0.0, 3, -1, psi), psi) == 0);
    };
    for (const Backend backend : backends()) {
        for (const Lattice &lattice : shapes)
            check(backend, lattice, 0.0);
        check(backend, small, 0.0f);
    }
}
