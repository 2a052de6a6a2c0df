// Contractions of Dirac fields with explicit 4x4 gamma matrices, site by site. Fields cover the full lattice, in
// lexicographic order, in double.
#pragma once

#include "tests/reference/mesons.h"
#include "tests/reference/wilson.h"

namespace reference {

// A matrix of a set of 16. "milc": GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1, GYZ = i GY GZ.
// "degrand_rossi": I G1 G2 G3 G4 G5 G5G1 G5G2 G5G3 G5G4 S12 S13 S14 S23 S24 S34, Sjk = i/2 [Gj, Gk].
enum class GammaSet { milc, degrand_rossi };
SpinMatrix gamma_of_set(GammaSet set, int k);

// A propagator from a source of one colour: [spin at the source], spin and colour at the sink.
struct SpinWilsonVector {
    WilsonVector d[4];
};
using SpinWilsonField = std::vector<SpinWilsonVector>;
SpinWilsonField random_spin_wilson_field(const Lattice &lattice, unsigned long seed);

// A_mn = sum over colours of conj(phi_m) psi_n
SpinMatrix open_spin(const WilsonVector &phi, const WilsonVector &psi);
// sum_mn gamma_mn A_mn
Complex bilinear(const SpinMatrix &gamma, const SpinMatrix &a);

// A momentum with its parities ('E', 'O', 'B') and its origin.
struct MomentumFactor {
    std::array<int, 3> p;
    std::array<char, 3> parity;
    Origin origin;
};

// For each t the sum over the time slice of the factor times phi^dag gamma psi.
std::vector<Complex> dirac_slices(const Lattice &lattice, const SpinMatrix &gamma, const WilsonField &phi,
                                  const WilsonField &psi, const MomentumFactor &f);

// For each t the sum over the time slice of the factor times tr[in S2 out g5 S1^dag g5]. S has a row for each spin at
// the source and a column for each spin at the sink; the trace includes colour.
std::vector<Complex> dirac_meson(const Lattice &lattice, const SpinWilsonField &s1, const SpinWilsonField &s2,
                                 const SpinMatrix &in, const SpinMatrix &out, const MomentumFactor &f);

// For each t the sum over the time slice of the factor times g5 S1^dag g5 in S2: [t][((c1 4 + m) 4 + n) 3 + c2], row
// (m, c1), column (n, c2).
std::vector<std::vector<Complex>> open_dirac_meson(const Lattice &lattice, const SpinWilsonField &s1,
                                                   const SpinWilsonField &s2, const SpinMatrix &in,
                                                   const MomentumFactor &f);

} // namespace reference
