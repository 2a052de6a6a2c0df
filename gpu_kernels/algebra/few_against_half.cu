// Projections on many vectors of half precision, and linear combinations of them, for deflation of up to 16 fields.
//
// Both are products by the matrix units, with complex numbers as pairs of reals: each field has a column of real parts
// and one of imaginary parts. A vector's 20-bit number is the sum of two TF32 numbers without error. The projected
// field is rounded to TF32, so a number takes two products. The small matrix of `combine` is split in two as well, and
// of their four products the smallest is omitted. The units truncate their sums: over 8 sites (project; beyond these
// sums are in FP32, and over blocks in double) or over the vectors (combine: 2e-6 of the result, as measured).
//
// Bytes a site: project N 16 + M 24, combine the same and M 24 if it adds. Flops a site: 24 N M each.
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/fields/for_precision.h"
#if defined(MILCGPU_WITH_CUDA)
#include "gpu_kernels/algebra/chunks_cuda.h"
#include <type_traits>
#endif

namespace milcgpu {

namespace {

constexpr int slices = 264; // blocks of threads, fixed on every GPU, because the order of summation depends on it

#if defined(MILCGPU_WITH_CUDA)

using Chunk = cuda::Chunk<SpinorHalf>;

// Tiles of 8 columns. Two tiles are the real and the imaginary parts of 8 fields; a single one at the end has both
// parts of four.
template <int tiles> struct Columns {
    static constexpr int pairs = tiles / 2, fields = 4 * tiles, all = 8 * tiles;
    static constexpr bool one_left = tiles % 2 == 1;
    static __device__ constexpr int field(int tile, int column) {
        return tile < 2 * pairs ? tile / 2 * 8 + column : 8 * pairs + column / 2;
    }
    static __device__ constexpr bool im(int tile, int column) {
        return (tile < 2 * pairs ? tile % 2 : column % 2) == 1;
    }
};

__device__ __forceinline__ float round_to_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bit_cast<float>(bits);
}

// The numbers of two chunks in the form that the matrix units take: rows lane / 4 and that plus 8.
struct TwoRows {
    Vector<float> high[2], low[2];
    __device__ __forceinline__ TwoRows(const uint4 &row, const uint4 &row_below) {
        cuda::decode(SpinorHalf(), row, high[0].c), cuda::decode(SpinorHalf(), row_below, high[1].c);
        MILCGPU_UNROLL
        for (int k = 0; k < 2; ++k)
            MILCGPU_UNROLL
        for (int colour = 0; colour < 3; ++colour) {
            cut(high[k].c[colour].re, low[k].c[colour].re);
            cut(high[k].c[colour].im, low[k].c[colour].im);
        }
    }
    // sum (rows of 8 columns) += a product over this thread's numbers of a colour, and those of its neighbours.
    __device__ __forceinline__ void multiply(float (&sum)[4], int colour, float b, float b_im) const {
        multiply(sum, low, colour, b, b_im), multiply(sum, high, colour, b, b_im);
    }
    __device__ __forceinline__ void multiply(float (&sum)[4], const Vector<float> (&of)[2], int colour, float b,
                                             float b_im) const {
        float(&d)[2] = reinterpret_cast<float(&)[2]>(sum[0]), (&below)[2] = reinterpret_cast<float(&)[2]>(sum[2]);
        cuda::multiply_tf32(d, below, of[0].c[colour].re, of[1].c[colour].re, of[0].c[colour].im, of[1].c[colour].im, b,
                            b_im);
    }

  private:
    static __device__ __forceinline__ void cut(float &x, float &rest) { // into 11 bits, and the next 9
        const float first = bit_cast<float>(bit_cast<uint32_t>(x) & 0xffffe000u);
        rest = x - first, x = first;
    }
};

// ---- projections --------------------------------------------------------------------------------------------------

// A block takes 8 sites of all vectors at a time, a warp 16 of the vectors.
struct Project {
    static constexpr int sites = 8, stages = 4, rows = 16;
    static constexpr int v_chunks = most_dense * sites;
    // A field has 3 x 8 numbers in 14 chunks, so that the numbers that a warp reads are in all banks.
    static constexpr int field_chunks = 14, field_numbers = 2 * field_chunks, copied_chunks = 12;
    static MILCGPU_HD constexpr int stage_chunks(int tiles) { return v_chunks + 4 * tiles * field_chunks; }
    static constexpr size_t bytes(int tiles) { return stages * stage_chunks(tiles) * sizeof(uint4); }
};
static_assert(cuda::dense_warps * Project::rows == most_dense);

template <int tiles>
__global__ void __launch_bounds__(cuda::dense_threads, 2)
    project_slices(const cuda::DenseView v, const cuda::DenseView r, float *sums) {
    cuda::wait_for_previous();
    using C = Columns<tiles>;
    constexpr int sites = Project::sites, stage_chunks = Project::stage_chunks(tiles);
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int steps = (v.sites - 1) / sites + 1;
    // Copies: a line is eight sites of a vector. In every second line the halves change places, so that a warp reads
    // from all banks.
    const int site = lane % 8, vector = warp * Project::rows + lane / 8;
    const int step_bytes = slices * sites * Chunk::bytes;
    const unsigned char *v_next = v.data + vector * v.source_bytes + (blockIdx.x * sites + site) * size_t(Chunk::bytes);
    uint4 *const v_to = ring + vector * sites + (site ^ vector % 2 * 4);
    const int field = threadIdx.x / Project::copied_chunks, piece = threadIdx.x % Project::copied_chunks;
    const bool copies_r = field < C::fields;
    const unsigned char *r_next =
        r.data + field * r.source_bytes + piece / 4 * r.stripe_bytes + (blockIdx.x * sites + piece % 4 * 2) * size_t(8);
    uint4 *const r_to = ring + Project::v_chunks + field * Project::field_chunks + piece;
    int left = v.sites - blockIdx.x * sites; // sites from the next copied ones on
    const auto copy_stage = [&](int stage) {
        MILCGPU_UNROLL
        for (int k = 0; k < Project::rows / 4; ++k)
            cuda::copy_ahead(v_to + stage * stage_chunks + k * 4 * sites, v_next + k * 4 * v.source_bytes,
                             site < left && vector + 4 * k < v.sources ? Chunk::bytes : 0);
        if (copies_r) {
            const int there = left - piece % 4 * 2;
            cuda::copy_ahead(r_to + stage * stage_chunks, r_next,
                             field >= r.sources || there <= 0 ? 0
                             : there == 1                     ? 8
                                                              : 16);
        }
        cuda::end_of_stage();
        v_next += step_bytes, r_next += slices * sites * 8, left -= slices * sites;
    };
    for (int k = 0; k < Project::stages - 1; ++k)
        copy_stage(k);

    float sum[tiles][4] = {};
    for (int step = blockIdx.x, stage = 0; step < steps; step += slices) {
        cuda::wait_for_stage<Project::stages - 2>();
        __syncthreads();
        copy_stage(stage > 0 ? stage - 1 : Project::stages - 1);
        const uint4 *const chunks = ring + stage * stage_chunks + (warp * Project::rows + row) * sites;
        const Complex<float> *const numbers =
            reinterpret_cast<const Complex<float> *>(ring + stage * stage_chunks + Project::v_chunks) + quad;
        float part[tiles][4] = {};
        MILCGPU_UNROLL
        for (int half = 0; half < 2; ++half) {
            const int place = quad + (half ^ row % 2) * 4;
            const TwoRows a(chunks[place], chunks[place + 8 * sites]);
            MILCGPU_UNROLL
            for (int colour = 0; colour < 3; ++colour) {
                const auto number = [&](int of) { // of this site, rounded
                    const Complex<float> x = numbers[of * Project::field_numbers + colour * sites + half * 4];
                    return Complex<float>{round_to_tf32(x.re), round_to_tf32(x.im)};
                };
                MILCGPU_UNROLL
                for (int pair = 0; pair < C::pairs; ++pair) {
                    const Complex<float> b = number(8 * pair + row);
                    a.multiply(part[2 * pair], colour, b.re, b.im);
                    a.multiply(part[2 * pair + 1], colour, b.im, -b.re);
                }
                if constexpr (C::one_left) {
                    const Complex<float> b = number(8 * C::pairs + row / 2);
                    a.multiply(part[tiles - 1], colour, row % 2 == 0 ? b.re : b.im, row % 2 == 0 ? b.im : -b.re);
                }
            }
        }
        MILCGPU_UNROLL
        for (int t = 0; t < tiles; ++t)
            MILCGPU_UNROLL
        for (int k = 0; k < 4; ++k)
            sum[t][k] += part[t][k];
        stage = stage + 1 < Project::stages ? stage + 1 : 0;
    }
    cuda::wait_for_stage<0>();
    MILCGPU_UNROLL
    for (int below = 0; below < 2; ++below) {
        const int i = warp * Project::rows + row + 8 * below;
        float *const to = sums + (size_t(blockIdx.x) * most_dense + i) * C::all + 2 * quad;
        if (i < v.sources)
            MILCGPU_UNROLL
        for (int t = 0; t < tiles; ++t)
            *reinterpret_cast<float2 *>(to + 8 * t) = make_float2(sum[t][2 * below], sum[t][2 * below + 1]);
    }
}

// Adds the slices in double, 32 numbers a block. Each number is added by as many threads as a block has warps.
template <int tiles>
__global__ void __launch_bounds__(cuda::dense_threads) sum_projections(const float *sums, int n, int m, double *c) {
    cuda::wait_for_previous();
    using C = Columns<tiles>;
    __shared__ double of_part[cuda::dense_warps][32];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32, number = blockIdx.x * 32 + lane;
    const int i = number / C::all, column = number % C::all, j = C::field(column / 8, column % 8);
    const bool wanted = i < n && j < m;
    constexpr int most = (slices - 1) / cuda::dense_warps + 1;
    float v[most]; // all loads in flight at once
    MILCGPU_UNROLL
    for (int k = 0; k < most; ++k) {
        const int slice = part + k * cuda::dense_warps;
        v[k] = wanted && slice < slices ? sums[slice * size_t(most_dense * C::all) + number] : 0;
    }
    double total = 0;
    MILCGPU_UNROLL
    for (int k = 0; k < most; ++k)
        total += v[k];
    of_part[part][lane] = total;
    __syncthreads();
    if (part > 0 || !wanted)
        return;
    MILCGPU_UNROLL
    for (int k = 1; k < cuda::dense_warps; ++k)
        total += of_part[k][lane];
    c[2 * (i * m + j) + C::im(column / 8, column % 8)] = total;
}

template <int tiles>
void project_on_gpu(Device &device, const SpinorBlock &v, const SpinorBlock &r, double *c, float *sums) {
    cuda::start_with_shared(device, "project", slices, cuda::dense_threads, Project::bytes(tiles),
                            project_slices<tiles>, cuda::DenseView(v), cuda::DenseView(r), sums);
    cuda::start(device, "sums of project", (v.sources * Columns<tiles>::all - 1) / 32 + 1, cuda::dense_threads,
                sum_projections<tiles>, sums, v.sources, r.sources, c);
}

// ---- sums ---------------------------------------------------------------------------------------------------------

// A warp takes 16 sites through all vectors, 8 of these at a time.
struct Combine {
    static constexpr int sites = 16, stages = 4, vectors = 8, chunks = vectors * sites;
    static constexpr int ring_chunks = cuda::dense_warps * stages * chunks;
    static constexpr size_t bytes(int tiles, int steps) { // for so many vectors
        return ring_chunks * sizeof(uint4) + steps * 2 * tiles * 32 * sizeof(float2);
    }
};
static_assert(most_dense % Combine::vectors == 0);

// Blocks of vectors as one set: all have most_dense vectors except the last one.
struct BlocksOfVectors {
    unsigned char *data[combined_at_once(1)];
    size_t source_bytes;
    int sources, sites;
};

template <int tiles, bool add>
__global__ void __launch_bounds__(cuda::dense_threads, 2)
    combine_rows(const __grid_constant__ BlocksOfVectors v, const cuda::DenseView y, const Complex<double> *c) {
    cuda::wait_for_previous();
    using C = Columns<tiles>;
    constexpr int sites = Combine::sites, stages = Combine::stages;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int groups = (v.sources - 1) / Combine::vectors + 1;
    // Neighbouring tiles go to warps of different blocks, so that all processors have equally many tiles of sites.
    const int first = warp * slices + blockIdx.x, apart = slices * cuda::dense_warps * sites;
    // Copies: lines of 16 sites of a vector, in an order in which readers use all banks.
    uint4 *const mine = ring + warp * stages * Combine::chunks;
    const int copied_site = lane % 16, copied_vector = lane / 16;
    size_t tile_ahead = copied_vector * v.source_bytes + (first * sites + copied_site) * size_t(Chunk::bytes);
    int left = v.sites - first * sites, left_ahead = left - copied_site, group_ahead = 0;
    const auto copy_stage = [&](int stage) {
        const int from = group_ahead * Combine::vectors;
        const unsigned char *const there = v.data[from / most_dense] + tile_ahead + from % most_dense * v.source_bytes;
        MILCGPU_UNROLL
        for (int k = 0; k < Combine::vectors; k += 2) {
            const int vector = k + copied_vector;
            cuda::copy_ahead(mine + stage * Combine::chunks + vector * sites + (copied_site ^ vector % 4 * 2),
                             there + k * v.source_bytes,
                             left_ahead > 0 && from + vector < v.sources ? Chunk::bytes : 0);
        }
        cuda::end_of_stage();
        if (++group_ahead == groups)
            group_ahead = 0, left_ahead -= apart, tile_ahead += apart * size_t(Chunk::bytes);
    };
    for (int k = 0; k < stages - 1; ++k)
        copy_stage(k);
    // The small matrix in the order in which threads read it: vector lane % 4 of four, column lane / 4 of a tile.
    float2 *const matrix = reinterpret_cast<float2 *>(ring + Combine::ring_chunks);
    for (int k = threadIdx.x; k < groups * 2 * tiles * 32; k += cuda::dense_threads) {
        const int i = k / (32 * tiles) * 4 + k % 4, tile = k / 32 % tiles, column = k % 32 / 4;
        const int j = C::field(tile, column);
        const bool there = i < v.sources && j < y.sources;
        const Complex<float> z = convert<float>(there ? c[i * y.sources + j] : Complex<double>{});
        matrix[k] = C::im(tile, column) ? make_float2(z.im, z.re) : make_float2(z.re, -z.im);
    }
    __syncthreads();

    unsigned char *to = y.data + (first * sites + row) * size_t(8);
    int stage = 0;
    for (; left > 0; left -= apart, to += apart * size_t(8)) {
        float sum[3][tiles][4] = {};
        const auto each = [&](auto of) { // the numbers of y that this thread sums, and their sums
            MILCGPU_UNROLL
            for (int below = 0; below < 2; ++below)
                if (row + 8 * below < left)
                    MILCGPU_UNROLL
            for (int colour = 0; colour < 3; ++colour) {
                const auto one = [&](int j, float &re, float &im) {
                    if (j < y.sources)
                        of(reinterpret_cast<float2 *>(to + j * y.source_bytes + colour * y.stripe_bytes) + 8 * below,
                           re, im);
                };
                MILCGPU_UNROLL
                for (int pair = 0; pair < C::pairs; ++pair)
                    MILCGPU_UNROLL
                for (int k = 0; k < 2; ++k)
                    one(8 * pair + 2 * quad + k, sum[colour][2 * pair][2 * below + k],
                        sum[colour][2 * pair + 1][2 * below + k]);
                if constexpr (C::one_left)
                    one(8 * C::pairs + quad, sum[colour][tiles - 1][2 * below], sum[colour][tiles - 1][2 * below + 1]);
            }
        };
        if (add)
            each([](const float2 *from, float &re, float &im) { re = from->x, im = from->y; });
        for (int group = 0; group < groups; ++group) {
            cuda::wait_for_stage<stages - 2>();
            __syncwarp();
            copy_stage(stage > 0 ? stage - 1 : stages - 1);
            const uint4 *const chunks = mine + stage * Combine::chunks + (row ^ quad * 2);
            MILCGPU_UNROLL
            for (int four = 0; four < 2; ++four) {
                const int line = (4 * four + quad) * sites;
                const TwoRows a(chunks[line], chunks[line + 8]);
                MILCGPU_UNROLL
                for (int t = 0; t < tiles; ++t) {
                    const float2 b = matrix[((2 * group + four) * tiles + t) * 32 + lane];
                    const cuda::TwoTf32 re(b.x), im(b.y);
                    MILCGPU_UNROLL
                    for (int colour = 0; colour < 3; ++colour) {
                        a.multiply(sum[colour][t], a.high, colour, re.low, im.low);
                        a.multiply(sum[colour][t], colour, re.high, im.high);
                    }
                }
            }
            stage = stage + 1 < stages ? stage + 1 : 0;
        }
        each([](float2 *there, float re, float im) { *there = make_float2(re, im); });
    }
    cuda::wait_for_stage<0>();
}

template <int tiles>
void combine_on_gpu(Device &device, const std::vector<SpinorBlock> &v, const Complex<double> *c, const SpinorBlock &y,
                    bool add) {
    constexpr size_t at_once = combined_at_once(Columns<tiles>::fields);
    for (size_t first = 0; first < v.size(); first += at_once) {
        const size_t end = std::min(v.size(), first + at_once);
        BlocksOfVectors some{{}, v[first].source_bytes, 0, v[first].sites};
        for (size_t k = first; k < end; ++k)
            some.data[k - first] = v[k].data, some.sources += v[k].sources;
        const size_t bytes = Combine::bytes(tiles, (some.sources - 1) / Combine::vectors + 1);
        cuda::start_with_shared(device, "combine", slices, cuda::dense_threads, bytes,
                                add || first > 0 ? combine_rows<tiles, true> : combine_rows<tiles, false>, some,
                                cuda::DenseView(y), c + first * most_dense * y.sources);
    }
}

template <class Start> void for_tiles(int fields, const Start &start) {
    fields <= 4    ? start(std::integral_constant<int, 1>())
    : fields <= 8  ? start(std::integral_constant<int, 2>())
    : fields <= 12 ? start(std::integral_constant<int, 3>())
                   : start(std::integral_constant<int, 4>());
}
#endif

Vector<double> half_at(const SpinorBlock &v, int i, int site) {
    return convert<double>(load_spinor<SpinorHalf>(v[i].data, v.stride, site));
}
Vector<double> single_at(const SpinorBlock &v, int i, int site) {
    return convert<double>(load_spinor<SpinorSingle>(v[i].data, v.stride, site));
}

void project_on_host(const SpinorBlock &v, const SpinorBlock &r, Complex<double> *c) {
    run_on_host(v.sources, v.sites, [&](int i) {
        Complex<double> sums[most_few] = {};
        for (int site = 0; site < v.sites; ++site) {
            const Vector<double> left = half_at(v, i, site);
            for (int j = 0; j < r.sources; ++j) {
                const Vector<double> right = single_at(r, j, site);
                for (int colour = 0; colour < 3; ++colour)
                    sums[j] = sums[j] + conj(left.c[colour]) * right.c[colour];
            }
        }
        std::copy(sums, sums + r.sources, c + size_t(i) * r.sources);
    });
}

void combine_on_host(const SpinorBlock &v, const Complex<double> *c, const SpinorBlock &y, bool add) {
    run_on_host(v.sites, v.sites, [&](int site) {
        Vector<double> sums[most_few] = {};
        for (int j = 0; j < y.sources && add; ++j)
            sums[j] = single_at(y, j, site);
        for (int i = 0; i < v.sources; ++i) {
            const Vector<double> x = half_at(v, i, site);
            for (int j = 0; j < y.sources; ++j)
                for (int colour = 0; colour < 3; ++colour)
                    sums[j].c[colour] = sums[j].c[colour] + c[size_t(i) * y.sources + j] * x.c[colour];
        }
        for (int j = 0; j < y.sources; ++j)
            store_spinor<SpinorSingle>(y[j].data, y.stride, site, convert<float>(sums[j]));
    });
}

void check(const SpinorBlock &v, const SpinorBlock &few) {
    if (v.precision != Precision::half || few.precision != Precision::single || v.sites != few.sites)
        throw Error(Status::bad_argument, "vectors in half precision and fields in single, on as many sites");
    if (v.sources < 1 || v.sources > most_dense || few.sources < 1 || few.sources > most_few)
        throw Error(Status::bad_argument, format("%d vectors and %d fields: 1 to %d, and 1 to %d", v.sources,
                                                 few.sources, most_dense, most_few));
}

} // namespace

size_t project_scratch(int fields) { return size_t(slices) * most_dense * (4 * ((fields - 1) / 4 + 1)); }

void project(Device &device, const SpinorBlock &v, const SpinorBlock &r, Complex<double> *c, double *scratch) {
    check(v, r);
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        for_tiles(r.sources, [&](auto tiles) {
            project_on_gpu<decltype(tiles)::value>(device, v, r, &c->re, reinterpret_cast<float *>(scratch));
        });
        return;
    }
#endif
    static_cast<void>(device), static_cast<void>(scratch);
    project_on_host(v, r, c);
}

void combine(Device &device, const std::vector<SpinorBlock> &v, const Complex<double> *c, const SpinorBlock &y,
             bool add) {
    for (size_t k = 0; k < v.size(); ++k) {
        check(v[k], y);
        if ((k + 1 < v.size() && v[k].sources != most_dense) || v[k].source_bytes != v[0].source_bytes)
            throw Error(Status::bad_argument, format("blocks of %d vectors, except for the last one", most_dense));
    }
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        for_tiles(y.sources, [&](auto tiles) { combine_on_gpu<decltype(tiles)::value>(device, v, c, y, add); });
        return;
    }
#endif
    static_cast<void>(device);
    for (size_t k = 0; k < v.size(); ++k)
        combine_on_host(v[k], c + k * most_dense * y.sources, y, add || k > 0);
}

} // namespace milcgpu
