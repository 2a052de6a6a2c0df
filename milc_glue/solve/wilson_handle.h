// What stands behind the handle of Wilson fermions.
#pragma once
#include "gpu_kernels/wilson/wilson_operator.h"
#include "milc_glue/api/context.h"
#include "milc_glue/api/milcgpu_wilson.h"
#include "milc_glue/links/link_checks.h"
#include "milc_glue/solve/memory_plan.h"
#include "milc_glue/solve/solve_arguments.h"
#include "reorder/resident_field.h"
#include <memory>

namespace milcgpu {

// M = R - kappa D, R with cku0 (clover_term.h).
struct WilsonParameters {
    double kappa, cku0;
    bool operator==(const WilsonParameters &o) const { return kappa == o.kappa && cku0 == o.cku0; }
};

// The clover term in one precision, and its inverse where that was asked for; both nullptr: 1.
struct CloverVersion {
    std::shared_ptr<const CloverField> term, inverse;
    CloverPair pair() const { return {term.get(), inverse.get()}; }
};

// milcgpu_wilson_residual, and with it MILC's relative residual (with even_odd; else it is 1), where that is wanted:
// relative may be nullptr.
milcgpu_status true_residuals(milcgpu_wilson *, const milcgpu_wilson_spec *, int parity, const milcgpu_field *source,
                              const milcgpu_field *solution, double *residual, double *relative);

} // namespace milcgpu

struct milcgpu_wilson : milcgpu::Evictable {
    milcgpu_context *context;
    milcgpu::SpinorReorder reorder;
    static constexpr const char *name_of_links = "links of Wilson fermions";

    explicit milcgpu_wilson(milcgpu_context *of)
        : Evictable(*of), context(of), reorder(*of->device, of->map, of->geometry, milcgpu::wilson_components),
          geometry_(of->geometry.without_ghosts()), links_(*of->device, geometry_, name_of_links, of->warn()) {
        if (of->halo)
            halo_ = std::make_unique<milcgpu::WilsonHalo>(*of->device, *of->halo, of->geometry);
        register_here();
    }
    ~milcgpu_wilson() override { context->forget(this); }
    // Packed links and clover terms, but for what a call in progress works with. Nothing on many ranks, which make
    // these together.
    bool release_idle() override;
    milcgpu::Device &device() const { return *context->device; }
    const milcgpu::Geometry &geometry() const { return geometry_; } // of the box, without ghosts
    milcgpu::WilsonHalo *halo() const { return halo_.get(); }       // nullptr: the lattice is whole

    // fill(links): which are as `said`; phases are taken out.
    void load(milcgpu::Precision, const milcgpu::SaidSigns &said,
              const std::function<void(milcgpu::LinkField &)> &fill);
    void clear();
    bool loaded() const { return !links_.empty(); }
    uint64_t tag() const { return links_.tag(); }
    // As handed over, in double.
    const milcgpu::LinkField &as_given() const { return links_.as_given(); }
    // In the precision and reals of spec; spec.reals becomes what was granted.
    std::shared_ptr<const milcgpu::LinkField> version(milcgpu::OperatorSpec &spec);
    // The clover term of these links, and its inverse on the sites of parity `divided` (0, 1 or none); the last cku0 is
    // kept. cku0 0: 1. Throws Error(bad_argument) where blocks there have no inverse.
    static constexpr int none = -1;
    milcgpu::CloverVersion clover(double cku0, milcgpu::Precision precision, int divided);
    // M on a parity, with its links and its clover term.
    std::shared_ptr<const milcgpu::WilsonMatrix> matrix(const milcgpu::WilsonParameters &, int parity,
                                                        milcgpu::OperatorSpec &spec);
    // What a solve holds on the device, of `sources` at a time (1: alone).
    milcgpu::MemoryPlan plan(const milcgpu::WilsonParameters &, int method, const milcgpu::OperatorSpec &precise,
                             const milcgpu::OperatorSpec &sloppy, int sources) const;

  private:
    std::shared_ptr<const milcgpu::CloverField> with_checksum(milcgpu::CloverField made) const;
    milcgpu::Geometry geometry_;
    std::unique_ptr<milcgpu::WilsonHalo> halo_;
    milcgpu::ResidentField links_;
    double cku0_ = 0;                                                                                  // of clover_
    std::map<std::pair<milcgpu::Precision, int>, std::shared_ptr<const milcgpu::CloverField>> clover_; // none: R
};
