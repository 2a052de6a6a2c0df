// Rational functions for RHMC: they have the error that they report, and no other function with as few poles is better.
#include "examples/lib/rational.h"
#include "tests/catch.h"
#include <cmath>
#include <stdexcept>

using examples::Rational;
using examples::rational_power;

namespace {

// Signed relative errors of x^power on a fine grid in log x: the largest, and the number of alternating extremes of at
// least 0.98 of it.
struct Errors {
    double largest = 0;
    int extremes = 0;
};
Errors errors_of(const Rational &r, double power, double smallest, double largest) {
    Errors found;
    for (const bool count : {false, true}) {
        double sign = 0;
        for (int i = 0; i <= 20000; ++i) {
            const double x = smallest * std::pow(largest / smallest, i / 20000.0);
            const double e = r(x) / std::pow(x, power) - 1;
            if (!count)
                found.largest =
                    std::fabs(e) <= found.largest || found.largest != found.largest ? found.largest : std::fabs(e);
            else if (std::fabs(e) > 0.98 * found.largest && e * sign <= 0)
                ++found.extremes, sign = e;
        }
    }
    return found;
}

} // namespace

TEST_CASE("rational functions have the error that they report, which is the smallest possible",
          "[rational][sanitize]") {
    for (const double power : {-0.25, -0.5, -0.75, 0.125, 0.25})
        for (const int poles : {1, 2, 5, 8})
            for (const double smallest : {0.16, 1e-3}) {
                CAPTURE(power, poles, smallest);
                const Rational r = rational_power(power, poles, smallest, 40);
                REQUIRE(r.pole.size() == size_t(poles));
                REQUIRE(r.residue.size() == size_t(poles));
                for (int k = 0; k < poles; ++k) {
                    CHECK(r.pole[k] > 0);
                    CHECK(r.residue[k] * power < 0); // positive for negative powers
                }
                const Errors e = errors_of(r, power, smallest, 40);
                CHECK(std::fabs(e.largest / r.error - 1) < 0.02);
                // Chebyshev's criterion: 2 n parameters, 2 n + 1 extremes of equal size and alternating sign.
                CHECK(e.extremes == 2 * poles + 1);
            }
}

TEST_CASE("rational functions refuse an accuracy out of reach", "[rational]") {
    for (const double power : {0.0, 1.0, -1.5})
        CHECK_THROWS_AS(rational_power(power, 4, 0.1, 10), std::runtime_error);
    CHECK_THROWS_AS(rational_power(-0.5, 0, 0.1, 10), std::runtime_error);
    CHECK_THROWS_AS(rational_power(-0.5, 13, 0.1, 10), std::runtime_error);
    CHECK_THROWS_AS(rational_power(-0.5, 4, 0.0, 10), std::runtime_error);
    CHECK_THROWS_AS(rational_power(-0.5, 4, 10, 1), std::runtime_error);
    CHECK_THROWS_AS(rational_power(-0.5, 12, 1, 1.0001), std::runtime_error);
}
