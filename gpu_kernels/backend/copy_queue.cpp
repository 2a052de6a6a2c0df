#include "gpu_kernels/backend/copy_queue.h"
#include "gpu_kernels/backend/cuda_handles.h"
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace milcgpu {

namespace {

struct Shared {
    unsigned char *data;
    size_t bytes;
    bool pinned;
};
std::mutex spare_mutex;
std::vector<Shared> &spare_memory() { // never destroyed: contexts may end after this file's variables
    static auto *const spare = new std::vector<Shared>;
    return *spare;
}

unsigned char *take_spare(size_t bytes, bool pinned) {
    const std::lock_guard<std::mutex> lock(spare_mutex);
    std::vector<Shared> &spare = spare_memory();
    for (auto one = spare.begin(); one != spare.end(); ++one)
        if (one->bytes == bytes && one->pinned == pinned) {
            unsigned char *const data = one->data;
            spare.erase(one);
            return data;
        }
    return nullptr;
}

} // namespace

unsigned char *take_shared(Device &device, size_t bytes) {
    void *data = take_spare(bytes, device.on_gpu());
    if (data == nullptr && !device.on_gpu())
        data = std::malloc(bytes);
#if defined(MILCGPU_WITH_CUDA)
    if (data == nullptr && device.on_gpu() &&
        cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        cudaGetLastError();
        data = nullptr;
    }
#endif
    if (data == nullptr)
        throw Error(Status::no_memory,
                    format("%.1f MiB of host memory that kernels reach do not fit", bytes / 1048576.0));
    std::memset(data, 0, bytes);
    return static_cast<unsigned char *>(data);
}

void keep_shared(Device &device, unsigned char *data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(spare_mutex);
    spare_memory().push_back({data, bytes, device.on_gpu()});
}

#if defined(MILCGPU_WITH_CUDA)

struct CopyQueue::Held {
    cudaStream_t stream = nullptr;
    cudaEvent_t marks[2] = {nullptr, nullptr};
    ~Held() {
        if (stream != nullptr) {
            cudaStreamSynchronize(stream);
            cudaStreamDestroy(stream);
        }
        for (cudaEvent_t event : marks)
            if (event != nullptr)
                cudaEventDestroy(event);
        cudaGetLastError();
    }
};

namespace {
void check(cudaError_t code, const char *what) {
    if (code == cudaSuccess)
        return;
    cudaGetLastError();
    throw Error(Status::device_lost, format("the GPU failed to %s: %s", what, cudaGetErrorString(code)));
}
} // namespace

CopyQueue::CopyQueue(Device &device) : device_(device) {
    if (!device.on_gpu())
        return;
    held_ = std::make_unique<Held>();
    check(cudaStreamCreateWithFlags(&held_->stream, cudaStreamNonBlocking), "create a stream");
    for (cudaEvent_t &event : held_->marks)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
}

void CopyQueue::copy(void *to, const void *from, size_t bytes) {
    if (held_ == nullptr)
        std::memcpy(to, from, bytes);
    else
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, held_->stream), "copy ghosts");
}

void CopyQueue::mark(int number) {
    if (held_ != nullptr)
        check(cudaEventRecord(held_->marks[number], held_->stream), "record an event");
}

bool CopyQueue::passed(int number) const {
    if (held_ == nullptr)
        return true;
    const cudaError_t code = cudaEventQuery(held_->marks[number]);
    if (code == cudaErrorNotReady)
        cudaGetLastError(); // the error is handled here
    return code != cudaErrorNotReady;
}

#else

struct CopyQueue::Held {};
CopyQueue::CopyQueue(Device &device) : device_(device) {}
void CopyQueue::copy(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }
void CopyQueue::mark(int) {}
bool CopyQueue::passed(int) const { return true; }

#endif

CopyQueue::~CopyQueue() = default;

} // namespace milcgpu
