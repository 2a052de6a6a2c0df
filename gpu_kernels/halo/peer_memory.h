// Memory that the ranks of a node open to each other (machine/backend/peers.h): plain cudaMalloc memory, reached
// through CUDA IPC from other processes, and directly from threads of the same process. If some ranks do not reach each
// other that way, kernels store into host memory that all ranks share: each GPU reaches it over its bus, and everything
// else stays the same. Ranks on other hosts are reached by the relay (relay.h): it passes on ghosts for such
// neighbours, and all sums.
#pragma once
#include "gpu_kernels/halo/gpu_messages.h"
#include "gpu_kernels/halo/relay.h"
#include "gpu_kernels/machine/backend/host_segment.h"
#include "gpu_kernels/machine/backend/launch_queue.h"

namespace milcgpu {

// What kernels may store into on other ranks; each value includes those before it. `messages`: nothing, as between
// hosts.
enum class Reaching { messages, memory_of_host, memory_of_gpus };

class PeerMemory {
  public:
    struct Wanted {
        // face = 2 mu + side: the neighbour, and the places of its ghosts; rank -1: mu is not cut
        std::array<Relay::Face, Peers::faces> faces;
        size_t ghosts, slot_bytes; // memory for ghosts of a vector of either parity, and for a slot
        std::string refused;       // the reason why no kernel of this rank may wait for another rank; empty: it may
        Reaching reaching;         // the most that this rank may use, if it can
    };
    // All ranks call this together, with boxes of one size. If any rank refuses or finds no memory, no rank has peers,
    // and why_not() names a rank and its reason. Throws if message passing fails.
    PeerMemory(Device &device, Ranks &ranks, const Wanted &wanted, double time_limit_seconds);
    // Passes no message. Memory that others may still have open is kept for the next object in this process.
    ~PeerMemory();
    PeerMemory(const PeerMemory &) = delete;

    Peers *on_device() const { return open_ ? static_cast<Peers *>(own_) : nullptr; }
    const std::string &why_not() const { return why_not_; }
    // Over all ranks: how many faces of each direction are reached directly, and how many there are; why not all of
    // them.
    struct Reached {
        std::array<int, 4> direct{}, all{};
        bool sums = false;    // kernels reach all of it
        bool by_host = false; // in host memory
        std::string why;
    };
    const Reached &reached() const { return reached_; }
    bool relays() const { return relay_ != nullptr; }
    // If the host passes on ghosts and messages from GPU memory work: tests whether they also work while kernels wait.
    // If they do, the messages of a step use GPU memory, too. All ranks call this. sent, received: the memory of the
    // first test.
    GpuMessagesFound try_gpu_messages_in_steps(GpuMessages asked, const std::array<int, Peers::faces> &neighbour,
                                               const std::shared_ptr<unsigned char> &sent,
                                               const std::shared_ptr<unsigned char> &received, size_t bytes);
    // For launches that make vectors of a parity.
    const GhostMap &map(int parity) const { return maps_[parity]; }

  private:
    struct Offer;
    struct Reach;
    void open(const Wanted &wanted, double time_limit_seconds);
    Reach reach(const Wanted &wanted, const std::vector<Offer> &offers);
    std::string share_memory_of_host();
    void close_others();
    Device &device_;
    Ranks &ranks_;
    void *own_ = nullptr;
    size_t bytes_ = 0;
    bool open_ = false;
    Reached reached_;
    std::unique_ptr<Relay> relay_;
    GhostMap maps_[2]{};         // by the parity of the vector that a launch makes
    std::vector<void *> others_; // memory of each rank, as kernels see it; nullptr: not reached
    std::vector<bool> opened_;   // opened by IPC
    struct Unregister {
        void operator()(HostSegment *segment) const;
    };
    using Segments = std::vector<std::unique_ptr<HostSegment, Unregister>>;
    Segments segments_; // of each rank, if it is host memory
    std::string why_not_;
};

} // namespace milcgpu
