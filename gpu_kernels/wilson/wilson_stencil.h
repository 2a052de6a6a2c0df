// The stencil of wilson.h, its launches, and the rows of the table: all reconstructions for each spinor format.
// wilson_rows.cu instantiates them.
//
// One thread a site, or two. Each link is read once in a launch (streaming loads) and decoded once for both colour
// vectors of the half spinor; each spinor is read 8 times, through the caches: consecutive sites of a stripe keep all
// loads coalesced. Several sources: a thread does one or two of them at a site, with one decoded link for both; the
// others of its block find the links in L1.
#pragma once
#include "gpu_kernels/fields/reconstruct.h"
#include "gpu_kernels/machine/backend/reduce_pairs.h"
#include "gpu_kernels/stencil/sources.h"
#include "gpu_kernels/wilson/clover_term.h"
#include "gpu_kernels/wilson/gamma.h"
#include "gpu_kernels/wilson/wilson.h"

namespace milcgpu {

// Half spinors of the neighbours' sites (half_spinor_halo.h); a whole lattice has none.
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

// y + s i^power x, for stored vectors. In half precision both are made floats without subtracting their bias, and it is
// subtracted once, from the sum: one fused multiply-add for each real of y and x. If the exponent of x is larger, this
// rounds y to half a unit of x.
template <int power, class Spinor>
MILCGPU_HD Vector<typename Spinor::Real> add_turned(const StoredSpinor<Spinor> &y, typename Spinor::Real s,
                                                    const StoredSpinor<Spinor> &x) {
    if constexpr (std::is_same<Spinor, SpinorHalf>::value) {
        const SpinorHalf::Biased a(y.w), b(x.w);
        constexpr float bias = SpinorHalf::bias;
        const float of_x = s * b.scale, of_y = -bias * a.scale;
        const float offset_re = fmaf(power == 0 ? -bias : bias, of_x, of_y), offset_im = fmaf(-bias, of_x, of_y);
        Vector<float> sum;
        MILCGPU_UNROLL
        for (int c = 0; c < 3; ++c) {
            const Complex<float> turned = times_i(b.x.c[c], power), own = a.x.c[c];
            sum.c[c] = {fmaf(turned.re, of_x, fmaf(own.re, a.scale, offset_re)),
                        fmaf(turned.im, of_x, fmaf(own.im, a.scale, offset_im))};
        }
        return sum;
    } else {
        return add_turned<power>(Spinor::decode(y.w), s, Spinor::decode(x.w));
    }
}

// D_s at a site. Where: Lattice, or CutLattice.
template <class Where, class Spinor, int reals, Reuse of_links> struct WilsonHops {
    static constexpr Precision link = Spinor::precision;
    static constexpr bool on_host = host_takes<Where> || of_links == Reuse::keep; // keep: several sources
    using Real = typename Spinor::Real;
    using Vec = WilsonVector<Real>;

    Where lattice;
    GhostHalves<Where, Real> ghosts;
    int parity;
    size_t stride;    // of the spinors: spins times that of the links
    size_t component; // elements from one component to the next
    const unsigned char *in;
    const unsigned char *links[2]; // on the sites' own parity and on the other, mu 0
    size_t link_block;             // bytes from one mu to the next
    Real sign;                     // s
    CloverView<link> clover;       // C on the sites' own parity; no data: 1

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

    using Raw = RawLink<link, reals>;
    using LinkOf = Link<link, reals>;
    MILCGPU_HD Raw load_raw(int other, int mu, int i) const {
        return load_link<link, reals, of_links>(links[other] + mu * link_block, component, i);
    }
    MILCGPU_HD LinkOf load_link_of(int other, int mu, int i) const { return LinkOf(load_raw(other, mu, i)); }

    MILCGPU_HD bool is_ghost([[maybe_unused]] int mu, [[maybe_unused]] int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            return lattice.cut(mu) && at >= lattice.first_ghost;
        return false;
    }
    // The upper half of (1 + s gamma_mu) psi at a site, for s with these signs.
    template <int power>
    MILCGPU_HD HalfWilsonVector<Real> projected(int mu, const unsigned char *field, int i,
                                                const GammaSigns<Real> &s) const {
        const int first = gamma_crosses(mu) ? 3 : 2, component_ = static_cast<int>(component);
        StoredSpinor<Spinor> psi[spins]; // the lower vectors in the order of mu (gamma.h)
        const int at[spins] = {i, component_ + i, first * component_ + i, (5 - first) * component_ + i};
        MILCGPU_UNROLL
        for (int d = 0; d < spins; ++d)
            load_element<StoredSpinor<Spinor>::bytes, Spinor::word_bytes, Reuse::keep>(field, stride, at[d], psi[d].w);
        return {
            {add_turned<power, Spinor>(psi[0], s.first, psi[2]), add_turned<power, Spinor>(psi[1], s.second, psi[3])}};
    }
    // The half spinor that a site needs of its neighbour ahead.
    template <int power> MILCGPU_HD HalfWilsonVector<Real> half_ahead(int mu, const unsigned char *from, int at) const {
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, at))
                return ghosts.load(at);
        return projected<power>(mu, from, at, GammaSigns<Real>(mu, sign));
    }
    // And of the neighbour behind: the half of U^dag (1 - s gamma_mu) psi, with that neighbour's link.
    template <int power>
    MILCGPU_HD HalfWilsonVector<Real> half_behind(int mu, const unsigned char *from, int at, const LinkOf &u) const {
        const HalfWilsonVector<Real> h = projected<power>(mu, from, at, GammaSigns<Real>(mu, -sign));
        return {{u.backward(h.d[0]), u.backward(h.d[1])}};
    }

    // For a site and directions 2 pair and 2 pair + 1, which have one order: where its neighbours are.
    struct Near {
        int forward[2], backward[2];
    };
    MILCGPU_HD Near near(const Site &site, int pair) const {
        const int mu = 2 * pair;
        return {{lattice.forward(site, mu, 1), lattice.forward(site, mu + 1, 1)},
                {lattice.backward(site, mu, 1), lattice.backward(site, mu + 1, 1)}};
    }
    // The links of a direction.
    struct Links {
        Raw ahead, behind;
    };
    MILCGPU_HD Links load_links(int mu, int i, int backward) const {
        return {load_raw(0, mu, i), load_raw(1, mu, backward)};
    }
    // False if the site behind may be a ghost, which has no link.
    static constexpr bool loads_both = !std::is_same<Where, CutLattice>::value;

    // Adds both terms of direction mu to sum[r], in the order of mu, for `count` sources, which are at from[r]; one
    // source if the lattice is cut. loaded: the links of mu, or nullptr.
    template <int power, int count>
    MILCGPU_HD void add_direction(Vec (&sum)[count], const unsigned char *const (&from)[count], int mu, int i,
                                  int forward, int backward, const Links *loaded) const {
        const GammaSigns<Real> signs(mu, sign);
        const LinkOf ahead(loaded != nullptr ? loaded->ahead : load_raw(0, mu, i));
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r) {
            const HalfWilsonVector<Real> h = half_ahead<power>(mu, from[r], forward);
            add_both_halves<power>(sum[r], {{ahead.forward(h.d[0]), ahead.forward(h.d[1])}}, signs);
        }
        const GammaSigns<Real> opposite(mu, -sign);
        if constexpr (std::is_same<Where, CutLattice>::value)
            if (is_ghost(mu, backward))
                return add_both_halves<power>(sum[0], ghosts.load(backward), opposite);
        const LinkOf behind(loaded != nullptr ? loaded->behind : load_raw(1, mu, backward));
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            add_both_halves<power>(sum[r], half_behind<power>(mu, from[r], backward, behind), opposite);
    }
    // Directions 2 pair and 2 pair + 1. loaded: the links of the first one, or nullptr.
    template <int count>
    MILCGPU_HD_ONCE void add_pair(Vec (&sum)[count], const unsigned char *const (&from)[count], const Near &near,
                                  int pair, int i, const Links *loaded = nullptr) const {
        const int mu = 2 * pair;
        Links first, second;
        if constexpr (loads_both)
            first = loaded != nullptr ? *loaded : load_links(mu, i, near.backward[0]);
        add_direction<gamma_power(0)>(sum, from, mu, i, near.forward[0], near.backward[0],
                                      loads_both ? &first : nullptr);
        if constexpr (loads_both)
            second = load_links(mu + 1, i, near.backward[1]);
        add_direction<gamma_power(1)>(sum, from, mu + 1, i, near.forward[1], near.backward[1],
                                      loads_both ? &second : nullptr);
    }

    // The neighbours in all directions: preparation without access to memory.
    struct AllNear {
        Near near[2];
    };
    MILCGPU_HD AllNear prepare(int i) const {
        const Site site = lattice.site(parity, i);
        return {{near(site, 0), near(site, 1)}};
    }
    template <int count>
    MILCGPU_HD void all(int i, const AllNear &prepared, const unsigned char *const (&from)[count],
                        Vec (&sum)[count]) const {
        add_pair(sum, from, prepared.near[0], 0, i);
        MILCGPU_UNROLL
        for (int r = 0; r < count; ++r)
            sum[r] = {{sum[r].d[0], sum[r].d[1], sum[r].d[3], sum[r].d[2]}};
        add_pair(sum, from, prepared.near[1], 1, i);
    }

    // The sum over one pair of directions: spins 2 pair and 2 pair + 1, which thread `pair` of a site completes, and
    // the other spins.
    struct OfPair {
        HalfWilsonVector<Real> kept, given;
    };
    // With the first links loaded.
    struct PreparedPair {
        Near near;
        Links links;
    };
    MILCGPU_HD PreparedPair prepare_pair(int i, int pair) const {
        PreparedPair made;
        made.near = near(lattice.site(parity, i), pair);
        if constexpr (loads_both)
            made.links = load_links(2 * pair, i, made.near.backward[0]);
        return made;
    }
    MILCGPU_HD OfPair of_pair(int i, int pair, const PreparedPair &prepared) const {
        const unsigned char *const from[1] = {in};
        Vec sum[1] = {};
        add_pair(sum, from, prepared.near, pair, i, loads_both ? &prepared.links : nullptr);
        const HalfWilsonVector<Real> upper = {{sum[0].d[0], sum[0].d[1]}}, lower = {{sum[0].d[2], sum[0].d[3]}};
        if (pair == 0)
            return {upper, {{lower.d[1], lower.d[0]}}};
        return {lower, upper};
    }

    // v = C v, for the spins of a chirality.
    MILCGPU_HD_ONCE void multiply_by_clover(int i, int chirality, HalfWilsonVector<Real> &v) const {
        if (clover.data != nullptr)
            multiply(clover.template load<of_links>(parity, chirality, i), v.d[0], v.d[1]);
    }
};

// v = C D_s in. made() computes a chirality of v from the sum of the hops, for the source that starts `offset` bytes
// after the first.
template <class Where, class Spinor, int reals, Reuse of_links>
struct WilsonHop : WilsonHops<Where, Spinor, reals, of_links> {
    using Base = WilsonHops<Where, Spinor, reals, of_links>;
    using typename Base::Real;
    static constexpr bool is_plain = true; // in every row
    Real scale;                            // of the links
    void fill(const WilsonCall &call) {
        Base::fill(call);
        scale = static_cast<Real>(call.links->scale);
    }
    MILCGPU_HD HalfWilsonVector<Real> made(int i, size_t, int chirality, const HalfWilsonVector<Real> &hops) const {
        HalfWilsonVector<Real> v = {{scale * hops.d[0], scale * hops.d[1]}};
        this->multiply_by_clover(i, chirality, v);
        return v;
    }
};

// v = C own - factor D_s in
template <class Where, class Spinor, int reals, Reuse of_links>
struct WilsonMatrixForm : WilsonHops<Where, Spinor, reals, of_links> {
    using Base = WilsonHops<Where, Spinor, reals, of_links>;
    using typename Base::Real;
    static constexpr bool is_plain = false;
    Real factor; // with the scale of the links
    const unsigned char *own;
    void fill(const WilsonCall &call) {
        Base::fill(call);
        factor = static_cast<Real>(call.factor * call.links->scale);
        own = call.own.data;
    }
    MILCGPU_HD HalfWilsonVector<Real> made(int i, size_t offset, int chirality,
                                           const HalfWilsonVector<Real> &hops) const {
        const auto load = [&](int spin) {
            return load_spinor<Spinor, Reuse::written>(own + offset, this->stride, spin * this->component + i);
        };
        HalfWilsonVector<Real> v = {{load(2 * chirality), load(2 * chirality + 1)}};
        this->multiply_by_clover(i, chirality, v);
        return {{v.d[0] - factor * hops.d[0], v.d[1] - factor * hops.d[1]}};
    }
};

// The end of a component: out = v, without sums.
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

// True if a launch finds neighbours before the previous launch has ended (prepares, in reduce.h). The step in half does
// not: it takes 42 to 45 us without, 46 to 49 with (24^3 x 32, H200).
template <class Spinor, class End> constexpr bool finds_early = Spinor::precision != Precision::half || End::sums != 2;

// Form: WilsonHop or WilsonMatrixForm. The endings of the staggered operator that add a x take -v. With of_pair and
// complete_half, two threads share a site (reduce_pairs.h): each does a pair of directions and completes a chirality.
template <class Form, class Spinor, class End_>
struct WilsonStencil : Form, Preparing<typename Form::AllNear, finds_early<Spinor, End_>> {
    using End = End_;
    using typename Form::Real;
    using typename Form::Vec;
    using Half = HalfWilsonVector<Real>;
    static constexpr bool ordered = std::is_same<Real, double>::value;
    End end;
    Real turn; // 1 or -1
    void fill(const WilsonCall &call, Epilogue epilogue, const End &of_first) {
        Form::fill(call);
        end = of_first;
        turn = epilogue == Epilogue::plain ? 1 : -1;
    }
    MILCGPU_HD Sums<End::sums> operator()(int i) const { return (*this)(i, this->prepare(i)); }
    MILCGPU_HD Sums<End::sums> operator()(int i, const typename Form::AllNear &prepared) const {
        const unsigned char *const from[1] = {this->in};
        Vec sum[1] = {};
        this->all(i, prepared, from, sum);
        return complete(i, 0, sum[0], end);
    }
    MILCGPU_HD Sums<End::sums> complete_half(int i, int pair, const Half &kept, const Half &received) const {
        return complete(i, 0, pair, {{kept.d[0] + received.d[0], kept.d[1] + received.d[1]}}, end);
    }
    // Everything after the hops, for the source that starts `offset` bytes after the first; `own` is its ending.
    MILCGPU_HD Sums<End::sums> complete(int i, size_t offset, const Vec &hops, const End &own) const {
        Sums<End::sums> sum = complete(i, offset, 0, {{hops.d[0], hops.d[1]}}, own);
        sum.add(complete(i, offset, 1, {{hops.d[2], hops.d[3]}}, own));
        return sum;
    }
    MILCGPU_HD Sums<End::sums> complete(int i, size_t offset, int chirality, const Half &hops, const End &own) const {
        const Half v = this->made(i, offset, chirality, hops);
        Sums<End::sums> sum = {};
        MILCGPU_UNROLL
        for (int k = 0; k < 2; ++k) {
            StoredSpinor<Spinor> made;
            const int at = (2 * chirality + k) * static_cast<int>(this->component) + i;
            sum.add(own(this->stride, at, Form::is_plain ? v.d[k] : turn * v.d[k], made));
        }
        return sum;
    }
};

// Several sources, for launch_sum_sources. together: 1 or 2.
template <class Stencil, int together_> struct WilsonSources {
    static constexpr int together = together_;
    static constexpr bool ordered = Stencil::ordered;
    using End = typename Stencil::End;
    Stencil first; // of source 0
    size_t source_bytes;
    const CgState *cg; // nullptr: all sources have one gate
    const int *gate;
    MILCGPU_HD bool open(int k) const {
        const int *const flag = cg != nullptr ? &cg[k].active : gate;
        return flag == nullptr || *flag != 0;
    }
    ActiveSources active() const {
        return cg != nullptr ? ActiveSources{&cg->active, sizeof *cg} : ActiveSources{gate, 0};
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
        for (int r = 0; r < count; ++r) { // the other one again if a source is not open
            offset[r] = (k + (open[r] ? r : count - 1 - r)) * source_bytes;
            from[r] = first.in + offset[r];
            any |= open[r];
        }
        if (!any)
            return;
        typename Stencil::Vec hops[count] = {};
        first.all(i, first.prepare(i), from, hops);
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

// How the GPU launches a row. One source: threads a block, how many blocks must fit on an SM, which limits the
// registers of a thread (blocks of 256 threads; in pairs of their 128), and whether two threads share a site. Several
// sources: blocks of 256 threads that must fit, and sources a thread.
template <int block_, int min_blocks_, bool in_pairs_, int min_blocks_of_sources_, int together_> struct WilsonShape {
    static constexpr int block = block_, min_blocks = min_blocks_;
    static constexpr bool in_pairs = in_pairs_;
    static constexpr int min_blocks_of_sources = min_blocks_of_sources_, together = together_;
};

inline SlicesRead slices_read(const WilsonCall &call) {
    return SlicesRead::of(call.lattice.extent[3], 1,
                          static_cast<double>(call.lattice.sites(1 - call.parity)) * wilson_components *
                              spinor_bytes(call.in.precision) * call.in.sources);
}

template <class Where, class Spinor, int reals, class Shape>
void launch_wilson_one(Device &device, const WilsonCall &call, Epilogue epilogue) {
    const SumLaunch how{"launch the Wilson operator",
                        call.cg != nullptr ? &call.cg->active : call.gate,
                        Shape::block,
                        call.defer,
                        true,
                        slices_read(call)};
    const auto start = [&](auto form, const auto &end, const auto &finish, const auto &pending) {
        using End = std::decay_t<decltype(end)>;
        WilsonStencil<decltype(form), Spinor, End> body{};
        body.fill(call, epilogue, end);
        const int sites = call.lattice.sites(call.parity);
        if constexpr (Shape::in_pairs)
            launch_sum_in_pairs<End::sums, Shape::min_blocks>(device, sites, body, finish, how, call.links_at_rest,
                                                              pending);
        else
            launch_sum<End::sums, Shape::min_blocks>(device, sites, body, finish, how, pending);
    };
    const SumFinish plain{call.sum, call.cg, call.along_p};
    const StepFinish step{{}, call.cg, call.check_convergence};
    if (call.form == WilsonForm::hop) {
        const ReduceShape before(call.lattice.sites(1 - call.parity));
        const Pending<1, SumFinish> of_plain{
            {reinterpret_cast<Sums<1> *>(call.after_step ? nullptr : call.pending), before, queue_of(device).waits()},
            plain};
        const Pending<2, StepFinish> of_step{
            {reinterpret_cast<Sums<2> *>(call.after_step ? call.pending : nullptr), before, queue_of(device).waits()},
            step};
        const auto hop = [&](auto form) {
            start(form, PlainEnding<Spinor>{call.out.data}, SumFinish{nullptr, nullptr, false},
                  EitherPending<Pending<1, SumFinish>, Pending<2, StepFinish>>{of_plain, of_step});
        };
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
            SourcesFinish<std::decay_t<decltype(finish)>>{finish}, "launch the Wilson operator on several sources",
            slices_read(call));
    };
    const WilsonMatrixForm<Lattice, Spinor, reals, Reuse::keep> matrix{};
    if (call.form == WilsonForm::hop)
        start(WilsonHop<Lattice, Spinor, reals, Reuse::keep>(), PlainEnding<Spinor>{call.out.data},
              SumFinish{nullptr, nullptr, false});
    else if (epilogue == Epilogue::step)
        start(matrix, StepEnding<Spinor, Lattice, true>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg},
              StepFinish{{}, call.cg, call.check_convergence});
    else
        start(matrix, Ending<Spinor>{epilogue, call.x.data, call.z.data, call.out.data, call.a, call.alpha},
              SumFinish{nullptr, call.cg, call.along_p});
}

// The rows of one precision. On cut lattices they have one source.
template <class Where, class Spinor, int reals, class Shape> void add_wilson_row(std::vector<WilsonKernel> &table) {
    constexpr Precision p = Spinor::precision;
    WilsonKernel row{
        {{p, p, reals}, launch_wilson_one<Where, Spinor, reals, Shape>, {Shape::block, Shape::min_blocks, 1}},
        nullptr,
        {sources_a_block * tile_sites, Shape::min_blocks_of_sources, Shape::together}};
    if constexpr (std::is_same<Where, OnThisBackend>::value)
        row.launch_several = launch_wilson_of_sources<Spinor, reals, Shape>;
    table.push_back(row);
}

// In double, and in single with 18 and 12 reals, two threads share a site: half as much work a thread leaves less of
// the GPU idle at the end of a launch. With 8 reals, and in half, instructions limit the speed, and threads in pairs
// have more of them. Otherwise 2 blocks of 256 threads on an SM leave 128 registers. In half, links are 16-bit fixed
// point and spinors have one exponent for each colour vector; arithmetic is in single.
template <class Where> void double_rows(std::vector<WilsonKernel> &table) {
    using Shape = WilsonShape<128, 3, true, 1, 1>;
    add_wilson_row<Where, SpinorDouble, 18, Shape>(table);
    add_wilson_row<Where, SpinorDouble, 12, Shape>(table);
    add_wilson_row<Where, SpinorDouble, 8, Shape>(table);
}
template <class Where> void single_rows(std::vector<WilsonKernel> &table) {
    add_wilson_row<Where, SpinorSingle, 18, WilsonShape<128, 4, true, 2, 2>>(table);
    add_wilson_row<Where, SpinorSingle, 12, WilsonShape<128, 4, true, 2, 2>>(table);
    add_wilson_row<Where, SpinorSingle, 8, WilsonShape<64, 2, false, 2, 2>>(table);
}
template <int reals> using HalfShape = WilsonShape<reals == 18 ? 64 : 256, 2, false, 2, 2>;
// These take long to compile, so wilson_half_sources.cu has them.
extern template void launch_wilson_of_sources<SpinorHalf, 18, HalfShape<18>>(Device &, const WilsonCall &, Epilogue);
extern template void launch_wilson_of_sources<SpinorHalf, 12, HalfShape<12>>(Device &, const WilsonCall &, Epilogue);
extern template void launch_wilson_of_sources<SpinorHalf, 8, HalfShape<8>>(Device &, const WilsonCall &, Epilogue);
template <class Where> void half_rows(std::vector<WilsonKernel> &table) {
    add_wilson_row<Where, SpinorHalf, 18, HalfShape<18>>(table);
    add_wilson_row<Where, SpinorHalf, 12, HalfShape<12>>(table);
    add_wilson_row<Where, SpinorHalf, 8, HalfShape<8>>(table);
}

} // namespace milcgpu
