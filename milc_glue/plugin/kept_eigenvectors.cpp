#include "milc_glue/plugin/kept_eigenvectors.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/eigen.h"
#include <algorithm>
#include <utility>

namespace milcgpu {

KeptEigenvectors::Set *KeptEigenvectors::of(const LinkSet &links, int parity) {
    if (sets_.empty())
        return nullptr;
    ++clock_;
    uint64_t bits = 0;
    for (size_t k = 0; k < sets_.size(); ++k)
        bits |= static_cast<uint64_t>(sets_[k]->content == links.mirror.content() && sets_[k]->parity == parity) << k;
    bits = collective_.on_all_ranks(bits);
    for (size_t k = 0; k < sets_.size(); ++k)
        if ((bits >> k & 1) != 0) {
            Set &set = *sets_[k];
            set.used = clock_;
            const bool there = milcgpu_eigenvectors_count(set.handle) > 0;
            if (there) // of this content, where the links were loaded again, too
                set.handle->set->links = links.handle->links->tag();
            if (there || set.handle == nullptr)
                return &set;
            erase(set); // a bit has flipped in them, which was said
            return nullptr;
        }
    return nullptr;
}

double KeptEigenvectors::last_value(int parity) const {
    const Set *newest = nullptr;
    for (const auto &set : sets_)
        if (set->parity == parity && milcgpu_eigenvectors_count(set->handle) > 0 &&
            (newest == nullptr || set->used > newest->used))
            newest = set.get();
    if (newest == nullptr)
        return 0;
    std::vector<double> values(milcgpu_eigenvectors_count(newest->handle));
    milcgpu_eigenvectors_values(newest->handle, values.data(), nullptr);
    return values.back();
}

KeptEigenvectors::Set &KeptEigenvectors::keep(const LinkSet &links, int parity, bool exact,
                                              milcgpu_eigenvectors *handle) {
    if (Set *const before = of(links, parity))
        erase(*before);
    while (sets_.size() >= most_sets)
        drop_oldest(clock_);
    sets_.push_back(std::make_unique<Set>(Set{links.mirror.content(), parity, exact, handle, ++clock_, false}));
    return *sets_.back();
}

void KeptEigenvectors::make_room(size_t bytes, const LinkSet &links) {
    const long before = clock_;
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        of(links, parity);
    while (collective_(static_cast<int>(bytes > context_->device->free_bytes())) != 0 && drop_oldest(before))
        continue;
}

bool KeptEigenvectors::drop_oldest(long last_used_until) {
    const auto oldest =
        std::min_element(sets_.begin(), sets_.end(), [](const auto &a, const auto &b) { return a->used < b->used; });
    if (oldest == sets_.end() || (*oldest)->used > last_used_until)
        return false;
    erase(**oldest);
    return true;
}

bool KeptEigenvectors::drop_others() {
    const size_t before = sets_.size();
    while (drop_oldest(clock_ - 1))
        continue;
    return sets_.size() < before;
}

void KeptEigenvectors::forget_vectors(Set &set) { milcgpu_eigenvectors_destroy(std::exchange(set.handle, nullptr)); }

void KeptEigenvectors::drop_all() {
    while (!sets_.empty())
        erase(*sets_.back());
}

void KeptEigenvectors::erase(const Set &set) {
    milcgpu_eigenvectors_destroy(set.handle);
    sets_.erase(std::find_if(sets_.begin(), sets_.end(), [&](const auto &one) { return one.get() == &set; }));
}

} // namespace milcgpu
