// Copies to a device beside its queue, which does not wait for them nor they for it; and memory that the host shares
// with kernels. On the host backend copies are done at once.
#pragma once
#include "gpu_kernels/backend/device.h"
#include <memory>

namespace milcgpu {

class CopyQueue {
  public:
    explicit CopyQueue(Device &device); // throws Error(device_lost)
    ~CopyQueue();                       // waits
    CopyQueue(const CopyQueue &) = delete;

    // from: memory that is shared, and stays as it is until the copy is done. Throws Error(device_lost).
    void copy(void *to, const void *from, size_t bytes);
    // Two marks: whether the copies before the last one of a number are done. What failed is seen by the device, too.
    void mark(int number);
    bool passed(int number) const;

  private:
    struct Held; // stream and events
    Device &device_;
    std::unique_ptr<Held> held_; // nullptr on the host backend
};

// Memory of the host that kernels of the device read and write; filled with 0. It is kept for the next one that needs
// as much (keep_shared), and while the process runs. Throws Error(no_memory).
unsigned char *take_shared(Device &device, size_t bytes);
void keep_shared(Device &device, unsigned char *data, size_t bytes);

} // namespace milcgpu
