#include "milc_glue/plugin/link_watch.h"
#include <algorithm>
#include <omp.h>

namespace milcgpu {

namespace {

constexpr int most_threads = 16; // they reach the memory's speed

// Where threads of this program may run. With OMP_PROC_BIND a new thread would inherit the one place of the thread that
// makes it; the places of OpenMP together are all.
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

int idle_threads() { return std::min(omp_get_max_threads() - 1, most_threads); }

LinkWatch::LinkWatch(const LinkCache &cache, LinkSet &set, const void *fat, const void *lng, int threads)
    : mirror_(set.mirror), fat_(cache.records(fat)), lng_(cache.records(lng)),
      threads_(mirror_.unseen() > 0 ? threads : 0), pieces_(hash_pieces(fat_)) {}

void LinkWatch::begin() {
    if (threads_ <= 0 || leader_.joinable())
        return;
    try {
        processors_ = allowed_processors();
        leader_ = std::thread([this] { lead(); });
    } catch (const std::exception &) { // no thread or no memory for one: later calls look, in turn
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
    } catch (const std::exception &) { // as many as there are
    }
    look();
    for (std::thread &other : others)
        other.join();
}

void LinkWatch::look() {
    while (!over_) {
        const size_t k = next_++;
        if (k >= mirror_.unseen() * pieces_)
            return;
        const int turn = static_cast<int>(k / pieces_), part = (mirror_.turn() + turn) % hash_parts;
        sum_[turn] += combined(hash_piece(fat_, part, k % pieces_), hash_piece(lng_, part, k % pieces_));
        ++seen_[turn];
    }
}

bool LinkWatch::end() {
    if (!leader_.joinable())
        return true;
    over_ = true;
    leader_.join();
    bool same = true;
    int whole = 0;
    for (; whole < mirror_.unseen() && seen_[whole] == pieces_; ++whole)
        same = same && sum_[whole] == mirror_.part((mirror_.turn() + whole) % hash_parts);
    mirror_.saw(whole);
    return same;
}

} // namespace milcgpu
