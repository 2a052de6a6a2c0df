// Is device memory still what was loaded there? Checksums of whole arrays, taken when they are filled and again when
// something rests on them. Any change of a single word of 4 bytes changes the sum; others pass with a small chance.
// 1 read of each array: 4 TB/s on an H200.
#pragma once
#include "gpu_kernels/backend/device.h"

namespace milcgpu {

struct Region {
    const void *data;
    size_t bytes; // a multiple of 16
    uint64_t expected;
    const char *name;
};
constexpr int most_regions = 24; // at once

// Adds the regions that are not there yet.
void join(std::vector<Region> &regions, const std::vector<Region> &more);

// sums[k] (device, zero before) += checksum of region k. Does not wait.
void take_checksums(Device &, const Region *regions, int count, uint64_t *sums);

// Of one region; waits.
uint64_t checksum(Device &, const void *data, size_t bytes);

} // namespace milcgpu
