// Divides n x M numbers c_ik by l_i + shift. Adds scale y to x for M sources: 24 to 48 bytes of y and 144 of x a site.
#include "gpu_kernels/algebra/deflate.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

struct DivideByEigenvalues {
    Complex<double> *c;
    const double *values;
    int sources;
    double shift;
    MILCGPU_HD void operator()(int k) const {
        const double sum = values[k / sources] + shift;
        c[k] = (sum > 0 ? 1 / sum : 0.0) * c[k];
    }
};

template <class Y> struct AddSources {
    SpinorBlock y, x, before;
    SourceScales how;
    MILCGPU_HD void operator()(int i) const {
        for (int k = 0; k < y.sources; ++k) {
            unsigned char *const to = x.data + how.from[k] * x.source_bytes;
            const Vector<double> more = convert<double>(
                                     load_spinor<Y, Reuse::written>(y.data + k * y.source_bytes, y.stride, i)),
                                 old = load_spinor<SpinorDouble, Reuse::written>(to, x.stride, i);
            store_spinor<SpinorDouble>(before.data + k * before.source_bytes, before.stride, i, old);
            store_spinor<SpinorDouble>(to, x.stride, i, old + how.scale[k] * more);
        }
    }
};

} // namespace

void divide_by_eigenvalues(Device &device, Complex<double> *c, const double *values, int n, int sources, double shift) {
    launch(device, n * sources, DivideByEigenvalues{c, values, sources, shift}, "divide by eigenvalues");
}

void add_sources(Device &device, const SpinorBlock &y, const SpinorBlock &x, const SourceScales &how,
                 const SpinorBlock &before) {
    for_precision(y.precision, [&](auto from) {
        using Y = decltype(from);
        launch(device, y.sites, AddSources<Y>{y, x, before, how}, "add sources");
    });
}

} // namespace milcgpu
