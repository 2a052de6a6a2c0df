// How kernels read and write vectors on both parities, double or single.
#pragma once
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/spinor_block.h"

namespace milcgpu {

template <Precision p> struct FullView {
    using S = SpinorOf<p>;
    using Vec = Vector<typename S::Real>;
    unsigned char *even, *odd;
    size_t stride, source_bytes;
    explicit FullView(const FullVectors &v)
        : even(v.even.data), odd(v.odd.data), stride(v.even.stride), source_bytes(v.even.source_bytes) {}
    MILCGPU_HD unsigned char *at(int parity, int source) const {
        return (parity != 0 ? odd : even) + source * source_bytes;
    }
    MILCGPU_HD Vec load(int parity, int source, int i) const { return load_spinor<S>(at(parity, source), stride, i); }
    // For `out` equal to `in`.
    MILCGPU_HD Vec load_own(int parity, int source, int i) const {
        return load_spinor<S, Reuse::written>(at(parity, source), stride, i);
    }
    MILCGPU_HD void store(int parity, int source, int i, const Vec &x) const {
        store_spinor<S>(at(parity, source), stride, i, x);
    }
};

} // namespace milcgpu
