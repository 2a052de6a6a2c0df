// The levels of the multigrid prototype: D on the fine lattice, A = X^-1 (2m + D) with the inverse of X = 2m + hops by
// fat links within blocks of 2^4, and the coarse operator P^dag A P on aggregates of such blocks.
#pragma once
#include "examples/multigrid_fields.h"
#include "tests/reference/gauge.h"
#include <array>
#include <stdexcept>

namespace multigrid {

using Extents = std::array<int, 4>;

// Sites in the order of the prototype: aggregate, parity, block of 2^4, and the 8 sites of this parity in the block. So
// the rows of an aggregate's parity lie together, and in them those of a block's.
struct SiteOrder {
    reference::Lattice lattice, coarse; // sites; aggregates
    Extents aggregate;
    std::vector<int> place, site; // of a lexicographic site, and back
    int volume, aggregates, of_parity /* sites of an aggregate's parity */, blocks /* of an aggregate */;

    SiteOrder(const reference::Lattice &whole, const Extents &size)
        : lattice(whole), coarse{}, aggregate(size), volume(whole.volume()) {
        for (int d = 0; d < 4; ++d) {
            if (size[d] < 4 || size[d] % 2 != 0 || whole.n[d] % size[d] != 0)
                throw std::runtime_error("extents of aggregates must be even, at least 4 for the long links' sake, and "
                                         "divide those of the lattice");
            coarse.n[d] = whole.n[d] / size[d];
        }
        aggregates = coarse.volume();
        of_parity = volume / aggregates / 2;
        blocks = of_parity / 8;
        place.resize(volume);
        site.resize(volume);
        std::vector<int> filled(size_t(aggregates) * 2 * blocks, 0);
        for (int s = 0; s < volume; ++s) {
            const auto x = lattice.coordinates(s);
            int block = 0;
            for (int d = 3; d >= 0; --d)
                block = block * (aggregate[d] / 2) + x[d] % aggregate[d] / 2;
            const int group = (aggregate_of(x) * 2 + lattice.parity(s)) * blocks + block;
            place[s] = group * 8 + filled[group]++;
            site[place[s]] = s;
        }
    }
    int aggregate_of(const Extents &x) const {
        return coarse.site({x[0] / aggregate[0], x[1] / aggregate[1], x[2] / aggregate[2], x[3] / aggregate[3]});
    }
    int rows() const { return 3 * volume; }
    int groups() const { return aggregates * 2 * blocks; } // of 8 sites
};

// Hops of D from a site: for each direction 1, -1, 3 and -3 sites on.
constexpr int hops = 16;
constexpr int steps_of[4] = {1, -1, 3, -3};

// Tables of D's hops: all; those within blocks of 2^4 by fat links; and, for each term of the coarse operator, those
// that lead into this neighbour of the aggregate: 0 itself, 1 + 2 mu forward, 2 + 2 mu backward.
constexpr int coarse_terms = 9;
struct HopTables {
    std::vector<int> all, in_block, to_neighbour[coarse_terms];
    explicit HopTables(const SiteOrder &o) {
        all.resize(size_t(o.volume) * hops);
        in_block.assign(all.size(), -1);
        for (auto &table : to_neighbour)
            table.assign(all.size(), -1);
#pragma omp parallel for
        for (int s = 0; s < o.volume; ++s) {
            const auto x = o.lattice.coordinates(s);
            for (int t = 0; t < hops; ++t) {
                const int mu = t / 4, step = steps_of[t % 4], there = o.place[o.lattice.neighbour(s, mu, step)];
                const int at = x[mu] % o.aggregate[mu] + step;
                const size_t i = size_t(o.place[s]) * hops + t;
                all[i] = there;
                if (step == (x[mu] % 2 == 0 ? 1 : -1))
                    in_block[i] = there;
                to_neighbour[at < 0 ? 2 + 2 * mu : at >= o.aggregate[mu] ? 1 + 2 * mu : 0][i] = there;
            }
        }
    }
};

// D, of links in MILC's order: 4 matrices a site, even sites first.
inline Blocks<double> make_d(Device &device, const SiteOrder &o, const HopTables &tables,
                             const std::vector<double> &fat, const std::vector<double> &lng) {
    Blocks<double> d(device, o.volume, 3, 3, tables.all);
    std::vector<Packed<double, 1>> elements(d.elements.size());
    const std::vector<int> milc = reference::milc_order(o.lattice);
    std::vector<int> milc_place(o.volume);
    for (int k = 0; k < o.volume; ++k)
        milc_place[milc[k]] = k;
#pragma omp parallel for
    for (int p = 0; p < o.volume; ++p)
        for (int t = 0; t < hops; ++t) {
            const int step = steps_of[t % 4], s = o.site[p];
            const int from = step > 0 ? s : o.lattice.neighbour(s, t / 4, step); // the site that has the link
            const double *link = &(step * step == 1 ? fat : lng)[(size_t(milc_place[from]) * 4 + t / 4) * 18];
            for (int row = 0; row < 3; ++row)
                for (int column = 0; column < 3; ++column) {
                    const double *e = link + 2 * (step > 0 ? 3 * row + column : 3 * column + row);
                    elements[place_of(3 * p + row, d.width(), 3 * t + column)].s[0] =
                        step > 0 ? Complex<double>{e[0], e[1]} : Complex<double>{-e[0], e[1]};
                }
        }
    device.copy_to_device(d.elements.data(), elements.data(), d.elements.bytes());
    return d;
}

inline Blocks<float> in_single(const Blocks<double> &b) {
    Device &device = b.elements.device();
    Blocks<float> c(device, b.sites, b.rows, b.columns, b.from.to_host());
    convert<float, double, 1>(c.elements, b.elements);
    return c;
}

// X^-1 in single, from D in double. With H the hops in the block from parity p to the other one, q:
// X^-1 = 2m S^-1 on p, -H S^-1 from p to q, and S = 4 m^2 + H^dag H. S is inverted by elimination without pivots, which
// is stable because it is hermitian and positive.
inline Blocks<float> inverse_of_blocks(const Blocks<double> &d, const SiteOrder &o, const DeviceArray<int> &in_block,
                                       double mass) {
    constexpr int n = 24;
    Device &device = d.elements.device();
    const int groups = o.groups(), blocks = o.blocks;
    std::vector<int> from;
    for (int g = 0; g < groups; ++g)
        from.push_back(g), from.push_back(g / blocks % 2 == 0 ? g + blocks : g - blocks);
    Blocks<float> inverse(device, groups, n, n, from);
    const DeviceArray<Complex<double>> hop(device, size_t(groups) * n * n, "multigrid: X"),
        root(device, hop.size(), "multigrid: X");
    Complex<double> *const h_all = hop.data(), *const s_all = root.data();
    const Packed<double, 1> *const links = d.elements.data();
    Packed<float, 1> *const out = inverse.elements.data();
    const int *const table = in_block.data();
    each(
        device, groups,
        [=] ON_DEVICE(int g) {
            const int other = g / blocks % 2 == 0 ? g + blocks : g - blocks;
            // Element (i, j) of this group's matrices, which lie side by side.
            const auto h = [=](int i, int j) -> Complex<double> & { return h_all[size_t(i * n + j) * groups + g]; };
            const auto s = [=](int i, int j) -> Complex<double> & { return s_all[size_t(i * n + j) * groups + g]; };
            for (int i = 0; i < n; ++i)
                for (int j = 0; j < n; ++j)
                    h(i, j) = {0, 0};
            for (int k = 0; k < 8; ++k)
                for (int t = 0; t < hops; ++t) {
                    const int site = other * 8 + k, there = table[size_t(site) * hops + t];
                    for (int row = 0; row < 3 && there >= 0; ++row)
                        for (int c = 0; c < 3; ++c)
                            h(3 * k + row, 3 * (there - g * 8) + c) =
                                links[place_of(3 * site + row, 3 * hops, 3 * t + c)].s[0];
                }
            for (int i = 0; i < n; ++i)
                for (int j = 0; j <= i; ++j) {
                    Complex<double> sum = {i == j ? 4 * mass * mass : 0.0, 0};
                    for (int l = 0; l < n; ++l)
                        sum = plus(sum, conj(h(l, i)), h(l, j));
                    s(i, j) = sum, s(j, i) = conj(sum);
                }
            for (int p = 0; p < n; ++p) {
                const double pivot = 1 / s(p, p).re;
                s(p, p) = {1, 0};
                for (int j = 0; j < n; ++j)
                    s(p, j) = pivot * s(p, j);
                for (int i = 0; i < n; ++i) {
                    if (i == p)
                        continue;
                    const Complex<double> factor = s(i, p);
                    s(i, p) = {0, 0};
                    for (int j = 0; j < n; ++j)
                        s(i, j) = minus(s(i, j), factor, s(p, j));
                }
            }
            for (int i = 0; i < n; ++i)
                for (int j = 0; j < n; ++j) {
                    Complex<double> sum = {0, 0};
                    for (int l = 0; l < n; ++l)
                        sum = minus(sum, h(i, l), s(l, j));
                    out[place_of(g * n + i, 2 * n, j)].s[0] = milcgpu::convert<float>(2 * mass * s(i, j));
                    out[place_of(other * n + i, 2 * n, n + j)].s[0] = milcgpu::convert<float>(sum);
                }
        },
        "multigrid: X^-1");
    return inverse;
}

// Random vectors after `steps` steps of conjugate gradient on D^dag D x = 0, K at once: fields [row], mostly of low
// modes.
template <int K>
std::vector<Field<float, K>> null_vectors(const Blocks<float> &d, int count, int steps, uint64_t seed) {
    Device &device = d.elements.device();
    const int rows = d.all_rows();
    const auto room = room_for_sums<float, K>(device, rows, 1);
    const DeviceArray<Packed<double, K>> sum(device, 1, "multigrid: sums"), square(device, 1, "multigrid: sums");
    const DeviceArray<Packed<float, K>> alpha(device, 1, "multigrid: sums"), beta(device, 1, "multigrid: sums");
    const Field<float, K> r = make_field<float, K>(device, rows), p = make_field<float, K>(device, rows),
                          t = make_field<float, K>(device, rows), q = make_field<float, K>(device, rows);
    Packed<double, K> *const new_sum = sum.data(), *const rr = square.data();
    Packed<float, K> *const a = alpha.data(), *const b = beta.data();
    std::vector<Field<float, K>> all;
    for (int first = 0; first < count; first += K) {
        Field<float, K> x = make_field<float, K>(device, rows);
        fill_with_noise(x, seed + first);
        apply(d, x, t);
        apply(d, t, r); // 0 - D^dag D x
        copy(p, r);
        dots(device, rows, list(r), list(r), room, rr);
        for (int step = 0; step < steps; ++step) {
            apply(d, p, t);
            apply(d, t, q); // -D^dag D p
            dots(device, rows, list(t), list(t), room, new_sum);
            each(
                device, K,
                [=] ON_DEVICE(int k) {
                    const double tt = new_sum[0].s[k].re;
                    a[0].s[k] = {static_cast<float>(tt > 0 ? rr[0].s[k].re / tt : 0.0), 0};
                },
                "multigrid: alpha");
            combine(x, list(p), a);
            combine(r, list(q), a);
            dots(device, rows, list(r), list(r), room, new_sum);
            each(
                device, K,
                [=] ON_DEVICE(int k) {
                    const double before = rr[0].s[k].re, after = new_sum[0].s[k].re;
                    b[0].s[k] = {static_cast<float>(before > 0 ? after / before : 0.0), 0};
                    rr[0].s[k] = {after, 0};
                },
                "multigrid: beta");
            combine(p, list(r), nullptr, 1.0f, b);
        }
        all.push_back(std::move(x));
    }
    return all;
}

// P and P^dag between 2n numbers an aggregate (n a parity) and the fine lattice.
struct Transfer {
    int n = 0;
    Blocks<float> prolong, restrict;
};

// From the first n vectors. Those of each parity of each aggregate are made orthonormal, by Cholesky's decomposition of
// their Gram matrix, twice.
template <int K> Transfer make_transfer(const SiteOrder &o, const std::vector<Field<float, K>> &vectors, int n) {
    Device &device = vectors[0].device();
    const int halves = 2 * o.aggregates, rows = 3 * o.of_parity;
    std::vector<int> self(halves);
    for (int i = 0; i < halves; ++i)
        self[i] = i;
    Transfer t;
    t.n = n;
    t.prolong = Blocks<float>(device, halves, rows, n, self);
    t.restrict = Blocks<float>(device, halves, n, rows, self);
    Packed<float, 1> *const p = t.prolong.elements.data(), *const r = t.restrict.elements.data();
    for (int first = 0; first < n; first += K) {
        const Packed<float, K> *const v = vectors[first / K].data();
        each(
            device, o.rows(),
            [=] ON_DEVICE(int row) {
                for (int k = 0; k < K && first + k < n; ++k)
                    p[place_of(row, n, first + k)].s[0] = v[row].s[k];
            },
            "multigrid: vectors");
    }
    const DeviceArray<Complex<double>> gram(device, size_t(halves) * n * n, "multigrid: Gram matrices");
    Complex<double> *const g_all = gram.data();
    for (int pass = 0; pass < 2; ++pass) {
        each(
            device, halves * n * n,
            [=] ON_DEVICE(int i) {
                const int half = i / (n * n), a = i / n % n, b = i % n;
                Complex<double> sum = {0, 0};
                for (int row = half * rows; row < (half + 1) * rows && a <= b; ++row)
                    sum = plus(sum, conj(milcgpu::convert<double>(p[place_of(row, n, a)].s[0])),
                               milcgpu::convert<double>(p[place_of(row, n, b)].s[0]));
                g_all[(size_t(a) * n + b) * halves + half] = sum;
            },
            "multigrid: Gram matrices");
        each( // G = R^dag R, in place of G's upper half
            device, halves,
            [=] ON_DEVICE(int half) {
                const auto g = [=](int a, int b) -> Complex<double> & {
                    return g_all[(size_t(a) * n + b) * halves + half];
                };
                for (int a = 0; a < n; ++a) {
                    double square = g(a, a).re;
                    for (int l = 0; l < a; ++l)
                        square -= norm(g(l, a));
                    const double root = std::sqrt(square);
                    g(a, a) = {root, 0};
                    for (int b = a + 1; b < n; ++b) {
                        Complex<double> sum = g(a, b);
                        for (int l = 0; l < a; ++l)
                            sum = minus(sum, conj(g(l, a)), g(l, b));
                        g(a, b) = (1 / root) * sum;
                    }
                }
            },
            "multigrid: Cholesky");
        each( // v R^-1
            device, o.rows(),
            [=] ON_DEVICE(int row) {
                const int half = row / rows;
                for (int b = 0; b < n; ++b) {
                    Complex<double> sum = milcgpu::convert<double>(p[place_of(row, n, b)].s[0]);
                    for (int l = 0; l < b; ++l)
                        sum = minus(sum, milcgpu::convert<double>(p[place_of(row, n, l)].s[0]),
                                    g_all[(size_t(l) * n + b) * halves + half]);
                    p[place_of(row, n, b)].s[0] =
                        milcgpu::convert<float>((1 / g_all[(size_t(b) * n + b) * halves + half].re) * sum);
                }
            },
            "multigrid: orthonormal");
    }
    each(
        device, o.rows(),
        [=] ON_DEVICE(int row) {
            for (int k = 0; k < n; ++k)
                r[place_of(row / rows * n + k, rows, row % rows)].s[0] = conj(p[place_of(row, n, k)].s[0]);
        },
        "multigrid: P^dag");
    return t;
}

// A on the fine lattice, for fields of K sources.
struct Fine {
    const Blocks<float> &d, &inverse;
    double mass;
    template <int K> void m(const Field<float, K> &x, const Field<float, K> &y) const {
        apply(d, x, y, static_cast<float>(2 * mass));
    }
    template <int K> void a(const Field<float, K> &x, const Field<float, K> &y, const Field<float, K> &aside) const {
        m(x, aside);
        apply(inverse, aside, y);
    }
};

// The coarse operator: its columns, K at once, as P^dag X^-1 (2m + D) P of unit vectors on all aggregates, with D's
// hops into one neighbour at a time.
template <int K>
Blocks<float> make_coarse(const SiteOrder &o, const Fine &fine, const Transfer &t,
                          const std::vector<DeviceArray<int>> &to_neighbour) {
    Device &device = fine.d.elements.device();
    const int n = 2 * t.n;
    std::vector<int> from;
    for (int s = 0; s < o.aggregates; ++s) {
        from.push_back(s);
        for (int mu = 0; mu < 4; ++mu)
            for (const int step : {1, -1})
                from.push_back(o.coarse.neighbour(s, mu, step));
    }
    Blocks<float> coarse(device, o.aggregates, n, n, from);
    const Field<float, K> unit = make_field<float, K>(device, o.aggregates * n),
                          y = make_field<float, K>(device, o.aggregates * n),
                          z = make_field<float, K>(device, o.rows()), v = make_field<float, K>(device, o.rows()),
                          w = make_field<float, K>(device, o.rows());
    Packed<float, 1> *const elements = coarse.elements.data();
    const int width = coarse.width();
    for (int first = 0; first < n; first += K) {
        Packed<float, K> *const u = unit.data(), *const columns = y.data();
        each(
            device, o.aggregates * n,
            [=] ON_DEVICE(int row) {
                for (int k = 0; k < K; ++k)
                    u[row].s[k] = {row % n == first + k ? 1.0f : 0.0f, 0};
            },
            "multigrid: unit vectors");
        apply(t.prolong, unit, z);
        for (int term = 0; term < coarse_terms; ++term) {
            apply(fine.d, z, v, static_cast<float>(term == 0 ? 2 * fine.mass : 0), to_neighbour[term].data());
            apply(fine.inverse, v, w);
            apply(t.restrict, w, y);
            each(
                device, o.aggregates * n,
                [=] ON_DEVICE(int row) {
                    for (int k = 0; k < K && first + k < n; ++k)
                        elements[place_of(row, width, term * n + first + k)].s[0] = columns[row].s[k];
                },
                "multigrid: coarse operator");
        }
    }
    return coarse;
}

// The adjoint of a coarse operator.
inline Blocks<float> adjoint_of(const Blocks<float> &c) {
    Device &device = c.elements.device();
    Blocks<float> adjoint(device, c.sites, c.rows, c.columns, c.from.to_host());
    const int n = c.rows, width = c.width();
    const int *const from = c.from.data();
    const Packed<float, 1> *const e = c.elements.data();
    Packed<float, 1> *const out = adjoint.elements.data();
    each(
        device, c.all_rows(),
        [=] ON_DEVICE(int row) {
            for (int term = 0; term < coarse_terms; ++term) {
                const int there = from[row / n * coarse_terms + term], back = term == 0 ? 0 : ((term - 1) ^ 1) + 1;
                for (int column = 0; column < n; ++column)
                    out[place_of(row, width, term * n + column)].s[0] =
                        conj(e[place_of(there * n + column, width, back * n + row % n)].s[0]);
            }
        },
        "multigrid: adjoint");
    return adjoint;
}

} // namespace multigrid
