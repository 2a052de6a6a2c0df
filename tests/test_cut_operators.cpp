// The operators beside the staggered one on lattices that are cut, over ranks (threads here) and emulated on one: what
// they make has the bits of a lattice that is whole, solves agree within rounding, and what one rank cannot do fails on
// all.
#include "milc_glue/milcgpu_laplace.h"
#include "milc_glue/milcgpu_wilson.h"
#include "tests/cut_support.h"
#include "tests/mesons_support.h"
#include <cmath>

using namespace tests;

namespace {

// A gauge field and vectors of the whole lattice.
struct Inputs {
    Fields fields;
    std::vector<double> links;
    std::vector<std::vector<double>> vectors;
    explicit Inputs(const Extents &whole) : fields(fields_on(whole, true)) {
        links = reference::links_to_milc<double>(fields.lattice, links_for(fields.lattice, 7));
        for (int k = 0; k < 4; ++k)
            vectors.push_back(reference::vector_to_milc<double>(fields.lattice, random_fermion(fields.lattice, 8 + k)));
    }
};

// What one rank works with.
struct Bench {
    Here &here;
    milcgpu_meson_links *links = nullptr;
    std::vector<std::vector<double>> in, out; // this rank's part
    std::vector<milcgpu_field> from, to;
    Bench(Here &of, const Inputs &inputs) : here(of) {
        demand(milcgpu_meson_links_create(here.context, MILCGPU_DOUBLE, &links));
        const std::vector<double> own = Fields::part(inputs.links, here.places, 72);
        const milcgpu_field field = field_of(own);
        const milcgpu_meson_links_spec spec{sizeof spec, 0, 0, {}};
        demand(milcgpu_meson_links_load(links, &spec, &field));
        for (const auto &vector : inputs.vectors)
            in.push_back(Fields::part(vector, here.places, 6));
        out.assign(in.size(), std::vector<double>(in[0].size()));
        for (size_t k = 0; k < in.size(); ++k)
            from.push_back(field_of(in[k])), to.push_back(field_of(out[k]));
    }
    Bench(const Bench &) = delete;
    ~Bench() { milcgpu_meson_links_destroy(links); }
    milcgpu_quarks sources() const { return {from.data(), nullptr, 0}; }
    milcgpu_quarks results() const { return {to.data(), nullptr, 0}; }
};

// The sum over neighbours and the matrix in 3 and 4 directions, every precision and reconstruction, of one vector and
// of several; and of vectors on the device. As one field behind the other.
std::vector<double> all_of_laplace(const Inputs &inputs, const Cut &cut, milcgpu::Backend backend, bool &well) {
    std::vector<double> all;
    std::vector<std::vector<double>> results;
    const size_t size = inputs.vectors[0].size();
    results.assign(2 * 9 * 4 + 1, std::vector<double>(size, -7));
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        Bench bench(here, inputs);
        const milcgpu_quarks from = bench.sources(), to = bench.results();
        size_t next = 0;
        for (const int directions : {3, 4})
            for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
                for (const int reals : {18, 12, 8}) {
                    const milcgpu_laplace_spec spec{sizeof spec, directions, 0.1, {precision, 0, reals}};
                    demand(milcgpu_laplace(bench.links, &spec, MILCGPU_LAPLACE_D, MILCGPU_EVEN, 1, &from, &to));
                    demand(milcgpu_laplace(bench.links, &spec, MILCGPU_LAPLACE_M, MILCGPU_ODD, 1, &from, &to));
                    Fields::put(results[next++], bench.out[0], here.places);
                    demand(milcgpu_laplace(bench.links, &spec, MILCGPU_LAPLACE_D, MILCGPU_EVEN + MILCGPU_ODD, 3, &from,
                                           &to));
                    for (int k = 0; k < 3; ++k)
                        Fields::put(results[next++], bench.out[k], here.places);
                }
        milcgpu_vectors *resident = nullptr;
        demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 2, &resident));
        const std::unique_ptr<milcgpu_vectors, void (*)(milcgpu_vectors *)> hold(resident, milcgpu_vectors_destroy);
        const milcgpu_quarks on_device{nullptr, resident, 0};
        const milcgpu_laplace_spec spec{sizeof spec, 4, 0.1, {MILCGPU_DOUBLE, 0, 18}};
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            for (int k = 0; k < 2; ++k)
                demand(milcgpu_vectors_load(resident, k, parity, &bench.from[k]));
        for (int step = 0; step < 2; ++step)
            demand(milcgpu_laplace(bench.links, &spec, MILCGPU_LAPLACE_M, MILCGPU_EVEN + MILCGPU_ODD, 2, &on_device,
                                   &on_device));
        demand(milcgpu_vectors_save(resident, 1, MILCGPU_EVEN + MILCGPU_ODD, &bench.to[0]));
        Fields::put(results[next++], bench.out[0], here.places);
    });
    well = all_well(endings);
    for (const auto &result : results)
        all.insert(all.end(), result.begin(), result.end());
    return all;
}

// Two and three ranks in a row; odd extents; all directions.
const Cut over_ranks[] = {{{4, 4, 4, 12}, {1, 1, 1, 3}, 0},
                          {{6, 10, 4, 4}, {2, 2, 1, 1}, 0},
                          {{4, 4, 6, 8}, {1, 1, 2, 1}, 0},
                          {{4, 4, 4, 8}, {1, 1, 1, 2}, 0, 1}};

} // namespace

TEST_CASE("Laplace on a cut lattice has the bits of the whole one, over ranks and emulated with every mask",
          "[ranks][cut][operators][laplace]") {
    for (const milcgpu::Backend backend : backends()) {
        const auto check = [&](const Extents &whole, const std::vector<Cut> &cuts) {
            const Inputs inputs(whole);
            bool well = false;
            const std::vector<double> expected = all_of_laplace(inputs, {whole, {1, 1, 1, 1}, 0}, backend, well);
            REQUIRE(well);
            CHECK(std::count(expected.begin(), expected.end(), -7.0) == 0);
            for (const Cut &cut : cuts)
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    CAPTURE(text_of(cut), name(backend), direct);
                    CHECK(same_bits(all_of_laplace(inputs, cut, backend, well), expected));
                    CHECK(well);
                }
        };
        for (const Cut &cut : over_ranks)
            check(cut.whole, {cut});
        std::vector<Cut> masks;
        for (int mask = 1; mask < 16; ++mask)
            masks.push_back({{4, 6, 4, 4}, {1, 1, 1, 1}, mask});
        check(masks[0].whole, masks);
    }
}

namespace {

struct Solved {
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_solve_report> reports;
};

// n sources. well: all ranks end well, with the same iterations and residuals.
Solved laplace_solved(const Inputs &inputs, const Cut &cut, milcgpu::Backend backend,
                      const milcgpu_laplace_solve_spec &spec, int n, bool &well) {
    Solved solved;
    solved.x.assign(n, std::vector<double>(inputs.vectors[0].size()));
    std::vector<std::vector<milcgpu_solve_report>> reports(cut.ranks(), std::vector<milcgpu_solve_report>(n));
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        Bench bench(here, inputs);
        const milcgpu_quarks from = bench.sources(), to = bench.results();
        std::vector<milcgpu_solve_report> &own = reports[here.rank()];
        for (milcgpu_solve_report &report : own)
            report.struct_size = sizeof report;
        demand(milcgpu_laplace_solve(bench.links, &spec, n, &from, &to, own.data()));
        for (int k = 0; k < n; ++k)
            Fields::put(solved.x[k], bench.out[k], here.places);
    });
    well = all_well(endings);
    solved.reports = reports[0];
    for (const auto &own : reports)
        for (int k = 0; k < n; ++k)
            well = well && own[k].iterations == reports[0][k].iterations &&
                   own[k].true_residual == reports[0][k].true_residual &&
                   own[k].source_norm == reports[0][k].source_norm;
    return solved;
}

milcgpu_laplace_solve_spec laplace_spec(int directions, int precise, int sloppy, double tolerance, int together) {
    milcgpu_laplace_solve_spec spec{};
    spec.struct_size = sizeof spec;
    spec.directions = directions, spec.kappa = 1 / (2 * directions + 0.05);
    spec.tolerance = tolerance;
    spec.max_iterations = 2000, spec.max_restarts = 5;
    spec.precise = {precise, 0, 0}, spec.sloppy = {sloppy, 0, 12};
    spec.together = together;
    return spec;
}

} // namespace

TEST_CASE("Laplace solves over ranks: iterations and solutions of one rank, the same numbers on every rank",
          "[ranks][cut][operators][laplace]") {
    const Cut cuts[] = {
        {{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, {{6, 4, 4, 10}, {2, 1, 1, 2}, 0}, {{4, 6, 4, 8}, {1, 1, 1, 1}, 13}};
    struct Case {
        int directions, precise, sloppy, together, n;
        double tolerance;
    };
    const Case cases[] = {{4, MILCGPU_DOUBLE, MILCGPU_DOUBLE, MILCGPU_TOGETHER_AUTO, 1, 1e-11},
                          {3, MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_TOGETHER_AUTO, 1, 1e-11},
                          {4, MILCGPU_DOUBLE, MILCGPU_HALF, MILCGPU_ONE_BY_ONE, 2, 1e-11},
                          {4, MILCGPU_HALF, MILCGPU_HALF, MILCGPU_TOGETHER_AUTO, 1, 1e-3},
                          {4, MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_BLOCK, 4, 1e-11},
                          {3, MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_LOCK_STEP, 3, 1e-11}};
    for (const Cut &cut : cuts) {
        const Inputs inputs(cut.whole);
        for (const milcgpu::Backend backend : backends())
            for (const Case &c : cases) {
                const auto spec = laplace_spec(c.directions, c.precise, c.sloppy, c.tolerance, c.together);
                CAPTURE(text_of(cut), name(backend), c.directions, c.precise, c.sloppy, c.together);
                bool well = false;
                const Solved one = laplace_solved(inputs, {cut.whole, {1, 1, 1, 1}, 0}, backend, spec, c.n, well);
                REQUIRE(well);
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    const Solved many = laplace_solved(inputs, cut, backend, spec, c.n, well);
                    CAPTURE(direct);
                    CHECK(well);
                    for (int k = 0; k < c.n; ++k) {
                        CAPTURE(k, many.reports[k].true_residual, one.reports[k].iterations);
                        CHECK(std::abs(many.reports[k].iterations - one.reports[k].iterations) <= 1);
                        CHECK(many.reports[k].true_residual < c.tolerance);
                        CHECK(many.reports[k].sloppy_reconstruct == 12);
                        CHECK(difference(many.x[k], one.x[k]) < 20 * c.tolerance);
                    }
                }
            }
    }
}

TEST_CASE("Laplace over ranks: what one rank cannot do fails on all, and one bad source is its own affair",
          "[ranks][cut][operators][laplace][errors]") {
    const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Inputs inputs(cut.whole);
    const auto spec = laplace_spec(4, MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10, MILCGPU_BLOCK);
    for (const milcgpu::Backend backend : backends()) {
        const auto ends = [&](const auto &spoil, milcgpu::Status status, const std::string &words) {
            CAPTURE(name(backend), words);
            CHECK(all_ended(on_cut(inputs.fields, cut, backend,
                                   [&](Here &here, Ending &) {
                                       Bench bench(here, inputs);
                                       auto own = spec;
                                       milcgpu_laplace_spec applied{sizeof applied, 4, 0.1, {MILCGPU_DOUBLE, 0, 18}};
                                       if (here.rank() == 1)
                                           spoil(bench, own, applied);
                                       const milcgpu_quarks from = bench.sources(), to = bench.results();
                                       demand(milcgpu_laplace_solve(bench.links, &own, 3, &from, &to, nullptr));
                                       demand(milcgpu_laplace(bench.links, &applied, MILCGPU_LAPLACE_M, MILCGPU_EVEN, 1,
                                                              &from, &to));
                                   }),
                            status, words));
        };
        using milcgpu::Status;
        ends([](Bench &, auto &own, auto &) { own.kappa *= 0.9; }, Status::bad_argument, "spec.kappa is");
        ends([](Bench &, auto &, auto &applied) { applied.directions = 3; }, Status::bad_argument,
             "spec.directions is 3 on rank 1 of 2");
        ends([](Bench &, auto &own, auto &) { own.tolerance = -1; }, Status::bad_argument, "rank 1 of 2: tolerance");
        ends([](Bench &bench, auto &, auto &) { bench.in[1][7] = NAN; }, Status::nan_or_inf, "sources[1]");
        ends([](Bench &bench, auto &, auto &) { bench.from[2].data = nullptr; }, Status::bad_argument, "sources[2]");
    }
}

namespace {

// A gauge field and a Wilson vector of the whole lattice.
struct WilsonInputs {
    static constexpr size_t reals = 24;
    Fields fields;
    std::vector<double> links, vector;
    explicit WilsonInputs(const Extents &whole) : fields(fields_on(whole, true)) {
        links = reference::links_to_milc<double>(fields.lattice, links_for(fields.lattice, 7));
        vector.resize(reals * fields.lattice.volume());
        for (size_t spin = 0; spin < 4; ++spin) {
            const auto one =
                reference::vector_to_milc<double>(fields.lattice, random_fermion(fields.lattice, 8 + spin));
            for (size_t k = 0; k < one.size(); ++k)
                vector[reals * (k / 6) + 6 * spin + k % 6] = one[k];
        }
    }
};

struct WilsonBench {
    static constexpr size_t reals = WilsonInputs::reals;
    Here &here;
    milcgpu_wilson *wilson = nullptr;
    std::vector<double> in, out; // this rank's part
    milcgpu_field from, to;
    WilsonBench(Here &of, const WilsonInputs &inputs)
        : here(of), in(Fields::part(inputs.vector, here.places, reals)), out(in.size()), from(field_of(in)),
          to(field_of(out)) {
        demand(milcgpu_wilson_create(here.context, &wilson));
        const std::vector<double> own = Fields::part(inputs.links, here.places, 72);
        const milcgpu_field field = field_of(own);
        demand(milcgpu_wilson_load(wilson, &field));
    }
    WilsonBench(const WilsonBench &) = delete;
    ~WilsonBench() { milcgpu_wilson_destroy(wilson); }
};

milcgpu_wilson_spec wilson_spec(double clover, int method, int even_odd = 0) {
    return {sizeof(milcgpu_wilson_spec), 0.11, clover, even_odd, method};
}

// Measured on the host backend by precision: the largest difference, relative to the largest element. What the sender
// multiplies a compiler may round otherwise.
constexpr double wilson_error[] = {2.4e-16, 1.3e-7, 2e-6};
double largest_difference(const std::vector<double> &a, const std::vector<double> &b, size_t first, size_t count) {
    double off = 0, largest = 0;
    for (size_t k = first; k < first + count; ++k)
        off = worse(off, std::fabs(a[k] - b[k])), largest = std::fmax(largest, std::fabs(b[k]));
    return off / largest;
}

// D in every reconstruction and both signs, and M with a clover term, in each precision: one field behind the other.
constexpr size_t fields_a_precision = 3 * 2 + 1;
std::vector<double> all_of_wilson(const WilsonInputs &inputs, const Cut &cut, milcgpu::Backend backend, bool &well) {
    constexpr int both = MILCGPU_EVEN_AND_ODD;
    std::vector<std::vector<double>> results(3 * fields_a_precision, std::vector<double>(inputs.vector.size(), -7));
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        WilsonBench bench(here, inputs);
        size_t next = 0;
        const auto keep = [&] { Fields::put(results[next++], bench.out, here.places, WilsonBench::reals); };
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF}) {
            for (const int reals : {18, 12, 8})
                for (const int sign : {1, -1}) {
                    const milcgpu_operator what{precision, 0, reals};
                    demand(milcgpu_wilson_dslash(bench.wilson, &what, sign, both, &bench.from, &bench.to));
                    keep();
                }
            const milcgpu_wilson_spec spec = wilson_spec(1.3, MILCGPU_WILSON_CG);
            const milcgpu_operator what{precision, 0, 18};
            demand(milcgpu_wilson_matrix(bench.wilson, &spec, &what, 1, both, &bench.from, &bench.to));
            keep();
        }
    });
    well = all_well(endings);
    std::vector<double> all;
    for (const auto &result : results)
        all.insert(all.end(), result.begin(), result.end());
    return all;
}

} // namespace

TEST_CASE("Wilson and clover on a cut lattice are those of the whole one, over ranks and emulated with every mask",
          "[ranks][cut][operators][clover]") {
    for (const milcgpu::Backend backend : backends()) {
        const auto check = [&](const Extents &whole, const std::vector<Cut> &cuts) {
            const WilsonInputs inputs(whole);
            bool well = false;
            const std::vector<double> expected = all_of_wilson(inputs, {whole, {1, 1, 1, 1}, 0}, backend, well);
            REQUIRE(well);
            CHECK(std::count(expected.begin(), expected.end(), -7.0) == 0);
            for (const Cut &cut : cuts)
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    CAPTURE(text_of(cut), name(backend), direct);
                    const std::vector<double> got = all_of_wilson(inputs, cut, backend, well);
                    for (size_t first = 0; first < got.size(); first += inputs.vector.size()) {
                        const size_t field = first / inputs.vector.size();
                        CAPTURE(field);
                        CHECK(largest_difference(got, expected, first, inputs.vector.size()) <=
                              times_measured * wilson_error[field / fields_a_precision]);
                    }
                    CHECK(well);
                }
        };
        for (const Cut &cut : over_ranks)
            check(cut.whole, {cut});
        std::vector<Cut> masks;
        for (int mask = 1; mask < 16; ++mask)
            masks.push_back({{4, 6, 4, 4}, {1, 1, 1, 1}, mask});
        check(masks[0].whole, masks);
    }
}

namespace {

struct WilsonSolved {
    std::vector<double> x;
    std::vector<milcgpu_solve_report> reports; // of each rank
    std::vector<double> residuals;             // milcgpu_wilson_residual
};

milcgpu_solve_spec how_to_solve(int precise, int sloppy, double tolerance) {
    milcgpu_solve_spec how{};
    how.struct_size = sizeof how;
    how.parity = MILCGPU_ODD;
    how.tolerance = how.relative_tolerance = tolerance;
    how.max_iterations = 1000, how.max_restarts = 5;
    how.precise.precision = precise, how.sloppy = {sloppy, 0, 12};
    return how;
}

WilsonSolved wilson_solved(const WilsonInputs &inputs, const Cut &cut, milcgpu::Backend backend,
                           const milcgpu_wilson_spec &spec, const milcgpu_solve_spec &how, bool &well) {
    WilsonSolved solved{std::vector<double>(inputs.vector.size()), {}, std::vector<double>(cut.ranks())};
    solved.reports.resize(cut.ranks());
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        WilsonBench bench(here, inputs);
        milcgpu_solve_report &report = solved.reports[here.rank()];
        report.struct_size = sizeof report;
        demand(milcgpu_wilson_solve(bench.wilson, &spec, &how, &bench.from, &bench.to, &report));
        demand(milcgpu_wilson_residual(bench.wilson, &spec, how.parity, &bench.from, &bench.to,
                                       &solved.residuals[here.rank()]));
        Fields::put(solved.x, bench.out, here.places, WilsonBench::reals);
    });
    well = all_well(endings);
    for (int rank = 1; rank < cut.ranks(); ++rank) // the same bits
        well = well && solved.reports[rank].iterations == solved.reports[0].iterations &&
               solved.reports[rank].true_residual == solved.reports[0].true_residual &&
               solved.residuals[rank] == solved.residuals[0];
    return solved;
}

} // namespace

TEST_CASE("Wilson and clover solves over ranks: iterations and solutions of one rank, the same numbers on every rank",
          "[ranks][cut][operators][clover]") {
    const Cut cuts[] = {
        {{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, {{6, 4, 4, 10}, {2, 1, 1, 2}, 0}, {{4, 6, 4, 8}, {1, 1, 1, 1}, 13}};
    struct Case {
        double clover;
        int method, even_odd, precise, sloppy;
        double tolerance;
    };
    const Case cases[] = {{1.3, MILCGPU_WILSON_CG, 0, MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-11},
                          {1.3, MILCGPU_WILSON_CG, 1, MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10},
                          {1.3, MILCGPU_WILSON_BICGSTAB, 0, MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10},
                          {0, MILCGPU_WILSON_BICGSTAB, 0, MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-11}};
    for (const Cut &cut : cuts) {
        const WilsonInputs inputs(cut.whole);
        for (const milcgpu::Backend backend : backends())
            for (const Case &c : cases) {
                const milcgpu_wilson_spec spec = wilson_spec(c.clover, c.method, c.even_odd);
                const milcgpu_solve_spec how = how_to_solve(c.precise, c.sloppy, c.tolerance);
                CAPTURE(text_of(cut), name(backend), c.clover, c.method, c.sloppy);
                bool well = false;
                const WilsonSolved one = wilson_solved(inputs, {cut.whole, {1, 1, 1, 1}, 0}, backend, spec, how, well);
                REQUIRE(well);
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    const WilsonSolved many = wilson_solved(inputs, cut, backend, spec, how, well);
                    CAPTURE(direct, one.reports[0].iterations, many.reports[0].iterations);
                    CHECK(well);
                    CHECK(std::abs(many.reports[0].iterations - one.reports[0].iterations) <= 1);
                    CHECK(many.reports[0].true_residual < c.tolerance);
                    CHECK(many.reports[0].relative_residual < c.tolerance);
                    CHECK(many.residuals[0] < c.tolerance);
                    CHECK(difference(many.x, one.x) < 20 * c.tolerance);
                }
            }
    }
}

TEST_CASE("Wilson over ranks: several masses, and what one rank cannot do fails on all",
          "[ranks][cut][operators][clover][errors]") {
    const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, whole{cut.whole, {1, 1, 1, 1}, 0};
    const WilsonInputs inputs(cut.whole);
    const milcgpu_wilson_spec spec = wilson_spec(1.3, MILCGPU_WILSON_CG);
    for (const milcgpu::Backend backend : backends()) {
        CAPTURE(name(backend));
        const auto solved = [&](const Cut &on) {
            std::vector<std::vector<double>> x(2, std::vector<double>(inputs.vector.size()));
            CHECK(all_well(on_cut(inputs.fields, on, backend, [&](Here &here, Ending &) {
                WilsonBench bench(here, inputs);
                milcgpu_shift shifts[2] = {{0.05, 1e-10, 0}, {0.4, 1e-10, 0}};
                milcgpu_multi_mass_spec how{};
                how.struct_size = sizeof how;
                how.parity = MILCGPU_EVEN;
                how.n_shifts = 2, how.shifts = shifts;
                how.max_iterations = 1000, how.max_restarts = 5;
                how.shared.precision = MILCGPU_SINGLE;
                std::vector<double> second = bench.out;
                const milcgpu_field to[2] = {bench.to, field_of(second)};
                demand(milcgpu_wilson_multi_mass(bench.wilson, &spec, &how, &bench.from, to, nullptr));
                Fields::put(x[0], bench.out, here.places, WilsonBench::reals);
                Fields::put(x[1], second, here.places, WilsonBench::reals);
            })));
            return x;
        };
        const auto one = solved(whole), many = solved(cut);
        for (int k = 0; k < 2; ++k)
            CHECK(difference(many[k], one[k]) < 2e-9);
        const auto ends = [&](const auto &spoil, milcgpu::Status status, const std::string &words) {
            CAPTURE(words);
            CHECK(all_ended(on_cut(inputs.fields, cut, backend,
                                   [&](Here &here, Ending &) {
                                       WilsonBench bench(here, inputs);
                                       milcgpu_wilson_spec own = spec;
                                       milcgpu_solve_spec how = how_to_solve(MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-8);
                                       if (here.rank() == 1)
                                           spoil(bench, own, how);
                                       demand(milcgpu_wilson_solve(bench.wilson, &own, &how, &bench.from, &bench.to,
                                                                   nullptr));
                                   }),
                            status, words));
        };
        using milcgpu::Status;
        ends([](auto &, auto &own, auto &) { own.kappa *= 0.9; }, Status::bad_argument, "spec.kappa is");
        ends([](auto &, auto &, auto &how) { how.tolerance = -1; }, Status::bad_argument, "rank 1 of 2: ");
        ends([](auto &bench, auto &, auto &) { bench.in[7] = NAN; }, Status::nan_or_inf, "rank 1 of 2: source");
        ends([](auto &bench, auto &, auto &) { bench.to.data = nullptr; }, Status::bad_argument, "solution");
    }
}
