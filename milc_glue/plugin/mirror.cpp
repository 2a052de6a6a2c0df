#include "milc_glue/plugin/mirror.h"
#include <cstring>

namespace milcgpu {

namespace {

// Links and momenta are hashed record by record: a copy with another stride has the same hash. Of vectors that takes
// longer, and they are packed.
bool by_records(const HostRecords &field) { return field.bytes >= 128 || field.pitch != field.bytes; }

uint64_t hash_whole(const HostRecords &field) {
    return by_records(field) ? hash_records(field) : hash_bytes(field.data, field.count * field.bytes);
}

} // namespace

Mirror::Tag Mirror::tag_now() const {
    const bool two = second_.data != nullptr;
    if (look_ != Look::eighth)
        return {combined(hash_whole(field_), two ? hash_whole(second_) : 0)};
    Tag tag = hash_all_parts(field_);
    if (two) {
        const Tag second = hash_all_parts(second_);
        for (int part = 0; part < hash_parts; ++part)
            tag[part] = combined(tag[part], second[part]);
    }
    return tag;
}

bool Mirror::has_copy(const HostRecords &copy) const {
    return newest_ == Newest::both && by_records(field_) == by_records(copy) && tag_[0] == hash_whole(copy);
}

bool Mirror::is_same() const {
    if (newest_ != Newest::both)
        return false;
    switch (next_) {
    case Look::told:
        return true;
    case Look::whole:
        return is_untouched();
    case Look::eighth:
        break;
    }
    const uint64_t second = second_.data != nullptr ? hash_part(second_, turn_) : 0;
    return tag_[turn_] == combined(hash_part(field_, turn_), second);
}

void Mirror::looked(bool all) {
    const bool part = !all && next_ == Look::eighth;
    turn_ = part ? (turn_ + 1) % hash_parts : turn_;
    unseen_ = part ? hash_parts - 1 : 0;
    next_ = look_;
}

void Mirror::saw(int parts) {
    turn_ = (turn_ + parts) % hash_parts;
    unseen_ -= parts;
}

void Mirror::both_have(const Tag &tag) {
    newest_ = Newest::both;
    tag_ = tag;
    turn_ = unseen_ = 0;
    next_ = look_;
}

void Mirror::host_wrote() {
    newest_ = Newest::host;
    version_ = ++versions_;
}

void Mirror::device_wrote(bool poison) {
    newest_ = Newest::device;
    version_ = ++versions_;
    turn_ = unseen_ = 0;
    if (!poison)
        return;
    for (size_t k = 0; k < field_.count; ++k)
        std::memset(static_cast<unsigned char *>(const_cast<void *>(field_.data)) + k * field_.pitch, 0xFF,
                    field_.bytes);
    tag_ = tag_now();
}

} // namespace milcgpu
