// How OpenMP threads of the host wait. A program of its own is asked, because OpenMP reads its settings once.
#include "gpu_kernels/backend/host_threads.h"
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/sized.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <omp.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace tests;

namespace {

const std::string nothing_said = "-u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME -u OMP_NUM_THREADS ";
constexpr const char *asked = "processor time of pauses between parallel loops"; // of all threads together

// milliseconds; settings: of the environment
double spent_in_pauses(const std::string &settings) {
    const Said r =
        shell("env " + nothing_said + settings + " /proc/" + std::to_string(getpid()) + "/exe '" + asked + "'");
    INFO(r.output);
    const size_t at = r.output.find("spent ");
    REQUIRE(at != std::string::npos);
    return std::atof(r.output.c_str() + at + 6);
}

} // namespace

TEST_CASE(asked, "[.]") {
    std::atomic<int> seen{0};
    double spent = 0;
    for (int pause = 0; pause < 30; ++pause) {
#pragma omp parallel
        ++seen;
        const std::clock_t before = std::clock();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        spent += 1e3 * double(std::clock() - before) / CLOCKS_PER_SEC;
    }
    CHECK(seen == 30 * omp_get_max_threads());
    std::printf("spent %.3f ms\n", spent);
}

TEST_CASE("more threads than can be started", "[.]") {
    rlimit memory{};
    std::ifstream("/proc/self/statm") >> memory.rlim_cur; // pages
    memory.rlim_cur = memory.rlim_cur * sysconf(_SC_PAGESIZE) + (size_t{256} << 20);
    memory.rlim_max = memory.rlim_cur;
    REQUIRE(setrlimit(RLIMIT_AS, &memory) == 0);
    auto layout = sized<milcgpu_layout>();
    std::fill(layout.extent, layout.extent + 4, 4);
    auto options = sized<milcgpu_options>();
    options.backend = MILCGPU_HOST;
    milcgpu_context *context = nullptr;
    CHECK(milcgpu_context_create(&layout, &options, &context) == MILCGPU_NO_MEMORY);
    std::printf("said: %s\n", milcgpu_last_error());
}

TEST_CASE("threads that cannot be started: a status, not the end of the process", "[host_threads]") {
#if defined(__SANITIZE_ADDRESS__)
    SKIP_TEST("the address sanitizer needs all addresses");
#endif
    const Said r =
        shell("OMP_NUM_THREADS=400 /proc/" + std::to_string(getpid()) + "/exe 'more threads than can be started'");
    INFO(r.output);
    CHECK(r.status == 0);
    CHECK(r.output.find("said: milcgpu_context_create: 400 OpenMP threads cannot be started: the system's limits") !=
          std::string::npos);
}

TEST_CASE("threads sleep while they wait, unless the user has said how they wait", "[host_threads]") {
    if (omp_get_num_procs() < 2)
        SKIP_TEST("one processor: parallel loops have one thread");
    const double by_itself = spent_in_pauses(""),
                 as_said = spent_in_pauses("GOMP_SPINCOUNT=30000000 KMP_BLOCKTIME=200");
    INFO(by_itself << " ms, and spinning " << as_said << " ms");
    CHECK(by_itself < as_said / 5); // measured: 3 to 10 ms, and spinning 305 on two processors
    CHECK(as_said > 15);
}
