// What the dense kernels share on the GPU: fields in chunks of 16 bytes, copied ahead to shared memory, and products by
// the matrix units.
//
// The order of the numbers that a product sums over is free as long as both factors have the same. So chunks are what
// the instructions want from a thread, and nothing has to be turned round. A warp copies whole lines of 128 bytes, and
// its threads read each other's chunks from shared memory, in another order but in all its banks. (Each thread copying
// its own chunk, pieces of 32 bytes, had half to two thirds of the bandwidth.)
#pragma once
#include "gpu_kernels/backend/copy_ahead_cuda.h"
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/su3/fields.h"

namespace milcgpu::cuda {

constexpr int dense_threads = 256, dense_warps = dense_threads / 32;

// 16 bytes of a source. stripes: arrays that a source consists of; sites: that a chunk covers; numbers: in a chunk, a
// colour each (half) or a site each.
template <class S> struct Chunk {
    static constexpr int bytes = 16, stripes = S::words, sites = bytes / S::word_bytes;
    static constexpr int numbers = sites * 3 / stripes;
    // Bytes that hold sites of the field, where `left` sites are left: behind them may be other data.
    static __device__ __forceinline__ int valid(int left) {
        return left >= sites ? bytes : left > 0 ? S::word_bytes : 0;
    }
};

__device__ __forceinline__ void decode(SpinorDouble, const uint4 &raw, Complex<double> *to) {
    to[0] = bit_cast<Complex<double>>(raw);
}
template <class Real> __device__ __forceinline__ void decode(SpinorSingle, const uint4 &raw, Complex<Real> *to) {
    const float4 v = bit_cast<float4>(raw);
    to[0] = {v.x, v.y}, to[1] = {v.z, v.w};
}
template <class Real> __device__ __forceinline__ void decode(SpinorHalf, const uint4 &raw, Complex<Real> *to) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    const Vector<float> v = SpinorHalf::decode(words);
    MILCGPU_UNROLL
    for (int k = 0; k < 3; ++k)
        to[k] = convert<Real>(v.c[k]);
}

__device__ __forceinline__ uint4 encode(SpinorDouble, const Complex<double> *v) { return bit_cast<uint4>(v[0]); }
__device__ __forceinline__ uint4 encode(SpinorSingle, const Complex<float> *v) {
    return bit_cast<uint4>(float4{v[0].re, v[0].im, v[1].re, v[1].im});
}
__device__ __forceinline__ uint4 encode(SpinorHalf, const Complex<float> *v) {
    uint32_t words[4];
    SpinorHalf::encode({{v[0], v[1], v[2]}}, words);
    return make_uint4(words[0], words[1], words[2], words[3]);
}
// The first `valid` bytes of a chunk: none, half (single precision) or all.
__device__ __forceinline__ void store(unsigned char *to, const uint4 &chunk, int valid) {
    if (valid == 16)
        *reinterpret_cast<uint4 *>(to) = chunk;
    else if (valid == 8)
        *reinterpret_cast<uint2 *>(to) = make_uint2(chunk.x, chunk.y);
}

// Fields of one block as kernels take them.
struct DenseView {
    unsigned char *data;
    size_t source_bytes, stripe_bytes;
    int sources, sites;
    explicit DenseView(const SpinorBlock &b)
        : data(b.data), source_bytes(b.source_bytes),
          stripe_bytes(b.stride * (b.precision == Precision::single ? 8 : 16)), sources(b.sources), sites(b.sites) {}
};

__device__ __forceinline__ double negative(double x) { // by the integer unit; the others are busy
    return __hiloint2double(__double2hiint(x) ^ 0x80000000, __double2loint(x));
}

// d += a b in double. Of a (16 x 8) a thread has row lane / 4 in columns lane % 4 (re) and that plus 4 (im), and the
// row that is 8 below; of b (8 x 8) the same numbers of column lane / 4; of d row lane / 4 in columns 2 (lane % 4) and
// the next, and the row that is 8 below.
__device__ __forceinline__ void multiply_16(double (&d)[2], double (&below)[2], Complex<double> a,
                                            Complex<double> a_below, Complex<double> b) {
#if __CUDA_ARCH__ >= 900 // twice as fast as two of half the size
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(below[0]), "+d"(below[1])
        : "d"(a.re), "d"(a_below.re), "d"(a.im), "d"(a_below.im), "d"(b.re), "d"(b.im));
#else
    const auto multiply_8 = [](double(&to)[2], double left, double right) {
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(to[0]), "+d"(to[1])
            : "d"(left), "d"(right));
    };
    multiply_8(d, a.re, b.re);
    multiply_8(d, a.im, b.im);
    multiply_8(below, a_below.re, b.re);
    multiply_8(below, a_below.im, b.im);
#endif
}

// d += a b for two tiles of rows (16 x 8) and one of columns (8 x 8), or half as many terms: of a thread are rows lane
// / 4 and the one that is 8 below, column lane / 4, terms lane % 4 and that plus 4.
template <class Real> struct Rows;
template <class Real> struct Column;
template <> struct Rows<double> {
    Complex<double> row, below;
    __device__ __forceinline__ void set(int four, double v, double v_below) {
        if (four == 0)
            row = {v, 0}, below = {v_below, 0};
        else
            row.im = v, below.im = v_below;
    }
};
template <> struct Column<double> { double one, other; };
__device__ __forceinline__ Column<double> negative(const Column<double> &c) {
    return {negative(c.one), negative(c.other)};
}
template <int terms>
__device__ __forceinline__ void multiply(double (&d)[2][2], const Rows<double> &a, const Column<double> &b) {
    multiply_16(d[0], d[1], a.row, a.below, {b.one, b.other});
}

// In single, TF32 keeps 10 bits of a fraction, so a number is the sum of two of these, exactly if the first is rounded
// to nearest; of their four products the smallest, 2^-24, is left out. The units cut what they add up, so each product
// is summed by itself and added to the others in FP32, which rounds.
struct TwoTf32 {
    float high, low;
    // Of a NaN, whose bits may run over in `high`, `low` is one.
    explicit __device__ __forceinline__ TwoTf32(float x)
        : high(bit_cast<float>((bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u)), low(x - high) {}
};
template <> struct Rows<float> {
    float high[4], low[4]; // row, below of the first four terms, of the others
    __device__ __forceinline__ void set(int four, float v, float v_below) {
        const TwoTf32 parts(v), of_below(v_below);
        high[2 * four] = parts.high, high[2 * four + 1] = of_below.high;
        low[2 * four] = parts.low, low[2 * four + 1] = of_below.low;
    }
};
template <> struct alignas(16) Column<float> {
    float high[2], low[2];
    Column() = default;
    __device__ __forceinline__ Column(float one, float other) {
        const TwoTf32 a(one), b(other);
        high[0] = a.high, high[1] = b.high, low[0] = a.low, low[1] = b.low;
    }
};
__device__ __forceinline__ Column<float> negative(Column<float> c) {
    MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k)
        c.high[k] = -c.high[k], c.low[k] = -c.low[k];
    return c;
}
template <int terms>
__device__ __forceinline__ void multiply_tf32(float (&d)[2][2], const float (&a)[4], const float (&b)[2]) {
    const auto bits = [](float x) { return bit_cast<uint32_t>(x); };
    if (terms == 8)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
            : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b[0])), "r"(bits(b[1])));
    else
        asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
            : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(b[0])));
}
template <int terms>
__device__ __forceinline__ void multiply(float (&d)[2][2], const Rows<float> &a, const Column<float> &b) {
    float sum[2][2] = {};
    multiply_tf32<terms>(sum, a.low, b.high);
    multiply_tf32<terms>(sum, a.high, b.low);
    multiply_tf32<terms>(sum, a.high, b.high);
    MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k)
        d[k][0] += sum[k][0], d[k][1] += sum[k][1];
}

} // namespace milcgpu::cuda
