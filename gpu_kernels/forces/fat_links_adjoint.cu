// The derivative by the links of the fat links, for one direction mu of the fat links after the other. With U = u_mu, Q
// = q_mu, b one of the three directions other than mu, a and g the two others, S+ and S- the upper and lower part of
// a staple S (staples.h), c the path coefficients:
//
//   1. T_b = S_b(U), G_b = S_b(Q)                                                                         12 + 12
//   2. P_b^+- =        five (T_a + T_g) + seven (S_a(T_g) + S_g(T_a)) + lepage S_b^+-(U)                   24 + 6
//      N_b^+- = three Q + five (G_a + G_g) + seven (S_a(G_g) + S_g(G_a)) + lepage S_b^+-(Q)                24 + 6
//   3. by u_b:  D[Q, P^+] + D[P^-, Q] + D[U, N^+] + D[N^-, U]
//               + seven (D[G_a, T_g] + D[T_g, G_a] + D[G_g, T_a] + D[T_a, G_g])                            96
//   4. by u_mu: one_link Q + sum_b S_b^+(N_b^+) + S_b^-(N_b^-)                                             12
//
// with D[A, B](y) = A(y) u_b(y+mu) B(y+b)^dag + A(z)^dag u_b(z) B(z+b), z = y - mu. On the right: products of matrices
// a site and mu. 3 gathers what a link of direction b gives to the staples on its two sides: every staple is bilinear
// in what lies in its middle and in the derivative by it, which is why U and Q appear symmetrically.
#include "gpu_kernels/forces/forces.h"
#include "gpu_kernels/links/staples.h"

namespace milcgpu {

namespace {

template <Precision p> struct NestedParts {
    using Real = typename LinkReal<p>::Real;
    Staples<p, 18> staples;
    SitesAndParts work;
    MatrixView<p> middle, t, up, down; // of U: t, P^+, P^-; of Q: g, N^+, N^-
    int first;                         // part k is b = first + k
    Real three, five, seven, lepage;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int b = first + item.part, a = (b + 1) % 3, g = (b + 2) % 3;
        const Site x = staples.lattice.site(item.parity, item.i);
        Matrix<Real> nested = {}, sum = {};
        staples.add_staple(nested, x, item.parity, staples.other(a), t, g);
        staples.add_staple(nested, x, item.parity, staples.other(g), t, a);
        multiply_add(sum, seven, nested);
        multiply_add(sum, five, t.load(item.parity, a, item.i));
        multiply_add(sum, five, t.load(item.parity, g, item.i));
        if (three != 0)
            multiply_add(sum, three, middle.load(item.parity, staples.mu, item.i));
        if (lepage != 0) {
            Matrix<Real> upper = {};
            staples.add_upper(upper, x, item.parity, staples.other(b), middle, staples.mu);
            Matrix<Real> lower = sum;
            multiply_add(lower, lepage, t.load(item.parity, b, item.i));
            multiply_add(lower, -lepage, upper);
            down.store(item.parity, item.part, item.i, lower);
            multiply_add(sum, lepage, upper);
        }
        up.store(item.parity, item.part, item.i, sum);
    }
};

template <Precision p> struct BySideLinks {
    using Real = typename LinkReal<p>::Real;
    using M = Matrix<Real>;
    Lattice lattice;
    SitesAndParts work;
    MatrixView<p> u, q, t, g, p_up, p_down, n_up, n_down, by_u;
    int mu, first;
    Real seven;
    MILCGPU_HD void operator()(int thread) const {
        const SitesAndParts::Item item = work.item(thread);
        if (!item.valid)
            return;
        const int b = first + item.part, direction = b + (b >= mu), a = (b + 1) % 3, c = (b + 2) % 3;
        const Site y = lattice.site(item.parity, item.i), z = lattice.hop(y, mu, -1);
        M sum = {};
        const Corner upper = {item.parity, item.i, lattice.hop(y, direction, 1).index()};
        add_upper(sum, upper, u.load(1 - item.parity, direction, lattice.hop(y, mu, 1).index()), a, c, item.part);
        const Corner lower = {1 - item.parity, z.index(), lattice.hop(z, direction, 1).index()};
        add_lower(sum, lower, u.load(1 - item.parity, direction, z.index()), a, c, item.part);
        multiply_add(sum, Real(1), by_u.template load<Reuse::written>(item.parity, direction, item.i));
        by_u.store(item.parity, direction, item.i, sum);
    }

  private:
    struct Corner {
        int parity, i, next; // of the site, and the index of the next one along b, which has the other parity
    };
    MILCGPU_HD void add_upper(M &sum, const Corner &y, const M &side, int a, int c, int part) const {
        const auto add = [&](const MatrixView<p> &left, int l, const MatrixView<p> &right, int r) {
            multiply_add(sum, left.load(y.parity, l, y.i) * side, adjoint(right.load(1 - y.parity, r, y.next)));
        };
        for_pairs(add, sum, a, c, part);
    }
    MILCGPU_HD void add_lower(M &sum, const Corner &z, const M &side, int a, int c, int part) const {
        M own = {};
        const auto add = [&](const MatrixView<p> &left, int l, const MatrixView<p> &right, int r) {
            multiply_add(own, adjoint(left.load(z.parity, l, z.i)), side * right.load(1 - z.parity, r, z.next));
        };
        for_pairs(add, own, a, c, part);
        multiply_add(sum, Real(1), own);
    }
    // The pairs of 3. What is scaled comes first.
    template <class Add> MILCGPU_HD void for_pairs(const Add &add, M &sum, int a, int c, int part) const {
        if (seven != 0) {
            add(g, a, t, c);
            add(t, c, g, a);
            add(g, c, t, a);
            add(t, a, g, c);
            M scaled = {};
            multiply_add(scaled, seven, sum);
            sum = scaled;
        }
        add(q, mu, p_up, part);
        add(p_down, part, q, mu);
        add(u, mu, n_up, part);
        add(n_down, part, u, mu);
    }
};

template <Precision p> struct ByMiddleLink {
    using Real = typename LinkReal<p>::Real;
    Staples<p, 18> staples;
    int even_sites;
    MatrixView<p> q, n_up, n_down, by_u;
    int first, parts;
    Real one_link;
    MILCGPU_HD void operator()(int thread) const {
        const int parity = thread >= even_sites, i = parity ? thread - even_sites : thread;
        const Site x = staples.lattice.site(parity, i);
        Matrix<Real> sum = by_u.template load<Reuse::written>(parity, staples.mu, i);
        if (first == 0)
            multiply_add(sum, one_link, q.load(parity, staples.mu, i));
        for (int k = 0; k < parts; ++k) {
            staples.add_upper(sum, x, parity, staples.other(first + k), n_up, k);
            staples.add_lower(sum, x, parity, staples.other(first + k), n_down, k);
        }
        by_u.store(parity, staples.mu, i, sum);
    }
};

template <Precision p>
void run(Device &device, const Geometry &geometry, const LinkField &u, const PathCoefficients &c, const LinkField &q,
         const LinkField &by_u, const AdjointSpace &space) {
    using Real = typename LinkReal<p>::Real;
    const auto view = [](const LinkField &field) { return MatrixView<p>(field); };
    const auto down = [&](const LinkField &up, const LinkField &field) { return view(c.lepage != 0 ? field : up); };
    const SitesAndParts three_parts(geometry, 3), parts(geometry, space.p_up.directions());
    for (int mu = 0; mu < 4; ++mu) {
        const Staples<p, 18> staples{geometry.lattice(), view(u), mu};
        const auto three_staples = [&](const LinkField &from, const LinkField &to) {
            launch(device, three_parts.threads(),
                   ThreeStaple<p, 18, MatrixView<p>>{staples, three_parts, view(from), view(to)}, "3-staples");
        };
        three_staples(u, space.t);
        three_staples(q, space.g);
        for (int first = 0; first < 3; first += parts.parts) {
            const auto nested = [&](const LinkField &middle, const LinkField &t, const LinkField &up,
                                    const LinkField &lower, double three) {
                launch(device, parts.threads(),
                       NestedParts<p>{staples, parts, view(middle), view(t), view(up), down(up, lower), first,
                                      static_cast<Real>(three), static_cast<Real>(c.five_staple),
                                      static_cast<Real>(c.seven_staple), static_cast<Real>(c.lepage)},
                       "nested staples, halves apart");
            };
            nested(u, space.t, space.p_up, space.p_down, 0);
            nested(q, space.g, space.n_up, space.n_down, c.three_staple);
            launch(device, parts.threads(),
                   BySideLinks<p>{geometry.lattice(), parts, view(u), view(q), view(space.t), view(space.g),
                                  view(space.p_up), down(space.p_up, space.p_down), view(space.n_up),
                                  down(space.n_up, space.n_down), view(by_u), mu, first,
                                  static_cast<Real>(c.seven_staple)},
                   "derivative by side links");
            launch(device, geometry.volume(),
                   ByMiddleLink<p>{staples, geometry.sites(0), view(q), view(space.n_up),
                                   down(space.n_up, space.n_down), view(by_u), first, parts.parts,
                                   static_cast<Real>(c.one_link)},
                   "derivative by middle links");
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

void fat_links_adjoint(Device &device, const Geometry &geometry, const LinkField &u, const PathCoefficients &c,
                       const LinkField &q, const LinkField &by_u, const AdjointSpace &space) {
    const Precision precision = u.precision();
    const bool fits = q.precision() == precision && by_u.precision() == precision && space.t.precision() == precision &&
                      u.reals() == 18 && q.reals() == 18 && by_u.reals() == 18 && u.scale == 1 &&
                      q.block(0, 0) != by_u.block(0, 0) && (c.lepage == 0 || space.p_down.bytes() > 0);
    if (!fits)
        throw Error(Status::bad_argument,
                    "derivative of fat links: links, derivatives and room for staples of 18 reals, all double or all "
                    "single, with room for Lepage paths where there are any, are needed");
    for_link_precision(precision, [&](auto p) { run<decltype(p)::value>(device, geometry, u, c, q, by_u, space); });
}

} // namespace milcgpu
