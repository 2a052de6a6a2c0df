#include "gpu_kernels/fields/for_precision.h"
#include "gpu_kernels/halo/message_groups.h"
#include "gpu_kernels/halo/pieces.h"
#include "gpu_kernels/machine/backend/device.h"
#include "gpu_kernels/machine/backend/lasting_memory.h"
#include <cstring>
#include <list>

namespace milcgpu {

namespace {

// The ghosts of a vector on one parity, for each source, and the sites of this rank that are its neighbours' ghosts.
template <int bytes, int word> struct GhostsOfVector {
    static constexpr bool fits_slot = true, of_sources = true;
    CutLattice lattice;
    int parity;
    int layers;          // of the ghosts
    unsigned char *data; // of source 0
    size_t stride, source_bytes;
    int sources = 1;
    ActiveSources active = {};
    MILCGPU_HD bool wanted(int k) const { return active.has(k); }
    // The site that is the neighbour's ghost in a place of a face; -1: the place is empty.
    MILCGPU_HD int sent(int mu, int side, int place) const {
        const int away = place / lattice.layer[mu];
        Site s;
        return lattice.sent(parity, mu, side, away, place - away * lattice.layer[mu], s) ? s.index() : -1;
    }
    MILCGPU_HD int sent(const Pieces::Piece &piece, int place) const { return sent(piece.mu, piece.side, place); }
    MILCGPU_HD int received(const Pieces::Piece &piece, int place) const {
        return lattice.ghost[piece.mu][piece.side] + place;
    }
    MILCGPU_HD void load(int k, int site, uint32_t *w) const {
        if (site >= 0)
            load_element<bytes, word, Reuse::keep>(data + k * source_bytes, stride, site, w);
    }
    MILCGPU_HD void store(int k, int site, const uint32_t *w) const {
        store_element<bytes, word>(data + k * source_bytes, stride, site, w);
    }
};

// Links of direction mu on the nearest layers behind in mu, for each mu that is cut. The kind of a piece is its parity.
template <int bytes> struct LinksBehind {
    static constexpr bool fits_slot = true, of_sources = false; // fits: up to 3 layers
    CutLattice lattice;
    unsigned char *data; // block (0, 0)
    size_t stride, block_bytes;
    MILCGPU_HD unsigned char *block(const Pieces::Piece &piece) const {
        return data + (4 * piece.kind + piece.mu) * block_bytes;
    }
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, uint32_t *w) const {
        const int away = e / lattice.layer[piece.mu];
        Site s;
        if (lattice.sent(piece.kind, piece.mu, 0, away, e - away * lattice.layer[piece.mu], s))
            load_element<bytes, 16, Reuse::keep>(block(piece), stride, s.index(), w);
    }
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const uint32_t *w) const {
        store_element<bytes, 16>(block(piece), stride, lattice.ghost[piece.mu][0] + e, w);
    }
};

#if defined(MILCGPU_WITH_CUDA)
// Sends ghosts of a vector of a parity to peers (peers.h). An empty exchange comes first: after it no neighbour reads
// the ghosts that are overwritten.
template <int bytes, int word>
__global__ void __launch_bounds__(max_block)
    send_vector(const GhostsOfVector<bytes, word> vector, int n, const GhostMap map) {
    Peers *const peers = map.peers;
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers) + 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        cuda::tell_neighbours(peers, exchange);
    cuda::wait_for_neighbours(peers, exchange);
    cuda::for_own(n, [&](int j) {
        int face = 0;
        for (int other = 0; other < Peers::faces; ++other)
            if (vector.lattice.cut(other / 2) &&
                vector.lattice.first_ghost + j >= vector.lattice.ghost[other / 2][other % 2])
                face = other; // faces are contiguous
        const int mu = face / 2, side = face % 2;
        Element<bytes> e = {};
        vector.load(0, vector.sent(mu, side, vector.lattice.first_ghost + j - vector.lattice.ghost[mu][side]), e.w);
        cuda::send_ghost<bytes, word>(map, vector.parity, face ^ 1, j, e.w);
    });
    cuda::end_of_exchange(peers, [&](unsigned) { cuda::count_vector(peers, vector.parity); });
}
#endif

// Calls function with the integral constant of a number of bytes that is known only at run time.
template <int... known, class Function> void for_bytes(size_t bytes, const Function &function) {
    bool found = false;
    ((bytes == known ? (function(std::integral_constant<int, known>()), found = true) : found), ...);
    if (!found)
        throw Error(Status::not_built, format("halo: elements of %zu bytes", bytes));
}
template <class Function> void for_element(const SpinorBlock &field, const Function &function) {
    for_precision(field.precision, [&](auto spinor) {
        using S = decltype(spinor);
        function(std::integral_constant<int, S::words * S::word_bytes>(), std::integral_constant<int, S::word_bytes>());
    });
}
template <class Function> void for_element(const LinkField &links, const Function &function) {
    for_bytes<144, 104, 96, 72, 64, 52, 48, 36, 32, 26, 24, 18, 16>(
        link_bytes(links.precision(), links.reals()),
        [&](auto bytes) { function(bytes, std::integral_constant<int, 16>()); });
}

} // namespace

// If this rank is its only neighbour, what it sends is what it receives.
const unsigned char *Halo::Buffers::filled() const {
    return in.data() != nullptr ? in.data() : messages.received ? messages.received.get() : out.data();
}

Halo::MessageMemory Halo::allocate_for_messages(size_t bytes) {
    if (ranks_.size() == 1)
        return {};
    const Lasting kind = gpu_messages_ ? Lasting::device : Lasting::shared;
    return {lasting_memory(device_, kind, bytes), lasting_memory(device_, kind, bytes), bytes};
}

Halo::Buffers Halo::buffers_in(size_t bytes, const MessageMemory &messages) {
    Buffers scratch;
    scratch.messages = messages;
    const bool apart = device_.on_gpu() && !gpu_messages_; // kernels and messages use different memory
    if (apart || ranks_.size() == 1)
        scratch.out = DeviceArray<unsigned char>(device_, bytes, "halo");
    if (apart && ranks_.size() > 1)
        scratch.in = DeviceArray<unsigned char>(device_, bytes, "halo");
    return scratch;
}

// Memory for messages is kept, because pinning it takes as long as many exchanges. Sizes are powers of two, so that it
// is seldom allocated.
Halo::Buffers Halo::allocate_larger(size_t bytes) {
    if (ranks_.size() > 1 && larger_.bytes < bytes) {
        device_.synchronize();
        larger_ = {};
        size_t scratch = buffer_bytes();
        while (scratch < bytes)
            scratch *= 2;
        larger_ = allocate_for_messages(scratch);
    }
    return buffers_in(bytes, larger_);
}

PeerLaunch Halo::before_dslash(const SpinorBlock &in, int parity, const InARow &row, const ActiveSources &active) {
    if (device_.peers() == nullptr || in.sources > 1) {
        exchange(in, parity, active);
        return {};
    }
    if (!row.sent)
        send_to_peers(in, parity);
    PeerLaunch launch = launches_[1 - parity];
    launch.send = row.sends;
    return launch;
}

#if defined(MILCGPU_WITH_CUDA)
void Halo::send_to_peers(const SpinorBlock &field, int parity) {
    const int n = static_cast<int>(geometry_.ghost_sites());
    for_element(field, [&](auto bytes, auto word) {
        const GhostsOfVector<bytes, word> vector{geometry_.lattice(), parity,       geometry_.lattice().depth,
                                                 field.data,          field.stride, 0};
        cuda::start(device_, "send sites to the neighbours", cuda::exchange_blocks(n), max_block,
                    send_vector<bytes, word>, vector, n, peers_->map(parity));
    });
}
#else
void Halo::send_to_peers(const SpinorBlock &, int) {}
#endif

// With messages from GPU memory, copies of a rank to itself go through the queue. Through the host, all groups start
// before any is waited for, because neighbours with other boxes may have other groups.
void Halo::pass_messages(const char *phase, const Buffers &buffers, const Pieces &pieces) {
    if (ranks_.size() == 1)
        return;
    constexpr size_t most_group_bytes = size_t(1) << 20; // takes 40 us over a bus
    unsigned char *const out = buffers.messages.sent.get(), *const in = buffers.messages.received.get();
    size_t bytes = 0;
    const bool through_host = buffers.out.data() != nullptr;
    std::vector<size_t> bytes_of_pieces;
    for (int k = 0; k < pieces.count; ++k) {
        bytes_of_pieces.push_back(pieces.piece[k].bytes);
        bytes += pieces.piece[k].bytes;
    }
    const std::vector<MessageGroup> groups =
        groups_of(bytes_of_pieces, through_host ? most_group_bytes : std::max(bytes, size_t(1)));
    const auto to_host = [&](size_t g) {
        if (!through_host || g >= groups.size())
            return;
        device_.copy_to_pinned_later(out + groups[g].first, buffers.out.data() + groups[g].first, groups[g].bytes);
        device_.record(g % 2);
    };
    to_host(0);
    to_host(1);
    if (gpu_messages_)
        device_.synchronize();
    const auto both = std::make_shared<MessageMemory>(buffers.messages);
    std::list<Exchange> under_way;
    for (size_t g = 0; g < groups.size(); ++g) {
        std::vector<Message> messages;
        for (const MessageGroup::Part &part : groups[g].parts) {
            const Pieces::Piece &piece = pieces.piece[part.piece];
            const int from = piece.side, to = 1 - piece.side; // its ghosts behind are what this rank sends ahead
            if (gpu_messages_ && neighbour_[piece.mu][from] == ranks_.rank()) {
                device_.copy_on_device(in + part.first, out + part.first, part.bytes);
                continue;
            }
            messages.push_back({neighbour_[piece.mu][to], out + part.first, nullptr, part.bytes, part.piece,
                                face_names[2 * piece.mu + to]});
            messages.push_back({neighbour_[piece.mu][from], nullptr, in + part.first, part.bytes, part.piece,
                                face_names[2 * piece.mu + from]});
        }
        if (through_host)
            device_.wait(g % 2);
        to_host(g + 2);
        under_way.emplace_back(ranks_, phase, messages, both);
    }
    for (const MessageGroup &group : groups) {
        under_way.front().finish();
        under_way.pop_front();
        if (through_host)
            device_.copy_from_pinned_later(buffers.in.data() + group.first, in + group.first, group.bytes);
    }
    if (checks_ != MessageChecks::sums)
        return;
    if (gpu_messages_) {
        std::vector<unsigned char> sent(bytes), received(bytes);
        device_.copy_to_host(sent.data(), out, bytes);
        device_.copy_to_host(received.data(), in, bytes);
        check_messages(phase, sent.data(), received.data(), pieces);
    } else {
        check_messages(phase, out, in, pieces);
    }
}

void Halo::check_messages(const char *phase, const unsigned char *sent, unsigned char *received, const Pieces &pieces) {
    std::vector<Message> messages;
    for (int k = 0; k < pieces.count; ++k) {
        const Pieces::Piece &piece = pieces.piece[k];
        const int to = 1 - piece.side;
        messages.push_back({neighbour_[piece.mu][to], sent + piece.first_byte, nullptr, piece.bytes, k,
                            face_names[2 * piece.mu + to]});
        messages.push_back(
            {piece.from, nullptr, received + piece.first_byte, piece.bytes, k, face_names[2 * piece.mu + piece.side]});
    }
    ranks_.collective(phase, [&] {
        if (const Message *changed = ranks_.changed_message(phase, messages))
            throw Error(Status::comm,
                        format("%s: %zu bytes from %s (%s) are not what it sent (MILCGPU_TEST=check_halo). Message "
                               "passing or memory fails: see the MPI's transports, or use other hosts",
                               phase, changed->bytes, ranks_.name(changed->peer).c_str(), changed->direction));
    });
}

void Halo::exchange_beside(const SpinorBlock &field, int parity, const std::function<void()> &inner) {
    if (by_peers()) {
        exchange(field, parity, geometry_.lattice().depth, 4, {}, inner);
        return;
    }
    device_.aside([&] { exchange(field, parity); }, inner);
    device_.rejoin();
}

void Halo::exchange(const SpinorBlock &field, int parity, int layers, int directions, const ActiveSources &active,
                    const std::function<void()> &meanwhile) {
    const CutLattice &lattice = geometry_.lattice();
    const auto pieces_of = [&](int sources) {
        Pieces pieces;
        for (int mu = 0; mu < directions; ++mu)
            for (int side = 0; side < 2 && lattice.cut(mu); ++side)
                pieces.add(mu, side, 0, layers * lattice.layer[mu], sources);
        return pieces;
    };
    const int of_source = pieces_of(1).elements_of_all();
    for_element(field, [&](auto bytes, auto word) {
        const size_t scratch = slot_bytes() / Element<bytes>::packed;
        for (int k = 0, count; k < field.sources && of_source > 0; k += count) {
            count = std::min(field.sources - k, static_cast<int>(scratch / of_source));
            pass<bytes>("the halo of a vector", pieces_of(count),
                        GhostsOfVector<bytes, word>{lattice, parity, layers, field[k].data, field.stride,
                                                    field.source_bytes, count, active.from(k)},
                        k == 0 ? meanwhile : std::function<void()>());
        }
    });
}

void Halo::exchange_backward(const LinkField &links, int layers) {
    const CutLattice &lattice = geometry_.lattice();
    Pieces pieces;
    for (int mu = 0; mu < 4; ++mu)
        for (int parity = 0; parity < 2 && lattice.cut(mu); ++parity)
            pieces.add(mu, 0, parity, layers * lattice.layer[mu]);
    for_element(links, [&](auto bytes, auto) {
        pass<bytes>("the halo of links", pieces,
                    LinksBehind<bytes>{lattice, links.block(0, 0), links.stride(), links.block_bytes()});
    });
}

} // namespace milcgpu
