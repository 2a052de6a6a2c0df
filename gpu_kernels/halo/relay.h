// Passes on, over the host, what kernels store for ranks whose memory their GPU does not reach: those of other hosts
// above all.
//
// Kernels do as with peers (machine/backend/peers.h): they store ghosts and sums, and wait for those of others. Here
// they store them into memory that the GPU shares with the host (RelayBox). Whenever the host waits for anything, it
// looks for what has been announced there, sends it, and copies to the GPU what has arrived. Ghosts travel in pieces, a
// row of a face in each (words of one kind of all its sites lie together): a piece is copied on while the next one
// travels. So an iteration stays two recorded launches, no queue is waited for, and kernels work on inner sites
// meanwhile.
//
// Where the message passing takes memory of a GPU, and does so while kernels wait (gpu_messages.h), ghosts leave from
// there and arrive at their place.
//
// Sums of ranks are gathered and added in rank order by each host: the same bits everywhere.
//
// Bytes a place of a ghost: the element's and 8 more, stored over the bus once and copied back over it once.
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
        size_t first,
            end; // places of its ghosts. What this rank sends there is what that rank has on the opposite face.
    };
    // ghosts: of a vector, of all faces. Throws Error(no_memory) or Error(device_lost).
    Relay(Device &device, Ranks &ranks, const std::array<Face, Peers::faces> &faces, size_t ghosts);
    ~Relay(); // the queue has been waited for
    Relay(const Relay &) = delete;

    RelayBox *box() const { return box_; }
    // Where kernels store ghosts of a vector of a parity. Laid out as they are in the neighbours' memory.
    unsigned char *outgoing(int parity) const { return out_[parity]; }
    // From here on messages leave from GPU memory, and arrive where kernels read them: no copy is made. The message
    // passing must be able to do that while kernels wait. All ranks; before any launch. Throws Error(no_memory) on all.
    void use_gpu_memory();
    // Whether a message that was given up may still arrive in the GPU's memory.
    bool may_still_reach_gpu() const { return of_gpu_ != nullptr && (given_up_ || !passing_.empty()); }
    // Where this rank's GPU has them, and what tells its kernels that a wait was given up.
    void deliver_to(const std::array<unsigned char *, 2> &ghosts, int *broken) { ghosts_ = ghosts, broken_ = broken; }

    // Does what there is to do, without waiting. True: nothing is on its way. Throws as Exchange does; kernels that
    // wait give up then.
    bool look();

  private:
    struct RelayedPiece { // a piece, or the word that this rank has come to an exchange
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
    std::vector<std::pair<size_t, size_t>> ranges_; // of places that come over the host
    size_t ghosts_of_all_, of_vector_;              // bytes: room for those of a vector, with their check words
    std::shared_ptr<unsigned char> memory_;         // pinned, shared with the GPU; all below lies in it
    unsigned char *of_gpu_ = nullptr;               // room for what goes out, where messages leave from the GPU
    RelayBox *box_;
    unsigned char *out_[2], *in_[2];
    std::array<unsigned char *, 2> ghosts_{};
    int *broken_ = nullptr;
    std::optional<CopyQueue> copies_; // mark of a parity: in_[parity] may be overwritten
    unsigned taken_ = 0, words_ = 0, sums_ = 0;
    size_t count_ = 0; // numbers of the sum that is on its way
    std::list<RelayedPiece> passing_;
    int under_way_[2] = {0, 0}; // pieces, by parity
    std::unique_ptr<Gather> sum_;
    bool looking_ = false, given_up_ = false;
};

} // namespace milcgpu
