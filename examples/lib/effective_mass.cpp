#include "examples/lib/effective_mass.h"
#include <cmath>
#include <complex>

namespace examples {

Correlator folded(const Correlator &c, bool nucleon) {
    Correlator result = c;
    for (size_t t = 1; t < c.size(); ++t) {
        const double sign = nucleon && t % 2 == 0 ? -1 : 1;
        result[t] = (c[t] + sign * c[c.size() - t]) / 2;
    }
    return result;
}

namespace {

// C, S C and S^2 C at one t.
struct Applied {
    double c, sc, ssc;
};
// The roots of x^2 - p x + q, with p and q from S^2 C - p S C + q C = 0 at both t.
struct Roots {
    double larger, smaller;
};
Roots roots_of(const Applied &a, const Applied &b) {
    const double determinant = a.c * b.sc - b.c * a.sc;
    const double p = (a.c * b.ssc - b.c * a.ssc) / determinant, q = (a.sc * b.ssc - b.sc * a.ssc) / determinant;
    const double half = std::sqrt(p * p / 4 - q);
    return {p / 2 + half, p / 2 - half};
}

} // namespace

double meson_mass(const Correlator &c, int t) {
    const int n = int(c.size());
    return t < 1 || t > n / 2 ? NAN : std::acosh((c[t - 1] + c[(t + 1) % n]) / (2 * c[t]));
}

double meson_mass_with_partner(const Correlator &c, int t) {
    const int n = int(c.size());
    if (t < 2 || t >= n / 2)
        return NAN;
    const auto at = [&](int k) -> Applied {
        return {c[k], (c[k - 1] + c[k + 1]) / 2, (c[k - 2] + 2 * c[k] + c[(k + 2) % n]) / 4};
    };
    const Roots roots = roots_of(at(t), at(t + 1));
    return std::acosh(roots.smaller > 1 ? roots.smaller : roots.larger);
}

double nucleon_mass(const Correlator &c, int t) {
    if (t < 1 || t + 3 > int(c.size()) / 2)
        return NAN;
    return -std::log(roots_of({c[t - 1], c[t], c[t + 1]}, {c[t], c[t + 1], c[t + 2]}).larger);
}

Estimate jackknife(const std::vector<Correlator> &samples, const std::function<double(const Correlator &)> &f) {
    const size_t n = samples.size();
    Correlator sum(samples.at(0).size(), 0.0);
    for (const Correlator &sample : samples)
        for (size_t t = 0; t < sum.size(); ++t)
            sum[t] += sample[t];
    const auto of_others = [&](const Correlator &left_out) {
        Correlator mean = sum;
        for (size_t t = 0; t < sum.size(); ++t)
            mean[t] = (sum[t] - left_out[t]) / double(n - 1);
        return f(mean);
    };
    Correlator mean = sum;
    for (double &each : mean)
        each /= double(n);
    if (n == 1)
        return {f(mean), NAN};
    std::vector<double> without;
    double middle = 0, squares = 0;
    for (const Correlator &sample : samples) {
        without.push_back(of_others(sample));
        middle += without.back() / double(n);
    }
    for (const double each : without)
        squares += (each - middle) * (each - middle);
    return {f(mean), std::sqrt(squares * double(n - 1) / double(n))};
}

std::vector<double> free_quark(int extent, double mass) {
    std::vector<double> result(extent);
    for (int t = 0; t < extent; ++t)
        for (int k = 0; k < extent; ++k) {
            const double p = (2 * k + 1) * M_PI / extent;
            const double sine = 9.0 / 8 * std::sin(p) - std::sin(3 * p) / 24;
            result[t] += std::real(std::polar(1.0, p * t) / std::complex<double>(2 * mass, 2 * sine)) / extent;
        }
    return result;
}

double free_energy(double mass) {
    // sinh 3E = 3 s + 4 s^3 with s = sinh E, so that m = s - s^3 / 6, which rises up to s = sqrt 2.
    if (!(mass >= 0) || mass > 2 * std::sqrt(2.0) / 3)
        return NAN;
    double low = 0, high = std::sqrt(2.0);
    for (int step = 0; step < 100; ++step) {
        const double s = (low + high) / 2;
        (s - s * s * s / 6 < mass ? low : high) = s;
    }
    return std::asinh(low);
}

} // namespace examples
