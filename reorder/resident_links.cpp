#include "reorder/resident_links.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/content_hash.h"

namespace milcgpu {

namespace {
constexpr int fat_layers = 1, long_layers = 3; // hops of a link
} // namespace

ResidentLinks::ResidentLinks(Device &device, const SiteMap &map, const Geometry &geometry, Precision host_real,
                             uint64_t changes, Halo *halo, const ResidentField::Warn &warn)
    : device_(device), map_(map), geometry_(geometry), halo_(halo), host_real_(host_real),
      fat_(std::make_shared<LinkField>(device, host_real, 18, geometry, "fat links as handed over")),
      lng_(std::make_shared<LinkField>(device, host_real, 18, geometry, "long links as handed over")),
      fat_links_(device, geometry, "fat links", warn, fat_layers, halo),
      long_links_(device, geometry, "long links", warn, long_layers, halo), changes_(changes) {}

size_t ResidentLinks::bytes_as_given(Precision host, const Geometry &geometry) {
    return 2 * Device::allocated_bytes(LinkField::bytes_of(host, 18, geometry));
}

bool ResidentLinks::update(const HostField &fat, const HostField &lng) {
    return update([&](const LinkField &fat_field, const LinkField &long_field) {
        links_to_device(device_, fat, map_, geometry_, fat_field);
        links_to_device(device_, lng, map_, geometry_, long_field);
    });
}

bool ResidentLinks::update(const std::function<void(const LinkField &fat, const LinkField &lng)> &make) {
    const bool had_content = generation_ != 0;
    generation_ = 0; // empty if anything below fails
    LinkField *const both[] = {fat_.get(), lng_.get()};
    device_.collective("the loading of links", [&] {
        for (LinkField *field : both)
            field->keep_sum();
        make(*fat_, *lng_);
        for (LinkField *field : both)
            clear_padding(device_, *field, geometry_); // each time, because a bit may have flipped there
    });
    for (LinkField *field : both) {
        if (halo_ != nullptr) {
            field->no_sum(); // ghosts would count
            halo_->exchange_backward(*field, field == fat_.get() ? fat_layers : long_layers);
        }
        device_.collective("a checksum of links", [&] { field->checksum = field->sum_of_content(); });
    }
    const LinkStatistics fat = finite_statistics(device_, *fat_, geometry_, "fat links"),
                         lng = finite_statistics(device_, *lng_, geometry_, "long links");
    const uint64_t before = std::exchange(content_, hash_with(0, fat.content, lng.content));
    const bool changed = !had_content || content_ != before;
    if (changed) {
        fat_links_.hold(fat_, fat), long_links_.hold(lng_, lng);
        lanes_.clear();
        ++changes_;
    }
    generation_ = changes_;
    return changed;
}

HeldLinks ResidentLinks::held_version(Precision precision, int reals) {
    HeldLinks held{fat_links_.version(precision, 18), long_links_.version(precision, reals), {}, {}};
    held.pair = {held.fat.get(), held.lng.get()};
    return held;
}

HeldLinks ResidentLinks::held_lanes(Precision precision) {
    if (!has_lanes(precision))
        lanes_[precision] = std::make_shared<const LaneLinks>(
            device_, geometry_, *fat_, *lng_, precision,
            LaneLinks::FatLong{fat_links_.statistics().largest, long_links_.statistics().largest});
    const std::shared_ptr<const LaneLinks> &lanes = lanes_[precision];
    return {fat_, lng_, lanes, {fat_.get(), lng_.get(), lanes.get()}};
}

size_t ResidentLinks::packed_bytes(const ResidentField::Versions &versions, Precision host, const Geometry &geometry) {
    ResidentField::Versions fat;
    for (const auto &[precision, reals] : versions)
        fat.insert({precision, 18});
    return ResidentField::bytes_of(fat, host, geometry) + ResidentField::bytes_of(versions, host, geometry);
}

bool ResidentLinks::drop_unused() {
    bool any = false;
    for (auto entry = lanes_.begin(); entry != lanes_.end();)
        if (entry->second.use_count() == 1)
            entry = lanes_.erase(entry), any = true;
        else
            ++entry;
    for (ResidentField *field : {&fat_links_, &long_links_})
        any = field->drop_unused() || any;
    return any;
}

} // namespace milcgpu
