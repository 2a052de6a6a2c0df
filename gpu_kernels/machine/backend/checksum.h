// Checksums of whole arrays of device memory, to test that memory still holds what was loaded. They are computed when
// an array is filled and again when a result depends on it: in a pass over the array (1 read of each array: 4 TB/s on
// an H200), or by a kernel that reads the array anyway. A change within 4 bytes always changes the sum; any other
// change is missed with a small chance.
#pragma once
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/portable.h"
#include <cstring>

namespace milcgpu {

struct Region {
    const void *data;
    size_t bytes; // a multiple of 16
    uint64_t expected;
    const char *name;
    const uint64_t *taken = nullptr; // on the device: its present checksum, if a kernel took it while it read the data
    const uint64_t *kept = nullptr;  // on the device: the checksum that its writers keep (KeptSum)
};
constexpr int most_regions = 24; // in one launch

// Adds the regions of `more` that are not in `regions` yet.
void join(std::vector<Region> &regions, const std::vector<Region> &more);

// sums[k] (on the device, zero before) += checksum of region k minus its kept checksum. Does not wait.
void take_checksums(Device &, const Region *regions, int count, uint64_t *sums);

// Checksum of one region; waits. scratch: one number on the device; with it, no memory is allocated.
uint64_t checksum(const DeviceArray<uint64_t> &scratch, const void *data, size_t bytes);
uint64_t checksum(Device &, const void *data, size_t bytes);

// A checksum is a sum over pieces of 16 bytes, in any order: each word of 4 bytes times an odd key of its place in the
// piece, and the four together times an odd key of the piece's place in the region, modulo 2^64 (multilinear hashing:
// Lemire, Kaser, doi 10.1093/comjnl/bxt070). A word that changed by d changes the sum by d times an odd number, and |d|
// < 2^32: never by 0. If several words change, or pieces change places, the sum stays the same with a chance of 2^-31.
// For this the keys must not be in a progression: the keys of places p, q, r, s with p + q = r + s would cancel if four
// signs turn. Zeros add nothing.

// The word with 32 zero bits above it. If nvcc knows this, it omits the multiplications and additions of the upper
// halves.
MILCGPU_HD uint64_t wide(uint32_t word) {
#if MILCGPU_ON_DEVICE
    asm("" : "+r"(word));
#endif
    return word;
}
// Odd digits of pi.
MILCGPU_HD constexpr uint32_t key_of_word(uint32_t w) {
    return w == 0 ? 0x243F6A89u : w == 1 ? 0x85A308D3u : w == 2 ? 0x13198A2Fu : 0x03707345u;
}
// The key of a piece comes from its place times an odd number. Loops over pieces get this product by additions.
constexpr uint32_t of_place = 0x9E3779B1u;
MILCGPU_HD uint32_t key_of_place(uint32_t place_times_of_place) {
    const uint32_t x = place_times_of_place + 0xA4093823u;
    const uint64_t product = wide(x) * (x ^ 0x299F31D0u); // its upper half depends on all bits of x
    return (static_cast<uint32_t>(product >> 32) ^ static_cast<uint32_t>(product)) | 1u;
}
template <int count> MILCGPU_HD uint64_t sum_of_words(const uint32_t *words, uint32_t first = 0) {
    uint64_t sum = 0;
    MILCGPU_UNROLL
    for (int w = 0; w < count; ++w)
        sum += wide(words[w]) * key_of_word(first + w);
    return sum;
}
// The sum over `count` words of a piece, from word `first` on.
template <int count> MILCGPU_HD uint64_t weigh(const uint32_t *words, uint32_t piece, uint32_t first = 0) {
    return sum_of_words<count>(words, first) * key_of_place(piece * of_place);
}

// The sum for a word of 4 or 2 bytes that starts `at` bytes into a piece.
template <int bytes> MILCGPU_HD uint64_t weigh_short(uint32_t word, uint32_t piece, uint64_t at) {
    if constexpr (bytes == 2)
        word = (word & 0xFFFFu) << (at % 4 * 8);
    return weigh<1>(&word, piece + static_cast<uint32_t>(at / 16), static_cast<uint32_t>(at % 16 / 4));
}

// The sum for element i of an array, for elements of `bytes` that load_element reads in words of 16 bytes. piece: the
// piece of the region where the array begins. A piece with 8 bytes of each of two elements counts half by half.
template <int bytes> MILCGPU_HD uint64_t weigh_element(const uint32_t *words, uint32_t piece, size_t stride, size_t i) {
    static_assert(bytes % 2 == 0, "elements of words of 2 bytes");
#if MILCGPU_STRIPES
    // The upper halves of the products are added separately: ten instructions a piece.
    constexpr int whole = bytes / 16;
    const uint32_t step = static_cast<uint32_t>(stride), at = static_cast<uint32_t>(i);
    uint64_t sum = 0;
    uint32_t high = 0, place = (piece + at) * of_place;
    MILCGPU_UNROLL
    for (int k = 0; k < whole; ++k) {
        const uint64_t of_words = sum_of_words<4>(words + 4 * k);
        const uint32_t key = key_of_place(place);
        sum += wide(static_cast<uint32_t>(of_words)) * key;
        high += static_cast<uint32_t>(of_words >> 32) * key;
        place += step * of_place;
    }
    sum += static_cast<uint64_t>(high) << 32;
    if constexpr ((bytes & 8) != 0)
        sum += weigh<2>(words + 4 * whole, piece + whole * step + at / 2, at % 2 * 2);
    if constexpr ((bytes & 4) != 0)
        sum += weigh_short<4>(words[(bytes & ~7) / 4], piece, uint64_t(bytes & ~7) * stride + 4 * i);
    if constexpr ((bytes & 2) != 0)
        sum += weigh_short<2>(words[(bytes & ~3) / 4], piece, uint64_t(bytes & ~3) * stride + 2 * i);
#else
    uint64_t sum = 0;
    static_cast<void>(stride);
    if constexpr (bytes % 8 != 0) {
        for (int k = 0; k < bytes / 2; ++k)
            sum += weigh_short<2>(words[k / 2] >> k % 2 * 16, piece, i * bytes + 2 * k);
        return sum;
    }
    const size_t first = i * (bytes / 8);            // half
    const int odd = bytes % 16 != 0 ? first % 2 : 0; // 1 if the first word is in the second half of its piece
    piece += static_cast<uint32_t>((first + odd) / 2);
    for (int k = 0; k < (bytes / 8 - odd) / 2; ++k)
        sum += weigh<4>(words + 2 * odd + 4 * k, piece + k);
    if constexpr (bytes % 16 != 0)
        sum += odd ? weigh<2>(words, piece - 1, 2) : weigh<2>(words + bytes / 4 - 2, piece + bytes / 16);
#endif
    return sum;
}

// The checksum of an array, kept on the device by the kernels that write the array: they add what they store and
// subtract what they replace. So it is the checksum of what was written, even if memory changes by itself. It costs no
// access to the array. It is the sum of `parts` numbers, which are stored apart, because additions to one address wait
// for each other (1.5 ns each). Between them are the parts of other arrays (Device::zero_sum).
struct KeptSum {
    static constexpr int parts = 16, apart = 64; // numbers
    uint64_t *sum = nullptr;                     // the first part; nullptr: no checksum is kept
    // The weight of element i, or 0 if no checksum is kept.
    template <int element_bytes>
    MILCGPU_HD uint64_t weight(const uint32_t *words, uint32_t piece, size_t stride, size_t i) const {
        return sum == nullptr ? 0 : weigh_element<element_bytes>(words, piece, stride, i);
    }
    // Element i changed: its weight is larger by `more`.
    MILCGPU_HD void add(size_t i, uint64_t more) const {
        if (sum != nullptr)
            atomic_add(sum + i / 32 % parts * apart, more);
    }
    uint64_t read(Device &) const; // waits
    void copy(Device &, const KeptSum &from) const;
};
// Additions of one thread to a checksum, gathered into one addition at the thread's end.
struct GatheredSum {
    KeptSum kept;
    uint64_t *more;
    template <int element_bytes>
    MILCGPU_HD uint64_t weight(const uint32_t *words, uint32_t piece, size_t stride, size_t i) const {
        return kept.weight<element_bytes>(words, piece, stride, i);
    }
    MILCGPU_HD void add(size_t, uint64_t change) const { *more += change; }
};
// For an array without a checksum.
struct NoSum {
    template <int element_bytes> MILCGPU_HD uint64_t weight(const uint32_t *, uint32_t, size_t, size_t) const {
        return 0;
    }
    MILCGPU_HD void add(size_t, uint64_t) const {}
};

// Sum over consecutive bytes of host memory, by half pieces, of which the first has number `first`. The sum changes
// with the order and the place of the bytes, so equal sums on both sides of a copy mean that all bytes have arrived.
inline uint64_t weigh_row(const void *data, size_t bytes, size_t first) {
    uint64_t sum = 0;
    for (size_t k = 0; k < bytes / 8; ++k) {
        uint32_t words[2];
        memcpy(words, static_cast<const unsigned char *>(data) + 8 * k, 8);
        sum += weigh<2>(words, static_cast<uint32_t>(first + k));
    }
    return sum;
}

} // namespace milcgpu
