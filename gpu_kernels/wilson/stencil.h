// The stencil of wilson.h, once, and its launches. A translation unit a precision (double.cu, single.cu, half.cu)
// instantiates it for its spinor format and all reconstructions.
//
// One thread a site. Each link is read once in a launch (streaming loads) and decoded once for both colour vectors of
// the half spinor; each spinor is read 8 times, through the caches: consecutive sites of a stripe keep all loads
// coalesced.
#pragma once
#include "gpu_kernels/dslash/endings.h"
#include "gpu_kernels/su3/reconstruct.h"
#include "gpu_kernels/wilson/clover.h"
#include "gpu_kernels/wilson/gamma.h"
#include "gpu_kernels/wilson/wilson.h"

namespace milcgpu {

// D_s at a site.
template <class Spinor, int reals> struct WilsonHops {
    static constexpr Precision link = Spinor::precision;
    using Real = typename Spinor::Real;
    using Vec = Vector<Real>;

    Lattice lattice;
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

    template <int mu> MILCGPU_HD void add_direction(WilsonVector<Real> &sum, const Site &site, int i) const {
        const int forward = lattice.forward(site, mu, 1), backward = lattice.backward(site, mu, 1);
        {
            const auto u = load_link_of(0, mu, i);
            const HalfWilsonVector<Real> h = project<mu>(load(in, forward), sign);
            HalfWilsonVector<Real> moved = {};
            u.add_forward(moved.d[0], h.d[0]);
            u.add_forward(moved.d[1], h.d[1]);
            add_both_halves<mu>(sum, moved, sign);
        }
        {
            const auto u = load_link_of(1, mu, backward);
            const HalfWilsonVector<Real> h = project<mu>(load(in, backward), -sign);
            HalfWilsonVector<Real> moved = {}; // - U^dag h
            u.subtract_backward(moved.d[0], h.d[0]);
            u.subtract_backward(moved.d[1], h.d[1]);
            subtract_both_halves<mu>(sum, moved, -sign);
        }
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
template <class Spinor, int reals, class Term> struct WilsonHop : WilsonHops<Spinor, reals> {
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
template <class Spinor, int reals, class Term> struct WilsonMatrixForm : WilsonHops<Spinor, reals> {
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
template <class Spinor, int reals, int min_blocks, int block, class Term>
void launch_wilson_with(Device &device, const WilsonCall &call, Epilogue epilogue, const Term &term) {
    const LinkField &links = *call.links;
    const int n = call.lattice.sites(call.parity);
    const auto fill = [&](auto &body) {
        using Real = typename Spinor::Real;
        body.lattice = call.lattice;
        body.parity = call.parity;
        body.stride = call.in.stride, body.component = links.stride();
        body.in = call.in.data;
        for (const int other : {0, 1})
            body.links[other] = links.block((call.parity + other) % 2, 0);
        body.link_block = links.block_bytes();
        body.sign = static_cast<Real>(call.sign);
        body.term = term;
        body.turn = static_cast<Real>(epilogue == Epilogue::plain ? 1 : -1);
    };
    const SumLaunch how{"launch the Wilson operator", call.cg != nullptr ? &call.cg->active : call.gate, block,
                        call.defer};
    using Hop = WilsonHop<Spinor, reals, Term>;
    using Matrix = WilsonMatrixForm<Spinor, reals, Term>;
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
        start(StepEnding<Spinor, Lattice, true>{call.x.data, call.z.data, call.out.data, call.s.data, call.cg}, step);
    else
        start(ending, plain);
}

template <class Spinor, int reals, int min_blocks, int block>
void launch_wilson(Device &device, const WilsonCall &call, Epilogue epilogue) {
    if (call.clover == nullptr)
        return launch_wilson_with<Spinor, reals, min_blocks, block>(device, call, epilogue, UnitTerm());
    const CloverTerm<Spinor::precision> term{CloverView<Spinor::precision>(*call.clover), call.parity};
    launch_wilson_with<Spinor, reals, min_blocks, block>(device, call, epilogue, term);
}

// The rows of one precision.
template <class Spinor, int min_blocks, int block>
void add_wilson_rows(std::vector<WilsonKernel> &table, const char *file) {
    const auto add = [&](auto reals) {
        table.push_back(
            {Spinor::precision, reals, launch_wilson<Spinor, reals, min_blocks, block>, file, block, min_blocks});
    };
    add(std::integral_constant<int, 18>());
    add(std::integral_constant<int, 12>());
    add(std::integral_constant<int, 8>());
}

} // namespace milcgpu
