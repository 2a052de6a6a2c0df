// Sums and steps of several sources in lock-step.
#include "gpu_kernels/blas/for_precision.h"
#include "gpu_kernels/blas/lock_step.h"

namespace milcgpu {

namespace {

// Work on a site of a source, for launch_sum_sources.
struct OfEachSource {
    static constexpr int together = 1;
    const int *gate;
    MILCGPU_HD bool open(int) const { return gate == nullptr || *gate != 0; }
    ActiveSources active() const { return {gate, 0}; }
};
template <class S> MILCGPU_HD Vector<double> load_of(const SpinorBlock &x, int i, int k) {
    return convert<double>(load_spinor<S, Reuse::written>(x.data + k * x.source_bytes, x.stride, i));
}

// A thread adds up several sites, `apart` from each other: a warp that posts its sum takes longer than it loads a site.
constexpr int sites_a_thread = 8;
template <class S> struct SumsApart : OfEachSource {
    SpinorBlock x, y;
    int apart;
    MILCGPU_HD Sums<1> operator()(int i, int k) const {
        double sum = 0;
        MILCGPU_UNROLL
        for (int n = 0; n < sites_a_thread; ++n) {
            const int at = i + n * apart;
            if (at >= x.sites)
                continue;
            const Vector<double> own = load_of<S>(x, at, k);
            sum += real_dot(own, x.data == y.data ? own : load_of<S>(y, at, k));
        }
        return {{sum}};
    }
};
struct StoreDiagonal {
    Complex<double> *matrix;
    int n;
    MILCGPU_HD bool wanted() const { return true; }
    MILCGPU_HD void operator()(const Sums<1> &total, int k) const {
        for (int j = 0; j < n; ++j)
            matrix[k * n + j] = {j == k ? total.v[0] : 0.0, 0.0};
    }
};

template <class S> struct StepApart : OfEachSource {
    SpinorBlock x, y, p, z;
    const Complex<double> *c, *m, *d; // m: may be nullptr
    MILCGPU_HD Sums<1> operator()(int i, int k) const {
        const int at = k * (x.sources + 1);
        Vector<double> v = load_of<S>(y, i, k);
        if (m != nullptr)
            v = m[at].re * v;
        v = v + c[at].re * load_of<S>(x, i, k);
        store_spinor<S>(y.data + k * y.source_bytes, y.stride, i, convert<typename S::Real>(v));
        v = v + d[at].re * load_of<S>(p, i, k);
        store_spinor<S>(z.data + k * z.source_bytes, z.stride, i, convert<typename S::Real>(v));
        return {};
    }
};

} // namespace

void sums_apart(Device &device, const SpinorBlock &x, const SpinorBlock &y, Complex<double> *diagonal,
                const int *gate) {
    const int apart = (x.sites - 1) / sites_a_thread + 1;
    for_precision(x.precision, [&](auto format) {
        launch_sum_sources<1, 1>(device, apart, x.sources, SumsApart<decltype(format)>{{gate}, x, y, apart},
                                 StoreDiagonal{diagonal, x.sources}, "sums in lock-step");
    });
}

void step_apart(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                const Complex<double> *m, const SpinorBlock &p, const Complex<double> *d, const SpinorBlock &z,
                const int *gate) {
    for_precision(x.precision, [&](auto format) {
        launch_sum_sources<1, 1>(device, x.sites, x.sources, StepApart<decltype(format)>{{gate}, x, y, p, z, c, m, d},
                                 NoSums(), "a step in lock-step");
    });
}

} // namespace milcgpu
