// Fields times a small matrix, which waits in shared memory. Fields are read from memory once and written once.
//
// Up to 16 results in single precision: plain multiplications, two sites of a colour a thread. All else by the matrix
// units: a warp has some sites of a colour (half precision: of all three) for up to 32 of the results in registers, and
// sums over the fields eight at a time.
#include "gpu_kernels/blas/for_precision.h"
#include "gpu_kernels/dense/dense.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/dense/chunks_cuda.h"
#endif

namespace milcgpu {

namespace {

#if defined(MILCGPU_WITH_CUDA)

// Two sites of a colour, in one chunk, a thread. `ahead` fields are loaded before they are needed.
template <int columns> struct Plain {
    static constexpr int ahead = 4, blocks = columns == 4 ? 3 : 2; // on a processor
};

template <int columns, bool add>
__global__ void __launch_bounds__(cuda::dense_threads, Plain<columns>::blocks)
    rotate_plainly(const cuda::DenseView x, const cuda::DenseView y, const cuda::DenseView plus,
                   const Complex<double> *c, const int *gate) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using S = SpinorSingle;
    using Chunk = cuda::Chunk<S>;
    constexpr int ahead = Plain<columns>::ahead, threads = cuda::dense_threads;
    extern __shared__ float4 matrix[]; // [field][pair of columns]
    const int groups = (x.sources + ahead - 1) / ahead;
    const int stripe = blockIdx.x % Chunk::stripes, apart = gridDim.x / Chunk::stripes * threads;
    const int first = blockIdx.x / Chunk::stripes * threads + threadIdx.x;
    int left = x.sites - first * Chunk::sites; // sites from the chunk on
    const auto chunk_of = [&](const cuda::DenseView &view) {
        return view.data + stripe * view.stripe_bytes + first * size_t(Chunk::bytes);
    };
    unsigned char *x_chunk = chunk_of(x), *y_chunk = chunk_of(y), *plus_chunk = chunk_of(plus);
    uint4 next[ahead];
    const auto load = [&](const unsigned char *chunk, int field, int left_there) {
        MILCGPU_UNROLL
        for (int k = 0; k < ahead; ++k)
            next[k] = left_there > 0 && field + k < x.sources
                          ? *reinterpret_cast<const uint4 *>(chunk + (field + k) * x.source_bytes)
                          : uint4{};
    };
    load(x_chunk, 0, left);
    for (int k = threadIdx.x; k < groups * ahead * columns; k += threads) {
        const int i = k / columns, j = k % columns;
        const bool there = i < x.sources && j < y.sources;
        reinterpret_cast<Complex<float> *>(matrix)[k] =
            convert<float>(there ? c[i * y.sources + j] : Complex<double>{});
    }
    __syncthreads();

    const size_t step = apart * size_t(Chunk::bytes);
    for (; left > 0; left -= apart * Chunk::sites) {
        size_t y_apart = y.source_bytes, plus_apart = plus.source_bytes;
        asm volatile("" : "+l"(y_apart), "+l"(plus_apart)); // so that their multiples take no registers in the loop
        Complex<float> sum[columns][Chunk::numbers];
        MILCGPU_UNROLL
        for (int j = 0; j < columns; ++j)
            cuda::decode(S(),
                         add && j < y.sources ? *reinterpret_cast<const uint4 *>(plus_chunk + j * plus_apart) : uint4{},
                         sum[j]);
#pragma unroll 1
        for (int group = 0; group < groups; ++group) {
            Complex<float> v[ahead][Chunk::numbers];
            MILCGPU_UNROLL
            for (int k = 0; k < ahead; ++k)
                cuda::decode(S(), next[k], v[k]);
            if (group + 1 < groups)
                load(x_chunk, (group + 1) * ahead, left);
            else
                load(x_chunk + step, 0, left - apart * Chunk::sites);
            MILCGPU_UNROLL
            for (int k = 0; k < ahead; ++k)
                MILCGPU_UNROLL
            for (int j = 0; j < columns; j += 2) {
                const float4 m = matrix[((group * ahead + k) * columns + j) / 2];
                MILCGPU_UNROLL
                for (int l = 0; l < Chunk::numbers; ++l) {
                    sum[j][l] = milcgpu::plus(sum[j][l], v[k][l], {m.x, m.y});
                    sum[j + 1][l] = milcgpu::plus(sum[j + 1][l], v[k][l], {m.z, m.w});
                }
            }
        }
        MILCGPU_UNROLL
        for (int j = 0; j < columns; ++j)
            if (j < y.sources)
                cuda::store(y_chunk + j * y_apart, cuda::encode(S(), sum[j]), Chunk::valid(left));
        x_chunk += step, y_chunk += step, plus_chunk += step;
    }
}

template <int columns>
void rotate_plainly_on_gpu(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                           const SpinorBlock &plus, const int *gate) {
    using Chunk = cuda::Chunk<SpinorSingle>;
    constexpr int ahead = Plain<columns>::ahead;
    const int chunks = (x.sites - 1) / Chunk::sites + 1;
    const int blocks =
        std::min(132 * Plain<columns>::blocks, Chunk::stripes * ((chunks - 1) / cuda::dense_threads + 1));
    cuda::start_with_shared(device, "rotate", blocks, cuda::dense_threads,
                            (x.sources + ahead - 1) / ahead * ahead * columns * sizeof(Complex<float>),
                            plus ? rotate_plainly<columns, true> : rotate_plainly<columns, false>, cuda::DenseView(x),
                            cuda::DenseView(y), cuda::DenseView(plus ? plus : y), c, gate);
}

// A warp's tile: so many times 8 chunks of each field. Shapes as measured.
template <class S, int columns_> struct Rotation {
    using Storage = S;
    using Real = typename S::Real;
    static constexpr int columns = columns_; // tiles of 8
    static constexpr bool narrow = columns == 1, wide = columns == 4, in_double = S::precision == Precision::double_;
    static constexpr int chunks = in_double && wide ? 4 : 2;
    static constexpr int blocks = wide ? 1 : 2; // on a processor
    static constexpr int stages = narrow || S::precision == Precision::single ? 8 : chunks == 4 ? 5 : 6;
    static constexpr int rows = chunks * cuda::Chunk<S>::numbers; // tiles of 8 numbers of a field
    static constexpr int sites = 8 * chunks * cuda::Chunk<S>::sites, bytes = 8 * chunks * cuda::Chunk<S>::bytes;
    static constexpr int slots = (stages + 2) * chunks; // of a warp: for what is copied, and for results
    static constexpr int ring_bytes = slots * cuda::Chunk<S>::bytes * cuda::dense_threads;
};

template <class R, bool add>
__global__ void __launch_bounds__(cuda::dense_threads, R::blocks)
    rotate_rows(const cuda::DenseView x, const cuda::DenseView y, const cuda::DenseView plus, const Complex<double> *c,
                int column_blocks, const int *gate) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using S = typename R::Storage;
    using Real = typename R::Real;
    using Chunk = cuda::Chunk<S>;
    using Column = cuda::Column<Real>;
    constexpr int columns = R::columns, chunks = R::chunks, pairs = R::rows / 2;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int first_column = blockIdx.x % column_blocks * 8 * columns;
    const int quads = (x.sources + 3) / 4; // the fields, four at a time
    // Lines of eight chunks, a field each, in an order that gives all banks to those who fill and to those who take.
    uint4 *const lines = ring + warp * R::slots * 32, *const mine = lines + quad * 8 + (row ^ 2 * quad);
    const int moved_field = lane / 8, moved_row = lane % 8;
    uint4 *const moved = lines + moved_field * 8 + (moved_row ^ 2 * moved_field);
    Column *const matrix = reinterpret_cast<Column *>(ring + R::ring_bytes / 16);

    // A warp stays in one stripe, so that from tile to tile its addresses grow by a constant.
    const int warps = gridDim.x / column_blocks * cuda::dense_warps,
              index = blockIdx.x / column_blocks * cuda::dense_warps + warp;
    const int stripe = index % Chunk::stripes, apart = warps / Chunk::stripes, first = index / Chunk::stripes;
    const int tiles = first < apart ? (((x.sites - 1) / R::sites - first) + apart) / apart : 0; // of this warp
    // What this thread copies and stores: of four fields at a time one, of eight chunks one.
    const size_t start = first * size_t(R::bytes) + moved_row * Chunk::bytes;
    const auto tile_of = [&](const cuda::DenseView &view, int field) {
        return view.data + field * view.source_bytes + stripe * view.stripe_bytes + start;
    };
    unsigned char *y_tile = tile_of(y, first_column + 2 * moved_field);
    int left = x.sites - first * R::sites; // sites from the tile on

    // The copies run ahead: their tile, its fields of x, then those of `plus` where this thread will write y. Where
    // there are too few fields it is the last one once more: its factors are zero, or it is not stored. What lies
    // behind the last site is copied too: a tile ends where the stride does, or before.
    static_assert(64 % R::sites == 0, "strides are multiples of 64");
    const unsigned char *x_ahead = tile_of(x, moved_field), *plus_ahead = tile_of(plus, 0);
    const size_t to_last = (min(4 * quads - 4 + moved_field, x.sources - 1) - moved_field) * x.source_bytes;
    const unsigned char *next = quads == 1 ? x_ahead + to_last : x_ahead;
    int filled = 0, taken = 0, stage = 0, tiles_ahead = tiles;
    const auto copy_stage = [&] {
        if (tiles_ahead > 0) {
            const unsigned char *from = next;
            if (add && stage >= quads) {
                const int result = stage - quads, j = first_column + result / 2 * 8 + result % 2 + 2 * moved_field;
                from = plus_ahead + min(j, plus.sources - 1) * plus.source_bytes;
            }
            MILCGPU_UNROLL
            for (int k = 0; k < chunks; ++k)
                cuda::copy_ahead(moved + (filled * chunks + k) * 32, from + k * 8 * Chunk::bytes, Chunk::bytes);
            next += 4 * x.source_bytes;
            if (++stage == quads - 1)
                next = x_ahead + to_last;
            if (stage == quads + (add ? 2 * columns : 0)) {
                stage = 0, --tiles_ahead, x_ahead += apart * R::bytes, plus_ahead += apart * R::bytes;
                next = quads == 1 ? x_ahead + to_last : x_ahead;
            }
        }
        cuda::end_of_stage();
        filled = filled + 1 < R::stages ? filled + 1 : 0;
    };
    const auto take_stage = [&](Complex<Real> *to) {
        cuda::wait_for_stage<R::stages - 2>();
        __syncwarp();
        MILCGPU_UNROLL
        for (int k = 0; k < chunks; ++k)
            cuda::decode(S(), mine[(taken * chunks + k) * 32], to + k * Chunk::numbers);
        taken = taken + 1 < R::stages ? taken + 1 : 0;
    };
    for (int k = 0; k < R::stages - 1; ++k)
        copy_stage();
    for (int k = threadIdx.x; k < (quads + 1) / 2 * columns * 32; k += cuda::dense_threads) { // as threads will take it
        const int i = k / 32 / columns * 8 + k % 4, j = first_column + k / 32 % columns * 8 + k % 32 / 4;
        const auto at = [&](int field) {
            return convert<Real>(field < x.sources && j < y.sources ? c[field * y.sources + j] : Complex<double>{});
        };
        const Complex<Real> one = at(i), other = at(i + 4);
        Column *const to = matrix + k / 32 * 64 + k % 32;
        to[0] = {one.re, other.re}, to[32] = {one.im, other.im};
    }
    __syncthreads();

    for (int tile = 0; tile < tiles; ++tile, y_tile += apart * R::bytes, left -= apart * R::sites) {
        Real sum[pairs][columns][2][2][2] = {}; // [two tiles of rows][tile of columns][re, im][row][column]
        const auto add_fields = [&](auto how_many, int k) {
            constexpr int fields = decltype(how_many)::value;
            cuda::Rows<Real> re[pairs], im[pairs];
            MILCGPU_UNROLL
            for (int f = 0; f < fields / 4; ++f) {
                Complex<Real> numbers[R::rows];
                take_stage(numbers);
                copy_stage();
                MILCGPU_UNROLL
                for (int r = 0; r < pairs; ++r) {
                    re[r].set(f, numbers[2 * r].re, numbers[2 * r + 1].re);
                    im[r].set(f, numbers[2 * r].im, numbers[2 * r + 1].im);
                }
            }
            MILCGPU_UNROLL
            for (int t = 0; t < columns; ++t) {
                const Column *const factors = matrix + (k * columns + t) * 64 + lane;
                const Column c_re = factors[0], c_im = factors[32], turned = cuda::negative(c_im);
                MILCGPU_UNROLL
                for (int r = 0; r < pairs; ++r) {
                    cuda::multiply<fields>(sum[r][t][0], re[r], c_re);
                    cuda::multiply<fields>(sum[r][t][1], re[r], c_im);
                    cuda::multiply<fields>(sum[r][t][1], im[r], c_re);
                    cuda::multiply<fields>(sum[r][t][0], im[r], turned);
                }
            }
        };
        for (int k = 0; k < quads / 2; ++k)
            add_fields(std::integral_constant<int, 8>(), k);
        if (quads % 2 != 0)
            add_fields(std::integral_constant<int, 4>(), quads / 2);

        const bool whole = left >= R::sites;
        MILCGPU_UNROLL
        for (int result = 0; result < 2 * columns; ++result) {
            const int t = result / 2, of_two = result % 2, slot = (R::stages + of_two) * chunks;
            Complex<Real> v[R::rows] = {};
            if (add) {
                take_stage(v);
                copy_stage();
            }
            MILCGPU_UNROLL
            for (int r = 0; r < R::rows; ++r) {
                const Complex<Real> s = {sum[r / 2][t][0][r % 2][of_two], sum[r / 2][t][1][r % 2][of_two]};
                v[r] = add ? v[r] + s : s;
            }
            MILCGPU_UNROLL
            for (int k = 0; k < chunks; ++k)
                mine[(slot + k) * 32] = cuda::encode(S(), v + k * Chunk::numbers);
            __syncwarp();
            const int j = t * 8 + of_two;
            if (first_column + 2 * moved_field + j >= y.sources)
                continue;
            MILCGPU_UNROLL
            for (int k = 0; k < chunks; ++k)
                cuda::store(y_tile + j * y.source_bytes + k * 8 * Chunk::bytes, moved[(slot + k) * 32],
                            whole ? Chunk::bytes : Chunk::valid(left - (k * 8 + moved_row) * Chunk::sites));
        }
    }
}

template <class S, int columns>
void rotate_on_gpu(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                   const SpinorBlock &plus, const int *gate) {
    using R = Rotation<S, columns>;
    const int column_blocks = (y.sources - 1) / (8 * columns) + 1, eights = (x.sources + 7) / 8;
    const int tiles = (x.sites - 1) / R::sites + 1;
    // As many as an H200 holds: each warp goes on to other sites.
    const int blocks = std::min(132 * R::blocks, cuda::Chunk<S>::stripes * ((tiles - 1) / cuda::dense_warps + 1));
    cuda::start_with_shared(device, "rotate", blocks * column_blocks, cuda::dense_threads,
                            R::ring_bytes + eights * columns * 64 * sizeof(cuda::Column<typename R::Real>),
                            plus ? rotate_rows<R, true> : rotate_rows<R, false>, cuda::DenseView(x), cuda::DenseView(y),
                            cuda::DenseView(plus ? plus : y), c, column_blocks, gate);
}

#endif

template <class S>
void rotate_on_host(const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y, const SpinorBlock &plus_y) {
    run_on_host(x.sites, [&](int site) {
        Vector<double> from[most_dense];
        for (int i = 0; i < x.sources; ++i)
            from[i] = convert<double>(load_spinor<S>(x[i].data, x.stride, site));
        for (int j = 0; j < y.sources; ++j) {
            Vector<double> sum = {};
            if (plus_y)
                sum = convert<double>(load_spinor<S>(plus_y[j].data, plus_y.stride, site));
            for (int i = 0; i < x.sources; ++i)
                for (int colour = 0; colour < 3; ++colour)
                    sum.c[colour] = plus(sum.c[colour], from[i].c[colour], c[i * y.sources + j]);
            store_spinor<S>(y[j].data, y.stride, site, convert<typename S::Real>(sum));
        }
    });
}

} // namespace

void rotate(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
            const SpinorBlock &plus, const int *gate) {
    if (x.precision != y.precision || x.sites != y.sites)
        throw Error(Status::bad_argument, "rotate: fields of two precisions, or on sites of two numbers");
    if (x.sources < 1 || x.sources > most_dense || y.sources < 1 || y.sources > most_dense)
        throw Error(Status::bad_argument,
                    format("rotation of %d fields into %d: 1 to %d", x.sources, y.sources, most_dense));
    if (plus && (plus.precision != y.precision || plus.sites != y.sites || plus.sources != y.sources))
        throw Error(Status::bad_argument, "rotate: what is added is not as what comes out");
    const bool in_place = x.data == y.data && x.sources == y.sources && x.sources <= dense_block;
    if (!in_place && x.data < y.data + y.bytes() && y.data < x.data + x.bytes())
        throw Error(Status::bad_argument,
                    format("rotation of %d fields into %d that overlap: only of up to %d into the same", x.sources,
                           y.sources, dense_block));
    for_precision(x.precision, [&](auto format) {
        using S = decltype(format);
#if defined(MILCGPU_WITH_CUDA)
        if (device.on_gpu()) {
            if constexpr (S::precision == Precision::single)
                y.sources <= 4    ? rotate_plainly_on_gpu<4>(device, x, c, y, plus, gate)
                : y.sources <= 8  ? rotate_plainly_on_gpu<8>(device, x, c, y, plus, gate)
                : y.sources <= 12 ? rotate_plainly_on_gpu<12>(device, x, c, y, plus, gate)
                : y.sources <= 16 ? rotate_plainly_on_gpu<16>(device, x, c, y, plus, gate)
                                  : rotate_on_gpu<S, 4>(device, x, c, y, plus, gate);
            else
                y.sources <= 8    ? rotate_on_gpu<S, 1>(device, x, c, y, plus, gate)
                : y.sources <= 16 ? rotate_on_gpu<S, 2>(device, x, c, y, plus, gate)
                                  : rotate_on_gpu<S, 4>(device, x, c, y, plus, gate);
            return;
        }
#endif
        static_cast<void>(device);
        if (gate == nullptr || *gate != 0)
            rotate_on_host<S>(x, c, y, plus);
    });
}

} // namespace milcgpu
