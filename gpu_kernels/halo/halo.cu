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

// The face of a ghost: 2 mu + side.
MILCGPU_HD int face_of(const CutLattice &lattice, int ghost) {
    int found = 0;
    for (int face = 0; face < 8; ++face)
        if (lattice.cut(face / 2) && ghost >= lattice.ghost[face / 2][face % 2])
            found = face; // faces lie one behind the other
    return found;
}

// What the neighbours have as the ghosts from `first` on.
template <int bytes, int word> struct SitesToSend {
    CutLattice lattice;
    int parity, first;
    const unsigned char *data;
    size_t stride;
    // Ghost first + j. Returns the face of the neighbour who has it.
    MILCGPU_HD int load(int j, Element<bytes, word> &e) const {
        const int face = face_of(lattice, first + j), mu = face / 2, side = face % 2;
        const int in_face = first + j - lattice.ghost[mu][side], away = in_face / lattice.layer[mu];
        e = {};
        Site s;
        if (lattice.sent(parity, mu, side, away, in_face - away * lattice.layer[mu], s))
            load_element<bytes, word, Reuse::keep>(data, stride, s.index(), e.w);
        return face ^ 1;
    }
};

// Ghosts of several sources in a buffer: face by face, and in each one source behind the other. Of one source they may
// be a part of a face.
struct InBuffer {
    CutLattice lattice;
    int first, ghosts, sources;
    size_t source_bytes; // from a source to the next in the field
    // function(source, ghost first + j, place in the buffer) for i in [0, ghosts * sources).
    template <class Function> MILCGPU_HD void with(int i, const Function &function) const {
        if (sources == 1)
            return function(0, i, i);
        const int source = i / ghosts, j = i - source * ghosts, face = face_of(lattice, first + j);
        const int begin = lattice.ghost[face / 2][face % 2] - first, places = lattice.depth * lattice.layer[face / 2];
        function(source, j, begin * sources + source * places + j - begin);
    }
};

template <int bytes, int word> struct GatherSites {
    SitesToSend<bytes, word> sites; // of source 0
    InBuffer places;
    unsigned char *to;
    MILCGPU_HD void operator()(int i) const {
        places.with(i, [&](int source, int j, int place) {
            SitesToSend<bytes, word> own = sites;
            own.data += source * places.source_bytes;
            Element<bytes, word> e;
            own.load(j, e);
            memcpy(to + place * sizeof e, &e, sizeof e);
        });
    }
};

#if defined(MILCGPU_WITH_CUDA)
// Enough blocks for the links between GPUs, and no more, because each of them orders its stores.
constexpr int most_blocks = 264;
int blocks_for(int n) { return std::max(1, std::min(most_blocks, (n + max_block - 1) / max_block)); }

template <class Function> __device__ void for_own(int n, const Function &function) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        function(j);
}

// Ghosts of a vector of a parity, to peers (peers.h). An exchange of nothing comes first: by then no neighbour reads
// the ghosts that are overwritten.
template <int bytes, int word>
__global__ void __launch_bounds__(max_block)
    send_vector(const SitesToSend<bytes, word> sites, int n, const GhostMap map) {
    Peers *const peers = map.peers;
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers) + 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        cuda::tell_neighbours(peers, exchange);
    cuda::wait_for_neighbours(peers, exchange);
    for_own(n, [&](int j) {
        Element<bytes, word> e;
        const int face = sites.load(j, e);
        cuda::send_ghost<bytes, word>(map, sites.parity, face, j, e.w);
    });
    cuda::end_of_exchange(peers, [&](unsigned) { cuda::count_vector(peers, sites.parity); });
}

// Words of a buffer, which go to the neighbours' slots piece by piece.
template <class Word> struct WordsToSend {
    struct Route {
        size_t end; // word of the buffer
        int face;
    };
    static constexpr int most_routes = 8;
    Route routes[most_routes];
    const Word *from;
    size_t begin; // what is stored first in the slots
    __device__ int face_of(size_t at) const {
        int k = 0;
        while (at >= routes[k].end)
            ++k;
        return routes[k].face;
    }
};

template <class Word>
__global__ void __launch_bounds__(max_block) send_words(const WordsToSend<Word> words, int n, Peers *peers) {
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers);
    cuda::wait_for_neighbours(peers, exchange); // so all have read the slot that is filled now
    const size_t slot = (exchange + 1) % 2 * peers->slot_bytes;
    for_own(n, [&](int j) {
        const size_t at = words.begin + j;
        reinterpret_cast<Word *>(peers->face[words.face_of(at)].slots + slot)[j] = words.from[at];
    });
    cuda::end_of_exchange(peers, [&](unsigned sent) { cuda::tell_neighbours(peers, sent); });
}

template <class Word> __global__ void __launch_bounds__(max_block) take_words(Word *to, int n, Peers *peers) {
    cuda::wait_for_previous();
    const unsigned exchange = cuda::exchanges_so_far(peers);
    cuda::wait_for_neighbours(peers, exchange);
    const Word *from = reinterpret_cast<const Word *>(peers->slots + exchange % 2 * peers->slot_bytes);
    for_own(n, [&](int j) { to[j] = from[j]; });
}

// A slot's worth at a time. ends: bytes of the buffer up to the end of each piece, and the face that it goes to.
template <class Word>
void pass_words(Device &device, const std::vector<std::pair<size_t, int>> &ends, const unsigned char *out,
                unsigned char *in, size_t slot_bytes) {
    WordsToSend<Word> words{};
    for (size_t k = 0; k < ends.size(); ++k)
        words.routes[k] = {ends[k].first / sizeof(Word), ends[k].second};
    words.from = reinterpret_cast<const Word *>(out);
    const size_t at_once = slot_bytes / sizeof(Word), count = ends.back().first / sizeof(Word);
    for (; words.begin < count; words.begin += at_once) {
        const int n = static_cast<int>(std::min(at_once, count - words.begin));
        cuda::start(device, "send to the neighbours", blocks_for(n), max_block, send_words<Word>, words, n,
                    device.peers());
        cuda::start(device, "take from the neighbours", blocks_for(n), max_block, take_words<Word>,
                    reinterpret_cast<Word *>(in) + words.begin, n, device.peers());
    }
}
#endif

template <int bytes, int word> struct PutBehind {
    unsigned char *data;
    size_t stride;
    InBuffer places;
    const unsigned char *from;
    MILCGPU_HD void operator()(int i) const {
        places.with(i, [&](int source, int j, int place) {
            Element<bytes, word> e;
            memcpy(&e, from + place * sizeof e, sizeof e);
            store_element<bytes, word>(data + source * places.source_bytes, stride, places.first + j, e.w);
        });
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
Halo::Buffers::Buffers(Device &device, bool to_others, bool over_host, size_t bytes) {
    if (device.on_gpu() || !to_others)
        out = DeviceArray<unsigned char>(device, bytes, "halo");
    if (device.on_gpu() && to_others)
        in = DeviceArray<unsigned char>(device, bytes, "halo");
    if (over_host) {
        out_on_host = std::make_shared<std::vector<unsigned char>>(bytes);
        in_on_host = std::make_shared<std::vector<unsigned char>>(bytes);
    }
}
unsigned char *Halo::Buffers::to_fill() const { return out.data() != nullptr ? out.data() : out_on_host->data(); }
const unsigned char *Halo::Buffers::filled() const {
    return in.data() != nullptr ? in.data() : in_on_host ? in_on_host->data() : out.data();
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
                    n, peers_->map(parity));
    });
}

// What a piece is for the neighbour behind, the neighbour ahead of that one has sent.
void Halo::pass_to_peers(const Buffers &buffers, const std::vector<Piece> &pieces) {
    std::vector<std::pair<size_t, int>> ends; // pieces lie one behind the other
    bool wide = true;
    for (const Piece &piece : pieces) {
        ends.emplace_back(piece.first + piece.bytes, 2 * piece.mu + 1 - piece.side);
        wide = wide && ends.back().first % sizeof(uint4) == 0;
    }
    const auto pass = wide ? pass_words<uint4> : pass_words<uint32_t>;
    pass(device_, ends, buffers.out.data(), buffers.in.data(), slot_bytes());
}
#else
void Halo::send_to_peers(const SpinorBlock &, int) {}
void Halo::pass_to_peers(const Buffers &, const std::vector<Piece> &) {}
#endif

void Halo::pass(const char *phase, const Buffers &buffers, const std::vector<Piece> &pieces) {
    if (by_peers())
        return pass_to_peers(buffers, pieces);
    if (!over_host())
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
        const size_t of_source = ghosts * packed_bytes(bytes);
        const int at_once = static_cast<int>(slot_bytes() / of_source);
        for (int k = 0; k < field.sources; k += at_once) {
            const int sources = std::min(at_once, field.sources - k);
            std::vector<Piece> pieces;
            for (int mu = 0; mu < 4; ++mu)
                for (int side = 0; side < 2 && lattice.cut(mu); ++side)
                    pieces.push_back({mu, side, 2 * mu + side,
                                      sources * (lattice.ghost[mu][side] - first) * packed_bytes(bytes),
                                      sources * lattice.depth * lattice.layer[mu] * packed_bytes(bytes)});
            unsigned char *const data = field[k].data;
            const InBuffer places{lattice, first, ghosts, sources, field.source_bytes};
            launch(device_, ghosts * sources,
                   GatherSites<bytes, word>{{lattice, parity, first, data, field.stride}, places, spinors_->to_fill()},
                   "gather sites for the neighbours");
            pass("the halo of a vector", *spinors_, pieces);
            launch(device_, ghosts * sources, PutBehind<bytes, word>{data, field.stride, places, spinors_->filled()},
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
        device_.agree("memory for the halo of links", [&] { room.emplace(room_for(end)); });
        const Buffers &buffers = *room;
        const auto for_pieces = [&](const auto &start) {
            for (const Piece &piece : pieces)
                start(piece, piece.tag % 2, links.block(piece.tag % 2, piece.mu), lattice.ghost[piece.mu][0],
                      static_cast<int>(piece.bytes / packed_bytes(bytes)));
        };
        for_pieces([&](const Piece &piece, int parity, unsigned char *block, int ghost, int places) {
            launch(device_, places,
                   GatherSites<bytes, word>{{lattice, parity, ghost, block, links.stride()},
                                            {lattice, ghost, places, 1, 0},
                                            buffers.to_fill() + piece.first},
                   "gather links for the neighbours");
        });
        pass("the halo of links", buffers, pieces);
        for_pieces([&](const Piece &piece, int, unsigned char *block, int ghost, int places) {
            launch(device_, places,
                   PutBehind<bytes, word>{
                       block, links.stride(), {lattice, ghost, places, 1, 0}, buffers.filled() + piece.first},
                   "put ghosts behind the links");
        });
    });
}

} // namespace milcgpu
