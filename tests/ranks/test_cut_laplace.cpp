// The gauge Laplace operator on cut lattices, over ranks (threads here) and emulated on one. D and M have the bits of
// the whole lattice (several vectors on a GPU: within rounding), solves agree within rounding, and a failure on one
// rank fails on all.
#include "milc_glue/api/milcgpu_laplace.h"
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

// The handles and fields of one rank.
struct Bench {
    Here &here;
    milcgpu_meson_links *links = nullptr;
    std::vector<std::vector<double>> in, out; // this rank's part
    std::vector<milcgpu_field> from, to;
    Bench(Here &of, const Inputs &inputs) : here(of) {
        demand(milcgpu_meson_links_create(here.context, MILCGPU_DOUBLE, &links));
        const std::vector<double> own = Fields::part(inputs.links, here.places, 72);
        const milcgpu_field field = field_of(own);
        const milcgpu_meson_links_spec spec{sizeof spec, 0, MILCGPU_SIGNS_OUT, {}};
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

// The sum over neighbours and the matrix in 3 and 4 directions, in every precision and reconstruction, of one vector,
// of several, and of vectors on the device; one field after the other.
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
                    const milcgpu_laplace_spec spec{sizeof spec, directions, 0.1, {precision, reals}};
                    demand(milcgpu_laplace_apply(bench.links, &spec, MILCGPU_LAPLACE_D, MILCGPU_EVEN, 1, &from, &to));
                    demand(milcgpu_laplace_apply(bench.links, &spec, MILCGPU_LAPLACE_M, MILCGPU_ODD, 1, &from, &to));
                    Fields::put(results[next++], bench.out[0], here.places);
                    demand(milcgpu_laplace_apply(bench.links, &spec, MILCGPU_LAPLACE_D, MILCGPU_EVEN + MILCGPU_ODD, 3,
                                                 &from, &to));
                    for (int k = 0; k < 3; ++k)
                        Fields::put(results[next++], bench.out[k], here.places);
                }
        milcgpu_vectors *resident = nullptr;
        demand(milcgpu_vectors_create(here.context, MILCGPU_DOUBLE, 2, &resident));
        const std::unique_ptr<milcgpu_vectors, void (*)(milcgpu_vectors *)> hold(resident, milcgpu_vectors_destroy);
        const milcgpu_quarks on_device{nullptr, resident, 0};
        const milcgpu_laplace_spec spec{sizeof spec, 4, 0.1, {MILCGPU_DOUBLE, 18}};
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            for (int k = 0; k < 2; ++k)
                demand(milcgpu_vectors_load(resident, k, parity, &bench.from[k]));
        for (int step = 0; step < 2; ++step)
            demand(milcgpu_laplace_apply(bench.links, &spec, MILCGPU_LAPLACE_M, MILCGPU_EVEN + MILCGPU_ODD, 2,
                                         &on_device, &on_device));
        demand(milcgpu_vectors_save(resident, 1, MILCGPU_EVEN + MILCGPU_ODD, &bench.to[0]));
        Fields::put(results[next++], bench.out[0], here.places);
    });
    well = all_well(endings);
    for (const auto &result : results)
        all.insert(all.end(), result.begin(), result.end());
    return all;
}

} // namespace

TEST_CASE("Laplace on a cut lattice has the bits of the whole one, over ranks and emulated with every mask",
          "[ranks][cut][operators][laplace]") {
    // On a whole lattice several vectors have their own kernel, which rounds otherwise on a GPU and if gcc 14 compiled
    // it. Measured on an H200.
    constexpr double error_of_several[] = {4.8e-16, 2.6e-7, 3.6e-6};
    on_all_cuts<Inputs>(
        all_of_laplace, [&](const std::vector<double> &got, const std::vector<double> &expected, milcgpu::Backend) {
            const size_t size = expected.size() / (2 * 9 * 4 + 1);
            for (size_t field = 0; field < 2 * 9 * 4 + 1; ++field) { // 9: precisions and reconstructions
                CAPTURE(field);
                const double allowed =
                    field % 4 == 0 && field < 2 * 9 * 4
                        ? 0
                        : times_measured * (field < 2 * 9 * 4 ? error_of_several[field / 12 % 3] : 4.8e-16);
                CHECK(largest_difference(got, expected, field * size, size) <= allowed);
            }
        });
}

namespace {

struct Solved {
    std::vector<std::vector<double>> x;
    std::vector<milcgpu_solve_report> reports;
};

// Solves for n sources. well: the solve succeeded on all ranks with equal iterations and residuals.
Solved laplace_solved(const Inputs &inputs, const Cut &cut, milcgpu::Backend backend,
                      const milcgpu_laplace_solve_spec &spec, int n, bool &well) {
    Solved solved;
    solved.x.assign(n, std::vector<double>(inputs.vectors[0].size()));
    std::vector<std::vector<milcgpu_solve_report>> reports(
        cut.ranks(), std::vector<milcgpu_solve_report>(n, sized<milcgpu_solve_report>()));
    const std::vector<Ending> endings = on_cut(inputs.fields, cut, backend, [&](Here &here, Ending &) {
        Bench bench(here, inputs);
        const milcgpu_quarks from = bench.sources(), to = bench.results();
        demand(milcgpu_laplace_solve(bench.links, &spec, n, &from, &to, reports[here.rank()].data()));
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
    auto spec = sized<milcgpu_laplace_solve_spec>();
    spec.directions = directions, spec.kappa = 1 / (2 * directions + 0.05);
    spec.tolerance = tolerance;
    spec.max_iterations = 2000, spec.max_restarts = 5;
    spec.precise = {precise, 0}, spec.sloppy = {sloppy, 12};
    spec.together = together;
    return spec;
}

} // namespace

TEST_CASE("Laplace solves over ranks have the iterations and solutions of one rank, and equal numbers on all",
          "[ranks][cut][operators][laplace]") {
    const Cut cuts[] = {
        {{4, 4, 4, 8}, {1, 1, 1, 2}, 0}, {{6, 4, 4, 6}, {2, 1, 1, 2}, 0}, {{4, 6, 4, 4}, {1, 1, 1, 1}, 13}};
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
                        CHECK(reference::relative_difference(many.x[k], one.x[k]) < 20 * c.tolerance);
                    }
                }
            }
    }
}

TEST_CASE("Laplace over ranks: a failure of one rank fails on all, and a bad source does not affect the others",
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
                                       if (here.rank() == 1)
                                           spoil(bench, own);
                                       const milcgpu_quarks from = bench.sources(), to = bench.results();
                                       demand(milcgpu_laplace_solve(bench.links, &own, 3, &from, &to, nullptr));
                                   }),
                            status, words));
        };
        using milcgpu::Status;
        ends([](Bench &, auto &own) { own.tolerance = -1; }, Status::bad_argument, "rank 1 of 2: spec.tolerance is -1");
        ends([](Bench &bench, auto &) { bench.in[1][7] = NAN; }, Status::nan_or_inf, "sources[1]");
        ends([](Bench &bench, auto &) { bench.from[2].data = nullptr; }, Status::bad_argument, "sources[2]");
    }
}
