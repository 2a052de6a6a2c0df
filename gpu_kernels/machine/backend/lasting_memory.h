// Memory that messages or kernels may still reach after its device and queue are gone. So it is never freed: released
// memory is kept for the next request of the same size.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include <memory>

namespace milcgpu {

// shared: host memory, filled with 0, that kernels of the device reach, too. device: device memory that is not from the
// pool, because the pool's memory cannot be exported, which message passing may need; host memory on the host backend.
enum class Lasting { shared, device };

// Throws Error(no_memory).
unsigned char *take_lasting(Device &device, Lasting kind, size_t bytes);
void keep_lasting(const unsigned char *data);
// As take_lasting(), but released by its last owner. By then the queue must not reach it any more.
std::shared_ptr<unsigned char> lasting_memory(Device &device, Lasting kind, size_t bytes);

// True if this address is in memory of the kind `device`.
bool is_lasting_on_device(const void *address);

} // namespace milcgpu
