// Sums and steps of several sources in lock-step.
#include "gpu_kernels/algebra/lock_step.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

// Kernels on a site of one source, for launch_sum_sources.
struct OfEachSource {
    static constexpr int together = 1;
    const int *gate;
    MILCGPU_HD bool open(int) const { return gate == nullptr || *gate != 0; }
    ActiveSources active() const { return {gate, 0}; }
};
template <class S> MILCGPU_HD Vector<double> load_of(const SpinorBlock &x, int i, int k) {
    return convert<double>(load_spinor<S, Reuse::written>(x.data + k * x.source_bytes, x.stride, i));
}

// A thread adds several sites, `apart` from each other: a warp takes longer to post its sums than to load a site.
constexpr int sites_a_thread = 8;
// Sums<1>: sums of x alone.
template <class S, int N> struct SumsOfEach : OfEachSource {
    SpinorBlock x, y;
    int apart;
    MILCGPU_HD Sums<N> operator()(int i, int k) const {
        Sums<N> sums = {};
        MILCGPU_UNROLL
        for (int n = 0; n < sites_a_thread; ++n) {
            const int at = i + n * apart;
            if (at >= x.sites)
                continue;
            const Vector<double> own = load_of<S>(x, at, k);
            sums.v[0] += norm(own);
            if constexpr (N == 3) {
                const Vector<double> other = load_of<S>(y, at, k);
                sums.v[1] += real_dot(own, other), sums.v[2] += norm(other);
            }
        }
        return sums;
    }
};
template <int N> struct StoreDiagonals {
    Complex<double> *matrix[N];
    int n;
    MILCGPU_HD bool wanted() const { return true; }
    MILCGPU_HD void operator()(const Sums<N> &total, int k) const {
        for (int which = 0; which < N; ++which)
            if (matrix[which] != nullptr)
                for (int j = 0; j < n; ++j)
                    matrix[which][k * n + j] = {j == k ? total.v[which] : 0.0, 0.0};
    }
};
template <int N>
void start_sums(Device &device, const SpinorBlock &x, const SpinorBlock &y, const StoreDiagonals<N> &finish,
                const int *gate) {
    const int apart = (x.sites - 1) / sites_a_thread + 1;
    for_precision(x.precision, [&](auto format) {
        launch_sum_sources<N, 1>(device, apart, x.sources, SumsOfEach<decltype(format), N>{{gate}, x, y, apart}, finish,
                                 "sums in lock-step");
    });
}

template <class S> struct StepOfEach : OfEachSource, TwoRotations {
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

void sums_in_lock_step(Device &device, const SpinorBlock &x, const SpinorBlock &y, const ProductsTo &to,
                       const int *gate) {
    start_sums<3>(device, x, y, {{to.x_x, to.x_y, to.y_y}, x.sources}, gate);
}
void sums_in_lock_step(Device &device, const SpinorBlock &x, Complex<double> *x_x, const int *gate) {
    start_sums<1>(device, x, {}, {{x_x}, x.sources}, gate);
}

void step_in_lock_step(Device &device, const TwoRotations &of, const int *gate) {
    for_precision(of.x.precision, [&](auto format) {
        launch_sum_sources<1, 1>(device, of.x.sites, of.x.sources, StepOfEach<decltype(format)>{{gate}, of},
                                 StoreSumOfSource{nullptr}, "a step in lock-step");
    });
}

} // namespace milcgpu
