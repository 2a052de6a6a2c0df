// The shared iteration of multi_mass.h.
#include "gpu_kernels/solver/multi_mass.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>

namespace milcgpu {

namespace {
constexpr const char *owner = "multi-mass vectors";
} // namespace

MultiMassSolver::MultiMassSolver(Device &device, const std::vector<Operator> &stages, const Operator &full,
                                 const Operator &single, int shifts, CgSolver &refiner)
    : device_(device), full_(full), single_(single), refiner_(refiner) {
    for (const Operator &A : stages) {
        Stage stage;
        stage.A = A;
        stage.p = A->vectors(device, owner, shifts);
        stage.r = A->vectors(device, owner, cg_kept_steps);
        stage.s = A->vectors(device, owner);
        stage.between = A->between(device, owner);
        stages_.push_back(std::move(stage));
    }
    x_ = full->vectors(device, owner, shifts);
    sum_ = DeviceArray<double>(device, 1, owner);
    state_ = DeviceArray<CgState>(device, 1, owner);
    deferred_ = DeferredSums(device, *full);
    shift_state_ = DeviceArray<ShiftState>(device, 1, owner);
}

std::vector<Region> MultiMassSolver::checked_regions(bool residual_alone) const {
    std::vector<Region> all = refiner_.checked_regions(residual_alone);
    std::vector<Operator> operators{full_};
    if (!residual_alone) {
        for (const Stage &stage : stages_)
            operators.push_back(stage.A);
        if (single_ != nullptr)
            operators.push_back(single_);
    }
    for (const Operator &A : operators)
        join(all, A->checked_regions());
    return all;
}

// Iteration k of a chunk, as in cg.cpp. The new residual does not overwrite the old one, because the shifts need all
// residuals of a chunk. The base system is the shift with the smallest offset, so their directions are the same field.
void MultiMassSolver::step(Stage &stage, int k) {
    const SpinorBlock r = stage.r[(k + cg_kept_steps - 1) % cg_kept_steps];
    CgIteration it;
    it.A = stage.A.get();
    it.v = k == 0 ? stage.p[base_] : r, it.r = r, it.r_new = stage.r[k];
    it.s = stage.s, it.between = stage.between;
    it.state = state_.data(), it.sums = &deferred_;
    it.previous_deferred = it.v_is_sent = k > 0, it.defers = k < cg_kept_steps - 1;
    run_iteration(device_, it);
}

// The loop was recorded with a scale and a base. If one of them has changed, it is recorded again.
ChunkLoop &MultiMassSolver::chunks(Stage &stage) {
    if (!stage.loop || stage.loop_scale != scale_ || stage.loop_base != base_) {
        const auto chunk = [this, &stage, scale = scale_] {
            for (int k = 0; k < cg_kept_steps; ++k)
                step(stage, k);
            advance_shifts(device_, state_.data(), shift_state_.data());
            update_shifts(device_, {stage.r, stage.p, x_}, shift_state_.data(), scale);
        };
        const std::vector<ChunkLoop::Piece> pieces{{state_.data(), sizeof(CgState)},
                                                   {shift_state_.data(), sizeof(ShiftState)}};
        stage.loop = made_on_all_ranks(device_, "the start of the iteration", [&] {
            return std::make_unique<ChunkLoop>(device_, chunk, pieces, !stage.A->needs_host());
        });
        stage.loop_scale = scale_, stage.loop_base = base_;
    }
    return *stage.loop;
}

// Returns false if no shift is left.
bool MultiMassSolver::choose_base() {
    base_ = -1;
    for (int s = 0; s < static_cast<int>(lost_.size()); ++s)
        if (!lost_[s] && (base_ < 0 || limits_.shifts[s].offset < limits_.shifts[base_].offset))
            base_ = s;
    return base_ >= 0;
}

double MultiMassSolver::tightest() const {
    double tightest = INFINITY;
    for (size_t s = 0; s < lost_.size(); ++s)
        if (!lost_[s])
            tightest = std::fmin(tightest, limits_.end_of(limits_.shifts[s]));
    return tightest;
}

// Returns false if the source is zero.
bool MultiMassSolver::start(MultiMassReport &report) {
    const SpinorField &b = source();
    norm_squared(device_, b, sum_.data());
    const double bb = sum_.to_host()[0], finest = tightest();
    for (first_ = 0; first_ + 1 < stages_.size(); ++first_)
        if (!ladder::starts_in(stages_[first_ + 1].A->spec().spinor, finest))
            break;
    const bool there = is_there(device_, bb, b, full_->geometry(), full_->parity(), finest, x_[0], sum_.data());
    device_.fill_zero(x_.data(), x_.bytes());
    report.source_norm = std::sqrt(bb);
    if (!there)
        return false;
    scale_ = unit_of(bb, full_->geometry().global_volume() / 2);
    const double unit = bb / (scale_ * scale_);
    CgState base{};
    base.waits = device_.waits();
    base.shift = limits_.shifts[base_].offset;
    base.sign = full_->sign();
    base.scale = scale_;
    base.iteration_limit = limits_.max_iterations;
    ShiftState shifts{};
    shifts.count = static_cast<int>(limits_.shifts.size());
    for (int s = 0; s < shifts.count; ++s) {
        Shift &shift = shifts.shift[s];
        const double end = limits_.end_of(limits_.shifts[s]), leave = std::fmin(end, limits_.leave_tolerance);
        shift.sigma = limits_.shifts[s].offset - limits_.shifts[base_].offset;
        shift.target_rr = leave * leave * unit;
        shift.zeta = shift.ratio = shift.alpha_before = 1;
        shift.active = !lost_[s];
    }
    base.target_rr = finest * finest * unit; // the base iterates for all shifts
    for (int s = 0; s < shifts.count; ++s)   // and must not leave before them
        if (!lost_[s])
            shifts.shift[base_].target_rr = std::fmin(shifts.shift[base_].target_rr, shifts.shift[s].target_rr);
    device_.copy_to_device(state_.data(), &base, sizeof base);
    device_.copy_to_device(shift_state_.data(), &shifts, sizeof shifts);
    const Stage &first = stages_[first_];
    const SpinorBlock r = first.r[cg_kept_steps - 1]; // the first iteration reads it there
    convert_spinor(device_, b, r, 1 / scale_, nullptr);
    for (int s = 0; s < first.p.sources(); ++s)
        convert_spinor(device_, r, first.p[s], 1, nullptr);
    cg_start(device_, r, {{}, first.p[base_]}, state_.data());
    return true;
}

// Iterates in one precision after the other until every shift has left.
CgStop MultiMassSolver::iterate(const CgProgress &progress, MultiMassReport &report) {
    const double finest = tightest();
    for (size_t k = first_;; ++k) {
        const bool last = k + 1 == stages_.size();
        const double leave_at =
            last ? 0 : finest * ladder::go_down_at(ladder::Masses::several, stages_[k + 1].A->spec().spinor);
        const int steps_before = report.steps;
        const CgStop stop = iterate_stage(stages_[k], leave_at, progress, report);
        add_work(*stages_[k].A, report.steps - steps_before, report);
        if (last || stop != CgStop::running)
            return stop;
        go_down(stages_[k], stages_[k + 1]);
    }
}

// Adds the work of `steps` iterations of one system, without the updates of direction and solution.
void MultiMassSolver::add_work(const NormalOperator &A, double steps, MultiMassReport &report) const {
    report.flops += steps * A.flops(Epilogue::step);
    report.bytes += steps * A.bytes(Epilogue::step);
}

// Adds the work on the vectors of the shifts: one pass in cg_kept_steps iterations, which reads the residuals once for
// all shifts. p has the precision of the iteration (counted as the first stage's), x is in double.
void MultiMassSolver::add_work_of_shifts(MultiMassReport &report) const {
    const double sites = source().sites(), shared_spinor = spinor_bytes(stages_[first_].A->spec().spinor),
                 shift_spinors = 2.0 * (shared_spinor + spinor_bytes(Precision::double_));
    report.bytes += shared_spinor * sites * report.steps;
    for (const ShiftReport &shift : report.shifts) {
        report.flops += 24.0 * sites * shift.shared_steps;
        report.bytes += shift_spinors * sites * shift.shared_steps / cg_kept_steps;
    }
}

// Copies the vectors into a coarser precision. The scalars do not change.
void MultiMassSolver::go_down(const Stage &from, Stage &to) {
    const int last = cg_kept_steps - 1;
    convert_spinor(device_, from.r[last], to.r[last], 1, nullptr);
    for (size_t s = 0; s < limits_.shifts.size(); ++s)
        convert_spinor(device_, from.p[s], to.p[s], 1, nullptr);
}

// Returns `running` if the residual has fallen below leave_at, relative to the source, or if every shift has left.
CgStop MultiMassSolver::iterate_stage(Stage &stage, double leave_at, const CgProgress &progress,
                                      MultiMassReport &report) {
    ChunkLoop &loop = chunks(stage);
    const int begun = report.steps; // in the stages before
    loop.run([&]() -> ChunkLoop::Look {
        const CgState &base = *loop.seen<CgState>(0);
        const ShiftState &shifts = *loop.seen<ShiftState>(1);
        const double residual = std::sqrt(base.rr) * scale_ / report.source_norm;
        if (progress)
            progress(base.iterations, residual);
        int active = 0;
        for (int s = 0; s < shifts.count; ++s)
            active += shifts.shift[s].active;
        return {!(base.stop == CgStop::running && active > 0 && residual >= leave_at), base.iterations - begun};
    });
    const CgState &base = *loop.last<CgState>(0); // the chunk that was already queued may have gone further
    report.steps = base.iterations;
    for (size_t s = 0; s < report.shifts.size(); ++s)
        if (!lost_[s])
            report.shifts[s].shared_steps = loop.last<ShiftState>(1)->shift[s].steps;
    return base.stop;
}

MultiMassReport MultiMassSolver::solve(const MultiMassLimits &limits, const CgProgress &progress) {
    MultiMassReport report;
    const double begin = wall_seconds();
    limits_ = limits;
    report.shifts.resize(limits.shifts.size());
    if (limits.shifts.empty())
        return report;
    lost_.assign(limits.shifts.size(), false);
    while (choose_base()) {
        device_.empty_sum_slots();
        report.steps = 0;
        if (!start(report))
            return report;
        const CgStop stop = iterate(progress, report);
        if (stop != CgStop::nan_or_inf && stop != CgStop::not_positive)
            break;
        CgReport &cg = report.shifts[base_].cg;
        const bool nan = stop == CgStop::nan_or_inf;
        cg.status = nan ? Status::nan_or_inf : Status::not_positive;
        cg.message = format("%s at step %d of the shared iteration",
                            nan ? "NaN or infinity"
                                : "<p, A p> = 0 (a zero mode, or a source that is too small for this precision)",
                            report.steps);
        lost_[base_] = true;
    }
    report.iterations = report.steps + 1;
    report.shared_seconds = wall_seconds() - begin;
    add_work_of_shifts(report);
    std::vector<bool> settled = lost_;
    if (single_ != nullptr && limits.max_restarts > 0 && report.steps < limits.max_iterations)
        refine_together(settled, progress, report);
    for (size_t s = 0; s < limits.shifts.size(); ++s) {
        if (!settled[s])
            refine(static_cast<int>(s), progress, report);
        const CgReport &cg = report.shifts[s].cg;
        if (is_graver(cg.status, report.status)) {
            report.status = cg.status;
            report.message = format("offset %g: %s", limits.shifts[s].offset, cg.message.c_str());
        }
    }
    report.seconds = wall_seconds() - begin;
    return report;
}

} // namespace milcgpu
