// Fields in device memory, made for a geometry: colour vectors (spinors) on the sites of one parity, and fat or long
// links on both. A Wilson field has four colour vectors a site.
#pragma once
#include "gpu_kernels/fields/link_storage.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/geometry/geometry.h"
#include <algorithm>

namespace milcgpu {

// Where spinors lie: those of source k start k * source_bytes behind `data`. Owned by a SpinorField.
//
// A field of several components (colour vectors a site) is a field of so many more elements: component d of site i is
// element d * S + i, S = geometry.stride(); `stride` and `sites` count elements, which are components * S. Elements of
// no site are zero. So what goes through colour vectors one by one serves it as it is.
struct SpinorBlock {
    unsigned char *data = nullptr; // nullptr: there is none
    size_t stride = 0, source_bytes = 0;
    Precision precision = Precision::double_;
    int sites = 0, sources = 0;
    int components = 1, component_sites = 0; // component_sites: of the lattice, in each component
    size_t component_bytes = 0;              // from the words of one component to those of the next
    explicit operator bool() const { return data != nullptr; }
    SpinorBlock operator[](int k) const {
        SpinorBlock one = *this;
        one.data += k * source_bytes;
        one.sources = 1;
        return one;
    }
    SpinorBlock component(int d) const { // one colour vector a site
        SpinorBlock one = *this;
        one.data += d * component_bytes;
        one.components = 1;
        one.sites = component_sites;
        return one;
    }
    SpinorBlock from(int first) const { // the sources from `first` on
        SpinorBlock rest = (*this)[first];
        rest.sources = sources - first;
        return rest;
    }
    SpinorBlock first(int count) const {
        SpinorBlock some = *this;
        some.sources = count;
        return some;
    }
    size_t bytes() const { return source_bytes * sources; }
};

// As many sources on even sites as on odd ones.
struct FullVectors {
    SpinorBlock even, odd;
    int sources() const { return even.sources; }
    FullVectors from(int first) const { return {even.from(first), odd.from(first)}; }
    FullVectors first(int count) const { return {even.first(count), odd.first(count)}; }
};

// Where each source of a block starts, for kernels that go through them: read from the kernel's arguments these
// addresses cost no registers. Computed from a base and a distance they made "update shifts" take 216 registers where
// it takes 162, and "update solutions" 80 for 64 (double, sm_90).
template <int most> struct SourceAddresses {
    unsigned char *at[most] = {}; // nullptr: the block has no data
    SourceAddresses() = default;
    SourceAddresses(const SpinorBlock &block) {
        for (int k = 0; k < block.sources && block; ++k)
            at[k] = block[k].data;
    }
    MILCGPU_HD unsigned char *operator[](int k) const { return at[k]; }
};

class SpinorField {
  public:
    SpinorField() = default;
    // components: colour vectors a site. Zero at first: what is behind the sites counts for checksums, and is copied.
    SpinorField(Device &device, Precision precision, const Geometry &geometry, int parity, const char *owner,
                int sources = 1, int components = 1);
    // Sources are apart by 256 bytes more than they need: at multiples of a power of two, kernels that read several of
    // them would ask the same memory channel for all.
    static size_t bytes_of(Precision precision, const Geometry &geometry, int sources, int components = 1) {
        return (components * geometry.stride() * spinor_bytes(precision) + (sources > 1 ? 256 : 0)) * sources;
    }
    // What it takes of the device's memory.
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
