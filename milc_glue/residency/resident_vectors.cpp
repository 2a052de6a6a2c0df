#include "milc_glue/residency/resident_vectors.h"
#include "gpu_kernels/machine/error.h"
#include "milc_glue/api/context.h"
#include <algorithm>
#include <cstring>

namespace milcgpu {

void ResidentVectors::begin(milcgpu_context *context, int real, int most) {
    end();
    if (count_ < most)
        drop();
    context_ = context;
    most_ = most;
    real_ = real;
    for (const int parity : {0, 1})
        sites_[parity] = context->geometry.sites(parity);
}

void ResidentVectors::end() {
    most_ = 0;
    deferred_.drop(MILCGPU_SOLUTIONS);
    fields_.clear();
}

void ResidentVectors::drop() {
    end();
    milcgpu_vectors_destroy(handle_);
    handle_ = nullptr;
    count_ = 0;
}

int ResidentVectors::find(const void *field) const {
    const auto found = std::find(fields_.begin(), fields_.end(), field);
    return found != fields_.end() ? static_cast<int>(found - fields_.begin()) : -1;
}

int ResidentVectors::run_of(const milcgpu_field *fields, int n) const {
    const int first = n > 0 ? find(fields[0].data) : -1;
    if (first < 0 || first + n > static_cast<int>(fields_.size()))
        return -1;
    for (int i = 0; i < n; ++i)
        if (fields[i].pitch_bytes != 0 || fields[i].data != fields_[first + i])
            return -1;
    return first;
}

int ResidentVectors::take(const milcgpu_field *fields, int n) {
    const auto number = [&](int i) { return find(fields[i].data); };
    const int size = static_cast<int>(fields_.size()), known = number(0), first = known < 0 ? size : known;
    if (first + n > most_)
        return -1;
    for (int i = 0; i < n; ++i)
        if (fields[i].pitch_bytes != 0 || fields[i].data == nullptr || number(i) != (first + i < size ? first + i : -1))
            return -1;
    if (handle_ == nullptr) {
        if (milcgpu_vectors_create(context_, real_, most_, &handle_) != MILCGPU_OK) {
            end();
            return -1;
        }
        count_ = most_;
    }
    for (int i = size - first; i < n; ++i)
        fields_.push_back(fields[i].data);
    return first;
}

int ResidentVectors::held(int index) const {
    const DeferredValues::Value *const value = deferred_.find(MILCGPU_SOLUTIONS, fields_[index]);
    return value != nullptr ? value->parities : 0;
}

void ResidentVectors::now_holds(int index, int parity, bool poison) {
    if (DeferredValues::Value *const known = deferred_.find(MILCGPU_SOLUTIONS, fields_[index])) {
        known->parities |= parity;
    } else {
        DeferredValues::Value value{MILCGPU_SOLUTIONS, {fields_[index]}};
        value.parities = parity;
        value.maker = std::make_shared<DeferredValues::Maker>();
        value.maker->make = [this](const DeferredValues::Value &made) {
            copy_to_host(made.fields.front(), made.parities);
        };
        deferred_.add(std::move(value));
    }
    if (!poison)
        return;
    const size_t bytes = 6 * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float));
    unsigned char *const even = static_cast<unsigned char *>(fields_[index]), *const odd = even + sites_[0] * bytes;
    std::memset(parity == MILCGPU_EVEN ? even : odd, 0xFF, sites_[parity == MILCGPU_ODD] * bytes);
}

void ResidentVectors::holds_no_more(int index, int parities) {
    DeferredValues::Value *const value = deferred_.find(MILCGPU_SOLUTIONS, fields_[index]);
    if (value != nullptr && (value->parities &= ~parities) == 0)
        deferred_.drop(MILCGPU_SOLUTIONS, fields_[index]);
}

void ResidentVectors::copy_to_host(const void *field, int parities) const {
    const int index = find(field);
    const milcgpu_field to{const_cast<void *>(field), real_, 0};
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
        if ((parities & parity) != 0)
            if (const milcgpu_status status = milcgpu_vectors_save(handle_, index, parity, &to); status != MILCGPU_OK)
                throw Error(static_cast<Status>(status),
                            format("solutions are on the GPU and %s: %s",
                                   status == MILCGPU_DEVICE_LOST ? "lost" : "could not be copied",
                                   milcgpu_last_error()));
}

} // namespace milcgpu
