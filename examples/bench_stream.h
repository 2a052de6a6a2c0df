// The plain kernels that dense algebra is measured against: they read as many bytes, or read and write as many, and
// hardly compute. What they take for these bytes is the limit, with the start and the end of a launch in it and with
// what stays in the L2 cache.
#pragma once
#include "gpu_kernels/machine/backend/device.h"

namespace examples {

struct Stream { // a multiple of 16 bytes of the device's memory
    unsigned char *data = nullptr;
    size_t bytes = 0;
};

constexpr int stream_shapes = 6, most_stream_blocks = 528; // launch shapes to choose the fastest of

// On the GPU alone. sums: room for most_stream_blocks numbers on the device. As many as are returned add up, modulo
// 2^32, to the sum of all 32-bit words.
int plain_read(milcgpu::Device &, int shape, const Stream &x, const Stream &y, uint32_t *sums);
// All of x is read. Its beginning goes to y, as it is or, word by word, y ^= x. aside: room as above, for nothing.
void plain_write(milcgpu::Device &, int shape, const Stream &x, const Stream &y, bool onto, uint32_t *aside);

} // namespace examples
