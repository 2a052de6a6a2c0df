// Which tie-ups one thread computes together (tie_ups.cu).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace milcgpu {

// Tie-ups of p[i], q[j], r[i ^ j] for i, j < n. n = 2: four tie-ups of six quarks, so that half as many numbers are
// loaded for each. Lists of Golterman-Bailey operators consist of such fours, because the corners of a tie-up XOR to 0.
template <int n> struct TieBlock {
    uint16_t p[n], q[n], r[n]; // three quarks, each as one number
    int item[n * n];           // i n + j: the place in the list; -1: none
};

using Three = std::array<uint16_t, 3>;

// Each tie-up of the list in one block. Fours have at least three of the list.
struct TieBlocks {
    std::vector<TieBlock<2>> fours;
    std::vector<TieBlock<1>> ones;
    explicit TieBlocks(const std::vector<Three> &list);
};

} // namespace milcgpu
