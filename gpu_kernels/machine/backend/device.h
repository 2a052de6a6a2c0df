// One device (a GPU, or the host's cores) with its queue of work: memory with owners, copies, synchronisation, recorded
// sequences of launches. On the cuda backend work is asynchronous and in order; on the host backend it is done when the
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

// Faults that tests plant: an allocation fails, even after memory was freed for it; or a wait for the device fails.
enum class Fault { none, allocation, device_lost };

struct TransferCounters {
    uint64_t to_device_bytes = 0, to_host_bytes = 0;
};

class Device final : public LaunchQueue {
  public:
    // ordinal: number of the GPU (ignored on host). Throws Error(bad_argument) if there is no such device.
    Device(Backend backend, int ordinal);
    // A device without memory, which counts what is allocated: for plans of memory, made by the code that allocates.
    // Fills and copies to it do nothing; a launch throws.
    struct CountsOnly {};
    explicit Device(CountsOnly);
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    static int gpu_count(); // 0 without nvcc, without driver or without GPU

    // Makes this device CUDA's current device, which is a property of the thread. Every entry of the C interface calls
    // this first.
    void make_current();
    // Like make_current(), at the start of a call that has not written outputs yet: until then a failure may count as
    // out of memory. Once outputs are written (copy_rows_to_host), all CUDA failures count as device_lost.
    void begin_call() {
        hands_over_ = false;
        make_current();
    }
    const std::string &description() const { return description_; }
    const std::string &place() const { return place_; } // host and PCI address of a GPU

    void *allocate(size_t bytes, const char *owner) override;
    static size_t allocated_bytes(size_t bytes); // what allocate() takes for `bytes`
    void release(void *pointer) noexcept override;
    size_t used_bytes() const { return used_bytes_; }
    size_t peak_bytes() const { return peak_bytes_; }
    size_t free_bytes() const;
    std::string memory_table() const; // one line for each owner
    // Arrays by owner and allocated bytes of each: how many there were when used_bytes() was largest.
    using ArrayCounts = std::map<std::pair<std::string, size_t>, int>;
    const ArrayCounts &at_peak() const { return peak_is_now_ ? counts_ : at_peak_; }
    long new_shortages() {
        return std::exchange(shortages_, 0);
    } // allocations since the last time that did not fit at once
    // Sets `reclaim`, which is called if an allocation does not fit. It frees memory that is kept for later, and
    // returns false if it found none. With several ranks collective() calls it on all ranks, since remaking what one
    // rank freed may take messages. It must return the same on all ranks: milcgpu_context::release_idle does, because
    // it gathers what each rank has freed.
    void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
    // For several ranks that have all failed, at least one of them in an allocation of this device: frees idle memory
    // on all ranks. True: retry. least_used: pass SIZE_MAX at first, then the same variable unchanged.
    bool reclaim_on_all_ranks(size_t &least_used);
    // For tests: allocations that would raise used_bytes() above this do not fit. 0: no limit.
    void set_memory_limit(size_t bytes) { memory_limit_ = bytes; }
    // More than half of the memory is in use. The host's memory counts only up to a limit.
    bool is_half_full() const { return used_bytes_ > (memory_limit_ != 0 ? memory_limit_ : memory_bytes_) / 2; }

    // Copies between host and device. Host memory may be pageable or pinned; the caller may reuse it when the call
    // returns. Pageable memory is copied through pinned buffers of the library: OpenMP threads fill or empty one buffer
    // while the bus transfers another. A few numbers are copied through small pinned buffers ("letters"); for copies to
    // the device the host does not wait for them.
    void copy_to_device(void *to, const void *from, size_t bytes) override;
    void copy_to_host(void *to, const void *from, size_t bytes) override;
    // Copies rows of `width` bytes that are `pitch` bytes apart on the host and contiguous on the device.
    // copy_rows_to_host does not touch the host's memory if earlier work has failed. sum: receives weigh_row of the
    // host's rows, taken as contiguous, if width is a multiple of 8; not within in_a_row().
    void copy_rows_to_device(void *to, const void *from, size_t pitch, size_t width, size_t rows,
                             uint64_t *sum = nullptr);
    void copy_rows_to_host(void *to, const void *from, size_t pitch, size_t width, size_t rows,
                           uint64_t *sum = nullptr);
    // Copies by copy_rows_to_host within `copies` need not wait for each other: the bus transfers the next one while
    // threads empty the buffers of the previous one. All are complete when this returns.
    void in_a_row(const std::function<void()> &copies);
    // Waits for all queued work and allocates the buffers for a copy of `bytes`. After that, a copy of up to so many
    // bytes to the host fails only if the GPU is lost in between.
    void prepare_to_host(size_t bytes);
    void copy_on_device(void *to, const void *from, size_t bytes) override;
    void fill_zero(void *to, size_t bytes) override;
    const TransferCounters &transfers() const { return transfers_; }

    // Waits for all queued work. Throws Error(device_lost) if the device has failed since the last call,
    // Error(timed_out) if a wait inside a kernel reached its time limit.
    void synchronize();
    void check_launch(const char *what) override;
    // CUDA loads a kernel at its first launch, and before that waits for all running kernels. This deadlocks if those
    // kernels wait for the host.
    void before_launch_of(const void *kernel) override {
        if (meanwhile_ && !recording_ && launched_.insert(kernel).second)
            wait_for_event(nullptr);
    }
    // after: number of allocations, or of waits for the device, that still succeed before one fails; -n: the next n
    // fail.
    void inject(Fault fault, int after = 0) { fault_ = fault, fault_after_ = after; }
    Fault planted() const { return fault_; } // none: the fault has happened

    // For tests: the arrays of device memory.
    struct Array {
        std::string owner;
        size_t bytes;
    };
    std::vector<Array> arrays() const;
    // For tests: flips one bit of device memory. `bit` counts the bits of all arrays, in the order of arrays(). Returns
    // the owner of the array.
    std::string flip_bit(size_t bit);
    // For tests: `observer` is called with the name of each launch, copy and fill before it happens; empty: no calls.
    // It is not called while launches are recorded, nor for work that it queues itself.
    void set_observer(std::function<void(const char *what)> observer) { observer_ = std::move(observer); }
    void about_to(const char *what) override {
        if (!observer_ || recording_ || observing_)
            return;
        struct Observing { // ends even if observer_ throws
            bool &flag;
            ~Observing() { flag = false; }
        } observing{observing_ = true};
        observer_(what);
    }
    // For tests: replaces each aligned double of device memory that equals `value` by `other`. Returns their number.
    int replace(double value, double other);

    void set_block(int threads);

    double *sum_slots(size_t count) override;
    double *sums_of_rank() override;
    // Empties all slots. A solve does this when it starts: a number that a flipped bit or an abandoned wait left there
    // would spoil every later sum.
    void empty_sum_slots();
    // The first number of a KeptSum, all zero. It is reserved until the last copy of the pointer is gone.
    std::shared_ptr<uint64_t> zero_sum();

    void set_ranks(Ranks *ranks) { ranks_ = ranks; }
    void add_over_ranks(double *values, int count) override;
    void set_peers(Peers *peers) { peers_ = peers; }
    // Sets work that the host repeats while it waits for the queue (halo/relay.h). Kernels in the queue may wait for
    // this work. It returns true if all of it is done; a wait for the whole queue waits for that, too. Empty: no work.
    void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }
    bool has_meanwhile() const { return static_cast<bool>(meanwhile_); }
    void run_collective(const char *phase, void (*run)(const void *work), const void *work) override;

    // Work queued by `launches` may run beside the work queued by `beside` and beside work queued after this call.
    // `beside` is called first, so that its work runs while `launches` waits on the host. All this work waits for work
    // that was queued before this call, and work queued after rejoin() waits for all of it. A second call before
    // rejoin() queues its launches behind those of the first. Between this call and rejoin() nothing may be allocated,
    // and only `launches` may copy.
    void aside(const std::function<void()> &launches, const std::function<void()> &beside = {});
    void rejoin();

    // A sequence of launches that is recorded once and replayed. On the GPU it is a CUDA graph. On the host backend, or
    // if the host has work between launches (needs_host(), or `recorded` is false), the calls are repeated instead.
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

    // Pinned host memory into which a sequence may copy asynchronously, and markers to wait for. Released memory is
    // kept for the next request of that size, because pinning takes as long as a solve on a small lattice.
    void copy_to_pinned_later(void *to, const void *from, size_t bytes);
    void copy_from_pinned_later(void *to, const void *from, size_t bytes);
    void *allocate_pinned(size_t bytes);
    void release_pinned(void *data) noexcept;
    // Pins the caller's memory, which makes copies faster. Does nothing on the host backend.
    void pin(void *host, size_t bytes);
    void unpin(void *host);
    void record(int slot); // slot 0 or 1: marks the work queued so far
    void wait(int slot);

    // Seconds between two points of the queue, by device events on the GPU and by a clock on the host.
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
    int next_buffer(); // of staging_
    void make_letters();
    void wait_for_all();
    void wait_for_event(void *event); // nullptr: for all that is queued
    struct Rows;
    bool pinned_in_part(const Rows &host) const;
    bool goes_directly(const Rows &host) const;
    struct Staging;
    void stage_to_device(void *to, const Rows &from, uint64_t *sum);
    void stage_to_host(const Rows &to, const void *from, uint64_t *sum);
    void take_arrivals(size_t left); // until so many are left
    struct Allocation {
        ArrayCounts::iterator kind;
        size_t asked_bytes; // bytes requested
        const std::string &owner() const { return kind->first.first; }
        size_t bytes() const { return kind->first.second; }
    };
    int ordinal_;
    std::string description_, place_;
    std::map<void *, Allocation> allocations_;
    ArrayCounts counts_, at_peak_;
    bool peak_is_now_ = true;         // at_peak_ is not filled yet
    std::map<void *, size_t> pinned_; // the caller's memory, in bytes
    struct Pinned {
        void *data;
        size_t bytes;
        bool spare;
    };
    std::vector<Pinned> own_pinned_;
    size_t used_bytes_ = 0, peak_bytes_ = 0, memory_limit_ = 0, memory_bytes_ = SIZE_MAX;
    long shortages_ = 0;
    std::function<bool()> reclaim_;
    enum class Allocated { well, failed, planted_failure } last_allocation_ = Allocated::well;
    bool in_collective_ = false, counts_only_ = false;
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
    struct SumPage { // many KeptSums, which are zeroed together
        uint64_t *data;
        std::vector<std::shared_ptr<uint64_t>> sums; // free if nobody else holds the pointer
        uint64_t zero;                               // bit mask of those that are free and zero
    };
    std::vector<SumPage> sum_pages_;
    std::function<bool()> meanwhile_;
    std::set<const void *> launched_; // kernels that were launched before; empty without meanwhile_
    std::function<void(const char *)> observer_;
    bool hands_over_ = false, recording_ = false, observing_ = false;
    void *side_stream_ = nullptr, *side_events_[2] = {nullptr, nullptr}; // of aside()
};

} // namespace milcgpu
