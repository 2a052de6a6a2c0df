// A linear combination of vectors, in one pass over all of them.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/for_precision.h"

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
    for_precision(x.precision, [&](auto s) {
        using View = SpinorView<decltype(s)>;
        const WeightedSum<decltype(s)> body{View(x), View(y), x.source_bytes, weights, x.sources};
        launch(device, x.sites, body, "weighted sum");
    });
}

} // namespace milcgpu
