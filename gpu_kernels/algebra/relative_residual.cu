// The relative ("Fermilab") residual of MILC: 2 spinors read.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/fields/for_precision.h"

namespace milcgpu {

namespace {

template <class R> struct Ratio {
    SpinorView<R> r;
    SpinorView<SpinorDouble> x;
    const CgState *state; // nullptr: r is the residual of the caller's system
    MILCGPU_HD Sums<1> operator()(int i) const {
        const double scale = state != nullptr ? state->scale : 1, below = norm(x.load(i));
        return {{below == 0.0 ? 1.0 : norm(scale * convert<double>(r.load(i))) / below}};
    }
};

struct SiteRatio {
    SpinorView<SpinorDouble> r, x;
    int components, component; // elements from one to the next
    MILCGPU_HD Sums<1> operator()(int i) const {
        double above = 0, below = 0;
        for (int d = 0; d < components; ++d) {
            above += norm(r.load(d * component + i));
            below += norm(x.load(d * component + i));
        }
        return {{below == 0.0 ? 1.0 : above / below}};
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
            state->check_convergence();
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

void relative_residual_of_sites(Device &device, const SpinorBlock &r, const SpinorBlock &x, double *sum) {
    const int component = static_cast<int>(r.stride / r.components);
    const SiteRatio body{SpinorView<SpinorDouble>(r), SpinorView<SpinorDouble>(x), r.components, component};
    launch_sum<1>(device, r.component_sites, body, RatioFinish{{}, sum, nullptr, 1}, {"relative residual of sites"});
}

} // namespace milcgpu
