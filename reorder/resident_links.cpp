#include "reorder/resident_links.h"
#include "gpu_kernels/halo/halo.h"

namespace milcgpu {

namespace {
constexpr int fat_layers = 1, long_layers = 3; // hops of a link
} // namespace

ResidentLinks::ResidentLinks(Device &device, const SiteMap &map, const Geometry &geometry, Precision host_real,
                             uint64_t changes, Halo *halo)
    : device_(device), map_(map), geometry_(geometry), halo_(halo), host_real_(host_real), changes_(changes) {
    fat_ = LinkField(device, host_real, 18, geometry, "fat links as handed over");
    lng_ = LinkField(device, host_real, 18, geometry, "long links as handed over");
}

bool ResidentLinks::update(const HostField &fat, const HostField &lng) {
    return update([&](const LinkField &fat_field, const LinkField &long_field) {
        links_to_device(device_, fat, map_, geometry_, fat_field);
        links_to_device(device_, lng, map_, geometry_, long_field);
    });
}

bool ResidentLinks::update(const std::function<void(const LinkField &fat, const LinkField &lng)> &make) {
    const uint64_t checksum_before = checksum();
    const bool had_content = generation_ != 0;
    generation_ = 0; // empty if anything below fails
    device_.agree("the loading of links", [&] {
        for (LinkField *field : {&fat_, &lng_})
            field->keep_sum();
        make(fat_, lng_);
        for (LinkField *field : {&fat_, &lng_})
            clear_padding(device_, *field, geometry_); // each time: a bit may have flipped there
    });
    for (LinkField *field : {&fat_, &lng_}) {
        if (halo_ != nullptr) {
            field->no_sum(); // ghosts count
            halo_->exchange_backward(*field, field == &fat_ ? fat_layers : long_layers);
        }
        field->checksum = field->sum_of_content();
    }
    fat_statistics_ = finite_statistics(device_, fat_, geometry_, "fat links");
    lng_statistics_ = finite_statistics(device_, lng_, geometry_, "long links");
    const bool changed = !had_content || checksum() != checksum_before;
    if (changed) {
        fat_versions_.clear();
        long_versions_.clear();
        refused_.clear();
        ++changes_;
    }
    generation_ = changes_;
    return changed;
}

// With ghosts, and with the checksum that tells later whether the field is still what was put there.
ResidentLinks::Packed ResidentLinks::keep(PackedLinks &packed, int layers) const {
    if (halo_ != nullptr) {
        packed.field.no_sum(); // ghosts count
        halo_->exchange_backward(packed.field, layers);
    }
    packed.field.checksum = packed.field.sum_of_content();
    return std::make_shared<const LinkField>(std::move(packed.field));
}

ResidentLinks::Packed ResidentLinks::packed_fat(Precision precision) {
    if (precision == host_real_)
        return nullptr;
    const auto found = fat_versions_.find(precision);
    if (found != fat_versions_.end())
        return found->second;
    PackedLinks packed = pack_links(device_, fat_, fat_statistics_, geometry_, precision, 18, "fat links");
    return fat_versions_[precision] = keep(packed, fat_layers);
}

ResidentLinks::Packed ResidentLinks::packed_long(Precision precision, int reals) {
    if (precision == host_real_ && reals == 18)
        return nullptr;
    const auto key = std::make_pair(precision, reals);
    const auto found = long_versions_.find(key);
    if (found != long_versions_.end())
        return found->second;
    if (refused_.count(key) != 0)
        return packed_long(precision, 18);
    PackedLinks packed = pack_links(device_, lng_, lng_statistics_, geometry_, precision, reals, "long links");
    if (reals < 18 && !(packed.worst_error <= accepted_error(precision))) {
        refused_[key] = true;
        warnings_ += format("long links: %d reals in %s precision do not hold these links (worst error of an element "
                            "%.1e of the links' size, accepted %.1e); 18 reals are used\n",
                            reals, name(precision), packed.worst_error, accepted_error(precision));
        packed.field = LinkField(); // its memory before that of the other
        return packed_long(precision, 18);
    }
    return long_versions_[key] = keep(packed, long_layers);
}

HeldLinks ResidentLinks::held_version(Precision precision, int reals) {
    HeldLinks held;
    held.fat = packed_fat(precision);
    held.lng = packed_long(precision, reals);
    held.pair = {held.fat ? held.fat.get() : &fat_, held.lng ? held.lng.get() : &lng_};
    return held;
}

bool ResidentLinks::drop_unused() {
    const auto drop = [](auto &versions) {
        bool any = false;
        for (auto entry = versions.begin(); entry != versions.end();)
            if (entry->second.use_count() <= 1) {
                entry = versions.erase(entry);
                any = true;
            } else {
                ++entry;
            }
        return any;
    };
    const bool fat = drop(fat_versions_);
    return drop(long_versions_) || fat;
}

std::string ResidentLinks::take_warnings() {
    std::string text;
    text.swap(warnings_);
    return text;
}

} // namespace milcgpu
