// libgomp reads how threads wait only once, when it is loaded, before a library can set anything. But if there are more
// OpenMP threads than processors, a thread spins for 100 turns instead of 300 000 (the libgomp manual, GOMP_SPINCOUNT).
// So this file adds idle threads, a team that never works, until there are more threads than processors. LLVM's libomp
// has a call for this.
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/error.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <omp.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" __attribute__((weak)) void kmp_set_blocktime(int milliseconds);

namespace milcgpu {

namespace {

constexpr int most_idle = 64; // a user who leaves more processors free has room for threads that spin

// libgomp ends the program if it cannot start a thread. So this starts as many threads first, all at once, and includes
// the threads of the caller's loops, which may not have started yet.
bool can_start(int count) {
    std::mutex all;
    std::vector<std::thread> tried;
    bool good = true;
    {
        const std::lock_guard<std::mutex> wait(all);
        try {
            tried.reserve(count);
            while (static_cast<int>(tried.size()) < count)
                tried.emplace_back([&all] { const std::lock_guard<std::mutex> end(all); });
        } catch (const std::exception &) {
            good = false;
        }
    }
    for (std::thread &one : tried)
        one.join();
    return good;
}

const pid_t loaded_by = getpid();

// True if a parallel loop of this thread ends. A separate process tries it, since a thread that waits in libgomp cannot
// be stopped here.
bool loops_end() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return true;
    const pid_t tries = fork();
    if (tries == 0) {
        sigset_t none;
        sigemptyset(&none);
        std::signal(SIGALRM, SIG_DFL), sigprocmask(SIG_SETMASK, &none, nullptr);
        alarm(2); // seconds
        int members = 0;
#pragma omp parallel num_threads(2) reduction(+ : members)
        ++members;
        _exit(write(ends[1], "", members > 0) == 1 ? 0 : 1);
    }
    close(ends[1]);
    char answer;
    ssize_t came = 0;
    do
        came = tries < 0 ? 1 : read(ends[0], &answer, 1);
    while (came < 0 && errno == EINTR);
    close(ends[0]);
    if (tries > 0)
        waitpid(tries, nullptr, 0);
    return came == 1;
}

// Adds `count` threads to those that libgomp counts, until the process ends. Returns how many it could add.
int add_idle_threads(int count) {
    std::promise<int> idle;
    std::thread([&idle, count] {
        std::atomic<int> members{0};
#pragma omp parallel num_threads(count + 1)
        ++members;
        idle.set_value(members - 1);
        while (true) // allocates nothing: an exception here would end the program
            pause();
    }).detach();
    return idle.get_future().get();
}

} // namespace

void require_threads() {
    static std::mutex one_at_a_time;
    static int known = 1; // the number of threads that could be started so far
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    const int threads = omp_get_max_threads();
    if (threads <= known)
        return;
    if (getpid() != loaded_by && !loops_end())
        throw Error(
            Status::bad_argument,
            "fork() made this process after OpenMP loops of its parent, whose threads it does not have: start it "
            "by exec (Python: multiprocessing.set_start_method('spawn')), fork before the first loop, or set "
            "OMP_NUM_THREADS=1");
    if (!can_start(threads - 1))
        throw Error(Status::no_memory, format("%d OpenMP threads cannot be started: the system's limits (ulimit -u, "
                                              "ulimit -v) allow fewer; set OMP_NUM_THREADS to a smaller number",
                                              threads));
    known = threads;
}

void wait_passively() {
    for (const char *name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
        if (std::getenv(name) != nullptr)
            return;
    if (kmp_set_blocktime != nullptr)
        return kmp_set_blocktime(0);
    static std::mutex one_at_a_time;
    static int idle = 0;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    const int threads = omp_get_max_threads(), lacking = omp_get_num_procs() + 1 - threads - idle;
    if (threads > 1 && lacking > 0 && idle + lacking <= most_idle && can_start(threads + lacking))
        idle += add_idle_threads(lacking);
}

std::string threads_in_words() {
    const int threads = omp_get_max_threads();
    return format("%d OpenMP thread%s", threads, threads == 1 ? "" : "s");
}

} // namespace milcgpu
