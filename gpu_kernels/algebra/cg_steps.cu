// The parts of conjugate gradient that are not dslash: start, directions and solutions, reliable update.
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/algebra/shifts.h"
#include "gpu_kernels/fields/for_precision.h"
#include <type_traits>
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/halo/send_site.h"
#endif

namespace milcgpu {

namespace {

using DoubleView = SpinorView<SpinorDouble>;

template <class S> struct DirectionView {
    DoubleView p;
    SpinorView<S> copy;
    explicit DirectionView(const Direction &d) : p(d.p), copy(d.copy) {}
    MILCGPU_HD void store(int i, const Vector<double> &v) const {
        if (p.data != nullptr)
            p.store(i, v);
        if (copy.data != nullptr)
            copy.store(i, convert<typename S::Real>(v));
    }
};

template <class S> struct Start {
    SpinorView<S> r;
    DirectionView<S> p;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const auto v = r.load(i);
        p.store(i, convert<double>(v));
        return {{norm(v)}};
    }
};

struct StartFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<1> &rr) const { state->start(rr.v[0], rr.v[0]); }
};

// Called with each site of the direction after it is stored, and by one thread at the end of the launch.
struct SendNothing {
    MILCGPU_HD void begin() const {}
    template <class S> MILCGPU_HD void send(int, const StoredSpinor<S> &) const {}
};
#if defined(MILCGPU_WITH_CUDA)
struct SendToPeers {
    SendOut out;
    MILCGPU_HD void begin() const {
#if MILCGPU_ON_DEVICE
        cuda::count_vector(out.map.peers, out.parity);
#endif
    }
    template <class S> MILCGPU_HD void send(int i, const StoredSpinor<S> &stored) const {
#if MILCGPU_ON_DEVICE
        cuda::send_site<StoredSpinor<S>::bytes, S::word_bytes>(out.map, out.lattice, out.parity, i, stored.w);
#else
        static_cast<void>(i), static_cast<void>(stored);
#endif
    }
};
#endif

template <class S, class Send> struct UpdateSolutions {
    SourceAddresses<max_shifts> r[cg_kept_steps];
    SourceAddresses<max_shifts> p, copy, x; // copy: may be nullptr
    size_t stride;
    const CgState *states;
    int count, steps;
    bool stopped;
    Send neighbours;
    MILCGPU_HD void operator()(int i) const {
        if (i == 0)
            neighbours.begin();
        for (int field = 0; field < count; ++field) {
            const CgState &state = states[field];
            const bool spoiled = state.stop == CgStop::nan_or_inf || state.stop == CgStop::not_positive;
            if ((state.active != 0) == stopped || state.iterations == 0 || spoiled)
                continue;
            const int pending = stopped ? (state.iterations - 1) % cg_kept_steps + 1 : steps;
            Vector<double> direction = load_spinor<SpinorDouble, Reuse::written>(p[field], stride, i);
            Vector<double> solution = load_spinor<SpinorDouble, Reuse::written>(x[field], stride, i);
            const auto residual = [&](int k) { return load_spinor<S, Reuse::written>(r[k][field], stride, i); };
            const auto add_step = [&](int k, const Vector<typename S::Real> &r_k) {
                solution = solution + (state.scale * state.step_alpha[k]) * direction;
                direction = convert<double>(r_k) + state.step_beta[k] * direction;
            };
            if (pending == cg_kept_steps) { // the usual case: all loads at once
                Vector<typename S::Real> residuals[cg_kept_steps];
                MILCGPU_UNROLL
                for (int k = 0; k < cg_kept_steps; ++k)
                    residuals[k] = residual(k);
                MILCGPU_UNROLL
                for (int k = 0; k < cg_kept_steps; ++k)
                    add_step(k, residuals[k]);
            } else {
                const int first = (state.iterations - pending) % cg_kept_steps;
                for (int k = first; k < first + pending; ++k)
                    if (state.step_alpha[k] < INFINITY) // else the iteration breaks down here, and x stays as it was
                        add_step(k, residual(k));
            }
            const StoredSpinor<SpinorDouble> stored = store_spinor<SpinorDouble>(p[field], stride, i, direction);
            if constexpr (std::is_same<S, SpinorDouble>::value)
                neighbours.send(i, stored);
            else if (copy[field] != nullptr)
                neighbours.send(i, store_spinor<S>(copy[field], stride, i, convert<typename S::Real>(direction)));
            store_spinor<SpinorDouble>(x[field], stride, i, solution);
        }
    }
};

// p += r_new - r; sums |r_new|^2, <r_new, p> and |r_new - r|^2.
template <class S> struct Correct {
    SpinorView<S> r_new, r, start;
    DoubleView p;
    MILCGPU_HD Sums<3> operator()(int i) const {
        const auto fresh = r_new.load(i);
        const Vector<double> v = convert<double>(fresh), jump = v - convert<double>(r.load(i));
        const Vector<double> direction = p.load(i) + jump;
        p.store(i, direction);
        start.store(i, fresh);
        return {{norm(v), real_dot(v, direction), norm(jump)}};
    }
};

struct CorrectFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<3> &sums) const {
        state->rr = sums.v[0];
        state->cross = sums.v[1]; // <r, p> for Project, which runs next
        state->jump = sums.v[2];
    }
};

// p -= (<r, p> / |r|^2 - 1) r, so that <r, p> = |r|^2.
template <class S> struct Project {
    SpinorView<S> r;
    DirectionView<S> p;
    const CgState *state;
    MILCGPU_HD Sums<1> operator()(int i) const {
        const double excess = state->cross / state->rr - 1.0;
        const Vector<double> direction = p.p.load(i) - excess * convert<double>(r.load(i));
        p.store(i, direction);
        return {{norm(direction)}};
    }
};

struct ProjectFinish : Finish {
    CgState *state;
    MILCGPU_HD void operator()(const Sums<1> &pp) const { state->start(state->rr, pp.v[0]); }
};

} // namespace

void cg_start(Device &device, const SpinorBlock &r, const Direction &p, CgState *state) {
    for_precision(r.precision, [&](auto format) {
        using S = decltype(format);
        launch_sum<1>(device, r.sites, Start<S>{SpinorView<S>(r), DirectionView<S>(p)}, StartFinish{{}, state},
                      {"cg start"});
    });
}

void update_solutions(Device &device, const SolutionVectors &vectors, const CgState *states, int steps, bool stopped,
                      const SendOut &send) {
    for_precision(vectors.r[0].precision, [&](auto format) {
        const auto start = [&](const auto &neighbours) {
            UpdateSolutions<decltype(format), std::decay_t<decltype(neighbours)>> body{};
            for (int k = 0; k < cg_kept_steps; ++k)
                body.r[k] = vectors.r[k];
            body.p = vectors.p, body.copy = vectors.copy, body.x = vectors.x;
            body.stride = vectors.p.stride;
            body.states = states;
            body.count = vectors.p.sources, body.steps = steps, body.stopped = stopped;
            body.neighbours = neighbours;
            launch(device, vectors.p.sites, body, "update solutions");
        };
#if defined(MILCGPU_WITH_CUDA)
        if (send.map.peers != nullptr)
            return start(SendToPeers{send});
#endif
        start(SendNothing{});
    });
    static_cast<void>(send);
}

void cg_reliable_update(Device &device, const SpinorBlock &r_new, const SpinorBlock &r, const SpinorBlock &start,
                        const Direction &p, CgState *state) {
    for_precision(r.precision, [&](auto format) {
        using S = decltype(format);
        using View = SpinorView<S>;
        const SumLaunch how{"cg reliable update"};
        launch_sum<3>(device, r.sites, Correct<S>{View(r_new), View(r), View(start), DoubleView(p.p)},
                      CorrectFinish{{}, state}, how);
        launch_sum<1>(device, r.sites, Project<S>{View(start), DirectionView<S>(p), state}, ProjectFinish{{}, state},
                      how);
    });
}

} // namespace milcgpu
