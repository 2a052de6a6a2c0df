#include "gpu_kernels/machine/backend/copy_queue.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include <cstring>

namespace milcgpu {

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
    if (!queue_of(device).on_gpu())
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
