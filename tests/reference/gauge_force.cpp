#include "tests/reference/gauge_force.h"

#include <algorithm>
#include <cstddef>

namespace reference {

namespace {

int axis(int step) { return step < 4 ? step : 7 - step; }

Path back(const Path &path) {
    Path result;
    for (std::size_t k = path.size(); k > 0; k--)
        result.push_back(7 - path[k - 1]);
    return result;
}

// All paths that begin with a step along mu and close a loop, with their coefficients.
struct WeightedPath {
    double coefficient;
    Path path;
};
std::vector<WeightedPath> loops_from(int mu, const std::vector<Loops> &loops) {
    std::vector<WeightedPath> result;
    for (const Loops &kind : loops)
        for (const Path &loop : kind.paths)
            for (Path path : {loop, back(loop)})
                for (std::size_t k = 0; k < path.size(); k++) {
                    if (path[0] == mu)
                        result.push_back({kind.coefficient, path});
                    std::rotate(path.begin(), path.begin() + 1, path.end());
                }
    return result;
}

} // namespace

std::vector<Path> plaquettes() {
    std::vector<Path> result;
    for (int a = 0; a < 4; a++)
        for (int b = a + 1; b < 4; b++)
            result.push_back({a, b, 7 - a, 7 - b});
    return result;
}

std::vector<Path> rectangles() {
    std::vector<Path> result;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            if (a != b)
                result.push_back({a, a, b, 7 - a, 7 - a, 7 - b});
    return result;
}

std::vector<Path> bent_rectangles() {
    std::vector<Path> result;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 8; b++)
            for (int c = 0; c < 8; c++)
                if (a < axis(b) && axis(b) < axis(c))
                    result.push_back({a, b, c, 7 - a, 7 - b, 7 - c});
    return result;
}

Matrix along_path(const Lattice &lattice, const Gauge &links, int site, const Path &path) {
    Matrix product = identity();
    for (const int step : path) {
        const int next = lattice.neighbour(site, axis(step), step < 4 ? 1 : -1);
        if (step < 4)
            product = product * links[4 * std::size_t(site) + step];
        else
            product = product * adjoint(links[4 * std::size_t(next) + axis(step)]);
        site = next;
    }
    return product;
}

double gauge_action(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops) {
    std::vector<double> at_site(lattice.volume());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        for (const Loops &kind : loops)
            for (const Path &path : kind.paths)
                at_site[site] += kind.coefficient * (3 - trace(along_path(lattice, links, site, path)).real());
    long double sum = 0;
    for (const double value : at_site)
        sum += value;
    return double(sum);
}

Gauge loop_sums(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops) {
    Gauge sums(links.size(), Matrix{});
    for (int mu = 0; mu < 4; mu++) {
        const auto paths = loops_from(mu, loops);
#pragma omp parallel for
        for (int site = 0; site < lattice.volume(); site++)
            for (const auto &one : paths) {
                Matrix &sum = sums[4 * std::size_t(site) + mu];
                sum = sum + one.coefficient * along_path(lattice, links, site, one.path);
            }
    }
    return sums;
}

Matrix traceless_antihermitian(const Matrix &a) {
    const Matrix half = 0.5 * (a - adjoint(a));
    return half - (trace(half) / 3.0) * identity();
}

Gauge add_gauge_force(const Lattice &lattice, const Gauge &links, const std::vector<Loops> &loops, double factor,
                      const Gauge &momenta) {
    Gauge result = loop_sums(lattice, links, loops);
    for (std::size_t k = 0; k < result.size(); k++)
        result[k] = traceless_antihermitian(momenta[k] - factor * result[k]);
    return result;
}

std::vector<double> momenta_to_milc(const Lattice &lattice, const Gauge &momenta) {
    std::vector<double> milc;
    for (const int site : milc_order(lattice))
        for (int mu = 0; mu < 4; ++mu) {
            const Matrix &h = momenta[4 * static_cast<size_t>(site) + mu];
            for (const auto &e : {h.e[0][1], h.e[0][2], h.e[1][2]})
                milc.push_back(e.real()), milc.push_back(e.imag());
            for (int j = 0; j < 3; ++j)
                milc.push_back(h.e[j][j].imag());
            milc.push_back(0);
        }
    return milc;
}

double momentum_action(const Gauge &momenta) {
    long double sum = 0;
    for (const Matrix &h : momenta)
        sum += norm2(h) / 2 - 4;
    return double(sum);
}

Gauge update_links(const Gauge &links, const Gauge &momenta, double eps, int order) {
    Gauge result(links.size());
    for (std::size_t k = 0; k < links.size(); k++) {
        Matrix power = identity(), series = identity();
        for (int n = 1; n <= order; n++) {
            power = (eps / n) * (power * momenta[k]);
            series = series + power;
        }
        result[k] = series * links[k];
    }
    return result;
}

Gauge random_momenta(const Lattice &lattice, unsigned long seed) {
    Rng rng(seed);
    Gauge momenta(4 * std::size_t(lattice.volume()));
    for (Matrix &h : momenta)
        h = traceless_antihermitian(random_matrix(rng));
    return momenta;
}

} // namespace reference
