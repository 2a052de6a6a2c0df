// A device as launches see it, so that files of kernels are not compiled again when something else of it changes. The
// whole of it: device.h.
#pragma once
#include "gpu_kernels/machine/error.h"
#include <cstddef>
#include <functional>
#include <memory>
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
    size_t cache_bytes() const { return cache_bytes_; }          // of the GPU's L2 cache; 0 on the host
    void set_cache_bytes(size_t bytes) { cache_bytes_ = bytes; } // for tests
    void *stream() const { return stream_; }

    // Threads per block; 0: each kernel's own choice. Results do not depend on it.
    int block() const { return block_; }
    // With fewer sites of a parity than this, heavy kernels use 4 threads a site (launch_sum_in_parts). Tests set it,
    // to run both ways on one lattice.
    int parts_below() const { return parts_below_; }
    void set_parts_below(int sites) { parts_below_ = sites; }

    // The ranks that share the lattice (machine/comm/ranks.h); nullptr: there is only this one. With several ranks,
    // sums over sites are sums over all ranks, added in rank order, and every rank must queue the same launches.
    Ranks *ranks() const { return ranks_; }
    virtual void add_over_ranks(double *values, int count) = 0; // on the host; nothing to do for one rank
    // If `work` fails on one rank, this throws the same error on all ranks (Ranks::collective). Where an allocation
    // fails on one, all give back what is idle and do the outermost `work` that they are in again: before its last
    // allocation it changes nothing in a way that counts twice. phase: a literal.
    virtual void collective(const char *phase, const std::function<void()> &work) = 0;
    // On the device, if the ranks reach each other's memory. Sums over ranks and ghosts then need no host, and their
    // launches can be recorded. nullptr: they go over the host.
    Peers *peers() const { return peers_; }
    // Whether the host has work between launches: sums and messages of several ranks.
    bool needs_host() const { return ranks_ != nullptr && peers_ == nullptr; }

    // Slots of the deterministic sums (reduce.h). All bits of an empty slot are set.
    virtual double *sum_slots(size_t count) = 0;
    virtual double *sums_of_rank() = 0; // room for most_sums numbers
    // Where kernels report a wait that they gave up; nullptr on the host backend, which never waits.
    WaitReport *waits() const { return waits_; }

    // Memory is allocated and released in the order of the queue: memory that is released may still be used by work
    // that was queued before. `owner` appears in memory tables and in error messages.
    virtual void *allocate(size_t bytes, const char *owner) = 0;
    virtual void release(void *pointer) noexcept = 0;
    virtual void copy_to_device(void *to, const void *from, size_t bytes) = 0;
    virtual void copy_to_host(void *to, const void *from, size_t bytes) = 0;
    virtual void copy_on_device(void *to, const void *from, size_t bytes) = 0;
    virtual void fill_zero(void *to, size_t bytes) = 0;

    // Whether the next launch may start while the one before it ends: on sm_90 and newer, with kernels compiled for it,
    // and if it follows that one alone (Device::aside). To be asked once for each launch.
    bool next_starts_early() { return !std::exchange(next_waits_, false) && starts_early_; }
    // Before each launch, in this order; after it.
    void about_to(const char *what) {
        if (!look_ || recording_ || looking_)
            return;
        struct Looking { // ends where look_ throws, too
            bool &flag;
            ~Looking() { flag = false; }
        } looking{looking_ = true};
        look_(what);
    }
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
    bool starts_early_ = false, next_waits_ = false, recording_ = false, looking_ = false;
    std::function<void(const char *)> look_;
};

// Of a device of which nothing else is known.
LaunchQueue &queue_of(Device &);
const LaunchQueue &queue_of(const Device &);

// How many slots a sum over n items needs (reduce.h).
size_t slots_of_sum(int n);

// Allocates slots for sums over up to n items of each of `fields`, so that the slots do not move after launches were
// recorded.
void reserve_sums(Device &device, int n, int fields = 1);

} // namespace milcgpu
