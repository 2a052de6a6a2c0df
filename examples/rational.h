// Rational functions for RHMC: x^p as a sum over poles, as good as it gets on an interval (Remez).
#pragma once

#include <vector>

namespace examples {

// constant + sum_k residue[k] / (x + pole[k]) for x in [smallest, largest].
struct Rational {
    double constant = 0;
    std::vector<double> residue, pole;
    double error = 0; // largest relative error of x^p, or, for positive p, of x^(p-1), on the interval
    double operator()(double x) const;
};

// x^power, 0 < |power| < 1, with `poles` poles (1 to 12). For negative powers the relative error is the smallest that
// is possible, poles and residues are positive; a positive power is x times the function of power - 1. Throws
// std::runtime_error where the search does not settle: too many poles for the interval.
Rational rational_power(double power, int poles, double smallest, double largest);

} // namespace examples
