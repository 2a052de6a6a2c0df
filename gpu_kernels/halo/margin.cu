// Boxes with a margin: their sites, and their links.
#include "gpu_kernels/halo/pieces.h"
#include "gpu_kernels/links/matrix_view.h"

namespace milcgpu {

namespace {

// The margins of a wide box on both sides of one direction. Elements of a piece: the links of one direction after the
// other, and of these one parity after the other.
template <Precision p> struct Margins {
    struct Slab {          // of the wide box
        int first, parity; // of its first site: lexicographic index, and parity
    };
    Lattice slab, wide;        // slab: as if its first site were even
    Slab sent[2], received[2]; // by side of a piece
    unsigned char *data;       // block (0, 0) of the field
    size_t stride, block_bytes;
    // function(block, index) of link e of a slab; there is none for the last ones of the parity with fewer sites.
    template <class Function> MILCGPU_HD void with(const Slab &at, int e, const Function &function) const {
        const int most = slab.sites(0), group = e / most, k = e - group * most, parity = group % 2, mu = group / 2;
        if (k >= slab.sites(parity))
            return;
        const Site s = slab.site(parity, k);
        int lexicographic = at.first;
        MILCGPU_UNROLL
        for (int nu = 0; nu < 4; ++nu)
            lexicographic += s.x[nu] * wide.stride_lexicographic[nu];
        function(data + ((parity + at.parity) % 2 * 4 + mu) * block_bytes, lexicographic / 2);
    }
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, uint32_t *w) const {
        with(sent[piece.side], e, [&](const unsigned char *block, int i) {
            load_element<RawLink<p, 18>::bytes, 16, Reuse::keep>(block, stride, i, w);
        });
    }
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const uint32_t *w) const {
        with(received[piece.side], e,
             [&](unsigned char *block, int i) { store_element<RawLink<p, 18>::bytes, 16>(block, stride, i, w); });
    }
};

// Between a field on the box and one on the wide box.
template <Precision p> struct CopyLinks {
    SitesAndParts work;
    MatrixView<p> box, wide;
    bool to_wide;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        if (to_wide)
            wide.store(item.parity, item.part, item.i, box.load(item.parity, item.part, item.own));
        else
            box.store(item.parity, item.part, item.own, wide.load(item.parity, item.part, item.i));
    }
};
void copy_links(Device &device, const WideBox &box, const LinkField &on_box, const LinkField &on_wide, bool to_wide) {
    const SitesAndParts work = box.work(4);
    for_real(on_wide.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        launch(device, work.threads(),
               CopyLinks<real>{work, MatrixView<real>(on_box), MatrixView<real>(on_wide), to_wide},
               "copy a box of links");
    });
}

// Memory that goes round the ranks, in elements of 16 bytes.
struct Memory {
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
    copy_links(device_, box, links, wide, true);
    fill_margin(wide, box, layers);
}

void Halo::crop(const LinkField &wide, const WideBox &box, const LinkField &to) const {
    copy_links(device_, box, to, wide, false);
}

// One direction after the other; what came for those before goes along: so corners come, too.
void Halo::fill_margin(const LinkField &wide, const WideBox &box, int layers) {
    const Lattice &lattice = box.wide().lattice();
    const InnerBox inner = box.inner();
    std::array<int, 4> extent, first; // of what is there already, in the wide box
    for (int mu = 0; mu < 4; ++mu)
        extent[mu] = inner.extent[mu], first[mu] = inner.first[mu];
    for_real(wide.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        for (int mu = 0; mu < 4; ++mu) {
            if (!geometry_.cut(mu) || layers == 0)
                continue;
            std::array<int, 4> slab = extent;
            slab[mu] = layers;
            Margins<real> ends{Lattice(slab, 0), lattice, {}, {}, wide.block(0, 0), wide.stride(), wide.block_bytes()};
            const auto at = [&](int x) {
                typename Margins<real>::Slab found{0, lattice.origin_parity};
                for (int nu = 0; nu < 4; ++nu) {
                    const int begin = nu == mu ? x : first[nu];
                    found.first += begin * lattice.stride_lexicographic[nu];
                    found.parity += begin;
                }
                found.parity %= 2;
                return found;
            };
            const int begin = first[mu], end = begin + extent[mu]; // of the box
            // What is behind the neighbour ahead are the topmost layers here.
            ends.sent[0] = at(end - layers), ends.received[0] = at(begin - layers);
            ends.sent[1] = at(begin), ends.received[1] = at(end);
            Pieces pieces;
            for (int side = 0; side < 2; ++side)
                pieces.add(mu, side, 0, 8 * ends.slab.sites(0));
            pass<RawLink<real, 18>::bytes>("the margin of links", pieces, ends);
            first[mu] -= layers;
            extent[mu] += 2 * layers;
        }
    });
}

void Halo::from_ahead(int mu, const void *from, void *to, size_t bytes) {
    Pieces pieces;
    pieces.add(mu, 1, 0, static_cast<int>(bytes / 16));
    pass<16>("what goes round the ranks", pieces,
             Memory{static_cast<const unsigned char *>(from), static_cast<unsigned char *>(to)});
}

WithMargin::WithMargin(Device &device, const Geometry &geometry, Halo *halo, Precision precision)
    : device_(device), halo_(halo), precision_(precision), box_(geometry) {
    if (halo_ == nullptr)
        return;
    device_.agree("memory for links with a margin", [&] {
        box_ = WideBox(device_, geometry, margin);
        wide_ = room("links with a margin");
    });
}

const LinkField &WithMargin::of(const LinkField &links, int layers) {
    if (halo_ == nullptr)
        return links;
    halo_->extend(links, box_, layers, wide_);
    return wide_;
}

} // namespace milcgpu
