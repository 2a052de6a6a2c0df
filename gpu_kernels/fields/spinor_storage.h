// How a colour vector (spinor) of one site is stored, a struct for each precision. In device memory arrays are striped:
// word k of site i has word index k*stride + i. On the host backend the words of a site are contiguous.
//
//   double  3 words of 16 bytes (one colour each)
//   single  3 words of 8 bytes
//   half    1 word of 16 bytes: six 20-bit fixed-point numbers and an 8-bit binary exponent that they share.
//
// The half format moves the same 16 bytes as six 16-bit numbers with a float norm, and is 16 times finer: only the
// norm's exponent is stored, and the other 24 bits go to the components. Rounding of the stored vectors is what makes
// conjugate gradient in half precision take more iterations. Errors: relative to the largest component of the site
// 2^-54, 2^-25, 2^-19. Half holds components up to 5e36; larger ones, NaN and infinity make the whole site NaN
// (exponent 255), so they are never lost.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/fields/su3.h"

namespace milcgpu {

struct SpinorDouble {
    using Real = double;
    static constexpr Precision precision = Precision::double_;
    static constexpr int words = 3, word_bytes = 16;
    static MILCGPU_HD Vector<double> decode(const uint32_t *raw) {
        Vector<double> x;
        memcpy(&x, raw, sizeof x);
        return x;
    }
    static MILCGPU_HD void encode(const Vector<double> &x, uint32_t *raw) { memcpy(raw, &x, sizeof x); }
};

struct SpinorSingle {
    using Real = float;
    static constexpr Precision precision = Precision::single;
    static constexpr int words = 3, word_bytes = 8;
    static MILCGPU_HD Vector<float> decode(const uint32_t *raw) {
        Vector<float> x;
        memcpy(&x, raw, sizeof x);
        return x;
    }
    static MILCGPU_HD void encode(const Vector<float> &x, uint32_t *raw) { memcpy(raw, &x, sizeof x); }
};

// Words, from the highest bits down: w0 = v4hi v0, w1 = v4lo e_hi v1, w2 = v5hi v2, w3 = v5lo e_lo v3, with v0..v3 in
// the lower 20 bits; v4, v5 and e share the upper 12 bits as 12 / 8+4. v is offset binary: v - 2^19 in [-2^19 + 1, 2^19
// - 1], in units of 2^(e - 127).
struct SpinorHalf {
    using Real = float;
    static constexpr Precision precision = Precision::half;
    static constexpr int words = 1, word_bytes = 16;

    // Bias of x in load(): a real is scale * (x - bias).
    static constexpr float bias = 8388608.0f + 524288.0f; // 2^23 + 2^19
    struct Biased {
        Vector<float> x;
        float scale;
        MILCGPU_HD explicit Biased(const uint32_t *w)
            : x{{{bit_cast<float>(low_20(w[0])), bit_cast<float>(low_20(w[1]))},
                 {bit_cast<float>(low_20(w[2])), bit_cast<float>(low_20(w[3]))},
                 {bit_cast<float>(high_12_and_8(w[0], w[1])), bit_cast<float>(high_12_and_8(w[2], w[3]))}}},
              scale(scale_of(w)) {}
    };

    static MILCGPU_HD Vector<float> decode(const uint32_t *w) {
        // A 20-bit number under the exponent of 2^23 is the float 2^23 + v. So no integer conversion is needed, which
        // would run on the quarter-rate pipe. The fused multiply-add subtracts 2^23 + 2^19 exactly, because the scale
        // is a power of two.
        const float scale = scale_of(w);
        const float offset = -bias * scale;
        Vector<float> x;
        x.c[0] = {value(low_20(w[0]), scale, offset), value(low_20(w[1]), scale, offset)};
        x.c[1] = {value(low_20(w[2]), scale, offset), value(low_20(w[3]), scale, offset)};
        x.c[2] = {value(high_12_and_8(w[0], w[1]), scale, offset), value(high_12_and_8(w[2], w[3]), scale, offset)};
        return x;
    }

    static MILCGPU_HD void encode(const Vector<float> &x, uint32_t *w) {
        const float reals[6] = {x.c[0].re, x.c[0].im, x.c[1].re, x.c[1].im, x.c[2].re, x.c[2].im};
        float largest = fabsf(reals[0]);
        MILCGPU_UNROLL
        for (int k = 1; k < 6; ++k)
            largest = larger_or_nan(largest, fabsf(reals[k]));
        // 2^e >= largest / (2^19 - 1): the exponent of largest, plus one if its fraction is nearly 2.
        const uint32_t above = bit_cast<uint32_t>(largest * 1.000002f) >> 23;
        uint32_t exponent = above > 18u ? above - 18u : 1u;
        if (exponent > 231u) // the offset in decode would overflow; infinity, NaN
            exponent = 255u;
        // 2^-(e - 127) as two factors, so that neither leaves the range of normal floats.
        const uint32_t inverse = 254u - (exponent < 253u ? exponent : 253u);
        const float unscale = bit_cast<float>(inverse << 23);
        uint32_t v[6];
        MILCGPU_UNROLL
        for (int k = 0; k < 6; ++k) {
            // Adding 2^23 + 2^19 rounds to nearest and leaves the offset-binary number in the low bits.
            const float biased = fmaf(reals[k], unscale, 8388608.0f + 524288.0f);
            v[k] = bit_cast<uint32_t>(biased) & 0xFFFFFu;
        }
        w[0] = v[0] | v[4] >> 8 << 20;
        w[1] = v[1] | v[4] << 24 | exponent >> 4 << 20;
        w[2] = v[2] | v[5] >> 8 << 20;
        w[3] = v[3] | v[5] << 24 | (exponent & 0xFu) << 20;
    }

  private:
    static constexpr uint32_t magic = 0x4B000000u; // 2^23
    // For numbers that are not negative. If one is NaN, the result is NaN without sign.
    static MILCGPU_HD float larger_or_nan(float a, float b) {
#if MILCGPU_ON_DEVICE && __CUDA_ARCH__ >= 800
        float largest;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
        return largest;
#else
        return a > b || a != a ? a : b;
#endif
    }
    static MILCGPU_HD uint32_t low_20(uint32_t w) {
#if MILCGPU_ON_DEVICE
        uint32_t bits; // in one instruction, where the compiler would use two
        asm("lop3.b32 %0, %1, 0xFFFFF, %2, 0xEA;" : "=r"(bits) : "r"(w), "r"(magic));
        return bits;
#else
        return (w & 0xFFFFFu) | magic;
#endif
    }
    // The upper 12 bits of a and the upper 8 of b: a funnel shift and a byte permutation.
    static MILCGPU_HD uint32_t high_12_and_8(uint32_t a, uint32_t b) {
#if MILCGPU_ON_DEVICE
        return __byte_perm(__funnelshift_r(a, magic >> 20, 12), b, 0x3217);
#else
        return ((a >> 12) & 0xFFF00u) | b >> 24 | magic;
#endif
    }
    static MILCGPU_HD float scale_of(const uint32_t *w) {
        return bit_cast<float>(((w[1] << 7) & 0x78000000u) | ((w[3] << 3) & 0x07800000u));
    }
    static MILCGPU_HD float value(uint32_t bits, float scale, float offset) {
        return fmaf(bit_cast<float>(bits), scale, offset);
    }
};

// Bytes from a word of one element to the same word of the next: striped on the GPU, contiguous words of an element on
// the host.
inline size_t bytes_between_elements(bool on_gpu, Precision precision) {
    if (!on_gpu && !MILCGPU_STRIPES)
        return spinor_bytes(precision);
    return precision == Precision::single ? SpinorSingle::word_bytes : 16;
}

// A spinor in its stored form.
template <class S> struct StoredSpinor {
    static constexpr int bytes = S::words * S::word_bytes;
    uint32_t w[bytes / 4];
};

// Loads a spinor that other threads of the launch may read too, but that none of them writes.
template <class S, Reuse reuse = Reuse::keep>
MILCGPU_HD Vector<typename S::Real> load_spinor(const unsigned char *data, size_t stride, size_t i) {
    StoredSpinor<S> stored;
    load_element<StoredSpinor<S>::bytes, S::word_bytes, reuse>(data, stride, i, stored.w);
    return S::decode(stored.w);
}

template <class S>
MILCGPU_HD StoredSpinor<S> store_spinor(unsigned char *data, size_t stride, size_t i,
                                        const Vector<typename S::Real> &x) {
    StoredSpinor<S> stored;
    S::encode(x, stored.w);
    store_element<StoredSpinor<S>::bytes, S::word_bytes>(data, stride, i, stored.w);
    return stored;
}

} // namespace milcgpu
