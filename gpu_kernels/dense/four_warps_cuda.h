// A rotation of single precision by the instruction that four warps give together (wgmma), in machine code for sm_90a
// only. It takes the fields from registers, as threads find them in shared memory, and the small matrix straight from
// there, so that around a product nothing is loaded or moved.
//
// Four warps have 64 rows, a number of a field each: sites of one colour that lie side by side, 512 bytes of a field.
// Per product they sum over four fields, real and imaginary parts. Results come four at a time, in chunks as stored.
#pragma once
#include "gpu_kernels/dense/chunks_cuda.h"

namespace milcgpu::cuda {

struct FourWarps {
    static constexpr int warps = 16, threads = 32 * warps, results = 32, fours = results / 4;
    static constexpr int stages = 5; // of four fields each; with more of them, or fewer, it takes longer
    static constexpr int slots = stages + 2, stage_bytes = 512, ring_bytes = warps * slots * stage_bytes;
    // Of the matrix, for four fields: 8 x 64 numbers, real and imaginary parts, in two parts of TF32.
    static constexpr int matrix_numbers = 8 * 2 * results, matrix_bytes = 2 * matrix_numbers * int(sizeof(float));
    static constexpr int tile_sites = 8 * Chunk<SpinorSingle>::sites, tile_bytes = 8 * 16; // of a warp
};

__device__ __forceinline__ unsigned in_shared(const void *p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ float4 read_shared(unsigned from) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
__device__ __forceinline__ void write_shared(unsigned to, const float4 &v) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
template <class X> __device__ __forceinline__ void keep(X &x) { // in a register: it is not computed anew
    if constexpr (sizeof(X) == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MILCGPU_8(how, i)                                                                                              \
    how(d[i]), how(d[i + 1]), how(d[i + 2]), how(d[i + 3]), how(d[i + 4]), how(d[i + 5]), how(d[i + 6]), how(d[i + 7])
#define MILCGPU_32(how) MILCGPU_8(how, 0), MILCGPU_8(how, 8), MILCGPU_8(how, 16), MILCGPU_8(how, 24)
#define MILCGPU_PRODUCT(onto)                                                                                          \
    "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "     \
    "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                 \
    "{%32, %33, %34, %35}, %36, " onto ", 1, 1;"
// d = a b or d += a b, begun. a (64 x 8) is spread as in multiply_tf32, b (8 x 64) is where `b` says.
__device__ __forceinline__ void begin_product(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(MILCGPU_PRODUCT("0") : MILCGPU_32("=f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void add_product(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(MILCGPU_PRODUCT("1") : MILCGPU_32("+f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wait_for_products(float (&d)[32]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : MILCGPU_32("+f")::"memory");
}
#undef MILCGPU_PRODUCT
#undef MILCGPU_32
#undef MILCGPU_8
#endif

// Shared memory: FourWarps::ring_bytes and, for every four fields of x, matrix_bytes. As many blocks for each stripe.
template <bool add>
__global__ void __launch_bounds__(FourWarps::threads, 1)
    rotate_by_four_warps(const DenseView x, const DenseView y, const DenseView plus, const Complex<double> *c,
                         int column_blocks, const int *gate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using F = FourWarps;
    using Chunk = cuda::Chunk<SpinorSingle>;
    constexpr unsigned last_stage = (F::stages - 1) * F::stage_bytes;
    extern __shared__ uint4 ring[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
    const int moved_field = lane / 8, moved_row = lane % 8;
    const int first_column = blockIdx.x % column_blocks * F::results, quads = (x.sources + 3) / 4;
    // Lines of eight chunks, a field each, in an order that gives all banks to those who fill and to those who take.
    const unsigned lines = in_shared(ring) + warp * F::slots * F::stage_bytes;
    unsigned mine = lines + (quad * 8 + (row ^ 2 * quad)) * Chunk::bytes;
    unsigned moved = lines + (moved_field * 8 + (moved_row ^ 2 * moved_field)) * Chunk::bytes;
    keep(mine), keep(moved);
    float *const matrix = reinterpret_cast<float *>(ring + F::ring_bytes / 16);
    const int matrix_numbers = quads * F::matrix_numbers;

    // A block stays in one stripe, its warps side by side, so that addresses grow by a constant from tile to tile.
    const int block = blockIdx.x / column_blocks, blocks_of_stripe = gridDim.x / column_blocks / Chunk::stripes;
    const int stripe = block % Chunk::stripes, apart = blocks_of_stripe * F::warps;
    const int first = block / Chunk::stripes * F::warps + warp, first_of_four = first - warp % 4;
    const int tiles = ((x.sites - 1) / F::tile_sites - first_of_four + apart) / apart; // of the four warps
    int left = x.sites - first * F::tile_sites - moved_row * Chunk::sites; // sites from the first chunk of the tile on
    // What this thread copies and stores: of four fields at a time one, of eight chunks one.
    const auto tile_of = [&](const DenseView &view, int field) {
        return view.data + field * view.source_bytes + stripe * view.stripe_bytes + first * size_t(F::tile_bytes) +
               moved_row * Chunk::bytes;
    };
    const unsigned char *x_tile = tile_of(x, moved_field), *plus_tile = tile_of(plus, first_column + moved_field);
    unsigned char *y_tile = tile_of(y, first_column + moved_field);
    size_t x_apart = 4 * x.source_bytes, y_apart = 4 * y.source_bytes, plus_apart = 4 * plus.source_bytes;
    keep(x_apart), keep(y_apart);
    // Of the stage that is copied next: chunk and number of this thread's field, the first number where there is none,
    // the stage's own number in its tile.
    const unsigned char *ahead = x_tile;
    int field = moved_field, fields = left > 0 ? x.sources : 0, stage = 0, left_ahead = left;
    const auto copy_stage = [&](unsigned place) {
        copy_ahead_if(moved + place, ahead, field < fields);
        end_of_stage();
        ahead += !add || stage < quads ? x_apart : plus_apart, field += 4, ++stage;
        if (add && stage == quads)
            ahead = plus_tile, field = first_column + moved_field, fields = left_ahead > 0 ? y.sources : 0;
        if (stage == quads + (add ? F::fours : 0)) {
            x_tile += apart * F::tile_bytes, plus_tile += apart * F::tile_bytes, left_ahead -= apart * F::tile_sites;
            ahead = x_tile, field = moved_field, fields = left_ahead > 0 ? x.sources : 0, stage = 0;
        }
    };
    unsigned now = 0, before = last_stage; // in the ring: the stage that is taken, the one that is free
    const auto take_stage = [&] {
        wait_for_stage<F::stages - 2>();
        __syncwarp();
        return read_shared(mine + now);
    };
    const auto go_on = [&] {
        copy_stage(before);
        before = now, now = now == last_stage ? 0 : now + F::stage_bytes;
    };
    MILCGPU_UNROLL
    for (int k = 0; k < F::stages - 1; ++k)
        copy_stage(k * F::stage_bytes);

    // Core matrices of 8 columns and 4 numbers, 128 bytes: two, of real and of imaginary parts of x, make 8 numbers,
    // and the next two have the next 8 columns. Columns are real and imaginary part of a result in turn.
    static_assert(F::threads == F::matrix_numbers); // a thread has the same place for every four fields
    const int i = threadIdx.x % 4, j = first_column + threadIdx.x / 64 * 4 + threadIdx.x / 8 % 4;
    const bool im_of_x = threadIdx.x / 32 % 2 == 1, im_of_y = threadIdx.x / 4 % 2 == 1;
    constexpr int at_once = 8; // loads that do not wait for each other
    for (int four = 0; four < quads; four += at_once) {
        double v[at_once];
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
            const int field = 4 * (four + k) + i;
            v[k] = 0;
            if (field < x.sources && j < y.sources)
                v[k] = (&c[field * y.sources + j].re)[im_of_x == im_of_y ? 0 : 1];
        }
        MILCGPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
            const TwoTf32 parts(static_cast<float>(im_of_x && !im_of_y ? -v[k] : v[k]));
            float *const to = matrix + (four + k) * F::matrix_numbers + threadIdx.x;
            if (four + k < quads)
                to[0] = parts.high, to[matrix_numbers] = parts.low;
        }
    }
    asm volatile("fence.proxy.async;" ::: "memory"); // the products read it another way
    __syncthreads();
    // Where b is: from its first to its second four numbers 128 bytes, from 8 columns to the next 256.
    const auto place_of = [](const float *p) { return in_shared(p) >> 4 | (128 >> 4) << 16; };
    const auto b = [](unsigned place) { return place | uint64_t(256 >> 4) << 32; };
    unsigned high_matrix = place_of(matrix), low_matrix = place_of(matrix + matrix_numbers);
    keep(high_matrix), keep(low_matrix);

    for (int tile = 0; tile < tiles; ++tile, left -= apart * F::tile_sites) {
        float sum[4 * F::fours] = {}; // of four results each a chunk
        unsigned high_place = high_matrix, low_place = low_matrix;
#pragma unroll 1
        for (int k = quads; k > 0; --k) {
            const float4 v = take_stage();
            const TwoTf32 a[4] = {TwoTf32(v.x), TwoTf32(v.z), TwoTf32(v.y), TwoTf32(v.w)};
            uint32_t high[4], low[4];
            MILCGPU_UNROLL
            for (int q = 0; q < 4; ++q)
                high[q] = bit_cast<uint32_t>(a[q].high), low[q] = bit_cast<uint32_t>(a[q].low);
            float product[4 * F::fours];
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            begin_product(product, low, b(high_place));
            add_product(product, high, b(low_place));
            add_product(product, high, b(high_place));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            go_on();
            high_place += F::matrix_numbers * sizeof(float) / 16, low_place += F::matrix_numbers * sizeof(float) / 16;
            wait_for_products(product);
            MILCGPU_UNROLL
            for (int q = 0; q < 4 * F::fours; ++q)
                sum[q] += product[q];
        }
        unsigned char *to = y_tile;
        MILCGPU_UNROLL
        for (int four = 0; four < F::fours; ++four, to += y_apart) {
            const unsigned slot = (F::stages + four % 2) * F::stage_bytes;
            float4 result = {sum[4 * four], sum[4 * four + 1], sum[4 * four + 2], sum[4 * four + 3]};
            if (add) {
                const float4 more = take_stage();
                go_on();
                result.x += more.x, result.y += more.y, result.z += more.z, result.w += more.w;
            }
            write_shared(mine + slot, result);
            __syncwarp();
            store(to, bit_cast<uint4>(read_shared(moved + slot)),
                  first_column + 4 * four + moved_field < y.sources ? Chunk::valid(left) : 0);
        }
        y_tile += apart * F::tile_bytes;
    }
#endif
}

} // namespace milcgpu::cuda
