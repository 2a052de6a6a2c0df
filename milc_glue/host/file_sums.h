// Checksums of lattice files. Parts may be added in any order and by any rank: SumPair combines them by exclusive or,
// NERSC's sum by addition.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace milcgpu {

struct SumPair {
    uint32_t first = 0, second = 0; // sum29 and sum31, or suma and sumb
    void join(const SumPair &other) { first ^= other.first, second ^= other.second; }
    bool operator==(const SumPair &other) const { return first == other.first && second == other.second; }
};

// MILC's sum29 and sum31: of all words of 32 bits, each rotated by its place modulo 29 and 31.
class RotatedSums {
  public:
    void add(const void *words, size_t bytes); // bytes: a multiple of 4. They follow what was added before
    // The same at a given place, counted in words, by the calling thread.
    void add_at(size_t place, const void *words, size_t bytes) { add_part(words_, place, words, bytes); }
    void join(const RotatedSums &other);
    uint32_t sum29() const { return sum(29); }
    uint32_t sum31() const { return sum(31); }
    SumPair pair() const { return {sum29(), sum31()}; }

  private:
    static constexpr size_t period = 29 * 31;
    using Words = std::array<uint32_t, period>;
    static void add_part(Words &to, size_t place, const void *words, size_t bytes);
    uint32_t sum(size_t of) const;
    Words words_{}; // the exclusive or of all words with the same place modulo the period
    size_t place_ = 0;
};

// The CRC of Ethernet and zlib (polynomial 0xedb88320, reflected).
uint32_t crc32_of(const void *data, size_t bytes);

// QIO's suma and sumb: of the CRC of each site's record, rotated by the site's place in the file modulo 29 and 31.
SumPair record_sums(size_t place, uint32_t crc);

// NERSC's checksum: the sum of all words of 32 bits, modulo 2^32. turned: the words are not in this machine's order.
uint32_t sum_of_words(const void *words, size_t bytes, bool turned);

// Reverses the bytes of words of 4 or 8 bytes.
void turn_round(void *data, size_t bytes, size_t word);

} // namespace milcgpu
