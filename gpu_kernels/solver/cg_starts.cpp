#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>

namespace milcgpu {

// Takes the limits of a new solve.
void CgSolver::take(const CgLimits &limits) {
    sloppy_ = given_.get();
    limits_ = limits;
    if (limits_.jump_limit <= 0)
        limits_.jump_limit = ladder::jump_limit;
    below_ = nullptr;
    deflation_ = limits_.deflation;
    const double shift = limits_.shift;
    if (deflation_ != nullptr &&
        !ladder::vectors_serve(full_.A->rounding(Precision::half), deflation_->vectors().lowest() + shift,
                               deflation_->lowest(shift), full_.A->lowest(shift)))
        deflation_ = nullptr;
    gain_ = {};
}

bool CgSolver::half_is_hopeless() const {
    return finer_ != nullptr &&
           ladder::half_is_hopeless(*sloppy_->A, lowest_of(*sloppy_->A, deflation_, limits_.shift), limits_.jump_limit);
}

// The target in the units of the sloppy system.
double CgSolver::target_rr() const {
    return limits_.tolerance > 0 ? limits_.tolerance * limits_.tolerance * source_rr_ / (unit_.scale * unit_.scale)
                                 : INFINITY;
}

int CgSolver::steps_left(const CgReport &report) const {
    return std::min(limits_.max_iterations - report.iterations % limits_.max_iterations,
                    most_iterations() - report.iterations);
}

// The part of the state that the host sets.
CgState CgSolver::begin_state(int iteration_limit, double target) const {
    CgState state{};
    state.waits = device_.waits();
    state.shift = limits_.shift;
    state.sign = sloppy_->A->sign();
    state.scale = unit_.scale;
    state.target_rr = target;
    state.relative_target = limits_.relative_tolerance;
    const double rounding = full_.A->rounding(Precision::half) / lowest_of(*full_.A, deflation_, limits_.shift);
    const OperatorSpec &sloppy = sloppy_->A->spec();
    const bool in_half = sloppy.link == Precision::half;
    const double delta = limits_.reliable_delta > 0                    ? limits_.reliable_delta
                         : in_half && sloppy.spinor != Precision::half ? ladder::reliable_delta_of_half_links(rounding)
                         : in_half || deflation_ != nullptr            ? ladder::reliable_delta_with(rounding)
                                                                       : ladder::reliable_delta(sloppy.spinor);
    state.reliable_factor = has_updates() ? delta * delta : 0;
    state.iteration_limit = iteration_limit;
    return state;
}

// Starts from precise_->residual, which is also the first direction.
void CgSolver::start(double target, const CgReport &report) {
    put(begin_state(steps_left(report), target));
    convert_spinor(device_, precise_->residual, sloppy_->start(), 1 / unit_.scale, nullptr);
    cg_start(device_, sloppy_->start(), direction(), state_.data());
}

void CgSolver::start_afresh(double rr, CgReport &report) {
    ++report.restarts;
    unit_.choose(source_rr_, rr, full_.A->geometry().global_volume() / 2);
    below_ = prepare_descent() ? sloppy_ : nullptr;
    if (below_ == nullptr)
        return start(target_rr(), report);
    sloppy_ = top_.get();
    const double at = ladder::go_down_at(ladder::Masses::one, Precision::single);
    start(target_rr() * at * at, report);
}

// A reliable update. If the residual has changed too much for half precision, changes to a finer precision and returns
// false: the solve must then start with a new direction.
bool CgSolver::update_reliably(CgReport &report) {
    ++report.reliable_updates;
    put(begin_state(steps_left(report), target_rr()));
    if (!sloppy_->fresh_residual)
        sloppy_->fresh_residual = made_on_all_ranks(device_, "memory for a deflated solve",
                                                    [&] { return sloppy_->A->vectors(device_, owner); });
    convert_spinor(device_, precise_->residual, sloppy_->fresh_residual, 1 / unit_.scale, nullptr);
    cg_reliable_update(device_, sloppy_->fresh_residual, sloppy_->before(last_.iterations), sloppy_->start(),
                       direction(), state_.data());
    CgState state;
    device_.copy_to_host(&state, state_.data(), sizeof state);
    const double jump = std::sqrt(state.jump / state.rr);
    if (deflation_ != nullptr) // it changes the residual by more than rounding does
        return true;
    report.largest_jump = std::fmax(report.largest_jump, jump);
    if (!(jump > limits_.jump_limit) || sloppy_->A->spec().link != Precision::half || finer_ == nullptr)
        return true;
    change_to_finer();
    return false;
}

void CgSolver::change_to_finer() {
    if (!fine_) {
        const Operator A = finer_();
        fine_ = made_on_all_ranks(device_, "memory for a finer precision", [&] { return make_sloppy(A); });
    }
    sloppy_ = fine_.get();
}

// Returns true if the solve starts in double and goes down to single later; allocates the vectors for that. Returns
// false if memory does not suffice.
bool CgSolver::prepare_descent() {
    if (limits_.tolerance <= 0 || limits_.relative_tolerance > 0 ||
        !ladder::must_descend(*precise_->A, *given_->A, sloppy_->A->spec().spinor,
                              lowest_of(*given_->A, deflation_, limits_.shift)))
        return false;
    if (!top_)
        top_ = made_if_it_fits(device_, "memory for the descent", [&] { return make_sloppy(precise_->A); });
    return top_ != nullptr;
}

// If the solve has started in double, the precision below continues with the same residual and direction. Returns false
// if the solve has not, or if the iteration in double ended for another reason than its target.
bool CgSolver::go_down(CgStop stop, const CgReport &report) {
    if (below_ == nullptr)
        return false;
    sloppy_ = below_;
    below_ = nullptr;
    if (stop != CgStop::target)
        return false;
    convert_spinor(device_, top_->before(last_.iterations), sloppy_->start(), 1, nullptr);
    convert_spinor(device_, direction_, sloppy_->copy, 1, nullptr);
    CgState state = begin_state(steps_left(report), target_rr());
    state.reliable_factor = 0;
    state.start(last_.rr, last_.pp);
    put(state);
    return true;
}

} // namespace milcgpu
