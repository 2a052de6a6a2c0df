// Halo::extend and Halo::crop: boxes of links with a margin.
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

} // namespace

Geometry Halo::with_margin(int margin) const {
    std::array<int, 4> extent, origin;
    for (int mu = 0; mu < 4; ++mu) {
        const bool cut = geometry_.cut(mu);
        extent[mu] = geometry_.lattice().extent[mu] + (cut ? 2 * margin : 0);
        origin[mu] = geometry_.origin()[mu] + (cut ? geometry_.global_extents()[mu] - margin : 0);
    }
    return Geometry(extent, origin, extent, 0);
}

void Halo::extend(const LinkField &box, const Geometry &outer, int margin, const LinkField &to) {
    std::array<int, 4> extent, first{}; // of what is there already, in the outer box
    for (int mu = 0; mu < 4; ++mu) {
        extent[mu] = geometry_.lattice().extent[mu];
        first[mu] = geometry_.cut(mu) ? margin : 0;
    }
    for_real(box.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        using Part = PartOfLinks<real>;
        launch(device_, links_in(extent),
               CopyPart<real>{{box, geometry_, {}}, {to, outer, first}, {extent[0], extent[1], extent[2], extent[3]}},
               "copy a box of links");
        // One direction after the other; what came for those before goes along: so corners come, too.
        for (int mu = 0; mu < 4; ++mu) {
            if (!geometry_.cut(mu))
                continue;
            std::array<int, 4> slab = extent;
            slab[mu] = margin;
            const int links = links_in(slab);
            const size_t bytes = links * sizeof(RawLink<real, 18>);
            std::optional<Buffers> room;
            device_.agree("memory for a margin", [&] { room.emplace(device_, to_others(), 2 * bytes); });
            const auto at = [&](int x) {
                std::array<int, 4> place = first;
                place[mu] = x;
                return place;
            };
            const int own = extent[mu];          // in the outer box from `margin` to margin + own
            for (int side = 0; side < 2; ++side) // what is behind the neighbour ahead are the topmost layers here
                launch(device_, links,
                       PartToBuffer<real>{Part(to, outer, at(side == 0 ? own : margin)),
                                          {slab[0], slab[1], slab[2], slab[3]},
                                          room->to_fill() + side * bytes},
                       "gather links for the neighbours");
            pass("the margin of links", *room, {{mu, 0, 2 * mu, 0, bytes}, {mu, 1, 2 * mu + 1, bytes, bytes}});
            for (int side = 0; side < 2; ++side)
                launch(device_, links,
                       BufferToPart<real>{Part(to, outer, at(side == 0 ? 0 : margin + own)),
                                          {slab[0], slab[1], slab[2], slab[3]},
                                          room->filled() + side * bytes},
                       "put links into a margin");
            first[mu] = 0;
            extent[mu] += 2 * margin;
        }
    });
}

void Halo::crop(const LinkField &outer_links, const Geometry &outer, int margin, const LinkField &to) const {
    std::array<int, 4> extent, first{};
    for (int mu = 0; mu < 4; ++mu) {
        extent[mu] = geometry_.lattice().extent[mu];
        first[mu] = geometry_.cut(mu) ? margin : 0;
    }
    for_real(to.precision(), [&](auto p) {
        constexpr Precision real = decltype(p)::value;
        launch(device_, links_in(extent),
               CopyPart<real>{
                   {outer_links, outer, first}, {to, geometry_, {}}, {extent[0], extent[1], extent[2], extent[3]}},
               "copy a box of links");
    });
}

} // namespace milcgpu
