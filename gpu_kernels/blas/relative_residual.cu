// The relative residual that MILC calls Fermilab's: 2 spinors read.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/blas/for_precision.h"

namespace milcgpu {

namespace {

template <class R> struct Ratio {
    SpinorView<R> r;
    SpinorView<SpinorDouble> x;
    const CgState *state; // nullptr: r is that of the system as given
    MILCGPU_HD Sums<1> operator()(int i) const {
        const double scale = state != nullptr ? state->scale : 1, below = norm(x.load(i));
        return {{below == 0.0 ? 1.0 : norm(scale * convert<double>(r.load(i))) / below}};
    }
};

struct RatioFinish : Finish {
    double *sum;
    CgState *state;
    double volume;
    MILCGPU_HD void operator()(const Sums<1> &total) const {
        if (sum != nullptr)
            *sum = total.v[0];
        if (state != nullptr) {
            state->relative = sqrt(2.0 * total.v[0] / volume);
            state->judge();
        }
    }
};

} // namespace

void relative_residual(Device &device, const SpinorBlock &r, const SpinorBlock &x, double *sum, CgState *state,
                       double volume) {
    for_precision(r.precision, [&](auto format) {
        using R = decltype(format);
        launch_sum<1>(device, r.sites, Ratio<R>{SpinorView<R>(r), SpinorView<SpinorDouble>(x), state},
                      RatioFinish{{}, sum, state, volume},
                      {"relative residual", state != nullptr ? &state->active : nullptr});
    });
}

} // namespace milcgpu
