// Owning array of T on a device.
#pragma once
#include "gpu_kernels/machine/backend/launch_queue.h"
#include <vector>

namespace milcgpu {

template <class T> class DeviceArray {
  public:
    DeviceArray() = default;
    DeviceArray(Device &device, size_t count, const char *owner)
        : device_(&device), count_(count),
          data_(static_cast<T *>(queue_of(device).allocate(count * sizeof(T), owner))) {}
    DeviceArray(DeviceArray &&other) noexcept { swap(other); }
    DeviceArray &operator=(DeviceArray &&other) noexcept {
        swap(other);
        return *this;
    }
    ~DeviceArray() {
        if (data_ != nullptr)
            queue_of(*device_).release(data_);
    }
    T *data() const { return data_; }
    size_t size() const { return count_; }
    size_t bytes() const { return count_ * sizeof(T); }
    Device &device() const { return *device_; }
    std::vector<T> to_host() const {
        std::vector<T> host(count_);
        queue_of(*device_).copy_to_host(host.data(), data_, bytes());
        return host;
    }

  private:
    void swap(DeviceArray &other) noexcept {
        std::swap(device_, other.device_);
        std::swap(count_, other.count_);
        std::swap(data_, other.data_);
    }
    Device *device_ = nullptr;
    size_t count_ = 0;
    T *data_ = nullptr;
};

} // namespace milcgpu
