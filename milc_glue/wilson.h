// What stands behind the handle of Wilson fermions.
#pragma once
#include "gpu_kernels/operators/wilson.h"
#include "gpu_kernels/solver/bicgstab.h"
#include "milc_glue/context.h"
#include "milc_glue/milcgpu_wilson.h"
#include "reorder/link_reorder.h"

namespace milcgpu {

// M = R - kappa D, R with cku0 (clover.h).
struct WilsonParameters {
    double kappa, cku0;
    bool operator==(const WilsonParameters &o) const { return kappa == o.kappa && cku0 == o.cku0; }
};

// A clover term and its inverse in one precision.
struct CloverVersion {
    CloverField term, inverse;
    CloverPair pair() const { return {&term, &inverse}; }
};

} // namespace milcgpu

struct milcgpu_wilson {
    milcgpu_context *context;
    milcgpu::SpinorReorder reorder;
    bool loaded = false;

    explicit milcgpu_wilson(milcgpu_context *of)
        : context(of), reorder(*of->device, of->map, of->geometry, milcgpu::wilson_components) {}
    milcgpu_wilson(const milcgpu_wilson &) = delete;
    milcgpu::Device &device() const { return *context->device; }
    const milcgpu::Geometry &geometry() const { return context->geometry; }

    void load(const milcgpu::HostField &host);
    void clear();
    // As handed over, in double.
    const milcgpu::LinkField &as_given() const { return as_given_; }
    // In the precision and reals of spec; spec.reals becomes what was granted.
    std::shared_ptr<const milcgpu::LinkField> version(milcgpu::OperatorSpec &spec);
    // The clover term of these links and its inverse; the last cku0 is kept. nullptr: cku0 is 0. Throws
    // Error(bad_argument) where blocks have no inverse.
    std::shared_ptr<const milcgpu::CloverVersion> clover(double cku0, milcgpu::Precision precision);
    // M on a parity, with its links and its clover term.
    std::shared_ptr<const milcgpu::WilsonMatrix> matrix(const milcgpu::WilsonParameters &, int parity,
                                                        milcgpu::OperatorSpec &spec);
    // Throws Error(corrupted) where links are not what was loaded; the handle is empty then.
    void require_unchanged(const std::vector<milcgpu::Region> &regions);

    // The last solver, and what it is for. One of cg and bicgstab is there.
    struct Solver {
        milcgpu::WilsonParameters of;
        int parity, method;
        milcgpu::OperatorSpec precise, sloppy;
        std::shared_ptr<const milcgpu::WilsonMatrix> full;
        std::unique_ptr<milcgpu::CgSolver> cg;
        std::unique_ptr<milcgpu::BicgstabSolver> bicgstab;
        const milcgpu::SpinorField &solution() const { return cg ? cg->solution() : bicgstab->solution(); }
        std::vector<milcgpu::Region> stands_on() const { return cg ? cg->stands_on(false) : bicgstab->stands_on(); }
    };
    Solver &solver(const milcgpu::WilsonParameters &, int parity, int method, milcgpu::OperatorSpec &precise,
                   milcgpu::OperatorSpec &sloppy);

  private:
    milcgpu::LinkField as_given_;
    milcgpu::LinkStatistics statistics_{};
    std::map<std::pair<milcgpu::Precision, int>, std::shared_ptr<const milcgpu::LinkField>> versions_;
    double cku0_ = 0; // of clover_
    std::map<milcgpu::Precision, std::shared_ptr<const milcgpu::CloverVersion>> clover_;
    std::unique_ptr<Solver> solver_;
};
