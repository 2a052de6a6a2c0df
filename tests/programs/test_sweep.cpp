// What `bench --sweep` says of planted times.
#include "examples/bench/sweep.h"
#include "tests/catch.h"

using examples::Operation;
using examples::Sweep;

namespace {

void add(Sweep &sweep, const Operation &operation, const std::string &shape, std::array<double, 3> seconds) {
    for (const double s : seconds)
        sweep.add(operation, shape, s);
}

} // namespace

TEST_CASE("sweep: gains above the noise, in the mean of the rows of a shape", "[programs]") {
    const Operation plain{"dslash", "18 plain", "single", 1, "rows.h: block 128"},
        step{"dslash", "18 step", "single", 1, "rows.h: block 128"}, shift{"shift", "x", "double"};
    Sweep sweep;
    for (const Operation &row : {plain, step, shift})
        add(sweep, row, Sweep::own, {1.00, 1.01, 0.99});
    add(sweep, plain, "64 threads", {0.80, 0.80, 0.80});  // 25 % faster
    add(sweep, step, "64 threads", {0.99, 0.99, 1.00});   // 1 %
    add(sweep, plain, "256 threads", {0.99, 0.99, 0.99}); // 1 %, as much as the other one loses
    add(sweep, step, "256 threads", {1.01, 1.01, 1.01});
    add(sweep, shift, "64 threads", {0.80, 0.50, 0.90}); // 25 %, but the runs are 50 % apart
    const std::vector<std::string> gains = sweep.gains();
    REQUIRE(gains.size() == 1);
    CHECK(gains[0] == "rows.h: block 128 -> 64 threads: 13.0 % on average over 2 rows, at least 1.0 % (noise 2.0 %)");
}

TEST_CASE("sweep: several sources by launches of fewer", "[programs]") {
    Sweep sweep;
    const auto of = [](int sources) { return Operation{"dslash", "13 plain", "half", sources}; };
    add(sweep, of(12), Sweep::own, {1.0, 1.0, 1.0});
    add(sweep, of(4), Sweep::own, {0.30, 0.30, 0.30}); // three of them: 0.9
    add(sweep, of(6), Sweep::own, {0.51, 0.51, 0.51}); // two: 1.02
    add(sweep, of(8), Sweep::own, {0.10, 0.10, 0.10}); // 8 does not divide 12
    const std::vector<std::string> gains = sweep.gains();
    REQUIRE(gains.size() == 1);
    CHECK(gains[0] == "dslash 13 plain, half, 12 sources: 11.1 % (noise 0.0 %) with 3 launches of 4");
}
