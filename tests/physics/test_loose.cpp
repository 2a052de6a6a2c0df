// Loose solutions depend on their own sources alone: all-mode averaging and truncated solvers rely on this.
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/api/milcgpu_laplace.h"
#include "tests/clover_support.h"
#include "tests/handles.h"
#include <algorithm>

using namespace tests;
using milcgpu::Backend;

namespace {

using Field = std::vector<double>;

const reference::Lattice lattice{{4, 4, 4, 8}};

Field random_field(unsigned long seed) {
    return reference::vector_to_milc<double>(lattice, random_fermion(lattice, seed));
}

// Moves a field by two sites in x and in y, which keeps staggered phases and the boundary in t.
Field moved(const Field &field) {
    const reference::Fermion from = reference::vector_from_milc<double>(lattice, field);
    reference::Fermion to(from.size());
    for (int s = 0; s < lattice.volume(); ++s) {
        auto x = lattice.coordinates(s);
        x[0] += 2, x[1] += 2;
        to[lattice.site(x)] = from[s];
    }
    return reference::vector_to_milc<double>(lattice, to);
}

double distance(const Field &a, const Field &b) {
    double off = 0, size = 0;
    for (size_t k = 0; k < a.size(); ++k)
        off += std::pow(a[k] - b[k], 2), size += std::pow(b[k], 2);
    return std::sqrt(off / size);
}

// b in a call with `before` random sources in front and `behind` after it.
std::vector<Field> with_others(const Field &b, int before, int behind, unsigned long seed = 100) {
    std::vector<Field> all;
    for (int k = 0; k < before + 1 + behind; ++k) {
        all.push_back(b);
        for (double &x : all.back())
            if (k != before)
                x = std::cos(double(seed = seed * 6364136223846793005u + 1442695040888963407u));
    }
    return all;
}

// Solution `which` of a call; solve(n, sources, solutions, reports) makes the call.
template <class Solve>
Field solution(Session<double> &session, std::vector<Field> sources, int which, const Solve &solve) {
    std::vector<Field> solutions(sources.size(), Field(sources[0].size(), 0.0));
    std::vector<milcgpu_field> from, to;
    std::vector<milcgpu_solve_report> reports(sources.size(), sized<milcgpu_solve_report>());
    for (size_t k = 0; k < sources.size(); ++k)
        from.push_back(session.field(sources[k])), to.push_back(session.field(solutions[k]));
    CHECK(solve(int(sources.size()), from.data(), to.data(), reports.data()) == MILCGPU_OK);
    CAPTURE(milcgpu_last_error());
    return solutions[which];
}

} // namespace

TEST_CASE("a loose solution depends on its source alone, not on the rest of its call, and moves with its source",
          "[sources][loose]") {
    using milcgpu::ladder::is_loose;
    CHECK((is_loose(4e-3) && is_loose(2e-5) && !is_loose(1e-5) && !is_loose(float(1e-5)) && !is_loose(0)));
    CHECK((is_loose(1e-3, 0) && is_loose(0, 1e-3) && is_loose(1e-3, 1e-2)));
    CHECK((!is_loose(1e-3, 1e-8) && !is_loose(1e-8, 1e-3) && !is_loose(0, 1e-8)));
    // Links that this move leaves as they are.
    AsqtadLinks links = asqtad_links(lattice, 61);
    for (reference::Gauge *field : {&links.fat, &links.lng})
        for (int k = 0; k < 4 * lattice.volume(); ++k) {
            auto x = lattice.coordinates(k / 4);
            x[0] %= 2, x[1] %= 2;
            (*field)[k] = (*field)[4 * lattice.site(x) + k % 4];
        }
    const Field b = random_field(1);
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, links);
        for (const double tolerance : sampled<double>({1e-2, 1e-3, 1e-4}, 2))
            for (const auto &[sloppy, relative] :
                 {std::pair(MILCGPU_SINGLE, false), {MILCGPU_HALF, false}, {MILCGPU_HALF, true}}) {
                milcgpu_solve_spec spec = solve_spec(0.05, tolerance, MILCGPU_DOUBLE, sloppy);
                if (relative)
                    std::swap(spec.tolerance, spec.relative_tolerance);
                const auto of = [&](int together, const std::vector<Field> &sources, int which) {
                    return solution(session, sources, which, [&](int n, auto *from, auto *to, auto *reports) {
                        return n == 1 ? milcgpu_staggered_solve(session.links, &spec, from, to, reports)
                                      : milcgpu_staggered_solve_sources(session.links, &spec, together, n, from, to,
                                                                        reports);
                    });
                };
                CAPTURE(milcgpu::name(backend), tolerance, sloppy, relative);
                const Field alone = of(MILCGPU_TOGETHER_AUTO, {b}, 0);
                auto with_itself = with_others(moved(b), 2, 4);
                with_itself[4] = b;
                const int before = long_tests() ? 9 : 3;
                for (const auto &[call, place] :
                     {std::make_pair(with_others(b, 0, 5), 0), std::make_pair(with_others(b, before, 8), before),
                      std::make_pair(with_itself, 4)})
                    CHECK(of(MILCGPU_TOGETHER_AUTO, call, place) == alone);
                const double off = distance(of(MILCGPU_TOGETHER_AUTO, with_itself, 2), moved(alone));
                CHECK(off < 1e-3 * tolerance);
                if (relative)
                    continue;
                // In lock-step a solution does not depend on the others, either. In one Krylov space it does: 0.07 to
                // 0.12 was measured.
                for (const int together : {MILCGPU_LOCK_STEP, MILCGPU_BLOCK}) {
                    const Field first = of(together, with_others(b, 0, 5, 7), 0);
                    const auto apart = [&](int in_front, int behind) {
                        return distance(of(together, with_others(b, in_front, behind), in_front), first);
                    };
                    if (together == MILCGPU_BLOCK) {
                        CHECK(apart(0, 5) > 0.02 * tolerance);
                        continue;
                    }
                    CHECK(apart(0, 5) < 1e-3 * tolerance);
                    CHECK(apart(2, 9) < 1e-3 * tolerance);
                }
            }
    }
}

TEST_CASE("a loose solution of a Laplace or Wilson system depends on its source alone", "[sources][loose]") {
    for (const Backend backend : backends()) {
        CAPTURE(milcgpu::name(backend));
        CloverSession clover(lattice, backend);
        Session<double> &session = clover.session;
        milcgpu_solve_spec how = solve_spec(0, 1e-2, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        clover.spec.method = MILCGPU_WILSON_CG;
        Field spinor(24 * size_t(lattice.volume()));
        const auto of = [&](int together, const std::vector<Field> &sources, int which) {
            return solution(session, sources, which, [&](int n, auto *from, auto *to, auto *reports) {
                return milcgpu_wilson_solve_sources(clover.wilson, &clover.spec, &how, together, n, from, to, reports);
            });
        };
        spinor = with_others(spinor, 1, 0)[0];
        const Field alone = of(MILCGPU_ONE_BY_ONE, {spinor}, 0);
        CHECK(of(MILCGPU_TOGETHER_AUTO, with_others(spinor, 2, 3), 2) == alone);
        const Field locked = of(MILCGPU_LOCK_STEP, with_others(spinor, 2, 3), 2);
        CHECK(distance(of(MILCGPU_LOCK_STEP, with_others(spinor, 3, 4), 3), locked) < 1e-3 * how.tolerance);
        const MesonLinksHandle links(session.context, MILCGPU_DOUBLE);
        auto milc = reference::links_to_milc<double>(lattice, clover.gauge);
        const milcgpu_field gauge = session.field(milc);
        auto spec_of_links = sized<milcgpu_meson_links_spec>();
        spec_of_links.signs = MILCGPU_SIGNS_OUT;
        REQUIRE(milcgpu_meson_links_load(links, &spec_of_links, &gauge) == MILCGPU_OK);
        auto spec = filled(milcgpu_laplace_solve_defaults);
        spec.kappa = 0.16, spec.tolerance = 1e-3, spec.sloppy.precision = MILCGPU_SINGLE;
        const auto laplace = [&](int together, const std::vector<Field> &sources, int which) {
            return solution(session, sources, which, [&](int n, auto *from, auto *to, auto *reports) {
                spec.together = together;
                const milcgpu_quarks b{from, nullptr, 0}, x{to, nullptr, 0};
                return milcgpu_laplace_solve(links, &spec, n, &b, &x, reports);
            });
        };
        const Field b = random_field(3);
        CHECK(laplace(MILCGPU_TOGETHER_AUTO, with_others(b, 2, 3), 2) == laplace(MILCGPU_ONE_BY_ONE, {b}, 0));
        const Field with_five = laplace(MILCGPU_LOCK_STEP, with_others(b, 2, 3), 2);
        CHECK(distance(laplace(MILCGPU_LOCK_STEP, with_others(b, 3, 4), 3), with_five) < 1e-3 * spec.tolerance);
    }
}
