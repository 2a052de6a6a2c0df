// Plain kernels for comparison with dense algebra: they read as many bytes, or read and write as many, and hardly
// compute. Their time is the limit for these bytes, including the start and the end of a launch and the effect of the
// L2 cache.
#pragma once
#include "gpu_kernels/machine/backend/device.h"

namespace examples {

struct Stream { // a multiple of 16 bytes of the device's memory
    unsigned char *data = nullptr;
    size_t bytes = 0;
};

constexpr int stream_shapes = 6, most_stream_blocks = 528; // the fastest launch shape counts

// Only on the GPU. sums: room for most_stream_blocks numbers on the device. Returns how many numbers were written; they
// add up, modulo 2^32, to the sum of all 32-bit words.
int plain_read(milcgpu::Device &, int shape, const Stream &x, const Stream &y, uint32_t *sums);
// Reads all of x. Writes its beginning to y, as it is or, word by word, as y ^= x. aside: room as for sums, unused.
void plain_write(milcgpu::Device &, int shape, const Stream &x, const Stream &y, bool onto, uint32_t *aside);

} // namespace examples
