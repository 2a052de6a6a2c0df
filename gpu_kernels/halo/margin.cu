// Boxes with a margin: their sites, links and vectors.
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/fields/spinor_block.h"
#include "gpu_kernels/halo/pieces.h"

namespace milcgpu {

namespace {

// A field on both parities, element by element, with so many blocks a site: links by direction, vectors by source.
template <int bytes_, int word_> struct Elements {
    static constexpr int bytes = bytes_, word = word_;
    unsigned char *even, *odd; // block 0
    size_t stride, block_bytes;
    int blocks;
    MILCGPU_HD unsigned char *at(int parity, int block) const {
        return (parity != 0 ? odd : even) + block * block_bytes;
    }
    MILCGPU_HD void load(int parity, int block, int i, uint32_t *w) const {
        load_element<bytes, word, Reuse::keep>(at(parity, block), stride, i, w);
    }
    MILCGPU_HD void store(int parity, int block, int i, const uint32_t *w) const {
        store_element<bytes, word>(at(parity, block), stride, i, w);
    }
};
template <Precision p> auto elements_of(const LinkField &links) {
    return Elements<RawLink<p, 18>::bytes, 16>{links.block(0, 0), links.block(1, 0), links.stride(),
                                               links.block_bytes(), links.directions()};
}
template <Precision p> auto elements_of(const FullVectors &v) {
    return Elements<static_cast<int>(spinor_bytes(p)), 2 * static_cast<int>(real_bytes(p))>{
        v.even.data, v.odd.data, v.even.stride, v.even.source_bytes, v.sources()};
}
Precision precision_of(const LinkField &links) { return links.precision(); }
Precision precision_of(const FullVectors &v) { return v.even.precision; }

// The margins of a wide box on both sides of a direction. Elements of a piece: block by block, and within a block one
// parity after the other.
template <class Field> struct Margins {
    static constexpr bool fits_slot = false, of_sources = false;
    struct Slab {          // of the wide box
        int first, parity; // of its first site: lexicographic index, and parity
    };
    struct Sides {
        Lattice slab;              // as if its first site were even
        Slab sent[2], received[2]; // by side of a piece
    };
    Lattice wide;
    Field field;
    Sides along[4];
    // Calls function(parity, block, index) for element e of a slab, except for the last elements of the parity with
    // fewer sites.
    template <class Function>
    MILCGPU_HD void with(const Lattice &slab, const Slab &at, int e, const Function &function) const {
        const int most = slab.sites(0), group = e / most, k = e - group * most, parity = group % 2;
        if (k >= slab.sites(parity))
            return;
        const Site s = slab.site(parity, k);
        int lexicographic = at.first;
        MILCGPU_UNROLL
        for (int nu = 0; nu < 4; ++nu)
            lexicographic += s.x[nu] * wide.stride_lexicographic[nu];
        function((parity + at.parity) % 2, group / 2, lexicographic / 2);
    }
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, uint32_t *w) const {
        const Sides &sides = along[piece.mu];
        with(sides.slab, sides.sent[piece.side], e,
             [&](int parity, int block, int i) { field.load(parity, block, i, w); });
    }
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const uint32_t *w) const {
        const Sides &sides = along[piece.mu];
        with(sides.slab, sides.received[piece.side], e,
             [&](int parity, int block, int i) { field.store(parity, block, i, w); });
    }
};

// Copies between a field on the box and one on the wide box.
template <class Field> struct CopyBox {
    SitesAndParts work;
    Field box, wide;
    bool to_wide;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        uint32_t w[(Field::bytes + 3) / 4];
        if (to_wide) {
            box.load(item.parity, item.part, item.own, w);
            wide.store(item.parity, item.part, item.i, w);
        } else {
            wide.load(item.parity, item.part, item.i, w);
            box.store(item.parity, item.part, item.own, w);
        }
    }
};
template <class Field>
void copy_box(Device &device, const WideBox &box, const Field &on_box, const Field &on_wide, bool to_wide) {
    for_real(precision_of(on_wide), [&](auto p) {
        const auto from = elements_of<decltype(p)::value>(on_box), to = elements_of<decltype(p)::value>(on_wide);
        const SitesAndParts work = box.work(to.blocks);
        launch(device, work.threads(), CopyBox<std::remove_const_t<decltype(to)>>{work, from, to, to_wide},
               "copy a box");
    });
}

// Memory that is passed around the ranks, in elements of 16 bytes.
struct Memory {
    static constexpr bool fits_slot = false, of_sources = false;
    const unsigned char *from;
    unsigned char *to;
    MILCGPU_HD void load(const Pieces::Piece &, int e, uint32_t *w) const {
        load_word<16, Reuse::written>(from + size_t(e) * 16, w);
    }
    MILCGPU_HD void store(const Pieces::Piece &, int e, const uint32_t *w) const {
        store_word<16>(to + size_t(e) * 16, w);
    }
};

Geometry geometry_with(const Geometry &box, int layers) {
    std::array<int, 4> extent, origin;
    for (int mu = 0; mu < 4; ++mu) {
        extent[mu] = box.lattice().extent[mu] + (box.cut(mu) ? 2 * layers : 0);
        origin[mu] = box.origin()[mu] + (box.cut(mu) ? box.global_extents()[mu] - layers : 0);
    }
    return Geometry(extent, origin, extent, 0);
}

struct FindPlaces {
    Lattice window, wide;
    int most, shift; // shift: lexicographic
    int *places;
    MILCGPU_HD void operator()(int j) const {
        const int parity = j / most, k = j % most;
        if (k >= window.sites(parity))
            return;
        const Site s = window.site(parity, k);
        int lexicographic = shift;
        for (int mu = 0; mu < 4; ++mu)
            lexicographic += s.x[mu] * wide.stride_lexicographic[mu];
        places[j] = lexicographic >> 1;
    }
};

} // namespace

WideBox::WideBox(Device &device, const Geometry &box, int margin)
    : box_(box), wide_(geometry_with(box, margin)), margin_(margin) {
    for (int layers = 0; layers < margin; ++layers) {
        const Geometry geometry = geometry_with(box, layers);
        const int most = geometry.most_sites();
        int shift = 0;
        for (int mu = 0; mu < 4; ++mu)
            shift += box.cut(mu) ? (margin - layers) * wide_.lattice().stride_lexicographic[mu] : 0;
        windows_.push_back({geometry, DeviceArray<int>(device, 2 * most, "sites of a box")});
        launch(device, 2 * most,
               FindPlaces{geometry.lattice(), wide_.lattice(), most, shift, windows_.back().places.data()},
               "find the sites of a box");
    }
}

InnerBox WideBox::inner() const {
    InnerBox inner;
    for (int mu = 0; mu < 4; ++mu) {
        inner.first[mu] = box_.cut(mu) ? margin_ : 0;
        inner.extent[mu] = box_.lattice().extent[mu];
        inner.stride[mu] = box_.lattice().stride_lexicographic[mu];
    }
    return inner;
}

void Halo::extend(const LinkField &links, const WideBox &box, int layers, const LinkField &wide) {
    copy_box(device_, box, links, wide, true);
    fill_margin(wide, box, layers);
}
void Halo::extend(const FullVectors &vectors, const WideBox &box, const MarginPart &part, const FullVectors &wide) {
    copy_box(device_, box, vectors, wide, true);
    fill_margin(wide, box, part);
}

void Halo::crop(const LinkField &wide, const WideBox &box, const LinkField &to) const {
    copy_box(device_, box, to, wide, false);
}

void Halo::fill_margin(const LinkField &wide, const WideBox &box, int layers) {
    fill("the margin of links", box, {{layers, layers, layers, layers}, true}, wide);
}
void Halo::fill_margin(const FullVectors &wide, const WideBox &box, const MarginPart &part) {
    fill("the margin of vectors", box, part, wide);
}

// With corners: one direction after the other, so that the margin of one direction travels on with the next. Without
// corners: all directions at once.
template <class Field>
void Halo::fill(const char *phase, const WideBox &box, const MarginPart &part, const Field &wide) {
    const Lattice &lattice = box.wide().lattice();
    const InnerBox inner = box.inner();
    std::array<int, 4> extent, first; // the part of the wide box that is filled already
    for (int mu = 0; mu < 4; ++mu)
        extent[mu] = inner.extent[mu], first[mu] = inner.first[mu];
    if (part.slice >= 0)
        first[3] += part.slice, extent[3] = 1;
    for_real(precision_of(wide), [&](auto p) {
        const auto elements = elements_of<decltype(p)::value>(wide);
        using Ends = Margins<std::remove_const_t<decltype(elements)>>;
        Ends ends{lattice, elements, {}};
        Pieces pieces;
        const auto send = [&] {
            if (pieces.count > 0)
                pass<decltype(elements)::bytes>(phase, pieces, ends);
            pieces = {};
        };
        for (int mu = 0; mu < 4; ++mu) {
            const int layers = mu == 3 && part.slice >= 0 ? 0 : part.layers[mu];
            if (!geometry_.cut(mu) || layers == 0)
                continue;
            const auto at = [&](int x) {
                typename Ends::Slab found{0, lattice.origin_parity};
                for (int nu = 0; nu < 4; ++nu) {
                    const int begin = nu == mu ? x : first[nu];
                    found.first += begin * lattice.stride_lexicographic[nu];
                    found.parity += begin;
                }
                found.parity %= 2;
                return found;
            };
            std::array<int, 4> slab = extent;
            slab[mu] = layers;
            const int begin = first[mu], end = begin + extent[mu]; // of the box
            // The topmost layers here are what the neighbour ahead has behind it.
            ends.along[mu] = {Lattice(slab, 0), {at(end - layers), at(begin)}, {at(begin - layers), at(end)}};
            for (int side = 0; side < 2; ++side)
                pieces.add(mu, side, 0, 2 * elements.blocks * ends.along[mu].slab.sites(0));
            if (!part.corners)
                continue;
            send();
            first[mu] -= layers;
            extent[mu] += 2 * layers;
        }
        send();
    });
}

void Halo::from_ahead(int mu, const void *from, void *to, size_t bytes) {
    Pieces pieces;
    pieces.add(mu, 1, 0, static_cast<int>(bytes / 16));
    pass<16>("memory that is passed around the ranks", pieces,
             Memory{static_cast<const unsigned char *>(from), static_cast<unsigned char *>(to)});
}

WithMargin::WithMargin(Device &device, const Geometry &geometry, Halo *halo, Precision precision)
    : device_(device), halo_(halo), precision_(precision), box_(geometry) {
    if (halo_ == nullptr)
        return;
    queue_of(device_).collective("memory for links with a margin", [&] {
        box_ = WideBox(device_, geometry, margin);
        wide_ = allocate("links with a margin");
    });
}

const LinkField &WithMargin::of(const LinkField &links, int layers) {
    if (halo_ == nullptr)
        return links;
    halo_->extend(links, box_, layers, wide_);
    return wide_;
}

} // namespace milcgpu
