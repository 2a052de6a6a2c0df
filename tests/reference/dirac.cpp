#include "tests/reference/dirac.h"

namespace reference {

namespace {

Complex trace(const SpinMatrix &a) { return a[0][0] + a[1][1] + a[2][2] + a[3][3]; }

// The part of one colour at the sink; rows are spins at the source.
SpinMatrix of_colour(const SpinWilsonVector &s, int colour) {
    SpinMatrix m;
    for (int source = 0; source < 4; source++)
        for (int sink = 0; sink < 4; sink++)
            m[source][sink] = s.d[source].d[sink].c[colour];
    return m;
}

} // namespace

SpinMatrix gamma_of_set(GammaSet set, int k) {
    const SpinMatrix &five = gamma_matrix(4);
    if (set == GammaSet::milc) {
        if (k < 5)
            return gamma_matrix(k);
        const int first[6] = {1, 2, 0, 0, 1, 2}, second[6] = {2, 0, 1, 3, 3, 3};
        if (k < 11)
            return Complex(0, 1) * (gamma_matrix(first[k - 5]) * gamma_matrix(second[k - 5]));
        return k < 15 ? five * gamma_matrix(k - 11) : unit_spin_matrix();
    }
    if (k == 0)
        return unit_spin_matrix();
    if (k < 6)
        return gamma_matrix(k - 1);
    if (k < 10)
        return five * gamma_matrix(k - 6);
    const int first[6] = {0, 0, 0, 1, 1, 2}, second[6] = {1, 2, 3, 2, 3, 3};
    return sigma_matrix(first[k - 10], second[k - 10]);
}

SpinWilsonField random_spin_wilson_field(const Lattice &lattice, unsigned long seed) {
    SpinWilsonField field(lattice.volume());
    for (int source = 0; source < 4; source++) {
        const WilsonField column = random_wilson_field(lattice, seed + source);
        for (int site = 0; site < lattice.volume(); site++)
            field[site].d[source] = column[site];
    }
    return field;
}

SpinMatrix open_spin(const WilsonVector &phi, const WilsonVector &psi) {
    SpinMatrix a{};
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++)
            for (int colour = 0; colour < 3; colour++)
                a[m][n] += times(std::conj(phi.d[m].c[colour]), psi.d[n].c[colour]);
    return a;
}

Complex bilinear(const SpinMatrix &gamma, const SpinMatrix &a) {
    Complex sum = 0;
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++)
            sum += times(gamma[m][n], a[m][n]);
    return sum;
}

std::vector<Complex> dirac_slices(const Lattice &lattice, const SpinMatrix &gamma, const WilsonField &phi,
                                  const WilsonField &psi, const MomentumFactor &f) {
    std::vector<Complex> sums(lattice.n[3]);
    for (int site = 0; site < lattice.volume(); site++)
        sums[lattice.coordinates(site)[3]] += times(momentum_factor(lattice, site, f.p, f.parity, f.origin),
                                                    bilinear(gamma, open_spin(phi[site], psi[site])));
    return sums;
}

std::vector<Complex> dirac_meson(const Lattice &lattice, const SpinWilsonField &s1, const SpinWilsonField &s2,
                                 const SpinMatrix &in, const SpinMatrix &out, const MomentumFactor &f) {
    const SpinMatrix &five = gamma_matrix(4);
    std::vector<Complex> sums(lattice.n[3]);
    for (int site = 0; site < lattice.volume(); site++)
        for (int colour = 0; colour < 3; colour++) {
            const SpinMatrix product =
                in * of_colour(s2[site], colour) * out * five * adjoint(of_colour(s1[site], colour)) * five;
            sums[lattice.coordinates(site)[3]] +=
                times(momentum_factor(lattice, site, f.p, f.parity, f.origin), trace(product));
        }
    return sums;
}

std::vector<std::vector<Complex>> open_dirac_meson(const Lattice &lattice, const SpinWilsonField &s1,
                                                   const SpinWilsonField &s2, const SpinMatrix &in,
                                                   const MomentumFactor &f) {
    const SpinMatrix &five = gamma_matrix(4);
    std::vector<std::vector<Complex>> sums(lattice.n[3], std::vector<Complex>(144));
    for (int site = 0; site < lattice.volume(); site++) {
        const Complex factor = momentum_factor(lattice, site, f.p, f.parity, f.origin);
        std::vector<Complex> &to = sums[lattice.coordinates(site)[3]];
        for (int c1 = 0; c1 < 3; c1++)
            for (int c2 = 0; c2 < 3; c2++) {
                const SpinMatrix product =
                    five * adjoint(of_colour(s1[site], c1)) * five * in * of_colour(s2[site], c2);
                for (int m = 0; m < 4; m++)
                    for (int n = 0; n < 4; n++)
                        to[((c1 * 4 + m) * 4 + n) * 3 + c2] += times(factor, product[m][n]);
            }
    }
    return sums;
}

} // namespace reference
