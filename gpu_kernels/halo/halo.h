// Ghosts: copies of the neighbours' sites, stored behind a box's own sites (CutLattice). A kernel may read beyond a cut
// only what was exchanged after its last change. All ranks make the same exchanges in the same order.
//
// If kernels may wait for other ranks (machine/backend/peers.h), the launch that makes a vector stores what the
// neighbours need of it, and the next launch reads its ghosts: no extra launch is needed. If GPUs reach each other's
// memory, kernels store into that memory without the host; otherwise the host passes on what was stored (relay.h).
// Bytes for each ghost: those of the element and 8 more, stored once and read once or twice.
//
// On the host backend, and for all data but single vectors, the sites that a neighbour needs form one piece for each
// face (pieces.h). If all GPUs reach each other's memory, kernels store pieces straight into the neighbours' slots, and
// copy what they receive behind the sites of a field: the bytes of an element are read and written twice. Otherwise
// pieces are gathered in a buffer, sent as messages, and copied behind the sites. If the message passing supports it
// (gpu_messages.h), messages start and end in GPU memory; otherwise in pinned host memory. Ghosts and sums that the
// host passes on while kernels wait always use pinned host memory: message passing may copy by the CUDA runtime, where
// nothing may wait for these kernels.
//
// If a message is lost although message passing reports success, the receiver finds a wrong check word (pieces.h), and
// the next gather ends the call on all ranks by Error(comm). With MessageChecks::sums a checksum follows each message,
// and the receiver notices every change on its way.
#pragma once
#include "gpu_kernels/fields/link_field.h"
#include "gpu_kernels/halo/gpu_messages.h"
#include "gpu_kernels/halo/peer_memory.h"
#include "gpu_kernels/halo/send_out.h"
#include "gpu_kernels/halo/wide_box.h"
#include <optional>

namespace milcgpu {

struct Pieces;
struct SpinorBlock;
struct FullVectors;

// none: only to measure what the words cost.
enum class MessageChecks { none, words, sums };

// A launch of D between others. sent: the previous launch made `in` and sent its ghosts. sends: this launch makes the
// `in` of the next one.
struct InARow {
    bool sent = false, sends = false;
};

class Halo {
  public:
    // neighbour[mu]: the rank behind [0] and the rank ahead [1], used if mu is cut. Device, ranks and geometry must
    // outlive this object.
    Halo(Device &device, Ranks &ranks, const Geometry &geometry, const std::array<std::array<int, 2>, 4> &neighbour,
         MessageChecks checks = MessageChecks::words);
    ~Halo(); // waits for the queue
    Halo(const Halo &) = delete;

    // All ranks call this together, before anything else. It opens the GPUs' memory to each other and allocates.
    // refused: the reason why no kernel of this rank may wait for another rank; empty: it may. reaching: the most that
    // kernels may store into. Returns, in words, how ghosts and sums travel and why; the same on all ranks.
    std::string open(const std::string &refused, Reaching reaching,
                     GpuMessages gpu_messages = GpuMessages::where_supported);
    // Whether messages from GPU memory were to be tried, and whether they are used.
    bool tried_gpu_messages() const { return tried_gpu_messages_; }
    bool gpu_messages() const { return gpu_messages_; }
    const std::string &how_messages_travel() const { return how_messages_travel_; }

    // Call this before D of `in`, which is on the sites of `parity`, and pass the result to that launch of D. The
    // ghosts of `in` are in place when this returns, or arrive during the launch.
    PeerLaunch before_dslash(const SpinorBlock &in, int parity, const InARow &row = {},
                             const ActiveSources &active = {});

    // Sends ghosts to peers, if there are any. The next launch must then be called with `sent`.
    void send(const SpinorBlock &in, int parity) {
        if (queue_of(device_).peers() != nullptr)
            send_to_peers(in, parity);
    }
    // For a launch that sends the ghosts of the vector that it makes.
    SendOut send_out(int parity) const {
        return {queue_of(device_).peers() != nullptr ? peers_->map(parity) : GhostMap{}, geometry_.lattice(), parity};
    }

    // Fills ghosts of `field`, which is on the sites of `parity`, for all its sources, as many at a time as fit in a
    // slot: all ghosts, or the nearest `layers` in the first so many directions. Ghosts of sources that are not active
    // may keep old values.
    void exchange(const SpinorBlock &field, int parity, const ActiveSources &active = {}) {
        exchange(field, parity, geometry_.lattice().depth, 4, active);
    }
    void exchange(const SpinorBlock &field, int parity, int layers, int directions, const ActiveSources &active = {},
                  const std::function<void()> &meanwhile = {});
    // As above for all ghosts, while `inner` launches D of the other parity on the inner tiles. Only if
    // goes_beside(that parity): on GPUs, on boxes that Tiles supports, with enough inner tiles.
    void exchange_beside(const SpinorBlock &field, int parity, const std::function<void()> &inner);
    bool goes_beside(int parity) const { return goes_beside_[parity]; }
    Tiles tiles(Tiles::Which) const;
    // True if the host takes part in these exchanges. Then launches with exchanges between them cannot be recorded.
    bool needs_host() const { return ranks_.size() > 1 && !by_peers(); }
    // Fills the links that the backward terms of D read: for each direction mu that is cut, on both parities, the links
    // of direction mu of the `layers` nearest layers behind in mu.
    void exchange_backward(const LinkField &links, int layers);

    // Copies links of 18 reals, double or single, from this geometry into the middle of a wide field, and back. extend
    // also fills the nearest `layers` layers of the margin from the neighbours. fill_margin fills only the margin of a
    // wide field whose middle is filled. Extents must be at least `layers`.
    void extend(const LinkField &links, const WideBox &, int layers, const LinkField &wide);
    void fill_margin(const LinkField &wide, const WideBox &, int layers);
    void crop(const LinkField &wide, const WideBox &, const LinkField &to) const;
    // As above for vectors, double or single.
    void extend(const FullVectors &vectors, const WideBox &, const MarginPart &, const FullVectors &wide);
    void fill_margin(const FullVectors &wide, const WideBox &, const MarginPart &);

    // Passes elements of `bytes` from the fields of this rank to those of its neighbours, for .cu files (pieces.h).
    // meanwhile: launches beside the first launch that stores into the neighbours' memory, if kernels do that.
    template <int bytes, class Ends>
    void pass(const char *phase, const Pieces &pieces, const Ends &ends, const std::function<void()> &meanwhile = {});
    // Passes memory around a ring of ranks: `to` becomes what the rank ahead in mu has in `from`; both on the device,
    // whole pieces of 16 bytes.
    void from_ahead(int mu, const void *from, void *to, size_t bytes);

  private:
    struct MessageMemory { // memory of messages; empty: this rank is its only neighbour
        std::shared_ptr<unsigned char> sent, received;
        size_t bytes = 0;
    };
    struct Buffers {                        // for sending and receiving
        DeviceArray<unsigned char> out, in; // for kernels, if messages use host memory
        MessageMemory messages;
        unsigned char *to_fill() const { return out.data() != nullptr ? out.data() : messages.sent.get(); }
        const unsigned char *filled() const; // after pass()
    };
    template <class Field> void fill(const char *phase, const WideBox &, const MarginPart &, const Field &wide);
    void pass_messages(const char *phase, const Buffers &buffers, const Pieces &pieces);
    void check_messages(const char *phase, const unsigned char *sent, unsigned char *received, const Pieces &pieces);
    void send_to_peers(const SpinorBlock &field, int parity);
    // Bytes of all ghosts of several vectors: 6 in double, 12 in single.
    size_t slot_bytes() const { return 6 * geometry_.ghost_sites() * spinor_bytes(Precision::double_); }
    size_t buffer_bytes() const { return slot_bytes() + slot_bytes() / 256 + 256; } // with check words
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
    MessageChecks checks_;
    unsigned exchanges_ = 0;         // by messages, the same on all ranks
    std::shared_ptr<int> lost_;      // Ranks::watch()
    std::optional<Buffers> buffers_; // of buffer_bytes(), for messages
    MessageMemory larger_;           // for more than that; as large as was needed so far
    bool gpu_messages_ = false, tried_gpu_messages_ = false;
    std::string how_messages_travel_;
    std::unique_ptr<PeerMemory> peers_;
    PeerLaunch launches_[2]; // over the sites of a parity
    DeviceArray<int> tiles_[2];
    bool goes_beside_[2] = {false, false};
};

// Links with their surroundings, for kernels: a wide field with a margin if the lattice is cut, the links themselves if
// it is whole (halo is nullptr). All ranks call together.
class WithMargin {
  public:
    WithMargin(Device &, const Geometry &, Halo *halo, Precision);
    const WideBox &box() const { return box_; }
    // The links with so many layers around them; valid until the next call.
    const LinkField &of(const LinkField &links, int layers);
    LinkField allocate(const char *owner) const { return {device_, precision_, 18, box_.wide(), owner}; }
    LinkField allocate_on_box(const char *owner) const {
        return {device_, precision_, 18, box_.box().without_ghosts(), owner};
    }

  private:
    static constexpr int margin = 2; // reach of Lepage's paths, long links and loops of six links
    Device &device_;
    Halo *halo_;
    Precision precision_;
    WideBox box_;
    LinkField wide_;
};

} // namespace milcgpu
