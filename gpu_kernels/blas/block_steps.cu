#include "gpu_kernels/blas/block_steps.h"
#include "gpu_kernels/blas/for_precision.h"
#include <utility>

namespace milcgpu {

namespace {

using Number = Complex<double>;

// Those who work on small matrices together: each(count, f) calls f(k) for k < count, in any order, and returns when
// all of it is done.
struct Alone {
    template <class Function> void each(int count, const Function &f) const {
        for (int k = 0; k < count; ++k)
            f(k);
    }
};
#if defined(MILCGPU_WITH_CUDA)
struct Block {
    template <class Function> MILCGPU_HD void each(int count, const Function &f) const {
#if MILCGPU_ON_DEVICE
        for (int k = threadIdx.x; k < count; k += blockDim.x)
            f(k);
        __syncthreads();
#else
        static_cast<void>(count), static_cast<void>(f);
#endif
    }
};
#endif

struct Room {
    BlockState::Matrix a, b;
    double diagonal[most_block];
};

// The inverse of the hermitian n x n matrix in room.a, by Gauss and Jordan, with the largest pivot of what is left in
// each step: of the rows and columns for which it is above `weakest` times what stood there at first. The others are
// zero. A row with NaN is one of the others. `out` may be where it came from. Returns which were inverted, as bits.
template <class Team>
MILCGPU_HD int invert(const Team &team, Room &room, int n, int allowed, double weakest, Number *out) {
    Number *a = room.a, *next = room.b;
    double *const diagonal = room.diagonal;
    team.each(n, [=](int i) { diagonal[i] = a[i * n + i].re; });
    int done = 0;
    for (;;) {
        int p = -1;
        double best = weakest;
        for (int i = 0; i < n; ++i) {
            const double left = a[i * n + i].re / diagonal[i];
            if (((allowed & ~done) >> i & 1) != 0 && diagonal[i] > 0 && left > best)
                best = left, p = i;
        }
        if (p < 0)
            break;
        const double inverse = 1 / a[p * n + p].re;
        team.each(n * n, [=](int k) {
            const int i = k / n, j = k % n;
            const Number row = inverse * a[p * n + j], column = a[i * n + p];
            next[k] = i == p && j == p ? Number{inverse, 0}
                      : i == p         ? row
                      : j == p         ? -inverse * column
                                       : minus(a[k], column, row);
        });
        Number *const before = a;
        a = next, next = before;
        done |= 1 << p;
    }
    team.each(n * n, [=](int k) { out[k] = (done >> k / n & done >> k % n & 1) != 0 ? a[k] : Number{0, 0}; });
    return done;
}

// sum over k of a_ik b_kj; a: `inner` columns, b: `columns`.
MILCGPU_HD Number product(const Number *a, const Number *b, int i, int j, int inner, int columns) {
    Number sum = {0, 0};
    for (int k = 0; k < inner; ++k)
        sum = plus(sum, a[i * inner + k], b[k * columns + j]);
    return sum;
}

template <class Team> MILCGPU_HD void invert_residuals(const Team &team, Room &room, BlockState *s) {
    const int n = s->sources;
    const bool lock_step = s->lock_step != 0;
    Number *const a = room.a;
    const Number *const r_r = s->r_r;
    team.each(n * n, [=](int k) { a[k] = lock_step && k / n != k % n ? Number{0, 0} : r_r[k]; });
    const int independent = invert(team, room, n, ~0, s->weakest, s->r_r_inverse);
    team.each(n, [=](int j) {
        if (j == 0)
            s->independent = independent;
        s->rr[j] = r_r[j * n + j].re;
        s->largest_rr[j] = fmax(s->largest_rr[j], s->rr[j]);
    });
}

struct Start {
    BlockState *s;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Room &room) const {
        const int n = s->sources;
        BlockState *const state = s;
        team.each(n * n, [=](int k) { state->p_p[k] = state->r_r[k]; });
        invert_residuals(team, room, state);
    }
};

struct StepLength {
    BlockState *s;
    bool given;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Room &room) const {
        if (s->active == 0)
            return;
        const int n = s->sources;
        const bool lock_step = s->lock_step != 0;
        BlockState *const state = s;
        Number *const a = room.a;
        team.each(n * n, [=](int k) {
            a[k] = lock_step && k / n != k % n ? Number{0, 0} : state->shift * state->p_p[k] + state->bp_bp[k];
        });
        // Of the residuals that are independent the directions are.
        const int allowed = given ? ~0 : s->independent;
        invert(team, room, n, allowed, given ? s->weakest : 1e-14, s->ap_p_inverse);
        const Number *const right = given ? s->p_r : s->r_r;
        Number *const alpha = s->alpha[s->iterations % cg_kept_steps];
        team.each(n * n, [=](int k) {
            const int i = k / n, j = k % n;
            Number v = {0, 0};
            if (!lock_step)
                v = product(state->ap_p_inverse, right, i, j, n, n);
            else if (i == j && !(state->rr[i] < state->target_rr[i])) // a source that is done stays as it is
                v = state->ap_p_inverse[k] * right[k];
            alpha[k] = v;
            state->minus_alpha[k] = -1.0 * v;
        });
    }
};

struct NextDirection {
    BlockState *s;
    bool given;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Room &room) const {
        if (s->active == 0)
            return;
        const int n = s->sources;
        const bool lock_step = s->lock_step != 0, was_given = given;
        BlockState *const state = s;
        team.each(n * n, [=](int k) {
            const int i = k / n, j = k % n;
            Number v = {0, 0};
            if (!lock_step)
                v = was_given ? -1.0 * product(state->ap_p_inverse, state->ap_r, i, j, n, n)
                              : product(state->r_r_inverse, state->r_r, i, j, n, n);
            else if (i == j)
                v = was_given ? -1.0 * (state->ap_p_inverse[k] * state->ap_r[k])
                              : state->r_r_inverse[k] * state->r_r[k];
            state->beta[k] = v;
        });
        Number *const moved = room.a;
        team.each(n * n, [=](int k) { moved[k] = product(state->p_p, state->beta, k / n, k % n, n, n); });
        team.each(n * n, [=](int k) {
            Number sum = state->r_r[k];
            for (int l = 0; l < n; ++l)
                sum = plus(sum, conj(state->beta[l * n + k / n]), moved[l * n + k % n]);
            state->p_p[k] = sum;
        });
        invert_residuals(team, room, state);
        team.each(1, [=](int) {
            ++state->iterations;
            judge(*state);
        });
    }
    // Every test is false for NaN, and NaN is asked for first, so NaN never passes as convergence.
    static MILCGPU_HD void judge(BlockHead &s) {
        bool finite = true, done = true, fallen = true;
        for (int j = 0; j < s.sources; ++j) {
            const bool at_target = s.rr[j] < s.target_rr[j];
            finite = finite && s.rr[j] < INFINITY;
            done = done && at_target;
            fallen = fallen && (at_target || s.rr[j] < s.reliable_factor * s.largest_rr[j]);
        }
        if (!finite)
            s.stop = CgStop::nan_or_inf;
        else if (done)
            s.stop = CgStop::target;
        else if (fallen)
            s.stop = CgStop::reliable_update;
        else if (s.independent == 0)
            s.stop = CgStop::not_positive;
        else if (s.iterations >= s.iteration_limit)
            s.stop = CgStop::iteration_limit;
        s.active = s.stop == CgStop::running;
    }
};

struct Redirect {
    BlockState *s;
    BlockRedirect how;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Room &) const {
        const int m = how.directions, n = how.sources;
        BlockState *const state = s;
        const BlockRedirect &to = how;
        const bool lock_step = s->lock_step != 0;
        team.each(m * n, [=](int k) {
            const int i = k / n, j = k % n;
            Number v = {0, 0};
            if (!lock_step)
                v = product(state->ap_p_inverse, state->ap_r, i, j, m, n);
            else if (i == to.from[j])
                v = state->ap_p_inverse[i * m + i] * state->ap_r[k];
            state->beta[k] = -1.0 * v;
        });
        team.each(n, [=](int j) { state->rr[j] = state->largest_rr[j] = state->r_r[j * n + j].re; });
    }
};

#if defined(MILCGPU_WITH_CUDA)
template <class Work> __global__ void __launch_bounds__(most_block *most_block) run_alone(const Work work) {
    __shared__ Room room;
    cuda::wait_for_previous();
    work(Block(), room);
}
#endif

template <class Work> void run_one_block(Device &device, const Work &work, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (device.on_gpu())
        return cuda::start(device, what, 1, most_block * most_block, run_alone<Work>, work);
#endif
    static_cast<void>(device), static_cast<void>(what);
    Room room;
    work(Alone(), room);
}

// A thread has a site for all sources, or for up to `most` of them.
template <class S, int most> struct UpdateBlock {
    using Real = typename S::Real;
    SourceAddresses<most_block> p[cg_kept_steps];
    unsigned char *x; // of source 0
    size_t source_bytes, stride;
    const BlockState *s;
    int steps, first;
    bool stopped;
    MILCGPU_HD void operator()(int i) const {
        const int n = s->sources, iterations = s->iterations;
        if ((s->active != 0) == stopped || s->stop == CgStop::nan_or_inf)
            return;
        const int pending = stopped ? (iterations + cg_kept_steps - 1) % cg_kept_steps + 1 : steps;
        if (stopped && iterations == 0)
            return;
        Vector<Real> sum[most] = {};
        for (int k = 0; k < pending; ++k) {
            const Number *const alpha = s->alpha[(iterations - pending + k) % cg_kept_steps] + first;
            for (int source = 0; source < n; ++source) {
                const Vector<Real> direction =
                    load_spinor<S>(p[(iterations - pending + k) % cg_kept_steps][source], stride, i);
                MILCGPU_UNROLL
                for (int j = 0; j < most; ++j)
                    if (first + j < n) {
                        const Complex<Real> a = convert<Real>(alpha[source * n + j]);
                        MILCGPU_UNROLL
                        for (int c = 0; c < 3; ++c)
                            sum[j].c[c] = plus(sum[j].c[c], a, direction.c[c]);
                    }
            }
        }
        MILCGPU_UNROLL
        for (int j = 0; j < most; ++j)
            if (first + j < n) {
                unsigned char *const to = x + s->place[first + j] * source_bytes;
                store_spinor<SpinorDouble>(to, stride, i,
                                           load_spinor<SpinorDouble, Reuse::written>(to, stride, i) +
                                               s->scale[first + j] * convert<double>(sum[j]));
            }
    }
};

} // namespace

void block_start(Device &device, BlockState *state) { run_one_block(device, Start{state}, "start of a block"); }
void block_step_length(Device &device, BlockState *state, BlockStep step) {
    run_one_block(device, StepLength{state, step == BlockStep::given}, "step of a block");
}
void block_direction(Device &device, BlockState *state, BlockStep step) {
    run_one_block(device, NextDirection{state, step == BlockStep::given}, "direction of a block");
}
void block_redirect(Device &device, BlockState *state, const BlockRedirect &how) {
    run_one_block(device, Redirect{state, how}, "new direction of a block");
}

void update_block_solutions(Device &device, const BlockSolutions &v, const BlockState *state, int steps, bool stopped) {
    for_precision(v.p[0].precision, [&](auto format) {
        constexpr int most = 8;
        UpdateBlock<decltype(format), most> body{};
        for (int k = 0; k < cg_kept_steps; ++k)
            body.p[k] = v.p[k];
        body.x = v.x.data, body.source_bytes = v.x.source_bytes;
        body.stride = v.p[0].stride;
        body.s = state, body.steps = steps, body.stopped = stopped;
        for (body.first = 0; body.first < v.p[0].sources; body.first += most)
            launch(device, v.p[0].sites, body, "update solutions of a block");
    });
}

} // namespace milcgpu
