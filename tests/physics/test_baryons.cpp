// Staggered baryons: the reference against numbers that MILC's formulas give, and the library against the reference.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_baryons.h"
#include "tests/environment.h"
#include "tests/mesons_support.h"
#include "tests/reference/baryons.h"

using namespace tests;
using reference::Complex;
using reference::Octet;

namespace {

// Octets of three flavours: corner s of octet f is congruent_propagator(1000 + 8 f + s), on 4^4.
const Lattice four{{4, 4, 4, 4}};
struct Octets {
    Octet octet[3];
    std::array<const Octet *, 3> all() const { return {&octet[0], &octet[1], &octet[2]}; }
};
const Octets &congruent_octets() {
    static const Octets made = [] {
        Octets o;
        for (int f = 0; f < 3; ++f)
            for (int s = 0; s < 8; ++s)
                o.octet[f][s] = reference::congruent_propagator(four, 1000 + 8 * f + s);
        return o;
    }();
    return made;
}

// Correlators between equal operators, at t = 0: a numpy program that agrees with MILC to 8e-15 of the largest value.
struct Known {
    const char *name;
    bool cube, wall;
    const char *current;
    int p_x;
    Complex at_0;
};
const Known known[] = {{"8 S 1", 0, 0, "2point", 0, {8.49749755662585e-02, 7.68418393980106e-02}},
                       {"8 S 2", 0, 0, "2point", 0, {2.59839313109035e-02, 4.06761387245396e-02}},
                       {"8 S 3", 0, 0, "2point", 0, {2.47294106778979e-02, 1.90328777431638e-02}},
                       {"8 S 5", 0, 0, "2point", 0, {1.59518651183039e-03, 3.98307559686392e-03}},
                       {"8 S 6", 0, 0, "2point", 0, {5.29560357653204e-03, -1.03453754343639e-02}},
                       {"8' S 4", 0, 0, "2point", 0, {8.95020363448512e-03, -2.32588900323812e-03}},
                       {"8' S 7", 0, 0, "2point", 0, {-1.30525169204406e-02, 1.69916087308818e-02}},
                       {"16+ S 2", 0, 0, "2point", 0, {-4.24487122727324e-02, 8.02895757653418e-02}},
                       {"16+ S 3", 0, 0, "2point", 0, {-5.75528280121383e-02, -3.00833321628923e-03}},
                       {"16+ S 4", 0, 0, "2point", 0, {-2.95580235266285e-03, 3.37211480794403e-04}},
                       {"16+ S 6", 0, 0, "2point", 0, {-2.00261224970344e-03, 2.16975811312044e-03}},
                       {"16- S 2", 0, 0, "2point", 0, {-4.45288887205284e-02, -1.81670766502925e-02}},
                       {"16- S 3", 0, 0, "2point", 0, {-3.31484552703740e-03, 1.99391829720778e-02}},
                       {"16- S 4", 0, 0, "2point", 0, {-3.03726502469277e-03, 8.18336823624183e-03}},
                       {"16- S 6", 0, 0, "2point", 0, {1.21136355638790e-03, -1.48255715369439e-02}},
                       {"8 A 4", 0, 0, "2point", 0, {6.24877917480631e-03, -5.04942369238022e-03}},
                       {"8 A 6", 0, 0, "2point", 0, {9.84313333453130e-04, -3.15200120133837e-03}},
                       {"8 A 7", 0, 0, "2point", 0, {-5.56114233176323e-03, -7.92328881162687e-04}},
                       {"16+ A 4", 0, 0, "2point", 0, {8.70434374259909e-03, -1.95419767325987e-03}},
                       {"16+ A 6", 0, 0, "2point", 0, {-4.58565155052798e-03, -5.07805031091803e-03}},
                       {"16- A 4", 0, 0, "2point", 0, {7.67225731438645e-03, -2.89466706521892e-03}},
                       {"16- A 6", 0, 0, "2point", 0, {2.28436791514270e-03, 5.80631653877917e-03}},
                       {"8 M 2", 0, 0, "2point", 0, {-7.95594879905026e-01, -8.66138473518423e-02}},
                       {"8 M 3", 0, 0, "2point", 0, {-3.49674714626654e-01, 2.91669416447029e-01}},
                       {"8 M 41", 0, 0, "2point", 0, {3.27169249433006e-01, -6.94191786815356e-01}},
                       {"8 M 5", 0, 0, "2point", 0, {-2.04424483033582e-01, -1.72651971294674e-02}},
                       {"8 M 61", 0, 0, "2point", 0, {5.34155390552124e-02, -6.39393184127625e-02}},
                       {"8 M 62", 0, 0, "2point", 0, {-2.23745704439108e-01, 8.39763916650758e-02}},
                       {"8' M 41", 0, 0, "2point", 0, {6.39962694966372e-01, 1.07686260481549e+00}},
                       {"16+ M 2", 0, 0, "2point", 0, {1.11053295772909e+00, -6.54344698121809e-01}},
                       {"16+ M 3", 0, 0, "2point", 0, {4.41189861707648e-01, -3.63976675379630e-01}},
                       {"16+ M 41", 0, 0, "2point", 0, {-6.30970455090460e-01, 9.80185399782724e-01}},
                       {"16+ M 42", 0, 0, "2point", 0, {-6.24775923267955e-01, 1.74987557931799e-01}},
                       {"16+ M 61", 0, 0, "2point", 0, {-3.24939582504852e-01, -2.95843373233336e-02}},
                       {"16+ M 62", 0, 0, "2point", 0, {7.69847973006863e-02, -2.45784847364966e-01}},
                       {"16+ M 7", 0, 0, "2point", 0, {1.97197482569032e-01, -3.68174286699328e-02}},
                       {"16- M 2", 0, 0, "2point", 0, {9.26795473148305e-01, 1.18545737805977e+00}},
                       {"16- M 3", 0, 0, "2point", 0, {-2.67657978730462e-01, -2.41781984770168e-02}},
                       {"16- M 41", 0, 0, "2point", 0, {3.58407999414539e-01, -1.84650025277352e-01}},
                       {"16- M 42", 0, 0, "2point", 0, {1.25786034719297e-01, 6.92968047423284e-01}},
                       {"16- M 61", 0, 0, "2point", 0, {6.60257817558383e-02, -1.81674732701011e-02}},
                       {"16- M 62", 0, 0, "2point", 0, {-2.59607092963205e-01, 3.98248397517041e-02}},
                       {"16- M 7", 0, 0, "2point", 0, {-8.77752358420916e-02, 3.76095471711059e-01}},
                       {"16+ S 6", 1, 0, "2point", 0, {4.09122536297028e-02, 2.22682948248013e-02}},
                       {"16+ S 6", 0, 1, "2point", 0, {-1.28167183981020e-01, 1.38864519239708e-01}},
                       {"16+ S 6", 0, 0, "2point", 1, {9.95662712099382e-03, -1.52137651291024e-03}},
                       {"16+ S 6", 1, 0, "G5-G5", 0, {-3.88335202354623e-02, 3.09714059923923e-02}},
                       {"16+ S 6", 1, 0, "GX-G1", 0, {-1.45114784055971e-02, 6.66665510957583e-03}},
                       {"16+ S 6", 1, 0, "GXY-GX", 0, {1.70010466196703e-03, 1.46291477504948e-02}},
                       {"16+ S 6", 1, 0, "GZ-GXY", 0, {-3.79292153544439e-02, -1.79869578385498e-02}},
                       {"16+ S 6", 1, 0, "G1-GYZ", 0, {2.24902700316855e-02, -1.36006065922652e-02}},
                       {"16+ S 6", 1, 0, "GYT-G5Z", 0, {3.98142826181218e-02, -1.46515629274857e-02}},
                       {"16- M 42", 1, 0, "2point", 0, {1.73450436535164e+00, 4.49356572809363e-01}},
                       {"16- M 42", 0, 1, "2point", 0, {5.20383851730868e+00, -1.57610907716379e+01}},
                       {"16- M 42", 0, 0, "2point", 1, {-1.19555744751413e-01, 4.75780055684216e-01}},
                       {"16- M 42", 1, 0, "G5-G5", 0, {1.67881747681113e-01, -3.07553116728276e-01}},
                       {"16- M 42", 1, 0, "GX-G1", 0, {-2.72750814613071e-01, 1.37852811967492e+00}},
                       {"16- M 42", 1, 0, "GXY-GX", 0, {-8.34819269881578e-01, 4.31633433152566e-02}},
                       {"16- M 42", 1, 0, "GZ-GXY", 0, {3.42500232107117e-01, -1.35210214729751e+00}},
                       {"16- M 42", 1, 0, "G1-GYZ", 0, {7.93671453148338e-01, -7.24257453563764e-01}},
                       {"16- M 42", 1, 0, "GYT-G5Z", 0, {2.31617926052622e+00, -5.18287866295416e-01}},
                       {"8 A 6", 1, 0, "2point", 0, {1.12941255324256e-02, -7.04543761648896e-03}},
                       {"8 A 6", 0, 1, "2point", 0, {6.29960533410005e-02, -2.01728076885656e-01}},
                       {"8 A 6", 0, 0, "2point", 1, {-1.09323405469204e-03, 1.07205834957332e-03}},
                       {"8 A 6", 1, 0, "G5-G5", 0, {-1.71230445310717e-02, 2.12346890383768e-03}},
                       {"8 A 6", 1, 0, "GX-G1", 0, {-4.71031106828880e-03, 1.13425810342573e-02}},
                       {"8 A 6", 1, 0, "GXY-GX", 0, {4.65699296198594e-04, -2.12773452187393e-02}},
                       {"8 A 6", 1, 0, "GZ-GXY", 0, {4.96356316336408e-03, 1.17495576650875e-02}},
                       {"8 A 6", 1, 0, "G1-GYZ", 0, {1.13937263129251e-02, 5.46160916935682e-03}},
                       {"8 A 6", 1, 0, "GYT-G5Z", 0, {-2.51257993450573e-02, -1.06070536177339e-02}}};

double apart(const std::vector<Complex> &got, const std::vector<Complex> &wanted) {
    return largest_difference(got, wanted);
}

} // namespace

TEST_CASE("baryons of the reference are those of MILC's formulas", "[baryons]") {
    const auto octets = congruent_octets().all();
    const auto &q = congruent_octets().octet;
    const std::vector<Complex> nucleon = {{-3.06196563794880e+00, 3.16558596059123e+00},
                                          {-8.16998964843181e-02, -1.37645763624153e+00},
                                          {-1.68214295546726e+00, 1.49985275746627e+00},
                                          {5.00492380143321e-01, -4.59882901000978e+00}},
                               delta = {3.89810999829867e+00, 8.83628700597560e+00, -1.63389862036847e+00,
                                        4.96605228856966e+00};
    CHECK(apart(reference::nucleon(four, {&q[0][0], &q[1][0], &q[2][0]}), nucleon) < 1e-14);
    CHECK(apart(reference::delta(four, q[0][0]), delta) < 1e-14);
    for (const Known &one : known) {
        if (one.cube && !long_tests())
            continue;
        reference::SliceOfSites sites;
        sites.wall = one.wall, sites.p[0] = one.p_x;
        const auto c =
            reference::gb_correlator(four, octets, one.name, one.name, one.current, one.cube, false, false, sites);
        double largest = 0;
        for (const Complex &z : c)
            largest = std::max(largest, std::abs(z));
        CAPTURE(one.name, one.cube, one.wall, one.current, one.p_x);
        CHECK(std::abs(c[0] - one.at_0) < 1e-13 * largest);
    }
}

namespace {

// Octets on the device: corner s of octet f, source colour c, is vector 3 (8 f + s) + c.
template <class Real> struct OctetsOnDevice {
    Session<Real> session;
    milcgpu_vectors *vectors = nullptr;
    milcgpu_vector quarks[24];
    std::vector<std::string> &messages() { return session.messages; }

    OctetsOnDevice(const Lattice &lattice, Backend backend, const std::array<const Octet *, 3> &octets, int block = 0)
        : session(lattice, backend, block) {
        REQUIRE(milcgpu_vectors_create(session.context, Session<Real>::precision, 72, &vectors) == MILCGPU_OK);
        for (int k = 0; k < 24; ++k) {
            quarks[k] = {vectors, 3 * k};
            for (int c = 0; c < 3; ++c) {
                auto host = reference::vector_to_milc<Real>(lattice, (*octets[k / 8])[k % 8][c]);
                const milcgpu_field field = Session<Real>::field(host);
                for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                    REQUIRE(milcgpu_vectors_load(vectors, 3 * k + c, parity, &field) == MILCGPU_OK);
            }
        }
    }
    ~OctetsOnDevice() { milcgpu_vectors_destroy(vectors); }

    // What `call` adds to n correlators.
    template <class Call> std::vector<Complex> added(int n, const Call &call) {
        std::vector<Complex> sums(size_t(n) * session.lattice.n[3], {0.5, -2});
        const milcgpu_status status = call(reinterpret_cast<double *>(sums.data()));
        CAPTURE(milcgpu_last_error());
        REQUIRE(status == MILCGPU_OK);
        for (Complex &z : sums)
            z -= Complex(0.5, -2);
        return sums;
    }
    std::vector<Complex> tie_up(const milcgpu_tie_up_spec &spec) {
        return added(spec.n_list,
                     [&](double *to) { return milcgpu_octets_tie_up(session.context, &spec, quarks, to); });
    }
    std::vector<Complex> correlate(const milcgpu_gb_spec &spec) {
        return added(spec.n_correlators,
                     [&](double *to) { return milcgpu_gb_correlate(session.context, &spec, quarks, to); });
    }
};

// MILC's words for an operator of the reference.
int number_of(const std::string &name) {
    const char symmetry = name[name.find(' ') + 1], of_class = name.back();
    std::string label = name;
    if (symmetry == 'M')
        label.insert(label.find('M') + 1, "1/2");
    else if (of_class == '4' || of_class == '6')
        label += '1';
    return milcgpu_gb_operator_index(label.c_str());
}

milcgpu_gb_spec gb_spec(const milcgpu_gb_term &term, const char *current = "2point") {
    milcgpu_gb_spec spec;
    milcgpu_gb_defaults(&spec, sizeof spec);
    if (std::string(current) != "2point")
        spec.current = milcgpu_spin_taste_index(current);
    spec.n_terms = spec.n_correlators = 1, spec.terms = &term;
    return spec;
}

milcgpu_tie_up_spec tie_up_spec(int n, const milcgpu_tie_up *list) {
    milcgpu_tie_up_spec spec;
    milcgpu_tie_up_defaults(&spec, sizeof spec);
    spec.n_list = n, spec.list = list;
    return spec;
}

Octet random_octet(const Lattice &lattice, unsigned long seed) {
    Octet octet;
    for (auto &quark : octet)
        for (Fermion &field : quark)
            field = random_fermion(lattice, seed++);
    return octet;
}

} // namespace

TEST_CASE("baryons of the library are those of MILC's formulas", "[baryons][sanitize]") {
    const auto &q = congruent_octets().octet;
    for (const Backend backend : backends()) {
        OctetsOnDevice<double> device(four, backend, congruent_octets().all());
        const milcgpu_vector first[3] = {device.quarks[0], device.quarks[8], device.quarks[16]};
        const auto nucleon =
            device.added(1, [&](double *to) { return milcgpu_baryon_nucleon(device.session.context, first, to); });
        const auto delta =
            device.added(1, [&](double *to) { return milcgpu_baryon_delta(device.session.context, first[0], to); });
        CHECK(apart(nucleon, reference::nucleon(four, {&q[0][0], &q[1][0], &q[2][0]})) < 1e-14);
        CHECK(apart(delta, reference::delta(four, q[0][0])) < 1e-14);
        for (const Known &one : known) {
            const int op = number_of(one.name);
            const milcgpu_gb_term term{op, op, 0, one.wall, one.cube, 0, 1, 0};
            milcgpu_gb_spec spec = gb_spec(term, one.current);
            spec.momentum = {{one.p_x, 0, 0}, {MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN_AND_ODD}};
            const auto c = device.correlate(spec);
            double largest = 0;
            for (const Complex &z : c)
                largest = std::max(largest, std::abs(z));
            CAPTURE(name(backend), one.name, one.cube, one.wall, one.current, one.p_x);
            CHECK(std::abs(c[0] - one.at_0) < 1e-13 * largest);
        }
    }
}

namespace {

template <class Real> void check_tie_ups(const Lattice &lattice, Backend backend) {
    Octet octet[3];
    for (int f = 0; f < 3; ++f) {
        octet[f] = random_octet(lattice, 100 * (f + 1));
        for (auto &quark : octet[f])
            for (Fermion &field : quark)
                field = reference::vector_from_milc<Real>(lattice, reference::vector_to_milc<Real>(lattice, field));
    }
    const std::array<const Octet *, 3> octets = {&octet[0], &octet[1], &octet[2]};
    OctetsOnDevice<Real> device(lattice, backend, octets);
    const milcgpu_tie_up list[] = {{{0, 0, 0}, {0, 0, 0}},
                                   {{1, 2, 4}, {7, 6, 1}},
                                   {{7, 5, 3}, {3, 3, 5}},
                                   {{6, 1, 2}, {4, 2, 7}},
                                   {{1, 2, 4}, {7, 6, 1}}};
    const char letters[] = " OEB";
    for (const int corner : {0, 3, 6})
        for (const bool one_sided : {false, true})
            for (const int how : {0, 1, 2}) { // without a momentum, with one, a wall
                reference::SliceOfSites sites;
                sites.corner = corner, sites.one_sided = one_sided, sites.wall = how == 2, sites.origin = {1, 0, 3, 1};
                milcgpu_tie_up_spec spec = tie_up_spec(5, list);
                spec.corner = corner, spec.wall = how == 2, spec.one_sided = one_sided;
                std::copy(sites.origin.begin(), sites.origin.end(), spec.origin);
                if (how == 1) {
                    spec.momentum = {{-2, 0, 1}, {MILCGPU_EVEN_AND_ODD, MILCGPU_EVEN, MILCGPU_ODD}};
                    sites.p = {-2, 0, 1};
                    for (int mu = 0; mu < 3; ++mu)
                        sites.parity[mu] = letters[spec.momentum.parity[mu]];
                }
                const auto got = device.tie_up(spec);
                for (int k = 0; k < 5; ++k) {
                    const auto corners = [](const int(&of)[3]) { return reference::Triple{of[0], of[1], of[2]}; };
                    const auto wanted =
                        reference::tie_up(lattice, octets, corners(list[k].source), corners(list[k].sink), sites);
                    CAPTURE(name(backend), sizeof(Real), lattice.n[0], lattice.n[3], corner, one_sided, how, k);
                    const auto begin = got.begin() + k * lattice.n[3];
                    CHECK(apart({begin, begin + lattice.n[3]}, wanted) < (sizeof(Real) == 8 ? 3e-14 : 3e-5));
                }
            }
}

} // namespace

TEST_CASE("tie-ups at any corners are the reference's: shapes, corners, momenta, walls, one-sided shifts",
          "[baryons]") {
    for (const Backend backend : backends())
        for (const Lattice &lattice : {Lattice{{2, 4, 6, 4}}, Lattice{{6, 2, 6, 2}}}) {
            check_tie_ups<double>(lattice, backend);
            check_tie_ups<float>(lattice, backend);
        }
}

TEST_CASE(
    "Golterman-Bailey correlators between different operators, flips, whole sinks and currents are the reference's",
    "[baryons]") {
    const struct {
        const char *source, *sink, *current;
        bool cube, flip, whole;
    } cases[] = {
        {"16+ M 42", "8 S 6", "2point", true, true, false},     {"8 A 4", "16- A 6", "2point", false, true, true},
        {"8 S 2", "16- M 62", "GX-G1", false, false, true},     {"8' M 41", "8' S 7", "GXY-GX", false, true, true},
        {"16- M 7", "16+ M 61", "GYT-G5Z", false, true, false}, {"8 S 6", "16+ S 4", "G5-G5X", false, false, true}};
    const Lattice lattice{{2, 4, 2, 4}};
    Octet octet[3];
    for (int f = 0; f < 3; ++f)
        octet[f] = random_octet(lattice, 7 + 100 * f);
    const std::array<const Octet *, 3> octets = {&octet[0], &octet[1], &octet[2]};
    for (const Backend backend : backends()) {
        OctetsOnDevice<double> device(lattice, backend, octets);
        for (const auto &one : cases) {
            const milcgpu_gb_term term{number_of(one.source), number_of(one.sink), one.flip, 0, one.cube, 3, 0.5, 0};
            milcgpu_gb_spec spec = gb_spec(term, one.current);
            spec.whole_sinks = one.whole;
            auto wanted = reference::gb_correlator(lattice, octets, one.source, one.sink, one.current, one.cube,
                                                   one.flip, one.whole, {});
            for (Complex &z : wanted)
                z *= Complex(0, -0.5);
            CAPTURE(name(backend), one.source, one.sink, one.current);
            CHECK(apart(device.correlate(spec), wanted) < 1e-13);
        }
    }
}

TEST_CASE("the signs of all 256 currents are the reference's", "[baryons]") {
    const Octet octet = random_octet(four, 3);
    OctetsOnDevice<double> device(four, Backend::host, {&octet, &octet, &octet});
    const int op = number_of("8 S 1");
    for (int k = 0; k < 256; k += long_tests() ? 1 : 5) {
        const std::string label = std::string(gammas[k / 16]) + "-" + gammas[k % 16];
        const milcgpu_gb_term term{op, op, 0, 1, 1, 0, 1, 0};
        reference::SliceOfSites wall;
        wall.wall = true;
        CAPTURE(label);
        CHECK(apart(device.correlate(gb_spec(term, label.c_str())),
                    reference::gb_correlator(four, {&octet, &octet, &octet}, "8 S 1", "8 S 1", label, true, false,
                                             false, wall)) < 1e-13);
    }
}

TEST_CASE("whole sinks change nothing if the three octets are equal, and equal octets have fewer tie-ups",
          "[baryons]") {
    const Octet octet = random_octet(four, 5);
    for (const Backend backend : backends()) {
        OctetsOnDevice<double> device(four, backend, {&octet, &octet, &octet});
        for (int k = 0; k < 16; ++k)
            device.quarks[8 + k] = device.quarks[k % 8];
        for (const char *op : {"16+ S 6", "16- M 41", "16+ M 62", "8 M 5"}) {
            const milcgpu_gb_term term{number_of(op), number_of(op), 0, 0, 0, 0, 1, 0};
            milcgpu_gb_spec spec = gb_spec(term);
            const auto part = device.correlate(spec);
            spec.whole_sinks = 1;
            CAPTURE(name(backend), op);
            CHECK(apart(device.correlate(spec), part) < 1e-13);
        }
    }
}

TEST_CASE("tie-ups have the same bits for all threads and blocks, and from calls of one tie-up or many", "[baryons]") {
    const auto octets = congruent_octets().all();
    std::vector<milcgpu_tie_up> list;
    for (int s = 0; s < 8; ++s)
        for (int k = 0; k < 8; ++k)
            list.push_back({{s, 5, s ^ 5}, {k, 6, k ^ 6}});
    for (const Backend backend : backends()) {
        std::vector<Complex> first;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            OctetsOnDevice<double> device(four, backend, octets, threads.block);
            milcgpu_tie_up_spec all = tie_up_spec(int(list.size()), list.data()), one = tie_up_spec(1, &list[37]);
            all.corner = one.corner = 1;
            const auto sums = device.tie_up(all), alone = device.tie_up(one);
            if (first.empty())
                first = sums;
            CHECK(sums == first);
            CHECK(std::equal(alone.begin(), alone.end(), sums.begin() + 37 * four.n[3]));
        }
    }
}

TEST_CASE("tie-ups have the same bits if memory is short, where fewer time slices at a time fit", "[baryons][memory]") {
    const milcgpu_tie_up list[] = {{{0, 5, 5}, {1, 2, 3}}, {{1, 2, 4}, {7, 6, 1}}};
    for (const Backend backend : backends()) {
        OctetsOnDevice<double> device(four, backend, congruent_octets().all());
        const milcgpu_tie_up_spec spec = tie_up_spec(2, list);
        milcgpu::Device &memory = *device.session.context->device;
        const std::vector<Complex> zero(2 * four.n[3]);
        std::vector<Complex> wanted;
        int in_parts = 0;
        for (int k = -1; k < 20; ++k) { // the first time without a fault
            std::vector<Complex> sums = zero;
            if (k >= 0)
                memory.inject(milcgpu::Fault::allocation, k);
            const milcgpu_status status = milcgpu_octets_tie_up(device.session.context, &spec, device.quarks,
                                                                reinterpret_cast<double *>(sums.data()));
            const bool happened = k >= 0 && memory.planted() == milcgpu::Fault::none;
            memory.inject(milcgpu::Fault::none);
            if (k < 0)
                wanted = sums;
            CAPTURE(name(backend), k, milcgpu_last_error());
            CHECK((status == MILCGPU_OK || (k >= 0 && status == MILCGPU_NO_MEMORY)));
            CHECK(sums == (status == MILCGPU_OK ? wanted : zero));
            in_parts += happened && status == MILCGPU_OK;
        }
        CHECK(in_parts >= 3); // fields, their partial sums, sums
    }
}

TEST_CASE("the plan of octets is the memory that quarks and tie-ups take, on a whole lattice and on cut ones",
          "[baryons][plans][api]") {
    const struct {
        const char *cut;
        int quarks, tie_ups;
        bool wall;
    } kinds[] = {{"0", 24, 700, false},    {"0", 1, 1, false},       {"0", 8, 72 * 8, true},
                 {"cut=xt", 8, 64, false}, {"cut=yzt", 2, 3, false}, {"cut=t", 2, 72 * 2, true}};
    const auto check = [&](auto real, const Lattice &lattice, Backend backend) {
        using Real = decltype(real);
        constexpr int precision = Session<Real>::precision;
        for (const auto &kind : kinds) {
            const Environment environment{{"MILCGPU_TEST", kind.cut}};
            Session<Real> session(lattice, backend);
            const milcgpu::Device &device = *session.context->device;
            char text[1000] = "";
            size_t planned = 0, later = 0;
            REQUIRE(milcgpu_octets_plan(session.context, precision, kind.quarks, kind.tie_ups, text, sizeof text,
                                        &planned) == MILCGPU_OK);
            CHECK(has(text, "MiB  vectors"));
            CHECK(has(text, "MiB  shifted quarks and sums of tie-ups"));
            const size_t before = device.used_bytes();
            milcgpu_vectors *vectors = nullptr;
            REQUIRE(milcgpu_vectors_create(session.context, precision, 3 * kind.quarks, &vectors) == MILCGPU_OK);
            const size_t of_vectors = device.used_bytes() - before;
            REQUIRE(milcgpu_octets_plan(session.context, precision, kind.quarks, kind.tie_ups, nullptr, 0, &later) ==
                    MILCGPU_OK);
            CHECK(later == planned + of_vectors);
            std::vector<Real> zero(6 * lattice.volume());
            const milcgpu_field field = Session<Real>::field(zero);
            for (int k = 0; k < 3 * kind.quarks; ++k)
                for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                    REQUIRE(milcgpu_vectors_load(vectors, k, parity, &field) == MILCGPU_OK);
            milcgpu_vector octets[24];
            for (int k = 0; k < 24; ++k)
                octets[k] = {vectors, 3 * (k % kind.quarks)};
            std::vector<milcgpu_tie_up> list; // all quarks, and all tie-ups are different
            const int corners = std::min(kind.quarks, 8);
            for (int k = 0; k < (kind.wall ? corners : kind.tie_ups); ++k) {
                const int s = k % corners, at_sink = k / corners;
                list.push_back({{s, s, s}, {at_sink % 8, at_sink / 8 % 8, at_sink / 64}});
            }
            milcgpu_tie_up_spec spec = tie_up_spec(int(list.size()), list.data());
            spec.wall = kind.wall;
            if (!kind.wall)
                spec.momentum = {{1, 0, 0}, {MILCGPU_EVEN, MILCGPU_EVEN, MILCGPU_EVEN}};
            std::vector<double> numbers(2 * list.size() * lattice.n[3]);
            REQUIRE(milcgpu_octets_tie_up(session.context, &spec, octets, numbers.data()) == MILCGPU_OK);
            CAPTURE(name(backend), sizeof(Real), kind.cut, kind.quarks, kind.tie_ups, planned, device.peak_bytes());
            CHECK(device.peak_bytes() <= planned);
            CHECK(planned <= device.peak_bytes() + (kind.wall ? 8192 : 0)); // walls take no list and no factors
            milcgpu_vectors_destroy(vectors);
        }
        Session<Real> session(lattice, backend);
        size_t bytes = 7;
        for (const auto &[p, quarks, tie_ups] :
             {std::array<int, 3>{MILCGPU_HALF, 8, 715}, {precision, 0, 715}, {precision, 25, 715}, {precision, 8, 0}})
            CHECK(milcgpu_octets_plan(session.context, p, quarks, tie_ups, nullptr, 0, &bytes) == MILCGPU_BAD_ARGUMENT);
        CHECK(bytes == 7);
    };
    for (const Backend backend : backends()) {
        check(double(), {{4, 4, 6, 8}}, backend);
        check(float(), {{6, 8, 4, 4}}, backend);
    }
}

namespace {

// Propagators on unit links: source colour c gives sink colour c alone. From the corner walls of slice 0.
Octet free_octet(const Lattice &lattice, double mass) {
    const Gauge unit = reference::unit_gauge(lattice);
    const Gauge fat = reference::phased_links(lattice, unit, {}, true);
    Gauge lng = fat;
    for (auto &link : lng)
        link = 0.0 * link;
    Gauge half = fat;
    for (auto &link : half)
        link = 0.5 * link;
    Octet octet;
    for (int s = 0; s < 8; ++s) {
        Fermion b(lattice.volume()), x(lattice.volume());
        for (int site = 0; site < lattice.volume(); ++site) {
            const auto at = lattice.coordinates(site);
            if (at[3] == 0 && at[0] % 2 + 2 * (at[1] % 2) + 4 * (at[2] % 2) == s)
                b[site].c[0] = 1;
        }
        for (const int parity : {0, 1}) {
            const auto solved =
                reference::conjugate_gradient(lattice, half, lng, mass, parity, b, Fermion(b.size()), 1e-14, 500);
            for (int site = 0; site < lattice.volume(); ++site)
                if (lattice.parity(site) == parity)
                    x[site] = solved.x[site];
        }
        const Fermion dx = reference::dslash(lattice, half, lng, x);
        for (int c = 0; c < 3; ++c) {
            octet[s][c].resize(b.size());
            for (size_t site = 0; site < b.size(); ++site)
                octet[s][c][site].c[c] = 2 * mass * x[site].c[0] - dx[site].c[0];
        }
    }
    return octet;
}

} // namespace

TEST_CASE("on unit links different irreps do not mix, and a cube is eight corners", "[baryons]") {
    const Lattice lattice{{4, 4, 4, 8}};
    const Octet octet = free_octet(lattice, 0.4);
    for (const Backend backend : backends()) {
        OctetsOnDevice<double> device(lattice, backend, {&octet, &octet, &octet});
        for (int k = 0; k < 16; ++k)
            device.quarks[8 + k] = device.quarks[k % 8];
        const std::vector<std::string> names = {"8 S 1",  "8 S 6",   "8' S 4",   "8' S 7",   "16+ S 4",  "16- S 4",
                                                "8 M 41", "8' M 41", "16+ M 42", "16+ M 61", "16- M 42", "16- M 7"};
        std::vector<milcgpu_gb_term> terms;
        for (const auto &source : names)
            for (const auto &sink : names)
                for (const int cube : {0, 1})
                    terms.push_back({number_of(source), number_of(sink), 0, 0, cube, 0, 1, int(terms.size())});
        milcgpu_gb_spec spec = gb_spec(terms[0]);
        spec.n_terms = spec.n_correlators = int(terms.size()), spec.terms = terms.data();
        const auto c = device.correlate(spec);
        const auto largest = [&](size_t k) {
            double most = 0;
            for (int t = 0; t < 8; ++t)
                most = std::max(most, std::abs(c[8 * k + t]));
            return most;
        };
        const auto word = [](const std::string &name, int which) {
            return which == 0 ? name.substr(0, name.find(' ')) : name.substr(name.find(' ') + 1, 1);
        };
        double scale = 0, mixed = 0, off = 0;
        int same = 0;
        for (size_t k = 0; k < terms.size(); ++k) {
            const std::string &source = names[k / 2 / names.size()], &sink = names[k / 2 % names.size()];
            scale = std::max(scale, largest(k));
            if (word(source, 1) != word(sink, 1))
                continue;
            if (word(source, 0) != word(sink, 0))
                mixed = std::max(mixed, largest(k));
            else if (k % 2 == 0) {
                ++same;
                CAPTURE(source, sink);
                CHECK((source != sink || largest(k) > 1e-6 * scale));
                for (int t = 0; t < 8; ++t)
                    off = std::max(off, std::abs(c[8 * (k + 1) + t] - 8.0 * c[8 * k + t]));
            }
        }
        CHECK(same > 15);
        CHECK(mixed < 1e-14 * scale);
        CHECK(off < 1e-14 * scale);
    }
}

TEST_CASE("baryons refuse what is wrong, and say what", "[baryons][errors][null]") {
    OctetsOnDevice<double> device(four, Backend::host, congruent_octets().all());
    Session<double> elsewhere(four, Backend::host);
    milcgpu_context *const context = device.session.context;
    std::vector<double> to(8 * 4, 3);
    const int mixed = number_of("16+ M 42");
    milcgpu_gb_term term{mixed, mixed, 0, 0, 0, 0, 1, 0};
    milcgpu_gb_spec spec = gb_spec(term);
    const auto refused = [&](milcgpu_status status, const char *words, milcgpu_status with = MILCGPU_BAD_ARGUMENT) {
        CAPTURE(words, milcgpu_last_error());
        CHECK(status == with);
        CHECK(last_error_says(words));
        CHECK(to == std::vector<double>(to.size(), 3));
    };
    const auto call = [&] { return milcgpu_gb_correlate(context, &spec, device.quarks, to.data()); };
    REQUIRE(call() == MILCGPU_OK);
    std::fill(to.begin(), to.end(), 3);
    // A corner that no term needs may be absent. Class 4 needs corners 1 to 6.
    const milcgpu_vector of_7 = std::exchange(device.quarks[7], {nullptr, 0}), of_13 = device.quarks[13];
    CHECK(call() == MILCGPU_OK);
    std::fill(to.begin(), to.end(), 3);
    device.quarks[13].of = nullptr;
    refused(call(), "octets[13] (corner 5 of octet 1)");
    device.quarks[7] = of_7, device.quarks[13] = of_13;
    refused(milcgpu_gb_correlate(elsewhere.context, &spec, device.quarks, to.data()), "another context");
    milcgpu_vectors *other = nullptr;
    REQUIRE(milcgpu_vectors_create(context, MILCGPU_DOUBLE, 3, &other) == MILCGPU_OK);
    device.quarks[13] = {other, 0};
    refused(call(), "vector 0 is empty on even sites");
    device.quarks[13] = {other, 1};
    refused(call(), "vectors 1 to 3: this set has vectors 0 to 2");
    milcgpu_vectors_destroy(other);
    REQUIRE(milcgpu_vectors_create(context, MILCGPU_SINGLE, 3, &other) == MILCGPU_OK);
    std::vector<float> zero(6 * four.volume());
    const milcgpu_field field = Session<float>::field(zero);
    for (int c = 0; c < 3; ++c)
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_load(other, c, parity, &field) == MILCGPU_OK);
    device.quarks[13] = {other, 0};
    refused(call(), "octets[13] (corner 5 of octet 1) is in single precision");
    device.quarks[13] = of_13;
    milcgpu_vectors_destroy(other);
    term.sink = 99;
    refused(call(), "spec.terms[0].sink is 99");
    term.sink = mixed, term.correlator = 1;
    refused(call(), "spec.terms[0].correlator is 1: must be below spec.n_correlators, 1");
    term.correlator = 0, term.wall = 1, spec.momentum.p[1] = 1;
    std::fill_n(spec.momentum.parity, 3, MILCGPU_EVEN);
    refused(call(), "a wall sink has no momentum");
    term.wall = 0, spec.momentum.parity[2] = 0;
    refused(call(), "spec.momentum.parity[2]");
    spec = gb_spec(term);
    spec.current = milcgpu_spin_taste_index("pion5");
    refused(call(), "spec.current is 0, a name of MILC's mesons");
    spec.current = MILCGPU_TWO_POINT;
    CHECK(milcgpu_gb_operator_index("16+ M 42") == -1);
    CHECK(last_error_says("there is no operator \"16+ M 42\""));
    CHECK(milcgpu_gb_operator_index("8 M1/2 42") == milcgpu_gb_operator_index("8 M1/2 41"));
    char label[12];
    for (int k = 0; milcgpu_gb_operator_label(k, label, sizeof label) == MILCGPU_OK; ++k)
        CHECK(milcgpu_gb_operator_index(label) == k);
    CHECK(last_error_says("index is 43"));
    refused(milcgpu_gb_operator_label(20, label, 8), "needs 9 characters");
    // NaN in a quark is found in the result.
    auto bad = reference::vector_to_milc<double>(four, congruent_octets().octet[0][2][1]);
    std::fill(bad.begin(), bad.end(), NAN);
    const milcgpu_field nan = Session<double>::field(bad);
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        REQUIRE(milcgpu_vectors_load(device.vectors, 3 * 2 + 1, parity, &nan) == MILCGPU_OK);
    refused(call(), "the quarks", MILCGPU_NAN_OR_INF);
}
