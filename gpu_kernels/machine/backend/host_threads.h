// OpenMP threads of the host: which loops use several, and how threads wait.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace milcgpu {

// A loop over fewer sites, or over fewer bytes, runs on the calling thread alone: `if (n >= few_sites)` of a parallel
// loop. Measured on two busy cores with two sleeping threads: they pay from 1024 sites on in a loop as expensive as D,
// from 512 in one six times as expensive, and never in one of 4096 cheap sites. If other programs use the cores,
// starting a team takes milliseconds.
constexpr int few_sites = 512;
constexpr size_t few_bytes = size_t{1} << 17;

// Calls range(what, from, to) for [0, n): once, or, if `several`, for a part of it on each OpenMP thread.
void share_among_threads(int n, bool several, void (*range)(const void *what, int from, int to), const void *what);

// Calls body(i) for i in [0, n). several: all OpenMP threads share the calls, each takes consecutive i.
template <class Body> void for_each_on_host(int n, bool several, const Body &body) {
    const auto range = [](const void *what, int from, int to) {
        const Body &of_each = *static_cast<const Body *>(what);
        for (int i = from; i < to; ++i)
            of_each(i);
    };
    share_among_threads(n, several, range, &body);
}

constexpr int all_threads = 1 << 20;
// Runs `work` within one parallel region, whose threads run the loops that `work` starts by share_among_threads().
// Between loops they spin for about 30 us before they sleep: waking a thread takes 20 to 50 us, as long as D on 8^4.
// Any other parallel loop in `work` runs on one thread. Uses at most `most` threads: each loop waits for its slowest
// thread, so short loops on a busy host are faster with fewer.
void with_threads_awake(const std::function<void()> &work, int most = all_threads);

// From here on, threads that wait at the end of a parallel loop, or for the next one, sleep. Without this they spin,
// and take cores from threads that have work if other programs run, too. Does nothing if the user has set how threads
// wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME), or if loops have one thread. Call it again after the number of
// threads changes.
void wait_passively();

// Throws Error (NO_MEMORY) if the threads of a parallel loop cannot be started: libgomp would end the process. Each
// larger number of threads is tested once. Throws Error (BAD_ARGUMENT) in a child of fork() whose parent owns the
// threads of this thread's loops: libgomp would wait for them for ever.
void require_threads();

std::string threads_in_words(); // of a parallel loop of this thread: "2 OpenMP threads"

} // namespace milcgpu
