// How the parts of a field that neighbours need travel (Halo::pass), for .cu files that define their elements.
#pragma once
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/backend/launch.h"
#include <type_traits>
#if defined(__CUDACC__)
#include "gpu_kernels/machine/backend/peers_cuda.h"
#endif

namespace milcgpu {

// An element of a field, in whole words of 4 bytes. In transit it is stored word by word, striped over the elements of
// its piece, so that loads and stores coalesce.
template <int bytes> struct Element {
    static constexpr int packed = (bytes + 3) / 4 * 4, word = packed % 16 == 0 ? 16 : packed % 8 == 0 ? 8 : 4;
    uint32_t w[packed / 4];
    MILCGPU_HD void load(const unsigned char *from, int elements, int e) {
        load_element<packed, word, Reuse::written>(from, elements, e, w);
    }
    MILCGPU_HD void store(unsigned char *to, int elements, int e) const {
        store_element<packed, word>(to, elements, e, w);
    }
};

// Check words (peers.h) follow the elements of a piece in a message. Each is made from an element and the number of the
// exchange, and the receiver compares it with the element that has arrived. So the receiver notices a message that was
// lost, or replaced by an old one, although message passing reports success. Every check_interval-th element has a
// word. So each 4 KiB have bytes of such an element, both in stripes (GPU) and with one element after the other (host).
// Check words take 0.2 % of a long message.
template <int bytes> constexpr int check_interval = 4096 / Element<bytes>::packed;
template <int bytes> MILCGPU_HD bool has_check_word(int e) { return e % check_interval<bytes> == 0; }
MILCGPU_HD size_t multiple_of_16(size_t bytes) { return (bytes + 15) / 16 * 16; }
// Where the check word of element e is, in a piece of `elements` elements that begins at `piece`.
template <int bytes, class Byte> MILCGPU_HD auto check_word_at(Byte *piece, int elements, int e) {
    using Word = std::conditional_t<std::is_const<Byte>::value, const uint64_t, uint64_t>;
    return reinterpret_cast<Word *>(piece + multiple_of_16(size_t(elements) * Element<bytes>::packed)) +
           e / check_interval<bytes>;
}
template <int bytes> size_t bytes_with_check_words(int elements) {
    const size_t words = (elements + check_interval<bytes> - 1) / check_interval<bytes>;
    return multiple_of_16(size_t(elements) * Element<bytes>::packed) + multiple_of_16(words * sizeof(uint64_t));
}

// Consecutive pieces. The piece of side 0 has ghosts behind: it comes from the neighbour behind in mu, while the piece
// that this rank sends for it goes to the neighbour ahead.
struct Pieces {
    struct Piece {
        int mu, side, kind;               // kind: for the code that makes and reads the pieces
        int begin, end;                   // elements
        int first_place, places;          // of each source
        int from = 0;                     // the rank that sends it
        size_t first_byte = 0, bytes = 0; // in a buffer of messages
        MILCGPU_HD int count() const { return end - begin; }
    };
    static constexpr int most = 8;
    Piece piece[most];
    int count = 0;
    void add(int mu, int side, int kind, int places, int sources = 1) {
        const int begin = elements_of_all();
        piece[count] = {mu, side, kind, begin, begin + sources * places, begin / sources, places};
        ++count;
    }
    int elements_of_all() const { return count == 0 ? 0 : piece[count - 1].end; }
    MILCGPU_HD const Piece &of(int j) const {
        int k = 0;
        while (j >= piece[k].end)
            ++k;
        return piece[k];
    }
    MILCGPU_HD const Piece &of_place(int j) const { // counted for one source
        int k = 0;
        while (j >= piece[k].first_place + piece[k].places)
            ++k;
        return piece[k];
    }
};

// Ends: load(piece, e, element) loads what is sent in the place of element e of a piece, store stores what has arrived.
// fits_slot: all pieces together always fit in a slot. Otherwise ranks agree on the memory each time, because with
// boxes of several sizes only some ranks may need more.
//
// of_sources: a piece has the same places for each of ends.sources sources, with all places of a source before those of
// the next. One thread moves all sources of a place, because it takes long to compute which site belongs there: load(k,
// ends.sent(piece, place), element) and store(k, ends.received(piece, place), element) for source k. If kernels store
// into the neighbour's memory, sources without ends.wanted(k) are not sent; the ranks must agree on these. All sources
// fit in a slot together.
struct PlaceOfSources {
    const Pieces::Piece &piece;
    int place;
    MILCGPU_HD PlaceOfSources(const Pieces &pieces, int j) : piece(pieces.of_place(j)), place(j - piece.first_place) {}
    MILCGPU_HD int element(int k) const { return k * piece.places + place; }
};

template <int bytes, class Ends> struct ToBuffer {
    Ends ends;
    Pieces pieces;
    unsigned char *buffer;
    unsigned number; // of the exchange; 0: no check words
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const Element<bytes> &element) const {
        unsigned char *const at = buffer + piece.first_byte;
        element.store(at, piece.count(), e);
        if (has_check_word<bytes>(e) && number != 0)
            *check_word_at<bytes>(at, piece.count(), e) = check_word<Element<bytes>::packed / 4>(element.w, number);
    }
    MILCGPU_HD void operator()(int j) const {
        if constexpr (Ends::of_sources) {
            const PlaceOfSources at(pieces, j);
            const int site = ends.sent(at.piece, at.place);
            for (int k = 0; k < ends.sources; ++k) {
                Element<bytes> e = {};
                ends.load(k, site, e.w);
                store(at.piece, at.element(k), e);
            }
        } else {
            const Pieces::Piece &piece = pieces.of(j);
            Element<bytes> e = {};
            ends.load(piece, j - piece.begin, e.w);
            store(piece, j - piece.begin, e);
        }
    }
};
template <int bytes, class Ends> struct FromBuffer {
    Ends ends;
    Pieces pieces;
    const unsigned char *buffer;
    unsigned number; // of the exchange; 0: no check words
    int *lost;       // Ranks::watch()
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, Element<bytes> &element) const {
        const unsigned char *const at = buffer + piece.first_byte;
        element.load(at, piece.count(), e);
        if (has_check_word<bytes>(e) && number != 0 &&
            *check_word_at<bytes>(at, piece.count(), e) != check_word<Element<bytes>::packed / 4>(element.w, number))
            *static_cast<volatile int *>(lost) = piece.from + 1;
    }
    MILCGPU_HD void operator()(int j) const {
        Element<bytes> e;
        if constexpr (Ends::of_sources) {
            const PlaceOfSources at(pieces, j);
            const int site = ends.received(at.piece, at.place);
            for (int k = 0; k < ends.sources; ++k) {
                load(at.piece, at.element(k), e);
                ends.store(k, site, e.w);
            }
        } else {
            const Pieces::Piece &piece = pieces.of(j);
            load(piece, j - piece.begin, e);
            ends.store(piece, j - piece.begin, e.w);
        }
    }
};

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// Blocks of max_block threads. Enough blocks for the links between GPUs, and no more, because each of them orders its
// stores. They are all on the GPU at the same time, so each may wait for what all blocks of a neighbour store. Beside D
// there are fewer, since each takes the place of several blocks of D. One place is left free for a block that waits for
// sums of the ranks meanwhile.
constexpr int most_exchange_blocks = 264, most_beside = 48, exchange_blocks_of_multiprocessor = 2;
inline int exchange_blocks(int n, bool beside = false) {
    int ordinal = 0, multiprocessors = 1;
    cudaGetDevice(&ordinal);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    const int most =
        std::min(beside ? most_beside : most_exchange_blocks, exchange_blocks_of_multiprocessor * multiprocessors - 1);
    return std::max(1, std::min(most, (n + max_block - 1) / max_block));
}

template <class Function> __device__ void for_own(int n, const Function &function) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        function(j);
}
// Moves elements `first`, first + step, ... of n. A thread loads several of them before it stores the first one, since
// a load takes long if other kernels run beside this one.
template <int bytes, class Load, class Store>
__device__ void move_elements(int first, int step, int n, const Load &load, const Store &store) {
    constexpr int packed = Element<bytes>::packed, few = packed > 48 ? 1 : packed > 24 ? 2 : 4;
    for (int j = first; j < n; j += few * step) {
        Element<bytes> element[few] = {};
        MILCGPU_UNROLL
        for (int k = 0; k < few; ++k)
            if (j + k * step < n)
                load(j + k * step, element[k]);
        MILCGPU_UNROLL
        for (int k = 0; k < few; ++k)
            if (j + k * step < n)
                store(j + k * step, element[k]);
    }
}

// A part of all pieces, from element `first` on.
struct PartOfPieces {
    int first, count;
};

// Sends a part straight into the neighbours' slots (peers.h), waits for their parts, and stores them. All blocks are on
// the GPU together (exchange_blocks).
template <int bytes, class Ends>
__global__ void __launch_bounds__(max_block, exchange_blocks_of_multiprocessor)
    pass_elements(const Ends ends, const Pieces pieces, const PartOfPieces part, Peers *peers) {
    wait_for_previous();
    const unsigned exchange = exchanges_so_far(peers) + 1;
    wait_for_neighbours(peers, exchange - 1); // so all have read the slot that is filled now
    const size_t place = exchange % 2 * peers->slot_bytes;
    const auto slot_of = [&](const Pieces::Piece &piece) {
        return peers->face[2 * piece.mu + 1 - piece.side].slots + place;
    };
    const auto arrive = [&] {
        end_of_exchange(peers, [&](unsigned number) { tell_neighbours(peers, number); });
        wait_for_neighbours(peers, exchange);
        return peers->slots + place;
    };
    if constexpr (Ends::of_sources) {
        const int sources = ends.sources; // all in one part
        for_own(part.count / sources, [&](int j) {
            const PlaceOfSources at(pieces, j);
            const int site = ends.sent(at.piece, at.place);
            unsigned char *const to = slot_of(at.piece);
            move_elements<bytes>(
                0, 1, sources,
                [&](int k, Element<bytes> &element) {
                    if (ends.wanted(k))
                        ends.load(k, site, element.w);
                },
                [&](int k, const Element<bytes> &element) {
                    if (ends.wanted(k))
                        element.store(to, part.count, at.piece.begin + at.element(k));
                });
        });
        const unsigned char *const slot = arrive();
        for_own(part.count / sources, [&](int j) {
            const PlaceOfSources at(pieces, j);
            const int site = ends.received(at.piece, at.place);
            move_elements<bytes>(
                0, 1, sources,
                [&](int k, Element<bytes> &element) {
                    if (ends.wanted(k))
                        element.load(slot, part.count, at.piece.begin + at.element(k));
                },
                [&](int k, const Element<bytes> &element) {
                    if (ends.wanted(k))
                        ends.store(k, site, element.w);
                });
        });
    } else {
        const int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
        const auto with = [&](int j, const auto &function) {
            const Pieces::Piece &piece = pieces.of(part.first + j);
            function(piece, part.first + j - piece.begin);
        };
        move_elements<bytes>(
            first, all, part.count,
            [&](int j, Element<bytes> &element) {
                with(j, [&](const auto &piece, int e) { ends.load(piece, e, element.w); });
            },
            [&](int j, const Element<bytes> &element) {
                element.store(slot_of(pieces.of(part.first + j)), part.count, j);
            });
        const unsigned char *const slot = arrive();
        move_elements<bytes>(
            first, all, part.count, [&](int j, Element<bytes> &element) { element.load(slot, part.count, j); },
            [&](int j, const Element<bytes> &element) {
                with(j, [&](const auto &piece, int e) { ends.store(piece, e, element.w); });
            });
    }
}

} // namespace cuda
#endif

template <int bytes, class Ends>
void Halo::pass(const char *phase, const Pieces &pieces, const Ends &ends,
                [[maybe_unused]] const std::function<void()> &meanwhile) {
    const int n = pieces.elements_of_all();
    int threads = n; // threads that have work
    if constexpr (Ends::of_sources)
        threads /= ends.sources;
#if defined(MILCGPU_WITH_CUDA)
    if (by_peers()) {
        const int at_once = static_cast<int>(slot_bytes() / Element<bytes>::packed);
        for (int first = 0; first < n; first += at_once) {
            const cuda::PartOfPieces part{first, std::min(at_once, n - first)};
            const bool beside = meanwhile && first == 0;
            cuda::start(device_, "exchange with the neighbours",
                        cuda::exchange_blocks(std::min(threads, part.count), beside), max_block,
                        cuda::pass_elements<bytes, Ends>, ends, pieces, part, queue_of(device_).peers());
            if (beside)
                meanwhile();
        }
        return;
    }
#endif
    Pieces in_buffer = pieces;
    size_t total = 0;
    for (int k = 0; k < pieces.count; ++k) {
        Pieces::Piece &piece = in_buffer.piece[k];
        piece.from = neighbour_[piece.mu][piece.side];
        piece.first_byte = total;
        piece.bytes = bytes_with_check_words<bytes>(piece.count());
        total += piece.bytes;
    }
    std::optional<Buffers> scratch;
    if (!Ends::fits_slot)
        queue_of(device_).collective("memory for a halo", [&] {
            if (total > buffer_bytes())
                scratch.emplace(allocate_larger(total));
        });
    const Buffers &buffers = scratch ? *scratch : *buffers_;
    const unsigned number = checks_ == MessageChecks::none ? 0 : ++exchanges_;
    launch(device_, threads, ToBuffer<bytes, Ends>{ends, in_buffer, buffers.to_fill(), number},
           "gather for the neighbours");
    pass_messages(phase, buffers, in_buffer);
    launch(device_, threads, FromBuffer<bytes, Ends>{ends, in_buffer, buffers.filled(), number, lost_.get()},
           "put what the neighbours sent");
}

} // namespace milcgpu
