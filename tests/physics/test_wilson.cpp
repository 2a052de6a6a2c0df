// The Wilson operator: every row of its table, its physics, its solvers, against tests/reference/wilson.h.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/wilson/wilson_operator.h"
#include "milc_glue/solve/wilson_handle.h"
#include "tests/bench.h"
#include "tests/reference/wilson.h"

using namespace milcgpu;
using namespace tests;
using reference::WilsonField;

namespace {

// Measured on the host backend, the largest over storage formats, epilogues, parities, signs and shapes: |error| /
// |result| with 18 or 12 reals a link, with 8, and the error of a sum relative to the sizes of its terms. By precision.
struct Measured {
    double plain, pivoted, sum;
};
constexpr Measured measured[] = {{2.2e-16, 5.4e-16, 1.9e-16}, {9.6e-8, 2.6e-7, 3.7e-8}, {2.9e-5, 5.7e-5, 3.5e-6}};

double error_of(Precision precision, int reals) {
    const Measured &m = measured[static_cast<int>(precision)];
    return times_measured * (reals == 8 ? m.pivoted : m.plain);
}

WilsonField random_wilson(const reference::Lattice &lattice, unsigned long seed) {
    return reference::random_wilson_field(lattice, seed);
}

double difference(const reference::Lattice &lattice, const WilsonField &a, const WilsonField &b, int parity) {
    const WilsonField on = reference::on_parity(lattice, b, parity);
    return std::sqrt(reference::norm2(reference::on_parity(lattice, a, parity) - on) / reference::norm2(on));
}

// A lattice on a device, with SU(3) links that are antiperiodic in time.
struct WilsonBench : Bench<reference::WilsonVector> {
    reference::Gauge links;
    LinkField as_given;

    WilsonBench(const std::array<int, 4> &n, Backend backend, const reference::Gauge &gauge)
        : Bench(n, backend), links(gauge), as_given(upload(links)) {}
    WilsonBench(const std::array<int, 4> &n, Backend backend)
        : WilsonBench(n, backend,
                      reference::antiperiodic_in_time(reference::Lattice{n},
                                                      reference::random_gauge(reference::Lattice{n}, 3))) {}
    LinkField packed(Precision precision, int in_reals) { return Bench::packed(as_given, precision, in_reals); }
};

const std::array<int, 4> shapes[] = {{4, 6, 10, 4}, {2, 4, 4, 8}};

// A call of a row with random fields, and the reference's results.
struct RowCase {
    struct Errors {
        double field, sum;
    };
    static constexpr double factor = 0.21, a = 0.37, alpha = 0.61, beta = 0.7;
    const reference::Lattice &lattice;
    WilsonField in, own, x, z, s, d[2]; // d: D_+ in, D_- in

    explicit RowCase(const WilsonBench &bench)
        : lattice(bench.lattice), in(random_wilson(lattice, 4)), own(random_wilson(lattice, 5)),
          x(random_wilson(lattice, 6)), z(random_wilson(lattice, 7)),
          s(random_wilson(lattice, 8)), d{reference::wilson_dslash(lattice, bench.links, in, 1),
                                          reference::wilson_dslash(lattice, bench.links, in, -1)} {}
    WilsonField on(const WilsonField &field, int parity) const { return reference::on_parity(lattice, field, parity); }

    // along_r: the sum of a step along the residual; else along x.
    Errors run(WilsonBench &bench, const WilsonKernel &row, const LinkField &links, const WilsonEnd &end, int sign,
               int parity, bool along_r) const {
        const bool hop = end.form == WilsonForm::hop, step = end.epilogue == Epilogue::step;
        const auto on_device = [&](const WilsonField &f, int p) { return bench.upload(f, p, row.spinor); };
        const SpinorField in_d = on_device(in, 1 - parity), own_d = on_device(own, parity), x_d = on_device(x, parity),
                          z_d = on_device(z, parity), s_d = on_device(s, parity), out = on_device(x, parity);
        const DeviceArray<double> sums(bench.device, 3, "test");
        CgState state{};
        state.start(1, 1);
        state.shift = a, state.alpha = alpha, state.carry = beta;
        const DeviceArray<CgState> cg(bench.device, 1, "test");
        bench.device.copy_to_device(cg.data(), &state, sizeof state);
        WilsonCall call{};
        call.lattice = bench.geometry.lattice();
        call.parity = parity;
        call.links = &links;
        call.form = end.form;
        call.sign = sign;
        call.factor = factor;
        call.own = own_d;
        call.in = in_d, call.out = out, call.x = along_r ? z_d : x_d, call.z = z_d, call.s = s_d;
        call.a = a, call.alpha = alpha;
        if (step)
            call.cg = cg.data();
        else if (end.dot)
            call.with = z_d, call.dots = sums.data();
        else if (!hop)
            call.sum = sums.data();
        wilson(bench.device, call, end.epilogue);

        const WilsonField &hops = d[sign == -1];
        const WilsonField matrix = own - reference::Complex(factor) * hops;
        WilsonField image = reference::Complex(a) * (along_r ? z : x) + matrix;
        if (along_r)
            image = image + reference::Complex(beta) * s;
        const WilsonField expected = hop                                ? hops
                                     : end.epilogue == Epilogue::plain  ? matrix
                                     : end.epilogue == Epilogue::normal ? image
                                                                        : z - reference::Complex(alpha) * image;
        Errors errors{difference(lattice, bench.download(out, parity), expected, parity), 0};
        const double size = reference::norm2(on(expected, parity));
        // The error of a sum <left, right>, relative to |left| |right|.
        const auto sum_error = [&](reference::Complex got, const WilsonField &left, const WilsonField &right) {
            const WilsonField l = on(left, parity), r = on(right, parity);
            return std::abs(got - reference::dot(l, r)) / std::sqrt(reference::norm2(l) * reference::norm2(r));
        };
        const auto real_error = [&](double got, const WilsonField &left, const WilsonField &right) {
            const reference::Complex dot = reference::dot(on(left, parity), on(right, parity));
            return sum_error({got, dot.imag()}, left, right);
        };
        if (step) {
            const CgState after = cg.to_host()[0];
            errors.field = worse(errors.field, difference(lattice, bench.download(s_d, parity), image, parity));
            errors.sum = worse(std::fabs(after.rr - size) / size, real_error(after.cross, expected, image));
        } else if (end.dot) {
            const std::vector<double> got = sums.to_host();
            errors.sum = worse(std::fabs(got[2] - size) / size, sum_error({got[0], got[1]}, z, expected));
        } else if (!hop) {
            const double got = sums.to_host()[0];
            errors.sum = end.epilogue == Epilogue::normal ? real_error(got, x, image) : std::fabs(got - size) / size;
        }
        return errors;
    }
};

// D_s by the stencil, in double, on all sites.
WilsonField dslash_of(WilsonBench &bench, const WilsonField &field, int sign) {
    WilsonField both[2];
    for (const int parity : {0, 1}) {
        const SpinorField in = bench.upload(field, 1 - parity, Precision::double_),
                          out = bench.upload(field, parity, Precision::double_);
        WilsonCall call{};
        call.lattice = bench.geometry.lattice();
        call.parity = parity;
        call.links = &bench.as_given;
        call.form = WilsonForm::hop;
        call.sign = sign;
        call.in = in, call.out = out;
        wilson(bench.device, call, Epilogue::plain);
        both[parity] = reference::on_parity(bench.lattice, bench.download(out, parity), parity);
    }
    return both[0] + both[1];
}

double relative(const WilsonField &a, const WilsonField &b) {
    return std::sqrt(reference::norm2(a - b) / reference::norm2(b));
}

} // namespace

TEST_CASE("every row of the Wilson table is the reference's, for both signs and parities", "[operators]") {
    const auto check = [](Backend backend, const std::array<int, 4> &shape, size_t cache_bytes) {
        WilsonBench bench(shape, backend);
        if (cache_bytes > 0)
            bench.device.set_cache_bytes(cache_bytes);
        const RowCase fields(bench);
        for (const WilsonKernel &row : wilson_table()) {
            const LinkField links = bench.packed(row.spinor, row.reals);
            for (const int sign : {1, -1})
                for (const int parity : {0, 1})
                    for (const WilsonEnd &end : wilson_ends)
                        for (const bool along_r : {false, true}) {
                            if (along_r && end.epilogue != Epilogue::step)
                                continue;
                            const RowCase::Errors errors = fields.run(bench, row, links, end, sign, parity, along_r);
                            CAPTURE(name(backend), shape, name(row.spinor), row.reals, name(end.form),
                                    name(end.epilogue), end.dot, sign, parity, along_r);
                            CHECK(errors.field <= error_of(row.spinor, row.reals));
                            CHECK(errors.sum <= times_measured * measured[static_cast<int>(row.spinor)].sum);
                        }
        }
    };
    for (const Backend backend : backends()) {
        for (const auto &shape : shapes)
            check(backend, shape, 0);
        if (backend == Backend::cuda) // take tiles in another order
            check(backend, {16, 8, 4, 4}, 40000);
    }
}

TEST_CASE("gamma matrices of the stencil obey their algebra, and D its adjoint and gauge covariance", "[operators]") {
    constexpr double rounding = times_measured * 4e-16;
    for (const Backend backend : backends()) {
        const reference::Lattice lattice{{4, 2, 4, 6}};
        WilsonBench bench(lattice.n, backend);
        const WilsonField f = random_wilson(lattice, 11), g = random_wilson(lattice, 12);
        const reference::SpinMatrix &g5 = reference::gamma_matrix(4);
        CHECK(relative(g5 * dslash_of(bench, g5 * f, 1), dslash_of(bench, f, -1)) < rounding);
        const reference::Complex left = reference::dot(g, dslash_of(bench, f, 1)),
                                 right = reference::dot(dslash_of(bench, g, -1), f);
        CHECK(std::abs(left - right) < rounding * std::sqrt(reference::norm2(f) * reference::norm2(g)));

        // Unit links in one direction alone show each gamma matrix alone.
        for (const int mu : {0, 1, 2, 3}) {
            std::array<int, 4> n = {2, 2, 2, 2};
            n[mu] = 4;
            const reference::Lattice thin{n};
            reference::Gauge links(4 * std::size_t(thin.volume()), reference::Matrix{});
            for (int site = 0; site < thin.volume(); ++site)
                links[4 * site + mu] = reference::identity();
            WilsonBench along(n, backend, links);
            // psi is zero but on plane 1: D psi is (1 + s g) psi on plane 0, and (1 - s g) psi on plane 2.
            const WilsonField psi = random_wilson(thin, 13);
            WilsonField plane(psi.size());
            for (int site = 0; site < thin.volume(); ++site)
                if (thin.coordinates(site)[mu] == 1)
                    plane[site] = psi[site];
            for (const int sign : {1, -1}) {
                const WilsonField made = dslash_of(along, plane, sign);
                double wrong = 0;
                for (int site = 0; site < thin.volume(); ++site) {
                    const int x = thin.coordinates(site)[mu];
                    const reference::WilsonVector source = psi[thin.neighbour(site, mu, 1 - x)];
                    const double s = x == 0 ? sign : -sign;
                    const reference::WilsonVector expected =
                        x % 2 == 1 ? reference::WilsonVector{}
                                   : source + reference::Complex(s) * (reference::gamma_matrix(mu) * source);
                    wrong += reference::norm2(made[site] - expected);
                }
                CHECK(wrong == 0);
            }
        }

        const auto turn = reference::random_transformation(lattice, 14);
        WilsonBench turned(lattice.n, backend, reference::transform_links(lattice, turn, bench.links, 1));
        CHECK(relative(dslash_of(turned, reference::transform_wilson_field(turn, f), 1),
                       reference::transform_wilson_field(turn, dslash_of(bench, f, 1))) < rounding);
    }
}

TEST_CASE("the even-odd Wilson operator, its adjoint, its sums and its gate are the reference's", "[operators]") {
    constexpr double rounding = times_measured * 4e-16, kappa = 0.13;
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            WilsonBench bench(shape, backend);
            const reference::Lattice &lattice = bench.lattice;
            const WilsonField f = random_wilson(lattice, 21), g = random_wilson(lattice, 22);
            const reference::Clover unit = reference::unit_clover(lattice);
            for (const int parity : {0, 1}) {
                const WilsonMatrix M(bench.device, bench.geometry, parity, {Precision::double_, Precision::double_, 18},
                                     bench.as_given, kappa);
                const SpinorField in = bench.upload(f, parity, Precision::double_),
                                  with = bench.upload(g, parity, Precision::double_);
                for (const int sign : {1, -1}) {
                    const SpinorField out = bench.upload(g, parity, Precision::double_);
                    const DeviceArray<double> sums(bench.device, 3, "test");
                    const DeviceArray<int> gate(bench.device, 1, "test");
                    bench.device.fill_zero(gate.data(), gate.bytes());
                    MatrixCall call;
                    call.in = in, call.out = out, call.with = with;
                    call.sums = sums.data();
                    call.gate = gate.data();
                    sign == 1 ? M.apply(bench.device, call) : M.apply_dagger(bench.device, call);
                    CHECK(difference(lattice, bench.download(out, parity), g, parity) == 0);
                    call.gate = nullptr;
                    sign == 1 ? M.apply(bench.device, call) : M.apply_dagger(bench.device, call);
                    const WilsonField expected =
                        reference::wilson_even_odd(lattice, bench.links, unit, kappa, f, sign, parity);
                    CHECK(difference(lattice, bench.download(out, parity), expected, parity) < rounding);
                    const std::vector<double> got = sums.to_host();
                    const double size = reference::norm2(expected),
                                 other = reference::norm2(on_parity(lattice, g, parity));
                    CHECK(std::abs(reference::Complex(got[0], got[1]) - reference::dot(g, expected)) <
                          rounding * std::sqrt(size * other));
                    CHECK(std::fabs(got[2] - size) < rounding * size);
                }
            }
        }
}

TEST_CASE("sums of a Wilson iteration that the next launch finishes have the same bits", "[operators]") {
    constexpr int count = 5;
    for (const Backend backend : backends()) {
        WilsonBench bench({4, 4, 2, 6}, backend);
        const auto matrix = std::make_shared<const WilsonMatrix>(
            bench.device, bench.geometry, 0, OperatorSpec{Precision::double_, Precision::double_, 18}, bench.as_given,
            0.12);
        const WilsonNormal A(matrix);
        const WilsonField start = random_wilson(bench.lattice, 23);
        const auto run = [&](bool deferred) {
            const DeviceArray<CgState> cg(bench.device, 1, "test");
            const DeferredSums sums(bench.device, A);
            for (const DeviceArray<double> *slots : {&sums.plain, &sums.step}) // look posted before they are
                bench.device.fill_zero(slots->data(), slots->bytes());
            const auto upload = [&] { return bench.upload(start, 0, Precision::double_); };
            const SpinorField r = upload(), p = upload(), s = upload(), between = upload();
            CgState state{};
            state.shift = 0.3;
            state.iteration_limit = count + 1;
            bench.device.copy_to_device(cg.data(), &state, sizeof state);
            cg_start(bench.device, r, {{}, p}, cg.data());
            for (int k = 0; k < count; ++k)
                run_iteration(bench.device, {&A, k == 0 ? p : r, r, r, s, between, cg.data(), &sums, deferred && k > 0,
                                             deferred && k < count - 1});
            return std::make_pair(cg.to_host()[0], bench.download(r, 0));
        };
        const auto own = run(false), deferred = run(true);
        CHECK(own.first.iterations == count);
        CHECK(deferred.first.iterations == count);
        CHECK(own.first.rr == deferred.first.rr);
        CHECK(difference(bench.lattice, deferred.second, own.second, 0) == 0);

        // r is b - A x for the x of all steps: its norm falls, and the state has the norm of the field.
        const double rr = reference::norm2(reference::on_parity(bench.lattice, own.second, 0));
        CHECK(std::fabs(own.first.rr - rr) < times_measured * 2e-16 * rr);
        CHECK(rr < 0.1 * reference::norm2(reference::on_parity(bench.lattice, start, 0)));
    }
}

// ---- the C interface ------------------------------------------------------------------------------------------------

namespace {

template <class Real> struct WilsonSession {
    Session<Real> session;
    milcgpu_wilson *wilson = nullptr;
    milcgpu_wilson_spec spec{sizeof(milcgpu_wilson_spec), 0.12, 0, 0, MILCGPU_WILSON_BICGSTAB};
    reference::Gauge gauge;
    WilsonSession(const reference::Lattice &lattice, Backend backend, const reference::Gauge &links, int block = 0)
        : session(lattice, backend, block), gauge(links) {
        REQUIRE(milcgpu_wilson_create(session.context, &wilson) == MILCGPU_OK);
        REQUIRE(load(gauge) == MILCGPU_OK);
    }
    ~WilsonSession() { milcgpu_wilson_destroy(wilson); }
    milcgpu_status load(const reference::Gauge &links) {
        auto milc = reference::links_to_milc<Real>(session.lattice, links);
        const milcgpu_field field = session.field(milc);
        return milcgpu_wilson_load(wilson, &field);
    }
    std::vector<Real> to_milc(const WilsonField &f) const {
        return reference::field_to_milc<Real>(session.lattice, f, 1);
    }
    WilsonField from_milc(const std::vector<Real> &milc) const {
        return reference::field_from_milc<reference::WilsonVector>(session.lattice, milc.data(), 1);
    }
    WilsonField matrix(const WilsonField &f, int sign) const {
        return reference::wilson_matrix(session.lattice, gauge, term(), spec.kappa, f, sign);
    }
    const reference::Clover &term() const { // for the current spec
        const double cku0 = spec.kappa * spec.clover;
        if (term_.empty() || cku0 != cku0_)
            term_ = reference::clover_term(session.lattice, gauge, cku0_ = cku0);
        return term_;
    }
    struct Solved {
        milcgpu_status status;
        milcgpu_solve_report report;
        WilsonField x;
        double residual; // by the reference
    };
    Solved solve(const milcgpu_solve_spec &how, const WilsonField &b, const WilsonField &guess) {
        Solved s{MILCGPU_OK, sized<milcgpu_solve_report>(), {}, 0};
        auto source = to_milc(b), x = to_milc(guess);
        const milcgpu_field from = session.field(source), to = session.field(x);
        s.status = milcgpu_wilson_solve(wilson, &spec, &how, &from, &to, &s.report);
        s.x = from_milc(x);
        s.residual = std::sqrt(reference::norm2(b - matrix(s.x, 1)) / reference::norm2(b));
        return s;
    }

  private:
    mutable reference::Clover term_;
    mutable double cku0_ = 0;
};

milcgpu_storage operator_in(int precision, int reals = 18) { return {precision, reals}; }

} // namespace

TEST_CASE("Wilson D and M of host fields are the reference's, on one parity and on both", "[operators]") {
    // Host fields in single differ by their rounding.
    const auto check = [](auto real, Backend backend, const reference::Lattice &lattice, double rounding) {
        using Real = decltype(real);
        WilsonSession<Real> w(lattice, backend,
                              reference::antiperiodic_in_time(lattice, reference::random_gauge(lattice, 31)));
        const WilsonField f = random_wilson(lattice, 32), before = random_wilson(lattice, 33);
        const milcgpu_storage what = operator_in(MILCGPU_DOUBLE);
        for (const int parity : {int(MILCGPU_EVEN), int(MILCGPU_ODD), int(MILCGPU_EVEN_AND_ODD)})
            for (const int sign : {1, -1})
                for (const int which : {0, 1, 2}) { // D, M of Wilson, M with a clover term
                    const bool matrix = which > 0;
                    w.spec.clover = which == 2 ? 1.3 : 0;
                    auto in = w.to_milc(f), out = w.to_milc(before);
                    const milcgpu_field from = w.session.field(in), to = w.session.field(out);
                    REQUIRE((matrix ? milcgpu_wilson_matrix(w.wilson, &w.spec, &what, sign, parity, &from, &to)
                                    : milcgpu_wilson_dslash(w.wilson, &what, sign, parity, &from, &to)) == MILCGPU_OK);
                    const WilsonField all =
                        matrix ? w.matrix(f, sign) : reference::wilson_dslash(lattice, w.gauge, f, sign);
                    const WilsonField got = w.from_milc(out);
                    for (const int p : {0, 1}) {
                        const bool wanted =
                            parity == MILCGPU_EVEN_AND_ODD || parity == (p == 0 ? MILCGPU_EVEN : MILCGPU_ODD);
                        CHECK(difference(lattice, got, wanted ? all : w.from_milc(w.to_milc(before)), p) <=
                              (wanted ? rounding : 0));
                    }
                    // In place.
                    REQUIRE((matrix
                                 ? milcgpu_wilson_matrix(w.wilson, &w.spec, &what, sign, parity, &from, &from)
                                 : milcgpu_wilson_dslash(w.wilson, &what, sign, parity, &from, &from)) == MILCGPU_OK);
                    for (const int p : {0, 1})
                        if (parity == MILCGPU_EVEN_AND_ODD || parity == (p == 0 ? MILCGPU_EVEN : MILCGPU_ODD))
                            CHECK(difference(lattice, w.from_milc(in), got, p) == 0);
                }
    };
    for (const Backend backend : backends()) {
        check(double(), backend, {{4, 6, 10, 4}}, times_measured * 3e-16);
        check(float(), backend, {{2, 4, 4, 8}}, times_measured * 1e-7);
    }
}

TEST_CASE("the Wilson propagator on unit links is the closed form", "[operators]") {
    const reference::Lattice lattice{{4, 4, 2, 6}};
    const WilsonField b = random_wilson(lattice, 41);
    for (const Backend backend : backends()) {
        WilsonSession<double> w(lattice, backend,
                                reference::antiperiodic_in_time(lattice, reference::unit_gauge(lattice)));
        for (const double kappa : {0.11, 0.124}) {
            w.spec.kappa = kappa;
            const auto s = w.solve(solve_spec(0, 1e-12, MILCGPU_DOUBLE, MILCGPU_SINGLE), b, WilsonField(b.size()));
            CHECK(s.status == MILCGPU_OK);
            const WilsonField exact = reference::free_wilson_propagator(lattice, kappa, b, 1, true);
            CAPTURE(kappa, relative(s.x, exact));
            CHECK(relative(s.x, exact) < 1e-11); // residual times |M^-1| < 1 / (1 - 8 kappa cos(pi/6) ..)
        }
    }
}

TEST_CASE("Wilson solves reach their tolerance by the reference's residual, for every precision pair and storage",
          "[operators]") {
    const reference::Lattice lattice{{4, 4, 4, 6}};
    const WilsonField b = random_wilson(lattice, 51), zero(b.size());
    const auto links = reference::antiperiodic_in_time(lattice, reference::near_unit_gauge(lattice, 0.25, 52));
    // Steps in a mixed precision over steps in one precision: 1 was measured.
    constexpr double more_steps = 1.03;
    struct Pair {
        int precise, sloppy;
        double tolerance;
    };
    const Pair pairs[] = {{MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-10}, {MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                          {MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},   {MILCGPU_SINGLE, MILCGPU_SINGLE, 3e-5},
                          {MILCGPU_SINGLE, MILCGPU_HALF, 3e-5},    {MILCGPU_HALF, MILCGPU_HALF, 1e-2}};
    for (const Backend backend : backends())
        for (const auto &[method, clover] :
             {std::pair(MILCGPU_WILSON_CG, 0.0), std::pair(MILCGPU_WILSON_BICGSTAB, 0.0),
              std::pair(MILCGPU_WILSON_CG, 1.2), std::pair(MILCGPU_WILSON_BICGSTAB, 1.2)}) {
            WilsonSession<double> w(lattice, backend, links);
            w.spec.kappa = clover == 0 && method == MILCGPU_WILSON_CG ? 0.15 : 0.13; // 0.15 is nearly critical
            w.spec.clover = clover;
            w.spec.method = method;
            int pure_steps[4] = {};
            for (const Pair &pair : pairs)
                for (const int reals : sampled<int>({18, 12, 8}, clover == 0 && method == MILCGPU_WILSON_CG ? 1 : 2)) {
                    milcgpu_solve_spec how = solve_spec(0, pair.tolerance, pair.precise, pair.sloppy);
                    how.sloppy.reconstruct = reals;
                    how.parity = reals == 12 ? MILCGPU_ODD : MILCGPU_EVEN;
                    const auto s = w.solve(how, b, zero);
                    CAPTURE(name(backend), method, clover, pair.precise, pair.sloppy, reals, s.report.steps,
                            s.report.reliable_updates, s.report.true_residual, s.residual, s.report.steps_in_half,
                            s.report.message);
                    CHECK(s.status == MILCGPU_OK);
                    CHECK(s.report.sloppy_reconstruct == reals);
                    CHECK(s.residual < pair.tolerance);
                    CHECK(std::fabs(s.residual - s.report.true_residual) < times_measured * 1e-16);
                    CHECK(std::fabs(s.report.source_norm - std::sqrt(reference::norm2(b))) <
                          1e-12 * s.report.source_norm);
                    if (pair.precise == pair.sloppy && reals == 18)
                        pure_steps[pair.precise] = s.report.steps;
                    CHECK(s.report.steps <= more_steps * pure_steps[pair.precise]);
                }
            // The solve starts from a guess, a zero source gives zero, and a solution is not solved for again.
            const milcgpu_solve_spec how = solve_spec(0, 1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            const auto first = w.solve(how, b, zero), again = w.solve(how, b, first.x);
            CHECK(again.status == MILCGPU_OK);
            CHECK(again.report.steps < first.report.steps / 4);
            const auto nothing = w.solve(how, zero, b);
            CHECK(nothing.status == MILCGPU_OK);
            CHECK(reference::norm2(nothing.x) == 0);
            CHECK(nothing.report.true_residual == 0);
            CHECK(has(nothing.report.message, "the source is 0 on all sites that this call reads"));
        }
}

TEST_CASE("a Wilson solve has the same bits for any launch shape", "[operators]") {
    const reference::Lattice lattice{{4, 8, 4, 8}};
    const WilsonField b = random_wilson(lattice, 55);
    const auto links = reference::near_unit_gauge(lattice, 0.25, 56);
    for (const Backend backend : backends()) {
        std::vector<double> first;
        for (int choice = 0; choice < thread_choices(backend); ++choice) {
            const Threads threads(backend, choice);
            WilsonSession<double> w(lattice, backend, links, threads.block);
            w.spec.clover = 1;
            const auto s = w.solve(solve_spec(0, 1e-9, MILCGPU_DOUBLE, MILCGPU_HALF), b, WilsonField(b.size()));
            REQUIRE(s.status == MILCGPU_OK);
            if (choice == 0)
                first = w.to_milc(s.x);
            CHECK(w.to_milc(s.x) == first);
        }
    }
}

TEST_CASE("solves with the clover matrix meet MILC's criterion: the residual of the even-odd system", "[operators]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const WilsonField b = random_wilson(lattice, 53), zero(b.size());
    const auto links = reference::near_unit_gauge(lattice, 0.25, 54);
    for (const Backend backend : backends())
        for (const int p : {0, 1}) {
            WilsonSession<double> w(lattice, backend, links);
            w.spec.clover = 1.1;
            w.spec.even_odd = 1;
            milcgpu_solve_spec how = solve_spec(0, 1e-9, MILCGPU_DOUBLE, MILCGPU_SINGLE);
            how.parity = p == 0 ? MILCGPU_EVEN : MILCGPU_ODD;
            // The source of the even-odd system, b_p + kappa D_pq R_q^-1 b_q, and the residual of a solution.
            const reference::Clover inverse = reference::inverse(w.term());
            const WilsonField hop =
                reference::wilson_dslash(lattice, links, inverse * reference::on_parity(lattice, b, 1 - p), 1);
            const WilsonField right = reference::on_parity(lattice, b + reference::Complex(w.spec.kappa) * hop, p);
            const auto left = [&](const WilsonField &x) {
                return right - reference::wilson_even_odd(lattice, links, w.term(), w.spec.kappa,
                                                          reference::on_parity(lattice, x, p), 1, p);
            };
            const auto residual = [&](const WilsonField &x) {
                return std::sqrt(reference::norm2(left(x)) / reference::norm2(right));
            };
            const auto relative = [&](const WilsonField &x) {
                double sum = 0;
                const WilsonField r = left(x);
                for (int site = 0; site < lattice.volume(); ++site)
                    if (lattice.parity(site) == p)
                        sum += reference::norm2(r[site]) / reference::norm2(x[site]);
                return std::sqrt(2 * sum / lattice.volume());
            };
            for (const double relative_tolerance : {0.0, 1e-11}) {
                how.relative_tolerance = relative_tolerance;
                const auto s = w.solve(how, b, zero);
                CAPTURE(p, relative_tolerance, s.report.true_residual, s.report.relative_residual, s.residual);
                CHECK(s.status == MILCGPU_OK);
                CHECK(residual(s.x) < 1e-9);
                CHECK(std::fabs(residual(s.x) - s.report.true_residual) < times_measured * 1e-16);
                CHECK(std::fabs(s.report.source_norm - std::sqrt(reference::norm2(right))) <
                      1e-12 * s.report.source_norm);
                if (relative_tolerance > 0) {
                    CHECK(relative(s.x) < relative_tolerance);
                    CHECK(std::fabs(relative(s.x) - s.report.relative_residual) < times_measured * 1e-16);
                }
                // The other sites follow from these, so the solution solves the whole system, too.
                CHECK(s.residual < 1e-8);
                auto source = w.to_milc(b), x = w.to_milc(s.x);
                const milcgpu_field from = w.session.field(source), of = w.session.field(x);
                double found = -1;
                REQUIRE(milcgpu_wilson_residual(w.wilson, &w.spec, how.parity, &from, &of, &found) == MILCGPU_OK);
                CHECK(found == s.report.true_residual);
                w.spec.even_odd = 0;
                REQUIRE(milcgpu_wilson_residual(w.wilson, &w.spec, how.parity, &from, &of, &found) == MILCGPU_OK);
                CHECK(std::fabs(found - s.residual) < times_measured * 1e-16);
                w.spec.even_odd = 1;
                // The residual of a random x on both parities.
                auto other = w.to_milc(b);
                const milcgpu_field wrong = w.session.field(other);
                w.spec.even_odd = 0;
                REQUIRE(milcgpu_wilson_residual(w.wilson, &w.spec, how.parity, &from, &wrong, &found) == MILCGPU_OK);
                const double expected = std::sqrt(reference::norm2(b - w.matrix(b, 1)) / reference::norm2(b));
                CHECK(std::fabs(found - expected) < times_measured * 1e-15 * expected);
                w.spec.even_odd = 1;
            }
        }
}

TEST_CASE("a flipped bit in the links of Wilson fermions is found, and empties the handle", "[operators]") {
    const reference::Lattice lattice{{4, 2, 2, 4}};
    const WilsonField b = random_wilson(lattice, 57), zero(b.size());
    for (const Backend backend : backends())
        for (const int precision : {int(MILCGPU_DOUBLE), int(MILCGPU_SINGLE)}) {
            WilsonSession<double> w(lattice, backend, reference::near_unit_gauge(lattice, 0.25, 58));
            const milcgpu_solve_spec how = solve_spec(0, 1e-8, MILCGPU_DOUBLE, precision);
            REQUIRE(w.solve(how, b, zero).status == MILCGPU_OK);
            OperatorSpec spec{static_cast<Precision>(precision - 1), static_cast<Precision>(precision - 1), 18};
            unsigned char *const byte = w.wilson->version(spec)->block(1, 2) + 3;
            unsigned char value;
            w.wilson->device().copy_to_host(&value, byte, 1);
            value ^= 1;
            w.wilson->device().copy_to_device(byte, &value, 1);
            const auto s = w.solve(how, b, zero);
            CHECK(s.status == MILCGPU_CORRUPTED);
            CHECK(reference::norm2(s.x) == 0);
            CHECK(last_error_says("links of Wilson"));
            CHECK(w.solve(how, b, zero).status == MILCGPU_BAD_ARGUMENT);
            REQUIRE(w.load(w.gauge) == MILCGPU_OK);
            CHECK(w.solve(how, b, zero).status == MILCGPU_OK);
        }
}

TEST_CASE("several masses of Wilson fermions are solved at once", "[operators]") {
    const reference::Lattice lattice{{4, 2, 4, 6}};
    const auto links = reference::near_unit_gauge(lattice, 0.25, 61);
    const WilsonField b = random_wilson(lattice, 62);
    const milcgpu_pole shifts[] = {{0.3, 1e-10, 0}, {0.01, 1e-9, 0}, {2.5, 1e-11, 0}};
    for (const Backend backend : backends()) {
        WilsonSession<double> w(lattice, backend, links);
        for (const int parity : {0, 1})
            for (const int sloppy : {int(MILCGPU_DOUBLE), int(MILCGPU_SINGLE), int(MILCGPU_HALF)}) {
                auto how = sized<milcgpu_multi_mass_spec>();
                how.parity = parity == 0 ? MILCGPU_EVEN : MILCGPU_ODD;
                how.n_shifts = 3;
                how.shifts = shifts;
                how.max_iterations = 500, how.max_restarts = 5;
                how.shared = operator_in(MILCGPU_DOUBLE);
                how.sloppy = operator_in(sloppy, 12);
                w.spec.clover = parity == 0 ? 0 : 1.2;
                milcgpu_shift_report each[3];
                auto report = sized<milcgpu_multi_mass_report>();
                report.shifts = each;
                auto source = w.to_milc(b);
                std::vector<std::vector<double>> x(3, w.to_milc(b));
                const milcgpu_field from = w.session.field(source);
                const milcgpu_field to[] = {w.session.field(x[0]), w.session.field(x[1]), w.session.field(x[2])};
                CAPTURE(parity, sloppy, milcgpu_last_error());
                REQUIRE(milcgpu_wilson_multi_mass(w.wilson, &w.spec, &how, &from, to, &report) == MILCGPU_OK);
                for (int k = 0; k < 3; ++k) {
                    const WilsonField got = w.from_milc(x[k]), on = reference::on_parity(lattice, got, parity);
                    const auto M = [&](const WilsonField &f, int sign) {
                        return reference::wilson_even_odd(lattice, links, w.term(), w.spec.kappa, f, sign, parity);
                    };
                    const WilsonField image = reference::Complex(shifts[k].offset) * on + M(M(on, 1), -1);
                    const double residual = difference(lattice, image, b, parity);
                    CHECK(residual < shifts[k].tolerance);
                    CHECK(std::fabs(residual - each[k].true_residual) < times_measured * 1e-16);
                    CHECK(difference(lattice, got, b, 1 - parity) == 0);
                }
                if (sloppy != MILCGPU_SINGLE)
                    continue;
                // A mass that overflows in single precision leaves the others as they are.
                milcgpu_pole with_one[] = {shifts[0], {1e39, 1e-10, 0}, shifts[2]};
                how.shifts = with_one, how.shared = operator_in(MILCGPU_SINGLE), how.sloppy = {};
                const auto untouched = x[1] = w.to_milc(b);
                CHECK(milcgpu_wilson_multi_mass(w.wilson, &w.spec, &how, &from, to, &report) == MILCGPU_NAN_OR_INF);
                CHECK((each[0].status == MILCGPU_OK && each[0].true_residual < 1e-10));
                CHECK((each[2].status == MILCGPU_OK && each[2].true_residual < 1e-11));
                CHECK((each[1].status == MILCGPU_NAN_OR_INF && x[1] == untouched));
            }
    }
}

TEST_CASE("calls for Wilson fermions refuse bad input with a message and leave outputs untouched",
          "[operators][errors]") {
    const reference::Lattice lattice{{4, 2, 2, 4}};
    const WilsonField b = random_wilson(lattice, 71);
    for (const Backend backend : backends()) {
        WilsonSession<double> w(lattice, backend, reference::random_gauge(lattice, 72));
        auto source = w.to_milc(b), x = w.to_milc(random_wilson(lattice, 73));
        const auto before = x;
        milcgpu_field from = w.session.field(source), to = w.session.field(x);
        milcgpu_storage what = operator_in(MILCGPU_DOUBLE);
        milcgpu_solve_spec how = solve_spec(0, 1e-8, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        const auto says = [&](milcgpu_status status, milcgpu_status expected, const char *words) {
            CAPTURE(words, milcgpu_last_error());
            CHECK(status == expected);
            CHECK(last_error_says(words));
            CHECK(x == before);
        };
        const auto dslash = [&](int sign, int parity) {
            return milcgpu_wilson_dslash(w.wilson, &what, sign, parity, &from, &to);
        };
        const auto matrix = [&] { return milcgpu_wilson_matrix(w.wilson, &w.spec, &what, 1, 3, &from, &to); };
        const auto solve = [&] { return milcgpu_wilson_solve(w.wilson, &w.spec, &how, &from, &to, nullptr); };
        says(dslash(0, MILCGPU_EVEN), MILCGPU_BAD_ARGUMENT, "sign is 0");
        says(dslash(1, 0), MILCGPU_BAD_ARGUMENT, "parity");
        what.reconstruct = 13;
        says(dslash(1, MILCGPU_EVEN), MILCGPU_NOT_BUILT, "13 reals a link; built");
        what = operator_in(MILCGPU_DOUBLE);
        for (const double kappa : {0.0, -0.1, 1.0, double(NAN)}) {
            w.spec.kappa = kappa;
            says(matrix(), MILCGPU_BAD_ARGUMENT, "spec.kappa is");
            says(solve(), MILCGPU_BAD_ARGUMENT, "spec.kappa is");
        }
        w.spec.kappa = 0.1;
        for (const double clover : {1e7, double(NAN)}) {
            w.spec.clover = clover;
            says(solve(), MILCGPU_BAD_ARGUMENT, "spec.clover is");
        }
        w.spec.clover = 0;
        w.spec.even_odd = 2;
        says(solve(), MILCGPU_BAD_ARGUMENT, "spec.even_odd is 2");
        w.spec.even_odd = 0;
        w.spec.method = 2;
        says(solve(), MILCGPU_BAD_ARGUMENT, "spec.method is 2");
        w.spec.method = MILCGPU_WILSON_BICGSTAB;
        w.spec.struct_size = 3;
        says(matrix(), MILCGPU_BAD_ARGUMENT, "struct_size");
        w.spec.struct_size = sizeof w.spec;
        how.mass = 0.1;
        says(solve(), MILCGPU_BAD_ARGUMENT, "how->mass must be 0");
        how.mass = 0;
        source[24 * 5 + 9] = NAN; // an even site, spin 1
        says(dslash(1, MILCGPU_ODD), MILCGPU_NAN_OR_INF, "source, spin 1: the site x y z t = 3 0 1 0 holds");
        says(matrix(), MILCGPU_NAN_OR_INF, "source, spin 1: the site x y z t = 3 0 1 0 holds");
        says(solve(), MILCGPU_NAN_OR_INF, "source, spin 1: the site x y z t = 3 0 1 0 holds");
        CHECK(dslash(1, MILCGPU_EVEN) == MILCGPU_OK); // it reads odd sites alone
        x = before;
        source = w.to_milc(b);
        from = w.session.field(source), to = w.session.field(x);
        const auto as_it_was = x;
        auto guess = x;
        guess[0] = INFINITY;
        const milcgpu_field bad = w.session.field(guess);
        CHECK(milcgpu_wilson_solve(w.wilson, &w.spec, &how, &from, &bad, nullptr) == MILCGPU_NAN_OR_INF);
        CHECK(guess[1] == as_it_was[1]);
        says(milcgpu_wilson_solve(w.wilson, &w.spec, &how, nullptr, &to, nullptr), MILCGPU_BAD_ARGUMENT, "source");
        says(milcgpu_wilson_dslash(nullptr, &what, 1, MILCGPU_EVEN, &from, &to), MILCGPU_BAD_ARGUMENT,
             "wilson is NULL");

        // Too few iterations: the call returns the iterate and its true residual.
        how.max_iterations = 2, how.max_restarts = 1;
        const auto s = w.solve(how, b, WilsonField(b.size()));
        CHECK(s.status == MILCGPU_NOT_CONVERGED);
        CHECK(std::fabs(s.residual - s.report.true_residual) < times_measured * 1e-16);
        CHECK(s.residual < 1);

        // NaN in the links is refused and leaves the handle empty.
        reference::Gauge links = w.gauge;
        links[6].e[1][2] = NAN;
        CHECK(w.load(links) == MILCGPU_NAN_OR_INF);
        says(solve(), MILCGPU_BAD_ARGUMENT, "no links");
        // Links that are not unitary are stored in 18 reals, with a warning.
        for (auto &u : links)
            u = reference::Complex(0.5) * reference::identity();
        links[7].e[0][1] = 0.25;
        REQUIRE(w.load(links) == MILCGPU_OK);
        w.session.messages.clear();
        what = operator_in(MILCGPU_SINGLE, 8);
        CHECK(dslash(1, MILCGPU_EVEN) == MILCGPU_OK);
        REQUIRE(w.session.messages.size() == 1);
        CHECK(has(w.session.messages[0], "18 reals"));
        w.gauge = links;
        const WilsonField expected = reference::wilson_dslash(lattice, links, b, 1);
        CHECK(difference(lattice, w.from_milc(x), expected, 0) < times_measured * 1e-7);
    }
}
