// Eigenvectors: the dense eigensolver of the host, Lanczos against all eigenvalues of a small lattice, deflation.
#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/solver/lanczos.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/currents.h"
#include "milc_glue/solve/eigen.h"
#include "tests/cut_support.h"
#include "tests/eigen_support.h"
#include "tests/quenched.h"
#include <complex>
#include <cstring>

using namespace tests;
using milcgpu::Backend;
using milcgpu::CgSolver;
using milcgpu::Deflation;
using milcgpu::Eigenvectors;
using milcgpu::LanczosLimits;
using milcgpu::LanczosReport;
using milcgpu::OperatorSpec;
using milcgpu::Precision;
using Number = milcgpu::Complex<double>;

namespace {

constexpr double start_of_rounding = 1e-12;

std::vector<Number> random_hermitian(int m) {
    reference::Rng rng(5);
    std::vector<Number> a(size_t(m) * m);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j <= i; ++j) {
            const double re = reference::uniform(rng) - 0.5, im = reference::uniform(rng) - 0.5;
            a[i * m + j] = {re, i == j ? 0 : im};
            a[j * m + i] = milcgpu::conj(a[i * m + j]);
        }
    return a;
}

// A quenched field with low modes, and its HISQ links.
struct Modes {
    Session<double> session;
    reference::Gauge u; // with phases
    Modes(Backend backend, unsigned long seed, const reference::Lattice &lattice = {{4, 4, 4, 8}})
        : session(lattice, backend), u(quenched(lattice, seed)) {
        reference::apply_phases(lattice, u);
        make(0);
    }
    // The links are those of u, with this eps_naik, on the host, too.
    void make(double eps, const milcgpu_field *fat = nullptr, const milcgpu_field *lng = nullptr) {
        auto gauge = reference::links_to_milc<double>(session.lattice, u);
        const milcgpu_field from = session.field(gauge);
        milcgpu_fatlink_spec spec;
        milcgpu_hisq_defaults(&spec, sizeof spec);
        const milcgpu_fatlink_set set{eps, fat, lng, &session.links};
        CAPTURE(milcgpu_last_error());
        REQUIRE(milcgpu_links_make(session.context, &spec, &from, &set, 1, nullptr, nullptr) == MILCGPU_OK);
    }
    // The boundary in x is twisted by this angle.
    void twist(double angle) {
        for (int s = 0; s < session.lattice.volume(); ++s)
            if (session.lattice.coordinates(s)[0] == 0)
                u[4 * s] = std::polar(1.0, angle) * u[4 * s];
    }
    milcgpu::Device &device() { return *session.context->device; }
    milcgpu::Operator in(Precision p, int parity = 0) {
        OperatorSpec spec{p, p, 18};
        return milcgpu::level_operator(*session.links, parity, spec);
    }
    std::unique_ptr<Eigenvectors> lowest(int count, LanczosReport &report, Precision stored = Precision::half,
                                         double tolerance = 0, const Eigenvectors *start = nullptr) {
        LanczosLimits limits;
        limits.count = count, limits.stored = stored, limits.tolerance = tolerance, limits.start = start;
        return milcgpu::lowest_eigenvectors(device(), *in(Precision::double_), *in(Precision::single), limits, {},
                                            report);
    }
    void load(const milcgpu::SpinorBlock &to, unsigned long seed) {
        auto b = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, seed));
        session.context->reorder->to_device({b.data(), Precision::double_, 48}, 0, to);
    }
    milcgpu::CgReport solve(CgSolver &cg, double mass, Deflation *deflation, double tolerance = 1e-10) {
        milcgpu::CgLimits limits{};
        limits.shift = 4 * mass * mass, limits.tolerance = tolerance;
        limits.deflation = deflation;
        load(cg.source(), 7);
        device().fill_zero(cg.solution().data(), cg.solution().bytes());
        return cg.solve(limits, {});
    }
};

// All eigenvalues of A on even sites at shift 0.
std::vector<double> all_values(Modes &modes) {
    const milcgpu::Operator A = modes.in(Precision::double_);
    const reference::Lattice &lattice = modes.session.lattice;
    milcgpu::Device &device = modes.device();
    const int m = 3 * A->geometry().sites(0);
    const milcgpu::SpinorField x = A->vectors(device, "test"), between = A->between(device, "test"),
                               ax = A->vectors(device, "test");
    std::vector<Number> dense(size_t(m) * m);
    std::vector<double> unit(6 * lattice.volume()), column(6 * lattice.volume());
    for (int j = 0; j < m; ++j) {
        unit[2 * j] = 1;
        modes.session.context->reorder->to_device({unit.data(), Precision::double_, 48}, 0, x);
        unit[2 * j] = 0;
        milcgpu::HalfCall call;
        call.in = x, call.out = between;
        A->first_half(device, call);
        call.in = between, call.out = ax, call.x = x;
        A->second_half(device, call, milcgpu::Epilogue::normal);
        modes.session.context->reorder->to_host(ax, 0, {column.data(), Precision::double_, 48});
        for (int i = 0; i < m; ++i)
            dense[size_t(i) * m + j] = {column[2 * i], column[2 * i + 1]};
    }
    return milcgpu::eigen_of_hermitian(dense, m, 0).values;
}

} // namespace

TEST_CASE("eigenvectors of a dense hermitian matrix", "[eigen][smoke][sanitize]") {
    for (const int m : {1, 2, 7, 90}) {
        const std::vector<Number> a = random_hermitian(m);
        const milcgpu::HermitianEigen e = milcgpu::eigen_of_hermitian(a, m, m);
        double residual = 0, product = 0;
        for (int k = 0; k < m; ++k)
            for (int i = 0; i < m; ++i) {
                Number r = -e.values[k] * e.vectors[k * m + i], p{i == k ? -1.0 : 0, 0};
                for (int j = 0; j < m; ++j) {
                    r = milcgpu::plus(r, a[i * m + j], e.vectors[k * m + j]);
                    p = milcgpu::plus(p, milcgpu::conj(e.vectors[i * m + j]), e.vectors[k * m + j]);
                }
                residual = worse(residual, std::sqrt(norm(r))), product = worse(product, std::sqrt(norm(p)));
            }
        CAPTURE(m, residual, product);
        CHECK(residual < start_of_rounding);
        CHECK(product < start_of_rounding);
        CHECK(std::is_sorted(e.values.begin(), e.values.end()));
    }
    // Degenerate values, and a matrix that is diagonal.
    std::vector<Number> a(9);
    a[0] = a[4] = {2, 0}, a[8] = {-1, 0};
    CHECK(milcgpu::eigen_of_hermitian(a, 3, 3).values == std::vector<double>{-1, 2, 2});
    a[4].re = NAN;
    CHECK_THROWS_AS(milcgpu::eigen_of_hermitian(a, 3, 3), milcgpu::Error);
    // The inverse root: r^dag r = g.
    const std::vector<Number> g = {{4, 0}, {0, 2}, {0, -2}, {5, 0}}, r = milcgpu::inverse_of_root(g, 2, 1e-10);
    REQUIRE(r.size() == 4);
    CHECK(r[0].re == Approx(0.5));
    CHECK(r[1].im == Approx(-0.25));
    CHECK(r[3].re == Approx(0.5));
    CHECK(milcgpu::inverse_of_root({{1, 0}, {1, 0}, {1, 0}, {1, 0}}, 2, 1e-10).empty());
}

TEST_CASE("Lanczos finds the lowest eigenvalues, and how many there are below each", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3, {{4, 4, 4, 4}});
        const std::vector<double> all = all_values(modes);
        CAPTURE(milcgpu::name(backend));
        const milcgpu::ModeNumber number(modes.device(), *modes.in(Precision::single), 40, 1);
        CHECK(number.highest() > all.back());
        CHECK(number.highest() < 1.1 * all.back());
        CHECK(!number.ended_early());
        const double most = 0.75 * number.applications(); // the last moments are half of all
        const milcgpu::ModeNumber less(modes.device(), *modes.in(Precision::single), 40, 1, most);
        CHECK(less.ended_early());
        CHECK(less.applications() <= most);
        for (const int n : {20, 40, 80})
            CHECK(number.below(0.5 * (all[n - 1] + all[n])) == Approx(n).epsilon(0.15));
        CHECK(number.below(number.highest()) == Approx(all.size()).epsilon(1e-3));
        for (const Precision stored : {Precision::single, Precision::half}) {
            LanczosReport report;
            const auto loose = modes.lowest(24, report, stored);
            CAPTURE(milcgpu::name(stored), report.message, report.degree, report.basis);
            CHECK(loose->count() == 24);
            const auto tight = modes.lowest(24, report, stored, 1e-5);
            REQUIRE(tight->count() == 24);
            CHECK(report.left_out == 0);
            for (int k = 0; k < 24; ++k) {
                CAPTURE(k, all[k], loose->values[k], tight->values[k], tight->residuals[k]);
                CHECK(tight->values[k] == Approx(all[k]).epsilon(1e-5));
                CHECK(tight->residuals[k] < 1e-5 * report.highest);
                CHECK(loose->values[k] > (1 - 1e-5) * all[k]);
                CHECK(loose->values[k] < 1.1 * all[k]);
            }
        }
        // One; more than there can be; none.
        LanczosReport report;
        CHECK(modes.lowest(1, report)->values[0] == Approx(all[0]).epsilon(1e-2));
        CHECK(report.message == "");
        const int found = modes.lowest(300, report)->count(); // of 384: at most a quarter is made
        CHECK(found <= 96);
        CHECK(report.left_out == 300 - found);
        CHECK(has(report.message, "a lattice of this size"));
        CHECK_THROWS_AS(modes.lowest(0, report), milcgpu::Error);
    }
}

TEST_CASE("Lanczos takes the memory that it plans; where it is short, a smaller basis, then fewer vectors", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        milcgpu::Device &device = modes.device();
        const milcgpu::Operator full = modes.in(Precision::double_), single = modes.in(Precision::single);
        const auto lowest = [&](const LanczosLimits &limits, LanczosReport &report) {
            return milcgpu::lowest_eigenvectors(device, *full, *single, limits, {}, report);
        };
        {
            LanczosReport first; // what stays on the device once sums over sites were taken
            modes.lowest(1, first);
        }
        for (const Precision stored : {Precision::half, Precision::single}) {
            LanczosLimits limits;
            limits.count = 48, limits.stored = stored;
            const milcgpu::LanczosPlan plan = milcgpu::lanczos_plan(device, single->geometry(), limits);
            CAPTURE(milcgpu::name(backend), milcgpu::name(stored), plan.basis, plan.bytes);
            LanczosReport report;
            const size_t before = device.used_bytes();
            device.set_memory_limit(before + plan.bytes);
            const auto all = lowest(limits, report);
            CHECK(all->count() == 48);
            CHECK(report.message == "");
            if (stored == Precision::half) // in single there is no room to make the last group smaller
                CHECK(device.used_bytes() - before == Eigenvectors::bytes(single->geometry(), stored, 48));
            device.set_memory_limit(device.used_bytes() + plan.bytes * 98 / 100);
            CHECK_THROWS_AS(lowest(limits, report), milcgpu::Error);
            device.set_memory_limit(0);

            limits.memory = plan.bytes * 85 / 100;
            const auto lean = lowest(limits, report);
            CAPTURE(report.basis, report.degree, report.message);
            CHECK(report.basis < plan.basis);
            CHECK(lean->count() >= 44);
            CHECK(!has(report.message, "memory"));
            limits.memory = plan.bytes * 6 / 10;
            report = {};
            const auto fewer = lowest(limits, report);
            CHECK(fewer->count() < 48);
            CHECK(report.left_out == 48 - fewer->count());
            CHECK(fewer->count() >= 16);
            CHECK(has(report.message, "of 48 eigenvectors fit: they may take"));
        }
    }
}

TEST_CASE("Lanczos begins with vectors that are there: fewer applications, and the same eigenvalues", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport of_few;
        const auto few = modes.lowest(32, of_few);
        REQUIRE(few->count() == 32);
        for (const double eps : {0.0, -1e-3, -0.3}) { // the same links, near ones, others
            modes.make(eps);
            LanczosReport alone, with;
            const auto fresh = modes.lowest(48, alone), more = modes.lowest(48, with, Precision::half, 0, few.get());
            CAPTURE(milcgpu::name(backend), eps, alone.applications, with.applications, with.degree);
            REQUIRE(fresh->count() == 48);
            REQUIRE(more->count() == 48);
            // A vector that is taken as it is costs 2 applications, else d + 1, and none 1 more.
            const long long less = alone.applications - with.applications;
            CHECK(less >= (eps == 0 ? 32 * (with.degree - 1) : eps == -1e-3 ? 16 * (with.degree - 1) : -32));
            for (int k = 0; k < 48; ++k)
                CHECK(more->values[k] == Approx(fresh->values[k]).epsilon(k < 32 ? 1e-2 : 0.1));
        }
    }
}

TEST_CASE("deflated solves take the steps of the modes that are left, at all masses and precisions", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(48, report);
        REQUIRE(set->count() == 48);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 1);
        const double left = set->values.back();
        for (const Precision sloppy : {Precision::double_, Precision::single, Precision::half}) {
            CgSolver cg(modes.device(), {full, modes.in(sloppy), full, {}});
            const milcgpu::CgReport plain = modes.solve(cg, 0.01, nullptr);
            CHECK(plain.deflations == 0);
            for (const double mass : {0.01, 0.002, 0.0005}) {
                const milcgpu::CgReport r = modes.solve(cg, mass, &deflation);
                // 0.9 of the bound by the condition number: shared/milc_contract_light.md, 3.1.
                const double expected =
                    0.45 * std::sqrt(report.highest / 1.05 / (left + 4 * mass * mass)) * std::log(2e10);
                CAPTURE(milcgpu::name(backend), milcgpu::name(sloppy), mass, plain.steps, r.steps, expected, r.message,
                        set->values[0], left);
                CHECK(r.status == milcgpu::Status::ok);
                CHECK(r.true_residual < 1e-10);
                CHECK(r.steps == Approx(expected).epsilon(0.2));
                CHECK(r.steps < plain.steps / 2);
                CHECK(r.deflations >= 3);
                CHECK(!r.deflation_off);
            }
        }
    }
}

TEST_CASE("few eigenvectors of rough links never cost steps", "[eigen]") {
    LONG_TEST;
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        const AsqtadLinks links = asqtad_links(modes.session.lattice, 9); // random: l from 5e-4, 1.7e-3, 3e-3, 5e-3 on
        REQUIRE(modes.session.load(links.fat, links.lng) == MILCGPU_OK);
        const milcgpu::Operator full = modes.in(Precision::double_);
        CgSolver cg(modes.device(),
                    {full, modes.in(Precision::half), full, [&] { return modes.in(Precision::single); }});
        const int plain[] = {modes.solve(cg, 0.01, nullptr).steps, modes.solve(cg, 0.002, nullptr).steps};
        for (const int count : {2, 4}) {
            LanczosReport report;
            const auto set = modes.lowest(count, report);
            REQUIRE(set->count() == count);
            Deflation deflation(modes.device(), *set, *full, 1);
            for (const bool light : {false, true}) {
                const milcgpu::CgReport r = modes.solve(cg, light ? 0.002 : 0.01, &deflation);
                CAPTURE(milcgpu::name(backend), count, light, plain[light], r.steps);
                CHECK(r.true_residual < 1e-10);
                const bool aside = light && count == 2; // without, most of the steps are in double
                CHECK((r.deflations == 0) == aside);
                CHECK(r.steps <= (aside ? plain[light] : 0.95 * plain[light]));
            }
        }
    }
}

TEST_CASE("two eigenvectors on few sites, and a solve that is deflated with them", "[eigen][race]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3, {{4, 4, 4, 4}});
        LanczosReport report;
        const auto set = modes.lowest(2, report);
        CAPTURE(milcgpu::name(backend), report.message, report.applications);
        REQUIRE(set->count() == 2);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 1);
        CgSolver cg(modes.device(), {full, modes.in(Precision::single), full, {}});
        const milcgpu::CgReport r = modes.solve(cg, 0.01, &deflation, 1e-6);
        CHECK(r.status == milcgpu::Status::ok);
        CHECK(r.deflations >= 1);
        CHECK_FALSE(r.deflation_off);
        CHECK(r.steps < modes.solve(cg, 0.01, nullptr, 1e-6).steps);
    }
}

TEST_CASE("solutions in single precision are deflated with residuals in double", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(32, report);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 1);
        CgSolver cg(modes.device(), {modes.in(Precision::single), modes.in(Precision::single), full, {}});
        const auto solve = [&](Deflation *with) { return modes.solve(cg, 0.01, with, 1e-5); };
        const milcgpu::CgReport plain = solve(nullptr), r = solve(&deflation);
        CAPTURE(milcgpu::name(backend), plain.steps, r.steps, r.message);
        CHECK(r.status == milcgpu::Status::ok);
        CHECK(r.true_residual < 1e-5);
        CHECK(r.steps < plain.steps / 2);
        CHECK(!r.deflation_off);
    }
}

TEST_CASE("half precision iterates where it serves the modes that are left, for relative residuals, too", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(32, report);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 12);
        CgSolver cg(modes.device(),
                    {full, modes.in(Precision::half), full, [&] { return modes.in(Precision::single); }});
        const milcgpu::CgReport plain = modes.solve(cg, 0.0005, nullptr), with = modes.solve(cg, 0.0005, &deflation);
        CAPTURE(milcgpu::name(backend), plain.steps, plain.steps_in_half, with.steps, with.steps_in_half);
        CHECK(plain.steps_in_half == 0);
        CHECK(with.steps_in_half == with.steps);
        CHECK(with.steps < plain.steps / 2);
        milcgpu::CgLimits limits{};
        limits.shift = 1e-6, limits.relative_tolerance = 1e-7, limits.deflation = &deflation;
        modes.load(cg.source(), 7);
        modes.device().fill_zero(cg.solution().data(), cg.solution().bytes());
        const milcgpu::CgReport relative = cg.solve(limits, {});
        CAPTURE(relative.steps, relative.steps_in_half, relative.relative_residual, relative.message);
        CHECK(relative.status == milcgpu::Status::ok);
        CHECK(relative.relative_residual < 1e-7);
        CHECK(relative.steps_in_half == relative.steps);
        CHECK(relative.steps < plain.steps / 2);
        // Several sources of this mass start in double, but with a deflation.
        milcgpu::BlockCgSolver block(modes.device(), full, modes.in(Precision::single), 12, cg);
        for (Deflation *const by : {static_cast<Deflation *>(nullptr), &deflation}) {
            milcgpu::SourcesLimits all;
            all.shift = 1e-6, all.tolerances.assign(12, 1e-9), all.max_iterations.assign(12, 1000);
            all.deflation = by;
            for (int k = 0; k < 12; ++k)
                modes.load(block.source(k), 20 + k);
            modes.device().fill_zero(block.all_solutions().data, block.all_solutions().bytes());
            const milcgpu::SourcesReport r = block.solve(all, {});
            CHECK(r.status == milcgpu::Status::ok);
            CHECK((r.sources[0].steps_in_precise > 0) == (by == nullptr));
        }
    }
}

TEST_CASE("a deflation with exact vectors solves their part, at any shift", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(20, report, Precision::single, 1e-5);
        REQUIRE(set->count() == 20);
        const milcgpu::Operator A = modes.in(Precision::double_);
        milcgpu::Device &device = modes.device();
        Deflation deflation(device, *set, *A, 3);
        const milcgpu::SpinorField r = A->vectors(device, "test", 3), x = A->vectors(device, "test", 3),
                                   after = A->vectors(device, "test", 3), between = A->between(device, "test"),
                                   left = A->vectors(device, "test");
        const milcgpu::DeviceArray<double> sum(device, 1, "test");
        const int places[] = {2, 1, 0}, to[] = {0, 2, 1};
        for (const double mass : {0.05, 0.01, 0.002}) {
            const double shift = 4 * mass * mass;
            device.fill_zero(x.data(), x.bytes());
            double rr[3];
            for (const int k : {0, 1, 2}) { // vectors 0, 7, 19
                convert_spinor(device, (*set)[k * k * 19 / 4 + (k == 1 ? 3 : 0)], r[places[k]], 3, sum.data());
                rr[k] = sum.to_host()[0];
            }
            deflation.add(r, places, x, to, rr, 3, shift);
            for (const int k : {0, 1, 2}) {
                residual(device, *A, shift, r[places[k]], x[to[k]], between, left, sum.data());
                CAPTURE(milcgpu::name(backend), mass, k);
                // Rounding of x in single precision, times the largest eigenvalue.
                CHECK(std::sqrt(sum.to_host()[0] / rr[k]) < 1e-5 * report.highest / (set->values[0] + shift));
            }
            device.fill_zero(after.data(), after.bytes());
            CHECK(deflation.lessened_error(after, shift));
            convert_spinor(device, r[places[1]], after[1], -0.9, nullptr);
            CHECK(deflation.lessened_error(after, shift));
            convert_spinor(device, r[places[1]], after[1], -1.1, nullptr);
            CHECK(!deflation.lessened_error(after, shift));
            deflation.undo();
            for (const int k : {0, 1, 2}) {
                norm_squared(device, x[k], sum.data());
                CHECK(sum.to_host()[0] == 0);
            }
        }
    }
}

TEST_CASE("a vector that is none is found out, and costs nothing but its deflation", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3), other(backend, 4);
        LanczosReport report;
        const auto set = modes.lowest(24, report);
        const milcgpu::Operator full = modes.in(Precision::double_);
        CHECK(set->why_not_of(*full) == "");
        CHECK(has(set->why_not_of(*other.in(Precision::double_)), "not one of these links"));
        CHECK(has(set->why_not_of(*modes.in(Precision::double_, 1)), "not one of these links"));
        const milcgpu::SpinorBlock bad = (*set)[2];
        modes.device().copy_on_device(bad.data, (*set)[0].data, bad.source_bytes / 2);
        set->values[2] = 1e-5;
        Deflation deflation(modes.device(), *set, *full, 4);
        CgSolver cg(modes.device(),
                    {full, modes.in(Precision::half), full, [&] { return modes.in(Precision::single); }});
        const milcgpu::CgReport r = modes.solve(cg, 0.01, &deflation);
        CAPTURE(milcgpu::name(backend), r.message, r.deflations);
        CHECK(r.status == milcgpu::Status::ok);
        CHECK(r.true_residual < 1e-10);
        CHECK(r.deflation_off);
        for (const Precision p : {Precision::single, Precision::half}) {
            milcgpu::BlockCgSolver block(modes.device(), full, modes.in(p), 4, cg);
            milcgpu::SourcesLimits limits;
            limits.shift = 4e-4, limits.tolerances.assign(4, 1e-10), limits.max_iterations.assign(4, 1000);
            limits.deflation = &deflation;
            for (int k = 0; k < 4; ++k)
                modes.load(block.source(k), 20 + k);
            modes.device().fill_zero(block.all_solutions().data, block.all_solutions().bytes());
            for (const milcgpu::CgReport &own : block.solve(limits, {}).sources) {
                CAPTURE(milcgpu::name(p), own.message);
                CHECK(own.status == milcgpu::Status::ok);
                CHECK(own.true_residual < 1e-10);
                CHECK(own.deflation_off);
            }
        }
    }
}

TEST_CASE("a deflated solve that stagnates goes on without", "[eigen]") {
    constexpr double more_than_double_has = 1e-17;
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(24, report);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 2);
        CgSolver cg(modes.device(), {full, modes.in(Precision::single), full, {}});
        const milcgpu::CgReport without = modes.solve(cg, 0.01, nullptr, more_than_double_has),
                                r = modes.solve(cg, 0.01, &deflation, more_than_double_has);
        CAPTURE(milcgpu::name(backend), r.true_residual, without.true_residual, r.deflations, r.reliable_updates);
        CHECK(r.status == milcgpu::Status::precision_floor);
        CHECK(r.deflation_off);
        CHECK(r.deflations >= milcgpu::ladder::patience);
        CHECK(r.reliable_updates + r.restarts >= r.deflations + milcgpu::ladder::patience - 1);
        CHECK(r.true_residual < 2 * without.true_residual);
    }
}

TEST_CASE("several sources are deflated together; the same bits again", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport report;
        const auto set = modes.lowest(32, report), again = modes.lowest(32, report);
        REQUIRE(set->count() == again->count());
        CHECK(set->values == again->values);
        CHECK(set->residuals == again->residuals);
        REQUIRE(set->checked_regions().size() == again->checked_regions().size());
        for (size_t k = 0; k < set->checked_regions().size(); ++k)
            CHECK(set->checked_regions()[k].expected == again->checked_regions()[k].expected);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 12);
        CgSolver cg(modes.device(), {full, modes.in(Precision::single), full, {}});
        const int alone = modes.solve(cg, 0.002, &deflation).steps;
        milcgpu::BlockCgSolver block(modes.device(), full, modes.in(Precision::single), 12, cg),
            in_half(modes.device(), full, modes.in(Precision::half), 12, cg);
        std::vector<double> solutions[3];
        int steps = 0;
        for (std::vector<double> &x : solutions) {
            const bool is_half = &x == &solutions[2];
            milcgpu::BlockCgSolver &solver = is_half ? in_half : block;
            milcgpu::SourcesLimits limits;
            limits.shift = 1.6e-5, limits.tolerances.assign(12, 1e-10), limits.max_iterations.assign(12, 1000);
            limits.tolerances[3] = 1e-4;
            limits.deflation = &deflation;
            for (int k = 0; k < 12; ++k)
                modes.load(solver.source(k), 20 + k);
            modes.device().fill_zero(solver.all_solutions().data, solver.all_solutions().bytes());
            const milcgpu::SourcesReport r = solver.solve(limits, {});
            CAPTURE(milcgpu::name(backend), is_half, r.message, r.steps_together, steps, alone);
            CHECK(r.status == milcgpu::Status::ok);
            CHECK(r.steps_together <= alone + is_half);
            if (is_half)
                CHECK(r.steps_together <= steps + steps / 20 + 1);
            steps = r.steps_together;
            CHECK(r.deflations >= 2);
            for (int k = 0; k < 12; ++k) {
                CHECK(r.sources[k].true_residual < limits.tolerances[k]);
                CHECK(!r.sources[k].deflation_off);
            }
            x.resize(6 * modes.session.lattice.volume());
            modes.session.context->reorder->to_host(solver.solution(11), 0, {x.data(), Precision::double_, 48});
        }
        CHECK(solutions[0] == solutions[1]);
    }
}

// ---- the C interface ------------------------------------------------------------------------------------------------

namespace {

using Handle = EigenvectorsHandle;

milcgpu_eigen_spec eigen_spec(int count) {
    milcgpu_eigen_spec spec;
    milcgpu_eigen_defaults(&spec, sizeof spec);
    spec.count = count;
    return spec;
}

struct Solved {
    milcgpu_status status;
    std::vector<milcgpu_solve_report> reports;
};
Solved solve(Session<double> &session, milcgpu_eigenvectors *with, int n, int sloppy, int parity = MILCGPU_EVEN) {
    auto spec = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, sloppy);
    spec.eigenvectors = with, spec.parity = parity;
    Solved s{MILCGPU_OK, std::vector<milcgpu_solve_report>(n, sized<milcgpu_solve_report>())};
    std::vector<std::vector<double>> b(n), x(n);
    std::vector<milcgpu_field> from, to;
    for (int k = 0; k < n; ++k) {
        b[k] = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, 40 + k));
        x[k].assign(b[k].size(), 0);
        from.push_back(session.field(b[k])), to.push_back(session.field(x[k]));
    }
    s.status = n == 1 ? milcgpu_staggered_solve(session.links, &spec, from.data(), to.data(), s.reports.data())
                      : milcgpu_staggered_solve_sources(session.links, &spec, MILCGPU_BLOCK, n, from.data(), to.data(),
                                                        s.reports.data());
    return s;
}

} // namespace

TEST_CASE("eigenvectors of the C interface: computed, saved and loaded, taken by solves", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        CAPTURE(milcgpu::name(backend), milcgpu_last_error());
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            Handle made, loaded;
            auto spec = eigen_spec(24);
            spec.parity = parity;
            int told[2] = {};
            spec.user = told;
            spec.progress = [](void *user, int done, int of) {
                static_cast<int *>(user)[0] = done, static_cast<int *>(user)[1] = of;
            };
            size_t planned = 0;
            REQUIRE(milcgpu_eigenvectors_plan(session.context, &spec, &planned) == MILCGPU_OK);
            CHECK(planned > 24 * 16 * size_t(session.lattice.volume()) / 2);
            auto report = sized<milcgpu_eigen_report>();
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, &report) == MILCGPU_OK);
            REQUIRE(report.count == 24);
            CHECK(milcgpu_eigenvectors_count(*made) == 24);
            CHECK((told[0] == report.basis && told[1] == report.basis));
            CHECK(report.links_version == milcgpu_links_version(session.links));
            std::vector<double> values(24), residuals(24), again(24);
            REQUIRE(milcgpu_eigenvectors_values(*made, values.data(), residuals.data()) == MILCGPU_OK);
            CHECK(std::is_sorted(values.begin(), values.end()));
            REQUIRE(milcgpu_eigenvectors_create(session.links, parity, MILCGPU_SINGLE, 24, &loaded.of) == MILCGPU_OK);
            CHECK(solve(session, *loaded, 1, MILCGPU_HALF, parity).status == MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "empty"));
            std::vector<double> vector(6 * session.lattice.volume(), 7);
            const milcgpu_field there = session.field(vector);
            for (int k = 0; k < 24; ++k) {
                REQUIRE(milcgpu_eigenvectors_save(*made, k, &there) == MILCGPU_OK);
                REQUIRE(milcgpu_eigenvectors_load(*loaded, session.links, k, &there) == MILCGPU_OK);
            }
            const auto v = reference::vector_from_milc<double>(session.lattice, vector);
            double size = 0;
            for (int s = 0; s < session.lattice.volume(); ++s)
                size += session.lattice.parity(s) == (parity == MILCGPU_EVEN ? 0 : 1) ? reference::norm2(v[s]) : 0;
            CHECK(size == Approx(1).epsilon(1e-5));
            REQUIRE(milcgpu_eigenvectors_values(*loaded, again.data(), nullptr) == MILCGPU_OK);
            for (int k = 0; k < 24; ++k)
                CHECK(again[k] == Approx(values[k]).epsilon(1e-6));
            const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE, parity).reports[0].steps;
            for (milcgpu_eigenvectors *with : {*made, *loaded}) {
                const Solved one = solve(session, with, 1, MILCGPU_HALF, parity),
                             several = solve(session, with, 3, MILCGPU_SINGLE, parity);
                CAPTURE(plain, one.reports[0].steps, one.reports[0].message, several.reports[0].steps);
                CHECK(one.status == MILCGPU_OK);
                CHECK(one.reports[0].steps < plain / 2);
                CHECK(one.reports[0].deflations > 2);
                CHECK(one.reports[0].deflation_off == 0);
                CHECK(std::string(one.reports[0].message).empty());
                CHECK(several.status == MILCGPU_OK);
                CHECK(several.reports[2].steps <= one.reports[0].steps);
                CHECK(several.reports[2].deflations > 1);
            }
            CHECK(solve(session, *made, 1, MILCGPU_HALF, MILCGPU_EVEN + MILCGPU_ODD - parity).status ==
                  MILCGPU_BAD_ARGUMENT);
            CHECK(has(milcgpu_last_error(), "the solve is on the others"));
        }
    }
}

TEST_CASE("one eigenvector and more than a lattice gives: the C interface", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE).reports[0].steps;
        for (const int count : {1, 300}) {
            const auto spec = eigen_spec(count);
            Handle made;
            auto report = sized<milcgpu_eigen_report>();
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, &report) == MILCGPU_OK);
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE), several = solve(session, *made, 4, MILCGPU_HALF);
            CAPTURE(milcgpu::name(backend), count, report.count, report.message, plain, s.reports[0].steps);
            CHECK(report.count == milcgpu_eigenvectors_count(*made));
            CHECK((count == 1 ? report.count == 1 : report.count >= 16 && report.count < 300));
            CHECK(has(report.message, "a lattice of this size") == (count == 300));
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].eigenvectors == report.count);
            CHECK(s.reports[0].deflations >= 1);
            CHECK(s.reports[0].steps <= (count == 1 ? plain : plain / 2));
            for (const milcgpu_solve_report &own : several.reports)
                CHECK((own.true_residual < 1e-10 && own.deflations >= 1));
        }
    }
}

TEST_CASE("several sources are deflated in half precision where few steps are lost by that", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        for (const bool rough : {false, true}) {
            const AsqtadLinks links = asqtad_links(session.lattice, 9);
            if (rough)
                REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
            const auto spec = eigen_spec(4);
            Handle made;
            REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
            const milcgpu_solve_report plain = solve(session, nullptr, 4, MILCGPU_HALF).reports[0],
                                       with = solve(session, *made, 4, MILCGPU_HALF).reports[0];
            CAPTURE(milcgpu::name(backend), rough, plain.steps, with.steps);
            CHECK(with.steps_in_half == (rough ? 0 : with.steps));
            CHECK(with.steps < plain.steps);
        }
    }
}

TEST_CASE("eigenvectors of other links are not used, and a flipped bit is found", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3), other(backend, 4);
        Session<double> &session = modes.session;
        CAPTURE(milcgpu::name(backend), milcgpu_last_error());
        const auto spec = eigen_spec(16);
        Handle made, of_other;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_compute(other.session.links, &spec, &of_other.of, nullptr) == MILCGPU_OK);
        CHECK(solve(session, *of_other, 1, MILCGPU_SINGLE).status == MILCGPU_BAD_ARGUMENT); // another context
        const int plain = solve(session, nullptr, 1, MILCGPU_SINGLE).reports[0].steps;
        {
            const AsqtadLinks links = asqtad_links(session.lattice, 9);
            std::swap(session.links, other.session.links); // of another context: kept beside
            milcgpu_links *const kept = session.links;
            session.links = nullptr;
            REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
            const Solved s = solve(session, *made, 2, MILCGPU_SINGLE);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].deflations == 0);
            CHECK((s.reports[0].deflation_off == 1 && s.reports[1].deflation_off == 1));
            CHECK(has(s.reports[0].message, "not one of these links"));
            CHECK(has(session.messages.back(), "solved without deflation"));
            std::vector<double> vector(6 * session.lattice.volume());
            const milcgpu_field there = session.field(vector);
            CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_BAD_ARGUMENT);
            milcgpu_links_destroy(session.links);
            session.links = kept;
            std::swap(session.links, other.session.links);
        }
        // Half of the bits of a vector, the exponents' too: it is not finite any more where it is multiplied.
        const milcgpu::SpinorBlock bad = (*made.of->set)[1];
        std::vector<unsigned char> bytes(16 * bad.sites);
        modes.device().copy_to_host(bytes.data(), bad.data, bytes.size());
        for (unsigned char &byte : bytes)
            byte ^= 0xAA;
        modes.device().copy_to_device(bad.data, bytes.data(), bytes.size());
        std::vector<double> vector(6 * session.lattice.volume(), 7), before = vector;
        const milcgpu_field there = session.field(vector);
        SECTION("a solve goes on without") {
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].steps <= 1.3 * plain);
            CHECK(s.reports[0].deflation_off == 1);
            CHECK(milcgpu_eigenvectors_count(*made) == 0);
            CHECK(has(s.reports[0].message, "a bit flipped"));
        }
        SECTION("a copy to the host says so") {
            CHECK(milcgpu_eigenvectors_save(*made, 1, &there) == MILCGPU_CORRUPTED);
            CHECK(vector == before);
            CHECK(milcgpu_eigenvectors_count(*made) == 0);
            CHECK(milcgpu_eigenvectors_values(*made, nullptr, nullptr) == MILCGPU_BAD_ARGUMENT);
            CHECK(milcgpu_eigenvectors_save(*made, 3, &there) == MILCGPU_BAD_ARGUMENT);
        }
    }
}

TEST_CASE("eigenvectors of twisted links, or of another eps_naik, are found out or do no harm", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(24);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        for (const double eps : {0.0, -0.3, -1e-5}) { // 0: twisted
            modes.twist(eps == 0 ? 0.4 : -0.4);
            modes.make(eps);
            modes.twist(eps == 0 ? 0 : 0.4);
            const int plain = solve(session, nullptr, 1, MILCGPU_HALF).reports[0].steps;
            for (const int n : {1, 3}) {
                const Solved s = solve(session, *made, n, MILCGPU_HALF);
                CAPTURE(milcgpu::name(backend), eps, n, plain, s.reports[0].steps, s.reports[0].message);
                CHECK(s.status == MILCGPU_OK);
                for (const milcgpu_solve_report &report : s.reports) {
                    CHECK(report.true_residual < 1e-10);
                    CHECK(report.steps <= plain * (eps == -1e-5 ? 0.5 : 1.2));
                    CHECK(report.deflation_off == (eps != -1e-5));
                }
                CHECK(has(s.reports[0].message, "not one of these links") == (eps != -1e-5));
            }
        }
    }
}

TEST_CASE("plans count what a deflation takes; solves of vectors on the device are deflated, too", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(20);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        milcgpu_solve_spec how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
        const milcgpu::Operator full = modes.in(Precision::double_);
        for (const int n : {1, 4}) {
            size_t planned[2];
            for (const bool with : {false, true}) {
                how.eigenvectors = with ? *made : nullptr;
                REQUIRE((n == 1 ? milcgpu_memory_plan(session.context, MILCGPU_DOUBLE, &how, nullptr, 0, planned + with)
                                : milcgpu_sources_plan(session.context, MILCGPU_DOUBLE, &how, MILCGPU_BLOCK, n, nullptr,
                                                       0, planned + with)) == MILCGPU_OK);
            }
            const size_t before = modes.device().used_bytes();
            const Deflation deflation(modes.device(), *made.of->set, *full, n);
            CAPTURE(milcgpu::name(backend), n, planned[0], planned[1]);
            CHECK(planned[1] - planned[0] == modes.device().used_bytes() - before);
        }
        milcgpu_vectors *vectors = nullptr;
        REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, 2, &vectors) == MILCGPU_OK);
        const auto source = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, 40));
        const milcgpu_field from = field_of(source);
        REQUIRE(milcgpu_vectors_load(vectors, 0, MILCGPU_EVEN, &from) == MILCGPU_OK);
        const std::vector<double> zero(source.size());
        const milcgpu_field guess = field_of(zero);
        REQUIRE(milcgpu_vectors_load(vectors, 1, MILCGPU_EVEN, &guess) == MILCGPU_OK);
        const milcgpu_vector b{vectors, 0}, x{vectors, 1};
        CAPTURE(milcgpu_last_error());
        auto report = sized<milcgpu_solve_report>();
        CHECK(milcgpu_staggered_solve_vectors(session.links, &how, MILCGPU_ONE_BY_ONE, 1, &b, &x, &report) ==
              MILCGPU_OK);
        CHECK(report.deflations > 2);
        CHECK(report.true_residual < 1e-10);
        milcgpu_vectors_destroy(vectors);
    }
}

TEST_CASE("a flipped bit that raises no residual: solutions hold, and one of the next calls says so", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const auto spec = eigen_spec(40); // more than are compared in a call
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_OK);
        REQUIRE(milcgpu_eigenvectors_count(*made) == 40);
        unsigned char byte;
        modes.device().copy_to_host(&byte, (*made.of->set)[35].data, 1);
        byte ^= 1;
        modes.device().copy_to_device((*made.of->set)[35].data, &byte, 1);
        std::vector<double> vector(6 * session.lattice.volume());
        const milcgpu_field there = session.field(vector);
        CHECK(milcgpu_eigenvectors_save(*made, 34, &there) == MILCGPU_OK);
        for (const bool noticed : {false, true}) {
            const Solved s = solve(session, *made, 1, MILCGPU_SINGLE);
            CAPTURE(milcgpu::name(backend), s.reports[0].message);
            CHECK(s.status == MILCGPU_OK);
            CHECK(s.reports[0].true_residual < 1e-10);
            CHECK(s.reports[0].deflations > 2);
            CHECK(s.reports[0].deflation_off == 0);
            CHECK(has(s.reports[0].message, "a bit flipped") == noticed);
            CHECK(milcgpu_eigenvectors_count(*made) == (noticed ? 0 : 40));
        }
    }
}

TEST_CASE("arguments of eigenvectors that are refused", "[eigen]") {
    Modes modes(Backend::host, 3, {{4, 4, 4, 4}});
    Session<double> &session = modes.session;
    Handle made;
    const auto refused = [&](milcgpu_eigen_spec spec, const char *words) {
        CHECK(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), words));
        CHECK(*made == nullptr);
    };
    refused(eigen_spec(0), "spec.count");
    auto spec = eigen_spec(0);
    size_t bytes = 7;
    CHECK(milcgpu_eigenvectors_plan(session.context, &spec, &bytes) == MILCGPU_BAD_ARGUMENT);
    CHECK(bytes == 7);
    CHECK(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, 0, &made.of) == MILCGPU_BAD_ARGUMENT);
    spec = eigen_spec(4);
    spec.precision = MILCGPU_DOUBLE;
    refused(spec, "eigenvectors are single or half");
    spec = eigen_spec(4);
    spec.parity = 3;
    refused(spec, "spec.parity");
    spec = eigen_spec(4);
    spec.tolerance = NAN;
    refused(spec, "spec.tolerance");
    spec.tolerance = 1e-20;
    CHECK(milcgpu_eigenvectors_compute(session.links, &spec, &made.of, nullptr) == MILCGPU_NOT_CONVERGED);
    CHECK(
        has(milcgpu_last_error(), "of the largest l, and a tolerance of 1.0e-20 is asked for: ask for more than that"));
    CHECK(*made == nullptr);
    spec = eigen_spec(4);
    spec.progress = [](void *, int, int) { throw 1; };
    refused(spec, "spec.progress threw");
    REQUIRE(milcgpu_eigenvectors_create(session.links, MILCGPU_EVEN, 0, 2, &made.of) == MILCGPU_OK);
    std::vector<double> vector(6 * session.lattice.volume());
    const milcgpu_field there = session.field(vector);
    for (const int index : {-1, 2})
        CHECK(milcgpu_eigenvectors_load(*made, session.links, index, &there) == MILCGPU_BAD_ARGUMENT);
    CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_NAN_OR_INF); // 0
    CHECK(milcgpu_eigenvectors_save(*made, 0, &there) == MILCGPU_BAD_ARGUMENT);              // empty
    vector[0] = NAN;
    CHECK(milcgpu_eigenvectors_load(*made, session.links, 0, &there) == MILCGPU_NAN_OR_INF);
}

// |a - b| / |b|
static double difference(const std::vector<double> &a, const std::vector<double> &b) {
    double d = 0, size = 0;
    for (size_t k = 0; k < b.size(); ++k)
        d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(d / size);
}

TEST_CASE("currents: noise is thinned and projected, sums over time slices are those of shifts and dot products",
          "[eigen][mesons]") {
    constexpr int N = 6, step = 2, n = 8, groups = 2, origin[4] = {0, 0, 0, 0};
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        Session<double> &session = modes.session;
        const reference::Lattice &lattice = session.lattice;
        const int times = lattice.n[3], half = lattice.volume() / 2;
        struct Handles {
            milcgpu_meson_links *links = nullptr;
            milcgpu_vectors *noise = nullptr, *solutions = nullptr;
            ~Handles() {
                milcgpu_meson_links_destroy(links);
                milcgpu_vectors_destroy(noise), milcgpu_vectors_destroy(solutions);
            }
        } of;
        auto gauge = reference::links_to_milc<double>(lattice, modes.u);
        const milcgpu_field u = session.field(gauge);
        milcgpu_meson_links_spec as_measured;
        milcgpu_meson_links_defaults(&as_measured, sizeof as_measured);
        as_measured.antiperiodic = 1, as_measured.signs = MILCGPU_SIGNS_IN;
        REQUIRE(milcgpu_meson_links_create(session.context, MILCGPU_DOUBLE, &of.links) == MILCGPU_OK);
        REQUIRE(milcgpu_meson_links_load(of.links, &as_measured, &u) == MILCGPU_OK);
        for (milcgpu_vectors **set : {&of.noise, &of.solutions})
            REQUIRE(milcgpu_vectors_create(session.context, MILCGPU_DOUBLE, n, set) == MILCGPU_OK);
        const auto how = eigen_spec(N);
        Handle made;
        REQUIRE(milcgpu_eigenvectors_compute(session.links, &how, &made.of, nullptr) == MILCGPU_OK);
        double values[N];
        milcgpu_eigenvectors_values(*made, values, nullptr);

        using Field = std::vector<double>;
        const auto on_host = [&](milcgpu_vectors *from, int k) {
            Field field(6 * lattice.volume());
            const milcgpu_field to = session.field(field);
            REQUIRE(milcgpu_vectors_save(from, k, MILCGPU_EVEN + MILCGPU_ODD, &to) == MILCGPU_OK);
            return field;
        };
        // On `parity`: D of what is on the other one.
        const auto with_dslash = [&](Field field, int parity) {
            const milcgpu_storage real{MILCGPU_DOUBLE, 18};
            const milcgpu_field from = session.field(field);
            REQUIRE(milcgpu_staggered_dslash(session.links, &real, parity, &from, &from) == MILCGPU_OK);
            return field;
        };
        const auto dot = [&](const Field &a, const Field &b, int parity) {
            std::complex<double> sum = 0;
            for (int i = 3 * (parity == MILCGPU_EVEN ? 0 : half); i < 3 * (parity == MILCGPU_EVEN ? half : 2 * half);
                 ++i)
                sum += std::conj(std::complex<double>(a[2 * i], a[2 * i + 1])) *
                       std::complex<double>(b[2 * i], b[2 * i + 1]);
            return sum;
        };
        // to[mu T + t] += scale Im [a^dag U b(x + mu)] on the sites of a parity.
        const auto add_currents = [&](const Field &a, const Field &b, int parity, double scale, double *to) {
            for (int mu = 0; mu < 4; ++mu) {
                Field shifted(b.size());
                const milcgpu_field from = field_of(b), there = session.field(shifted);
                const milcgpu_quarks in{&from, nullptr, 0}, out{&there, nullptr, 0};
                REQUIRE(milcgpu_quarks_shift(of.links, mu, MILCGPU_FORWARD, origin, 1, &in, &out) == MILCGPU_OK);
                for (int t = 0; t < times; ++t) {
                    Field slice(b.size()); // MILC's sites of a parity go by time slices
                    for (const int begin : {0, half})
                        std::copy_n(shifted.begin() + 6 * (begin + t * half / times), 6 * half / times,
                                    slice.begin() + 6 * (begin + t * half / times));
                    to[mu * times + t] += scale * dot(a, slice, parity).imag();
                }
            }
        };

        const auto random = random_fermion(lattice, 61);
        const Field noise = reference::vector_to_milc<double>(lattice, random);
        const milcgpu_field field = field_of(noise);
        REQUIRE(milcgpu::thinned_sources(of.noise, 1, &field, step) == MILCGPU_OK);
        std::vector<Field> thinned;
        for (int k = 0; k < n; ++k) {
            auto expected = random;
            for (int s = 0; s < lattice.volume(); ++s) {
                const auto x = lattice.coordinates(s);
                const int place = ((x[0] % step * step + x[1] % step) * step + x[2] % step) * step + x[3] % step;
                if (place / 2 != k)
                    expected[s] = {};
            }
            thinned.push_back(on_host(of.noise, k));
            CHECK(thinned[k] == reference::vector_to_milc<double>(lattice, expected));
        }
        CHECK(milcgpu::thinned_sources(of.noise, 1, &field, 3) == MILCGPU_BAD_ARGUMENT);
        REQUIRE(milcgpu::thinned_sources(of.noise, 1, &field, step) == MILCGPU_OK);

        std::vector<Field> v(N, Field(6 * lattice.volume()));
        for (int k = 0; k < N; ++k) {
            const milcgpu_field to = session.field(v[k]);
            REQUIRE(milcgpu_eigenvectors_save(*made, k, &to) == MILCGPU_OK);
            v[k] = with_dslash(v[k], MILCGPU_ODD);
        }
        REQUIRE(milcgpu::project_out(*made, session.links, of.noise) == MILCGPU_OK);
        std::vector<Field> projected;
        for (int k = 0; k < n; ++k) {
            projected.push_back(on_host(of.noise, k));
            Field expected = thinned[k]; // as MILC does it
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                for (int j = N - 1; j >= 0; --j) {
                    const double norm = parity == MILCGPU_EVEN ? 1 : dot(v[j], v[j], parity).real();
                    const std::complex<double> c = dot(v[j], expected, parity) / norm;
                    const int begin = 3 * (parity == MILCGPU_EVEN ? 0 : half);
                    for (int i = begin; i < begin + 3 * half; ++i) {
                        const std::complex<double> part = c * std::complex<double>(v[j][2 * i], v[j][2 * i + 1]);
                        expected[2 * i] -= part.real(), expected[2 * i + 1] -= part.imag();
                    }
                }
            CAPTURE(milcgpu::name(backend), k);
            CHECK(difference(projected[k], expected) < 1e-13);
            CHECK(difference(projected[k], thinned[k]) > 1e-3);
        }

        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
            std::vector<double> sums(groups * 4 * times), expected(sums.size());
            const int other = MILCGPU_EVEN + MILCGPU_ODD - parity;
            for (int k = 0; k < n; ++k) {
                const Field x = reference::vector_to_milc<double>(lattice, random_fermion(lattice, 70 + k));
                const milcgpu_field from = field_of(x);
                for (const int on : {MILCGPU_EVEN, MILCGPU_ODD})
                    REQUIRE(milcgpu_vectors_load(of.solutions, k, on, &from) == MILCGPU_OK);
                add_currents(projected[k], with_dslash(x, other), parity, 1,
                             expected.data() + k / (n / groups) * 4 * times);
            }
            REQUIRE(milcgpu::current_sums(of.links, session.links, parity, groups, of.noise, of.solutions,
                                          sums.data()) == MILCGPU_OK);
            CHECK(difference(sums, expected) < 1e-12);
        }

        std::vector<double> weights(2 * N), low(2 * 4 * times), expected(low.size());
        for (int k = 0; k < N; ++k)
            for (const int w : {0, 1}) {
                weights[w * N + k] = w == 0 ? 1 / values[k] : k + 1;
                add_currents(v[k], v[k], MILCGPU_EVEN, -weights[w * N + k], expected.data() + w * 4 * times);
                add_currents(v[k], v[k], MILCGPU_ODD, weights[w * N + k], expected.data() + w * 4 * times);
            }
        REQUIRE(milcgpu::low_mode_currents(of.links, session.links, *made, N, 2, weights.data(), low.data()) ==
                MILCGPU_OK);
        CHECK(difference(low, expected) < 1e-12);
    }
}

TEST_CASE("eigenvectors on lattices that are cut are those of the whole one", "[eigen]") {
    const std::array<int, 4> whole{4, long_tests() ? 6 : 4, 6, 8};
    Fields fields{{whole}, {}, {}, {}};
    {
        Modes modes(Backend::host, 3, fields.lattice);
        fields.fat.resize(72 * fields.lattice.volume()), fields.lng.resize(fields.fat.size());
        const milcgpu_field fat = field_of(fields.fat), lng = field_of(fields.lng);
        modes.make(0, &fat, &lng);
        fields.source = reference::vector_to_milc<double>(fields.lattice, random_fermion(fields.lattice, 6));
    }
    for (const Backend backend : backends()) {
        std::vector<double> of_whole;
        int steps_of_whole = 0, plain = 0;
        for (const std::array<int, 4> &grid :
             {std::array<int, 4>{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 2}}) {
            if (grid[1] == 2 && !long_tests())
                continue; // eight ranks
            const int ranks = grid[1] * grid[2] * grid[3];
            std::vector<std::vector<double>> seen(ranks);
            int steps = 0, refusals[2] = {};
            std::string words[2];
            const auto endings = on_cut(fields, {whole, grid, 0}, backend, [&](Here &here, Ending &) {
                Handle made;
                auto spec = eigen_spec(12);
                demand(milcgpu_eigenvectors_compute(here.links, &spec, &made.of, nullptr));
                std::vector<double> &own = seen[here.rank()];
                own.resize(milcgpu_eigenvectors_count(*made));
                demand(milcgpu_eigenvectors_values(*made, own.data(), nullptr));
                const milcgpu_field b = field_of(here.source);
                for (milcgpu_eigenvectors *with : {static_cast<milcgpu_eigenvectors *>(nullptr), *made}) {
                    if (with == nullptr && ranks > 1)
                        continue;
                    std::vector<double> solution(here.source.size());
                    const milcgpu_field x = field_of(solution);
                    auto how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
                    how.eigenvectors = with;
                    auto report = sized<milcgpu_solve_report>();
                    demand(milcgpu_staggered_solve(here.links, &how, &b, &x, &report));
                    if (here.rank() == 0)
                        (with != nullptr ? steps : plain) = report.steps;
                }
                if (ranks != 2)
                    return;
                Handle fewer;
                spec.count = 4;
                demand(milcgpu_eigenvectors_compute(here.links, &spec, &fewer.of, nullptr));
                std::vector<double> solution(here.source.size());
                const milcgpu_field x = field_of(solution);
                auto how = solve_spec(0.002, 1e-10, MILCGPU_DOUBLE, MILCGPU_HALF);
                how.eigenvectors = here.rank() == 0 ? *made : *fewer;
                refusals[here.rank()] = milcgpu_staggered_solve(here.links, &how, &b, &x, nullptr);
                words[here.rank()] = milcgpu_last_error();
                Handle started;
                spec.start = how.eigenvectors;
                CHECK(milcgpu_eigenvectors_compute(here.links, &spec, &started.of, nullptr) == MILCGPU_BAD_ARGUMENT);
                CHECK(has(milcgpu_last_error(), "count of spec.start is "));
            });
            CHECK(all_well(endings));
            if (ranks == 1)
                of_whole = seen[0], steps_of_whole = steps;
            CAPTURE(milcgpu::name(backend), ranks, plain, steps, steps_of_whole);
            REQUIRE(seen[0].size() == 12);
            for (const std::vector<double> &values : seen)
                CHECK(values == seen[0]);
            for (int k = 0; k < 12; ++k)
                CHECK(seen[0][k] == Approx(of_whole[k]).epsilon(1e-3));
            CHECK(std::abs(steps - steps_of_whole) <= 2);
            CHECK(steps < plain);
            for (const int rank : {0, 1})
                if (ranks == 2) {
                    CHECK(refusals[rank] == MILCGPU_BAD_ARGUMENT);
                    CHECK(has(words[rank], "count of spec.eigenvectors is "));
                }
        }
    }
}
