// Wilson and clover fermions on cut lattices, over ranks (threads here) and emulated on one: D, M and solves agree with
// the whole lattice within rounding, and a failure on one rank fails on all.
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/cut_support.h"
#include "tests/mesons_support.h"

using namespace tests;

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

// Measured on the host backend by precision: the largest difference relative to the largest element. The compiler may
// round otherwise the products that the sender computes.
constexpr double wilson_error[] = {2.4e-16, 1.3e-7, 2e-6};

// D in every reconstruction and both signs, and M with a clover term, in each precision; one field after the other.
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
                    const milcgpu_storage what{precision, reals};
                    demand(milcgpu_wilson_dslash(bench.wilson, &what, sign, both, &bench.from, &bench.to));
                    keep();
                }
            const milcgpu_wilson_spec spec = wilson_spec(1.3, MILCGPU_WILSON_CG);
            const milcgpu_storage what{precision, 18};
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

TEST_CASE("Wilson and clover on a cut lattice agree with the whole one, over ranks and emulated with every mask",
          "[ranks][cut][operators][clover]") {
    on_all_cuts<WilsonInputs>(
        all_of_wilson, [](const std::vector<double> &got, const std::vector<double> &expected, milcgpu::Backend) {
            const size_t size = expected.size() / (3 * fields_a_precision);
            for (size_t field = 0; field < 3 * fields_a_precision; ++field) {
                CAPTURE(field);
                CHECK(largest_difference(got, expected, field * size, size) <=
                      times_measured * wilson_error[field / fields_a_precision]);
            }
        });
}

namespace {

struct WilsonSolved {
    std::vector<double> x;
    std::vector<milcgpu_solve_report> reports; // for each rank
    std::vector<double> residuals;             // milcgpu_wilson_residual
};

milcgpu_solve_spec how_to_solve(int precise, int sloppy, double tolerance) {
    auto how = sized<milcgpu_solve_spec>();
    how.parity = MILCGPU_ODD;
    how.tolerance = how.relative_tolerance = tolerance;
    how.max_iterations = 1000, how.max_restarts = 5;
    how.precise.precision = precise, how.sloppy = {sloppy, 12};
    return how;
}

WilsonSolved wilson_solved(const WilsonInputs &inputs, const Cut &cut, milcgpu::Backend backend,
                           const milcgpu_wilson_spec &spec, const milcgpu_solve_spec &how, bool &well) {
    WilsonSolved solved{std::vector<double>(inputs.vector.size()), {}, std::vector<double>(cut.ranks())};
    solved.reports.resize(cut.ranks(), sized<milcgpu_solve_report>());
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        WilsonBench bench(here, inputs);
        demand(milcgpu_wilson_solve(bench.wilson, &spec, &how, &bench.from, &bench.to, &solved.reports[here.rank()]));
        demand(milcgpu_wilson_residual(bench.wilson, &spec, how.parity, &bench.from, &bench.to,
                                       &solved.residuals[here.rank()]));
        Fields::put(solved.x, bench.out, here.places, WilsonBench::reals);
    });
    well = all_well(endings);
    for (int rank = 1; rank < cut.ranks(); ++rank) // all ranks have the same bits
        well = well && solved.reports[rank].iterations == solved.reports[0].iterations &&
               solved.reports[rank].true_residual == solved.reports[0].true_residual &&
               solved.residuals[rank] == solved.residuals[0];
    return solved;
}

} // namespace

TEST_CASE("Wilson and clover solves over ranks have the iterations and solutions of one rank, and equal numbers on all",
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
                    CHECK(reference::relative_difference(many.x, one.x) < 20 * c.tolerance);
                }
            }
    }
}

TEST_CASE("Wilson over ranks: several sources agree with one rank, and NaN in one does not affect the others",
          "[ranks][cut][operators][clover]") {
    const Cut cut{{6, 4, 4, 6}, {2, 1, 1, 2}, 0};
    const WilsonInputs inputs(cut.whole);
    constexpr int n = 3;
    for (const milcgpu::Backend backend : backends())
        for (const int together : {MILCGPU_BLOCK, MILCGPU_LOCK_STEP}) {
            CAPTURE(name(backend), together);
            const auto solved = [&](const Cut &on, std::vector<milcgpu_solve_report> &reports) {
                std::vector<std::vector<double>> x(n, std::vector<double>(inputs.vector.size()));
                CHECK(all_well(on_cut(inputs.fields, on, backend, [&](Here &here, Ending &) {
                    WilsonBench bench(here, inputs);
                    std::vector<std::vector<double>> in(n, bench.in), out(n, bench.out);
                    for (double &z : in[2])
                        z = z * z; // another source
                    if (here.rank() == on.ranks() - 1)
                        in[1][5] = NAN;
                    std::vector<milcgpu_field> from, to;
                    for (int k = 0; k < n; ++k)
                        from.push_back(field_of(in[k])), to.push_back(field_of(out[k]));
                    std::vector<milcgpu_solve_report> own(n, sized<milcgpu_solve_report>());
                    const milcgpu_wilson_spec spec = wilson_spec(1.3, MILCGPU_WILSON_CG);
                    const milcgpu_solve_spec how = how_to_solve(MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10);
                    if (milcgpu_wilson_solve_sources(bench.wilson, &spec, &how, together, n, from.data(), to.data(),
                                                     own.data()) != MILCGPU_NAN_OR_INF)
                        throw milcgpu::Error(milcgpu::Status::bad_argument, milcgpu_last_error());
                    if (here.rank() == 0)
                        reports = own;
                    for (int k = 0; k < n; ++k)
                        Fields::put(x[k], out[k], here.places, WilsonBench::reals);
                })));
                return x;
            };
            std::vector<milcgpu_solve_report> of_one, of_many;
            const auto one = solved({cut.whole, {1, 1, 1, 1}, 0}, of_one), many = solved(cut, of_many);
            CHECK(of_many[1].status == MILCGPU_NAN_OR_INF);
            for (const int k : {0, 2}) {
                CAPTURE(k, of_one[k].iterations, of_many[k].iterations);
                CHECK(of_many[k].status == MILCGPU_OK);
                CHECK(of_many[k].true_residual < 1e-10);
                CHECK(std::abs(of_many[k].iterations - of_one[k].iterations) <= 1);
                CHECK(reference::relative_difference(many[k], one[k]) < 2e-9);
            }
        }
}

TEST_CASE("Wilson over ranks: several masses agree with one rank, and a failure of one rank fails on all",
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
                milcgpu_pole shifts[2] = {{0.05, 1e-10, 0}, {0.4, 1e-10, 0}};
                auto how = sized<milcgpu_multi_mass_spec>();
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
            CHECK(reference::relative_difference(many[k], one[k]) < 2e-9);
        const auto ends = [&](const auto &spoil, milcgpu::Status status, const std::string &words) {
            CAPTURE(words);
            CHECK(all_ended(on_cut(inputs.fields, cut, backend,
                                   [&](Here &here, Ending &) {
                                       WilsonBench bench(here, inputs);
                                       milcgpu_solve_spec how = how_to_solve(MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-8);
                                       if (here.rank() == 1)
                                           spoil(bench, how);
                                       demand(milcgpu_wilson_solve(bench.wilson, &spec, &how, &bench.from, &bench.to,
                                                                   nullptr));
                                   }),
                            status, words));
        };
        using milcgpu::Status;
        ends([](auto &, auto &how) { how.tolerance = -1; }, Status::bad_argument, "rank 1 of 2: ");
        ends([](auto &bench, auto &) { bench.in[7] = NAN; }, Status::nan_or_inf, "rank 1 of 2: source");
        ends([](auto &bench, auto &) { bench.to.data = nullptr; }, Status::bad_argument, "solution");
    }
}
