// Where the colour vectors (spinors) of a field lie, as kernels take them.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/backend/portable.h"

namespace milcgpu {

class Device; // in what takes these fields

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

} // namespace milcgpu
