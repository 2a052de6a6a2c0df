// Memory that the ranks of a node open to each other (backend/peers.h): plain cudaMalloc memory, reached through CUDA
// IPC from other processes, directly from threads of the same one.
#pragma once
#include "gpu_kernels/backend/device.h"
#include "gpu_kernels/comm/ranks.h"
#include <array>

namespace milcgpu {

class PeerMemory {
  public:
    // All ranks together. neighbour[face], face = 2 mu + side: the rank; -1: mu is not cut. Room for `ghosts` sites of
    // either parity, and for slots of slot_bytes, the same on all ranks. refused: why this rank does not want it;
    // empty: it does. Where any rank cannot, none has it, and why_not() says which one and why. Throws where message
    // passing fails.
    PeerMemory(Device &device, Ranks &ranks, const std::array<int, Peers::faces> &neighbour, size_t ghosts,
               size_t slot_bytes, double time_limit_seconds, const std::string &refused);
    // Passes no message. What others may still have open is kept for the next one of this process.
    ~PeerMemory();
    PeerMemory(const PeerMemory &) = delete;

    Peers *on_device() const { return open_ ? static_cast<Peers *>(own_) : nullptr; }
    const std::string &why_not() const { return why_not_; }
    // For launches that make vectors of a parity.
    const GhostMap &map(int parity) const { return maps_[parity]; }

  private:
    void open(const std::array<int, Peers::faces> &neighbour, size_t ghosts, size_t slot_bytes,
              double time_limit_seconds, const std::string &refused);
    Device &device_;
    Ranks &ranks_;
    void *own_ = nullptr;
    size_t bytes_ = 0;
    bool open_ = false;
    GhostMap maps_[2]{};         // by the parity of what a launch makes
    std::vector<void *> others_; // of each rank, as seen from here; own_ for this one
    std::vector<bool> opened_;   // by IPC
    std::string why_not_;
};

} // namespace milcgpu
