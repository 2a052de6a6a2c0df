// Eigenvectors: the dense eigensolver of the host, Lanczos against all eigenvalues of a small lattice, deflation.
#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/solver/lanczos.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/currents.h"
#include "milc_glue/solve/eigen_handle.h"
#include "tests/cut_support.h"
#include "tests/low_modes.h"
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

constexpr double start_of_rounding = 5e-14;

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
        A->apply_half(device, call, milcgpu::Epilogue::plain);
        call.in = between, call.out = ax, call.x = x;
        A->apply_half(device, call, milcgpu::Epilogue::normal);
        modes.session.context->reorder->to_host(ax, 0, {column.data(), Precision::double_, 48});
        for (int i = 0; i < m; ++i)
            dense[size_t(i) * m + j] = {column[2 * i], column[2 * i + 1]};
    }
    return milcgpu::eigen_of_hermitian(dense, m, 0).values;
}

} // namespace

TEST_CASE("the dense eigensolver gives eigenvectors of a hermitian matrix", "[eigen][smoke][sanitize]") {
    for (const int m : {1, 2, 7, 90, 530}) { // 530: threads share each reflection
        const int step = m > 100 ? 53 : 1;
        const std::vector<Number> a = random_hermitian(m);
        const milcgpu::HermitianEigen e = milcgpu::eigen_of_hermitian(a, m, m);
        double residual = 0, product = 0;
        for (int k = 0; k < m; k += step)
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
    // Degenerate eigenvalues, then a diagonal matrix.
    std::vector<Number> a(9);
    a[0] = a[4] = {2, 0}, a[8] = {-1, 0};
    CHECK(milcgpu::eigen_of_hermitian(a, 3, 3).values == std::vector<double>{-1, 2, 2});
    a[4].re = NAN;
    CHECK_THROWS_AS(milcgpu::eigen_of_hermitian(a, 3, 3), milcgpu::Error);
    // The inverse root: r^dag r = g.
    const std::vector<Number> g = {{4, 0}, {0, 2}, {0, -2}, {5, 0}}, r = milcgpu::inverse_of_root(g, 2, 1e-10);
    REQUIRE(r.size() == 4);
    CHECK(std::fabs(r[0].re - 0.5) < 1e-15);
    CHECK(std::fabs(r[1].im + 0.25) < 1e-15);
    CHECK(std::fabs(r[3].re - 0.5) < 1e-15);
    CHECK(milcgpu::inverse_of_root({{1, 0}, {1, 0}, {1, 0}, {1, 0}}, 2, 1e-10).empty());
}

TEST_CASE("Lanczos finds the lowest eigenvalues and counts the eigenvalues below each", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3, {{4, 4, 4, 4}});
        const std::vector<double> all = all_values(modes);
        CAPTURE(milcgpu::name(backend));
        const milcgpu::ModeNumber number(modes.device(), *modes.in(Precision::single), 40, 1);
        CHECK(number.highest() > all.back());
        CHECK(number.highest() < 1.1 * all.back());
        CHECK(!number.ended_early());
        const double most = 0.75 * number.applications(); // the last batch of moments is half of all
        const milcgpu::ModeNumber less(modes.device(), *modes.in(Precision::single), 40, 1, most);
        CHECK(less.ended_early());
        CHECK(less.applications() <= most);
        for (const int n : {20, 40, 80})
            CHECK(number.below(0.5 * (all[n - 1] + all[n])) == Approx(n).epsilon(0.15));
        CHECK(number.below(number.highest()) == Approx(all.size()).epsilon(1e-3));
        for (const Precision stored : {Precision::double_, Precision::single, Precision::half}) {
            const double tolerance = stored == Precision::double_ ? 1e-13 : 1e-5;
            LanczosReport report;
            const auto loose = modes.lowest(24, report, stored);
            CAPTURE(milcgpu::name(stored), report.message, report.degree, report.basis);
            CHECK(loose->count() == 24);
            const auto tight = modes.lowest(24, report, stored, tolerance);
            REQUIRE(tight->count() == 24);
            CHECK(report.left_out == 0);
            for (int k = 0; k < 24; ++k) {
                CAPTURE(k, all[k], loose->values[k], tight->values[k], tight->residuals[k]);
                CHECK(std::fabs(tight->values[k] - all[k]) <
                      (stored == Precision::double_ ? tolerance * report.highest : tolerance * all[k]));
                CHECK(tight->residuals[k] < tolerance * report.highest);
                CHECK(loose->values[k] > (1 - 1e-5) * all[k]);
                CHECK(loose->values[k] < 1.1 * all[k]);
            }
        }
        // Ask for one vector, for more than exist, for none.
        LanczosReport report;
        CHECK(modes.lowest(1, report)->values[0] == Approx(all[0]).epsilon(1e-2));
        CHECK(report.message == "");
        const int found = modes.lowest(300, report)->count(); // of 384: the solver makes at most a quarter
        CHECK(found <= 96);
        CHECK(report.left_out == 300 - found);
        CHECK(report.message.find("300 eigenvectors: a lattice of this size allows at most ") == 0);
        CHECK(report.message.back() != ' ');
        CHECK_THROWS_AS(modes.lowest(0, report), milcgpu::Error);
    }
}

TEST_CASE("Lanczos finds the split levels of nearly free links", "[eigen]") {
    for (const Backend backend : backends())
        for (const double rough : {0.02, 0.2}) {
            Modes modes(backend, 3, {{4, 4, 4, 4}});
            modes.u = reference::near_unit_gauge(modes.session.lattice, rough, 5);
            reference::apply_phases(modes.session.lattice, modes.u);
            modes.make(0);
            const std::vector<double> all = all_values(modes);
            for (const int count : {12, 60})
                for (const double tolerance : {0.0, 1e-5}) {
                    LanczosReport report;
                    const auto set = modes.lowest(count, report, Precision::half, tolerance);
                    CAPTURE(milcgpu::name(backend), rough, count, tolerance, report.message, report.restarts);
                    CHECK(set->count() >= (tolerance > 0 ? count : count - count / 16));
                    for (int k = 0; k < set->count(); ++k) {
                        CAPTURE(k, all[k], set->values[k], set->residuals[k]);
                        CHECK(set->values[k] > (1 - 1e-5) * all[k]);
                        CHECK(set->values[k] < (tolerance > 0 ? 1 + 1e-5 : 1.1) * all[k]);
                    }
                }
        }
}

TEST_CASE("Lanczos takes the memory that it plans; without it, a smaller basis, then fewer vectors", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        milcgpu::Device &device = modes.device();
        const milcgpu::Operator full = modes.in(Precision::double_), single = modes.in(Precision::single);
        const auto lowest = [&](const LanczosLimits &limits, LanczosReport &report) {
            const milcgpu::Operator &A = limits.stored == Precision::double_ ? full : single;
            return milcgpu::lowest_eigenvectors(device, *full, *A, limits, {}, report);
        };
        {
            LanczosReport first; // allocations that stay on the device after the first sum over sites
            modes.lowest(1, first);
        }
        for (const Precision stored : {Precision::half, Precision::single, Precision::double_}) {
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
            if (stored == Precision::half) // otherwise a smaller last group does not fit
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
            CHECK(has(report.message, "of 48 eigenvectors fit"));
        }
    }
}

TEST_CASE("Lanczos started from given vectors takes fewer applications to the same eigenvalues", "[eigen]") {
    LONG_TEST;
    for (const Backend backend : backends()) {
        Modes modes(backend, 3);
        LanczosReport of_few;
        const auto few = modes.lowest(32, of_few);
        REQUIRE(few->count() == 32);
        for (const double eps : {0.0, -1e-3, -0.3}) { // the same links, near ones, other ones
            modes.make(eps);
            LanczosReport alone, with;
            const auto fresh = modes.lowest(48, alone), more = modes.lowest(48, with, Precision::half, 0, few.get());
            CAPTURE(milcgpu::name(backend), eps, alone.applications, with.applications, with.degree);
            REQUIRE(fresh->count() == 48);
            REQUIRE(more->count() == 48);
            // A vector that is taken as given costs 2 applications, else d + 1; no vector at all, 1 more.
            const long long less = alone.applications - with.applications;
            CHECK(less >= (eps == 0 ? 32 * (with.degree - 1) : eps == -1e-3 ? 16 * (with.degree - 1) : -32));
            for (int k = 0; k < 48; ++k)
                CHECK(more->values[k] == Approx(fresh->values[k]).epsilon(k < 32 ? 1e-2 : 0.1));
        }
    }
}

TEST_CASE("deflated solves take the steps that the remaining modes need, at all masses and precisions", "[eigen]") {
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
                // 0.9 of the bound sqrt(kappa) / 2 ln(2 / tolerance), kappa the condition number without the deflated
                // modes.
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
        // Random links: eigenvalues 5e-4, 1.7e-3, 3e-3, 5e-3, ....
        const AsqtadLinks links = asqtad_links(modes.session.lattice, 9);
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
                const bool aside = light && count == 2; // else most of the steps are in double
                CHECK((r.deflations == 0) == aside);
                CHECK(r.steps <= (aside ? plain[light] : 0.95 * plain[light]));
            }
        }
    }
}

TEST_CASE("the eigensolver finds two eigenvectors on few sites, and a solve is deflated with them", "[eigen][race]") {
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

TEST_CASE("half precision iterates if it serves the remaining modes, also for relative residuals", "[eigen]") {
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
        // Several sources of this mass start in double, but not with a deflation.
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

TEST_CASE("deflation with exact vectors solves their part of the source, at any shift", "[eigen]") {
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
                residual(device, *A, shift, {r[places[k]], x[to[k]], between, left}, sum.data());
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

TEST_CASE("a solve notices a vector that is no eigenvector, and loses only its deflation", "[eigen]") {
    for (const Backend backend : backends()) {
        Modes modes(backend, 3), other(backend, 4);
        LanczosReport report;
        const auto set = modes.lowest(24, report);
        const milcgpu::Operator full = modes.in(Precision::double_);
        CHECK(set->why_not_of(*full) == "");
        CHECK(has(set->why_not_of(*other.in(Precision::double_)), "eigenvector "));
        CHECK(has(set->why_not_of(*modes.in(Precision::double_, 1)), "eigenvector "));
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

TEST_CASE("a deflated solve that stagnates goes on without deflation", "[eigen]") {
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

TEST_CASE("several sources are deflated together, and the same call repeats its bits", "[eigen]") {
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
