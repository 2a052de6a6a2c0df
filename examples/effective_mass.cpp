#include "examples/effective_mass.h"
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

double mass_of_one_state(const Correlator &c, int t) { return std::acosh((c[t - 1] + c[t + 1]) / (2 * c[t])); }
double mass_in_steps_of_two(const Correlator &c, int t) { return std::acosh((c[t - 2] + c[t + 2]) / (2 * c[t])) / 2; }
double mass_of_falling_state(const Correlator &c, int t) { return std::log(c[t - 1] / c[t + 1]) / 2; }

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
