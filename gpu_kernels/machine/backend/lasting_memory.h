// Memory that somebody may still reach when its device and queue are gone: messages that were given up, kernels that
// wait. So it is never freed. What is given back is kept for the next request of as many bytes.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include <memory>

namespace milcgpu {

// shared: of the host, filled with 0; kernels of the device reach it, too. device: of the device, and not of the pool,
// whose memory cannot be exported, as message passing may have to; on the host backend of the host.
enum class Lasting { shared, device };

// Throws Error(no_memory).
unsigned char *take_lasting(Device &device, Lasting kind, size_t bytes);
void keep_lasting(const unsigned char *data);
// The same, given back by its last owner. The queue must not reach it any more then.
std::shared_ptr<unsigned char> lasting_memory(Device &device, Lasting kind, size_t bytes);

// Whether this address is in memory of the kind `device`.
bool is_lasting_on_device(const void *address);

} // namespace milcgpu
