// The gauge force of forces.h.
//
// Every loop alternates between even and odd sites, so it is a product of pieces of two links through even sites, two
// pieces for a plaquette, three for the others. With the links V_a(x) that leave an even site x along the 8 steps a, as
// matrices from x to x+a, the piece from x+a over x to x+b is Q_ab(x) = V_a^dag V_b. There are 28 a site (Q_ba =
// Q_ab^dag).
//
//   1. Q_ab(x), a < b                                                                                28 products
//   2. R_ab(x): c P summed over all paths P from x+b to x+a that close a loop with Q_ab(x)
//        corner:   plaquette  Q_-a,-b(x+a+b)
//                  rectangle  Q_-a,a(x+a+b) Q_b,-a(x+2a) + Q_-b,a(x+2b) Q_b,-b(x+a+b)
//                  bent       sum over 4 c of Q_-c,a(x+b+c) Q_b,-c(x+a+c)                          144 products
//        straight: rectangle  sum over 6 c of Q_-c,a(x+b+c) Q_b,-c(x+a+c), a = -b                   24 products
//   3. X_b = sum over a of R_ab V_a^dag, from x+b to x: the sum of c P for the link V_b; H of that link is updated with
//      V_b X_b, or (X_b V_b)^dag where b goes back                                                      64 products
//
// These are products an even site, together 260: 130 a site, while the path by path sum of 48 paths a link takes 724.
// Each link belongs to one even site, so no two threads add to one result.
//
// One thread an even site and first step (1), pair of steps (2), link (3). Steps 2 and 3 go through the lattice in
// slices, so that R takes little memory. Matrices an even site, at the least: 1 reads 8, writes 28; 2 reads 28, writes
// 28; 3 reads 28 and 8, and 8 momenta, which it writes.
//
// Step 2 loads 360 matrices an even site, and the caches' bandwidth takes most of the time of the force. Threads at the
// same odd site y = x+b with the same a share Q_-c,a(y+c): they are in one block, as the warps for the same y and
// successive b, and find in its L1 cache what another thread has loaded.
#include "gpu_kernels/gauge/forces/momentum_view.h"
#include "gpu_kernels/gauge/forces/steps.h"

namespace milcgpu {

namespace {

constexpr int pairs = steps * (steps - 1) / 2;
constexpr int slice_sites = 1 << 18, short_slice_sites = 1 << 16; // even sites: 1.1 GB and 264 MB of R in double

MILCGPU_HD int slot_of(int a, int b) { return a * (15 - a) / 2 + b - a - 1; } // for the pair a < b

// The site of a parity and the part of its work that a thread has: 32 sites a warp, and the parts of 32 sites one after
// the other.
struct SitesOfParity {
    int first, count, parts;
    static constexpr int warp = 32;
    int threads() const { return (count + warp - 1) / warp * warp * parts; }
    struct Item {
        int i, part; // i: counted from the first one
        bool valid;
    };
    MILCGPU_HD Item item(int thread) const {
        const int group = thread / warp, i = group / parts * warp + thread % warp;
        return {i, group % parts, i < count};
    }
};

template <Precision p> using MatrixOf = Matrix<typename LinkReal<p>::Real>;

// Q or R: 28 matrices a site
template <Precision p> struct Pairs {
    ScratchView<p> slots;
    MILCGPU_HD MatrixOf<p> load(int a, int b, int i) const {
        const bool stored = a < b;
        const MatrixOf<p> m = slots.load(0, stored ? slot_of(a, b) : slot_of(b, a), i);
        return stored ? m : adjoint(m);
    }
    MILCGPU_HD void store(int a, int b, int i, const MatrixOf<p> &m) const { slots.store(0, slot_of(a, b), i, m); }
};

template <Precision p> struct MakePieces {
    Lattice lattice;
    SitesOfParity work;
    MatrixView<p> u;
    Pairs<p> pieces;
    bool straight;
    MILCGPU_HD void operator()(int thread) const {
        const SitesOfParity::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site x = lattice.site(0, item.i);
        const int a = item.part;
        const MatrixOf<p> from = adjoint(link_along(lattice, u, x, 0, a));
        for (int b = a + 1; b < steps; ++b)
            if (straight || b != opposite(a))
                pieces.store(a, b, item.i, from * link_along(lattice, u, x, 0, b));
    }
};

template <Precision p> struct CloseLoops {
    using Real = typename LinkReal<p>::Real;
    using M = MatrixOf<p>;
    Lattice lattice;
    InnerBox inner; // links of the box begin at its sites, and end there or in the next layer
    SitesOfParity work;
    Pairs<p> pieces, rests;
    Real plaquette, rectangle, bent;
    int odd_sites, slice_first, slice_count;

    MILCGPU_HD void operator()(int thread) const {
        const SitesOfParity::Item item = work.item(thread);
        if (!item.valid)
            return;
        int a = 0, b = item.part + 1; // of slot `part`
        for (; b >= steps; ++a)
            b -= steps - 2 - a;
        const int odd = work.first + item.i;
        const Site other = lattice.site(1, odd < odd_sites ? odd : odd - odd_sites),
                   x = walk(lattice, other, opposite(b));
        const int i = x.index() - slice_first;
        const bool straight = b == opposite(a);
        if (i < 0 || i >= slice_count || (straight && rectangle == 0) || !inner.has(x, 1))
            return;
        const Real around = straight ? rectangle : bent;
        const Site ahead = walk(lattice, x, a);
        M sum = {};
        if (around != 0) {
            for (int c = 0; c < steps; ++c) {
                if (axis(c) == axis(a) || axis(c) == axis(b))
                    continue;
                const M first = pieces.load(opposite(c), a, walk(lattice, other, c).index());
                multiply_add(sum, first, pieces.load(b, opposite(c), walk(lattice, ahead, c).index()));
            }
            sum = scaled(around, sum);
        }
        if (!straight) {
            const int across = walk(lattice, other, a).index();
            if (rectangle != 0) {
                const int long_a = walk(lattice, ahead, a).index(), long_b = walk(lattice, other, b).index();
                multiply_add(sum, scaled(rectangle, pieces.load(opposite(a), a, across)),
                             pieces.load(b, opposite(a), long_a));
                multiply_add(sum, scaled(rectangle, pieces.load(opposite(b), a, long_b)),
                             pieces.load(b, opposite(b), across));
            }
            if (plaquette != 0)
                multiply_add(sum, plaquette, pieces.load(opposite(a), opposite(b), across));
        }
        rests.store(a, b, i, sum);
    }

  private:
    static MILCGPU_HD M scaled(Real s, M m) {
        MILCGPU_UNROLL
        for (int k = 0; k < 9; ++k)
            m.e[k / 3][k % 3] = s * m.e[k / 3][k % 3];
        return m;
    }
};

template <Precision p> struct AddGaugeForce {
    using Real = typename LinkReal<p>::Real;
    using M = MatrixOf<p>;
    Lattice lattice;
    InnerBox inner;
    SitesOfParity work;
    MatrixView<p> u;
    Pairs<p> pieces, rests;
    MomentumView<p> momenta;
    Real plaquette, factor;
    bool plaquette_alone, straight; // R is plaquette Q, and was not stored; R_ab with a = -b is not zero

    MILCGPU_HD void operator()(int thread) const {
        const SitesOfParity::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int b = item.part;
        const Site x = lattice.site(0, work.first + item.i), end = walk(lattice, x, b);
        // A step back goes along its link from the end of the link.
        const bool back = is_back(b);
        const Site begin = back ? end : x;
        if (!inner.has(begin))
            return;
        M paths = {}; // from x+b to x
        for (int a = 0; a < steps; ++a) {
            if (a == b || (a == opposite(b) && !straight))
                continue;
            const M rest = plaquette_alone ? pieces.load(opposite(a), opposite(b), walk(lattice, end, a).index())
                                           : rests.load(a, b, item.i);
            multiply_add(paths, rest, adjoint(link_along(lattice, u, x, 0, a)));
        }
        // For a step back, U = V_b^dag closes the loop with X_b^dag.
        const int parity = back, i = inner.index(begin);
        const Real times = plaquette_alone ? factor * plaquette : factor;
        momenta.modify(parity, axis(b), i, [&](AntiHermitian<Real> &h) {
            M sum = matrix(h);
            multiply_add(sum, -times, u.load(parity, axis(b), begin.index()) * (back ? adjoint(paths) : paths));
            h = traceless_antihermitian(sum);
        });
    }
};

template <Precision p>
void run(Device &device, const WideBox &box, const LinkField &u, const LoopCoefficients &c, double factor,
         const LinkField &momenta, const GaugeForceSpace &space) {
    using Real = typename LinkReal<p>::Real;
    const Geometry &geometry = box.wide();
    const InnerBox inner = box.inner();
    const int even = geometry.sites(0), odd = geometry.sites(1);
    const bool straight = c.rectangle != 0, alone = !straight && c.bent == 0;
    // With phases, a loop has a factor -1 for each plaquette that it encloses: 1, 2, 3.
    const double sign = c.signs == Signs::phases_in ? -1 : 1;
    const Real plaquette = static_cast<Real>(sign * c.plaquette), rectangle = static_cast<Real>(c.rectangle),
               bent = static_cast<Real>(sign * c.bent);
    const Lattice &lattice = geometry.lattice();
    const MatrixView<p> links(u);
    const Pairs<p> pieces{ScratchView<p>(space.pieces.data(), space.stride, pairs)},
        rests{ScratchView<p>(space.rests.data(), space.slice, pairs)};
    const SitesOfParity all{0, even, steps - 1};
    launch(device, all.threads(), MakePieces<p>{lattice, all, links, pieces, straight}, "pieces of loops");
    const int slice = alone ? even : static_cast<int>(space.slice);
    for (int first = 0; first < even; first += slice) {
        const int count = std::min(slice, even - first);
        const SitesOfParity a_link{first, count, steps};
        if (!alone) {
            // The odd sites adjacent to the slice; they begin one time slice before it.
            const int time_slice = geometry.volume() / lattice.extent[3] / 2 + 1;
            const int beside = std::min(count + 2 * time_slice, odd),
                      from = count + 2 * time_slice < odd ? first - time_slice : 0;
            const SitesOfParity a_pair{from < 0 ? from + odd : from, beside, pairs};
            launch_bounded<128, 4>(
                device, a_pair.threads(),
                CloseLoops<p>{lattice, inner, a_pair, pieces, rests, plaquette, rectangle, bent, odd, first, count},
                "close loops");
        }
        launch(device, a_link.threads(),
               AddGaugeForce<p>{lattice, inner, a_link, links, pieces, rests, MomentumView<p>(momenta), plaquette,
                                static_cast<Real>(factor), alone, straight},
               "add gauge force", 256);
    }
}

} // namespace

GaugeForceSpace::GaugeForceSpace(Device &device, const WideBox &box, Precision p, const LoopCoefficients &c)
    : precision(p), stride((box.wide().most_sites() + 63) / 64 * size_t(64)),
      slice(std::min<size_t>(stride, slice_sites)), pieces(device, pairs * stride * link_bytes(p, 18), "gauge force") {
    if (c.rectangle == 0 && c.bent == 0)
        return;
    const auto allocate = [&] { rests = {device, pairs * slice * link_bytes(p, 18), "gauge force"}; };
    try {
        allocate();
    } catch (const Error &error) {
        if (error.status() != Status::no_memory || slice <= short_slice_sites)
            throw;
        slice = short_slice_sites;
        allocate();
    }
}

double gauge_force_bytes(Precision p, const LoopCoefficients &c) {
    const bool straight = c.rectangle != 0, alone = !straight && c.bent == 0;
    const int stored = straight ? pairs : pairs - 4;
    const double matrices = 8 + stored + (alone ? 0 : 2 * stored) + stored + 8, even_sites = 0.5;
    return even_sites * (matrices * link_bytes(p, 18) + 2 * steps * link_bytes(p, momentum_reals));
}

double gauge_force_flops(const LoopCoefficients &c) {
    constexpr double product = 198, added = 216, scale = 18, twice = 36, antihermitian = 18;
    const bool straight = c.rectangle != 0, alone = !straight && c.bent == 0;
    const double corner = (c.plaquette != 0 ? twice : 0) + (straight ? 2 * (added + scale) : 0) +
                          (c.bent != 0 ? 4 * added + scale : 0),
                 line = straight ? 6 * added + scale : 0;
    const double of_an_even_site = (straight ? pairs : pairs - 4) * product + (alone ? 0 : 24 * corner + 4 * line) +
                                   steps * ((straight ? 7 : 6) * added + product + twice + antihermitian);
    return of_an_even_site / 2;
}

void gauge_force(Device &device, const WideBox &box, const LinkField &u, const LoopCoefficients &c, double factor,
                 const LinkField &momenta, const GaugeForceSpace &space) {
    const bool alone = c.rectangle == 0 && c.bent == 0;
    const bool fits = u.precision() == momenta.precision() && u.precision() == space.precision && u.reals() == 18 &&
                      u.scale == 1 && momenta.reals() == momentum_reals && (alone || space.rests.data() != nullptr);
    if (!fits)
        throw Error(Status::bad_argument, "gauge force: needs links of 18 reals, momenta of 10 and memory for these "
                                          "coefficients, all double or all single");
    for_real(u.precision(), [&](auto p) { run<decltype(p)::value>(device, box, u, c, factor, momenta, space); });
}

} // namespace milcgpu
