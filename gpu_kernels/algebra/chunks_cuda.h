// What the dense kernels share on the GPU: fields in chunks of 16 bytes, copied ahead to shared memory, and products by
// the matrix units.
//
// A product may sum over its numbers in any order, if both factors have the same one. So chunks have the order in which
// the instructions read a thread's numbers, and nothing is transposed. A warp copies whole lines of 128 bytes, and its
// threads read each other's chunks from shared memory, in another order but from all banks. (When each thread copied
// its own chunk, in pieces of 32 bytes, bandwidth was half to two thirds.)
#pragma once
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/fields/spinor_storage.h"
#include "gpu_kernels/machine/backend/copy_ahead_cuda.h"
#include "gpu_kernels/machine/backend/launch.h"

namespace milcgpu::cuda {

constexpr int dense_threads = 256, dense_warps = dense_threads / 32;

// 16 bytes of a source. stripes: arrays of a source; sites: sites in a chunk; numbers: numbers in a chunk, one for each
// colour (half) or each site.
template <class S> struct Chunk {
    static constexpr int bytes = 16, stripes = S::words, sites = bytes / S::word_bytes;
    static constexpr int numbers = sites * 3 / stripes;
    // Bytes of a chunk inside the field, if `left` sites are left: other data may follow.
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
// Stores the first `valid` bytes of a chunk: none, half (single precision) or all.
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

__device__ __forceinline__ double negative(double x) { // by the integer unit, because the others are busy
    return __hiloint2double(__double2hiint(x) ^ 0x80000000, __double2loint(x));
}

// d += a b in double. A thread holds: of a (16 x 8) rows lane / 4 and lane / 4 + 8 in columns lane % 4 (re) and lane %
// 4 + 4 (im); of b (8 x 8) rows lane % 4 (re) and lane % 4 + 4 (im) of column lane / 4; of d rows lane / 4 and lane / 4
// + 8 in columns 2 (lane % 4) and 2 (lane % 4) + 1.
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

// As above in single. TF32 keeps 10 bits of a fraction, so a number is the sum of two TF32 numbers, exactly if the
// first is rounded to nearest. Of their four products the smallest, 2^-24, is omitted. The units truncate their sums,
// so each product is summed separately and added to the others in FP32, which rounds.
struct TwoTf32 {
    float high, low;
    TwoTf32() = default;
    // `low` of a NaN is NaN, because the bits of a NaN may overflow in `high`.
    explicit __device__ __forceinline__ TwoTf32(float x)
        : high(bit_cast<float>((bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u)), low(x - high) {}
};
__device__ __forceinline__ TwoTf32 negative(TwoTf32 x) {
    x.high = -x.high, x.low = -x.low;
    return x;
}
// A number in the form that multiply_16 takes.
__device__ __forceinline__ Complex<double> factor(Complex<double> v) { return v; }
__device__ __forceinline__ Complex<TwoTf32> factor(Complex<float> v) { return {TwoTf32(v.re), TwoTf32(v.im)}; }
__device__ __forceinline__ void multiply_tf32(float (&d)[2], float (&below)[2], float a, float a_below, float a_im,
                                              float a_im_below, float b, float b_im) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(below[0]), "+f"(below[1])
        : "r"(bit_cast<uint32_t>(a)), "r"(bit_cast<uint32_t>(a_below)), "r"(bit_cast<uint32_t>(a_im)),
          "r"(bit_cast<uint32_t>(a_im_below)), "r"(bit_cast<uint32_t>(b)), "r"(bit_cast<uint32_t>(b_im)));
}
__device__ __forceinline__ void multiply_16(float (&d)[2], float (&below)[2], const Complex<TwoTf32> &a,
                                            const Complex<TwoTf32> &a_below, const Complex<TwoTf32> &b) {
    float sum[2] = {}, sum_below[2] = {};
    multiply_tf32(sum, sum_below, a.re.low, a_below.re.low, a.im.low, a_below.im.low, b.re.high, b.im.high);
    multiply_tf32(sum, sum_below, a.re.high, a_below.re.high, a.im.high, a_below.im.high, b.re.low, b.im.low);
    multiply_tf32(sum, sum_below, a.re.high, a_below.re.high, a.im.high, a_below.im.high, b.re.high, b.im.high);
    MILCGPU_UNROLL
    for (int k = 0; k < 2; ++k)
        d[k] += sum[k], below[k] += sum_below[k];
}

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
template <class X> __device__ __forceinline__ void keep(X &x) { // in a register, so that it is not computed again
    if constexpr (sizeof(X) == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
}

} // namespace milcgpu::cuda
