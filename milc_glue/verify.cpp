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

namespace {
// Behind the source's checksum as it was loaded: those of links that the solve took, then those of the pass at the end.
constexpr size_t first_of_links = 1, first_of_pass = first_of_links + NormalOperator::most_checksums;
} // namespace

DeviceArray<uint64_t> room_for_checksums(Device &device) { return {device, first_of_pass + most_regions, "checksums"}; }

uint64_t *Verification::checksums_of_links() const {
    return context_.verify ? context_.checksums.data() + first_of_links : nullptr;
}

void Verification::source_loaded(const SpinorBlock &source) {
    if (!context_.verify)
        return;
    source_ = source;
    const Region region{source.data, source.bytes(), 0, "source"};
    context_.device->fill_zero(context_.checksums.data(), context_.checksums.bytes());
    take_checksums(*context_.device, &region, 1, context_.checksums.data());
}

bool Verification::holds(const std::vector<Region> &links) {
    bool here = true;
    context_.device->agree("the check of what a solve stands on", [&] { here = holds_here(links); });
    for (const int there : context_.ranks->gathered("the check of a source", static_cast<int>(here)))
        here = here && there != 0;
    return here;
}

bool Verification::holds_here(std::vector<Region> regions) {
    const size_t links = regions.size();
    if (context_.map.data() != nullptr)
        regions.push_back(context_.map.region());
    const size_t source = regions.size();
    const DeviceArray<uint64_t> &sums = context_.checksums;
    if (source_)
        regions.push_back({source_.data, source_.bytes(), 0, "source"});
    else
        context_.device->fill_zero(sums.data(), sums.bytes());
    std::vector<Region> of_the_pass;
    for (Region &region : regions)
        if (region.taken == nullptr) {
            region.taken = sums.data() + first_of_pass + of_the_pass.size();
            of_the_pass.push_back(region);
        }
    take_checksums(*context_.device, of_the_pass.data(), static_cast<int>(of_the_pass.size()),
                   sums.data() + first_of_pass);
    const std::vector<uint64_t> seen = sums.to_host();
    if (source_)
        regions.back().expected = seen[0];
    std::string changed;
    bool source_changed = false, links_changed = false;
    for (size_t k = 0; k < regions.size(); ++k)
        if (seen[regions[k].taken - sums.data()] != regions[k].expected) {
            links_changed = links_changed || k < links;
            source_changed = source_changed || k >= source;
            if (k < source)
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
