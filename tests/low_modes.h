// Links with low modes, for tests of eigenvectors.
#pragma once
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/lanczos.h"
#include "milc_glue/links/links_handle.h"
#include "tests/handles.h"
#include "tests/quenched.h"
#include "tests/support.h"

namespace tests {

// A quenched field with low modes, and its HISQ links.
struct Modes {
    Session<double> session;
    reference::Gauge u; // with phases
    Modes(milcgpu::Backend backend, unsigned long seed, const reference::Lattice &lattice = {{4, 4, 4, 8}})
        : session(lattice, backend), u(quenched(lattice, seed)) {
        reference::apply_phases(lattice, u);
        make(0);
    }
    // The links are those of u, with this eps_naik, on the host, too.
    void make(double eps, const milcgpu_field *fat = nullptr, const milcgpu_field *lng = nullptr) {
        auto gauge = reference::links_to_milc<double>(session.lattice, u);
        const milcgpu_field from = session.field(gauge);
        auto spec = filled(milcgpu_hisq_defaults);
        const milcgpu_fatlink_set set{eps, fat, lng, &session.links};
        CAPTURE(milcgpu_last_error());
        REQUIRE(milcgpu_links_make(session.context, &spec, &from, &set, 1, nullptr, nullptr) == MILCGPU_OK);
    }
    // The boundary in x is twisted by this angle.
    void twist(double angle) {
        for (int s = 0; s < session.lattice.volume(); ++s)
            if (session.lattice.coordinates(s)[0] == 0)
                u[4 * s] = std::polar(1.0, angle) * u[4 * s];
    }
    milcgpu::Device &device() { return *session.context->device; }
    milcgpu::Operator in(milcgpu::Precision p, int parity = 0) {
        milcgpu::OperatorSpec spec{p, p, 18};
        return milcgpu::level_operator(*session.links, parity, spec);
    }
    std::unique_ptr<milcgpu::Eigenvectors> lowest(int count, milcgpu::LanczosReport &report,
                                                  milcgpu::Precision stored = milcgpu::Precision::half,
                                                  double tolerance = 0, const milcgpu::Eigenvectors *start = nullptr) {
        milcgpu::LanczosLimits limits;
        limits.count = count, limits.stored = stored, limits.tolerance = tolerance, limits.start = start;
        return milcgpu::lowest_eigenvectors(device(), *in(milcgpu::Precision::double_),
                                            *in(milcgpu::precision_of_lanczos(stored)), limits, {}, report);
    }
    void load(const milcgpu::SpinorBlock &to, unsigned long seed) {
        auto b = reference::vector_to_milc<double>(session.lattice, random_fermion(session.lattice, seed));
        session.context->reorder->to_device({b.data(), milcgpu::Precision::double_, 48}, 0, to);
    }
    milcgpu::CgReport solve(milcgpu::CgSolver &cg, double mass, milcgpu::Deflation *deflation,
                            double tolerance = 1e-10) {
        milcgpu::CgLimits limits{};
        limits.shift = 4 * mass * mass, limits.tolerance = tolerance;
        limits.deflation = deflation;
        load(cg.source(), 7);
        device().fill_zero(cg.solution().data(), cg.solution().bytes());
        return cg.solve(limits, {});
    }
};

inline milcgpu_eigen_spec eigen_spec(int count) {
    auto spec = filled(milcgpu_eigen_defaults);
    spec.count = count;
    return spec;
}

} // namespace tests
