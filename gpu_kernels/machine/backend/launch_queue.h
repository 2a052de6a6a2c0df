// The part of a device that launches use, so that kernels are not recompiled if other parts of a device change, and
// without <functional> and <memory>, which nvcc would read for each file with kernels. The whole device: device.h.
#pragma once
#include "gpu_kernels/machine/error.h"
#include <cstddef>
#include <utility>

namespace milcgpu {

class Device;
class Ranks;
struct Peers;
struct WaitReport;

enum class Backend { host, cuda };
const char *name(Backend);

class LaunchQueue {
  public:
    Backend backend() const { return backend_; }
    bool on_gpu() const { return backend_ == Backend::cuda; }
    size_t cache_bytes() const { return cache_bytes_; }          // L2 cache of the GPU; 0 on the host
    void set_cache_bytes(size_t bytes) { cache_bytes_ = bytes; } // for tests
    void *stream() const { return stream_; }

    // Threads per block; 0: the choice of each kernel. Results do not depend on it.
    int block() const { return block_; }
    // With fewer sites of a parity than this, heavy kernels use 4 threads a site (launch_sum_in_parts). Tests set it,
    // to test both kinds on one lattice.
    int parts_below() const { return parts_below_; }
    void set_parts_below(int sites) { parts_below_ = sites; }

    // The ranks that share the lattice (machine/comm/ranks.h); nullptr: this is the only one. With several ranks, sums
    // over sites are sums over all ranks, added in rank order, and every rank must queue the same launches.
    Ranks *ranks() const { return ranks_; }
    virtual void add_over_ranks(double *values, int count) = 0; // on the host; does nothing with one rank
    // If `work` fails on one rank, this throws the same error on all ranks (Ranks::collective). If an allocation fails
    // on one rank, all ranks free idle memory and repeat the outermost `work` that they are in. So before its last
    // allocation `work` must not change anything that would count twice. phase: a literal.
    template <class Work> void collective(const char *phase, const Work &work) {
        run_collective(phase, [](const void *w) { (*static_cast<const Work *>(w))(); }, &work);
    }
    virtual void run_collective(const char *phase, void (*run)(const void *work), const void *work) = 0;
    // Not nullptr if the ranks reach each other's memory. Then sums over ranks and ghosts do not need the host, and
    // their launches can be recorded.
    Peers *peers() const { return peers_; }
    // True if the host has work between launches: sums and messages of several ranks.
    bool needs_host() const { return ranks_ != nullptr && peers_ == nullptr; }

    // Slots of the deterministic sums (reduce.h). All bits of an empty slot are set.
    virtual double *sum_slots(size_t count) = 0;
    virtual double *sums_of_rank() = 0; // memory for most_sums numbers
    // Where kernels report waits that reached their time limit; nullptr on the host backend, which never waits.
    WaitReport *waits() const { return waits_; }

    // Memory is allocated and released in the order of the queue: work that was queued before may still use memory
    // after its release. Memory tables and error messages show `owner`.
    virtual void *allocate(size_t bytes, const char *owner) = 0;
    virtual void release(void *pointer) noexcept = 0;
    virtual void copy_to_device(void *to, const void *from, size_t bytes) = 0;
    virtual void copy_to_host(void *to, const void *from, size_t bytes) = 0;
    virtual void copy_on_device(void *to, const void *from, size_t bytes) = 0;
    virtual void fill_zero(void *to, size_t bytes) = 0;

    // True if the next launch may start while the previous one ends: on sm_90 and newer, with kernels compiled for it,
    // and if it follows that launch alone (Device::aside). Call it once for each launch.
    bool next_starts_early() { return !std::exchange(next_waits_, false) && starts_early_; }
    virtual void about_to(const char *what) = 0; // each launch calls it first
    virtual void before_launch_of(const void *kernel) = 0;
    virtual void check_launch(const char *what) = 0;

  protected:
    explicit LaunchQueue(Backend backend) : backend_(backend) {}
    ~LaunchQueue() = default;
    const Backend backend_;
    size_t cache_bytes_ = 0;
    void *stream_ = nullptr;
    int block_ = 0, parts_below_ = 0;
    Ranks *ranks_ = nullptr;
    Peers *peers_ = nullptr;
    WaitReport *waits_ = nullptr;
    bool starts_early_ = false, next_waits_ = false;
};

// The queue of a device whose type is incomplete here.
LaunchQueue &queue_of(Device &);
const LaunchQueue &queue_of(const Device &);

// Number of slots for a sum over n items (reduce.h).
size_t slots_of_sum(int n);

// Allocates slots for sums over up to n items of each of `fields`, so that the slots do not move once launches are
// recorded.
void reserve_sums(Device &device, int n, int fields = 1);

} // namespace milcgpu
