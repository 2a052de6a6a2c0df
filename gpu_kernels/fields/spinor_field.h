// Colour vectors (spinors) in device memory, on the sites of one parity of a geometry. A Wilson field has four colour
// vectors a site.
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/geometry/geometry.h"

namespace milcgpu {

class SpinorField {
  public:
    SpinorField() = default;
    // components: colour vectors a site. Memory starts as zero, because padding behind the sites counts for checksums
    // and is copied.
    SpinorField(Device &device, Precision precision, const Geometry &geometry, int parity, const char *owner,
                int sources = 1, int components = 1);
    // Sources are 256 bytes further apart than they need: at multiples of a power of two, a kernel that reads several
    // of them would read them all through the same memory channel.
    static size_t bytes_of(Precision precision, const Geometry &geometry, int sources, int components = 1) {
        return (components * geometry.stride() * spinor_bytes(precision) + (sources > 1 ? 256 : 0)) * sources;
    }
    // Device memory that such a field takes.
    static size_t allocated_bytes(Precision, const Geometry &, int sources = 1, int components = 1);
    operator const SpinorBlock &() const { return block_; }
    const SpinorBlock &block() const { return block_; }
    SpinorBlock operator[](int source) const { return block_[source]; }
    explicit operator bool() const { return static_cast<bool>(block_); }
    Precision precision() const { return block_.precision; }
    int sites() const { return block_.sites; }
    int sources() const { return block_.sources; }
    size_t stride() const { return block_.stride; }
    unsigned char *data() const { return block_.data; }
    size_t bytes() const { return block_.bytes(); }

  private:
    DeviceArray<unsigned char> memory_;
    SpinorBlock block_;
};

} // namespace milcgpu
