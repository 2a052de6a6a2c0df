#include "tests/reference/mesons.h"

#include <algorithm>

namespace reference {

namespace {

std::array<int, 4> relative(const Lattice &lattice, int site, const Origin &origin) {
    auto h = lattice.coordinates(site);
    for (int mu = 0; mu < 4; mu++)
        h[mu] -= origin[mu];
    return h;
}

double sign(int exponent) { return exponent % 2 == 0 ? 1 : -1; }

int sum(const std::array<int, 4> &h) { return h[0] + h[1] + h[2] + h[3]; }

// (-1)^h_mu e
double zeta(const Lattice &lattice, int site, const Origin &origin, int mu) {
    const auto h = relative(lattice, site, origin);
    return sign(h[mu] + sum(h));
}

Complex vector_dot(const Vector &a, const Vector &b) {
    Complex sum = 0;
    for (int c = 0; c < 3; c++)
        sum += times(std::conj(a.c[c]), b.c[c]);
    return sum;
}

} // namespace

Gauge phased_links(const Lattice &lattice, const Gauge &links, const Origin &origin, bool antiperiodic) {
    Gauge phased = links;
    for (int site = 0; site < lattice.volume(); site++) {
        const auto h = relative(lattice, site, origin);
        const double phases[4] = {sign(h[3]), sign(h[3] + h[0]), sign(h[3] + h[0] + h[1]), 1};
        for (int mu = 0; mu < 4; mu++)
            phased[4 * site + mu] = phases[mu] * phased[4 * site + mu];
        if (antiperiodic && lattice.coordinates(site)[3] == lattice.n[3] - 1 - origin[3])
            phased[4 * site + 3] = -1.0 * phased[4 * site + 3];
    }
    return phased;
}

Fermion shift(const Lattice &lattice, const Gauge &links, int dir, ShiftWay way, const Fermion &field) {
    Fermion result(field.size());
    for (int site = 0; site < lattice.volume(); site++) {
        const int ahead = lattice.neighbour(site, dir, 1), behind = lattice.neighbour(site, dir, -1);
        if (way != ShiftWay::backward)
            result[site] = result[site] + links[4 * site + dir] * field[ahead];
        if (way != ShiftWay::forward)
            result[site] = result[site] + adjoint(links[4 * behind + dir]) * field[behind];
        if (way == ShiftWay::symmetric)
            result[site] = 0.5 * result[site];
    }
    return result;
}

Fermion spin_taste(const Lattice &lattice, const Gauge &phased, const Origin &origin, unsigned spin, unsigned taste,
                   const Fermion &field) {
    Fermion source = field;
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < 4; mu++)
            if (spin >> mu & 1)
                source[site] = zeta(lattice, site, origin, mu) * source[site];
    std::vector<int> directions;
    for (int mu = 0; mu < 4; mu++)
        if ((spin ^ taste) >> mu & 1)
            directions.push_back(mu);
    // The order with a positive sign; the first shift acts first.
    std::vector<int> positive = directions;
    if (directions.size() == 2 && directions != std::vector<int>{0, 2})
        std::swap(positive[0], positive[1]);
    Fermion total(field.size());
    int orders = 0;
    auto order = directions;
    do {
        int exchanges = 0; // exchanges that turn the positive order into this one
        for (size_t i = 0; i < order.size(); i++)
            for (size_t j = 0; j < i; j++) {
                const auto place = [&](int mu) { return std::find(positive.begin(), positive.end(), mu); };
                exchanges += place(order[j]) > place(order[i]);
            }
        Fermion shifted = source;
        for (const int mu : order) {
            shifted = shift(lattice, phased, mu, ShiftWay::symmetric, shifted);
            for (int site = 0; site < lattice.volume(); site++)
                shifted[site] = zeta(lattice, site, origin, mu) * shifted[site];
        }
        for (int site = 0; site < lattice.volume(); site++)
            total[site] = total[site] + sign(exchanges) * shifted[site];
        orders++;
    } while (std::next_permutation(order.begin(), order.end()));
    for (int site = 0; site < lattice.volume(); site++)
        total[site] = (sign(sum(relative(lattice, site, origin))) / orders) * total[site];
    return total;
}

Fermion laplacian(const Lattice &lattice, const Gauge &links, int hop, int slice, const Fermion &field) {
    Fermion result(field.size());
    for (int k = 0; k < 3; k++)
        for (const ShiftWay way : {ShiftWay::forward, ShiftWay::backward}) {
            Fermion moved = shift(lattice, links, k, way, field);
            if (hop == 2)
                moved = shift(lattice, links, k, way, moved);
            for (int site = 0; site < lattice.volume(); site++)
                result[site] = result[site] + moved[site] - field[site];
        }
    for (int site = 0; site < lattice.volume(); site++)
        if (slice >= 0 && lattice.coordinates(site)[3] != slice)
            result[site] = Vector{};
    return result;
}

Complex momentum_factor(const Lattice &lattice, int site, const std::array<int, 3> &p,
                        const std::array<char, 3> &parity, const Origin &origin) {
    const auto h = relative(lattice, site, origin);
    Complex factor = 1;
    for (int mu = 0; mu < 3; mu++) {
        const double angle = 2 * M_PI * p[mu] * h[mu] / lattice.n[mu];
        factor *= parity[mu] == 'E'   ? Complex(std::cos(angle), 0)
                  : parity[mu] == 'O' ? Complex(0, std::sin(angle))
                                      : std::polar(1.0, angle);
    }
    return factor;
}

std::vector<Complex> slice_sums(const Lattice &lattice, const Fermion &a, const Fermion &b, const std::array<int, 3> &p,
                                const std::array<char, 3> &parity, const Origin &origin) {
    std::vector<Complex> sums(lattice.n[3]);
    for (int site = 0; site < lattice.volume(); site++)
        sums[lattice.coordinates(site)[3]] +=
            times(momentum_factor(lattice, site, p, parity, origin), vector_dot(a[site], b[site]));
    return sums;
}

Complex dot(const Fermion &a, const Fermion &b) {
    Complex sum = 0;
    for (size_t site = 0; site < a.size(); site++)
        sum += vector_dot(a[site], b[site]);
    return sum;
}

} // namespace reference
