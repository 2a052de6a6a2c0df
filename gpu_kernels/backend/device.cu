#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/backend/launch.h"
#include <chrono>
#include <cstdlib>
#include <omp.h>

namespace milcgpu {

namespace {

double wall_seconds() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

#if defined(MILCGPU_WITH_CUDA)
cudaStream_t as_stream(void *stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t as_event(void *event) { return static_cast<cudaEvent_t>(event); }
#endif

constexpr size_t alignment = 256; // of every array, on both backends

} // namespace

const char *name(Backend backend) { return backend == Backend::cuda ? "cuda" : "host"; }

int Device::gpu_count() {
#if defined(MILCGPU_WITH_CUDA)
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError(); // no driver or no GPU: an answer, not an error to keep
        return 0;
    }
    return count;
#else
    return 0;
#endif
}

Device::Device(Backend backend, int ordinal) : backend_(backend), ordinal_(ordinal) {
    if (backend == Backend::host) {
        description_ = format("host, %d OpenMP threads", omp_get_max_threads());
        return;
    }
#if defined(MILCGPU_WITH_CUDA)
    const int count = gpu_count();
    if (ordinal < 0 || ordinal >= count)
        throw Error(Status::bad_argument,
                    format("cuda backend: GPU %d asked for, %d visible (check nvidia-smi and CUDA_VISIBLE_DEVICES, or "
                           "set MILCGPU_BACKEND=host)",
                           ordinal, count));
    raise(cudaSetDevice(ordinal), "select the GPU");
    cudaDeviceProp properties;
    raise(cudaGetDeviceProperties(&properties, ordinal), "read the GPU's properties");
    description_ = format("%s, sm_%d%d, %d SMs, %.1f GiB", properties.name, properties.major, properties.minor,
                          properties.multiProcessorCount, properties.totalGlobalMem / 1073741824.0);
    cudaStream_t stream;
    raise(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create the stream");
    stream_ = stream;
    for (int k = 0; k < 4; ++k) {
        cudaEvent_t event;
        raise(cudaEventCreateWithFlags(&event, k < 2 ? cudaEventDisableTiming : cudaEventDefault), "create an event");
        events_[k] = event;
    }
#else
    throw Error(Status::bad_argument,
                "cuda backend: this library was built without nvcc; build it with nvcc or set MILCGPU_BACKEND=host");
#endif
}

Device::~Device() {
    while (!allocations_.empty())
        release(allocations_.begin()->first);
#if defined(MILCGPU_WITH_CUDA)
    for (void *event : events_)
        if (event != nullptr)
            cudaEventDestroy(as_event(event));
    if (stream_ != nullptr)
        cudaStreamDestroy(as_stream(stream_));
#endif
}

void Device::raise(int cuda_error, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (cuda_error == cudaSuccess)
        return;
    const cudaError_t code = static_cast<cudaError_t>(cuda_error);
    cudaGetLastError();
    throw Error(Status::device_lost, format("GPU %d failed to %s: %s (%s). Its state is lost; run on another GPU, or "
                                            "with MILCGPU_BACKEND=host",
                                            ordinal_, what, cudaGetErrorString(code), cudaGetErrorName(code)));
#else
    static_cast<void>(cuda_error), static_cast<void>(what);
#endif
}

void *Device::allocate(size_t bytes, const char *owner) {
    const size_t padded = (bytes + alignment - 1) / alignment * alignment + alignment;
    void *pointer = nullptr;
    if (fault_ == Fault::allocation) {
        fault_ = Fault::none;
    } else if (on_gpu()) {
#if defined(MILCGPU_WITH_CUDA)
        const cudaError_t code = cudaMalloc(&pointer, padded);
        if (code != cudaSuccess) {
            pointer = nullptr;
            cudaGetLastError();
            if (code != cudaErrorMemoryAllocation)
                raise(code, "allocate memory");
        }
#endif
    } else {
        pointer = std::aligned_alloc(alignment, padded);
    }
    if (pointer == nullptr)
        throw Error(Status::no_memory,
                    format("%s: %.1f MiB for %s do not fit: %.1f MiB free, %.1f MiB held by milcgpu:\n%s",
                           name(backend_), bytes / 1048576.0, owner, free_bytes() / 1048576.0,
                           used_bytes_ / 1048576.0, memory_table().c_str()));
    allocations_[pointer] = {padded, owner};
    used_bytes_ += padded;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    return pointer;
}

void Device::release(void *pointer) noexcept {
    const auto found = allocations_.find(pointer);
    if (found == allocations_.end())
        return;
    used_bytes_ -= found->second.bytes;
    allocations_.erase(found);
    if (!on_gpu())
        std::free(pointer);
#if defined(MILCGPU_WITH_CUDA)
    else
        cudaFree(pointer);
#endif
}

size_t Device::free_bytes() const {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        size_t free = 0, total = 0;
        return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
    }
#endif
    long kilobytes = 0;
    if (std::FILE *file = std::fopen("/proc/meminfo", "r")) {
        char line[256];
        while (std::fgets(line, sizeof line, file) != nullptr)
            if (std::sscanf(line, "MemAvailable: %ld", &kilobytes) == 1)
                break;
        std::fclose(file);
    }
    return static_cast<size_t>(kilobytes) * 1024;
}

std::string Device::memory_table() const {
    std::map<std::string, size_t> by_owner;
    for (const auto &entry : allocations_)
        by_owner[entry.second.owner] += entry.second.bytes;
    std::string table;
    for (const auto &entry : by_owner)
        table += format("  %10.1f MiB  %s\n", entry.second / 1048576.0, entry.first.c_str());
    return table;
}

void Device::copy_to_device(void *to, const void *from, size_t bytes) { copy_rows_to_device(to, from, bytes, bytes, 1); }
void Device::copy_to_host(void *to, const void *from, size_t bytes) { copy_rows_to_host(to, from, bytes, bytes, 1); }

void Device::copy_rows_to_device(void *to, const void *from, size_t pitch, size_t width, size_t rows) {
    transfers_.to_device_bytes += width * rows;
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        if (pitch == width)
            raise(cudaMemcpyAsync(to, from, width * rows, cudaMemcpyHostToDevice, as_stream(stream_)), "copy to the GPU");
        else
            raise(cudaMemcpy2DAsync(to, width, from, pitch, width, rows, cudaMemcpyHostToDevice, as_stream(stream_)),
                  "copy rows to the GPU");
        synchronize();
        return;
    }
#endif
    for (size_t row = 0; row < rows; ++row)
        memcpy(static_cast<char *>(to) + row * width, static_cast<const char *>(from) + row * pitch, width);
}

void Device::copy_rows_to_host(void *to, const void *from, size_t pitch, size_t width, size_t rows) {
    transfers_.to_host_bytes += width * rows;
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        if (pitch == width)
            raise(cudaMemcpyAsync(to, from, width * rows, cudaMemcpyDeviceToHost, as_stream(stream_)), "copy to the host");
        else
            raise(cudaMemcpy2DAsync(to, pitch, from, width, width, rows, cudaMemcpyDeviceToHost, as_stream(stream_)),
                  "copy rows to the host");
        synchronize();
        return;
    }
#endif
    for (size_t row = 0; row < rows; ++row)
        memcpy(static_cast<char *>(to) + row * pitch, static_cast<const char *>(from) + row * width, width);
}

void Device::copy_on_device(void *to, const void *from, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, as_stream(stream_)), "copy on the GPU");
        return;
    }
#endif
    memcpy(to, from, bytes);
}

void Device::fill_zero(void *to, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemsetAsync(to, 0, bytes, as_stream(stream_)), "clear memory");
        return;
    }
#endif
    memset(to, 0, bytes);
}

void Device::synchronize() {
    if (fault_ == Fault::device_lost) {
        fault_ = Fault::none;
        throw Error(Status::device_lost, format("%s backend: device lost (injected by a test)", name(backend_)));
    }
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        raise(cudaStreamSynchronize(as_stream(stream_)), "finish its work");
#endif
}

void Device::check_launch(const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    raise(cudaGetLastError(), what);
#else
    static_cast<void>(what);
#endif
}

void Device::set_block(int threads) {
    if (threads != 0 && threads != 64 && threads != 128 && threads != 256)
        throw Error(Status::bad_argument, format("block of %d threads: must be 0 (each kernel's own), 64, 128 or 256",
                                                 threads));
    block_ = threads;
}

Device::ReduceScratch Device::reduce_scratch(size_t partials, size_t groups) {
    if (partials > partials_size_) {
        if (partials_ != nullptr)
            release(partials_);
        partials_ = nullptr, partials_size_ = 0;
        partials_ = static_cast<double *>(allocate(partials * sizeof(double), "partial sums"));
        partials_size_ = partials;
    }
    if (groups + 1 > counters_size_) {
        if (counters_ != nullptr)
            release(counters_);
        counters_ = nullptr, counters_size_ = 0;
        counters_ = static_cast<unsigned *>(allocate((groups + 1) * sizeof(unsigned), "partial sums"));
        counters_size_ = groups + 1;
        fill_zero(counters_, (groups + 1) * sizeof(unsigned));
    }
    return {partials_, counters_};
}

void reserve_sums(Device &device, int n) {
    constexpr int widest = 3; // numbers summed at once
    const ReduceShape shape(n);
    device.reduce_scratch(widest * (shape.tiles + shape.groups), shape.groups);
}

Device::Sequence::Sequence(Device &device, std::function<void()> launches)
    : device_(device), launches_(std::move(launches)) {
#if defined(MILCGPU_WITH_CUDA)
    if (!device.on_gpu())
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

void Device::copy_to_pinned_later(void *to, const void *from, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, as_stream(stream_)), "copy to the host");
        return;
    }
#endif
    memcpy(to, from, bytes);
}

void *Device::allocate_pinned(size_t bytes) {
    void *pointer = nullptr;
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMallocHost(&pointer, bytes), "allocate pinned host memory");
        return pointer;
    }
#endif
    pointer = std::malloc(bytes);
    if (pointer == nullptr)
        throw Error(Status::no_memory, format("%zu bytes of host memory do not fit", bytes));
    return pointer;
}

void Device::release_pinned(void *pointer) noexcept {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        cudaFreeHost(pointer);
        return;
    }
#endif
    std::free(pointer);
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
    if (fault_ == Fault::device_lost)
        synchronize();
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        raise(cudaEventSynchronize(as_event(events_[slot])), "finish its work");
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
