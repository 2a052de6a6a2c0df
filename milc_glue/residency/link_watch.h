// Looks at the rest of a set's links on the host while a GPU solves with them. The head of the call has looked at the
// sample.
#pragma once
#include "milc_glue/residency/idle_threads.h"
#include "milc_glue/residency/link_cache.h"

namespace milcgpu {

class LinkWatch {
  public:
    // fat, lng: the host's links that `set` was found to hold. threads: at most, beside this one.
    LinkWatch(const LinkCache &cache, LinkSet &set, const void *fat, const void *lng, int threads)
        : mirror_(set.mirror), fat_(cache.records(fat)), lng_(cache.records(lng)), threads_(threads) {}

    // Starts threads that look, once. Does nothing if no thread can be started.
    void begin();
    // Looks at what is left, with this thread as well. Returns false if the host's links are not what was loaded.
    bool end();

  private:
    Mirror &mirror_;
    HostRecords fat_, lng_;
    std::atomic<uint64_t> sum_{0};
    IdleThreads threads_;
};

} // namespace milcgpu
