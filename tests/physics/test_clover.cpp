// The clover term on the device: made, inverted, stored and applied, against the reference.
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/machine/backend/device.h"
#include "tests/clover_support.h"
#include <cstring>

using namespace milcgpu;
using namespace tests;
using Number = reference::Complex;
using reference::Gauge;
using reference::WilsonField;

namespace {

constexpr std::array<int, 4> shapes[] = {{4, 6, 10, 4}, {2, 4, 4, 8}};
constexpr Precision precisions[] = {Precision::double_, Precision::single, Precision::half};

Gauge rough_links(const reference::Lattice &lattice) { return reference::random_gauge(lattice, 21); }
// Links as smooth as a quenched lattice's: plaquette 0.6.
Gauge soft_links(const reference::Lattice &lattice) { return reference::near_unit_gauge(lattice, 0.25, 22); }

// The reals of a field in double, in the layout of clover_term.h.
struct CloverOnHost {
    const CloverField &field;
    Device &device;
    std::vector<double> memory;
    bool striped;
    CloverOnHost(Device &on, const CloverField &of)
        : field(of), device(on), memory(of.bytes() / sizeof(double)), striped(on.on_gpu() || MILCGPU_STRIPES) {
        device.copy_to_host(memory.data(), of.block(0, 0), of.bytes());
    }
    double &real(int parity, int chirality, int i, int k) {
        const size_t block = (2 * parity + chirality) * field.block_bytes() / sizeof(double);
        return memory[block + (striped ? (k / 2 * field.stride() + i) * 2 + k % 2 : size_t(36) * i + k)];
    }
    void put() { device.copy_to_device(field.block(0, 0), memory.data(), field.bytes()); }
};

// True if LDL^dag without pivoting has a negative pivot.
bool is_indefinite(reference::Block6 a) {
    for (int k = 0; k < 6; ++k) {
        if (a[k][k].real() < 0)
            return true;
        for (int i = k + 1; i < 6; ++i)
            for (int j = k + 1; j < 6; ++j)
                a[i][j] -= a[i][k] * a[k][j] / a[k][k];
    }
    return false;
}

} // namespace

TEST_CASE("reference: gamma matrices, gamma_5 and sigma obey their algebra in MILC's basis", "[operators]") {
    using namespace reference;
    for (int mu = 0; mu < 5; ++mu) {
        CHECK(norm2(adjoint(gamma_matrix(mu)) + Number(-1) * gamma_matrix(mu)) == 0);
        for (int nu = 0; nu < 5; ++nu)
            CHECK(norm2(gamma_matrix(mu) * gamma_matrix(nu) + gamma_matrix(nu) * gamma_matrix(mu) +
                        Number(mu == nu ? -2 : 0) * unit_spin_matrix()) == 0);
    }
    CHECK(norm2(gamma_matrix(0) * gamma_matrix(1) * gamma_matrix(2) * gamma_matrix(3) + Number(-1) * gamma_matrix(4)) ==
          0);
    for (int mu = 0; mu < 4; ++mu) // block-diagonal: so is the clover term
        for (int nu = 0; nu < mu; ++nu)
            for (int row = 0; row < 4; ++row)
                for (int column = 0; column < 4; ++column)
                    CHECK((row / 2 == column / 2 || sigma_matrix(mu, nu)[row][column] == Number(0)));
}

TEST_CASE("reference: D_+^dag is D_-, the free propagator is the closed form, and even-odd agrees with full",
          "[operators]") {
    using namespace reference;
    const reference::Lattice lattice{{4, 2, 6, 4}};
    const Gauge links = rough_links(lattice);
    const WilsonField psi = random_wilson_field(lattice, 1), phi = random_wilson_field(lattice, 2);
    const WilsonField d_plus = wilson_dslash(lattice, links, psi, 1), d_minus = wilson_dslash(lattice, links, phi, -1);
    CHECK(std::abs(dot(phi, d_plus) - dot(d_minus, psi)) < 1e-16 * std::sqrt(norm2(phi) * norm2(d_plus)));
    const SpinMatrix &g5 = gamma_matrix(4);
    CHECK(norm2(g5 * wilson_dslash(lattice, links, g5 * psi, 1) - wilson_dslash(lattice, links, psi, -1)) <
          1e-30 * norm2(d_plus));
    const double kappa = 0.11;
    for (const int s : {1, -1})
        for (const bool antiperiodic : {false, true}) {
            Gauge unit = unit_gauge(lattice);
            if (antiperiodic)
                unit = antiperiodic_in_time(lattice, unit);
            const WilsonField x = free_wilson_propagator(lattice, kappa, psi, s, antiperiodic);
            CHECK(norm2(wilson_matrix(lattice, unit, unit_clover(lattice), kappa, x, s) - psi) < 1e-28 * norm2(psi));
        }
    const Clover r = clover_term(lattice, links, 0.2);
    for (const int parity : {0, 1}) { // where (M psi) vanishes on the other parity, M psi here is M_e psi
        const WilsonField here = on_parity(lattice, psi, parity);
        const WilsonField there =
            Number(kappa) * (inverse(r) * on_parity(lattice, wilson_dslash(lattice, links, here, 1), 1 - parity));
        CHECK(norm2(wilson_matrix(lattice, links, r, kappa, here + there, 1) -
                    wilson_even_odd(lattice, links, r, kappa, psi, 1, parity)) < 1e-31 * norm2(psi));
    }
}

TEST_CASE("the clover term is the reference's, in MILC's layout", "[operators]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes)
            for (int choice = 0; choice < thread_choices(backend); ++choice) {
                const Threads threads(backend, choice);
                WilsonBench bench(shape, backend, threads.block);
                const double cku0 = 0.37;
                const Gauge links = rough_links(bench.lattice);
                const reference::Clover expected = reference::clover_term(bench.lattice, links, cku0);
                const CloverField r = bench.clover(links, cku0);
                CloverOnHost host(bench.device, r);
                double error = 0;
                const auto order = reference::milc_order(bench.lattice);
                const int half = bench.lattice.volume() / 2;
                for (int k = 0; k < 2 * half; ++k) {
                    const reference::MilcClover milc = reference::milc_clover(expected[order[k]]);
                    for (int c = 0; c < 2; ++c) {
                        const auto got = [&](int real) { return host.real(k / half, c, k % half, real); };
                        for (int j = 0; j < 6; ++j)
                            error = worse(error, std::fabs(got(j) - milc.di[c][j]));
                        for (int j = 0; j < 15; ++j)
                            error = worse(error, std::abs(Number(got(6 + 2 * j), got(7 + 2 * j)) - milc.tr[c][j]));
                    }
                }
                CAPTURE(name(backend), shape[0], choice, error);
                CHECK(error <= times_measured * 2.3e-16);
                // Links in single precision give other numbers: they were rounded.
                CloverField coarse(bench.device, Precision::double_, bench.geometry, "test");
                make_clover(bench.device, bench.geometry, bench.upload(links, Precision::single), cku0, coarse);
                CloverOnHost coarse_host(bench.device, coarse);
                double rounding = 0;
                for (size_t k = 0; k < host.memory.size(); ++k)
                    rounding = worse(rounding, std::fabs(host.memory[k] - coarse_host.memory[k]));
                CAPTURE(rounding);
                CHECK(rounding <= times_measured * 2.4e-8);
                CHECK(rounding > 1e-9);
            }
}

TEST_CASE("on unit links the clover term is exactly 1; it ignores boundary signs and is gauge covariant",
          "[operators]") {
    for (const Backend backend : backends()) {
        WilsonBench bench(shapes[1], backend);
        const reference::Lattice &lattice = bench.lattice;
        const WilsonField psi = reference::random_wilson_field(lattice, 3);
        const CloverField one = bench.clover(reference::unit_gauge(lattice), 0.9);
        CHECK(norm2(bench.multiply(one, psi) - psi) == 0);

        const Gauge links = rough_links(lattice);
        const CloverField r = bench.clover(links, 0.3);
        const WilsonField r_psi = bench.multiply(r, psi);
        const CloverField antiperiodic = bench.clover(reference::antiperiodic_in_time(lattice, links), 0.3);
        CHECK(CloverOnHost(bench.device, antiperiodic).memory == CloverOnHost(bench.device, r).memory);

        const auto g = reference::random_transformation(lattice, 4);
        const CloverField turned = bench.clover(reference::transform_links(lattice, g, links, 1), 0.3);
        const WilsonField turned_psi = bench.multiply(turned, reference::transform_wilson_field(g, psi));
        const double error = reference::relative_difference(turned_psi, reference::transform_wilson_field(g, r_psi));
        CAPTURE(error);
        CHECK(error <= times_measured * 3.1e-16);
        // Hermitian: <psi, R phi> = <R psi, phi>.
        const WilsonField phi = reference::random_wilson_field(lattice, 5);
        CHECK(std::abs(dot(psi, bench.multiply(r, phi)) - dot(r_psi, phi)) <
              1e-16 * std::sqrt(norm2(r_psi) * norm2(phi)));
    }
}

TEST_CASE("the clover term multiplies a field in every precision, also in place, and a closed gate stops it",
          "[operators]") {
    const double measured[] = {2.2e-16, 9.2e-8, 7e-6};
    for (const Backend backend : backends())
        for (const auto &shape : shapes) {
            WilsonBench bench(shape, backend);
            const Gauge links = rough_links(bench.lattice);
            const reference::Clover expected = reference::clover_term(bench.lattice, links, 0.37);
            const CloverField r = bench.clover(links, 0.37);
            const WilsonField psi = reference::random_wilson_field(bench.lattice, 6), r_psi = expected * psi;
            for (const Precision p : precisions) {
                CloverField converted(bench.device, p, bench.geometry, "test");
                convert_clover(bench.device, r, converted);
                const double error = reference::relative_difference(bench.multiply(converted, psi), r_psi);
                CAPTURE(name(backend), name(p), error);
                CHECK(error <= times_measured * measured[int(p)]);
                CHECK(error > 0.01 * measured[int(p)]);
                const SpinorField field = bench.upload(psi, 1, p), beside = bench.upload(psi, 1, p);
                const WilsonField before = bench.download(field, 1);
                const DeviceArray<int> gate(bench.device, 1, "test");
                bench.device.fill_zero(gate.data(), gate.bytes());
                multiply_clover(bench.device, converted, 1, field, field, gate.data());
                CHECK(norm2(bench.download(field, 1) - before) == 0);
                multiply_clover(bench.device, converted, 1, field, beside);
                multiply_clover(bench.device, converted, 1, field, field);
                CHECK(norm2(bench.download(field, 1) - bench.download(beside, 1)) == 0);
            }
        }
}

TEST_CASE("R^-1 R is 1 on one parity; the other parity is untouched; the trace log counts indefinite blocks",
          "[operators]") {
    for (const Backend backend : backends())
        for (const auto &shape : shapes)
            for (const double cku0 : {0.25, 2.5}) { // all blocks positive; many blocks with negative eigenvalues
                WilsonBench bench(shape, backend);
                const Gauge links = soft_links(bench.lattice);
                const reference::Clover expected = reference::clover_term(bench.lattice, links, cku0);
                const WilsonField psi = reference::random_wilson_field(bench.lattice, 7);
                for (int parity = 0; parity < 2; ++parity) {
                    const CloverField r = bench.clover(links, cku0), mixed = bench.clover(links, cku0);
                    const CloverInverse inverse = invert_clover(bench.device, r, parity, mixed);
                    const WilsonField both = bench.multiply(mixed, psi);
                    const WilsonField here =
                        reference::inverse(expected) * reference::on_parity(bench.lattice, psi, parity);
                    const double error =
                        reference::relative_difference(reference::on_parity(bench.lattice, both, parity), here);
                    const double again = reference::relative_difference(
                        reference::on_parity(bench.lattice, bench.multiply(r, both), parity),
                        reference::on_parity(bench.lattice, psi, parity));
                    const double trace_log = reference::trace_log(bench.lattice, expected, parity);
                    long long indefinite = 0;
                    for (int s = 0; s < bench.lattice.volume(); ++s)
                        for (int c = 0; c < 2 && bench.lattice.parity(s) == parity; ++c)
                            indefinite += is_indefinite(expected[s].block[c]);
                    const double trace_error = std::fabs(inverse.trace_log - trace_log);
                    INFO(format("%s, cku0 %g, parity %d: errors %.2e, %.2e, trace %.2e", name(backend), cku0, parity,
                                error, again, trace_error));
                    CHECK(error <= times_measured *
                                       // 4e-12 to 1.5e-11 were measured, depending on the compiler's options.
                                       (cku0 < 1 ? 2.8e-16 : 1.5e-11));
                    CHECK(again <= times_measured * (cku0 < 1 ? 2.8e-16 : 1.5e-11));
                    CHECK(trace_error < times_measured * (cku0 < 1 ? 2e-14 : 1.7e-11));
                    CHECK(inverse.indefinite == indefinite);
                    CHECK((indefinite > 0) == (cku0 > 1));
                    const int other = 1 - parity;
                    CHECK(norm2(reference::on_parity(bench.lattice, both, other) -
                                reference::on_parity(bench.lattice, bench.multiply(r, psi), other)) == 0);
                    // In place, with the same bits.
                    const CloverInverse in_place = invert_clover(bench.device, r, parity, r);
                    CHECK(in_place.trace_log == inverse.trace_log);
                    CHECK(CloverOnHost(bench.device, r).memory == CloverOnHost(bench.device, mixed).memory);
                }
            }
}

TEST_CASE("blocks without an inverse and blocks with NaN are counted and refused", "[operators]") {
    for (const Backend backend : backends()) {
        WilsonBench bench(shapes[1], backend);
        const Gauge links = soft_links(bench.lattice);
        const CloverField r = bench.clover(links, 0.25);
        CloverOnHost good(bench.device, r);
        CloverField inverse(bench.device, Precision::double_, bench.geometry, "test");
        const int sites = r.sites(1);
        {
            CloverOnHost bad = good; // two singular blocks: a zero row and column; two equal rows
            for (int k = 0; k < 36; ++k)
                bad.real(1, 0, 3, k) = k == 0 ? 0 : k < 6 ? 1 : 0;
            for (int k = 0; k < 36; ++k)
                bad.real(1, 1, sites - 1, k) = k < 6 || k == 6 ? 1 : 0;
            bad.put();
            CHECK(has(refusal_by(Status::bad_argument, [&] { invert_clover(bench.device, r, 1, inverse); }),
                      format("2 of %d blocks on odd", 2 * sites)));
            CHECK(CloverOnHost(bench.device, inverse).real(1, 0, 3, 0) !=
                  CloverOnHost(bench.device, inverse).real(1, 0, 3, 0));
            invert_clover(bench.device, r, 0, inverse); // the blocks of even sites are regular
        }
        for (const double value : {double(NAN), double(INFINITY)}) {
            CloverOnHost bad = good;
            bad.real(0, 1, 5, 35) = value;
            bad.put();
            CHECK(has(refusal_by(Status::nan_or_inf, [&] { invert_clover(bench.device, r, 0, inverse); }),
                      format("1 of %d blocks on even", 2 * sites)));
            // In each precision a spoiled block stays spoiled: no number of it is finite.
            for (const Precision p : precisions) {
                CloverField converted(bench.device, p, bench.geometry, "test");
                convert_clover(bench.device, r, converted);
                const WilsonField psi = reference::random_wilson_field(bench.lattice, 8);
                int spoiled = 0;
                for (const auto &v : bench.multiply(converted, psi))
                    spoiled += !(norm2(v) < INFINITY);
                CAPTURE(name(p));
                CHECK(spoiled == 1);
            }
        }
        // One link with NaN spoils at least the sites of its twelve leaves.
        Gauge broken = links;
        broken[4 * 17 + 2].e[1][1] = NAN;
        const CloverField spoiled = bench.clover(broken, 0.25);
        CHECK(status_of([&] { invert_clover(bench.device, spoiled, 0, inverse); }) == Status::nan_or_inf);

        CHECK(has(refusal_by(Status::bad_argument, [&] { bench.clover(links, NAN); }), "cku0"));
        CHECK(has(refusal_by(Status::bad_argument, [&] { bench.clover(links, INFINITY); }), "inf"));
        CloverField single(bench.device, Precision::single, bench.geometry, "test");
        CHECK(status_of([&] { make_clover(bench.device, bench.geometry, bench.upload(links), 0.1, single); }) ==
              Status::bad_argument);
        CHECK(status_of([&] { invert_clover(bench.device, single, 0, single); }) == Status::bad_argument);
        CHECK(status_of([&] { convert_clover(bench.device, single, r); }) == Status::bad_argument);
        const SpinorField psi(bench.device, Precision::double_, bench.geometry, 0, "test", 1, 4),
            vector(bench.device, Precision::single, bench.geometry, 0, "test");
        CHECK(status_of([&] { multiply_clover(bench.device, single, 0, psi, psi); }) == Status::bad_argument);
        CHECK(status_of([&] { multiply_clover(bench.device, single, 0, vector, vector); }) == Status::bad_argument);
        const LinkField packed(bench.device, Precision::double_, 12, bench.geometry, "test");
        CHECK(status_of([&] { make_clover(bench.device, bench.geometry, packed, 0.1, r); }) == Status::bad_argument);
    }
}
