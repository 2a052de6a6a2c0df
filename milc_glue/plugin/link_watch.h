// Looks at a set's links on the host while a GPU solves with them: the parts that the next calls would look at, one
// after another, until all are seen or the solve is over.
#pragma once
#include "milc_glue/plugin/link_cache.h"
#include <atomic>
#include <sched.h>
#include <thread>

namespace milcgpu {

class LinkWatch {
  public:
    // fat, lng: the host's links that `set` was found to hold. threads: at most; 0: never looks.
    LinkWatch(const LinkCache &cache, LinkSet &set, const void *fat, const void *lng, int threads);
    ~LinkWatch() { end(); }
    LinkWatch(const LinkWatch &) = delete;
    LinkWatch &operator=(const LinkWatch &) = delete;

    // Threads of their own begin to look, once. Nothing happens where no thread can be had.
    void begin();
    // Threads stop. The set's next turn is the first part that was not looked at whole. False: the host's links are not
    // what was loaded.
    bool end();

  private:
    void look(); // of one thread
    void lead();

    Mirror &mirror_;
    HostRecords fat_, lng_;
    int threads_;
    cpu_set_t processors_;
    std::thread leader_;
    std::atomic<size_t> next_{0}; // piece of the first part, then of the second
    std::atomic<bool> over_{false};
    size_t pieces_; // of a part
    std::array<std::atomic<uint64_t>, hash_parts> sum_{};
    std::array<std::atomic<size_t>, hash_parts> seen_{}; // pieces; by turn, as sum_
};

// Threads that can look while this one waits for a GPU.
int idle_threads();

} // namespace milcgpu
