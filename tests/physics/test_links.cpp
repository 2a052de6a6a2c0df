// Fat and long links made on the device, asqtad and HISQ, through the C interface; unitarization; bad input.
#include "examples/lib/heatbath.h"
#include "examples/lib/lattice_file.h"
#include "gpu_kernels/gauge/links/fermion_links.h"
#include "milc_glue/api/context.h"
#include "milc_glue/links/links_handle.h"
#include "tests/support.h"

using namespace milcgpu;
using namespace tests;
using reference::Gauge;

namespace {

const std::array<int, 4> shapes[] = {{4, 6, 8, 10}, {6, 6, 6, 6}, {4, 4, 4, 32}, {2, 4, 6, 8}};

// The largest relative difference (Frobenius norm) of a link.
double worst_link(const Gauge &got, const Gauge &wanted) {
    double worst = 0;
    for (size_t k = 0; k < wanted.size(); ++k) {
        const double d = reference::frobenius_norm(got[k] - wanted[k]) / reference::frobenius_norm(wanted[k]);
        worst = worse(worst, d);
    }
    return worst;
}

milcgpu_paths paths_of(const reference::PathCoefficients &c) {
    return {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage};
}

milcgpu_fatlink_spec asqtad_spec(const reference::PathCoefficients &c) {
    auto spec = filled(milcgpu_asqtad_defaults, 1);
    spec.paths = paths_of(c);
    return spec;
}

void flip_sign(Device &device, const LinkField &links) {
    unsigned char *const at = links.block(1, 3) + 7;
    unsigned char byte;
    device.copy_to_host(&byte, at, 1);
    byte ^= 0x80;
    device.copy_to_device(at, &byte, 1);
}

template <class Real> struct LinksOfHandle {
    milcgpu_status status;
    Gauge fat, lng, v, y, w;
    milcgpu_fatlink_report report = sized<milcgpu_fatlink_report>();
};

// One set of links from `gauge`, as MILC holds it in Real, copied back to the host.
template <class Real>
LinksOfHandle<Real> make_links(Session<Real> &session, const Gauge &gauge, const milcgpu_fatlink_spec &spec,
                               double eps = 0) {
    auto host = reference::links_to_milc<Real>(session.lattice, gauge);
    std::vector<Real> out[5];
    milcgpu_field fields[5];
    for (int k = 0; k < 5; ++k) {
        out[k].assign(host.size(), Real(-7));
        fields[k] = Session<Real>::field(out[k]);
    }
    const milcgpu_field from = Session<Real>::field(host);
    const milcgpu_fatlink_set set{eps, &fields[0], &fields[1], nullptr};
    const milcgpu_hisq_links hisq{&fields[2], &fields[3], &fields[4]};
    LinksOfHandle<Real> made;
    made.status = milcgpu_links_make(session.context, &spec, &from, &set, 1, spec.hisq ? &hisq : nullptr, &made.report);
    Gauge *results[5] = {&made.fat, &made.lng, &made.v, &made.y, &made.w};
    for (int k = 0; k < 5; ++k)
        *results[k] = reference::links_from_milc<Real>(session.lattice, out[k]);
    return made;
}

Gauge with_phases(const reference::Lattice &lattice, Gauge gauge) {
    reference::apply_phases(lattice, gauge);
    return gauge;
}

// The reference must start from input rounded to single precision, too.
template <class Real> Gauge rounded(const reference::Lattice &lattice, const Gauge &gauge) {
    return reference::links_from_milc<Real>(lattice, reference::links_to_milc<Real>(lattice, gauge));
}

// Measured: the largest error of a link, asqtad or HISQ; of W W^dagger - 1.
template <class Real> constexpr double links_error = times_measured *(sizeof(Real) == 8 ? 9.7e-16 : 2.9e-7);
template <class Real> constexpr double unitary_error = times_measured *(sizeof(Real) == 8 ? 7.4e-16 : 1.2e-7);

template <class Real>
void check_asqtad(Backend backend, const reference::Lattice &lattice, const Gauge &gauge, int reals) {
    const Gauge u = rounded<Real>(lattice, gauge);
    const auto c = reference::asqtad_coefficients(0.87);
    Session<Real> session(lattice, backend);
    milcgpu_fatlink_spec spec = asqtad_spec(c);
    spec.reconstruct = reals;
    const auto made = make_links<Real>(session, u, spec);
    CAPTURE(name(backend), lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3], sizeof(Real), reals,
            made.report.message);
    REQUIRE(made.status == MILCGPU_OK);
    CHECK(made.report.reconstruct == reals);
    CHECK(worst_link(made.fat, reference::fat_links(lattice, u, c)) <= links_error<Real>);
    CHECK(worst_link(made.lng, reference::long_links(lattice, u, c)) <= links_error<Real>);
}

template <class Real>
void check_hisq(Backend backend, const reference::Lattice &lattice, const Gauge &gauge, double eps) {
    const Gauge u = rounded<Real>(lattice, gauge);
    const auto wanted = reference::hisq_links(lattice, u, eps);
    Session<Real> session(lattice, backend);
    auto spec = filled(milcgpu_hisq_defaults);
    const auto made = make_links<Real>(session, u, spec, eps);
    CAPTURE(name(backend), lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3], sizeof(Real), eps,
            made.report.message);
    REQUIRE(made.status == MILCGPU_OK);
    CHECK(worst_link(made.v, wanted.v) <= links_error<Real>);
    CHECK(worst_link(made.fat, wanted.fat) <= links_error<Real>);
    CHECK(worst_link(made.lng, wanted.lng) <= links_error<Real>);
    CHECK(made.report.svd_links == 0);
    double worst = 0;
    for (const auto &w : made.w)
        worst = worse(worst, reference::frobenius_norm(w * reference::adjoint(w) - reference::identity()));
    CHECK(worst <= unitary_error<Real>);
    CHECK(worst_link(made.y, made.w) == 0);
}

} // namespace

TEST_CASE("asqtad links are the reference's, for all shapes, precisions and numbers of reals", "[fatlinks][sanitize]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            const reference::Lattice lattice{shape};
            const Gauge gauge = with_phases(lattice, reference::near_unit_gauge(lattice, 0.3, 5));
            for (const int reals : {18, 12}) {
                check_asqtad<double>(backend, lattice, gauge, reals);
                check_asqtad<float>(backend, lattice, gauge, reals);
            }
        }
}

TEST_CASE("asqtad links of hot, unit and pure-gauge fields are the reference's", "[fatlinks]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const auto g = reference::random_transformation(lattice, 3);
    for (const Backend backend : backends())
        for (const Gauge &gauge : {reference::random_gauge(lattice, 4), reference::unit_gauge(lattice),
                                   reference::transform_links(lattice, g, reference::unit_gauge(lattice), 1)}) {
            check_asqtad<double>(backend, lattice, with_phases(lattice, gauge), 18);
            check_asqtad<float>(backend, lattice, with_phases(lattice, gauge), 18);
        }
}

TEST_CASE("asqtad and HISQ links of a thermalized field are the reference's", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 4, 8}};
    const Gauge gauge = with_phases(lattice, examples::thermalized(lattice, 6.0, 21, 20, 2));
    for (const Backend backend : backends()) {
        check_asqtad<double>(backend, lattice, gauge, 12);
        check_asqtad<float>(backend, lattice, gauge, 18);
        check_hisq<double>(backend, lattice, gauge, 0);
        check_hisq<float>(backend, lattice, gauge, 0);
    }
}

TEST_CASE("each path is right alone, and a coefficient of zero leaves its path out", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 6, 4}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.3, 6));
    for (const Backend backend : backends())
        for (int path = 0; path < 6; ++path) {
            reference::PathCoefficients c{};
            double *const all[] = {&c.one_link, &c.naik, &c.three_staple, &c.five_staple, &c.seven_staple, &c.lepage};
            *all[path] = 0.7;
            c.one_link = 0.2; // fat or long links that vanish entirely have no relative error
            c.naik += 0.1;
            Session<double> session(lattice, backend);
            const auto made = make_links<double>(session, u, asqtad_spec(c));
            CAPTURE(name(backend), path, made.report.message);
            REQUIRE(made.status == MILCGPU_OK);
            CHECK(worst_link(made.fat, reference::fat_links(lattice, u, c)) <= times_measured * 1.3e-15);
            CHECK(worst_link(made.lng, reference::long_links(lattice, u, c)) <= times_measured * 1.3e-15);
        }
}

TEST_CASE("HISQ links are the reference's, for all shapes, precisions and eps_naik", "[fatlinks][sanitize]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            const reference::Lattice lattice{shape};
            const Gauge gauge = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 7));
            check_hisq<double>(backend, lattice, gauge, 0);
            check_hisq<double>(backend, lattice, gauge, -0.35);
            check_hisq<float>(backend, lattice, gauge, -0.35);
        }
}

TEST_CASE("HISQ links of hot, unit and pure-gauge fields are the reference's", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 6, 4}};
    const auto g = reference::random_transformation(lattice, 8);
    for (const Backend backend : backends()) {
        check_hisq<double>(backend, lattice, with_phases(lattice, reference::unit_gauge(lattice)), 0);
        check_hisq<double>(
            backend, lattice,
            with_phases(lattice, reference::transform_links(lattice, g, reference::unit_gauge(lattice), 1)), 0);
        const Gauge hot = with_phases(lattice, reference::random_gauge(lattice, 9));
        Session<double> session(lattice, backend);
        auto spec = filled(milcgpu_hisq_defaults);
        const auto made = make_links<double>(session, hot, spec);
        REQUIRE(made.status == MILCGPU_OK);
        const auto wanted = reference::hisq_links(lattice, hot, 0);
        CHECK(worst_link(made.w, wanted.w) <= times_measured * 3.4e-14); // V of a hot field is nearly singular
        CHECK(worst_link(made.fat, wanted.fat) <= times_measured * 3.4e-14);
        CHECK(worst_link(made.lng, wanted.lng) <= times_measured * 3.4e-14);
    }
}

TEST_CASE("fat and long links are gauge covariant, asqtad and HISQ", "[fatlinks]") {
    const reference::Lattice lattice{{4, 6, 4, 6}};
    const auto g = reference::random_transformation(lattice, 10);
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.25, 11));
    const Gauge transformed = reference::transform_links(lattice, g, u, 1);
    for (const Backend backend : backends())
        for (const bool hisq : {false, true}) {
            auto spec = filled(milcgpu_asqtad_defaults, 0.9);
            if (hisq)
                milcgpu_hisq_defaults(&spec, sizeof spec);
            Session<double> session(lattice, backend);
            const auto plain = make_links<double>(session, u, spec),
                       moved = make_links<double>(session, transformed, spec);
            CAPTURE(name(backend), hisq);
            REQUIRE(plain.status == MILCGPU_OK);
            REQUIRE(moved.status == MILCGPU_OK);
            CHECK(worst_link(moved.fat, reference::transform_links(lattice, g, plain.fat, 1)) <=
                  times_measured * 1.5e-15);
            CHECK(worst_link(moved.lng, reference::transform_links(lattice, g, plain.lng, 3)) <=
                  times_measured * 1.5e-15);
        }
}

TEST_CASE("links are right with phases in or out of the gauge links, on SU(3) and U(3)", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Gauge bare = reference::near_unit_gauge(lattice, 0.2, 12), u = with_phases(lattice, bare);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        auto spec = filled(milcgpu_hisq_defaults);
        spec.special_unitary = 1;
        const auto in = make_links<double>(session, u, spec);
        spec.signs = 1;
        const auto out = make_links<double>(session, bare, spec);
        REQUIRE(in.status == MILCGPU_OK);
        REQUIRE(out.status == MILCGPU_OK);
        CHECK(worst_link(out.fat, in.fat) == 0);
        CHECK(worst_link(out.lng, in.lng) == 0);
        const Gauge w = with_phases(lattice, in.w), y = with_phases(lattice, in.y); // remove the phases again
        double det_error = 0, y_error = 0;
        for (size_t k = 0; k < w.size(); ++k) {
            det_error = worse(det_error, std::abs(reference::det(w[k]) - 1.0));
            const double angle = std::arg(reference::det(y[k])) / 3;
            y_error = worse(y_error, reference::frobenius_norm(std::polar(1.0, -angle) * y[k] - w[k]));
        }
        CHECK(det_error <= times_measured * 6.7e-16);
        CHECK(y_error <= times_measured * 2.8e-16);
    }
}

TEST_CASE("singular values make any link unitary, and agree with the analytic way", "[fatlinks][sanitize]") {
    const reference::Lattice lattice{{2, 2, 2, 2}};
    const SiteMap map;
    reference::Rng rng(13);
    for (const Backend backend : backends()) {
        Device device(backend, 0);
        const Geometry on(lattice.n);
        Gauge v(64);
        for (auto &m : v)
            m = reference::random_matrix(rng);
        const auto rank = [&](double second, double third) { // A diag(1, second, third) B
            reference::Matrix d{};
            d.e[0][0] = 1, d.e[1][1] = second, d.e[2][2] = third;
            return reference::random_su3(rng) * d * reference::random_su3(rng);
        };
        const double planted[][2] = {{1, 1e-6},     {1, 1e-12}, {1, 1e-20}, {1, 0}, {1e-9, 1e-9},
                                     {1e-5, 1e-10}, {1e-17, 0}, {0, 0},     {1, 1}, {1, 1 - 1e-9}};
        size_t k = 0;
        for (const auto &p : planted)
            v[k++] = rank(p[0], p[1]);
        v[k++] = 1e-160 * reference::random_matrix(rng);
        v[k++] = 1e150 * reference::random_matrix(rng);
        v[k++] = reference::Matrix{};
        auto host = reference::links_to_milc<double>(lattice, v);
        const LinkField from(device, Precision::double_, 18, on, "test"),
            to(device, Precision::double_, 18, on, "test");
        links_to_device(device, {host.data(), Precision::double_, 576}, map, on, from);
        Gauge results[2];
        uint64_t counts[2];
        for (const bool svd_only : {false, true}) {
            UnitarizeSpec spec;
            spec.svd_only = svd_only;
            counts[svd_only] = unitarize(device, on, from, spec, nullptr, to);
            std::vector<double> back(host.size());
            links_to_host(device, to, map, on, {back.data(), Precision::double_, 576});
            results[svd_only] = reference::links_from_milc<double>(lattice, back);
            for (size_t j = 0; j < v.size(); ++j) {
                const auto &w = results[svd_only][j];
                CAPTURE(name(backend), svd_only, j);
                CHECK(reference::frobenius_norm(w * reference::adjoint(w) - reference::identity()) <=
                      times_measured * 6e-16);
                // The unitary factor is the w for which h = w^dagger v is hermitian and not negative.
                const auto h = reference::adjoint(w) * v[j];
                const double size = reference::frobenius_norm(v[j]);
                CHECK(reference::frobenius_norm(h - reference::adjoint(h)) <=
                      times_measured * (svd_only ? 1.0e-15 : 1.7e-14) * size);
                CHECK(reference::trace(h).real() >= 0.57 * size);
            }
        }
        CHECK(counts[1] == 64);
        CHECK(counts[0] >= 9);
        CHECK(counts[0] <= 20);
        for (size_t j = 16; j < v.size(); ++j)
            CHECK(reference::frobenius_norm(results[0][j] - results[1][j]) <= times_measured * 1.4e-14);
    }
}

TEST_CASE("links of several eps_naik are made in one pass on the device, and solves copy no link", "[fatlinks][api]") {
    const reference::Lattice lattice{{4, 4, 6, 8}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 14));
    const double eps[] = {-0.1, 0, -0.6};
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        auto host = reference::links_to_milc<double>(lattice, u);
        const milcgpu_field gauge = Session<double>::field(host);
        auto spec = filled(milcgpu_hisq_defaults);
        milcgpu_links *handles[3] = {nullptr, nullptr, nullptr};
        std::vector<double> fat[3];
        milcgpu_field fields[3];
        milcgpu_fatlink_set sets[3];
        for (int k = 0; k < 3; ++k) {
            fat[k].resize(host.size());
            fields[k] = Session<double>::field(fat[k]);
            sets[k] = {eps[k], &fields[k], nullptr, k == 1 ? nullptr : &handles[k]};
        }
        auto report = sized<milcgpu_fatlink_report>();
        REQUIRE(milcgpu_links_make(session.context, &spec, &gauge, sets, 3, nullptr, &report) == MILCGPU_OK);
        CHECK(report.bytes_to_device == host.size() * 8);
        CHECK(report.bytes_to_host >= 3 * host.size() * 8);
        for (int k = 0; k < 3; ++k) {
            const auto wanted = reference::hisq_links(lattice, u, eps[k]);
            CHECK(worst_link(reference::links_from_milc<double>(lattice, fat[k]), wanted.fat) <= links_error<double>);
            if (k == 1)
                continue;
            auto b = reference::vector_to_milc<double>(lattice, reference::random_fermion(lattice, 15));
            std::vector<double> x(b.size(), 0.0);
            const milcgpu_field from = Session<double>::field(b), to = Session<double>::field(x);
            const auto solve = solve_spec(0.1, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
            auto solved = sized<milcgpu_solve_report>();
            REQUIRE(milcgpu_staggered_solve(handles[k], &solve, &from, &to, &solved) == MILCGPU_OK);
            CHECK(solved.bytes_to_device < 4 * x.size() * 8); // source and guess of a parity and scalars, but no link
            CHECK(solved.bytes_to_device >= x.size() * 8);
            const auto got = reference::vector_from_milc<double>(lattice, x);
            const auto back = reference::normal_operator(lattice, wanted.fat, wanted.lng, 0.1, 0, got);
            CHECK(parity_difference(lattice, back, reference::vector_from_milc<double>(lattice, b), 0) < 1e-9);
        }
        // New content has a new version, equal content the same one.
        const uint64_t version = milcgpu_links_version(handles[0]);
        REQUIRE(milcgpu_links_make(session.context, &spec, &gauge, sets, 1, nullptr, nullptr) == MILCGPU_OK);
        CHECK(milcgpu_links_version(handles[0]) == version);
        sets[0].eps = 0.2;
        REQUIRE(milcgpu_links_make(session.context, &spec, &gauge, sets, 1, nullptr, nullptr) == MILCGPU_OK);
        CHECK(milcgpu_links_version(handles[0]) == version + 1);
        for (milcgpu_links *handle : handles)
            milcgpu_links_destroy(handle);
    }
}

template <class Real> void check_sums(Backend backend, const reference::Lattice &lattice, const Gauge &gauge) {
    const Gauge u = rounded<Real>(lattice, gauge);
    Session<Real> session(lattice, backend);
    auto host = reference::links_to_milc<Real>(lattice, u);
    const milcgpu_field from = Session<Real>::field(host);
    auto spec = filled(milcgpu_hisq_defaults);
    spec.derivative = 1;
    std::vector<Real> fat(host.size()), lng(host.size());
    const milcgpu_field to_fat = Session<Real>::field(fat), to_lng = Session<Real>::field(lng);
    milcgpu_links *zero = nullptr, *derivative = nullptr, *sum = nullptr;
    const milcgpu_fatlink_set sets[] = {{0, nullptr, nullptr, &zero}, {NAN, &to_fat, &to_lng, &derivative}};
    CAPTURE(name(backend), sizeof(Real));
    REQUIRE(milcgpu_links_make(session.context, &spec, &from, sets, 2, nullptr, nullptr) == MILCGPU_OK);
    const auto w = reference::hisq_links(lattice, u, 0).w;
    reference::PathCoefficients by_eps{};
    by_eps.one_link = spec.eps_one_link, by_eps.naik = spec.eps_naik;
    CHECK(worst_link(reference::links_from_milc<Real>(lattice, fat), reference::fat_links(lattice, w, by_eps)) <=
          links_error<Real>);
    CHECK(worst_link(reference::links_from_milc<Real>(lattice, lng), reference::long_links(lattice, w, by_eps)) <=
          links_error<Real>);

    auto b = reference::vector_to_milc<Real>(lattice, reference::random_fermion(lattice, 15));
    const auto source = reference::vector_from_milc<Real>(lattice, b);
    std::vector<Real> x(b.size(), Real(0));
    const milcgpu_field in = Session<Real>::field(b), out = Session<Real>::field(x);
    const milcgpu_storage what{sizeof(Real) == 8 ? MILCGPU_DOUBLE : MILCGPU_SINGLE, 18};
    uint64_t version = 0;
    for (const double eps : {-0.3, -0.3, 0.2}) {
        const auto wanted = reference::hisq_links(lattice, u, eps);
        REQUIRE(milcgpu_links_add(zero, eps, derivative, &sum) == MILCGPU_OK);
        CHECK(milcgpu_links_version(sum) == (eps > 0 ? 2 : 1));
        REQUIRE(milcgpu_staggered_dslash(sum, &what, MILCGPU_EVEN, &in, &out) == MILCGPU_OK);
        CHECK(parity_difference(lattice, reference::vector_from_milc<Real>(lattice, x),
                                reference::dslash(lattice, wanted.fat, wanted.lng, source), 0) <= links_error<Real>);
        version = milcgpu_links_version(sum);
    }
    const auto refused = [&](milcgpu_links *a, double factor, milcgpu_links *of, milcgpu_links **to, const char *part) {
        CHECK(milcgpu_links_add(a, factor, of, to) == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says(part));
        CHECK(milcgpu_links_version(sum) == version);
    };
    refused(zero, NAN, derivative, &sum, "factor is nan");
    refused(zero, 1, derivative, &zero, "another handle");
    refused(zero, 1, sum, &sum, "another handle");
    milcgpu_links *other = nullptr;
    std::vector<float> f(host.begin(), host.end());
    std::vector<double> d(host.begin(), host.end());
    const milcgpu_field single{f.data(), MILCGPU_SINGLE, 0}, whole{d.data(), MILCGPU_DOUBLE, 0};
    const milcgpu_field &else_where = sizeof(Real) == 8 ? single : whole;
    REQUIRE(milcgpu_links_create(session.context, &else_where, &else_where, &other) == MILCGPU_OK);
    refused(zero, 1, other, &sum, "the same precision");

    // The first failure of the device empties `to`. On a lost device a call neither reads nor writes.
    milcgpu_links *none = nullptr;
    REQUIRE(milcgpu_fault_inject(session.context, MILCGPU_FAULT_DEVICE_LOST) == MILCGPU_OK);
    CHECK(milcgpu_links_add(zero, 1, derivative, &sum) == MILCGPU_DEVICE_LOST);
    CHECK(milcgpu_links_version(sum) == 0);
    const uint64_t loaded = milcgpu_links_version(other);
    CHECK(milcgpu_links_add(zero, 1, derivative, &other) == MILCGPU_DEVICE_LOST);
    CHECK(milcgpu_links_version(other) == loaded);
    CHECK(milcgpu_links_add(zero, 1, derivative, &none) == MILCGPU_DEVICE_LOST);
    CHECK(none == nullptr);
    CHECK(milcgpu_links_add(zero, 1, derivative, nullptr) == MILCGPU_DEVICE_LOST);
    for (milcgpu_links *handle : {zero, derivative, sum, other})
        milcgpu_links_destroy(handle);
}

TEST_CASE("links of an eps_naik are the links of 0 plus eps_naik times the derivative", "[fatlinks][api][sanitize]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 14));
    for (const Backend backend : backends()) {
        check_sums<double>(backend, lattice, u);
        check_sums<float>(backend, lattice, u);
    }
}

TEST_CASE("links in double are made from a host field in single and copied back to single", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 16));
    const auto c = reference::asqtad_coefficients(0.9);
    for (const Backend backend : backends()) {
        Session<float> session(lattice, backend);
        milcgpu_fatlink_spec spec = asqtad_spec(c);
        spec.precision = MILCGPU_DOUBLE;
        const auto made = make_links<float>(session, u, spec);
        REQUIRE(made.status == MILCGPU_OK);
        CHECK(worst_link(made.fat, reference::fat_links(lattice, rounded<float>(lattice, u), c)) <=
              times_measured * 5.2e-8);
    }
}

TEST_CASE("without memory for the fast way the lean one makes the same links", "[fatlinks][errors]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 17));
    const SiteMap map;
    const Geometry on(lattice.n);
    for (const Backend backend : backends()) {
        Device device(backend, 0);
        auto host = reference::links_to_milc<double>(lattice, u);
        const LinkField links(device, Precision::double_, 18, on, "test"),
            fat(device, Precision::double_, 18, on, "test");
        links_to_device(device, {host.data(), Precision::double_, 576}, map, on, links);
        const auto c = reference::asqtad_coefficients(0.9);
        Gauge results[2];
        for (const bool lean : {false, true}) {
            if (lean)
                device.inject(Fault::allocation, 1);
            const StapleSpace space(device, on, Precision::double_);
            REQUIRE(space.m.directions() == (lean ? 1 : 3));
            fat_links(device, on, links, {c.one_link, c.naik, c.three_staple, c.five_staple, c.seven_staple, c.lepage},
                      fat, space);
            std::vector<double> back(host.size());
            links_to_host(device, fat, map, on, {back.data(), Precision::double_, 576});
            results[lean] = reference::links_from_milc<double>(lattice, back);
        }
        CHECK(worst_link(results[1], results[0]) <= times_measured * 2.5e-16);
        CHECK(worst_link(results[0], reference::fat_links(lattice, u, c)) <= links_error<double>);
        device.inject(Fault::allocation); // the first field of staples, for which there is no leaner way
        CHECK_THROWS_AS(StapleSpace(device, on, Precision::double_), Error);
    }
}

TEST_CASE("bad gauge fields and specs are refused by name", "[fatlinks][errors][sanitize]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const Gauge good = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 18));
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        const auto refused = [&](const Gauge &gauge, const auto &change, milcgpu_status status, const char *word) {
            auto spec = filled(milcgpu_hisq_defaults);
            change(spec);
            const auto made = make_links<double>(session, gauge, spec);
            CAPTURE(name(backend), word, made.report.message);
            CHECK(made.status == status);
            CHECK(made.report.status == status);
            CHECK(has(made.report.message, word));
            CHECK(made.fat[5].e[1][1] == reference::Complex(-7, -7)); // untouched
        };
        const auto nothing = [](milcgpu_fatlink_spec &) {};
        Gauge bad = good;
        bad[4 * 37 + 2].e[1][0] = NAN;
        refused(bad, nothing, MILCGPU_NAN_OR_INF, "direction Z");
        bad = good;
        bad[4 * 37 + 1] = 1.001 * bad[4 * 37 + 1];
        refused(bad, nothing, MILCGPU_BAD_ARGUMENT, "direction Y");
        refused(
            good, [](auto &s) { s.paths = {}; }, MILCGPU_BAD_ARGUMENT, "spec.paths: all six");
        refused(
            good, [](auto &s) { s.fat7 = {}; }, MILCGPU_BAD_ARGUMENT, "spec.fat7: all six");
        refused(
            good, [](auto &s) { s.paths.lepage = NAN; }, MILCGPU_BAD_ARGUMENT, "spec.paths");
        refused(
            good, [](auto &s) { s.struct_size = 8; }, MILCGPU_BAD_ARGUMENT, "struct_size");
        refused(
            good, [](auto &s) { s.reconstruct = 13; }, MILCGPU_NOT_BUILT, "18 12");
        refused(
            good, [](auto &s) { s.precision = MILCGPU_HALF; }, MILCGPU_BAD_ARGUMENT, "spec.precision");
        refused(
            good, [](auto &s) { s.svd_relative = -1; }, MILCGPU_BAD_ARGUMENT, "svd_relative");
        CHECK(milcgpu_fault_inject(session.context, MILCGPU_FAULT_ALLOCATION) == MILCGPU_OK);
        refused(good, nothing, MILCGPU_NO_MEMORY, "staples");
        auto host = reference::links_to_milc<double>(lattice, good);
        const milcgpu_field gauge = Session<double>::field(host);
        auto spec = filled(milcgpu_hisq_defaults);
        const milcgpu_fatlink_set empty{0, nullptr, nullptr, nullptr};
        CHECK(milcgpu_links_make(session.context, &spec, &gauge, &empty, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_make(session.context, &spec, &gauge, nullptr, 1, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_make(session.context, &spec, &gauge, &empty, 0, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_links_make(session.context, nullptr, &gauge, &empty, 1, nullptr, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        milcgpu_links *handle = nullptr; // a failed call leaves no handle
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &handle};
        host[3] = INFINITY;
        CHECK(milcgpu_links_make(session.context, &spec, &gauge, &set, 1, nullptr, nullptr) == MILCGPU_NAN_OR_INF);
        CHECK(handle == nullptr);
    }
}

TEST_CASE("links that are not finite or that changed on the device leave all host fields untouched",
          "[fatlinks][errors][faults]") {
    const reference::Lattice lattice{{2, 4, 6, 2}}; // not a multiple of a warp, so memory behind the sites counts, too
    auto host =
        reference::links_to_milc<double>(lattice, with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 18)));
    const milcgpu_field gauge = Session<double>::field(host);
    for (const Backend backend : backends())
        for (const bool to_single : {false, true}) {
            Session<double> session(lattice, backend);
            milcgpu_links *handle = nullptr;
            std::vector<double> of_double[7];
            std::vector<float> of_single[7];
            milcgpu_field to[7];
            for (int k = 0; k < 7; ++k) {
                of_double[k].assign(host.size(), -7), of_single[k].assign(host.size(), -7);
                to[k] = to_single ? Session<float>::field(of_single[k]) : Session<double>::field(of_double[k]);
            }
            const auto untouched = [&] {
                return std::all_of(of_double, of_double + 7,
                                   [&](const auto &one) { return one == std::vector<double>(host.size(), -7); }) &&
                       std::all_of(of_single, of_single + 7,
                                   [&](const auto &one) { return one == std::vector<float>(host.size(), -7); });
            };
            const milcgpu_hisq_links hisq{&to[0], &to[1], &to[2]};
            auto spec = filled(milcgpu_hisq_defaults);
            const auto make = [&](double eps, milcgpu_links **links) {
                const milcgpu_fatlink_set sets[] = {{0, &to[3], &to[4], nullptr}, {eps, &to[5], &to[6], links}};
                return milcgpu_links_make(session.context, &spec, &gauge, sets, 2, &hisq, nullptr);
            };
            CAPTURE(name(backend), to_single);
            for (milcgpu_links **links : {&handle, static_cast<milcgpu_links **>(nullptr)})
                for (const double eps : {1e308, 1e40}) {
                    const bool fits = !to_single && eps < 1e300;
                    if (fits)
                        continue;
                    CHECK(make(eps, links) == MILCGPU_NAN_OR_INF);
                    CHECK(last_error_says("fat links"));
                    CHECK(untouched());
                }
            spec.unitarity = -1, spec.fat7.one_link = 1e308; // the first level overflows
            CHECK(milcgpu_links_make(session.context, &spec, &gauge, nullptr, 0, &hisq, nullptr) == MILCGPU_NAN_OR_INF);
            CHECK(untouched());

            // The last field to be copied out changes as soon as it is made.
            milcgpu_hisq_defaults(&spec, sizeof spec);
            const milcgpu_fatlink_set sets[] = {{0.1, nullptr, nullptr, &handle}};
            REQUIRE(milcgpu_links_make(session.context, &spec, &gauge, sets, 1, nullptr, nullptr) == MILCGPU_OK);
            Device &device = *session.context->device;
            int made = 0; // long links
            bool flipped = false;
            device.set_observer([&](const char *what) {
                const int before = made;
                made += std::string(what) == "long links";
                if (before == 2 && !std::exchange(flipped, true))
                    flip_sign(device, *handle->links->full().lng);
            });
            const milcgpu_status status = make(0.1, &handle);
            device.set_observer({});
            CHECK(flipped);
            CHECK(status == MILCGPU_CORRUPTED);
            CHECK(last_error_says("long links"));
            CHECK(untouched());
            CHECK(make(0.1, &handle) == MILCGPU_OK);
            milcgpu_links_destroy(handle);
        }
}

TEST_CASE("links of a sum that changed on the device are named and emptied", "[fatlinks][errors][faults]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    const AsqtadLinks made = asqtad_links(lattice, 19);
    auto fat = reference::links_to_milc<double>(lattice, made.fat),
         lng = reference::links_to_milc<double>(lattice, made.lng);
    const milcgpu_field from_fat = Session<double>::field(fat), from_lng = Session<double>::field(lng);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        milcgpu_links *of[2] = {nullptr, nullptr}, *sum = nullptr;
        for (milcgpu_links *&one : of)
            REQUIRE(milcgpu_links_create(session.context, &from_fat, &from_lng, &one) == MILCGPU_OK);
        const auto add = [&] { return milcgpu_links_add(of[0], 0.5, of[1], &sum); };
        for (int k = 0; k < 4; ++k) {
            milcgpu_links *const bad = of[k / 2], *const good = of[1 - k / 2];
            const LinkPair pair = bad->links->full();
            if (k < 3)
                flip_sign(*session.context->device, k % 2 == 0 ? *pair.fat : *pair.lng);
            else // an exponent bit: the sum is infinite
                for (const int byte : {6, 7})
                    session.context->device->copy_to_device(pair.lng->block(0, 0) + byte, "\x7f\xff" + (7 - byte), 1);
            CHECK(add() == MILCGPU_CORRUPTED);
            const std::string words = milcgpu_last_error();
            CAPTURE(name(backend), k, words);
            CHECK(has(words,
                      std::string(k < 2 ? "a: " : "b: ") + (k % 2 == 0 ? "fat links" : "long links") + " changed"));
            CHECK(milcgpu_links_version(sum) == 0);
            CHECK(milcgpu_links_version(bad) == 0);
            CHECK(milcgpu_links_version(good) != 0);
            REQUIRE(milcgpu_links_update(bad, &from_fat, &from_lng, nullptr) == MILCGPU_OK);
            CHECK(add() == MILCGPU_OK);
        }
        for (milcgpu_links *one : {of[0], of[1], sum})
            milcgpu_links_destroy(one);
    }
}

TEST_CASE("the report counts links by the passes over staples that they take", "[fatlinks]") {
    const reference::Lattice lattice{{4, 4, 4, 4}};
    auto host =
        reference::links_to_milc<double>(lattice, with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 18)));
    const milcgpu_field gauge = Session<double>::field(host);
    Session<double> session(lattice, Backend::host);
    for (const bool hisq : {false, true})
        for (const auto &[n_sets, derivative] : {std::pair(1, 0), {3, 0}, {2, 1}, {1, 1}, {0, 0}}) {
            if (n_sets == 0 && !hisq)
                continue;
            milcgpu_fatlink_spec spec;
            hisq ? milcgpu_hisq_defaults(&spec, sizeof spec) : milcgpu_asqtad_defaults(0.9, &spec, sizeof spec);
            spec.eps_one_link = 0.1, spec.derivative = derivative;
            auto w = host;
            const milcgpu_field to_w = Session<double>::field(w);
            const milcgpu_hisq_links wanted{nullptr, nullptr, &to_w};
            milcgpu_links *links[3] = {};
            milcgpu_fatlink_set sets[3];
            for (int k = 0; k < 3; ++k)
                sets[k] = {0.1 * k, nullptr, nullptr, &links[k]};
            auto report = sized<milcgpu_fatlink_report>();
            CAPTURE(hisq, n_sets, derivative);
            REQUIRE(milcgpu_links_make(session.context, &spec, &gauge, sets, n_sets, hisq ? &wanted : nullptr,
                                       &report) == MILCGPU_OK);
            const int passes = (hisq ? 1 : 0) + (n_sets > derivative ? 1 : 0);
            CHECK(report.flops == lattice.volume() * (61632.0 * passes + 1728.0 * n_sets));
            for (milcgpu_links *one : links)
                milcgpu_links_destroy(one);
        }
}

TEST_CASE("fields that are pinned, whole or in part, give the same links", "[fatlinks][api]") {
    struct Piece {
        double from, to; // of the field
    };
    const std::vector<std::vector<Piece>> of_field = {
        {}, {{0, 1}}, {{0, 0.3}}, {{0.4, 0.6}}, {{0.7, 1}}, {{0, 0.3}, {0.7, 1}}, {{0, 0.5}, {0.5, 1}}};
    for (const std::array<int, 4> n : {std::array<int, 4>{4, 4, 6, 8}, std::array<int, 4>{4, 2, 4, 2}}) {
        const reference::Lattice lattice{n};
        const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 20));
        for (const Backend backend : backends()) {
            Session<double> session(lattice, backend);
            auto host = reference::links_to_milc<double>(lattice, u);
            std::vector<double> fat(host.size()), unpinned;
            auto spec = filled(milcgpu_asqtad_defaults, 0.9);
            const milcgpu_field gauge = Session<double>::field(host), to = Session<double>::field(fat);
            const milcgpu_fatlink_set set{0, &to, nullptr, nullptr};
            for (const std::vector<Piece> &pieces : of_field) {
                CAPTURE(name(backend), n[3], pieces.size(), &pieces - of_field.data());
                std::vector<void *> pinned;
                const auto pin = [&](const std::vector<double> &field, const Piece &piece) {
                    const auto at = [&](double part) { // a page inside, or an end of the field
                        const auto address = reinterpret_cast<uintptr_t>(field.data() + size_t(part * field.size()));
                        return part > 0 && part < 1 ? address & ~uintptr_t(4095) : address;
                    };
                    pinned.push_back(reinterpret_cast<void *>(at(piece.from)));
                    CHECK(milcgpu_memory_pin(session.context, pinned.back(), at(piece.to) - at(piece.from)) ==
                          MILCGPU_OK);
                };
                for (const Piece &piece : pieces) {
                    pin(fat, piece);
                    if (n[3] > 2) // small fields share pages, which can be pinned only once
                        pin(host, piece);
                }
                std::fill(fat.begin(), fat.end(), 0.0);
                CHECK(milcgpu_links_make(session.context, &spec, &gauge, &set, 1, nullptr, nullptr) == MILCGPU_OK);
                for (void *piece : pinned)
                    CHECK(milcgpu_memory_unpin(session.context, piece) == MILCGPU_OK);
                if (pieces.empty())
                    unpinned = fat;
                CHECK(fat == unpinned);
            }
            CHECK(milcgpu_memory_pin(session.context, nullptr, 8) == MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_memory_unpin(session.context, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_memory_unpin(session.context, host.data()) == MILCGPU_BAD_ARGUMENT); // no longer pinned
        }
    }
}

TEST_CASE("links have the same bits for any number of threads", "[fatlinks][determinism]") {
    const reference::Lattice lattice{{4, 4, 8, 8}};
    const Gauge u = with_phases(lattice, reference::near_unit_gauge(lattice, 0.2, 19));
    for (const Backend backend : backends()) {
        auto spec = filled(milcgpu_hisq_defaults);
        LinksOfHandle<float> first;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            Session<float> session(lattice, backend, threads.block);
            const auto made = make_links<float>(session, u, spec);
            REQUIRE(made.status == MILCGPU_OK);
            if (choice == 0)
                first = made;
            CAPTURE(name(backend), choice);
            CHECK(worst_link(made.fat, first.fat) == 0);
            CHECK(worst_link(made.lng, first.lng) == 0);
        }
    }
}

TEST_CASE("fat and long links of MILC's sample gauge field are MILC's", "[fatlinks][samples]") {
    NEED_SAMPLE("fat.l8");
    const auto file = examples::read_gauge(sample_file("lat.sample.l8"));
    const reference::Lattice lattice = file.lattice;
    const auto fat = examples::read_gauge(sample_file("fat.l8"));
    const auto lng = examples::read_gauge(sample_file("long.l8"));
    for (const Backend backend : backends())
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE}) {
            Session<double> session(lattice, backend);
            auto spec = filled(milcgpu_asqtad_defaults, 0.502);
            spec.precision = precision;
            spec.signs = 1;
            const auto made = make_links<double>(session, file.links, spec);
            CAPTURE(name(backend), precision, made.report.message);
            REQUIRE(made.status == MILCGPU_OK);
            const double limit = precision == MILCGPU_DOUBLE ? 4e-8 : 2e-7;
            CHECK(reference::relative_difference(made.fat, fat.links) < limit);
            CHECK(reference::relative_difference(made.lng, lng.links) < limit);
        }
}
