// Several sources of Wilson and clover fermions at once, in every row, in the operator, and through the C interface:
// each gives what it gives alone.
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/wilson/wilson_operator.h"
#include "milc_glue/solve/wilson_handle.h"
#include "tests/clover_support.h"
#include <algorithm>

using namespace milcgpu;
using namespace tests;
using reference::WilsonField;

namespace {

// The compiler may fuse a product and a sum in the code of one source but not in the code of several, also on the host.
// By precision: a few units in the last place of a field, and of a sum in double.
constexpr double rounding[] = {4e-16, 2e-7, 6e-5}, sum_rounding[] = {1e-14, 1e-6, 1e-4};
double allowed(const double (&of)[3], Precision p) { return of[static_cast<int>(p)]; }

struct Case {
    const WilsonKernel &row;
    const LinkField &links;
    const CloverField *clover;
    WilsonEnd end;
    int sign, parity;
    bool in_cg;
};

class SourcesBench : public WilsonBench {
  public:
    using WilsonBench::WilsonBench;
    struct WilsonSolutions {
        std::vector<WilsonField> out, s;
        std::vector<CgState> states;
    };
    // A launch on fields in, own, x, z and s, made from each number. closed: sources whose gate is closed.
    WilsonSolutions launch(const Case &of, const std::vector<int> &numbers, const std::vector<int> &closed) {
        const auto fields = [&](unsigned long seed, int on) {
            std::vector<WilsonField> all;
            for (const int number : numbers) {
                all.push_back(number == zero_source ? WilsonField(lattice.volume())
                                                    : reference::random_wilson_field(lattice, seed + 10 * number));
                if (number == nan_source && seed == 1)
                    std::fill(all.back().begin(), all.back().end(), not_a_number());
            }
            return upload_all(all, on, of.row.spinor);
        };
        const int n = static_cast<int>(numbers.size()), p = of.parity;
        const SpinorField in = fields(1, 1 - p), own = fields(2, p), x = fields(3, p), z = fields(4, p),
                          s = fields(5, p), out = fields(6, p);
        std::vector<CgState> states(n);
        for (int k = 0; k < n; ++k) {
            states[k].start(1.5, 1.25);
            states[k].shift = 0.37, states[k].alpha = 0.61, states[k].carry = 0.7;
            states[k].iteration_limit = 10;
            states[k].active = std::find(closed.begin(), closed.end(), numbers[k]) == closed.end();
        }
        const DeviceArray<CgState> cg(device, n, "test");
        device.copy_to_device(cg.data(), states.data(), cg.bytes());
        WilsonCall call{};
        call.lattice = geometry.lattice();
        call.parity = p;
        call.links = &of.links, call.clover = of.clover;
        call.form = of.end.form;
        call.sign = of.sign;
        call.factor = 0.21;
        call.own = own;
        call.in = in, call.out = out, call.x = x, call.z = z, call.s = s;
        call.a = 0.37, call.alpha = 0.61;
        if (of.in_cg)
            call.cg = cg.data(), call.along_p = true, call.check_convergence = false;
        wilson(device, call, of.end.epilogue);
        WilsonSolutions made;
        made.states = cg.to_host();
        for (int k = 0; k < n; ++k) {
            made.out.push_back(download(out[k], p));
            made.s.push_back(download(s[k], p));
        }
        return made;
    }
    static constexpr int zero_source = 1, nan_source = 3, closed_source = 2;

  private:
    static reference::WilsonVector not_a_number() {
        reference::WilsonVector v{};
        v.d[1].c[2] = NAN;
        return v;
    }
};

bool same_number(double a, double b, double accepted) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= accepted * std::fabs(b);
}

double apart(const WilsonField &a, const WilsonField &b) {
    const double size = reference::norm2(b);
    return std::sqrt(reference::norm2(a - b) / (size > 0 ? size : 1));
}

} // namespace

TEST_CASE("every row of the Wilson table gives each of several sources what it gives alone, also zero and NaN",
          "[operators][wilson_sources]") {
    for (const Backend backend : backends()) {
        const bool on_gpu = backend == Backend::cuda;
        SourcesBench bench(on_gpu ? std::array<int, 4>{8, 8, 4, 6} : std::array<int, 4>{2, 4, 4, 6}, backend);
        if (on_gpu) // take tiles in another order
            bench.device.set_cache_bytes(40000);
        size_t turn = 0;
        const reference::Gauge gauge = links_on(bench.lattice);
        const LinkField as_given = bench.upload(gauge);
        const LinkStatistics statistics = link_statistics(bench.device, as_given, bench.geometry);
        const CloverField in_double = bench.clover(gauge, 0.2);
        for (const WilsonKernel &row : wilson_table()) {
            const LinkField links =
                pack_links(bench.device, as_given, statistics, bench.geometry, row.spinor, row.reals, "test").field;
            CloverField term(bench.device, row.spinor, bench.geometry, "test");
            convert_clover(bench.device, in_double, term);
            const double field_error = allowed(rounding, row.spinor), sum_error = allowed(sum_rounding, row.spinor);
            for (const WilsonEnd &end : wilson_ends)
                for (const bool in_cg : {false, true})
                    for (const int variant : {0, 1, 2, 3}) {
                        const bool step = end.epilogue == Epilogue::step, plain = end.epilogue == Epilogue::plain;
                        if (end.dot || (in_cg ? !plain && !step : step))
                            continue;
                        const int parity = variant % 2, sign = variant < 2 ? 1 : -1;
                        const Case of{row, links, variant % 3 == 0 ? &term : nullptr, end, sign, parity, in_cg};
                        std::vector<SourcesBench::WilsonSolutions> alone;
                        // Each case with one of these numbers of sources, in turn, or with all.
                        const int each[] = {5, 2, 3}, one = each[turn++ % 3];
                        for (int k = 0; k < (long_tests() ? 5 : one); ++k)
                            alone.push_back(bench.launch(of, {k}, {}));
                        for (const int count : long_tests() ? std::vector<int>{5, 2, 3} : std::vector<int>{one}) {
                            std::vector<int> numbers, closed;
                            for (int k = 0; k < count; ++k)
                                numbers.push_back(k);
                            if (in_cg)
                                closed.push_back(SourcesBench::closed_source);
                            const SourcesBench::WilsonSolutions all = bench.launch(of, numbers, closed);
                            for (int k = 0; k < count; ++k) {
                                CAPTURE(name(backend), name(row.spinor), row.reals, name(end.form), name(end.epilogue),
                                        in_cg, sign, parity, count, k);
                                const CgState &got = all.states[k], &wanted = alone[k].states[0];
                                if (in_cg && k == SourcesBench::closed_source) {
                                    CHECK(apart(all.out[k], bench.download(bench.upload(reference::random_wilson_field(
                                                                                            bench.lattice, 6 + 10 * k),
                                                                                        parity, row.spinor),
                                                                           parity)) == 0);
                                    CHECK(got.iterations == 0);
                                    continue;
                                }
                                if (k == SourcesBench::nan_source)
                                    CHECK(!(apart(all.out[k], alone[k].out[0]) >= 0));
                                else
                                    CHECK(apart(all.out[k], alone[k].out[0]) <= field_error);
                                CHECK(same_number(got.rr, wanted.rr, sum_error));
                                CHECK(same_number(got.cross, wanted.cross, sum_error));
                                CHECK(same_number(got.curvature, wanted.curvature, sum_error));
                                CHECK(got.iterations == wanted.iterations);
                                if (step && k != SourcesBench::nan_source)
                                    CHECK(apart(all.s[k], alone[k].s[0]) <= field_error);
                            }
                        }
                    }
        }
    }
}

TEST_CASE("conjugate gradients of several Wilson sources in lock-step have the iterates of each alone",
          "[operators][wilson_sources]") {
    constexpr int steps = 4;
    for (const Backend backend : backends())
        for (const Precision p : {Precision::double_, Precision::single}) {
            SourcesBench bench({4, 2, 4, 6}, backend);
            const LinkField given = bench.upload(links_on(bench.lattice)),
                            links =
                                pack_links(bench.device, given, link_statistics(bench.device, given, bench.geometry),
                                           bench.geometry, p, 12, "test")
                                    .field;
            const auto matrix = std::make_shared<const WilsonMatrix>(bench.device, bench.geometry, 0,
                                                                     OperatorSpec{p, p, 12}, links, 0.12);
            const WilsonNormal A(matrix);
            CHECK(A.takes_several());
            std::vector<WilsonField> starts;
            for (int k = 0; k < 5; ++k)
                starts.push_back(reference::random_wilson_field(bench.lattice, 70 + k));
            const auto run = [&](const std::vector<WilsonField> &from) {
                const int n = static_cast<int>(from.size());
                const SpinorField between = A.between(bench.device, "test", n), r = bench.upload_all(from, 0, p),
                                  direction = bench.upload_all(from, 0, p), s = bench.upload_all(from, 0, p);
                std::vector<CgState> states(n);
                for (CgState &state : states)
                    state.shift = 0.3, state.iteration_limit = steps + 1;
                const DeviceArray<CgState> cg(bench.device, n, "test");
                bench.device.copy_to_device(cg.data(), states.data(), cg.bytes());
                for (int k = 0; k < n; ++k)
                    cg_start(bench.device, r[k], {{}, direction[k]}, cg.data() + k);
                for (int k = 0; k < steps; ++k)
                    run_iteration(bench.device, {&A, k == 0 ? direction : r, r, r, s, between, cg.data()});
                std::vector<WilsonField> residuals;
                for (int k = 0; k < n; ++k)
                    residuals.push_back(bench.download(r[k], 0));
                return std::make_pair(residuals, cg.to_host());
            };
            for (const int count : {2, 5, 3}) { // more sources than before, then fewer
                const auto all = run({starts.begin(), starts.begin() + count});
                for (int k = 0; k < count; ++k) {
                    const auto alone = run({starts[k]});
                    CAPTURE(name(backend), name(p), count, k);
                    CHECK(all.second[k].iterations == steps);
                    CHECK(apart(all.first[k], alone.first[0]) <= 8 * allowed(rounding, p));
                    CHECK(same_number(all.second[k].rr, alone.second[0].rr, allowed(sum_rounding, p)));
                }
            }
            // The operator refuses more sources than it has room for, by number.
            const auto other = std::make_shared<const WilsonMatrix>(bench.device, bench.geometry, 0,
                                                                    OperatorSpec{p, p, 12}, links, 0.12);
            const SpinorField in = bench.upload_all({starts[0], starts[1]}, 0, p),
                              out = other->vectors(bench.device, "test", 2);
            HalfCall half;
            half.in = in, half.out = out;
            CHECK(has(thrown_by([&] { WilsonNormal(other).apply_half(bench.device, half, Epilogue::plain); }),
                      "2 sources"));
        }
}

// ---- the C interface ------------------------------------------------------------------------------------------------

namespace {

struct Solved {
    milcgpu_status status;
    std::vector<milcgpu_solve_report> reports;
    std::vector<std::vector<double>> x;
};

Solved solve_all(CloverSession &w, const milcgpu_solve_spec &how, int together, const std::vector<WilsonField> &b) {
    const int n = static_cast<int>(b.size());
    Solved s{MILCGPU_OK, std::vector<milcgpu_solve_report>(n, sized<milcgpu_solve_report>()), {}};
    std::vector<std::vector<double>> source;
    for (const WilsonField &field : b) {
        source.push_back(reference::field_to_milc<double>(w.session.lattice, field, 1));
        s.x.emplace_back(source.back().size(), 0.0);
    }
    std::vector<milcgpu_field> from, to;
    for (int k = 0; k < n; ++k)
        from.push_back(w.session.field(source[k])), to.push_back(w.session.field(s.x[k]));
    s.status =
        milcgpu_wilson_solve_sources(w.wilson, &w.spec, &how, together, n, from.data(), to.data(), s.reports.data());
    return s;
}

double residual_of(const CloverSession &w, const WilsonField &b, const std::vector<double> &x) {
    const WilsonField solution = reference::field_from_milc<reference::WilsonVector>(w.session.lattice, x.data(), 1);
    return std::sqrt(reference::norm2(b - w.matrix(solution, 1)) / reference::norm2(b));
}

constexpr int ways[] = {MILCGPU_TOGETHER_AUTO, MILCGPU_BLOCK, MILCGPU_LOCK_STEP, MILCGPU_ONE_BY_ONE};

} // namespace

TEST_CASE("several Wilson sources reach their tolerance by the reference's residual, in the steps of each alone",
          "[operators][wilson_sources]") {
    // Steps in lock-step relative to steps of each alone, as measured.
    constexpr double more_steps = 1 + times_measured * 0.02;
    const reference::Lattice lattice{{4, 4, 2, 6}};
    for (const Backend backend : backends())
        for (const double clover : {0.0, CloverSession::cku0 / CloverSession::kappa}) {
            CloverSession w(lattice, backend);
            w.spec.clover = clover;
            for (const int sloppy : {int(MILCGPU_DOUBLE), int(MILCGPU_SINGLE), int(MILCGPU_HALF)})
                for (const int count : {1, 3, 18}) {
                    if (count == 18 && (sloppy != MILCGPU_SINGLE || clover == 0))
                        continue;
                    std::vector<WilsonField> b;
                    std::vector<double> tolerances;
                    for (int k = 0; k < count; ++k) {
                        b.push_back(reference::random_wilson_field(lattice, 80 + k));
                        tolerances.push_back(k == 1 ? 1e-6 : 1e-10);
                    }
                    milcgpu_solve_spec how = solve_spec(0, 1e-10, MILCGPU_DOUBLE, sloppy);
                    how.parity = sloppy == MILCGPU_SINGLE ? MILCGPU_ODD : MILCGPU_EVEN;
                    how.source_tolerances = tolerances.data();
                    int steps[4];
                    for (const int together : ways) {
                        if (count == 18 && (together == MILCGPU_LOCK_STEP || together == MILCGPU_ONE_BY_ONE) &&
                            !long_tests())
                            continue; // three sources cover it
                        w.spec.method = MILCGPU_WILSON_CG;
                        const Solved s = solve_all(w, how, together, b);
                        CAPTURE(name(backend), clover, sloppy, count, together, milcgpu_last_error());
                        CHECK(s.status == MILCGPU_OK);
                        for (int k = 0; k < count; ++k) {
                            const double truth = residual_of(w, b[k], s.x[k]);
                            CAPTURE(k, truth, s.reports[k].true_residual, s.reports[k].iterations);
                            CHECK(truth < tolerances[k]);
                            CHECK(std::fabs(s.reports[k].true_residual - truth) <= times_measured * 1e-15);
                            CHECK(s.reports[k].gflops > 0);
                        }
                        steps[together] = s.reports[0].iterations;
                    }
                    if (sloppy != MILCGPU_HALF && count == 3) {
                        CHECK(steps[MILCGPU_LOCK_STEP] <= more_steps * steps[MILCGPU_ONE_BY_ONE]);
                        CHECK(steps[MILCGPU_BLOCK] < steps[MILCGPU_LOCK_STEP]);
                    }
                }
            w.spec.method = MILCGPU_WILSON_BICGSTAB; // solves one by one
            const WilsonField b = reference::random_wilson_field(lattice, 90);
            for (const int together : {int(MILCGPU_TOGETHER_AUTO), int(MILCGPU_ONE_BY_ONE)}) {
                const Solved s = solve_all(w, solve_spec(0, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE), together, {b, b});
                CHECK(s.status == MILCGPU_OK);
                CHECK(s.x[0] == s.x[1]);
                CHECK(residual_of(w, b, s.x[1]) < 1e-9);
            }
        }
}

TEST_CASE("Wilson sources that are zero, hold NaN or stop at their limit do not affect the others",
          "[operators][wilson_sources][errors]") {
    const reference::Lattice lattice{{4, 2, 4, 4}};
    std::vector<WilsonField> b;
    for (int k = 0; k < 4; ++k)
        b.push_back(reference::random_wilson_field(lattice, 95 + k));
    b[1] = WilsonField(b[0].size());
    b[2][5].d[1].c[0] = NAN;
    const std::vector<int> limits = {1000, 1000, 1000, 2};
    for (const Backend backend : backends()) {
        CloverSession w(lattice, backend);
        w.spec.method = MILCGPU_WILSON_CG;
        milcgpu_solve_spec how = solve_spec(0, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        how.max_restarts = 1;
        how.source_max_iterations = limits.data();
        for (const int together : ways) {
            const Solved s = solve_all(w, how, together, b);
            CAPTURE(name(backend), together, milcgpu_last_error());
            CHECK(s.status == MILCGPU_NAN_OR_INF);
            CHECK(last_error_says("source 2: "));
            CHECK(s.reports[0].status == MILCGPU_OK);
            CHECK(residual_of(w, b[0], s.x[0]) < 1e-9);
            const std::vector<double> nothing(s.x[1].size(), 0.0);
            CHECK(s.reports[1].status == MILCGPU_OK);
            CHECK(s.x[1] == nothing);
            CHECK(s.reports[2].status == MILCGPU_NAN_OR_INF);
            CHECK(has(s.reports[2].message, "spin 1: the site x y z t = 1 1 0 0 "));
            CHECK(s.x[2] == nothing); // untouched
            CHECK(s.reports[3].status == MILCGPU_NOT_CONVERGED);
            CHECK(std::fabs(s.reports[3].true_residual - residual_of(w, b[3], s.x[3])) < times_measured * 1e-15);
        }
        // Refusals.
        how.source_max_iterations = nullptr;
        const auto says = [&](int together, int n, milcgpu_status expected, const char *words) {
            auto source = reference::field_to_milc<double>(lattice, b[0], 1), x = source;
            const std::vector<milcgpu_field> from(2, w.session.field(source)), to(2, w.session.field(x));
            CAPTURE(words, milcgpu_last_error());
            CHECK(milcgpu_wilson_solve_sources(w.wilson, &w.spec, &how, together, n, from.data(), to.data(), nullptr) ==
                  expected);
            CHECK(last_error_says(words));
            CHECK(x == source);
        };
        says(4, 2, MILCGPU_BAD_ARGUMENT, "together is 4");
        says(MILCGPU_BLOCK, -1, MILCGPU_BAD_ARGUMENT, "is -1");
        w.spec.method = MILCGPU_WILSON_BICGSTAB;
        for (const int together : {int(MILCGPU_BLOCK), int(MILCGPU_LOCK_STEP)})
            says(together, 2, MILCGPU_BAD_ARGUMENT, "BiCGstab");
        w.spec.method = MILCGPU_WILSON_CG;
        how.mass = 0.1;
        says(MILCGPU_BLOCK, 2, MILCGPU_BAD_ARGUMENT, "how->mass must be 0");
        how.mass = 0;
        CHECK(milcgpu_wilson_solve_sources(w.wilson, &w.spec, &how, MILCGPU_BLOCK, 2, nullptr, nullptr, nullptr) ==
              MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_wilson_solve_sources(w.wilson, &w.spec, &how, MILCGPU_BLOCK, 0, nullptr, nullptr, nullptr) ==
              MILCGPU_OK);
    }
}

TEST_CASE("the plan of Wilson solves is the memory that they take, and NO_MEMORY names it",
          "[operators][wilson_sources][api]") {
    const reference::Lattice lattice{{4, 4, 6, 8}};
    const WilsonField b = reference::random_wilson_field(lattice, 99);
    for (const Backend backend : backends())
        for (const double clover : {0.0, 1.5})
            for (const int method : {int(MILCGPU_WILSON_CG), int(MILCGPU_WILSON_BICGSTAB)})
                for (const int sloppy : {int(MILCGPU_DOUBLE), int(MILCGPU_SINGLE), int(MILCGPU_HALF)})
                    for (const int count : {1, 5}) {
                        if (method == MILCGPU_WILSON_BICGSTAB && count > 1)
                            continue;
                        CloverSession w(lattice, backend);
                        w.spec.clover = clover, w.spec.method = method;
                        Device &device = *w.session.context->device;
                        const size_t links = device.used_bytes();
                        milcgpu_solve_spec how = solve_spec(0, 1e-2, MILCGPU_DOUBLE, sloppy);
                        how.sloppy.reconstruct = 12;
                        const std::vector<WilsonField> all(count, b);
                        device.set_memory_limit(links + 65536);
                        CHECK(solve_all(w, how, MILCGPU_LOCK_STEP + (count == 1), all).status == MILCGPU_NO_MEMORY);
                        CHECK(last_error_says("Wilson"));
                        CHECK(last_error_says("MiB free"));
                        device.set_memory_limit(0);
                        REQUIRE(solve_all(w, how, MILCGPU_LOCK_STEP + (count == 1), all).status == MILCGPU_OK);
                        const Precision p = static_cast<Precision>(sloppy - 1);
                        const MemoryPlan plan =
                            w.wilson->plan({w.spec.kappa, w.spec.kappa * clover}, method,
                                           {Precision::double_, Precision::double_, 18}, {p, p, 12}, count);
                        const size_t taken = device.used_bytes() - links, needed = plan.total() - plan.links;
                        CAPTURE(name(backend), clover, method, sloppy, count, taken, needed);
                        CHECK(taken <= needed + 16384); // sums and scalars
                        CHECK(needed <= taken);
                    }
}
