// 4 m^2 - D D on one parity, the normal operator of improved staggered fermions: B = D from this parity to the other.
#pragma once
#include "gpu_kernels/staggered/dslash.h"
#include "gpu_kernels/stencil/stencil_operator.h"

namespace milcgpu {

class StaggeredOperator : public StencilOperator {
  public:
    // The link fields must outlive the operator, and so must the halo, which is needed if the geometry is cut. Throws
    // Error(not_built) if there is no kernel.
    StaggeredOperator(const Geometry &, int parity, const OperatorSpec &, const LinkPair &, Halo *halo = nullptr);
    // The storage of this operator if it takes several sites at once.
    static OperatorSpec of_lanes(OperatorSpec);
    // Whether the operator takes several sites at once if LaneLinks fit. Fields beside them may have another precision.
    static bool takes_lanes(const OperatorSpec &);
    void apply_half(Device &, const HalfCall &, Epilogue) const override;
    void send(Device &, const SpinorBlock &x) const override;
    SendOut send_out() const override;
    // For 8 fat links; D multiplies a rough vector by about 2.5.
    double rounding(Precision p) const override { return error_of_links(p, 2.5 * std::sqrt(48.0), links_.fat->scale); }
    // The bound for free fermions with Naik's term: 4 (7/3)^2.
    double highest(double shift) const override { return shift + 21.8; }
    bool takes_several() const override {
        const KernelKey &one = *one_source_[0];
        return look_for_dslash({one.spinor, one.link, one.reals, Epilogue::residual, 2, 4, false, one.lanes}) !=
               nullptr;
    }
    std::vector<Region> checked_regions() const override;
    bool takes_checksums() const override {
        return checked_residual_ != nullptr && links_.fat->padding_is_zero && links_.lng->padding_is_zero &&
               !geometry().is_cut(); // on a cut lattice, a launch reads some links twice and others never
    }

  private:
    size_t half_flops(Epilogue end, size_t sites) const override { return dslash_flops(end, sites); }
    size_t half_bytes(Epilogue end, size_t sites) const override {
        return dslash_bytes(spec().spinor, spec().link, spec().reals, end, sites);
    }
    const DslashKernel &kernel(Epilogue, const HalfCall &) const;
    LinkPair links_;
    const DslashKernel *one_source_[std::size(epilogues)];
    const DslashKernel *checked_residual_; // nullptr: not built
};

} // namespace milcgpu
