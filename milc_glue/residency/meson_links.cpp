#include "milc_glue/residency/meson_links.h"
#include <algorithm>
#include <utility>

namespace milcgpu {

constexpr size_t most_meson_links = 3; // APE links with phases out and as they are, and the gauge field

// The first set that every rank has from these addresses, which are each rank's own.
MesonLinksCache::Found MesonLinksCache::found(const HostRecords &links, const int *origin) {
    uint64_t with_addresses = 0, holding = 0;
    for (size_t k = 0; k < sets_.size(); ++k)
        if (sets_[k].mirror.is_at(links.data) && std::equal(origin, origin + 4, sets_[k].origin)) {
            with_addresses |= uint64_t{1} << k;
            holding |= static_cast<uint64_t>(sets_[k].mirror.is_same()) << k;
        }
    const Collective::Words all = collective_.on_all_ranks({with_addresses, holding, holding == 0 && kept_.has(links)});
    size_t k = 0;
    while (k < sets_.size() && (all[0] >> k & 1) == 0)
        ++k;
    return {sets_.begin() + k, (all[1] >> k & 1) != 0, all[2] != 0};
}

milcgpu_status MesonLinksCache::ready(const HostRecords &links, const int *origin, milcgpu_meson_links *&handle,
                                      uint64_t &moved) {
    if (links.data == nullptr) {
        const milcgpu_status status =
            empty_ != nullptr ? MILCGPU_OK : collective_(milcgpu_meson_links_create(context_, real_, &empty_));
        handle = empty_;
        return status;
    }
    const InUse use = kept_.use();
    const int none[4] = {-1, -1, -1, -1}, *const wanted = origin != nullptr ? origin : none;
    auto [old, same, kept] = found(links, wanted);
    if (same) {
        old->mirror.looked(true);
        old->used = ++clock_;
        handle = old->handle;
        return MILCGPU_OK;
    }
    if (old == sets_.end() && sets_.size() == most_meson_links)
        old = std::min_element(sets_.begin(), sets_.end(), [](const Set &a, const Set &b) { return a.used < b.used; });
    Set set{{links, Mirror::Look::whole}, {wanted[0], wanted[1], wanted[2], wanted[3]}, nullptr, ++clock_};
    if (old != sets_.end()) {
        set.handle = old->handle;
        sets_.erase(old);
    } else if (const milcgpu_status status = collective_(milcgpu_meson_links_create(context_, real_, &set.handle))) {
        return status;
    }
    milcgpu_meson_links_spec spec{};
    spec.struct_size = sizeof spec;
    spec.signs = origin != nullptr ? MILCGPU_SIGNS_IN : MILCGPU_SIGNS_AS_THEY_ARE;
    std::copy(wanted, wanted + 4, spec.origin);
    // The boundary sign stays in the links: it does not depend on the order of steps.
    const milcgpu_field field = {const_cast<void *>(links.data), real_, 0};
    const milcgpu_status status = collective_(kept ? milcgpu_meson_links_load_gauge(set.handle, &spec, kept_.handle())
                                                   : milcgpu_meson_links_load(set.handle, &spec, &field));
    if (status != MILCGPU_OK) {
        milcgpu_meson_links_destroy(set.handle);
        return status;
    }
    moved += kept ? 0 : links.count * links.bytes;
    set.mirror.both_have();
    sets_.push_back(set);
    handle = set.handle;
    return MILCGPU_OK;
}

bool MesonLinksCache::drop_all() {
    const bool any = !sets_.empty();
    for (const Set &set : sets_)
        milcgpu_meson_links_destroy(set.handle);
    sets_.clear();
    milcgpu_meson_links_destroy(std::exchange(empty_, nullptr));
    return any;
}

bool MesonLinksCache::expect(const void *links, bool are_new) {
    bool any = false;
    for (Set &set : sets_)
        if (set.mirror.is_at(links)) {
            set.mirror.look_next(are_new ? Mirror::Look::whole : Mirror::Look::none);
            any = true;
        }
    return any;
}

} // namespace milcgpu
