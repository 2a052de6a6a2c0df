// Macros and functions that let the same kernel body compile for the GPU (nvcc) and for the CPU (any C++17 compiler).
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(MILCGPU_WITH_CUDA)
#include <cuda_runtime.h>
#define MILCGPU_HD __host__ __device__ __forceinline__
#define MILCGPU_HD_ONCE MILCGPU_HD
#elif defined(__SANITIZE_ADDRESS__)
#define MILCGPU_HD inline // not forced: under the sanitizers gcc would take minutes for a file
#define MILCGPU_HD_ONCE
#else
#define MILCGPU_HD inline __attribute__((always_inline))
#define MILCGPU_HD_ONCE __attribute__((noinline)) // for functions that are too large to be inlined into each caller
#endif

#if defined(__CUDA_ARCH__)
#define MILCGPU_ON_DEVICE 1
#else
#define MILCGPU_ON_DEVICE 0
#endif

// UNROLL: for loops over 3 colours, 4 directions and so on, whose arrays stay in registers only if the loops are
// unrolled. ROLLED: for rare code, which must not be unrolled.
#if MILCGPU_ON_DEVICE
#define MILCGPU_UNROLL _Pragma("unroll")
#define MILCGPU_UNROLL_TWICE _Pragma("unroll 2")
#define MILCGPU_ROLLED _Pragma("unroll 1")
#else
#define MILCGPU_UNROLL
#define MILCGPU_UNROLL_TWICE
#define MILCGPU_ROLLED
#endif

namespace milcgpu {

// Reads the bits of one type as another type. Only memcpy is defined behaviour on both sides; it compiles to a move.
template <class To, class From> MILCGPU_HD To bit_cast(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

// Upper 32 bits of the 64-bit product, for divisions by a constant.
MILCGPU_HD uint32_t multiply_high(uint32_t a, uint32_t b) {
#if MILCGPU_ON_DEVICE
    return __umulhi(a, b);
#else
    return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
#endif
}

// Returns the same value, but hides its origin from the compiler, which then can neither compute it again at its use
// nor move computations with it out of a loop.
template <class T> MILCGPU_HD T opaque(T value) {
#if MILCGPU_ON_DEVICE
    if constexpr (sizeof(T) == 8)
        asm volatile("" : "+l"(value));
    else
        asm volatile("" : "+r"(value));
#endif
    return value;
}

// Reciprocal and square root of normal numbers: two units in the last place on the GPU, without branches; IEEE
// elsewhere. The root of a negative number is that of zero.
MILCGPU_HD float reciprocal(float x) {
#if MILCGPU_ON_DEVICE
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}
MILCGPU_HD double reciprocal(double x) {
#if MILCGPU_ON_DEVICE
    double y; // of 20 bits or more; one step of third order makes it exact to rounding
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double error = fma(-x, y, 1.0);
    return fma(y, fma(error, error, error), y);
#else
    return 1.0 / x;
#endif
}

MILCGPU_HD float square_root(float x) {
#if MILCGPU_ON_DEVICE
    float y;
    x = fmaxf(x, 1e-30f);
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return x * y;
#else
    return x > 0.0f ? std::sqrt(x) : 0.0f;
#endif
}
MILCGPU_HD double square_root(double x) {
#if MILCGPU_ON_DEVICE
    // At least about 1e-62: compares the upper halves, which are ordered like the numbers.
    x = __hiloint2double(max(__double2hiint(x), 0x33000000), __double2loint(x));
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double root = x * y, error = fma(-root, y, 1.0);
    return fma(root * error, fma(0.375, error, 0.5), root);
#else
    return x > 0.0 ? sqrt(x) : 0.0;
#endif
}

// How a load uses the caches. stream: data are read once and must not displace others (links). keep: data are reused
// and not written in this launch (neighbour spinors, up to 16 times). written: this thread writes the same place later.
enum class Reuse { stream, keep, written };

// Device memory is striped: first come the first words of all elements, then the second words, and so on. So loads of
// neighbouring threads coalesce. Host memory holds the words of an element together, because a CPU cannot prefetch the
// 144 streams of words of 16 links. A build with MILCGPU_STRIPED (make STRIPED=1) stripes host memory as well, so that
// tests and sanitizers check the device's index arithmetic.
#if MILCGPU_ON_DEVICE || defined(MILCGPU_STRIPED)
#define MILCGPU_STRIPES 1
#else
#define MILCGPU_STRIPES 0
#endif

#if MILCGPU_ON_DEVICE
template <Reuse reuse, class T> __device__ __forceinline__ T load_as(const unsigned char *from) {
    const T *p = reinterpret_cast<const T *>(from);
    if constexpr (reuse == Reuse::stream)
        return __ldcs(p);
    else if constexpr (reuse == Reuse::keep)
        return __ldg(p);
    else
        return *p;
}

// `Bytes` (16, 8, 4 or 2) into 32-bit words.
template <int Bytes, Reuse reuse> __device__ __forceinline__ void load_word(const unsigned char *from, uint32_t *to) {
    if constexpr (Bytes == 16) {
        const uint4 v = load_as<reuse, uint4>(from);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (Bytes == 8) {
        const uint2 v = load_as<reuse, uint2>(from);
        to[0] = v.x, to[1] = v.y;
    } else if constexpr (Bytes == 4) {
        to[0] = load_as<reuse, unsigned>(from);
    } else {
        to[0] = load_as<reuse, unsigned short>(from);
    }
}

template <int Bytes> __device__ __forceinline__ void store_word(unsigned char *to, const uint32_t *from) {
    if constexpr (Bytes == 16)
        *reinterpret_cast<uint4 *>(to) = make_uint4(from[0], from[1], from[2], from[3]);
    else if constexpr (Bytes == 8)
        *reinterpret_cast<uint2 *>(to) = make_uint2(from[0], from[1]);
    else if constexpr (Bytes == 4)
        *reinterpret_cast<unsigned *>(to) = from[0];
    else
        *reinterpret_cast<unsigned short *>(to) = static_cast<unsigned short>(from[0]);
}
#else
template <int Bytes, Reuse> void load_word(const unsigned char *from, uint32_t *to) {
    if constexpr (Bytes < 4)
        to[0] = 0;
    memcpy(to, from, Bytes);
}
template <int Bytes> void store_word(unsigned char *to, const uint32_t *from) { memcpy(to, from, Bytes); }
#endif

// The place of a word of site i in an array striped over `stride` sites. before: bytes of earlier words of a site, a
// multiple of `word`. Index arithmetic is in 32 bits for speed, so arrays have at most 2^32 words.
// short_way: keeps the compiler from computing the place in 64 bits, which takes up to four times the instructions.
template <int word, bool short_way = false, class Byte>
MILCGPU_HD Byte *place(Byte *array, int before, size_t stride, size_t i) {
    const uint32_t index = before / word * static_cast<uint32_t>(stride) + static_cast<uint32_t>(i);
    return array + size_t(short_way ? opaque(index) : index) * word;
}

// Element i of an array of `stride` elements. An element of `bytes` bytes is stored in words of `word` bytes; the rest
// is stored in shorter words.
template <int bytes, int word, Reuse reuse, bool short_way = false>
MILCGPU_HD void load_element(const unsigned char *array, size_t stride, size_t i, uint32_t *to) {
#if MILCGPU_STRIPES
    constexpr int rest = bytes % word;
    MILCGPU_UNROLL
    for (int k = 0; k < bytes / word; ++k)
        load_word<word, reuse>(place<word, short_way>(array, k * word, stride, i), to + k * word / 4);
    if constexpr ((rest & 8) != 0)
        load_word<8, reuse>(place<8, short_way>(array, bytes & ~15, stride, i), to + (bytes & ~15) / 4);
    if constexpr ((rest & 4) != 0)
        load_word<4, reuse>(place<4, short_way>(array, bytes & ~7, stride, i), to + (bytes & ~7) / 4);
    if constexpr ((rest & 2) != 0)
        load_word<2, reuse>(place<2, short_way>(array, bytes & ~3, stride, i), to + (bytes & ~3) / 4);
#else
    constexpr int elements_ahead = 8, cache_line = 64;
    static_cast<void>(stride);
    if constexpr (reuse == Reuse::stream) // prefetches an element that a loop over elements reads soon
        for (int line = 0; line < bytes; line += cache_line)
            __builtin_prefetch(array + (i + elements_ahead) * bytes + line);
    to[(bytes - 1) / 4] = 0;
    memcpy(to, array + i * bytes, bytes);
#endif
}

template <int bytes, int word>
MILCGPU_HD void store_element(unsigned char *array, size_t stride, size_t i, const uint32_t *from) {
#if MILCGPU_STRIPES
    constexpr int rest = bytes % word;
    MILCGPU_UNROLL
    for (int k = 0; k < bytes / word; ++k)
        store_word<word>(place<word>(array, k * word, stride, i), from + k * word / 4);
    if constexpr ((rest & 8) != 0)
        store_word<8>(place<8>(array, bytes & ~15, stride, i), from + (bytes & ~15) / 4);
    if constexpr ((rest & 4) != 0)
        store_word<4>(place<4>(array, bytes & ~7, stride, i), from + (bytes & ~7) / 4);
    if constexpr ((rest & 2) != 0)
        store_word<2>(place<2>(array, bytes & ~3, stride, i), from + (bytes & ~3) / 4);
#else
    static_cast<void>(stride);
    memcpy(array + i * bytes, from, bytes);
#endif
}

// Atomics on integers, whose results do not depend on the order. Floating-point atomics are not used anywhere. All
// threads of a warp that call one together must name the same target, because the warp combines its values first.
// (Millions of atomics on one word would take longer than the rest of the kernel.)
MILCGPU_HD void atomic_max(uint32_t *target, uint32_t value) {
#if MILCGPU_ON_DEVICE
    const unsigned active = __activemask();
    value = __reduce_max_sync(active, value);
    if (threadIdx.x % 32 == __ffs(active) - 1)
        atomicMax(target, value);
#else
    uint32_t seen = __atomic_load_n(target, __ATOMIC_RELAXED);
    while (seen < value &&
           !__atomic_compare_exchange_n(target, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
#endif
}

MILCGPU_HD void atomic_max(uint64_t *target, uint64_t value) {
#if MILCGPU_ON_DEVICE
    const unsigned active = __activemask(), upper = static_cast<unsigned>(value >> 32),
                   largest = __reduce_max_sync(active, upper),
                   lower = __reduce_max_sync(active, upper == largest ? static_cast<unsigned>(value) : 0u);
    if (threadIdx.x % 32 == __ffs(active) - 1)
        atomicMax(reinterpret_cast<unsigned long long *>(target),
                  static_cast<unsigned long long>(largest) << 32 | lower);
#else
    uint64_t seen = __atomic_load_n(target, __ATOMIC_RELAXED);
    while (seen < value &&
           !__atomic_compare_exchange_n(target, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
#endif
}

MILCGPU_HD void atomic_add(uint64_t *target, uint64_t value) {
#if MILCGPU_ON_DEVICE
    const unsigned active = __activemask();
    unsigned long long sum = 0;
    for (int shift = 0; shift < 64; shift += 27) // the instruction adds 32 bits, which holds 32 numbers of 27 bits
        sum += static_cast<unsigned long long>(
                   __reduce_add_sync(active, static_cast<unsigned>(value >> shift & ((1u << 27) - 1))))
               << shift;
    if (threadIdx.x % 32 == __ffs(active) - 1)
        atomicAdd(reinterpret_cast<unsigned long long *>(target), sum);
#else
    __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
#endif
}

} // namespace milcgpu
