#include "tests/mesons_support.h"

namespace tests {

unsigned bits_of(const std::string &gamma) {
    unsigned bits = 0;
    for (const char c : gamma.substr(1))
        bits ^= c == '5' ? 15 : c == 'X' ? 1 : c == 'Y' ? 2 : c == 'Z' ? 4 : c == 'T' ? 8 : 0;
    return bits;
}

Gauge links_for(const Lattice &lattice, unsigned long seed) { return reference::near_unit_gauge(lattice, 0.4, seed); }

Fermion times_parity(const Lattice &lattice, Fermion field) {
    for (int site = 0; site < lattice.volume(); ++site)
        if (lattice.parity(site) == 1)
            field[site] = -1.0 * field[site];
    return field;
}

double correlators_apart(const std::vector<reference::Complex> &got, const std::vector<reference::Complex> &wanted,
                         const std::vector<Fermion> &a, const std::vector<Fermion> &b) {
    double size = 0, apart = 0;
    for (size_t k = 0; k < a.size(); ++k)
        size += std::sqrt(std::abs(reference::dot(a[k], a[k]) * reference::dot(b[k], b[k])));
    REQUIRE(got.size() == wanted.size());
    for (size_t k = 0; k < got.size(); ++k)
        apart = worse(apart, std::abs(got[k] - wanted[k]));
    return apart / size;
}

} // namespace tests
