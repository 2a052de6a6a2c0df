// Hashes that decide whether two fields have the same content. Words are mixed by products of 64 x 64 bits whose upper
// and lower halves are folded (wyhash, Wang Yi 2019, https://github.com/wangyi-fudan/wyhash). Each result bit depends
// on each bit of both factors, so zero low words of reals and single signs count as much as any other bits, and so does
// order. XXH3's sums of 32-bit products are not enough: the sign of a real whose low word is zero changes such a sum by
// one of two numbers, which cancel.
//
// The checksums of a GPU (machine/backend/checksum.h) detect bit flips; they do not decide about contents.
#pragma once
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

// A one-to-one map of 64 bits: the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014,
// doi 10.1145/2660193.2660195).
MILCGPU_HD constexpr uint64_t scrambled(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

MILCGPU_HD uint64_t folded_product(uint64_t a, uint64_t b) {
#if MILCGPU_ON_DEVICE
    return (a * b) ^ __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}

// Adds two words, or one, to `hash`, which starts as 0. The constants are digits of pi: a factor must not be 0.
MILCGPU_HD uint64_t hash_with(uint64_t hash, uint64_t first, uint64_t second = 0) {
    return folded_product(first ^ 0x243F6A8885A308D3u, second ^ hash ^ 0x13198A2E03707344u);
}

// Hash of consecutive bytes in host memory, computed by the calling thread. The same on all hosts of one byte order.
uint64_t hash_row(const void *data, size_t bytes, uint64_t seed);

// Differs between processes, so that two contents that collide in one run do not collide in all.
uint64_t process_seed();

} // namespace milcgpu
