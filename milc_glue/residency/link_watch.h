// Looks at the rest of a set's links on the host while a GPU solves with them. The head of the call has looked at the
// sample.
#pragma once
#include "milc_glue/residency/link_cache.h"
#include <atomic>
#include <sched.h>
#include <thread>

namespace milcgpu {

class LinkWatch {
  public:
    // fat, lng: the host's links that `set` was found to hold. threads: at most, beside this one.
    LinkWatch(const LinkCache &cache, LinkSet &set, const void *fat, const void *lng, int threads);
    ~LinkWatch();
    LinkWatch(const LinkWatch &) = delete;
    LinkWatch &operator=(const LinkWatch &) = delete;

    // Starts threads that look, once. Does nothing if no thread can be started.
    void begin();
    // Looks at what is left, with this thread as well. Returns false if the host's links are not what was loaded.
    bool end();

  private:
    void look(); // the work of one thread
    void lead();

    Mirror &mirror_;
    HostRecords fat_, lng_;
    int threads_;
    cpu_set_t processors_;
    std::thread leader_;
    std::atomic<size_t> next_{0}; // piece to look at
    std::atomic<uint64_t> sum_{0};
    std::atomic<bool> over_{false};
};

// How many threads can look while this one waits for a GPU.
int idle_threads();

} // namespace milcgpu
