// A device's queue: recorded launches, markers, timers.
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/comm/ranks.h"

namespace milcgpu {

Device::Sequence::Sequence(Device &device, std::function<void()> launches, [[maybe_unused]] bool recorded)
    : device_(device), launches_(std::move(launches)) {
#if defined(MILCGPU_WITH_CUDA)
    if (!recorded || !device.on_gpu() || device.needs_host())
        return;
    if (device.meanwhile_) // recording loads kernels and allocates memory: see before_launch_of
        device.wait_for_event(nullptr);
    device.raise(cudaStreamBeginCapture(as_stream(device.stream_), cudaStreamCaptureModeThreadLocal), "record a graph");
    cudaGraph_t graph = nullptr;
    device.recording_ = true;
    try {
        launches_();
    } catch (...) {
        device.recording_ = false;
        if (cudaStreamEndCapture(as_stream(device.stream_), &graph) != cudaSuccess)
            cudaGetLastError(); // for example, launches aside were not joined; the thrown error says what failed
        if (graph != nullptr)
            cudaGraphDestroy(graph);
        throw;
    }
    device.recording_ = false;
    device.raise(cudaStreamEndCapture(as_stream(device.stream_), &graph), "record a graph");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    device.raise(code, "instantiate a graph");
    graph_ = executable;
    if (device.meanwhile_) {
        device.raise(cudaGraphUpload(executable, as_stream(device.stream_)), "upload a graph");
        device.wait_for_event(nullptr);
    }
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
        device_.about_to("launch a graph");
        device_.raise(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), as_stream(device_.stream_)),
                      "launch a graph");
        return;
    }
#endif
    launches_();
}

void Device::aside(const std::function<void()> &launches, const std::function<void()> &beside) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaEventRecord(as_event(side_events_[0]), as_stream(stream_)), "record an event");
        if (beside)
            beside();
        raise(cudaStreamWaitEvent(as_stream(side_stream_), as_event(side_events_[0]), 0), "wait for an event");
        struct OnSide { // until it ends
            Device &device;
            explicit OnSide(Device &d) : device(d) { change(); }
            ~OnSide() { change(); }
            void change() { std::swap(device.stream_, device.side_stream_), device.next_waits_ = true; }
        };
        {
            const OnSide on_side(*this);
            launches();
        }
        raise(cudaEventRecord(as_event(side_events_[1]), as_stream(side_stream_)), "record an event");
        return;
    }
#endif
    if (beside)
        beside();
    launches();
}

void Device::rejoin() {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaStreamWaitEvent(as_stream(stream_), as_event(side_events_[1]), 0), "wait for an event");
        next_waits_ = true;
    }
#endif
}

void Device::add_over_ranks(double *values, int count) {
    if (ranks_ != nullptr)
        ranks_->add_in_rank_order("a sum over all sites", values, count);
}

void Device::run_collective(const char *phase, void (*run)(const void *work), const void *work) {
    if (ranks_ == nullptr)
        return run(work);
    const auto collective = [&] { return ranks_->collective(phase, [&] { run(work); }); };
    if (in_collective_) // a rank that failed before this point waits in the outer one, where all ranks meet
        return collective();
    struct Inside {
        bool &now;
        explicit Inside(bool &in) : now(in) { now = true; }
        ~Inside() { now = false; }
    };
    for (size_t least_used = SIZE_MAX;;)
        try {
            const Inside inside(in_collective_);
            return collective();
        } catch (const Error &error) { // on all ranks
            if (error.status() != Status::no_memory || !reclaim_on_all_ranks(least_used))
                throw;
        }
}

bool Device::reclaim_on_all_ranks(size_t &least_used) {
    if (ranks_ == nullptr)
        return false;
    bool is_short = false, any = true;
    for (const Allocated there : ranks_->gathered("memory that is short", last_allocation_)) {
        if (there == Allocated::planted_failure)
            return false;
        is_short = is_short || there == Allocated::failed;
    }
    // Memory that was allocated since the last time and is idle by now does not count as a gain.
    for (bool gain = false; is_short && any && !gain;) {
        any = reclaim_ && reclaim_();
        for (const int less : ranks_->gathered("memory that was freed", static_cast<int>(used_bytes_ < least_used)))
            gain = gain || less != 0;
        least_used = std::min(least_used, used_bytes_);
    }
    return is_short && any;
}

void Device::record(int slot) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        raise(cudaEventRecord(as_event(events_[slot]), as_stream(stream_)), "record an event");
#else
    static_cast<void>(slot);
#endif
}

#if defined(MILCGPU_WITH_CUDA)
void Device::wait_for_event(void *event) {
    if (!meanwhile_) {
        raise(event != nullptr ? cudaEventSynchronize(as_event(event)) : cudaStreamSynchronize(as_stream(stream_)),
              "finish its work");
        return;
    }
    bool all_done = true;
    for (unsigned polls = 0;; ++polls) {
        // While messages are in flight, they need the host more often than the driver must be polled.
        const cudaError_t code = !all_done && polls % 8 != 0 ? cudaErrorNotReady
                                 : event != nullptr          ? cudaEventQuery(as_event(event))
                                                             : cudaStreamQuery(as_stream(stream_));
        all_done = meanwhile_();
        if (code == cudaErrorNotReady) {
            cudaGetLastError(); // the error is handled here
            continue;
        }
        raise(code, "finish its work");
        if (event != nullptr || all_done)
            return;
    }
}
#else
void Device::wait_for_event(void *) {} // all work is done already
#endif

void Device::wait(int slot) {
    fail_if_planted();
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        wait_for_event(events_[slot]);
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
        wait_for_event(events_[3]);
        raise(cudaEventElapsedTime(&milliseconds, as_event(events_[2]), as_event(events_[3])), "read a timer");
        return milliseconds * 1e-3;
    }
#endif
    return wall_seconds() - clock_start_;
}

} // namespace milcgpu
