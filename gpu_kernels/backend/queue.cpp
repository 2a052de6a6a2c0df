// A device's queue: recorded launches, markers, timers.
#include "gpu_kernels/backend/cuda_handles.h"
#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/comm/ranks.h"
#include <chrono>

namespace milcgpu {

double wall_seconds() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

Device::Sequence::Sequence(Device &device, std::function<void()> launches)
    : device_(device), launches_(std::move(launches)) {
#if defined(MILCGPU_WITH_CUDA)
    if (!device.on_gpu() || device.needs_host())
        return;
    device.raise(cudaStreamBeginCapture(as_stream(device.stream_), cudaStreamCaptureModeThreadLocal), "record a graph");
    cudaGraph_t graph = nullptr;
    try {
        launches_();
    } catch (...) {
        cudaStreamEndCapture(as_stream(device.stream_), &graph);
        if (graph != nullptr)
            cudaGraphDestroy(graph);
        throw;
    }
    device.raise(cudaStreamEndCapture(as_stream(device.stream_), &graph), "record a graph");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    device.raise(code, "instantiate a graph");
    graph_ = executable;
#endif
}

Device::Sequence::~Sequence() {
#if defined(MILCGPU_WITH_CUDA)
    if (graph_ != nullptr)
        cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph_));
#endif
}

void Device::Sequence::run() {
#if defined(MILCGPU_WITH_CUDA)
    if (graph_ != nullptr) {
        device_.raise(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), as_stream(device_.stream_)),
                      "launch a graph");
        return;
    }
#endif
    launches_();
}

void Device::add_over_ranks(double *values, int count) {
    if (ranks_ != nullptr)
        ranks_->add_in_rank_order("a sum over all sites", values, count);
}

void Device::agree(const char *phase, const std::function<void()> &work) {
    if (ranks_ != nullptr)
        ranks_->agree(phase, work);
    else
        work();
}

void Device::record(int slot) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        raise(cudaEventRecord(as_event(events_[slot]), as_stream(stream_)), "record an event");
#else
    static_cast<void>(slot);
#endif
}

void Device::wait(int slot) {
    fail_if_planted();
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaEventSynchronize(as_event(events_[slot])), "finish its work");
        check_waits();
    }
#else
    static_cast<void>(slot);
#endif
}

void Device::timer_start() {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaEventRecord(as_event(events_[2]), as_stream(stream_)), "record an event");
        return;
    }
#endif
    clock_start_ = wall_seconds();
}

double Device::timer_stop_seconds() {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        float milliseconds = 0;
        raise(cudaEventRecord(as_event(events_[3]), as_stream(stream_)), "record an event");
        raise(cudaEventSynchronize(as_event(events_[3])), "finish its work");
        raise(cudaEventElapsedTime(&milliseconds, as_event(events_[2]), as_event(events_[3])), "read a timer");
        return milliseconds * 1e-3;
    }
#endif
    return wall_seconds() - clock_start_;
}

} // namespace milcgpu
