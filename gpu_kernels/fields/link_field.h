// Fat or long links in device memory, made for a geometry.
#pragma once
#include "gpu_kernels/fields/link_storage.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include <algorithm>

namespace milcgpu {

// 3x3 matrices on both parities, `directions` a site: links (4), or what is made on the way to them. An element is
// scale * (what unpacks).
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
    // What is behind the sites becomes zero; where there is something, all of it.
    void clear_behind(const Geometry &geometry) {
        if (size_t(std::min(geometry.sites(0), geometry.sites(1))) < stride_)
            clear();
    }
    // From here on those who write links keep the checksum of what they put here. What is here does not count: all
    // links are written then, or all are zero. What is behind the sites counts where the whole field is looked at:
    // clear_behind() first.
    void keep_sum();
    // Of another field of this kind and size, with its checksum.
    void copy(const LinkField &from);
    void no_sum() { sum_ = nullptr; } // others write here, as copies of boxes do
    bool keeps_sum() const { return sum_ != nullptr; }
    KeptSum kept() const { return {sum_.get()}; }
    const std::shared_ptr<uint64_t> &share_of_sum() const { return sum_; } // for who reads it when the field is gone
    // Of what was put here: as it was kept, else as it is found here. Waits.
    uint64_t sum_of_content() const;
    unsigned char *block(int parity, int mu) const {
        return data_.data() + (parity * directions_ + mu) * block_bytes();
    }
    size_t block_bytes() const { return stride_ * link_bytes(precision_, reals_); }
    Region region(const char *name) const { return {data_.data(), bytes(), checksum, name}; }
    double scale = 1;
    uint64_t checksum = 0;        // of what was put here, where something is to stand on it
    bool padding_is_zero = false; // then who reads all links has read all that counts for the checksum

  private:
    Precision precision_ = Precision::double_;
    int reals_ = 18;
    int directions_ = 4;
    size_t stride_ = 0;
    DeviceArray<unsigned char> data_;
    std::shared_ptr<uint64_t> sum_; // on the device
};

// What an operator takes: fat and long links of one precision.
struct LinkPair {
    const LinkField *fat = nullptr, *lng = nullptr;
};

} // namespace milcgpu
