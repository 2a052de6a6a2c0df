// Several sources to another precision, with their norms: reads and writes a spinor a source, 24 flops.
#include "gpu_kernels/algebra/convert_sources.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

template <class Y> struct ConvertSources {
    static constexpr int together = 1;
    SpinorBlock x, y;
    SourceScales how;
    MILCGPU_HD bool open(int) const { return true; }
    ActiveSources active() const { return {}; }
    MILCGPU_HD Sums<1> operator()(int i, int k) const {
        const Vector<double> v =
            load_spinor<SpinorDouble, Reuse::written>(x.data + how.from[k] * x.source_bytes, x.stride, i);
        store_spinor<Y>(y.data + k * y.source_bytes, y.stride, i, convert<typename Y::Real>(how.scale[k] * v));
        return {{norm(v)}};
    }
};

} // namespace

void convert_sources(Device &device, const SpinorBlock &x, const SpinorBlock &y, const SourceScales &how,
                     double *sums) {
    for_precision(y.precision, [&](auto to) {
        using Y = decltype(to);
        launch_sum_sources<1, 1>(device, x.sites, y.sources, ConvertSources<Y>{x, y, how}, StoreSumOfSource{sums},
                                 "convert sources");
    });
}

} // namespace milcgpu
