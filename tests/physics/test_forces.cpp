// Forces of the fermions, piece by piece and as a whole: against derivatives taken path by path, against finite
// differences and against MILC's own sample.
#include "examples/lib/lattice_file.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/gauge/forces/fermion_force.h"
#include "gpu_kernels/machine/backend/device.h"
#include "reorder/link_reorder.h"
#include "tests/reference/forces.h"
#include "tests/reference/gauge_force.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;
using reference::Fermion;
using reference::Gauge;

namespace {

const std::array<int, 4> shapes[] = {{4, 4, 4, 4}, {2, 4, 6, 4}, {6, 4, 2, 4}};
const std::array<int, 4> small_shape = {2, 4, 4, 2};

struct OnDevice {
    reference::Lattice lattice;
    Device device;
    Geometry geometry;
    SiteMap map;
    Precision precision;
    OnDevice(const reference::Lattice &on, Backend backend, Precision p)
        : lattice(on), device(backend, 0), geometry(on.n), precision(p) {}
    Precision real() const { return precision; }
    LinkField empty(int reals = 18) { return {device, precision, reals, geometry, "test"}; }
    LinkField zero() {
        LinkField field = empty();
        device.fill_zero(field.block(0, 0), field.bytes());
        return field;
    }
    LinkField up(const Gauge &links) {
        LinkField field = empty();
        if (precision == Precision::double_) {
            auto host = reference::links_to_milc<double>(lattice, links);
            links_to_device(device, {host.data(), precision, 576}, map, geometry, field);
        } else {
            auto host = reference::links_to_milc<float>(lattice, links);
            links_to_device(device, {host.data(), precision, 288}, map, geometry, field);
        }
        return field;
    }
    Gauge down(const LinkField &field) {
        std::vector<double> host(72 * size_t(lattice.volume()));
        links_to_host(device, field, map, geometry, {host.data(), Precision::double_, 576});
        return reference::links_from_milc<double>(lattice, host);
    }
    Gauge rounded(const Gauge &links) { return down(up(links)); }
    // The momenta as matrices.
    Gauge momenta_down(const LinkField &field) {
        std::vector<double> host(40 * size_t(lattice.volume()));
        links_to_host(device, field, map, geometry, {host.data(), Precision::double_, 320});
        Gauge result(4 * size_t(lattice.volume()));
        const auto order = reference::milc_order(lattice);
        for (size_t k = 0; k < result.size(); ++k) {
            const double *h = &host[10 * k];
            reference::Matrix &m = result[4 * size_t(order[k / 4]) + k % 4];
            m.e[0][1] = {h[0], h[1]}, m.e[0][2] = {h[2], h[3]}, m.e[1][2] = {h[4], h[5]};
            for (int j = 0; j < 3; ++j) {
                m.e[j][j] = {0, h[6 + j]};
                for (int i = 0; i < j; ++i)
                    m.e[j][i] = -std::conj(m.e[i][j]);
            }
        }
        return result;
    }
    struct Vectors {
        SpinorField even, odd;
    };
    Vectors vectors(const std::vector<Fermion> &x) {
        const int count = static_cast<int>(x.size());
        Vectors v{{device, precision, geometry, 0, "test", count}, {device, precision, geometry, 1, "test", count}};
        SpinorReorder reorder(device, map, geometry);
        for (int t = 0; t < count; ++t)
            for (const int parity : {0, 1}) {
                const SpinorBlock to = (parity == 0 ? v.even : v.odd)[t];
                auto host = reference::vector_to_milc<double>(lattice, x[t]);
                reorder.to_device({host.data(), Precision::double_, 48}, parity, to);
            }
        return v;
    }
};

// Relative to the whole field; the largest that was measured on the host backend in the tests below.
double tolerance(Precision p) { return times_measured * (p == Precision::double_ ? 1e-15 : 4e-7); }

const reference::PathCoefficients every_path = {0.7, -0.04, -0.11, 0.05, -0.03, -0.2};

milcgpu::PathCoefficients paths_of(const reference::PathCoefficients &c) {
    return {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
}

void check_fat_adjoint(Backend backend, const std::array<int, 4> &shape, const reference::PathCoefficients &c,
                       Precision precision, bool little_memory) {
    OnDevice on({shape}, backend, precision);
    CAPTURE(name(backend), shape[0], shape[1], shape[2], shape[3], name(precision), c.lepage, little_memory);
    const Gauge u = on.rounded(random_links(on.lattice, 3)), q = on.rounded(random_links(on.lattice, 4));
    const Gauge before = on.rounded(random_links(on.lattice, 5));
    const LinkField by_u = on.up(before), links = on.up(u), derivative = on.up(q);
    const size_t matrix = by_u.bytes() / 4;
    if (little_memory)
        on.device.set_memory_limit(on.device.used_bytes() + 13 * matrix);
    const AdjointSpace space(on.device, on.geometry, precision, c.lepage != 0);
    CHECK(space.p_up.directions() == (little_memory ? 1 : 3));
    fat_links_adjoint(on.device, on.geometry, links, paths_of(c), derivative, by_u, space);
    Gauge wanted = reference::path_derivative(on.lattice, u, reference::fat_paths, c, q);
    for (size_t k = 0; k < wanted.size(); ++k)
        wanted[k] = wanted[k] + before[k];
    CHECK(reference::relative_difference(on.down(by_u), wanted) <= tolerance(precision));
}

} // namespace

TEST_CASE("paths of fat and long links are the reference's links, on unitary links", "[forces][reference]") {
    const reference::Lattice lattice{small_shape};
    const Gauge u = reference::random_gauge(lattice, 7);
    CHECK(reference::relative_difference(reference::sum_of_paths(lattice, u, reference::fat_paths, every_path),
                                         reference::fat_links(lattice, u, every_path)) <= 1e-14);
    CHECK(reference::relative_difference(reference::sum_of_paths(lattice, u, reference::long_path, every_path),
                                         reference::long_links(lattice, u, every_path)) <= 1e-15);
}

TEST_CASE("the derivative of fat links is right path by path, for any links, shapes and coefficients", "[forces]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes)
            for (const Precision precision : {Precision::double_, Precision::single}) {
                check_fat_adjoint(backend, shape, every_path, precision, false);
                check_fat_adjoint(backend, shape, reference::hisq_fat7_coefficients(), precision, false);
            }
}

TEST_CASE("the derivative of fat links is right if memory is short", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const bool little_memory : {false, true})
            check_fat_adjoint(backend, small_shape, every_path, Precision::double_, little_memory);
}

TEST_CASE("the derivative of long links is right path by path", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const auto &shape : {shapes[0], shapes[1], small_shape})
            for (const Precision precision : {Precision::double_, Precision::single}) {
                OnDevice on({shape}, backend, precision);
                CAPTURE(name(backend), shape[0], shape[1], shape[2], shape[3], name(precision));
                const Gauge u = on.rounded(random_links(on.lattice, 3)), q = on.rounded(random_links(on.lattice, 4));
                const LinkField by_u = on.zero();
                long_links_adjoint(on.device, on.geometry, on.up(u), every_path.naik, on.up(q), by_u);
                CHECK(reference::relative_difference(
                          on.down(by_u), reference::path_derivative(on.lattice, u, reference::long_path, every_path,
                                                                    q)) <= tolerance(precision));
            }
}

TEST_CASE("outer products are right for any number of terms, one and three hops, added or not", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const Precision precision : {Precision::double_, Precision::single})
            for (const int terms : {1, 3, 50}) { // 50: two launches
                OnDevice on({small_shape}, backend, precision);
                CAPTURE(name(backend), name(precision), terms);
                std::vector<Fermion> x;
                std::vector<double> one, three;
                for (int t = 0; t < terms; ++t) {
                    x.push_back(random_fermion(on.lattice, 10 + t));
                    one.push_back(0.3 - 0.1 * t);
                    three.push_back(1 + 0.2 * t);
                }
                const auto vectors = on.vectors(x);
                const ForceVectors both{vectors.even, vectors.odd};
                const Gauge before = on.rounded(random_links(on.lattice, 5));
                const LinkField field_one = on.up(before), field_three = on.up(before);
                outer_products(on.device, on.geometry, both, one, three, true, field_one, &field_three);
                Gauge wanted = reference::outer_products(on.lattice, x, one, 1);
                for (size_t k = 0; k < wanted.size(); ++k)
                    wanted[k] = wanted[k] + before[k];
                CHECK(reference::relative_difference(on.down(field_one), wanted) <= tolerance(precision));
                outer_products(on.device, on.geometry, both, one, three, false, field_one, &field_three);
                CHECK(reference::relative_difference(on.down(field_one),
                                                     reference::outer_products(on.lattice, x, one, 1)) <=
                      tolerance(precision));
                CHECK(reference::relative_difference(on.down(field_three),
                                                     reference::outer_products(on.lattice, x, three, 3)) <=
                      tolerance(precision));
                outer_products(on.device, on.geometry, both, three, {}, false, field_one, nullptr);
                CHECK(reference::relative_difference(on.down(field_one),
                                                     reference::outer_products(on.lattice, x, three, 1)) <=
                      tolerance(precision));
                CHECK_THROWS_AS(outer_products(on.device, on.geometry, both, std::vector<double>(terms + 1, 1.0), {},
                                               false, field_one, nullptr),
                                milcgpu::Error);
            }
}

namespace {

// Links of each kind that the derivative of the unitary part must treat: smooth, rough, with two and three equal
// singular values, nearly singular.
Gauge links_to_unitarize(const reference::Lattice &lattice) {
    reference::Rng rng(31);
    Gauge v(4 * size_t(lattice.volume()));
    for (size_t k = 0; k < v.size(); ++k) {
        const reference::Matrix left = reference::random_su3(rng), right = reference::random_su3(rng);
        const double s[5][3] = {{1.1, 0.9, 1}, {2, 0.7, 0.1}, {1, 1, 0.6}, {0.8, 0.8, 0.8}, {1, 0.5, 0.004}};
        reference::Matrix diagonal{};
        for (int j = 0; j < 3; ++j)
            diagonal.e[j][j] = s[k % 5][j];
        v[k] = left * diagonal * right;
    }
    return v;
}

} // namespace

TEST_CASE("the derivative of unitarization is right by the analytic way, by singular values and with the filter",
          "[forces][sanitize]") {
    for (const Backend backend : backends()) {
        OnDevice on({small_shape}, backend, Precision::double_);
        const Gauge v = links_to_unitarize(on.lattice), q = random_links(on.lattice, 4);
        const LinkField links = on.up(v);
        for (const bool svd_only : {false, true})
            for (const double filter : {0.0, 5e-5, 0.3}) {
                CAPTURE(name(backend), svd_only, filter);
                UnitarizeSpec spec;
                spec.svd_only = svd_only;
                const LinkField by_v = on.up(q);
                const UnitarizeAdjointCounts counts =
                    unitarize_adjoint(on.device, on.geometry, links, spec, filter, by_v);
                const Gauge got = on.down(by_v);
                double worst[5] = {};
                uint64_t filtered = 0;
                for (size_t k = 0; k < v.size(); ++k) {
                    const double least[5] = {0.9, 0.1, 0.6, 0.8, 0.004};
                    const bool below = least[k % 5] * least[k % 5] < filter;
                    filtered += below;
                    const auto wanted = reference::unitary_part_derivative(v[k], q[k], below ? filter : 0);
                    worst[k % 5] = worse(worst[k % 5], reference::frobenius_norm(got[k] - wanted) /
                                                           reference::frobenius_norm(wanted));
                }
                CHECK(counts.filtered == filtered);
                CHECK((counts.by_singular_values == v.size()) == svd_only);
                // For nearly singular links without the filter the reference loses these digits, too.
                const double measured[5] = {4e-14, 1.4e-13, 1.6e-13, 4e-14, filter > 0 ? 4e-13 : 6e-11};
                for (int k = 0; k < 5; ++k) {
                    CAPTURE(k, worst[k]);
                    CHECK(worst[k] <= times_measured * measured[k]);
                }
            }
    }
}

TEST_CASE("the derivative by the links moves the momenta", "[forces][sanitize]") {
    for (const Backend backend : backends())
        for (const Precision precision : {Precision::double_, Precision::single}) {
            OnDevice on({small_shape}, backend, precision);
            CAPTURE(name(backend), name(precision));
            const Gauge u = on.rounded(random_links(on.lattice, 3)), q = on.rounded(random_links(on.lattice, 4));
            const LinkField h = momenta(on.device, precision, on.geometry);
            on.device.fill_zero(h.block(0, 0), h.bytes());
            Gauge wanted(u.size());
            for (const double factor : {0.7, -2.0}) {
                add_force(on.device, on.geometry, on.up(u), on.up(q), factor, h);
                for (size_t k = 0; k < wanted.size(); ++k)
                    wanted[k] =
                        wanted[k] + factor * reference::traceless_antihermitian(u[k] * reference::adjoint(q[k]));
            }
            CHECK(reference::relative_difference(on.momenta_down(h), wanted) <= tolerance(precision));
        }
}

namespace {

struct Force {
    Gauge momenta; // zero at first
    UnitarizeAdjointCounts counts;
};

// MD step eps of the force with these terms; without sets it is the asqtad force.
Force force_of(OnDevice &on, const Gauge &u, const std::vector<Fermion> &x, const std::vector<double> &residues,
               double eps, const reference::PathCoefficients &asqtad, const std::vector<HisqForceSpec::Set> &sets) {
    const auto vectors = on.vectors(x);
    const ForceTerms terms{{vectors.even, vectors.odd}, residues};
    const LinkField links = on.up(u), h = momenta(on.device, on.precision, on.geometry);
    on.device.fill_zero(h.block(0, 0), h.bytes());
    Force force{};
    AskedFields asked(on.device);
    if (sets.empty()) {
        add_force(on.device, on.geometry, links,
                  asqtad_derivative(on.device, on.geometry, links, paths_of(asqtad), terms, asked), 2 * eps, h);
    } else {
        const auto made = reference::hisq_links(on.lattice, u, 0);
        const HisqForceSpec spec{paths_of(reference::hisq_fat7_coefficients()),
                                 paths_of(reference::hisq_asqtad_coefficients()),
                                 {1.0 / 8, -1.0 / 24, 0, 0, 0, 0},
                                 sets,
                                 {},
                                 5e-5};
        const HisqDerivative derivative =
            hisq_derivative(on.device, on.geometry, {links, on.up(made.v), on.up(made.w)}, spec, terms, asked);
        add_force(on.device, on.geometry, links, derivative.by_u, 2 * eps, h);
        force.counts = derivative.counts;
    }
    force.momenta = on.momenta_down(h);
    return force;
}

// exp(h)
reference::Matrix exponential(const reference::Matrix &h) {
    reference::Matrix sum = reference::identity(), term = sum;
    for (int k = 1; k < 20; ++k) {
        term = (1.0 / k) * (term * h);
        sum = sum + term;
    }
    return sum;
}

// 2 Re sum_t r_t <X_t even, D X_t odd>, with D of the set of each term.
double action(const reference::Lattice &lattice, const Gauge &u, const std::vector<Fermion> &x,
              const std::vector<double> &residues, const reference::PathCoefficients &asqtad,
              const std::vector<HisqForceSpec::Set> &sets) {
    long double sum = 0;
    size_t t = 0;
    const auto add = [&](const Gauge &fat, const Gauge &lng) {
        const Fermion dx = reference::dslash_on_parity(lattice, fat, lng, x[t], 0);
        for (int site = 0; site < lattice.volume(); ++site)
            if (lattice.parity(site) == 0)
                for (int k = 0; k < 3; ++k)
                    sum += 2 * residues[t] * std::real(std::conj(x[t][site].c[k]) * dx[site].c[k]);
        ++t;
    };
    if (sets.empty()) {
        const Gauge fat = reference::fat_links(lattice, u, asqtad), lng = reference::long_links(lattice, u, asqtad);
        while (t < x.size())
            add(fat, lng);
    }
    for (const auto &set : sets) {
        const auto made = reference::hisq_links(lattice, u, set.eps_naik);
        for (int k = 0; k < set.terms; ++k)
            add(made.fat, made.lng);
    }
    return static_cast<double>(sum);
}

} // namespace

TEST_CASE("forces are the derivative of the action, for asqtad, for HISQ with one set of eps_naik and with three",
          "[forces]") {
    const reference::Lattice lattice{{4, 2, 4, 4}};
    Gauge u = reference::near_unit_gauge(lattice, 0.3, 11);
    reference::apply_phases(lattice, u);
    std::vector<Fermion> x;
    const std::vector<double> residues = {0.7, -0.2, 1.3, 0.4};
    for (size_t t = 0; t < residues.size(); ++t)
        x.push_back(random_fermion(lattice, 20 + t));
    reference::Rng rng(77);
    Gauge direction(u.size());
    for (auto &h : direction)
        h = reference::traceless_antihermitian(reference::random_matrix(rng));
    const auto asqtad = reference::asqtad_coefficients(0.9);
    const double eps = 0.03;
    // The derivative along the direction by central differences of order 8.
    const auto slope = [&](const std::vector<HisqForceSpec::Set> &sets) {
        const double weights[4] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280}, step = 0.004;
        double sum = 0;
        for (int k = 1; k <= 4; ++k)
            for (const int sign : {1, -1}) {
                Gauge moved(u.size());
                for (size_t j = 0; j < u.size(); ++j)
                    moved[j] = exponential((sign * k * step) * direction[j]) * u[j];
                sum += sign * weights[k - 1] * action(lattice, moved, x, residues, asqtad, sets) / step;
            }
        return sum;
    };
    const std::vector<std::vector<HisqForceSpec::Set>> cases = {
        {}, {{0, 4}}, {{0, 2}, {-0.3, 0}, {0.2, 2}}, {{0, 1}, {-0.1, 2}, {0.3, 1}}};
    for (const auto &sets : cases) {
        const double wanted = slope(sets);
        for (const Backend backend : backends()) {
            OnDevice on(lattice, backend, Precision::double_);
            const Force force = force_of(on, u, x, residues, eps, asqtad, sets);
            double got = 0;
            for (size_t k = 0; k < u.size(); ++k)
                got += reference::trace(direction[k] * force.momenta[k]).real() / eps;
            CAPTURE(name(backend), sets.size(), got, wanted);
            CHECK(std::abs(got - wanted) <= times_measured * 1e-11 * std::abs(wanted));
            CHECK(force.counts.filtered + force.counts.by_singular_values == 0);
        }
    }
}

TEST_CASE("one asqtad force of MILC's sample gives MILC's momenta", "[forces][samples]") {
    for (const char *file : {"lat.sample.l8", "ksvector.src.sample.l8", "colormatrix.mom.sample.l8"})
        NEED_SAMPLE(std::string(file));
    auto gauge = examples::read_gauge(sample_file("lat.sample.l8"));
    const auto source = examples::read_scidac_fermion(sample_file("ksvector.src.sample.l8"));
    const auto wanted = examples::read_gauge(sample_file("colormatrix.mom.sample.l8"));
    reference::apply_phases(gauge.lattice, gauge.links);
    for (const Backend backend : backends()) {
        OnDevice on(gauge.lattice, backend, Precision::double_);
        const Force force =
            force_of(on, gauge.links, {source.vectors}, {1.0}, 1, reference::asqtad_coefficients(0.502), {});
        // The file has floats. MILC's own comparison allows 1e-5.
        CHECK(reference::relative_difference(force.momenta, wanted.links) <= 2 * 2.54e-8);
    }
}
