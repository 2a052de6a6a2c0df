// Gram matrices. The sites are cut into slices, a block of threads each. One warp, or two, hold the whole matrix of up
// to 32 x 32 in registers, so fields come from memory once and nothing but sums passes through shared memory.
//
// conj(a + i b) (c + i d) takes three real products: a c, b d, (a + b) (d - c). Re is the sum of the first two, Im the
// third and the first less the second. Up to 8 fields are no work, so real and imaginary parts are rows of their own.
// So they are where 12 fields are multiplied with themselves: the matrix of these 24 rows is symmetric, and three
// products give one half of it (six otherwise). The same with 4 fields and one product.
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

// Tiles of 8 x 8 along a side of the matrix.
int tiles_of(int sources) { return sources <= 8 ? 1 : sources <= 16 ? 2 : 4; }
constexpr int sums_together = 8; // by a block that adds up slices
// One wave of blocks on an H100 or H200. Of no other GPU is it asked how many it holds: the sums depend on it.
MILCGPU_HD constexpr int most_slices(int tiles) { return tiles == 1 ? 264 : 132; }

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

// Warps that share what they copy are a team; each has some 16 x 8 pieces of the matrix. same: below the diagonal they
// follow from those above. fours: fields of a side, in fours.
template <class S, int fours_, bool same_> struct Gram {
    using Storage = S;
    static constexpr int fours = fours_, tiles = fours <= 2 ? 1 : fours <= 4 ? 2 : 4;
    static constexpr bool same = same_;
    static constexpr bool of_parts = same && (fours == 1 || fours == 3); // all parts are rows, in `fours` tiles
    static constexpr int team = tiles == 4 ? 2 : 1, warps = cuda::dense_warps, teams = warps / team;
    static constexpr int threads = cuda::dense_threads;
    static constexpr int blocks = tiles == 1 && S::precision != Precision::double_ ? 2 : 1; // on a processor
    static constexpr int slices = 132 * blocks;
    static_assert(slices <= most_slices(tiles) && slices % 3 == 0); // each of up to three stripes has as many teams
    static constexpr int numbers = 4 * tiles * tiles;               // of a thread, if it had the whole matrix
    // The ring of stages that are copied ahead.
    static constexpr int lines = (same ? 1 : 2) * fours * step_chunks / 8; // of a stage: four fields each
    static constexpr int stage_bytes = teams * lines * 32 * 16;
    static constexpr int room = (blocks == 2 ? 96 : 160) * 1024;
    static constexpr int stages = room / stage_bytes < 8 ? room / stage_bytes : 8;
    static constexpr int own_numbers = of_parts ? 4 * fours : numbers; // that a thread leaves
    static constexpr int sums_bytes = teams * own_numbers * 32 * int(sizeof(double));
    static constexpr int bytes = stages * stage_bytes;
    static constexpr int sums_apart = bytes / teams / int(sizeof(double)); // each team's sums are in its own ring
    static_assert(sums_bytes <= bytes);
    // The pieces of a warp of the team: which tiles of columns, and which pairs of tiles of rows.
    static constexpr int pieces = of_parts ? fours : tiles == 1 ? 1 : tiles == 2 ? 2 : same ? 3 : 4;
    static __device__ constexpr int row_pair(int warp, int piece) {
        return tiles < 4 ? 0 : same ? warp * (piece > 0) : piece / 2;
    }
    static __device__ constexpr int column(int warp, int piece) {
        return tiles < 4 ? piece : !same ? 2 * warp + piece % 2 : warp == 0 ? piece : piece == 0 ? 3 : piece + 1;
    }
    static __device__ constexpr bool takes_row(int warp, int tile) {
        bool takes = false;
        for (int piece = 0; piece < pieces; ++piece)
            takes = takes || row_pair(warp, piece) == tile / 2 || (same && column(warp, piece) == tile);
        return takes;
    }
    static __device__ constexpr bool takes_column(int warp, int tile) {
        bool takes = false;
        for (int piece = 0; piece < pieces; ++piece)
            takes = takes || column(warp, piece) == tile;
        return takes;
    }
    // of_parts: a piece has this tile of columns, and of rows this tile and the next. So each pair of tiles is in one.
    static __device__ constexpr int part_row(int piece, int which) { return (piece + which) % fours; }
};

// Where element (row, column) of the matrix of real and imaginary parts is among the pieces that a team has left.
template <class G> __device__ int place_of_part(int row, int column) {
    int at = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < 2 * G::pieces; ++k) {
        const int r = G::part_row(k / 2, k % 2), c = k / 2;
        if (r == row / 8 && c == column / 8)
            at = k * 64 + row % 8 * 8 + column % 8;
        else if (c == row / 8 && r == column / 8)
            at = k * 64 + column % 8 * 8 + row % 8;
    }
    return at;
}

template <class G>
__global__ void __launch_bounds__(G::threads, G::blocks)
    gram_slices(const cuda::DenseView x, const cuda::DenseView y, int row_blocks, int column_blocks, const int *gate,
                double *sums) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using S = typename G::Storage;
    using Chunk = cuda::Chunk<S>;
    using Number = Complex<double>;
    constexpr int tiles = G::tiles;
    constexpr bool same = G::same;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int team = warp / G::team, member = warp % G::team;
    const int blocks = row_blocks * column_blocks, block = blockIdx.x % blocks, slice = blockIdx.x / blocks;
    // In copies a thread has a chunk of eight of a field, and of the field that is four behind.
    const int x_first = block / column_blocks * 8 * tiles + lane / 8;
    const int y_first = block % column_blocks * 8 * tiles + lane / 8;
    // A team stays in one stripe, so that from step to step its addresses grow by a constant.
    const int teams = gridDim.x / blocks * G::teams, index = slice * G::teams + team;
    const int stripe = index % Chunk::stripes, steps_apart = teams / Chunk::stripes;
    const int steps = (x.sites - 1) / (step_chunks * Chunk::sites) + 1, first = index / Chunk::stripes;
    const int most = (steps - 1) / steps_apart + 1;
    // Teams of two warps share the barriers of the block, so all have as many steps; the last may have no sites.
    const int count = G::team > 1 ? most : first < steps_apart ? (steps - first + steps_apart - 1) / steps_apart : 0;
    int left = x.sites - (first * step_chunks + lane % 8) * Chunk::sites; // sites from the next chunk on
    const size_t start = stripe * x.stripe_bytes + (first * step_chunks + lane % 8) * size_t(Chunk::bytes);
    const unsigned char *x_next = x.data + x_first * x.source_bytes + start;
    const unsigned char *y_next =
        y.data + y_first * y.source_bytes + stripe * (y.stripe_bytes - x.stripe_bytes) + start;
    // Lines of eight chunks, a field each; in every other one the halves change places, which gives a warp's reads all
    // banks.
    uint4 *const mine = ring + team * G::stages * G::lines * 32, *const filled = mine + (lane ^ (lane / 8 % 2 * 4));

    const auto copy_fields = [&](uint4 *to, const cuda::DenseView &from, const unsigned char *chunk, int source) {
        const int valid = Chunk::valid(left);
        MILCGPU_UNROLL
        for (int k = 0; k < G::fours; k += G::team) {
            const int four = k + member;
            cuda::copy_ahead(to + four * 32, chunk + four * 4 * from.source_bytes,
                             source + 4 * four < from.sources ? valid : 0);
        }
    };
    const auto copy_step = [&](int stage) {
        copy_fields(filled + stage * G::lines * 32, x, x_next, x_first);
        if (!same)
            copy_fields(filled + (stage * G::lines + G::fours) * 32, y, y_next, y_first);
        cuda::end_of_stage();
        const int bytes = steps_apart * step_chunks * Chunk::bytes;
        x_next += bytes, y_next += bytes;
        left -= steps_apart * step_chunks * Chunk::sites;
    };
    for (int k = 0; k < G::stages - 1; ++k)
        copy_step(k);

    double *const shared = reinterpret_cast<double *>(ring);
    // A barrier of the block, because racecheck reports hazards with barriers of two warps.
    const auto wait_for_team = [] {
        if (G::team == 1)
            __syncwarp();
        else
            __syncthreads();
    };
    // All warps pass the same barriers, so only the arithmetic between them is a warp's own.
    const auto as_member = [member](const auto &work) {
        if (member == 0)
            work(std::integral_constant<int, 0>());
        else
            work(std::integral_constant<int, G::team - 1>());
    };
    // [piece][product][row tile; one tile: re, im][column]
    double sum[G::pieces][G::of_parts ? 1 : 3][2][2] = {};
    // of_parts: a thread's row of each tile is a part of this field.
    int part_field[G::fours];
    MILCGPU_UNROLL
    for (int t = 0; t < G::fours; ++t)
        part_field[t] = (8 * t + row) % (4 * G::fours);
    for (int k = 0, stage = 0; k < count; ++k) {
        cuda::wait_for_stage<G::stages - 2>();
        wait_for_team();
        copy_step(stage > 0 ? stage - 1 : G::stages - 1);
        const uint4 *const lines = mine + stage * G::lines * 32 + row * 8 + quad;
        // Two numbers of a field at a time, for products of 8: of one chunk, or of two that are four apart.
        constexpr bool of_one = Chunk::numbers == 2;
        constexpr int sets = of_one ? 2 : Chunk::numbers;
        const auto take = [&](const uint4 *chunk, int set, auto(&to)[2]) {
            std::decay_t<decltype(to[0])> v[2][Chunk::numbers];
            cuda::decode(S(), chunk[((of_one ? set : 0) ^ row % 2) * 4], v[0]);
            if (!of_one)
                cuda::decode(S(), chunk[(1 ^ row % 2) * 4], v[1]);
            to[0] = v[0][of_one ? 0 : set], to[1] = of_one ? v[0][Chunk::numbers - 1] : v[1][set];
        };
        if constexpr (G::of_parts) {
            MILCGPU_UNROLL
            for (int set = 0; set < sets; ++set) {
                Number parts[G::fours];
                MILCGPU_UNROLL
                for (int t = 0; t < G::fours; ++t) {
                    Complex<typename S::Real> v[2];
                    take(lines + (part_field[t] - row) * 8, set, v);
                    const bool im = 8 * t + row >= 4 * G::fours;
                    parts[t] = {double(im ? v[0].im : v[0].re), double(im ? v[1].im : v[1].re)};
                }
                MILCGPU_UNROLL
                for (int piece = 0; piece < G::pieces; ++piece)
                    cuda::multiply_16(sum[piece][0][0], sum[piece][0][1], parts[G::part_row(piece, 0)],
                                      parts[G::part_row(piece, 1)], parts[piece]);
            }
        } else {
            as_member([&](auto which) {
                constexpr int me = decltype(which)::value; // in the team
                MILCGPU_UNROLL
                for (int set = 0; set < sets; ++set) {
                    Number a[tiles][2], b[tiles][2];
                    MILCGPU_UNROLL
                    for (int t = 0; t < tiles; ++t) {
                        if (G::takes_row(me, t))
                            take(lines + 2 * t * 32, set, a[t]);
                        if (same)
                            b[t][0] = a[t][0], b[t][1] = a[t][1];
                        else if (G::takes_column(me, t))
                            take(lines + 2 * (tiles + t) * 32, set, b[t]);
                    }
                    if constexpr (tiles == 1) {
                        const Number re = {a[0][0].re, a[0][1].re}, im = {a[0][0].im, a[0][1].im};
                        cuda::multiply_16(sum[0][0][0], sum[0][0][1], re, im, {b[0][0].re, b[0][1].re});
                        cuda::multiply_16(sum[0][1][0], sum[0][1][1], re, im, {b[0][0].im, b[0][1].im});
                    } else {
                        MILCGPU_UNROLL
                        for (int product = 0; product < 3; ++product) {
                            const auto left_of = [product](const Number &v) {
                                return product == 0 ? v.re : product == 1 ? v.im : v.re + v.im;
                            };
                            const auto right_of = [product](const Number &v) {
                                return product == 0 ? v.re : product == 1 ? v.im : v.im - v.re;
                            };
                            Number l[tiles], r[tiles];
                            MILCGPU_UNROLL
                            for (int t = 0; t < tiles; ++t)
                                l[t] = {left_of(a[t][0]), left_of(a[t][1])},
                                r[t] = {right_of(b[t][0]), right_of(b[t][1])};
                            MILCGPU_UNROLL
                            for (int piece = 0; piece < G::pieces; ++piece) {
                                const int t = 2 * G::row_pair(me, piece);
                                cuda::multiply_16(sum[piece][product][0], sum[piece][product][1], l[t], l[t + 1],
                                                  r[G::column(me, piece)]);
                            }
                        }
                    }
                }
            });
        }
        stage = stage + 1 < G::stages ? stage + 1 : 0;
    }
    cuda::wait_for_stage<0>();
    wait_for_team();
    double *const to = shared + team * G::sums_apart + lane;
    if constexpr (G::of_parts) {
        MILCGPU_UNROLL
        for (int k = 0; k < 4 * G::pieces; ++k)
            to[lane + k / 2 * 64 + k % 2] = sum[k / 4][0][k / 2 % 2][k % 2];
    } else {
        as_member([&](auto which) {
            constexpr int me = decltype(which)::value;
            MILCGPU_UNROLL
            for (int piece = 0; piece < G::pieces; ++piece)
                MILCGPU_UNROLL
            for (int r = 0; r < (tiles == 1 ? 1 : 2); ++r)
                MILCGPU_UNROLL
            for (int k = 0; k < 2; ++k) {
                const auto &of = sum[piece];
                double *const number =
                    to + (((2 * G::row_pair(me, piece) + r) * tiles + G::column(me, piece)) * 4 + k) * 32;
                number[0] = tiles == 1 ? of[0][0][k] + of[1][1][k] : of[0][r][k] + of[1][r][k];
                number[64] = tiles == 1 ? of[1][0][k] - of[0][1][k] : of[2][r][k] + of[0][r][k] - of[1][r][k];
            }
        });
    }

    __syncthreads();
    for (int k = threadIdx.x; k < G::numbers * 32; k += G::threads) {
        const int i = k / 128 / tiles, j = k / 128 % tiles;
        if (same && i / 2 * 2 > j)
            continue; // below the diagonal
        double total = 0;
        if constexpr (G::of_parts) {
            constexpr int n = 4 * G::fours;
            const int from = i * 8 + k % 32 / 4, to_column = j * 8 + k % 4 * 2 + k / 32 % 2, im = k / 64 % 2;
            if (from > to_column || to_column >= n)
                continue;
            const int one = place_of_part<G>(from, to_column + im * n);
            const int other = place_of_part<G>(from + n, to_column + (1 - im) * n);
            MILCGPU_UNROLL
            for (int t = 0; t < G::teams; ++t) {
                const double *const of = shared + t * G::sums_apart;
                total += im == 1 ? of[one] - of[other] : of[one] + of[other];
            }
        } else {
            MILCGPU_UNROLL
            for (int t = 0; t < G::teams; ++t)
                total += shared[t * G::sums_apart + k];
        }
        sums[size_t(blockIdx.x) * G::numbers * 32 + k] = total;
    }
}

// Adds up the slices: a few of the numbers a block, each by many threads that take every so many slices.
template <int tiles>
__global__ void __launch_bounds__(cuda::dense_threads)
    sum_slices(const double *sums, int slices, int blocks, int column_blocks, int n, int m, bool same, const int *gate,
               double *g) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    constexpr int together = sums_together, parts = cuda::dense_threads / together;
    constexpr int most = most_slices(tiles) / parts + 1, numbers = 4 * tiles * tiles;
    __shared__ double of_part[parts][together + 1];
    const int part = threadIdx.x / together, first = blockIdx.x * together;
    const size_t apart = size_t(blocks) * numbers * 32;
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
    const int block = at / 32 / numbers, number = at / 32 % numbers, lane = at % 32, im = number / 2 % 2;
    const int i = (block / column_blocks * tiles + number / 4 / tiles) * 8 + lane / 4;
    const int j = (block % column_blocks * tiles + number / 4 % tiles) * 8 + lane % 4 * 2 + number % 2;
    if (threadIdx.x % shares > 0 || i >= n || j >= m || (same && i > j))
        return;
    g[2 * (i * m + j) + im] = same && i == j && im == 1 ? 0 : total;
    if (same && i < j)
        g[2 * (j * m + i) + im] = im == 1 ? -total : total;
}

template <class S, int fours>
void gram_on_gpu(Device &device, const SpinorBlock &x, const SpinorBlock &y, const int *gate, double *g, double *room) {
    const GramShape shape(x.sources, y.sources);
    const bool same = x.data == y.data && x.sources == y.sources && shape.blocks() == 1;
    const int steps = (x.sites - 1) / (step_chunks * cuda::Chunk<S>::sites) + 1;
    const auto start = [&](auto all) {
        using G = decltype(all);
        const int slices = std::min(G::slices, cuda::Chunk<S>::stripes * (steps / G::teams + 1));
        cuda::start_with_shared(device, "gram", slices * shape.blocks(), G::threads, G::bytes, gram_slices<G>,
                                cuda::DenseView(x), cuda::DenseView(y), shape.row_blocks, shape.column_blocks, gate,
                                room);
        cuda::start(device, "sums of gram", shape.numbers() / sums_together, cuda::dense_threads, sum_slices<G::tiles>,
                    room, slices, shape.blocks(), shape.column_blocks, x.sources, y.sources, same, gate, g);
    };
    if (same)
        start(Gram<S, fours, true>());
    else
        start(Gram<S, fours + fours % 2, false>());
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
            const int most = std::max(x.sources, y.sources);
            most <= 4    ? gram_on_gpu<S, 1>(device, x, y, gate, to, sums)
            : most <= 8  ? gram_on_gpu<S, 2>(device, x, y, gate, to, sums)
            : most <= 12 ? gram_on_gpu<S, 3>(device, x, y, gate, to, sums)
            : most <= 16 ? gram_on_gpu<S, 4>(device, x, y, gate, to, sums)
                         : gram_on_gpu<S, 8>(device, x, y, gate, to, sums);
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
