// The relative residual that MILC calls Fermilab's: 2 or 3 spinors read.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/blas/for_precision.h"

namespace milcgpu {

namespace {

template <class R, class X, class Y> struct Ratio {
    SpinorView<R> r;
    SpinorView<X> x;
    SpinorView<Y> y;
    const CgState *state; // nullptr: y alone is the solution
    MILCGPU_HD Sums<1> operator()(int i) const {
        Vector<double> solution = convert<double>(y.load(i)), residual = convert<double>(r.load(i));
        if (state != nullptr) {
            const double scale = state->scale;
            solution = solution + scale * convert<double>(x.load(i));
            residual = scale * residual;
        }
        const double below = norm(solution);
        return {{below == 0.0 ? 1.0 : norm(residual) / below}};
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
            state->advance();
        }
    }
};

} // namespace

void relative_residual(Device &device, const SpinorField &r, const SpinorField &x, const SpinorField &y, double *sum,
                       CgState *state, double volume) {
    for_precision(r.precision(), [&](auto r_format) {
        for_precision(y.precision(), [&](auto y_format) {
            using R = decltype(r_format);
            using X = typename SolutionOf<R>::Type;
            using Y = decltype(y_format);
            launch_sum<1>(
                device, r.sites(), Ratio<R, X, Y>{SpinorView<R>(r), SpinorView<X>(x), SpinorView<Y>(y), state},
                RatioFinish{{}, sum, state, volume}, state != nullptr ? &state->active : nullptr, "relative residual");
        });
    });
}

} // namespace milcgpu
