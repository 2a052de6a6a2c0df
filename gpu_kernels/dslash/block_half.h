// One half of a step of block conjugate gradient in a launch: D of 5 to 16 sources, and what the step does with it at a
// site. On the GPU, in single precision, on a lattice that is not cut.
//
//   first    out = D in                                    <out, out>
//   second   r += (a x - D in) minus_alpha                 <r, r>
//
// Two warps have the same 32 sites, half of the sources each. Links are copied ahead to shared memory and used by both.
// Then the sources of a site meet in shared memory. A Gram matrix is cut into blocks of 4 x 4, those on and above the
// diagonal; each thread has a block and some of the 96 numbers of a source. It multiplies and adds up 192 floats at
// most; sums over the tiles are in double.
//
// Bytes a site and source: a spinor read and one written; second: two more read. Links once. Flops: D, and 24 a source
// for each other source.
#pragma once
#include "gpu_kernels/dslash/dslash.h"
#include "gpu_kernels/dslash/stencil.h"

namespace milcgpu {

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

constexpr int half_sites = 32, half_threads = 2 * half_sites, half_numbers = 3 * half_sites;

// most: sources that there is room for, 8, 12 or 16.
template <int most> struct BlockHalfShape {
    static constexpr int quads = most / 4, pairs = quads * (quads + 1) / 2; // blocks of the Gram matrix
    static constexpr int parts = half_threads / pairs;                      // threads that share a block
    static constexpr int sums = 32 * pairs;                                 // numbers that a tile leaves
    static constexpr int row = half_numbers + 3; // from one source to the next, with less conflicts of banks
    static constexpr int blocks = most > 12 ? 6 : 8;
};
// Block k on and above the diagonal of quads x quads blocks.
struct BlockPlace {
    int row = 0, column;
    __device__ __forceinline__ BlockPlace(int k, int quads) : column(k) {
        while (column >= quads - row && row < quads)
            column -= quads - row, ++row;
        column += row;
    }
};

template <int bytes> __device__ __forceinline__ void copy_word_ahead(void *shared, const unsigned char *from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
}

template <int reals> struct BlockHalf : SourcesHops<Lattice, SpinorSingle, Precision::single, reals> {
    using Vec = Vector<float>;
    static constexpr int fat_words = (RawLink<Precision::single, 18>::bytes + 15) / 16;
    static constexpr int stages = 4; // of links: fat ahead, fat behind, long ahead, long behind

    int sites, sources;
    unsigned char *out;     // of the first half
    const unsigned char *x; // of the second
    unsigned char *r;
    const Complex<double> *minus_alpha;
    float a;
    float *sums; // those of a tile together

    __device__ __forceinline__ int neighbour(const Site &site, int mu, int kind) const {
        const int hops = kind < 2 ? 1 : this->lattice.third_hop[mu];
        return kind % 2 == 0 ? this->lattice.forward(site, mu, hops) : this->lattice.backward(site, mu, hops);
    }
    // This warp's half of the words of a link.
    template <int of_reals>
    __device__ __forceinline__ void copy_link(uint4 (*to)[half_sites], const unsigned char *block, int i, int half,
                                              int lane) const {
        constexpr int bytes = RawLink<Precision::single, of_reals>::bytes;
        MILCGPU_UNROLL
        for (int w = 0; w < (bytes + 15) / 16; ++w)
            if (w % 2 == half) {
                if ((w + 1) * 16 <= bytes)
                    copy_word_ahead<16>(&to[w][lane], place<16>(block, w * 16, this->link_stride, i));
                else
                    copy_word_ahead<bytes % 16 == 0 ? 16 : bytes % 16>(
                        &to[w][lane], place<bytes % 16 == 0 ? 16 : bytes % 16>(block, w * 16, this->link_stride, i));
            }
    }
    template <int of_reals>
    __device__ __forceinline__ RawLink<Precision::single, of_reals> take_link(const uint4 (*from)[half_sites],
                                                                              int lane) const {
        RawLink<Precision::single, of_reals> raw;
        constexpr int words = sizeof raw.w / 4;
        MILCGPU_UNROLL
        for (int k = 0; k < words; k += 4) {
            const uint4 v = from[k / 4][lane];
            const uint32_t four[4] = {v.x, v.y, v.z, v.w};
            MILCGPU_UNROLL
            for (int j = 0; j < 4 && k + j < words; ++j)
                raw.w[k + j] = four[j];
        }
        return raw;
    }

    // D of the sources of this thread. ring: room for the links.
    template <int count>
    __device__ __forceinline__ void hop(uint4 (*ring)[fat_words][half_sites], int i, int half, int lane,
                                        const unsigned char *const (&from)[count], Vec (&sum)[count]) const {
        const Site site = this->lattice.site(this->parity, i);
        const auto copy = [&](int kind, int mu) {
            const int at = kind % 2 == 0 ? i : neighbour(site, mu, kind);
            if (kind < 2)
                copy_link<18>(ring[kind], this->fat[kind % 2] + mu * this->fat_block, at, half, lane);
            else
                copy_link<reals>(ring[kind], this->lng[kind % 2] + mu * this->long_block, at, half, lane);
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
        MILCGPU_UNROLL
        for (int kind = 0; kind < stages - 1; ++kind)
            copy(kind, 0);
        MILCGPU_ROLLED
        for (int mu = 0; mu < 4; ++mu)
            MILCGPU_UNROLL
        for (int kind = 0; kind < stages; ++kind) {
            const int at = neighbour(site, mu, kind);
            Vec v[count];
            MILCGPU_UNROLL
            for (int k = 0; k < count; ++k)
                v[k] = load_spinor<SpinorSingle>(from[k], this->stride, at);
            asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
            __syncthreads();
            if (kind == 0 || mu < 3)
                copy((kind + stages - 1) % stages, kind == 0 ? mu : mu + 1);
            else
                asm volatile("cp.async.commit_group;" ::: "memory");
            const auto apply = [&](const auto &link, const auto &prepared) {
                MILCGPU_UNROLL
                for (int k = 0; k < count; ++k) {
                    if (kind % 2 == 0)
                        link.add_forward(sum[k], prepared(v[k]));
                    else
                        link.subtract_backward(sum[k], prepared(v[k]));
                }
            };
            if (kind < 2) {
                apply(Link<Precision::single, 18>(take_link<18>(ring[kind], lane)), [](const Vec &u) { return u; });
            } else {
                Link<Precision::single, reals> link(take_link<reals>(ring[kind], lane));
                if constexpr (!link.pivoted)
                    link.scale(this->long_in_units);
                apply(link, [&](const Vec &u) { return this->beside_long_link(u); });
            }
        }
    }
};

template <int reals, int most, bool second>
__global__ void __launch_bounds__(half_threads, BlockHalfShape<most>::blocks)
    run_block_half(const BlockHalf<reals> body, const int *gate) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using H = BlockHalfShape<most>;
    using Vec = Vector<float>;
    constexpr int count = most / 2;
    using Ring = uint4[BlockHalf<reals>::stages][BlockHalf<reals>::fat_words][half_sites];
    constexpr int tile_bytes = H::row * most * sizeof(Complex<float>), sum_bytes = 32 * half_threads * sizeof(float);
    constexpr int large = tile_bytes > sum_bytes ? tile_bytes : sum_bytes;
    constexpr int room_bytes = large > int(sizeof(Ring)) ? large : sizeof(Ring);
    __shared__ __align__(16) unsigned char room[room_bytes];
    __shared__ float4 matrix[second ? most : 1][most / 2];
    const int lane = threadIdx.x % half_sites, half = threadIdx.x / half_sites, first = half * count;
    const int site = blockIdx.x * half_sites + lane, i = min(site, body.sites - 1);
    const bool there = site < body.sites;
    const auto offset = [&](int k) { return min(first + k, body.sources - 1) * body.source_bytes; };

    if (second)
        for (int k = threadIdx.x; k < most * most; k += half_threads) {
            const int row = k / most, column = k % most;
            const bool inside = row < body.sources && column < body.sources;
            reinterpret_cast<Complex<float> *>(matrix[row])[column] =
                convert<float>(inside ? body.minus_alpha[row * body.sources + column] : Complex<double>{});
        }
    Vec d[count] = {};
    {
        const unsigned char *from[count];
        MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            from[k] = body.in + offset(k);
        body.hop(*reinterpret_cast<Ring *>(room), i, half, lane, from, d);
    }
    auto *const tile = reinterpret_cast<Complex<float>(*)[H::row]>(room); // [source][colour, site]
    const auto put = [&](int k, const Vec &v) { // zero for sites and sources that are not there
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            tile[first + k][c * half_sites + lane] =
                there && first + k < body.sources ? v.c[c] : Complex<float>{0, 0};
    };
    __syncthreads(); // the ring has been read
    if (second) {
        MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            put(k, body.a * load_spinor<SpinorSingle>(body.x + offset(k), body.stride, i) - body.scaled({d[k]}));
        MILCGPU_UNROLL
        for (int k = 0; k < count; ++k)
            d[k] = load_spinor<SpinorSingle, Reuse::written>(body.r + offset(k), body.stride, i);
        __syncthreads();
        MILCGPU_UNROLL_TWICE
        for (int j = 0; j < most; ++j) {
            const Complex<float> s[3] = {tile[j][lane], tile[j][half_sites + lane], tile[j][2 * half_sites + lane]};
            MILCGPU_UNROLL
            for (int k = 0; k < count; k += 2) {
                const float4 m = matrix[j][(first + k) / 2];
                MILCGPU_UNROLL
                for (int c = 0; c < 3; ++c) {
                    d[k].c[c] = plus(d[k].c[c], {m.x, m.y}, s[c]);
                    d[k + 1].c[c] = plus(d[k + 1].c[c], {m.z, m.w}, s[c]);
                }
            }
        }
        __syncthreads();
    }
    MILCGPU_UNROLL
    for (int k = 0; k < count; ++k) {
        const Vec v = second ? d[k] : body.scaled({d[k]});
        put(k, v);
        if (there && first + k < body.sources)
            store_spinor<SpinorSingle>((second ? body.r : body.out) + offset(k), body.stride, i, v);
    }
    __syncthreads();

    const int block = min(int(threadIdx.x) / H::parts, H::pairs - 1), part = threadIdx.x - block * H::parts;
    const BlockPlace at(block, H::quads);
    float sum[4][4][2] = {};
    if (part < H::parts)
        for (int q = part; q < half_numbers; q += H::parts) {
            Complex<float> u[4], v[4];
            MILCGPU_UNROLL
            for (int k = 0; k < 4; ++k)
                u[k] = conj(tile[4 * at.row + k][q]), v[k] = tile[4 * at.column + k][q];
            MILCGPU_UNROLL
            for (int j = 0; j < 4; ++j)
                MILCGPU_UNROLL
            for (int k = 0; k < 4; ++k) {
                const Complex<float> next = plus(Complex<float>{sum[j][k][0], sum[j][k][1]}, u[j], v[k]);
                sum[j][k][0] = next.re, sum[j][k][1] = next.im;
            }
        }
    __syncthreads();
    float *const shared = reinterpret_cast<float *>(room);
    MILCGPU_UNROLL
    for (int k = 0; k < 32; ++k)
        shared[k * half_threads + threadIdx.x] = sum[k / 8][k / 2 % 4][k % 2];
    __syncthreads();
    for (int k = threadIdx.x; k < H::sums; k += half_threads) {
        const float *const of_parts = shared + k % 32 * half_threads + k / 32 * H::parts;
        float total = of_parts[0];
        MILCGPU_UNROLL
        for (int other = 1; other < H::parts; ++other)
            total += of_parts[other];
        body.sums[size_t(blockIdx.x) * H::sums + k] = total;
    }
}

// The sums of all tiles: 8 numbers a block, each by 128 threads.
constexpr int tile_sum_threads = 1024, tile_sum_numbers = 8;
template <int most>
__global__ void __launch_bounds__(tile_sum_threads)
    sum_tiles(const float *sums, int tiles, int n, const int *gate, Complex<double> *gram) {
    wait_for_previous();
    if (gate != nullptr && *gate == 0)
        return;
    using H = BlockHalfShape<most>;
    constexpr int lanes = tile_sum_threads / tile_sum_numbers;
    __shared__ double of_lane[lanes][tile_sum_numbers];
    const int lane = threadIdx.x / tile_sum_numbers, own = threadIdx.x % tile_sum_numbers;
    const int number = blockIdx.x * tile_sum_numbers + own;
    double total = 0;
#pragma unroll 16
    for (int tile = lane; tile < tiles; tile += lanes)
        total += double(sums[size_t(tile) * H::sums + number]);
    of_lane[lane][own] = total;
    MILCGPU_UNROLL
    for (int other = lanes / 2; other > 0; other /= 2) {
        __syncthreads();
        if (lane < other)
            of_lane[lane][own] += of_lane[lane + other][own];
    }
    if (lane > 0)
        return;
    const BlockPlace at(number / 32, H::quads);
    const int row = 4 * at.row + number % 32 / 8, column = 4 * at.column + number % 8 / 2, im = number % 2;
    if (row >= n || column >= n || row > column)
        return;
    total = of_lane[0][own];
    double *const to = &gram->re;
    to[2 * (row * n + column) + im] = row == column && im == 1 ? 0 : total;
    if (row < column)
        to[2 * (column * n + row) + im] = im == 1 ? -total : total;
}

template <int reals, int most> void launch_block_half(Device &device, const BlockDslashCall &call) {
    BlockHalf<reals> body{};
    fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
    body.set_unit();
    body.stride = call.in.stride, body.source_bytes = call.in.source_bytes;
    body.in = call.in.data, body.out = call.out.data;
    body.sites = call.lattice.sites(call.parity), body.sources = call.in.sources;
    body.x = call.x.data, body.r = call.r.data;
    body.minus_alpha = call.minus_alpha, body.a = static_cast<float>(call.a);
    body.sums = reinterpret_cast<float *>(call.room);
    const int tiles = (body.sites + half_sites - 1) / half_sites;
    start(device, "half of a step of a block", tiles, half_threads,
          call.r ? run_block_half<reals, most, true> : run_block_half<reals, most, false>, body, call.gate);
    start(device, "sums of half of a step", BlockHalfShape<most>::sums / tile_sum_numbers, tile_sum_threads,
          sum_tiles<most>, static_cast<const float *>(body.sums), tiles, body.sources, call.gate, call.gram);
}

} // namespace cuda
#endif

} // namespace milcgpu
