// Promises of the headers that no other file of tests checks.
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_flow.h"
#include "milc_glue/api/milcgpu_md.h"
#include "tests/cut_support.h"
#include "tests/handles.h"
#include "tests/support.h"
#include <cstring>

using namespace tests;
using milcgpu::Backend;

namespace {

// Links and sources of a small lattice.
struct Small {
    reference::Lattice lattice{{4, 4, 2, 4}};
    Session<double> session;
    std::vector<std::vector<double>> sources, solutions;

    explicit Small(Backend backend) : session(lattice, backend, 0, 0) {
        const AsqtadLinks links = asqtad_links(lattice, 5);
        REQUIRE(session.load(links.fat, links.lng) == MILCGPU_OK);
        for (int k = 0; k < 2; ++k)
            sources.push_back(reference::vector_to_milc<double>(lattice, random_fermion(lattice, 6 + k)));
        solutions.assign(2, std::vector<double>(sources[0].size(), 0));
    }
};

} // namespace

TEST_CASE("milcgpu.h: names of statuses, the residual of zeros, the product of limits, a short table",
          "[errors][smoke]") {
    CHECK(std::string(milcgpu_status_name(MILCGPU_NO_MEMORY)) == "NO_MEMORY");
    for (const int none : {-1, MILCGPU_TIMED_OUT + 1})
        CHECK(std::string(milcgpu_status_name(none)) == "UNKNOWN");
    for (const Backend backend : backends()) {
        Small small(backend);
        const milcgpu_field b = small.session.field(small.sources[0]), zero = small.session.field(small.solutions[0]);
        double residual = -1;
        REQUIRE(milcgpu_staggered_residual(small.session.links, MILCGPU_EVEN, 0.1, &zero, &zero, &residual) ==
                MILCGPU_OK);
        CHECK(residual == 0);
        REQUIRE(milcgpu_staggered_residual(small.session.links, MILCGPU_EVEN, 0.1, &zero, &b, &residual) == MILCGPU_OK);
        CHECK(std::isinf(residual));
        auto spec = solve_spec(0.1, 1e-8, MILCGPU_DOUBLE, MILCGPU_DOUBLE);
        spec.max_iterations = 1000000, spec.max_restarts = 2001;
        CHECK(milcgpu_staggered_solve(small.session.links, &spec, &b, &zero, nullptr) == MILCGPU_BAD_ARGUMENT);
        CHECK(has(milcgpu_last_error(), "2e9"));
        spec.max_restarts = 5;
        char whole[2000], cut[16];
        std::memset(cut, '#', sizeof cut);
        size_t bytes = 0, again = 0;
        const auto plan = [&](char *text, size_t size, size_t *total) {
            return milcgpu_memory_plan(small.session.context, MILCGPU_DOUBLE, &spec, text, size, total);
        };
        REQUIRE(plan(whole, sizeof whole, &bytes) == MILCGPU_OK);
        REQUIRE(plan(cut, 8, &again) == MILCGPU_OK);
        CHECK(std::string(cut) == std::string(whole).substr(0, 7));
        CHECK(cut[8] == '#');
        CHECK(again == bytes);
        CHECK(plan(nullptr, 0, &again) == MILCGPU_OK);
        CHECK(plan(whole, sizeof whole, nullptr) == MILCGPU_OK);
    }
}

TEST_CASE("milcgpu.h: several sources together report no jump of the residual", "[errors][smoke]") {
    for (const Backend backend : backends()) {
        Small small(backend);
        auto spec = solve_spec(0.1, 1e-8, MILCGPU_DOUBLE, MILCGPU_SINGLE);
        std::vector<milcgpu_field> from, to;
        for (int k = 0; k < 2; ++k)
            from.push_back(small.session.field(small.sources[k])),
                to.push_back(small.session.field(small.solutions[k]));
        std::vector<milcgpu_solve_report> reports(2, sized<milcgpu_solve_report>());
        REQUIRE(milcgpu_staggered_solve_sources(small.session.links, &spec, MILCGPU_BLOCK, 2, from.data(), to.data(),
                                                reports.data()) == MILCGPU_OK);
        CHECK((reports[0].largest_jump == 0 && reports[1].largest_jump == 0));
    }
}

TEST_CASE("milcgpu_md.h: refused sweeps and copies do not change links and counts of numbers", "[errors][md]") {
    for (const Backend backend : backends()) {
        const reference::Lattice lattice{{4, 2, 2, 4}};
        Session<double> session(lattice, backend, 0, 0);
        const GaugeHandle gauge(session.context, MILCGPU_DOUBLE);
        const GaugeHandle empty(session.context, MILCGPU_DOUBLE);
        auto field = reference::near_unit_gauge(lattice, 0.3, 7);
        reference::apply_phases(lattice, field);
        std::vector<double> with_phases = reference::links_to_milc<double>(lattice, field), kept(with_phases.size());
        const milcgpu_field links = session.field(with_phases), back = session.field(kept);
        REQUIRE(milcgpu_gauge_load(gauge, &links, 0) == MILCGPU_OK);
        const uint64_t version = milcgpu_gauge_version(gauge);
        const std::vector<uint32_t> words(15 * lattice.volume(), 1);
        std::vector<uint32_t> drawn(lattice.volume(), 77);
        CHECK(milcgpu_gauge_heat_bath(gauge, 5.7, 1, words.data(), drawn.data()) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_gauge_overrelax(gauge, 1) == MILCGPU_BAD_ARGUMENT);
        CHECK(milcgpu_gauge_copy(empty, gauge) == MILCGPU_BAD_ARGUMENT);
        CHECK(drawn == std::vector<uint32_t>(lattice.volume(), 77));
        CHECK(milcgpu_gauge_version(gauge) == version);
        REQUIRE(milcgpu_gauge_save(gauge, &back) == MILCGPU_OK);
        CHECK(kept == with_phases);
    }
}

TEST_CASE("milcgpu_md.h: in a cut direction, a loop may extend over two sites; three are NOT_BUILT",
          "[errors][md][cut]") {
    for (const Backend backend : backends()) {
        const reference::Lattice lattice{{4, 4, 2, 8}};
        auto layout = layout_of(lattice);
        layout.emulate = 8; // t
        const Context context(layout, backend);
        const GaugeHandle gauge(context, MILCGPU_DOUBLE);
        std::vector<double> links =
            reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.3, 9));
        const milcgpu_field field{links.data(), MILCGPU_DOUBLE, 0};
        REQUIRE(milcgpu_gauge_load(gauge, &field, 0) == MILCGPU_OK);
        const int of_two[] = {3, 3, 0, 4, 4, 7}, of_three[] = {3, 3, 3, 0, 4, 4, 4, 7}, lengths[] = {6, 8};
        double trace[2] = {5, 5};
        CHECK(milcgpu_gauge_loop_traces(gauge, MILCGPU_SIGNS_OUT, 1, &lengths[1], of_three, trace) ==
              MILCGPU_NOT_BUILT);
        CHECK((trace[0] == 5 && trace[1] == 5));
        CHECK(milcgpu_gauge_loop_traces(gauge, MILCGPU_SIGNS_OUT, 1, &lengths[0], of_two, trace) == MILCGPU_OK);
        CHECK(trace[0] < 3);
    }
}

namespace {

// The status of call() if the nth step `what` on the device fails.
template <class Call>
milcgpu_status failing_at(Session<double> &session, const std::string &what, int nth, const Call &call) {
    milcgpu::Device &device = *session.context->device;
    device.set_observer([&](const char *next) {
        if (has(next, what) && --nth == 0)
            throw milcgpu::Error(milcgpu::Status::timed_out, "a wait has no end");
    });
    const milcgpu_status status = call();
    device.set_observer({});
    CHECK(nth <= 0);
    return status;
}

} // namespace

TEST_CASE("milcgpu_md.h: a sweep that fails leaves the links empty, and no counts of numbers", "[errors][md]") {
    for (const Backend backend : backends()) {
        const reference::Lattice lattice{{4, 2, 2, 4}};
        Session<double> session(lattice, backend, 0, 0);
        const GaugeHandle gauge(session.context, MILCGPU_DOUBLE);
        std::vector<double> values =
                                reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.3, 7)),
                            kept(values.size(), 5);
        const milcgpu_field links = session.field(values), back = session.field(kept);
        const std::vector<uint32_t> words(15 * lattice.volume(), 1);
        std::vector<uint32_t> drawn(lattice.volume(), 77);
        const auto heat = [&] { return milcgpu_gauge_heat_bath(gauge, 5.7, 2, words.data(), drawn.data()); };
        const auto relax = [&] { return milcgpu_gauge_overrelax(gauge, 2); };
        for (const int nth : {1, 9}) // in the first sweep, in the second
            for (const bool draws : {true, false}) {
                CAPTURE(milcgpu::name(backend), nth, draws);
                REQUIRE(milcgpu_gauge_load(gauge, &links, 0) == MILCGPU_OK);
                const std::string what = draws ? "heat bath" : "over-relaxation";
                CHECK((draws ? failing_at(session, what, nth, heat) : failing_at(session, what, nth, relax)) ==
                      MILCGPU_TIMED_OUT);
                CHECK(milcgpu_gauge_version(gauge) == 0);
                CHECK(milcgpu_gauge_save(gauge, &back) == MILCGPU_BAD_ARGUMENT);
                CHECK(kept == std::vector<double>(kept.size(), 5));
                CHECK(drawn == std::vector<uint32_t>(lattice.volume(), 77));
            }
    }
}

TEST_CASE("milcgpu_md.h: sweeps on several ranks are NOT_BUILT, and links stay", "[errors][md][ranks]") {
    const Cut cut{{4, 4, 2, 8}, {1, 1, 1, 2}, 0};
    CHECK(all_well(on_cut(fields_on(cut.whole, false), cut, Backend::host, [](Here &here, Ending &) {
        milcgpu_gauge *gauge = nullptr;
        demand(milcgpu_gauge_create(here.context, MILCGPU_DOUBLE, &gauge));
        const milcgpu_field links = field_of(here.fat);
        demand(milcgpu_gauge_load(gauge, &links, -1)); // fat links
        const uint64_t version = milcgpu_gauge_version(gauge);
        const std::vector<uint32_t> words(15 * here.source.size() / 6, 1);
        std::vector<uint32_t> drawn(here.source.size() / 6, 77);
        if (milcgpu_gauge_overrelax(gauge, 1) != MILCGPU_NOT_BUILT ||
            milcgpu_gauge_heat_bath(gauge, 5.7, 1, words.data(), drawn.data()) != MILCGPU_NOT_BUILT ||
            milcgpu_gauge_version(gauge) != version || drawn[0] != 77)
            throw milcgpu::Error(milcgpu::Status::comm, "not as promised");
        milcgpu_gauge_destroy(gauge);
    })));
}

TEST_CASE("milcgpu_md.h: a load of a vector that fails leaves its part empty", "[errors][md]") {
    for (const Backend backend : backends()) {
        Small small(backend);
        const VectorsHandle vectors(small.session.context, MILCGPU_DOUBLE, 1);
        const milcgpu_field b = small.session.field(small.sources[0]), to = small.session.field(small.solutions[0]);
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            REQUIRE(milcgpu_vectors_load(vectors, 0, parity, &b) == MILCGPU_OK);
        CHECK(failing_at(small.session, "copy to the device", 1,
                         [&] { return milcgpu_vectors_load(vectors, 0, MILCGPU_EVEN, &b); }) == MILCGPU_TIMED_OUT);
        CHECK(milcgpu_vectors_save(vectors, 0, MILCGPU_EVEN, &to) == MILCGPU_BAD_ARGUMENT);
        CHECK(small.solutions[0] == std::vector<double>(small.solutions[0].size(), 0));
        CHECK(milcgpu_vectors_save(vectors, 0, MILCGPU_ODD, &to) == MILCGPU_OK);
    }
}

TEST_CASE("milcgpu_flow.h: as_milc adds the step that rounding makes, and changes only the last bits", "[gauge]") {
    const reference::Lattice lattice{{4, 4, 2, 4}};
    for (const Backend backend : backends()) {
        Session<double> session(lattice, backend, 0, 0);
        const GaugeHandle gauge(session.context, MILCGPU_DOUBLE);
        std::vector<double> values =
                                reference::links_to_milc<double>(lattice, reference::near_unit_gauge(lattice, 0.3, 7)),
                            end[2];
        int steps[2];
        for (const int as_milc : {0, 1}) {
            const milcgpu_field links = session.field(values);
            REQUIRE(milcgpu_gauge_load(gauge, &links, 0) == MILCGPU_OK);
            auto spec = filled(milcgpu_flow_defaults);
            spec.step = 0.1, spec.stop = 0.8; // eight times 0.1 is less than 0.8
            spec.as_milc = as_milc, spec.signs = MILCGPU_SIGNS_OUT;
            auto report = sized<milcgpu_flow_report>();
            REQUIRE(milcgpu_gauge_flow(gauge, &spec, nullptr, nullptr, &report) == MILCGPU_OK);
            steps[as_milc] = report.last.steps;
            end[as_milc].resize(values.size());
            const milcgpu_field back = session.field(end[as_milc]);
            REQUIRE(milcgpu_gauge_save(gauge, &back) == MILCGPU_OK);
        }
        CHECK((steps[0] == 8 && steps[1] == 9));
        double largest = 0;
        for (size_t k = 0; k < values.size(); ++k)
            largest = std::fmax(largest, std::fabs(end[0][k] - end[1][k]));
        CAPTURE(milcgpu::name(backend), largest);
        CHECK(largest < times_measured * 1e-16);
    }
}
