// libgomp reads how threads wait only once, when it is loaded, before a library can set anything. But if there are more
// OpenMP threads than processors, a thread spins for 100 turns instead of 300 000 (the libgomp manual, GOMP_SPINCOUNT).
// So this file adds idle threads, a team that never works, until there are more threads than processors. LLVM's libomp
// has a call for this.
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/error.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <omp.h>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" __attribute__((weak)) void kmp_set_blocktime(int milliseconds);

namespace milcgpu {

namespace {

// The first of the iterations of a thread, as in OpenMP's static schedule.
int first_of(int n, int thread, int threads) { return n / threads * thread + std::min(thread, n % threads); }

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

// A thread waits until ready(): it spins first, then it sleeps. Whoever changes what ready() tests then calls send().
class Signal {
  public:
    template <class Ready> void wait(const Ready &ready) {
        for (int turn = 0; turn < turns; ++turn) {
            if (ready())
                return;
            relax();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        ++asleep_;
        woken_.wait(lock, ready);
        --asleep_;
    }
    void send() {
        if (asleep_ == 0)
            return;
        const std::lock_guard<std::mutex> lock(mutex_);
        woken_.notify_all();
    }

  private:
    static constexpr int turns = 2000; // about 30 us
    static void relax() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
    std::atomic<int> asleep_{0};
    std::mutex mutex_;
    std::condition_variable woken_;
};

// The threads of a parallel region, which share one loop after another. Thread 0 starts the loops.
class Team {
  public:
    explicit Team(int threads) : threads_(threads) {}
    void run(int n, void (*range)(const void *, int, int), const void *what) {
        n_ = n, range_ = range, what_ = what;
        at_work_ = threads_ - 1;
        next_loop();
        work(0);
        ended_.wait([this] { return at_work_ == 0; });
    }
    void end() {
        range_ = nullptr;
        next_loop();
    }
    // Thread `thread` takes its part of each loop until the end.
    void serve(int thread) {
        for (unsigned seen = 0;;) {
            started_.wait([&] { return loops_ != seen; });
            ++seen;
            if (range_ == nullptr)
                return;
            work(thread);
            if (--at_work_ == 0)
                ended_.send();
        }
    }

  private:
    void next_loop() {
        ++loops_;
        started_.send();
    }
    void work(int thread) const { range_(what_, first_of(n_, thread, threads_), first_of(n_, thread + 1, threads_)); }
    const int threads_;
    int n_ = 0;
    void (*range_)(const void *, int, int) = nullptr;
    const void *what_ = nullptr;
    std::atomic<unsigned> loops_{0};
    std::atomic<int> at_work_{0};
    Signal started_, ended_;
};
thread_local Team *team = nullptr; // shares the loops of this thread

} // namespace

void share_among_threads(int n, bool several, void (*range)(const void *what, int from, int to), const void *what) {
    if (!several)
        return range(what, 0, n);
    if (team != nullptr)
        return team->run(n, range, what);
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        range(what, first_of(n, thread, threads), first_of(n, thread + 1, threads));
    }
}

void with_threads_awake(const std::function<void()> &work, int most) {
    const int threads = std::min(most, omp_get_max_threads());
    if (threads == 1 || omp_in_parallel() || team != nullptr)
        return work();
    std::exception_ptr failed;
    std::optional<Team> all;
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        all.emplace(omp_get_num_threads());
        if (const int thread = omp_get_thread_num(); thread > 0) {
            all->serve(thread);
        } else {
            team = &*all;
            try {
                work();
            } catch (...) {
                failed = std::current_exception();
            }
            team = nullptr;
            all->end();
        }
    }
    if (failed)
        std::rethrow_exception(failed);
}

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
