// Eigenvectors: the dense eigensolver of the host, Lanczos against all eigenvalues of a small lattice, deflation.
#include "examples/heatbath.h"
#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/solver/hermitian.h"
#include "gpu_kernels/solver/lanczos.h"
#include "milc_glue/api/context.h"
#include "tests/support.h"
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
    Modes(Backend backend, unsigned long seed, const reference::Lattice &lattice = {{4, 4, 4, 8}})
        : session(lattice, backend) {
        reference::Gauge u = examples::thermalized(lattice, 5.6, seed, 8, 1);
        reference::apply_phases(lattice, u);
        auto gauge = reference::links_to_milc<double>(lattice, u);
        const milcgpu_field from = session.field(gauge);
        milcgpu_fatlink_spec spec;
        milcgpu_hisq_spec(&spec);
        const milcgpu_fatlink_set set{0, nullptr, nullptr, &session.links};
        CAPTURE(milcgpu_last_error());
        REQUIRE(milcgpu_fat_links(session.context, &spec, &from, &set, 1, nullptr, nullptr) == MILCGPU_OK);
    }
    milcgpu::Device &device() { return *session.context->device; }
    milcgpu::Operator in(Precision p, int parity = 0) {
        OperatorSpec spec{p, p, 18};
        return milcgpu::level_operator(*session.links, parity, spec);
    }
    std::unique_ptr<Eigenvectors> lowest(int count, LanczosReport &report, Precision stored = Precision::half,
                                         double tolerance = 0) {
        LanczosLimits limits;
        limits.count = count, limits.stored = stored, limits.tolerance = tolerance;
        return milcgpu::lowest_eigenvectors(device(), *in(Precision::double_), *in(Precision::single), limits, {},
                                            report);
    }
    void load(const milcgpu::SpinorBlock &to, unsigned long seed) {
        auto b = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, seed));
        session.context->reorder->to_device({b.data(), Precision::double_, 48}, 0, to);
    }
    milcgpu::CgReport solve(CgSolver &cg, double mass, Deflation *deflation) {
        milcgpu::CgLimits limits{};
        limits.shift = 4 * mass * mass, limits.tolerance = 1e-10;
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
        CHECK(modes.lowest(300, report)->count() <= 96);
        CHECK_THAT(report.message, Catch::Contains("a lattice of this size"));
        CHECK_THROWS_AS(modes.lowest(0, report), milcgpu::Error);
    }
}

TEST_CASE("where memory is short Lanczos makes fewer vectors, and says so", "[eigen]") {
    Modes modes(Backend::host, 3);
    LanczosLimits limits;
    limits.count = 64;
    limits.memory = milcgpu::lanczos_bytes(modes.in(Precision::single)->geometry(), limits) * 9 / 10;
    LanczosReport report;
    const auto set = milcgpu::lowest_eigenvectors(modes.device(), *modes.in(Precision::double_),
                                                  *modes.in(Precision::single), limits, {}, report);
    CHECK(set->count() < 64);
    CHECK(set->count() >= 16);
    CHECK_THAT(report.message, Catch::Contains("of 64 eigenvectors: memory"));
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
                                   between = A->between(device, "test"), left = A->vectors(device, "test");
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
            deflation.undo();
            for (const int k : {0, 1, 2}) {
                norm_squared(device, x[k], sum.data());
                CHECK(sum.to_host()[0] < 1e-20 * rr[0] / (shift * shift));
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
        CHECK_THAT(set->why_not_of(*other.in(Precision::double_)), Catch::Contains("not one of these links"));
        CHECK_THAT(set->why_not_of(*modes.in(Precision::double_, 1)), Catch::Contains("not one of these links"));
        const milcgpu::SpinorBlock bad = (*set)[2];
        modes.device().copy_on_device(bad.data, (*set)[0].data, bad.source_bytes / 2);
        set->values[2] = 1e-5;
        Deflation deflation(modes.device(), *set, *full, 4);
        CgSolver cg(modes.device(), {full, modes.in(Precision::half), full, [&] { return modes.in(Precision::single); }});
        const milcgpu::CgReport r = modes.solve(cg, 0.01, &deflation);
        CAPTURE(milcgpu::name(backend), r.message, r.deflations);
        CHECK(r.status == milcgpu::Status::ok);
        CHECK(r.true_residual < 1e-10);
        CHECK(r.deflation_off);
        milcgpu::BlockCgSolver block(modes.device(), full, modes.in(Precision::single), 4, cg);
        milcgpu::SourcesLimits limits;
        limits.shift = 4e-4, limits.tolerances.assign(4, 1e-10), limits.max_iterations.assign(4, 1000);
        limits.deflation = &deflation;
        for (int k = 0; k < 4; ++k)
            modes.load(block.source(k), 20 + k);
        modes.device().fill_zero(block.all_solutions().data, block.all_solutions().bytes());
        for (const milcgpu::CgReport &own : block.solve(limits, {}).sources) {
            CHECK(own.status == milcgpu::Status::ok);
            CHECK(own.true_residual < 1e-10);
            CHECK(own.deflation_off);
        }
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
        CHECK(set->checked_regions()[0].expected == again->checked_regions()[0].expected);
        const milcgpu::Operator full = modes.in(Precision::double_);
        Deflation deflation(modes.device(), *set, *full, 12);
        CgSolver cg(modes.device(), {full, modes.in(Precision::single), full, {}});
        const int alone = modes.solve(cg, 0.002, &deflation).steps;
        milcgpu::BlockCgSolver block(modes.device(), full, modes.in(Precision::single), 12, cg);
        std::vector<double> solutions[2];
        for (std::vector<double> &x : solutions) {
            milcgpu::SourcesLimits limits;
            limits.shift = 1.6e-5, limits.tolerances.assign(12, 1e-10), limits.max_iterations.assign(12, 1000);
            limits.tolerances[3] = 1e-4;
            limits.deflation = &deflation;
            for (int k = 0; k < 12; ++k)
                modes.load(block.source(k), 20 + k);
            modes.device().fill_zero(block.all_solutions().data, block.all_solutions().bytes());
            const milcgpu::SourcesReport r = block.solve(limits, {});
            CAPTURE(milcgpu::name(backend), r.message, r.steps_together, alone);
            CHECK(r.status == milcgpu::Status::ok);
            CHECK(r.steps_together <= alone);
            CHECK(r.deflations >= 2);
            for (int k = 0; k < 12; ++k) {
                CHECK(r.sources[k].true_residual < limits.tolerances[k]);
                CHECK(!r.sources[k].deflation_off);
            }
            x.resize(6 * modes.session.lattice.volume());
            modes.session.context->reorder->to_host(block.solution(11), 0, {x.data(), Precision::double_, 48});
        }
        CHECK(solutions[0] == solutions[1]);
    }
}
