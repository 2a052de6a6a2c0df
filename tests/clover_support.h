// Wilson fields, gauge fields and clover terms between the reference and a device.
#pragma once
#include "gpu_kernels/fields/spinor_field.h"
#include "gpu_kernels/wilson/clover_term.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "tests/bench.h"
#include "tests/reference/wilson.h"

namespace tests {

struct WilsonBench : Bench<reference::WilsonVector> {
    using Bench::Bench;
    milcgpu::CloverField clover(const reference::Gauge &links, double cku0) {
        milcgpu::CloverField r(device, milcgpu::Precision::double_, geometry, "test");
        make_clover(device, geometry, upload(links), cku0, r);
        return r;
    }
    // R psi on both parities, in the precision of r.
    reference::WilsonField multiply(const milcgpu::CloverField &r, const reference::WilsonField &psi) {
        reference::WilsonField result(psi.size(), reference::WilsonVector{});
        for (int parity = 0; parity < 2; ++parity) {
            const milcgpu::SpinorField in = upload(psi, parity, r.precision()),
                                       out(device, r.precision(), geometry, parity, "test", 1, 4);
            multiply_clover(device, r, parity, in, out);
            result = result + download(out, parity);
        }
        return result;
    }
};

// Links as a quenched lattice has them, antiperiodic in time.
inline reference::Gauge links_on(const reference::Lattice &lattice) {
    return reference::antiperiodic_in_time(lattice, reference::near_unit_gauge(lattice, 0.25, 31));
}

// A context, a handle and what they are compared with.
struct CloverSession {
    static constexpr double kappa = 0.12, cku0 = 0.2;
    Session<double> session;
    milcgpu_wilson *wilson = nullptr;
    milcgpu_wilson_spec spec{sizeof(milcgpu_wilson_spec), kappa, cku0 / kappa, 0, MILCGPU_WILSON_BICGSTAB};
    reference::Gauge gauge;
    CloverSession(const reference::Lattice &lattice, milcgpu::Backend backend, int block = 0)
        : session(lattice, backend, block, 0), gauge(links_on(lattice)) {
        REQUIRE(milcgpu_wilson_create(session.context, &wilson) == MILCGPU_OK);
        load(gauge);
    }
    ~CloverSession() { milcgpu_wilson_destroy(wilson); }
    void load(const reference::Gauge &links) {
        auto milc = reference::links_to_milc<double>(session.lattice, links);
        const milcgpu_field field = session.field(milc);
        REQUIRE(milcgpu_wilson_load(wilson, &field) == MILCGPU_OK);
    }
    reference::WilsonField matrix(const reference::WilsonField &f, int sign) const {
        const reference::Clover r = reference::clover_term(session.lattice, gauge, spec.kappa * spec.clover);
        return reference::wilson_matrix(session.lattice, gauge, r, spec.kappa, f, sign);
    }
    struct Solved {
        milcgpu_status status;
        milcgpu_solve_report report;
        reference::WilsonField x;
        double residual; // by the reference, on all sites
    };
    Solved solve(milcgpu_wilson_method by, const milcgpu_solve_spec &how, const reference::WilsonField &b,
                 const reference::WilsonField &guess) {
        Solved s{MILCGPU_OK, sized<milcgpu_solve_report>(), {}, 0};
        auto source = reference::field_to_milc<double>(session.lattice, b, 1),
             x = reference::field_to_milc<double>(session.lattice, guess, 1);
        const milcgpu_field from = session.field(source), to = session.field(x);
        spec.method = by;
        s.status = milcgpu_wilson_solve(wilson, &spec, &how, &from, &to, &s.report);
        s.x = reference::field_from_milc<reference::WilsonVector>(session.lattice, x.data(), 1);
        s.residual = std::sqrt(reference::norm2(b - matrix(s.x, 1)) / reference::norm2(b));
        return s;
    }
};

} // namespace tests
