// Fields times a small matrix in shared memory. Each field is read from memory once and written once.
//
// Up to 16 results in single precision, and up to 4 in half, use plain multiplications. All other cases use the matrix
// units: a warp keeps 16 sites of a colour (half precision: 8 sites of three colours) for up to 32 of the results in
// registers, and sums over the fields four at a time, straight from the registers from which the matrix units read
// them.
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/fields/for_precision.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/algebra/chunks_cuda.h"
#include <type_traits>
#endif

namespace milcgpu {

namespace {

#if defined(MILCGPU_WITH_CUDA)

// A chunk a thread. `ahead` fields at a time are loaded before they are needed: into a ring of stages in shared memory,
// or into registers (then there is one stage). If another field is added, and in half precision, registers are faster.
template <class S, int columns, bool add> struct Plain {
    static constexpr bool in_ring = S::precision == Precision::single && !add;
    static constexpr int ahead = !in_ring ? 4 : columns == 4 ? 1 : columns == 16 ? 2 : 4;
    static constexpr int stages = !in_ring ? 1 : columns == 4 ? 7 : columns == 8 ? 3 : columns == 12 ? 4 : 6;
    static constexpr int stage_bytes = ahead * cuda::dense_threads * cuda::Chunk<S>::bytes;
    static constexpr int ring_bytes = in_ring ? stages * stage_bytes : 0;
    static constexpr int blocks = columns == 4 && !in_ring ? 3 : 2; // on a processor
};

template <class S, int columns, bool add>
__global__ void __launch_bounds__(cuda::dense_threads, Plain<S, columns, add>::blocks)
    rotate_plainly(const cuda::DenseView x, const cuda::DenseView y, const cuda::DenseView plus,
                   const Complex<double> *c, const int *gate) {
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using Chunk = cuda::Chunk<S>;
    using P = Plain<S, columns, add>;
    constexpr int ahead = P::ahead, threads = cuda::dense_threads;
    extern __shared__ uint4 ring[];
    float4 *const matrix = reinterpret_cast<float4 *>(ring + P::ring_bytes / 16); // [field][pair of columns]
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
        for (int k = 0; k < ahead; ++k) {
            next[k] = {};
            if (field + k < x.sources && left_there > 0)
                next[k] = *reinterpret_cast<const uint4 *>(chunk + (field + k) * x.source_bytes);
        }
    };
    // The ring: where this thread's chunks are, the stage that is used next and the stage that is free, and the source
    // of the chunks, with the fields that are left there.
    unsigned chunks = cuda::in_shared(ring + threadIdx.x), now = 0, before = (P::stages - 1) * P::stage_bytes;
    size_t x_apart = x.source_bytes;
    if (P::in_ring)
        cuda::keep(chunks), cuda::keep(x_apart);
    const unsigned char *x_tile = x_chunk, *x_ahead = x_chunk;
    int fields_ahead = x.sources, left_ahead = left;
    const size_t step = apart * size_t(Chunk::bytes);
    const auto copy_stage = [&](unsigned place) {
        MILCGPU_UNROLL
        for (int k = 0; k < ahead; ++k, x_ahead += x_apart)
            cuda::copy_ahead_if(chunks + place + k * threads * Chunk::bytes, x_ahead,
                                left_ahead > 0 && k < fields_ahead);
        cuda::end_of_stage();
        fields_ahead -= ahead;
        if (fields_ahead <= 0)
            x_ahead = x_tile += step, fields_ahead = x.sources, left_ahead -= apart * Chunk::sites;
    };
    if (P::in_ring) {
        MILCGPU_UNROLL
        for (int k = 0; k < P::stages - 1; ++k)
            copy_stage(k * P::stage_bytes);
    } else {
        load(x_chunk, 0, left);
    }
    for (int k = threadIdx.x; k < groups * ahead * columns; k += threads) {
        const int i = k / columns, j = k % columns;
        const bool there = i < x.sources && j < y.sources;
        reinterpret_cast<Complex<float> *>(matrix)[k] =
            convert<float>(there ? c[i * y.sources + j] : Complex<double>{});
    }
    __syncthreads();

    for (; left > 0; left -= apart * Chunk::sites) {
        size_t y_apart = y.source_bytes, plus_apart = plus.source_bytes;
        asm volatile("" : "+l"(y_apart), "+l"(plus_apart)); // so that their multiples take no registers in the loop
        Complex<float> sum[columns][Chunk::numbers];
        MILCGPU_UNROLL
        for (int j = 0; j < columns; ++j) {
            uint4 v = {};
            if (add && j < y.sources)
                v = *reinterpret_cast<const uint4 *>(plus_chunk + j * plus_apart);
            cuda::decode(S(), v, sum[j]);
        }
#pragma unroll 1
        for (int group = 0; group < groups; ++group) {
            Complex<float> v[ahead][Chunk::numbers];
            if constexpr (P::in_ring) {
                cuda::wait_for_stage<P::stages - 2>();
                MILCGPU_UNROLL
                for (int k = 0; k < ahead; ++k)
                    cuda::decode(S(), bit_cast<uint4>(cuda::read_shared(chunks + now + k * threads * Chunk::bytes)),
                                 v[k]);
                copy_stage(before);
                before = now, now = now == (P::stages - 1) * P::stage_bytes ? 0 : now + P::stage_bytes;
            } else {
                MILCGPU_UNROLL
                for (int k = 0; k < ahead; ++k)
                    cuda::decode(S(), next[k], v[k]);
                // One load for both cases: in a branch the thread would wait for its result.
                const bool last = group + 1 == groups;
                load(last ? x_chunk + step : x_chunk, last ? 0 : (group + 1) * ahead,
                     last ? left - apart * Chunk::sites : left);
            }
            MILCGPU_UNROLL
            for (int k = 0; k < ahead; ++k)
                MILCGPU_UNROLL
            for (int j = 0; j < columns; j += 2) {
                const float4 m = matrix[((group * ahead + k) * columns + j) / 2];
                MILCGPU_UNROLL
                for (int l = 0; l < Chunk::numbers; ++l) {
                    sum[j][l].re += v[k][l].re * m.x, sum[j][l].im += v[k][l].re * m.y;
                    sum[j + 1][l].re += v[k][l].re * m.z, sum[j + 1][l].im += v[k][l].re * m.w;
                }
                MILCGPU_UNROLL
                for (int l = 0; l < Chunk::numbers; ++l) {
                    sum[j][l].re -= v[k][l].im * m.y, sum[j][l].im += v[k][l].im * m.x;
                    sum[j + 1][l].re -= v[k][l].im * m.w, sum[j + 1][l].im += v[k][l].im * m.z;
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

template <class S, int columns, bool add>
void start_plainly(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                   const SpinorBlock &plus, const int *gate) {
    using Chunk = cuda::Chunk<S>;
    using P = Plain<S, columns, add>;
    const int chunks = (x.sites - 1) / Chunk::sites + 1, groups = (x.sources - 1) / P::ahead + 1;
    const int blocks = std::min(132 * P::blocks, Chunk::stripes * ((chunks - 1) / cuda::dense_threads + 1));
    cuda::start_with_shared(device, "rotate", blocks, cuda::dense_threads,
                            P::ring_bytes + groups * P::ahead * columns * sizeof(Complex<float>),
                            rotate_plainly<S, columns, add>, cuda::DenseView(x), cuda::DenseView(y),
                            cuda::DenseView(plus), c, gate);
}
template <class S, int columns>
void rotate_plainly_on_gpu(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                           const SpinorBlock &plus, const int *gate) {
    plus ? start_plainly<S, columns, true>(device, x, c, y, plus, gate)
         : start_plainly<S, columns, false>(device, x, c, y, y, gate);
}

// The rows of a warp: tiles of 8 numbers of a field, in two chunks a thread. With 32 columns it is one chunk in single
// precision: two would take too many registers; its two numbers are the pair of tiles that the matrix units take. In
// double it is four chunks, so that the small matrix is read half as often.
template <class S, int columns> struct Rows {
    static constexpr bool wide = columns == 4;
    static constexpr int chunks = wide && cuda::Chunk<S>::numbers == 2   ? 1
                                  : wide && cuda::Chunk<S>::numbers == 1 ? 4
                                                                         : 2;
    static constexpr int tiles = chunks * cuda::Chunk<S>::numbers;
    static constexpr int sites = 8 * chunks * cuda::Chunk<S>::sites, bytes = 8 * chunks * cuda::Chunk<S>::bytes;
    static constexpr int stages = chunks == 1 ? 10 : chunks == 2 ? 6 : 5;
    static constexpr int slots = (stages + 2) * chunks; // of a warp: for copies, and for results
    static constexpr int ring_bytes = slots * cuda::Chunk<S>::bytes * cuda::dense_threads;
};

// Additional arguments of rotate_twice: the matrix that multiplies y itself, fields p and their matrix, and the place
// of the second results.
struct Second {
    const Complex<double> *of_y;
    cuda::DenseView p, z;
    const Complex<double> *of_p;
};

// plain: y = x c. plus: y = plus + x c. twice: y = y + x c, then z = y + p d. mixed: y = y m + x c, then z.
enum class Form { plain, plus, twice, mixed };

// Blocks on a processor, by the registers that a thread needs.
template <class S, int columns, Form form = Form::plain>
constexpr int blocks_at_once = columns == 4 && S::precision != Precision::single                         ? 1
                               : columns == 1 && S::precision != Precision::half && (form <= Form::plus) ? 3
                                                                                                         : 2;

// Real: type of the sums.
template <class S, class Real, int columns, Form form>
__global__ void __launch_bounds__(cuda::dense_threads, blocks_at_once<S, columns, form>)
    rotate_rows(const cuda::DenseView x, const cuda::DenseView y, const cuda::DenseView plus, const Complex<double> *c,
                int column_blocks, const int *gate, const Second second) {
    constexpr bool mixed = form == Form::mixed, add = form == Form::plus || form == Form::twice;
    constexpr bool twice = form == Form::twice || mixed;
    cuda::wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using R = Rows<S, columns>;
    using Chunk = cuda::Chunk<S>;
    using Factor = decltype(cuda::factor(Complex<Real>()));
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int first_column = blockIdx.x % column_blocks * 8 * columns;
    const int quads = (x.sources + 3) / 4; // fields, four at a time
    // Lines of eight chunks, one field each, in an order in which both the writing and the reading threads use all
    // banks.
    uint4 *const lines = ring + warp * R::slots * 32, *const mine = lines + quad * 8 + (row ^ 2 * quad);
    const int moved_field = lane / 8, moved_row = lane % 8;
    uint4 *const moved = lines + moved_field * 8 + (moved_row ^ 2 * moved_field);
    Factor *const matrix = reinterpret_cast<Factor *>(ring + R::ring_bytes / 16);

    // A warp stays in one stripe, so that its addresses grow by a constant from tile to tile.
    const int warps = gridDim.x / column_blocks * cuda::dense_warps;
    const int index = blockIdx.x / column_blocks * cuda::dense_warps + warp;
    const int stripe = index % Chunk::stripes, apart = warps / Chunk::stripes, first = index / Chunk::stripes;
    const int tiles = first < apart ? (((x.sites - 1) / R::sites - first) + apart) / apart : 0; // of this warp
    // What this thread copies and stores: one of four fields at a time, one of eight chunks.
    const size_t start = first * size_t(R::bytes) + moved_row * Chunk::bytes;
    const auto tile_of = [&](const cuda::DenseView &view, int field) {
        return view.data + field * view.source_bytes + stripe * view.stripe_bytes + start;
    };
    const unsigned char *x_tile = tile_of(x, moved_field);
    unsigned char *y_tile = tile_of(y, first_column + 2 * moved_field);
    unsigned char *z_tile = twice ? tile_of(second.z, first_column + 2 * moved_field) : nullptr;
    int left = x.sites - first * R::sites - moved_row * Chunk::sites; // sites from the first chunk of the tile on

    // The copies run ahead: their tile, its fields of y (if mixed), of x, of `plus` (where this thread will write y),
    // and of p.
    const unsigned char *x_ahead = x_tile, *y_ahead = tile_of(y, moved_field);
    const unsigned char *plus_ahead = tile_of(plus, first_column + 2 * moved_field);
    const unsigned char *p_ahead = twice ? tile_of(second.p, moved_field) : nullptr;
    const int x_from = mixed ? quads : 0, plus_from = x_from + quads, p_from = plus_from + (add ? 2 * columns : 0);
    int filled = 0, taken = 0, stage = 0, left_ahead = left, tiles_ahead = tiles;
    const auto copy_chunks = [&](const unsigned char *from, bool there) {
        MILCGPU_UNROLL
        for (int k = 0; k < R::chunks; ++k)
            cuda::copy_ahead(moved + (filled * R::chunks + k) * 32, from + k * 8 * Chunk::bytes,
                             there ? Chunk::valid(left_ahead - k * 8 * Chunk::sites) : 0);
    };
    const auto copy_four = [&](const unsigned char *from, const cuda::DenseView &view, int four) {
        copy_chunks(from + four * 4 * view.source_bytes, 4 * four + moved_field < x.sources);
    };
    const auto copy_stage = [&] {
        if (tiles_ahead > 0) {
            if (mixed && stage < x_from) {
                copy_four(y_ahead, y, stage);
            } else if (!twice && !add) {
                copy_four(x_ahead, x, stage);
            } else if (stage < plus_from) {
                copy_four(x_ahead, x, stage - x_from);
            } else if (add && stage < p_from) {
                const int result = stage - plus_from, j = result / 2 * 8 + result % 2; // of y
                copy_chunks(plus_ahead + j * plus.source_bytes, first_column + 2 * moved_field + j < y.sources);
            } else {
                copy_four(p_ahead, second.p, stage - p_from);
            }
            if (++stage == p_from + (twice ? quads : 0)) {
                stage = 0, --tiles_ahead, left_ahead -= apart * R::sites;
                x_ahead += apart * R::bytes, y_ahead += apart * R::bytes;
                plus_ahead += apart * R::bytes, p_ahead += apart * R::bytes;
            }
        }
        cuda::end_of_stage();
        filled = filled + 1 < R::stages ? filled + 1 : 0;
    };
    const auto take_stage = [&](Complex<Real> *to) {
        cuda::wait_for_stage<R::stages - 2>();
        __syncwarp();
        MILCGPU_UNROLL
        for (int k = 0; k < R::chunks; ++k)
            cuda::decode(S(), mine[(taken * R::chunks + k) * 32], to + k * Chunk::numbers);
        taken = taken + 1 < R::stages ? taken + 1 : 0;
    };
    for (int k = 0; k < R::stages - 1; ++k)
        copy_stage();
    const auto put_matrix = [&](Factor *to, const Complex<double> *from) { // as threads will take it
        for (int k = threadIdx.x; k < quads * columns * 32; k += cuda::dense_threads) {
            const int i = k / 32 / columns * 4 + k % 4, j = first_column + k / 32 % columns * 8 + k % 32 / 4;
            const bool there = i < x.sources && j < y.sources;
            to[k] = cuda::factor(convert<Real>(there ? from[i * y.sources + j] : Complex<double>{}));
        }
    };
    const int apart_in_scratch = quads * columns * 32; // from one matrix to the next: of x, p, y
    put_matrix(matrix, c);
    if (twice)
        put_matrix(matrix + apart_in_scratch, second.of_p);
    if (mixed)
        put_matrix(matrix + 2 * apart_in_scratch, second.of_y);
    __syncthreads();

    for (int tile = 0; tile < tiles; ++tile, left -= apart * R::sites) {
        Real sum[R::tiles][columns][2][2] = {}; // [row tile][column tile][re, im][column]
        const auto add_products = [&](const Factor *with) {
            for (int k = 0; k < quads; ++k) {
                Complex<Real> numbers[R::tiles];
                take_stage(numbers);
                copy_stage();
                MILCGPU_UNROLL
                for (int r = 0; r < R::tiles; r += 2) {
                    const Factor a = cuda::factor(numbers[r]), a_below = cuda::factor(numbers[r + 1]);
                    MILCGPU_UNROLL
                    for (int t = 0; t < columns; ++t) {
                        const Factor b = with[(k * columns + t) * 32 + lane];
                        const Factor re = {b.re, cuda::negative(b.im)}, im = {b.im, b.re};
                        cuda::multiply_16(sum[r][t][0], sum[r + 1][t][0], a, a_below, re);
                        cuda::multiply_16(sum[r][t][1], sum[r + 1][t][1], a, a_below, im);
                    }
                }
            }
        };
        const auto results = [&](const cuda::DenseView &to, unsigned char *to_tile, auto with_plus) {
            constexpr bool adds = decltype(with_plus)::value;
            MILCGPU_UNROLL
            for (int result = 0; result < 2 * columns; ++result) {
                const int j = result / 2 * 8 + result % 2, slot = (R::stages + result % 2) * R::chunks;
                Complex<Real> v[R::tiles] = {};
                if (adds) {
                    take_stage(v);
                    copy_stage();
                }
                Complex<typename S::Real> rounded[R::tiles];
                MILCGPU_UNROLL
                for (int r = 0; r < R::tiles; ++r) {
                    Real &re = sum[r][result / 2][0][result % 2], &im = sum[r][result / 2][1][result % 2];
                    if (adds)
                        re += v[r].re, im += v[r].im;
                    rounded[r] = convert<typename S::Real>(Complex<Real>{re, im});
                }
                MILCGPU_UNROLL
                for (int k = 0; k < R::chunks; ++k)
                    mine[(slot + k) * 32] = cuda::encode(S(), rounded + k * Chunk::numbers);
                __syncwarp();
                MILCGPU_UNROLL
                for (int k = 0; k < R::chunks; ++k)
                    cuda::store(to_tile + j * to.source_bytes + k * 8 * Chunk::bytes, moved[(slot + k) * 32],
                                first_column + 2 * moved_field + j < to.sources
                                    ? Chunk::valid(left - k * 8 * Chunk::sites)
                                    : 0);
            }
        };
        if (mixed)
            add_products(matrix + 2 * apart_in_scratch);
        add_products(matrix);
        results(y, y_tile, std::integral_constant<bool, add>());
        y_tile += apart * R::bytes;
        if constexpr (twice) {
            add_products(matrix + apart_in_scratch);
            results(second.z, z_tile, std::false_type());
            z_tile += apart * R::bytes;
        }
    }
}

template <class S, class Real, int columns, Form form>
void start_rotation(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                    const SpinorBlock &plus, const Second &second, const int *gate) {
    const int column_blocks = (y.sources - 1) / (8 * columns) + 1, quads = (x.sources + 3) / 4;
    const int tiles = (x.sites - 1) / Rows<S, columns>::sites + 1;
    // As many blocks as an H200 holds: each warp then goes on to other sites.
    const int blocks = std::min(132 * blocks_at_once<S, columns, form>,
                                cuda::Chunk<S>::stripes * ((tiles - 1) / cuda::dense_warps + 1));
    constexpr int matrices = form == Form::mixed ? 3 : form == Form::twice ? 2 : 1;
    cuda::start_with_shared(device, matrices > 1 ? "rotate twice" : "rotate", blocks * column_blocks,
                            cuda::dense_threads,
                            Rows<S, columns>::ring_bytes + matrices * quads * columns * 32 * sizeof(Complex<double>),
                            rotate_rows<S, Real, columns, form>, cuda::DenseView(x), cuda::DenseView(y),
                            cuda::DenseView(plus), c, column_blocks, gate, second);
}

template <class S, int columns>
void rotate_on_gpu(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                   const SpinorBlock &plus, const int *gate) {
    const Second none = {nullptr, cuda::DenseView(y), cuda::DenseView(y), nullptr};
    using Real = typename S::Real;
    plus ? start_rotation<S, Real, columns, Form::plus>(device, x, c, y, plus, none, gate)
         : start_rotation<S, Real, columns, Form::plain>(device, x, c, y, y, none, gate);
}

#endif

template <class S>
void rotate_on_host(const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y, const SpinorBlock &plus_y) {
    run_on_host(x.sites, x.sites, [&](int site) {
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

template <class S> void rotate_twice_on_host(const TwoRotations &of) {
    using Vectors = Vector<double>[most_rotated_twice];
    const int n = of.x.sources, sites = of.x.sites;
    run_on_host(sites, sites, [&](int site) {
        const auto load = [&](const SpinorBlock &from, Vectors &to) {
            for (int i = 0; i < n; ++i)
                to[i] = convert<double>(load_spinor<S>(from[i].data, from.stride, site));
        };
        const auto add = [&](const Vectors &from, const Complex<double> *matrix, Vectors &to) {
            for (int i = 0; i < n; ++i)
                for (int j = 0; j < n; ++j)
                    for (int colour = 0; colour < 3; ++colour)
                        to[j].c[colour] = plus(to[j].c[colour], from[i].c[colour], matrix[i * n + j]);
        };
        const auto store = [&](const Vectors &from, const SpinorBlock &to) {
            for (int j = 0; j < n; ++j)
                store_spinor<S>(to[j].data, to.stride, site, convert<typename S::Real>(from[j]));
        };
        Vectors from, sum = {};
        load(of.y, of.m != nullptr ? from : sum);
        if (of.m != nullptr)
            add(from, of.m, sum);
        load(of.x, from), add(from, of.c, sum), store(sum, of.y);
        load(of.p, from), add(from, of.d, sum), store(sum, of.z);
    });
}

// Throws unless rotate_twice can use this field together with x.
void require_as(const SpinorBlock &x, const SpinorBlock &field) {
    if (field.precision != x.precision || field.sites != x.sites || field.sources != x.sources)
        throw Error(Status::bad_argument,
                    "rotate_twice: the fields differ in precision, number of sites or number of fields");
}

} // namespace

void block_axpy(Device &device, const SpinorBlock &x, const Complex<double> *c, const SpinorBlock &y,
                const SpinorBlock &plus, const int *gate) {
    if (x.precision != y.precision || x.sites != y.sites)
        throw Error(Status::bad_argument, "rotate: the fields differ in precision or number of sites");
    if (x.sources < 1 || x.sources > most_dense || y.sources < 1 || y.sources > most_dense)
        throw Error(Status::bad_argument,
                    format("rotation of %d fields into %d: 1 to %d", x.sources, y.sources, most_dense));
    if (plus && (plus.precision != y.precision || plus.sites != y.sites || plus.sources != y.sources))
        throw Error(
            Status::bad_argument,
            "rotate: the added fields differ from the results in precision, number of sites or number of fields");
    const bool in_place = x.data == y.data && x.sources == y.sources && x.sources <= dense_block;
    const auto end = [&](const SpinorBlock &b) { // of a block that may have some of the sites alone
        const size_t behind = (b.stride - b.sites) * bytes_between_elements(queue_of(device).on_gpu(), b.precision);
        return b[b.sources - 1].data + b.stride * spinor_bytes(b.precision) - behind;
    };
    if (!in_place && x.data < end(y) && y.data < end(x))
        throw Error(Status::bad_argument,
                    format("rotation of %d fields into %d that overlap: only up to %d fields can be rotated in place",
                           x.sources, y.sources, dense_block));
    for_precision(x.precision, [&](auto format) {
        using S = decltype(format);
#if defined(MILCGPU_WITH_CUDA)
        if (queue_of(device).on_gpu()) {
            if constexpr (S::precision == Precision::single)
                y.sources <= 4    ? rotate_plainly_on_gpu<S, 4>(device, x, c, y, plus, gate)
                : y.sources <= 8  ? rotate_plainly_on_gpu<S, 8>(device, x, c, y, plus, gate)
                : y.sources <= 12 ? rotate_plainly_on_gpu<S, 12>(device, x, c, y, plus, gate)
                : y.sources <= 16 ? rotate_plainly_on_gpu<S, 16>(device, x, c, y, plus, gate)
                                  : rotate_on_gpu<S, 4>(device, x, c, y, plus, gate);
            else if (S::precision == Precision::half && y.sources <= 4)
                rotate_plainly_on_gpu<SpinorHalf, 4>(device, x, c, y, plus, gate);
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

void rotate_twice(Device &device, const TwoRotations &of, const int *gate) {
    const SpinorBlock &x = of.x, &y = of.y, &p = of.p, &z = of.z;
    require_as(x, y), require_as(x, p), require_as(x, z);
    if (x.sources < 1 || x.sources > most_rotated_twice)
        throw Error(Status::bad_argument, format("rotate_twice: %d fields: 1 to %d", x.sources, most_rotated_twice));
    for (const SpinorBlock &other : {x, y, p})
        if (z.data < other.data + other.bytes() && other.data < z.data + z.bytes())
            throw Error(Status::bad_argument, "rotate_twice: the last results overlap other fields");
#if defined(MILCGPU_WITH_CUDA)
    const auto start = [&](auto format, auto columns) {
        using S = decltype(format);
        constexpr int n = decltype(columns)::value;
        const Second second = {of.m, cuda::DenseView(p), cuda::DenseView(z), of.d};
        of.m != nullptr ? start_rotation<S, double, n, Form::mixed>(device, x, of.c, y, y, second, gate)
                        : start_rotation<S, double, n, Form::twice>(device, x, of.c, y, y, second, gate);
    };
#endif
    for_precision(x.precision, [&](auto format) {
#if defined(MILCGPU_WITH_CUDA)
        if (queue_of(device).on_gpu()) {
            x.sources <= 8 ? start(format, std::integral_constant<int, 1>())
                           : start(format, std::integral_constant<int, 2>());
            return;
        }
#endif
        static_cast<void>(device);
        if (gate == nullptr || *gate != 0)
            rotate_twice_on_host<decltype(format)>(of);
    });
}

} // namespace milcgpu
