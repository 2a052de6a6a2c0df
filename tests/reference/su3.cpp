#include "tests/reference/su3.h"

namespace reference {

Matrix reunitarize(Matrix a) {
    auto normalize = [](Complex *row) {
        const double scale = 1 / std::sqrt(std::norm(row[0]) + std::norm(row[1]) + std::norm(row[2]));
        for (int j = 0; j < 3; j++)
            row[j] *= scale;
    };
    normalize(a.e[0]);
    Complex overlap = 0;
    for (int j = 0; j < 3; j++)
        overlap += times(std::conj(a.e[0][j]), a.e[1][j]);
    for (int j = 0; j < 3; j++)
        a.e[1][j] -= times(overlap, a.e[0][j]);
    normalize(a.e[1]);
    for (int j = 0; j < 3; j++) {
        const int k = (j + 1) % 3, l = (j + 2) % 3;
        a.e[2][j] = std::conj(times(a.e[0][k], a.e[1][l]) - times(a.e[0][l], a.e[1][k]));
    }
    return a;
}

Complex gaussian(Rng &rng) {
    const double radius = std::sqrt(-2 * std::log(uniform(rng)));
    return std::polar(radius, 2 * M_PI * uniform(rng));
}

Vector random_vector(Rng &rng) {
    Vector a;
    for (auto &c : a.c)
        c = gaussian(rng);
    return a;
}

Matrix random_matrix(Rng &rng) {
    Matrix a;
    for (auto &row : a.e)
        for (auto &e : row)
            e = gaussian(rng);
    return a;
}

Matrix random_su3(Rng &rng) { return reunitarize(random_matrix(rng)); }

Matrix random_near_unit_su3(Rng &rng, double epsilon) { return reunitarize(identity() + epsilon * random_matrix(rng)); }

Gauge unit_gauge(const Lattice &lattice) { return Gauge(4 * std::size_t(lattice.volume()), identity()); }

Gauge random_gauge(const Lattice &lattice, unsigned long seed) {
    Rng rng(seed);
    Gauge links(4 * std::size_t(lattice.volume()));
    for (auto &link : links)
        link = random_su3(rng);
    return links;
}

Gauge near_unit_gauge(const Lattice &lattice, double epsilon, unsigned long seed) {
    Rng rng(seed);
    Gauge links(4 * std::size_t(lattice.volume()));
    for (auto &link : links)
        link = random_near_unit_su3(rng, epsilon);
    return links;
}

Fermion random_fermion(const Lattice &lattice, unsigned long seed) {
    Rng rng(seed);
    Fermion field(lattice.volume());
    for (auto &vector : field)
        vector = random_vector(rng);
    return field;
}

Fermion plane_wave(const Lattice &lattice, const std::array<int, 4> &k, const Vector &colour, double half) {
    Fermion wave(lattice.volume());
    for (int site = 0; site < lattice.volume(); site++) {
        const auto x = lattice.coordinates(site);
        double phase = 0;
        for (int mu = 0; mu < 4; mu++)
            phase += 2 * M_PI * (k[mu] + (mu == 3 ? half : 0)) / lattice.n[mu] * x[mu];
        wave[site] = std::polar(1.0, phase) * colour;
    }
    return wave;
}

template std::vector<float> field_to_milc(const Lattice &, const std::vector<Vector> &, int);
template std::vector<double> field_to_milc(const Lattice &, const std::vector<Vector> &, int);
template std::vector<float> field_to_milc(const Lattice &, const std::vector<Matrix> &, int);
template std::vector<double> field_to_milc(const Lattice &, const std::vector<Matrix> &, int);
template std::vector<Vector> field_from_milc(const Lattice &, const float *, int);
template std::vector<Vector> field_from_milc(const Lattice &, const double *, int);
template std::vector<Matrix> field_from_milc(const Lattice &, const float *, int);
template std::vector<Matrix> field_from_milc(const Lattice &, const double *, int);

} // namespace reference
