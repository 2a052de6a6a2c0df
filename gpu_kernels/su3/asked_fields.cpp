#include "gpu_kernels/su3/asked_fields.h"

namespace milcgpu {

namespace {
constexpr size_t most = 24; // fields, before it has to look
} // namespace

AskedFields::AskedFields(Device &device) {
    device.agree("room for checksums", [&] { sums_ = {device, most, "checksums"}; });
    device.fill_zero(sums_.data(), sums_.bytes());
}

size_t AskedFields::bytes() { return most * sizeof(uint64_t); }

void AskedFields::ask(const LinkField &field, const char *name, size_t bytes) {
    if (!field.keeps_sum())
        return;
    if (names_.size() == most)
        must_hold();
    Region region = field.region(name);
    region.bytes = bytes;
    region.kept = field.kept().sum;
    take_checksums(sums_.device(), &region, 1, sums_.data() + names_.size());
    names_.push_back(name);
}

void AskedFields::unchanged(const LinkField &field, const char *name) { ask(field, name, field.bytes()); }
void AskedFields::used_up(const LinkField &field, const char *name) { ask(field, name, 0); }

void AskedFields::must_hold() {
    Device &device = sums_.device();
    device.agree("a look at fields of a call", [&] {
        const std::vector<uint64_t> sums = sums_.to_host();
        std::string changed;
        for (size_t k = 0; k < names_.size(); ++k)
            if (sums[k] != 0)
                changed += std::string(changed.empty() ? "" : ", ") + names_[k];
        names_.clear();
        device.fill_zero(sums_.data(), sums_.bytes());
        if (!changed.empty())
            throw Error(Status::corrupted,
                        format("%s changed on the device within the call: a bit flipped, or somebody "
                               "wrote there. Call again",
                               changed.c_str()));
    });
}

} // namespace milcgpu
