// Sums over neighbours of quark_operators.h: covariant shifts, operators of one to four links, the Laplacian. One
// thread a site and one source, or up to three; each matrix is loaded twice, at both ends of its path, the second time
// from a cache. The loop over the steps is rolled: both terms of a step are loaded before one is added, which keeps
// enough loads in flight (on an H200, 3 sources in double: 107 us for the Laplacian at 24^3x32, 123 us with one term
// after the other).
//
// Bytes a site, at the least: a matrix for each step, and two vectors for each source, in and out; a dot product reads
// both and writes a number of 16 bytes. In double: shift 240, four-link operator 1248, Laplacian 528, for three sources
// 720. Flops: 144 a step and source.
#include "gpu_kernels/fields/for_real.h"
#include "gpu_kernels/fields/full_view.h"
#include "gpu_kernels/fields/matrix_view.h"
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/measure/quark_operators.h"

namespace milcgpu {

namespace {

// A step with four bits a direction: its component plus 8.
uint32_t packed(const Step &step) {
    uint32_t bits = 0;
    for (int mu = 0; mu < 4; ++mu)
        bits |= static_cast<uint32_t>(step[mu] + 8) << 4 * mu;
    return bits;
}
MILCGPU_HD int component(uint32_t step, int mu) { return static_cast<int>(step >> 4 * mu & 15u) - 8; }

constexpr int most_steps = 8;
constexpr int most_together = 3; // sources that share the loads of the links

// End: uses the sum at a site for `together` sources first, first + 1, ... The last of them may be beyond the last
// source: they repeat that one and must not be used.
template <Precision p, int together, class End> struct SumNeighbours {
    using Real = typename LinkReal<p>::Real;
    using Vec = Vector<Real>;
    Lattice lattice; // the wide box, on which `in` and the links are
    SitesAndParts work;
    int first_site, slice; // of a whole lattice: of the slice, within a parity; of a cut one, or -1
    MatrixView<p> links;
    FullView<p> in;
    uint32_t steps[most_steps];
    int n_steps, first_slot, other, sources; // other: 1 if neighbours are on the other parity
    int t_sign, t_sign_again;                // again: for coordinates beyond the lattice
    bool ahead, behind, negative, out_is_wide;
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
            if (mu == 3) {
                const int lower = hop > 0 ? x.x[mu] : to;
                crosses = (hop != 0) & ((lower == t_sign) | (lower == t_sign_again));
            }
        }
        index >>= 1;
        const int there = parity ^ other;
        Term made;
        made.w = links.load(back ? there : parity, first_slot + s, back ? index : x.index());
        const Real turn = crosses == back ? Real(1) : Real(-1); // terms that are subtracted below change sign once more
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
        if (slice >= 0 && x.x[3] != slice)
            return;
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
        end(sum, parity, out_is_wide ? i : item.own + first_site, first, sources);
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

// The number of a time slice of the lattice within the box; -1: it is not in the box.
int slice_in(const Geometry &box, int slice) {
    const int t = slice - box.origin()[3];
    return t >= 0 && t < box.lattice().extent[3] ? t : -1;
}

// A body consists of the work and the ending; parts: threads a site.
template <Precision p, int together, class End>
void start_together(Device &device, const WideBox &box, const Neighbours &what, const FullVectors &in, int parts,
                    bool out_is_wide, const End &end) {
    using Real = typename LinkReal<p>::Real;
    const bool one = what.slice >= 0, cut = box.margin() > 0, alone = what.steps.empty();
    if (one && slice_in(box.box(), what.slice) < 0)
        return;
    const Geometry &geometry = alone ? box.box() : box.wide(); // of `in`
    const Lattice &lattice = geometry.lattice();
    const int *const n = lattice.extent;
    const SitesAndParts work = one && !cut ? SitesAndParts(Geometry({n[0], n[1], n[2], 1}), parts)
                               : alone     ? SitesAndParts(box.box(), parts)
                                           : box.work(parts);
    const int first_slice = alone ? 0 : box.inner().first[3], times = box.box().global_extents()[3];
    const int t_sign = what.t_sign < 0 ? -1 : (what.t_sign - geometry.origin()[3] + 2 * times) % times;
    const SignPattern sign = relative_to(what.sign, geometry.origin().data());
    SumNeighbours<p, together, End> body{
        lattice,
        work,
        one && !cut ? what.slice * (n[0] * n[1] * n[2] / 2) : 0,
        one && cut ? first_slice + slice_in(box.box(), what.slice) : -1,
        what.links != nullptr ? MatrixView<p>(*what.links) : MatrixView<p>(nullptr, 0, 0),
        FullView<p>(in),
        {},
        static_cast<int>(what.steps.size()),
        what.first_slot,
        0,
        in.sources(),
        t_sign,
        t_sign < 0 ? -1 : t_sign + times,
        what.ahead,
        what.behind,
        sign.negative,
        out_is_wide,
        sign.mask,
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
void start(Device &device, const WideBox &box, const Neighbours &what, const FullVectors &in, bool out_is_wide,
           const End &end) {
    if (in.sources() == 1)
        start_together<p, 1>(device, box, what, in, 1, out_is_wide, end);
    else
        start_together<p, most_together>(device, box, what, in, (in.sources() - 1) / most_together + 1, out_is_wide,
                                         end);
}

void check(const WideBox &box, const Neighbours &what, const FullVectors &in, const FullVectors &with) {
    const int steps = static_cast<int>(what.steps.size()), times = box.box().global_extents()[3];
    if (box.box().is_cut() && box.margin() < neighbours_margin)
        throw Error(Status::bad_argument, format("sums over neighbours: a cut box needs a margin of %d, it has %d",
                                                 neighbours_margin, box.margin()));
    const bool links_fit = steps == 0 || (what.links != nullptr && what.links->precision() == in.even.precision &&
                                          what.links->reals() == 18 && what.first_slot >= 0 &&
                                          what.first_slot + steps <= what.links->directions());
    if (!links_fit || steps > most_steps || in.even.precision == Precision::half ||
        in.even.precision != with.even.precision || in.sources() != with.sources() || in.odd.sources != in.sources() ||
        with.odd.sources != with.sources())
        throw Error(Status::bad_argument,
                    "sums over neighbours: needs up to 8 steps, links of 18 reals with a slot for each step, and "
                    "equally many vectors in and out of the links' precision, double or single");
    if (what.slice >= times)
        throw Error(Status::bad_argument, format("time slice %d: the lattice has %d", what.slice, times));
}

} // namespace

double neighbours_bytes(Precision p, int steps, int sources) {
    return steps * link_bytes(p, 18) + 2 * sources * spinor_bytes(p);
}

MarginPart margin_of(const Neighbours &what, const Geometry &box) {
    MarginPart part{{0, 0, 0, 0}, false, what.slice < 0 ? -1 : std::max(0, slice_in(box, what.slice))};
    for (const Step &step : what.steps) {
        int directions = 0;
        for (int mu = 0; mu < 4; ++mu) {
            part.layers[mu] = std::max(part.layers[mu], std::abs(step[mu]));
            directions += step[mu] != 0;
        }
        part.corners = part.corners || directions > 1;
    }
    return part;
}

AroundVectors::AroundVectors(Device &device, const WideBox &box, const FullVectors &like) {
    queue_of(device).collective("memory for vectors with a margin", [&] {
        const auto scratch = [&](int parity) {
            return SpinorField(device, like.even.precision, box.wide(), parity, "vectors with a margin",
                               like.sources());
        };
        even_ = scratch(0), odd_ = scratch(1);
    });
    vectors_ = {even_, odd_};
}

AroundVectors::AroundVectors(Device &device, Halo *halo, const WideBox &box, const FullVectors &on_box,
                             const MarginPart &part) {
    if (halo == nullptr || part.layers == std::array<int, 4>{}) {
        vectors_ = on_box;
        return;
    }
    *this = AroundVectors(device, box, on_box);
    halo->extend(on_box, box, part, vectors_);
}

void sum_neighbours(Device &device, const WideBox &box, const Neighbours &what, const FullVectors &in,
                    const FullVectors &out, bool out_is_wide) {
    check(box, what, in, out);
    for_real(in.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        const StoreVectors<p> end{FullView<p>(out)};
        start<p>(device, box, what, in, out_is_wide, end);
    });
}

void dot_neighbours(Device &device, const WideBox &box, const Neighbours &what, const FullVectors &in,
                    const FullVectors &other, const Dot &dot, Complex<double> *numbers) {
    check(box, what, in, other);
    for_real(in.even.precision, [&](auto real) {
        constexpr Precision p = decltype(real)::value;
        for (int first = 0; first < in.sources(); first += most_together) {
            const int count = std::min(most_together, in.sources() - first);
            DotVectors<p> end{FullView<p>(other.from(first)), numbers, box.box().sites(0), dot};
            end.how.add = dot.add || first > 0;
            start<p>(device, box, what, in.from(first).first(count), false, end);
        }
    });
}

} // namespace milcgpu
