// The steps of conjugate gradient that are not dslash: start, direction, reliable update. One pass each over the sites;
// the partial solution x is kept in single precision when the vectors are half.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/blas/for_precision.h"

namespace milcgpu {

namespace {

template <class S> struct Start {
    SpinorView<S> r, p;
    SpinorView<typename SolutionOf<S>::Type> x; // without data where solutions are kept elsewhere (shifts.h)
    MILCGPU_HD Sums<1> operator()(int i) const {
        const auto v = r.load(i);
        p.store(i, v);
        if (x.data != nullptr)
            x.store(i, {});
        return {{norm(v)}};
    }
};

struct StartFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<1> &rr) const {
        state->rr = state->pp = state->largest_rr = rr.v[0];
        state->stop = CgStop::running;
        state->active = 1;
    }
};

template <class S> struct Direction {
    SpinorView<S> r, p;
    SpinorView<typename SolutionOf<S>::Type> x;
    const CgState *state;
    MILCGPU_HD Sums<1> operator()(int i) const {
        using Real = typename S::Real;
        const Real alpha = static_cast<Real>(state->alpha), beta = static_cast<Real>(state->rr_new / state->rr);
        const auto old = p.load(i);
        if (x.data != nullptr)
            x.store(i, x.load(i) + alpha * old);
        const auto fresh = r.load(i) + beta * old;
        p.store(i, fresh);
        return {{norm(fresh)}};
    }
};

struct DirectionFinish : Finish {
    CgState *state;
    bool judge;
    MILCGPU_HD void operator()(const Sums<1> &pp) const {
        state->pp_new = pp.v[0];
        if (judge)
            state->advance();
    }
};

// p += r_new - r; sums |r_new|^2, <r_new, p> and |r_new - r|^2.
template <class S> struct Correct {
    SpinorView<S> r_new, r, p;
    MILCGPU_HD Sums<3> operator()(int i) const {
        const auto fresh = r_new.load(i);
        const auto jump = fresh - r.load(i);
        const auto direction = p.load(i) + jump;
        p.store(i, direction);
        r.store(i, fresh);
        return {{norm(fresh), real_dot(fresh, direction), norm(jump)}};
    }
};

struct CorrectFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<3> &sums) const {
        state->rr = state->largest_rr = sums.v[0];
        state->rr_new = sums.v[1]; // <r, p>, until Project has used it
        state->jump = sums.v[2];
    }
};

// p -= (<r,p> / |r|^2 - 1) r, so that <r,p> = |r|^2; x = 0.
template <class S> struct Project {
    SpinorView<S> r, p;
    SpinorView<typename SolutionOf<S>::Type> x;
    const CgState *state;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const auto excess = static_cast<typename S::Real>(state->rr_new / state->rr - 1.0);
        const auto direction = p.load(i) - excess * r.load(i);
        p.store(i, direction);
        x.store(i, {});
        return {{norm(direction)}};
    }
};

struct ProjectFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<1> &pp) const {
        state->pp = pp.v[0];
        state->stop = CgStop::running;
        state->active = 1;
    }
};

template <class S> using SolutionView = SpinorView<typename SolutionOf<S>::Type>;

} // namespace

void cg_start(Device &device, const SpinorField &r, const SpinorField &p, const SpinorField &x, CgState *state) {
    for_precision(r.precision(), [&](auto s) {
        using S = decltype(s);
        launch_sum<1>(device, r.sites(), Start<S>{SpinorView<S>(r), SpinorView<S>(p), SolutionView<S>(x)},
                      StartFinish{{}, state}, nullptr, "cg start");
    });
}

void cg_direction(Device &device, const SpinorField &r, const SpinorField &p, const SpinorField &x, CgState *state,
                  bool judge) {
    for_precision(r.precision(), [&](auto s) {
        using S = decltype(s);
        launch_sum<1>(device, r.sites(), Direction<S>{SpinorView<S>(r), SpinorView<S>(p), SolutionView<S>(x), state},
                      DirectionFinish{{}, state, judge}, &state->active, "cg direction");
    });
}

void cg_reliable_update(Device &device, const SpinorField &r_new, const SpinorField &r, const SpinorField &p,
                        const SpinorField &x, CgState *state) {
    for_precision(r.precision(), [&](auto s) {
        using S = decltype(s);
        launch_sum<3>(device, r.sites(), Correct<S>{SpinorView<S>(r_new), SpinorView<S>(r), SpinorView<S>(p)},
                      CorrectFinish{{}, state}, nullptr, "cg reliable update");
        launch_sum<1>(device, r.sites(), Project<S>{SpinorView<S>(r), SpinorView<S>(p), SolutionView<S>(x), state},
                      ProjectFinish{{}, state}, nullptr, "cg reliable update");
    });
}

} // namespace milcgpu
