// Fields in device memory: a spinor on the sites of one parity, and fat or long links on both.
#pragma once
#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/su3/link_storage.h"
#include "gpu_kernels/su3/spinor_storage.h"

namespace milcgpu {

// Stripes start on 128-byte lines for every word size (2 bytes at the least).
inline size_t padded_stride(size_t sites) { return (sites + 63) / 64 * 64; }

class SpinorField {
  public:
    SpinorField() = default;
    SpinorField(Device &device, Precision precision, int sites, const char *owner)
        : precision_(precision), sites_(sites), stride_(padded_stride(sites)),
          data_(device, stride_ * spinor_bytes(precision), owner) {}
    Precision precision() const { return precision_; }
    int sites() const { return sites_; }
    size_t stride() const { return stride_; }
    unsigned char *data() const { return data_.data(); }
    size_t bytes() const { return data_.bytes(); }

  private:
    Precision precision_ = Precision::double_;
    int sites_ = 0;
    size_t stride_ = 0;
    DeviceArray<unsigned char> data_;
};

// 3x3 matrices on both parities, `directions` a site: links (4), or what is made on the way to them. An element is
// scale * (what unpacks).
class LinkField {
  public:
    LinkField() = default;
    LinkField(Device &device, Precision precision, int reals, int sites, const char *owner, int directions = 4)
        : precision_(precision), reals_(reals), sites_(sites), directions_(directions), stride_(padded_stride(sites)),
          data_(device, bytes_of(precision, reals, sites, directions), owner) {}
    static size_t bytes_of(Precision precision, int reals, int sites, int directions) {
        return 2 * directions * padded_stride(sites) * link_bytes(precision, reals);
    }
    Precision precision() const { return precision_; }
    int reals() const { return reals_; }
    int sites() const { return sites_; } // a parity (the larger number of the two)
    int directions() const { return directions_; }
    size_t stride() const { return stride_; }
    size_t bytes() const { return data_.bytes(); }
    unsigned char *block(int parity, int mu) const {
        return data_.data() + (parity * directions_ + mu) * block_bytes();
    }
    size_t block_bytes() const { return stride_ * link_bytes(precision_, reals_); }
    double scale = 1;

  private:
    Precision precision_ = Precision::double_;
    int reals_ = 18;
    int sites_ = 0, directions_ = 4;
    size_t stride_ = 0;
    DeviceArray<unsigned char> data_;
};

// What an operator takes: fat and long links of one precision.
struct LinkPair {
    const LinkField *fat = nullptr, *lng = nullptr;
};

} // namespace milcgpu
