// Solves with the clover matrix by the interface that MILC's WANT_CL_BCG_GPU calls, against tests/reference. Each test
// runs in its own program, because a program has one lattice and one precision.
#include "milc_glue/api/plugin.h"
#include "tests/quda_support.h"
#include "tests/reference/wilson.h"
#include "tests/run_support.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tests;
using reference::WilsonField;

namespace {

const reference::Lattice lattice{{4, 6, 2, 4}};
constexpr double kappa = 0.12, cku0 = 0.2;

WilsonField gamma_5(const WilsonField &f) { return reference::gamma_matrix(4) * f; }

template <class Real> struct Program {
    static constexpr int precision = sizeof(Real) / 4;
    static constexpr double tolerance = precision == 1 ? 1e-5 : 1e-10;
    using Field = std::vector<Real>;
    reference::Gauge gauge = reference::links_from_milc<Real>(
        lattice, reference::links_to_milc<Real>(lattice, reference::antiperiodic_in_time(
                                                             lattice, reference::near_unit_gauge(lattice, 0.25, 401))));
    Field links = reference::links_to_milc<Real>(lattice, gauge), source, solution;
    double coefficient = cku0, hopping = kappa, residual = -1, fermilab = -1;
    int iterations = -1;

    explicit Program(int ranks = 1) {
        setenv("MILCGPU_VERBOSE", "0", 0);
        const int size[4] = {ranks * lattice.n[0], lattice.n[1], lattice.n[2], lattice.n[3]}, cut[4] = {ranks, 1, 1, 1};
        source = reference::field_to_milc<Real>(lattice, reference::random_wilson_field(lattice, 402), 1);
        qudaInit({QUDA_SILENT, {size, cut, 0}});
    }
    static WilsonField field(const Field &f) {
        return reference::field_from_milc<reference::WilsonVector>(lattice, f.data(), 1);
    }
    // The reference's M in MILC's layout.
    WilsonField matrix(const WilsonField &f) const {
        return reference::wilson_matrix(lattice, gauge, reference::clover_term(lattice, gauge, coefficient), hopping, f,
                                        1);
    }
    void invert(double target, double fermilab_target = 0, int max_iter = 1000, int mixed = 0) {
        QudaInvertArgs_t args{};
        args.max_iter = max_iter, args.mixed_precision = mixed;
        args.evenodd = static_cast<QudaParity>(12345); // MILC does not set it
        args.solver_type = QUDA_BICGSTAB_INVERTER;
        solution.assign(source.size(), NAN); // MILC does not set it, either
        const Field before = source;
        qudaCloverInvert(precision, precision, hopping, coefficient, args, target, fermilab_target, links.data(),
                         nullptr, nullptr, source.data(), solution.data(), &residual, &fermilab, &iterations);
        CHECK(std::memcmp(before.data(), source.data(), before.size() * sizeof(Real)) == 0);
    }
    // |b - M x| / |b| of MILC's vectors, on all sites.
    double off() const {
        const WilsonField b = gamma_5(field(source)), x = gamma_5(field(solution));
        return std::sqrt(norm2(b - matrix(x)) / norm2(b));
    }
    bool all_nan() const {
        return std::all_of(solution.begin(), solution.end(), [](Real x) { return std::isnan(x); });
    }
};

template <class Real> void solves() {
    Program<Real> p;
    // Rounding a solution to single precision adds a residual.
    const double rounding = p.precision == 1 ? 1e-6 : 0;
    for (const double coefficient : {cku0, 0.0, -0.1})
        for (const int mixed : {0, 1, 2}) {
            p.coefficient = coefficient;
            p.invert(p.tolerance, 0, 1000, mixed);
            CAPTURE(coefficient, mixed, p.residual, p.off());
            CHECK(p.residual <= p.tolerance);
            CHECK(p.off() <= p.tolerance + rounding); // the source of the even system is at least b / sqrt 2
            CHECK(p.fermilab == 1);
            CHECK(p.iterations > 5);
            CHECK(p.iterations < 60);
        }
    p.coefficient = cku0;
    // The Fermilab residual alone.
    p.invert(0, 10 * p.tolerance);
    CHECK(p.fermilab <= 10 * p.tolerance);
    CHECK(p.off() < 100 * p.tolerance);
    // New links at the same address, which the plugin finds by their content.
    p.gauge = reference::near_unit_gauge(lattice, 0.2, 403);
    p.links = reference::links_to_milc<Real>(lattice, p.gauge);
    p.invert(p.tolerance);
    CHECK(p.off() <= p.tolerance + rounding);
    // Stopped at the iteration limit.
    p.invert(p.tolerance, 0, 3);
    CHECK(p.iterations == 3);
    CHECK(p.residual > p.tolerance);
    CHECK(p.off() < 1);
    // After errors: memory that is short once, and a lost device, which a program has once.
    p.invert(p.tolerance);
    const auto expected = p.solution;
    for (const int fault : {MILCGPU_FAULT_ALLOCATION, MILCGPU_FAULT_DEVICE_LOST}) {
        // Another coefficient, so that the call allocates.
        p.coefficient = fault == MILCGPU_FAULT_ALLOCATION ? cku0 / 2 : cku0;
        milcgpu_plugin_inject_fault(fault);
        p.invert(p.tolerance);
        CAPTURE(fault);
        CHECK(p.off() <= p.tolerance + rounding);
    }
    // The host backend did the last solve; |M^-1| is below 10.
    CHECK(reference::relative_difference(p.field(p.solution), p.field(expected)) < 20 * p.tolerance);
}

template <class Real> void refusals() {
    Program<Real> p;
    const auto refused = [&](double target = Program<Real>::tolerance) {
        p.invert(target);
        CHECK(p.all_nan());
        CHECK(p.residual == INFINITY);
        CHECK(p.fermilab == INFINITY);
        CHECK(p.iterations == 0);
    };
    for (const double bad : {0.0, -0.1, 1.5, double(NAN)}) {
        p.hopping = bad;
        refused();
    }
    p.hopping = kappa;
    p.coefficient = INFINITY;
    refused();
    p.coefficient = cku0;
    for (const double none : {0.0, 1e-300, double(NAN)})
        refused(none);
    const Real good = std::exchange(p.source[5], Real(NAN));
    refused();
    p.source[5] = good;
    const Real link = std::exchange(p.links[7], Real(INFINITY));
    refused();
    p.links[7] = link;
    p.invert(p.tolerance);
    CHECK(p.residual <= p.tolerance);
}

} // namespace

TEST_CASE("quda_compat: solves with the clover matrix are right", "[quda][operators][quda_clover]") {
    in_each_precision("'[quda_clover]'", [](auto real) { solves<decltype(real)>(); });
}

TEST_CASE("quda_compat: clover solves refuse bad input", "[quda][operators][errors]") {
    CHECK(alone("'[quda_clover_refusals]'") == 0);
    const Run cut = succeeded(run("", "", self() + " '[quda_clover_cut]'"));
    CHECK(cut.count("milcgpu: 2 ranks, and no mpi.h") == 1);
}
TEST_CASE("quda_compat alone: clover refusals", "[.][quda_clover_refusals]") { refusals<double>(); }
TEST_CASE("quda_compat alone: clover on two ranks without messages", "[.][quda_clover_cut]") {
    Program<double> p(2);
    p.invert(p.tolerance);
    CHECK(p.all_nan());
    CHECK(p.residual == INFINITY);
}
