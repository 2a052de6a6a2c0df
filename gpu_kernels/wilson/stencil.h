// The stencil of wilson.h, once, and its launches. A translation unit a precision (double.cu, single.cu, half.cu)
// instantiates it for its spinor format and all reconstructions.
//
// One thread a site. Each link is read once in a launch (streaming loads) and decoded once for both colour vectors of
// the half spinor; each spinor is read 8 times, through the caches: consecutive sites of a stripe keep all loads
// coalesced.
#pragma once
#include "gpu_kernels/dslash/endings.h"
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
template <class Where, class Spinor, int reals> struct WilsonHops {
    static constexpr Precision link = Spinor::precision;
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;

    Where lattice;
    GhostHalves<Where, Real> ghosts;
    int parity;
    size_t stride;    // of the spinors: spins times that of the links
    size_t component; // elements from one component to the next
    const unsigned char *in;
    const unsigned char *links[2]; // of the sites' own parity and of the other, mu 0
    size_t link_block;             // bytes from one mu to the next
    Real sign;                     // s

    template <Reuse reuse = Reuse::keep> MILCGPU_HD WilsonVector<Real> load(const unsigned char *field, int i) const {
        WilsonVector<Real> psi;
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            psi.d[d] = load_spinor<Spinor, reuse>(field, stride, d * component + i);
        return psi;
    }
    MILCGPU_HD Link<link, reals> load_link_of(int other, int mu, int i) const {
        return Link<link, reals>(load_link<link, reals>(links[other] + mu * link_block, component, i));
    }

    MILCGPU_HD bool is_ghost([[maybe_unused]] int mu, [[maybe_unused]] int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            return lattice.cut(mu) && at >= lattice.first_ghost;
        return false;
    }
    // What a site needs of its neighbour ahead: the upper half of (1 + s gamma_mu) psi.
    template <int mu> MILCGPU_HD HalfWilsonVector<Real> ahead(int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, at))
                return ghosts.load(at);
        return project<mu>(load(in, at), sign);
    }
    // And of the one behind: that of - U^dag (1 - s gamma_mu) psi, with its link.
    template <int mu> MILCGPU_HD HalfWilsonVector<Real> behind(int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, at))
                return ghosts.load(at);
        const auto u = load_link_of(1, mu, at);
        const HalfWilsonVector<Real> h = project<mu>(load(in, at), -sign);
        HalfWilsonVector<Real> moved = {};
        u.subtract_backward(moved.d[0], h.d[0]);
        u.subtract_backward(moved.d[1], h.d[1]);
        return moved;
    }

    template <int mu> MILCGPU_HD void add_direction(WilsonVector<Real> &sum, const Site &site, int i) const {
        const int forward = lattice.forward(site, mu, 1), backward = lattice.backward(site, mu, 1);
        {
            const auto u = load_link_of(0, mu, i);
            const HalfWilsonVector<Real> h = ahead<mu>(forward);
            HalfWilsonVector<Real> moved = {};
            u.add_forward(moved.d[0], h.d[0]);
            u.add_forward(moved.d[1], h.d[1]);
            add_both_halves<mu>(sum, moved, sign);
        }
        subtract_both_halves<mu>(sum, behind<mu>(backward), -sign);
    }

    MILCGPU_HD_ONCE WilsonVector<Real> all(int i) const {
        const Site site = lattice.site(parity, i);
        WilsonVector<Real> sum = {};
        add_direction<0>(sum, site, i);
        add_direction<1>(sum, site, i);
        add_direction<2>(sum, site, i);
        add_direction<3>(sum, site, i);
        return sum;
    }
};

// C of wilson.h, where it is 1. multiply() replaces v by C v at site i.
struct UnitTerm {
    template <class T> MILCGPU_HD void multiply(int, WilsonVector<T> &) const {}
};

// A clover term, or its inverse. See clover.h.
template <Precision p> struct CloverTerm {
    CloverView<p> term;
    int parity;
    template <class T> MILCGPU_HD void multiply(int i, WilsonVector<T> &v) const {
        MILCGPU_UNROLL
        for (int chirality = 0; chirality < 2; ++chirality)
            milcgpu::multiply(term.load(parity, chirality, i), v.d[2 * chirality], v.d[2 * chirality + 1]);
    }
};

// v = C D_s in
template <class Where, class Spinor, int reals, class Term> struct WilsonHop : WilsonHops<Where, Spinor, reals> {
    using Real = typename Spinor::Real;
    Term term;
    Real scale; // of the links
    MILCGPU_HD WilsonVector<Real> value(int i) const {
        WilsonVector<Real> v = this->all(i);
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            v.d[d] = scale * v.d[d];
        term.multiply(i, v);
        return v;
    }
};

// v = C own - factor D_s in
template <class Where, class Spinor, int reals, class Term> struct WilsonMatrixForm : WilsonHops<Where, Spinor, reals> {
    using Real = typename Spinor::Real;
    Term term;
    Real factor; // with the scale of the links
    const unsigned char *own;
    MILCGPU_HD WilsonVector<Real> value(int i) const {
        const WilsonVector<Real> sum = this->all(i);
        WilsonVector<Real> v = this->template load<Reuse::written>(own, i);
        term.multiply(i, v);
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
template <class Form, class Spinor, class End> struct WilsonStencil : Form {
    End end;
    typename Spinor::Real turn; // 1 or -1
    MILCGPU_HD Sums<End::sums> operator()(int i) const {
        const auto v = this->value(i);
        Sums<End::sums> sum = {};
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d) {
            StoredSpinor<Spinor> made;
            sum.add(end(this->stride, static_cast<int>(d * this->component) + i, turn * v.d[d], made));
        }
        return sum;
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

// min_blocks: blocks of 256 threads that must fit on an SM, which bounds the registers a thread; block: threads.
template <class Hops> void fill_hops(Hops &hops, const WilsonCall &call) {
    const LinkField &links = *call.links;
    hops.lattice = call.lattice;
    hops.ghosts.fill(call);
    hops.parity = call.parity;
    hops.stride = call.in.stride, hops.component = links.stride();
    hops.in = call.in.data;
    for (const int other : {0, 1})
        hops.links[other] = links.block((call.parity + other) % 2, 0);
    hops.link_block = links.block_bytes();
    hops.sign = static_cast<typename Hops::Real>(call.sign);
}

template <class Where, class Spinor, int reals, int min_blocks, int block, class Term>
void launch_wilson_with(Device &device, const WilsonCall &call, Epilogue epilogue, const Term &term) {
    const LinkField &links = *call.links;
    const int n = call.lattice.sites(call.parity);
    const auto fill = [&](auto &body) {
        fill_hops(body, call);
        body.term = term;
        body.turn = static_cast<typename Spinor::Real>(epilogue == Epilogue::plain ? 1 : -1);
    };
    const SumLaunch how{"launch the Wilson operator", call.cg != nullptr ? &call.cg->active : call.gate, block,
                        call.defer};
    using Hop = WilsonHop<Where, Spinor, reals, Term>;
    using Matrix = WilsonMatrixForm<Where, Spinor, reals, Term>;
    const Ending<Spinor> ending{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha};
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.judge};
    if (call.form == WilsonForm::hop) {
        WilsonStencil<Hop, Spinor, PlainEnding<Spinor>> body{};
        fill(body);
        body.scale = static_cast<typename Spinor::Real>(links.scale);
        body.end = {call.out.data};
        const ReduceShape before(call.lattice.sites(1 - call.parity));
        const auto start = [&](const auto &pending) {
            launch_sum<1, min_blocks>(device, n, body, SumFinish{nullptr, nullptr, false}, how, pending);
        };
        if (call.after_step)
            start(Pending<2, StepFinish>{{reinterpret_cast<Sums<2> *>(call.pending), before, device.waits()}, step});
        else
            start(Pending<1, SumFinish>{{reinterpret_cast<Sums<1> *>(call.pending), before, device.waits()}, plain});
        return;
    }
    const auto start = [&](const auto &end, const auto &finish) {
        using End = std::decay_t<decltype(end)>;
        WilsonStencil<Matrix, Spinor, End> body{};
        fill(body);
        body.factor = static_cast<typename Spinor::Real>(call.factor * links.scale);
        body.own = call.own.data;
        body.end = end;
        launch_sum<End::sums, min_blocks>(device, n, body, finish, how);
    };
    if (call.dots != nullptr)
        start(DotEnding<Spinor>{call.with.data, call.out.data}, StoreDots{call.dots});
    else if (epilogue == Epilogue::step)
        start(StepEnding<Spinor, Where, true>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg}, step);
    else
        start(ending, plain);
}

template <class Where, class Spinor, int reals, int min_blocks, int block>
void launch_wilson(Device &device, const WilsonCall &call, Epilogue epilogue) {
    if (call.clover == nullptr)
        return launch_wilson_with<Where, Spinor, reals, min_blocks, block>(device, call, epilogue, UnitTerm());
    const CloverTerm<Spinor::precision> term{CloverView<Spinor::precision>(*call.clover), call.parity};
    launch_wilson_with<Where, Spinor, reals, min_blocks, block>(device, call, epilogue, term);
}

// The half spinors of a launch, from its `in`.
template <class Spinor, int reals> struct HalvesToSend {
    using Hops = WilsonHops<CutLattice, Spinor, reals>;
    using Half = HalfWilsonVector<typename Spinor::Real>;
    using Stored = typename GhostHalves<CutLattice, typename Spinor::Real>::Stored;
    static constexpr bool fits_slot = true;
    static constexpr int vector_bytes = StoredSpinor<Stored>::bytes, bytes = 2 * vector_bytes;
    Hops hops;
    template <int mu> MILCGPU_HD Half half(int side, int i) const { // side 0: for the rank ahead, who has it behind
        return side == 0 ? hops.template behind<mu>(i) : hops.template ahead<mu>(i);
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
    fill_hops(ends.hops, call);
    Pieces pieces;
    for (int mu = 0; mu < 4; ++mu)
        for (int side = 0; side < 2 && call.lattice.cut(mu); ++side)
            pieces.add(mu, side, 0, call.lattice.layer[mu]);
    call.halo->halo.template pass<Ends::bytes>("the halo of a Wilson vector", pieces, ends);
}

// The rows of one precision.
template <class Where, class Spinor, int min_blocks, int block>
void add_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    const auto add = [&](auto reals) {
        table.push_back({Spinor::precision, reals, launch_wilson<Where, Spinor, reals, min_blocks, block>, file, block,
                         min_blocks});
        if constexpr (std::is_same<Where, CutLattice>::value)
            table.back().send = send_halves<Spinor, reals>;
    };
    add(std::integral_constant<int, 18>());
    add(std::integral_constant<int, 12>());
    add(std::integral_constant<int, 8>());
}

// In double registers are not bounded: few threads with many loads in flight. In single and half 2 blocks of 256
// threads an SM leave 128 registers. In half links are 16-bit fixed point, spinors an exponent a colour vector;
// arithmetic is in single.
template <class Where> void double_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorDouble, 1, 128>(table, file);
}
template <class Where> void single_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorSingle, 2, 128>(table, file);
}
template <class Where> void half_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    add_wilson_rows<Where, SpinorHalf, 2, 128>(table, file);
}

} // namespace milcgpu
