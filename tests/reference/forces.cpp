#include "tests/reference/forces.h"

#include <algorithm>
#include <array>

namespace reference {

std::vector<WeightedPath> fat_paths(const PathCoefficients &c, int mu) {
    std::vector<WeightedPath> paths = {{{mu}, c.one_link}};
    for (int nu = 0; nu < 8; nu++) {
        const auto is_other = [&](int a) { return a != mu && a != 7 - mu; };
        const auto differs = [](int a, int b) { return a != b && a != 7 - b; };
        if (!is_other(nu))
            continue;
        paths.push_back({{nu, mu, 7 - nu}, c.three_staple});
        paths.push_back({{nu, nu, mu, 7 - nu, 7 - nu}, c.lepage});
        for (int rho = 0; rho < 8; rho++) {
            if (!is_other(rho) || !differs(rho, nu))
                continue;
            paths.push_back({{nu, rho, mu, 7 - rho, 7 - nu}, c.five_staple});
            for (int sigma = 0; sigma < 8; sigma++)
                if (is_other(sigma) && differs(sigma, nu) && differs(sigma, rho))
                    paths.push_back({{nu, rho, sigma, mu, 7 - sigma, 7 - rho, 7 - nu}, c.seven_staple});
        }
    }
    return paths;
}

std::vector<WeightedPath> long_path(const PathCoefficients &c, int mu) { return {{{mu, mu, mu}, c.naik}}; }

namespace {

// The link of a step from `site`, as a factor of the product, and its index.
struct Step {
    Matrix matrix;
    std::size_t link;
    bool backward;
};

void steps_of(const Lattice &lattice, const Gauge &links, const WeightedPath &path, int site,
              std::vector<Step> &steps) {
    steps.clear();
    for (const int step : path.steps) {
        const bool backward = step > 3;
        const int direction = backward ? 7 - step : step, next = lattice.neighbour(site, direction, backward ? -1 : 1);
        const std::size_t link = 4 * std::size_t(backward ? next : site) + direction;
        steps.push_back({backward ? adjoint(links[link]) : links[link], link, backward});
        site = next;
    }
}

} // namespace

Gauge sum_of_paths(const Lattice &lattice, const Gauge &links,
                   std::vector<WeightedPath> (*paths)(const PathCoefficients &, int), const PathCoefficients &c) {
    Gauge sum(links.size());
    std::vector<Step> steps;
    for (int mu = 0; mu < 4; mu++)
        for (const WeightedPath &path : paths(c, mu))
            for (int site = 0; site < lattice.volume(); site++) {
                steps_of(lattice, links, path, site, steps);
                Matrix product = identity();
                for (const Step &step : steps)
                    product = product * step.matrix;
                Matrix &v = sum[4 * std::size_t(site) + mu];
                v = v + path.coefficient * product;
            }
    return sum;
}

Gauge path_derivative(const Lattice &lattice, const Gauge &links,
                      std::vector<WeightedPath> (*paths)(const PathCoefficients &, int), const PathCoefficients &c,
                      const Gauge &q) {
    Gauge by_links(links.size());
    std::vector<Step> steps;
    std::vector<Matrix> behind; // the derivative by the product, times the adjoint of the steps after each step
    for (int mu = 0; mu < 4; mu++)
        for (const WeightedPath &path : paths(c, mu)) {
            if (path.coefficient == 0)
                continue;
            for (int site = 0; site < lattice.volume(); site++) {
                steps_of(lattice, links, path, site, steps);
                behind.resize(steps.size());
                behind.back() = path.coefficient * q[4 * std::size_t(site) + mu];
                for (std::size_t k = steps.size() - 1; k > 0; k--)
                    behind[k - 1] = behind[k] * adjoint(steps[k].matrix);
                Matrix before; // the product of the steps before it
                for (std::size_t k = 0; k < steps.size(); k++) {
                    const Matrix derivative = k == 0 ? behind[0] : adjoint(before) * behind[k];
                    Matrix &to = by_links[steps[k].link];
                    to = to + (steps[k].backward ? adjoint(derivative) : derivative);
                    before = k == 0 ? steps[0].matrix : before * steps[k].matrix;
                }
            }
        }
    return by_links;
}

Gauge outer_products(const Lattice &lattice, const std::vector<Fermion> &x, const std::vector<double> &weights,
                     int hops) {
    Gauge sum(4 * std::size_t(lattice.volume()));
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < 4; mu++)
            for (std::size_t t = 0; t < x.size(); t++) {
                const Vector &here = x[t][site], &there = x[t][lattice.neighbour(site, mu, hops)];
                const double weight = lattice.parity(site) == 0 ? weights[t] : -weights[t];
                for (int row = 0; row < 3; row++)
                    for (int column = 0; column < 3; column++)
                        sum[4 * std::size_t(site) + mu].e[row][column] +=
                            weight * times(here.c[row], std::conj(there.c[column]));
            }
    return sum;
}

namespace {

// a x = b by elimination with row pivots, 9 unknowns.
std::array<Complex, 9> solve(std::array<std::array<Complex, 9>, 9> a, std::array<Complex, 9> b) {
    for (int k = 0; k < 9; k++) {
        int pivot = k;
        for (int row = k + 1; row < 9; row++)
            if (std::norm(a[row][k]) > std::norm(a[pivot][k]))
                pivot = row;
        std::swap(a[k], a[pivot]);
        std::swap(b[k], b[pivot]);
        const Complex over = 1.0 / a[k][k];
        for (int row = k + 1; row < 9; row++) {
            const Complex factor = times(a[row][k], over);
            for (int column = k; column < 9; column++)
                a[row][column] -= times(factor, a[k][column]);
            b[row] -= times(factor, b[k]);
        }
    }
    for (int k = 8; k >= 0; k--) {
        for (int column = k + 1; column < 9; column++)
            b[k] -= times(a[k][column], b[column]);
        b[k] /= a[k][k];
    }
    return b;
}

// x with s x + x s = y
Matrix solve_sylvester(const Matrix &s, const Matrix &y) {
    std::array<std::array<Complex, 9>, 9> a{};
    std::array<Complex, 9> b;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            b[3 * i + j] = y.e[i][j];
            for (int k = 0; k < 3; k++) {
                a[3 * i + j][3 * k + j] += s.e[i][k];
                a[3 * i + j][3 * i + k] += s.e[k][j];
            }
        }
    const auto solution = solve(a, b);
    Matrix x;
    for (int k = 0; k < 9; k++)
        x.e[k / 3][k % 3] = solution[k];
    return x;
}

// The hermitian positive root of a hermitian positive matrix: Newton's iteration s -> s + d, s d + d s = a - s s.
Matrix square_root(const Matrix &a) {
    Matrix s = (trace(a).real() / 3 + 1) * identity();
    for (int step = 0; step < 100; step++) {
        const Matrix change = solve_sylvester(s, a - s * s);
        s = s + change;
        if (frobenius_norm(change) < 1e-15 * frobenius_norm(s))
            break;
    }
    return s;
}

Matrix inverse(const Matrix &a) {
    Matrix result;
    const Complex d = det(a);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int k = (i + 1) % 3, l = (i + 2) % 3, m = (j + 1) % 3, n = (j + 2) % 3;
            result.e[j][i] = (times(a.e[k][m], a.e[l][n]) - times(a.e[k][n], a.e[l][m])) / d;
        }
    return result;
}

} // namespace

Matrix unitary_part_derivative(const Matrix &v, const Matrix &q, double shift) {
    const Matrix root = square_root(adjoint(v) * v + shift * identity()), p = inverse(root);
    Matrix by_v;
    for (int k = 0; k < 9; k++) {
        double parts[2];
        for (int part = 0; part < 2; part++) {
            Matrix dv{};
            dv.e[k / 3][k % 3] = part == 0 ? Complex(1, 0) : Complex(0, 1);
            // d(root) from root^2 = v^dagger v + shift; d(p) = -p d(root) p
            const Matrix d_root = solve_sylvester(root, adjoint(dv) * v + adjoint(v) * dv);
            const Matrix dw = dv * p - v * (p * (d_root * p));
            parts[part] = trace(adjoint(q) * dw).real();
        }
        by_v.e[k / 3][k % 3] = {parts[0], parts[1]};
    }
    return by_v;
}

} // namespace reference
