// Gram matrices. The sites are cut into slices, a block of threads each. A warp holds the whole matrix of up to 32 x 32
// in registers, so fields come from memory once and nothing but sums passes through shared memory.
//
// What limits is memory and, in single precision, the matrix units. conj(a + i b) (c + i d) takes
// - three real products, a c, b d, (a + b) (d - c): Re is the sum of the first two, Im the third and the first less the
//   second. The sums of factors cost as much as a tenth to a fifth of the products.
// - four for 32 x 32 in double, which leave no registers for a third sum.
// - Fields with themselves: Re is symmetric, and Im is a d less its transpose. So 16 fields take ten products of 8 x 8
//   tiles instead of twelve, and no sums of factors.
// - Up to 8 fields need no sums of factors: real and imaginary parts are separate rows. The same holds for 12 fields
//   with themselves (six products). Up to 4 fields use no matrix units.
//
// Sums: a warp over its steps in order, the warps of a block in order, the blocks in order (sum_slices).
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/fields/for_precision.h"
#include "gpu_kernels/machine/backend/device_array.h"
#include <algorithm>
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/algebra/chunks_cuda.h"
#include <type_traits>
#endif

namespace milcgpu {

namespace {

// Tiles of 8 x 8 along a side of the matrix, or of a block of it.
MILCGPU_HD constexpr int tiles_of(int sources) { return sources <= 8 ? 1 : sources <= 16 ? 2 : 4; }
// A slice writes [re, im][row][column] for a block.
struct GramBlock {
    int rows, columns;
    MILCGPU_HD constexpr GramBlock(int tiles, int column_tiles) : rows(8 * tiles), columns(8 * column_tiles) {}
    MILCGPU_HD constexpr int numbers() const { return 2 * rows * columns; }
    // The place in shared memory. A row has one unused number at its end, so that both the numbers of a row and those
    // of a column are in different banks.
    MILCGPU_HD constexpr int place(int i, int j, int im) const { return (im * rows + i) * (columns + 1) + j; }
};
// One wave of blocks on an H100 or H200. Fixed on every GPU, because the order of summation depends on it.
MILCGPU_HD constexpr int most_slices(int tiles) { return tiles == 1 ? 264 : 132; }

#if defined(MILCGPU_WITH_CUDA)

constexpr int sums_together = 8; // in a block of threads that adds slices

// Up to four fields: a thread has a chunk of each in registers, and computes the matrix by plain multiplications. The
// matrix units would waste half of their work.
constexpr int few = 4;
template <int half, int bit, int n> __device__ __forceinline__ void add_over_lanes(double (&sum)[n], int lane) {
    // Lanes whose `bit` differs exchange sums: one keeps the first half of the numbers, the other the second half.
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
// same: re of the matrix and, below the diagonal, im of the elements above; otherwise re, im.
template <bool same> constexpr int numbers_of_few = same ? few *few : 2 * few *few;
// In single precision x with another y is faster with fewer threads, which can have more registers each (measured).
template <class S, bool same>
constexpr int threads_of_few = S::precision == Precision::single && !same ? 192 : cuda::dense_threads;
template <class S, bool same>
__global__ void __launch_bounds__(threads_of_few<S, same>, 2)
    gram_of_few(const cuda::DenseView x, const cuda::DenseView y, const int *gate, double *sums) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using Chunk = cuda::Chunk<S>;
    constexpr int fields = same ? few : 2 * few, numbers = numbers_of_few<same>;
    constexpr int threads = threads_of_few<S, same>, warps = threads / 32;
    const int stripe = blockIdx.x % Chunk::stripes, apart = gridDim.x / Chunk::stripes * threads;
    const int chunks = (x.sites - 1) / Chunk::sites + 1;
    int chunk = blockIdx.x / Chunk::stripes * threads + threadIdx.x;
    const unsigned char *x_next = x.data + stripe * x.stripe_bytes + size_t(chunk) * Chunk::bytes;
    const unsigned char *y_next = y.data + stripe * y.stripe_bytes + size_t(chunk) * Chunk::bytes;
    int left = x.sites - chunk * Chunk::sites; // sites from the next chunk on
    uint4 next[fields];
    const auto load = [&] {
        MILCGPU_UNROLL
        for (int k = 0; k < fields; ++k) {
            const cuda::DenseView &of = k < few ? x : y;
            next[k] = left > 0 && k % few < of.sources
                          ? *reinterpret_cast<const uint4 *>((k < few ? x_next : y_next) + k % few * of.source_bytes)
                          : uint4{};
            if (left < Chunk::sites && left > 0) // in single precision, half of a chunk
                next[k].z = next[k].w = 0;
        }
        left -= apart * Chunk::sites, x_next += size_t(apart) * Chunk::bytes, y_next += size_t(apart) * Chunk::bytes;
    };
    load();
    double sum[numbers] = {};
    for (; chunk < chunks; chunk += apart) {
        uint4 raw[fields];
        MILCGPU_UNROLL
        for (int k = 0; k < fields; ++k)
            raw[k] = next[k];
        load();
        Complex<double> v[fields][Chunk::numbers];
        MILCGPU_UNROLL
        for (int k = 0; k < fields; ++k) {
            Complex<typename S::Real> of_chunk[Chunk::numbers];
            cuda::decode(S(), raw[k], of_chunk);
            MILCGPU_UNROLL
            for (int l = 0; l < Chunk::numbers; ++l)
                v[k][l] = convert<double>(of_chunk[l]);
        }
        MILCGPU_UNROLL
        for (int l = 0; l < Chunk::numbers; ++l)
            MILCGPU_UNROLL
        for (int i = 0; i < few; ++i)
            MILCGPU_UNROLL
        for (int j = same ? i : 0; j < few; ++j) {
            const Complex<double> &a = v[i][l], &b = v[same ? j : few + j][l];
            double &re = sum[i * few + j], &im = sum[same ? j * few + i : (few + i) * few + j];
            re += a.re * b.re, re += a.im * b.im;
            if (!same || i != j)
                im += a.re * b.im, im -= a.im * b.re;
        }
    }
    __shared__ double of_warp[warps][numbers];
    constexpr int lanes = 32 / numbers; // lanes that have a number
    const int lane = threadIdx.x % 32;
    add_over_lanes<numbers / 2, 16>(sum, lane);
    if (lane % lanes == 0)
        of_warp[threadIdx.x / 32][lane / lanes] = sum[0];
    __syncthreads();
    if (threadIdx.x >= numbers)
        return;
    double total = 0;
    MILCGPU_UNROLL
    for (int warp = 0; warp < warps; ++warp)
        total += of_warp[warp][threadIdx.x];
    sums[blockIdx.x * numbers + threadIdx.x] = total;
}

// Adds the slices of gram_of_few, in one block.
constexpr int threads_of_sum = 1024;
template <bool same>
__global__ void __launch_bounds__(threads_of_sum)
    sum_few(const double *sums, int slices, int n, int m, const int *gate, double *g) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    constexpr int numbers = numbers_of_few<same>, parts = threads_of_sum / numbers;
    constexpr int most = (most_slices(1) - 1) / parts + 1;
    __shared__ double of_part[parts][numbers + 1];
    const int number = threadIdx.x % numbers, part = threadIdx.x / numbers;
    double v[most]; // all loads in flight at once
    MILCGPU_UNROLL
    for (int k = 0; k < most; ++k)
        v[k] = part + k * parts < slices ? sums[(part + k * parts) * numbers + number] : 0;
    MILCGPU_UNROLL
    for (int k = 1; k < most; ++k)
        v[0] += v[k];
    of_part[part][number] = v[0];
    __syncthreads();
    const int i = number / few % few, j = number % few;
    if (threadIdx.x >= numbers || i >= n || j >= m)
        return;
    double t[4] = {};
    MILCGPU_UNROLL
    for (int k = 0; k < parts; ++k)
        t[k % 4] += of_part[k][number];
    const double total = (t[0] + t[1]) + (t[2] + t[3]);
    double *const here = g + 2 * (i * m + j), *const across = g + 2 * (j * m + i);
    if (!same)
        here[number / few / few] = total;
    else if (i > j)
        here[1] = -total, across[1] = total;
    else
        here[0] = across[0] = total;
    if (same && i == j)
        here[1] = 0;
}

// conj(x) y for a step: 8 chunks of each source, 4 of them side by side in a warp.
constexpr int step_chunks = 8;

// Each warp has the whole matrix in registers, in pieces of 16 x 8: two tiles of rows and one of columns. fours: fields
// of a side, in units of four. same: the part below the diagonal follows from the part above.
template <class S, int fours_, bool same_> struct Gram {
    using Storage = S;
    static constexpr bool same = same_;
    static constexpr int tiles = tiles_of(4 * fours_);
    // The sums of three products for 32 x 32 take all registers. In double four products are used instead, as memory
    // takes longer anyway. Otherwise a block has half of the columns, and x is read twice, once from the L2 cache.
    static constexpr bool of_half = tiles == 4 && same; // the part above the diagonal, and the transpose of a tile
    static constexpr int products = tiles == 4 && !same && S::precision == Precision::double_ ? 4 : 3;
    static constexpr int column_tiles = tiles == 4 && !same && products == 3 ? 2 : tiles;
    static constexpr GramBlock block = GramBlock(tiles, column_tiles);
    static constexpr int fours = fours_, y_fours = same ? 0 : column_tiles < tiles ? fours / 2 : fours;
    // Real and imaginary parts as separate rows, which need no sums of factors: up to 8 fields, and with `same` up to
    // 16. 12 fields have 24 rows: a tile of real parts, one of four real and four imaginary parts, one of imaginary
    // parts.
    static constexpr bool of_parts = tiles == 1 || (tiles == 2 && same), of_24 = fours_ == 3 && same;
    static constexpr int warps = cuda::dense_warps, threads = cuda::dense_threads;
    static constexpr int blocks = tiles == 1 && S::precision != Precision::double_ ? 2 : 1; // on a processor
    static constexpr int slices = 132 * blocks / (tiles / column_tiles);
    static_assert(slices <= most_slices(tiles) && slices % 3 == 0); // each of up to three stripes has as many warps
    // The ring of stages that are copied ahead. 64 KB in flight to a processor in double, 48 otherwise, or two stages,
    // are faster than more.
    static constexpr int ahead_bytes = (S::precision == Precision::double_ ? 64 : 48) * 1024 / blocks;
    static constexpr int lines = (fours + y_fours) * step_chunks / 8; // of a stage: four fields each
    static constexpr int stage_bytes = warps * lines * 32 * 16;
    static constexpr int stages = std::min(8, 1 + std::max(2, ahead_bytes / stage_bytes));
    // At the end each warp's sums are in its ring. A block requests at least `least_bytes`, so that no more than
    // `blocks` of them fit on a processor. If more fitted, some processors would have several and others none.
    static constexpr int sum_bytes = block.place(block.rows, 0, 1) * int(sizeof(double)) * warps;
    static constexpr int least_bytes = (blocks == 2 ? 77 : 115) * 1024;
    static constexpr int bytes = std::max({stages * stage_bytes, sum_bytes, least_bytes});
    static constexpr int of_warp = bytes / warps, sums_apart = of_warp / int(sizeof(double));
    static_assert(of_warp % 128 == 0);
    static constexpr int pieces = of_half ? 5 : tiles / 2 * column_tiles;
    static __device__ constexpr int row_of(int piece, int which) {
        constexpr int above[5][2] = {{0, 2}, {0, 1}, {1, 2}, {0, 1}, {2, 3}};
        return of_half ? above[piece][which] : piece / column_tiles * 2 + which;
    }
    static __device__ constexpr int column_of(int piece) {
        constexpr int above[5] = {0, 1, 2, 3, 3};
        return of_half ? above[piece] : piece % column_tiles;
    }
    static constexpr int of_piece = products == 4 ? 2 : 3; // sums
    static constexpr int sums = of_24 ? 3 : of_parts ? 2 * tiles : of_piece * pieces;
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
    // In copies a thread has a chunk of eight of a field, and of the field four after it.
    const int x_first = block / column_blocks * 8 * tiles + lane / 8;
    const int y_first = block % column_blocks * 8 * column_tiles + lane / 8;
    // A warp stays in one stripe, so that its addresses grow by a constant from step to step.
    const int warps = gridDim.x / blocks * G::warps, index = slice * G::warps + warp;
    const int stripe = index % Chunk::stripes, steps_apart = warps / Chunk::stripes;
    const int steps = (x.sites - 1) / (step_chunks * Chunk::sites) + 1, first = index / Chunk::stripes;
    const int count = first < steps_apart ? (steps - first + steps_apart - 1) / steps_apart : 0;
    int left = x.sites - (first * step_chunks + lane % 8) * Chunk::sites; // sites from the next chunk on
    const size_t start = stripe * x.stripe_bytes + (first * step_chunks + lane % 8) * size_t(Chunk::bytes);
    const unsigned char *x_next = x.data + x_first * x.source_bytes + start;
    const unsigned char *y_next =
        y.data + y_first * y.source_bytes + stripe * (y.stripe_bytes - x.stripe_bytes) + start;
    // Lines of eight chunks of one field each. In every second line the halves change places, so that a warp reads from
    // all banks.
    uint4 *const mine = ring + warp * (G::of_warp / 16), *const filled = mine + (lane ^ (lane / 8 % 2 * 4));

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
        // Two numbers of a field at a time, for products of 8: of one chunk, or of two that are four apart. In a tile
        // with four fields, rows from the fifth on repeat the others, and their results are dropped.
        constexpr bool of_one = Chunk::numbers == 2;
        constexpr int sets = of_one ? 2 : Chunk::numbers;
        using Number = Complex<typename S::Real>;
        const auto find = [&](int field, int set, Number &one, Number &two) {
            const uint4 *const chunk = lines + field * 8 + quad;
            Number v[2][Chunk::numbers];
            cuda::decode(S(), chunk[((of_one ? set : 0) ^ row % 2) * 4], v[0]);
            if (!of_one)
                cuda::decode(S(), chunk[(1 ^ row % 2) * 4], v[1]);
            one = v[0][of_one ? 0 : set], two = of_one ? v[0][Chunk::numbers - 1] : v[1][set];
        };
        const auto take = [&](int field, int set, Pair &re, Pair &im) {
            Number one, two;
            find(field, set, one, two);
            re = {double(one.re), double(two.re)}, im = {double(one.im), double(two.im)};
        };
        const auto field_of = [&](int tile) { return 8 * tile + (2 * tile + 1 == G::fours ? row % 4 : row); };
        const auto multiply = [&](int to, const Pair &a, const Pair &a_below, const Pair &b) {
            cuda::multiply_16(sum[to][0], sum[to][1], a, a_below, b);
        };
        MILCGPU_UNROLL
        for (int set = 0; set < sets; ++set) {
            if constexpr (G::of_24) {
                Pair re, im;
                take(row, set, re, im);
                Number one, two;
                find(8 + row % 4, set, one, two);
                const Pair middle = {double(row < 4 ? one.re : one.im), double(row < 4 ? two.re : two.im)};
                multiply(0, re, im, re);
                multiply(1, re, middle, middle);
                multiply(2, middle, im, im);
            } else {
                Pair re[tiles], im[tiles], y_re[column_tiles], y_im[column_tiles];
                MILCGPU_UNROLL
                for (int t = 0; t < tiles; ++t)
                    take(field_of(t), set, re[t], im[t]);
                MILCGPU_UNROLL
                for (int t = 0; t < column_tiles; ++t)
                    if (same)
                        y_re[t] = re[t], y_im[t] = im[t];
                    else
                        take(4 * G::fours + field_of(t), set, y_re[t], y_im[t]);
                if constexpr (tiles == 1) {
                    multiply(0, re[0], im[0], y_re[0]);
                    multiply(1, re[0], im[0], y_im[0]);
                } else if constexpr (G::of_parts) { // re * re + im * im: columns of tile 1, then those of tile 0
                    multiply(0, re[0], re[1], re[1]);
                    multiply(0, im[0], im[1], im[1]);
                    multiply(1, re[0], im[0], re[0]);
                    multiply(2, im[0], re[1], im[0]);
                    multiply(3, re[0], re[1], im[1]);
                } else if constexpr (G::products == 4) {
                    MILCGPU_UNROLL
                    for (int piece = 0; piece < G::pieces; ++piece) {
                        const int r = G::row_of(piece, 0), below = G::row_of(piece, 1), c = G::column_of(piece);
                        const auto minus = [](const Pair &v) -> Pair {
                            return {cuda::negative(v.re), cuda::negative(v.im)};
                        };
                        multiply(2 * piece, re[r], re[below], y_re[c]);
                        multiply(2 * piece + 1, re[r], re[below], y_im[c]);
                        multiply(2 * piece, im[r], im[below], y_im[c]);
                        multiply(2 * piece + 1, minus(im[r]), minus(im[below]), y_re[c]);
                    }
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
        }
        stage = stage + 1 < G::stages ? stage + 1 : 0;
    }
    cuda::wait_for_stage<0>();
    __syncwarp();
    // of_parts with two tiles: im is re * im; its transpose is not yet subtracted.
    double *const shared = reinterpret_cast<double *>(ring), *const of_warp = shared + warp * G::sums_apart;
    const auto put = [&](int i, int j, int im, double v) {
        if (same && i / 8 > j / 8 && !G::of_parts) // part of the other half of the diagonal
            of_warp[of_sums.place(j, i, im)] = im == 1 ? -v : v;
        else
            of_warp[of_sums.place(i, j, im)] = v;
    };
    MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k) {
        const int column = 2 * quad + k;
        if constexpr (G::of_24) {
            // The part of im * im for fields 8 to 11, which other threads have, is stored four columns later.
            const int r = 8 + row % 4, c = 8 + column % 4;
            put(row, column, 0, sum[0][0][k] + sum[2][1][k]), put(column, row, 1, sum[0][1][k]);
            put(row, c, column / 4, sum[1][0][k]);
            if (row < 4)
                put(r, c, column / 4, sum[1][1][k]), put(r, column, 1, sum[2][0][k]);
            else
                put(column, r + 4, 0, sum[2][0][k]);
            if (row >= 4 && column >= 4)
                put(r, c + 4, 0, sum[1][1][k]);
        } else if constexpr (tiles == 1) {
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
                const auto *const of = sum + G::of_piece * piece;
                const double a = of[0][which][k], b = of[1][which][k];
                put(i, j, 0, G::products == 4 ? a : a + b);
                put(i, j, 1, G::products == 4 ? b : of[G::of_piece - 1][which][k] + a - b);
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < of_sums.numbers(); k += G::threads) {
        const int i = k / of_sums.columns % of_sums.rows, j = k % of_sums.columns,
                  im = k / of_sums.columns / of_sums.rows;
        if (same && i / 8 > j / 8)
            continue;
        const bool less_transpose = same && tiles == 2 && im == 1, more_behind = G::of_24 && im == 0 && j / 4 == 2;
        const int here = of_sums.place(i, j, im), other = of_sums.place(j, i, im);
        double total = 0;
        MILCGPU_UNROLL
        for (int w = 0; w < G::warps; ++w) {
            const double *const of = shared + w * G::sums_apart;
            total += less_transpose ? of[here] - of[other] : more_behind ? of[here] + of[here + 4] : of[here];
        }
        sums[size_t(blockIdx.x) * of_sums.numbers() + k] = total;
    }
}

// Adds the slices: a block has a few of the numbers, and many threads add the slices of each number in turns.
template <int tiles, int column_tiles, bool same>
__global__ void __launch_bounds__(cuda::dense_threads)
    sum_slices(const double *sums, int slices, int blocks, int column_blocks, int n, int m, const int *gate,
               double *g) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    constexpr GramBlock of(tiles, column_tiles);
    const int row = blockIdx.x * sums_together / of.columns % of.rows,
              tile = blockIdx.x * sums_together % of.columns / 8;
    if (same && row / 8 > tile)
        return;
    constexpr int together = sums_together, parts = cuda::dense_threads / together;
    constexpr int most = most_slices(tiles) / parts + 1;
    __shared__ double of_part[parts][together + 1];
    const int part = threadIdx.x / together, first = blockIdx.x * together;
    const size_t apart = size_t(blocks) * of.numbers();
    double v[most]; // all loads in flight at once
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
    const int block = at / of.numbers(), im = at / of.columns / of.rows % 2;
    const int i = block / column_blocks * of.rows + at / of.columns % of.rows;
    const int j = block % column_blocks * of.columns + at % of.columns;
    if (threadIdx.x % shares > 0 || i >= n || j >= m || (same && i > j))
        return;
    g[2 * (i * m + j) + im] = same && i == j && im == 1 ? 0 : total;
    if (same && i < j)
        g[2 * (j * m + i) + im] = im == 1 ? -total : total;
}

template <class S, bool same>
void gram_of_few_on_gpu(Device &device, const SpinorBlock &x, const SpinorBlock &y, const int *gate, double *g,
                        double *scratch) {
    const int chunks = (x.sites - 1) / cuda::Chunk<S>::sites + 1;
    constexpr int threads = threads_of_few<S, same>;
    const int slices = std::min(most_slices(1), cuda::Chunk<S>::stripes * ((chunks - 1) / threads + 1));
    cuda::start(device, "gram", slices, threads, gram_of_few<S, same>, cuda::DenseView(x), cuda::DenseView(y), gate,
                scratch);
    cuda::start(device, "sums of gram", 1, threads_of_sum, sum_few<same>, scratch, slices, x.sources, y.sources, gate,
                g);
}

template <class S, int fours, bool same>
void gram_on_gpu(Device &device, const SpinorBlock &x, const SpinorBlock &y, const int *gate, double *g,
                 double *scratch) {
    using G = Gram<S, fours, same>;
    const int column_blocks = (y.sources - 1) / G::block.columns + 1, row_blocks = (x.sources - 1) / G::block.rows + 1;
    const int blocks = row_blocks * column_blocks;
    const int steps = (x.sites - 1) / (step_chunks * cuda::Chunk<S>::sites) + 1;
    const int slices = std::min(G::slices, cuda::Chunk<S>::stripes * (steps / G::warps + 1));
    cuda::start_with_shared(device, "gram", slices * blocks, G::threads, G::bytes, gram_slices<G>, cuda::DenseView(x),
                            cuda::DenseView(y), row_blocks, column_blocks, gate, scratch);
    cuda::start(device, "sums of gram", blocks * G::block.numbers() / sums_together, cuda::dense_threads,
                sum_slices<G::tiles, G::column_tiles, same>, scratch, slices, blocks, column_blocks, x.sources,
                y.sources, gate, g);
}

#endif

// Slices of sites, added in order.
template <class S> void gram_on_host(const SpinorBlock &x, const SpinorBlock &y, Complex<double> *g) {
    constexpr int slices = 64;
    const int n = x.sources, m = y.sources;
    std::vector<Complex<double>> sums(size_t(slices) * n * m);
    run_on_host(slices, x.sites, [&](int slice) {
        Vector<double> right[most_dense]; // no exception may leave a parallel loop
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
        throw Error(Status::bad_argument, "gram: the fields differ in precision or number of sites");
    if (x.sources < 1 || x.sources > most_dense || y.sources < 1 || y.sources > most_dense)
        throw Error(Status::bad_argument,
                    format("gram of %d and %d fields: 1 to %d", x.sources, y.sources, most_dense));
}

} // namespace

size_t gram_scratch(int x_sources, int y_sources) {
    const int tiles = tiles_of(std::max(x_sources, y_sources)), side = 8 * tiles;
    // With blocks of half the columns there are half as many slices.
    const int blocks = ((x_sources - 1) / side + 1) * ((y_sources - 1) / side + 1);
    return size_t(most_slices(tiles)) * blocks * GramBlock(tiles, tiles).numbers();
}

void gram(Device &device, const SpinorBlock &x, const SpinorBlock &y, Complex<double> *g, double *scratch,
          const int *gate) {
    check(x, y);
    for_precision(x.precision, [&](auto format) {
        using S = decltype(format);
#if defined(MILCGPU_WITH_CUDA)
        if (queue_of(device).on_gpu()) {
            DeviceArray<double> own;
            if (scratch == nullptr)
                own = DeviceArray<double>(device, gram_scratch(x.sources, y.sources), "gram");
            double *const sums = scratch == nullptr ? own.data() : scratch, *const to = &g->re;
            const int most = std::max(x.sources, y.sources);
            const auto start = [&](auto same) {
                constexpr bool of_same = decltype(same)::value;
                // Both sides in half precision, three numbers a chunk, would take too many registers.
                if constexpr (of_same || S::precision != Precision::half)
                    if (most <= few)
                        return gram_of_few_on_gpu<S, of_same>(device, x, y, gate, to, sums);
                most <= 8    ? gram_on_gpu<S, 2, of_same>(device, x, y, gate, to, sums)
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
        static_cast<void>(device), static_cast<void>(scratch);
        if (gate != nullptr && *gate == 0)
            return;
        gram_on_host<S>(x, y, g);
    });
}

std::vector<Complex<double>> gram_over_ranks(Device &device, const SpinorBlock &x, const SpinorBlock &y) {
    check(x, y);
    DeviceArray<Complex<double>> g;
    DeviceArray<double> scratch;
    queue_of(device).collective("memory for a Gram matrix", [&] {
        g = {device, size_t(x.sources) * y.sources, "gram"};
        if (queue_of(device).on_gpu())
            scratch = {device, gram_scratch(x.sources, y.sources), "gram"};
    });
    gram(device, x, y, g.data(), scratch.data());
    std::vector<Complex<double>> on_host = g.to_host();
    queue_of(device).add_over_ranks(&on_host[0].re, 2 * static_cast<int>(on_host.size()));
    return on_host;
}

} // namespace milcgpu
