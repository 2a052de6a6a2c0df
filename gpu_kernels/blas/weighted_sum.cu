// A linear combination of vectors, in one pass over all of them.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/blas/for_precision.h"

namespace milcgpu {

namespace {

template <class S> struct WeightedSum {
    SpinorView<S> x, y; // the first source
    size_t source_bytes;
    const double *weights;
    int count;
    MILCGPU_HD void operator()(int i) const {
        Vector<double> sum = {};
        SpinorView<S> from = x;
        for (int k = 0; k < count; ++k, from.data += source_bytes)
            sum = sum + weights[k] * convert<double>(from.load(i));
        y.store(i, convert<typename S::Real>(sum));
    }
};

} // namespace

void weighted_sum(Device &device, const SpinorBlock &x, const double *weights, const SpinorBlock &y) {
    const DeviceArray<double> on_device(device, x.sources, "weights");
    device.copy_to_device(on_device.data(), weights, on_device.bytes());
    for_precision(x.precision, [&](auto s) {
        using View = SpinorView<decltype(s)>;
        launch(device, x.sites, WeightedSum<decltype(s)>{View(x), View(y), x.source_bytes, on_device.data(), x.sources},
               "weighted sum");
    });
    device.synchronize(); // the weights go
}

} // namespace milcgpu
