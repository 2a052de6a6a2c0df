// Every row of the dslash table against the reference operator, on every backend.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/launch_types.h"
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "reorder/resident_links.h"
#include "tests/bench.h"
#include <algorithm>
#include <functional>

using namespace milcgpu;
using namespace tests;

namespace {

// Measured on the host backend, the largest over epilogues, parities, shapes and both ways of a launch: |error| /
// |result| with 18 or 12 reals a long link, with 13, and with 9 or 8; and the error of the sum relative to the sizes of
// its terms. Rows: precision of the spinor; columns: precision of the links; double, single, half.
struct Measured {
    double plain, phased, pivoted, sum;
};
constexpr Measured measured[3][3] = {
    {{3.1e-16, 3.0e-16, 3.3e-16, 3.2e-15}, {2.9e-8, 4.3e-8, 7.5e-8, 1.6e-8}, {3.9e-5, 3.9e-5, 4.1e-5, 8.6e-6}},
    {{1.5e-7, 1.5e-7, 1.5e-7, 5.3e-8}, {1.5e-7, 1.6e-7, 1.6e-7, 6.7e-8}, {3.9e-5, 3.9e-5, 4.1e-5, 8.6e-6}},
    {{2.2e-6, 2.2e-6, 2.2e-6, 6.1e-7}, {2.2e-6, 2.2e-6, 2.2e-6, 5.9e-7}, {3.9e-5, 3.9e-5, 4.1e-5, 8.7e-6}}};

const Measured &measured_of(const DslashKernel &row) {
    return measured[static_cast<int>(row.spinor)][static_cast<int>(row.link)];
}

double error_of(const DslashKernel &row) {
    const Measured &m = measured_of(row);
    return row.reals == 13 ? m.phased : row.reals < 12 ? m.pivoted : m.plain;
}

// A lattice on a device with everything that a row needs.
struct DslashBench : Bench<reference::Vector> {
    ResidentLinks signed_links, phased_links; // long links c * +-SU(3), c * U(3)
    reference::Gauge fat, lng[2];
    reference::Fermion in, x, z, d[2]; // d: D in for each set of long links

    DslashBench(const std::array<int, 4> &n, Backend backend)
        : Bench(n, backend), signed_links(device, map, geometry, Precision::double_),
          phased_links(device, map, geometry, Precision::double_),
          fat(random_links(lattice, 3)), lng{unitary_links(lattice, 4, 0.2, false),
                                             unitary_links(lattice, 5, 0.2, true)},
          in(random_fermion(lattice, 6)), x(random_fermion(lattice, 7)), z(random_fermion(lattice, 8)) {
        for (int k = 0; k < 2; ++k) {
            auto f = reference::links_to_milc<double>(lattice, fat),
                 l = reference::links_to_milc<double>(lattice, lng[k]);
            (k == 0 ? signed_links : phased_links)
                .update({f.data(), Precision::double_, 576}, {l.data(), Precision::double_, 576});
            d[k] = reference::dslash(lattice, fat, lng[k], in);
        }
    }
    struct Outcome {
        double error, sum_error;
    };
    // The second of several sources is not active: nothing of it may change.
    static int sources_of(const DslashKernel &row) { return row.most_sources == 1 ? 1 : 5; }
    static bool active(int source) { return source != 1; }
    DeviceArray<CgState> upload_states(const CgState &state, int sources) {
        std::vector<CgState> states(sources, state);
        for (int k = 0; k < sources; ++k)
            states[k].active = active(k);
        DeviceArray<CgState> cg(device, sources, "test");
        device.copy_to_device(cg.data(), states.data(), cg.bytes());
        return cg;
    }
    // The largest over all sources; an inactive source must keep `before`.
    double error_of(const SpinorField &got, const reference::Fermion &expected, const reference::Fermion &before,
                    int parity) {
        double worst = 0;
        for (int k = 0; k < got.sources(); ++k)
            worst = worse(worst, Bench::error_of(got, k, active(k) ? expected : before, parity));
        return worst;
    }
    // A step of conjugate gradient: along the residual x, with the new residual beside it and in its place; and along a
    // direction x beside the residual z.
    Outcome run_step(const DslashKernel &row, int parity, const LinkPair &links, const reference::Fermion &d_in,
                     double a, double alpha) {
        const double beta = 0.7;
        const int sources = sources_of(row);
        CgState state{};
        state.start(1, 1);
        state.shift = a, state.alpha = alpha, state.carry = beta;
        const SpinorField in_d = upload(in, 1 - parity, row.spinor, sources);
        DslashCall call{};
        call.lattice = geometry.lattice();
        call.parity = parity;
        call.fat = links.fat, call.lng = links.lng;
        call.in = in_d;
        call.check_convergence = false;
        Outcome worst{0, 0};
        for (const bool along_p : {false, true})
            for (const bool in_place : {false, true}) {
                const DeviceArray<CgState> cg = upload_states(state, sources);
                const reference::Fermion &old_r = along_p ? z : x;
                const auto field = [&](const reference::Fermion &f) { return upload(f, parity, row.spinor, sources); };
                const SpinorField r = field(old_r), s = field(z), direction = field(x), beside = field(old_r);
                call.x = along_p ? direction : r, call.z = r, call.s = s;
                call.out = in_place ? r : beside;
                call.cg = cg.data();
                dslash(device, call, row.epilogue);
                reference::Fermion new_s = d_in, new_r = x;
                double rr = 0, rs = 0;
                for (int k = 0; k < lattice.volume(); ++k) {
                    new_s[k] = a * x[k] - d_in[k];
                    if (!along_p)
                        new_s[k] = new_s[k] + beta * z[k];
                    new_r[k] = old_r[k] - alpha * new_s[k];
                    for (int c = 0; c < 3 && lattice.parity(k) == parity; ++c) {
                        rr += std::norm(new_r[k].c[c]);
                        rs += std::real(std::conj(new_r[k].c[c]) * new_s[k].c[c]);
                    }
                }
                worst.error = worse(worst.error, error_of(s, new_s, z, parity));
                worst.error = worse(worst.error, error_of(in_place ? r : beside, new_r, old_r, parity));
                const std::vector<CgState> after = cg.to_host();
                for (int k = 0; k < sources; ++k) {
                    const double size = double(k + 1) * (k + 1) * rr;
                    CHECK(after[k].iterations == active(k));
                    if (!active(k))
                        continue;
                    worst.sum_error = worse(worst.sum_error, std::fabs(after[k].rr_new / size - 1));
                    worst.sum_error = worse(worst.sum_error, std::fabs(after[k].cross / size - rs / rr));
                }
            }
        return worst;
    }
    // D of several sources; the sum is the curvature, which is the sum along p. Without scalars the launch applies D to
    // all of them.
    Outcome run_plain_sources(const DslashKernel &row, int parity, const LinkPair &links,
                              const reference::Fermion &d_in) {
        const int sources = sources_of(row);
        CgState state{};
        state.start(1, 1);
        const SpinorField in_d = upload(in, 1 - parity, row.spinor, sources),
                          out = upload(z, parity, row.spinor, sources);
        const DeviceArray<CgState> cg = upload_states(state, sources);
        DslashCall call{};
        call.lattice = geometry.lattice();
        call.parity = parity;
        call.fat = links.fat, call.lng = links.lng;
        call.in = in_d, call.out = out;
        call.cg = cg.data();
        call.along_p = true;
        dslash(device, call, row.epilogue);
        double size = 0, sum_error = 0;
        for (int s = 0; s < lattice.volume(); ++s)
            size += lattice.parity(s) == parity ? reference::norm2(d_in[s]) : 0;
        const std::vector<CgState> after = cg.to_host();
        for (int k = 0; k < sources; ++k)
            sum_error = worse(sum_error, std::fabs(after[k].curvature - (active(k) ? (k + 1) * (k + 1) * size : 0)) /
                                             ((k + 1) * (k + 1) * size));
        double error = error_of(out, d_in, z, parity);
        call.cg = nullptr;
        dslash(device, call, row.epilogue);
        error = worse(error, error_of(out, d_in, d_in, parity));
        for (const int more : {11, 16}) { // two warps share links, or do not
            const SpinorField from = upload(in, 1 - parity, row.spinor, more), to = upload(z, parity, row.spinor, more);
            call.in = from, call.out = to;
            dslash(device, call, row.epilogue);
            error = worse(error, error_of(to, d_in, d_in, parity));
        }
        return {error, sum_error};
    }
    // Some iterations of conjugate gradient from z. Each launch's sum is finished by the next launch if `deferred`,
    // else by itself.
    std::pair<CgState, reference::Fermion> iterations(Precision precision, bool deferred) {
        constexpr int count = 5;
        const LinkPair links = signed_links.version(precision, 18);
        const DeviceArray<CgState> cg(device, 1, "test");
        const StaggeredOperator A(geometry, 0, {precision, precision, 18}, links);
        const DeferredSums sums(device, A);
        for (const DeviceArray<double> *slots : {&sums.plain, &sums.step}) // look posted before they are
            device.fill_zero(slots->data(), slots->bytes());
        const SpinorField r = upload(z, 0, precision), p = upload(z, 0, precision), s = upload(z, 0, precision),
                          between = upload(in, 1, precision);
        CgState state{};
        state.shift = 0.3;
        state.iteration_limit = count + 1;
        device.copy_to_device(cg.data(), &state, sizeof state);
        cg_start(device, r, {{}, p}, cg.data());
        for (int k = 0; k < count; ++k)
            run_iteration(device, {&A, k == 0 ? p : r, r, r, s, between, cg.data(), &sums, deferred && k > 0,
                                   deferred && k < count - 1});
        return {cg.to_host()[0], download(r, 0)};
    }
    Outcome run(const DslashKernel &row, int parity) {
        const int set = row.reals == 13 || row.reals == 9;
        const LinkPair links = (set ? phased_links : signed_links).version(row.link, row.reals);
        REQUIRE(links.lng->reals() == row.reals); // these links must not fall back to 18 reals
        const double a = 0.37, alpha = 0.61;
        if (row.epilogue == Epilogue::step)
            return run_step(row, parity, links, d[set], a, alpha);
        const int sources = sources_of(row);
        if (row.most_sources > 1 && row.epilogue == Epilogue::plain)
            return run_plain_sources(row, parity, links, d[set]);
        const SpinorField in_d = upload(in, 1 - parity, row.spinor, sources),
                          x_d = upload(x, parity, row.spinor, sources);
        const SpinorField z_d = upload(z, parity, row.spinor, sources); // the residual epilogue writes z, too
        const DeviceArray<double> sum(device, 1, "test");
        DslashCall call{};
        call.lattice = geometry.lattice();
        call.parity = parity;
        call.fat = links.fat, call.lng = links.lng;
        call.in = in_d, call.out = z_d, call.x = x_d, call.z = z_d;
        call.a = a, call.alpha = alpha;
        call.sum = sources == 1 ? sum.data() : nullptr;
        const DeviceArray<uint64_t> checksums(device, NormalOperator::most_checksums, "test");
        if (row.checks) // test_checksums.cpp compares them
            call.checksums = checksums.data();
        const DeviceArray<int> gate(device, 1, "test");
        const reference::Fermion before = download(z_d[sources - 1], parity);
        device.fill_zero(gate.data(), gate.bytes());
        call.gate = gate.data(); // a closed gate
        if (!row.checks)
            dslash(device, call, row.epilogue);
        CHECK(parity_difference(lattice, download(z_d[sources - 1], parity), before, parity) == 0);
        call.gate = nullptr;
        dslash(device, call, row.epilogue);
        reference::Fermion expected = d[set];
        double expected_sum = 0;
        for (int s = 0; s < lattice.volume(); ++s) {
            if (row.epilogue != Epilogue::plain)
                expected[s] = a * x[s] - d[set][s];
            if (row.epilogue == Epilogue::residual)
                expected[s] = z[s] - alpha * expected[s];
            if (lattice.parity(s) != parity)
                continue;
            for (int c = 0; c < 3; ++c)
                expected_sum += row.epilogue == Epilogue::normal ? std::real(std::conj(x[s].c[c]) * expected[s].c[c])
                                                                 : std::norm(expected[s].c[c]);
        }
        const double error = error_of(z_d, expected, expected, parity);
        if (sources > 1)
            return {error, 0};
        const double got = sum.to_host()[0];
        double scale = 0; // of the terms of the sum
        for (int s = 0; s < lattice.volume(); ++s)
            scale += lattice.parity(s) == parity ? reference::norm2(expected[s]) : 0;
        return {error, std::fabs(got - expected_sum) / scale};
    }
};

} // namespace

// Both ways of a launch, both parities, each of the shapes. cache_bytes replaces the size of the GPU's L2 cache; 0: the
// real size.
void check_rows(const std::vector<std::array<int, 4>> &shapes, const std::function<bool(const DslashKernel &)> &wanted,
                size_t cache_bytes = 0) {
    for (const Backend backend : backends()) {
        std::vector<DslashBench::Outcome> worst(dslash_table().size(), {0, 0});
        std::vector<std::string> where(worst.size());
        for (const auto &n : shapes) {
            DslashBench bench(n, backend);
            if (cache_bytes > 0)
                bench.device.set_cache_bytes(cache_bytes);
            for (const int parts_below : both_ways) {
                bench.device.set_parts_below(parts_below);
                for (size_t k = 0; k < worst.size(); ++k)
                    for (int parity = 0; parity < 2 && wanted(dslash_table()[k]); ++parity) {
                        const DslashBench::Outcome outcome = bench.run(dslash_table()[k], parity);
                        if (!(outcome.error <= worst[k].error))
                            where[k] = format("%d x %d x %d x %d, parity %d, %s", n[0], n[1], n[2], n[3], parity,
                                              parts_below > 0 ? "four threads a site" : "one thread a site");
                        worst[k].error = worse(worst[k].error, outcome.error);
                        worst[k].sum_error = worse(worst[k].sum_error, outcome.sum_error);
                    }
            }
        }
        for (size_t k = 0; k < worst.size(); ++k) {
            const DslashKernel &row = dslash_table()[k];
            CAPTURE(name(backend), name(row.spinor), name(row.link), row.reals, row.most_sources, name(row.epilogue),
                    where[k]);
            CHECK(worst[k].error <= times_measured * error_of(row));
            CHECK(worst[k].sum_error <= times_measured * measured_of(row).sum);
        }
    }
}

TEST_CASE("every row of the dslash table is the reference's, with one thread a site and with four", "[dslash]") {
    size_t of_one_site = 0; // rows for several sites at once: test_lanes.cpp
    for (const DslashKernel &row : dslash_table())
        of_one_site += !row.lanes;
    REQUIRE(of_one_site == 3 * 5 * 4 + 4 + 2 + 3 * 5 * 4); // one source, links in single, checksums, several
    check_rows(sampled<std::array<int, 4>>({{4, 2, 4, 12}, {6, 6, 6, 2}, {4, 4, 4, 8}, {2, 4, 6, 4}, {8, 2, 4, 2}}, 3),
               [](const DslashKernel &row) { return !row.lanes; });
}

TEST_CASE("the order of tiles has each tile once, also if slices have parts and if the box is cut", "[dslash]") {
    for (const int slice : {1, 2, 6, 7})
        for (const int part : {1, 2, 3, 4, 7})
            for (const int tiles : {1, 5, 23, 28}) {
                const TileOrder order{tiles, part, slice, tiles / slice};
                std::vector<int> times(tiles);
                for (int turn = 0; turn < tiles; ++turn)
                    times.at(order.tile(turn)) += 1;
                CAPTURE(slice, part, tiles);
                CHECK(times == std::vector<int>(tiles, 1));
            }
    for (const int part : {0, 1, 3})
        for (const auto &[all, near] : {std::array{8, 3}, std::array{6, 3}, std::array{9, 1}}) {
            constexpr int slice = 5;
            std::vector<int> inner(all), at_cut(all);
            for (const Tiles::Which which : {Tiles::Which::inner, Tiles::Which::at_cut}) {
                TileOrder order{all * slice, part, slice, all};
                order.take({which, near, false});
                for (int turn = 0; turn < order.count; ++turn)
                    (which == Tiles::Which::inner ? inner : at_cut).at(order.tile(turn) / slice) += 1;
            }
            for (int t = 0; t < all; ++t) {
                const bool is_near = t < near || t >= all - near;
                CAPTURE(part, all, near, t);
                CHECK(inner[t] == (is_near ? 0 : slice));
                CHECK(at_cut[t] == (is_near ? slice : 0));
            }
        }
    if (backends().size() > 1) // the host does not interleave tiles
        check_rows(
            {{6, 6, 10, 4}, {16, 6, 10, 4}}, [](const DslashKernel &row) { return !row.lanes; }, 40000);
}

TEST_CASE("a few rows of the dslash table are the reference's, for the sanitizers", "[.][dslash][sanitize][smoke]") {
    check_rows({{4, 2, 6, 4}, {4, 4, 4, 4}}, [](const DslashKernel &row) {
        return !row.lanes && (row.epilogue == Epilogue::residual || row.spinor == row.link);
    });
}

TEST_CASE("sums that the next launch finishes have the bits of sums that a launch finishes itself",
          "[dslash][determinism]") {
    for (const Backend backend : backends())
        // 1 and 3 groups of tiles.
        for (const auto &n : {std::array<int, 4>{4, 2, 6, 4}, std::array<int, 4>{16, 16, 16, 18}}) {
            DslashBench bench(n, backend);
            for (const Precision precision :
                 sampled<Precision>({Precision::half, Precision::double_}, n[0] == 16 ? 2 : 1))
                for (const int parts_below : both_ways) {
                    bench.device.set_parts_below(parts_below);
                    CAPTURE(name(backend), n[0], name(precision), parts_below);
                    const auto [own, r_own] = bench.iterations(precision, false);
                    if (n[0] == 16) // on a GPU the next launches take their tiles in another order
                        bench.device.set_cache_bytes(40000);
                    const auto [next, r_next] = bench.iterations(precision, true);
                    CHECK(own.iterations == 5);
                    CHECK(next.iterations == 5);
                    CHECK(own.active == 1);
                    CHECK((next.rr == own.rr && next.pp == own.pp && next.cross == own.cross));
                    CHECK(std::equal(own.step_alpha, own.step_alpha + 5, next.step_alpha));
                    CHECK(std::equal(own.history, own.history + 5, next.history));
                    CHECK(parity_difference(bench.lattice, r_next, r_own, 0) == 0);
                }
        }
}

TEST_CASE("the table refuses a missing row and lists the rows that are built", "[dslash][smoke]") {
    CHECK(has(
        refusal_by(Status::not_built, [] { find_dslash(Precision::single, Precision::single, 10, Epilogue::plain); }),
        "single/single/13"));
}

TEST_CASE("D on the device is anti-hermitian and its square negative", "[dslash][physics]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 21);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        const auto apply = [&](const reference::Fermion &x, int parity) {
            auto source = reference::vector_to_milc<double>(lattice, x);
            std::vector<double> result(source.size(), 0);
            const milcgpu_field from = session.field(source), to = session.field(result);
            const milcgpu_storage what{MILCGPU_DOUBLE, 0};
            REQUIRE(milcgpu_staggered_dslash(session.links, &what, parity, &from, &to) == MILCGPU_OK);
            return reference::vector_from_milc<double>(lattice, result);
        };
        const auto dot = [&](const reference::Fermion &a, const reference::Fermion &b) {
            reference::Complex sum = 0;
            for (size_t s = 0; s < a.size(); ++s)
                for (int c = 0; c < 3; ++c)
                    sum += std::conj(a[s].c[c]) * b[s].c[c];
            return sum;
        };
        auto x = random_fermion(lattice, 22), y = random_fermion(lattice, 23);
        for (int s = 0; s < lattice.volume(); ++s) // x is even, y odd
            (lattice.parity(s) == 0 ? y : x)[s] = {};
        const reference::Complex forth = dot(y, apply(x, MILCGPU_ODD)), back = dot(x, apply(y, MILCGPU_EVEN));
        CHECK(std::abs(forth + std::conj(back)) <= times_measured * 1.2e-15 * std::abs(forth));
        const auto dx = apply(x, MILCGPU_ODD);
        CHECK(std::real(dot(x, apply(dx, MILCGPU_EVEN))) <= 0);
    }
}

TEST_CASE("D on the device is gauge covariant", "[dslash][physics]") {
    const reference::Lattice lattice{{4, 4, 6, 4}};
    const AsqtadLinks links = asqtad_links(lattice, 31);
    const auto g = reference::random_transformation(lattice, 32);
    const auto x = random_fermion(lattice, 33);
    for (const Backend backend : backends())
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            reference::Fermion results[2];
            for (int turned = 0; turned < 2; ++turned) {
                Session<double> session(lattice, backend);
                REQUIRE(session.load(turned ? reference::transform_links(lattice, g, links.fat, 1) : links.fat,
                                     turned ? reference::transform_links(lattice, g, links.lng, 3) : links.lng) ==
                        MILCGPU_OK);
                auto source =
                    reference::vector_to_milc<double>(lattice, turned ? reference::transform_fermion(g, x) : x);
                const milcgpu_field field = session.field(source); // in place
                const milcgpu_storage what{precision, 13};
                REQUIRE(milcgpu_staggered_dslash(session.links, &what, MILCGPU_EVEN, &field, &field) == MILCGPU_OK);
                results[turned] = reference::vector_from_milc<double>(lattice, source);
            }
            const double difference =
                parity_difference(lattice, results[1], reference::transform_fermion(g, results[0]), 0);
            constexpr double here[] = {4.7e-16, 2.0e-7, 4.6e-5}; // measured
            CHECK(difference <= times_measured * here[precision - 1]);
        }
}
