// Several sources at once through the C interface: true residuals by the reference, steps, sources that depend on each
// other, zero, NaN, statuses.
#include "tests/support.h"

using namespace tests;
using milcgpu::Backend;

namespace {

struct Sources {
    const reference::Lattice &lattice;
    std::vector<std::vector<double>> b, x;
    std::vector<milcgpu_solve_report> reports;

    Sources(const reference::Lattice &on, const std::vector<reference::Fermion> &fields)
        : lattice(on), reports(fields.size(), empty_report()) {
        for (const reference::Fermion &field : fields) {
            b.push_back(reference::vector_to_milc<double>(on, field));
            x.emplace_back(b.back().size(), 0.0);
        }
    }
    int count() const { return static_cast<int>(b.size()); }
    milcgpu_status solve(Session<double> &session, const milcgpu_solve_spec &spec, int together) {
        std::vector<milcgpu_field> from, to;
        for (int k = 0; k < count(); ++k)
            from.push_back(session.field(b[k])), to.push_back(session.field(x[k]));
        return milcgpu_solve_sources(session.context, session.links, &spec, together, count(), from.data(), to.data(),
                                     reports.data());
    }
    reference::Fermion solution(int k) const { return reference::vector_from_milc<double>(lattice, x[k]); }
};

std::vector<reference::Fermion> random_sources(const reference::Lattice &lattice, int count, unsigned long seed = 62) {
    std::vector<reference::Fermion> fields;
    for (int k = 0; k < count; ++k)
        fields.push_back(random_fermion(lattice, seed + k));
    return fields;
}

double residual(const reference::Lattice &lattice, const AsqtadLinks &links, double mass, const reference::Fermion &b,
                const reference::Fermion &x) {
    return parity_difference(lattice, reference::normal_operator(lattice, links.fat, links.lng, mass, 0, x), b, 0);
}

constexpr int both[] = {MILCGPU_BLOCK, MILCGPU_LOCK_STEP};

} // namespace

TEST_CASE("any number of sources, each precision: true residuals by the reference", "[sources]") {
    const reference::Lattice lattice{{4, 6, 4, 8}};
    const AsqtadLinks links = asqtad_links(lattice, 61);
    const double mass = 0.05, tolerance = 1e-10;
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        for (const int count : {1, 2, 3, 12, 18})
            for (const int sloppy : {MILCGPU_DOUBLE, MILCGPU_SINGLE, MILCGPU_HALF})
                for (const int together : both) {
                    const auto fields = random_sources(lattice, count);
                    Sources all(lattice, fields);
                    const milcgpu_solve_spec spec = solve_spec(mass, tolerance, MILCGPU_DOUBLE, sloppy);
                    const milcgpu_status status = all.solve(session, spec, together);
                    CAPTURE(milcgpu::name(backend), count, sloppy, together, milcgpu_last_error());
                    CHECK(status == MILCGPU_OK);
                    Sources alone(lattice, {fields[0]});
                    CHECK(alone.solve(session, spec, MILCGPU_ONE_BY_ONE) == MILCGPU_OK);
                    for (int k = 0; k < count; ++k) {
                        const double truth = residual(lattice, links, mass, fields[k], all.solution(k));
                        CAPTURE(k, truth, all.reports[k].true_residual, all.reports[k].steps, all.reports[k].message);
                        CHECK(truth < tolerance);
                        CHECK(std::fabs(all.reports[k].true_residual - truth) <= times_measured * 4e-16);
                        if (k == 0)
                            WARN(count << " " << sloppy << " " << together << ": " << all.reports[k].steps << " "
                                       << alone.reports[0].steps << " updates " << all.reports[k].reliable_updates);
                    }
                }
    }
}
