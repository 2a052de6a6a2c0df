// Faults planted at every place in turn, in every call of the table (calls_support.h): allocations on the device and on
// the host, waits for the device. Each gives its status and a message, leaves the outputs untouched, and the next call
// is right. And what the library does before it says NO_MEMORY.
#include "milc_glue/api/context.h"
#include "tests/calls_whole.h"
#include "tests/failing_new.h"
#include <cstdlib>
#include <omp.h>

using namespace tests;
using milcgpu::Backend;
using milcgpu::Fault;

namespace {

// Thousands of tiny calls: threads would only wait for each other.
struct OneThread {
    int before = omp_get_max_threads();
    OneThread() { omp_set_num_threads(1); }
    ~OneThread() { omp_set_num_threads(before); }
};

// The calls of the table that reach the device (no memory can be pinned by two contexts at once), and solves whose
// precise part does the work, which take other memory.
std::vector<Call> calls_with_faults() {
    std::vector<Call> all = {{"milcgpu_staggered_solve", "single that descends", Call::solves,
                              [](World &w) {
                                  static milcgpu_solve_spec spec;
                                  spec = w.solve, spec.mass = 0.004;
                                  return bound(w, milcgpu_staggered_solve, {4}, w.links(), &spec, &w.b[0], &w.x[0],
                                               w.reports);
                              }},
                             {"milcgpu_staggered_solve_sources", "four that descend", Call::solves, [](World &w) {
                                  static milcgpu_solve_spec spec;
                                  spec = w.solve, spec.mass = 0.002;
                                  return bound(w, milcgpu_staggered_solve_sources, {6}, w.links(), &spec, MILCGPU_BLOCK,
                                               4, w.b.data(), w.x.data(), w.reports);
                              }}};
    for (const Call &call : calls())
        if (!has(call.function, "_destroy") && !has(call.function, "memory_pin") && !has(call.function, "_unpin"))
            all.push_back(call);
#if defined(__SANITIZE_ADDRESS__)
    for (size_t k = all.size(); k-- > 0;) // all of them take minutes under the sanitizers
        if (k % 4 != 0)
            all.erase(all.begin() + k);
#endif
    return all;
}

// Runs each call with fault n for every `step`th n until it is not reached any more, from 0, 1, ... on in turn;
// plant(device, n) plants it, lift(device) tells whether it has happened and takes it back. Failures have `status`.
// Returns the faults and the failures of all calls, the failures that wrote outputs, by name, and how many left a
// handle empty.
struct Counts {
    int faults = 0, failures = 0, emptied = 0;
    std::string written;
};
Counts fail_everywhere(Backend backend, milcgpu_status status, const std::function<void(milcgpu::Device &, int)> &plant,
                       const std::function<bool(milcgpu::Device &)> &lift, int step) {
    const OneThread one_thread;
    const std::array<int, 4> n{2, 2, 4, 2};
    Counts counts;
    int first = 0;
    Whole whole(backend, n);
    World &w = whole.world;
    for (const Call &call : calls_with_faults()) {
        CAPTURE(call.name(), name(backend));
        w.start_again();
        const FaultedCall clean_run = run_with_fault(
            w, call, {}, [] {}, [] { return false; });
        REQUIRE(clean_run.status == MILCGPU_OK);
        const State clean = w.state();
        for (int k = first++ % step;; k += step) {
            CAPTURE(k);
            Session<double> session({n}, backend, 0, 0);
            struct Back { // handles end before their context
                World &w;
                milcgpu_context *context = w.context;
                ~Back() { w.start_again(context); }
            } back{w};
            w.start_again(session.context);
            milcgpu::Device &device = *session.context->device;
            const FaultedCall ran = run_with_fault(
                w, call, clean, [&] { plant(device, k); }, [&] { return lift(device); });
            CAPTURE(ran.message);
            CHECK(ran.wrong == "");
            if (!ran.happened) {
                CHECK(ran.status == MILCGPU_OK);
                break;
            }
            ++counts.faults;
            if (ran.status == MILCGPU_OK) // it went on without
                continue;
            ++counts.failures;
            // A file is read into the caller's field piece by piece (milcgpu_file.h).
            if (ran.written && call.name() != "milcgpu_gauge_file_read")
                counts.written += milcgpu::format("%s, fault %d; ", call.name().c_str(), k);
            counts.emptied += ran.emptied;
            CHECK(ran.status == status);
            CHECK(ran.message.size() > 10);
            CHECK(ran.next == (status == MILCGPU_DEVICE_LOST ? MILCGPU_DEVICE_LOST : MILCGPU_OK));
        }
    }
    return counts;
}

Counts inject_everywhere(Backend backend, milcgpu_status status, Fault fault) {
    return fail_everywhere(
        backend, status, [&](milcgpu::Device &device, int n) { device.inject(fault, n); },
        [](milcgpu::Device &device) {
            const bool happened = device.planted() == Fault::none;
            device.inject(Fault::none);
            return happened;
        },
        // cuda_faults plants the same in every call of the CUDA runtime
        backend == Backend::cuda ? 16
        : long_tests()           ? 1
                                 : 2);
}

} // namespace

TEST_CASE("every allocation on the device that fails: NO_MEMORY or right, outputs untouched, the next call right",
          "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        const Counts counts = inject_everywhere(backend, MILCGPU_NO_MEMORY, Fault::allocation);
        CAPTURE(name(backend), counts.faults, counts.failures);
        CHECK(counts.failures >= (backend == Backend::cuda ? 20 : 100));
        CHECK(counts.written == "");
        CHECK(counts.emptied == 0);
    }
}

TEST_CASE("every wait for the device that fails: DEVICE_LOST, outputs untouched except those being copied out",
          "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        const Counts counts = inject_everywhere(backend, MILCGPU_DEVICE_LOST, Fault::device_lost);
        CAPTURE(name(backend), counts.faults, counts.failures);
        CHECK(counts.failures == counts.faults);
        CHECK(counts.failures >= (backend == Backend::cuda ? 20 : 100));
        CHECK(counts.written != "");
        CHECK(counts.emptied == 0);
    }
}

TEST_CASE("host memory that runs out anywhere: a status, never an exception; the next call right",
          "[faults][sanitize]") {
    for (const Backend backend : backends()) {
        const Counts counts = fail_everywhere(
            backend, MILCGPU_NO_MEMORY, [](milcgpu::Device &, int n) { news_left = n; },
            [](milcgpu::Device &) {
                const bool happened = news_left < 0;
                news_left = -1;
                return happened;
            },
            backend == Backend::cuda ? 48
            : long_tests()           ? 2
                                     : 12);
        CAPTURE(name(backend), counts.faults, counts.failures);
        CHECK(counts.failures >= (backend == Backend::cuda ? 20 : 100));
        CHECK(counts.written == "");
        CHECK(counts.emptied < counts.failures / 20); // fields that a call changes in place
    }
}

TEST_CASE("every call of the CUDA runtime that fails in turn", "[faults]") {
#if defined(MILCGPU_CUDA_FAULTS)
    if (milcgpu::Device::gpu_count() == 0)
        SKIP_TEST("no GPU");
    // All calls of the runtime take an hour on one GPU; cuda_faults without --part has them.
    CHECK(std::system(milcgpu::format("%s --list | xargs -n 1 -P 12 %s --part=0/%d", MILCGPU_CUDA_FAULTS,
                                      MILCGPU_CUDA_FAULTS, long_tests() ? 32 : 64)
                          .c_str()) == 0);
    // Out of memory from calls that do not allocate, while results are copied out.
    CHECK(std::system("echo dslash_of_float quarks_gauss_smear links_make | xargs -n 1 -P 3 " MILCGPU_CUDA_FAULTS
                      " --code=2 --part=0/4") == 0);
#else
    SKIP_TEST("a build without nvcc");
#endif
}
