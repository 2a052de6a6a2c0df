#include "milc_glue/host/file_sums.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include <algorithm>
#include <cstring>

namespace milcgpu {

namespace {

uint32_t rotated(uint32_t word, size_t by) { return by == 0 ? word : word << by | word >> (32 - by); }

// Eight bytes per step: table[k] is the CRC of a byte followed by k zeros.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;
CrcTables crc_tables() {
    CrcTables table{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        table[0][i] = value;
    }
    for (size_t k = 1; k < table.size(); ++k)
        for (uint32_t i = 0; i < 256; ++i)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
    return table;
}

} // namespace

void RotatedSums::add_part(Words &to, size_t place, const void *words, size_t bytes) {
    const unsigned char *from = static_cast<const unsigned char *>(words);
    size_t at = place % period;
    for (size_t left = bytes / 4; left > 0; at = 0) {
        const size_t count = std::min(left, period - at);
        for (size_t k = 0; k < count; ++k) {
            uint32_t word;
            std::memcpy(&word, from + 4 * k, 4);
            to[at + k] ^= word;
        }
        from += 4 * count, left -= count;
    }
}

void RotatedSums::add(const void *words, size_t bytes) {
    const unsigned char *const from = static_cast<const unsigned char *>(words);
    constexpr size_t piece = 4 * 64 * period;
#pragma omp parallel if (bytes >= few_bytes)
    {
        Words own{};
#pragma omp for schedule(static)
        for (size_t at = 0; at < bytes; at += piece)
            add_part(own, place_ + at / 4, from + at, std::min(piece, bytes - at));
#pragma omp critical(sums_of_a_file)
        for (size_t k = 0; k < period; ++k)
            words_[k] ^= own[k];
    }
    place_ = (place_ + bytes / 4) % period;
}

void RotatedSums::join(const RotatedSums &other) {
    for (size_t k = 0; k < period; ++k)
        words_[k] ^= other.words_[k];
}

uint32_t RotatedSums::sum(size_t of) const {
    uint32_t sum = 0;
    for (size_t k = 0; k < period; ++k)
        sum ^= rotated(words_[k], k % of);
    return sum;
}

uint32_t crc32_of(const void *data, size_t bytes) {
    static const CrcTables table = crc_tables();
    const unsigned char *from = static_cast<const unsigned char *>(data);
    uint32_t value = 0xffffffffu;
    for (; bytes >= 8; from += 8, bytes -= 8) {
        const uint32_t low = value ^ (from[0] | from[1] << 8 | from[2] << 16 | uint32_t(from[3]) << 24);
        value = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
                table[3][from[4]] ^ table[2][from[5]] ^ table[1][from[6]] ^ table[0][from[7]];
    }
    for (; bytes > 0; ++from, --bytes)
        value = table[0][(value ^ *from) & 0xff] ^ value >> 8;
    return ~value;
}

SumPair record_sums(size_t place, uint32_t crc) { return {rotated(crc, place % 29), rotated(crc, place % 31)}; }

uint32_t sum_of_words(const void *words, size_t bytes, bool turned) {
    uint32_t sum = 0;
    for (size_t k = 0; k < bytes / 4; ++k) {
        uint32_t word;
        std::memcpy(&word, static_cast<const unsigned char *>(words) + 4 * k, 4);
        sum += turned ? __builtin_bswap32(word) : word;
    }
    return sum;
}

void turn_round(void *data, size_t bytes, size_t word) {
    unsigned char *const at = static_cast<unsigned char *>(data);
    for (size_t k = 0; k + word <= bytes; k += word)
        if (word == 8) {
            uint64_t bits;
            std::memcpy(&bits, at + k, 8);
            bits = __builtin_bswap64(bits);
            std::memcpy(at + k, &bits, 8);
        } else {
            uint32_t bits;
            std::memcpy(&bits, at + k, 4);
            bits = __builtin_bswap32(bits);
            std::memcpy(at + k, &bits, 4);
        }
}

} // namespace milcgpu
