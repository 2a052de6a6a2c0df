// Calls a function with the spinor format of a run-time precision.
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/reduce.h"

namespace milcgpu {

template <class Function> void for_precision(Precision precision, const Function &function) {
    switch (precision) {
    case Precision::double_:
        function(SpinorDouble());
        break;
    case Precision::single:
        function(SpinorSingle());
        break;
    case Precision::half:
        function(SpinorHalf());
        break;
    }
}

// A spinor field as kernels take it; empty for an empty field.
template <class S> struct SpinorView {
    unsigned char *data;
    size_t stride;
    explicit SpinorView(const SpinorBlock &block) : data(block.data), stride(block.stride) {}
    template <Reuse reuse = Reuse::written> MILCGPU_HD Vector<typename S::Real> load(int i) const {
        return load_spinor<S, reuse>(data, stride, i);
    }
    MILCGPU_HD void store(int i, const Vector<typename S::Real> &x) const { store_spinor<S>(data, stride, i, x); }
};

struct StoreSum {
    double *sum;
    MILCGPU_HD bool wanted() const { return sum != nullptr; }
    MILCGPU_HD void operator()(const Sums<1> &total) const { *sum = total.v[0]; }
};

// sums: one for each source, or nullptr.
struct StoreSumOfSource {
    double *sums;
    MILCGPU_HD bool wanted() const { return sums != nullptr; }
    MILCGPU_HD void operator()(const Sums<1> &total, int k) const { sums[k] = total.v[0]; }
};

} // namespace milcgpu
