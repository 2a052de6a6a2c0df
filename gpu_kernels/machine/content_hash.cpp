#include "gpu_kernels/machine/content_hash.h"
#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace milcgpu {

namespace {

// A lane waits for its last product; meanwhile the other lanes compute.
constexpr int lanes = 4;
constexpr size_t stripe = 16 * lanes; // bytes
// Digits of pi, so that nobody can have chosen them.
constexpr uint64_t keys[lanes + 2] = {0x243F6A8885A308D3u, 0x13198A2E03707344u, 0xA4093822299F31D0u,
                                      0x082EFA98EC4E6C89u, 0x452821E638D01377u, 0xBE5466CF34E90C6Cu};

struct Lanes {
    uint64_t of[lanes];
    void take(const unsigned char *data) {
        for (int lane = 0; lane < lanes; ++lane) {
            uint64_t words[2];
            std::memcpy(words, data + 16 * lane, 16);
            of[lane] = folded_product(words[0] ^ keys[lane], words[1] ^ of[lane]);
        }
    }
};

} // namespace

uint64_t hash_row(const void *data, size_t bytes, uint64_t seed) {
    const auto *const from = static_cast<const unsigned char *>(data);
    Lanes state;
    for (int lane = 0; lane < lanes; ++lane)
        state.of[lane] = seed ^ keys[lane + 1];
    const size_t whole = bytes / stripe * stripe;
    for (size_t at = 0; at < whole; at += stripe)
        state.take(from + at);
    if (whole < bytes) {
        unsigned char last[stripe] = {};
        std::memcpy(last, from + whole, bytes - whole);
        state.take(last);
    }
    return folded_product(state.of[0] ^ state.of[2] ^ keys[lanes], state.of[1] ^ state.of[3] ^ keys[lanes + 1] ^ bytes);
}

uint64_t process_seed() {
    static const uint64_t seed = [] {
        const int on_the_stack = 0; // its address differs between processes
        const uint64_t parts[] = {static_cast<uint64_t>(getpid()), reinterpret_cast<uintptr_t>(&on_the_stack),
                                  static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
        return hash_row(parts, sizeof parts, 0);
    }();
    return seed;
}

} // namespace milcgpu
