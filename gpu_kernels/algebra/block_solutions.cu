// Directions added to the solutions of a block (block_steps.h), several iterations at once.
#include "gpu_kernels/algebra/block_steps.h"
#include "gpu_kernels/fields/for_precision.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/machine/backend/copy_ahead_cuda.h"
#endif
#include <type_traits>

namespace milcgpu {

namespace {

MILCGPU_HD const Complex<double> *alpha_of(const BlockState *s, int step, double) { return s->alpha[step]; }
MILCGPU_HD const Complex<float> *alpha_of(const BlockState *s, int step, float) { return s->alpha_in_single[step]; }

// Arguments of an update of solutions. P: directions of iteration k at k mod cg_kept_steps.
struct SolutionUpdate {
    unsigned char *p[cg_kept_steps], *x; // of source 0
    size_t direction_bytes, source_bytes, stride;
    const BlockState *s;
    int steps;
    bool stopped;
    // Number of iterations whose directions must be added, up to the last one; 0: none.
    MILCGPU_HD int pending() const {
        if ((s->active != 0) == stopped || s->stop == CgStop::nan_or_inf || (stopped && s->iterations == 0))
            return 0;
        return stopped ? (s->iterations + cg_kept_steps - 1) % cg_kept_steps + 1 : steps;
    }
    // The place of the directions of the k-th of them.
    MILCGPU_HD int place_of(int k, int pending) const { return (s->iterations - pending + k) % cg_kept_steps; }
    MILCGPU_HD unsigned char *solution(int j) const { return x + s->place[j] * source_bytes; }
};

// Each thread has one site of all sources, or of up to `most` sources.
template <class S, int most> struct UpdateBlock : SolutionUpdate {
    using Real = typename S::Real;
    int first;
    MILCGPU_HD void operator()(int i) const {
        const int n = s->sources, steps_to_add = pending();
        if (steps_to_add == 0)
            return;
        Vector<Real> sum[most] = {};
        for (int k = 0; k < steps_to_add; ++k) {
            const int step = place_of(k, steps_to_add);
            const Complex<Real> *const alpha = alpha_of(s, step, Real()) + first;
            MILCGPU_UNROLL_TWICE // loads the next direction meanwhile
                for (int source = 0; source < n; ++source) {
                const Vector<Real> direction = load_spinor<S>(p[step] + source * direction_bytes, stride, i);
                MILCGPU_UNROLL
                for (int j = 0; j < most; ++j)
                    if (first + j < n) {
                        const Complex<Real> a = alpha[source * most_block + j];
                        MILCGPU_UNROLL
                        for (int c = 0; c < 3; ++c)
                            sum[j].c[c] = plus(sum[j].c[c], a, direction.c[c]);
                    }
            }
        }
        MILCGPU_UNROLL
        for (int j = 0; j < most; ++j)
            if (first + j < n)
                store_spinor<SpinorDouble>(solution(first + j), stride, i,
                                           load_spinor<SpinorDouble, Reuse::written>(solution(first + j), stride, i) +
                                               s->scale[first + j] * convert<double>(sum[j]));
    }
};

// In lock-step: each thread has one site of one source.
template <class S> struct UpdateOfEach : SolutionUpdate {
    static constexpr int together = 1;
    MILCGPU_HD bool open(int) const { return pending() != 0; }
    ActiveSources active() const { return {}; }
    MILCGPU_HD Sums<1> operator()(int i, int j) const {
        const int steps_to_add = pending();
        Vector<double> sum = {};
        MILCGPU_UNROLL // all loads in flight at once
            for (int k = 0; k < cg_kept_steps; ++k) {
            if (k >= steps_to_add)
                continue;
            const int step = place_of(k, steps_to_add);
            const auto direction = load_spinor<S>(p[step] + j * direction_bytes, stride, i);
            sum = sum + s->alpha[step][j * (most_block + 1)].re * convert<double>(direction);
        }
        store_spinor<SpinorDouble>(solution(j), stride, i,
                                   load_spinor<SpinorDouble, Reuse::written>(solution(j), stride, i) +
                                       s->scale[j] * sum);
        return {};
    }
};

#if defined(MILCGPU_WITH_CUDA)
// As above in single precision: a thread has one or two pairs of sites of a colour, which it loads as 16 bytes each,
// and all sources. So directions are read once. Coefficients are in shared memory, as rows of `most`; with two pairs
// each coefficient is read half as often. Directions are copied ahead to shared memory, one place for each thread: the
// compiler waits for all loads into registers together, because it counts them together.
constexpr int update_threads = 128;
template <int most, int pairs>
__global__ void __launch_bounds__(update_threads, most > 8 ? 3 : 4)
    update_pairs(const __grid_constant__ SolutionUpdate u, int sites, int blocks_a_colour) {
    cuda::wait_for_previous();
    constexpr int stages = 8;
    constexpr int at_once = 4; // solutions
    __shared__ float4 rows[cg_kept_steps * most][most / 2];
    __shared__ uint4 ring[stages][pairs][update_threads];
    const BlockState *const s = u.s;
    const int n = s->sources, pending = u.pending(), count = pending * n;
    if (count == 0)
        return;
    const int first_place = u.place_of(0, pending);
    const auto place_of = [&](int step) { return (first_place + step) % cg_kept_steps; };
    // The pairs of a warp are consecutive: first one pair of each thread, then the others.
    const int colour = blockIdx.x / blocks_a_colour, warp = threadIdx.x / 32;
    const int site = (blockIdx.x - colour * blocks_a_colour) * 2 * pairs * update_threads + warp * 64 * pairs +
                     2 * (threadIdx.x % 32);
    int valid[pairs]; // bytes of a pair that are inside the field
    MILCGPU_UNROLL
    for (int q = 0; q < pairs; ++q) {
        const int left = sites - site - 64 * q;
        valid[q] = left >= 2 ? 16 : left > 0 ? 8 : 0;
    }
    const size_t at = opaque((colour * u.stride + site) * sizeof(Complex<float>));
    const unsigned char *next = u.p[first_place] + at; // the direction that is copied next
    int step = 0, source = 0, copied = 0;
    const auto copy = [&] {
        if (copied < count) {
            MILCGPU_UNROLL
            for (int q = 0; q < pairs; ++q)
                cuda::copy_ahead(&ring[copied % stages][q][threadIdx.x], next + q * 64 * sizeof(Complex<float>),
                                 valid[q]);
            next += u.direction_bytes;
            if (++source == n)
                source = 0, next = u.p[place_of(++step)] + at;
        }
        ++copied;
        cuda::end_of_stage();
    };
    for (int k = 0; k < stages - 1; ++k)
        copy();
    MILCGPU_UNROLL
    for (int of_step = 0; of_step < cg_kept_steps; ++of_step)
        if (of_step < pending)
            for (int k = threadIdx.x; k < n * most / 2; k += update_threads)
                rows[of_step * n + k / (most / 2)][k % (most / 2)] = reinterpret_cast<const float4 *>(
                    s->alpha_in_single[place_of(of_step)])[k / (most / 2) * (most_block / 2) + k % (most / 2)];
    __syncthreads();
    Complex<float> sum[most][2 * pairs] = {};
    MILCGPU_ROLLED
    for (int k = 0; k < count; ++k) {
        cuda::wait_for_stage<stages - 2>();
        Complex<float> v[2 * pairs];
        MILCGPU_UNROLL
        for (int q = 0; q < pairs; ++q) {
            const float4 two = bit_cast<float4>(ring[k % stages][q][threadIdx.x]);
            v[2 * q] = {two.x, two.y}, v[2 * q + 1] = {two.z, two.w};
        }
        copy(); // into the place that was read one turn ago
        MILCGPU_UNROLL
        for (int j = 0; j < most; j += 2) {
            const float4 a = rows[k][j / 2];
            MILCGPU_UNROLL
            for (int q = 0; q < 2 * pairs; ++q) {
                sum[j][q] = plus(sum[j][q], {a.x, a.y}, v[q]);
                sum[j + 1][q] = plus(sum[j + 1][q], {a.z, a.w}, v[q]);
            }
        }
    }
    MILCGPU_UNROLL
    for (int q = 0; q < pairs; ++q) {
        if (valid[q] == 0)
            break;
        const int first_site = site + 64 * q;
        const bool both = first_site + 1 < sites;
        const auto solution = [&](int j) {
            return reinterpret_cast<double2 *>(u.solution(j < n ? j : n - 1)) + colour * u.stride + first_site;
        };
        MILCGPU_UNROLL
        for (int first = 0; first < most; first += at_once) {
            double2 x[at_once][2];
            MILCGPU_UNROLL
            for (int j = 0; j < at_once; ++j)
                MILCGPU_UNROLL
            for (int k = 0; k < 2; ++k)
                x[j][k] = solution(first + j)[both ? k : 0];
            MILCGPU_UNROLL
            for (int j = 0; j < at_once; ++j) {
                if (first + j >= n)
                    break;
                const double scale = s->scale[first + j];
                MILCGPU_UNROLL
                for (int k = 0; k < 2; ++k)
                    if (k == 0 || both)
                        solution(first + j)[k] = make_double2(x[j][k].x + scale * double(sum[first + j][2 * q + k].re),
                                                              x[j][k].y + scale * double(sum[first + j][2 * q + k].im));
            }
        }
    }
}
#endif

} // namespace

void update_block_solutions(Device &device, const BlockSolutions &v, const BlockState *state, int steps, bool stopped) {
    SolutionUpdate update{};
    for (int k = 0; k < cg_kept_steps; ++k)
        update.p[k] = v.p[k].data;
    update.direction_bytes = v.p[0].source_bytes;
    update.x = v.x.data, update.source_bytes = v.x.source_bytes;
    update.stride = v.p[0].stride;
    update.s = state, update.steps = steps, update.stopped = stopped;
    const int n = v.p[0].sources, sites = v.p[0].sites;
    if (v.lock_step)
        return for_precision(v.p[0].precision, [&](auto format) {
            launch_sum_sources<1, 1>(device, sites, n, UpdateOfEach<decltype(format)>{update},
                                     StoreSumOfSource{nullptr}, "update solutions in lock-step");
        });
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu() && v.p[0].precision == Precision::single) {
        const auto start = [&](auto most) {
            constexpr int pairs = decltype(most)::value > 12 ? 1 : 2;          // more would not fit in registers
            const int blocks = (sites - 1) / (2 * pairs * update_threads) + 1; // of a colour
            cuda::start(device, "update solutions of a block", 3 * blocks, update_threads,
                        update_pairs<decltype(most)::value, pairs>, update, sites, blocks);
        };
        n <= 4    ? start(std::integral_constant<int, 4>())
        : n <= 8  ? start(std::integral_constant<int, 8>())
        : n <= 12 ? start(std::integral_constant<int, 12>())
                  : start(std::integral_constant<int, 16>());
        return;
    }
#endif
    for_precision(v.p[0].precision, [&](auto format) {
        using S = decltype(format);
        const auto start = [&](auto most) {
            UpdateBlock<S, decltype(most)::value> body{update, 0};
            for (; body.first < n; body.first += most)
                launch(device, sites, body, "update solutions of a block");
        };
        if (n <= 4)
            start(std::integral_constant<int, 4>());
        else
            start(std::integral_constant<int, 8>());
    });
}

} // namespace milcgpu
