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
// Into the neighbours' memory. Few blocks, because each of them orders its stores.
constexpr int blocks_that_send = 64;

template <class Body>
__global__ void __launch_bounds__(max_block) send(const Body body, int n, Peers *peers, unsigned cuts) {
    cuda::wait_for_previous();
    cuda::wait_for_ghosts(peers, cuts); // so all have read the slot that is filled now
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        body(j, peers);
    cuda::end_of_stores(peers, gridDim.x);
}
template <class Body>
void start_to_send(Device &device, const CutLattice &lattice, int n, const Body &body, const char *what) {
    const int blocks = std::max(1, std::min(blocks_that_send, (n + max_block - 1) / max_block));
    cuda::start(device, what, blocks, max_block, send<Body>, body, n, device.peers(), lattice.cuts());
}

template <int bytes, int word> struct SendSites {
    SitesToSend<bytes, word> sites;
    __device__ void operator()(int j, Peers *peers) const {
        Element<bytes, word> e;
        const int face = sites.load(j, e);
        store_element<bytes, word>(cuda::slot_to_fill(peers, face), sites.stride, sites.first + j, e.w);
    }
};

// Words of 4 bytes of a buffer, which go to the neighbours piece by piece.
struct SendWords {
    struct Route {
        size_t end; // word of the buffer
        int face;
    };
    static constexpr int most_routes = 8;
    Route routes[most_routes];
    const uint32_t *from;
    size_t begin; // what is stored first in the slots
    __device__ void operator()(int j, Peers *peers) const {
        int k = 0;
        while (begin + j >= routes[k].end)
            ++k;
        reinterpret_cast<uint32_t *>(cuda::slot_to_fill(peers, routes[k].face))[j] = from[begin + j];
    }
};

__global__ void __launch_bounds__(max_block) take_words(uint32_t *to, int n, Peers *peers, unsigned cuts) {
    cuda::wait_for_previous();
    const uint32_t *from = reinterpret_cast<const uint32_t *>(cuda::wait_for_ghosts(peers, cuts));
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        to[j] = from[j];
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
    // A slot has ghosts where a field has them, so that one index serves both.
    const size_t slot_bytes = geometry_.stride() * spinor_bytes(Precision::double_);
    peers_ = std::make_unique<PeerMemory>(device_, ranks_, faces, slot_bytes, ranks_.time_limit(), refused);
    device_.set_peers(peers_->on_device());
    device_.agree("memory for ghosts", [&] {
        spinors_.emplace(device_, to_others(), geometry_.ghost_sites() * spinor_bytes(Precision::double_));
        if (device_.peers() != nullptr)
            make_orders();
    });
    return peers_->why_not();
}

// Tiles with sites that a neighbour needs, which are those that need a neighbour's, come after a part of the others: by
// then the neighbours' are there, and the rest of the others hides what it takes to send them.
void Halo::make_orders() {
    constexpr double others_before = 0.4;
    const CutLattice &lattice = geometry_.lattice();
    for (int parity = 0; parity < 2; ++parity) {
        std::vector<int> inner, at_boundary, all;
        for (int tile = 0; tile * tile_sites < lattice.sites(parity); ++tile) {
            bool near = false;
            for (int i = tile * tile_sites; i < std::min((tile + 1) * tile_sites, lattice.sites(parity)); ++i) {
                const Site s = lattice.site(parity, i);
                for (int mu = 0; mu < 4; ++mu)
                    near |= lattice.cut(mu) && std::min(s.x[mu], lattice.extent[mu] - 1 - s.x[mu]) < lattice.depth;
            }
            (near ? at_boundary : inner).push_back(tile);
        }
        const auto middle = inner.begin() + static_cast<int>(others_before * inner.size());
        all.assign(inner.begin(), middle);
        all.insert(all.end(), at_boundary.begin(), at_boundary.end());
        all.insert(all.end(), middle, inner.end());
        Order &order = orders_[parity];
        order.begin = static_cast<int>(middle - inner.begin());
        order.end = order.begin + static_cast<int>(at_boundary.size());
        order.tiles = DeviceArray<int>(device_, all.size(), "order of a box's sites");
        device_.copy_to_device(order.tiles.data(), all.data(), order.tiles.bytes());
    }
}

PeerLaunch Halo::before_dslash(const SpinorBlock &in, int parity, bool sent, bool send_out) {
    if (device_.peers() == nullptr || in.sources > 1) {
        exchange(in, parity);
        return {};
    }
    if (!sent)
        send_to_peers(in, parity);
    const Order &order = orders_[1 - parity];
    return {device_.peers(), order.tiles.data(), order.begin, order.end, geometry_.lattice().cuts(), send_out};
}

#if defined(MILCGPU_WITH_CUDA)
void Halo::send_to_peers(const SpinorBlock &field, int parity) {
    for_element(field, [&](auto bytes, auto word) {
        start_to_send(
            device_, geometry_.lattice(), static_cast<int>(geometry_.ghost_sites()),
            SendSites<bytes, word>{{geometry_.lattice(), parity, geometry_.most_sites(), field.data, field.stride}},
            "send sites to the neighbours");
    });
}

// A slot's worth at a time. What a piece is for the neighbour behind, the neighbour ahead of that one has sent.
void Halo::pass_to_peers(const Buffers &buffers, const std::vector<Piece> &pieces) {
    constexpr size_t word = sizeof(uint32_t);
    SendWords body{};
    size_t words = 0;
    for (size_t k = 0; k < pieces.size(); ++k) { // they lie one behind the other
        words = (pieces[k].first + pieces[k].bytes) / word;
        body.routes[k] = {words, 2 * pieces[k].mu + 1 - pieces[k].side};
    }
    body.from = reinterpret_cast<const uint32_t *>(buffers.out.data());
    const size_t at_once = geometry_.stride() * spinor_bytes(Precision::double_) / word;
    for (; body.begin < words; body.begin += at_once) {
        const int n = static_cast<int>(std::min(at_once, words - body.begin));
        start_to_send(device_, geometry_.lattice(), n, body, "send to the neighbours");
        cuda::start(device_, "take from the neighbours",
                    std::min(4 * blocks_that_send, (n + max_block - 1) / max_block), max_block, take_words,
                    reinterpret_cast<uint32_t *>(buffers.in.data()) + body.begin, n, device_.peers(),
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
