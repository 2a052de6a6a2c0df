// Runs the MILC-shaped programs of tests/milc_host, which check their own results, in every environment that matters,
// and looks at what they say.
#include "tests/support.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

namespace {

struct Run {
    int status;
    std::string output; // both streams
    bool says(const std::string &text) const { return output.find(text) != std::string::npos; }
    int count(const std::string &text) const {
        int found = 0;
        for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
            ++found;
        return found;
    }
};

Run run(const std::string &program, const std::string &environment, const std::string &arguments = "") {
    const std::string command =
        "MILCGPU_DSLASH=always " + environment + " " + MILC_HOST_PROGRAMS + program + "/program " + arguments + " 2>&1";
    Run result{-1, ""};
    FILE *pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr;)
        result.output += line;
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

const char *const programs[] = {"asqtad-P1", "asqtad-P2", "hisq-P1", "hisq-P2"};

std::vector<std::string> backend_settings() {
    std::vector<std::string> settings{"MILCGPU_BACKEND=host"};
    if (milcgpu::Device::gpu_count() > 0)
        settings.push_back("MILCGPU_BACKEND=cuda");
    return settings;
}

} // namespace

TEST_CASE("milc_host: every routine gives what MILC's own gives", "[milc_host][sanitize]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : programs) {
            const Run r = run(program, backend);
            INFO(backend << " " << program << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.says("\n0 of "));
            CHECK(r.says("milcgpu: MILC's routine"));  // the table at the start
            CHECK(r.says("milcgpu: dslash_fn_field")); // the table at exit
            CHECK(r.says("CONGRAD5: time = "));
            CHECK(r.says("CG NOT CONVERGED after 6 iterations"));
            CHECK_FALSE(r.says("masses = 2 iters = 6")); // no CONGRAD5 line then, as MILC has it
            CHECK_FALSE(r.says("Trying"));
        }
}

TEST_CASE("milc_host: every precision, and sites in another order", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *setting :
             {"MILCGPU_PRECISION=double", "MILCGPU_PRECISION=double-single", "MILCGPU_PRECISION=double-half",
              "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=18",
              "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=13",
              "MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=9", "MILC_HOST_LAYOUT=shuffled"}) {
            const Run r = run("hisq-P2", backend + " " + setting);
            INFO(backend << " " << setting << "\n" << r.output);
            CHECK(r.status == 0);
        }
    for (const std::string &backend : backend_settings()) // single cannot reach 1e-9: double goes on from it
        for (const char *setting : {"MILCGPU_PRECISION=single", "MILCGPU_PRECISION=single-half"}) {
            const Run r = run("hisq-P2", backend + " MILC_HOST_ITERATIONS=any " + setting);
            INFO(backend << " " << setting << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.count("single precision gives no more") == 1); // said once
            CHECK(r.says("Trying double-single precision"));
        }
    for (const char *setting :
         {"MILCGPU_PRECISION=single", "MILCGPU_PRECISION=single-half", "MILC_HOST_LAYOUT=shuffled"}) {
        const Run r = run("asqtad-P1", setting);
        INFO(setting << "\n" << r.output);
        CHECK(r.status == 0);
    }
}

TEST_CASE("milc_host: compare mode", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : programs) {
            const Run r = run(program, backend + " MILCGPU_COMPARE=strict");
            INFO(backend << " " << program << "\n" << r.output);
            CHECK(r.status == 0);
            CHECK(r.says("compare ks_congrad_parity: EVEN m 0.05: iterations CPU"));
            CHECK(r.says("compare ks_multicg_offset_field: ODD, 5 masses"));
            CHECK(r.says("compare dslash_fn_field: ODD"));
            CHECK(r.says(program[0] == 'h' ? "compare create_hisq_links_milc: worst link"
                                           : "compare load_fn_links: worst link"));
            CHECK(r.says("comparison with MILC's own routines"));
            CHECK_FALSE(r.says("BEYOND TOLERANCE"));
        }
}

TEST_CASE("milc_host: compare mode sees a step more at the iteration limit", "[milc_host][milc]") {
    const Run r = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_COMPARE=1 MILC_HOST_FEWER_STEPS=1");
    INFO(r.output);
    CHECK(r.says("EVEN, 2 masses: iterations CPU 4 GPU 6"));
    CHECK(r.says("BEYOND TOLERANCE"));
}

TEST_CASE("milc_host: off and silent", "[milc_host]") {
    const Run off = run("hisq-P2", "MILCGPU_OFF=1");
    CHECK(off.status == 0);
    CHECK_FALSE(off.says("milcgpu"));
    const Run silent = run("hisq-P2", "MILCGPU_VERBOSE=0");
    CHECK(silent.status == 0);
    CHECK_FALSE(silent.says("milcgpu"));
    CHECK(silent.says("CONGRAD5")); // MILC's own line, of the replaced routine
}

TEST_CASE("milc_host: after an error MILC's own routine does the work", "[milc_host]") {
    for (const std::string &backend : backend_settings())
        for (const char *program : {"asqtad-P2", "hisq-P1"}) {
            const Run lost = run(program, backend, "device");
            INFO(lost.output);
            CHECK(lost.status == 0);
            CHECK(lost.says("the GPU is gone: MILC runs on the CPU from here on"));
            const Run full = run(program, backend, "memory");
            INFO(full.output);
            CHECK(full.status == 0);
            // The fault is met by more room, or by MILC's own routine; either is said.
            CHECK((full.says("Trying again") || full.says("MILC's own routine does this call")));
        }
}

TEST_CASE("milc_host: what cannot be served is said, and MILC runs on the CPU", "[milc_host]") {
    const auto refused = [](const std::string &environment, const char *text) {
        const Run r = run("asqtad-P2", environment);
        INFO(environment << "\n" << r.output);
        CHECK(r.status == 0);
        CHECK(r.says(text));
        CHECK_FALSE(r.says("milcgpu: MILC's routine")); // no table: nothing is taken over
    };
    refused("MILC_HOST_RANKS=4", "4 ranks: milcgpu");
    refused("MILC_HOST_LAYOUT=broken", "site order could not be read");
    refused("MILCGPU_PRECISION=quadruple", "MILCGPU_PRECISION=quadruple is none of");
    refused("MILCGPU_RECONSTRUCT=17", "MILCGPU_RECONSTRUCT=17 is none of auto 18 13 12 9 8. MILC runs on the CPU");
    refused("MILCGPU_DEVICE=first", "MILCGPU_DEVICE=first is none of 0 to 999");
    refused("MILCGPU_COMPARE=yes", "MILCGPU_COMPARE=yes is none of");
    refused("MILCGPU_BACKEND=opencl", "MILCGPU_BACKEND=opencl is none of auto cuda host");
    if (milcgpu::Device::gpu_count() == 0)
        refused("MILCGPU_BACKEND=cuda", "MILC runs on the CPU");
}

TEST_CASE("milc_host: the tables say what is the case", "[milc_host]") {
    const Run automatic = run("hisq-P2", "MILCGPU_BACKEND=host");
    INFO(automatic.output);
    CHECK(automatic.says("precision of solves: double (automatic, MILCGPU_PRECISION sets it), long links of the sloppy "
                         "part in 18 reals (automatic, MILCGPU_RECONSTRUCT sets it)"));
    CHECK_FALSE(automatic.says("packed links")); // double has none
    CHECK(automatic.says("safer CPU calls CPU seconds\n"));
    CHECK_FALSE(automatic.says("on CPU"));
    const Run asked = run("hisq-P2", "MILCGPU_BACKEND=host MILCGPU_PRECISION=double-half MILCGPU_RECONSTRUCT=13");
    INFO(asked.output);
    CHECK(asked.says("precision of solves: double-half (MILCGPU_PRECISION), long links of the sloppy part in 13 reals "
                     "(MILCGPU_RECONSTRUCT)\n"));
    CHECK(asked.says("packed links"));
    CHECK(asked.says("settings: "));
    const Run left = run("hisq-P2", "MILCGPU_BACKEND=host MILC_HOST_UMETHOD=other");
    INFO(left.output);
    CHECK(left.status == 0);
    CHECK(left.count("create_hisq_links_milc: MILC's own: this action's links, or its way to unitary ones, are none "
                     "that the device makes") == 1);
}
