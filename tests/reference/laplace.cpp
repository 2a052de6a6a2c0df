#include "tests/reference/laplace.h"

namespace reference {

Fermion laplace_sum(const Lattice &lattice, const Gauge &links, int directions, const Fermion &field) {
    Fermion result(field.size());
    for (int site = 0; site < lattice.volume(); site++)
        for (int mu = 0; mu < directions; mu++) {
            const int ahead = lattice.neighbour(site, mu, 1), behind = lattice.neighbour(site, mu, -1);
            result[site] =
                result[site] + links[4 * site + mu] * field[ahead] + adjoint(links[4 * behind + mu]) * field[behind];
        }
    return result;
}

Fermion laplace_matrix(const Lattice &lattice, const Gauge &links, int directions, double kappa, const Fermion &field) {
    Fermion result = laplace_sum(lattice, links, directions, field);
    for (std::size_t site = 0; site < field.size(); site++)
        result[site] = field[site] - kappa * result[site];
    return result;
}

Fermion laplace_even_odd(const Lattice &lattice, const Gauge &links, int directions, double kappa, int parity,
                         const Fermion &field) {
    const auto on = [&](Fermion whole, int wanted) {
        for (int site = 0; site < lattice.volume(); site++)
            if (lattice.parity(site) != wanted)
                whole[site] = Vector{};
        return whole;
    };
    const Fermion own = on(field, parity), other = on(laplace_sum(lattice, links, directions, own), 1 - parity),
                  back = on(laplace_sum(lattice, links, directions, other), parity);
    Fermion result(field.size());
    for (std::size_t site = 0; site < field.size(); site++)
        result[site] = own[site] - (kappa * kappa) * back[site];
    return result;
}

double free_laplace_eigenvalue(const Lattice &lattice, int directions, double kappa, const std::array<int, 4> &p) {
    double sum = 0;
    for (int mu = 0; mu < directions; mu++)
        sum += std::cos(2 * M_PI * p[mu] / lattice.n[mu]);
    return 1 - 2 * kappa * sum;
}

std::vector<double> free_laplace_propagator(const Lattice &lattice, int directions, double kappa, int source) {
    std::vector<double> propagator(lattice.volume());
    const auto y = lattice.coordinates(source);
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        for (int k = 0; k < lattice.volume(); k++) {
            const auto p = lattice.coordinates(k);
            double angle = 0;
            for (int mu = 0; mu < 4; mu++)
                angle += 2 * M_PI * p[mu] * (x[mu] - y[mu]) / lattice.n[mu];
            propagator[site] +=
                std::cos(angle) / free_laplace_eigenvalue(lattice, directions, kappa, p) / lattice.volume();
        }
    }
    return propagator;
}

} // namespace reference
