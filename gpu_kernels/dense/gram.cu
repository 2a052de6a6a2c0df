// Gram matrices. The sites are cut into slices, a block of threads each; a warp holds the whole matrix of up to 32 x 32
// in registers, so fields come from memory once and nothing but sums passes through shared memory. conj(x) y is two
// real products of twice the length: Re from (re, im) times (re, im), Im from (re, im) times (im, -re).
//
// Sums: a warp over its steps in order, the warps of a block by a tree, the blocks in order (sum_slices).
#include "gpu_kernels/blas/for_precision.h"
#include "gpu_kernels/dense/dense.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dense/chunks_cuda.h"
#endif

namespace milcgpu {

namespace {

// Tiles of 8 x 8 along a side of the matrix that a warp has.
int tiles_of(int sources) { return sources <= 8 ? 1 : sources <= 16 ? 2 : 4; }
MILCGPU_HD constexpr int blocks_a_processor(int tiles) { return tiles == 4 ? 1 : 2; }
// One wave of blocks on an H100 or H200. Of no other GPU is it asked how many it holds: the sums depend on it.
MILCGPU_HD constexpr int most_slices(int tiles) { return 132 * blocks_a_processor(tiles); }

struct GramShape {
    int tiles, row_blocks, column_blocks;
    GramShape(int n, int m)
        : tiles(tiles_of(std::max(n, m))), row_blocks((n + 8 * tiles - 1) / (8 * tiles)),
          column_blocks((m + 8 * tiles - 1) / (8 * tiles)) {}
    int blocks() const { return row_blocks * column_blocks; }
    int numbers() const { return 128 * tiles * tiles * blocks(); } // that a slice leaves
};

#if defined(MILCGPU_WITH_CUDA)

// conj(x) y for a step: 8 chunks of each source, 4 of them side by side in a warp.
constexpr int step_chunks = 8;

template <int tiles, bool same> struct Ring {                                  // of stages that are copied ahead
    static constexpr int loads = (same ? tiles : 2 * tiles) * step_chunks / 4; // chunks of a thread in a stage
    static constexpr int stage_bytes = loads * 16 * cuda::dense_threads;
    static constexpr int room = (tiles == 4 ? 192 : 96) * 1024;
    static constexpr int stages = room / stage_bytes < 6 ? room / stage_bytes : 6;
    static constexpr int bytes = stages * stage_bytes;
};

template <class S, int tiles, bool same>
__global__ void __launch_bounds__(cuda::dense_threads, blocks_a_processor(tiles))
    gram_slices(const cuda::DenseView x, const cuda::DenseView y, int row_blocks, int column_blocks, const int *gate,
                double *sums) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using Chunk = cuda::Chunk<S>;
    using R = Ring<tiles, same>;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int blocks = row_blocks * column_blocks, block = blockIdx.x % blocks, slice = blockIdx.x / blocks;
    // In copies a thread has a chunk of eight of a field, and of the field that is four behind.
    const int x_first = block / column_blocks * 8 * tiles + lane / 8;
    const int y_first = block % column_blocks * 8 * tiles + lane / 8;
    // A warp stays in one stripe, so that from step to step its addresses grow by a constant.
    const int warps = gridDim.x / blocks * cuda::dense_warps, index = slice * cuda::dense_warps + warp;
    const int stripe = index % Chunk::stripes, steps_apart = warps / Chunk::stripes;
    const int steps = (x.sites - 1) / (step_chunks * Chunk::sites) + 1, first = index / Chunk::stripes;
    const int count = first < steps_apart ? (steps - first + steps_apart - 1) / steps_apart : 0;
    int left = x.sites - (first * step_chunks + lane % 8) * Chunk::sites; // sites from the next chunk on
    const size_t start = stripe * x.stripe_bytes + (first * step_chunks + lane % 8) * size_t(Chunk::bytes);
    const unsigned char *x_next = x.data + x_first * x.source_bytes + start;
    const unsigned char *y_next =
        y.data + y_first * y.source_bytes + stripe * (y.stripe_bytes - x.stripe_bytes) + start;
    // Lines of eight chunks, a field each; in every other one the halves change places, which gives a warp's reads all
    // banks.
    uint4 *const mine = ring + warp * R::stages * R::loads * 32, *const filled = mine + (lane ^ (lane / 8 % 2 * 4));

    const auto copy_fields = [&](uint4 *to, const cuda::DenseView &from, const unsigned char *chunk, int source) {
        const int valid = Chunk::valid(left);
        MILCGPU_UNROLL
        for (int k = 0; k < 2 * tiles; ++k, chunk += 4 * from.source_bytes)
            cuda::copy_ahead(to + k * 32, chunk, source + 4 * k < from.sources ? valid : 0);
    };
    const auto copy_step = [&](int stage) {
        copy_fields(filled + stage * R::loads * 32, x, x_next, x_first);
        if (!same)
            copy_fields(filled + (stage * R::loads + 2 * tiles) * 32, y, y_next, y_first);
        cuda::end_of_stage();
        const int bytes = steps_apart * step_chunks * Chunk::bytes;
        x_next += bytes, y_next += bytes;
        left -= steps_apart * step_chunks * Chunk::sites;
    };

    double sum[tiles][tiles][2][2] = {};       // [row tile][column tile][re, im][column]
    double by_re[2][2] = {}, by_im[2][2] = {}; // one tile: (re, im) of x as 16 rows, times re and im of y
    for (int k = 0; k < R::stages - 1; ++k)
        copy_step(k);
    for (int k = 0, stage = 0; k < count; ++k) {
        cuda::wait_for_stage<R::stages - 2>();
        __syncwarp();
        copy_step(stage > 0 ? stage - 1 : R::stages - 1);
        const uint4 *const lines = mine + stage * R::loads * 32 + row * 8 + quad;
        const auto take = [&](int half, Complex<double>(*a)[Chunk::numbers], Complex<double>(*b)[Chunk::numbers]) {
            MILCGPU_UNROLL
            for (int t = 0; t < tiles; ++t) {
                const uint4 *const chunk = lines + 2 * t * 32 + (half ^ row % 2) * 4;
                cuda::decode(S(), chunk[0], a[t]);
                if (!same)
                    cuda::decode(S(), chunk[2 * tiles * 32], b[t]);
            }
        };
        if constexpr (tiles == 1) {
            Complex<double> a[2][1][Chunk::numbers], b[2][1][Chunk::numbers];
            take(0, a[0], b[0]), take(1, a[1], b[1]);
            MILCGPU_UNROLL
            for (int number = 0; number < Chunk::numbers; ++number) {
                const Complex<double> u = a[0][0][number], v = a[1][0][number];
                const Complex<double> p = same ? u : b[0][0][number], q = same ? v : b[1][0][number];
                cuda::multiply_16(by_re[0], by_re[1], {u.re, v.re}, {u.im, v.im}, {p.re, q.re});
                cuda::multiply_16(by_im[0], by_im[1], {u.re, v.re}, {u.im, v.im}, {p.im, q.im});
            }
        } else {
            MILCGPU_UNROLL
            for (int half = 0; half < 2; ++half) {
                Complex<double> a[tiles][Chunk::numbers], b[tiles][Chunk::numbers];
                take(half, a, b);
                MILCGPU_UNROLL
                for (int c = 0; c < tiles; ++c)
                    MILCGPU_UNROLL
                for (int number = 0; number < Chunk::numbers; ++number) {
                    const Complex<double> v = same ? a[c][number] : b[c][number], turned = {v.im, cuda::negative(v.re)};
                    MILCGPU_UNROLL
                    for (int r = 0; r < tiles; r += 2)
                        if (!same || c >= r) { // below the diagonal they follow from those above
                            cuda::multiply_16(sum[r][c][0], sum[r + 1][c][0], a[r][number], a[r + 1][number], v);
                            cuda::multiply_16(sum[r][c][1], sum[r + 1][c][1], a[r][number], a[r + 1][number], turned);
                        }
                }
            }
        }
        stage = stage + 1 < R::stages ? stage + 1 : 0;
    }
    if constexpr (tiles == 1)
        MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k) {
        sum[0][0][0][k] = by_re[0][k] + by_im[1][k];
        sum[0][0][1][k] = by_im[0][k] - by_re[1][k];
    }

    constexpr int numbers = tiles * tiles * 4;
    double *const flat = &sum[0][0][0][0], *const shared = reinterpret_cast<double *>(ring);
    cuda::wait_for_stage<0>();
    MILCGPU_UNROLL
    for (int half = cuda::dense_warps / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp >= half && warp < 2 * half)
            MILCGPU_UNROLL
        for (int k = 0; k < numbers; ++k)
            shared[((warp - half) * numbers + k) * 32 + lane] = flat[k];
        __syncthreads();
        if (warp < half)
            MILCGPU_UNROLL
        for (int k = 0; k < numbers; ++k)
            flat[k] += shared[(warp * numbers + k) * 32 + lane];
    }
    if (warp == 0)
        MILCGPU_UNROLL
    for (int k = 0; k < numbers; ++k)
        sums[(size_t(blockIdx.x) * numbers + k) * 32 + lane] = flat[k];
}

// Adds up the slices: 32 of the numbers a block, each by 8 threads that take every eighth slice.
template <int tiles>
__global__ void __launch_bounds__(cuda::dense_threads)
    sum_slices(const double *sums, int slices, int blocks, int column_blocks, int n, int m, bool same, const int *gate,
               double *g) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    constexpr int numbers = tiles * tiles * 4, parts = cuda::dense_warps, most = most_slices(tiles) / parts + 1;
    __shared__ double of_part[parts][32];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    double v[most]; // all loads at once
    MILCGPU_UNROLL
    for (int k = 0; k < most; ++k)
        v[k] = part + k * parts < slices ? sums[(size_t(part + k * parts) * gridDim.x + blockIdx.x) * 32 + lane] : 0;
    MILCGPU_UNROLL
    for (int k = 1; k < most; ++k)
        v[0] += v[k];
    of_part[part][lane] = v[0];
    __syncthreads();
    if (part > 0)
        return;
    double total = of_part[0][lane];
    MILCGPU_UNROLL
    for (int k = 1; k < parts; ++k)
        total += of_part[k][lane];
    const int block = blockIdx.x / numbers, number = blockIdx.x % numbers, im = number / 2 % 2;
    const int i = (block / column_blocks * tiles + number / 4 / tiles) * 8 + lane / 4;
    const int j = (block % column_blocks * tiles + number / 4 % tiles) * 8 + lane % 4 * 2 + number % 2;
    if (i >= n || j >= m || (same && i > j))
        return;
    g[2 * (i * m + j) + im] = same && i == j && im == 1 ? 0 : total;
    if (same && i < j)
        g[2 * (j * m + i) + im] = im == 1 ? -total : total;
}

template <class S, int tiles>
void gram_on_gpu(Device &device, const SpinorBlock &x, const SpinorBlock &y, const int *gate, double *g, double *room) {
    const GramShape shape(x.sources, y.sources);
    const bool same = x.data == y.data && x.sources == y.sources && shape.blocks() == 1;
    const int steps = (x.sites - 1) / (step_chunks * cuda::Chunk<S>::sites) + 1;
    const int slices = std::min(most_slices(tiles), cuda::Chunk<S>::stripes * (steps / cuda::dense_warps + 1));
    const auto start = [&](auto kernel, size_t shared_bytes) {
        cuda::start_with_shared(device, "gram", slices * shape.blocks(), cuda::dense_threads, shared_bytes, kernel,
                                cuda::DenseView(x), cuda::DenseView(y), shape.row_blocks, shape.column_blocks, gate,
                                room);
    };
    same ? start(gram_slices<S, tiles, true>, Ring<tiles, true>::bytes)
         : start(gram_slices<S, tiles, false>, Ring<tiles, false>::bytes);
    cuda::start(device, "sums of gram", shape.numbers() / 32, cuda::dense_threads, sum_slices<tiles>, room, slices,
                shape.blocks(), shape.column_blocks, x.sources, y.sources, same, gate, g);
}

#endif

// Slices of sites, added in order.
template <class S> void gram_on_host(const SpinorBlock &x, const SpinorBlock &y, Complex<double> *g) {
    constexpr int slices = 64;
    const int n = x.sources, m = y.sources;
    std::vector<Complex<double>> sums(size_t(slices) * n * m);
    run_on_host(slices, [&](int slice) {
        Vector<double> right[most_dense]; // nothing may throw here
        const int end = int(int64_t(x.sites) * (slice + 1) / slices);
        for (int site = int(int64_t(x.sites) * slice / slices); site < end; ++site) {
            for (int j = 0; j < m; ++j)
                right[j] = convert<double>(load_spinor<S>(y[j].data, y.stride, site));
            Complex<double> *sum = &sums[size_t(slice) * n * m];
            for (int i = 0; i < n; ++i) {
                const auto left = convert<double>(load_spinor<S>(x[i].data, x.stride, site));
                for (int j = 0; j < m; ++j, ++sum)
                    for (int colour = 0; colour < 3; ++colour)
                        *sum = plus(*sum, conj(left.c[colour]), right[j].c[colour]);
            }
        }
    });
    std::fill(g, g + n * m, Complex<double>{});
    for (int slice = 0; slice < slices; ++slice)
        for (int k = 0; k < n * m; ++k)
            g[k] = g[k] + sums[size_t(slice) * n * m + k];
    if (x.data == y.data && n == m)
        for (int i = 0; i < n; ++i) {
            g[i * m + i].im = 0;
            for (int j = 0; j < i; ++j)
                g[i * m + j] = conj(g[j * m + i]);
        }
}

void check(const SpinorBlock &x, const SpinorBlock &y) {
    if (x.precision != y.precision || x.sites != y.sites)
        throw Error(Status::bad_argument, "gram: fields of two precisions, or on sites of two numbers");
    if (x.sources < 1 || x.sources > most_dense || y.sources < 1 || y.sources > most_dense)
        throw Error(Status::bad_argument,
                    format("gram of %d and %d fields: 1 to %d", x.sources, y.sources, most_dense));
}

} // namespace

size_t gram_room(int x_sources, int y_sources) {
    const GramShape shape(x_sources, y_sources);
    return size_t(most_slices(shape.tiles)) * shape.numbers();
}

void gram(Device &device, const SpinorBlock &x, const SpinorBlock &y, Complex<double> *g, double *room,
          const int *gate) {
    check(x, y);
    for_precision(x.precision, [&](auto format) {
        using S = decltype(format);
#if defined(MILCGPU_WITH_CUDA)
        if (device.on_gpu()) {
            DeviceArray<double> own;
            if (room == nullptr)
                own = DeviceArray<double>(device, gram_room(x.sources, y.sources), "gram");
            double *const sums = room == nullptr ? own.data() : room, *const to = &g->re;
            const int tiles = GramShape(x.sources, y.sources).tiles;
            tiles == 1   ? gram_on_gpu<S, 1>(device, x, y, gate, to, sums)
            : tiles == 2 ? gram_on_gpu<S, 2>(device, x, y, gate, to, sums)
                         : gram_on_gpu<S, 4>(device, x, y, gate, to, sums);
            return;
        }
#endif
        static_cast<void>(device), static_cast<void>(room);
        if (gate != nullptr && *gate == 0)
            return;
        gram_on_host<S>(x, y, g);
    });
}

std::vector<Complex<double>> gram_over_ranks(Device &device, const SpinorBlock &x, const SpinorBlock &y) {
    check(x, y);
    const DeviceArray<Complex<double>> g(device, size_t(x.sources) * y.sources, "gram");
    gram(device, x, y, g.data());
    std::vector<Complex<double>> on_host = g.to_host();
    device.add_over_ranks(&on_host[0].re, 2 * static_cast<int>(on_host.size()));
    return on_host;
}

} // namespace milcgpu
