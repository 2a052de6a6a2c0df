// How what neighbours need of a field travels (Halo::pass): for .cu files that say which elements these are.
#pragma once
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/halo/halo.h"
#if defined(__CUDACC__)
#include "gpu_kernels/backend/peers_cuda.h"
#endif

namespace milcgpu {

// An element of a field, in whole words of 4 bytes. On its way it lies word by word, striped over the elements of its
// piece, so that loads and stores coalesce.
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

// Pieces, one behind the other. That of side 0 are ghosts behind: it comes from the neighbour behind in mu, and what
// is sent in its place goes to the one ahead.
struct Pieces {
    struct Piece {
        int mu, side, kind; // kind: for who makes and reads the pieces
        int begin, end;     // elements
        MILCGPU_HD int count() const { return end - begin; }
    };
    static constexpr int most = 8;
    Piece piece[most];
    int count = 0;
    void add(int mu, int side, int kind, int elements) {
        piece[count] = {mu, side, kind, elements_of_all(), elements_of_all() + elements};
        ++count;
    }
    int elements_of_all() const { return count == 0 ? 0 : piece[count - 1].end; }
    MILCGPU_HD const Piece &of(int j) const {
        int k = 0;
        while (j >= piece[k].end)
            ++k;
        return piece[k];
    }
};

// Ends: load(piece, e, element) takes what is sent in the place of element e of a piece, store puts what has come.
// fits_slot: all pieces together are never more than a slot. Else ranks agree on the room each time, because boxes of
// several sizes may need it on some ranks only. chosen: only the elements with wanted(piece, e) travel where kernels
// store them into the neighbour's memory; the ranks must agree which these are.
template <int bytes, class Ends> struct ToBuffer {
    Ends ends;
    Pieces pieces;
    unsigned char *buffer;
    MILCGPU_HD void operator()(int j) const {
        const Pieces::Piece &piece = pieces.of(j);
        Element<bytes> e = {};
        ends.load(piece, j - piece.begin, e.w);
        e.store(buffer + size_t(piece.begin) * e.packed, piece.count(), j - piece.begin);
    }
};
template <int bytes, class Ends> struct FromBuffer {
    Ends ends;
    Pieces pieces;
    const unsigned char *buffer;
    MILCGPU_HD void operator()(int j) const {
        const Pieces::Piece &piece = pieces.of(j);
        Element<bytes> e;
        e.load(buffer + size_t(piece.begin) * e.packed, piece.count(), j - piece.begin);
        ends.store(piece, j - piece.begin, e.w);
    }
};

#if defined(MILCGPU_WITH_CUDA)
namespace cuda {

// Enough blocks for the links between GPUs, and no more, because each of them orders its stores.
constexpr int most_exchange_blocks = 264;
inline int exchange_blocks(int n) {
    return std::max(1, std::min(most_exchange_blocks, (n + max_block - 1) / max_block));
}

template <class Function> __device__ void for_own(int n, const Function &function) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
        function(j);
}

// A part of all pieces, from element `first` on; count 0: nothing.
struct PartOfPieces {
    int first, count;
};

// Takes what the exchange before has brought to this rank's slot, and sends the next part straight into the neighbours'
// slots (peers.h). There are two slots, so neither waits for the other.
template <int bytes, class Ends>
__global__ void __launch_bounds__(max_block)
    pass_elements(const Ends ends, const Pieces pieces, const PartOfPieces sent, const PartOfPieces taken,
                  Peers *peers) {
    wait_for_previous();
    const unsigned exchange = exchanges_so_far(peers);
    wait_for_neighbours(peers, exchange); // so all have read the slot that is filled now, and filled this rank's
    const auto for_elements = [&](const PartOfPieces &part, const auto &function) {
        for_own(part.count, [&](int j) {
            const Pieces::Piece &piece = pieces.of(part.first + j);
            const int e = part.first + j - piece.begin;
            if constexpr (Ends::chosen)
                if (!ends.wanted(piece, e))
                    return;
            function(j, piece, e);
        });
    };
    const size_t filled = (exchange + 1) % 2 * peers->slot_bytes;
    for_elements(sent, [&](int j, const Pieces::Piece &piece, int e) {
        Element<bytes> element = {};
        ends.load(piece, e, element.w);
        element.store(peers->face[2 * piece.mu + 1 - piece.side].slots + filled, sent.count, j);
    });
    const unsigned char *const slot = peers->slots + exchange % 2 * peers->slot_bytes;
    for_elements(taken, [&](int j, const Pieces::Piece &piece, int e) {
        Element<bytes> element;
        element.load(slot, taken.count, j);
        ends.store(piece, e, element.w);
    });
    if (sent.count > 0)
        end_of_exchange(peers, [&](unsigned number) { tell_neighbours(peers, number); });
}

} // namespace cuda
#endif

template <int bytes, class Ends> void Halo::pass(const char *phase, const Pieces &pieces, const Ends &ends) {
    constexpr int packed = Element<bytes>::packed;
    const int n = pieces.elements_of_all();
#if defined(MILCGPU_WITH_CUDA)
    if (by_peers()) {
        const int at_once = static_cast<int>(slot_bytes() / packed);
        cuda::PartOfPieces sent{0, 0};
        do {
            const cuda::PartOfPieces taken = sent;
            sent = {taken.first + taken.count, std::min(at_once, n - taken.first - taken.count)};
            const int blocks = cuda::exchange_blocks(std::max(sent.count, taken.count));
            cuda::start(device_, "exchange with the neighbours", blocks, max_block, cuda::pass_elements<bytes, Ends>,
                        ends, pieces, sent, taken, queue_of(device_).peers());
        } while (sent.count > 0);
        return;
    }
#endif
    const size_t total = size_t(n) * packed;
    std::optional<Buffers> scratch;
    if (!Ends::fits_slot)
        queue_of(device_).collective("memory for a halo", [&] {
            if (total > slot_bytes())
                scratch.emplace(allocate_larger(total));
        });
    const Buffers &buffers = scratch ? *scratch : *buffers_;
    launch(device_, n, ToBuffer<bytes, Ends>{ends, pieces, buffers.to_fill()}, "gather for the neighbours");
    pass_messages(phase, buffers, pieces, packed);
    launch(device_, n, FromBuffer<bytes, Ends>{ends, pieces, buffers.filled()}, "put what the neighbours sent");
}

} // namespace milcgpu
