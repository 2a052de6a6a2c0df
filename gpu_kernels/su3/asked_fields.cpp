#include "gpu_kernels/su3/asked_fields.h"

namespace milcgpu {

namespace {
constexpr size_t most = 24; // fields, before it has to look
} // namespace

AskedFields::AskedFields(Device &device) {
    device.agree("room for checksums", [&] { sums_ = {device, 2 * most, "checksums"}; });
    device.fill_zero(sums_.data(), sums_.bytes());
}

size_t AskedFields::bytes() { return 2 * most * sizeof(uint64_t); }

uint64_t *AskedFields::next(const LinkField &field, const char *name) {
    if (names_.size() == most)
        must_hold();
    uint64_t *const here = sums_.data() + 2 * names_.size();
    sums_.device().copy_on_device(here, field.kept().sum, sizeof *here);
    names_.push_back(name);
    return here + 1;
}

void AskedFields::unchanged(const LinkField &field, const char *name) {
    if (!field.keeps_sum())
        return;
    const Region region = field.region(name);
    take_checksums(sums_.device(), &region, 1, next(field, name));
}

void AskedFields::used_up(const LinkField &field, const char *name) {
    if (field.keeps_sum())
        next(field, name);
}

void AskedFields::must_hold() {
    Device &device = sums_.device();
    device.agree("a look at fields of a call", [&] {
        const std::vector<uint64_t> sums = sums_.to_host();
        std::string changed;
        for (size_t k = 0; k < names_.size(); ++k)
            if (sums[2 * k] != sums[2 * k + 1])
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
