// Host memory that several processes map, by a name that they tell each other.
#pragma once
#include <cstddef>
#include <string>

namespace milcgpu {

class HostSegment {
  public:
    // Creates a segment, filled with 0, with its memory allocated. Throws Error(no_memory).
    explicit HostSegment(size_t bytes);
    // Opens a segment that a process of this host has created. Throws Error(no_memory).
    HostSegment(const std::string &name, size_t bytes);
    // Frees the memory if no process maps it any more.
    ~HostSegment();
    HostSegment(const HostSegment &) = delete;

    const std::string &name() const { return name_; }
    unsigned char *data() const { return static_cast<unsigned char *>(data_); }
    // Removes the name: the segment cannot be opened any more. If its creator ends before this, the file of that name
    // stays.
    void remove_name() noexcept;

  private:
    void map(int file);
    std::string name_;
    size_t bytes_;
    void *data_ = nullptr;
    bool named_ = false; // by this object
};

} // namespace milcgpu
