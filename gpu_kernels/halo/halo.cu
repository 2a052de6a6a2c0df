#include "gpu_kernels/blas/for_precision.h"
#include "gpu_kernels/halo/halo.h"
#include <cstring>

namespace milcgpu {

namespace {

// Elements of `bytes` in words of `word`, striped as load_element knows them; in a buffer whole words of 4 bytes, one
// element behind the other.
template <int bytes, int word> struct Element {
    static constexpr int words = (bytes + 3) / 4;
    uint32_t w[words];
};
constexpr size_t packed_bytes(size_t bytes) { return (bytes + 3) / 4 * 4; }

// What the neighbours have as the ghosts from `first` on.
template <int bytes, int word> struct SitesToSend {
    CutLattice lattice;
    int parity, first;
    const unsigned char *data;
    size_t stride;
    // Ghost first + j. Returns the face of the neighbour who has it.
    MILCGPU_HD int load(int j, Element<bytes, word> &e) const {
        int mu = 0, side = 0, in_face = 0;
        for (int face = 0; face < 8; ++face) {
            const int at = first + j - lattice.ghost[face / 2][face % 2];
            if (lattice.cut(face / 2) && at >= 0 && at < lattice.depth * lattice.layer[face / 2])
                mu = face / 2, side = face % 2, in_face = at;
        }
        const int away = in_face / lattice.layer[mu];
        e = {};
        Site s;
        if (lattice.sent(parity, mu, side, away, in_face - away * lattice.layer[mu], s))
            load_element<bytes, word, Reuse::keep>(data, stride, s.index(), e.w);
        return 2 * mu + 1 - side;
    }
};

template <int bytes, int word> struct GatherSites {
    SitesToSend<bytes, word> sites;
    unsigned char *to;
    MILCGPU_HD void operator()(int j) const {
        Element<bytes, word> e;
        sites.load(j, e);
        memcpy(to + j * sizeof e, &e, sizeof e);
    }
};

#if defined(MILCGPU_WITH_CUDA)
// Few blocks, because each of them orders its stores.
constexpr int most_blocks = 64;
int blocks_for(int n) { return std::max(1, std::min(most_blocks, (n + max_block - 1) / max_block)); }

template <class Function> __device__ void for_own(int n, const Function &function) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        function(j);
}

// Ghosts of a vector of a parity, to peers (peers.h). An exchange of nothing comes first: by then no neighbour reads
// the ghosts that are overwritten.
template <int bytes, int word>
__global__ void __launch_bounds__(max_block)
    send_vector(const SitesToSend<bytes, word> sites, int n, const GhostMap map, unsigned cuts) {
    Peers *const peers = map.peers;
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers) + 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        cuda::tell_neighbours(peers, exchange);
    cuda::wait_for_neighbours(peers, cuts, exchange);
    for_own(n, [&](int j) {
        Element<bytes, word> e;
        const int face = sites.load(j, e);
        cuda::send_ghost<bytes, word>(map, sites.parity, face, j, e.w);
    });
    cuda::end_of_exchange(peers, [&](unsigned) { cuda::count_vector(peers, sites.parity); });
}

// Words of 4 bytes of a buffer, which go to the neighbours' slots piece by piece.
struct WordsToSend {
    struct Route {
        size_t end; // word of the buffer
        int face;
    };
    static constexpr int most_routes = 8;
    Route routes[most_routes];
    const uint32_t *from;
    size_t begin; // what is stored first in the slots
    __device__ int face_of(size_t at) const {
        int k = 0;
        while (at >= routes[k].end)
            ++k;
        return routes[k].face;
    }
};

__global__ void __launch_bounds__(max_block) send_words(const WordsToSend words, int n, Peers *peers, unsigned cuts) {
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers);
    cuda::wait_for_neighbours(peers, cuts, exchange); // so all have read the slot that is filled now
    const size_t slot = (exchange + 1) % 2 * peers->slot_bytes;
    for_own(n, [&](int j) {
        const size_t at = words.begin + j;
        reinterpret_cast<uint32_t *>(peers->face[words.face_of(at)].slots + slot)[j] = words.from[at];
    });
    cuda::end_of_exchange(peers, [&](unsigned sent) { cuda::tell_neighbours(peers, sent); });
}

__global__ void __launch_bounds__(max_block) take_words(uint32_t *to, int n, Peers *peers, unsigned cuts) {
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers);
    cuda::wait_for_neighbours(peers, cuts, exchange);
    const uint32_t *from = reinterpret_cast<const uint32_t *>(peers->slots + exchange % 2 * peers->slot_bytes);
    for_own(n, [&](int j) { to[j] = from[j]; });
}
#endif

template <int bytes, int word> struct PutBehind {
    unsigned char *data;
    size_t stride;
    int first;
    const unsigned char *from;
    MILCGPU_HD void operator()(int j) const {
        Element<bytes, word> e;
        memcpy(&e, from + j * sizeof e, sizeof e);
        store_element<bytes, word>(data, stride, first + j, e.w);
    }
};

// function(integral constant of the bytes) for a number of bytes that is known when the program runs.
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

// Where the only neighbour is this rank itself, what goes out is what comes in.
Halo::Buffers::Buffers(Device &device, bool messages, size_t bytes) {
    if (device.on_gpu() || !messages)
        out = DeviceArray<unsigned char>(device, bytes, "halo");
    if (device.on_gpu() && messages)
        in = DeviceArray<unsigned char>(device, bytes, "halo");
    if (messages && (!device.on_gpu() || device.needs_host())) {
        out_on_host = std::make_shared<std::vector<unsigned char>>(bytes);
        in_on_host = std::make_shared<std::vector<unsigned char>>(bytes);
    }
}
unsigned char *Halo::Buffers::to_fill() const { return out.data() != nullptr ? out.data() : out_on_host->data(); }
const unsigned char *Halo::Buffers::filled() const {
    return in.data() != nullptr ? in.data() : in_on_host ? in_on_host->data() : out.data();
}

Halo::Halo(Device &device, Ranks &ranks, const Geometry &geometry, const std::array<std::array<int, 2>, 4> &neighbour,
           bool check)
    : device_(device), ranks_(ranks), geometry_(geometry), neighbour_(neighbour), check_(check) {}

// Sites of a parity below which D takes 4 threads a site (Device::parts_below): those that wait for ghosts are then a
// quarter of a site's. Two H200s, time of an iteration at 16384 sites: 17 to 44 % less, at 32768 3 to 11 % less.
constexpr int parts_below_with_peers = 33000;

std::string Halo::open(const std::string &asked) {
    std::string refused = check_ ? "MILCGPU_CHECK_HALO=1 asks for checksums of messages" : asked;
    const auto &extent = geometry_.lattice().extent; // where a ghost lies is known from the rank's own box
    for (const auto &other :
         ranks_.gathered("the start of direct stores", std::array<int, 4>{extent[0], extent[1], extent[2], extent[3]}))
        if (!std::equal(other.begin(), other.end(), extent))
            refused = "there are boxes of several sizes";
    std::array<int, Peers::faces> faces;
    for (int face = 0; face < Peers::faces; ++face)
        faces[face] = geometry_.cut(face / 2) ? neighbour_[face / 2][face % 2] : -1;
    peers_ = std::make_unique<PeerMemory>(device_, ranks_, faces, geometry_.ghost_sites(), slot_bytes(),
                                          ranks_.time_limit(), refused);
    device_.set_peers(peers_->on_device());
    device_.agree("memory for ghosts", [&] {
        spinors_.emplace(device_, to_others(), slot_bytes());
        if (device_.peers() != nullptr)
            make_orders();
    });
    if (device_.peers() != nullptr)
        device_.set_parts_below(parts_below_with_peers);
    return peers_->why_not();
}

// Tiles with sites that a neighbour needs, which are those that need a neighbour's, come after a part of the others: by
// then the neighbours' are there, and the rest of the others hides what it takes to send them.
void Halo::make_orders() {
    constexpr double others_before = 0.4;
    const CutLattice &lattice = geometry_.lattice();
    for (int parity = 0; parity < 2; ++parity) {
        std::vector<int> inner, near;
        for (int tile = 0; tile * tile_sites < lattice.sites(parity); ++tile) {
            bool at_boundary = false;
            for (int i = tile * tile_sites; i < std::min((tile + 1) * tile_sites, lattice.sites(parity)); ++i) {
                const Site s = lattice.site(parity, i);
                for (int mu = 0; mu < 4; ++mu)
                    at_boundary |=
                        lattice.cut(mu) && std::min(s.x[mu], lattice.extent[mu] - 1 - s.x[mu]) < lattice.depth;
            }
            (at_boundary ? near : inner).push_back(tile);
        }
        const int before = static_cast<int>(others_before * inner.size()), near_tiles = static_cast<int>(near.size());
        PeerLaunch &launch = launches_[parity];
        launch = {peers_->map(parity), nullptr, before, before + near_tiles, 0, static_cast<int>(inner.size()), false};
        while (launch.low < near_tiles && near[launch.low] == launch.low)
            ++launch.low;
        std::vector<int> all(inner.begin(), inner.begin() + before);
        all.insert(all.end(), near.begin(), near.end());
        all.insert(all.end(), inner.begin() + before, inner.end());
        bool known = true;
        for (size_t turn = 0; turn < all.size(); ++turn)
            known = known && launch.tile(static_cast<int>(turn)) == all[turn];
        if (known)
            continue;
        tiles_[parity] = DeviceArray<int>(device_, all.size(), "order of a box's sites");
        device_.copy_to_device(tiles_[parity].data(), all.data(), tiles_[parity].bytes());
        launch.tiles = tiles_[parity].data();
    }
}

PeerLaunch Halo::before_dslash(const SpinorBlock &in, int parity, bool sent, bool send_out) {
    if (device_.peers() == nullptr || in.sources > 1) {
        exchange(in, parity);
        return {};
    }
    if (!sent)
        send_to_peers(in, parity);
    PeerLaunch launch = launches_[1 - parity];
    launch.send = send_out;
    return launch;
}

#if defined(MILCGPU_WITH_CUDA)
void Halo::send_to_peers(const SpinorBlock &field, int parity) {
    const int n = static_cast<int>(geometry_.ghost_sites());
    for_element(field, [&](auto bytes, auto word) {
        const SitesToSend<bytes, word> sites{geometry_.lattice(), parity, geometry_.most_sites(), field.data,
                                             field.stride};
        cuda::start(device_, "send sites to the neighbours", blocks_for(n), max_block, send_vector<bytes, word>, sites,
                    n, peers_->map(parity), geometry_.lattice().cuts());
    });
}

// A slot's worth at a time. What a piece is for the neighbour behind, the neighbour ahead of that one has sent.
void Halo::pass_to_peers(const Buffers &buffers, const std::vector<Piece> &pieces) {
    constexpr size_t word = sizeof(uint32_t);
    WordsToSend words{};
    size_t count = 0;
    for (size_t k = 0; k < pieces.size(); ++k) { // they lie one behind the other
        count = (pieces[k].first + pieces[k].bytes) / word;
        words.routes[k] = {count, 2 * pieces[k].mu + 1 - pieces[k].side};
    }
    words.from = reinterpret_cast<const uint32_t *>(buffers.out.data());
    const size_t at_once = slot_bytes() / word;
    for (; words.begin < count; words.begin += at_once) {
        const int n = static_cast<int>(std::min(at_once, count - words.begin));
        cuda::start(device_, "send to the neighbours", blocks_for(n), max_block, send_words, words, n, device_.peers(),
                    geometry_.lattice().cuts());
        cuda::start(device_, "take from the neighbours", blocks_for(n), max_block, take_words,
                    reinterpret_cast<uint32_t *>(buffers.in.data()) + words.begin, n, device_.peers(),
                    geometry_.lattice().cuts());
    }
}
#else
void Halo::send_to_peers(const SpinorBlock &, int) {}
void Halo::pass_to_peers(const Buffers &, const std::vector<Piece> &) {}
#endif

void Halo::pass(const char *phase, const Buffers &buffers, const std::vector<Piece> &pieces) {
    if (device_.peers() != nullptr)
        return pass_to_peers(buffers, pieces);
    if (ranks_.size() == 1)
        return;
    std::vector<unsigned char> &out = *buffers.out_on_host, &in = *buffers.in_on_host;
    size_t bytes = 0;
    std::vector<Message> messages;
    for (const Piece &piece : pieces) {
        const int from = piece.side, to = 1 - piece.side; // its ghosts behind are what it sends ahead
        messages.push_back({neighbour_[piece.mu][to], &out[piece.first], nullptr, piece.bytes, piece.tag,
                            face_names[2 * piece.mu + to]});
        messages.push_back({neighbour_[piece.mu][from], nullptr, &in[piece.first], piece.bytes, piece.tag,
                            face_names[2 * piece.mu + from]});
        bytes += piece.bytes;
    }
    if (device_.on_gpu())
        device_.copy_to_host(out.data(), buffers.out.data(), bytes);
    const auto both = std::make_shared<std::pair<decltype(buffers.out_on_host), decltype(buffers.in_on_host)>>(
        buffers.out_on_host, buffers.in_on_host);
    Exchange(ranks_, phase, messages, both).finish();
    if (check_)
        check_pieces(phase, buffers, pieces);
    if (device_.on_gpu())
        device_.copy_to_device(buffers.in.data(), in.data(), bytes);
}

void Halo::check_pieces(const char *phase, const Buffers &buffers, const std::vector<Piece> &pieces) {
    const auto sum_of = [](const unsigned char *data, size_t bytes) {
        uint64_t sum = 1;
        for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) { // pieces are of whole words
            uint32_t word;
            std::memcpy(&word, data + at, sizeof word);
            sum = sum * 0x9E3779B97F4A7C15ull + word;
        }
        return sum;
    };
    const auto sums = std::make_shared<std::vector<uint64_t>>(2 * pieces.size()); // sent, and received
    std::vector<Message> messages;
    for (size_t k = 0; k < pieces.size(); ++k) {
        const Piece &piece = pieces[k];
        const int from = piece.side, to = 1 - piece.side;
        uint64_t &mine = (*sums)[2 * k], &theirs = (*sums)[2 * k + 1];
        mine = sum_of(&(*buffers.out_on_host)[piece.first], piece.bytes);
        messages.push_back(
            {neighbour_[piece.mu][to], &mine, nullptr, sizeof mine, piece.tag, face_names[2 * piece.mu + to]});
        messages.push_back(
            {neighbour_[piece.mu][from], nullptr, &theirs, sizeof theirs, piece.tag, face_names[2 * piece.mu + from]});
    }
    Exchange(ranks_, phase, messages, sums).finish();
    ranks_.agree(phase, [&] {
        for (size_t k = 0; k < pieces.size(); ++k) {
            const Piece &piece = pieces[k];
            if (sum_of(&(*buffers.in_on_host)[piece.first], piece.bytes) != (*sums)[2 * k + 1])
                throw Error(Status::comm,
                            format("%s: %zu bytes from %s (%s) are not what it sent (MILCGPU_CHECK_HALO=1). Message "
                                   "passing or memory fails: see the MPI's transports, or use other hosts",
                                   phase, piece.bytes, ranks_.name(neighbour_[piece.mu][piece.side]).c_str(),
                                   face_names[2 * piece.mu + piece.side]));
        }
    });
}

void Halo::exchange(const SpinorBlock &field, int parity) {
    const CutLattice &lattice = geometry_.lattice();
    const int first = geometry_.most_sites(), ghosts = static_cast<int>(geometry_.ghost_sites());
    for_element(field, [&](auto bytes, auto word) {
        std::vector<Piece> pieces;
        for (int mu = 0; mu < 4; ++mu)
            for (int side = 0; side < 2 && lattice.cut(mu); ++side)
                pieces.push_back({mu, side, 2 * mu + side, (lattice.ghost[mu][side] - first) * packed_bytes(bytes),
                                  lattice.depth * lattice.layer[mu] * packed_bytes(bytes)});
        for (int k = 0; k < field.sources; ++k) {
            unsigned char *const data = field[k].data;
            launch(device_, ghosts,
                   GatherSites<bytes, word>{{lattice, parity, first, data, field.stride}, spinors_->to_fill()},
                   "gather sites for the neighbours");
            pass("the halo of a vector", *spinors_, pieces);
            launch(device_, ghosts, PutBehind<bytes, word>{data, field.stride, first, spinors_->filled()},
                   "put ghosts behind the sites");
        }
    });
}

void Halo::exchange_backward(const LinkField &links, int layers) {
    const CutLattice &lattice = geometry_.lattice();
    for_element(links, [&](auto bytes, auto word) {
        std::vector<Piece> pieces;
        size_t end = 0;
        for (int mu = 0; mu < 4; ++mu)
            for (int parity = 0; parity < 2 && lattice.cut(mu); ++parity) {
                pieces.push_back({mu, 0, 2 * mu + parity, end, layers * lattice.layer[mu] * packed_bytes(bytes)});
                end += pieces.back().bytes;
            }
        std::optional<Buffers> room;
        device_.agree("memory for the halo of links", [&] { room.emplace(device_, to_others(), end); });
        const Buffers &buffers = *room;
        const auto for_pieces = [&](const auto &start) {
            for (const Piece &piece : pieces)
                start(piece, piece.tag % 2, links.block(piece.tag % 2, piece.mu), lattice.ghost[piece.mu][0],
                      static_cast<int>(piece.bytes / packed_bytes(bytes)));
        };
        for_pieces([&](const Piece &piece, int parity, unsigned char *block, int ghost, int places) {
            launch(device_, places,
                   GatherSites<bytes, word>{{lattice, parity, ghost, block, links.stride()},
                                            buffers.to_fill() + piece.first},
                   "gather links for the neighbours");
        });
        pass("the halo of links", buffers, pieces);
        for_pieces([&](const Piece &piece, int, unsigned char *block, int ghost, int places) {
            launch(device_, places,
                   PutBehind<bytes, word>{block, links.stride(), ghost, buffers.filled() + piece.first},
                   "put ghosts behind the links");
        });
    });
}

} // namespace milcgpu
