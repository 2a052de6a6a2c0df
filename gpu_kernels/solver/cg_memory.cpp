#include "gpu_kernels/solver/cg.h"

namespace milcgpu {

CgSolver::CgSolver(Device &device, const CgOperators &operators) : device_(device), finer_(operators.finer) {
    const NormalOperator &full = *operators.full; // in double
    b_ = full.vectors(device, owner);
    x_ = full.vectors(device, owner);
    direction_ = full.vectors(device, owner);
    full_ = make_level(operators.full);
    precise_ = &full_;
    if (!(operators.precise->spec() == full.spec())) {
        lower_ = make_level(operators.precise);
        precise_ = &lower_;
    }
    if (operators.precise->spec().spinor != Precision::double_) {
        precise_b_ = operators.precise->vectors(device, owner);
        precise_x_ = operators.precise->vectors(device, owner);
    }
    given_ = make_sloppy(operators.sloppy);
    sloppy_ = given_.get();
    state_ = DeviceArray<CgState>(device, 1, "conjugate gradient scalars");
    sums_ = DeviceArray<double>(device, 2, "conjugate gradient scalars");
    deferred_ = DeferredSums(device, full);
}

CgSolver::Level CgSolver::make_level(const Operator &A) const {
    return {A, A->between(device_, owner), A->vectors(device_, owner)};
}

std::unique_ptr<CgSolver::Sloppy> CgSolver::make_sloppy(const Operator &A) const {
    auto sloppy = std::make_unique<Sloppy>();
    sloppy->A = A;
    sloppy->r = A->vectors(device_, owner, cg_kept_steps);
    sloppy->s = A->vectors(device_, owner);
    sloppy->between = A->between(device_, owner);
    if (!(A->spec() == precise_->A->spec()))
        sloppy->fresh_residual = A->vectors(device_, owner);
    if (A->spec().spinor != Precision::double_)
        sloppy->copy = A->vectors(device_, owner);
    return sloppy;
}

void CgSolver::allocate_changes() {
    if (finer_ != nullptr)
        change_to_finer();
    else if (given_->A->spec().spinor == Precision::single && precise_->A->spec().spinor == Precision::double_)
        top_ = make_sloppy(precise_->A);
}

std::vector<Region> CgSolver::checked_regions(bool residual_alone) const {
    std::vector<Region> all = full_.A->checked_regions();
    if (residual_alone)
        return all;
    for (const NormalOperator *A : {precise_->A.get(), given_->A.get(), sloppy_->A.get()})
        join(all, A->checked_regions());
    return all;
}

std::vector<Region> CgSolver::checked_regions(const CgReport &report) const {
    std::vector<Region> all = checked_regions(report.status == Status::ok);
    const size_t taken = std::min<size_t>(full_.A->checked_regions().size(), NormalOperator::most_checksums);
    for (size_t k = 0; report.checked_links && k < taken; ++k)
        all[k].taken = limits_.checksums + k;
    return all;
}

} // namespace milcgpu
