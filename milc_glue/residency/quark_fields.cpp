#include "milc_glue/residency/quark_fields.h"
#include "milc_glue/api/context.h"
#include <algorithm>

namespace milcgpu {

QuarkFields::~QuarkFields() {
    for (const std::weak_ptr<QuarkField> &field : all_)
        if (const auto alive = field.lock())
            alive->release();
}

milcgpu_status QuarkFields::empty(std::shared_ptr<QuarkField> &made, int count) {
    const auto gone = [](const std::weak_ptr<QuarkField> &field) { return field.expired(); };
    all_.erase(std::remove_if(all_.begin(), all_.end(), gone), all_.end());
    made = std::make_shared<QuarkField>();
    all_.push_back(made); // before it is made: if this throws nothing is lost
    return made->make(context_, real_, count);
}

milcgpu_status QuarkFields::with_content(const void *field, std::shared_ptr<QuarkField> &found, uint64_t &moved) {
    const Mirror here = mirror_of(field);
    const Mirror::Tag tag = stays_ ? here.tag_now() : Mirror::Tag{};
    const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Kept &kept) { return kept.mirror.has(tag); });
    if (known != kept_.end()) {
        known->used = ++clock_;
        found = known->field;
        return MILCGPU_OK;
    }
    const milcgpu_status status = loaded(field, found, moved);
    if (status == MILCGPU_OK)
        keep(found, here, tag);
    return status;
}

milcgpu_status QuarkFields::loaded(const void *field, std::shared_ptr<QuarkField> &made, uint64_t &moved) {
    milcgpu_status status = empty(made);
    const milcgpu_field from = {const_cast<void *>(field), real_, 0};
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        if (status == MILCGPU_OK)
            status = milcgpu_vectors_load(made->vector().of, 0, parity, &from);
    if (status == MILCGPU_OK)
        moved += field_bytes();
    return status;
}

milcgpu_status QuarkFields::deliver(const std::shared_ptr<QuarkField> &made, const milcgpu_field &to, uint64_t &moved) {
    const milcgpu_status status = milcgpu_vectors_save(made->vector().of, 0, MILCGPU_EVEN + MILCGPU_ODD, &to);
    if (status != MILCGPU_OK)
        return status;
    moved += field_bytes();
    if (stays_)
        keep(made, mirror_of(to.data), mirror_of(to.data).tag_now());
    return MILCGPU_OK;
}

void QuarkFields::keep(const std::shared_ptr<QuarkField> &field, Mirror mirror, const Mirror::Tag &tag) {
    if (!stays_)
        return;
    constexpr size_t share = 4; // of the memory that is free when the first field is kept
    if (most_ == 0)
        most_ = std::max<size_t>(1, context_->device->free_bytes() / (share * field_bytes()));
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](const Kept &kept) { return kept.mirror.has(tag); }),
                kept_.end());
    while (kept_.size() >= most_)
        if (!drop_oldest())
            return;
    mirror.both_have(tag);
    kept_.push_back({mirror, field, ++clock_});
}

bool QuarkFields::drop_oldest() {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(), [](const Kept &a, const Kept &b) {
        const bool idle_a = a.field.use_count() == 1, idle_b = b.field.use_count() == 1;
        return idle_a != idle_b ? idle_a : a.used < b.used;
    });
    if (oldest == kept_.end() || oldest->field.use_count() > 1)
        return false;
    kept_.erase(oldest);
    return true;
}

} // namespace milcgpu
