#include "milc_glue/residency/idle_threads.h"
#include <algorithm>
#include <omp.h>
#include <vector>

namespace milcgpu {

namespace {

constexpr int most_threads = 16; // enough for the bandwidth of the memory

// Processors of this program. With OMP_PROC_BIND a new thread inherits the single place of the thread that starts it;
// all places of OpenMP together are the program's.
cpu_set_t allowed_processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (omp_get_num_places() == 0)
        sched_getaffinity(0, sizeof set, &set);
    for (int place = 0; place < omp_get_num_places(); ++place) {
        std::vector<int> ids(omp_get_place_num_procs(place));
        omp_get_place_proc_ids(place, ids.data());
        for (const int id : ids)
            CPU_SET(id, &set);
    }
    return set;
}

} // namespace

int idle_threads() {
    const cpu_set_t processors = allowed_processors();
    return std::min(std::max(omp_get_max_threads() - 1, CPU_COUNT(&processors) > 1 ? 1 : 0), most_threads);
}

IdleThreads::~IdleThreads() {
    over_ = true;
    if (leader_.joinable())
        leader_.join();
}

bool IdleThreads::begin(size_t n, std::function<void(size_t)> piece) {
    if (threads_ <= 0 || has_begun())
        return false;
    n_ = n, piece_ = std::move(piece);
    try {
        processors_ = allowed_processors();
        leader_ = std::thread([this] { lead(); });
    } catch (const std::exception &) { // no thread, or no memory for one
        threads_ = 0;
    }
    return has_begun();
}

void IdleThreads::lead() {
    sched_setaffinity(0, sizeof processors_, &processors_);
    std::vector<std::thread> others;
    try {
        others.reserve(threads_ - 1);
        while (static_cast<int>(others.size()) < threads_ - 1)
            others.emplace_back([this] { work(); });
    } catch (const std::exception &) { // fewer threads work
    }
    work();
    for (std::thread &other : others)
        other.join();
}

void IdleThreads::work() {
    for (size_t k = next_++; k < n_ && !over_; k = next_++)
        piece_(k);
}

void IdleThreads::end() {
    work();
    if (leader_.joinable())
        leader_.join();
}

} // namespace milcgpu
