// Rational functions for RHMC: the best approximation of x^p on an interval by a sum over poles (Remez).
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

// x^power, 0 < |power| < 1, with `poles` poles (1 to 12). For negative powers the relative error is the smallest
// possible one, and poles and residues are positive. A positive power is x times the function of power - 1. Throws
// std::runtime_error if the search does not converge: too many poles for the interval.
Rational rational_power(double power, int poles, double smallest, double largest);

} // namespace examples
