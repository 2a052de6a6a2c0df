// Fat or long links in device memory, made for a geometry.
#pragma once
#include "gpu_kernels/fields/link_storage.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include <algorithm>
#include <memory>

namespace milcgpu {

// 3x3 matrices on both parities, `directions` a site: links (4), or intermediate matrices. An element is scale * (the
// unpacked number).
class LinkField {
  public:
    LinkField() = default;
    LinkField(Device &device, Precision precision, int reals, const Geometry &geometry, const char *owner,
              int directions = 4)
        : precision_(precision), reals_(reals), directions_(directions), stride_(geometry.stride()),
          data_(device, bytes_of(precision, reals, geometry, directions), owner) {}
    static size_t bytes_of(Precision precision, int reals, const Geometry &geometry, int directions = 4) {
        return 2 * directions * geometry.stride() * link_bytes(precision, reals);
    }
    Precision precision() const { return precision_; }
    int reals() const { return reals_; }
    int directions() const { return directions_; }
    size_t stride() const { return stride_; }
    size_t bytes() const { return data_.bytes(); }
    void clear();
    // Zeroes the padding behind the sites. A field that has padding is zeroed as a whole.
    void clear_behind(const Geometry &geometry) {
        if (size_t(std::min(geometry.sites(0), geometry.sites(1))) < stride_)
            clear();
    }
    // From here on, kernels that write links keep the checksum of what they write. The checksum starts at that of an
    // empty field, so afterwards all links must be written, or all must be zero. Padding behind the sites counts if the
    // whole field is checked: call clear_behind() first.
    void keep_sum();
    // Copies a field of the same kind and size, with its checksum.
    void copy(const LinkField &from);
    void no_sum() { sum_ = nullptr; } // others write here, as copies of boxes do
    bool keeps_sum() const { return sum_ != nullptr; }
    KeptSum kept() const { return {sum_.get()}; }
    const std::shared_ptr<uint64_t> &share_of_sum() const { return sum_; } // outlives the field
    // The checksum of what was written here: the kept one, or else one computed from the field now. Waits.
    uint64_t sum_of_content() const;
    unsigned char *block(int parity, int mu) const {
        return data_.data() + (parity * directions_ + mu) * block_bytes();
    }
    size_t block_bytes() const { return stride_ * link_bytes(precision_, reals_); }
    Region region(const char *name) const { return {data_.data(), bytes(), checksum, name}; }
    double scale = 1;
    uint64_t checksum = 0;        // of what was written here, for fields that results depend on
    bool padding_is_zero = false; // then a pass over all links covers all that counts for the checksum

  private:
    Precision precision_ = Precision::double_;
    int reals_ = 18;
    int directions_ = 4;
    size_t stride_ = 0;
    DeviceArray<unsigned char> data_;
    std::shared_ptr<uint64_t> sum_; // on the device
};

class LaneLinks;

// Fat and long links of one precision, as an operator takes them. lanes: both once more, for several sites at once, or
// nullptr.
struct LinkPair {
    const LinkField *fat = nullptr, *lng = nullptr;
    const LaneLinks *lanes = nullptr;
};

} // namespace milcgpu
