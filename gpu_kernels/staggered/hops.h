// The stencil of dslash.h: D at a site, and a body for launch_sum that ends with an epilogue.
//
// One thread a site (four on small lattices, one a direction). Each link is read once in a launch; see L2Policy for the
// loads. Each spinor is read up to 16 times, through the caches: consecutive sites of a stripe keep all loads
// coalesced, and the t-planes that +-3 hops reach fit in L2.
#pragma once
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/machine/backend/checksum.h"
#include "gpu_kernels/machine/geometry/lattice.h"
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/staggered/shared_links.h"
#include "gpu_kernels/stencil/endings.h"

namespace milcgpu {

// What happens to the words of a link after they are loaded, besides D. UnseenLinks: nothing. CheckedLinks: each thread
// computes the checksum of its words (`Seen`), and these checksums are added.
struct UnseenLinks {
    struct Seen {};
    template <class Raw> MILCGPU_HD void see_fat(Seen &, const Raw &, int, int, size_t, int) const {}
    template <class Raw> MILCGPU_HD void see_long(Seen &, const Raw &, int, int, size_t, int) const {}
    MILCGPU_HD void add(const Seen &) const {}
};

struct CheckedLinks {
    struct Seen {
        uint64_t fat = 0, lng = 0;
    };
    uint64_t *checksums;                  // of the fat links, of the long links
    uint32_t fat_piece[2], long_piece[2]; // start of mu 0, in pieces; [0] own parity, [1] the other
    uint32_t fat_pieces, long_pieces;     // pieces from one mu to the next

    template <class Raw>
    MILCGPU_HD void see_fat(Seen &seen, const Raw &raw, int other, int mu, size_t stride, int i) const {
        seen.fat += weigh_element<Raw::bytes>(raw.w, fat_piece[other] + mu * fat_pieces, stride, i);
    }
    template <class Raw>
    MILCGPU_HD void see_long(Seen &seen, const Raw &raw, int other, int mu, size_t stride, int i) const {
        seen.lng += weigh_element<Raw::bytes>(raw.w, long_piece[other] + mu * long_pieces, stride, i);
    }
    MILCGPU_HD void add(const Seen &seen) const {
        atomic_add(&checksums[0], seen.fat);
        atomic_add(&checksums[1], seen.lng);
    }
};

// Which links the loads of a launch leave in the L2 cache for the next launch. The others are streamed: the cache
// evicts them first.
enum class L2Policy { none, fat, all };
// On 16^4 and an H200 (60 MiB):
// - All links together take at most 0.8 of the cache (single, half): they stay. Steps take 10 to 25 % less time.
// - They do not fit in it, and the fat links take at most 0.8 of it (double, 18, 13 and 12 reals): fat links stay; D
//   alone takes 3 to 6 % less time. If all links were kept, they would evict each other and the vectors: 10 % more.
// - In between (double, 9 and 8 reals) most links stay by themselves, so all links stream. With fat links kept, a whole
//   solve took 7 % more time.
inline L2Policy l2_policy(const Device &device, const DslashCall &call) {
    const double cache = queue_of(device).cache_bytes(), fat = call.fat->bytes(), all = fat + call.lng->bytes();
    if (all <= 0.8 * cache)
        return L2Policy::all;
    return all >= cache && fat <= 0.8 * cache ? L2Policy::fat : L2Policy::none;
}

// D itself. Where: Lattice, or CutLattice, which takes more registers. Links is one of the two above.
template <class Where, class Spinor, Precision link, int reals, L2Policy of_links, class Links> struct Hops : Links {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    using Seen = typename Links::Seen;
    static constexpr bool on_host = host_takes<Where> || !std::is_same<Links, UnseenLinks>::value;
    static constexpr int reach = 3;

    Where lattice;
    int parity;
    size_t stride; // of the spinors
    size_t link_stride;
    const unsigned char *in;
    const unsigned char *fat[2], *lng[2]; // links in direction 0: [0] on sites of the own parity, [1] on the other
    size_t fat_block, long_block;         // bytes from one mu to the next
    Real fat_scale, long_scale;

    void fill(const Device &, const DslashCall &call) {
        lattice = call.lattice;
        parity = call.parity;
        stride = call.in.stride, link_stride = call.fat->stride();
        in = call.in.data;
        for (const int other : {0, 1}) {
            fat[other] = call.fat->block((parity + other) % 2, 0);
            lng[other] = call.lng->block((parity + other) % 2, 0);
        }
        fat_block = call.fat->block_bytes(), long_block = call.lng->block_bytes();
        fat_scale = static_cast<Real>(call.fat->scale);
        long_scale = static_cast<Real>(call.lng->scale);
    }

    template <L2Policy kept = of_links> MILCGPU_HD auto fat_link(Seen &seen, int other, int mu, int i) const {
        constexpr Reuse reuse = kept == L2Policy::none ? Reuse::stream : Reuse::keep;
        const auto raw = load_link<link, 18, reuse>(fat[other] + mu * fat_block, link_stride, i);
        this->see_fat(seen, raw, other, mu, link_stride, i);
        return Link<link, 18>(raw);
    }
    template <L2Policy kept = of_links> MILCGPU_HD auto long_link(Seen &seen, int other, int mu, int i) const {
        constexpr Reuse reuse = kept == L2Policy::all ? Reuse::keep : Reuse::stream;
        const auto raw = load_link<link, reals, reuse>(lng[other] + mu * long_block, link_stride, i);
        this->see_long(seen, raw, other, mu, link_stride, i);
        return Link<link, reals>(raw);
    }

    // The sums of fat and of long links at a site, over all directions or some of them.
    struct Part {
        Vec fat, lng;
        MILCGPU_HD Part operator+(const Part &o) const { return {fat + o.fat, lng + o.lng}; }
    };
    MILCGPU_HD Vec scaled(const Part &part) const { return fat_scale * part.fat + long_scale * part.lng; }

    // Ghosts that are behind the field that is read.
    struct Behind {
        MILCGPU_HD Vec neighbour(const Hops &hops, int at) const {
            return load_spinor<Spinor>(hops.in, hops.stride, at);
        }
    };

    // In single and half precision long links come first, which takes up to 4 % less time. In double it takes up to 2 %
    // more.
    // At: Where, or Lattice, for sites that have no neighbour among ghosts. ghosts.neighbour(hops, at): the neighbour
    // with this index.
    template <class At, L2Policy kept = of_links, class Ghosts>
    MILCGPU_HD_ONCE void add_direction(Part &sum, Seen &seen, const Site &site, int mu, int i, Ghosts &ghosts) const {
        const At &where = lattice;
        const int forward = where.forward(site, mu, 1), backward = where.backward(site, mu, 1);
        const auto add_fat = [&] {
            this->template fat_link<kept>(seen, 0, mu, i).add_forward(sum.fat, ghosts.neighbour(*this, forward));
            this->template fat_link<kept>(seen, 1, mu, backward)
                .subtract_backward(sum.fat, ghosts.neighbour(*this, backward));
        };
        if constexpr (Spinor::precision == Precision::double_)
            add_fat();
        const int hops = lattice.third_hop[mu];
        const int forward3 = where.forward(site, mu, hops), backward3 = where.backward(site, mu, hops);
        this->template long_link<kept>(seen, 0, mu, i).add_forward(sum.lng, ghosts.neighbour(*this, forward3));
        this->template long_link<kept>(seen, 1, mu, backward3)
            .subtract_backward(sum.lng, ghosts.neighbour(*this, backward3));
        if constexpr (Spinor::precision != Precision::double_)
            add_fat();
    }

    MILCGPU_HD Part part(int i, int mu) const {
        Behind behind;
        return part(i, mu, behind);
    }
    template <class Ghosts> MILCGPU_HD Part part(int i, int mu, Ghosts &ghosts) const {
        const Site site = lattice.site(parity, i);
        Part sum = {};
        Seen seen;
        add_direction<Where>(sum, seen, site, mu, i, ghosts);
        this->add(seen);
        return sum;
    }

    template <class At, L2Policy kept = of_links> MILCGPU_HD Part all(int i) const {
        Behind behind;
        return all<At, kept>(i, behind);
    }
    template <class At, L2Policy kept = of_links, class Ghosts> MILCGPU_HD Part all(int i, Ghosts &ghosts) const {
        const Site site = lattice.site(parity, i);
        Part sum = {};
        Seen seen;
        int mu = 0;
#if MILCGPU_ON_DEVICE
        Behind behind;
        if constexpr (std::is_same<At, Lattice>::value) {
            MILCGPU_UNROLL
            for (; mu < 4; ++mu)
                add_direction<Lattice, kept>(sum, seen, site, mu, i, behind);
        } else if (!lattice.cut(0) && !lattice.cut(1)) { // a cut in t is the usual one
            add_direction<Lattice, kept>(sum, seen, site, 0, i, behind);
            add_direction<Lattice, kept>(sum, seen, site, 1, i, behind);
            mu = 2;
            if (!lattice.cut(2)) {
                add_direction<Lattice, kept>(sum, seen, site, 2, i, behind);
                mu = 3;
            }
        }
#endif
        // Direction by direction: with all loads at once there are too few registers.
        MILCGPU_ROLLED
        for (; mu < 4; ++mu)
            add_direction<At, kept>(sum, seen, site, mu, i, ghosts);
        this->add(seen);
        return sum;
    }
};

// D on several sources, which are `source_bytes` apart. Each link is loaded and decoded once for all sources of a
// thread. In single and half, fat and long links have one sum, in units of the fat links' scale: registers limit how
// many sources a thread can take. In double they have two sums, as with one source, because true residuals are computed
// with it.
template <class Where, class Spinor, Precision link, int reals>
struct SourcesHops : Hops<Where, Spinor, link, reals, L2Policy::all, UnseenLinks> {
    using Base = Hops<Where, Spinor, link, reals, L2Policy::all, UnseenLinks>;
    using typename Base::Real;
    using typename Base::Seen;
    using typename Base::Vec;
    using Format = Spinor;
    using LongLink = Link<link, reals>;
    static constexpr int long_reals = reals;
    static constexpr bool one_sum = Spinor::precision != Precision::double_;
    size_t source_bytes;
    Real unit, long_in_units;

    // Fat links that are all zero may have the scale 0.
    void fill(const Device &device, const DslashCall &call) {
        Base::fill(device, call);
        unit = this->fat_scale != 0 ? this->fat_scale : Real(1);
        long_in_units = this->long_scale / unit;
    }

    struct OneSum {
        Vec sum;
        MILCGPU_HD Vec &of_fat() { return sum; }
        MILCGPU_HD Vec &of_long() { return sum; }
    };
    struct TwoSums : Base::Part {
        MILCGPU_HD Vec &of_fat() { return this->fat; }
        MILCGPU_HD Vec &of_long() { return this->lng; }
    };
    using Part = std::conditional_t<one_sum, OneSum, TwoSums>;
    MILCGPU_HD Vec scaled(const Part &part) const {
        if constexpr (one_sum)
            return unit * part.sum;
        else
            return Base::scaled(part);
    }
    MILCGPU_HD auto in_units(const LongLink &l) const {
        if constexpr (one_sum && !LongLink::pivoted)
            return l.times(long_in_units);
        else
            return l;
    }
    MILCGPU_HD Vec beside_long_link(const Vec &x) const {
        if constexpr (one_sum && LongLink::pivoted)
            return long_in_units * x;
        else
            return x;
    }

    // sum[r] belongs to source own.k(r). at_once: number of directions whose data may be loaded at the same time.
    // addresses: the addresses of the sources stay in registers; otherwise each hop steps from one source to the next.
    //
    // A thread has few registers and is limited by its instructions. So each direction recomputes what it can, in 32
    // bits if that is enough: see opaque, InTurn.
    template <int at_once, bool addresses, int count>
    MILCGPU_HD void all(int i, const Sources<count> &own, Part (&sum)[count]) const {
        const unsigned char *const first = own.first_of(this->in, source_bytes);
        const size_t to_second = own.to_second(source_bytes);
        [[maybe_unused]] const unsigned char *from[count];
        if constexpr (addresses)
            own.all_of(this->in, source_bytes, from);
        const auto each = [&](int at, const auto &add) {
            const unsigned char *next = first;
            MILCGPU_UNROLL
            for (int r = 0; r < count; ++r) {
                if constexpr (addresses)
                    next = from[r];
                add(sum[r], load_spinor<Spinor>(next, this->stride, at));
                next += r == 0 ? to_second : source_bytes;
            }
        };
        const uint32_t link_stride = opaque(static_cast<uint32_t>(this->link_stride));
        const auto link_at = [&](auto reals_of, const unsigned char *block, int at) {
            constexpr int n = decltype(reals_of)::value;
            return Link<link, n>(load_link<link, n, Reuse::keep, true>(opaque(block), link_stride, at));
        };
        const std::integral_constant<int, 18> of_fat;
        const std::integral_constant<int, reals> of_long;
        auto site = this->lattice.in_turn(this->lattice.site(this->parity, i));
#if MILCGPU_ON_DEVICE
#pragma unroll at_once
#endif
        for (int mu = 0; mu < 4; ++mu) {
            this->lattice.turn_to(site, mu);
            const size_t fat_before = mu * this->fat_block, long_before = mu * this->long_block;
            const int hops = this->lattice.third_hop[mu];
            const int forward = this->lattice.forward(site, mu, 1), backward = this->lattice.backward(site, mu, 1),
                      forward3 = this->lattice.forward(site, mu, hops),
                      backward3 = this->lattice.backward(site, mu, hops);
            const int here = opaque(i);
            const auto fat_ahead = link_at(of_fat, this->fat[0] + fat_before, here);
            each(forward, [&](Part &part, const Vec &x) { fat_ahead.add_forward(part.of_fat(), x); });
            const auto fat_behind = link_at(of_fat, this->fat[1] + fat_before, backward);
            each(backward, [&](Part &part, const Vec &x) { fat_behind.subtract_backward(part.of_fat(), x); });
            const auto long_ahead = in_units(link_at(of_long, this->lng[0] + long_before, here));
            each(forward3,
                 [&](Part &part, const Vec &x) { long_ahead.add_forward(part.of_long(), beside_long_link(x)); });
            const auto long_behind = in_units(link_at(of_long, this->lng[1] + long_before, backward3));
            each(backward3,
                 [&](Part &part, const Vec &x) { long_behind.subtract_backward(part.of_long(), beside_long_link(x)); });
        }
    }
#if defined(MILCGPU_WITH_CUDA)
    using Ring = cuda::LinkRing<link, reals>;
    template <int count>
    __device__ __forceinline__ void all_sharing(int i, const Sources<count> &own, Ring &ring,
                                                Part (&sum)[count]) const {
        cuda::all_sharing_links(*this, i, own, ring, sum);
    }
#endif
};

template <class Where, class Spinor, Precision link, int reals, class End, L2Policy of_links = L2Policy::none,
          class Links = UnseenLinks>
struct Stencil : Hops<Where, Spinor, link, reals, of_links, Links> {
    using Base = Hops<Where, Spinor, link, reals, of_links, Links>;
    using typename Base::Part;

    // Kernels (launch_sum): one for each Kept, if links may fit in the cache.
    static constexpr int kernels = std::is_same<Where, Lattice>::value && std::is_same<Links, UnseenLinks>::value &&
                                           of_links == L2Policy::none && link == Spinor::precision
                                       ? 3
                                       : 1;

    L2Policy kept;
    End end;

    void fill(const Device &device, const DslashCall &call) {
        Base::fill(device, call);
        kept = l2_policy(device, call);
    }
    MILCGPU_HD Sums<End::sums> operator()(int i) const { return complete(i, this->template all<Where>(i)); }
    template <int kernel> MILCGPU_HD Sums<End::sums> of_kernel(int i) const {
        return complete(i, this->template all<Where, static_cast<L2Policy>(kernel)>(i));
    }
    int kernel() const { return static_cast<int>(kept); }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part) const {
        StoredSpinor<Spinor> made;
        return complete(i, part, made);
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part, StoredSpinor<Spinor> &made) const {
        return end(this->stride, i, this->scaled(part), made);
    }
};

} // namespace milcgpu
