// Memory of the host that several processes have in their address space, by a name that they tell each other.
#pragma once
#include <cstddef>
#include <string>

namespace milcgpu {

class HostSegment {
  public:
    // Makes one, filled with 0. Its memory is there, not only promised. Throws Error(no_memory).
    explicit HostSegment(size_t bytes);
    // One that another process of this host, or this one, has made. Throws Error(no_memory).
    HostSegment(const std::string &name, size_t bytes);
    // The memory is freed when nobody has it any more.
    ~HostSegment();
    HostSegment(const HostSegment &) = delete;

    const std::string &name() const { return name_; }
    unsigned char *data() const { return static_cast<unsigned char *>(data_); }
    // Nobody opens it any more. If its maker ends before this, the file of that name stays.
    void remove_name() noexcept;

  private:
    void map(int file);
    std::string name_;
    size_t bytes_;
    void *data_ = nullptr;
    bool named_ = false; // by this object
};

} // namespace milcgpu
