#include "gpu_kernels/fields/asked_fields.h"

namespace milcgpu {

namespace {
constexpr size_t most = most_regions; // fields of a kind, before their answers must be read
} // namespace

AskedFields::AskedFields(Device &device) {
    queue_of(device).collective("room for checksums", [&] { sums_ = {device, 2 * most, "checksums"}; });
    queue_of(device).fill_zero(sums_.data(), sums_.bytes());
}

size_t AskedFields::bytes() { return 2 * most * sizeof(uint64_t); }

void AskedFields::unchanged(const LinkField &field, const char *name) {
    if (!field.keeps_sum())
        return;
    if (read_.size() == most)
        must_hold();
    Region region = field.region(name);
    region.kept = field.kept().sum;
    take_checksums(sums_.device(), &region, 1, sums_.data() + read_.size());
    read_.push_back(name);
}

void AskedFields::used_up(const LinkField &field, const char *name) {
    if (!field.keeps_sum())
        return;
    if (used_up_.size() == most)
        must_hold();
    used_up_.push_back({name, field.share_of_sum()});
}

void AskedFields::must_hold() {
    Device &device = sums_.device();
    queue_of(device).collective("the test of fields of a call", [&] {
        std::vector<Region> nothing_left;
        for (const UsedUp &field : used_up_)
            nothing_left.push_back({nullptr, 0, 0, field.name, nullptr, field.sum.get()});
        if (!nothing_left.empty())
            take_checksums(device, nothing_left.data(), static_cast<int>(nothing_left.size()), sums_.data() + most);
        const std::vector<uint64_t> sums = sums_.to_host();
        std::string changed;
        const auto report = [&](uint64_t sum, const char *name) {
            if (sum != 0)
                changed += std::string(changed.empty() ? "" : ", ") + name;
        };
        for (size_t k = 0; k < read_.size(); ++k)
            report(sums[k], read_[k]);
        for (size_t k = 0; k < used_up_.size(); ++k)
            report(sums[most + k], used_up_[k].name);
        read_.clear();
        used_up_.clear();
        if (changed.empty())
            return;
        queue_of(device).fill_zero(sums_.data(), sums_.bytes());
        throw Error(
            Status::corrupted,
            format("%s changed on the device within the call: a bit flipped, or other code wrote there. Call again",
                   changed.c_str()));
    });
}

} // namespace milcgpu
