// What stands behind the handle of Wilson fermions.
#pragma once
#include "gpu_kernels/operators/wilson.h"
#include "gpu_kernels/solver/bicgstab.h"
#include "milc_glue/context.h"
#include "milc_glue/milcgpu_wilson.h"
#include "reorder/link_reorder.h"

// M = R - kappa D, R = 1 + clover * (the term of gpu_kernels/wilson/clover.h).
struct WilsonAction {
    double kappa, clover;
    bool operator==(const WilsonAction &o) const { return kappa == o.kappa && clover == o.clover; }
};

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
    using Term = std::shared_ptr<const milcgpu::CloverField>; // empty: R = 1
    // R on both parities, made where it is not there; and R on `parity` with R^-1 on the other one.
    Term clover(double coefficient, milcgpu::Precision precision);
    Term even_odd_clover(double coefficient, int parity, milcgpu::Precision precision);
    // M on a parity, with its links.
    std::shared_ptr<const milcgpu::WilsonMatrix> matrix(const WilsonAction &action, int parity,
                                                        milcgpu::OperatorSpec &spec);
    // Throws Error(corrupted) where links are not what was loaded; the handle is empty then.
    void require_unchanged(const std::vector<milcgpu::Region> &regions);

    // The last solver, and what it is for.
    struct Solver {
        WilsonAction action;
        int parity;
        milcgpu::OperatorSpec precise, sloppy;
        std::shared_ptr<const milcgpu::WilsonMatrix> full;
        std::unique_ptr<milcgpu::CgSolver> cg; // or
        std::unique_ptr<milcgpu::BicgstabSolver> bicgstab;
    };
    enum class Method { cg, bicgstab };
    Solver &solver(Method method, const WilsonAction &action, int parity, milcgpu::OperatorSpec &precise,
                   milcgpu::OperatorSpec &sloppy);

  private:
    milcgpu::LinkField as_given_;
    milcgpu::LinkStatistics statistics_{};
    std::map<std::pair<milcgpu::Precision, int>, std::shared_ptr<const milcgpu::LinkField>> versions_;
    double clover_coefficient_ = 0;                              // of what follows
    std::map<std::pair<int, milcgpu::Precision>, Term> clovers_; // first: parity that holds R, 2: both
    std::unique_ptr<Solver> solver_;
};
