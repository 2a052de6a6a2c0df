// One device (a GPU, or the host's cores) with its queue of work: memory by owner, copies, synchronisation, replayed
// sequences of launches. Work is asynchronous on the cuda backend and in order; on the host backend it is done when the
// call returns.
#pragma once
#include "gpu_kernels/machine/backend/device_array.h"
#include "gpu_kernels/machine/comm/clock.h"
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace milcgpu {

// Faults that tests plant: an allocation fails, even after memory was given back for it; or a wait for the device
// fails.
enum class Fault { none, allocation, device_lost };

struct TransferCounters {
    uint64_t to_device_bytes = 0, to_host_bytes = 0;
};

class Device final : public LaunchQueue {
  public:
    // ordinal: which GPU (ignored on host). Throws Error(bad_argument) when there is no such device.
    Device(Backend backend, int ordinal);
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    static int gpu_count(); // 0 without nvcc, without driver or without GPU

    // CUDA's current device belongs to a thread: every entry of the C interface calls this first.
    void make_current();
    // The same, and nothing of the call's results is with the caller yet: until then a failure may be one of memory.
    // Afterwards (copy_rows_to_host) all failures of CUDA are device_lost, because outputs are written.
    void begin_call() {
        hands_over_ = false;
        make_current();
    }
    const std::string &description() const { return description_; }
    const std::string &place() const { return place_; } // of a GPU: its host and its PCI address

    void *allocate(size_t bytes, const char *owner) override;
    static size_t allocated_bytes(size_t bytes); // what allocate() takes for `bytes`
    void release(void *pointer) noexcept override;
    size_t used_bytes() const { return used_bytes_; }
    size_t peak_bytes() const { return peak_bytes_; }
    size_t free_bytes() const;
    std::string memory_table() const; // one line for each owner
    // `reclaim`, called where an allocation does not fit, frees something kept for later; false: there was nothing. Of
    // several ranks collective() calls it on all, since what one makes again alone may take messages. It must answer
    // alike on all ranks: milcgpu_context::release_idle does, because it gathers what each rank has given back.
    void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
    // Several ranks, all of which have failed, and not all for another reason than an allocation of this device: what
    // is idle is given back on all. True: try again. least_used: SIZE_MAX before the first time, then left alone.
    bool reclaim_on_all_ranks(size_t &least_used);
    // For tests: allocations that would bring used_bytes() above this do not fit. 0: no limit.
    void set_memory_limit(size_t bytes) { memory_limit_ = bytes; }

    // Copies between host and device. Host memory may be pageable or pinned; the caller may use it again when the call
    // returns. Pageable memory goes through pinned buffers of the library: OpenMP threads fill or empty one while the
    // bus works on another one. A few numbers go through small pinned buffers ("letters"); on the way to the device the
    // host does not wait for them.
    void copy_to_device(void *to, const void *from, size_t bytes) override;
    void copy_to_host(void *to, const void *from, size_t bytes) override;
    // Rows of `width` bytes that lie `pitch` bytes apart on the host and without gaps on the device. copy_rows_to_host
    // does not touch the host's memory if earlier work has failed.
    // sum: what weigh_row says of the host's rows in a row, if width is a multiple of 8; not within in_a_row().
    void copy_rows_to_device(void *to, const void *from, size_t pitch, size_t width, size_t rows,
                             uint64_t *sum = nullptr);
    void copy_rows_to_host(void *to, const void *from, size_t pitch, size_t width, size_t rows,
                           uint64_t *sum = nullptr);
    // Copies by copy_rows_to_host within `copies` need not wait for each other: the bus goes on with the next one while
    // threads empty the buffers of one. They are complete when this returns.
    void in_a_row(const std::function<void()> &copies);
    // Waits for all queued work and allocates the buffers for a copy of `bytes`. After that, a copy of up to so many
    // bytes to the host fails only if the GPU is lost meanwhile.
    void prepare_to_host(size_t bytes);
    void copy_on_device(void *to, const void *from, size_t bytes) override;
    void fill_zero(void *to, size_t bytes) override;
    const TransferCounters &transfers() const { return transfers_; }

    // Waits for all queued work. Throws Error(device_lost) if the device has failed since the last call,
    // Error(timed_out) if a kernel gave up a wait.
    void synchronize();
    void check_launch(const char *what) override;
    // CUDA loads a kernel at its first launch, and first waits for all kernels that run. If
    // these waited for the host, nothing would ever go on.
    void before_launch_of(const void *kernel) override {
        if (meanwhile_ && !recording_ && launched_.insert(kernel).second)
            wait_for_event(nullptr);
    }
    // after: how many allocations, or waits for the device, still succeed before one fails.
    void inject(Fault fault, int after = 0) { fault_ = fault, fault_after_ = after; }
    Fault planted() const { return fault_; } // none: the fault has happened

    // For tests: flips one bit of device memory. `bit` counts the bits of all arrays, one array after the other.
    // Returns the owner of the array.
    std::string flip_bit(size_t bit);
    // For tests: `look` is called before each launch, copy and filling, with its name; empty: nothing is. Not while
    // launches are recorded, nor for what it does itself.
    void set_look(std::function<void(const char *what)> look) { look_ = std::move(look); }
    // For tests: each aligned double of device memory that is `value` becomes `other`. Returns how many these were.
    int replace(double value, double other);

    void set_block(int threads);

    double *sum_slots(size_t count) override;
    double *sums_of_rank() override;
    // A solve empties all slots when it starts: a number that was left there, by a flipped bit or a wait that was given
    // up, would spoil every later sum.
    void empty_sum_slots();
    // The first of the numbers of a KeptSum, all zero. They are its own until the last copy of the pointer is gone.
    std::shared_ptr<uint64_t> zero_sum();

    void set_ranks(Ranks *ranks) { ranks_ = ranks; }
    void add_over_ranks(double *values, int count) override;
    void set_peers(Peers *peers) { peers_ = peers; }
    // Work that the host does again and again while it waits for the queue (halo/relay.h). Kernels in the queue may
    // wait for it. It returns whether all of it is done; a wait for the whole queue also waits for that. Empty: there
    // is none.
    void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }
    bool has_meanwhile() const { return static_cast<bool>(meanwhile_); }
    void collective(const char *phase, const std::function<void()> &work) override;

    // What `launches` queues may run beside what is queued after this call, and beside what `beside` queues. beside is
    // called first, so that its work runs while `launches` waits on the host. All of it waits for what was queued
    // before this call, and what is queued after rejoin() waits for all of it. A second call before rejoin() queues its
    // launches behind those of the first. In between there may be no allocation, and no copy but by `launches`.
    void aside(const std::function<void()> &launches, const std::function<void()> &beside = {});
    void rejoin();

    // A sequence of launches that is recorded once and replayed. On the GPU it is a CUDA graph. On the host backend,
    // and if the host has work between launches (needs_host(), or `recorded` is false), the calls are made again.
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

    // Pinned host memory that a sequence may copy into (asynchronously), and markers to wait for. Memory that is
    // released is kept for the next request of that size, because pinning takes as long as a solve on a small lattice.
    void copy_to_pinned_later(void *to, const void *from, size_t bytes);
    void copy_from_pinned_later(void *to, const void *from, size_t bytes);
    void *allocate_pinned(size_t bytes);
    void release_pinned(void *data) noexcept;
    // Pins memory of the caller, which makes copies faster. Does nothing on the host backend.
    void pin(void *host, size_t bytes);
    void unpin(void *host);
    void record(int slot); // slot 0..1: marks the work queued so far
    void wait(int slot);

    // Seconds between two points of the queue, by device events on the GPU, by a clock on the host.
    void timer_start();
    double timer_stop_seconds();

  private:
    struct Closed {}; // constructs without opening the GPU
    Device(Backend backend, int ordinal, Closed);
    void *try_allocate(size_t bytes); // nullptr: it does not fit
    void free_now(void *pointer) noexcept;
    bool fault_is_due(Fault fault);
    void fail_if_planted(); // before every wait
    void read_rows(void *to, const void *from, size_t pitch, size_t width, size_t rows, uint64_t *sum = nullptr);
    void make_staging();
    void fill(void *to, int byte, size_t bytes);
    void raise(int cuda_error, const char *what);
    void find_kernels(int major, int minor, const char *gpu);
    void check_waits();
    bool is_pinned(const void *host) const;
    bool goes_directly(const void *host, size_t bytes) const;
    int next_buffer(); // of staging_
    void make_letters();
    void wait_for_all();
    void wait_for_event(void *event); // nullptr: for all that is queued
    struct Rows;
    struct Staging;
    void stage_to_device(void *to, const Rows &from, uint64_t *sum);
    void stage_to_host(const Rows &to, const void *from, uint64_t *sum);
    void take_arrivals(size_t left); // until so many are under way
    struct Allocation {
        size_t bytes, asked_bytes; // what it takes, and what was asked for
        std::string owner;
    };
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
    enum class Allocated { well, failed, planted_failure } last_allocation_ = Allocated::well;
    bool in_collective_ = false;
    TransferCounters transfers_;
    Fault fault_ = Fault::none;
    int fault_after_ = 0;
    void *pool_ = nullptr;
    void *events_[4] = {nullptr, nullptr, nullptr, nullptr};
    unsigned char *letters_ = nullptr; // pinned, of own_pinned_
    int letters_sent_ = 0;             // since the last wait for all
    std::shared_ptr<Staging> staging_; // pinned buffers, made when first needed
    double clock_start_ = 0;
    struct SumSlots {
        double *data;
        size_t count;
    };
    std::vector<SumSlots> sum_slots_; // the last one is in use; recorded launches may still use earlier ones
    double *sums_of_rank_ = nullptr;
    struct SumPage { // of many KeptSums, which are made zero together
        uint64_t *data;
        std::vector<std::shared_ptr<uint64_t>> sums; // that are nobody else's are free
        uint64_t zero;                               // bits of those that are free and zero
    };
    std::vector<SumPage> sum_pages_;
    std::function<bool()> meanwhile_;
    std::set<const void *> launched_; // kernels that were launched before; empty without meanwhile_
    bool hands_over_ = false;
    void *side_stream_ = nullptr, *side_events_[2] = {nullptr, nullptr}; // of aside()
};

} // namespace milcgpu
