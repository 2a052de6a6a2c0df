// Boxes with a margin: their sites, and their links.
#include "gpu_kernels/backend/launch.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/su3/for_real.h"

namespace milcgpu {

namespace {

// A part of a field of links: a box whose first site is at `first` of the field's lattice.
template <Precision p> struct PartOfLinks {
    Lattice lattice;
    int first[4];
    unsigned char *data; // block (0, 0)
    size_t stride, block_bytes;

    PartOfLinks(const LinkField &links, const Geometry &geometry, const std::array<int, 4> &at)
        : lattice(geometry.lattice()), first{at[0], at[1], at[2], at[3]}, data(links.block(0, 0)),
          stride(links.stride()), block_bytes(links.block_bytes()) {}
    // function(start of the block, index in it) of link j = 4 k + mu, k lexicographic in a part of these extents.
    template <class Function> MILCGPU_HD void with(int j, const int *extent, const Function &function) const {
        int rest = j / 4, lexicographic = 0, sum = lattice.origin_parity;
        for (int nu = 0; nu < 4; ++nu) {
            const int x = first[nu] + rest % extent[nu];
            rest /= extent[nu];
            lexicographic += x * lattice.stride_lexicographic[nu];
            sum += x;
        }
        function(data + (sum % 2 * 4 + j % 4) * block_bytes, lexicographic / 2);
    }
    MILCGPU_HD RawLink<p, 18> load(int j, const int *extent) const {
        RawLink<p, 18> link;
        with(j, extent, [&](unsigned char *block, int i) { link = load_link<p, 18, Reuse::keep>(block, stride, i); });
        return link;
    }
    MILCGPU_HD void store(int j, const int *extent, const RawLink<p, 18> &link) const {
        with(j, extent, [&](unsigned char *block, int i) { store_link<p, 18>(block, stride, i, link); });
    }
};

template <Precision p> struct CopyPart {
    PartOfLinks<p> from, to;
    int extent[4];
    MILCGPU_HD void operator()(int j) const { to.store(j, extent, from.load(j, extent)); }
};
template <Precision p> struct PartToBuffer {
    PartOfLinks<p> from;
    int extent[4];
    unsigned char *to;
    MILCGPU_HD void operator()(int j) const {
        const RawLink<p, 18> link = from.load(j, extent);
        memcpy(to + j * sizeof link, &link, sizeof link);
    }
};
template <Precision p> struct BufferToPart {
    PartOfLinks<p> to;
    int extent[4];
    const unsigned char *from;
    MILCGPU_HD void operator()(int j) const {
        RawLink<p, 18> link;
        memcpy(&link, from + j * sizeof link, sizeof link);
        to.store(j, extent, link);
    }
};

int links_in(const std::array<int, 4> &extent) { return 4 * extent[0] * extent[1] * extent[2] * extent[3]; }

struct PartOfBox {
    const LinkField &links;
    const Geometry &geometry;
    std::array<int, 4> first;
};
void copy_part(Device &device, const PartOfBox &from, const PartOfBox &to, const WideBox &box) {
    const InnerBox inner = box.inner();
    const std::array<int, 4> extent{inner.extent[0], inner.extent[1], inner.extent[2], inner.extent[3]};
    for_real(from.links.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        launch(device, links_in(extent),
               CopyPart<real>{{from.links, from.geometry, from.first},
                              {to.links, to.geometry, to.first},
                              {extent[0], extent[1], extent[2], extent[3]}},
               "copy a box of links");
    });
}
std::array<int, 4> inner_first(const WideBox &box) {
    const InnerBox inner = box.inner();
    return {inner.first[0], inner.first[1], inner.first[2], inner.first[3]};
}

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
    copy_part(device_, PartOfBox{links, geometry_, {}}, PartOfBox{wide, box.wide(), inner_first(box)}, box);
    fill_margin(wide, box, layers);
}

void Halo::crop(const LinkField &wide, const WideBox &box, const LinkField &to) const {
    copy_part(device_, PartOfBox{wide, box.wide(), inner_first(box)}, PartOfBox{to, geometry_, {}}, box);
}

// One direction after the other; what came for those before goes along: so corners come, too.
void Halo::fill_margin(const LinkField &wide, const WideBox &box, int layers) {
    const Geometry &outer = box.wide();
    const InnerBox inner = box.inner();
    std::array<int, 4> extent, first; // of what is there already, in the wide box
    for (int mu = 0; mu < 4; ++mu)
        extent[mu] = inner.extent[mu], first[mu] = inner.first[mu];
    for_real(wide.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        using Part = PartOfLinks<real>;
        for (int mu = 0; mu < 4; ++mu) {
            if (!geometry_.cut(mu))
                continue;
            std::array<int, 4> slab = extent;
            slab[mu] = layers;
            const int links = links_in(slab);
            const size_t bytes = links * sizeof(RawLink<real, 18>);
            std::optional<Buffers> room;
            device_.agree("memory for a margin", [&] { room.emplace(room_for(2 * bytes)); });
            const auto at = [&](int x) {
                std::array<int, 4> place = first;
                place[mu] = x;
                return place;
            };
            const int begin = first[mu], end = begin + extent[mu]; // of the box
            for (int side = 0; side < 2; ++side) // what is behind the neighbour ahead are the topmost layers here
                launch(device_, links,
                       PartToBuffer<real>{Part(wide, outer, at(side == 0 ? end - layers : begin)),
                                          {slab[0], slab[1], slab[2], slab[3]},
                                          room->to_fill() + side * bytes},
                       "gather links for the neighbours");
            pass("the margin of links", *room, {{mu, 0, 2 * mu, 0, bytes}, {mu, 1, 2 * mu + 1, bytes, bytes}});
            for (int side = 0; side < 2; ++side)
                launch(device_, links,
                       BufferToPart<real>{Part(wide, outer, at(side == 0 ? begin - layers : end)),
                                          {slab[0], slab[1], slab[2], slab[3]},
                                          room->filled() + side * bytes},
                       "put links into a margin");
            first[mu] -= layers;
            extent[mu] += 2 * layers;
        }
    });
}

void Halo::from_ahead(int mu, const void *from, void *to, size_t bytes) {
    std::optional<Buffers> room;
    device_.agree("memory for a message", [&] { room.emplace(room_for(bytes)); });
    device_.copy_on_device(room->to_fill(), from, bytes);
    pass("what goes round the ranks", *room, {{mu, 1, 2 * mu + 1, 0, bytes}});
    device_.copy_on_device(to, room->filled(), bytes);
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
