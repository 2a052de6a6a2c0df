// M x = b with fields that stay on the device: M^dag and D of vectors, solves with them, and the plugin's whole call.
#include "milc_glue/links/vectors.h"
#include "tests/cut_support.h"
#include "tests/mesons_support.h"
#include "tests/plugin_support.h"
#include <algorithm>

using namespace tests;

namespace {

constexpr int parities[] = {MILCGPU_EVEN, MILCGPU_ODD};
constexpr int both_parities = MILCGPU_EVEN + MILCGPU_ODD;

// Vectors of a session, and fields of the reference in them.
template <class Real> struct Vectors {
    Session<Real> &session;
    milcgpu_vectors *handle = nullptr;
    Vectors(Session<Real> &of, int count) : session(of) {
        REQUIRE(milcgpu_vectors_create(of.context, Session<Real>::precision, count, &handle) == MILCGPU_OK);
    }
    Vectors(const Vectors &) = delete;
    ~Vectors() { milcgpu_vectors_destroy(handle); }
    milcgpu_vector operator[](int k) const { return {handle, k}; }
    void put(int k, const reference::Fermion &field) const {
        std::vector<Real> host = reference::vector_to_milc<Real>(session.lattice, field);
        const milcgpu_field from = Session<Real>::field(host);
        for (const int parity : parities)
            REQUIRE(milcgpu_vectors_load(handle, k, parity, &from) == MILCGPU_OK);
    }
    reference::Fermion get(int k) const {
        std::vector<Real> host(6 * static_cast<size_t>(session.lattice.volume()));
        const milcgpu_field to = Session<Real>::field(host);
        for (const int parity : parities)
            REQUIRE(milcgpu_vectors_save(handle, k, parity, &to) == MILCGPU_OK);
        return reference::vector_from_milc<Real>(session.lattice, host);
    }
};

// M x = 2 m x + D x
reference::Fermion dirac(const reference::Lattice &lattice, const AsqtadLinks &links, double mass,
                         const reference::Fermion &x, double sign = 1) {
    reference::Fermion out = reference::dslash(lattice, links.fat, links.lng, x);
    for (int s = 0; s < lattice.volume(); ++s)
        out[s] = 2 * mass * x[s] + sign * out[s];
    return out;
}

double apart(const reference::Lattice &lattice, const reference::Fermion &a, const reference::Fermion &b) {
    return std::max(parity_difference(lattice, a, b, 0), parity_difference(lattice, a, b, 1));
}

} // namespace

TEST_CASE("vectors: scale (a x - D y) is the reference's, on whole and cut lattices", "[measurements][invert]") {
    const auto check = [](auto real, Backend backend, const reference::Lattice &lattice) {
        using Real = decltype(real);
        const AsqtadLinks links = asqtad_links(lattice, 301);
        const reference::Fermion x = random_fermion(lattice, 302), y = random_fermion(lattice, 303);
        Session<Real> session(lattice, backend, links);
        const Vectors<Real> v(session, 3);
        v.put(0, x), v.put(1, y);
        for (const int parity : parities)
            REQUIRE(milcgpu_vectors_minus_dslash(session.links, parity, -0.7, 1.3, v[0], v[1], v[2]) == MILCGPU_OK);
        reference::Fermion expected = reference::dslash(lattice, links.fat, links.lng, y);
        for (int s = 0; s < lattice.volume(); ++s)
            expected[s] = -0.7 * (1.3 * x[s] - expected[s]);
        CHECK(apart(lattice, v.get(2), expected) < (sizeof(Real) == 8 ? 3e-15 : 2e-6));
        CHECK(apart(lattice, v.get(1), y) < (sizeof(Real) == 8 ? 1e-30 : 1e-7)); // untouched
        // `to` is y: odd sites of a solution from its even sites.
        REQUIRE(milcgpu_vectors_minus_dslash(session.links, MILCGPU_ODD, -0.7, 1.3, v[0], v[1], v[1]) == MILCGPU_OK);
        CHECK(parity_difference(lattice, v.get(1), expected, 1) < (sizeof(Real) == 8 ? 3e-15 : 2e-6));
        CHECK(parity_difference(lattice, v.get(1), y, 0) < (sizeof(Real) == 8 ? 1e-30 : 1e-7));
    };
    for (const Backend backend : backends()) {
        for (const reference::Lattice &lattice : shapes)
            check(double(), backend, lattice);
        check(float(), backend, shapes[0]);
        const Environment cut{{"MILCGPU_TEST", "cut=yt"}};
        check(double(), backend, {{4, 6, 2, 4}});
    }
}

TEST_CASE("vectors: a solve of vectors has the bits of a solve of host fields", "[measurements][invert]") {
    const reference::Lattice lattice{{4, 6, 4, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 311);
    const int n = 3;
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        const Vectors<double> v(session, 2 * n);
        std::vector<std::vector<double>> b, x;
        std::vector<milcgpu_field> sources, solutions;
        std::vector<milcgpu_vector> from, to;
        for (int k = 0; k < n; ++k) {
            b.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 312 + k)));
            x.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 322 + k)));
            v.put(k, random_fermion(lattice, 312 + k)), v.put(n + k, random_fermion(lattice, 322 + k));
            from.push_back(v[k]), to.push_back(v[n + k]);
        }
        for (int k = 0; k < n; ++k)
            sources.push_back(session.field(b[k])), solutions.push_back(session.field(x[k]));
        std::vector<milcgpu_solve_report> host(n, sized<milcgpu_solve_report>()),
            device(n, sized<milcgpu_solve_report>());
        milcgpu_solve_spec spec = solve_spec(0.1, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        for (const int together : {MILCGPU_BLOCK, MILCGPU_ONE_BY_ONE}) {
            spec.parity = together == MILCGPU_BLOCK ? MILCGPU_EVEN : MILCGPU_ODD;
            REQUIRE(milcgpu_staggered_solve_sources(session.links, &spec, together, n, sources.data(), solutions.data(),
                                                    host.data()) == MILCGPU_OK);
            REQUIRE(milcgpu_staggered_solve_vectors(session.links, &spec, together, n, from.data(), to.data(),
                                                    device.data()) == MILCGPU_OK);
            for (int k = 0; k < n; ++k) {
                CHECK(device[k].iterations == host[k].iterations);
                CHECK(device[k].true_residual == host[k].true_residual);
                const uint64_t half = 48u * lattice.volume() / 2 - 100; // no field over the bus, but for checksums
                CHECK(device[k].bytes_to_device + half <= host[k].bytes_to_device);
                CHECK(device[k].bytes_to_host + half <= host[k].bytes_to_host);
            }
        }
        for (int k = 0; k < n; ++k)
            CHECK(reference::vector_to_milc<double>(lattice, v.get(n + k)) == x[k]);
    }
}

TEST_CASE("vectors: host fields in another precision are converted", "[measurements][invert]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        const Vectors<double> v(session, 1);
        std::vector<float> host = reference::vector_to_milc<float>(lattice, random_fermion(lattice, 333));
        std::vector<double> in_double(host.size());
        std::vector<float> in_float(host.size());
        milcgpu_field fields[] = {Session<float>::field(host), Session<double>::field(in_double),
                                  Session<float>::field(in_float)};
        for (const int parity : parities)
            REQUIRE(milcgpu_vectors_load(v.handle, 0, parity, &fields[0]) == MILCGPU_OK);
        for (const int k : {1, 2})
            REQUIRE(milcgpu_vectors_save(v.handle, 0, both_parities, &fields[k]) == MILCGPU_OK);
        CHECK(in_double == std::vector<double>(host.begin(), host.end()));
        CHECK(in_float == host);
    }
}

TEST_CASE("vectors over ranks and on emulated cuts: M^dag has the bits of one rank, and checksums hold",
          "[measurements][invert][ranks][cut]") {
    const Extents whole{4, 4, 4, 8};
    const Fields fields = fields_on(whole, false);
    struct Inverted {
        std::vector<double> normal, solution;
    };
    const auto make = [&](const Cut &cut, Backend backend) {
        Inverted made{fields.source, fields.source};
        const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            milcgpu_vectors *handle = nullptr;
            demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 3, &handle));
            const std::unique_ptr<milcgpu_vectors, void (*)(milcgpu_vectors *)> end(handle, milcgpu_vectors_destroy);
            const milcgpu_vector b = {handle, 0}, normal = {handle, 1}, x = {handle, 2};
            const milcgpu_field from = field_of(here.source);
            std::vector<double> host(here.source.size());
            const milcgpu_field to = field_of(host);
            for (const int parity : parities) {
                demand(milcgpu_vectors_load(handle, b.index, parity, &from));
                demand(milcgpu_vectors_load(handle, x.index, parity, &to));
            }
            for (const int parity : parities)
                demand(milcgpu_vectors_minus_dslash(here.links, parity, 1, 0.4, b, b, normal));
            demand(milcgpu_vectors_save(handle, b.index, both_parities, &to)); // refreshes its ghosts
            if (host != here.source)
                throw milcgpu::Error(milcgpu::Status::corrupted, "the source is another one");
            demand(milcgpu_vectors_save(handle, normal.index, both_parities, &to));
            Fields::put(made.normal, host, here.places);
            milcgpu_solve_spec spec = solve_spec(0.2, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            for (const int parity : parities) {
                spec.parity = parity;
                demand(
                    milcgpu_staggered_solve_vectors(here.links, &spec, MILCGPU_TOGETHER_AUTO, 1, &normal, &x, nullptr));
            }
            demand(milcgpu_vectors_save(handle, x.index, both_parities, &to));
            Fields::put(made.solution, host, here.places);
        });
        CHECK(all_well(endings));
        return made;
    };
    for (const Backend backend : backends()) {
        const Inverted one = make({whole, {1, 1, 1, 1}, 0}, backend);
        for (const Cut &cut : {Cut{whole, {1, 1, 1, 2}, 0}, Cut{whole, {1, 1, 1, 1}, 10}}) {
            CAPTURE(milcgpu::name(backend), text_of(cut));
            const Inverted many = make(cut, backend);
            CHECK(same_bits(many.normal, one.normal));
            for (size_t k = 0; k < one.solution.size(); ++k)
                REQUIRE(std::fabs(many.solution[k] - one.solution[k]) < 2e-8);
        }
    }
}

TEST_CASE("sums of vectors over ranks have the bits of one rank, and a failure on one rank fails on all",
          "[measurements][invert][ranks][cut]") {
    const Extents whole{4, 4, 2, 8};
    const Fields fields = fields_on(whole, false);
    enum class Twist { none, weight, count, place, nan };
    const auto sums_on = [&](const Cut &cut, Backend backend, Twist twist, std::vector<double> &sums) {
        sums.assign(fields.source.size(), -7);
        return on_cut(fields, cut, backend, [&](Here &here, Ending &ending) {
            milcgpu_vectors *handle = nullptr;
            demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 2, &handle));
            const std::unique_ptr<milcgpu_vectors, void (*)(milcgpu_vectors *)> end(handle, milcgpu_vectors_destroy);
            const bool twisted = here.rank() == 1;
            if (twisted && twist == Twist::nan)
                here.source[6 * 3] = NAN;
            const milcgpu_field from = field_of(here.source),
                                second{here.fat.data(), MILCGPU_DOUBLE, 72 * sizeof(double)}; // any six reals a site
            demand(milcgpu_vectors_load(handle, 0, MILCGPU_EVEN, &from));
            demand(milcgpu_vectors_load(handle, 1, MILCGPU_EVEN, &second));
            const double weights[] = {0.3, twisted && twist == Twist::weight ? 0.8 : 0.7};
            std::vector<double> host(here.source.size(), -7);
            const milcgpu_field to = field_of(host);
            ending.status = milcgpu_vectors_sum(handle, 0, twisted && twist == Twist::count ? 1 : 2, weights,
                                                MILCGPU_EVEN, twisted && twist == Twist::place ? nullptr : &to);
            ending.text = milcgpu_last_error();
            Fields::put(sums, host, here.places);
        });
    };
    const Cut two{whole, {1, 1, 1, 2}, 0};
    for (const Backend backend : backends()) {
        std::vector<double> one, many;
        CHECK(all_well(sums_on({whole, {1, 1, 1, 1}, 0}, backend, Twist::none, one)));
        CHECK(all_well(sums_on(two, backend, Twist::none, many)));
        CHECK(same_bits(many, one));
        CHECK(std::count(one.begin(), one.end(), -7.0) == static_cast<long>(one.size() / 2)); // odd sites
        const auto fails = [&](Twist twist, Status status, const char *what) {
            CHECK(all_ended(sums_on(two, backend, twist, many), status, what));
            CHECK(std::count(many.begin(), many.end(), -7.0) == static_cast<long>(many.size()));
        };
        fails(Twist::weight, Status::bad_argument, "weights[");
        fails(Twist::count, Status::bad_argument, "count");
        fails(Twist::place, Status::bad_argument, "to");
        fails(Twist::nan, Status::nan_or_inf, "sum of vectors");
    }
}

TEST_CASE("vectors refuse bad input and find a flipped bit", "[measurements][invert][faults]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 331);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend), another(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        const reference::Fermion field = random_fermion(lattice, 332);
        const Vectors<double> v(session, 3), elsewhere(another, 1);
        v.put(0, field);
        const auto minus = [&](milcgpu_vector x, milcgpu_vector y, milcgpu_vector to, double scale = 1, int on = 1) {
            return milcgpu_vectors_minus_dslash(session.links, on, scale, 1, x, y, to);
        };
        CHECK(minus(v[0], v[0], {nullptr, 0}) == MILCGPU_BAD_ARGUMENT);
        CHECK(minus({nullptr, 0}, v[0], v[1]) == MILCGPU_BAD_ARGUMENT);
        CHECK(minus(v[0], v[0], v[3]) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("there is no vector 3"));
        CHECK(minus(v[0], v[0], v[0]) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("it is x, too"));
        CHECK(minus(v[2], v[0], v[1]) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 2 is empty on odd"));
        CHECK(minus(v[0], v[2], v[1]) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 2 is empty on even"));
        CHECK(minus(v[0], elsewhere[0], v[1]) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("y: the vectors"));
        CHECK(minus(v[0], v[0], v[1], NAN) == MILCGPU_BAD_ARGUMENT);
        CHECK(minus(v[0], v[0], v[1], 1, 3) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_vectors_minus_dslash(nullptr, 1, 1, 1, v[0], v[0], v[1]) == MILCGPU_BAD_ARGUMENT);
        REQUIRE(minus(v[0], v[0], v[1]) == MILCGPU_OK);

        const milcgpu_solve_spec spec = solve_spec(0.2, 1e-8, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        v.put(1, field);
        const auto solve = [&](std::vector<milcgpu_vector> b, std::vector<milcgpu_vector> x) {
            return milcgpu_staggered_solve_vectors(session.links, &spec, MILCGPU_BLOCK, static_cast<int>(b.size()),
                                                   b.data(), x.data(), nullptr);
        };
        CHECK(solve({v[0]}, {v[0]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("solutions[0] overlaps sources[0]"));
        CHECK(solve({v[0], v[1]}, {v[1], v[2]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(solve({v[0], v[0]}, {v[1], v[1]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(solve({v[0]}, {v[2]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("vector 2 is empty on even"));
        CHECK(solve({elsewhere[0]}, {v[1]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_staggered_solve_vectors(session.links, &spec, 0, 1, nullptr, nullptr, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        REQUIRE(solve({v[0]}, {v[1]}) == MILCGPU_OK);

        // One bit of the source flips: a call that reads the source reports it, and the source is empty until it is
        // filled again.
        unsigned char *const byte = v.handle->parity[0][0].data + 5;
        unsigned char value;
        milcgpu::Device &device = *session.context->device;
        device.copy_to_host(&value, byte, 1);
        value ^= 4;
        device.copy_to_device(byte, &value, 1);
        CHECK(solve({v[0]}, {v[1]}) == MILCGPU_CORRUPTED);
        CHECK(last_error_says("vector 0 on even"));
        CHECK(solve({v[0]}, {v[1]}) == MILCGPU_BAD_ARGUMENT);
        CHECK(minus(v[0], v[0], v[1]) == MILCGPU_BAD_ARGUMENT);
        v.put(0, field);
        CHECK(solve({v[0]}, {v[1]}) == MILCGPU_OK);
    }
}

namespace {

// n sources and guesses on the plugin's lattice, and their call.
struct Inverts {
    Milc &milc;
    std::vector<reference::Fermion> b;
    std::vector<std::vector<double>> source, guess, x;
    std::vector<milcgpu_field> sources, solutions;
    std::vector<milcgpu_solve_report> even, odd;
    double mass = 0.1;

    Inverts(Milc &of, int n) : milc(of), even(n), odd(n) {
        for (int k = 0; k < n; ++k) {
            b.push_back(random_fermion(of.lattice, 340 + k));
            source.push_back(reference::vector_to_milc<double>(of.lattice, b[k]));
            guess.push_back(reference::vector_to_milc<double>(of.lattice, random_fermion(of.lattice, 350 + k)));
        }
        x = guess;
        for (int k = 0; k < n; ++k)
            sources.push_back(Milc::field(source[k])), solutions.push_back(Milc::field(x[k]));
    }
    int run(bool odd_from_even) {
        for (size_t k = 0; k < x.size(); ++k)
            std::copy(guess[k].begin(), guess[k].end(), x[k].begin());
        milcgpu_plugin_invert_call call{};
        call.solve = milc.call();
        call.solve.routine = MILCGPU_MAT_INVERT;
        call.solve.mass = mass;
        call.solve.tolerance = 1e-10;
        call.odd_from_even = odd_from_even ? 1 : 0;
        call.n = static_cast<int>(x.size());
        call.sources = sources.data(), call.solutions = solutions.data();
        return milcgpu_plugin_invert(&call, even.data(), odd.data());
    }
    // |b - M x| / |b|, by the reference.
    double worst() const {
        double worst = 0;
        for (size_t k = 0; k < x.size(); ++k) {
            const reference::Fermion solution = reference::vector_from_milc<double>(milc.lattice, x[k]);
            worst = worse(worst, apart(milc.lattice, dirac(milc.lattice, milc.links, mass, solution), b[k]));
        }
        return worst;
    }
    bool untouched() const { return x == guess; }
    // The same, but a solution that was copied before the device was lost may stay: MILC's routine takes it as a guess.
    bool untouched_or(const std::vector<std::vector<double>> &solved) const {
        for (size_t k = 0; k < x.size(); ++k)
            for (size_t i = 0; i < x[k].size(); ++i)
                if (x[k][i] != guess[k][i] && !(std::fabs(x[k][i] - solved[k][i]) < 1e-6))
                    return false;
        return true;
    }
};

} // namespace

TEST_CASE("plugin: M x = b copies each field over the bus once", "[measurements][invert][plugin]") {
    for (const Backend backend : backends())
        for (const reference::Lattice &shape : {shapes[1], shapes[0]}) {
            // A GPU reports its progress to the host more often, so a field must have more bytes than all reports.
            const reference::Lattice lattice = backend == Backend::cuda ? reference::Lattice{{8, 8, 8, 8}} : shape;
            // load: fields are loaded again, even if the addresses and contents are the same.
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)},
                                          {"MILCGPU_PRECISION", "double"},
                                          {"MILCGPU_TEST", "load"},
                                          {"MILCGPU_VERBOSE", "0"}};
            Milc milc(lattice);
            REQUIRE(milc.start() == 1);
            RoutineAccount &account = plugin().ledger[MILCGPU_MAT_INVERT];
            account = {};
            const uint64_t field = 48u * lattice.volume(), small = field / 2 - 1; // counters and checksums
            for (const int n : {1, 3})
                for (const bool odd_from_even : {true, false}) {
                    Inverts inverts(milc, n);
                    account = {};
                    REQUIRE(inverts.run(odd_from_even) == 1);
                    // The residual of the normal equation, divided by at most 2 m.
                    CHECK(inverts.worst() < 2e-10 * 10 / (2 * inverts.mass));
                    CHECK(account.calls == n);
                    // The source, and the guess of both parities or of even sites alone.
                    const uint64_t to = n * (odd_from_even ? field + field / 2 : 2 * field), from = n * field;
                    CHECK(account.to_device >= to);
                    CHECK(account.to_device < to + small);
                    CHECK(account.to_host >= from);
                    CHECK(account.to_host < from + small);
                }
        }
}

namespace {

// M^-1 b for several masses, as mat_invert_multi computes it: both parities of (M^dag M)^-1 b, then M^dag of each.
struct SeveralMasses {
    static constexpr int n = 3;
    static constexpr double masses[n] = {0.2, 0.1, 0.3};
    Milc &milc;
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_field> solutions;

    explicit SeveralMasses(Milc &of) : milc(of), x(n, std::vector<double>(of.source.size(), 0.5)) {
        for (auto &one : x)
            solutions.push_back(Milc::field(one));
    }
    int solve(int parity) {
        double offsets[n], tolerances[n], relative[n] = {};
        for (int k = 0; k < n; ++k)
            offsets[k] = 4 * masses[k] * masses[k], tolerances[k] = 1e-10;
        milcgpu_plugin_multi_mass_call call{};
        call.mixed = MILCGPU_MIXED_AUTO;
        call.fat = milc.fat.data(), call.lng = milc.lng.data();
        call.parity = parity;
        call.n_shifts = n;
        call.offsets = offsets, call.tolerances = tolerances, call.relative_tolerances = relative;
        call.max_iterations = 1000, call.max_restarts = 5;
        call.source = Milc::field(milc.source);
        call.solutions = solutions.data();
        milcgpu_shift_report shifts[n];
        milcgpu_multi_mass_report report;
        return milcgpu_plugin_multi_mass(&call, shifts, &report);
    }
    int adjoint(int k) { return milcgpu_plugin_adjoint(milc.fat.data(), milc.lng.data(), masses[k], solutions[k]); }
    double worst() const {
        double worst = 0;
        for (int k = 0; k < n; ++k) {
            const reference::Fermion solution = reference::vector_from_milc<double>(milc.lattice, x[k]);
            worst = worse(worst, apart(milc.lattice, dirac(milc.lattice, milc.links, masses[k], solution), milc.b));
        }
        return worst;
    }
};

} // namespace

TEST_CASE("plugin: solutions of several masses stay on the device until M^dag of them",
          "[measurements][invert][plugin]") {
    for (const Backend backend : backends())
        for (const std::string resident : {"load", "load,nan", "load,copy_back"}) {
            INFO(backend_name(backend) << " MILCGPU_TEST=" << resident);
            const reference::Lattice lattice =
                backend == Backend::cuda ? reference::Lattice{{8, 8, 8, 8}} : reference::Lattice{{4, 6, 10, 4}};
            const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)},
                                          {"MILCGPU_PRECISION", "double"},
                                          {"MILCGPU_TEST", resident},
                                          {"MILCGPU_VERBOSE", "0"}};
            Milc milc(lattice);
            REQUIRE(milc.start() == 1);
            RoutineAccount &solves = plugin().ledger[MILCGPU_KS_MULTICG];
            RoutineAccount &adjoints = plugin().ledger[MILCGPU_MAT_INVERT];
            const bool stay = !has(resident, "copy_back");
            const uint64_t field = 48u * lattice.volume(), small = field / 2 - 1; // counters and checksums
            const auto about = [&](uint64_t bytes, uint64_t fields) {
                CHECK(bytes >= fields * field);
                CHECK(bytes < fields * field + small);
            };
            // broken: MILC's own routine reads the second solution before M^dag of it.
            for (const bool broken : {false, true}) {
                SeveralMasses masses(milc);
                solves = {}, adjoints = {};
                milcgpu_plugin_vectors_begin(SeveralMasses::n, 0);
                REQUIRE(masses.solve(MILCGPU_EVEN) == 1);
                REQUIRE(masses.solve(MILCGPU_ODD) == 1);
                if (stay)
                    CHECK(std::isnan(masses.x[1][0]) == has(resident, "nan"));
                about(solves.to_device, 1);
                about(solves.to_host, stay ? 0 : SeveralMasses::n);
                if (broken)
                    CHECK(milcgpu_plugin_vectors_need() == 1);
                for (int k = 0; k < SeveralMasses::n; ++k)
                    REQUIRE(masses.adjoint(k) == 1);
                milcgpu_plugin_vectors_end();
                CHECK(masses.worst() < 2e-10 * 10 / 0.2); // the residual of the normal equation, divided by 2 m
                about(adjoints.to_device, stay && !broken ? 0 : SeveralMasses::n);
                about(adjoints.to_host, SeveralMasses::n);
                CHECK(adjoints.calls == SeveralMasses::n);
            }
        }
}

TEST_CASE("plugin: a fault during M x = b leaves the fields untouched, or the solve succeeds all the same",
          "[measurements][invert][plugin][faults]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}};
        Milc milc;
        said_by([&] { REQUIRE(milc.start() == 1); });
        Inverts inverts(milc, 2);
        const auto right = [&] { return inverts.worst() < 1e-8; };
        said_by([&] { REQUIRE(inverts.run(true) == 1); });
        REQUIRE(right());
        const auto solved = inverts.x;
        // A fault of the device's memory at each allocation in turn.
        const auto survives = [&](const char *what, Fault fault) {
            int met = 0;
            for (int after = 0; after < 400; after += after < 30 ? 1 : 7) {
                if (milcgpu_plugin_active() == 0)
                    said_by([&] { REQUIRE(milc.start() == 1); });
                INFO(what << " " << after);
                int answer = -1;
                Fault left = Fault::none;
                const std::string text = said_by([&] {
                    plugin().context->device->inject(fault, after);
                    answer = inverts.run(true);
                    if (plugin().context != nullptr) {
                        left = plugin().context->device->planted();
                        plugin().context->device->inject(Fault::none);
                    }
                });
                INFO(text);
                const bool was_met = left == Fault::none;
                met += was_met;
                const bool kept = fault == Fault::device_lost ? inverts.untouched_or(solved) : inverts.untouched();
                CHECK((answer == 1 ? right() : kept));
                CHECK((!was_met || answer == 1 || has(text, "milcgpu: ")));
                if (!was_met)
                    break;
            }
            CHECK(met > 3);
        };
        survives("allocation", Fault::allocation);
        survives("device lost", Fault::device_lost);
        said_by([&] { REQUIRE(milc.start() == 1); });
        // A bit of the links flips when the solve begins.
        std::string text = said_by([&] {
            milcgpu_plugin_inject_fault(MILCGPU_FAULT_FLIP_LINKS);
            CHECK(inverts.run(true) == 1);
        });
        CHECK(has(text, "links are loaded"));
        CHECK(right());
        // The lines of M^dag say of which mass it is.
        SeveralMasses masses(milc);
        for (int k = 0; k < SeveralMasses::n; ++k) {
            masses.x[k][9] = NAN;
            text = said_by([&] { CHECK(masses.adjoint(k) == 0); });
            CHECK(text.find(milcgpu::format("milcgpu: mat_invert: m %g: ", masses.masses[k])) == 0);
        }
        // MILC edits links between two calls.
        milc.fat[7] += 0.01;
        said_by([&] { CHECK(inverts.run(true) == 1); });
        CHECK_FALSE(right());
        milc.fat[7] -= 0.01;
        said_by([&] { CHECK(inverts.run(true) == 1); });
        CHECK(right());
        inverts.source[1][9] = NAN;
        text = said_by([&] { CHECK(inverts.run(false) == 0); });
        CHECK(inverts.untouched());
        CHECK(has(text, "MILC's own routine does this call"));
    }
}
