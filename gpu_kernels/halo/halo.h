// Ghosts: copies of the neighbours' sites behind a box's own (CutLattice). What a kernel reads beyond a cut must have
// been exchanged since it last changed. All ranks make the same exchanges in the same order.
//
// Where kernels may wait for other ranks (machine/backend/peers.h), the launch that makes a vector stores what the
// neighbours need of it, and the next one reads its ghosts: nothing is launched for that. Where GPUs reach each other's
// memory they store into that, and the host has no part in it; elsewhere the host passes on what was stored (relay.h).
// Bytes a place of a ghost: the element's and 8 more, stored once and read once or twice.
//
// On the host backend, and for what is not a single vector, the sites that a neighbour needs make a piece a face
// (pieces.h). GPUs that all reach each other's memory store pieces straight into the neighbours' slots, and take from
// there what belongs behind the sites of a field: the element's bytes are read and written twice. Elsewhere pieces are
// gathered in a buffer, travel as messages, and are put behind the sites. Messages leave from GPU memory and arrive
// there where the message passing takes that (gpu_messages.h), else from pinned memory of the host. Ghosts and sums
// that the host passes on while kernels wait always do the latter: message passing may copy by the CUDA runtime, where
// nothing may wait for these kernels.
//
// With `check` a checksum travels after each message, and a message that arrived otherwise than it was sent is
// Error(comm) on all ranks.
#pragma once
#include "gpu_kernels/fields/fields.h"
#include "gpu_kernels/halo/gpu_messages.h"
#include "gpu_kernels/halo/peer_memory.h"
#include "gpu_kernels/halo/send_out.h"
#include "gpu_kernels/halo/wide_box.h"
#include <optional>

namespace milcgpu {

struct Pieces;

class Halo {
  public:
    // neighbour[mu]: the rank behind [0] and the rank ahead [1], read where mu is cut. Device, ranks and geometry must
    // outlive it.
    Halo(Device &device, Ranks &ranks, const Geometry &geometry, const std::array<std::array<int, 2>, 4> &neighbour,
         bool check = false);
    ~Halo(); // waits for the queue
    Halo(const Halo &) = delete;

    // All ranks together, before anything else: opens the GPUs' memory to each other and makes room. refused: why no
    // kernel of this rank may wait for another one; empty: it may. reaching: the most that they may store into.
    // Returns how ghosts and sums travel, and why, in words; the same on all ranks.
    std::string open(const std::string &refused, Reaching reaching, GpuMessages gpu_messages = GpuMessages::where_said);
    // Whether messages were to leave from GPU memory, and if they do.
    bool tried_gpu_messages() const { return tried_gpu_messages_; }
    bool gpu_messages() const { return gpu_messages_; }
    const std::string &how_messages_travel() const { return how_messages_travel_; }

    // Before D of `in`, which lives on the sites of `parity`: its ghosts are there then, or with the launch for which
    // this is. sent: the launch before has made `in` and sent them. send_out: this launch makes the `in` of the next.
    PeerLaunch before_dslash(const SpinorBlock &in, int parity, bool sent = false, bool send_out = false,
                             const ActiveSources &active = {});

    // To peers, where there are any: before a launch that is told `sent`. And how a launch does that itself.
    void send(const SpinorBlock &in, int parity) {
        if (queue_of(device_).peers() != nullptr)
            send_to_peers(in, parity);
    }
    SendOut send_out(int parity) const {
        return {queue_of(device_).peers() != nullptr ? peers_->map(parity) : GhostMap{}, geometry_.lattice(), parity};
    }

    // Fills ghosts of `field`, which lives on the sites of `parity`, of all its sources, a slot's worth at a time: all
    // of them, or the nearest `layers` in the first so many directions. Ghosts of sources that are not active may stay
    // as they are.
    void exchange(const SpinorBlock &field, int parity, const ActiveSources &active = {}) {
        exchange(field, parity, geometry_.lattice().depth, 4, active);
    }
    void exchange(const SpinorBlock &field, int parity, int layers, int directions, const ActiveSources &active = {},
                  const std::function<void()> &meanwhile = {});
    // The same, all of them, while `inner` is at work, which launches D of the other parity on the inner tiles. Only
    // where goes_beside(that parity): on GPUs, on boxes that Tiles is for, if enough of the tiles are inner ones.
    void exchange_beside(const SpinorBlock &field, int parity, const std::function<void()> &inner);
    bool goes_beside(int parity) const { return goes_beside_[parity]; }
    Tiles tiles(Tiles::Which) const;
    // The host has a part in these exchanges, so that no launches with them between are recorded.
    bool needs_host() const { return ranks_.size() > 1 && !by_peers(); }
    // Fills what the backward terms of D read: of the links of each direction mu that is cut, on both parities, the
    // `layers` nearest ones behind in mu.
    void exchange_backward(const LinkField &links, int layers);

    // Links of 18 reals, double or single, of this geometry into the middle of fields of a wide one, and back. extend
    // fills the nearest `layers` of the margin, too, from the neighbours: what fill_margin does where the links are
    // there already. Extents are at least that.
    void extend(const LinkField &links, const WideBox &, int layers, const LinkField &wide);
    void fill_margin(const LinkField &wide, const WideBox &, int layers);
    void crop(const LinkField &wide, const WideBox &, const LinkField &to) const;
    // The same for vectors, double or single.
    void extend(const FullVectors &vectors, const WideBox &, const MarginPart &, const FullVectors &wide);
    void fill_margin(const FullVectors &wide, const WideBox &, const MarginPart &);

    // Elements of `bytes` from the fields of this rank to those of its neighbours, for .cu files (pieces.h).
    // meanwhile: launches beside the first one that stores into the neighbours' memory, where kernels do that.
    template <int bytes, class Ends>
    void pass(const char *phase, const Pieces &pieces, const Ends &ends, const std::function<void()> &meanwhile = {});
    // What goes round a ring of ranks: `to` is what the rank ahead in mu has in `from`, both on the device, whole
    // pieces of 16 bytes.
    void from_ahead(int mu, const void *from, void *to, size_t bytes);

  private:
    struct MessageMemory { // where messages lie; empty: this rank is its only neighbour
        std::shared_ptr<unsigned char> sent, received;
        size_t bytes = 0;
    };
    struct Buffers {                        // what goes out and what comes in
        DeviceArray<unsigned char> out, in; // for kernels, where messages lie on the host
        MessageMemory messages;
        unsigned char *to_fill() const { return out.data() != nullptr ? out.data() : messages.sent.get(); }
        const unsigned char *filled() const; // by pass()
    };
    template <class Field> void fill(const char *phase, const WideBox &, const MarginPart &, const Field &wide);
    struct Part { // of a buffer
        size_t first, bytes;
    };
    void pass_messages(const char *phase, const Buffers &buffers, const Pieces &pieces, size_t packed);
    void check_messages(const char *phase, const unsigned char *sent, const unsigned char *received,
                        const Pieces &pieces, const std::vector<Part> &parts);
    void send_to_peers(const SpinorBlock &field, int parity);
    // Of all ghosts of several vectors: 6 in double, 12 in single.
    size_t slot_bytes() const { return 6 * geometry_.ghost_sites() * spinor_bytes(Precision::double_); }
    bool by_peers() const { return queue_of(device_).peers() != nullptr && !peers_->relays(); }
    MessageMemory allocate_for_messages(size_t bytes);
    Buffers buffers_in(size_t bytes, const MessageMemory &messages);
    Buffers allocate_larger(size_t bytes);
    void find_gpu_messages(GpuMessages asked);
    void make_orders();
    std::string how_it_travels() const;
    Device &device_;
    Ranks &ranks_;
    const Geometry &geometry_;
    std::array<std::array<int, 2>, 4> neighbour_;
    bool check_;
    std::optional<Buffers> buffers_; // a slot's worth, for messages
    MessageMemory larger_;           // for more than that; as large as was needed so far
    bool gpu_messages_ = false, tried_gpu_messages_ = false;
    std::string how_messages_travel_;
    std::unique_ptr<PeerMemory> peers_;
    PeerLaunch launches_[2]; // over the sites of a parity
    DeviceArray<int> tiles_[2];
    bool goes_beside_[2] = {false, false};
};

// Links with what is around them, for kernels: in a field of their own with a margin where the lattice is cut, and
// themselves where it is whole (halo is nullptr). All ranks call together.
class WithMargin {
  public:
    WithMargin(Device &, const Geometry &, Halo *halo, Precision);
    const WideBox &box() const { return box_; }
    // The links and so many layers around them; until they, or others, are asked for again.
    const LinkField &of(const LinkField &links, int layers);
    LinkField allocate(const char *owner) const { return {device_, precision_, 18, box_.wide(), owner}; }
    LinkField allocate_on_box(const char *owner) const {
        return {device_, precision_, 18, box_.box().without_ghosts(), owner};
    }

  private:
    static constexpr int margin = 2; // Lepage's paths, long links and loops of six links reach so far
    Device &device_;
    Halo *halo_;
    Precision precision_;
    WideBox box_;
    LinkField wide_;
};

} // namespace milcgpu
