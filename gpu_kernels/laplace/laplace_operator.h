// 1 - kappa^2 D_eo D_oe on one parity, the even-odd form of the gauge Laplace operator M = 1 - kappa D
// (laplace/laplace.h) in d directions, 3 or 4: A = 1 - B^dag B with B = kappa D from this parity to the other. D joins
// even with odd sites in 3 directions as well.
//
// M x = b on all sites is A x_e = b_e + kappa D b_o and then x_o = b_o + kappa D x_e. For |kappa| < 1 / (2 d) both are
// positive for any unitary links: no eigenvalue of A is below 1 - (2 d kappa)^2 or above 1.
#pragma once
#include "gpu_kernels/laplace/laplace.h"
#include "gpu_kernels/stencil/stencil_operator.h"

namespace milcgpu {

// Throws Error(bad_argument) for directions other than 3 and 4, and for kappa outside 0 < kappa < 1 / (2 d).
void check_laplace(int directions, double kappa);

class LaplaceOperator : public StencilOperator {
  public:
    static constexpr double shift = 1; // shift of A

    // The links must outlive the operator; spec.link and spec.reals are theirs, and spec.spinor is spec.link. Throws as
    // check_laplace does, and Error(not_built) if there is no kernel. If the geometry is cut, links must have their
    // nearest ghosts behind (Halo::exchange_backward), and all ranks call together.
    LaplaceOperator(const Geometry &, int parity, const OperatorSpec &, const LinkField &, int directions, double kappa,
                    Halo *halo = nullptr);

    int sign() const override { return -1; }
    void apply_half(Device &, const HalfCall &, Epilogue) const override;
    double rounding(Precision) const override;
    double lowest(double of_shift) const override;
    bool takes_several() const override { return true; }
    std::vector<Region> checked_regions() const override { return {links_->region("gauge links")}; }
    bool takes_checksums() const override { return false; }
    bool needs_host() const override;

    // On the sites of `on`: out = b - a x + kappa D between, for one source or several. *sum (device; nullptr: not
    // wanted, as for several sources) = |out|^2. out may be b. With a 1 and x on all sites this is b - M x.
    void add_neighbours(Device &, int on, double a, const ResidualFields &, double *sum = nullptr) const;

  private:
    size_t half_flops(Epilogue end, size_t sites) const override { return laplace_flops(directions_, end, sites); }
    size_t half_bytes(Epilogue end, size_t sites) const override {
        return laplace_bytes(spec().spinor, spec().reals, directions_, end, sites);
    }
    void launch(Device &, const HalfCall &, Epilogue, int to, bool links_at_rest) const; // to the sites of parity `to`
    const LinkField *links_;
    int directions_;
    double kappa_;
};

} // namespace milcgpu
