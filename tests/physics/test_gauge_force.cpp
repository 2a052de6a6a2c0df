// The gauge sector of molecular dynamics on the device: force and action of the gauge field, momenta, updates of the
// links, against the slow reference and by identities.
#include "examples/lib/lattice_file.h"
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/machine/backend/device.h"
#include "reorder/link_reorder.h"
#include "tests/reference/gauge_force.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;
using reference::Gauge;

namespace {

const std::array<int, 4> shapes[] = {{4, 6, 8, 10}, {2, 4, 6, 8}, {4, 4, 4, 32}, {6, 2, 2, 4}};

// The coefficients of MILC's HISQ test (su3_rhmc_hisq.2).
constexpr LoopCoefficients hisq_loops{1, -0.041810056860245297, 0.00051492028392353213};
constexpr LoopCoefficients rough_loops{0.8, -0.3, 0.45}; // all of similar size, so that an error of any one shows

std::vector<reference::Loops> loops_of(const LoopCoefficients &c) {
    return {{c.plaquette, reference::plaquettes()},
            {c.rectangle, reference::rectangles()},
            {c.bent, reference::bent_rectangles()}};
}

Gauge with_phases(const reference::Lattice &lattice, Gauge gauge) {
    reference::apply_phases(lattice, gauge);
    return gauge;
}

template <class Real> constexpr Precision precision_of = sizeof(Real) == 8 ? Precision::double_ : Precision::single;

// Links (phases in on the device, out on the host) and momenta of a lattice.
template <class Real> struct Fields {
    reference::Lattice lattice;
    Geometry on;
    SiteMap map;
    Device device;
    LinkField u, h;

    Fields(const reference::Lattice &of, Backend backend, int block = 0)
        : lattice(of), on(of.n), device(backend, 0), u(device, precision_of<Real>, 18, on, "test"),
          h(momenta(device, precision_of<Real>, on)) {
        device.set_block(block);
        device.fill_zero(h.block(0, 0), h.bytes());
    }
    void put(const LinkField &to, const Gauge &matrices) {
        auto host = reference::links_to_milc<Real>(lattice, matrices);
        links_to_device(device, {host.data(), to.precision(), 72 * sizeof(Real)}, map, on, to);
    }
    Gauge get(const LinkField &from) {
        std::vector<Real> host(72 * size_t(lattice.volume()));
        links_to_host(device, from, map, on, {host.data(), from.precision(), 72 * sizeof(Real)});
        return reference::links_from_milc<Real>(lattice, host);
    }
    LinkField unit() {
        LinkField one(device, precision_of<Real>, 18, on, "test");
        put(one, reference::unit_gauge(lattice));
        return one;
    }
    void set_links(const Gauge &gauge) { put(u, with_phases(lattice, gauge)); }
    Gauge links() { return with_phases(lattice, get(u)); }
    // Sets the momenta to H = TA(1 H).
    void set_momenta(const Gauge &matrices) {
        const LinkField minus_h(device, precision_of<Real>, 18, on, "test");
        Gauge adjoints(matrices.size());
        for (size_t k = 0; k < adjoints.size(); ++k)
            adjoints[k] = adjoint(matrices[k]);
        put(minus_h, adjoints);
        device.fill_zero(h.block(0, 0), h.bytes());
        add_force(device, on, unit(), minus_h, 1, h);
    }
    // Reads the momenta as 1 + H, which holds H to the last bit because the diagonal of H is imaginary.
    Gauge momenta_now() {
        const LinkField sum = unit();
        update_links(device, on, sum, h, 1, 1);
        Gauge result = get(sum);
        for (auto &m : result)
            m = m - reference::identity();
        return result;
    }
    void force(const LoopCoefficients &c, double factor) {
        gauge_force(device, on, u, c, factor, h, GaugeForceSpace(device, on, precision_of<Real>, c));
    }
};

// The reference must start from input rounded to single precision, too.
template <class Real> Gauge rounded(const reference::Lattice &lattice, const Gauge &gauge) {
    return reference::links_from_milc<Real>(lattice, reference::links_to_milc<Real>(lattice, gauge));
}

template <class Real>
double force_error(Backend backend, const reference::Lattice &lattice, const Gauge &gauge, const LoopCoefficients &c) {
    const Gauge u = rounded<Real>(lattice, gauge), before = reference::random_momenta(lattice, 31);
    const double factor = 0.37;
    Fields<Real> fields(lattice, backend);
    fields.set_links(u);
    fields.set_momenta(before);
    const Gauge held = fields.momenta_now();
    REQUIRE(reference::relative_difference(held, before) < 1e-6);
    fields.force(c, factor);
    return reference::relative_difference(fields.momenta_now(),
                                          reference::add_gauge_force(lattice, u, loops_of(c), factor, held));
}

// sum Re tr(a^dagger b)
double inner_product(const Gauge &a, const Gauge &b) {
    long double sum = 0;
    for (size_t k = 0; k < a.size(); ++k)
        sum += reference::trace(adjoint(a[k]) * b[k]).real();
    return double(sum);
}

// The derivative of f at 0 by differences of order 8.
template <class Function> double derivative(const Function &f, double h) {
    constexpr double weights[] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
    double sum = 0;
    for (int k = 1; k <= 4; ++k)
        sum += weights[k - 1] * (f(k * h) - f(-k * h));
    return sum / h;
}

} // namespace

TEST_CASE("gauge force is the sum over paths, for all shapes, coefficients and precisions", "[forces]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes)
            for (const bool hot : {true, false}) {
                const reference::Lattice lattice{shape};
                const Gauge gauge =
                    hot ? reference::random_gauge(lattice, 41) : reference::near_unit_gauge(lattice, 0.2, 42);
                const LoopCoefficients c = hot ? rough_loops : hisq_loops;
                CAPTURE(name(backend), shape[0], shape[1], shape[2], shape[3], hot);
                CHECK(force_error<double>(backend, lattice, gauge, c) <= times_measured * 2.2e-16);
                CHECK(force_error<float>(backend, lattice, gauge, c) <= times_measured * 8.6e-8);
            }
}

TEST_CASE("each kind of loop is right alone, and a coefficient of zero leaves its kind out", "[forces][sanitize]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const Gauge gauge = reference::random_gauge(lattice, 43);
    for (const Backend backend : backends())
        for (int kinds = 0; kinds < 8; ++kinds) {
            const LoopCoefficients c{kinds & 1 ? 0.9 : 0, kinds & 2 ? -0.7 : 0, kinds & 4 ? 0.8 : 0};
            CAPTURE(name(backend), kinds);
            CHECK(force_error<double>(backend, lattice, gauge, c) <= times_measured * 3e-16);
        }
}

TEST_CASE("the action has the right loops, and each link the right number of paths", "[forces]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge unit = reference::unit_gauge(lattice);
    const auto sum = [&](const LoopCoefficients &c) {
        return reference::trace(reference::loop_sums(lattice, unit, loops_of(c))[0]).real() / 3;
    };
    CHECK(reference::plaquettes().size() == 6);
    CHECK(reference::rectangles().size() == 12);
    CHECK(reference::bent_rectangles().size() == 16);
    CHECK(sum({1, 0, 0}) == 6);
    CHECK(sum({0, 1, 0}) == 18);
    CHECK(sum({0, 0, 1}) == 24);
}

TEST_CASE("gauge force is the derivative of the gauge action", "[forces]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const Gauge gauge = reference::random_gauge(lattice, 44), h = reference::random_momenta(lattice, 45);
    for (const Backend backend : backends())
        for (const LoopCoefficients &c :
             {LoopCoefficients{1, 0, 0}, LoopCoefficients{0, 1, 0}, LoopCoefficients{0, 0, 1}, rough_loops}) {
            Fields<double> fields(lattice, backend);
            fields.set_links(gauge);
            fields.force(c, 1);
            // U(s) = exp(s H) U: dS/ds = -sum Re tr(H U P) = sum Re tr(H dH), dH the force
            const double predicted = -inner_product(h, fields.momenta_now());
            const double found = derivative(
                [&](double s) {
                    fields.set_links(reference::update_links(gauge, h, s, 20));
                    return gauge_action(fields.device, fields.on, fields.u, c);
                },
                0.01);
            CAPTURE(name(backend), c.plaquette, c.rectangle, c.bent, found, predicted);
            CHECK(std::abs(found / predicted - 1) <= times_measured * 1.3e-11);
        }
}

TEST_CASE("gauge force is covariant, linear and traceless in sum, and zero on unit links", "[forces][sanitize]") {
    const reference::Lattice lattice{{4, 4, 2, 6}};
    const auto g = reference::random_transformation(lattice, 46);
    const Gauge gauge = reference::random_gauge(lattice, 47);
    const Gauge turned = reference::transform_links(lattice, g, gauge, 1);
    const Gauge nothing(gauge.size(), reference::Matrix{});
    for (const Backend backend : backends()) {
        Fields<double> fields(lattice, backend);
        const auto force = [&](const Gauge &links, const LoopCoefficients &c, const Gauge &before, double factor) {
            fields.set_links(links);
            fields.set_momenta(before);
            fields.force(c, factor);
            return fields.momenta_now();
        };
        const Gauge plain = force(gauge, rough_loops, nothing, 1), moved = force(turned, rough_loops, nothing, 1);
        Gauge wanted(plain.size());
        for (size_t k = 0; k < wanted.size(); ++k)
            wanted[k] = g[k / 4] * plain[k] * adjoint(g[k / 4]);
        CAPTURE(name(backend));
        CHECK(reference::relative_difference(moved, wanted) <= times_measured * 7.8e-16);
        // Two half steps are a step.
        CHECK(reference::relative_difference(force(gauge, rough_loops, force(gauge, rough_loops, nothing, 0.5), 0.5),
                                             plain) <= times_measured * 6e-17);
        double largest = 0;
        for (const auto &m : force(reference::unit_gauge(lattice), rough_loops, nothing, 1))
            largest = worse(largest, reference::frobenius_norm(m));
        CHECK(largest <= 1e-14);
    }
}

TEST_CASE("gauge force in slices of the lattice has the same bits", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const std::array<int, 4> &shape : {std::array<int, 4>{4, 4, 6, 6}, {2, 6, 2, 12}, {6, 4, 10, 2}}) {
            const reference::Lattice lattice{shape};
            Fields<double> fields(lattice, backend);
            fields.set_links(reference::near_unit_gauge(lattice, 0.3, 48));
            Gauge whole;
            for (const size_t slice : {size_t(0), size_t(64), size_t(128)}) {
                fields.device.fill_zero(fields.h.block(0, 0), fields.h.bytes());
                GaugeForceSpace space(fields.device, fields.on, Precision::double_, rough_loops);
                REQUIRE(space.slice >= size_t(fields.on.sites(0)));
                if (slice > 0)
                    space.slice = slice;
                gauge_force(fields.device, fields.on, fields.u, rough_loops, 1, fields.h, space);
                const Gauge found = fields.momenta_now();
                if (slice == 0)
                    whole = found;
                CAPTURE(name(backend), shape[0], shape[1], shape[2], shape[3], slice);
                CHECK(reference::relative_difference(found, whole) == 0);
            }
        }
}

TEST_CASE("gauge force takes smaller slices if memory is short", "[forces]") {
    const milcgpu::Geometry geometry({16, 16, 16, 36}); // 73728 even sites
    for (const Backend backend : backends()) {
        milcgpu::Device device(backend, 0);
        const auto space = [&] { return GaugeForceSpace(device, geometry, Precision::single, rough_loops); };
        const size_t roomy = space().bytes(), before = device.used_bytes();
        CAPTURE(name(backend), roomy);
        CHECK(space().slice == 73728);
        device.set_memory_limit(before + roomy - 1);
        CHECK(space().slice == 65536);
        device.set_memory_limit(before + roomy / 2);
        CHECK_THROWS_AS(space(), milcgpu::Error);
        device.set_memory_limit(0);
    }
}

TEST_CASE("gauge action, plaquettes and Polyakov loop are the reference's", "[forces]") {
    const auto check = [](auto real, Backend backend, const reference::Lattice &lattice, const Gauge &gauge) {
        using Real = decltype(real);
        constexpr bool fine = sizeof(Real) == 8;
        const Gauge u = rounded<Real>(lattice, gauge);
        Fields<Real> fields(lattice, backend);
        fields.set_links(u);
        CAPTURE(name(backend), lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3], sizeof(Real));
        for (const LoopCoefficients &c : {rough_loops, hisq_loops, LoopCoefficients{1, 0, 0}, LoopCoefficients{0, 1, 0},
                                          LoopCoefficients{0, 0, 1}}) {
            const double wanted = reference::gauge_action(lattice, u, loops_of(c));
            const double size = 3 * (6 * c.plaquette + 12 * std::abs(c.rectangle) + 16 * c.bent) * lattice.volume();
            CHECK(std::abs(gauge_action(fields.device, fields.on, fields.u, c) - wanted) / size <=
                  times_measured * (fine ? 2.2e-16 : 2.2e-9));
        }
        const auto means = plaquettes(fields.device, fields.on, fields.u);
        const auto parts = reference::plaquette_parts(lattice, u);
        CHECK(std::abs(means.space + 3 * parts.space_space) <= times_measured * (fine ? 4.5e-16 : 7e-9));
        CHECK(std::abs(means.time + 3 * parts.space_time) <= times_measured * (fine ? 4.5e-16 : 7e-9));
        reference::Complex loop = 0;
        const int space = lattice.volume() / lattice.n[3];
        for (int site = 0; site < space; ++site)
            loop += reference::trace(reference::along_path(lattice, u, site, reference::Path(lattice.n[3], 3)));
        loop /= space;
        const auto found = polyakov_loop(fields.device, fields.on, fields.u);
        CHECK(std::abs(reference::Complex(found.re, found.im) + loop) <= times_measured * (fine ? 9e-16 : 2e-8));
        // A bent loop whose first step goes back along t, a rectangle, and two loops that wind around the lattice.
        for (const reference::Path &steps : {reference::Path{4, 0, 2, 3, 7, 5}, reference::Path{0, 0, 3, 7, 7, 4},
                                             reference::Path(lattice.n[1], 1), reference::Path(lattice.n[3], 4)}) {
            LoopPath path{static_cast<int>(steps.size()), {}};
            for (size_t k = 0; k < steps.size(); ++k)
                path.steps[k] = static_cast<unsigned char>(steps[k] < 4 ? 2 * steps[k] : 2 * (7 - steps[k]) + 1);
            reference::Complex mean = 0;
            for (int site = 0; site < lattice.volume(); ++site)
                mean += reference::trace(reference::along_path(lattice, u, site, steps)) / double(lattice.volume());
            const auto trace = loop_trace(fields.device, fields.on, fields.u, path, Signs::phases_in);
            CHECK(std::abs(reference::Complex(trace.re, trace.im) - mean) <= times_measured * (fine ? 1e-14 : 4e-8));
        }
    };
    for (const Backend backend : backends())
        for (const std::array<int, 4> &shape : {std::array<int, 4>{4, 6, 8, 10}, {2, 4, 6, 2}, {4, 2, 2, 8}}) {
            const reference::Lattice lattice{shape};
            for (const Gauge &gauge :
                 {reference::random_gauge(lattice, 49), reference::near_unit_gauge(lattice, 0.2, 50)}) {
                check(double(), backend, lattice, gauge);
                check(float(), backend, lattice, gauge);
            }
        }
}

TEST_CASE("on unit links the action is 0, with phases plaquettes and Polyakov loop are -3", "[forces][sanitize]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    for (const Backend backend : backends()) {
        Fields<double> fields(lattice, backend);
        fields.set_links(reference::unit_gauge(lattice));
        CHECK(gauge_action(fields.device, fields.on, fields.u, {1, 0, 0}) == 0);
        CHECK(gauge_action(fields.device, fields.on, fields.u, {0, 1, 0}) == 0);
        CHECK(gauge_action(fields.device, fields.on, fields.u, {0, 0, 1}) == 0);
        const auto means = plaquettes(fields.device, fields.on, fields.u);
        CHECK(means.space == -3);
        CHECK(means.time == -3);
        CHECK(polyakov_loop(fields.device, fields.on, fields.u).re == -3);
        const LoopPath plaquette{4, {0, 2, 1, 3}};
        CHECK(loop_trace(fields.device, fields.on, fields.u, plaquette, Signs::phases_in).re == 3);
        fields.put(fields.u, reference::unit_gauge(lattice)); // no phases
        CHECK(plaquettes(fields.device, fields.on, fields.u).space == 3);
        CHECK(polyakov_loop(fields.device, fields.on, fields.u).re == 3);
        CHECK(loop_trace(fields.device, fields.on, fields.u, plaquette, Signs::phases_out).re == 3);
    }
}

TEST_CASE("momentum action is half the norm squared less 4 a link", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            const reference::Lattice lattice{shape};
            const Gauge h = reference::random_momenta(lattice, 51);
            const double size = 16.0 * lattice.volume();
            Fields<double> fields(lattice, backend);
            CHECK(momentum_action(fields.device, fields.on, fields.h) == -size);
            fields.set_momenta(h);
            CAPTURE(name(backend), shape[0]);
            CHECK(std::abs(momentum_action(fields.device, fields.on, fields.h) - reference::momentum_action(h)) /
                      size <=
                  times_measured * 3.5e-18);
            Fields<float> single(lattice, backend);
            single.set_momenta(h);
            CHECK(std::abs(momentum_action(single.device, single.on, single.h) -
                           reference::momentum_action(single.momenta_now())) /
                      size <=
                  times_measured * 1.3e-17);
        }
}

TEST_CASE("update of the links is the exponential series", "[forces][sanitize]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const auto check = [&](auto real, Backend backend, double eps, int order, double error) {
        using Real = decltype(real);
        const Gauge gauge = rounded<Real>(lattice, reference::random_gauge(lattice, 52));
        Fields<Real> fields(lattice, backend);
        fields.set_links(gauge);
        fields.set_momenta(reference::random_momenta(lattice, 53));
        const Gauge h = fields.momenta_now();
        update_links(fields.device, fields.on, fields.u, fields.h, eps, order);
        const Gauge got = fields.links();
        CAPTURE(name(backend), eps, order, sizeof(Real));
        CHECK(reference::relative_difference(got, reference::update_links(gauge, h, eps, order)) <= error);
        CHECK(reference::relative_difference(fields.momenta_now(), h) == 0);
        // The rest of the series, and so the distance from a unitary matrix, is about (eps |H|)^(order+1) / (order+1)!.
        double worst = 0, longest = 0;
        for (size_t k = 0; k < got.size(); ++k) {
            const auto gram = got[k] * adjoint(got[k]) - reference::identity();
            worst = worse(worst, reference::frobenius_norm(gram));
            longest = worse(longest, std::abs(eps) * reference::frobenius_norm(h[k]));
        }
        CHECK(worst <= 2 * std::pow(longest, order + 1) / std::tgamma(order + 2) + 10 * error);
        if (order == 16)
            CHECK(reference::relative_difference(got, reference::update_links(gauge, h, eps, 30)) <= error);
    };
    for (const Backend backend : backends()) {
        for (const int order : {1, 6, 8})
            for (const double eps : {0.02, -0.3}) {
                check(double(), backend, eps, order, times_measured * 1.4e-16);
                check(float(), backend, eps, order, times_measured * 4.3e-8);
            }
        check(double(), backend, 0.1, 16, times_measured * 1.3e-16);
        Fields<double> fields(lattice, backend);
        fields.set_links(reference::unit_gauge(lattice));
        CHECK_THROWS_AS(update_links(fields.device, fields.on, fields.u, fields.h, 0.1, 0), Error);
        CHECK_THROWS_AS(update_links(fields.device, fields.on, fields.u, fields.h, 0.1, 17), Error);
    }
}

TEST_CASE("links and momenta return after a trajectory forth and back", "[forces]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    const Gauge gauge = reference::near_unit_gauge(lattice, 0.3, 54), start = reference::random_momenta(lattice, 55);
    for (const Backend backend : backends()) {
        Fields<double> fields(lattice, backend);
        fields.set_links(gauge);
        fields.set_momenta(start);
        const double beta = 6.5;
        const auto energy = [&] {
            return momentum_action(fields.device, fields.on, fields.h) +
                   beta / 3 * gauge_action(fields.device, fields.on, fields.u, hisq_loops);
        };
        const auto leapfrog = [&](double eps, int count) {
            for (int k = 0; k < count; ++k) {
                update_links(fields.device, fields.on, fields.u, fields.h, eps / 2, 8);
                fields.force(hisq_loops, eps * beta / 3);
                update_links(fields.device, fields.on, fields.u, fields.h, eps / 2, 8);
            }
        };
        double errors[2];
        for (const int fine : {0, 1}) {
            fields.set_links(gauge);
            fields.set_momenta(start);
            const double before = energy();
            leapfrog(0.02 / (1 + fine), 10 * (1 + fine));
            errors[fine] = std::abs(energy() - before);
        }
        CAPTURE(name(backend), errors[0], errors[1]);
        CHECK(errors[0] / errors[1] > 3.7); // second order
        CHECK(errors[0] / errors[1] < 4.3);
        leapfrog(-0.01, 20);
        CHECK(reference::relative_difference(fields.links(), gauge) <= times_measured * 9.6e-17);
        CHECK(reference::relative_difference(fields.momenta_now(), start) <= times_measured * 3.2e-16);
    }
}

TEST_CASE("reunitarization leaves good links, repairs perturbed ones and keeps phases", "[forces][sanitize]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const auto check = [&](auto real, Backend backend, double error) {
        using Real = decltype(real);
        const Gauge gauge = reference::random_gauge(lattice, 56);
        Fields<Real> fields(lattice, backend);
        fields.set_links(gauge);
        CAPTURE(name(backend), sizeof(Real));
        auto report = reunitarize(fields.device, fields.on, fields.u);
        CHECK(report.failed == 0);
        CHECK(report.first_failed == -1);
        CHECK(report.largest_deviation <= 10 * error);
        CHECK(reference::relative_difference(fields.links(), gauge) <= error);
        Gauge disturbed = gauge;
        reference::Rng rng(57);
        double largest = 0, squares = 0;
        for (auto &m : disturbed) {
            m = m + 1e-6 * reference::random_matrix(rng);
        }
        disturbed = rounded<Real>(lattice, disturbed);
        Gauge wanted = disturbed;
        for (size_t k = 0; k < wanted.size(); ++k) {
            wanted[k] = reference::reunitarize(disturbed[k]);
            const auto &d = disturbed[k], &w = wanted[k];
            reference::Complex overlap = 0;
            double sizes[2] = {0, 0}, last = 0;
            for (int j = 0; j < 3; ++j) {
                sizes[0] += std::norm(d.e[0][j]);
                overlap += std::conj(w.e[0][j]) * d.e[1][j];
                last += std::norm(d.e[2][j] - w.e[2][j]);
            }
            for (int j = 0; j < 3; ++j)
                sizes[1] += std::norm(d.e[1][j] - overlap * w.e[0][j]);
            for (const double one : {std::abs(sizes[0] - 1), std::norm(overlap), std::abs(sizes[1] - 1), last}) {
                largest = worse(largest, one);
                squares += one * one;
            }
        }
        fields.set_links(disturbed);
        report = reunitarize(fields.device, fields.on, fields.u);
        CHECK(report.failed == 0);
        CHECK(report.largest_deviation == Approx(largest).epsilon(2e-7));
        CHECK(report.sum_of_squares == Approx(squares).epsilon(1e-8));
        CHECK(reference::relative_difference(fields.links(), wanted) <= error);
    };
    for (const Backend backend : backends()) {
        check(double(), backend, times_measured * 2.1e-16);
        check(float(), backend, times_measured * 3e-8);
    }
}

TEST_CASE("reunitarization counts bad links, names the first, and leaves them", "[forces][sanitize][errors]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Gauge gauge = reference::random_gauge(lattice, 58);
    const auto order = reference::milc_order(lattice);
    for (const Backend backend : backends()) {
        const auto planted = [&](const std::vector<std::pair<size_t, int>> &places, const auto &spoil) {
            Fields<double> fields(lattice, backend);
            Gauge bad = gauge;
            for (const auto &[k, mu] : places)
                spoil(bad[4 * size_t(order[k]) + mu]);
            fields.set_links(bad);
            const auto report = reunitarize(fields.device, fields.on, fields.u);
            const Gauge after = fields.links();
            for (const auto &[k, mu] : places) // compares bits, because NaN differs from itself
                CHECK(std::memcmp(&after[4 * size_t(order[k]) + mu], &bad[4 * size_t(order[k]) + mu],
                                  sizeof(reference::Matrix)) == 0);
            return report;
        };
        CAPTURE(name(backend));
        // Each of the four tests alone: row 0 too long, row 1 not orthogonal to it, row 1 too long, row 2 not the
        // product.
        const auto first_row = [](auto &m) { m.e[0][0] *= 1.01, m.e[0][1] *= 1.01, m.e[0][2] *= 1.01; };
        const auto leaning = [](auto &m) {
            for (int j = 0; j < 3; ++j)
                m.e[1][j] += 0.02 * m.e[0][j];
        };
        const auto second_row = [](auto &m) {
            for (int j = 0; j < 3; ++j)
                m.e[1][j] *= 1 + 6e-5;
        };
        const auto third_row = [](auto &m) {
            for (int j = 0; j < 3; ++j)
                m.e[2][j] = -m.e[2][j]; // determinant -1
        };
        const auto nan = [](auto &m) { m.e[1][2] = NAN; };
        auto report = planted({{300, 2}, {17, 3}, {191, 0}}, first_row);
        CHECK(report.failed == 3);
        CHECK(report.first_failed == 4 * 17 + 3);
        CHECK(report.largest_deviation == Approx(1.01 * 1.01 - 1).epsilon(1e-6));
        report = planted({{200, 1}}, leaning);
        CHECK(report.failed == 1);
        CHECK(report.first_failed == 801);
        CHECK(report.largest_deviation == Approx(4e-4).epsilon(1e-6));
        report = planted({{0, 0}, {383, 3}}, second_row);
        CHECK(report.failed == 2);
        CHECK(report.first_failed == 0);
        CHECK(report.largest_deviation == Approx(1.2e-4).epsilon(1e-4));
        report = planted({{383, 3}}, third_row);
        CHECK(report.failed == 1);
        CHECK(report.first_failed == 4 * 383 + 3);
        CHECK(report.largest_deviation == Approx(4).epsilon(1e-6));
        report = planted({{5, 1}, {6, 1}}, nan);
        CHECK(report.failed == 2);
        CHECK(report.first_failed == 21);
        CHECK(std::isnan(report.largest_deviation));
        CHECK(planted({{5, 1}}, [](auto &m) { m = reference::Matrix{}; }).failed == 1);
    }
}

TEST_CASE("the gauge sector has the same bits for any number of threads", "[forces]") {
    const reference::Lattice lattice{{4, 6, 8, 10}};
    const Gauge gauge = reference::near_unit_gauge(lattice, 0.3, 59), h = reference::random_momenta(lattice, 60);
    for (const Backend backend : backends()) {
        std::vector<double> first;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            Fields<double> fields(lattice, backend, threads.block);
            fields.set_links(gauge);
            fields.set_momenta(h);
            std::vector<double> results;
            fields.force(rough_loops, 0.1);
            update_links(fields.device, fields.on, fields.u, fields.h, 0.1, 8);
            const auto report = reunitarize(fields.device, fields.on, fields.u);
            const auto means = plaquettes(fields.device, fields.on, fields.u);
            const auto loop = polyakov_loop(fields.device, fields.on, fields.u);
            for (const double value : {report.largest_deviation, report.sum_of_squares, means.space, means.time,
                                       loop.re, loop.im, momentum_action(fields.device, fields.on, fields.h),
                                       gauge_action(fields.device, fields.on, fields.u, rough_loops)})
                results.push_back(value);
            for (const Gauge &field : {fields.links(), fields.momenta_now()})
                for (const auto &m : field)
                    for (int k = 0; k < 9; ++k) {
                        results.push_back(m.e[k / 3][k % 3].real());
                        results.push_back(m.e[k / 3][k % 3].imag());
                    }
            if (choice == 0)
                first = results;
            CAPTURE(name(backend), choice);
            CHECK(std::memcmp(results.data(), first.data(), first.size() * sizeof(double)) == 0);
        }
    }
}

TEST_CASE("gauge force refuses fields that do not fit and names what it needs", "[forces][errors]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    for (const Backend backend : backends()) {
        Fields<double> fields(lattice, backend);
        const GaugeForceSpace plain(fields.device, fields.on, Precision::double_, {1, 0, 0}),
            single(fields.device, fields.on, Precision::single, hisq_loops);
        CHECK_THROWS_AS(gauge_force(fields.device, fields.on, fields.u, hisq_loops, 1, fields.h, plain), Error);
        CHECK_THROWS_AS(gauge_force(fields.device, fields.on, fields.u, hisq_loops, 1, fields.h, single), Error);
        CHECK_THROWS_AS(gauge_force(fields.device, fields.on, fields.u, {1, 0, 0}, 1, fields.u, plain), Error);
        CHECK(plain.bytes() == size_t(28) * 128 * 144);
        CHECK(single.bytes() == 2 * size_t(28) * 128 * 72);
    }
}

TEST_CASE("gauge action of MILC's HISQ lattice is MILC's", "[forces][samples]") {
    NEED_SAMPLE("lat.sample.l6666.hisq");
    const auto file = examples::read_gauge(sample_file("lat.sample.l6666.hisq"));
    for (const Backend backend : backends()) {
        Fields<double> fields(file.lattice, backend);
        fields.set_links(file.links); // in single precision: MILC makes the links unitary after reading
        CHECK(reunitarize(fields.device, fields.on, fields.u).failed == 0);
        const double action = gauge_action(fields.device, fields.on, fields.u, hisq_loops);
        CAPTURE(name(backend), action);
        CHECK(action == Approx(7771.19865884739).epsilon(1e-12));
    }
}
