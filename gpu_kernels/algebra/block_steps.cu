#include "gpu_kernels/algebra/block_steps.h"
#include "gpu_kernels/machine/backend/launch.h"

namespace milcgpu {

namespace {

using Number = Complex<double>;

// A team of threads that works on small matrices. each(rows, columns, f) calls f(i, j) for all elements, in any order,
// and returns when all calls are done. beside(f) calls f() once; the team need not wait for it, but does at the next
// each(). largest(f): the largest f(i) of i < most_block.
struct Alone {
    template <class Function> MILCGPU_HD void beside(const Function &f) const { f(); }
    template <class Function> MILCGPU_HD uint32_t largest(const Function &f) const {
        uint32_t best = 0;
        for (int i = 0; i < most_block; ++i)
            best = f(i) > best ? f(i) : best;
        return best;
    }
    template <class Function> MILCGPU_HD void each(int rows, int columns, const Function &f) const {
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                f(i, j);
    }
};
#if defined(MILCGPU_WITH_CUDA)
struct Block { // each thread has one element
    template <class Function> MILCGPU_HD void each(int rows, int columns, const Function &f) const {
#if MILCGPU_ON_DEVICE
        const int i = threadIdx.x / most_block, j = threadIdx.x % most_block;
        if (i < rows && j < columns)
            f(i, j);
        __syncthreads();
#else
        static_cast<void>(rows), static_cast<void>(columns), static_cast<void>(f);
#endif
    }
    template <class Function> MILCGPU_HD void beside(const Function &f) const { // the thread with the least to do
#if MILCGPU_ON_DEVICE
        if (threadIdx.x == most_block * most_block - 1)
            f();
#else
        static_cast<void>(f);
#endif
    }
    template <class Function> MILCGPU_HD uint32_t largest(const Function &f) const { // in each warp
#if MILCGPU_ON_DEVICE
        return __reduce_max_sync(~0u, f(threadIdx.x % most_block));
#else
        static_cast<void>(f);
        return 0;
#endif
    }
};
#endif

struct Scratch { // a and b are the memory of an elimination; a new basis also uses c and d
    BlockState::Matrix a, b, c, d, r_r, p_p, delta, inverse, beta, moved;
    double one_over[most_block]; // 1 / the diagonal element before the elimination; 0 if it was not positive
    float left[2][most_block];   // pivots divided by that element, before and after a step; 0: the row is done
    struct {                     // inputs of judge() for a source
        double over_target;
        bool finite, at_target, fallen;
    } convergence[most_block];
    bool negative[most_block]; // <p, A p> < 0
};

MILCGPU_HD Number unit(bool one) { return {one ? 1.0 : 0.0, 0}; }

// The pivots of the hermitian n x n matrix a before the elimination.
template <class Team> MILCGPU_HD void start_pivots(const Team &team, Scratch &scratch, int n) {
    Scratch *const r = &scratch;
    team.each(most_block, 1, [=](int i, int) {
        const double x = i < n ? r->a[i * n + i].re : 0;
        r->one_over[i] = x > 0 ? 1 / x : 0;
        r->left[0][i] = r->left[1][i] = x > 0 ? 1.0f : 0.0f;
    });
}
// The row with the largest pivot, which is eliminated next; -1: no pivot is above `weakest`. A row with NaN is never
// chosen. Non-negative floats are ordered like their bits; the last four bits hold the row instead.
template <class Team> MILCGPU_HD int next_pivot(const Team &team, const float *left, float weakest) {
    const uint32_t best = team.largest([=](int i) {
        const uint32_t bits = left[i] > weakest ? bit_cast<uint32_t>(left[i]) : 0;
        return bits == 0 ? 0 : (bits & ~15u) | (most_block - 1 - i);
    });
    return best == 0 ? -1 : most_block - 1 - static_cast<int>(best & 15u);
}
// The rest of row i after a step of the elimination, when its diagonal element has become x.
MILCGPU_HD float pivot_left(const Scratch &scratch, const float *before, int i, int taken, double x) {
    return i == taken || !(before[i] > 0) ? 0.0f : static_cast<float>(x * scratch.one_over[i]);
}

// room.inverse = inverse of the hermitian n x n matrix room.a by Gauss-Jordan elimination. Only rows and columns with
// pivots above `weakest` are inverted; the others become zero.
template <class Team> MILCGPU_HD void invert(const Team &team, Scratch &scratch, int n, double weakest) {
    Number *a = scratch.a, *next = scratch.b;
    float *left = scratch.left[0], *next_left = scratch.left[1];
    Scratch *const r = &scratch;
    start_pivots(team, scratch, n);
    int done = 0;
    for (int p; (p = next_pivot(team, left, static_cast<float>(weakest))) >= 0; done |= 1 << p) {
        const double inverse = reciprocal(a[p * n + p].re);
        team.each(n, n, [=](int i, int j) {
            const Number row = inverse * a[p * n + j], column = a[i * n + p];
            const Number made = i == p && j == p ? Number{inverse, 0}
                                : i == p         ? row
                                : j == p         ? -inverse * column
                                                 : minus(a[i * n + j], column, row);
            next[i * n + j] = made;
            if (i == j)
                next_left[i] = pivot_left(*r, left, i, p, made.re);
        });
        Number *const before = a;
        a = next, next = before;
        float *const left_before = left;
        left = next_left, next_left = left_before;
    }
    team.each(n, n, [=](int i, int j) {
        r->inverse[i * n + j] = (done >> i & done >> j & 1) != 0 ? a[i * n + j] : unit(false);
    });
}

// room.inverse = m with m^dag a m = 1, for the hermitian n x n matrix a in room.a, by elimination. Only rows with
// pivots above `weakest` count; the other columns of m are zero.
template <class Team> MILCGPU_HD void orthonormalize(const Team &team, Scratch &scratch, int n, double weakest) {
    Number *a = scratch.a, *next = scratch.b, *rows = scratch.c,
           *next_rows = scratch.d; // rows a rows^dag becomes diagonal
    float *left = scratch.left[0], *next_left = scratch.left[1];
    Scratch *const r = &scratch;
    start_pivots(team, scratch, n);
    team.each(n, n, [=](int i, int j) { rows[i * n + j] = unit(i == j); });
    int done = 0;
    for (int p; (p = next_pivot(team, left, static_cast<float>(weakest))) >= 0;) {
        done |= 1 << p;
        const double inverse = reciprocal(a[p * n + p].re);
        const int are_done = done;
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            const bool is_left = (are_done >> i & 1) == 0;
            const Number part = inverse * a[i * n + p], made = is_left ? minus(a[k], part, a[p * n + j]) : a[k];
            next[k] = made;
            next_rows[k] = is_left ? minus(rows[k], part, rows[p * n + j]) : rows[k];
            if (i == j)
                next_left[i] = pivot_left(*r, left, i, p, made.re);
        });
        Number *const before = a, *const rows_before = rows;
        a = next, next = before;
        rows = next_rows, next_rows = rows_before;
        float *const left_before = left;
        left = next_left, next_left = left_before;
    }
    team.each(n, n, [=](int i, int j) {
        r->inverse[i * n + j] =
            (done >> j & 1) != 0 ? (1 / sqrt(a[j * n + j].re)) * conj(rows[j * n + i]) : unit(false);
    });
}

// Element i, j of a b; a has `inner` columns, b has `columns`. With adjoint_product: of a^dag b, for n x n matrices.
MILCGPU_HD Number product(const Number *a, const Number *b, int i, int j, int inner, int columns) {
    Number sum = {0, 0};
    for (int k = 0; k < inner; ++k)
        sum = plus(sum, a[i * inner + k], b[k * columns + j]);
    return sum;
}
MILCGPU_HD Number adjoint_product(const Number *a, const Number *b, int i, int j, int n) {
    Number sum = {0, 0};
    for (int k = 0; k < n; ++k)
        sum = plus(sum, conj(a[k * n + i]), b[k * n + j]);
    return sum;
}

// Matrices of a step are inverted only where their pivots are above this; smaller pivots are rounding errors of sums in
// double.
constexpr double weakest_of_steps = 1e-14;

// room.inverse = inverse of a matrix; in lock-step, of its diagonal alone.
template <class Team>
MILCGPU_HD void invert_some(const Team &team, Scratch &scratch, const BlockState *s, const Number *matrix) {
    const int n = s->sources;
    const bool lock_step = s->lock_step != 0;
    Scratch *const r = &scratch;
    team.each(n, n, [=](int i, int j) { r->a[i * n + j] = lock_step && i != j ? unit(false) : matrix[i * n + j]; });
    invert(team, scratch, n, weakest_of_steps);
}

// Computes `basis`, and delta in that basis, from room.r_r of the present residuals and room.delta. In lock-step both
// are diagonal.
template <class Team> MILCGPU_HD void change_basis(const Team &team, Scratch &scratch, BlockState *s) {
    const int n = s->sources;
    const bool lock_step = s->lock_step != 0;
    Scratch *const r = &scratch;
    team.each(n, n, [=](int i, int j) { r->a[i * n + j] = lock_step && i != j ? unit(false) : r->r_r[i * n + j]; });
    orthonormalize(team, scratch, n, s->weakest);
    team.each(n, n, [=](int i, int j) {
        s->basis[i * n + j] = r->inverse[i * n + j];
        r->a[i * n + j] = lock_step && i != j ? unit(false) : adjoint_product(r->inverse, r->r_r, i, j, n); // M^-1
    });
    team.each(n, n, [=](int i, int j) { s->delta[i * n + j] = product(r->a, r->delta, i, j, n, n); });
}

// Computes <P, P> of the new directions R + P beta from room.p_p of the old ones, room.beta and room.r_r. The old
// directions are orthogonal to R.
template <class Team> MILCGPU_HD void move_p_p(const Team &team, Scratch &scratch, BlockState *s) {
    const int n = s->sources;
    Scratch *const r = &scratch;
    team.each(n, n, [=](int i, int j) { r->moved[i * n + j] = product(r->p_p, r->beta, i, j, n, n); });
    team.each(n, n, [=](int i, int j) {
        s->p_p[i * n + j] = r->r_r[i * n + j] + adjoint_product(r->beta, r->moved, i, j, n);
    });
}

struct Start {
    BlockState *state;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Scratch &scratch) const {
        BlockState *const s = state;
        Scratch *const r = &scratch;
        const int n = s->sources;
        team.each(n, n, [=](int i, int j) {
            r->r_r[i * n + j] = s->r_r[i * n + j];
            r->delta[i * n + j] = unit(i == j);
        });
        team.each(n, 1, [=](int j, int) { s->rr[j] = s->largest_rr[j] = r->r_r[j * n + j].re; });
        change_basis(team, scratch, s);
    }
};

struct StepLength {
    BlockState *state;
    bool given;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Scratch &scratch) const {
        BlockState *const s = state;
        Scratch *const r = &scratch;
        if (s->active == 0)
            return;
        const int n = s->sources;
        const bool lock_step = s->lock_step != 0;
        const Number *const right = given ? s->p_r : s->r_r;
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            const Number bp_bp = s->bp_bp[k];
            r->moved[k] = s->shift * s->p_p[k] + (s->sign < 0 ? Number{-bp_bp.re, -bp_bp.im} : bp_bp);
            r->r_r[k] = right[k], r->delta[k] = s->delta[k];
            if (i == j)
                r->negative[i] = r->moved[k].re < -weakest_of_steps * s->shift * s->p_p[k].re;
        });
        team.beside([=] {
            for (int i = 0; i < n; ++i)
                if (r->negative[i])
                    s->negative = 1;
        });
        invert_some(team, scratch, s, r->moved);
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            s->ap_p_inverse[k] = r->inverse[k];
            s->ap_p[k] = r->moved[k];
            Number v = {0, 0};
            if (!lock_step)
                v = product(r->inverse, r->r_r, i, j, n, n);
            else if (i == j && !(s->rr[i] < s->target_rr[i])) // a source that is done does not change
                v = r->inverse[k] * r->r_r[k];
            r->moved[k] = v;
            s->minus_alpha[k] = -1.0 * v;
        });
        const int place = s->iterations % cg_kept_steps;
        team.each(n, most_block, [=](int i, int j) {
            const Number v = j < n ? product(r->moved, r->delta, i, j, n, n) : unit(false);
            s->alpha[place][i * most_block + j] = v;
            s->alpha_in_single[place][i * most_block + j] = convert<float>(v);
        });
    }
};

// Counts and judges the iteration. NaN is tested for first, and every later test is false for NaN. So NaN never counts
// as convergence.
MILCGPU_HD void check_convergence(BlockHead &s, const Scratch &scratch) {
    bool finite = true, done = true, any_done = false, fallen = true;
    double highest = 0;
    for (int j = 0; j < s.sources; ++j) {
        const auto &source = scratch.convergence[j];
        finite = finite && source.finite;
        highest = fmax(highest, source.over_target);
        done = done && source.at_target;
        any_done = any_done || source.at_target;
        fallen = fallen && source.fallen;
    }
    ++s.iterations;
    if (s.lowest_at == 0 || highest < s.lowest)
        s.lowest = highest, s.lowest_at = s.iterations;
    if (!finite)
        s.stop = CgStop::nan_or_inf;
    else if (done)
        s.stop = CgStop::target;
    else if (s.negative != 0)
        s.stop = CgStop::not_positive;
    else if (any_done && highest > s.leave)
        s.stop = CgStop::source_done;
    else if (fallen || s.iterations - s.lowest_at > s.stall)
        s.stop = CgStop::reliable_update;
    else if (s.iterations >= s.iteration_limit)
        s.stop = CgStop::iteration_limit;
    s.active = s.stop == CgStop::running;
}

struct NextDirection {
    BlockState *state;
    bool given, new_basis;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Scratch &scratch) const {
        BlockState *const s = state;
        Scratch *const r = &scratch;
        if (s->active == 0)
            return;
        const int n = s->sources;
        const bool lock_step = s->lock_step != 0;
        const Number *const ap_r = given ? s->ap_r : s->ap_p;
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            const bool left_out = lock_step && i != j;
            r->a[k] = s->ap_p_inverse[k];
            r->b[k] = left_out ? unit(false) : ap_r[k];
            r->c[k] = left_out ? unit(false) : s->ap_ap[k];
            r->inverse[k] = left_out ? unit(false) : s->minus_alpha[k];
            r->r_r[k] = s->r_r[k], r->p_p[k] = s->p_p[k], r->delta[k] = s->delta[k];
        });
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            const Number change = product(r->c, r->inverse, i, j, n, n);
            r->moved[k] = r->b[k] + 0.5 * change;
            r->d[k] = r->b[k] + change; // <A P, R'>
        });
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            r->c[k] = adjoint_product(r->inverse, r->moved, i, j, n);
            r->beta[k] = -1.0 * (!lock_step ? product(r->a, r->d, i, j, n, n)
                                 : i == j   ? r->a[k] * r->d[k]
                                            : unit(false));
        });
        team.each(n, n, [=](int i, int j) {
            const int k = i * n + j;
            r->r_r[k] = r->r_r[k] + r->c[k] + conj(r->c[j * n + i]);
            s->r_r[k] = r->r_r[k];
        });
        team.each(n, n, [=](int i, int j) { r->moved[i * n + j] = product(r->r_r, r->delta, i, j, n, n); });
        team.each(n, 1, [=](int j, int) { // r_j = sum over i of R_i delta_ij
            const double sum = adjoint_product(r->delta, r->moved, j, j, n).re, target = s->target_rr[j];
            const double rr = sum < 0 ? 0 : sum, largest = fmax(s->largest_rr[j], rr); // rounding; NaN stays
            s->rr[j] = rr, s->largest_rr[j] = largest;
            const bool at_target = rr < target;
            r->convergence[j] = {rr / target, rr < INFINITY, at_target, at_target || rr < s->reliable_factor * largest};
            if (lock_step && at_target)
                r->beta[j * n + j] = unit(false);
        });
        team.beside([=] { check_convergence(*s, *r); });
        if (new_basis) {
            change_basis(team, scratch, s);
            team.each(n, n, [=](int i, int j) {
                const int k = i * n + j;
                r->a[k] = s->basis[k], r->b[k] = s->minus_alpha[k];
            });
            team.each(n, n, [=](int i, int j) {
                s->beta[i * n + j] = product(r->beta, r->a, i, j, n, n);
                s->minus_alpha[i * n + j] = product(r->b, r->a, i, j, n, n);
            });
        } else {
            team.each(n, n, [=](int i, int j) { s->beta[i * n + j] = r->beta[i * n + j]; });
            move_p_p(team, scratch, s);
        }
    }
};

struct Redirect {
    BlockState *state;
    BlockRedirect how;
    template <class Team> MILCGPU_HD void operator()(const Team &team, Scratch &) const {
        const int m = how.directions, n = how.sources;
        BlockState *const s = state;
        const BlockRedirect &to = how;
        const bool lock_step = s->lock_step != 0;
        team.each(m, n, [=](int i, int j) {
            Number v = {0, 0};
            if (!lock_step)
                v = product(s->ap_p_inverse, s->ap_r, i, j, m, n);
            else if (i == to.from[j])
                v = s->ap_p_inverse[i * m + i] * s->ap_r[i * n + j];
            s->beta[i * n + j] = -1.0 * v;
        });
    }
};

#if defined(MILCGPU_WITH_CUDA)
template <class Work> __global__ void __launch_bounds__(most_block *most_block) run_alone(const Work work) {
    __shared__ Scratch scratch;
    cuda::wait_for_previous();
    work(Block(), scratch);
}
#endif

template <class Work> void run_one_block(Device &device, const Work &work, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu())
        return cuda::start(device, what, 1, most_block * most_block, run_alone<Work>, work);
#endif
    static_cast<void>(device), static_cast<void>(what);
    Scratch scratch;
    work(Alone(), scratch);
}

} // namespace

void block_start(Device &device, BlockState *state) { run_one_block(device, Start{state}, "start of a block"); }
void block_step_length(Device &device, BlockState *state, From p_r) {
    run_one_block(device, StepLength{state, p_r == From::sums}, "step of a block");
}
void block_direction(Device &device, BlockState *state, From ap_r, bool new_basis) {
    run_one_block(device, NextDirection{state, ap_r == From::sums, new_basis}, "direction of a block");
}
void block_redirect(Device &device, BlockState *state, const BlockRedirect &how) {
    run_one_block(device, Redirect{state, how}, "new direction of a block");
}

} // namespace milcgpu
