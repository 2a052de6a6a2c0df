#include "tests/reference/wilson.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace reference {

namespace {

const Complex i_unit(0, 1);

std::array<SpinMatrix, 5> make_gammas() {
    std::array<SpinMatrix, 5> g{};
    const Complex i = i_unit;
    g[0][0][3] = i, g[0][1][2] = i, g[0][2][1] = -i, g[0][3][0] = -i;
    g[1][0][3] = -1, g[1][1][2] = 1, g[1][2][1] = 1, g[1][3][0] = -1;
    g[2][0][2] = i, g[2][1][3] = -i, g[2][2][0] = -i, g[2][3][1] = i;
    g[3][0][2] = 1, g[3][1][3] = 1, g[3][2][0] = 1, g[3][3][1] = 1;
    g[4][0][0] = 1, g[4][1][1] = 1, g[4][2][2] = -1, g[4][3][3] = -1;
    return g;
}

WilsonVector multiply(const Matrix &u, const WilsonVector &psi) {
    WilsonVector result;
    for (int spin = 0; spin < 4; spin++)
        result.d[spin] = u * psi.d[spin];
    return result;
}

// Elimination with pivots: the inverse and log |det|.
std::pair<Block6, double> eliminate(Block6 a) {
    Block6 b{};
    for (int k = 0; k < 6; k++)
        b[k][k] = 1;
    double log_det = 0;
    for (int column = 0; column < 6; column++) {
        int pivot = column;
        for (int row = column + 1; row < 6; row++)
            if (std::norm(a[row][column]) > std::norm(a[pivot][column]))
                pivot = row;
        std::swap(a[column], a[pivot]);
        std::swap(b[column], b[pivot]);
        log_det += std::log(std::abs(a[column][column]));
        const Complex scale = 1.0 / a[column][column];
        for (int k = 0; k < 6; k++)
            a[column][k] = times(scale, a[column][k]), b[column][k] = times(scale, b[column][k]);
        for (int row = 0; row < 6; row++) {
            if (row == column)
                continue;
            const Complex factor = a[row][column];
            for (int k = 0; k < 6; k++)
                a[row][k] -= times(factor, a[column][k]), b[row][k] -= times(factor, b[column][k]);
        }
    }
    return {b, log_det};
}

} // namespace

WilsonVector operator+(WilsonVector a, const WilsonVector &b) {
    for (int spin = 0; spin < 4; spin++)
        a.d[spin] = a.d[spin] + b.d[spin];
    return a;
}

WilsonVector operator-(WilsonVector a, const WilsonVector &b) {
    for (int spin = 0; spin < 4; spin++)
        a.d[spin] = a.d[spin] - b.d[spin];
    return a;
}

WilsonVector operator*(Complex s, WilsonVector a) {
    for (auto &spin : a.d)
        spin = s * spin;
    return a;
}

double norm2(const WilsonVector &a) { return norm2(a.d[0]) + norm2(a.d[1]) + norm2(a.d[2]) + norm2(a.d[3]); }

WilsonField operator+(WilsonField a, const WilsonField &b) {
    for (std::size_t site = 0; site < a.size(); site++)
        a[site] = a[site] + b[site];
    return a;
}

WilsonField operator-(WilsonField a, const WilsonField &b) {
    for (std::size_t site = 0; site < a.size(); site++)
        a[site] = a[site] - b[site];
    return a;
}

WilsonField operator*(Complex s, WilsonField a) {
    for (auto &psi : a)
        psi = s * psi;
    return a;
}

double norm2(const WilsonField &a) {
    long double sum = 0;
    for (const auto &psi : a)
        sum += norm2(psi);
    return double(sum);
}

Complex dot(const WilsonField &a, const WilsonField &b) {
    long double re = 0, im = 0;
    for (std::size_t site = 0; site < a.size(); site++)
        for (int spin = 0; spin < 4; spin++)
            for (int colour = 0; colour < 3; colour++) {
                const Complex term = times(std::conj(a[site].d[spin].c[colour]), b[site].d[spin].c[colour]);
                re += term.real(), im += term.imag();
            }
    return {double(re), double(im)};
}

WilsonField random_wilson_field(const Lattice &lattice, unsigned long seed) {
    Rng rng(seed);
    WilsonField field(lattice.volume());
    for (auto &psi : field)
        for (auto &spin : psi.d)
            spin = random_vector(rng);
    return field;
}

WilsonField on_parity(const Lattice &lattice, WilsonField field, int parity) {
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.parity(site) != parity)
            field[site] = WilsonVector{};
    return field;
}

WilsonField transform_wilson_field(const Transformation &g, const WilsonField &field) {
    WilsonField result(field.size());
    for (std::size_t site = 0; site < field.size(); site++)
        result[site] = multiply(g[site], field[site]);
    return result;
}

SpinMatrix unit_spin_matrix() {
    SpinMatrix unit{};
    for (int k = 0; k < 4; k++)
        unit[k][k] = 1;
    return unit;
}

SpinMatrix operator+(SpinMatrix a, const SpinMatrix &b) {
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++)
            a[row][column] += b[row][column];
    return a;
}

SpinMatrix operator*(Complex s, SpinMatrix a) {
    for (auto &row : a)
        for (auto &e : row)
            e = times(s, e);
    return a;
}

SpinMatrix operator*(const SpinMatrix &a, const SpinMatrix &b) {
    SpinMatrix product{};
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++)
            for (int k = 0; k < 4; k++)
                product[row][column] += times(a[row][k], b[k][column]);
    return product;
}

SpinMatrix adjoint(const SpinMatrix &a) {
    SpinMatrix result;
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++)
            result[row][column] = std::conj(a[column][row]);
    return result;
}

double norm2(const SpinMatrix &a) {
    double sum = 0;
    for (const auto &row : a)
        for (const auto &e : row)
            sum += std::norm(e);
    return sum;
}

WilsonVector operator*(const SpinMatrix &a, const WilsonVector &psi) {
    WilsonVector result{};
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++)
            result.d[row] = result.d[row] + a[row][column] * psi.d[column];
    return result;
}

WilsonField operator*(const SpinMatrix &a, const WilsonField &psi) {
    WilsonField result(psi.size());
    for (std::size_t site = 0; site < psi.size(); site++)
        result[site] = a * psi[site];
    return result;
}

const SpinMatrix &gamma_matrix(int mu) {
    static const std::array<SpinMatrix, 5> gammas = make_gammas();
    return gammas[mu];
}

SpinMatrix sigma_matrix(int mu, int nu) {
    const SpinMatrix &a = gamma_matrix(mu), &b = gamma_matrix(nu);
    return 0.5 * i_unit * (a * b + Complex(-1) * (b * a));
}

namespace {

// parity: 0, 1, or -1 for all sites; the result is zero on other sites.
WilsonField wilson_dslash_on(const Lattice &lattice, const Gauge &links, const WilsonField &psi, int s, int parity) {
    SpinMatrix ahead[4], behind[4];
    for (int mu = 0; mu < 4; mu++) {
        ahead[mu] = unit_spin_matrix() + Complex(s) * gamma_matrix(mu);
        behind[mu] = unit_spin_matrix() + Complex(-s) * gamma_matrix(mu);
    }
    WilsonField result(psi.size());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++) {
        if (lattice.parity(site) == 1 - parity)
            continue;
        WilsonVector sum{};
        for (int mu = 0; mu < 4; mu++) {
            const int up = lattice.neighbour(site, mu, 1), down = lattice.neighbour(site, mu, -1);
            sum = sum + ahead[mu] * multiply(links[4 * std::size_t(site) + mu], psi[up]) +
                  behind[mu] * multiply(adjoint(links[4 * std::size_t(down) + mu]), psi[down]);
        }
        result[site] = sum;
    }
    return result;
}

} // namespace

WilsonField wilson_dslash(const Lattice &lattice, const Gauge &links, const WilsonField &psi, int s) {
    return wilson_dslash_on(lattice, links, psi, s, -1);
}

Gauge antiperiodic_in_time(const Lattice &lattice, Gauge links) {
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.coordinates(site)[3] == lattice.n[3] - 1)
            links[4 * std::size_t(site) + 3] = -1.0 * links[4 * std::size_t(site) + 3];
    return links;
}

Matrix field_strength(const Lattice &lattice, const Gauge &links, int site, int mu, int nu) {
    // The matrix of a step, and the site that the step reaches. A step backwards takes the adjoint link.
    const auto walk = [&](int &at, int dir, int sign) {
        const int next = lattice.neighbour(at, dir, sign);
        const Matrix u = sign > 0 ? links[4 * std::size_t(at) + dir] : adjoint(links[4 * std::size_t(next) + dir]);
        at = next;
        return u;
    };
    struct Step {
        int dir, sign;
    };
    const Step turns[4] = {{mu, 1}, {nu, 1}, {mu, -1}, {nu, -1}};
    Matrix leaves{};
    for (int first = 0; first < 4; first++) {
        Matrix leaf = identity();
        int at = site;
        for (int k = 0; k < 4; k++) {
            const Step step = turns[(first + k) % 4];
            leaf = leaf * walk(at, step.dir, step.sign);
        }
        leaves = leaves + leaf;
    }
    return 0.125 * (leaves - adjoint(leaves));
}

Clover unit_clover(const Lattice &lattice) {
    CloverSite unit{};
    for (auto &block : unit.block)
        for (int k = 0; k < 6; k++)
            block[k][k] = 1;
    return Clover(lattice.volume(), unit);
}

Clover clover_term(const Lattice &lattice, const Gauge &links, double cku0) {
    Clover r = unit_clover(lattice);
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < 4; mu++)
            for (int nu = mu + 1; nu < 4; nu++) {
                const SpinMatrix sigma = sigma_matrix(mu, nu);
                const Matrix f = field_strength(lattice, links, site, mu, nu);
                for (int chirality = 0; chirality < 2; chirality++)
                    for (int row = 0; row < 6; row++)
                        for (int column = 0; column < 6; column++)
                            r[site].block[chirality][row][column] +=
                                cku0 * i_unit * sigma[2 * chirality + row / 3][2 * chirality + column / 3] *
                                f.e[row % 3][column % 3];
            }
    return r;
}

Block6 inverse(const Block6 &a) { return eliminate(a).first; }

Clover inverse(const Clover &a) {
    Clover result(a.size());
    for (std::size_t site = 0; site < a.size(); site++)
        for (int chirality = 0; chirality < 2; chirality++)
            result[site].block[chirality] = inverse(a[site].block[chirality]);
    return result;
}

Block6 operator*(const Block6 &a, const Block6 &b) {
    Block6 product{};
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 6; column++)
            for (int k = 0; k < 6; k++)
                product[row][column] += times(a[row][k], b[k][column]);
    return product;
}

double norm2(const Block6 &a) {
    double sum = 0;
    for (const auto &row : a)
        for (const auto &e : row)
            sum += std::norm(e);
    return sum;
}

double trace_log(const Lattice &lattice, const Clover &a, int parity) {
    long double sum = 0;
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.parity(site) == parity)
            sum += eliminate(a[site].block[0]).second + eliminate(a[site].block[1]).second;
    return double(sum);
}

WilsonField operator*(const Clover &r, const WilsonField &psi) {
    WilsonField result(psi.size(), WilsonVector{});
    for (std::size_t site = 0; site < psi.size(); site++)
        for (int chirality = 0; chirality < 2; chirality++)
            for (int row = 0; row < 6; row++)
                for (int column = 0; column < 6; column++)
                    result[site].d[2 * chirality + row / 3].c[row % 3] += times(
                        r[site].block[chirality][row][column], psi[site].d[2 * chirality + column / 3].c[column % 3]);
    return result;
}

MilcClover milc_clover(const CloverSite &r) {
    MilcClover milc{};
    for (int chirality = 0; chirality < 2; chirality++) {
        int below = 0;
        for (int row = 0; row < 6; row++) {
            milc.di[chirality][row] = r.block[chirality][row][row].real();
            for (int column = 0; column < row; column++)
                milc.tr[chirality][below++] = r.block[chirality][row][column];
        }
    }
    return milc;
}

WilsonField wilson_matrix(const Lattice &lattice, const Gauge &links, const Clover &r, double kappa,
                          const WilsonField &psi, int s) {
    return r * psi + Complex(-kappa) * wilson_dslash(lattice, links, psi, s);
}

WilsonField wilson_even_odd(const Lattice &lattice, const Gauge &links, const Clover &r, double kappa,
                            const WilsonField &psi, int s, int parity) {
    return wilson_even_odd(lattice, links, r, inverse(r), kappa, psi, s, parity);
}

WilsonField wilson_even_odd(const Lattice &lattice, const Gauge &links, const Clover &r, const Clover &inverse_r,
                            double kappa, const WilsonField &psi, int s, int parity) {
    const WilsonField here = on_parity(lattice, psi, parity);
    const WilsonField there = wilson_dslash_on(lattice, links, here, s, 1 - parity);
    const WilsonField back = wilson_dslash_on(lattice, links, inverse_r * there, s, parity);
    return on_parity(lattice, r * here + Complex(-kappa * kappa) * back, parity);
}

WilsonField free_wilson_propagator(const Lattice &lattice, double kappa, const WilsonField &eta, int s,
                                   bool antiperiodic) {
    const int volume = lattice.volume();
    const auto momentum = [&](int mode) {
        const auto k = lattice.coordinates(mode);
        std::array<double, 4> p{};
        for (int mu = 0; mu < 4; mu++)
            p[mu] = 2 * M_PI * (k[mu] + (mu == 3 && antiperiodic ? 0.5 : 0.0)) / lattice.n[mu];
        return p;
    };
    const auto wave = [&](int site, const std::array<double, 4> &p) {
        const auto x = lattice.coordinates(site);
        return std::polar(1.0, x[0] * p[0] + x[1] * p[1] + x[2] * p[2] + x[3] * p[3]);
    };
    WilsonField modes(volume), psi(volume, WilsonVector{});
#pragma omp parallel for
    for (int mode = 0; mode < volume; mode++) {
        const auto p = momentum(mode);
        WilsonVector sum{};
        for (int site = 0; site < volume; site++)
            if (norm2(eta[site]) != 0)
                sum = sum + std::conj(wave(site, p)) * eta[site];
        double a = 1, sines = 0;
        SpinMatrix slash{};
        for (int mu = 0; mu < 4; mu++) {
            a -= 2 * kappa * std::cos(p[mu]);
            sines += std::sin(p[mu]) * std::sin(p[mu]);
            slash = slash + Complex(std::sin(p[mu])) * gamma_matrix(mu);
        }
        const SpinMatrix numerator = Complex(a) * unit_spin_matrix() + 2.0 * s * kappa * i_unit * slash;
        modes[mode] = Complex(1 / ((a * a + 4 * kappa * kappa * sines) * volume)) * (numerator * sum);
    }
#pragma omp parallel for
    for (int site = 0; site < volume; site++)
        for (int mode = 0; mode < volume; mode++)
            psi[site] = psi[site] + wave(site, momentum(mode)) * modes[mode];
    return psi;
}

} // namespace reference
