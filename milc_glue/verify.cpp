#include "milc_glue/verify.h"

namespace milcgpu {

void flip_a_bit(milcgpu_links &links) {
    Device &device = *links.context->device;
    unsigned char *const sign = links.links->full().fat->block(0, 0) + 7;
    unsigned char byte;
    device.copy_to_host(&byte, sign, 1);
    byte ^= 0x80;
    device.copy_to_device(sign, &byte, 1);
}

void Verification::source_loaded(const SpinorBlock &source) {
    if (!context_.verify)
        return;
    source_ = source;
    const Region region{source.data, source.bytes(), 0, "source"};
    context_.device->fill_zero(context_.checksums.data(), context_.checksums.bytes());
    take_checksums(*context_.device, &region, 1, context_.checksums.data());
}

bool Verification::holds(std::vector<Region> regions) {
    const size_t of_links = regions.size();
    if (context_.map.data() != nullptr)
        regions.push_back(context_.map.region());
    const size_t of_source = regions.size();
    if (source_)
        regions.push_back({source_.data, source_.bytes(), 0, "source"});
    else
        context_.device->fill_zero(context_.checksums.data(), context_.checksums.bytes());
    const DeviceArray<uint64_t> &sums = context_.checksums; // the source's as it was loaded, then those of now
    take_checksums(*context_.device, regions.data(), static_cast<int>(regions.size()), sums.data() + 1);
    const std::vector<uint64_t> now = sums.to_host();
    if (source_)
        regions.back().expected = now[0];
    std::string changed;
    bool source_changed = false, links_changed = false;
    for (size_t k = 0; k < regions.size(); ++k)
        if (now[k + 1] != regions[k].expected) {
            links_changed = links_changed || k < of_links;
            source_changed = source_changed || k >= of_source;
            if (k < of_source)
                changed += std::string(changed.empty() ? "" : ", ") + regions[k].name;
        }
    if (links_changed) {
        context_.forget(&links_, 0);
        links_.links->clear();
    }
    if (!changed.empty())
        throw Error(Status::corrupted,
                    format("the device no longer holds what was loaded: %s changed. A bit flipped, or somebody wrote "
                           "there. %s",
                           changed.c_str(),
                           links_changed ? "The links are empty now: update them and solve again"
                                         : "Destroy the context and make another one"));
    return !source_changed;
}

} // namespace milcgpu
