// Plans of memory against the memory that solves of staggered fermions use. Other plans: test_laplace.cpp,
// test_wilson_sources.cpp, test_eigen.cpp, test_eigen_calls.cpp.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/lane_links.h"
#include "milc_glue/api/context.h"
#include "milc_glue/solve/memory_plan.h"
#include "milc_glue/solve/solve_arguments.h"
#include "tests/support.h"

using namespace tests;
using milcgpu::Backend;
using milcgpu::Device;
using milcgpu::OperatorSpec;
using milcgpu::Precision;

namespace {

struct Solve {
    milcgpu_solve_spec spec;
    milcgpu_multi_mass_spec masses;
    std::vector<milcgpu_pole> poles;
    std::vector<std::vector<double>> from, to;
    std::vector<milcgpu_field> sources, solutions;
    char text[2000] = "";
    size_t planned = 0;

    Solve(const reference::Lattice &lattice, int precise, int sloppy, int reals) {
        const double tolerance = precise == MILCGPU_DOUBLE ? 1e-10 : 1e-2;
        spec = solve_spec(0.5, tolerance, precise, sloppy);
        spec.sloppy.reconstruct = sloppy == MILCGPU_DOUBLE ? 0 : reals;
        masses = sized<milcgpu_multi_mass_spec>();
        masses.parity = MILCGPU_EVEN;
        masses.max_iterations = 4000, masses.max_restarts = 10;
        masses.shared.precision = precise, masses.sloppy.precision = sloppy;
        for (int k = 0; k < 5; ++k) {
            poles.push_back({0.02 * (k + 1), 1e-8, 0});
            from.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 82 + k)));
            to.emplace_back(from[k].size());
            sources.push_back(Session<double>::field(from[k])), solutions.push_back(Session<double>::field(to[k]));
        }
        masses.n_shifts = 5, masses.shifts = poles.data();
    }
};

// A kind of solve: its plan, and itself.
struct Kind {
    const char *name;
    std::function<milcgpu_status(Solve &, milcgpu_context *)> plan;
    std::function<milcgpu_status(Solve &, milcgpu_links *)> run;
};

Kind of_sources(const char *name, int together) {
    return {name,
            [=](Solve &s, milcgpu_context *context) {
                return milcgpu_sources_plan(context, MILCGPU_DOUBLE, &s.spec, together, 5, s.text, sizeof s.text,
                                            &s.planned);
            },
            [=](Solve &s, milcgpu_links *links) {
                return milcgpu_staggered_solve_sources(links, &s.spec, together, 5, s.sources.data(),
                                                       s.solutions.data(), nullptr);
            }};
}

const Kind kinds[] = {
    {"one source",
     [](Solve &s, milcgpu_context *context) {
         return milcgpu_memory_plan(context, MILCGPU_DOUBLE, &s.spec, s.text, sizeof s.text, &s.planned);
     },
     [](Solve &s, milcgpu_links *links) {
         return milcgpu_staggered_solve(links, &s.spec, s.sources.data(), s.solutions.data(), nullptr);
     }},
    of_sources("sources in a block", MILCGPU_BLOCK),
    of_sources("sources one by one", MILCGPU_ONE_BY_ONE),
    {"several masses",
     [](Solve &s, milcgpu_context *context) {
         return milcgpu_multi_mass_plan(context, MILCGPU_DOUBLE, &s.masses, s.text, sizeof s.text, &s.planned);
     },
     [](Solve &s, milcgpu_links *links) {
         return milcgpu_staggered_multi_mass(links, &s.masses, s.sources.data(), s.solutions.data(), nullptr);
     }},
};

void check_plans(const reference::Lattice &lattice, int reals) {
    const AsqtadLinks links = asqtad_links(lattice, 81);
    const size_t raw = Device::allocated_bytes(sizeof(double) * 72 * lattice.volume()); // only while links are loaded
    for (const Backend backend : backends())
        for (int precise = MILCGPU_DOUBLE; precise <= MILCGPU_HALF; ++precise)
            for (int sloppy = precise; sloppy <= MILCGPU_HALF; ++sloppy)
                for (const Kind &kind : kinds) {
                    CAPTURE(name(backend), precise, sloppy, kind.name);
                    Session<double> session(lattice, backend, 0, 0);
                    const Device &device = *session.context->device;
                    Solve solve(lattice, precise, sloppy, reals);
                    REQUIRE(kind.plan(solve, session.context) == MILCGPU_OK);
                    const std::string text = solve.text;
                    const int finest = std::string(kind.name) == "several masses" ? MILCGPU_DOUBLE : precise;
                    const bool several_sites =
                        milcgpu::LaneLinks::fit(session.context->geometry, milcgpu::Precision::double_);
                    CHECK(has(text, "packed links") == (sloppy != MILCGPU_DOUBLE || several_sites));
                    CHECK(has(text, "precision") == (sloppy != finest));
                    for (const double scale : {1.0, 1.01}) {
                        reference::Gauge fat = links.fat;
                        fat[0].e[0][0] *= scale;
                        REQUIRE(session.load(fat, links.lng) == MILCGPU_OK);
                        CAPTURE(milcgpu_last_error());
                        REQUIRE(kind.run(solve, session.links) == MILCGPU_OK);
                        CHECK(device.used_bytes() == solve.planned - raw);
                    }
                    CHECK(device.peak_bytes() <= solve.planned + 2048); // sums over the links
                }
}

} // namespace

TEST_CASE("a solve uses the memory of its plan, also if links are loaded again between two solves", "[plans][api]") {
    check_plans({{4, 4, 6, 8}}, 9);
    check_plans({{16, 2, 2, 4}}, 18); // on the host several sites at once, with links of their own
}

TEST_CASE("plans of memory do not overflow up to the largest lattice", "[plans]") {
    // Bytes a site: links 2 * 4 * 18 reals, as many again for the raw copy of one of the two; 15 vectors a parity.
    // Links of several sites: 16 links and the indices of 16 neighbours.
    for (const std::array<int, 4> &n : {std::array<int, 4>{64, 64, 64, 128}, {1000, 1000, 500, 1}}) {
        const double sites = double(n[0]) * n[1] * n[2] * n[3];
        const OperatorSpec in_double{Precision::double_, Precision::double_, 18};
        const milcgpu::MemoryPlan plan =
            milcgpu::solve_plan(milcgpu::Geometry(n), Precision::double_, {0, in_double, in_double, {}});
        CHECK(plan.links == Approx(sites * 2 * 72 * 8).epsilon(1e-6));
        CHECK(plan.raw == Approx(sites * 72 * 8).epsilon(1e-6));
        CHECK(plan.vectors == Approx(sites / 2 * 15 * 48).epsilon(1e-2));
        CHECK(plan.packed == Approx(MILCGPU_LANES ? 2 * plan.links + sites * 16 * 4 : 0).epsilon(1e-6));
        CHECK(plan.total() == plan.links + plan.raw + plan.packed + plan.vectors);
        const std::string table = milcgpu::table_of(plan, 0);
        CHECK(has(table, "packed") == (plan.packed > 0));
        CHECK(has(table, milcgpu::format("%10.1f MiB  raw copy", plan.raw / 1048576.0)));
    }
}

TEST_CASE("a device that only counts adds up allocations, and a launch throws", "[plans]") {
    Device device{Device::CountsOnly()};
    {
        const milcgpu::Geometry geometry({64, 64, 64, 128});
        const milcgpu::SpinorField x(device, Precision::double_, geometry, 0, "vectors", 2000);
        milcgpu::DeviceArray<double> sum(device, 1, "sums");
        device.copy_to_device(sum.data(), &geometry, sizeof(double));
        CHECK(device.used_bytes() == milcgpu::SpinorField::allocated_bytes(Precision::double_, geometry, 2000) + 512);
        CHECK_THROWS_AS(milcgpu::norm_squared(device, x, sum.data()), milcgpu::Error);
        CHECK_THROWS_AS(sum.to_host(), milcgpu::Error);
    }
    CHECK(device.used_bytes() == 0);
    CHECK(device.peak_bytes() > size_t(1) << 40);
}
