#include "reorder/resident_field.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/device.h"
#include <atomic>

namespace milcgpu {

void ResidentField::hold(Held given, const LinkStatistics &statistics) {
    packed_.clear();
    given_ = std::move(given);
    statistics_ = statistics;
    static std::atomic<uint64_t> last{0};
    tag_ = given_ != nullptr ? ++last : 0;
}

ResidentField::Held ResidentField::version(Precision precision, int reals) {
    if (precision == given_->precision() && reals == 18)
        return given_;
    const auto key = std::make_pair(precision, reals);
    const auto found = packed_.find(key);
    if (found != packed_.end())
        return found->second ? found->second : version(precision, 18);
    PackedLinks packed = pack_links(device_, *given_, statistics_, geometry_, precision, reals, name_);
    if (reals < 18 && !(packed.worst_error <= accepted_error(precision))) {
        packed_[key] = nullptr;
        if (warn_)
            warn_(format("%s: %d reals in %s precision do not hold these links (worst error of an element %.1e of the "
                         "links' size, accepted %.1e); 18 reals are used",
                         name_, reals, name(precision), packed.worst_error, accepted_error(precision)));
        packed.field = LinkField(); // frees its memory before the other one is allocated
        return version(precision, 18);
    }
    if (halo_ != nullptr) {
        packed.field.no_sum(); // ghosts would count
        halo_->exchange_backward(packed.field, hops_);
    }
    device_.collective("a checksum of links", [&] { packed.field.checksum = packed.field.sum_of_content(); });
    return packed_[key] = std::make_shared<const LinkField>(std::move(packed.field));
}

size_t ResidentField::bytes_of(const Versions &versions, Precision given, const Geometry &geometry) {
    size_t bytes = 0;
    for (const auto &[precision, reals] : versions)
        if (precision != given || reals != 18)
            bytes += Device::allocated_bytes(LinkField::bytes_of(precision, reals, geometry));
    return bytes;
}

bool ResidentField::drop_unused() {
    const size_t before = packed_.size();
    for (auto entry = packed_.begin(); entry != packed_.end();)
        entry = entry->second.use_count() == 1 ? packed_.erase(entry) : std::next(entry);
    return packed_.size() < before;
}

} // namespace milcgpu
