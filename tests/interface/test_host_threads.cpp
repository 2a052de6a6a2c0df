// How OpenMP threads of the host wait. Each test starts a process, because OpenMP reads its settings once.
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/milcgpu.h"
#include "tests/install_support.h"
#include "tests/sized.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <omp.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tests;

namespace {

const std::string unset = "-u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME -u OMP_NUM_THREADS ";
constexpr const char *pauses = "processor time of pauses between parallel loops"; // of all threads together

// milliseconds; settings: of the environment
double spent_in_pauses(const std::string &settings) {
    const Run r = shell("env " + unset + settings + " /proc/" + std::to_string(getpid()) + "/exe '" + pauses + "'");
    const size_t at = r.output.find("spent ");
    REQUIRE(at != std::string::npos);
    return std::atof(r.output.c_str() + at + 6);
}

} // namespace

TEST_CASE(pauses, "[.]") {
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

TEST_CASE("a solve and one in a child of fork", "[.]") {
    omp_set_num_threads(2);
    auto layout = sized<milcgpu_layout>();
    std::fill(layout.extent, layout.extent + 4, 8); // loops over its sites have several threads
    auto options = sized<milcgpu_options>();
    options.backend = MILCGPU_HOST;
    milcgpu_context *context = nullptr;
    REQUIRE(milcgpu_context_create(&layout, &options, &context) == MILCGPU_OK);
    std::vector<double> reals(4096 * 72);
    for (size_t k = 0; k < reals.size(); ++k)
        reals[k] = k % 18 % 8 == 0; // 1
    std::vector<double> none(reals.size());
    const milcgpu_field fat = {reals.data(), MILCGPU_DOUBLE, 0}, lng = {none.data(), MILCGPU_DOUBLE, 0};
    milcgpu_links *links = nullptr;
    REQUIRE(milcgpu_links_create(context, &fat, &lng, &links) == MILCGPU_OK);
    std::vector<double> source(4096 * 6, 1), solution(4096 * 6, 7);
    const auto solve = [&] {
        const milcgpu_field b = {source.data(), MILCGPU_DOUBLE, 0}, x = {solution.data(), MILCGPU_DOUBLE, 0};
        auto spec = filled(milcgpu_solve_defaults);
        auto report = sized<milcgpu_solve_report>();
        spec.mass = 1, spec.tolerance = 1e-8;
        return milcgpu_staggered_solve(links, &spec, &b, &x, &report);
    };
    const std::vector<double> untouched = solution;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const auto words = [](int status) {
            return status == MILCGPU_BAD_ARGUMENT &&
                   std::strstr(milcgpu_last_error(), ": fork() made this process ") != nullptr;
        };
        milcgpu_context *own = nullptr;
        const bool said = words(solve()) && words(milcgpu_context_create(&layout, &options, &own));
        milcgpu::copy_bytes(none.data(), reals.data(), reals.size() * sizeof(double)); // with the child's one thread
        milcgpu_links_destroy(links);
        milcgpu_context_destroy(context);
        std::exit(said && own == nullptr && solution == untouched && none == reals ? 3 : 4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status)); // not ended by the alarm
    CHECK(WEXITSTATUS(status) == 3);
    INFO(milcgpu_last_error());
    CHECK(solve() == MILCGPU_OK); // in the parent
    milcgpu_links_destroy(links);
    milcgpu_context_destroy(context);
}

TEST_CASE("a context in a child of fork after loops of the parent", "[.]") {
    const bool loops = std::getenv("LOOPS") != nullptr;
    omp_set_num_threads(2);
    int members = 0;
#pragma omp parallel if (loops) reduction(+ : members)
    ++members;
    CHECK(members == (loops ? 2 : 1));
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        auto layout = sized<milcgpu_layout>();
        std::fill(layout.extent, layout.extent + 4, 8);
        auto options = sized<milcgpu_options>();
        options.backend = MILCGPU_HOST;
        milcgpu_context *context = nullptr;
        const milcgpu_status status = milcgpu_context_create(&layout, &options, &context);
        _exit(status == MILCGPU_OK ? 3 : std::strstr(milcgpu_last_error(), ": fork() made this process ") ? 4 : 5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status)); // not ended by the alarm
    CHECK(WEXITSTATUS(status) == (loops ? 4 : 3));
}

TEST_CASE("a child of fork() cannot use the library, and its calls fail with a message", "[host_threads]") {
    const std::string own = "/proc/" + std::to_string(getpid()) + "/exe ",
                      in_child = own + "'a context in a child of fork after loops of the parent'";
    for (const std::string &words : {own + "'a solve and one in a child of fork'", "LOOPS=1 " + in_child, in_child}) {
        const Run r = succeeded(shell(words));
        CHECK(r.says("\n1 passed, 0 failed"));
    }
}

TEST_CASE("if threads cannot be started, a call returns a status, and the process continues", "[host_threads]") {
#if defined(__SANITIZE_ADDRESS__)
    SKIP_TEST("the address sanitizer needs all addresses");
#endif
    const Run r = succeeded(
        shell("OMP_NUM_THREADS=400 /proc/" + std::to_string(getpid()) + "/exe 'more threads than can be started'"));
    CHECK(r.says("said: milcgpu_context_create: 400 OpenMP threads"));
}

TEST_CASE("threads that are kept awake take the same parts of loops, sleep in pauses, and pass errors on",
          "[host_threads][sanitize]") {
    const int before = omp_get_max_threads();
    omp_set_num_threads(3);
    const auto thread_of_each = [](int n, bool several) {
        std::vector<int> threads(n, -1);
        milcgpu::for_each_on_host(n, several, [&](int i) { threads[i] = threads[i] < 0 ? omp_get_thread_num() : -2; });
        return threads;
    };
    for (const int n : {0, 1, 2, 3, 7, 1000}) {
        const std::vector<int> apart = thread_of_each(n, true);
        CHECK(std::is_sorted(apart.begin(), apart.end()));
        CHECK((n < 3 || (apart.front() == 0 && apart.back() == 2)));
        CHECK(thread_of_each(n, false) == std::vector<int>(n, 0));
        milcgpu::with_threads_awake([&] {
            for (int turn = 0; turn < 100; ++turn)
                REQUIRE(thread_of_each(n, true) == apart);
            CHECK(thread_of_each(n, false) == std::vector<int>(n, 0));
            milcgpu::with_threads_awake([&] { CHECK(thread_of_each(n, true) == apart); });
        });
    }
    const auto fails = [] {
        milcgpu::with_threads_awake([] { throw milcgpu::Error(milcgpu::Status::no_memory, "planted"); });
    };
    CHECK_THROWS_AS(fails(), milcgpu::Error);
    double spent = 0;
    std::vector<int> thread(3, -1);
    milcgpu::with_threads_awake([&] {
        for (int pause = 0; pause < 20; ++pause) {
            const std::clock_t begin = std::clock();
            std::this_thread::sleep_for(std::chrono::milliseconds(10)); // the others wait for this thread
            milcgpu::for_each_on_host(3, true, [&](int i) {             // and it waits for one of them
                if (i == 2)
                    std::this_thread::sleep_for(std::chrono::milliseconds(10));
                thread[i] = omp_get_thread_num();
            });
            spent += 1e3 * double(std::clock() - begin) / CLOCKS_PER_SEC;
        }
    });
    CHECK(thread == std::vector<int>{0, 1, 2});
    CHECK(spent < 80); // ms; three threads that spin would take 800
    omp_set_num_threads(before);
}

TEST_CASE("threads sleep while they wait, unless the environment sets how they wait", "[host_threads]") {
    if (omp_get_num_procs() < 2)
        SKIP_TEST("one processor: parallel loops have one thread");
    double by_itself = 1e3, as_said = 0;
    for (int run = 0; run < 4 && by_itself >= as_said / 5; ++run) { // other processes take time from spinning threads
        by_itself = std::min(by_itself, spent_in_pauses(""));
        as_said = std::max(as_said, spent_in_pauses("GOMP_SPINCOUNT=30000000 KMP_BLOCKTIME=200"));
    }
    INFO(by_itself << " ms, and spinning " << as_said << " ms");
    CHECK(by_itself < as_said / 5); // measured: 3 to 10 ms, and spinning 305 on two processors
    CHECK(as_said > 15);
}
