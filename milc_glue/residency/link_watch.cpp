#include "milc_glue/residency/link_watch.h"
#include <algorithm>
#include <omp.h>

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

LinkWatch::LinkWatch(const LinkCache &cache, LinkSet &set, const void *fat, const void *lng, int threads)
    : mirror_(set.mirror), fat_(cache.records(fat)), lng_(cache.records(lng)), threads_(threads) {}

LinkWatch::~LinkWatch() {
    over_ = true;
    if (leader_.joinable())
        leader_.join();
}

void LinkWatch::begin() {
    if (threads_ <= 0 || !mirror_.rest_is_unseen() || leader_.joinable())
        return;
    try {
        processors_ = allowed_processors();
        leader_ = std::thread([this] { lead(); });
    } catch (const std::exception &) { // no thread, or no memory for one: end() looks at all
        threads_ = 0;
    }
}

void LinkWatch::lead() {
    sched_setaffinity(0, sizeof processors_, &processors_);
    std::vector<std::thread> others;
    try {
        others.reserve(threads_ - 1);
        while (static_cast<int>(others.size()) < threads_ - 1)
            others.emplace_back([this] { look(); });
    } catch (const std::exception &) { // fewer threads look
    }
    look();
    for (std::thread &other : others)
        other.join();
}

void LinkWatch::look() {
    uint64_t sum = 0;
    const size_t pieces = hash_pieces(fat_);
    for (size_t k = next_++; k < pieces && !over_; k = next_++)
        sum += combined(hash_piece(fat_, Share::rest, k), hash_piece(lng_, Share::rest, k));
    sum_ += sum;
}

bool LinkWatch::end() {
    if (!mirror_.rest_is_unseen())
        return true;
    if (!leader_.joinable()) // the solve was too short to start threads: OpenMP's look
        return mirror_.saw_rest(combined(hash_records(fat_, Share::rest), hash_records(lng_, Share::rest)));
    look();
    leader_.join();
    return mirror_.saw_rest(sum_);
}

} // namespace milcgpu
