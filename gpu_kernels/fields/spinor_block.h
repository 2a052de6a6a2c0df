// The address and layout of a field of colour vectors (spinors), as kernels take it.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

class Device; // for the functions that take these fields

// The spinors of source k start k * source_bytes after `data`. A SpinorField owns the memory.
//
// A field of several components (colour vectors a site) is stored as a field of as many times more elements: component
// d of site i is element d * S + i, S = geometry.stride(); `stride` and `sites` count elements, so they are components
// * S. Elements without a site are zero. So kernels that treat colour vectors one by one work on such a field
// unchanged.
struct SpinorBlock {
    unsigned char *data = nullptr; // nullptr: no field
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

// Sources on both parities, as many on even sites as on odd ones.
struct FullVectors {
    SpinorBlock even, odd;
    int sources() const { return even.sources; }
    FullVectors from(int first) const { return {even.from(first), odd.from(first)}; }
    FullVectors first(int count) const { return {even.first(count), odd.first(count)}; }
};

// Start addresses of the sources of a block, for kernels that loop over them: a kernel reads these addresses from its
// arguments, so they cost no registers. When they were computed from a base and a distance, "update shifts" took 216
// registers instead of 162, and "update solutions" 80 instead of 64 (double, sm_90).
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
