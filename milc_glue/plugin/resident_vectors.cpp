#include "milc_glue/plugin/resident_vectors.h"
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
    fields_.clear();
    held_.clear();
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
    held_.resize(fields_.size(), 0);
    return first;
}

void ResidentVectors::now_holds(int index, int parity, bool poison) {
    held_[index] |= parity;
    if (!poison)
        return;
    const size_t bytes = 6 * (real_ == MILCGPU_DOUBLE ? sizeof(double) : sizeof(float));
    unsigned char *const even = static_cast<unsigned char *>(fields_[index]), *const odd = even + sites_[0] * bytes;
    std::memset(parity == MILCGPU_EVEN ? even : odd, 0xFF, sites_[parity == MILCGPU_ODD] * bytes);
}

void ResidentVectors::to_host(const void *field) {
    const int index = find(field);
    if (index < 0)
        return;
    for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD}) {
        const milcgpu_field to{fields_[index], real_, 0};
        if (holds(index, parity) && milcgpu_vectors_save(handle_, index, parity, &to) != MILCGPU_OK)
            throw Error(Status::device_lost, format("solutions are on the GPU and lost: %s", milcgpu_last_error()));
    }
    held_[index] = 0;
}

void ResidentVectors::all_to_host() {
    for (const void *field : fields_)
        to_host(field);
}

} // namespace milcgpu
