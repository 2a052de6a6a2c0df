// MILC's programs without fermions, with the glue in them: gradient flow, HYP smearing, pure gauge.
#include "tests/milc_build_support.h"
#include "tests/reference/flow.h"
#include "tests/reference/gauge_fix.h"
#include "tests/reference/gauge_force.h"
#include <sstream>

using namespace tests::milc_build;
using tests::Folder;
using tests::source_tree;

namespace {

struct FlowProgram : LinksProgram {
    explicit FlowProgram(const std::string &integrator) {
        copy("flow", program.path);
        build_served(program.path, "DEFINES=-DGF_INTEGRATOR=INTEGRATOR_" + integrator, "wilson_flow");
    }
};

struct PureGauge : LinksProgram {
    PureGauge(const std::string &defines, const std::string &target) {
        const fs::path from = source_tree() / "tests/milc_host/pure_gauge", folder = program.path / "pure_gauge";
        copy("pure_gauge", folder);
        for (const char *headers : {"generic", "include"})
            fs::copy(from / headers, program.path / headers);
        build_served(folder, defines, target);
    }
};

// The numbers of all lines that begin with `first`.
std::vector<std::vector<double>> lines(const Run &r, const std::string &first) {
    std::vector<std::vector<double>> found;
    std::istringstream text(r.output);
    for (std::string line; std::getline(text, line);)
        if (line.rfind(first, 0) == 0) {
            found.emplace_back();
            std::istringstream numbers(line.substr(first.size()));
            for (double x; numbers >> x;)
                found.back().push_back(x);
        }
    return found;
}

double differs(const std::vector<double> &line, double time, const reference::FlowObservables &o) {
    const std::vector<double> wanted = {time,          o.clover_t,    o.clover_s,    o.plaquette_t,
                                        o.plaquette_s, o.rectangle_t, o.rectangle_s, o.charge};
    REQUIRE(line.size() == wanted.size());
    double most = 0;
    for (size_t k = 0; k < wanted.size(); ++k)
        most = tests::worse(most, std::abs(line[k] - wanted[k]));
    return most;
}

} // namespace

TEST_CASE("milc_build: the gradient flow of MILC's program has its lines and its links", "[milc][measurements]") {
    const FlowProgram p("LUSCHER");
    // Two steps of 0.04 and the rest; the library's last step ends where MILC's does.
    // Parameters: action, exp_order, stepsize, stoptime, local_tol.
    const Run r = succeeded(p.on_links("MILCGPU_VERBOSE=1", "0 16 0.04 0.1 0"));
    reference::Gauge u = p.links;
    const auto printed = lines(r, "GFLOW:");
    REQUIRE(printed.size() == 5);
    const double steps[] = {0, 0.04, 0.04, 0.1 - 0.08};
    double time = 0;
    for (int k = 0; k < 4; ++k) {
        if (k > 0)
            u = reference::luescher_step(p.lattice, u, reference::wilson_flow(), steps[k]);
        time += steps[k];
        CHECK(differs(printed[k], time, reference::flow_observables(p.lattice, u)) < 1e-13);
    }
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
    CHECK(differs(printed[4], 0, reference::flow_observables(p.lattice, u)) < 1e-13); // a flow without a step
    CHECK(r.says("#LABEL time Clover_t Clover_s Plaq_t Plaq_s Rect_t Rect_s charge\nGFLOW: 0 "));
    CHECK(r.says("Number of steps = 3\nglobals: 3 steps, 0 rejected, last step 0.02\n"));
    CHECK(r.says("Number of steps = 0\n"));
    CHECK_FALSE(r.says("rejected steps"));
    CHECK_FALSE(r.says("ADAPT"));
    CHECK_FALSE(r.says("MILC's own flow"));
    // Tables without the routines of staggered fermions.
    CHECK(r.says("MILC 7, wilson_flow, sizeof(site) "));
    CHECK(r.says("milcgpu: run_gradient_flow        double        host"));
    CHECK_FALSE(r.says("ks_congrad"));
    CHECK(lines(r, "milcgpu: run_gradient_flow ").back().front() == 2); // calls in the table at exit
    // MILC's loop: ten steps of 0.1 do not add up to 1, so there is an eleventh step of length 0.
    const Run exact = p.on_links("MILCGPU_VERBOSE=0", "1 8 0.1 1 0");
    CHECK(exact.says("Number of steps = 11\n"));
    CHECK(lines(exact, "GFLOW:").size() == 13);
    // Steps at which the action rises: like MILC, with a line.
    const Run long_steps = p.on_links("MILCGPU_VERBOSE=0", "0 8 0.25 6 0");
    CHECK(long_steps.says("Number of steps = 24\n"));
    CHECK(long_steps.says("milcgpu: run_gradient_flow: spec.step is 0.25"));
    CHECK_FALSE(long_steps.says("MILC's own flow"));
    // MILC's own runs, by request or because the library cannot.
    for (const auto &[environment, parameters] : {std::pair("MILCGPU_OFF=1", "0 8 0.04 0.1 0"),
                                                  {"MILCGPU_VERBOSE=0", "0 0 0.04 0.1 0"},
                                                  {"MILCGPU_VERBOSE=0", "0 17 0.04 0.1 0"},
                                                  {"MILCGPU_VERBOSE=0", "0 8 -1 0.1 0"}}) {
        const Run own = succeeded(p.on_links(environment, parameters));
        CHECK(own.says("MILC's own flow: step "));
        CHECK_FALSE(own.says("#LABEL"));
        CHECK(reference::relative_difference(p.made(), p.links) == 0);
    }
    // Compared with a flow that does nothing; the device's links stay.
    const Run compared = p.on_links("MILCGPU_COMPARE=1", "0 16 0.04 0.1 0");
    CHECK(compared.says("MILC's own flow: step 0.04 stop 0.1"));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(compared.says("last step 0.02"));
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
    CHECK(p.on_links("MILCGPU_COMPARE=strict", "0 16 0.04 0.1 0").status != 0);
}

TEST_CASE("milc_build: the gradient flow of a wilson_flow that calls its steps one by one is right",
          "[milc][measurements]") {
    LONG_TEST;
    const PureGauge p("FLOW=1", "wilson_flow");
    const Run r = succeeded(p.on_links("MILCGPU_VERBOSE=1", "0 16 0.04"));
    CHECK_FALSE(r.says("MILC's own step"));
    CHECK(lines(r, "milcgpu: run_gradient_flow ").back().front() == 5); // calls in the table at exit
    const auto printed = lines(r, "WFLOW");
    REQUIRE(printed.size() == 3);
    reference::Gauge u = p.links;
    for (int k = 0; k < 3; ++k) {
        if (k > 0)
            u = reference::luescher_step(p.lattice, u, reference::wilson_flow(), 0.04);
        const reference::FlowObservables o = reference::flow_observables(p.lattice, u);
        CHECK(printed[k][1] == Approx(o.clover_t).epsilon(1e-12));
        CHECK(printed[k][2] == Approx(o.clover_s).epsilon(1e-12));
        CHECK(std::abs(printed[k][3] - o.charge) < 1e-12);
    }
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
    for (const char *environment : {"MILCGPU_OFF=1", "MILCGPU_VERBOSE=0"}) {
        const bool off = std::string(environment) == "MILCGPU_OFF=1";
        const Run own = p.on_links(environment, off ? "0 8 0.04" : "1 0 0.04"); // the library has no order 0
        CHECK(own.says("MILC's own step"));
        CHECK(reference::relative_difference(p.made(), p.links) == 0);
    }
    // Compare mode finds that MILC's own flow does nothing; the device's links stay.
    const Run compared = p.on_links("MILCGPU_COMPARE=1", "0 16 0.04");
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(reference::relative_difference(p.made(), u) < 1e-14);
}

TEST_CASE("milc_build: MILC's adaptive flow has its lines of steps", "[milc][measurements]") {
    LONG_TEST;
    const FlowProgram p("ADAPT_BS");
    const Run r = succeeded(p.on_links("MILCGPU_VERBOSE=0", "1 8 0.3 0.5 1e-4"));
    const auto flow = lines(r, "GFLOW:"), adapt = lines(r, "ADAPT:");
    REQUIRE(adapt.size() == flow.size());
    REQUIRE(adapt.size() >= 4);
    CHECK(r.says("#LABEL2 time stepsize distance local_tol/distance\nGFLOW: 0 "));
    CHECK(adapt[0] == std::vector<double>{0, 0.3, 0, 0});
    double time = 0;
    const size_t end = adapt.size() - 1; // the flow without a step
    for (size_t k = 1; k < end; ++k) {
        time += adapt[k][1];
        CHECK(flow[k][0] == Approx(time).epsilon(1e-13));
        CHECK(adapt[k][3] == Approx(1e-4 / adapt[k][2]).epsilon(1e-12));
        if (k + 1 < end)
            CHECK(adapt[k][2] <= 1e-4);
    }
    CHECK(time == Approx(0.5).epsilon(1e-14));
    const int rejected = static_cast<int>(lines(r, "Number of rejected steps =")[0][0]);
    CHECK(rejected > 0);
    CHECK(r.says("globals: " + std::to_string(end - 1) + " steps, " + std::to_string(rejected) + " rejected"));
}

TEST_CASE("milc_build: HYP smearing of MILC's program is right, in space and in all directions",
          "[milc][measurements]") {
    LinksProgram p; // parameters: direction left out (-1: none), projection (2: by hits), hits, weights
    p.build_served(p.copy_hyp(), "DEFINES=-DHYP_3D_SMEARING", "su3_hqp_hyp");
    for (const bool in_space : {true, false}) {
        const Run r =
            succeeded(p.on_links("MILCGPU_VERBOSE=1", std::string(in_space ? "3" : "-1") + " 2 9 0.75 0.6 0.3"));
        CHECK(reference::relative_difference(
                  p.made(), reference::hyp_smear(p.lattice, p.links, {0.75, 0.6, 0.3}, in_space, 9)) < 1e-14);
        CHECK_FALSE(r.says("MILC's own smearing"));
        CHECK(r.says("MILC 7, hvy_qpot, sizeof(site) "));
        CHECK(r.says("milcgpu: load_hyp_links           double        host"));
        CHECK_FALSE(r.says("ks_congrad"));
        CHECK(lines(r, "milcgpu: load_hyp_links ").back().front() == 1); // calls in the table at exit
    }
    // MILC's own runs, by request or because the library does something else.
    for (const auto &[environment, parameters] : {std::pair("MILCGPU_OFF=1", "3 2 9 0.75 0.6 0.3"),
                                                  {"MILCGPU_VERBOSE=0", "0 2 9 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 1 9 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 2 0 0.75 0.6 0.3"},
                                                  {"MILCGPU_VERBOSE=0", "3 2 9 0.75 1.6 0.3"}}) {
        const Run own = succeeded(p.on_links(environment, parameters));
        CHECK(own.says("MILC's own smearing"));
        CHECK(reference::relative_difference(p.made(), p.links) == 0);
    }
    // Compared with a smearing that does nothing; the device's links stay.
    const Run compared = p.on_links("MILCGPU_COMPARE=1", "3 2 9 0 0.6 0.3");
    CHECK(compared.says("MILC's own smearing: without 3, alpha2 0.6"));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(reference::relative_difference(p.made(), p.links) > 0.01);
    CHECK(p.on_links("MILCGPU_COMPARE=strict", "3 2 9 0 0.6 0.3").status != 0);
}

TEST_CASE("milc_build: over-relaxation and heat bath of MILC's pure gauge program use MILC's random numbers",
          "[milc][heatbath]") {
    LONG_TEST;
    const PureGauge p("SWEEPS=1", "su3_ora");
    const auto runs = [&](const std::string &environment) { return succeeded(p.on_links(environment, "update")); };
    const Run own = runs("MILCGPU_OFF=1");
    CHECK(own.says("MILC's own relax\nMILC's own monte\n"));
    const reference::Gauge wanted = p.made();
    CHECK(reference::relative_difference(wanted, p.links) > 0.1);
    for (const char *environment : {"MILCGPU_VERBOSE=1", "MILCGPU_AUTO=0", "MILCGPU_TEST=nan"}) {
        const Run r = runs(environment);
        CHECK_FALSE(r.says("MILC's own relax"));
        CHECK_FALSE(r.says("MILC's own monte\n"));
        CHECK(reference::relative_difference(p.made(), wanted) < 1e-13);
        CHECK(lines(r, "generators: ") == lines(own, "generators: "));
    }
    const Run compared = runs("MILCGPU_COMPARE=strict");
    CHECK(compared.says("compare relax: links"));
    CHECK(compared.says("compare monte: links"));
    CHECK(lines(compared, "generators: ") == lines(own, "generators: "));
}

TEST_CASE("milc_build: molecular dynamics and gauge fixing of MILC's pure gauge program are right",
          "[milc][measurements]") {
    const PureGauge p("", "su3_hmc");
    // Momenta are 0.1 i n times diag(1, -1, 0) with the number n of the direction; the step is 0.1.
    reference::Gauge momenta(p.links.size());
    for (size_t k = 0; k < momenta.size(); ++k) {
        momenta[k].e[0][0] = {0, 0.1 * double(k % 4 + 1)};
        momenta[k].e[1][1] = -momenta[k].e[0][0];
    }
    const auto plaquettes = std::vector<reference::Loops>{{1, reference::plaquettes()}};
    reference::Gauge moved = reference::update_links(p.links, momenta, 0.05, 6);
    momenta = reference::add_gauge_force(p.lattice, moved, plaquettes, 0.1 * 5.7 / 3, momenta);
    moved = reference::update_links(moved, momenta, 0.05, 6);
    for (reference::Matrix &link : moved)
        link = reference::reunitarize(link);
    for (const char *environment : {"MILCGPU_VERBOSE=1", "MILCGPU_AUTO=0", "MILCGPU_TEST=nan"}) {
        const Run r = succeeded(p.on_links(environment, "update"));
        CHECK(reference::relative_difference(p.made(), moved) < 1e-14);
        CHECK_FALSE(r.says("MILC's own "));
        const auto actions = lines(r, "ACTION: g,h = ");
        REQUIRE(actions.size() == 2);
        const double three_planes = reference::plaquette_parts(p.lattice, p.links).space_space +
                                    reference::plaquette_parts(p.lattice, p.links).space_time;
        CHECK(actions[0][0] == Approx(-5.7 * p.lattice.volume() * 3 * three_planes).epsilon(1e-6));
        CHECK(actions[0][1] == Approx(p.lattice.volume() * 0.01 * (1 + 4 + 9 + 16)).epsilon(1e-6));
    }
    const Run own = p.on_links("MILCGPU_OFF=1", "update");
    for (const char *routine : {"d_action", "update_u, 0.05", "update_h, 0.1", "reunitarize_cpu"})
        CHECK(own.says(std::string("MILC's own ") + routine));
    CHECK(reference::relative_difference(p.made(), p.links) == 0);
    // Compared with updates that do nothing; the device's links stay, and random numbers are equal.
    const Run compared = p.on_links("MILCGPU_COMPARE=1", "update");
    CHECK(compared.says("compare update_u: "));
    CHECK(compared.says("BEYOND TOLERANCE"));
    CHECK(compared.says("ranmom                         1 compared, 0 beyond"));
    CHECK(reference::relative_difference(p.made(), moved) < 1e-14);
    const Run stretched = p.on_links("MILCGPU_VERBOSE=0", "stretched");
    CHECK(reference::relative_difference(p.made(), p.links) < 1e-14);
    const Run fixed = p.on_links("MILCGPU_VERBOSE=0", "fix");
    CHECK(fixed.says("GFIX: Ended at step "));
    CHECK_FALSE(fixed.says("MILC's own "));
}
