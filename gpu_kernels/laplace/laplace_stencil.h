// The sum of laplace.h at a site, its launches, and the rows of the table. laplace_rows.cu instantiates them.
//
// One thread a site (four on small lattices, one a direction). Each link is read once in a launch (streaming loads);
// each vector up to 8 times, through the caches. The number of directions, 3 or 4, is known at compile time, so that
// all loads of a site can be in flight together. While the previous launch ends, a thread finds its neighbours and
// loads the links of x.
#pragma once
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/stencil/launches.h"

namespace milcgpu {

// Where: Lattice, or CutLattice, which takes more registers. Ghosts are behind the field that is read.
template <class Where, class Spinor, int reals, int directions, Reuse of_links> struct LaplaceHops {
    static constexpr Precision precision = Spinor::precision;
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    using Format = Spinor;
    using Part = Vec;                                                             // over all directions or some
    static constexpr bool on_host = host_takes<Where> || of_links == Reuse::keep; // keep: several sources
    static constexpr int reach = 1;

    Where lattice;
    int parity;
    size_t stride; // of the vectors
    size_t link_stride;
    const unsigned char *in;
    const unsigned char *links[2]; // on the sites' own parity and on the other, mu 0
    size_t link_block;             // bytes from one mu to the next
    Real scale;                    // kappa times the links' scale
    size_t source_bytes;           // from one source to the next, in a launch of several without sums

    void fill(const Device &, const LaplaceCall &call) {
        const LinkField &of = *call.links;
        lattice = call.lattice;
        parity = call.parity;
        stride = call.in.stride, link_stride = of.stride();
        in = call.in.data;
        for (const int other : {0, 1})
            links[other] = of.block((call.parity + other) % 2, 0);
        link_block = of.block_bytes();
        scale = static_cast<Real>(call.kappa * of.scale);
    }
    MILCGPU_HD Vec scaled(const Part &part) const { return scale * part; }

    using Raw = RawLink<precision, reals>;
    using LinkOf = Link<precision, reals>;
    MILCGPU_HD Raw load_raw(int other, int mu, int i) const {
        return load_link<precision, reals, of_links>(links[other] + mu * link_block, link_stride, i);
    }
    // Adds both terms of a direction to sum[r] for `count` sources, which are at from[r]. behind(): the link of the
    // backward term.
    template <int count, class Behind>
    MILCGPU_HD void add_terms(Vec (&sum)[count], const unsigned char *const (&from)[count], int forward, int backward,
                              const LinkOf &ahead, const Behind &behind) const {
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            ahead.add_forward(sum[r], load_spinor<Spinor>(from[r], stride, forward));
        const LinkOf u = behind();
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r) // the sign goes into the multiplications
            u.subtract_backward(sum[r], Real(-1) * load_spinor<Spinor>(from[r], stride, backward));
    }
    template <int count>
    MILCGPU_HD void add_direction(Vec (&sum)[count], const unsigned char *const (&from)[count], const Site &site,
                                  int mu, int i) const {
        const int forward = lattice.forward(site, mu, 1), backward = lattice.backward(site, mu, 1);
        add_terms(sum, from, forward, backward, LinkOf(load_raw(0, mu, i)),
                  [&] { return LinkOf(load_raw(1, mu, backward)); });
    }

    // For the source at `field`: the sum, and its terms in one direction. All endings, and several sources, use these.
    MILCGPU_HD_ONCE Part all(int i, const unsigned char *field) const {
        const Site site = lattice.site(parity, i);
        const unsigned char *const from[1] = {field};
        Vec sum[1] = {};
        MILCGPU_UNROLL
        for (int mu = 0; mu < directions; ++mu)
            add_direction(sum, from, site, mu, i);
        return sum[0];
    }
    MILCGPU_HD_ONCE Part part(int i, int mu) const {
        const unsigned char *const from[1] = {in};
        Vec sum[1] = {};
        if (mu < directions)
            add_direction(sum, from, lattice.site(parity, i), mu, i);
        return sum[0];
    }

    // For several sources: sum[r] belongs to source own.k(r); each link is loaded and decoded once for all sources of
    // a thread. at_once: directions whose loads may be in flight together.
    template <int at_once, bool, int count>
    MILCGPU_HD void all(int i, const Sources<count> &own, Vec (&sum)[count]) const {
        const unsigned char *from[count];
        own.all_of(in, source_bytes, from);
#if !MILCGPU_ON_DEVICE
        if constexpr (count == 1) {
            sum[0] = all(i, from[0]);
            return;
        }
#endif
        const Site site = lattice.site(parity, i);
#if MILCGPU_ON_DEVICE
#pragma unroll at_once
#endif
        for (int mu = 0; mu < directions; ++mu)
            add_direction(sum, from, site, mu, i);
    }

    // The neighbours in all directions, and the first links.
    struct Start {
        int forward[directions], backward[directions];
        Raw ahead, behind;
    };
    MILCGPU_HD Start prepare(int i) const {
        const Site site = lattice.site(parity, i);
        Start made;
        MILCGPU_UNROLL
        for (int mu = 0; mu < directions; ++mu)
            made.forward[mu] = lattice.forward(site, mu, 1), made.backward[mu] = lattice.backward(site, mu, 1);
        made.ahead = load_raw(0, 0, i), made.behind = load_raw(1, 0, made.backward[0]);
        return made;
    }
    MILCGPU_HD Part all(int i, const Start &prepared) const {
        const unsigned char *const from[1] = {in};
        Vec sum[1] = {};
        MILCGPU_UNROLL
        for (int mu = 0; mu < directions; ++mu) {
            const int backward = prepared.backward[mu];
            add_terms(sum, from, prepared.forward[mu], backward, LinkOf(mu == 0 ? prepared.ahead : load_raw(0, mu, i)),
                      [&] { return LinkOf(mu == 0 ? prepared.behind : load_raw(1, mu, backward)); });
        }
        return sum[0];
    }
};

// Cut lattices do not prepare: there the previous launch sends ghosts, and registers are short.
template <class Hops, class Where, class End>
struct LaplaceStencil : Hops, Preparing<typename Hops::Start, std::is_same<Where, Lattice>::value> {
    End end;
    MILCGPU_HD Sums<End::sums> operator()(int i) const { return complete(i, this->all(i, this->in)); }
    MILCGPU_HD Sums<End::sums> operator()(int i, const typename Hops::Start &prepared) const {
        return complete(i, this->all(i, prepared));
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const typename Hops::Part &part) const {
        StoredSpinor<typename Hops::Format> made;
        return end(this->stride, i, this->scaled(part), made);
    }
};

// For launches.h. Several sources share Lattice on both backends.
template <class Where_, class Spinor_, int reals, int directions> struct OfLaplace {
    using Call = LaplaceCall;
    using Where = Where_;
    using Spinor = Spinor_;
    static constexpr const char *name = "launch laplace", *name_of_several = "launch laplace on several sources",
                                *name_without_sums = "launch laplace on several sources, no sums";
    template <Reuse of_links> using Hops = LaplaceHops<Where, Spinor, reals, directions, of_links>;
    template <class End> using OneSource = LaplaceStencil<Hops<Reuse::stream>, Where, End>;
    template <class End> using EachSource = LaplaceStencil<Hops<Reuse::keep>, Where, End>;
    using Together = Hops<Reuse::keep>;
};

// The rows of one precision: 3 reconstructions, 3 and 4 directions. min_blocks, block: for one source.
// min_blocks_of_cg, Shape: for several, of conjugate gradients and without sums.
template <class Where, class Spinor, int min_blocks, int block, int min_blocks_of_cg, class Shape>
void add_laplace_rows(std::vector<LaplaceKernel> &table) {
    for_each_of<18, 12, 8>([&](auto reals) {
        for_each_of<3, 4>([&](auto directions) {
            constexpr Precision p = Spinor::precision;
            const KernelKey key{p, p, reals, Epilogue::plain, 1, directions};
            add_rows_of_one<OfLaplace<Where, Spinor, reals, directions>, min_blocks, block>(table, key);
            if constexpr (std::is_same<Where, OnThisBackend>::value)
                add_rows_of_several<OfLaplace<Lattice, Spinor, reals, directions>, min_blocks_of_cg, Shape>(table, key);
        });
    });
}

// In double 2 blocks of 256 threads an SM leave 128 registers to a thread, in single and half 4 leave 64. In half links
// are 16-bit fixed point, vectors as in fields/spinor_storage.h, arithmetic in single.
template <class Where> void double_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<Where, SpinorDouble, 2, 64, 1, SourcesShape<4, 4, 1>>(table);
}
template <class Where> void single_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<Where, SpinorSingle, 4, 128, 3, SourcesShape<4, 6, 4>>(table);
}
template <class Where> void half_rows(std::vector<LaplaceKernel> &table) {
    add_laplace_rows<Where, SpinorHalf, 4, 256, 3, SourcesShape<4, 6, 1>>(table);
}

} // namespace milcgpu
