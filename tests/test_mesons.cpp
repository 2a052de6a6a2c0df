// Shifts, spin-taste operators, smearing and contractions through the C interface.
#include "milc_glue/mesons.h"
#include "milc_glue/plugin/meson_links.h"
#include "tests/reference/mesons.h"
#include "tests/support.h"

using namespace tests;
using milcgpu::Backend;
using reference::Fermion;
using reference::Gauge;
using reference::Lattice;
using reference::Origin;
using reference::ShiftWay;

namespace {

const Lattice small{{2, 4, 4, 6}};
const Lattice shapes[] = {Lattice{{4, 6, 10, 4}}, Lattice{{2, 4, 4, 8}}, Lattice{{6, 2, 4, 2}}};
const Origin origins[] = {{0, 0, 0, 0}, {1, 0, 3, 5}};

// Links of a measurement on a lattice, and fields as MILC would hold them.
template <class Real> struct Measurement {
    Session<Real> session;
    milcgpu_meson_links *links = nullptr;
    Gauge u; // as rounded to Real

    Measurement(const Lattice &lattice, Backend backend, const Gauge &gauge, bool antiperiodic = true, int block = 0)
        : session(lattice, backend, block, 0) {
        REQUIRE(milcgpu_meson_links_create(session.context, Session<Real>::precision, &links) == MILCGPU_OK);
        must(load(gauge, antiperiodic));
    }
    ~Measurement() { milcgpu_meson_links_destroy(links); }
    const Lattice &lattice() const { return session.lattice; }
    milcgpu_status load(const Gauge &gauge, bool antiperiodic) {
        auto host = reference::links_to_milc<Real>(lattice(), gauge);
        u = reference::links_from_milc<Real>(lattice(), host);
        const milcgpu_field field = Session<Real>::field(host);
        const milcgpu_meson_links_spec spec{sizeof spec, antiperiodic, 0, {}};
        return milcgpu_meson_links_load(links, &spec, &field);
    }
    void must(milcgpu_status status) const {
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
    }
    Fermion rounded(const Fermion &field) const {
        return reference::vector_from_milc<Real>(lattice(), reference::vector_to_milc<Real>(lattice(), field));
    }

    // What `call` makes of n fields: call(n, from, to).
    template <class Call> std::vector<std::vector<Real>> apply(const std::vector<Fermion> &fields, const Call &call) {
        std::vector<std::vector<Real>> in, out;
        std::vector<milcgpu_field> from, to;
        for (const Fermion &field : fields) {
            in.push_back(reference::vector_to_milc<Real>(lattice(), field));
            out.emplace_back(in.back().size(), Real(-7));
        }
        for (size_t k = 0; k < fields.size(); ++k) {
            from.push_back(Session<Real>::field(in[k]));
            to.push_back(Session<Real>::field(out[k]));
        }
        const milcgpu_quarks source{from.data(), nullptr, 0}, made{to.data(), nullptr, 0};
        must(call(int(fields.size()), &source, &made));
        return out;
    }
    template <class Call> Fermion apply(const Fermion &field, const Call &call) {
        return reference::vector_from_milc<Real>(lattice(), apply(std::vector<Fermion>{field}, call)[0]);
    }
    Fermion shift(int dir, int way, const int *origin, const Fermion &field) {
        return apply(field, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_shift_quarks(links, dir, way, origin, n, from, to);
        });
    }
    Fermion spin_taste(int index, const Origin &origin, const Fermion &field, milcgpu_links *fat = nullptr) {
        return apply(field, [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_spin_taste(links, fat, index, origin.data(), n, from, to);
        });
    }
    // call(n, quarks), in place
    template <class Call> Fermion in_place(const Fermion &field, const Call &call) {
        auto host = reference::vector_to_milc<Real>(lattice(), field);
        const milcgpu_field of_host = Session<Real>::field(host);
        const milcgpu_quarks quarks{&of_host, nullptr, 0};
        must(call(1, &quarks));
        return reference::vector_from_milc<Real>(lattice(), host);
    }
    Fermion smear(int hop, double width, int steps, int slice, const Fermion &field) {
        return in_place(field, [&](int n, const milcgpu_quarks *quarks) {
            return milcgpu_gauss_smear(links, hop, width, steps, slice, n, quarks);
        });
    }
    Fermion laplacian(int hop, int slice, const Fermion &field) {
        return in_place(field, [&](int n, const milcgpu_quarks *quarks) {
            return milcgpu_laplacian(links, hop, slice, n, quarks);
        });
    }
    std::vector<reference::Complex> contract(const milcgpu_meson_spec &spec, const std::vector<Fermion> &a,
                                             const std::vector<Fermion> &b, milcgpu_links *fat = nullptr) {
        std::vector<std::vector<Real>> fields[2];
        std::vector<milcgpu_field> host[2];
        for (const int k : {0, 1}) {
            for (const Fermion &field : k == 0 ? a : b)
                fields[k].push_back(reference::vector_to_milc<Real>(lattice(), field));
            for (auto &field : fields[k])
                host[k].push_back(Session<Real>::field(field));
        }
        const milcgpu_quarks left{host[0].data(), nullptr, 0}, right{host[1].data(), nullptr, 0};
        std::vector<reference::Complex> sums(size_t(spec.n_correlators) * lattice().n[3], {0.5, -2});
        must(milcgpu_contract(links, &spec, fat, fat, int(a.size()), &left, &right,
                              reinterpret_cast<double *>(sums.data())));
        for (auto &z : sums)
            z -= reference::Complex(0.5, -2); // it is added to
        return sums;
    }
};

constexpr const char *gammas[16] = {"GX",  "GY",  "GZ",  "GT",  "G5",  "GYZ", "GZX", "GXY",
                                    "GXT", "GYT", "GZT", "G5X", "G5Y", "G5Z", "G5T", "G1"};

// The directions that a label of a gamma matrix names: products of different ones, G5 is that of all.
unsigned bits_of(const std::string &gamma) {
    unsigned bits = 0;
    for (const char c : gamma.substr(1))
        bits ^= c == '5' ? 15 : c == 'X' ? 1 : c == 'Y' ? 2 : c == 'Z' ? 4 : c == 'T' ? 8 : 0;
    return bits;
}

Gauge links_for(const Lattice &lattice, unsigned long seed) { return reference::near_unit_gauge(lattice, 0.4, seed); }

Fermion times_parity(const Lattice &lattice, Fermion field) {
    for (int site = 0; site < lattice.volume(); ++site)
        if (lattice.parity(site) == 1)
            field[site] = -1.0 * field[site];
    return field;
}

// Measured, of fields; of correlators relative to the norms of the fields.
template <class Real> constexpr double field_error = times_measured *(sizeof(Real) == 8 ? 7e-16 : 2e-7);

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

TEST_CASE("operators of one to four links on other shapes", "[measurements][sanitize]") {
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

TEST_CASE("the operators with names are those of MILC's table", "[measurements]") {
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

namespace {

// Fat links for the currents: any matrices, with whatever phases they have.
template <class Real> Gauge with_fat_links(Session<Real> &session, unsigned long seed) {
    const Gauge fat = random_links(session.lattice, seed);
    REQUIRE(session.load(fat, fat) == MILCGPU_OK);
    return reference::links_from_milc<Real>(session.lattice, session.fat);
}

} // namespace

TEST_CASE("vector currents of fat and of APE links", "[measurements][sanitize]") {
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
        // Fields of one call have the bits of calls of their own.
        std::vector<Fermion> fields;
        for (int k = 0; k < 5; ++k)
            fields.push_back(random_fermion(lattice, 14 + k));
        const auto both_ways = [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_shift_quarks(m.links, 3, MILCGPU_SYMMETRIC, origin.data(), n, from, to);
        };
        const auto together = m.apply(fields, both_ways);
        for (size_t k = 0; k < fields.size(); ++k)
            CHECK(together[k] == m.apply(std::vector<Fermion>{fields[k]}, both_ways)[0]);
    };
    for (const Backend backend : backends())
        for (const Lattice &lattice : shapes) {
            check(backend, lattice, 0.0);
            check(backend, lattice, 0.0f);
        }
}

TEST_CASE("a backward shift is the adjoint of a forward one; operators are covariant", "[measurements]") {
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

TEST_CASE("the sixteen local operators add up to the sites at the corner of the hypercubes", "[measurements]") {
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

Fermion plane_wave(const Lattice &lattice, const std::array<int, 4> &p) {
    Fermion wave(lattice.volume());
    for (int site = 0; site < lattice.volume(); ++site) {
        const auto x = lattice.coordinates(site);
        double angle = 0;
        for (int mu = 0; mu < 4; ++mu)
            angle += 2 * M_PI * p[mu] * x[mu] / lattice.n[mu];
        for (int c = 0; c < 3; ++c)
            wave[site].c[c] = std::polar(1.0 + c, angle);
    }
    return wave;
}
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
    const Fermion wave = plane_wave(lattice, p), constant = plane_wave(lattice, {0, 0, 0, 0});
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

TEST_CASE("smearing is so many steps of the Laplacian, on a slice or on all", "[measurements][sanitize]") {
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

namespace {

// A sink operator and how it is put together: of a spin and a taste ('g'), or a current: both ways, forward, backward.
struct Sink {
    const char *label;
    char kind; // g p f b
    int dir;
    bool fat;
};

// Terms with all these operators, every parity letter, several momenta, all phases.
struct Correlators {
    std::vector<Sink> sinks;
    Origin origin;
    std::vector<milcgpu_momentum> momenta;
    std::vector<milcgpu_meson_term> terms;
    milcgpu_meson_spec spec{};
    Correlators(const Origin &about, const std::vector<Sink> &operators) : sinks(operators), origin(about) {
        const int e = MILCGPU_EVEN, o = MILCGPU_ODD, b = MILCGPU_EVEN_AND_ODD;
        momenta = {{{0, 0, 0}, {b, b, b}},  {{1, -1, 2}, {b, b, b}}, {{1, 1, 0}, {e, e, e}},  {{0, 1, 1}, {e, o, o}},
                   {{1, 2, -3}, {o, e, b}}, {{2, 0, 1}, {b, e, o}},  {{1, -1, 2}, {b, b, e}}, {{-7, 1, 0}, {o, b, b}}};
        for (size_t g = 0; g < sinks.size(); ++g)
            for (size_t p = 0; p < momenta.size(); ++p)
                terms.push_back({milcgpu_spin_taste_index(sinks[g].label), int(p), int(g + p) % 4,
                                 0.3 + 0.1 * double(p) - 0.2 * double(g), int(g * momenta.size() + p)});
        // Two terms of one correlator add up.
        terms.push_back({terms[0].spin_taste, 1, 0, 0.7, terms[1].correlator});
        spec = {sizeof spec,    {},          int(momenta.size()), int(terms.size()), int(sinks.size() * momenta.size()),
                momenta.data(), terms.data()};
        std::copy(origin.begin(), origin.end(), spec.origin);
    }

    std::vector<reference::Complex> wanted(const Lattice &lattice, const Gauge &phased, const Gauge &fat,
                                           const std::vector<Fermion> &a, const std::vector<Fermion> &b) const {
        std::vector<reference::Complex> sums(size_t(spec.n_correlators) * lattice.n[3]);
        for (size_t g = 0; g < sinks.size(); ++g)
            for (size_t k = 0; k < a.size(); ++k)
                for (const auto &[left, right, factor] : products(lattice, sinks[g], phased, fat, a[k], b[k]))
                    for (const auto &term : terms)
                        if (term.spin_taste == milcgpu_spin_taste_index(sinks[g].label))
                            add(lattice, term, left, right, factor, sums);
        return sums;
    }

  private:
    struct Product {
        Fermion left, right;
        double factor;
    };
    std::vector<Product> products(const Lattice &lattice, const Sink &sink, const Gauge &phased, const Gauge &fat,
                                  const Fermion &a, const Fermion &b) const {
        const std::string label = sink.label;
        if (sink.kind == 'g')
            return {{reference::spin_taste(lattice, phased, origin, bits_of(label.substr(0, label.find('-'))),
                                           bits_of(label.substr(label.find('-') + 1)), a),
                     b, 1}};
        const Gauge &links = sink.fat ? fat : phased;
        const Product backward = {
            times_parity(lattice, reference::shift(lattice, links, sink.dir, ShiftWay::backward, a)), b, 1};
        const Product forward = {
            a, times_parity(lattice, reference::shift(lattice, links, sink.dir, ShiftWay::forward, b)), 1};
        if (sink.kind != 'p')
            return {sink.kind == 'f' ? forward : backward};
        return {{backward.left, backward.right, 0.5}, {forward.left, forward.right, 0.5}};
    }
    void add(const Lattice &lattice, const milcgpu_meson_term &term, const Fermion &left, const Fermion &right,
             double factor, std::vector<reference::Complex> &sums) const {
        const auto &m = momenta[term.momentum];
        std::array<char, 3> letters;
        for (int mu = 0; mu < 3; ++mu)
            letters[mu] = " OEB"[m.parity[mu]];
        const auto slices = reference::slice_sums(lattice, left, right, {m.p[0], m.p[1], m.p[2]}, letters, origin);
        const reference::Complex phases[] = {1, {0, 1}, -1, {0, -1}};
        for (int t = 0; t < lattice.n[3]; ++t)
            sums[size_t(term.correlator) * lattice.n[3] + t] += factor * term.factor * phases[term.phase] * slices[t];
    }
};

// The largest difference, relative to the largest correlator that there could be.
double correlators_apart(const std::vector<reference::Complex> &got, const std::vector<reference::Complex> &wanted,
                         const std::vector<Fermion> &a, const std::vector<Fermion> &b) {
    double size = 0, apart = 0;
    for (size_t k = 0; k < a.size(); ++k)
        size += std::sqrt(std::abs(reference::dot(a[k], a[k]) * reference::dot(b[k], b[k])));
    REQUIRE(got.size() == wanted.size());
    for (size_t k = 0; k < got.size(); ++k)
        apart = worse(apart, std::abs(got[k] - wanted[k]));
    return apart / size;
}

} // namespace

TEST_CASE("contractions are direct sums: every kind of operator, every parity letter, several momenta",
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

TEST_CASE("results have the same bits whatever the launch shape", "[measurements]") {
    const Lattice lattice{{4, 6, 4, 4}};
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
                return milcgpu_spin_taste(m.links, nullptr, milcgpu_spin_taste_index("GZ-GT"), c.origin.data(), n, from,
                                          to);
            })[1]);
            CHECK(shifted.back() == shifted.front());
            CHECK(sums.back() == sums.front());
        }
    }
}

namespace {

struct Resident {
    milcgpu_vectors *vectors = nullptr;
    Resident(milcgpu_context *context, int count) {
        REQUIRE(milcgpu_vectors_create(context, MILCGPU_DOUBLE, count, &vectors) == MILCGPU_OK);
    }
    Resident(const Resident &) = delete;
    ~Resident() { milcgpu_vectors_destroy(vectors); }
    void load(int index, std::vector<double> field) {
        const milcgpu_field host = Session<double>::field(field);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_load(vectors, index, parity, &host) == MILCGPU_OK);
    }
    std::vector<double> saved(int index, size_t size) {
        std::vector<double> field(size, -7);
        const milcgpu_field host = Session<double>::field(field);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_save(vectors, index, parity, &host) == MILCGPU_OK);
        return field;
    }
    milcgpu_quarks from(int first) const { return {nullptr, vectors, first}; }
};

} // namespace

TEST_CASE("vectors that stay on the device give the bits of the host's fields", "[measurements][sanitize]") {
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
            return milcgpu_spin_taste(m.links, nullptr, index, origins[1].data(), n, from, to);
        };
        const Origin origin = {1, 0, 3, 1};
        const auto at_origin = [&](int n, const milcgpu_quarks *from, const milcgpu_quarks *to) {
            return milcgpu_spin_taste(m.links, nullptr, index, origin.data(), n, from, to);
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
            m.must(milcgpu_gauss_smear(m.links, 2, 1.5, steps, 1, 1, &first));
            CHECK(r.saved(0, size) == reference::vector_to_milc<double>(lattice, m.smear(2, 1.5, steps, 1, fields[0])));
        }
        m.must(milcgpu_laplacian(m.links, 2, -1, 1, &quarks));
        CHECK(r.saved(1, size) == reference::vector_to_milc<double>(lattice, m.laplacian(2, -1, fields[1])));
        const Correlators c({0, 0, 1, 0}, {{"GX-GX", 'g', 0, false}, {"GX-G1", 'g', 0, false}});
        for (int k = 0; k < 5; ++k)
            r.load(k, reference::vector_to_milc<double>(lattice, fields[k]));
        std::vector<reference::Complex> sums(size_t(c.spec.n_correlators) * lattice.n[3], {0.5, -2});
        const auto left = r.from(0), right = r.from(2);
        m.must(milcgpu_contract(m.links, &c.spec, nullptr, nullptr, 2, &left, &right,
                                reinterpret_cast<double *>(sums.data())));
        for (auto &z : sums)
            z -= reference::Complex(0.5, -2);
        CHECK(sums == m.contract(c.spec, {fields[0], fields[1]}, {fields[2], fields[3]}));
    }
}

TEST_CASE("links with phases and sign in are those without", "[measurements]") {
    for (const Backend backend : backends()) {
        const Gauge u = links_for(small, 90);
        Measurement<double> m(small, backend, u);
        const Fermion psi = random_fermion(small, 91);
        const int index = milcgpu_spin_taste_index("GXT-G5");
        const Fermion wanted = m.spin_taste(index, origins[0], psi), bare = m.shift(2, MILCGPU_FORWARD, nullptr, psi);
        for (const Origin &origin : origins) {
            auto host = reference::links_to_milc<double>(small, reference::phased_links(small, u, origin, true));
            const milcgpu_field field = Session<double>::field(host);
            const milcgpu_meson_links_spec spec{sizeof spec, 1, 1, {origin[0], origin[1], origin[2], origin[3]}};
            m.must(milcgpu_meson_links_load(m.links, &spec, &field));
            CHECK(reference::relative_difference(m.spin_taste(index, origins[0], psi), wanted) == 0);
            CHECK(reference::relative_difference(m.shift(2, MILCGPU_FORWARD, nullptr, psi), bare) == 0);
        }
    }
}

TEST_CASE("new links take the place of the old ones and of their products", "[measurements]") {
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

TEST_CASE("what measurements refuse, by name, and leave as it was", "[measurements][sanitize]") {
    const auto says = [](const char *what) {
        return std::string(milcgpu_last_error()).find(what) != std::string::npos;
    };
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
            CHECK(says(what));
            CHECK(out == std::vector<double>(host.size(), -7));
        };
        const auto op = [&](int index, const int *about = nullptr) {
            return milcgpu_spin_taste(m.links, nullptr, index, about, 1, &from, &to);
        };
        refused(op(milcgpu_spin_taste_index("rhots"), origin), "rhots has a name in MILC and no definition");
        refused(op(milcgpu_spin_taste_index("rhoxsape"), origin), "operator of two fields");
        refused(op(milcgpu_spin_taste_index("rhoxsffn"), origin), "rhoxsffn takes fat links");
        refused(op(46, origin), "index 46");
        refused(op(384, origin), "index 384");
        refused(op(-1, origin), "index -1");
        refused(op(130), "origin is NULL");
        refused(op(130, late), "origin[T] is 6");
        CHECK(milcgpu_spin_taste_index("pion6") == -1);
        CHECK(says("'pion6' is not known"));
        CHECK(milcgpu_spin_taste_index("GX-GXYZ") == -1);
        CHECK(milcgpu_spin_taste_index(nullptr) == -1);
        char label[4];
        refused(milcgpu_spin_taste_label(0, label, sizeof label), "needs 6 characters");
        const auto shift = [&](int dir, int way, int n, const milcgpu_quarks *a, const milcgpu_quarks *b) {
            return milcgpu_shift_quarks(m.links, dir, way, origin, n, a, b);
        };
        refused(shift(4, 0, 1, &from, &to), "dir is 4");
        refused(shift(0, 3, 1, &from, &to), "way 3");
        refused(shift(0, 0, 0, &from, &to), "n is 0");
        refused(shift(0, 0, 1, nullptr, &to), "quark fields is NULL");
        refused(shift(0, 0, 1, &nothing, &to), "one of host and device");
        refused(shift(0, 0, 1, &wrong, &to), "single precision");
        refused(shift(0, 0, 1, &no_content, &to), "is empty");
        refused(shift(0, 0, 1, &from, &outside), "there are 2");
        const auto smear = [&](int hop, double width, int steps, int slice) {
            return milcgpu_gauss_smear(m.links, hop, width, steps, slice, 1, &to);
        };
        refused(smear(3, 1, 2, -1), "hop is 3");
        refused(smear(2, -1, 2, -1), "width is -1");
        refused(smear(2, std::nan(""), 2, -1), "width is nan");
        refused(smear(2, INFINITY, 2, -1), "width is inf");
        refused(smear(2, 1, -2, -1), "steps -2");
        refused(smear(2, 1, 2, 6), "slice is 6");
        refused(smear(2, 1, 2, -2), "slice is -2");
        refused(milcgpu_laplacian(m.links, 2, 6, 1, &to), "slice is 6");
        refused(milcgpu_laplacian(m.links, 0, 0, 1, &to), "hop is 0");
        // Contractions.
        Correlators c({0, 0, 0, 0}, {{"GX-G1", 'g', 0, false}, {"GX-GX", 'g', 0, false}});
        std::vector<double> correlators(2 * size_t(c.spec.n_correlators) * small.n[3], 3);
        const auto contract = [&](const char *what, milcgpu_status as = MILCGPU_BAD_ARGUMENT) {
            refused(milcgpu_contract(m.links, &c.spec, nullptr, nullptr, 1, &from, &from, correlators.data()), what,
                    as);
            CHECK(correlators == std::vector<double>(correlators.size(), 3));
        };
        const auto with = [&](auto &place, auto value, const char *what) {
            const auto good = place;
            place = value;
            contract(what);
            place = good;
        };
        with(c.terms[2].momentum, 8, "terms[2]: momentum 8 of 8");
        with(c.terms[2].correlator, -1, "correlator -1");
        with(c.terms[2].phase, 4, "phase 4");
        with(c.terms[2].factor, std::nan(""), "factor nan");
        with(c.terms[2].spin_taste, 99, "index 99");
        with(c.terms[2].spin_taste, milcgpu_spin_taste_index("rhoxsfn"), "fat links, which are NULL");
        with(c.momenta[1].parity[2], 0, "momenta[1].parity[Z] is 0");
        with(c.spec.origin[1], -1, "origin[Y] is -1");
        with(c.spec.n_momenta, 0, "n_momenta is 0");
        with(c.spec.n_terms, -1, "n_terms -1");
        with(c.spec.n_correlators, 0, "n_correlators 0");
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
        CHECK(milcgpu_laplacian(nullptr, 2, -1, 1, &to) == MILCGPU_BAD_ARGUMENT);
    }
}

TEST_CASE("measurements on a lattice that is cut are not built", "[measurements]") {
    const Lattice lattice{{4, 4, 4, 4}};
    milcgpu_layout layout = layout_of(lattice);
    layout.emulate = 8;
    milcgpu_options options{};
    options.struct_size = sizeof options;
    options.backend = MILCGPU_HOST;
    milcgpu_context *context = nullptr;
    REQUIRE(milcgpu_init(&layout, &options, &context) == MILCGPU_OK);
    milcgpu_meson_links *links = nullptr;
    CHECK(milcgpu_meson_links_create(context, MILCGPU_DOUBLE, &links) == MILCGPU_NOT_BUILT);
    CHECK(links == nullptr);
    milcgpu_finalize(context);
}

TEST_CASE("a bit that flips in the links of a measurement or in their products is noticed", "[faults][measurements]") {
    for (const Backend backend : backends())
        for (const bool in_products : {false, true}) {
            Measurement<double> m(small, backend, links_for(small, 98));
            const Fermion psi = random_fermion(small, 99);
            const int index = milcgpu_spin_taste_index("G1-GZT");
            m.spin_taste(index, origins[0], psi);
            const milcgpu::LinkField &field = in_products ? m.links->products.corners(12) : m.links->u;
            unsigned char byte, *const place = field.block(1, 1) + 6;
            m.session.context->device->copy_to_host(&byte, place, 1);
            byte ^= 4;
            m.session.context->device->copy_to_device(place, &byte, 1);
            auto host = reference::vector_to_milc<double>(small, psi);
            const auto before = host;
            const milcgpu_field of_host = Session<double>::field(host);
            const milcgpu_quarks quarks{&of_host, nullptr, 0};
            CAPTURE(name(backend), in_products);
            if (in_products)
                CHECK(milcgpu_spin_taste(m.links, nullptr, index, origins[0].data(), 1, &quarks, &quarks) ==
                      MILCGPU_CORRUPTED);
            else
                CHECK(milcgpu_shift_quarks(m.links, 1, 0, nullptr, 1, &quarks, &quarks) == MILCGPU_CORRUPTED);
            CHECK(host == before);
            CHECK(milcgpu_laplacian(m.links, 2, -1, 1, &quarks) == MILCGPU_BAD_ARGUMENT); // empty now
            m.must(m.load(m.u, true));
            m.spin_taste(index, origins[0], psi);
        }
}

TEST_CASE("MILC's links of measurements are loaded again where their content is another one",
          "[measurements][plugin]") {
    for (const Backend backend : backends()) {
        const Lattice lattice{{4, 4, 4, 8}};
        Session<double> session(lattice, backend, 0, 0);
        auto host = reference::links_to_milc<double>(lattice, links_for(lattice, 110));
        auto other = host;
        const auto records = [&](const std::vector<double> &links) {
            return milcgpu::HostRecords{links.data(), size_t(lattice.volume()), 576, 576};
        };
        milcgpu::MesonLinksCache cache(session.context, MILCGPU_DOUBLE, false);
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
        for (size_t k = 0; k < host.size(); k += 72) // all sites: seen at once
            host[k] += 1;
        ready(host, nullptr);
        CHECK(handle == first);
        CHECK(moved == 2 * field);
        host[100] += 1; // one link: when its part has its turn
        for (int k = 0; k < milcgpu::hash_parts; ++k)
            ready(host, nullptr);
        CHECK(moved == 3 * field);
        // Other phases and other addresses have handles of their own, the fourth takes the place of the first.
        ready(host, origins[0].data());
        CHECK(handle != first);
        ready(other, nullptr);
        ready(other, origins[0].data());
        CHECK(handle == first);
        CHECK(moved == 6 * field);
        other[5] = std::nan("");
        int refused = 0;
        for (int k = 0; k < milcgpu::hash_parts && refused == 0; ++k)
            refused = cache.ready(records(other), origins[0].data(), handle, moved);
        CHECK(refused == MILCGPU_NAN_OR_INF);
    }
}
