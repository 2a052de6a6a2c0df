// Carries ghosts and sums through the host to ranks whose memory this rank's GPU does not reach, above all to ranks on
// other hosts.
//
// Kernels work as with peers (machine/backend/peers.h): they store ghosts and sums, and wait for those of other ranks.
// But they store them into memory that the GPU shares with the host (RelayBox). Whenever the host waits for anything,
// it polls the announcements there, sends what was announced, and copies to the GPU what has arrived. Ghosts travel in
// pieces, each a row of a face (words of one kind of all its sites are contiguous): a piece is copied on while the next
// one travels. So an iteration is still two recorded launches, the host waits for no queue, and kernels work on inner
// sites meanwhile.
//
// If the message passing supports memory of a GPU, also while kernels wait (gpu_messages.h), ghosts are sent from GPU
// memory and arrive in their place.
//
// Each host gathers the sums of all ranks and adds them in rank order: the same bits everywhere.
//
// Bytes for each ghost: the element and 8 more, stored over the bus once and copied back over it once.
#pragma once
#include "gpu_kernels/machine/backend/copy_queue.h"
#include "gpu_kernels/machine/backend/peers.h"
#include "gpu_kernels/machine/comm/ranks.h"
#include <array>
#include <list>

namespace milcgpu {

class Relay {
  public:
    struct Face {
        int rank; // -1: mu is not cut, or its memory is reached directly
        // Places of the ghosts that come from there. The ghosts that this rank sends there have the places of the
        // opposite face.
        size_t first, end;
    };
    // ghosts: places of a vector, in all faces. Throws Error(no_memory) or Error(device_lost).
    Relay(Device &device, Ranks &ranks, const std::array<Face, Peers::faces> &faces, size_t ghosts);
    ~Relay(); // the queue must be empty
    Relay(const Relay &) = delete;

    RelayBox *box() const { return box_; }
    // Where kernels store ghosts of a vector of a parity, laid out as in the neighbours' memory.
    unsigned char *outgoing(int parity) const { return out_[parity]; }
    // From here on messages are sent from GPU memory and arrive where kernels read them, without copies. The message
    // passing must support that while kernels wait. All ranks call this, before any launch. Throws Error(no_memory) on
    // all.
    void use_gpu_memory();
    // True if an abandoned message may still arrive in the GPU's memory.
    bool may_still_reach_gpu() const { return of_gpu_ != nullptr && (given_up_ || !passing_.empty()); }
    // Sets where ghosts arrive in this rank's GPU, and the word that tells its kernels that a wait was abandoned.
    void deliver_to(const std::array<unsigned char *, 2> &ghosts, int *broken) { ghosts_ = ghosts, broken_ = broken; }

    // Does all work that needs no waiting. True: nothing is in flight. Throws as Exchange does; kernels that wait then
    // end.
    bool poll();

  private:
    struct RelayedPiece { // a piece, or the number of the exchange that this rank has reached
        std::unique_ptr<Exchange> exchange;
        std::shared_ptr<std::array<unsigned, 2 * Peers::faces>> told; // out, in; nullptr: it is a piece
        int parity;
        size_t row, word; // of the piece: first byte, and bytes a site
    };
    void take_announcements();
    void begin_ghosts(const Announcement &);
    void begin_word();
    void take_arrivals();
    void take_sums();
    void give_up() noexcept;

    Device &device_;
    Ranks &ranks_;
    std::array<Face, Peers::faces> faces_;
    std::vector<std::pair<size_t, size_t>> ranges_; // of places that come through the host
    size_t ghosts_of_all_, of_vector_;              // bytes for the ghosts of a vector, with their check words
    std::shared_ptr<unsigned char> memory_;         // pinned, shared with the GPU; it holds all of the following
    unsigned char *of_gpu_ = nullptr;               // memory for outgoing ghosts, if messages are sent from the GPU
    RelayBox *box_;
    unsigned char *out_[2], *in_[2];
    std::array<unsigned char *, 2> ghosts_{};
    int *broken_ = nullptr;
    std::optional<CopyQueue> copies_; // mark of a parity: in_[parity] may be overwritten
    unsigned taken_ = 0, words_ = 0, sums_ = 0;
    size_t count_ = 0; // numbers of the sum that is in flight
    std::list<RelayedPiece> passing_;
    int in_flight_[2] = {0, 0}; // pieces in flight, by parity
    std::unique_ptr<Gather> sum_;
    bool polling_ = false, given_up_ = false;
};

} // namespace milcgpu
