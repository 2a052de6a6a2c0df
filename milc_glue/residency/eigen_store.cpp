#include "milc_glue/residency/eigen_store.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/residency/reason.h"
#include "milc_glue/solve/eigen_handle.h"
#include <algorithm>
#include <utility>

namespace milcgpu {

EigenStore::Set *EigenStore::find(uint64_t content, int parity) {
    if (sets_.empty())
        return nullptr;
    ++clock_;
    uint64_t bits = 0;
    for (size_t k = 0; k < sets_.size(); ++k)
        bits |= static_cast<uint64_t>(sets_[k]->content == content && sets_[k]->parity == parity) << k;
    bits = collective_.on_all_ranks(bits);
    for (size_t k = 0; k < sets_.size(); ++k)
        if ((bits >> k & 1) != 0) {
            Set &set = *sets_[k];
            set.used = clock_;
            if (set.count() > 0 || set.handle == nullptr || alone_has(set))
                return &set;
            erase(set); // a bit has flipped in them, and a line has said so
            return nullptr;
        }
    return nullptr;
}

EigenStore::Set *EigenStore::of(const LinkSet &links, int parity) {
    Set *const set = find(links.content(), parity);
    if (set != nullptr && set->count() > 0) // the links may have been loaded again: they have another tag then
        set->handle->set->links = links.handle->links->tag();
    return set;
}

double EigenStore::last_value(int parity) const {
    const Set *newest = nullptr;
    for (const auto &set : sets_)
        if (set->parity == parity && set->count() > 0 && (newest == nullptr || set->used > newest->used))
            newest = set.get();
    if (newest == nullptr)
        return 0;
    return newest->handle->set->highest();
}

EigenStore::Set &EigenStore::keep(uint64_t content, int parity, bool exact, milcgpu_eigenvectors *handle) {
    if (Set *const before = find(content, parity))
        erase(*before);
    while (sets_.size() >= most_sets)
        drop_oldest(clock_);
    sets_.push_back(std::make_unique<Set>(Set{content, parity, exact, handle, ++clock_, false}));
    return *sets_.back();
}

milcgpu_status EigenStore::save(const Set &set, int count, void *const *fields) {
    milcgpu_status status = MILCGPU_OK;
    for (int k = 0; k < count && status == MILCGPU_OK; ++k) {
        const milcgpu_field to{fields[k], real_, 0};
        status = collective_(milcgpu_eigenvectors_save(set.handle, k, &to));
    }
    return status;
}

void EigenStore::mirror(const Set &set, void *const *fields, bool filled) {
    deferred_.drop(MILCGPU_EIGENVECTORS);
    mirrored_ = nullptr;
    fields_.clear();
    for (int k = 0; k < set.count(); ++k)
        fields_.push_back({fields[k], real_, 0});
    if (!filled) {
        DeferredValues::Value value{MILCGPU_EIGENVECTORS, std::vector<const void *>(fields, fields + set.count())};
        value.maker = std::make_shared<DeferredValues::Maker>();
        value.maker->make = [this](const DeferredValues::Value &made) { copy_to_host(made.links.get()); };
        deferred_.add(std::move(value));
    }
    mirrored_ = &set;
}

bool EigenStore::has(void *const *fields, int count, int parity) const {
    const bool same = mirrored_ != nullptr && mirrored_->parity == parity && mirrored_->count() == count &&
                      std::equal(fields_.begin(), fields_.end(), fields, fields + count,
                                 [](const milcgpu_field &field, const void *data) { return field.data == data; });
    return !collective_(!same);
}

void EigenStore::forget_other_parity() {
    if (row() != nullptr)
        row()->links.reset();
    if (mirrored_ == nullptr)
        return;
    if (Set *const made = of_fields(MILCGPU_EVEN + MILCGPU_ODD - mirrored_->parity))
        erase(*made);
}

void EigenStore::copy_to_host(milcgpu_links *links_of_other) {
    const int count = static_cast<int>(fields_.size());
    milcgpu_status status = MILCGPU_OK;
    for (int k = 0; k < count && status == MILCGPU_OK; ++k)
        status = collective_(milcgpu_eigenvectors_save(mirrored_->handle, k, &fields_[k]));
    if (status == MILCGPU_OK && links_of_other != nullptr)
        status = collective_(other_parity_to_host(mirrored_->handle, links_of_other, count, fields_.data()));
    if (status != MILCGPU_OK)
        throw Error(static_cast<Status>(status), reason());
}

void EigenStore::make_room(size_t bytes, const LinkSet &links) {
    const long before = clock_;
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        of(links, parity);
    while (collective_(static_cast<int>(bytes > context_->device->free_bytes())) != 0 && drop_oldest(before))
        continue;
}

bool EigenStore::drop_oldest(long last_used_until) {
    const Set *oldest = nullptr;
    for (const auto &set : sets_)
        if (!alone_has(*set) && set->used <= last_used_until && (oldest == nullptr || set->used < oldest->used))
            oldest = set.get();
    if (oldest != nullptr)
        erase(*oldest);
    return oldest != nullptr;
}

void EigenStore::drop_until(long last_used) {
    while (drop_oldest(last_used))
        continue;
}

bool EigenStore::drop_others() {
    const size_t before = sets_.size();
    drop_until(clock_ - 1);
    return sets_.size() < before;
}

void EigenStore::forget_vectors(Set &set) { milcgpu_eigenvectors_destroy(std::exchange(set.handle, nullptr)); }

void EigenStore::drop_all() {
    while (!sets_.empty())
        erase(*sets_.back());
}

void EigenStore::erase(const Set &set) {
    if (&set == mirrored_) {
        mirrored_ = nullptr;
        deferred_.drop(MILCGPU_EIGENVECTORS);
    }
    milcgpu_eigenvectors_destroy(set.handle);
    sets_.erase(std::find_if(sets_.begin(), sets_.end(), [&](const auto &one) { return one.get() == &set; }));
}

} // namespace milcgpu
