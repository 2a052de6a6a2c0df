// Copies to a device in a queue of their own: they do not wait for the device's work, nor does it wait for them. And
// memory that the host shares with kernels. On the host backend copies are done at once.
#pragma once
#include "gpu_kernels/backend/device.h"
#include <memory>

namespace milcgpu {

class CopyQueue {
  public:
    explicit CopyQueue(Device &device); // throws Error(device_lost)
    ~CopyQueue();                       // waits
    CopyQueue(const CopyQueue &) = delete;

    // from: shared memory, which must not change until the copy is done. Throws Error(device_lost).
    void copy(void *to, const void *from, size_t bytes);
    // Two marks, 0 and 1. Has the work before the last mark of this number been done? A failed copy is reported by the
    // device, too.
    void mark(int number);
    bool passed(int number) const;

  private:
    struct Held; // stream and events
    Device &device_;
    std::unique_ptr<Held> held_; // nullptr on the host backend
};

// Host memory that kernels of the device read and write; filled with 0. It is never freed; keep_shared keeps it for the
// next request of the same size. Throws Error(no_memory).
unsigned char *take_shared(Device &device, size_t bytes);
void keep_shared(Device &device, unsigned char *data, size_t bytes);

} // namespace milcgpu
