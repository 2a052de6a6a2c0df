#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>
#include <limits>

namespace milcgpu {

double CgSolver::read(const double *device_value) const {
    double value;
    device_.copy_to_host(&value, device_value, sizeof value);
    return value;
}

// Computes the norm of the source. Returns false if the source is zero.
bool CgSolver::load_source(CgReport &report) {
    norm_squared(device_, b_, sums_.data());
    source_rr_ = read(sums_.data());
    if (!is_there(device_, source_rr_, b_, full_.A->geometry(), full_.A->parity(), limits_.tolerance, x_, sums_.data()))
        return false;
    report.source_norm = std::sqrt(source_rr_);
    if (precise_b_)
        convert_spinor(device_, b_, precise_b_, 1, nullptr);
    return true;
}

// If the precise level is not double, the solution is first rounded to its precision, because the caller gets the
// rounded one. The relative residual is computed if there is a tolerance for it; else it is 1, as in MILC.
// likely_the_last: also takes checksums of the links as handed over, if the residual is computed with them.
CgSolver::Residual CgSolver::true_residual(Level &level, bool likely_the_last) {
    const bool check = &level == &full_ && likely_the_last && full_.A->takes_checksums();
    uint64_t *const checksums = check ? limits_.checksums : nullptr;
    const bool in_double = level.A->spec().spinor == Precision::double_;
    if (!in_double) {
        convert_spinor(device_, x_, precise_x_, 1, nullptr);
        convert_spinor(device_, precise_x_, x_, 1, nullptr);
    }
    const SpinorField &b = in_double ? b_ : precise_b_, &x = in_double ? x_ : precise_x_;
    residual(device_, *level.A, limits_.shift, {b, x, level.between, level.residual}, sums_.data(), checksums);
    double relative = 1;
    if (limits_.relative_tolerance > 0) {
        const double volume = level.A->geometry().global_volume();
        relative_residual(device_, level.residual, x_, sums_.data() + 1, nullptr, volume);
        relative = std::sqrt(2 * read(sums_.data() + 1) / volume);
    }
    return {read(sums_.data()), relative, checksums != nullptr, &level == &full_};
}

// Deflates x and returns its new residual. Deflation needs a residual in double, even if the precise level is coarser.
// A deflation that does not help is the last one.
CgSolver::Residual CgSolver::deflated(const Residual &before, CgReport &report) {
    const bool in_double = precise_->A->spec().spinor == Precision::double_;
    Level &level = in_double ? *precise_ : full_;
    ++report.deflations;
    report.flops += deflation_->flops(1), report.bytes += deflation_->bytes(1);
    const double rr = in_double ? before.rr : true_residual(full_, false).rr;
    Residual after{};
    const int first = 0;
    const bool helps = deflation_->add_if_it_helps(level.residual, &first, x_, &first, {rr}, limits_.shift, [&] {
        after = true_residual(level, false);
        return std::vector<double>{after.rr};
    });
    if (!helps)
        go_on_without_deflation(report);
    return in_double && helps ? after : true_residual(*precise_, false);
}

void CgSolver::go_on_without_deflation(CgReport &report) {
    deflation_ = nullptr;
    gain_ = {}; // what the solve gained with deflation says nothing about the solve without
    report.deflation_off = true;
    if (half_is_hopeless())
        change_to_finer();
}

// The true residual at the start of a pass; the last pass ended with `stop`. Deflates it. If it is accepted, it is
// computed with the full operator.
CgSolver::Residual CgSolver::residual_after(CgStop stop, CgReport &report) {
    Residual residual = true_residual(*precise_, stop == CgStop::target);
    report.iterations += stop != CgStop::reliable_update;
    if (deflation_ != nullptr && residual.rr > 0 && residual.rr < INFINITY && !accepted(residual))
        residual = deflated(residual, report);
    pass_rr_ = residual.rr;
    if (!(residual.rr < INFINITY)) {
        require_finite(device_, x_, full_.A->geometry(), full_.A->parity(), "initial guess");
        report.status = Status::nan_or_inf;
        report.message = "the residual overflowed";
    } else if (accepted(residual) && !residual.full) {
        residual = true_residual(full_, true);
    }
    const double believed = report.recursion_residual * report.recursion_residual * source_rr_;
    gain_.note(residual.rr, believed < 0.5 * gain_.best_rr);
    if (deflation_ != nullptr && gain_.is_over() && !accepted(residual))
        go_on_without_deflation(report);
    return residual;
}

bool CgSolver::accepted(const Residual &r) const {
    return (limits_.tolerance <= 0 || r.rr < limits_.tolerance * limits_.tolerance * source_rr_) &&
           (limits_.relative_tolerance <= 0 || r.relative < limits_.relative_tolerance);
}

// Whether the last step began with a residual below all rounding errors. The square of such a residual may be 0 in the
// precision of the iteration, which then breaks down although the operator is positive.
bool CgSolver::nothing_was_left() const {
    const double norm = last_.history[(last_.iterations + cg_history_length - 2) % cg_history_length] * unit_.scale,
                 rr = last_.iterations > 1 ? std::fmin(pass_rr_, norm * norm) : pass_rr_;
    constexpr double rounding = std::numeric_limits<double>::epsilon();
    return rr <= rounding * rounding * source_rr_;
}

// Sets status and message if the iteration has broken down.
void CgSolver::note_breakdown(CgReport &report) const {
    if (last_.stop != CgStop::nan_or_inf && last_.stop != CgStop::not_positive)
        return;
    if (nothing_was_left()) {
        report.status = Status::precision_floor;
        return;
    }
    const bool nan = last_.stop == CgStop::nan_or_inf;
    report.status = nan ? Status::nan_or_inf : Status::not_positive;
    report.message =
        format("%s at step %d: there is no solution",
               nan                      ? "NaN or infinity"
               : sloppy_->A->sign() > 0 ? "<p, A p> = 0 (a zero mode, or a source that is too small for this precision)"
                                        : "<p, A p> is not positive: the operator has a zero or negative eigenvalue",
               report.steps);
}

std::string why_it_ended_early(const CgReport &report, double tolerance, double relative_tolerance, Precision precise) {
    std::string residual = format("%.1e of |source|", report.true_residual),
                asked = tolerance > 0 ? format("%.1e", tolerance) : "";
    if (relative_tolerance > 0) {
        residual += format(", the relative one at %.1e", report.relative_residual);
        asked += format("%srelative %.1e", tolerance > 0 ? ", " : "", relative_tolerance);
    }
    if (report.status == Status::precision_floor)
        return format(
            "the true residual stays at %s: %s precision gives no more (tolerance %s). Set a larger tolerance%s",
            residual.c_str(), name(precise), asked.c_str(),
            precise == Precision::double_ ? "" : ", or a higher precision");
    if (report.broke_down)
        return format("BiCGstab broke down again and again in %d iterations, with the true residual at %s (tolerance "
                      "%s); the solution so far is returned. Use conjugate gradient",
                      report.iterations, residual.c_str(), asked.c_str());
    return format(
        "%d iterations (starts: %d) did not reach the tolerance %s; the solution so far is returned, with the true "
        "residual at %s",
        report.iterations, report.restarts, asked.c_str(), residual.c_str());
}

// Whether the solve ends after this true residual. Sets the status; finish() sets the message.
bool CgSolver::ended(const Residual &residual, CgStop stop, CgReport &report) const {
    if (report.status != Status::ok || accepted(residual))
        return true;
    if (gain_.is_over()) {
        report.status = Status::precision_floor;
        return true;
    }
    if ((is_fresh(stop) && report.restarts >= limits_.max_restarts) || report.iterations >= most_iterations()) {
        report.status = Status::not_converged;
        return true;
    }
    return false;
}

void CgSolver::count_work(CgReport &report) const {
    const double sites = b_.sites();
    const auto steps = [&](const NormalOperator &A, double times) {
        report.flops += times * (A.flops(Epilogue::step) + update_solutions_flops * sites);
        report.bytes += times * (A.bytes(Epilogue::step) + update_solutions_bytes(A.spec().spinor) * sites);
    };
    const int below = report.steps - report.steps_in_precise;
    const int given = sloppy_ == given_.get() ? below : report.steps_in_half;
    steps(*precise_->A, report.steps_in_precise);
    steps(*given_->A, given);
    steps(*sloppy_->A, below - given);
    const double residuals = 1 + report.restarts + report.reliable_updates + report.deflations;
    report.flops += residuals * precise_->A->flops(Epilogue::residual);
    report.bytes += residuals * precise_->A->bytes(Epilogue::residual);
}

// Completes the report. Its true residual is computed in double, from the links as handed over.
void CgSolver::finish(CgReport &report, const Residual *last_full) {
    const Residual residual = last_full != nullptr ? *last_full : true_residual(full_, true);
    report.true_residual = std::sqrt(residual.rr / source_rr_);
    report.relative_residual = residual.relative;
    report.checked_links = residual.checked;
    const bool stopped_early = report.status == Status::not_converged || report.status == Status::precision_floor;
    if (stopped_early && !(residual.rr < INFINITY)) {
        report.status = Status::nan_or_inf;
        report.message = "the residual overflowed";
    } else if (stopped_early && accepted(residual)) // the precise level is coarser than double and did not see it
        report.status = Status::ok;
    else if (stopped_early)
        report.message =
            why_it_ended_early(report, limits_.tolerance, limits_.relative_tolerance, precise_->A->spec().spinor);
    count_work(report);
}

} // namespace milcgpu
