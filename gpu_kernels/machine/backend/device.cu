#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/machine/backend/reduce.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include <cstdlib>
#include <omp.h>
#include <unistd.h>

namespace milcgpu {

namespace {

constexpr size_t alignment = 256; // of every array, on both backends

} // namespace

// With fewer sites than this the GPU uses 4 threads a site. Measured time of an iteration: 12 % less at 4096 sites, 2
// to 22 % less at 16384, 12 % more at 32768. On the host it gains nothing.
constexpr int gpu_parts_below = 20000, host_parts_below = 0;

const char *name(Backend backend) { return backend == Backend::cuda ? "cuda" : "host"; }

int Device::gpu_count() {
#if defined(MILCGPU_WITH_CUDA)
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError(); // no driver or no GPU; the error is handled here
        return 0;
    }
    return count;
#else
    return 0;
#endif
}

Device::Device(Backend backend, int ordinal, Closed) : LaunchQueue(backend), ordinal_(ordinal) {
    parts_below_ = backend == Backend::cuda ? gpu_parts_below : host_parts_below;
}

Device::Device(CountsOnly) : Device(Backend::host, 0, Closed()) {
    counts_only_ = true;
    observer_ = [](const char *what) {
        throw Error(Status::bad_argument, format("%s: on a device that only counts memory", what));
    };
}

LaunchQueue &queue_of(Device &device) { return device; }
const LaunchQueue &queue_of(const Device &device) { return device; }

#if defined(MILCGPU_WITH_CUDA)
namespace {

// ", NUMA node 1"; empty if the system does not know.
std::string numa_node_of(const std::string &pci) {
    int node = -1;
    if (std::FILE *file = std::fopen(("/sys/bus/pci/devices/" + pci + ".0/numa_node").c_str(), "r")) {
        if (std::fscanf(file, "%d", &node) != 1)
            node = -1;
        std::fclose(file);
    }
    return node >= 0 ? format(", NUMA node %d", node) : "";
}

} // namespace
#endif

// The other constructor returns first. So if something fails below, the destructor runs and closes what is open.
Device::Device(Backend backend, int ordinal) : Device(backend, ordinal, Closed()) {
    if (backend == Backend::host) {
        description_ = "host, " + threads_in_words();
        zero_sum(); // so that a page of them counts before memory is planned
        return;
    }
#if defined(MILCGPU_WITH_CUDA)
    const int count = gpu_count();
    if (ordinal < 0 || ordinal >= count)
        throw Error(
            Status::bad_argument,
            format("cuda backend: GPU %d is requested, and %d visible (check nvidia-smi and CUDA_VISIBLE_DEVICES, or "
                   "set MILCGPU_BACKEND=host)",
                   ordinal, count));
    cudaGetLastError(); // see make_current()
    raise(cudaSetDevice(ordinal), "select the GPU");
    cudaDeviceProp properties;
    raise(cudaGetDeviceProperties(&properties, ordinal), "read the GPU's properties");
    cache_bytes_ = static_cast<size_t>(properties.l2CacheSize);
    memory_bytes_ = properties.totalGlobalMem;
    description_ = format("%s, sm_%d%d, %d SMs, %.1f GiB", properties.name, properties.major, properties.minor,
                          properties.multiProcessorCount, properties.totalGlobalMem / 1073741824.0);
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    const std::string pci =
        format("%04x:%02x:%02x", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
    place_ = "the GPU at " + pci + numa_node_of(pci) + " of host " + host;
    find_kernels(properties.major, properties.minor, properties.name);
    void *shared = nullptr;
    raise(cudaHostAlloc(&shared, sizeof(WaitReport), cudaHostAllocMapped), "allocate pinned host memory");
    waits_ = static_cast<WaitReport *>(shared);
    waits_->given_up = 0;
    cudaStream_t stream;
    raise(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create the stream");
    stream_ = stream;
    // Memory comes from a pool of this object, which keeps released memory until it is destroyed. With cudaMalloc and
    // cudaFree, workspaces would take longer than the work on small lattices.
    cudaMemPoolProps pool_properties = {};
    pool_properties.allocType = cudaMemAllocationTypePinned;
    pool_properties.location.type = cudaMemLocationTypeDevice;
    pool_properties.location.id = ordinal;
    cudaMemPool_t pool;
    raise(cudaMemPoolCreate(&pool, &pool_properties), "create a memory pool");
    pool_ = pool;
    uint64_t keep_all = UINT64_MAX;
    raise(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "set up the memory pool");
    for (int k = 0; k < 4; ++k) {
        cudaEvent_t event;
        raise(cudaEventCreateWithFlags(&event, k < 2 ? cudaEventDisableTiming : cudaEventDefault), "create an event");
        events_[k] = event;
    }
    int highest = 0; // highest priority: blocks of launches aside start before other blocks of D if there is room
    raise(cudaDeviceGetStreamPriorityRange(nullptr, &highest), "tell its priorities");
    raise(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "create a stream");
    side_stream_ = stream;
    for (void *&side_event : side_events_) {
        cudaEvent_t event;
        raise(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
        side_event = event;
    }
    make_letters();
    zero_sum();
#else
    throw Error(Status::bad_argument,
                "cuda backend: this library was built without nvcc; build it with nvcc, or select the host "
                "backend (options.backend, MILCGPU_BACKEND=host)");
#endif
}

void Device::make_current() {
#if defined(MILCGPU_WITH_CUDA)
    if (!on_gpu())
        return;
    // Clears an error that another part of the program left; it is not an error of the next launches
    cudaGetLastError();
    raise(cudaSetDevice(ordinal_), "select the GPU");
#endif
}

Device::~Device() {
    while (!allocations_.empty())
        release(allocations_.begin()->first);
    if (!on_gpu())
        for (const Pinned &piece : own_pinned_)
            std::free(piece.data);
#if defined(MILCGPU_WITH_CUDA)
    for (void *event : events_)
        if (event != nullptr)
            cudaEventDestroy(as_event(event));
    staging_.reset();
    for (void *event : side_events_)
        if (event != nullptr)
            cudaEventDestroy(as_event(event));
    if (waits_ != nullptr)
        cudaFreeHost(waits_);
    for (const Pinned &piece : own_pinned_)
        if (on_gpu())
            cudaFreeHost(piece.data);
    for (const auto &pinned : pinned_)
        if (on_gpu())
            cudaHostUnregister(pinned.first);
    for (void *stream : {stream_, side_stream_})
        if (stream != nullptr) {
            cudaStreamSynchronize(as_stream(stream));
            cudaStreamDestroy(as_stream(stream));
        }
    if (pool_ != nullptr)
        cudaMemPoolDestroy(static_cast<cudaMemPool_t>(pool_));
#endif
}

#if defined(MILCGPU_WITH_CUDA)
namespace {
__global__ void nothing() {}
} // namespace

// Asks a compiled kernel, not the device, whether launches may start early. The driver can translate older PTX for a
// newer GPU, but such code does not wait for the previous launch (wait_for_previous in launch.h).
void Device::find_kernels(int major, int minor, const char *gpu) {
    cudaFuncAttributes kernel;
    const cudaError_t code = cudaFuncGetAttributes(&kernel, nothing);
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
        code == cudaErrorUnsupportedPtxVersion || code == cudaErrorInvalidPtx) {
        cudaGetLastError();
        throw Error(Status::not_built,
                    format("GPU %d is a %s, sm_%d%d; this library has kernels for %s. Build it with ARCH=sm_%d%d, or "
                           "set MILCGPU_BACKEND=host",
                           ordinal_, gpu, major, minor, MILCGPU_ARCH, major, minor));
    }
    raise(code, "look at its kernels");
    starts_early_ = kernel.ptxVersion >= 90;
}
#else
void Device::find_kernels(int, int, const char *) {}
#endif

void Device::raise(int cuda_error, const char *what) {
#if defined(MILCGPU_WITH_CUDA)
    if (cuda_error == cudaSuccess)
        return;
    const cudaError_t code = static_cast<cudaError_t>(cuda_error);
    cudaGetLastError();
    if (code == cudaErrorMemoryAllocation && !hands_over_) // memory of the CUDA runtime itself, not of fields
        throw Error(Status::no_memory, format("GPU %d failed to %s: its memory is used up, probably by other programs. "
                                              "Use another GPU, or MILCGPU_BACKEND=host",
                                              ordinal_, what));
    throw Error(Status::device_lost, format("GPU %d failed to %s: %s (%s). Its state is lost; run on another GPU, or "
                                            "with MILCGPU_BACKEND=host",
                                            ordinal_, what, cudaGetErrorString(code), cudaGetErrorName(code)));
#else
    static_cast<void>(cuda_error), static_cast<void>(what);
#endif
}

size_t Device::allocated_bytes(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment + alignment; }

// Returns nullptr if the memory does not fit even after the pool has released its unused memory.
void *Device::try_allocate(size_t bytes) {
    void *pointer = nullptr;
    if (memory_limit_ != 0 && used_bytes_ + allocated_bytes(bytes) > memory_limit_)
        return nullptr;
    if (counts_only_) { // an address behind the last array
        const auto last = allocations_.rbegin();
        return last == allocations_.rend() ? reinterpret_cast<void *>(alignment)
                                           : static_cast<unsigned char *>(last->first) + last->second.bytes();
    }
    if (!on_gpu()) // exactly so many bytes, so that sanitizers find accesses beyond the end
        return allocate_in_large_pages(bytes, alignment);
#if defined(MILCGPU_WITH_CUDA)
    const auto ask = [&] {
        return cudaMallocFromPoolAsync(&pointer, allocated_bytes(bytes), static_cast<cudaMemPool_t>(pool_),
                                       as_stream(stream_));
    };
    cudaError_t code = ask();
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        synchronize();
        raise(cudaMemPoolTrimTo(static_cast<cudaMemPool_t>(pool_), 0), "give memory back");
        code = ask();
    }
    if (code != cudaSuccess) {
        pointer = nullptr;
        cudaGetLastError();
        if (code != cudaErrorMemoryAllocation)
            raise(code, "allocate memory");
    }
#endif
    return pointer;
}

void *Device::allocate(size_t bytes, const char *owner) {
    const size_t padded = allocated_bytes(bytes);
    const bool planted = fault_is_due(Fault::allocation); // fails even after reclaim_
    last_allocation_ = planted ? Allocated::planted_failure : Allocated::failed;
    void *pointer = planted ? nullptr : try_allocate(bytes);
    shortages_ += pointer == nullptr && !planted;
    while (pointer == nullptr && ranks_ == nullptr && reclaim_ && reclaim_())
        pointer = planted ? nullptr : try_allocate(bytes);
    if (pointer == nullptr)
        throw Error(Status::no_memory,
                    format("%s: %.1f MiB for %s do not fit: %.1f MiB free, %.1f MiB held by milcgpu:\n%s",
                           name(backend_), bytes / 1048576.0, owner, free_bytes() / 1048576.0, used_bytes_ / 1048576.0,
                           memory_table().c_str()));
    try {
        const auto kind = counts_.try_emplace({owner, padded}, 0).first;
        allocations_[pointer] = {kind, bytes};
        ++kind->second;
    } catch (const std::bad_alloc &) {
        free_now(pointer);
        throw;
    }
    used_bytes_ += padded;
    if (used_bytes_ > peak_bytes_)
        peak_bytes_ = used_bytes_, peak_is_now_ = true;
    last_allocation_ = Allocated::well;
    return pointer;
}

void Device::release(void *pointer) noexcept {
    const auto found = allocations_.find(pointer);
    if (found == allocations_.end())
        return;
    if (peak_is_now_) {
        peak_is_now_ = false;
        try {
            at_peak_ = counts_;
        } catch (const std::bad_alloc &) {
            at_peak_.clear();
        }
    }
    used_bytes_ -= found->second.bytes();
    --found->second.kind->second;
    allocations_.erase(found);
    free_now(pointer);
}

void Device::free_now(void *pointer) noexcept {
    if (counts_only_)
        return;
    if (!on_gpu())
        std::free(pointer);
#if defined(MILCGPU_WITH_CUDA)
    else
        cudaFreeAsync(pointer, as_stream(stream_));
#endif
}

std::vector<Device::Array> Device::arrays() const {
    std::vector<Array> all;
    for (const auto &entry : allocations_)
        all.push_back({entry.second.owner(), entry.second.asked_bytes});
    return all;
}

std::string Device::flip_bit(size_t bit) {
    size_t all = 0;
    for (const auto &entry : allocations_)
        all += entry.second.asked_bytes;
    size_t at = bit / 8 % std::max<size_t>(all, 1);
    for (const auto &[pointer, allocation] : allocations_) {
        if (at < allocation.asked_bytes) {
            unsigned char *byte = static_cast<unsigned char *>(pointer) + at, value;
            copy_to_host(&value, byte, 1);
            value ^= static_cast<unsigned char>(1u << bit % 8);
            copy_to_device(byte, &value, 1);
            return allocation.owner();
        }
        at -= allocation.asked_bytes;
    }
    return "";
}

int Device::replace(double value, double other) {
    int replaced = 0;
    for (const auto &[pointer, allocation] : allocations_) {
        std::vector<double> words(allocation.asked_bytes / sizeof(double));
        copy_to_host(words.data(), pointer, words.size() * sizeof(double));
        const auto before = replaced;
        for (double &word : words)
            if (word == value)
                word = other, ++replaced;
        if (replaced > before)
            copy_to_device(pointer, words.data(), words.size() * sizeof(double));
    }
    return replaced;
}

// True if the planted fault is of this kind and due now.
bool Device::fault_is_due(Fault fault) {
    if (fault_ != fault || fault_after_ > 0) {
        fault_after_ -= fault_ == fault;
        return false;
    }
    if (++fault_after_ >= 0)
        fault_ = Fault::none;
    return true;
}

size_t Device::free_bytes() const {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        size_t free = 0, total = 0;
        uint64_t kept = 0, used = 0;
        const cudaMemPool_t pool = static_cast<cudaMemPool_t>(pool_);
        if (cudaMemGetInfo(&free, &total) != cudaSuccess ||
            cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &kept) != cudaSuccess ||
            cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess) {
            cudaGetLastError(); // only for a message; the error is handled here
            return 0;
        }
        return free + (kept - used);
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
    for (const auto &[kind, count] : counts_)
        if (count > 0)
            by_owner[kind.first] += kind.second * count;
    std::string table;
    for (const auto &entry : by_owner)
        table += format("  %10.1f MiB  %s\n", entry.second / 1048576.0, entry.first.c_str());
    return table;
}

void Device::fail_if_planted() {
    if (fault_is_due(Fault::device_lost))
        throw Error(Status::device_lost, format("%s backend: device lost (injected by a test)", name(backend_)));
}

void Device::synchronize() {
    fail_if_planted();
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        wait_for_all();
#endif
}

void Device::check_waits() {
    if (waits_ == nullptr || waits_->given_up == 0)
        return;
    const Wait wait = static_cast<Wait>(waits_->given_up);
#if defined(MILCGPU_WITH_CUDA)
    raise(cudaStreamSynchronize(as_stream(stream_)), "finish its work");
#endif
    waits_->given_up = 0;
    empty_sum_slots();
    if (wait == Wait::ghosts || wait == Wait::sum_of_rank) {
        const std::string what =
            format("a kernel%s waited too long for %s rank %d%s. Is it still running, and in the same call? All ranks "
                   "must end; if a rank may be that late, raise MILCGPU_TIMEOUT (seconds)",
                   ranks_ != nullptr ? (" of " + ranks_->name()).c_str() : "",
                   wait == Wait::ghosts ? "ghosts from" : "the sum of", waits_->rank,
                   wait == Wait::ghosts ? format(" (%s)", face_names[waits_->face % Peers::faces]).c_str() : "");
        if (ranks_ != nullptr)
            ranks_->give_up(Status::timed_out, what);
        throw Error(Status::timed_out, what);
    }
    throw Error(Status::timed_out, format("a kernel on GPU %d waited for %s and gave up after %u polls. Does another "
                                          "program or a debugger hold the GPU? Try the call again",
                                          ordinal_, name(wait), most_polls));
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
        throw Error(Status::bad_argument,
                    format("options.block_size is %d: must be 0 (each kernel's own), 64, 128 or 256", threads));
    block_ = threads;
}

double *Device::sum_slots(size_t count) {
    if (counts_only_) // a context allocates them when it starts
        return nullptr;
    if (sum_slots_.empty() || count > sum_slots_.back().count) {
        sum_slots_.push_back({static_cast<double *>(allocate(count * sizeof(double), "partial sums")), count});
        fill(sum_slots_.back().data, 0xFF, count * sizeof(double));
    }
    return sum_slots_.back().data;
}

double *Device::sums_of_rank() {
    if (sums_of_rank_ == nullptr)
        sums_of_rank_ = static_cast<double *>(allocate(most_sums * sizeof(double), "partial sums"));
    return sums_of_rank_;
}

void Device::empty_sum_slots() {
    for (const SumSlots &slots : sum_slots_)
        fill(slots.data, 0xFF, slots.count * sizeof(double));
}

size_t slots_of_sum(int n) { return ReduceShape(n).slots(); }

void reserve_sums(Device &device, int n, int fields) {
    constexpr int widest_of_several = 2; // numbers summed at once over each of several fields
    device.sum_slots(std::max(fields * widest_of_several, widest_sum) * slots_of_sum(n));
    if (device.ranks() != nullptr)
        device.sums_of_rank();
}

} // namespace milcgpu
