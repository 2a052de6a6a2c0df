// Numbers from correlators: effective masses, jackknife errors, and the values for free quarks.
//
// A meson of staggered quarks, C(t) = C(T - t):
//     C(t) = A cosh(M (t - T/2)) + (-1)^t B cosh(M' (t - T/2)),
// with M' the partner of opposite parity. The Goldstone pion of quarks of one mass has none. A nucleon has, with three
// antiperiodic quarks and a sign where they cross the boundary (Golterman, Smit, Nucl. Phys. B 255 (1985) 328):
//     C(t) = A (e^(-M t) - (-1)^t e^(-M (T - t))) + B ((-1)^t e^(-M' t) - e^(-M' (T - t))).
#pragma once
#include <functional>
#include <vector>

namespace examples {

using Correlator = std::vector<double>; // C(0) to C(T - 1), from the source

// The mean of C(t) and its mirror image: C(T - t) of a meson, -(-1)^t C(T - t) of a nucleon. C(0) stays.
Correlator folded(const Correlator &c, bool nucleon);

// Masses at t. NaN if the numbers do not belong to such states, or if t is too near to an end.
//
// One state: cosh M = S C(t) / C(t) with S C(t) = (C(t-1) + C(t+1)) / 2. 1 <= t <= T/2.
double meson_mass(const Correlator &c, int t);
// A state and its partner: S is cosh M on one and -cosh M' on the other. So S^2 C - p S C + q C = 0 at t and at t + 1.
// This determines p and q, and the two roots p/2 +- sqrt(p^2/4 - q). If both are above 1, the second root is a heavier
// state, not the partner. Reads C(t-2) to C(t+3); 2 <= t < T/2.
double meson_mass_with_partner(const Correlator &c, int t);
// The same with S C(t) = C(t+1), which is e^-M on one and -e^-M' on the other, far from the other end of the lattice.
// Reads C(t-1) to C(t+2); 1 <= t <= T/2 - 3.
double nucleon_mass(const Correlator &c, int t);

struct Estimate {
    double value, error; // error: NaN if there is one sample
};
// value: f of the mean. error: by the jackknife, which omits each sample in turn.
Estimate jackknife(const std::vector<Correlator> &samples, const std::function<double(const Correlator &)> &f);

// The propagator in time of a free quark that is constant, or alternates, in x, y and z: with unit links, from a wall
// at t = 0, M G = 1 with M = 2 m + D and antiperiodic G. D has one-link terms of 9/8 and three-link ones of -1/24
// (Naik), as asqtad and HISQ have them on unit links.
std::vector<double> free_quark(int extent, double mass);
// Its energy: the root near m of m = (9/8) sinh E - (1/24) sinh 3E; NaN if no root exists, for m above (2/3) sqrt 2.
double free_energy(double mass);

} // namespace examples
