// Remez: find the function whose error has the same size and alternating signs at 2n + 1 points. Move the points to the
// extremes of its error. Repeat until the extremes are equal.
//
// The function is written as (sum_k alpha_k / (x + tau_k)) / (1 + sum_k beta_k / (x + tau_k)) with fixed tau_k, spread
// evenly in log x. Then the conditions at the points are linear in alpha and beta, and well conditioned. The poles are
// the zeros of the denominator, one between successive -tau_k; they are computed at the end.
#include "examples/lib/rational.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace examples {

namespace {

using Real = long double;
using Column = std::vector<Real>;

struct Quotient {
    Real power; // of the approximated function x^-power
    Column alpha, beta, tau;
    int n() const { return static_cast<int>(tau.size()); }
    Real denominator(Real x) const {
        Real sum = 1;
        for (int k = 0; k < n(); ++k)
            sum += beta[k] / (x + tau[k]);
        return sum;
    }
    Real error(Real x) const { // relative
        Real sum = 0;
        for (int k = 0; k < n(); ++k)
            sum += alpha[k] / (x + tau[k]);
        return std::pow(x, power) * sum / denominator(x) - 1;
    }
};

// a x = b by elimination with row pivots.
Column solve(std::vector<Column> a, Column b) {
    const int n = static_cast<int>(b.size());
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int row = k + 1; row < n; ++row)
            if (std::fabs(a[row][k]) > std::fabs(a[pivot][k]))
                pivot = row;
        std::swap(a[k], a[pivot]);
        std::swap(b[k], b[pivot]);
        for (int row = k + 1; row < n; ++row) {
            const Real factor = a[row][k] / a[k][k];
            for (int column = k; column < n; ++column)
                a[row][column] -= factor * a[k][column];
            b[row] -= factor * b[k];
        }
    }
    for (int k = n - 1; k >= 0; --k) {
        for (int column = k + 1; column < n; ++column)
            b[k] -= a[k][column] * b[column];
        b[k] /= a[k][k];
    }
    return b;
}

// Makes the error at points[j] (-1)^j level: x^power P(x) - (1 +- level) Q(x) = 0. The factor Q of the level is taken
// from the previous round.
void make_level(Quotient &q, const Column &points) {
    const int n = q.n();
    for (int round = 0; round < 20; ++round) {
        std::vector<Column> a(points.size(), Column(points.size()));
        Column b(points.size(), 1);
        for (size_t j = 0; j < points.size(); ++j) {
            for (int k = 0; k < n; ++k) {
                a[j][k] = std::pow(points[j], q.power) / (points[j] + q.tau[k]);
                a[j][n + k] = -1 / (points[j] + q.tau[k]);
            }
            a[j].back() = (j % 2 == 0 ? -1 : 1) * q.denominator(points[j]);
        }
        const Column x = solve(a, b);
        Real change = 0;
        for (int k = 0; k < n; ++k) {
            change = std::max(change, std::fabs(x[n + k] - q.beta[k]) / (std::fabs(x[n + k]) + 1e-30L));
            q.alpha[k] = x[k], q.beta[k] = x[n + k];
        }
        if (change < 1e-12L)
            return;
    }
}

// The extremes of the error between its sign changes, in order of x.
Column extremes(const Quotient &q, Real smallest, Real largest, Column &errors) {
    Column at;
    errors.clear();
    const int samples = 200 * q.n();
    for (int i = 0; i <= samples; ++i) {
        const Real x = smallest * std::pow(largest / smallest, Real(i) / samples), e = q.error(x);
        if (at.empty() || (e > 0) != (errors.back() > 0))
            at.push_back(x), errors.push_back(e);
        else if (std::fabs(e) > std::fabs(errors.back()))
            at.back() = x, errors.back() = e;
    }
    return at;
}

// The zero of the denominator at -d, low < d < high; the sign changes between these.
Real zero_between(const Quotient &q, Real low, Real high) {
    const auto value = [&](Real d) { return q.denominator(-d); };
    const bool sign = value(high) > 0;
    for (int round = 0; round < 300 && high / low > 1 + 1e-17L; ++round) {
        const Real middle = std::sqrt(low * high);
        (value(middle) > 0) == sign ? high = middle : low = middle;
    }
    return std::sqrt(low * high);
}

[[noreturn]] void lost(double power, int poles, double smallest, double largest) {
    throw std::runtime_error("no rational function with " + std::to_string(poles) + " poles for x^-" +
                             std::to_string(power) + " on [" + std::to_string(smallest) + ", " +
                             std::to_string(largest) + "]: try another number of poles");
}

Rational negative_power(double power, int poles, double smallest, double largest) {
    const Real pi = std::acos(-1.0L), center = (std::log(Real(smallest)) + std::log(Real(largest))) / 2,
               width = std::log(Real(largest) / smallest);
    Quotient q{power, Column(poles), Column(poles), {}};
    const Real spread = width + 6;
    for (int k = 0; k < poles; ++k)
        q.tau.push_back(std::exp(center + 0.1L + ((k + 0.5L) / poles - 0.5L) * spread));
    Column points, errors;
    for (int j = 0; j <= 2 * poles; ++j)
        points.push_back(std::exp(center - width / 2 * std::cos(pi * j / (2 * poles))));
    Real most = 0, least = 0;
    for (int round = 0; round < 60; ++round) {
        make_level(q, points);
        const Column at = extremes(q, smallest, largest, errors);
        if (at.size() != points.size())
            lost(power, poles, smallest, largest);
        most = 0, least = INFINITY;
        for (const Real e : errors)
            most = std::max(most, std::fabs(e)), least = std::min(least, std::fabs(e));
        if (most < 1.01L * least)
            break;
        points = at;
    }
    if (!(most < 1.01L * least))
        lost(power, poles, smallest, largest);
    // Poles d and residues c of the quotient.
    Rational result;
    result.error = static_cast<double>(most);
    Column bounds; // denser near each tau, because a pole may be close to it
    for (int i = 0; i <= 2000; ++i)
        bounds.push_back(std::exp(center + (Real(i) / 2000 - 0.5L) * (spread + 30)));
    for (const Real tau : q.tau)
        for (Real distance = 1e-1L; distance > 1e-16L; distance /= 10)
            bounds.push_back(tau * (1 - distance)), bounds.push_back(tau * (1 + distance));
    std::sort(bounds.begin(), bounds.end());
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
        const bool holds_tau =
            std::any_of(q.tau.begin(), q.tau.end(), [&](Real tau) { return tau >= bounds[i] && tau <= bounds[i + 1]; });
        if (holds_tau || (q.denominator(-bounds[i]) > 0) == (q.denominator(-bounds[i + 1]) > 0))
            continue;
        const Real d = zero_between(q, bounds[i], bounds[i + 1]);
        Real above = 0, slope = 0; // of numerator and denominator at -d
        for (int k = 0; k < poles; ++k) {
            above += q.alpha[k] / (q.tau[k] - d);
            slope -= q.beta[k] / ((q.tau[k] - d) * (q.tau[k] - d));
        }
        result.pole.push_back(static_cast<double>(d));
        result.residue.push_back(static_cast<double>(above / slope));
    }
    if (result.pole.size() != size_t(poles))
        lost(power, poles, smallest, largest);
    return result;
}

} // namespace

double Rational::operator()(double x) const {
    double sum = constant;
    for (size_t k = 0; k < pole.size(); ++k)
        sum += residue[k] / (x + pole[k]);
    return sum;
}

Rational rational_power(double power, int poles, double smallest, double largest) {
    if (!(std::fabs(power) < 1) || power == 0 || poles < 1 || poles > 12 || !(smallest > 0 && largest > smallest))
        throw std::runtime_error("rational function: the power must be in (-1, 1) and not 0, poles 1 to 12, and 0 < "
                                 "smallest < largest");
    if (power < 0)
        return negative_power(-power, poles, smallest, largest);
    // x c / (x + d) = c - c d / (x + d)
    Rational r = negative_power(1 - power, poles, smallest, largest);
    for (size_t k = 0; k < r.pole.size(); ++k) {
        r.constant += r.residue[k];
        r.residue[k] *= -r.pole[k];
    }
    return r;
}

} // namespace examples
