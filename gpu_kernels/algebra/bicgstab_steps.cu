// The passes of BiCGstab over vectors: bicgstab_steps.h.
#include "gpu_kernels/algebra/bicgstab_steps.h"
#include "gpu_kernels/fields/for_precision.h"
#include <type_traits>

namespace milcgpu {

namespace {

// If half precision iterates, the change of the solution is in single.
template <class S> using GainOf = std::conditional_t<std::is_same<S, SpinorHalf>::value, SpinorSingle, S>;

// acc + a x
template <class T> MILCGPU_HD Vector<T> plus(const Vector<T> &acc, Complex<T> a, const Vector<T> &x) {
    return {{plus(acc.c[0], a, x.c[0]), plus(acc.c[1], a, x.c[1]), plus(acc.c[2], a, x.c[2])}};
}

// <a, b>
template <class T> MILCGPU_HD Complex<double> dot(const Vector<T> &a, const Vector<T> &b) {
    Complex<T> sum = {0, 0};
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        sum = plus(sum, conj(a.c[k]), b.c[k]);
    return {sum.re, sum.im};
}

template <class S> struct Start {
    SpinorView<S> r, r0, p;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const auto v = r.load(i);
        r0.store(i, v);
        p.store(i, v);
        return {{norm(v)}};
    }
};
struct StartFinish : Finish {
    BicgState *state;
    MILCGPU_HD void operator()(const Sums<1> &rr) const { state->start(rr.v[0]); }
};

template <class S> struct HalfStep {
    using Real = typename S::Real;
    SpinorView<S> r, v;
    const BicgState *state;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const Complex<Real> minus_alpha = convert<Real>(-1.0 * state->next_alpha());
        const auto s = plus(r.load(i), minus_alpha, v.load(i));
        r.store(i, s);
        return {{norm(s)}};
    }
};

template <class S> struct Step {
    using Real = typename S::Real;
    SpinorView<S> r, r0, p, t;
    SpinorView<GainOf<S>> x;
    const BicgState *state;
    MILCGPU_HD Sums<3> operator()(int i) const {
        const Complex<Real> alpha = convert<Real>(state->next_alpha()), omega = convert<Real>(state->next_omega());
        const auto s = r.load(i);
        x.store(i, plus(plus(x.load(i), alpha, p.load(i)), omega, s));
        const auto fresh = plus(s, Real(-1) * omega, t.load(i));
        r.store(i, fresh);
        const Complex<double> rho = dot(r0.load(i), fresh);
        return {{norm(fresh), rho.re, rho.im}};
    }
};
struct StepFinish : Finish {
    BicgState *state;
    MILCGPU_HD void operator()(const Sums<3> &sums) const { state->record(sums.v[0], {sums.v[1], sums.v[2]}); }
};

template <class S> struct NewDirection {
    using Real = typename S::Real;
    SpinorView<S> r, p, v;
    const BicgState *state;
    MILCGPU_HD void operator()(int i) const {
        if (state->active == 0)
            return;
        const Complex<Real> beta = convert<Real>(state->beta), minus_omega = convert<Real>(-1.0 * state->omega);
        p.store(i, plus(r.load(i), beta, plus(p.load(i), minus_omega, v.load(i))));
    }
};

template <class S> struct Replace {
    SpinorView<S> r_new, r, r0;
    MILCGPU_HD Sums<4> operator()(int i) const {
        const auto fresh = r_new.load(i);
        const Complex<double> rho = dot(r0.load(i), fresh);
        const double jump = norm(fresh - r.load(i));
        r.store(i, fresh);
        return {{norm(fresh), rho.re, rho.im, jump}};
    }
};
struct ReplaceFinish : Finish {
    BicgState *state;
    MILCGPU_HD void operator()(const Sums<4> &sums) const {
        state->replace(sums.v[0], {sums.v[1], sums.v[2]}, sums.v[3]);
    }
};

template <class S> struct Collect {
    SpinorView<S> gain;
    SpinorView<SpinorDouble> x;
    double scale;
    MILCGPU_HD void operator()(int i) const {
        x.store(i, x.load(i) + scale * convert<double>(gain.load(i)));
        gain.store(i, Vector<typename S::Real>{});
    }
};

} // namespace

void bicgstab_start(Device &device, const BicgVectors &of, BicgState *state) {
    for_precision(of.r.precision, [&](auto format) {
        using View = SpinorView<decltype(format)>;
        launch_sum<1>(device, of.r.sites, Start<decltype(format)>{View(of.r), View(of.r0), View(of.p)},
                      StartFinish{{}, state}, {"BiCGstab start"});
    });
}

void bicgstab_half_step(Device &device, const BicgVectors &of, BicgState *state) {
    for_precision(of.r.precision, [&](auto format) {
        using View = SpinorView<decltype(format)>;
        launch_sum<1>(device, of.r.sites, HalfStep<decltype(format)>{View(of.r), View(of.v), state},
                      StoreSum{&state->ss}, {"BiCGstab half step", &state->active});
    });
}

void bicgstab_step(Device &device, const BicgVectors &of, BicgState *state) {
    for_precision(of.r.precision, [&](auto format) {
        using S = decltype(format);
        using View = SpinorView<S>;
        const Step<S> body{View(of.r), View(of.r0), View(of.p), View(of.t), SpinorView<GainOf<S>>(of.gain), state};
        launch_sum<3>(device, of.r.sites, body, StepFinish{{}, state}, {"BiCGstab step", &state->active});
    });
}

void bicgstab_direction(Device &device, const BicgVectors &of, const BicgState *state) {
    for_precision(of.r.precision, [&](auto format) {
        using View = SpinorView<decltype(format)>;
        launch(device, of.r.sites, NewDirection<decltype(format)>{View(of.r), View(of.p), View(of.v), state},
               "BiCGstab direction");
    });
}

void bicgstab_replace(Device &device, const SpinorBlock &r_new, const BicgVectors &of, BicgState *state) {
    for_precision(of.r.precision, [&](auto format) {
        using View = SpinorView<decltype(format)>;
        launch_sum<4>(device, of.r.sites, Replace<decltype(format)>{View(r_new), View(of.r), View(of.r0)},
                      ReplaceFinish{{}, state}, {"BiCGstab true residual"});
    });
    bicgstab_direction(device, of, state);
}

void bicgstab_collect(Device &device, double scale, const SpinorBlock &gain, const SpinorBlock &x) {
    for_precision(gain.precision, [&](auto format) {
        using S = decltype(format);
        launch(device, gain.sites, Collect<S>{SpinorView<S>(gain), SpinorView<SpinorDouble>(x), scale},
               "BiCGstab solution");
    });
}

} // namespace milcgpu
