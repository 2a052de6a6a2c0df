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
#include "gpu_kernels/halo/send_site.h"
#include "gpu_kernels/su3/reconstruct.h"
#include <climits>

namespace milcgpu {

// Rows of lattices that are not cut; without a GPU they serve those that are as well.
#if defined(MILCGPU_WITH_CUDA)
using OnThisBackend = Lattice;
#else
using OnThisBackend = CutLattice;
#endif

// What follows D: the epilogues plain, normal and residual, or a step of conjugate gradient, which has a sum more.
// `made` becomes the new element, as stored.
template <class Spinor> struct Ending {
    using Vec = Vector<typename Spinor::Real>;
    using Real = typename Spinor::Real;
    static constexpr int sums = 1;

    Epilogue epilogue;
    const unsigned char *x, *z;
    unsigned char *out;
    double a, alpha;

    MILCGPU_HD Sums<1> operator()(size_t stride, int i, Vec d, StoredSpinor<Spinor> &made) const {
        double sum = 0;
        if (epilogue != Epilogue::plain) {
            const Vec own = load_spinor<Spinor, Reuse::written>(x, stride, i);
            d = static_cast<Real>(a) * own - d;
            sum = real_dot(own, d);
            if (epilogue == Epilogue::residual)
                d = load_spinor<Spinor, Reuse::written>(z, stride, i) - static_cast<Real>(alpha) * d;
        }
        made = store_spinor<Spinor>(out, stride, i, d);
        return {{epilogue == Epilogue::normal ? sum : norm(d)}};
    }
    // Of source k, `bytes` further on; plain only.
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

    MILCGPU_HD Sums<2> operator()(size_t stride, int i, const Vec &d, StoredSpinor<Spinor> &made) const {
        const Vec old = load_spinor<Spinor, Reuse::written>(r, stride, i);
        const Vec given = x == r ? old : load_spinor<Spinor, Reuse::written>(x, stride, i);
        Vec image = static_cast<Real>(cg->shift) * given - d;
        if (x == r)
            image =
                image + static_cast<Real>(await<looks>(cg->carry)) * load_spinor<Spinor, Reuse::written>(s, stride, i);
        store_spinor<Spinor>(s, stride, i, image);
        const Vec fresh = old - static_cast<Real>(await<looks>(cg->alpha)) * image;
        made = store_spinor<Spinor>(r_new, stride, i, fresh);
        return {{norm(fresh), real_dot(fresh, image)}};
    }
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

    // Ghosts lie behind the field that is read.
    struct Behind {
        MILCGPU_HD Vec neighbour(const Hops &hops, int at) const {
            return load_spinor<Spinor>(hops.in, hops.stride, at);
        }
    };

    // At: Where, or Lattice, for sites that have no neighbour among ghosts. ghosts.neighbour(hops, at): the neighbour
    // with this index.
    template <class At, class Ghosts>
    MILCGPU_HD void add_direction(Part &sum, Seen &seen, const Site &site, int mu, int i, Ghosts &ghosts) const {
        const At &where = lattice;
        const int forward = where.forward(site, mu, 1), backward = where.backward(site, mu, 1);
        fat_link(seen, 0, mu, i).add_forward(sum.fat, ghosts.neighbour(*this, forward));
        fat_link(seen, 1, mu, backward).subtract_backward(sum.fat, ghosts.neighbour(*this, backward));
        const int hops = lattice.third_hop[mu];
        const int forward3 = where.forward(site, mu, hops), backward3 = where.backward(site, mu, hops);
        long_link(seen, 0, mu, i).add_forward(sum.lng, ghosts.neighbour(*this, forward3));
        long_link(seen, 1, mu, backward3).subtract_backward(sum.lng, ghosts.neighbour(*this, backward3));
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

    template <class At> MILCGPU_HD Part all(int i) const {
        Behind behind;
        return all<At>(i, behind);
    }
    template <class At, class Ghosts> MILCGPU_HD_ONCE Part all(int i, Ghosts &ghosts) const {
        const Site site = lattice.site(parity, i);
        Part sum = {};
        Seen seen;
        int mu = 0;
#if MILCGPU_ON_DEVICE
        Behind behind;
        if constexpr (std::is_same<At, Lattice>::value) {
            MILCGPU_UNROLL
            for (; mu < 4; ++mu)
                add_direction<Lattice>(sum, seen, site, mu, i, behind);
        } else if (!lattice.cut(0) && !lattice.cut(1)) { // a cut in t is the usual one
            add_direction<Lattice>(sum, seen, site, 0, i, behind);
            add_direction<Lattice>(sum, seen, site, 1, i, behind);
            mu = 2;
            if (!lattice.cut(2)) {
                add_direction<Lattice>(sum, seen, site, 2, i, behind);
                mu = 3;
            }
        }
#endif
        MILCGPU_ROLLED // few registers matter more than many loads at once
            for (; mu < 4; ++mu) add_direction<At>(sum, seen, site, mu, i, ghosts);
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

    MILCGPU_HD Sums<End::sums> operator()(int i) const { return complete(i, this->template all<Where>(i)); }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part) const {
        StoredSpinor<Spinor> made;
        return complete(i, part, made);
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part, StoredSpinor<Spinor> &made) const {
        return end(this->stride, i, this->fat_scale * part.fat + this->long_scale * part.lng, made);
    }
};

// On a box that is cut. Ghosts lie behind `in`, or with the peers.
template <class Spinor, Precision link, int reals, class End> struct CutStencil;
#if defined(__CUDACC__)
template <class Spinor, Precision link, int reals, class End>
struct CutStencil : Stencil<CutLattice, Spinor, link, reals, End> {
    using Base = Stencil<CutLattice, Spinor, link, reals, End>;
    using typename Base::Part;
    static constexpr int bytes = StoredSpinor<Spinor>::bytes, word = Spinor::word_bytes;
    PeerLaunch exchange;

    struct OfPeers : cuda::Ghosts<bytes, word> {
        int first; // index of a ghost, if they lie with peers
        __device__ __forceinline__ explicit OfPeers(const CutStencil &s)
            : cuda::Ghosts<bytes, word>(s.exchange.map, 1 - s.parity),
              first(s.exchange.map.peers != nullptr ? s.lattice.first_ghost : INT_MAX) {}
        template <class Hops>
        __device__ __forceinline__ Vector<typename Spinor::Real> neighbour(const Hops &hops, int at) {
            StoredSpinor<Spinor> there;
            this->load(hops.in, hops.stride, at < first ? at : ~(at - first), there.w);
            return Spinor::decode(there.w);
        }
    };

    // Uses a part where it is made: the compiler leaves no arithmetic for later, with all that it needs in registers.
    static __device__ __forceinline__ void use(float &x) { asm volatile("" : "+f"(x)); }
    static __device__ __forceinline__ void use(double &x) { asm volatile("" : "+d"(x)); }
    static __device__ __forceinline__ void use(Part &part) {
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c)
            use(part.fat.c[c].re), use(part.fat.c[c].im), use(part.lng.c[c].re), use(part.lng.c[c].im);
    }

    // All is read as if ghosts were there. Where one was not, this waits for those of the directions from mu on to
    // `end`, and reads again.
    template <class Read> __device__ __forceinline__ Part with_ghosts(int i, int mu, int end, const Read &read) const {
        OfPeers ghosts(*this);
        for (;;) {
            Part part = read(ghosts);
            use(part);
            if (ghosts.whole() || mu == end)
                return part;
            const Site site = this->lattice.site(this->parity, i);
            MILCGPU_ROLLED
            for (; mu < end; ++mu)
                MILCGPU_ROLLED
            for (int hops = 1; hops <= 3 && this->lattice.cut(mu); hops += 2) {
                const int behind = this->lattice.backward(site, mu, hops),
                          ahead = this->lattice.forward(site, mu, hops);
                if (behind >= ghosts.first)
                    ghosts.wait(behind - ghosts.first, 2 * mu);
                if (ahead >= ghosts.first)
                    ghosts.wait(ahead - ghosts.first, 2 * mu + 1);
            }
        }
    }
    // On the host they lie behind `in`.
    MILCGPU_HD Part part(int i, int mu) const {
#if MILCGPU_ON_DEVICE
        return with_ghosts(i, mu, mu + 1, [&](OfPeers &ghosts) { return Base::part(i, mu, ghosts); });
#else
        return Base::part(i, mu);
#endif
    }
    MILCGPU_HD Sums<End::sums> operator()(int i) const {
#if MILCGPU_ON_DEVICE
        return complete(
            i, with_ghosts(i, 0, 4, [&](OfPeers &ghosts) { return this->template all<CutLattice>(i, ghosts); }));
#else
        return Base::operator()(i);
#endif
    }
    MILCGPU_HD Sums<End::sums> complete(int i, const Part &part) const {
        StoredSpinor<Spinor> made;
        const Sums<End::sums> sums = Base::complete(i, part, made);
#if MILCGPU_ON_DEVICE
        if (exchange.send)
            cuda::send_site<bytes, word>(exchange.map, this->lattice, this->parity, i, made.w);
#endif
        return sums;
    }
    // Of a site that has no neighbour among ghosts, and that no neighbour needs.
    __device__ __forceinline__ Sums<End::sums> inner(int i) const {
        return Base::complete(i, this->template all<Lattice>(i));
    }
};
#endif

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
