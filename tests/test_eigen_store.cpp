// Eigenvectors that the plugin keeps for links by their content (milc_glue/plugin/eigen_store.h), where memory is
// short and where they are refused.
#include "milc_glue/api/context.h"
#include "tests/plugin_support.h"

using namespace tests;

namespace {

milcgpu_plugin_eigenvectors some(int count) {
    milcgpu_plugin_eigenvectors wanted{};
    wanted.count = count;
    wanted.precision = MILCGPU_HALF;
    return wanted;
}

struct Deflated {
    Milc &milc;
    milcgpu_plugin_eigenvectors wanted = some(48);
    std::string said;
    int deflations = 0, iterations = 0;

    explicit Deflated(Milc &of) : milc(of) {}
    // wants: they are made; else taken if they are there.
    bool solve(bool wants, int parity = MILCGPU_EVEN) {
        milcgpu_plugin_solve_call call = milc.call();
        call.mass = 0.02;
        call.parity = parity;
        call.max_iterations = 5000;
        call.deflate = MILCGPU_DEFLATED_BY_KEPT;
        call.eigenvectors = wants ? &wanted : nullptr;
        milc.x.assign(milc.x.size(), 0);
        int done = 0;
        said = said_by([&] { done = milcgpu_plugin_solve(&call, &milc.report); });
        deflations = milc.report.deflations, iterations = milc.report.iterations;
        return done != 0 && milc.report.status == MILCGPU_OK && milc.report.true_residual < call.tolerance;
    }
    bool says(const char *words) const { return has(said, words); }
};

} // namespace

TEST_CASE("eigenvectors that are kept go for those of other links where memory is short", "[plugin][eigen]") {
    for (const Backend backend : backends()) {
        const Environment environment{{"MILCGPU_BACKEND", backend_name(backend)}, {"MILCGPU_VERBOSE", "1"}};
        Milc milc;
        std::string started = said_by([&] { REQUIRE(milc.start() == 1); });
        Device &device = *plugin().context->device;
        Deflated of(milc);
        CAPTURE(backend_name(backend));

        CHECK(of.solve(false));
        CHECK(of.deflations == 0);
        const int plain = of.iterations;
        CHECK(of.solve(true));
        CAPTURE(of.said, plain, of.iterations);
        CHECK(of.says("48 eigenvectors on even sites"));
        CHECK(of.deflations > 1);
        CHECK(of.iterations < plain);
        CHECK(of.solve(false)); // they are there
        CHECK(of.deflations > 1);

        // Other links: the first ones' vectors are in the way.
        const std::vector<double> first = milc.fat;
        const double edit = milc.fat[0];
        milc.fat[0] = edit + 0.1;
        device.set_memory_limit(device.used_bytes() + device.used_bytes() / 8);
        CHECK(of.solve(true));
        CAPTURE(of.said);
        CHECK(of.says("without eigenvectors of other links"));
        device.set_memory_limit(0);
        CHECK(of.solve(true));
        milc.fat = first;
        CHECK(of.solve(false));
        CHECK(of.deflations == 0);
        milcgpu_plugin_eigenvectors_drop();

        // Not even the links' own fit: the solve goes on without, and they are not tried again.
        device.set_memory_limit(device.used_bytes() + 4096);
        CHECK(of.solve(true));
        CHECK(of.says("ks_eigensolve"));
        CHECK(of.deflations == 0);
        device.set_memory_limit(0);
        CHECK(of.solve(true));
        CHECK_FALSE(of.says("ks_eigensolve"));
        CHECK(of.deflations == 0);
        milcgpu_plugin_eigenvectors_drop();
        CHECK(of.solve(true));
        CHECK(of.deflations > 1);
    }
}
