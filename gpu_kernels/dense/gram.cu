// Gram matrices. The sites are cut into slices, a block of threads each. A warp holds the whole matrix of up to 32 x 32
// in registers, so fields come from memory once and nothing but sums passes through shared memory.
//
// What limits is memory and, in single precision, the matrix units. conj(a + i b) (c + i d) takes
// - three real products, a c, b d, (a + b) (d - c): Re is the sum of the first two, Im the third and the first less the
//   second. The sums of factors cost as much as a tenth to a fifth of the products.
// - four where 32 x 32 leave no registers for a third sum.
// - Fields with themselves: Re is symmetric, and Im is a d less its transpose. So up to 16 fields take ten products of
// 8 x
//   8 tiles instead of twelve, and no sums of factors.
// - Up to 8 fields are no work: real and imaginary parts are rows of their own. Up to 4 do without the matrix units.
//
// Sums: a warp over its steps in order, the warps of a block in order, the blocks in order (sum_slices).
#include "gpu_kernels/blas/for_precision.h"
#include "gpu_kernels/dense/dense.h"
#include <algorithm>
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dense/chunks_cuda.h"
#include <type_traits>
#endif

namespace milcgpu {

namespace {

// The matrix in blocks of tiles of 8 x 8. Of a block a slice leaves [re, im][row][column].
MILCGPU_HD constexpr int tiles_of(int sources) { return sources <= 8 ? 1 : sources <= 16 ? 2 : 4; }
struct GramBlock {
    int tiles, column_tiles;
    // 32 x 32 are two blocks, because sums of three products fill the registers; unless half of it is enough.
    MILCGPU_HD constexpr GramBlock(int tiles, bool same)
        : tiles(tiles), column_tiles(tiles == 4 && !same ? 2 : tiles) {}
    MILCGPU_HD constexpr int numbers() const { return 128 * tiles * column_tiles; }
    MILCGPU_HD constexpr int place(int i, int j, int im) const { return (im * 8 * tiles + i) * 8 * column_tiles + j; }
    MILCGPU_HD constexpr int rows_of(int n) const { return (n + 8 * tiles - 1) / (8 * tiles); } // of blocks
    MILCGPU_HD constexpr int columns_of(int m) const { return (m + 8 * column_tiles - 1) / (8 * column_tiles); }
};
constexpr int sums_together = 8; // by a block of threads that adds up slices
// One wave of blocks on an H100 or H200. Of no other GPU is it asked how many it holds: the sums depend on it.
MILCGPU_HD constexpr int most_slices(int tiles) { return tiles == 1 ? 264 : 132; }

#if defined(MILCGPU_WITH_CUDA)

// Up to four fields: a thread has a chunk of each in registers, and the matrix with plain multiplications, of which the
// matrix units would waste half.
constexpr int few = 4;
template <int half, int bit, int n> __device__ __forceinline__ void add_over_lanes(double (&sum)[n], int lane) {
    // Lanes whose `bit` differs share their sums: one keeps the first half of them, the other the second.
    if constexpr (half > 0) {
        MILCGPU_UNROLL
        for (int k = 0; k < half; ++k) {
            const double mine = lane & bit ? sum[k + half] : sum[k], other = lane & bit ? sum[k] : sum[k + half];
            sum[k] = mine + __shfl_xor_sync(~0u, other, bit);
        }
    } else
        sum[0] += __shfl_xor_sync(~0u, sum[0], bit);
    if constexpr (bit > 1)
        add_over_lanes<half / 2, bit / 2>(sum, lane);
}
template <class S, bool same>
__global__ void __launch_bounds__(cuda::dense_threads, 2)
    gram_of_few(const cuda::DenseView x, const cuda::DenseView y, const int *gate, double *sums) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using Chunk = cuda::Chunk<S>;
    constexpr int fields = same ? few : 2 * few, numbers = few * fields;
    const int stripe = blockIdx.x % Chunk::stripes, apart = gridDim.x / Chunk::stripes * cuda::dense_threads;
    const int first = blockIdx.x / Chunk::stripes * cuda::dense_threads + threadIdx.x;
    int left = x.sites - first * Chunk::sites; // sites from the next chunk on
    const unsigned char *x_next = x.data + stripe * x.stripe_bytes + size_t(first) * Chunk::bytes;
    const unsigned char *y_next = y.data + stripe * y.stripe_bytes + size_t(first) * Chunk::bytes;
    const int count = left > 0 ? (left - 1) / (apart * Chunk::sites) + 1 : 0;
    uint4 next[fields];
    const auto load = [&] {
        MILCGPU_UNROLL
        for (int k = 0; k < fields; ++k) {
            const cuda::DenseView &of = k < few ? x : y;
            next[k] = {};
            if (left > 0 && k % few < of.sources)
                next[k] = *reinterpret_cast<const uint4 *>((k < few ? x_next : y_next) + k % few * of.source_bytes);
            if (left < Chunk::sites) // in single precision, half of a chunk
                next[k].z = next[k].w = 0;
        }
        left -= apart * Chunk::sites, x_next += size_t(apart) * Chunk::bytes, y_next += size_t(apart) * Chunk::bytes;
    };
    load();
    double sum[numbers] = {}; // same: re, and below the diagonal im of what is above; else re, im
    for (int step = 0; step < count; ++step) {
        Complex<double> v[fields][Chunk::numbers];
        MILCGPU_UNROLL
        for (int k = 0; k < fields; ++k) {
            Complex<typename S::Real> numbers_of_chunk[Chunk::numbers];
            cuda::decode(S(), next[k], numbers_of_chunk);
            MILCGPU_UNROLL
            for (int l = 0; l < Chunk::numbers; ++l)
                v[k][l] = convert<double>(numbers_of_chunk[l]);
        }
        load();
        MILCGPU_UNROLL
        for (int l = 0; l < Chunk::numbers; ++l)
            MILCGPU_UNROLL
        for (int i = 0; i < few; ++i)
            MILCGPU_UNROLL
        for (int j = same ? i : 0; j < few; ++j) {
            const Complex<double> &a = v[i][l], &b = v[same ? j : few + j][l];
            double &re = sum[i * few + j], &im = sum[same ? j * few + i : few * few + i * few + j];
            re += a.re * b.re, re += a.im * b.im;
            if (!same || i != j)
                im += a.re * b.im, im -= a.im * b.re;
        }
    }
    __shared__ double of_warp[cuda::dense_warps][numbers];
    constexpr int lanes = 32 / numbers; // that have a number
    const int lane = threadIdx.x % 32;
    add_over_lanes<numbers / 2, 16>(sum, lane);
    if (lane % lanes == 0)
        of_warp[threadIdx.x / 32][lane / lanes] = sum[0];
    __syncthreads();
    if (threadIdx.x >= numbers)
        return;
    double total = 0;
    MILCGPU_UNROLL
    for (int warp = 0; warp < cuda::dense_warps; ++warp)
        total += of_warp[warp][threadIdx.x];
    int i = threadIdx.x / few % few, j = threadIdx.x % few, im = threadIdx.x / few / few;
    if (same && i > j) {
        const int above = i;
        i = j, j = above, im = 1;
    }
    constexpr GramBlock block(1, same);
    sums[size_t(blockIdx.x) * block.numbers() + block.place(i, j, im)] = total;
}

// conj(x) y for a step: 8 chunks of each source, 4 of them side by side in a warp.
constexpr int step_chunks = 8;

// Each warp has the whole matrix in registers, in pieces of 16 x 8: two tiles of rows and one of columns. fours: fields
// of a side, in fours. same: what is below the diagonal follows from what is above.
template <class S, int fours_, bool same_> struct Gram {
    using Storage = S;
    static constexpr bool same = same_;
    static constexpr GramBlock block = GramBlock(tiles_of(4 * fours_), same);
    static constexpr int tiles = block.tiles, column_tiles = block.column_tiles;
    static constexpr int fours = fours_, y_fours = same ? 0 : column_tiles < tiles ? fours / 2 : fours;
    // Real and imaginary parts as rows of their own, for which no sums are needed: up to 8 fields, and same up to 16.
    static constexpr bool of_parts = tiles == 1 || (tiles == 2 && same);
    static constexpr int warps = cuda::dense_warps, threads = cuda::dense_threads;
    static constexpr int blocks = tiles == 1 && S::precision != Precision::double_ ? 2 : 1; // on a processor
    static constexpr int slices = 132 * blocks / (tiles / column_tiles);
    static_assert(slices <= most_slices(tiles) && slices % 3 == 0); // each of up to three stripes has as many warps
    // The ring of stages that are copied ahead.
    static constexpr int lines = (fours + y_fours) * step_chunks / 8; // of a stage: four fields each
    static constexpr int stage_bytes = warps * lines * 32 * 16;
    static constexpr int room = (blocks == 2 ? 96 : 160) * 1024;
    static constexpr int stages = room / stage_bytes < 8 ? room / stage_bytes : 8;
    static constexpr int bytes = stages * stage_bytes;
    static constexpr int sums_apart = bytes / warps / int(sizeof(double)); // each warp's sums are in its own ring
    static_assert(block.numbers() <= sums_apart);
    static constexpr bool half = tiles == 4 && same; // what is above the diagonal, and the transpose of a tile
    static constexpr int pieces = half ? 5 : tiles / 2 * column_tiles;
    static __device__ constexpr int row_of(int piece, int which) {
        constexpr int of_half[5][2] = {{0, 2}, {0, 1}, {1, 2}, {0, 1}, {2, 3}};
        return half ? of_half[piece][which] : piece / column_tiles * 2 + which;
    }
    static __device__ constexpr int column_of(int piece) {
        constexpr int of_half[5] = {0, 1, 2, 3, 3};
        return half ? of_half[piece] : piece % column_tiles;
    }
    static constexpr int sums = of_parts ? 2 * tiles : 3 * pieces;
};

template <class G>
__global__ void __launch_bounds__(G::threads, G::blocks)
    gram_slices(const cuda::DenseView x, const cuda::DenseView y, int row_blocks, int column_blocks, const int *gate,
                double *sums) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using S = typename G::Storage;
    using Chunk = cuda::Chunk<S>;
    using Pair = Complex<double>; // two numbers that a product sums over
    constexpr GramBlock of_sums = G::block;
    constexpr int tiles = G::tiles, column_tiles = G::column_tiles;
    constexpr bool same = G::same;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int blocks = row_blocks * column_blocks, block = blockIdx.x % blocks, slice = blockIdx.x / blocks;
    // In copies a thread has a chunk of eight of a field, and of the field that is four behind.
    const int x_first = block / column_blocks * 8 * tiles + lane / 8;
    const int y_first = block % column_blocks * 8 * column_tiles + lane / 8;
    // A warp stays in one stripe, so that from step to step its addresses grow by a constant.
    const int warps = gridDim.x / blocks * G::warps, index = slice * G::warps + warp;
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
    uint4 *const mine = ring + warp * G::stages * G::lines * 32, *const filled = mine + (lane ^ (lane / 8 % 2 * 4));

    const auto copy_fields = [&](uint4 *to, int fours, const cuda::DenseView &from, const unsigned char *chunk,
                                 int source) {
        const int valid = Chunk::valid(left);
        MILCGPU_UNROLL
        for (int four = 0; four < fours; ++four)
            cuda::copy_ahead(to + four * 32, chunk + four * 4 * from.source_bytes,
                             source + 4 * four < from.sources ? valid : 0);
    };
    const auto copy_step = [&](int stage) {
        uint4 *const to = filled + stage * G::lines * 32;
        copy_fields(to, G::fours, x, x_next, x_first);
        copy_fields(to + G::fours * 32, G::y_fours, y, y_next, y_first);
        cuda::end_of_stage();
        const int bytes = steps_apart * step_chunks * Chunk::bytes;
        x_next += bytes, y_next += bytes;
        left -= steps_apart * step_chunks * Chunk::sites;
    };
    for (int k = 0; k < G::stages - 1; ++k)
        copy_step(k);

    double sum[G::sums][2][2] = {}; // [][row tile][column]
    for (int k = 0, stage = 0; k < count; ++k) {
        cuda::wait_for_stage<G::stages - 2>();
        __syncwarp();
        copy_step(stage > 0 ? stage - 1 : G::stages - 1);
        const uint4 *const lines = mine + stage * G::lines * 32;
        // Two numbers of a field at a time, for products of 8: of one chunk, or of two that are four apart. Of a tile
        // with four fields, rows from the fifth on are the others once more, and nothing of them is kept.
        constexpr bool of_one = Chunk::numbers == 2;
        constexpr int sets = of_one ? 2 : Chunk::numbers;
        const auto take = [&](int line, int tile, int set, Pair &re, Pair &im) {
            const int field = 8 * tile + (2 * tile + 1 == G::fours ? row % 4 : row);
            const uint4 *const chunk = lines + line * 32 + field * 8 + quad;
            Complex<typename S::Real> v[2][Chunk::numbers];
            cuda::decode(S(), chunk[((of_one ? set : 0) ^ row % 2) * 4], v[0]);
            if (!of_one)
                cuda::decode(S(), chunk[(1 ^ row % 2) * 4], v[1]);
            const auto one = convert<double>(v[0][of_one ? 0 : set]);
            const auto two = convert<double>(of_one ? v[0][Chunk::numbers - 1] : v[1][set]);
            re = {one.re, two.re}, im = {one.im, two.im};
        };
        const auto multiply = [&](int to, const Pair &a, const Pair &a_below, const Pair &b) {
            cuda::multiply_16(sum[to][0], sum[to][1], a, a_below, b);
        };
        MILCGPU_UNROLL
        for (int set = 0; set < sets; ++set) {
            Pair re[tiles], im[tiles], y_re[column_tiles], y_im[column_tiles];
            MILCGPU_UNROLL
            for (int t = 0; t < tiles; ++t)
                take(0, t, set, re[t], im[t]);
            MILCGPU_UNROLL
            for (int t = 0; t < column_tiles; ++t)
                if (same)
                    y_re[t] = re[t], y_im[t] = im[t];
                else
                    take(G::fours, t, set, y_re[t], y_im[t]);
            if constexpr (tiles == 1) {
                multiply(0, re[0], im[0], y_re[0]);
                multiply(1, re[0], im[0], y_im[0]);
            } else if constexpr (G::of_parts) { // re * re + im * im: columns of tile 1, then those of tile 0
                multiply(0, re[0], re[1], re[1]);
                multiply(0, im[0], im[1], im[1]);
                multiply(1, re[0], im[0], re[0]);
                multiply(2, im[0], re[1], im[0]);
                multiply(3, re[0], re[1], im[1]);
            } else {
                MILCGPU_UNROLL
                for (int product = 0; product < 3; ++product) {
                    const auto left_of = [&](int t) {
                        return product == 0 ? re[t] : product == 1 ? im[t] : re[t] + im[t];
                    };
                    const auto right_of = [&](int t) {
                        return product == 0 ? y_re[t] : product == 1 ? y_im[t] : y_im[t] - y_re[t];
                    };
                    Pair l[tiles], r[column_tiles];
                    MILCGPU_UNROLL
                    for (int t = 0; t < tiles; ++t)
                        l[t] = left_of(t);
                    MILCGPU_UNROLL
                    for (int t = 0; t < column_tiles; ++t)
                        r[t] = right_of(t);
                    MILCGPU_UNROLL
                    for (int piece = 0; piece < G::pieces; ++piece)
                        multiply(3 * piece + product, l[G::row_of(piece, 0)], l[G::row_of(piece, 1)],
                                 r[G::column_of(piece)]);
                }
            }
        }
        stage = stage + 1 < G::stages ? stage + 1 : 0;
    }
    cuda::wait_for_stage<0>();
    __syncwarp();
    // of_parts of two tiles: im is re * im, not yet less its transpose.
    double *const shared = reinterpret_cast<double *>(ring), *const of_warp = shared + warp * G::sums_apart;
    const auto put = [&](int i, int j, int im, double v) {
        if (same && i > j && !G::of_parts) // of the other half of the diagonal
            of_warp[of_sums.place(j, i, im)] = im == 1 ? -v : v;
        else
            of_warp[of_sums.place(i, j, im)] = v;
    };
    MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k) {
        const int column = 2 * quad + k;
        if constexpr (tiles == 1) {
            put(row, column, 0, sum[0][0][k] + sum[1][1][k]);
            put(row, column, 1, sum[1][0][k] - sum[0][1][k]);
        } else if constexpr (G::of_parts) {
            put(row, 8 + column, 0, sum[0][0][k]), put(8 + row, 8 + column, 0, sum[0][1][k]);
            put(row, column, 0, sum[1][0][k] + sum[2][0][k]);
            put(column, row, 1, sum[1][1][k]), put(8 + row, column, 1, sum[2][1][k]);
            put(row, 8 + column, 1, sum[3][0][k]), put(8 + row, 8 + column, 1, sum[3][1][k]);
        } else {
            MILCGPU_UNROLL
            for (int piece = 0; piece < G::pieces; ++piece)
                MILCGPU_UNROLL
            for (int which = 0; which < 2; ++which) {
                const int i = 8 * G::row_of(piece, which) + row, j = 8 * G::column_of(piece) + column;
                const double a = sum[3 * piece][which][k], b = sum[3 * piece + 1][which][k];
                put(i, j, 0, a + b), put(i, j, 1, sum[3 * piece + 2][which][k] + a - b);
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < of_sums.numbers(); k += G::threads) {
        constexpr int rows = 8 * tiles, columns = 8 * column_tiles;
        const int i = k / columns % rows, j = k % columns, im = k / columns / rows;
        if (same && i > j)
            continue;
        double total = 0;
        MILCGPU_UNROLL
        for (int w = 0; w < G::warps; ++w) {
            const double *const of = shared + w * G::sums_apart;
            total += same && G::of_parts && tiles == 2 && im == 1 ? of[k] - of[of_sums.place(j, i, im)] : of[k];
        }
        sums[size_t(blockIdx.x) * of_sums.numbers() + k] = total;
    }
}

// Adds up the slices: a few of the numbers a block, each by many threads that take every so many slices.
template <int tiles, bool same>
__global__ void __launch_bounds__(cuda::dense_threads)
    sum_slices(const double *sums, int slices, int blocks, int column_blocks, int n, int m, const int *gate,
               double *g) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    constexpr GramBlock of(tiles, same);
    constexpr int rows = 8 * of.tiles, columns = 8 * of.column_tiles;
    constexpr int together = sums_together, parts = cuda::dense_threads / together;
    constexpr int most = most_slices(tiles) / parts + 1;
    __shared__ double of_part[parts][together + 1];
    const int part = threadIdx.x / together, first = blockIdx.x * together;
    const size_t apart = size_t(blocks) * of.numbers();
    double v[most]; // all loads at once
    MILCGPU_UNROLL
    for (int k = 0; k < most; ++k)
        v[k] = part + k * parts < slices ? sums[(part + k * parts) * apart + first + threadIdx.x % together] : 0;
    MILCGPU_UNROLL
    for (int k = 1; k < most; ++k)
        v[0] += v[k];
    of_part[part][threadIdx.x % together] = v[0];
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    constexpr int shares = 32 / together; // threads of a number
    const int at = first + threadIdx.x / shares;
    double total = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < parts / shares; ++k)
        total += of_part[threadIdx.x % shares * (parts / shares) + k][threadIdx.x / shares];
    MILCGPU_UNROLL
    for (int k = 1; k < shares; k *= 2)
        total += __shfl_xor_sync(~0u, total, k);
    const int block = at / of.numbers(), im = at / columns / rows % 2;
    const int i = block / column_blocks * rows + at / columns % rows,
              j = block % column_blocks * columns + at % columns;
    if (threadIdx.x % shares > 0 || i >= n || j >= m || (same && i > j))
        return;
    g[2 * (i * m + j) + im] = same && i == j && im == 1 ? 0 : total;
    if (same && i < j)
        g[2 * (j * m + i) + im] = im == 1 ? -total : total;
}

template <class S, int fours, bool same>
void gram_on_gpu(Device &device, const SpinorBlock &x, const SpinorBlock &y, const int *gate, double *g, double *room) {
    constexpr int tiles = tiles_of(4 * fours);
    constexpr GramBlock block(tiles, same);
    const int column_blocks = block.columns_of(y.sources), row_blocks = block.rows_of(x.sources);
    const int blocks = row_blocks * column_blocks, chunks = (x.sites - 1) / cuda::Chunk<S>::sites + 1;
    const cuda::DenseView left(x), right(y);
    int slices;
    if constexpr (fours == 1) {
        slices = std::min(most_slices(1), cuda::Chunk<S>::stripes * ((chunks - 1) / cuda::dense_threads + 1));
        cuda::start(device, "gram", slices, cuda::dense_threads, gram_of_few<S, same>, left, right, gate, room);
    } else {
        using G = Gram<S, fours, same>;
        const int steps = (chunks - 1) / step_chunks + 1;
        slices = std::min(G::slices, cuda::Chunk<S>::stripes * (steps / G::warps + 1));
        cuda::start_with_shared(device, "gram", slices * blocks, G::threads, G::bytes, gram_slices<G>, left, right,
                                row_blocks, column_blocks, gate, room);
    }
    cuda::start(device, "sums of gram", blocks * block.numbers() / sums_together, cuda::dense_threads,
                sum_slices<tiles, same>, room, slices, blocks, column_blocks, x.sources, y.sources, gate, g);
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
    const int tiles = tiles_of(std::max(x_sources, y_sources));
    const GramBlock block(tiles, true); // blocks of half the size have half as many slices
    return size_t(most_slices(tiles)) * block.numbers() * block.rows_of(x_sources) * block.columns_of(y_sources);
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
            const int most = std::max(x.sources, y.sources);
            const auto start = [&](auto same) {
                constexpr bool of_same = decltype(same)::value;
                most <= 4    ? gram_on_gpu<S, 1, of_same>(device, x, y, gate, to, sums)
                : most <= 8  ? gram_on_gpu<S, 2, of_same>(device, x, y, gate, to, sums)
                : most <= 12 ? gram_on_gpu<S, 3, of_same>(device, x, y, gate, to, sums)
                : most <= 16 ? gram_on_gpu<S, 4, of_same>(device, x, y, gate, to, sums)
                             : gram_on_gpu<S, 8, of_same>(device, x, y, gate, to, sums);
            };
            if (x.data == y.data && x.sources == y.sources && most <= dense_block)
                start(std::true_type());
            else
                start(std::false_type());
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
