#include "gpu_kernels/machine/backend/lasting_memory.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

namespace milcgpu {

namespace {

constexpr int pinned = -1, of_host = -2, in_place_of_device = -3; // kinds of memory; from 0 on: numbers of GPUs

struct Block {
    unsigned char *data;
    size_t bytes;
    int place;
    bool spare;
};
std::mutex blocks_mutex;
std::vector<Block> &blocks() { // never destroyed: contexts may end after this file's variables
    static auto *const all = new std::vector<Block>;
    return *all;
}

int place_of([[maybe_unused]] const Device &device, Lasting kind) {
#if defined(MILCGPU_WITH_CUDA)
    if (queue_of(device).on_gpu()) {
        int ordinal = 0;
        cudaGetDevice(&ordinal);
        return kind == Lasting::device ? ordinal : pinned;
    }
#endif
    return kind == Lasting::device ? in_place_of_device : of_host;
}

unsigned char *allocate(int place, size_t bytes) {
    void *data = nullptr;
#if defined(MILCGPU_WITH_CUDA)
    if (place >= pinned) {
        const cudaError_t code = place == pinned
                                     ? cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable)
                                     : cudaMalloc(&data, bytes);
        if (code == cudaSuccess)
            return static_cast<unsigned char *>(data);
        cudaGetLastError(); // the error is handled here
        return nullptr;
    }
#endif
    if (place < pinned)
        data = std::malloc(bytes);
    return static_cast<unsigned char *>(data);
}

unsigned char *take_spare(int place, size_t bytes) {
    const std::lock_guard<std::mutex> lock(blocks_mutex);
    for (Block &block : blocks())
        if (block.spare && block.bytes == bytes && block.place == place) {
            block.spare = false;
            return block.data;
        }
    return nullptr;
}

} // namespace

// No lock is held during an allocation: it may wait for kernels, which may wait for another thread.
unsigned char *take_lasting(Device &device, Lasting kind, size_t bytes) {
    const int place = place_of(device, kind);
    unsigned char *data = take_spare(place, bytes);
    if (data == nullptr) {
        data = allocate(place, bytes);
        if (data == nullptr)
            throw Error(Status::no_memory,
                        format(kind == Lasting::shared ? "%.1f MiB of host memory that kernels reach do not fit"
                                                       : "%.1f MiB for messages do not fit on the device",
                               bytes / 1048576.0));
        const std::lock_guard<std::mutex> lock(blocks_mutex);
        blocks().push_back({data, bytes, place, false});
    }
    if (kind == Lasting::shared)
        std::memset(data, 0, bytes);
    return data;
}

void keep_lasting(const unsigned char *data) {
    const std::lock_guard<std::mutex> lock(blocks_mutex);
    for (Block &block : blocks())
        block.spare = block.spare || block.data == data;
}

std::shared_ptr<unsigned char> lasting_memory(Device &device, Lasting kind, size_t bytes) {
    return {take_lasting(device, kind, bytes), keep_lasting};
}

bool is_lasting_on_device(const void *address) {
    const std::less_equal<const void *> not_behind;
    const std::less<const void *> before;
    const std::lock_guard<std::mutex> lock(blocks_mutex);
    for (const Block &block : blocks())
        if ((block.place >= 0 || block.place == in_place_of_device) && not_behind(block.data, address) &&
            before(address, block.data + block.bytes))
            return true;
    return false;
}

} // namespace milcgpu
