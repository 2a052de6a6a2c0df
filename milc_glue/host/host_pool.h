// Large blocks of the host's memory for MILC's fields, which it allocates and frees all the time. All threads touch a
// new block, in large pages where the system has them: one thread takes as long to have its pages cleared as to fill
// it. A block that is freed stays, for the next field of its size.
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

namespace milcgpu {

class HostPool {
  public:
    static constexpr size_t least = size_t(4) << 20; // bytes of a block

    // most_idle: bytes of freed blocks that stay.
    explicit HostPool(size_t most_idle) : most_idle_(most_idle) {}
    ~HostPool();
    HostPool(const HostPool &) = delete;
    HostPool &operator=(const HostPool &) = delete;

    // nullptr: there is no memory, or `bytes` is less than `least`.
    void *take(size_t bytes, bool zeros);
    // Whether it is one of this pool's; any address may be asked for.
    bool release(void *block);
    // What it has room for; 0: not one of this pool's.
    size_t bytes_of(const void *block) const;

  private:
    struct Block {
        void *at;
        size_t bytes;
        bool idle;
    };
    Block *find(const void *at);
    void *reused(size_t bytes);
    void drop_idle();

    mutable std::mutex mutex_;
    std::vector<Block> blocks_;
    size_t idle_ = 0, most_idle_;
};

// memset and memcpy by all threads.
void fill_bytes(void *to, int byte, size_t bytes);
void copy_bytes(void *to, const void *from, size_t bytes);

// A share of the host's memory.
size_t idle_bytes_of_host();

} // namespace milcgpu
