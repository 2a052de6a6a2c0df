#include "tests/reference/gauge_fix.h"

namespace reference {

namespace {

Matrix &link(Gauge &links, int site, int dir) { return links[4 * std::size_t(site) + dir]; }
const Matrix &link(const Gauge &links, int site, int dir) { return links[4 * std::size_t(site) + dir]; }

// The 3x3 matrix of w + i (x, y, z) sigma on colours p and q.
Matrix su2(int p, int q, double w, double x, double y, double z) {
    Matrix m = identity();
    m.e[p][p] = {w, z};
    m.e[p][q] = {y, x};
    m.e[q][p] = {-y, x};
    m.e[q][q] = {w, -z};
    return m;
}

void hit(const Lattice &lattice, Gauge &links, int site, int left_out, double boost, int p, int q) {
    Matrix sum = {}, difference = {}; // the links that arrive, plus and minus the links that leave
    for (int dir = 0; dir < 4; dir++) {
        if (dir == left_out)
            continue;
        const Matrix &out = link(links, site, dir), &in = link(links, lattice.neighbour(site, dir, -1), dir);
        sum = sum + in + out;
        difference = difference + in - out;
    }
    double w = (sum.e[p][p] + sum.e[q][q]).real();
    double x = (difference.e[q][p] + difference.e[p][q]).imag();
    double y = (difference.e[p][q] - difference.e[q][p]).real();
    double z = (difference.e[p][p] - difference.e[q][q]).imag();
    const double vector2 = x * x + y * y + z * z, scalar2 = w * w;
    const double factor = (boost * scalar2 + vector2) / (scalar2 + vector2);
    const double size = std::sqrt(scalar2 + factor * factor * vector2);
    w /= size, x *= factor / size, y *= factor / size, z *= factor / size;
    const Matrix g = su2(p, q, w, x, y, z);
    for (int dir = 0; dir < 4; dir++) {
        Matrix &out = link(links, site, dir), &in = link(links, lattice.neighbour(site, dir, -1), dir);
        out = g * out;
        in = in * adjoint(g);
    }
}

// w after the k-th hit towards v.
Matrix after_hit(const Matrix &w, const Matrix &v, int k) {
    const int pairs[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    const int p = pairs[k % 3][0], q = pairs[k % 3][1];
    const Matrix a = w * adjoint(v);
    double c0 = a.e[p][p].real() + a.e[q][q].real(), c3 = a.e[p][p].imag() - a.e[q][q].imag(),
           c1 = a.e[p][q].imag() + a.e[q][p].imag(), c2 = a.e[p][q].real() - a.e[q][p].real();
    const double size = std::sqrt(c0 * c0 + c1 * c1 + c2 * c2 + c3 * c3);
    return su2(p, q, c0 / size, -c1 / size, -c2 / size, -c3 / size) * w;
}

// For a set of decorated directions: the mean of a link's staples in the directions of `wanted` other than its own; the
// links around it are decorated in the remaining directions of `decorations`. By recursion, each from the links alone.
Matrix hyp_link(const Lattice &lattice, const Gauge &links, const double *alpha, int hits, unsigned decorations,
                int site, int mu) {
    const Matrix &u = links[4 * std::size_t(site) + mu];
    int count = 0;
    for (int nu = 0; nu < 4; nu++)
        count += decorations >> nu & 1;
    if (count == 0)
        return u;
    Matrix sum = {};
    for (int nu = 0; nu < 4; nu++) {
        if ((decorations >> nu & 1) == 0)
            continue;
        // The links of a staple are not decorated in the two directions of its plane.
        const auto part = [&](int at, int dir) {
            return hyp_link(lattice, links, alpha, hits, decorations & ~(1u << nu), at, dir);
        };
        const int down = lattice.neighbour(site, nu, -1);
        sum = sum + part(site, nu) * part(lattice.neighbour(site, nu, 1), mu) *
                        adjoint(part(lattice.neighbour(site, mu, 1), nu));
        sum = sum + adjoint(part(down, nu)) * part(down, mu) * part(lattice.neighbour(down, mu, 1), nu);
    }
    const double a = alpha[3 - count]; // one decoration: alpha_3
    const Matrix v = (1 - a) * u + (a / (2 * count)) * sum;
    Matrix w = u;
    for (int k = 0; k < hits; k++)
        w = after_hit(w, v, k);
    return w;
}

} // namespace

double gauge_fix_step(const Lattice &lattice, Gauge &links, int left_out, double boost) {
    double mean = 0;
    for (int parity = 1; parity >= 0; parity--) {
        const int pairs[3][2] = {{0, 1}, {1, 2}, {2, 0}};
        for (const auto &pair : pairs)
            for (int site = 0; site < lattice.volume(); site++)
                if (lattice.parity(site) == parity)
                    hit(lattice, links, site, left_out, boost, pair[0], pair[1]);
        mean += gauge_mean(lattice, links, left_out) / 2; // every link has one end of this parity
    }
    return mean;
}

double gauge_mean(const Lattice &lattice, const Gauge &links, int left_out) {
    double sum = 0;
    int count = 0;
    for (int site = 0; site < lattice.volume(); site++)
        for (int dir = 0; dir < 4; dir++)
            if (dir != left_out)
                sum += trace(link(links, site, dir)).real() / 3, count++;
    return sum / count;
}

double divergence(const Lattice &lattice, const Gauge &links, int left_out) {
    const auto potential = [](const Matrix &u) {
        Matrix a = 0.5 * (u - adjoint(u));
        const Complex third = trace(a) / 3.0;
        for (int c = 0; c < 3; c++)
            a.e[c][c] -= third;
        return a;
    };
    double sum = 0;
    for (int site = 0; site < lattice.volume(); site++) {
        Matrix d = {};
        for (int dir = 0; dir < 4; dir++)
            if (dir != left_out)
                d = d + potential(link(links, site, dir)) -
                    potential(link(links, lattice.neighbour(site, dir, -1), dir));
        sum += norm2(d);
    }
    return sum / lattice.volume();
}

Gauge ape_smear(const Lattice &lattice, const Gauge &links, double weight, bool space_only, int hits, double tolerance,
                int *not_converged) {
    Gauge smeared(links.size());
    int failed = 0;
#pragma omp parallel for reduction(+ : failed)
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < 4; mu++) {
            Matrix sum = {};
            int count = 0;
            for (int nu = 0; nu < (space_only ? 3 : 4); nu++) {
                if (nu == mu)
                    continue;
                const int down = lattice.neighbour(site, nu, -1);
                sum = sum + link(links, site, nu) * link(links, lattice.neighbour(site, nu, 1), mu) *
                                adjoint(link(links, lattice.neighbour(site, mu, 1), nu));
                sum = sum + adjoint(link(links, down, nu)) * link(links, down, mu) *
                                link(links, lattice.neighbour(down, mu, 1), nu);
                count += 2;
            }
            const Matrix v = (1 / (1 + weight * count)) * (link(links, site, mu) + weight * sum);
            Matrix w = v;
            if (hits > 0) {
                w = reunitarize(v); // Gram-Schmidt of the rows
                double before = trace(w * adjoint(v)).real(), gain = 1;
                for (int k = 0; k < hits && gain > tolerance; k++) {
                    w = after_hit(w, v, k);
                    if (tolerance > 0 && k % 3 == 2) {
                        const double now = trace(w * adjoint(v)).real();
                        gain = (now - before) / before;
                        before = now;
                    }
                }
                failed += tolerance > 0 && gain > tolerance;
            }
            link(smeared, site, mu) = w;
        }
    if (not_converged != nullptr)
        *not_converged = failed;
    return smeared;
}

Gauge hyp_smear(const Lattice &lattice, const Gauge &links, const std::array<double, 3> &alpha, bool in_space,
                int hits) {
    Gauge smeared = links;
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < (in_space ? 3 : 4); mu++)
            link(smeared, site, mu) =
                hyp_link(lattice, links, alpha.data(), hits, (in_space ? 7u : 15u) & ~(1u << mu), site, mu);
    return smeared;
}

} // namespace reference
