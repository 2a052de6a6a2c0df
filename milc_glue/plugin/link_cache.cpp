#include "milc_glue/plugin/link_cache.h"
#include "milc_glue/plugin/agreed.h"
#include <algorithm>

namespace milcgpu {

namespace {

constexpr unsigned sampled_one_in = 32;
constexpr int sampled_from_sites = 16384; // smaller lattices are hashed whole: there a sample would be too few links

} // namespace

uint64_t LinkHash::all() const {
    uint64_t sum = 0;
    for (const uint64_t s : slice)
        sum = 31 * sum + s;
    return sum;
}

HostRecords LinkCache::records(const void *links, size_t from, size_t count) const {
    const size_t bytes = 72 * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float));
    return {static_cast<const unsigned char *>(links) + from * bytes, count, bytes, bytes};
}

uint64_t LinkCache::slice_of(const void *fat, const void *lng, int slice) const {
    const size_t from = static_cast<size_t>(sites_) * slice / hash_slices;
    const size_t count = static_cast<size_t>(sites_) * (slice + 1) / hash_slices - from;
    return hash_records(records(fat, from, count), 1) + 3 * hash_records(records(lng, from, count), 1);
}

uint64_t LinkCache::sample_of(const void *fat, const void *lng) const {
    return hash_records(records(fat, 0, sites_), sampled_one_in) +
           3 * hash_records(records(lng, 0, sites_), sampled_one_in);
}

LinkHash LinkCache::hash_of(const void *fat, const void *lng) const {
    LinkHash hash{};
    for (int k = 0; k < hash_slices; ++k)
        hash.slice[k] = slice_of(fat, lng, k);
    hash.sample = sample_of(fat, lng);
    return hash;
}

LinkSet &LinkCache::slot_for(const void *fat, const void *lng) {
    for (const auto &set : sets_)
        if (set->fat == fat && set->lng == lng) {
            set->used = ++clock_;
            return *set;
        }
    if (sets_.size() >= most_link_sets)
        drop_oldest(nullptr);
    sets_.push_back(std::make_unique<LinkSet>(LinkSet{fat, lng, {}, nullptr, ++clock_}));
    return *sets_.back();
}

void LinkCache::keep(LinkSet &set, const void *fat, const void *lng) {
    set.fat = fat;
    set.lng = lng;
    set.hash = hash_of(fat, lng);
    set.used = ++clock_;
}

bool LinkCache::drop_oldest(const LinkSet *except) {
    const auto oldest = std::min_element(sets_.begin(), sets_.end(), [&](const auto &a, const auto &b) {
        return (a.get() == except) != (b.get() == except) ? b.get() == except : a->used < b->used;
    });
    if (oldest == sets_.end() || oldest->get() == except)
        return false;
    milcgpu_links_destroy((*oldest)->handle);
    sets_.erase(oldest);
    return true;
}

void LinkCache::drop_all() {
    while (drop_oldest(nullptr))
        continue;
}

// A call looks at a random sample, which shows any edit that MILC makes (a boundary, a direction, all links), and at
// one eighth of everything in turn; on a small lattice, and with MILCGPU_HASH=full, at everything. nullptr: none is.
LinkSet *LinkCache::current(const void *fat, const void *lng) {
    if (!whole_ && sites_ >= sampled_from_sites) {
        const int turn = static_cast<int>(++clock_ % hash_slices);
        for (const auto &set : sets_)
            if (set->fat == fat && set->lng == lng && set->handle != nullptr &&
                set->hash.sample == sample_of(fat, lng) && set->hash.slice[turn] == slice_of(fat, lng, turn))
                return set.get();
    }
    const uint64_t all = hash_of(fat, lng).all();
    for (const auto &set : sets_)
        if (set->hash.all() == all && set->handle != nullptr)
            return set.get();
    return nullptr;
}

milcgpu_status LinkCache::ready(const void *fat, const void *lng, LinkSet *&set) {
    set = current(fat, lng);
    const bool stale = agreed(set == nullptr);
    if (!stale) {
        set->used = ++clock_;
        return MILCGPU_OK;
    }
    LinkSet &slot = slot_for(fat, lng);
    const milcgpu_status status = load(slot, fat, lng);
    if (status == MILCGPU_OK) {
        keep(slot, fat, lng);
        set = &slot;
    } else {
        slot.used = 0; // the oldest, to be dropped
        drop_oldest(nullptr);
    }
    return status;
}

milcgpu_status LinkCache::load(LinkSet &set, const void *fat, const void *lng) {
    const milcgpu_field fat_field = field(fat), lng_field = field(lng);
    for (;;) {
        const milcgpu_status status = set.handle == nullptr
                                          ? milcgpu_links_create(context_, &fat_field, &lng_field, &set.handle)
                                          : milcgpu_links_update(set.handle, &fat_field, &lng_field, nullptr);
        if (status != MILCGPU_NO_MEMORY || !drop_oldest(&set))
            return status;
    }
}

} // namespace milcgpu
