// Programs in C that call libquda.so as MILC of each generation does (tests/quda_calls).
#include "tests/install_support.h"
#include <cstring>

// MILC multiplies num_iters by the number of sources in one generation and not in the other; its total is the same, but
// for the difference between sources.
TEST_CASE("quda_calls: libquda.so serves a MILC with deflation and an older one", "[quda_calls]") {
    const tests::Folder folder;
    const std::string library = tests::build_folder().string(), program = (folder.path / "program").string();
    int totals[2];
    for (const bool since_2025 : {false, true}) {
        const std::string compile = std::string("gcc -std=gnu99 -Wall -Wextra -Werror ") +
                                    (since_2025 ? "-DSINCE_2025 " : "") +
                                    "-Imilc_glue/api -Imilc_glue/quda_compat tests/quda_calls/program.c -o " + program +
                                    " -Wl,-rpath," + library + " -L" + library + " -lquda -lm";
        INFO(compile);
        REQUIRE(std::system(compile.c_str()) == 0);
        const tests::Run child =
            tests::succeeded(tests::run("MILCGPU_BACKEND=host MILCGPU_VERBOSE=1", "",
                                        "sh -c 'cd " + folder.path.string() + " && exec " + program + "'"));
        CHECK(child.count("WRONG") == 0);
        CHECK(child.count("all right") == 1);
        const size_t at = child.output.find("total iterations "), deflation = child.output.find("deflation:");
        REQUIRE(at != std::string::npos);
        REQUIRE(deflation != std::string::npos);
        totals[since_2025] = std::atoi(child.output.c_str() + at + std::strlen("total iterations "));
        CHECK(child.count("milcgpu: qudaInvertMsrc: source 1 of 2 ") >= 1);
        CHECK(child.output.substr(0, deflation).find("source 2 of 2") == std::string::npos);
        CHECK(child.count("milcgpu: qudaInvert: all fat links are zero") == 1);
        CHECK(child.count("all fat links are zero") == 1);
        CHECK(child.count("eigensolveQuda: ") == 1);
        CHECK(child.count("QudaEigensolverArgs_t has 1192 bytes") == 1);
        // Each file is written once, for its own links.
        CHECK(child.count("eigenvectors are in eigA") == 1);
        CHECK(child.count("eigenvectors are in eigC") == 1);
        CHECK(child.count("eigenvectors are in ") == 2);
        CHECK(child.count("not written into eigA") == 3);
        CHECK(child.count("16 eigenvectors on even sites, from eigA") == 1);
        CHECK(child.count("no eigenvectors were written into eigB") == 1);
        CHECK(child.count("no eigenvectors were written into ") == 1);
        // The table at the start names what these switches of MILC's do not reach.
        const auto row = [](std::string routine) {
            return "milcgpu: " + routine.append(24 - routine.size(), ' ') + " -";
        };
        for (const char *routine : {"f_meas_current", "mat_invert", "relax", "load_hyp_links"})
            CHECK(child.count(row(routine) + std::string(13, ' ') + "MILC's own: ") == 1);
        for (const char *routine : {"run_gradient_flow", "eo_fermion_force", "bicgilu_cl_field"})
            CHECK(child.count(row(routine)) == 0);
    }
    CHECK(totals[0] > 0);
    CHECK(totals[1] >= totals[0]);
    CHECK(totals[1] <= totals[0] + totals[0] / 50);
}

TEST_CASE("quda_calls: the linker names what is not built", "[quda_calls]") {
    const std::vector<std::string> names = {"qudaExactCurrent", "qudaProject",      "qudaGetDeflationSpace",
                                            "qudaInvertMG",     "qudaInvertMsrcMG", "qudaMultigridCreate",
                                            "qudaAsqtadForce",  "qudaComputeOprod"};
    std::string declared, called;
    for (const std::string &name : names) {
        declared += "void " + name + "(void); ";
        called += name + "(); ";
    }
    const tests::Run linking =
        tests::shell("echo '" + declared + "int main(void) { " + called + "return 0; }' | gcc -x c - -o /dev/null -L" +
                     tests::build_folder().string() + " -lquda");
    CHECK(linking.status != 0);
    for (const std::string &name : names)
        CHECK(linking.says("undefined reference to `" + name + "'"));
}
