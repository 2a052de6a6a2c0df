// Wilson fermions on one parity: M_p = R_p - kappa^2 D_pq R_q^-1 D_qp, q the other parity, R = 1 or the clover term
// (gpu_kernels/wilson). M^dag has D_- instead of D = D_+. Even-odd: T. A. DeGrand and P. Rossi, Comput. Phys. Commun.
// 60 (1990) 211.
//
// One application is two launches: middle = R_q^-1 D_qp in, and the form matrix with its epilogue.
#pragma once
#include "gpu_kernels/solver/linear_operator.h"
#include "gpu_kernels/wilson/wilson.h"
#include <memory>

namespace milcgpu {

// R and R^-1 on both parities, in one precision; nullptr: 1.
struct CloverPair {
    const CloverField *term = nullptr, *inverse = nullptr;
};

// Vectors have `spins` colour vectors a site; links and clover terms are in the precision of the vectors, and must
// outlive the operator.
class WilsonMatrix : public LinearOperator {
  public:
    // geometry: without ghosts. halo: needed if the lattice is cut; it must outlive the operator, and all ranks then
    // call together. Throws Error(not_built) if there is no kernel.
    WilsonMatrix(Device &, const Geometry &, int parity, const OperatorSpec &, const LinkField &links, double kappa,
                 const CloverPair &clover = {}, WilsonHalo *halo = nullptr);
    void apply(Device &device, const MatrixCall &call) const override { apply(device, call, 1); }
    void apply_dagger(Device &device, const MatrixCall &call) const override { apply(device, call, -1); }
    std::vector<Region> checked_regions() const override;
    bool needs_host() const override;
    double flops() const override { return flops({WilsonForm::matrix, Epilogue::plain, true}); }
    double bytes() const override { return bytes({WilsonForm::matrix, Epilogue::plain, true}); }

    // Allocates the middle for so many sources at once; for one source it exists from the start. It lives as long as
    // the operator, because recorded launches write to it; so call this before they are recorded.
    void allocate(Device &, int sources) const;
    // middle = R_q^-1 D in, for vectors in half.in; the pending sum of half belongs to this launch. after_step: it is
    // the sum of a step. Throws Error(bad_argument) if there is no memory for so many sources.
    void hop_to_middle(Device &, const HalfCall &half, int sign, bool after_step) const;
    // The second launch: v = R_p own - kappa^2 D middle, with the epilogue of `half`.
    void return_from_middle(Device &, const HalfCall &half, const SpinorBlock &own, Epilogue, int sign) const;
    // Flops of both launches.
    double flops(const WilsonEnd &) const;
    double bytes(const WilsonEnd &) const;

  private:
    void apply(Device &, const MatrixCall &, int sign) const;
    WilsonCall back(const HalfCall &half, const SpinorBlock &own, int sign) const;
    WilsonCall call_on(const HalfCall &half, int parity, int sign) const;
    const LinkField &links_;
    double kappa_;
    CloverPair clover_;
    WilsonHalo *halo_;
    SpinorBlock middle(int sources) const;
    mutable std::vector<SpinorField> middle_; // on the other parity, for increasing numbers of sources
};

// A = shift + M^dag M. B = M stays on the parity. Sums are deferred to the first launch of the next half, which is a
// hop: so nothing waits for a step length.
class WilsonNormal : public NormalOperator {
  public:
    explicit WilsonNormal(std::shared_ptr<const WilsonMatrix> matrix)
        : NormalOperator(matrix->geometry(), matrix->parity(), matrix->spec()), matrix_(std::move(matrix)) {}
    int components() const override { return matrix_->components(); }
    void apply_half(Device &, const HalfCall &, Epilogue) const override;
    SpinorField between(Device &device, const char *owner, int sources = 1) const override {
        matrix_->allocate(device, sources);
        return vectors(device, owner, sources);
    }
    int sites_between() const override { return geometry().sites(parity()); }
    // Not known beforehand: the error depends on the smallest eigenvalue, for which the shift is no useful bound.
    double rounding(Precision) const override { return 0; }
    bool takes_several() const override { return true; }
    std::vector<Region> checked_regions() const override { return matrix_->checked_regions(); }
    bool takes_checksums() const override { return false; }
    bool needs_host() const override { return matrix_->needs_host(); }
    double flops(Epilogue) const override;
    double bytes(Epilogue) const override;
    int passes(Epilogue second) const override { return NormalOperator::passes(second) + 2 * more_passes; }
    const WilsonMatrix &matrix() const { return *matrix_; }

  private:
    static constexpr int more_passes = 2 + 1; // of a half: those of the hop to the middle, and `own`
    std::shared_ptr<const WilsonMatrix> matrix_;
};

} // namespace milcgpu
