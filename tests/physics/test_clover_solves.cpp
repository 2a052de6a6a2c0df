// The clover term in the Wilson operator and its solvers: even-odd against full, and the C interface.
#include "gpu_kernels/wilson/wilson_operator.h"
#include "milc_glue/solve/wilson_handle.h"
#include "tests/clover_support.h"

using namespace milcgpu;
using namespace tests;
using Number = reference::Complex;
using reference::WilsonField;

namespace {

constexpr double kappa = CloverSession::kappa, cku0 = CloverSession::cku0;

milcgpu_solve_spec how_of(double tolerance, int precise, int sloppy, int parity = MILCGPU_EVEN) {
    milcgpu_solve_spec how = solve_spec(0, tolerance, precise, sloppy);
    how.parity = parity;
    return how;
}

} // namespace

TEST_CASE("the even-odd operator with a clover term and its adjoint are the reference's, by every row", "[operators]") {
    const double measured[] = {3.2e-16, 1.5e-7, 2.1e-5}, measured_sums[] = {1.5e-17, 5.4e-9, 5e-7};
    for (const Backend backend : backends())
        for (const auto &shape : {std::array<int, 4>{4, 6, 10, 4}, std::array<int, 4>{2, 4, 4, 8}}) {
            WilsonBench bench(shape, backend);
            const reference::Lattice &lattice = bench.lattice;
            const reference::Gauge gauge = links_on(lattice);
            const reference::Clover expected = reference::clover_term(lattice, gauge, cku0);
            const LinkField as_given = bench.upload(gauge);
            const LinkStatistics statistics = link_statistics(bench.device, as_given, bench.geometry);
            const CloverField both = bench.clover(gauge, cku0), divided = bench.clover(gauge, cku0);
            for (const int parity : {0, 1})
                invert_clover(bench.device, both, parity, divided);
            const WilsonField in = reference::random_wilson_field(lattice, 5),
                              with = reference::random_wilson_field(lattice, 6);
            for (const WilsonKernel &row : wilson_table())
                for (const int parity : {0, 1}) {
                    const LinkField links =
                        pack_links(bench.device, as_given, statistics, bench.geometry, row.spinor, row.reals, "test")
                            .field;
                    CloverField term(bench.device, row.spinor, bench.geometry, "test"),
                        inverse(bench.device, row.spinor, bench.geometry, "test");
                    convert_clover(bench.device, both, term);
                    convert_clover(bench.device, divided, inverse);
                    const OperatorSpec spec{row.spinor, row.spinor, row.reals};
                    const WilsonMatrix M(bench.device, bench.geometry, parity, spec, links, kappa, {&term, &inverse});
                    const WilsonMatrix plain(bench.device, bench.geometry, parity, spec, links, kappa);
                    CHECK(M.checked_regions().size() == 3);
                    CHECK(M.flops() - plain.flops() == clover_flops * lattice.volume());
                    CHECK(M.bytes() - plain.bytes() == clover_bytes(row.spinor) * lattice.volume());
                    const SpinorField x = bench.upload(in, parity, row.spinor),
                                      w = bench.upload(with, parity, row.spinor), out = M.vectors(bench.device, "test");
                    const DeviceArray<double> sums(bench.device, matrix_sums, "test");
                    for (const int sign : {1, -1}) {
                        MatrixCall call;
                        call.in = x, call.out = out, call.with = w, call.sums = sums.data();
                        sign == 1 ? M.apply(bench.device, call) : M.apply_dagger(bench.device, call);
                        const WilsonField m =
                            reference::wilson_even_odd(lattice, gauge, expected, kappa, in, sign, parity);
                        const double error = reference::relative_difference(bench.download(out, parity), m);
                        const Number dot = reference::dot(reference::on_parity(lattice, with, parity), m);
                        const std::vector<double> got = sums.to_host();
                        const double sum_error =
                            std::abs(Number(got[0], got[1]) - dot) /
                            std::sqrt(norm2(m) * norm2(reference::on_parity(lattice, with, parity)));
                        CAPTURE(name(backend), name(row.spinor), row.reals, parity, sign, error, sum_error);
                        CHECK(error <= times_measured * measured[int(row.spinor)]);
                        CHECK(sum_error <= times_measured * measured_sums[int(row.spinor)]);
                    }
                }
        }
}

TEST_CASE("M with a clover term of host fields is the reference's, at each coefficient and after new links",
          "[operators]") {
    const reference::Lattice lattice{{4, 6, 2, 4}};
    for (const Backend backend : backends()) {
        CloverSession w(lattice, backend);
        const WilsonField in = reference::random_wilson_field(lattice, 7);
        const auto check = [&](int precision, int sign, double allowed) {
            auto source = reference::field_to_milc<double>(lattice, in, 1);
            auto result = source;
            const milcgpu_field from = w.session.field(source), to = w.session.field(result);
            const milcgpu_storage what{precision, 18};
            REQUIRE(milcgpu_wilson_matrix(w.wilson, &w.spec, &what, sign, MILCGPU_EVEN_AND_ODD, &from, &to) ==
                    MILCGPU_OK);
            const WilsonField got = reference::field_from_milc<reference::WilsonVector>(lattice, result.data(), 1);
            const double error = reference::relative_difference(got, w.matrix(in, sign));
            CAPTURE(precision, sign, w.spec.clover, error);
            CHECK(error <= times_measured * allowed);
        };
        for (const int sign : {1, -1}) {
            check(MILCGPU_DOUBLE, sign, 2.6e-16);
            check(MILCGPU_SINGLE, sign, 9.6e-8);
            check(MILCGPU_HALF, sign, 1.01e-5);
        }
        for (const double clover : {-3.0, 0.0, 6.0}) {
            w.spec.clover = clover;
            check(MILCGPU_DOUBLE, 1, 2.6e-16);
        }
        w.gauge = reference::random_gauge(lattice, 8);
        w.load(w.gauge);
        check(MILCGPU_DOUBLE, 1, 2.6e-16);
    }
}

TEST_CASE("BiCGstab and conjugate gradient solve with a clover term by the true residual on all sites", "[operators]") {
    const reference::Lattice lattice{{4, 4, 2, 8}};
    const WilsonField b = reference::random_wilson_field(lattice, 9), zero(lattice.volume(), reference::WilsonVector{});
    for (const Backend backend : backends()) {
        CloverSession w(lattice, backend);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
                const milcgpu_solve_spec how = how_of(1e-10, MILCGPU_DOUBLE, sloppy, parity);
                const auto bicgstab = w.solve(MILCGPU_WILSON_BICGSTAB, how, b, zero);
                const auto cg = w.solve(MILCGPU_WILSON_CG, how, b, zero);
                CAPTURE(name(backend), parity, sloppy, bicgstab.report.steps, cg.report.steps, bicgstab.residual,
                        cg.residual, bicgstab.report.message, cg.report.message);
                for (const auto *s : {&bicgstab, &cg}) {
                    CHECK(s->status == MILCGPU_OK);
                    CHECK(s->residual < 1e-10);
                    CHECK(std::fabs(s->residual - s->report.true_residual) < 3e-16);
                }
                CHECK(bicgstab.report.steps < cg.report.steps);
                CHECK(std::sqrt(norm2(bicgstab.x - cg.x) / norm2(cg.x)) < 1e-8);
                // The guess is the solution.
                const auto again = w.solve(MILCGPU_WILSON_BICGSTAB, how, b, bicgstab.x);
                CHECK(again.status == MILCGPU_OK);
                CHECK(again.report.steps <= 2);
            }
        const milcgpu_solve_spec how = how_of(1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        const auto nothing = w.solve(MILCGPU_WILSON_BICGSTAB, how, zero, zero);
        CHECK(nothing.status == MILCGPU_OK);
        CHECK(norm2(nothing.x) == 0);
        // A source on the other parity alone.
        const auto odd = w.solve(MILCGPU_WILSON_BICGSTAB, how, reference::on_parity(lattice, b, 1), zero);
        CHECK(odd.status == MILCGPU_OK);
        CHECK(odd.residual < 1e-10);
    }
}

TEST_CASE("a solve with a clover term refuses bad input and flipped bits, and leaves the solution untouched",
          "[operators][errors]") {
    const reference::Lattice lattice{{4, 2, 2, 4}};
    WilsonField b = reference::random_wilson_field(lattice, 10), guess = reference::random_wilson_field(lattice, 11);
    for (const Backend backend : backends()) {
        CloverSession w(lattice, backend);
        const auto refused = [&](const milcgpu_solve_spec &how, milcgpu_status status, const char *words) {
            for (const auto by : {MILCGPU_WILSON_BICGSTAB, MILCGPU_WILSON_CG}) {
                const auto s = w.solve(by, how, b, guess);
                CAPTURE(words, milcgpu_last_error());
                CHECK(s.status == status);
                CHECK(last_error_says(words));
                CHECK(norm2(s.x - guess) == 0);
            }
        };
        const milcgpu_solve_spec how = how_of(1e-10, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        w.spec.clover = NAN;
        refused(how, MILCGPU_BAD_ARGUMENT, "spec.clover is nan");
        w.spec.clover = cku0 / kappa;
        const WilsonField good = b;
        b[5].d[1].c[2] = NAN;
        refused(how, MILCGPU_NAN_OR_INF, "source");
        b = good;
        // All plaquettes xy are diag(i, -i, 1), so f_xy = diag(i, -i, 0), and R = 1 + sigma_xy i f_xy has zeros.
        const reference::Gauge before = w.gauge;
        w.gauge = reference::unit_gauge(lattice);
        for (int s = 0; s < lattice.volume(); ++s) {
            const Number phases[] = {1, {0, 1}, -1, {0, -1}};
            const int x = lattice.coordinates(s)[0];
            w.gauge[4 * s + 1].e[0][0] = phases[x], w.gauge[4 * s + 1].e[1][1] = std::conj(phases[x]);
        }
        w.load(w.gauge);
        w.spec.clover = 1 / kappa;
        refused(how, MILCGPU_BAD_ARGUMENT, "64 of 64 blocks on odd sites");
        w.spec.clover = cku0 / kappa;
        w.gauge = before;
        w.load(w.gauge);
        CHECK(w.solve(MILCGPU_WILSON_BICGSTAB, how, b, guess).status == MILCGPU_OK);
        // A flipped bit of the clover term is found; the handle is empty afterwards.
        Device &device = w.wilson->device();
        const auto term = w.wilson->clover(w.spec.kappa * w.spec.clover, Precision::single, 1);
        uint32_t word;
        unsigned char *const at = term.inverse->block(1, 1);
        device.copy_to_host(&word, at, sizeof word);
        word ^= 1;
        device.copy_to_device(at, &word, sizeof word);
        const auto s = w.solve(MILCGPU_WILSON_BICGSTAB, how, b, guess);
        CHECK(s.status == MILCGPU_CORRUPTED);
        CHECK(norm2(s.x - guess) == 0);
        CHECK(w.solve(MILCGPU_WILSON_BICGSTAB, how, b, guess).status == MILCGPU_BAD_ARGUMENT);
        w.load(w.gauge);
        CHECK(w.solve(MILCGPU_WILSON_BICGSTAB, how, b, guess).status == MILCGPU_OK);
    }
}

TEST_CASE("a solve needs the inverse of the clover term on the other parity alone, and M needs none", "[operators]") {
    const reference::Lattice lattice{{4, 4, 2, 2}};
    const WilsonField b = reference::random_wilson_field(lattice, 12),
                      zero(lattice.volume(), reference::WilsonVector{});
    for (const Backend backend : backends()) {
        CloverSession w(lattice, backend);
        w.spec.kappa = 0.0625;
        // Powers of i in colours 0 and 1 of links in x and y: R is diagonal, 1 + cku0 d with d among 0, 1/4, ..., 1.
        reference::Rng random(13);
        double largest[2] = {0, 0};
        while (largest[0] == largest[1]) {
            w.gauge = reference::unit_gauge(lattice);
            for (int s = 0; s < lattice.volume(); ++s)
                for (const int mu : {0, 1}) {
                    const Number powers[] = {1, {0, 1}, -1, {0, -1}}, power = powers[random() % 4];
                    w.gauge[4 * s + mu].e[0][0] = power, w.gauge[4 * s + mu].e[1][1] = std::conj(power);
                }
            largest[0] = largest[1] = 0;
            const reference::Clover unit = reference::clover_term(lattice, w.gauge, 1);
            for (int s = 0; s < lattice.volume(); ++s)
                for (const int color : {0, 1}) // each with both signs
                    largest[lattice.parity(s)] =
                        std::max(largest[lattice.parity(s)], std::fabs(unit[s].block[0][color][color].real() - 1));
        }
        w.load(w.gauge);
        const int p = largest[0] > largest[1] ? 0 : 1;
        w.spec.clover = 1 / largest[p] / w.spec.kappa;
        const int parity = p == 0 ? MILCGPU_EVEN : MILCGPU_ODD, other = MILCGPU_EVEN + MILCGPU_ODD - parity;
        const auto refused = w.solve(MILCGPU_WILSON_BICGSTAB, how_of(1e-9, MILCGPU_DOUBLE, 0, other), b, zero);
        CAPTURE(name(backend), p, largest[0], largest[1], milcgpu_last_error());
        CHECK(refused.status == MILCGPU_BAD_ARGUMENT);
        CHECK(last_error_says("blocks on"));
        const auto solved = w.solve(MILCGPU_WILSON_BICGSTAB, how_of(1e-9, MILCGPU_DOUBLE, 0, parity), b, zero);
        CAPTURE(solved.report.message, solved.residual);
        CHECK(solved.status == MILCGPU_OK);
        CHECK(solved.residual < 1e-9);
        // M itself needs no inverse.
        auto source = reference::field_to_milc<double>(lattice, b, 1), result = source;
        const milcgpu_field from = w.session.field(source), to = w.session.field(result);
        const milcgpu_storage what{MILCGPU_DOUBLE, 18};
        CHECK(milcgpu_wilson_matrix(w.wilson, &w.spec, &what, 1, MILCGPU_EVEN_AND_ODD, &from, &to) == MILCGPU_OK);
        const WilsonField got = reference::field_from_milc<reference::WilsonVector>(lattice, result.data(), 1);
        CHECK(reference::relative_difference(got, w.matrix(b, 1)) < 1e-15);
    }
}
