// The stencil of dslash.h, once. A translation unit a precision (double.cu, single.cu, half.cu; for cut lattices
// double_cut.cu ...) instantiates it for its spinor format, all link precisions and all reconstructions, with the
// launch shape of rows.h.
//
// One thread a site (four on small lattices, one a direction). Each link is read once in a launch (streaming loads);
// each spinor up to 16 times, through the caches: consecutive sites of a stripe keep all loads coalesced, and the
// t-planes that +-3 hops reach fit in L2.
#pragma once
#include "gpu_kernels/backend/checksum.h"
#include "gpu_kernels/backend/reduce.h"
#include "gpu_kernels/blas/shifts.h"
#include "gpu_kernels/dslash/dslash.h"
#include "gpu_kernels/su3/reconstruct.h"

namespace milcgpu {

// Rows of lattices that are not cut; without a GPU they serve those that are as well.
#if defined(MILCGPU_WITH_CUDA)
using OnThisBackend = Lattice;
#else
using OnThisBackend = CutLattice;
#endif

// What follows D: the epilogues plain, normal and residual, or a step of conjugate gradient, which has a sum more.
template <class Spinor> struct Ending {
    using Vec = Vector<typename Spinor::Real>;
    using Real = typename Spinor::Real;
    static constexpr int sums = 1;

    Epilogue epilogue;
    const unsigned char *x, *z;
    unsigned char *out;
    double a, alpha;

    MILCGPU_HD Sums<1> operator()(size_t stride, int i, Vec d) const {
        double sum = 0;
        if (epilogue != Epilogue::plain) {
            const Vec own = load_spinor<Spinor, Reuse::written>(x, stride, i);
            d = static_cast<Real>(a) * own - d;
            sum = real_dot(own, d);
            if (epilogue == Epilogue::residual)
                d = load_spinor<Spinor, Reuse::written>(z, stride, i) - static_cast<Real>(alpha) * d;
        }
        store_spinor<Spinor>(out, stride, i, d);
        return {{epilogue == Epilogue::normal ? sum : norm(d)}};
    }
    // Of source k, `bytes` further on; plain only.
    MILCGPU_HD const unsigned char *made() const { return out; }
    MILCGPU_HD Ending of_source(int, size_t bytes) const { return {epilogue, x, z, out + bytes, a, alpha}; }
};

template <class Spinor, class Where> struct StepEnding {
    static constexpr unsigned looks = std::is_same<Where, Lattice>::value ? most_looks : most_looks_with_ranks;
    using Vec = Vector<typename Spinor::Real>;
    using Real = typename Spinor::Real;
    static constexpr int sums = 2;

    const unsigned char *x, *r;
    unsigned char *r_new, *s;
    const CgState *cg;

    MILCGPU_HD Sums<2> operator()(size_t stride, int i, const Vec &d) const {
        const Vec old = load_spinor<Spinor, Reuse::written>(r, stride, i);
        const Vec given = x == r ? old : load_spinor<Spinor, Reuse::written>(x, stride, i);
        Vec image = static_cast<Real>(cg->shift) * given - d;
        if (x == r)
            image =
                image + static_cast<Real>(await<looks>(cg->carry)) * load_spinor<Spinor, Reuse::written>(s, stride, i);
        store_spinor<Spinor>(s, stride, i, image);
        const Vec fresh = old - static_cast<Real>(await<looks>(cg->alpha)) * image;
        store_spinor<Spinor>(r_new, stride, i, fresh);
        return {{norm(fresh), real_dot(fresh, image)}};
    }
    MILCGPU_HD const unsigned char *made() const { return r_new; }
    MILCGPU_HD StepEnding of_source(int k, size_t bytes) const {
        return {x + bytes, r + bytes, r_new + bytes, s + bytes, cg + k};
    }
};

// What is done with the words of a link once they are loaded: nothing, or a thread keeps their checksums (`Seen`) and
// adds them up with those of the others.
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
    uint32_t fat_piece[2], long_piece[2]; // of a checksum, where the blocks of mu 0 begin; own parity and other
    uint32_t fat_pieces, long_pieces;     // from one mu to the next

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

// D itself. Where: Lattice, or CutLattice, which takes more registers. Links is one of the two above.
template <class Where, class Spinor, Precision link, int reals, Reuse of_links, class Links> struct Hops : Links {
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;
    using Seen = typename Links::Seen;

    Where lattice;
    int parity;
    size_t stride; // of the spinors
    size_t link_stride;
    const unsigned char *in;
    const unsigned char *fat[2], *lng[2]; // links of the sites' own parity and of the other, mu 0
    size_t fat_block, long_block;         // bytes from one mu to the next
    Real fat_scale, long_scale;

    MILCGPU_HD auto fat_link(Seen &seen, int other, int mu, int i) const {
        const auto raw = load_link<link, 18, of_links>(fat[other] + mu * fat_block, link_stride, i);
        this->see_fat(seen, raw, other, mu, link_stride, i);
        return Link<link, 18>(raw);
    }
    MILCGPU_HD auto long_link(Seen &seen, int other, int mu, int i) const {
        const auto raw = load_link<link, reals, of_links>(lng[other] + mu * long_block, link_stride, i);
        this->see_long(seen, raw, other, mu, link_stride, i);
        return Link<link, reals>(raw);
    }

    // Fat and long sums of a site, of all directions or of some.
    struct Part {
        Vec fat, lng;
        MILCGPU_HD Part operator+(const Part &o) const { return {fat + o.fat, lng + o.lng}; }
    };

    // At: Where, or Lattice, for sites that have no neighbour among ghosts. ghosts.of(mu): where those of `in` are that
    // are beyond mu, as behind the sites of a field.
    template <class At> MILCGPU_HD Vec neighbour(int at, const unsigned char *ghosts) const {
        if constexpr (std::is_same<At, Lattice>::value)
            return load_spinor<Spinor>(in, stride, at);
        else // a peer may write ghosts while this launch runs, before it reads them: no read-only loads
            return load_spinor<Spinor, Reuse::written>(at >= lattice.first_ghost ? ghosts : in, stride, at);
    }

    template <class At, class Ghosts>
    MILCGPU_HD void add_direction(Part &sum, Seen &seen, const Site &site, int mu, int i, Ghosts &of) const {
        const At &where = lattice;
        const unsigned char *const ghosts = of.of(mu);
        const int forward = where.forward(site, mu, 1), backward = where.backward(site, mu, 1);
        fat_link(seen, 0, mu, i).add_forward(sum.fat, neighbour<At>(forward, ghosts));
        fat_link(seen, 1, mu, backward).subtract_backward(sum.fat, neighbour<At>(backward, ghosts));
        const int hops = lattice.third_hop[mu];
        const int forward3 = where.forward(site, mu, hops), backward3 = where.backward(site, mu, hops);
        long_link(seen, 0, mu, i).add_forward(sum.lng, neighbour<At>(forward3, ghosts));
        long_link(seen, 1, mu, backward3).subtract_backward(sum.lng, neighbour<At>(backward3, ghosts));
    }

    // They lie behind the field that is read.
    struct Behind {
        const unsigned char *in;
        MILCGPU_HD const unsigned char *of(int) const { return in; }
    };

    MILCGPU_HD Part part(int i, int mu) const {
        const Behind behind{in};
        return part(i, mu, behind);
    }
    template <class Ghosts> MILCGPU_HD Part part(int i, int mu, Ghosts &ghosts) const {
        Site site = lattice.site(parity, i);
        Part sum = {};
        Seen seen;
        add_direction<Where>(sum, seen, site, mu, i, ghosts);
        this->add(seen);
        return sum;
    }

    template <class At, class Ghosts> MILCGPU_HD_ONCE Part all(int i, Ghosts &ghosts) const {
        const Site site = lattice.site(parity, i);
        Part sum = {};
        Seen seen;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            add_direction<At>(sum, seen, site, mu, i, ghosts);
        this->add(seen);
        return sum;
    }
};

template <class Where, class Spinor, Precision link, int reals, class End, Reuse of_links = Reuse::stream,
          class Links = UnseenLinks>
struct Stencil : Hops<Where, Spinor, link, reals, of_links, Links> {
    using Base = Hops<Where, Spinor, link, reals, of_links, Links>;
    using typename Base::Part;

    End end;

    MILCGPU_HD Sums<End::sums> operator()(int i) const { return at_all<Where>(i); }
    // At Lattice: of a site that has no neighbour among ghosts.
    template <class At> MILCGPU_HD Sums<End::sums> at_all(int i) const {
        const typename Base::Behind behind{this->in};
        return complete(i, this->template all<At>(i, behind));
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part) const {
        return end(this->stride, i, this->fat_scale * part.fat + this->long_scale * part.lng);
    }
};

// On a box that is cut.
template <class Spinor, Precision link, int reals, class End>
struct CutStencil : Stencil<CutLattice, Spinor, link, reals, End> {
    using Stencil<CutLattice, Spinor, link, reals, End>::operator();
    PeerLaunch exchange;

    template <class Ghosts> MILCGPU_HD Sums<End::sums> operator()(int i, Ghosts &ghosts) const {
        return this->complete(i, this->template all<CutLattice>(i, ghosts));
    }
    MILCGPU_HD Sums<End::sums> inner(int i) const { return this->template at_all<Lattice>(i); }
#if defined(__CUDACC__)
    // What was made of site i, to all neighbours that have it among their ghosts: to the one behind what lies near the
    // beginning, who has it ahead.
    __device__ void send(int i) const {
        uint32_t raw[Spinor::words * Spinor::word_bytes / 4];
        load_element<sizeof raw, Spinor::word_bytes, Reuse::written>(this->end.made(), this->stride, i, raw);
        const CutLattice &lattice = this->lattice;
        const Site site = lattice.site(this->parity, i);
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu)
            for (int side = 0; side < 2 && lattice.cut(mu); ++side) {
                const int away = side == 0 ? site.x[mu] : lattice.extent[mu] - 1 - site.x[mu];
                if (away < lattice.depth)
                    store_element<sizeof raw, Spinor::word_bytes>(
                        cuda::slot_to_fill(exchange.peers, 2 * mu + side), this->stride,
                        lattice.ghost[mu][1 - side] + away * lattice.layer[mu] + lattice.place(site, mu), raw);
            }
    }
#endif
};

struct SumFinish {
    double *sum;
    CgState *cg;
    bool along_p;
    MILCGPU_HD bool wanted() const { return sum != nullptr || cg != nullptr; }
    MILCGPU_HD void operator()(const Sums<1> &total) const {
        if (sum != nullptr)
            *sum = total.v[0];
        if (cg != nullptr && along_p)
            cg->set_step_along_p(total.v[0]);
        else if (cg != nullptr)
            cg->set_step_along_r(total.v[0]);
    }
};

struct StepFinish : Finish {
    CgState *cg;
    bool judge;
    MILCGPU_HD void operator()(const Sums<2> &total) const {
        cg->rr_new = total.v[0];
        cg->cross = total.v[1];
        cg->record();
        if (judge)
            cg->judge();
    }
};

template <class Body>
void fill_links(Body &body, const CutLattice &lattice, int parity, const LinkField &fat, const LinkField &lng) {
    body.lattice = lattice;
    body.parity = parity;
    body.link_stride = fat.stride();
    for (const int other : {0, 1}) {
        body.fat[other] = fat.block((parity + other) % 2, 0);
        body.lng[other] = lng.block((parity + other) % 2, 0);
    }
    body.fat_block = fat.block(0, 1) - fat.block(0, 0);
    body.long_block = lng.block(0, 1) - lng.block(0, 0);
    body.fat_scale = static_cast<typename Body::Real>(fat.scale);
    body.long_scale = static_cast<typename Body::Real>(lng.scale);
}

// min_blocks, block: see launch_sum.
template <class Where, class Spinor, Precision link, int reals, int min_blocks, int block>
void launch_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    const auto start = [&](auto end, const auto &finish, const auto &pending) {
        constexpr int sums = decltype(end)::sums;
        using End = decltype(end);
        constexpr bool cut_on_gpu = !std::is_same<Where, OnThisBackend>::value;
        std::conditional_t<cut_on_gpu, CutStencil<Spinor, link, reals, End>, Stencil<Where, Spinor, link, reals, End>>
            body{};
        fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
        if constexpr (cut_on_gpu)
            body.exchange = call.exchange;
        body.stride = call.in.stride;
        body.in = call.in.data;
        body.end = end;
        const SumLaunch how{"launch dslash", call.cg != nullptr ? &call.cg->active : nullptr, block, call.defer};
        launch_sum<sums, min_blocks>(device, call.lattice.sites(call.parity), body, finish, how, pending);
    };
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.judge};
    const ReduceShape before(call.lattice.sites(1 - call.parity));
    if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg}, step,
              Pending<1, SumFinish>{{reinterpret_cast<Sums<1> *>(call.pending), before, device.waits()}, plain});
    else
        start(Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha}, plain,
              Pending<2, StepFinish>{{reinterpret_cast<Sums<2> *>(call.pending), before, device.waits()}, step});
}

// The epilogue residual, which also takes the checksums of the links. One launch reads every link of both parities
// once (extents are even): those of its own sites forward, those of the others backward.
//
// What changed before this launch reads it is seen, also where the first half had read it unchanged. What changes after
// that is not part of the residual.
template <class Where, class Spinor, Precision link, int reals, int min_blocks, int block>
void launch_checked_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    Stencil<Where, Spinor, link, reals, Ending<Spinor>, Reuse::stream, CheckedLinks> body{};
    fill_links(body, call.lattice, call.parity, *call.fat, *call.lng);
    body.checksums = call.checksums;
    body.fat_pieces = static_cast<uint32_t>(body.fat_block / 16);
    body.long_pieces = static_cast<uint32_t>(body.long_block / 16);
    for (const int other : {0, 1}) {
        const uint32_t blocks = (call.parity + other) % 2 * 4;
        body.fat_piece[other] = blocks * body.fat_pieces;
        body.long_piece[other] = blocks * body.long_pieces;
    }
    body.stride = call.in.stride;
    body.in = call.in.data;
    body.end = {epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
    launch_sum<1, min_blocks>(device, call.lattice.sites(call.parity), body, SumFinish{call.sum, nullptr, false},
                              {"launch dslash", nullptr, block});
}

// Several sources at once, each in a conjugate gradient of its own. Links are read once a source, from L1 after the
// first.
template <class Where, class Spinor, Precision link, int reals, class End> struct SourcesStencil {
    Stencil<Where, Spinor, link, reals, End, Reuse::keep> first; // of source 0
    size_t source_bytes;
    const CgState *cg;
    MILCGPU_HD const int *gate(int k) const { return &cg[k].active; }
    MILCGPU_HD Sums<End::sums> operator()(int i, int k) const {
        auto body = first;
        body.in += k * source_bytes;
        body.end = first.end.of_source(k, k * source_bytes);
        return body(i);
    }
};

template <class Last> struct SourcesFinish {
    Last first;
    template <int N> MILCGPU_HD void operator()(const Sums<N> &total, int k) const {
        Last finish = first;
        finish.cg += k;
        finish(total);
    }
};

template <class Where, class Spinor, Precision link, int reals, int min_blocks>
void launch_sources_stencil(Device &device, const DslashCall &call, Epilogue epilogue) {
    const auto start = [&](const auto &end, const auto &finish) {
        using End = std::decay_t<decltype(end)>;
        SourcesStencil<Where, Spinor, link, reals, End> body{};
        fill_links(body.first, call.lattice, call.parity, *call.fat, *call.lng);
        body.first.stride = call.in.stride;
        body.first.in = call.in.data;
        body.first.end = end;
        body.source_bytes = call.in.source_bytes;
        body.cg = call.cg;
        launch_sum_sources<End::sums, min_blocks>(device, call.lattice.sites(call.parity), call.in.sources, body,
                                                  finish, "launch dslash on several sources");
    };
    if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              SourcesFinish<StepFinish>{{{}, call.cg, call.judge}});
    else
        start(Ending<Spinor>{Epilogue::plain, nullptr, nullptr, call.out.data, 0, 0},
              SourcesFinish<SumFinish>{{nullptr, call.cg, call.along_p}});
}

// function(integral constant) for each number of reals of a long link.
template <class Function> void for_all_reals(const Function &function) {
    function(std::integral_constant<int, 18>());
    function(std::integral_constant<int, 13>());
    function(std::integral_constant<int, 12>());
    function(std::integral_constant<int, 9>());
    function(std::integral_constant<int, 8>());
}

// The rows of one spinor and link precision and one source: 5 reconstructions x 4 epilogues.
template <class Where, class Spinor, Precision link, int min_blocks, int block>
void add_rows(std::vector<DslashKernel> &table, const char *file) {
    for_all_reals([&](auto reals) {
        for (const EpilogueTraits &end : epilogues)
            table.push_back({Spinor::precision, link, reals, end.epilogue, 1, false,
                             launch_stencil<Where, Spinor, link, reals, min_blocks, block>, file});
    });
}

// The residual that takes the checksums of links as handed over.
template <class Where, class Spinor, Precision link, int min_blocks, int block>
void add_checked_row(std::vector<DslashKernel> &table, const char *file) {
    table.push_back({Spinor::precision, link, 18, Epilogue::residual, 1, true,
                     launch_checked_stencil<Where, Spinor, link, 18, min_blocks, block>, file});
}

// The same for several sources: plain and step.
template <class Where, class Spinor, Precision link, int min_blocks>
void add_sources_rows(std::vector<DslashKernel> &table, const char *file) {
    for_all_reals([&](auto reals) {
        for (const Epilogue epilogue : {Epilogue::plain, Epilogue::step})
            table.push_back({Spinor::precision, link, reals, epilogue, max_shifts, false,
                             launch_sources_stencil<Where, Spinor, link, reals, min_blocks>, file});
    });
}

} // namespace milcgpu
