// The 16 gamma matrices of contractions, by name, in two sets. (gamma.h has the projections of the Wilson operator.)
//
// Both sets are in one chiral basis, gamma_5 = gamma_x gamma_y gamma_z gamma_t = diag(1, 1, -1, -1): MILC's basis
// (libraries/mb_gamma.c) and the DeGrand-Rossi basis (T. A. DeGrand, P. Rossi, Comput. Phys. Commun. 60 (1990) 211)
// have the same gamma_x to gamma_t. The sets differ in the order of the 16, and in a sign:
//
//   milc           gamma_x y z t, gamma_5, i times the products yz zx xy xt yt zt, gamma_5 times x y z t, 1
//   degrand_rossi  1, gamma_x y z t, gamma_5, gamma_5 times x y z t, i times the products xy xz xt yz yt zt
//
// The second set is that of QUDA's contractions (QudaContractGamma; there 6 to 9 are called G1G5 to G4G5). All are
// unitary; gamma_5 gamma_mu is antihermitian, the others are hermitian. In each set tr(Gamma_j^dag Gamma_k) = 4
// delta_jk.
#pragma once
#include "gpu_kernels/machine/portable.h"

namespace milcgpu {

enum class GammaBasis { milc = 0, degrand_rossi = 1 };
constexpr int gamma_matrices = 16; // of a set
// Numbers in a set. MILC's are from its gammatypes.h.
enum class MilcGamma { gx, gy, gz, gt, g5, gyz, gzx, gxy, gxt, gyt, gzt, g5x, g5y, g5z, g5t, one };
enum class DeGrandRossiGamma { one, g1, g2, g3, g4, g5, g5g1, g5g2, g5g3, g5g4, s12, s13, s14, s23, s24, s34 };

// Row m has one element: i^power[m] in column[m].
struct GammaMatrix {
    int column[4], power[4];
};

// A product of gamma matrices, times a power of i. Its element in row m is in column m ^ flip, and is
// i^power (-1)^(number of bits that m and signs share).
struct Gamma {
    int flip, signs, power;
    MILCGPU_HD constexpr int column(int row) const { return row ^ flip; }
    MILCGPU_HD constexpr int power_of(int row) const { return (power + 2 * odd(row & signs)) & 3; }
    // 1 if a number from 0 to 3 has one bit.
    static MILCGPU_HD constexpr int odd(int bits) { return (bits ^ bits >> 1) & 1; }
};

MILCGPU_HD constexpr Gamma operator*(const Gamma &a, const Gamma &b) {
    return {a.flip ^ b.flip, a.signs ^ b.signs, (a.power + b.power + 2 * Gamma::odd(b.signs & a.flip)) & 3};
}
MILCGPU_HD constexpr Gamma times_i(const Gamma &a) { return {a.flip, a.signs, (a.power + 1) & 3}; }
MILCGPU_HD constexpr Gamma transpose(const Gamma &a) {
    return {a.flip, a.signs, (a.power + 2 * Gamma::odd(a.signs & a.flip)) & 3};
}
MILCGPU_HD constexpr Gamma adjoint(const Gamma &a) {
    return {a.flip, a.signs, (4 - a.power + 2 * Gamma::odd(a.signs & a.flip)) & 3};
}
MILCGPU_HD constexpr bool operator==(const Gamma &a, const Gamma &b) {
    return a.flip == b.flip && a.signs == b.signs && a.power == b.power;
}

// gamma_x, gamma_y, gamma_z, gamma_t for 0 to 3.
MILCGPU_HD constexpr Gamma gamma_of_direction(int mu) {
    return mu == 0 ? Gamma{3, 2, 1} : mu == 1 ? Gamma{3, 3, 2} : mu == 2 ? Gamma{2, 3, 1} : Gamma{2, 0, 0};
}
MILCGPU_HD constexpr Gamma unit_gamma() { return {0, 0, 0}; }
MILCGPU_HD constexpr Gamma gamma_5() {
    return gamma_of_direction(0) * gamma_of_direction(1) * gamma_of_direction(2) * gamma_of_direction(3);
}

// Number k of a set, 0 to 15.
MILCGPU_HD constexpr Gamma gamma_of(GammaBasis basis, int k) {
    const Gamma x = gamma_of_direction(0), y = gamma_of_direction(1), z = gamma_of_direction(2),
                t = gamma_of_direction(3), five = gamma_5();
    const Gamma milc[gamma_matrices] = {x,
                                        y,
                                        z,
                                        t,
                                        five,
                                        times_i(y * z),
                                        times_i(z * x),
                                        times_i(x * y),
                                        times_i(x * t),
                                        times_i(y * t),
                                        times_i(z * t),
                                        five * x,
                                        five * y,
                                        five * z,
                                        five * t,
                                        unit_gamma()};
    const Gamma degrand_rossi[gamma_matrices] = {unit_gamma(),
                                                 x,
                                                 y,
                                                 z,
                                                 t,
                                                 five,
                                                 five * x,
                                                 five * y,
                                                 five * z,
                                                 five * t,
                                                 times_i(x * y),
                                                 times_i(x * z),
                                                 times_i(x * t),
                                                 times_i(y * z),
                                                 times_i(y * t),
                                                 times_i(z * t)};
    return basis == GammaBasis::milc ? milc[k] : degrand_rossi[k];
}

MILCGPU_HD constexpr Gamma gamma_of(MilcGamma k) { return gamma_of(GammaBasis::milc, static_cast<int>(k)); }
MILCGPU_HD constexpr Gamma gamma_of(DeGrandRossiGamma k) {
    return gamma_of(GammaBasis::degrand_rossi, static_cast<int>(k));
}

MILCGPU_HD constexpr GammaMatrix matrix_of(const Gamma &a) {
    return {{a.column(0), a.column(1), a.column(2), a.column(3)},
            {a.power_of(0), a.power_of(1), a.power_of(2), a.power_of(3)}};
}

inline const char *gamma_label(GammaBasis basis, int k) {
    constexpr const char *milc[gamma_matrices] = {"GX",  "GY",  "GZ",  "GT",  "G5",  "GYZ", "GZX", "GXY",
                                                  "GXT", "GYT", "GZT", "G5X", "G5Y", "G5Z", "G5T", "G1"};
    constexpr const char *degrand_rossi[gamma_matrices] = {"I",    "G1",   "G2",  "G3",  "G4",  "G5",  "G5G1", "G5G2",
                                                           "G5G3", "G5G4", "S12", "S13", "S14", "S23", "S24",  "S34"};
    return basis == GammaBasis::milc ? milc[k] : degrand_rossi[k];
}

} // namespace milcgpu
