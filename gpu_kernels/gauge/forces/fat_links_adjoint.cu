// The derivative by the links of the fat links, for one direction mu of the fat links after the other. With U = u_mu, Q
// = q_mu, b one of the three directions other than mu, a and g the two others, S+ and S- the upper and lower part of a
// staple S (staples.h), c the path coefficients:
//
//   1. T_b = S_b(U), G_b = S_b(Q)                                                                         12 + 12
//   2. P_b^+- =        five (T_a + T_g) + seven (S_a(T_g) + S_g(T_a)) + lepage S_b^+-(U)                   24 + 6
//      N_b^+- = three Q + five (G_a + G_g) + seven (S_a(G_g) + S_g(G_a)) + lepage S_b^+-(Q)                24 + 6
//   3. by u_b:  D[Q, P^+] + D[P^-, Q] + D[U, N^+] + D[N^-, U]
//               + seven (D[G_a, T_g] + D[T_g, G_a] + D[G_g, T_a] + D[T_a, G_g])                            96
//   4. by u_mu: one_link Q + sum_b S_b^+(N_b^+) + S_b^-(N_b^-)                                             12
//
// with D[A, B](y) = A(y) u_b(y+mu) B(y+b)^dag + A(z)^dag u_b(z) B(z+b), z = y - mu. The numbers on the right are
// products of matrices a site and mu. 3 gathers the contributions of a link of direction b to the staples on its two
// sides. Every staple is bilinear in its middle link and in the derivative by it, so U and Q appear symmetrically.
//
// P and N are stored in units of the coefficient `seven`, so that all of 3 is one sum. Blocks are chosen so that the
// parts of a site share the side links in the L1 cache: 6 parts of 32 sites in 192 threads, 4 parts of 32 sites of both
// parities in 256. The number of blocks on a multiprocessor is what was fastest on an H200 at 24^3 x 32. In double, 3
// takes all 255 registers a thread: with 168 it was slower.
#include "gpu_kernels/gauge/forces/forces.h"
#include "gpu_kernels/gauge/links/staples.h"

namespace milcgpu {

namespace {

// One of the two fields of (2): its middle links, its 3-staples and the two halves of the sum.
template <Precision p> struct Halves {
    MatrixView<p> middle;
    ScratchView<p> t, up, down;
    typename LinkReal<p>::Real three;
};

// (2). One thread a site, b, and field.
template <Precision p> struct NestedStaples {
    using Real = typename LinkReal<p>::Real;
    Staples<p, 18> staples;
    SitesAndParts work;
    Halves<p> of_u, of_q;
    int first, count; // part k < count is b = first + k of U, part k + count of Q
    bool seven;
    Real five, lepage;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const bool is_q = item.part >= count;
        const Halves<p> &of = is_q ? of_q : of_u;
        const int slot = is_q ? item.part - count : item.part, b = first + slot, a = (b + 1) % 3, g = (b + 2) % 3;
        const Site x = staples.lattice.site(item.parity, item.i);
        if (!staples.takes_sum(x, staples.other(b)))
            return;
        Matrix<Real> sum = {};
        if (seven) {
            staples.add_staple(sum, x, item.parity, staples.other(a), of.t, g);
            staples.add_staple(sum, x, item.parity, staples.other(g), of.t, a);
        }
        multiply_add(sum, five, of.t.load(item.parity, a, item.i));
        multiply_add(sum, five, of.t.load(item.parity, g, item.i));
        if (of.three != 0)
            multiply_add(sum, of.three, of.middle.load(item.parity, staples.mu, item.i));
        if (lepage != 0) {
            Matrix<Real> upper = {}, lower = of.t.load(item.parity, b, item.i);
            staples.add_upper(upper, x, item.parity, staples.other(b), of.middle, staples.mu);
            multiply_add(lower, Real(-1), upper);
            Matrix<Real> down = sum;
            multiply_add(down, lepage, lower);
            of.down.store(item.parity, slot, item.i, down);
            multiply_add(sum, lepage, upper);
        }
        of.up.store(item.parity, slot, item.i, sum);
    }
};

// (3) and (4). One thread a site and link: part k < count is the link of direction b = first + k, the last part the
// link mu.
template <Precision p> struct ByLinks {
    using Real = typename LinkReal<p>::Real;
    using M = Matrix<Real>;
    Staples<p, 18> staples;
    SitesAndParts work;
    MatrixView<p> q, by_u;
    ScratchView<p> t, g, p_up, p_down, n_up, n_down;
    int first, count;
    bool seven;
    Real one_link, unit;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const Site y = staples.lattice.site(item.parity, item.i);
        const bool middle = item.part == count;
        const int mu = staples.mu, slot = item.part, b = first + slot, direction = middle ? mu : staples.other(b);
        M sum = {};
        uint64_t weighs = 0; // the loss of q here
        if (middle)
            add_middle(sum, y, item.parity, weighs);
        else
            add_sides(sum, y, item.parity, direction, b, slot);
        by_u.modify(item.parity, direction, item.i, [&](M &total) { multiply_add(total, unit, sum); });
        if (middle)
            q.subtract(item.i, weighs);
    }

  private:
    MILCGPU_HD void add_middle(M &sum, const Site &x, int parity, uint64_t &weighs) const {
        if (first == 0)
            multiply_add(sum, one_link, q.template take<Reuse::keep>(parity, staples.mu, x.index(), weighs));
        for (int k = 0; k < count; ++k) {
            staples.add_upper(sum, x, parity, staples.other(first + k), n_up, k);
            staples.add_lower(sum, x, parity, staples.other(first + k), n_down, k);
        }
    }

    struct Corner {
        int parity, i, next; // of the site, and the index of the next one along b, on the other parity
    };
    MILCGPU_HD void add_sides(M &sum, const Site &y, int parity, int direction, int b, int slot) const {
        const Lattice &lattice = staples.lattice;
        const MatrixView<p> &u = staples.u;
        const int mu = staples.mu, a = (b + 1) % 3, c = (b + 2) % 3;
        const Site z = lattice.hop(y, mu, -1);
        const Corner upper = {parity, y.index(), lattice.hop(y, direction, 1).index()};
        add_upper(sum, upper, u.load(1 - parity, direction, lattice.hop(y, mu, 1).index()), a, c, slot);
        const Corner lower = {1 - parity, z.index(), lattice.hop(z, direction, 1).index()};
        add_lower(sum, lower, u.load(1 - parity, direction, z.index()), a, c, slot);
    }
    MILCGPU_HD void add_upper(M &sum, const Corner &y, const M &side, int a, int c, int slot) const {
        for_pairs(
            [&](const auto &left, int l, const auto &right, int r) {
                add_staple_up(sum, left.load(y.parity, l, y.i), side, right.load(1 - y.parity, r, y.next));
            },
            a, c, slot);
    }
    MILCGPU_HD void add_lower(M &sum, const Corner &z, const M &side, int a, int c, int slot) const {
        for_pairs(
            [&](const auto &left, int l, const auto &right, int r) {
                add_staple_down(sum, left.load(z.parity, l, z.i), side, right.load(1 - z.parity, r, z.next));
            },
            a, c, slot);
    }
    // The pairs of (3).
    template <class Add> MILCGPU_HD void for_pairs(const Add &add, int a, int c, int slot) const {
        const MatrixView<p> &u = staples.u;
        const int mu = staples.mu;
        if (seven) {
            add(g, a, t, c);
            add(t, c, g, a);
            add(g, c, t, a);
            add(t, a, g, c);
        }
        add(q, mu, p_up, slot);
        add(p_down, slot, q, mu);
        add(u, mu, n_up, slot);
        add(n_down, slot, u, mu);
    }
};

template <Precision p>
void run(Device &device, const WideBox &box, const LinkField &u, const PathCoefficients &c, const LinkField &q,
         const LinkField &by_u, const AdjointSpace &space) {
    using Real = typename LinkReal<p>::Real;
    constexpr bool is_double = p == Precision::double_;
    const auto view = [](const LinkField &field) { return MatrixView<p>(field); };
    const auto scratch = [](const LinkField &field) { return ScratchView<p>(field); };
    const auto down = [&](const LinkField &up, const LinkField &field) { return scratch(c.lepage != 0 ? field : up); };
    // P and N are in units of the coefficient of the 7-link paths, so that all of (3) is one sum.
    const bool seven = c.seven_staple != 0;
    const double unit = seven ? c.seven_staple : 1;
    const auto in_units = [&](double coefficient) { return static_cast<Real>(coefficient / unit); };
    const int count = space.p_up.directions(); // values of b at once
    // A link of the box needs the fields at its ends and beside it.
    const SitesAndParts staples_work = box.work(6, 1), nested_work = box.work(2 * count, 1),
                        links_work = box.work(count + 1);
    const ScratchView<p> t = scratch(space.t), g = scratch(space.g), p_up = scratch(space.p_up),
                         n_up = scratch(space.n_up), p_down = down(space.p_up, space.p_down),
                         n_down = down(space.n_up, space.n_down);
    for (int mu = 0; mu < 4; ++mu) {
        const Staples<p, 18> staples{box.wide().lattice(), view(u), mu, box.inner(), true};
        launch_bounded<192, is_double ? 2 : 4>(
            device, staples_work.threads(),
            ThreeStaple<p, 18, MatrixView<p>>{staples, staples_work, view(u), view(q), t, g, c.lepage != 0},
            "3-staples");
        for (int first = 0; first < 3; first += count) {
            launch_bounded<192, is_double ? 2 : 3>(
                device, nested_work.threads(),
                NestedStaples<p>{staples,
                                 nested_work,
                                 {view(u), t, p_up, p_down, 0},
                                 {view(q), g, n_up, n_down, in_units(c.three_staple)},
                                 first,
                                 count,
                                 seven,
                                 in_units(c.five_staple),
                                 in_units(c.lepage)},
                "nested staples, halves apart");
            launch_bounded<256, is_double ? 1 : 2>(device, links_work.threads(),
                                                   ByLinks<p>{staples, links_work, view(q), view(by_u), t, g, p_up,
                                                              p_down, n_up, n_down, first, count, seven,
                                                              in_units(c.one_link), static_cast<Real>(unit)},
                                                   "derivative by links");
        }
    }
}

} // namespace

AdjointSpace::AdjointSpace(Device &device, const Geometry &geometry, Precision precision, bool lepage) {
    const auto field = [&](int directions) {
        return LinkField(device, precision, 18, geometry, "derivatives of staples", directions);
    };
    const auto halves = [&](int directions) {
        p_up = field(directions), n_up = field(directions);
        if (lepage)
            p_down = field(directions), n_down = field(directions);
    };
    t = field(3), g = field(3);
    try {
        halves(3);
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
        for (LinkField *half : {&p_up, &p_down, &n_up, &n_down})
            *half = LinkField();
        halves(1);
    }
}

size_t AdjointSpace::bytes() const {
    size_t sum = 0;
    for (const LinkField *field : {&t, &g, &p_up, &p_down, &n_up, &n_down})
        sum += field->bytes();
    return sum;
}

void fat_links_adjoint(Device &device, const WideBox &box, const LinkField &u, const PathCoefficients &c,
                       const LinkField &q, const LinkField &by_u, const AdjointSpace &space) {
    const Precision precision = u.precision();
    const bool fits = q.precision() == precision && by_u.precision() == precision && space.t.precision() == precision &&
                      u.reals() == 18 && q.reals() == 18 && by_u.reals() == 18 && u.scale == 1 &&
                      q.block(0, 0) != by_u.block(0, 0) && (c.lepage == 0 || space.p_down.bytes() > 0);
    if (!fits)
        throw Error(Status::bad_argument,
                    "derivative of fat links: needs links, derivatives and memory for staples of 18 reals, all double "
                    "or all single, and memory for Lepage paths if there are any");
    for_real(precision, [&](auto p) { run<decltype(p)::value>(device, box, u, c, q, by_u, space); });
}

} // namespace milcgpu
