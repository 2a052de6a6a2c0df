#include "tests/reference/staggered.h"

#include <cmath>
#include <cstddef>

namespace reference {

namespace {

Vector dslash_at(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src, int site) {
    Vector sum{};
    const auto x = lattice.coordinates(site);
    for (int mu = 0; mu < 4; mu++) {
        const auto term = [&](const Gauge &links, int hops) {
            const int ahead = lattice.neighbour(site, mu, hops, x[mu]),
                      behind = lattice.neighbour(site, mu, -hops, x[mu]);
            return links[4 * std::size_t(site) + mu] * src[ahead] -
                   adjoint(links[4 * std::size_t(behind) + mu]) * src[behind];
        };
        sum = sum + term(fat, 1) + term(lng, 3);
    }
    return sum;
}

using Parities = std::vector<char>; // [site]

Parities parities(const Lattice &lattice) {
    Parities result(lattice.volume());
    for (int site = 0; site < lattice.volume(); site++)
        result[site] = char(lattice.parity(site));
    return result;
}

// The sum is in the order of the sites, so it does not depend on the number of threads.
long double norm2_on(const Parities &parity_of, int parity, const Fermion &a) {
    long double sum = 0;
    for (std::size_t site = 0; site < a.size(); site++)
        if (parity_of[site] == parity)
            sum += norm2(a[site]);
    return sum;
}

// Re <a, b>
long double dot_on(const Parities &parity_of, int parity, const Fermion &a, const Fermion &b) {
    long double sum = 0;
    for (std::size_t site = 0; site < a.size(); site++)
        if (parity_of[site] == parity)
            for (int i = 0; i < 3; i++)
                sum += a[site].c[i].real() * b[site].c[i].real() + a[site].c[i].imag() * b[site].c[i].imag();
    return sum;
}

// y <- a x + b y on one parity.
void axpby_on(const Parities &parity_of, int parity, double a, const Fermion &x, double b, Fermion &y) {
#pragma omp parallel for
    for (std::size_t site = 0; site < y.size(); site++)
        if (parity_of[site] == parity)
            y[site] = a * x[site] + b * y[site];
}

} // namespace

Fermion dslash_on_parity(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src, int parity) {
    Fermion result(src.size(), Vector{});
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        if (lattice.parity(site) == parity)
            result[site] = dslash_at(lattice, fat, lng, src, site);
    return result;
}

Fermion dslash(const Lattice &lattice, const Gauge &fat, const Gauge &lng, const Fermion &src) {
    Fermion result(src.size());
#pragma omp parallel for
    for (int site = 0; site < lattice.volume(); site++)
        result[site] = dslash_at(lattice, fat, lng, src, site);
    return result;
}

Fermion normal_operator(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                        const Fermion &x) {
    const Fermion dx = dslash_on_parity(lattice, fat, lng, x, 1 - parity);
    Fermion result = dslash_on_parity(lattice, fat, lng, dx, parity);
    axpby_on(parities(lattice), parity, 4 * mass * mass, x, -1, result);
    return result;
}

CgResult conjugate_gradient(const Lattice &lattice, const Gauge &fat, const Gauge &lng, double mass, int parity,
                            const Fermion &source, const Fermion &guess, double tolerance, int max_iterations,
                            int restart_every) {
    const Parities parity_of = parities(lattice);
    const auto norm2_here = [&](const Fermion &a) { return norm2_on(parity_of, parity, a); };
    const auto apply = [&](const Fermion &a) { return normal_operator(lattice, fat, lng, mass, parity, a); };

    CgResult result{guess, 0, 0};
    const long double source_norm2 = norm2_here(source);
    if (source_norm2 == 0) {
        axpby_on(parity_of, parity, 0, source, 0, result.x);
        return result;
    }
    const long double goal = (long double)(tolerance)*tolerance * source_norm2;

    while (true) {
        Fermion r = source;
        axpby_on(parity_of, parity, -1, apply(result.x), 1, r);
        long double r_norm2 = norm2_here(r);
        result.iterations++;
        result.residual = double(std::sqrt(r_norm2 / source_norm2));
        if (!(r_norm2 >= goal) || result.iterations >= max_iterations) // also true for NaN
            return result;

        Fermion p = r;
        while (r_norm2 >= goal && result.iterations < max_iterations &&
               (restart_every == 0 || result.iterations % restart_every != 0)) {
            const Fermion ap = apply(p);
            const double alpha = double(r_norm2 / dot_on(parity_of, parity, p, ap));
            axpby_on(parity_of, parity, alpha, p, 1, result.x);
            axpby_on(parity_of, parity, -alpha, ap, 1, r);
            const long double previous = r_norm2;
            r_norm2 = norm2_here(r);
            axpby_on(parity_of, parity, 1, r, double(r_norm2 / previous), p);
            result.iterations++;
        }
    }
}

} // namespace reference
