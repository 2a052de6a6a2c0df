// Cut lattices, over ranks (threads here) and emulated on one: D has the bits of the whole lattice, solves agree within
// rounding.
#include "gpu_kernels/halo/halo.h"
#include "tests/cut_support.h"
#include <cmath>

using namespace milcgpu;
using namespace tests;

namespace {

// D in every precision and reconstruction, on both parities, one field after the other.
std::vector<double> all_of_d(const Fields &fields, const Cut &cut, Backend backend, bool &well) {
    std::vector<milcgpu_storage> operators;
    for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
        for (const int reals : {18, 13, 12, 9, 8})
            operators.push_back({precision, reals});
    const size_t sites = fields.source.size() / 6;
    std::vector<std::vector<double>> results(2 * operators.size(), std::vector<double>(6 * sites));
    const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
        for (size_t k = 0; k < results.size(); ++k) {
            std::vector<double> out(here.source.size());
            const milcgpu_field from = field_of(here.source), to = field_of(out);
            demand(milcgpu_staggered_dslash(here.links, &operators[k / 2], k % 2 ? MILCGPU_ODD : MILCGPU_EVEN, &from,
                                            &to));
            Fields::put(results[k], out, here.places);
        }
    });
    well = all_well(endings);
    std::vector<double> all;
    for (const auto &result : results)
        all.insert(all.end(), result.begin(), result.end());
    return all;
}

// |b - A x| / |b| with x = b, with vectors in double and links as the caller passes them, in single.
double residual_by_links_in_single(const Fields &fields, const Cut &cut, Backend backend, bool &well) {
    double found = NAN;
    const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
        std::vector<float> fat(here.fat.begin(), here.fat.end()), lng(here.lng.begin(), here.lng.end());
        const milcgpu_field f{fat.data(), MILCGPU_SINGLE, 0}, l{lng.data(), MILCGPU_SINGLE, 0},
            b = field_of(here.source);
        demand(milcgpu_links_update(here.links, &f, &l, nullptr));
        double residual = NAN;
        demand(milcgpu_staggered_residual(here.links, MILCGPU_EVEN, 0.1, &b, &b, &residual));
        if (here.rank() == 0)
            found = residual;
    });
    well = all_well(endings);
    return found;
}

// All sixteen ways to cut, with local extents 3, 5, 3, 4 in cut directions and 4 in the others; and three ranks in a
// row.
std::vector<Cut> cuts_over_ranks() {
    std::vector<Cut> cuts{{{4, 4, 4, 12}, {1, 1, 1, 3}, 0}, {{9, 4, 4, 6}, {3, 1, 1, 2}, 0}};
    cuts[1].whole[0] = 12;
    for (int mask = 1; mask < 16; ++mask) {
        Cut cut{{4, 4, 4, 4}, {1, 1, 1, 1}, 0};
        const Extents local{3, 5, 3, 4};
        for (int mu = 0; mu < 4; ++mu)
            if ((mask >> mu & 1) != 0)
                cut.whole[mu] = 2 * local[mu], cut.grid[mu] = 2;
        cuts.push_back(cut);
    }
    cuts.push_back({{6, 6, 6, 6}, {2, 2, 2, 2}, 0}); // odd in all directions
    return cuts;
}

} // namespace

TEST_CASE("D on a lattice cut over ranks has the bits of the whole one, in every precision", "[ranks][cut]") {
    for (const Backend backend : backends())
        for (const Cut &cut : sampled(cuts_over_ranks(), 4)) {
            CAPTURE(text_of(cut), name(backend));
            const Fields fields = fields_on(cut.whole, true);
            bool well = false;
            const std::vector<double> whole = all_of_d(fields, {cut.whole, {1, 1, 1, 1}, 0}, backend, well);
            REQUIRE(well);
            for (const char *direct : ways(backend)) {
                const Environment way{{"MILCGPU_DIRECT", direct}};
                CAPTURE(direct);
                CHECK(same_bits(all_of_d(fields, cut, backend, well), whole));
                CHECK(well);
            }
        }
}

TEST_CASE("residuals with the caller's links in single are those of the whole lattice", "[ranks][cut]") {
    for (const Backend backend : backends())
        for (const Cut &cut : {Cut{{4, 4, 4, 12}, {1, 1, 1, 3}, 0}, Cut{{4, 6, 4, 4}, {1, 1, 1, 1}, 6}}) {
            const Fields fields = fields_on(cut.whole, true);
            bool well = false;
            const double whole = residual_by_links_in_single(fields, {cut.whole, {1, 1, 1, 1}, 0}, backend, well);
            REQUIRE(well);
            for (const char *direct : ways(backend)) {
                const Environment way{{"MILCGPU_DIRECT", direct}};
                const double found = residual_by_links_in_single(fields, cut, backend, well);
                CAPTURE(text_of(cut), name(backend), direct, whole, found / whole - 1);
                CHECK(std::fabs(found / whole - 1) <= times_measured * 2.3e-16);
                CHECK(well);
            }
        }
}

TEST_CASE("D on emulated cuts has the bits of the whole lattice, for every mask and precision", "[cut][sanitize]") {
    const Extents whole{4, 6, 4, 4};
    const Fields fields = fields_on(whole, true);
    for (const Backend backend : backends()) {
        bool well = false;
        const std::vector<double> expected = all_of_d(fields, {whole, {1, 1, 1, 1}, 0}, backend, well);
        REQUIRE(well);
        for (int mask = 1; mask < 16; ++mask)
            for (const char *direct : ways(backend)) {
                const Environment way{{"MILCGPU_DIRECT", direct}};
                CAPTURE(name(backend), mask, direct);
                CHECK(same_bits(all_of_d(fields, {whole, {1, 1, 1, 1}, mask}, backend, well), expected));
                CHECK(well);
            }
    }
}

namespace {

struct Solved {
    std::vector<double> x;
    int iterations = 0;
    bool in_half = false;
    double residual = 0;
};

Solved solve_on(const Fields &fields, const Cut &cut, Backend backend, int precise, int sloppy, double tolerance,
                bool &well) {
    Solved solved;
    solved.x.resize(fields.source.size());
    std::vector<int> iterations(cut.ranks());
    std::vector<double> residuals(cut.ranks());
    const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
        auto spec = sized<milcgpu_solve_spec>();
        spec.parity = MILCGPU_EVEN;
        spec.mass = 0.2;
        spec.tolerance = tolerance;
        spec.max_iterations = 2000, spec.max_restarts = 5;
        spec.precise.precision = precise, spec.sloppy.precision = sloppy;
        auto report = sized<milcgpu_solve_report>();
        std::vector<double> x(here.source.size(), 0.0);
        const milcgpu_field b = field_of(here.source), to = field_of(x);
        demand(milcgpu_staggered_solve(here.links, &spec, &b, &to, &report));
        Fields::put(solved.x, x, here.places);
        const int rank = here.rank();
        iterations[rank] = report.iterations, residuals[rank] = report.true_residual;
        if (rank == 0)
            solved.in_half = report.steps_in_half > 0;
    });
    well = all_well(endings);
    solved.iterations = iterations[0], solved.residual = residuals[0];
    for (int rank = 1; rank < cut.ranks(); ++rank) // all ranks have the same bits
        well = well && iterations[rank] == iterations[0] && residuals[rank] == residuals[0];
    return solved;
}

} // namespace

TEST_CASE("the sites near a cut are the sites that read ghosts", "[cut]") {
    const Extents n{8, 10, 12, 14};
    for (const unsigned cuts : {1u, 6u, 8u, 15u}) {
        const Geometry geometry(n, {0, 0, 0, 0}, n, halo_depth, cuts);
        const CutLattice &lattice = geometry.lattice();
        int near = 0, wrong = 0;
        for (int i = 0; i < lattice.sites(1); ++i) {
            const Site s = lattice.site(1, i);
            bool reads = false;
            for (int mu = 0; mu < 4; ++mu)
                reads = reads || lattice.forward(s, mu, 3) >= lattice.first_ghost ||
                        lattice.backward(s, mu, 3) >= lattice.first_ghost;
            near += reads;
            wrong += lattice.near_cut(s) != reads;
        }
        CAPTURE(cuts);
        CHECK(near > 0);
        CHECK(wrong == 0);
    }
}

TEST_CASE("solves over ranks have the iterations and solutions of one rank, and equal numbers on all", "[ranks][cut]") {
    const std::vector<Cut> cuts = {{{4, 4, 4, 8}, {1, 1, 1, 2}, 0},
                                   {{6, 6, 6, 6}, {2, 2, 2, 2}, 0},
                                   {{6, 4, 4, 8}, {2, 1, 1, 2}, 0},
                                   {{4, 4, 4, 8}, {1, 1, 1, 1}, 13}};
    for (const Cut &cut : sampled(cuts, 2)) {
        const Fields fields = fields_on(cut.whole, false);
        for (const Backend backend : backends())
            for (const auto &[precise, sloppy, tolerance] : {std::make_tuple(MILCGPU_DOUBLE, MILCGPU_DOUBLE, 1e-10),
                                                             std::make_tuple(MILCGPU_DOUBLE, MILCGPU_SINGLE, 1e-10),
                                                             std::make_tuple(MILCGPU_DOUBLE, MILCGPU_HALF, 1e-10),
                                                             std::make_tuple(MILCGPU_HALF, MILCGPU_HALF, 1e-2)}) {
                if (cut.ranks() > 2 && (precise != MILCGPU_DOUBLE || sloppy != MILCGPU_HALF))
                    continue; // threads wait for each other: a solve takes seconds on two cores
                CAPTURE(text_of(cut), precise, sloppy, name(backend));
                bool well = false;
                const Solved one =
                    solve_on(fields, {cut.whole, {1, 1, 1, 1}, 0}, backend, precise, sloppy, tolerance, well);
                REQUIRE(well);
                for (const char *direct : ways(backend)) {
                    const Environment way{{"MILCGPU_DIRECT", direct}};
                    CAPTURE(direct);
                    const Solved many = solve_on(fields, cut, backend, precise, sloppy, tolerance, well);
                    CHECK(well);
                    // On a box that is cut in x, D takes one site at a time, with links in single. Then many ranks
                    // are compared with one rank that treats x as cut, too.
                    const Solved alike =
                        many.in_half == one.in_half
                            ? one
                            : solve_on(fields, {cut.whole, {1, 1, 1, 1}, 1}, backend, precise, sloppy, tolerance, well);
                    CHECK(well);
                    CHECK(many.in_half == alike.in_half);
                    CHECK(std::abs(many.iterations - alike.iterations) <= 1);
                    CHECK(many.residual < tolerance);
                    CHECK(reference::relative_difference(many.x, one.x) < 20 * tolerance);
                }
            }
    }
}

TEST_CASE("several masses over ranks and on odd sites have the solutions of one rank", "[ranks][cut]") {
    constexpr int masses = 3;
    const Extents whole{4, 4, 6, 8};
    const Fields fields = fields_on(whole, false);
    const auto solve = [&](const Cut &cut, Backend backend, int precision, std::vector<int> &steps) {
        std::vector<std::vector<double>> solutions(masses, std::vector<double>(fields.source.size()));
        const std::vector<Ending> endings = on_cut(fields, cut, backend, [&](Here &here, Ending &) {
            milcgpu_pole shifts[masses] = {{0.8, 1e-8, 0}, {0.4, 1e-8, 0}, {2.0, 1e-8, 0}};
            auto spec = sized<milcgpu_multi_mass_spec>();
            spec.parity = MILCGPU_ODD;
            spec.n_shifts = masses, spec.shifts = shifts;
            spec.max_iterations = 1000, spec.max_restarts = 5;
            spec.shared.precision = precision;
            milcgpu_shift_report each[masses];
            auto report = sized<milcgpu_multi_mass_report>();
            report.shifts = each;
            std::vector<std::vector<double>> x(masses, std::vector<double>(here.source.size()));
            milcgpu_field to[masses];
            for (int k = 0; k < masses; ++k)
                to[k] = field_of(x[k]);
            const milcgpu_field b = field_of(here.source);
            demand(milcgpu_staggered_multi_mass(here.links, &spec, &b, to, &report));
            for (int k = 0; k < masses; ++k) {
                Fields::put(solutions[k], x[k], here.places);
                double residual = 1;
                demand(milcgpu_staggered_residual(here.links, MILCGPU_ODD, 0.5 * std::sqrt(shifts[k].offset), &b,
                                                  &to[k], &residual));
                if (!(residual < shifts[k].tolerance))
                    throw Error(Status::not_converged, format("shift %d: %.1e", k, residual));
            }
            steps[here.rank()] = report.steps;
        });
        CHECK(all_well(endings));
        return solutions;
    };
    for (const Backend backend : backends())
        for (const int precision : {MILCGPU_DOUBLE, MILCGPU_SINGLE})
            for (const char *direct : ways(backend)) {
                const Environment way{{"MILCGPU_DIRECT", direct}};
                const Cut cut{whole, {1, 1, backend == Backend::host ? 2 : 1, 2}, 0};
                CAPTURE(name(backend), precision, direct);
                std::vector<int> steps_one(1), steps(cut.ranks());
                const auto one = solve({whole, {1, 1, 1, 1}, 0}, backend, precision, steps_one);
                const auto many = solve(cut, backend, precision, steps);
                for (int k = 0; k < masses; ++k)
                    CHECK(reference::relative_difference(many[k], one[k]) < 2e-8);
                for (int rank = 0; rank < cut.ranks(); ++rank) {
                    CHECK(steps[rank] == steps[0]);
                    CHECK(std::abs(steps[rank] - steps_one[0]) <= 1);
                }
            }
}

TEST_CASE("no kernel waits for another rank if boxes differ, checksums are on or ranks share a GPU", "[ranks][cut]") {
    const auto said = [](int first_extent, bool check, const std::string &asked) {
        std::vector<std::string> why(2);
        CHECK(all_well(on_ranks(2, [&](Ranks &ranks) {
            const int rank = ranks.rank(), other = 1 - rank, t = rank == 0 ? first_extent : 8 - first_extent;
            const Geometry geometry({4, 4, 4, t}, {0, 0, 0, rank * first_extent}, {4, 4, 4, 8}, halo_depth);
            Device device(Backend::host, 0);
            device.set_ranks(&ranks);
            Halo halo(device, ranks, geometry, {{{rank, rank}, {rank, rank}, {rank, rank}, {other, other}}},
                      check ? MessageChecks::sums : MessageChecks::words);
            why[rank] = halo.open(asked, Reaching::memory_of_gpus);
        })));
        CHECK(why[0] == why[1]);
        return why[0];
    };
    CHECK(has(said(5, false, ""), "several sizes"));
    CHECK(has(said(4, true, ""), "MILCGPU_TEST=check_halo"));
    CHECK(has(said(4, false, "ranks share a GPU"), "ranks share a GPU"));
    CHECK(said(4, false, "").find("cut in t: ") == 0); // the host backend
}
