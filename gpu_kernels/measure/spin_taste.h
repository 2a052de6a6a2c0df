// Spin-taste operators by MILC's numbers and names: their links and signs. Host only.
//
// With r the origin, h = x - r, e = (-1)^(sum of h), a spin-taste operator is
//   O = e(h) times the average over orders, with the sign of the order, of the shifts Z_mu, mu in spin xor taste, times
//       the signs of the spin: for each of its directions (-1)^h_mu e(h);
//   Z_mu = (-1)^h_mu e(h) times the symmetric covariant shift by links with staggered phases relative to r.
// Every Z_mu is a sign times the shift by links without phases. Those signs anticommute, so all orders have one sign
// pattern, and O is that pattern times the average over corners and orders of products of links. The positive order:
// with three and four directions x acts before y, z and t, and so on; with two the later one acts first, but with x and
// z it is x.
#pragma once
#include <array>
#include <string>

namespace milcgpu {

// (-1)^(negative + sum of x_mu over the bits mu of mask), x: coordinates of the lattice.
struct SignPattern {
    unsigned mask = 0;
    bool negative = false;
};

struct SpinTaste {
    enum class Kind {
        general, // spin and taste
        forward, // the one-link vector current: a shift by APE or fat links and (-1)^(x+y+z+t)
        backward,
        pair // half the sum of backward on the first field and forward on the second: only in contractions
    };
    Kind kind = Kind::general;
    unsigned spin = 0, taste = 0; // bits 1 x, 2 y, 4 z, 8 t
    bool negative = false;
    int direction = 0; // of a current
    bool fat = false;  // its links are the fat ones, which have their phases
    unsigned directions() const { return kind == Kind::general ? spin ^ taste : 1u << direction; }
};

// Numbers of spins with tastes; those of MILC's names are below.
constexpr int first_general = 128, end_of_general = first_general + 256;

// Throws Error(bad_argument) with the reason for an index that is not an operator.
SpinTaste spin_taste(int index);
// For a name: one of MILC's (pion5, rhoxs, ..), or SPIN-TASTE (G5T-GXY). Throws Error(bad_argument).
int spin_taste_index(const std::string &label);
std::string spin_taste_label(int index);
// For a spin and a taste by their directions, as the bits above. Throws Error(bad_argument).
int spin_taste_index(int spin, int taste);

// The pattern of x for a given pattern of x - origin.
SignPattern relative_to(SignPattern, const int *origin);

// The signs in front of the sum over neighbours.
SignPattern signs_of(const SpinTaste &, const int *origin);
// Staggered phases relative to `origin` on the links of direction mu.
SignPattern phases_of(int mu, const int *origin);
inline SignPattern operator*(const SignPattern &a, const SignPattern &b) {
    return {a.mask ^ b.mask, a.negative != b.negative};
}

} // namespace milcgpu
