#include "tests/reference/gauge.h"

#include <cstddef>

namespace reference {

namespace {

const Matrix &link(const Gauge &links, int site, int dir) { return links[4 * std::size_t(site) + dir]; }

// One direction of a field of matrices.
using MatrixField = std::vector<Matrix>;

// S_nu(M) for an M that points along mu; gauge.h has the formula.
MatrixField staple(const Lattice &lattice, const Gauge &links, const MatrixField &m, int mu, int nu) {
    MatrixField result(m.size());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++) {
        const int up = lattice.neighbour(site, nu, 1), forward = lattice.neighbour(site, mu, 1);
        const int down = lattice.neighbour(site, nu, -1), down_forward = lattice.neighbour(down, mu, 1);
        const Matrix upper = link(links, site, nu) * m[up] * adjoint(link(links, forward, nu));
        const Matrix lower = adjoint(link(links, down, nu)) * m[down] * link(links, down_forward, nu);
        result[site] = upper + lower;
    }
    return result;
}

void add(MatrixField &sum, double coefficient, const MatrixField &term) {
#pragma omp parallel for
    for (std::size_t site = 0; site < sum.size(); site++)
        sum[site] = sum[site] + coefficient * term[site];
}

// The fat links of one direction.
MatrixField fat_links_along(const Lattice &lattice, const Gauge &links, const PathCoefficients &c, int mu) {
    MatrixField thin(lattice.volume());
    for (int site = 0; site < lattice.volume(); site++)
        thin[site] = link(links, site, mu);

    MatrixField fat(thin.size(), Matrix{});
    // A Lepage staple that goes up and back down is the link itself: two in each of the three directions nu.
    add(fat, c.one_link - 6 * c.lepage, thin);
    for (int nu = 0; nu < 4; nu++) {
        if (nu == mu)
            continue;
        const MatrixField three = staple(lattice, links, thin, mu, nu);
        add(fat, c.three_staple, three);
        add(fat, c.lepage, staple(lattice, links, three, mu, nu));
        for (int rho = 0; rho < 4; rho++) {
            if (rho == mu || rho == nu)
                continue;
            const MatrixField five = staple(lattice, links, three, mu, rho);
            add(fat, c.five_staple, five);
            const int sigma = 6 - mu - nu - rho; // the remaining direction of 0 + 1 + 2 + 3
            add(fat, c.seven_staple, staple(lattice, links, five, mu, sigma));
        }
    }
    return fat;
}

// Sum over sites of Re tr U_P / 3 in the plane mu, nu.
long double plane_sum(const Lattice &lattice, const Gauge &links, int mu, int nu) {
    std::vector<double> at_site(lattice.volume());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++) {
        const Matrix &right = link(links, lattice.neighbour(site, mu, 1), nu);
        const Matrix &top = link(links, lattice.neighbour(site, nu, 1), mu);
        const Matrix there = link(links, site, mu) * right;
        const Matrix back = link(links, site, nu) * top;
        at_site[site] = trace(there * adjoint(back)).real() / 3;
    }
    long double sum = 0;
    for (double value : at_site)
        sum += value;
    return sum;
}

} // namespace

void apply_phases(const Lattice &lattice, Gauge &links) {
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        const int exponents[4] = {x[3], x[3] + x[0], x[3] + x[0] + x[1], x[3] == lattice.n[3] - 1 ? 1 : 0};
        for (int dir = 0; dir < 4; dir++)
            if (exponents[dir] % 2 != 0)
                links[4 * std::size_t(site) + dir] = -1.0 * link(links, site, dir);
    }
}

PlaquetteParts plaquette_parts(const Lattice &lattice, const Gauge &links) {
    long double space = 0, time = 0;
    for (int mu = 0; mu < 3; mu++) {
        for (int nu = mu + 1; nu < 3; nu++)
            space += plane_sum(lattice, links, mu, nu);
        time += plane_sum(lattice, links, mu, 3);
    }
    const long double planes = 3.0L * lattice.volume();
    return {double(space / planes), double(time / planes)};
}

double plaquette(const Lattice &lattice, const Gauge &links) {
    const PlaquetteParts parts = plaquette_parts(lattice, links);
    return (parts.space_space + parts.space_time) / 2;
}

Transformation random_transformation(const Lattice &lattice, unsigned long seed) {
    Rng rng(seed);
    Transformation g(lattice.volume());
    for (auto &matrix : g)
        matrix = random_su3(rng);
    return g;
}

Gauge transform_links(const Lattice &lattice, const Transformation &g, const Gauge &links, int hops) {
    Gauge result(links.size());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        for (int dir = 0; dir < 4; dir++)
            result[4 * std::size_t(site) + dir] =
                g[site] * link(links, site, dir) * adjoint(g[lattice.neighbour(site, dir, hops)]);
    return result;
}

Fermion transform_fermion(const Transformation &g, const Fermion &field) {
    Fermion result(field.size());
    for (std::size_t site = 0; site < field.size(); site++)
        result[site] = g[site] * field[site];
    return result;
}

PathCoefficients asqtad_coefficients(double u0) {
    const double u2 = u0 * u0, u4 = u2 * u2, u6 = u4 * u2;
    PathCoefficients c;
    // Fat7 has 1/8; to cancel the Lepage term's own a^2 error adds 3/8, the Naik term 1/8.
    c.one_link = 5.0 / 8;
    c.naik = -1.0 / 24 / u2;
    c.three_staple = -1.0 / 16 / u2;
    c.five_staple = 1.0 / 64 / u4;
    c.seven_staple = -1.0 / 384 / u6;
    c.lepage = -1.0 / 16 / u4;
    return c;
}

Gauge fat_links(const Lattice &lattice, const Gauge &links_with_phases, const PathCoefficients &coefficients) {
    Gauge fat(links_with_phases.size());
    for (int mu = 0; mu < 4; mu++) {
        const MatrixField along = fat_links_along(lattice, links_with_phases, coefficients, mu);
        for (std::size_t site = 0; site < along.size(); site++)
            fat[4 * site + mu] = along[site];
    }
    return fat;
}

Gauge long_links(const Lattice &lattice, const Gauge &links_with_phases, const PathCoefficients &coefficients) {
    const Gauge &links = links_with_phases;
    Gauge result(links.size());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < 4; mu++)
            result[4 * std::size_t(site) + mu] =
                coefficients.naik * (link(links, site, mu) * link(links, lattice.neighbour(site, mu, 1), mu) *
                                     link(links, lattice.neighbour(site, mu, 2), mu));
    return result;
}

PathCoefficients hisq_fat7_coefficients() { return {1.0 / 8, 0, -1.0 / 16, 1.0 / 64, -1.0 / 384, 0}; }
PathCoefficients hisq_asqtad_coefficients() { return {1, -1.0 / 24, -1.0 / 16, 1.0 / 64, -1.0 / 384, -1.0 / 8}; }

Matrix unitary_part(const Matrix &v) {
    Matrix x = v;
    for (int step = 0; step < 60; step++) {
        Matrix cofactors; // of x; x^dagger^-1 = conj(cofactors) / conj(det)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                const int k = (i + 1) % 3, l = (i + 2) % 3, m = (j + 1) % 3, n = (j + 2) % 3;
                cofactors.e[i][j] = times(x.e[k][m], x.e[l][n]) - times(x.e[k][n], x.e[l][m]);
            }
        const Complex d = det(x);
        Matrix next;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                next.e[i][j] = 0.5 * (x.e[i][j] + std::conj(cofactors.e[i][j] / d));
        const double change = frobenius_norm(next - x);
        x = next;
        if (change < 1e-15)
            break;
    }
    return x;
}

HisqLinks hisq_links(const Lattice &lattice, const Gauge &links, double eps) {
    HisqLinks result;
    result.v = fat_links(lattice, links, hisq_fat7_coefficients());
    for (const Matrix &v : result.v)
        result.w.push_back(unitary_part(v));
    PathCoefficients c = hisq_asqtad_coefficients();
    c.one_link += eps / 8;
    c.naik -= eps / 24;
    result.fat = fat_links(lattice, result.w, c);
    result.lng = long_links(lattice, result.w, c);
    return result;
}

} // namespace reference
