// One device (a GPU, or the host's cores) with its queue of work: memory by owner, copies, synchronisation, replayed
// sequences of launches. Work is asynchronous on the cuda backend and in order; on the host backend it is done when the
// call returns.
#pragma once
#include "gpu_kernels/backend/error.h"
#include "gpu_kernels/backend/peers.h"
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace milcgpu {

class Ranks;

double wall_seconds(); // of a steady clock

enum class Backend { host, cuda };
const char *name(Backend);

// Faults that tests plant: an allocation fails, whatever is given back for it, or a wait for the device does.
enum class Fault { none, allocation, device_lost };

struct TransferCounters {
    uint64_t to_device_bytes = 0, to_host_bytes = 0;
};

class Device {
  public:
    // ordinal: which GPU (ignored on host). Throws Error(bad_argument) when there is no such device.
    Device(Backend backend, int ordinal);
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    static int gpu_count(); // 0 without nvcc, without driver or without GPU

    Backend backend() const { return backend_; }
    bool on_gpu() const { return backend_ == Backend::cuda; }
    // CUDA's current device belongs to a thread: every entry of the C interface calls this first.
    void make_current();
    const std::string &description() const { return description_; }
    const std::string &place() const { return place_; } // of a GPU: its host and its PCI address

    // Memory, in the order of the queue: what is released is reused by later work only. `owner` appears in memory
    // tables and in the message of a failure.
    void *allocate(size_t bytes, const char *owner);
    static size_t allocated_bytes(size_t bytes); // that allocate() takes for them
    void release(void *pointer) noexcept;
    size_t used_bytes() const { return used_bytes_; }
    size_t peak_bytes() const { return peak_bytes_; }
    size_t free_bytes() const;
    std::string memory_table() const; // a line an owner
    // Called when an allocation does not fit: gives back something that is only kept for later, and returns whether
    // there was anything. The allocation is then tried again.
    void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
    // For tests: allocations that would bring used_bytes() above this do not fit. 0: no limit.
    void set_memory_limit(size_t bytes) { memory_limit_ = bytes; }

    // Copies. host pointers are pageable or pinned; complete (host side) when the call returns. Pageable memory goes
    // through pinned buffers of the library, filled and emptied by all OpenMP threads while the bus works on another
    // one. A few numbers go through pinned letters: on their way to the device nothing waits for them.
    void copy_to_device(void *to, const void *from, size_t bytes);
    void copy_to_host(void *to, const void *from, size_t bytes);
    // rows of `width` bytes out of host records of `pitch` bytes, packed on the device, and back. On the way back what
    // failed before leaves the host's memory untouched.
    void copy_rows_to_device(void *to, const void *from, size_t pitch, size_t width, size_t rows);
    void copy_rows_to_host(void *to, const void *from, size_t pitch, size_t width, size_t rows);
    // Waits for all queued work and makes the buffers that a copy of `bytes` needs. After it, copies of up to so many
    // bytes to the host can fail only because the GPU is lost while they run.
    void prepare_to_host(size_t bytes);
    void copy_on_device(void *to, const void *from, size_t bytes);
    void fill_zero(void *to, size_t bytes);
    const TransferCounters &transfers() const { return transfers_; }

    // Throws Error(device_lost) when the device failed since the last call, Error(timed_out) when a kernel gave up a
    // wait.
    void synchronize();
    void check_launch(const char *what); // after each launch
    // Before each launch. CUDA loads a kernel when it is first launched, and waits for those that run until it has:
    // they must not be waiting for the host then.
    void before_launch_of(const void *kernel) {
        if (meanwhile_ && !recording_ && launched_.insert(kernel).second)
            wait_for_event(nullptr);
    }
    // after: allocations, or waits for the device, that still succeed before the one that fails.
    void inject(Fault fault, int after = 0) { fault_ = fault, fault_after_ = after; }
    Fault planted() const { return fault_; } // none: it has come

    // For tests: flips bit `bit` of what is allocated, all arrays one behind the other. Returns the owner of the array.
    std::string flip_bit(size_t bit);

    // Threads a block, 0 = each kernel's own choice. Results do not depend on it.
    int block() const { return block_; }
    void set_block(int threads);

    // Slots of the deterministic sums (reduce.h), all bits set where nothing has been posted. A solve empties them
    // first: what was left there by a flipped bit, or by a wait that was given up, would spoil every sum after it.
    double *sum_slots(size_t count);
    double *sums_of_rank(); // room for most_sums numbers
    void empty_sum_slots();

    // Where kernels note a wait that they gave up; nullptr on the host backend, which never waits.
    WaitReport *waits() const { return waits_; }

    // Sites of a parity below which a heavy sum takes 4 threads a site (launch_sum_in_parts). Tests set it to see both
    // ways on one lattice.
    int parts_below() const { return parts_below_; }
    void set_parts_below(int sites) { parts_below_ = sites; }

    // The ranks that share the lattice (comm/ranks.h), where there are several: sums over sites are then sums over all
    // ranks, in rank order, and every rank must queue the same launches. nullptr: this one has it all.
    Ranks *ranks() const { return ranks_; }
    void set_ranks(Ranks *ranks) { ranks_ = ranks; }
    void add_over_ranks(double *values, int count); // on the host; nothing to do for one rank
    // On the device, where the ranks reach each other's memory: sums over ranks and ghosts then need no host, and
    // launches with them are recorded. nullptr: they go over the host.
    Peers *peers() const { return peers_; }
    void set_peers(Peers *peers) { peers_ = peers; }
    // Launches are followed by work of the host: sums and messages of several ranks.
    bool needs_host() const { return ranks_ != nullptr && peers_ == nullptr; }
    // What goes on while the host waits for the queue, without which kernels of the queue may not end. It returns
    // whether all of it is done, and a wait for all that is queued waits for that, too. Empty: nothing.
    void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }
    bool has_meanwhile() const { return static_cast<bool>(meanwhile_); }
    // What may fail on one rank alone fails on all of them, with the same error (Ranks::agree). phase: a literal.
    void agree(const char *phase, const std::function<void()> &work);

    // Launches may start while the one before them ends: from sm_90 on, where the kernels were compiled for that.
    bool starts_early() const { return starts_early_; }

    // A sequence of launches, recorded once and replayed: on the GPU a captured graph, on the host, and where the host
    // has work between launches (needs_host(), or `recorded` is false), the calls again.
    class Sequence {
      public:
        Sequence(Device &device, std::function<void()> launches, bool recorded = true);
        ~Sequence();
        Sequence(const Sequence &) = delete;
        Sequence &operator=(const Sequence &) = delete;
        void run();

      private:
        Device &device_;
        std::function<void()> launches_;
        void *graph_ = nullptr;
    };

    // Pinned host memory that a sequence may copy into (asynchronously), and markers to wait for. What is released is
    // kept for the next one of that size: pinning takes as long as a solve on a small lattice.
    void copy_to_pinned_later(void *to, const void *from, size_t bytes);
    void *allocate_pinned(size_t bytes);
    void release_pinned(void *data) noexcept;
    // Pins memory of the caller, for as long as it is used often; nothing to do on the host backend.
    void pin(void *host, size_t bytes);
    void unpin(void *host);
    void record(int slot); // slot 0..1: marks the work queued so far
    void wait(int slot);

    // Seconds between two points of the queue, by device events on the GPU, by a clock on the host.
    void timer_start();
    double timer_stop_seconds();

    void *stream() const { return stream_; }

  private:
    struct Closed {}; // nothing of the GPU is held yet
    Device(Backend backend, int ordinal, Closed);
    void *try_allocate(size_t bytes); // nullptr: it does not fit
    void free_now(void *pointer) noexcept;
    bool fault_is_due(Fault fault);
    void fail_if_planted(); // before every wait
    void read_rows(void *to, const void *from, size_t pitch, size_t width, size_t rows);
    void make_staging();
    void fill(void *to, int byte, size_t bytes);
    void raise(int cuda_error, const char *what);
    void find_kernels(int major, int minor, const char *gpu);
    void check_waits();
    bool is_pinned(const void *host) const;
    bool goes_directly(const void *host, size_t bytes) const;
    unsigned char *staging(int slot); // when the bus has done with it
    void make_letters();
    void wait_for_all();
    void wait_for_event(void *event); // nullptr: for all that is queued
    struct Rows;
    void stage_to_device(void *to, const Rows &from);
    void stage_to_host(const Rows &to, const void *from);
    struct Allocation {
        size_t bytes, asked_bytes; // taken, and asked for
        std::string owner;
    };
    Backend backend_;
    int ordinal_;
    std::string description_, place_;
    std::map<void *, Allocation> allocations_;
    std::set<void *> pinned_; // of the caller
    struct Pinned {
        void *data;
        size_t bytes;
        bool spare;
    };
    std::vector<Pinned> own_pinned_;
    size_t used_bytes_ = 0, peak_bytes_ = 0, memory_limit_ = 0;
    std::function<bool()> reclaim_;
    TransferCounters transfers_;
    Fault fault_ = Fault::none;
    int fault_after_ = 0;
    int block_ = 0;
    int parts_below_;
    void *stream_ = nullptr, *pool_ = nullptr;
    void *events_[4] = {nullptr, nullptr, nullptr, nullptr};
    unsigned char *letters_ = nullptr; // pinned, of own_pinned_
    int letters_sent_ = 0;             // since the last wait for all
    void *staging_ = nullptr;          // staging_slots pinned buffers, made when first needed
    void *staging_events_[3] = {nullptr, nullptr, nullptr};
    double clock_start_ = 0;
    bool starts_early_ = false;
    WaitReport *waits_ = nullptr;
    struct SumSlots {
        double *data;
        size_t count;
    };
    std::vector<SumSlots> sum_slots_; // the last are in use; recorded launches have the addresses of those before
    double *sums_of_rank_ = nullptr;
    Ranks *ranks_ = nullptr;
    std::function<bool()> meanwhile_;
    std::set<const void *> launched_; // kernels, where there is something to do meanwhile
    bool recording_ = false;
    Peers *peers_ = nullptr;
};

// Numbers that a sum over n items leaves on its way (reduce.h).
size_t slots_of_sum(int n);

// Makes room for sums over up to n items of each of `fields` at once, so that recorded launches never see the slots
// move.
void reserve_sums(Device &device, int n, int fields = 1);

// Owning array of T on a device.
template <class T> class DeviceArray {
  public:
    DeviceArray() = default;
    DeviceArray(Device &device, size_t count, const char *owner)
        : device_(&device), count_(count), data_(static_cast<T *>(device.allocate(count * sizeof(T), owner))) {}
    DeviceArray(DeviceArray &&other) noexcept { swap(other); }
    DeviceArray &operator=(DeviceArray &&other) noexcept {
        swap(other);
        return *this;
    }
    ~DeviceArray() {
        if (data_ != nullptr)
            device_->release(data_);
    }
    T *data() const { return data_; }
    size_t size() const { return count_; }
    size_t bytes() const { return count_ * sizeof(T); }
    Device &device() const { return *device_; }
    std::vector<T> to_host() const {
        std::vector<T> host(count_);
        device_->copy_to_host(host.data(), data_, bytes());
        return host;
    }

  private:
    void swap(DeviceArray &other) noexcept {
        std::swap(device_, other.device_);
        std::swap(count_, other.count_);
        std::swap(data_, other.data_);
    }
    Device *device_ = nullptr;
    size_t count_ = 0;
    T *data_ = nullptr;
};

} // namespace milcgpu
