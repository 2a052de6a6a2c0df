// Copies between host and device, and pinned host memory.
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/backend/cuda_handles.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/large_pages.h"
#include "gpu_kernels/machine/backend/profile.h"
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <omp.h>

namespace milcgpu {

namespace {

constexpr size_t staging_bytes = size_t(4) << 20; // size of each pinned buffer
constexpr int staging_slots = 6;
constexpr size_t least_staged = size_t(1) << 17; // the driver copies fewer bytes as fast
constexpr size_t letter_bytes = 8192;
constexpr size_t prefetched_bytes = 768; // of rows that are copied next
// Most copies to the device in flight without a wait; one more letter is for copies to the host
constexpr int most_letters = 16;

} // namespace

void Device::copy_to_device(void *to, const void *from, size_t bytes) {
    copy_rows_to_device(to, from, bytes, bytes, 1);
}
// Copies numbers that the library itself reads. Copies into the caller's memory first wait for the queue; these do not.
void Device::copy_to_host(void *to, const void *from, size_t bytes) {
    fail_if_planted();
    read_rows(to, from, bytes, bytes, 1);
}

// `rows` pieces of `width` bytes, `pitch` apart, in host memory.
struct Device::Rows {
    unsigned char *data;
    size_t pitch, width, rows;
    size_t bytes() const { return width * rows; }
    const unsigned char *last() const { return data + (rows - 1) * pitch + width - 1; }
    // Copies bytes [from, from + n) of the packed rows to or from `packed` (nullptr: does not copy), with several
    // threads. Adds weigh_row of these bytes to `sum`, if it is given.
    void copy(unsigned char *packed, size_t from, size_t n, bool to_packed, uint64_t *sum) const {
        const size_t piece = 1 << 14;
        // The processor does not guess addresses that are far apart.
        const size_t ahead = pitch == width ? 0 : std::max<size_t>(2, prefetched_bytes / width) * pitch;
        const long long pieces = static_cast<long long>((n + piece - 1) / piece);
        // More threads do not make the host's memory faster. All wait for the slowest one, and one that shares its core
        // with another program's thread is slow, so some cores stay free.
        const int all = omp_get_max_threads(),
                  threads = n > size_t(1) << 18 ? std::min(all > 8 ? all - all / 4 : all, 16) : 1;
        uint64_t of_all = 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : of_all)
        for (long long k = 0; k < pieces; ++k) {
            size_t at = from + k * piece;
            const size_t end = std::min(at + piece, from + n);
            while (at < end) {
                const size_t row = pitch == width ? 0 : at / width, in_row = at - row * width;
                const size_t length = pitch == width ? end - at : std::min(width - in_row, end - at);
                unsigned char *host = data + row * pitch + in_row;
                for (size_t line = 0; ahead != 0 && line < length; line += 64)
                    __builtin_prefetch(host + ahead + line);
                if (packed != nullptr && to_packed)
                    std::memcpy(packed + (at - from), host, length);
                else if (packed != nullptr)
                    std::memcpy(host, packed + (at - from), length);
                if (sum != nullptr)
                    of_all += weigh_row(host, length, at / 8);
                at += length;
            }
        }
        if (sum != nullptr)
            *sum += of_all;
    }
    void weigh(uint64_t *sum) const {
        if (sum != nullptr)
            copy(nullptr, 0, bytes(), true, sum);
    }
};

struct Device::Staging {
    unsigned char *buffers = nullptr; // pinned
    void *events[staging_slots] = {}; // recorded when the bus no longer uses the buffer
    int next = 0;                     // buffer to use next
    struct Arrival {                  // bytes [at, at + bytes) of `to` are in flight to buffer `slot`
        Rows to;
        size_t at, bytes;
        int slot;
        uint64_t *sum; // as in copy()
    };
    std::array<Arrival, staging_slots> ring; // allocated with the buffers: nothing lacks memory between two copies
    size_t taken = 0, sent = 0;              // arrivals so far; number k is ring[k % staging_slots]
    bool in_a_row = false;
    unsigned char *buffer(int slot) const { return buffers + slot * staging_bytes; }
#if defined(MILCGPU_WITH_CUDA)
    ~Staging() {
        for (void *event : events)
            if (event != nullptr)
                cudaEventDestroy(as_event(event));
        if (buffers != nullptr)
            cudaFreeHost(buffers);
    }
#endif
};

void Device::copy_rows_to_device(void *to, const void *from, size_t pitch, size_t width, size_t rows, uint64_t *sum) {
    const Rows host = {const_cast<unsigned char *>(static_cast<const unsigned char *>(from)), pitch, width, rows};
    if (sum != nullptr)
        *sum = 0;
    if (counts_only_)
        return;
    const ProfilerRange range("copy to the device");
    about_to("copy to the device");
    transfers_.to_device_bytes += width * rows;
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu() && pitch == width && width * rows <= letter_bytes) {
        if (letters_sent_ == most_letters)
            synchronize();
        unsigned char *const out = letters_ + letters_sent_ * letter_bytes;
        std::memcpy(out, from, width * rows);
        host.weigh(sum);
        raise(cudaMemcpyAsync(to, out, width * rows, cudaMemcpyHostToDevice, as_stream(stream_)), "copy to the GPU");
        ++letters_sent_;
        return;
    }
    if (on_gpu() && goes_directly(host)) {
        raise(pitch == width
                  ? cudaMemcpyAsync(to, from, width * rows, cudaMemcpyHostToDevice, as_stream(stream_))
                  : cudaMemcpy2DAsync(to, width, from, pitch, width, rows, cudaMemcpyHostToDevice, as_stream(stream_)),
              "copy to the GPU");
        host.weigh(sum);
        synchronize();
        return;
    }
#endif
    if (on_gpu())
        stage_to_device(to, host, sum);
    else
        host.copy(static_cast<unsigned char *>(to), 0, host.bytes(), true, sum);
}

// Staged copies wait for all earlier work before they write the host's memory. So no other wait is needed here.
void Device::copy_rows_to_host(void *to, const void *from, size_t pitch, size_t width, size_t rows, uint64_t *sum) {
    if (on_gpu() && !goes_directly({static_cast<unsigned char *>(to), pitch, width, rows})) {
        make_staging();
        fail_if_planted();
    } else {
        prepare_to_host(width * rows);
    }
    hands_over_ = true;
    read_rows(to, from, pitch, width, rows, sum);
}

void Device::prepare_to_host(size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu() && bytes >= least_staged)
        make_staging();
#else
    static_cast<void>(bytes);
#endif
    synchronize();
}

void Device::read_rows(void *to, const void *from, size_t pitch, size_t width, size_t rows, uint64_t *sum) {
    const Rows host = {static_cast<unsigned char *>(to), pitch, width, rows};
    if (sum != nullptr)
        *sum = 0;
    const ProfilerRange range("copy to the host");
    about_to("copy to the host");
    transfers_.to_host_bytes += width * rows;
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu() && pitch == width && width * rows <= letter_bytes) {
        unsigned char *const in = letters_ + most_letters * letter_bytes;
        raise(cudaMemcpyAsync(in, from, width * rows, cudaMemcpyDeviceToHost, as_stream(stream_)), "copy to the host");
        wait_for_all();
        std::memcpy(to, in, width * rows);
        host.weigh(sum);
        return;
    }
    if (on_gpu() && goes_directly(host)) {
        raise(pitch == width
                  ? cudaMemcpyAsync(to, from, width * rows, cudaMemcpyDeviceToHost, as_stream(stream_))
                  : cudaMemcpy2DAsync(to, pitch, from, width, width, rows, cudaMemcpyDeviceToHost, as_stream(stream_)),
              "copy to the host");
        wait_for_all();
        host.weigh(sum);
        return;
    }
#endif
    if (on_gpu())
        stage_to_host(host, from, sum);
    else
        host.copy(static_cast<unsigned char *>(const_cast<void *>(from)), 0, host.bytes(), false, sum);
}

void Device::make_letters() {
    letters_ = static_cast<unsigned char *>(allocate_pinned((most_letters + 1) * letter_bytes));
}

#if defined(MILCGPU_WITH_CUDA)
void Device::wait_for_all() {
    wait_for_event(nullptr);
    letters_sent_ = 0;
    check_waits();
}

bool Device::is_pinned(const void *host) const {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, host) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.type == cudaMemoryTypeHost;
}

// True if a part of this memory was pinned here and a part was not: the driver does not copy it.
bool Device::pinned_in_part(const Rows &host) const {
    constexpr uintptr_t page = 4096; // the driver pins whole pages
    const auto first = reinterpret_cast<uintptr_t>(host.data), last = reinterpret_cast<uintptr_t>(host.last());
    for (const auto &[data, bytes] : pinned_) {
        const auto start = reinterpret_cast<uintptr_t>(data), end = start + bytes;
        if (first / page <= (end - 1) / page && start / page <= last / page && !(start <= first && last < end))
            return true;
    }
    return false;
}

// True if the driver copies directly, without staging buffers: pinned memory and small copies. False for small copies
// if the host has other work meanwhile (meanwhile_), because the driver may wait for the queue.
bool Device::goes_directly(const Rows &host) const {
    if (pinned_in_part(host))
        return false;
    return (host.bytes() < least_staged && !meanwhile_) || (is_pinned(host.data) && is_pinned(host.last()));
}

void Device::make_staging() {
    if (staging_ == nullptr)
        staging_ = std::make_shared<Staging>();
    if (staging_->buffers != nullptr)
        return;
    for (void *&event : staging_->events)
        if (event == nullptr) {
            cudaEvent_t made;
            raise(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "create an event");
            event = made;
        }
    if (meanwhile_) // allocating may wait for kernels that wait for the host
        wait_for_event(nullptr);
    void *buffers = nullptr;
    raise(cudaMallocHost(&buffers, staging_slots * staging_bytes), "allocate pinned host memory");
    staging_->buffers = static_cast<unsigned char *>(buffers);
}

// Waits until the bus no longer uses the buffer.
int Device::next_buffer() {
    make_staging();
    const int slot = staging_->next;
    wait_for_event(staging_->events[slot]);
    staging_->next = (slot + 1) % staging_slots;
    return slot;
}

// Returns after the host's memory has been read. The last buffers may still be in flight to the device.
void Device::stage_to_device(void *to, const Rows &from, uint64_t *sum) {
    if (staging_ != nullptr)
        take_arrivals(0);
    for (size_t done = 0; done < from.bytes();) {
        const size_t n = std::min(staging_bytes, from.bytes() - done);
        const int slot = next_buffer();
        from.copy(staging_->buffer(slot), done, n, true, sum);
        raise(cudaMemcpyAsync(static_cast<unsigned char *>(to) + done, staging_->buffer(slot), n,
                              cudaMemcpyHostToDevice, as_stream(stream_)),
              "copy to the GPU");
        raise(cudaEventRecord(as_event(staging_->events[slot]), as_stream(stream_)), "record an event");
        done += n;
    }
}

void Device::stage_to_host(const Rows &to, const void *from, uint64_t *sum) {
    make_staging();
    try {
        for (size_t at = 0; at < to.bytes(); at += staging_bytes) {
            take_arrivals(staging_slots - 1);
            const size_t n = std::min(staging_bytes, to.bytes() - at);
            const int slot = next_buffer();
            raise(cudaMemcpyAsync(staging_->buffer(slot), static_cast<const unsigned char *>(from) + at, n,
                                  cudaMemcpyDeviceToHost, as_stream(stream_)),
                  "copy to the host");
            raise(cudaEventRecord(as_event(staging_->events[slot]), as_stream(stream_)), "record an event");
            staging_->ring[staging_->sent++ % staging_slots] = {to, at, n, slot, sum};
        }
        if (!staging_->in_a_row)
            take_arrivals(0);
    } catch (...) {
        staging_->taken = staging_->sent;
        throw;
    }
}

void Device::take_arrivals(size_t left) {
    for (Staging &all = *staging_; all.sent - all.taken > left; ++all.taken) {
        const Staging::Arrival &first = all.ring[all.taken % staging_slots];
        wait_for_event(all.events[first.slot]);
        if (first.at == 0)
            check_waits(); // before the first byte is written
        first.to.copy(all.buffer(first.slot), first.at, first.bytes, false, first.sum);
    }
}

void Device::in_a_row(const std::function<void()> &copies) {
    if (!on_gpu())
        return copies();
    make_staging();
    staging_->in_a_row = true;
    try {
        copies();
        take_arrivals(0);
    } catch (...) {
        staging_->taken = staging_->sent;
        staging_->in_a_row = false;
        throw;
    }
    staging_->in_a_row = false;
}
#else
bool Device::goes_directly(const Rows &) const { return true; }
void Device::make_staging() {}
void Device::stage_to_device(void *, const Rows &, uint64_t *) {}
void Device::stage_to_host(const Rows &, const void *, uint64_t *) {}
void Device::in_a_row(const std::function<void()> &copies) { copies(); }
#endif

void Device::copy_on_device(void *to, const void *from, size_t bytes) {
    about_to("copy on the device");
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, as_stream(stream_)), "copy on the GPU");
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

void Device::fill_zero(void *to, size_t bytes) { fill(to, 0, bytes); }

void Device::fill(void *to, int byte, size_t bytes) {
    if (counts_only_)
        return;
    about_to("fill");
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemsetAsync(to, byte, bytes, as_stream(stream_)), "fill memory");
        return;
    }
#endif
    fill_bytes(to, byte, bytes);
}

void Device::copy_to_pinned_later(void *to, const void *from, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, as_stream(stream_)), "copy to the host");
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

void Device::copy_from_pinned_later(void *to, const void *from, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        raise(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, as_stream(stream_)), "copy to the GPU");
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

void *Device::allocate_pinned(size_t bytes) {
    for (Pinned &piece : own_pinned_)
        if (piece.spare && piece.bytes == bytes) {
            piece.spare = false;
            return piece.data;
        }
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu() && meanwhile_) // as in make_staging
        wait_for_event(nullptr);
#endif
    own_pinned_.push_back({nullptr, bytes, false}); // the entry comes first, so that the memory cannot leak
    void *&data = own_pinned_.back().data;
    try {
#if defined(MILCGPU_WITH_CUDA)
        if (on_gpu())
            raise(cudaMallocHost(&data, bytes), "allocate pinned host memory");
        else
#endif
            data = std::malloc(bytes);
        if (data == nullptr)
            throw Error(Status::no_memory, format("%zu bytes of host memory do not fit", bytes));
    } catch (...) {
        own_pinned_.pop_back();
        throw;
    }
    return data;
}

void Device::release_pinned(void *data) noexcept {
    for (Pinned &piece : own_pinned_)
        piece.spare = piece.spare || piece.data == data;
}

void Device::pin(void *host, size_t bytes) {
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu()) {
        if (meanwhile_)
            wait_for_event(nullptr);
        const cudaError_t code = cudaHostRegister(host, bytes, cudaHostRegisterDefault);
        cudaGetLastError();
        if (code != cudaSuccess)
            throw Error(Status::bad_argument,
                        format("%zu bytes at %p cannot be pinned: %s", bytes, host, cudaGetErrorString(code)));
    }
#endif
    pinned_[host] = bytes;
}

void Device::unpin(void *host) {
    if (pinned_.erase(host) == 0)
        throw Error(Status::bad_argument, format("%p is not memory that was pinned here", host));
#if defined(MILCGPU_WITH_CUDA)
    if (on_gpu())
        raise(cudaHostUnregister(host), "unpin memory");
#endif
}

} // namespace milcgpu
