#include "milc_glue/links/verify.h"
#include "milc_glue/api/checksum_room.h"
#include "milc_glue/links/links_handle.h"

namespace milcgpu {

void flip_if_planted(milcgpu_links &links) {
    if (!std::exchange(links.context->flip_links, false))
        return;
    Device &device = *links.context->device;
    unsigned char *const sign = links.links->full().fat->block(0, 0) + 7;
    unsigned char byte;
    device.copy_to_host(&byte, sign, 1);
    byte ^= 0x80;
    device.copy_to_device(sign, &byte, 1);
}

std::function<void()> emptying(milcgpu_links &links) {
    return [&links] {
        links.context->forget(&links);
        links.links->clear();
    };
}

using namespace checksum_room;

Verification::Verification(milcgpu_context &context, std::function<void()> empty)
    : context_(context), empty_(std::move(empty)) {
    if (context.verify)
        context.device->fill_zero(context.checksums.data(), context.checksums.bytes());
}

uint64_t *Verification::checksums_of_links() const {
    return context_.verify ? context_.checksums.data() + first_of_links : nullptr;
}

void Verification::loaded(const SpinorBlock &vectors) {
    if (!context_.verify)
        return;
    const Region region{vectors.data, vectors.bytes(), 0, "source"};
    take_checksums(*context_.device, &region, 1, context_.checksums.data() + loaded_.size());
    loaded_.push_back(vectors);
}

bool Verification::holds(const std::vector<Region> &links) {
    bool here = true;
    try {
        context_.device->collective("the check of the inputs of a solve", [&] {
            context_.callbacks.throw_what_they_threw();
            here = !context_.verify || holds_here(links);
        });
    } catch (const Error &error) {
        if (error.status() == Status::corrupted && empty_)
            empty_();
        throw;
    }
    if (context_.verify)
        for (const int there : context_.ranks->gathered("the check of a source", static_cast<int>(here)))
            here = here && there != 0;
    return here;
}

void Verification::loaded_must_hold() const {
    if (!loaded_.empty() && !holds_here({}))
        throw Error(Status::corrupted, "the device no longer holds the fields that this call loaded: a bit flipped, or "
                                       "other code wrote there. Nothing was written: call again");
}

bool Verification::holds_here(std::vector<Region> regions) const {
    const size_t links = regions.size();
    if (context_.map.data() != nullptr)
        regions.push_back(context_.map.region());
    const size_t first_loaded = regions.size();
    for (const SpinorBlock &vector : loaded_)
        regions.push_back({vector.data, vector.bytes(), 0, "source"});
    const DeviceArray<uint64_t> &sums = context_.checksums;
    std::vector<Region> of_the_pass;
    for (Region &region : regions)
        if (region.taken == nullptr) {
            region.taken = sums.data() + first_of_pass + of_the_pass.size();
            of_the_pass.push_back(region);
        }
    take_checksums(*context_.device, of_the_pass.data(), static_cast<int>(of_the_pass.size()),
                   sums.data() + first_of_pass);
    const std::vector<uint64_t> seen = sums.to_host();
    for (size_t k = first_loaded; k < regions.size(); ++k)
        regions[k].expected = seen[k - first_loaded];
    std::string changed;
    bool loaded_changed = false, links_changed = false;
    for (size_t k = 0; k < regions.size(); ++k)
        if (seen[regions[k].taken - sums.data()] != regions[k].expected) {
            links_changed = links_changed || k < links;
            loaded_changed = loaded_changed || k >= first_loaded;
            if (k < first_loaded)
                changed += std::string(changed.empty() ? "" : ", ") + regions[k].name;
        }
    if (!changed.empty())
        throw Error(Status::corrupted,
                    format("the device no longer holds what was loaded: %s changed. A bit flipped, or other code wrote "
                           "there. %s",
                           changed.c_str(),
                           links_changed ? "The links are dropped, and must be loaded again"
                                         : "Destroy the context and create another one"));
    return !loaded_changed;
}

} // namespace milcgpu
