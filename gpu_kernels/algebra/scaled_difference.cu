// y = scale (a x - y): applies M^dag with D, and makes odd sites of a solution from even ones. A pass of 3 spinors, 18
// flops a site.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

template <class S> struct ScaledDifference {
    SpinorView<S> x, y;
    double scale, a;
    MILCGPU_HD void operator()(int i) const {
        const Vector<double> difference = a * convert<double>(x.load(i)) - convert<double>(y.load(i));
        y.store(i, convert<typename S::Real>(scale * difference));
    }
};

} // namespace

void scaled_difference(Device &device, double scale, double a, const SpinorBlock &x, const SpinorBlock &y) {
    for_precision(x.precision, [&](auto s) {
        using View = SpinorView<decltype(s)>;
        launch(device, x.sites, ScaledDifference<decltype(s)>{View(x), View(y), scale, a}, "scaled difference");
    });
}

} // namespace milcgpu
