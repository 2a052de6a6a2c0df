#include "milc_glue/residency/mirror.h"
#include <cstring>

namespace milcgpu {

namespace {

// Links and momenta are hashed record by record: a copy with another stride has the same hash. Vectors are packed, and
// are faster to hash as a whole.
bool by_records(const HostRecords &field) { return field.bytes >= 128 || field.pitch != field.bytes; }

uint64_t hash_whole(const HostRecords &field) {
    return by_records(field) ? hash_records(field) : hash_bytes(field.data, field.count * field.bytes);
}

} // namespace

Mirror::Tag Mirror::tag_now() const {
    const bool two = second_.data != nullptr;
    if (look_ != Look::sample)
        return {combined(hash_whole(field_), two ? hash_whole(second_) : 0)};
    const Tag first = hash_all_and_sample(field_), second = two ? hash_all_and_sample(second_) : Tag{};
    return {combined(first.all, second.all), combined(first.sample, second.sample)};
}

bool Mirror::has_copy(const HostRecords &copy) const {
    return newest_ == Newest::both && by_records(field_) == by_records(copy) && tag_.all == hash_whole(copy);
}

bool Mirror::is_same() const {
    if (newest_ != Newest::both)
        return false;
    switch (next_) {
    case Look::none:
        return true;
    case Look::whole:
        return is_untouched();
    case Look::sample:
        break;
    }
    const uint64_t second = second_.data != nullptr ? hash_records(second_, Share::sample) : 0;
    return tag_.sample == combined(hash_records(field_, Share::sample), second);
}

void Mirror::looked(bool all) {
    rest_is_unseen_ = !all && next_ == Look::sample;
    next_ = look_;
}

bool Mirror::saw_rest(uint64_t hash) {
    rest_is_unseen_ = false;
    return hash == tag_.rest();
}

void Mirror::both_have(const Tag &tag) {
    newest_ = Newest::both;
    tag_ = tag;
    rest_is_unseen_ = false;
    next_ = look_;
}

void Mirror::host_wrote() {
    newest_ = Newest::host;
    version_ = ++versions_;
}

void Mirror::device_wrote(bool poison) {
    newest_ = Newest::device;
    version_ = ++versions_;
    rest_is_unseen_ = false;
    if (!poison)
        return;
    for (size_t k = 0; k < field_.count; ++k)
        std::memset(static_cast<unsigned char *>(const_cast<void *>(field_.data)) + k * field_.pitch, 0xFF,
                    field_.bytes);
    tag_ = tag_now();
}

} // namespace milcgpu
