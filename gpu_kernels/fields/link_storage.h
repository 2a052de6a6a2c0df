// How the reals of a link are stored: `reals` numbers of one storage precision (double, float, 16-bit fixed point), cut
// into 16-byte words and a shorter rest (8, 4, 2 bytes), each word striped over the sites of a parity:
//
//   [parity][mu][word][i],   i < stride     in device memory
//   [parity][mu][i][word]                   on the host backend
//
// 16-byte words reach the memory's bandwidth (shared measurement: 4-byte words stop at 0.8 of it). Fixed point: offset
// binary u = q + 2^15 stands for q * 2^-15, |q| <= 2^15 - 1; the field's scale is applied later.
#pragma once
#include "gpu_kernels/fields/precision.h"
#include "gpu_kernels/fields/su3.h"

namespace milcgpu {

template <Precision p> struct LinkReal;
template <> struct LinkReal<Precision::double_> { using Real = double; };
template <> struct LinkReal<Precision::single> { using Real = float; };
template <> struct LinkReal<Precision::half> { using Real = float; };

constexpr size_t link_bytes(Precision p, int reals) { return real_bytes(p) * static_cast<size_t>(reals); }

// The raw words of one link, with access to its reals and to their least significant bits.
template <Precision p, int reals> struct RawLink {
    using Real = typename LinkReal<p>::Real;
    static constexpr int bytes = static_cast<int>(link_bytes(p, reals));
    uint32_t w[(bytes + 3) / 4];

    MILCGPU_HD Real get(int k) const {
        if constexpr (p == Precision::double_) {
#if MILCGPU_ON_DEVICE
            return bit_cast<double>(static_cast<uint64_t>(w[2 * k + 1]) << 32 | w[2 * k]);
#else // gcc compiles the above to two loads and a shift
            double real;
            memcpy(&real, &w[2 * k], sizeof real);
            return real;
#endif
        } else if constexpr (p == Precision::single) {
            return bit_cast<float>(w[k]);
        } else {
            // The 16 bits under the exponent of 2^23 are the float 2^23 + u (one byte permutation); the fused
            // multiply-add subtracts 2^23 + 2^15 and scales by 2^-15, both exactly.
#if MILCGPU_ON_DEVICE
            const uint32_t bits = __byte_perm(w[k / 2], 0x4B000000u, k % 2 ? 0x7632 : 0x7610);
#else
            const uint32_t bits = 0x4B000000u | (k % 2 ? w[k / 2] >> 16 : w[k / 2] & 0xFFFFu);
#endif
            return fmaf(bit_cast<float>(bits), 1.0f / 32768.0f, -257.0f);
        }
    }

    MILCGPU_HD void set(int k, double value) {
        if constexpr (p == Precision::double_) {
            const uint64_t bits = bit_cast<uint64_t>(value);
            w[2 * k] = static_cast<uint32_t>(bits);
            w[2 * k + 1] = static_cast<uint32_t>(bits >> 32);
        } else if constexpr (p == Precision::single) {
            w[k] = bit_cast<uint32_t>(static_cast<float>(value));
        } else {
            const double rounded = rint(fmin(fmax(value * 32768.0, -32767.0), 32767.0));
            const uint32_t u = static_cast<uint32_t>(static_cast<int>(rounded) + 32768);
            const uint32_t keep = k % 2 ? w[k / 2] & 0xFFFFu : w[k / 2] & 0xFFFF0000u;
            w[k / 2] = keep | (k % 2 ? u << 16 : u);
        }
    }

    // Least significant bit of real k: it stores one bit of information and costs one unit in the last place.
    MILCGPU_HD uint32_t get_bit(int k) const { return w[bit_word(k)] >> bit_shift(k) & 1u; }
    MILCGPU_HD void set_bit(int k, uint32_t bit) {
        w[bit_word(k)] = (w[bit_word(k)] & ~(1u << bit_shift(k))) | bit << bit_shift(k);
    }

  private:
    static MILCGPU_HD int bit_word(int k) {
        return p == Precision::double_ ? 2 * k : p == Precision::single ? k : k / 2;
    }
    static MILCGPU_HD int bit_shift(int k) { return p == Precision::half && k % 2 ? 16 : 0; }
};

// block: start of the words of one (parity, mu); see the head of this file.
template <Precision p, int reals, Reuse reuse = Reuse::stream, bool short_way = false>
MILCGPU_HD RawLink<p, reals> load_link(const unsigned char *block, size_t stride, size_t i) {
    RawLink<p, reals> raw;
    load_element<raw.bytes, 16, reuse, short_way>(block, stride, i, raw.w);
    return raw;
}

template <Precision p, int reals>
MILCGPU_HD void store_link(unsigned char *block, size_t stride, size_t i, const RawLink<p, reals> &raw) {
    store_element<RawLink<p, reals>::bytes, 16>(block, stride, i, raw.w);
}

} // namespace milcgpu
