// Threads that work while this one waits for a GPU.
#pragma once
#include <atomic>
#include <functional>
#include <sched.h>
#include <thread>

namespace milcgpu {

// Pieces of work that threads take one by one.
class IdleThreads {
  public:
    explicit IdleThreads(int threads) : threads_(threads) {} // at most, beside this one
    ~IdleThreads(); // drops the pieces that no thread has begun, and waits for the others
    IdleThreads(const IdleThreads &) = delete;
    IdleThreads &operator=(const IdleThreads &) = delete;

    // Starts threads that call piece(k) once for each k in [0, n). piece() must not throw. Returns false, without
    // effect, if threads work already, or if none can be started. Do not call it after end().
    bool begin(size_t n, std::function<void(size_t)> piece);
    bool has_begun() const { return leader_.joinable(); } // until end()
    // Does the pieces that are left, with this thread as well, and waits for the other threads.
    void end();

  private:
    void work();
    void lead();

    int threads_;
    size_t n_ = 0;
    std::function<void(size_t)> piece_;
    cpu_set_t processors_;
    std::thread leader_;
    std::atomic<size_t> next_{0};
    std::atomic<bool> over_{false};
};

// How many threads can work while this one waits for a GPU.
int idle_threads();

} // namespace milcgpu
