// BiCGstab: an operator that is not hermitian, made of staggered D^2 and a complex shift; then Wilson fermions.
#include "examples/lib/heatbath.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/solver/bicgstab.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "gpu_kernels/wilson/wilson_operator.h"
#include "reorder/resident_links.h"
#include "tests/clover_support.h"

using namespace milcgpu;
using namespace tests;
using Number = reference::Complex;
using reference::WilsonField;

namespace {

// shift - D D on one parity with a complex shift: normal but not hermitian; its spectrum is a line parallel to the real
// axis.
class ShiftedStaggered : public LinearOperator {
  public:
    ShiftedStaggered(Device &device, std::shared_ptr<const StaggeredOperator> A, Number shift)
        : LinearOperator(A->geometry(), A->parity(), A->spec(), 1), A_(std::move(A)), shift_(shift),
          between_(A_->between(device, "test")), r_(vectors(device, "test")), p_(vectors(device, "test")),
          v_(vectors(device, "test")), state_(device, 1, "test"), begins_(device, 2, "test") {
        BicgState state[2] = {};
        for (const int dagger : {0, 1}) {
            state[dagger].active = 1;
            state[dagger].rho = {0, dagger != 0 ? shift.imag() : -shift.imag()}, state[dagger].shadow[0] = 1;
        }
        device.copy_to_device(begins_.data(), state, sizeof state);
    }
    void apply(Device &device, const MatrixCall &call) const override { apply(device, call, 0); }
    void apply_dagger(Device &device, const MatrixCall &call) const override { apply(device, call, 1); }
    std::vector<Region> checked_regions() const override { return A_->checked_regions(); }
    double flops() const override { return A_->flops(Epilogue::normal); }
    double bytes() const override { return A_->bytes(Epilogue::normal); }

  private:
    // Passes of the solver stand in for kernels that this operator lacks: r -= alpha v adds the imaginary part, and the
    // replacement of a residual sums the products. The solver records the launches, so no number may come from the
    // host.
    void apply(Device &device, const MatrixCall &call, int dagger) const {
        HalfCall half;
        half.in = call.in, half.out = between_;
        A_->apply_half(device, half, Epilogue::plain);
        half.in = between_, half.out = call.out, half.x = call.in;
        half.a = shift_.real();
        A_->apply_half(device, half, Epilogue::normal);
        device.copy_on_device(state_.data(), begins_.data() + dagger, sizeof(BicgState));
        bicgstab_half_step(device, {call.out, {}, {}, call.in, {}, {}}, state_.data());
        if (call.sums == nullptr)
            return;
        bicgstab_replace(device, call.out, {r_, call.with, p_, v_, {}, {}}, state_.data());
        device.copy_on_device(call.sums, &state_.data()->rho, 2 * sizeof(double));
        device.copy_on_device(call.sums + 2, &state_.data()->rr, sizeof(double));
    }
    std::shared_ptr<const StaggeredOperator> A_;
    Number shift_;
    SpinorField between_, r_, p_, v_;
    DeviceArray<BicgState> state_, begins_; // begins_: the initial state for the operator, then for its adjoint
};

struct StaggeredBench : Bench<reference::Vector> {
    ResidentLinks links;
    StaggeredBench(const std::array<int, 4> &n, Backend backend, const reference::Gauge &fat,
                   const reference::Gauge &lng)
        : Bench(n, backend), links(device, map, geometry, Precision::double_) {
        auto f = reference::links_to_milc<double>(lattice, fat), l = reference::links_to_milc<double>(lattice, lng);
        links.update({f.data(), Precision::double_, 576}, {l.data(), Precision::double_, 576});
    }
    std::shared_ptr<const LinearOperator> matrix(Precision p, Number shift) {
        const OperatorSpec spec{p, p, 18};
        const LinkPair pair = p == Precision::double_ ? links.full() : links.version(p, 18);
        const auto A = std::make_shared<StaggeredOperator>(geometry, 0, spec, pair);
        return std::make_shared<ShiftedStaggered>(device, A, shift);
    }
};

// Wilson fermions on a quenched lattice at beta 5.9, antiperiodic in time.
struct WilsonSolves : WilsonBench {
    reference::Gauge gauge;
    LinkField as_given;
    LinkStatistics statistics;
    double kappa;
    std::vector<std::unique_ptr<LinkField>> packed;

    WilsonSolves(const std::array<int, 4> &n, Backend backend, double with_kappa, int block = 0)
        : WilsonBench(n, backend, block),
          gauge(reference::antiperiodic_in_time(lattice, examples::thermalized(lattice, 5.9, 5, 12, 2))),
          as_given(upload(gauge)), statistics(link_statistics(device, as_given, geometry)), kappa(with_kappa) {}
    SharedMatrix matrix(const OperatorSpec &spec, int parity = 0) {
        const LinkField *links = &as_given;
        if (spec.spinor != Precision::double_ || spec.reals != 18) {
            packed.push_back(std::make_unique<LinkField>(
                pack_links(device, as_given, statistics, geometry, spec.link, spec.reals, "test").field));
            links = packed.back().get();
        }
        return std::make_shared<WilsonMatrix>(device, geometry, parity, spec, *links, kappa);
    }
    SharedMatrix full(int parity = 0) { return matrix({Precision::double_, Precision::double_, 18}, parity); }
    void put(const WilsonField &field, int parity, const SpinorField &to) {
        auto milc = reference::field_to_milc<double>(lattice, field, 1);
        reorder.to_device({milc.data(), Precision::double_, 192}, parity, to);
    }
    // |b - M x| / |b| by the reference.
    double residual(const WilsonField &b, const WilsonField &x, int parity) const {
        const WilsonField on = reference::on_parity(lattice, b, parity);
        const WilsonField mx =
            reference::wilson_even_odd(lattice, gauge, reference::unit_clover(lattice), kappa, x, 1, parity);
        return std::sqrt(norm2(on - mx) / norm2(on));
    }
};

CgLimits limits_of(double tolerance, int max_iterations = 1000) {
    CgLimits limits{};
    limits.tolerance = tolerance;
    limits.max_iterations = max_iterations;
    return limits;
}

} // namespace

TEST_CASE("BiCGstab solves with an operator that is not hermitian: D^2 with a complex shift", "[operators]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 41);
    const reference::Fermion b = random_fermion(lattice, 42);
    const Number shift(0.05, 0.4);
    // On the host alone: the operator copies between launches, which a GPU cannot record.
    for (const Backend backend : {Backend::host}) {
        StaggeredBench bench(lattice.n, backend, links.fat, links.lng);
        const auto full = bench.matrix(Precision::double_, shift);
        int steps_in_double = 0;
        for (const Precision p : {Precision::double_, Precision::single, Precision::half}) {
            BicgstabSolver solver(bench.device, {full, p == Precision::double_ ? full : bench.matrix(p, shift)});
            bench.put(b, 0, solver.source());
            bench.device.fill_zero(solver.solution().data(), solver.solution().bytes());
            const CgReport report = solver.solve(limits_of(1e-10), {});
            CAPTURE(name(backend), name(p), report.steps, report.restarts, report.reliable_updates,
                    report.true_residual, report.message);
            CHECK(report.status == Status::ok);
            // The residual by the reference: M = shift.re - D D + i shift.im.
            const reference::Fermion x = bench.download(solver.solution(), 0);
            reference::Fermion mx =
                reference::normal_operator(lattice, links.fat, links.lng, std::sqrt(shift.real()) / 2, 0, x);
            for (int s = 0; s < lattice.volume(); ++s)
                mx[s] = mx[s] + Number(0, shift.imag()) * x[s];
            const double checked = parity_difference(lattice, mx, b, 0);
            CAPTURE(checked);
            CHECK(checked < 1e-10);
            CHECK(std::fabs(checked - report.true_residual) < 3e-16);
            if (p == Precision::double_)
                steps_in_double = report.steps;
            else
                CHECK(report.reliable_updates > 0);
            // Steps differ by rounding alone, as they do between sources: 100 to 104 in double, up to 132 in single and
            // half.
            CHECK(report.steps <= 1.5 * steps_in_double);
        }
    }
}

TEST_CASE("BiCGstab solves for Wilson fermions of a quenched lattice, in all precisions, on both parities",
          "[operators]") {
    for (const Backend backend : backends()) {
        WilsonSolves bench({4, 4, 4, 8}, backend, 0.15);
        const WilsonField b = reference::random_wilson_field(bench.lattice, 9);
        for (const int parity : {0, 1}) {
            const SharedMatrix full = bench.full(parity);
            int steps_in_double = 0;
            struct Case {
                Precision p;
                int reals;
            };
            for (const Case &c : {Case{Precision::double_, 18}, Case{Precision::double_, 12},
                                  Case{Precision::single, 18}, Case{Precision::single, 8}, Case{Precision::half, 12}}) {
                const bool same = c.p == Precision::double_ && c.reals == 18;
                BicgstabSolver solver(bench.device, {full, same ? full : bench.matrix({c.p, c.p, c.reals}, parity)});
                bench.put(b, parity, solver.source());
                const CgReport report = solver.solve(limits_of(1e-10), {});
                CAPTURE(name(backend), parity, name(c.p), c.reals, report.steps, report.restarts,
                        report.reliable_updates, report.largest_jump, report.true_residual, report.message);
                CHECK(report.status == Status::ok);
                const double checked = bench.residual(b, bench.download(solver.solution(), parity), parity);
                CHECK(checked < 1e-10);
                CHECK(std::fabs(checked - report.true_residual) < 3e-16);
                if (same)
                    steps_in_double = report.steps;
                CHECK(report.steps <= 1.15 * steps_in_double);
                CHECK(report.steps > 20);
                CHECK(report.flops > 0);
            }
        }
    }
}

TEST_CASE("BiCGstab takes guesses and limits, solves a zero source, stops at the floor, repeats its bits",
          "[operators]") {
    for (const Backend backend : backends()) {
        std::vector<WilsonField> solutions;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            WilsonSolves bench({4, 4, 8, 8}, backend, 0.14, threads.block);
            const WilsonField b = reference::random_wilson_field(bench.lattice, 10);
            const SharedMatrix full = bench.full(), single = bench.matrix({Precision::single, Precision::single, 18});
            BicgstabSolver solver(bench.device, {full, single});
            bench.put(b, 0, solver.source());
            int looks = 0;
            const CgReport report = solver.solve(limits_of(1e-9), [&](int step, double residual) {
                ++looks;
                CHECK(step > 0);
                CHECK(residual > 0);
            });
            REQUIRE(report.status == Status::ok);
            CHECK(looks > 0);
            solutions.push_back(bench.download(solver.solution(), 0));
            CHECK(norm2(solutions.front() - solutions.back()) == 0);
            if (choice > 0)
                continue;
            // The guess is the solution.
            const CgReport again = solver.solve(limits_of(1e-9), {});
            CHECK(again.status == Status::ok);
            CHECK(again.steps == 0);
            CHECK(norm2(bench.download(solver.solution(), 0) - solutions[0]) == 0);
            // Stopped half way, the solver returns its iterate and the residual of it; from there it reaches the end.
            bench.put(WilsonField(b.size(), reference::WilsonVector{}), 0, solver.solution());
            CgLimits few = limits_of(1e-9, report.steps / 2);
            few.max_restarts = 1;
            const CgReport half_way = solver.solve(few, {});
            CHECK(half_way.status == Status::not_converged);
            CHECK(half_way.steps >= report.steps / 2);
            CHECK(half_way.steps < report.steps);
            CHECK(half_way.true_residual > 1e-9);
            const double checked = bench.residual(b, bench.download(solver.solution(), 0), 0);
            CHECK(checked == Approx(half_way.true_residual).epsilon(1e-9));
            CHECK(has(half_way.message, "reach"));
            few.max_restarts = 8; // several short stretches
            const CgReport to_the_end = solver.solve(few, {});
            CHECK(to_the_end.status == Status::ok);
            CHECK(to_the_end.true_residual < 1e-9);
            // A tolerance below what double reaches.
            const CgReport floor = solver.solve(limits_of(1e-18), {});
            CHECK(floor.status == Status::precision_floor);
            CHECK(floor.true_residual < 3e-15);
            // Zero source.
            bench.put(WilsonField(b.size(), reference::WilsonVector{}), 0, solver.source());
            const CgReport nothing = solver.solve(limits_of(1e-9), {});
            CHECK(nothing.status == Status::ok);
            CHECK(norm2(bench.download(solver.solution(), 0)) == 0);
            // The solve does not depend on the units of the source.
            for (const double unit : {1e-25, 1e25}) {
                bench.put(Number(unit) * b, 0, solver.source());
                bench.put(WilsonField(b.size(), reference::WilsonVector{}), 0, solver.solution());
                const CgReport scaled = solver.solve(limits_of(1e-9), {});
                CHECK(scaled.status == Status::ok);
                CHECK(std::abs(scaled.steps - report.steps) <= 1);
            }
        }
    }
}

TEST_CASE("BiCGstab stops at NaN, reports a breakdown and checks its limits", "[operators]") {
    for (const Backend backend : backends()) {
        WilsonSolves bench({4, 4, 4, 4}, backend, 0.14);
        const WilsonField b = reference::random_wilson_field(bench.lattice, 11),
                          zero(b.size(), reference::WilsonVector{});
        BicgstabSolver solver(bench.device, {bench.full(), bench.matrix({Precision::half, Precision::half, 18})});
        WilsonField broken = b;
        broken[0].d[2].c[1] = NAN;
        bench.put(broken, 0, solver.source());
        CHECK(status_of([&] { solver.solve(limits_of(1e-8), {}); }) == Status::nan_or_inf);
        bench.put(b, 0, solver.source());
        bench.put(broken, 0, solver.solution());
        CHECK(status_of([&] { solver.solve(limits_of(1e-8), {}); }) == Status::nan_or_inf);
        bench.put(zero, 0, solver.solution());
        CHECK(status_of([&] { solver.solve(limits_of(0), {}); }) == Status::bad_argument);
        CHECK(status_of([&] { solver.solve(limits_of(NAN), {}); }) == Status::bad_argument);
        CHECK(status_of([&] { solver.solve(limits_of(1e-8, 0), {}); }) == Status::bad_argument);
        CHECK(solver.solve(limits_of(1e-8), {}).status == Status::ok); // the next solve is not affected

        // NaN in the links of the operator that iterates: the solve reports it and keeps the guess.
        reference::Gauge links = bench.gauge;
        links[4].e[0][0] = NAN;
        const LinkField spoiled = bench.upload(links, Precision::single);
        const OperatorSpec in_single{Precision::single, Precision::single, 18};
        BicgstabSolver with_nan(bench.device,
                                {bench.full(), std::make_shared<WilsonMatrix>(bench.device, bench.geometry, 0,
                                                                              in_single, spoiled, bench.kappa)});
        bench.put(b, 0, with_nan.source());
        bench.put(Number(0.5) * b, 0, with_nan.solution());
        const CgReport report = with_nan.solve(limits_of(1e-8), {});
        CHECK(report.status == Status::nan_or_inf);
        CHECK(norm2(bench.download(with_nan.solution(), 0) - reference::on_parity(bench.lattice, Number(0.5) * b, 0)) ==
              0);

        CHECK(status_of([&] {
                  BicgstabSolver(bench.device, {bench.matrix(in_single), bench.full()});
              }) == Status::bad_argument);
        CHECK(status_of([&] { BicgstabSolver(bench.device, {bench.full(0), bench.full(1)}); }) == Status::bad_argument);

        if (backend == Backend::cuda) // the next operator cannot be recorded
            continue;
        // On unit links the diagonal of -D D is 8. With a shift of -8, <b, M b> is exactly zero for a source on one
        // site.
        const reference::Lattice lattice{{4, 4, 4, 4}};
        reference::Gauge fat = reference::unit_gauge(lattice);
        reference::apply_phases(lattice, fat);
        reference::Gauge lng = reference::unit_gauge(lattice);
        for (auto &u : lng)
            u = 0.0 * u;
        StaggeredBench staggered(lattice.n, backend, fat, lng);
        reference::Fermion point(lattice.volume(), reference::Vector{});
        point[0].c[1] = 1;
        const auto matrix = staggered.matrix(Precision::double_, -8);
        BicgstabSolver stuck(staggered.device, {matrix, matrix});
        staggered.put(point, 0, stuck.source());
        staggered.device.fill_zero(stuck.solution().data(), stuck.solution().bytes());
        const CgReport said = stuck.solve(limits_of(1e-8), {});
        CAPTURE(said.message, said.steps);
        CHECK(said.status == Status::not_converged);
        CHECK(said.breakdowns >= 3);
        CHECK(has(said.message, "breaks down"));
        CHECK(said.true_residual == 1);
    }
}
