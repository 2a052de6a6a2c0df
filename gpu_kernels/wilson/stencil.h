// The stencil of wilson.h, once, and its launches. A translation unit a precision (double.cu, single.cu, half.cu)
// (for cut lattices double_cut.cu ...) instantiates it for its spinor format and all reconstructions.
//
// One thread a site. Each link is read once in a launch (streaming loads) and decoded once for both colour vectors of
// the half spinor; each spinor is read 8 times, through the caches: consecutive sites of a stripe keep all loads
// coalesced. Several sources: a thread does one or two of them at a site, with one decoded link for both; the others of
// its block find the links in L1.
#pragma once
#include "gpu_kernels/dslash/sources.h"
#include "gpu_kernels/halo/pieces.h"
#include "gpu_kernels/su3/reconstruct.h"
#include "gpu_kernels/wilson/clover.h"
#include "gpu_kernels/wilson/gamma.h"
#include "gpu_kernels/wilson/wilson.h"

namespace milcgpu {

// Half spinors of the neighbours' sites (halo.h), of which a lattice that is whole has none.
template <class Where, class Real> struct GhostHalves {
    void fill(const WilsonCall &) {}
};
template <class Real> struct GhostHalves<CutLattice, Real> {
    using Stored = std::conditional_t<std::is_same<Real, double>::value, SpinorDouble, SpinorSingle>;
    unsigned char *data;
    size_t places, first; // first: index of a ghost
    void fill(const WilsonCall &call) {
        if (call.halo == nullptr)
            return;
        data = call.halo->ghosts.data();
        places = call.halo->places, first = call.halo->lattice.first_ghost;
    }
    MILCGPU_HD HalfWilsonVector<Real> load(int at) const {
        return {{load_spinor<Stored>(data, 2 * places, at - first),
                 load_spinor<Stored>(data, 2 * places, places + at - first)}};
    }
};

// D_s at a site. Where: Lattice, or CutLattice.
template <class Where, class Spinor, int reals, Reuse of_links> struct WilsonHops {
    static constexpr Precision link = Spinor::precision;
    using Real = typename Spinor::Real;
    using Vec = WilsonVector<Real>;

    Where lattice;
    GhostHalves<Where, Real> ghosts;
    int parity;
    size_t stride;    // of the spinors: spins times that of the links
    size_t component; // elements from one component to the next
    const unsigned char *in;
    const unsigned char *links[2]; // of the sites' own parity and of the other, mu 0
    size_t link_block;             // bytes from one mu to the next
    Real sign;                     // s
    CloverView<link> clover;       // C, of the sites' own parity; no data: 1

    void fill(const WilsonCall &call) {
        const LinkField &of = *call.links;
        lattice = call.lattice;
        ghosts.fill(call);
        parity = call.parity;
        stride = call.in.stride, component = of.stride();
        in = call.in.data;
        for (const int other : {0, 1})
            links[other] = of.block((call.parity + other) % 2, 0);
        link_block = of.block_bytes();
        sign = static_cast<Real>(call.sign);
        if (call.clover != nullptr)
            clover = CloverView<link>(*call.clover);
    }

    template <Reuse reuse = Reuse::keep> MILCGPU_HD Vec load(const unsigned char *field, int i) const {
        Vec psi;
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            psi.d[d] = load_spinor<Spinor, reuse>(field, stride, d * component + i);
        return psi;
    }
    MILCGPU_HD Link<link, reals> load_link_of(int other, int mu, int i) const {
        return Link<link, reals>(load_link<link, reals, of_links>(links[other] + mu * link_block, component, i));
    }

    MILCGPU_HD bool is_ghost([[maybe_unused]] int mu, [[maybe_unused]] int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            return lattice.cut(mu) && at >= lattice.first_ghost;
        return false;
    }
    // What a site needs of its neighbour ahead: the upper half of (1 + s gamma_mu) psi.
    template <int mu> MILCGPU_HD HalfWilsonVector<Real> half_ahead(const unsigned char *from, int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, at))
                return ghosts.load(at);
        return project<mu>(load(from, at), sign);
    }
    // And of the one behind: that of - U^dag (1 - s gamma_mu) psi, with its link.
    template <int mu>
    MILCGPU_HD HalfWilsonVector<Real> half_behind(const unsigned char *from, int at, const Link<link, reals> &u) const {
        const HalfWilsonVector<Real> h = project<mu>(load(from, at), -sign);
        HalfWilsonVector<Real> moved = {};
        u.subtract_backward(moved.d[0], h.d[0]);
        u.subtract_backward(moved.d[1], h.d[1]);
        return moved;
    }

    // Both terms of direction mu to sum[r] of `count` sources, which lie at from[r]; one where the lattice is cut.
    template <int mu, int count>
    MILCGPU_HD void add_direction(Vec (&sum)[count], const unsigned char *const (&from)[count], const Site &site,
                                  int i) const {
        const int forward = lattice.forward(site, mu, 1), backward = lattice.backward(site, mu, 1);
        const auto ahead = load_link_of(0, mu, i);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r) {
            const HalfWilsonVector<Real> h = half_ahead<mu>(from[r], forward);
            HalfWilsonVector<Real> moved = {};
            ahead.add_forward(moved.d[0], h.d[0]);
            ahead.add_forward(moved.d[1], h.d[1]);
            add_both_halves<mu>(sum[r], moved, sign);
        }
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, backward))
                return subtract_both_halves<mu>(sum[0], ghosts.load(backward), -sign);
        const auto behind = load_link_of(1, mu, backward);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            subtract_both_halves<mu>(sum[r], half_behind<mu>(from[r], backward, behind), -sign);
    }

    template <int count>
    MILCGPU_HD_ONCE void all(int i, const unsigned char *const (&from)[count], Vec (&sum)[count]) const {
        const Site site = lattice.site(parity, i);
        add_direction<0>(sum, from, site, i);
        add_direction<1>(sum, from, site, i);
        add_direction<2>(sum, from, site, i);
        add_direction<3>(sum, from, site, i);
    }

    // v = C v
    MILCGPU_HD void multiply_by_clover(int i, Vec &v) const {
        if (clover.data == nullptr)
            return;
        MILCGPU_UNROLL
        for (int chirality = 0; chirality < 2; ++chirality)
            multiply(clover.template load<of_links>(parity, chirality, i), v.d[2 * chirality], v.d[2 * chirality + 1]);
    }
};

// v = C D_s in. made() makes it of the sum of the hops, for the source that lies `offset` bytes behind the first.
// any_term: false where C is known to be 1.
template <class Where, class Spinor, int reals, Reuse of_links, bool any_term = true>
struct WilsonHop : WilsonHops<Where, Spinor, reals, of_links> {
    using Base = WilsonHops<Where, Spinor, reals, of_links>;
    using typename Base::Real;
    using typename Base::Vec;
    Real scale; // of the links
    void fill(const WilsonCall &call) {
        Base::fill(call);
        scale = static_cast<Real>(call.links->scale);
    }
    MILCGPU_HD Vec made(int i, size_t, const Vec &sum) const {
        Vec v;
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            v.d[d] = scale * sum.d[d];
        if constexpr (any_term)
            this->multiply_by_clover(i, v);
        return v;
    }
};

// v = C own - factor D_s in
template <class Where, class Spinor, int reals, Reuse of_links>
struct WilsonMatrixForm : WilsonHops<Where, Spinor, reals, of_links> {
    using Base = WilsonHops<Where, Spinor, reals, of_links>;
    using typename Base::Real;
    using typename Base::Vec;
    Real factor; // with the scale of the links
    const unsigned char *own;
    void fill(const WilsonCall &call) {
        Base::fill(call);
        factor = static_cast<Real>(call.factor * call.links->scale);
        own = call.own.data;
    }
    MILCGPU_HD Vec made(int i, size_t offset, const Vec &sum) const {
        Vec v = this->template load<Reuse::written>(own + offset, i);
        this->multiply_by_clover(i, v);
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            v.d[d] = v.d[d] - factor * sum.d[d];
        return v;
    }
};

// What follows a component: out = v, without sums.
template <class Spinor> struct PlainEnding {
    static constexpr int sums = 1;
    unsigned char *out;
    MILCGPU_HD Sums<1> operator()(size_t stride, int i, const Vector<typename Spinor::Real> &v,
                                  StoredSpinor<Spinor> &made) const {
        made = store_spinor<Spinor>(out, stride, i, v);
        return {{0}};
    }
    MILCGPU_HD PlainEnding of_source(int, size_t bytes) const { return {out + bytes}; }
};

// out = v, with the sums Re and Im of <with, out> and |out|^2.
template <class Spinor> struct DotEnding {
    static constexpr int sums = 3;
    const unsigned char *with; // nullptr: none
    unsigned char *out;
    MILCGPU_HD Sums<3> operator()(size_t stride, int i, const Vector<typename Spinor::Real> &v,
                                  StoredSpinor<Spinor> &made) const {
        made = store_spinor<Spinor>(out, stride, i, v);
        Complex<typename Spinor::Real> dot = {0, 0};
        if (with != nullptr) {
            const auto w = load_spinor<Spinor, Reuse::written>(with, stride, i);
            MILCGPU_UNROLL
            for (int k = 0; k < 3; ++k)
                dot = plus(dot, conj(w.c[k]), v.c[k]);
        }
        return {{dot.re, dot.im, norm(v)}};
    }
};

// Form: WilsonHop or WilsonMatrixForm. The endings of the staggered operator that add a x take -v.
template <class Form, class Spinor, class End_> struct WilsonStencil : Form {
    using End = End_;
    using typename Form::Vec;
    End end;
    typename Spinor::Real turn; // 1 or -1
    void fill(const WilsonCall &call, Epilogue epilogue, const End &of_first) {
        Form::fill(call);
        end = of_first;
        turn = epilogue == Epilogue::plain ? 1 : -1;
    }
    MILCGPU_HD Sums<End::sums> operator()(int i) const {
        const unsigned char *const from[1] = {this->in};
        Vec sum[1] = {};
        this->all(i, from, sum);
        return complete(i, 0, sum[0], end);
    }
    // What follows the hops, for the source that lies `offset` bytes behind the first; `own` is its ending.
    MILCGPU_HD Sums<End::sums> complete(int i, size_t offset, const Vec &hops, const End &own) const {
        const Vec v = this->made(i, offset, hops);
        Sums<End::sums> sum = {};
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d) {
            StoredSpinor<Spinor> made;
            sum.add(own(this->stride, static_cast<int>(d * this->component) + i, turn * v.d[d], made));
        }
        return sum;
    }
};

// Several sources, for launch_sum_sources. together: 1 or 2.
template <class Stencil, int together_> struct WilsonSources {
    static constexpr int together = together_;
    using End = typename Stencil::End;
    Stencil first; // of source 0
    size_t source_bytes;
    const CgState *cg; // nullptr: they have one gate
    const int *gate;
    MILCGPU_HD bool open(int k) const {
        const int *const flag = cg != nullptr ? &cg[k].active : gate;
        return flag == nullptr || *flag != 0;
    }
    MILCGPU_HD Sums<End::sums> operator()(int i, int k) const {
        const bool yes[1] = {true};
        Sums<End::sums> sum[1] = {};
        of(i, k, yes, sum);
        return sum[0];
    }
    template <int count>
    MILCGPU_HD void of(int i, int k, const bool (&open)[count], Sums<End::sums> (&sum)[count]) const {
        size_t offset[count];
        const unsigned char *from[count];
        bool any = false;
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r) { // the other one again where a source is not open
            offset[r] = (k + (open[r] ? r : count - 1 - r)) * source_bytes;
            from[r] = first.in + offset[r];
            any |= open[r];
        }
        if (!any)
            return;
        typename Stencil::Vec hops[count] = {};
        first.all(i, from, hops);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            if (open[r])
                sum[r] = first.complete(i, offset[r], hops[r], first.end.of_source(k + r, offset[r]));
    }
};

struct StoreDots {
    double *to;
    MILCGPU_HD bool wanted() const { return true; }
    MILCGPU_HD void operator()(const Sums<3> &total) const {
        for (int k = 0; k < 3; ++k)
            to[k] = total.v[k];
    }
};

// How a precision is launched on the GPU. One source: blocks of 256 threads that must fit on an SM, which bounds the
// registers a thread, and threads a block. Several: the same bound, and sources a thread.
template <int min_blocks_, int block_, int min_blocks_of_sources_, int together_> struct WilsonShape {
    static constexpr int min_blocks = min_blocks_, block = block_;
    static constexpr int min_blocks_of_sources = min_blocks_of_sources_, together = together_;
};

template <class Where, class Spinor, int reals, class Shape>
void launch_wilson_one(Device &device, const WilsonCall &call, Epilogue epilogue) {
    const SumLaunch how{"launch the Wilson operator", call.cg != nullptr ? &call.cg->active : call.gate, Shape::block,
                        call.defer};
    const auto start = [&](auto form, const auto &end, const auto &finish, const auto &pending) {
        using End = std::decay_t<decltype(end)>;
        WilsonStencil<decltype(form), Spinor, End> body{};
        body.fill(call, epilogue, end);
        launch_sum<End::sums, Shape::min_blocks>(device, call.lattice.sites(call.parity), body, finish, how, pending);
    };
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.judge};
    if (call.form == WilsonForm::hop) {
        const ReduceShape before(call.lattice.sites(1 - call.parity));
        const Pending<1, SumFinish> of_plain{
            {reinterpret_cast<Sums<1> *>(call.after_step ? nullptr : call.pending), before, device.waits()}, plain};
        const Pending<2, StepFinish> of_step{
            {reinterpret_cast<Sums<2> *>(call.after_step ? call.pending : nullptr), before, device.waits()}, step};
        const auto hop = [&](auto form) {
            start(form, PlainEnding<Spinor>{call.out.data}, SumFinish{nullptr, nullptr, false},
                  EitherPending<Pending<1, SumFinish>, Pending<2, StepFinish>>{of_plain, of_step});
        };
        // Both C are one kernel, but for this row: with the term two blocks fit on an SM, without it three.
        if constexpr (Spinor::precision == Precision::double_ && reals == 8)
            if (call.clover == nullptr)
                return hop(WilsonHop<Where, Spinor, reals, Reuse::stream, false>());
        return hop(WilsonHop<Where, Spinor, reals, Reuse::stream>());
    }
    const WilsonMatrixForm<Where, Spinor, reals, Reuse::stream> matrix{};
    if (call.dots != nullptr)
        start(matrix, DotEnding<Spinor>{call.with.data, call.out.data}, StoreDots{call.dots}, NothingPending());
    else if (epilogue == Epilogue::step)
        start(matrix, StepEnding<Spinor, Where, true>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              step, NothingPending());
    else
        start(matrix, Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha}, plain,
              NothingPending());
}

template <class Spinor, int reals, class Shape>
void launch_wilson_of_sources(Device &device, const WilsonCall &call, Epilogue epilogue) {
    const auto start = [&](auto form, const auto &end, const auto &finish) {
        using End = std::decay_t<decltype(end)>;
        WilsonSources<WilsonStencil<decltype(form), Spinor, End>, Shape::together> body{};
        body.first.fill(call, epilogue, end);
        body.source_bytes = call.in.source_bytes;
        body.cg = call.cg, body.gate = call.gate;
        launch_sum_sources<End::sums, Shape::min_blocks_of_sources>(
            device, call.lattice.sites(call.parity), call.in.sources, body,
            SourcesFinish<std::decay_t<decltype(finish)>>{finish}, "launch the Wilson operator on several sources");
    };
    const WilsonMatrixForm<Lattice, Spinor, reals, Reuse::keep> matrix{};
    if (call.form == WilsonForm::hop)
        start(WilsonHop<Lattice, Spinor, reals, Reuse::keep>(), PlainEnding<Spinor>{call.out.data},
              SumFinish{nullptr, nullptr, false});
    else if (epilogue == Epilogue::step)
        start(matrix, StepEnding<Spinor, Lattice, true>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              StepFinish{{}, call.cg, call.judge});
    else
        start(matrix, Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha},
              SumFinish{nullptr, call.cg, call.along_p});
}

// The half spinors of a launch, from its `in`.
template <class Spinor, int reals> struct HalvesToSend {
    using Hops = WilsonHops<CutLattice, Spinor, reals, Reuse::keep>;
    using Half = HalfWilsonVector<typename Spinor::Real>;
    using Stored = typename GhostHalves<CutLattice, typename Spinor::Real>::Stored;
    static constexpr bool fits_slot = true;
    static constexpr int vector_bytes = StoredSpinor<Stored>::bytes, bytes = 2 * vector_bytes;
    Hops hops;
    template <int mu> MILCGPU_HD Half half(int side, int i) const { // side 0: for the rank ahead, who has it behind
        return side == 0 ? hops.template half_behind<mu>(hops.in, i, hops.load_link_of(1, mu, i))
                         : hops.template half_ahead<mu>(hops.in, i);
    }
    MILCGPU_HD void load(const Pieces::Piece &piece, int e, uint32_t *w) const {
        Site s;
        if (!hops.lattice.sent(1 - hops.parity, piece.mu, piece.side, 0, e, s))
            return;
        const int i = s.index(), side = piece.side;
        const Half h = piece.mu == 0   ? half<0>(side, i)
                       : piece.mu == 1 ? half<1>(side, i)
                       : piece.mu == 2 ? half<2>(side, i)
                                       : half<3>(side, i);
        Stored::encode(h.d[0], w);
        Stored::encode(h.d[1], w + vector_bytes / 4);
    }
    MILCGPU_HD void store(const Pieces::Piece &piece, int e, const uint32_t *w) const {
        const size_t places = hops.ghosts.places, at = hops.lattice.ghost[piece.mu][piece.side] + e - hops.ghosts.first;
        store_element<vector_bytes, Stored::word_bytes>(hops.ghosts.data, 2 * places, at, w);
        store_element<vector_bytes, Stored::word_bytes>(hops.ghosts.data, 2 * places, places + at,
                                                        w + vector_bytes / 4);
    }
};

template <class Spinor, int reals> void send_halves(const WilsonCall &call) {
    using Ends = HalvesToSend<Spinor, reals>;
    Ends ends{};
    ends.hops.fill(call);
    Pieces pieces;
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && call.lattice.cut(mu); ++side)
            pieces.add(mu, side, 0, call.lattice.layer[mu]);
    call.halo->halo.template pass<Ends::bytes>("the halo of a Wilson vector", pieces, ends);
}

// The rows of one precision. On cut lattices they take one source.
template <class Where, class Spinor, class Shape>
void add_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    const auto add = [&](auto reals) {
        table.push_back({Spinor::precision,
                         reals,
                         launch_wilson_one<Where, Spinor, reals, Shape>,
                         nullptr,
                         file,
                         {Shape::block, Shape::min_blocks, 1},
                         {sources_a_block * tile_sites, Shape::min_blocks_of_sources, Shape::together}});
        WilsonKernel &row = table.back();
        if constexpr (std::is_same<Where, OnThisBackend>::value)
            row.launch_several = launch_wilson_of_sources<Spinor, reals, Shape>;
        if constexpr (std::is_same<Where, CutLattice>::value)
            row.send = send_halves<Spinor, reals>;
    };
    add(std::integral_constant<int, 18>());
    add(std::integral_constant<int, 12>());
    add(std::integral_constant<int, 8>());
}

// In double registers are not bounded: few threads with many loads in flight. In single and half 2 blocks of 256
// threads an SM leave 128 registers. In half links are 16-bit fixed point, spinors an exponent a colour vector;
// arithmetic is in single.
template <class Where> void double_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorDouble, WilsonShape<1, 128, 1, 1>>(table, file);
}
template <class Where> void single_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorSingle, WilsonShape<2, 128, 2, 2>>(table, file);
}
template <class Where> void half_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorHalf, WilsonShape<2, 128, 2, 2>>(table, file);
}

} // namespace milcgpu
