// Copies to a device in a queue of their own: they do not wait for the device's work, and that work does not wait for
// them. On the host backend copies finish at once.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include <memory>

namespace milcgpu {

class CopyQueue {
  public:
    explicit CopyQueue(Device &device); // throws Error(device_lost)
    ~CopyQueue();                       // waits
    CopyQueue(const CopyQueue &) = delete;

    // from: memory that the host shares with kernels (lasting_memory.h), which must not change until the copy is done.
    // Throws Error(device_lost).
    void copy(void *to, const void *from, size_t bytes);
    // There are two marks, 0 and 1. done() tells whether the work before the last mark of this number is done. The
    // device reports failed copies, too.
    void mark(int number);
    bool passed(int number) const;

  private:
    struct Held; // stream and events
    Device &device_;
    std::unique_ptr<Held> held_; // nullptr on the host backend
};

} // namespace milcgpu
