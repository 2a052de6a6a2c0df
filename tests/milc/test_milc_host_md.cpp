// Molecular dynamics of the MILC-shaped programs: on the device, by MILC's routines, and by both in turn.
#include "tests/milc_host_support.h"
#include "tests/source_text.h"
#include <cmath>

using namespace tests::milc_host;

namespace {

// The largest difference of two runs' numbers, all of which are about 1; infinite if their counts differ.
double worst_difference(const Run &a, const Run &b) {
    std::istringstream ours(a.numbers()), theirs(b.numbers());
    std::string x, y;
    double worst = a.numbers().empty() ? INFINITY : 0;
    while (ours >> x) {
        char *end = nullptr;
        if (!(theirs >> y))
            return INFINITY;
        const double value = std::strtod(x.c_str(), &end);
        worst = *end == 0 ? tests::worse(worst, std::fabs(value - std::strtod(y.c_str(), nullptr)))
                          : tests::worse(worst, x == y ? 0 : INFINITY);
    }
    return theirs >> y ? INFINITY : worst;
}

// The size of the lattice. Tests that count megabytes need more sites.
const std::string few = "MILC_HOST_FEW_SITES=1 ", more;

// The numbers of MILC's own routines.
Run own_trajectory(const std::string &program, const std::string &arguments = "trajectory",
                   const std::string &sites = few) {
    const Run &own = run(program, sites + "MILCGPU_OFF=1", arguments);
    CHECK(own.status == 0);
    return own;
}

double tolerance(const std::string &program) { return program.back() == '2' ? 1e-12 : 1e-5; }

Run right_trajectory(const std::string &program, const std::string &environment, const std::string &fault = "",
                     const std::string &sites = few) {
    const Run &r = run(program, sites + environment, "trajectory " + fault);
    CHECK(r.status == 0);
    CHECK_FALSE(r.beyond_tolerance());
    const Run &own = own_trajectory(program, "trajectory", sites);
    CHECK(worst_difference(r, own) <= tolerance(program));
    CHECK(r.says("sources of pseudofermions by MILC's own: 0\n"));
    CHECK(own.says("sources of pseudofermions by MILC's own: 1\n"));
    CHECK(tests::lines_with("GRSOURCE: sum", r.output) == tests::lines_with("GRSOURCE: sum", own.output));
    CHECK(r.count("GRSOURCE: sum = ") == 1);
    return r;
}

} // namespace

TEST_CASE("milc_host: a line reports where MILC's own force differs", "[milc_host]") {
    const std::string line = "adds the force of the set before it a second time",
                      on_host = few + "MILCGPU_BACKEND=host ";
    for (const auto &[setting, lines] : {std::pair("MILC_HOST_EMPTY_SET=1", 1), std::pair("MILCGPU_COMPARE=0", 0)}) {
        const Run r = run("hisq-P2", on_host + setting, "trajectory");
        CHECK(r.status == 0);
        CHECK(r.count(line) == lines);
        CHECK(r.calls("eo_fermion_force").first > 0);
    }
}

TEST_CASE("milc_host: molecular dynamics gives the numbers of MILC's own, wherever the newest fields are",
          "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : programs) {
            const Run &resident = right_trajectory(program, backend, "", more);
            CHECK(right_trajectory(program, backend + " MILCGPU_TEST=nan", "", more).numbers() == resident.numbers());
            const Run &copied = right_trajectory(program, backend + " MILCGPU_TEST=copy_back", "", more);
            CHECK(copied.copies("update_u, the gauge field") == 9);
            CHECK_FALSE(resident.says("a copy of a member of the sites")); // which ks_ratinv makes
            CHECK(resident.calls("update_u") == std::pair(9L, 0L));
            CHECK(resident.calls("imp_gauge_force") == std::pair(4L, 0L));
            CHECK(resident.calls("eo_fermion_force") == std::pair(2L, 0L));
            CHECK(resident.calls("reunitarize_ks") == std::pair(1L, 0L));
            CHECK(resident.calls("imp_gauge_action") == std::pair(5L, 0L));
            // The other plaquettes are of links that MILC has.
            CHECK(resident.calls("d_plaquette") == std::pair(6L, 0L));
            resident.check_tables();
            CHECK(resident.says("copied back for\n"));
            CHECK(resident.copies("report, the momenta") == 2); // none for an action
            CHECK(resident.calls("g_measure") == std::pair(2L, 0L));
            CHECK(resident.calls("hmom_action") == std::pair(5L, 0L));
            CHECK(resident.calls("ranmom") == std::pair(2L, 0L));
            CHECK(resident.calls("grsource_plain_field") == std::pair(4L, 0L));
            CHECK(resident.copies("create_G_from_site, the gauge field") == 2); // for the reports, none to make links
            CHECK(resident.copies("gauge_field_copy, the gauge field") == 1);
            CHECK(resident.copies("reload_lattice, the gauge field") == 1);
            CHECK(resident.copies("rephase, the gauge field") == 1); // for a measurement, none for the actions
            CHECK(resident.copies("update_u, the gauge field") == 0);
            // Fermion links of the two measurements, not of the trajectory. Links that nobody reads are copied only if
            // MILC applies D.
            const char *const links = program[0] == 'h' ? "create_hisq_links_milc" : "load_fn_links";
            CHECK(resident.megabytes_from(links) < 0.6 * copied.megabytes_from(links));
            // The gauge field is loaded once for each time that the host wrote it; so are momenta, by the first action.
            for (const char *reader : {"d_plaquette", "imp_gauge_action", "eo_fermion_force"})
                CHECK(resident.line_of(reader).to == 0);
            const double real = 256e-6 * (std::string(program).back() == '2' ? 8 : 4); // MB of one real a site
            CHECK(resident.line_of("hmom_action").to == Approx(40 * real).margin(0.051));
            // HISQ links are made again once, from MILC's copy.
            CHECK(resident.line_of(links).to == Approx(program[0] == 'h' ? 72 * real : 0).margin(0.051));
            if (program[0] == 'h') {
                const Run &without = right_trajectory(program, backend + " MILCGPU_TEST=no_dslash", "", more);
                CHECK(resident.megabytes_from(links) == Approx(2. / 3 * without.megabytes_from(links)).margin(0.051));
            }
            // Fat and long back links are made if a measurement reads them.
            CHECK(resident.calls("load_fn_backlinks").first == 4);
            // MILC's own sums of links read them, too.
            CHECK(copied.calls("load_fn_backlinks").first == (std::string(program) == "hisq-newer-P2" ? 12 : 4));
        }
}

// 11300 bytes per site are what a card of 80 GB has for 48^3 x 64 sites. A trajectory of NERSC-10 has 37 terms, this
// one three, and takes 1630 bytes less for their solutions.
TEST_CASE("milc_host: a trajectory in double at the limit of 80 GB for 48^3 x 64 sites lacks no memory",
          "[milc_host]") {
    for (const char *program : {"hisq-P2", "hisq-newer-P2", "asqtad-P2"}) {
        const std::string host = "MILCGPU_BACKEND=host ";
        const Run &r = right_trajectory(program, host + "MILCGPU_TEST=memory=9670", "", more);
        CHECK(r.numbers() == right_trajectory(program, host, "", more).numbers());
        CHECK(r.says("milcgpu: shortages of memory: 0\n"));
        double peak = 0;
        const std::string line = "milcgpu: peak bytes per site: ";
        const size_t at = r.output.find(line);
        REQUIRE(at != std::string::npos);
        REQUIRE(std::sscanf(r.output.c_str() + at + line.size(), "%lf", &peak) == 1);
        CHECK(peak > (program[0] == 'h' ? 9000 : 6000));
        CHECK(peak < (program[0] == 'h' ? 9510 : 7480));
    }
}

TEST_CASE("milc_host: molecular dynamics works by the device and by routines that stay MILC's own", "[milc_host]") {
    const std::string backend = backend_settings().back();
    for (const char *resident : {" MILCGPU_TEST=nan", " MILCGPU_COMPARE=strict"}) {
        const Run loops = right_trajectory("asqtad-P2", backend + resident + " MILC_HOST_NREPS=2");
        CHECK(loops.calls("imp_gauge_force") == std::pair(0L, 4L));
        CHECK(loops.calls("imp_gauge_action") == std::pair(0L, 5L));
        for (const char *routine : {"imp_gauge_force", "imp_gauge_action"})
            CHECK(loops.runs_on(routine) == "MILC's own: this gauge action has other loops, or powers of them");
        const Run unitary =
            right_trajectory(long_tests() ? "hisq-P1" : "hisq-P2", backend + resident + " MILC_HOST_UMETHOD=other");
        CHECK(unitary.calls("eo_fermion_force") == std::pair(0L, 2L));
        for (const char *routine : {"create_hisq_links_milc", "eo_fermion_force"})
            CHECK(unitary.runs_on(routine) == "MILC's own: this UNITARIZATION_METHOD of links is not built");
    }
    // Links that the device makes but whose force it lacks.
    for (const auto &[setting, why] :
         {std::pair("MILC_HOST_UGROUP=su3", "U(3) is built (UNITARIZATION_GROUP)"),
          std::pair("MILC_HOST_UMETHOD=root", "UNITARIZE_ANALYTIC is built (UNITARIZATION_METHOD)")}) {
        const Run r = run("hisq-P2", few + setting + " " + backend, "trajectory");
        CHECK(r.status == 0);
        CHECK(r.runs_on("create_hisq_links_milc") == r.runs_on("update_u"));
        CHECK(r.runs_on("eo_fermion_force") == std::string("MILC's own: only the force of ") + why);
        CHECK(r.calls("create_hisq_links_milc").first > 0);
        CHECK(r.calls("eo_fermion_force") == std::pair(0L, 2L));
        r.check_tables();
    }
    const Run shuffled = run("asqtad-P2", few + backend + " MILCGPU_TEST=nan MILC_HOST_LAYOUT=shuffled", "trajectory");
    const Run own = run("asqtad-P2", few + "MILCGPU_OFF=1 MILC_HOST_LAYOUT=shuffled", "trajectory");
    CHECK(worst_difference(shuffled, own) <= tolerance("asqtad-P2"));
}

TEST_CASE("milc_host: NaN in the gauge field is logged once a routine, with what happens next", "[milc_host]") {
    const Run r = run("asqtad-P2", few + backend_settings().back(), "trajectory nan 'first lattice'");
    CHECK(r.status == 0);
    std::istringstream lines(r.output);
    std::map<std::string, int> said;
    for (std::string line; std::getline(lines, line);)
        if (tests::has(line, "NaN, infinite")) {
            INFO(line);
            CHECK(++said[line] == 1);
            CHECK(tests::has(line, "MILC's own routine does this call"));
        }
    for (const char *call :
         {"load_fn_links", "ks_multicg_offset_field: 3 shifts from 0.3", "update_u", "eo_fermion_force"})
        CHECK(r.count(std::string("milcgpu: ") + call + ": milcgpu_") >= 1);
    CHECK(r.says("milcgpu: verdict: BAD: calls that met NaN or infinity: "));
    // Later failures in a row are one line with their number.
    CHECK(r.calls("load_fn_links") == std::pair(1L, 5L));    // the last call is for another lattice
    CHECK(r.count("milcgpu: load_fn_links: milcgpu_") == 2); // for the lattice, and for the links at their update
    CHECK(r.says("milcgpu: load_fn_links: the same in 3 more calls\n"));
    CHECK(r.says("milcgpu: imp_gauge_force: the same in 1 more call\n"));
}

TEST_CASE("milc_host: every order of two routines of molecular dynamics is right, each by the device or by MILC",
          "[milc_host]") {
    const std::string backend = backend_settings().back();
    for (const char *program : sampled<const char *>({"asqtad-P2", "hisq-P2", "hisq-newer-P2"}, 2)) {
        const Run own = own_trajectory(program, "orders");
        // In a trajectory of ks_imp_rhmc, and in the order of ks_imp_dyn.
        for (const std::string &kind : sampled<std::string>({"orders rhmc", "orders dyn"}, program[0] == 'h' ? 2 : 1)) {
            const Run r = run(program, backend + " MILCGPU_TEST=nan", kind);
            CHECK(r.status == 0);
            CHECK(worst_difference(r, own) <= tolerance(program));
            for (const char *routine : {"update_u", "imp_gauge_force", "eo_fermion_force", "reunitarize_ks",
                                        "imp_gauge_action", "ks_multicg_offset_field", "dslash_fn_field"})
                CHECK((r.calls(routine).first > 0 || r.calls(routine).second > 0));
        }
    }
    // Links that MILC still has, of a gauge field that was written without a notice.
    const Run written = run("hisq-P2", backend + " MILCGPU_TEST=nan", "orders write");
    CHECK(written.status == 1);
    CHECK(written.says("the gauge field has changed since"));
}

TEST_CASE("milc_host: compare mode finds molecular dynamics within tolerance", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : programs) {
            const Run r = right_trajectory(program, backend + " MILCGPU_COMPARE=strict");
            const bool hisq = tests::has(program, "hisq");
            for (const char *line : {"update_u: links", "imp_gauge_force: momenta",
                                     hisq ? "eo_fermion_force: momenta (MILC's derivative of W has terms "
                                          : "eo_fermion_force: momenta, difference",
                                     "reunitarize_ks: links", "imp_gauge_action: value", "d_plaquette: value"})
                CHECK(r.says("compare " + std::string(line)));
            const auto [offloaded, compared] = r.calls("d_plaquette");
            CHECK((offloaded > 6 && offloaded == compared));
            CHECK_FALSE(tests::has(r.runs_on("d_plaquette"), "MILC's own"));
        }
    const Run wrong = run("asqtad-P2", few + "MILCGPU_COMPARE=strict MILC_HOST_ORDER=2", "trajectory");
    CHECK(wrong.status == 1);
    CHECK(wrong.beyond_tolerance());
}

TEST_CASE("milc_host: molecular dynamics goes on after an error, or ends if only the device had the newest",
          "[milc_host]") {
    for (const std::string &backend : backend_settings()) {
        for (const char *place : {"update", "dslash", "fermion", "action", "first links", "sum"}) {
            const Run full =
                right_trajectory("hisq-P2", backend + " MILCGPU_TEST=nan", "memory '" + std::string(place) + "'");
            CHECK((full.short_of_memory() || full.says("Solutions go to the host")));
        }
        // Links that only the device has, in the middle of a trajectory, are made again.
        for (const char *program : {"asqtad-P2", "hisq-P2"}) {
            const Run flipped = right_trajectory(program, backend + " MILCGPU_TEST=nan", "flip links");
            CHECK(flipped.says("are no longer there"));
            CHECK(flipped.calls("ks_multicg_offset_field").second == 0);
            CHECK(right_trajectory(program, backend + " MILCGPU_TEST=nan", "device 'first links'").lost_gpu());
        }
        // MILC has all that it needs, or its own copy.
        const std::pair<const char *, const char *> survived[] = {{" MILCGPU_AUTO=1", "another lattice"},
                                                                  {" MILCGPU_TEST=copy_back", "fermion"},
                                                                  {" MILCGPU_COMPARE=1", "update"}};
        for (const auto &[setting, place] : survived)
            CHECK(right_trajectory("asqtad-P1", backend + setting, milcgpu::format("device '%s'", place)).lost_gpu());
        for (const char *place : {"fermion", "links", "sum", "action", "plaquette"}) {
            const Run lost = run("asqtad-P2", few + backend, std::string("trajectory device ") + place);
            CHECK(lost.status == 1);
            CHECK(lost.says("MILC cannot go on: the run ends. Start it again from the last lattice that it saved"));
            CHECK(lost.says("lost earlier: host backend: device lost (injected by a test)") ==
                  (backend == backend_settings().front()));
            CHECK_FALSE(lost.lost_gpu());
            CHECK(own_trajectory("asqtad-P2").numbers().size() > lost.numbers().size());
        }
    }
}

TEST_CASE("milc_host: links that MILC writes without a notice are found if the device has the newest", "[milc_host]") {
    for (const std::string &backend : backend_settings()) {
        const Run found = run("asqtad-P2", few + backend, "trajectory write gauge");
        CHECK(found.status == 1);
        CHECK(found.says("the host wrote the gauge field"));
        // If both copies are equal, MILC may write.
        for (const char *setting : {" MILCGPU_TEST=copy_back", " MILCGPU_COMPARE=1"}) {
            const Run taken = run("asqtad-P2", few + backend + setting, "trajectory write gauge");
            CHECK(taken.status == 0);
            CHECK(worst_difference(taken, own_trajectory("asqtad-P2", "trajectory write gauge")) <=
                  tolerance("asqtad-P2"));
            CHECK(worst_difference(taken, own_trajectory("asqtad-P2")) > 1e-6);
        }
    }
}
