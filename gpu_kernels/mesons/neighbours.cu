// Sums over neighbours of mesons.h: covariant shifts, operators of one to four links, the Laplacian. One thread a site
// and one source, or up to three; each matrix is loaded twice, at both ends of its path, the second time from a cache.
// Rolled over the steps: both terms of a step are loaded before one is added, which keeps enough loads on their way (on
// an H200, 3 sources in double: 107 us for the Laplacian at 24^3x32, 123 us with one term after the other).
//
// Bytes a site at the least: a matrix a step, and a source two vectors, in and out; a dot product reads both and writes
// a number of 16 bytes. In double: shift 240, four-link operator 1248, Laplacian 528, of three sources 720. Flops: 144
// a step and source.
#include "gpu_kernels/links/matrix_view.h"
#include "gpu_kernels/mesons/mesons.h"

namespace milcgpu {

namespace {

template <Precision p> struct SpinorOf { using Type = SpinorDouble; };
template <> struct SpinorOf<Precision::single> { using Type = SpinorSingle; };

template <Precision p> struct FullView {
    using S = typename SpinorOf<p>::Type;
    using Vec = Vector<typename S::Real>;
    unsigned char *even, *odd;
    size_t stride, source_bytes;
    explicit FullView(const FullVectors &v)
        : even(v.even.data), odd(v.odd.data), stride(v.even.stride), source_bytes(v.even.source_bytes) {}
    MILCGPU_HD unsigned char *at(int parity, int source) const {
        return (parity != 0 ? odd : even) + source * source_bytes;
    }
    MILCGPU_HD Vec load(int parity, int source, int i) const { return load_spinor<S>(at(parity, source), stride, i); }
    // Where `out` is `in`.
    MILCGPU_HD Vec load_own(int parity, int source, int i) const {
        return load_spinor<S, Reuse::written>(at(parity, source), stride, i);
    }
    MILCGPU_HD void store(int parity, int source, int i, const Vec &x) const {
        store_spinor<S>(at(parity, source), stride, i, x);
    }
};

// A step in four bits a direction: 8 more than its component.
uint32_t packed(const Step &step) {
    uint32_t bits = 0;
    for (int mu = 0; mu < 4; ++mu)
        bits |= static_cast<uint32_t>(step[mu] + 8) << 4 * mu;
    return bits;
}
MILCGPU_HD int component(uint32_t step, int mu) { return static_cast<int>(step >> 4 * mu & 15u) - 8; }

constexpr int most_steps = 8;
constexpr int most_together = 3; // sources that share the loads of the links

// End: what is done with the sum at a site, for sources first, first + 1, .. of which there are `together`. The last of
// them may be beyond the last source: they repeat that one, and are not for use.
template <Precision p, int together, class End> struct SumNeighbours {
    using Real = typename LinkReal<p>::Real;
    using Vec = Vector<Real>;
    Lattice lattice;
    SitesAndParts work;
    int first_site; // of the slice, within a parity
    MatrixView<p> links;
    FullView<p> in;
    uint32_t steps[most_steps];
    int n_steps, first_slot, other, sources, t_sign; // other: 1 where neighbours are on the other parity
    bool ahead, behind, negative;
    unsigned mask;
    Real self, neighbours;
    End end;

    struct Term {
        Matrix<Real> w;
        Vec v[together];
    };
    template <bool back> MILCGPU_HD Term term(const Site &x, int parity, int s, int first) const {
        const uint32_t step = steps[s];
        int index = 0;
        bool crosses = false;
        MILCGPU_UNROLL
        for (int mu = 0; mu < 4; ++mu) {
            const int hop = back ? -component(step, mu) : component(step, mu), n = lattice.extent[mu];
            int to = x.x[mu] + hop;
            to += to < 0 ? n : to >= n ? -n : 0;
            index += to * lattice.stride_lexicographic[mu];
            if (mu == 3)
                crosses = hop != 0 && (hop > 0 ? x.x[mu] : to) == t_sign;
        }
        index >>= 1;
        const int there = parity ^ other;
        Term made;
        made.w = links.load(back ? there : parity, first_slot + s, back ? index : x.index());
        const Real turn = crosses == back ? Real(1) : Real(-1); // what is subtracted below is turned once more
        MILCGPU_UNROLL
        for (int r = 0; r < together; ++r)
            made.v[r] = turn * in.load(there, first + r < sources ? first + r : sources - 1, index);
        return made;
    }
    template <bool back> MILCGPU_HD void add(Vec (&sum)[together], const Term &term) const {
        MILCGPU_UNROLL
        for (int r = 0; r < together; ++r)
            if (back)
                adjoint_multiply_subtract(sum[r], term.w, term.v[r]);
            else
                multiply_add(sum[r], term.w, term.v[r]);
    }

    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int i = item.i + first_site, parity = item.parity, first = item.part * together;
        const Site x = lattice.site(parity, i);
        Vec sum[together] = {};
        MILCGPU_ROLLED
        for (int s = 0; s < n_steps; ++s) {
            if (ahead && behind) {
                const Term from_behind = term<true>(x, parity, s, first), from_ahead = term<false>(x, parity, s, first);
                add<false>(sum, from_ahead);
                add<true>(sum, from_behind);
            } else if (ahead) {
                add<false>(sum, term<false>(x, parity, s, first));
            } else {
                add<true>(sum, term<true>(x, parity, s, first));
            }
        }
        const bool minus = (odd_coordinates(x, mask) != 0) != negative;
        const Real scale = minus ? -neighbours : neighbours, own = minus ? -self : self;
        MILCGPU_UNROLL
        for (int r = 0; r < together; ++r) {
            if (first + r >= sources)
                continue;
            sum[r] = scale * sum[r];
            if (own != 0)
                sum[r] = sum[r] + own * in.load_own(parity, first + r, i);
        }
        end(sum, parity, i, first, sources);
    }
};

template <Precision p> struct StoreVectors {
    FullView<p> out;
    template <int together>
    MILCGPU_HD void operator()(const typename FullView<p>::Vec (&made)[together], int parity, int i, int first,
                               int sources) const {
        MILCGPU_UNROLL
        for (int r = 0; r < together; ++r)
            if (first + r < sources)
                out.store(parity, first + r, i, made[r]);
    }
};

template <Precision p> struct DotVectors {
    FullView<p> other;
    Complex<double> *numbers;
    int even_sites;
    Dot how;
    template <int together>
    MILCGPU_HD void operator()(const typename FullView<p>::Vec (&made)[together], int parity, int i, int first,
                               int sources) const {
        Complex<double> sum = {};
        MILCGPU_UNROLL
        for (int r = 0; r < together; ++r) {
            if (first + r >= sources)
                continue;
            const Vector<double> a = convert<double>(made[r]), b = convert<double>(other.load(parity, first + r, i));
            MILCGPU_UNROLL
            for (int k = 0; k < 3; ++k)
                sum = plus(sum, conj(a.c[k]), b.c[k]);
        }
        if (how.made_is_right)
            sum = conj(sum);
        Complex<double> &number = numbers[parity * even_sites + i];
        number = how.add ? number + how.factor * sum : how.factor * sum;
    }
};

// A body is made of the work and the ending; parts: threads a site.
template <Precision p, int together, class End>
void start_together(Device &device, const Geometry &geometry, const Neighbours &what, const FullVectors &in, int parts,
                    const End &end) {
    using Real = typename LinkReal<p>::Real;
    const Lattice &lattice = geometry.lattice();
    const int *const n = lattice.extent;
    const bool one = what.slice >= 0;
    const SitesAndParts work(one ? Geometry({n[0], n[1], n[2], 1}) : geometry, parts);
    SumNeighbours<p, together, End> body{
        lattice,
        work,
        one ? what.slice * (n[0] * n[1] * n[2] / 2) : 0,
        what.links != nullptr ? MatrixView<p>(*what.links) : MatrixView<p>(nullptr, 0, 0),
        FullView<p>(in),
        {},
        static_cast<int>(what.steps.size()),
        what.first_slot,
        0,
        in.sources(),
        what.t_sign,
        what.ahead,
        what.behind,
        what.sign.negative,
        what.sign.mask,
        static_cast<Real>(what.self),
        static_cast<Real>(what.links != nullptr ? what.neighbours * what.links->scale : 0),
        end};
    for (size_t s = 0; s < what.steps.size(); ++s)
        body.steps[s] = packed(what.steps[s]);
    if (!what.steps.empty())
        for (const int hop : what.steps[0])
            body.other ^= hop & 1;
    launch_bounded<128, p == Precision::double_ ? 3 : 4>(device, work.threads(), body, "sum over neighbours");
}

template <Precision p, class End>
void start(Device &device, const Geometry &geometry, const Neighbours &what, const FullVectors &in, const End &end) {
    if (in.sources() == 1)
        start_together<p, 1>(device, geometry, what, in, 1, end);
    else
        start_together<p, most_together>(device, geometry, what, in, (in.sources() - 1) / most_together + 1, end);
}

void check(const Geometry &geometry, const Neighbours &what, const FullVectors &in, const FullVectors &with) {
    const int steps = static_cast<int>(what.steps.size());
    if (geometry.is_cut())
        throw Error(Status::not_built, "sums over neighbours of quark fields are built for lattices that are whole");
    const bool links_fit = steps == 0 || (what.links != nullptr && what.links->precision() == in.even.precision &&
                                          what.links->reals() == 18 && what.first_slot >= 0 &&
                                          what.first_slot + steps <= what.links->directions());
    if (!links_fit || steps > most_steps || in.even.precision == Precision::half ||
        in.even.precision != with.even.precision || in.sources() != with.sources() || in.odd.sources != in.sources() ||
        with.odd.sources != with.sources())
        throw Error(Status::bad_argument,
                    "sums over neighbours: up to 8 steps, links of 18 reals with a slot for each, "
                    "and as many vectors of their precision on either side, double or single, "
                    "are needed");
    if (what.slice >= geometry.lattice().extent[3])
        throw Error(Status::bad_argument,
                    format("time slice %d: the lattice has %d", what.slice, geometry.lattice().extent[3]));
}

} // namespace

double neighbours_bytes(Precision p, int steps, int sources) {
    return steps * link_bytes(p, 18) + 2 * sources * spinor_bytes(p);
}

void sum_neighbours(Device &device, const Geometry &geometry, const Neighbours &what, const FullVectors &in,
                    const FullVectors &out) {
    check(geometry, what, in, out);
    for_real(in.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        const StoreVectors<p> end{FullView<p>(out)};
        start<p>(device, geometry, what, in, end);
    });
}

void dot_neighbours(Device &device, const Geometry &geometry, const Neighbours &what, const FullVectors &in,
                    const FullVectors &other, const Dot &dot, Complex<double> *numbers) {
    check(geometry, what, in, other);
    for_real(in.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        for (int first = 0; first < in.sources(); first += most_together) {
            const int count = std::min(most_together, in.sources() - first);
            DotVectors<p> end{FullView<p>(other.from(first)), numbers, geometry.sites(0), dot};
            end.how.add = dot.add || first > 0;
            start<p>(device, geometry, what, in.from(first).first(count), end);
        }
    });
}

} // namespace milcgpu
