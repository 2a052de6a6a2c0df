// Memory that the ranks of a node open to each other (machine/backend/peers.h): plain cudaMalloc memory, reached
// through CUDA IPC from other processes, directly from threads of the same one. If some of them do not reach each other
// so, kernels store into memory of the host that all ranks share: each GPU reaches it over its bus, and everything else
// is the same. Ranks on other hosts are reached by the relay (relay.h): it passes on ghosts for such neighbours, and
// all sums.
#pragma once
#include "gpu_kernels/halo/gpu_messages.h"
#include "gpu_kernels/halo/relay.h"
#include "gpu_kernels/machine/backend/host_segment.h"
#include "gpu_kernels/machine/backend/launch_queue.h"

namespace milcgpu {

// What kernels of different ranks may store into; each has what is below it, too. With messages nothing: as between
// hosts.
enum class Reaching { messages, memory_of_host, memory_of_gpus };

class PeerMemory {
  public:
    struct Wanted {
        // face = 2 mu + side: the neighbour, and the places of its ghosts; rank -1: mu is not cut
        std::array<Relay::Face, Peers::faces> faces;
        size_t ghosts, slot_bytes; // room for ghosts of a vector of either parity, and for a slot
        std::string refused;       // why no kernel of this rank may wait for another rank; empty: it may
        Reaching reaching;         // the most that this rank may do, where it can
    };
    // All ranks together, with boxes of one size. Where any rank refuses, or finds no memory, none has it, and
    // why_not() says which one and why. Throws where message passing fails.
    PeerMemory(Device &device, Ranks &ranks, const Wanted &wanted, double time_limit_seconds);
    // Passes no message. What others may still have open is kept for the next one of this process.
    ~PeerMemory();
    PeerMemory(const PeerMemory &) = delete;

    Peers *on_device() const { return open_ ? static_cast<Peers *>(own_) : nullptr; }
    const std::string &why_not() const { return why_not_; }
    // Of all ranks: faces of a direction that are reached directly, and all of them; why not all.
    struct Reached {
        std::array<int, 4> direct{}, all{};
        bool sums = false;    // all of it is reached by kernels
        bool by_host = false; // in memory of the host
        std::string why;
    };
    const Reached &reached() const { return reached_; }
    bool relays() const { return relay_ != nullptr; }
    // Where the host passes on ghosts, and messages from GPU memory work: whether they do while kernels wait. Then the
    // messages of a step are such, too. All ranks. sent, received: what messages were tried with.
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
    GhostMap maps_[2]{};         // by the parity of what a launch makes
    std::vector<void *> others_; // memory of each rank, as kernels see it; nullptr: it is not reached
    std::vector<bool> opened_;   // by IPC
    struct Unregister {
        void operator()(HostSegment *segment) const;
    };
    using Segments = std::vector<std::unique_ptr<HostSegment, Unregister>>;
    Segments segments_; // of each rank, where the memory is the host's
    std::string why_not_;
};

} // namespace milcgpu
