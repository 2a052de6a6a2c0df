#include "gpu_kernels/solver/multi_mass.h"
#include <cmath>

namespace milcgpu {

namespace {

constexpr const char *owner = "multi-mass vectors";

// The residual at which an iteration goes on in a coarser precision, as a multiple of the smallest tolerance. Measured
// on quenched lattices down to mass 0.002: refinements after it are a few steps; ten times as much costs hundreds.
double go_down_at(Precision p) { return p == Precision::single ? 1e7 : p == Precision::half ? 5e4 : INFINITY; }

constexpr int batch_passes = 4; // true residuals and refinements together, at most
// |r|^2 falls by no more than this in one pass: what single precision can be trusted with.
constexpr double batch_reach = 1e-10;

} // namespace

MultiMassSolver::MultiMassSolver(Device &device, const Lattice &lattice, int parity,
                                 const std::vector<StageSpec> &stages, const LinkPair &full, const LinkPair &single,
                                 int shifts, CgSolver &refiner)
    : device_(device), lattice_(lattice), parity_(parity), full_(full), single_(single), refiner_(refiner) {
    const auto field = [&](Precision p, int on) { return SpinorField(device, p, lattice.sites(on), owner); };
    for (const StageSpec &given : stages) {
        Stage stage;
        const Precision p = given.spec.spinor;
        stage.spec = given.spec;
        stage.links = given.links;
        for (int s = 0; s < shifts; ++s)
            stage.p.push_back(field(p, parity));
        for (SpinorField &r : stage.r)
            r = field(p, parity);
        stage.image = field(p, parity);
        stage.between = field(p, 1 - parity);
        stages_.push_back(std::move(stage));
    }
    for (int s = 0; s < shifts; ++s)
        x_.push_back(field(Precision::double_, parity));
    residual_ = field(Precision::double_, parity);
    full_between_ = field(Precision::double_, 1 - parity);
    sum_ = DeviceArray<double>(device, 1, owner);
    state_ = DeviceArray<CgState>(device, 1, owner);
    pending_sums_ = CgSums(device, lattice, parity);
    shift_state_ = DeviceArray<ShiftState>(device, 1, owner);
    seen_ = {static_cast<Seen *>(device.allocate_pinned(2 * sizeof(Seen))),
             [&device](Seen *p) { device.release_pinned(p); }};
}

size_t MultiMassSolver::workspace_bytes(int sites, const std::vector<OperatorSpec> &stages, int shifts,
                                        bool refines_together) {
    const size_t in_double = spinor_bytes(Precision::double_), in_single = spinor_bytes(Precision::single);
    size_t bytes = (shifts + 2) * in_double;
    for (const OperatorSpec &stage : stages)
        bytes += (shifts + cg_kept_steps + 2) * spinor_bytes(stage.spinor);
    if (refines_together)
        bytes += shifts * ((cg_kept_steps + 3) * in_single + (stages[0].spinor == Precision::double_ ? 0 : in_double));
    return padded_stride(sites) * bytes;
}

// Iteration k of a block, as in cg.cpp; the new residual is written beside the old one. The direction of the base is
// that of its shift, which stays to the end.
void MultiMassSolver::step(Stage &stage, int k) {
    const SpinorField &r = stage.r[(k + cg_kept_steps - 1) % cg_kept_steps];
    milcgpu::iterate(device_,
                     {lattice_, parity_, &stage.links, k == 0 ? &stage.p[base_] : &r, &r, &stage.r[k], &stage.image,
                      &stage.between, true, state_.data(), &pending_sums_, k > 0, k < cg_kept_steps - 1});
}

// False when the source is zero.
bool MultiMassSolver::start(MultiMassReport &report) {
    const SpinorField &b = source();
    norm_squared(device_, b, sum_.data());
    const double bb = sum_.to_host()[0];
    if (!(bb < INFINITY))
        require_finite(device_, b, parity_, "source");
    for (const SpinorField &x : x_)
        device_.fill_zero(x.data(), x.bytes());
    report.source_norm = std::sqrt(bb);
    if (bb == 0)
        return false;
    scale_ = unit_of(bb, b.sites());
    const double unit = bb / (scale_ * scale_);
    CgState base{};
    base.shift = limits_.shifts[base_].offset;
    base.scale = scale_;
    base.iteration_limit = limits_.max_iterations;
    ShiftState shifts{};
    shifts.count = static_cast<int>(limits_.shifts.size());
    for (int s = 0; s < shifts.count; ++s) {
        Shift &shift = shifts.shift[s];
        const ShiftLimits &asked = limits_.shifts[s];
        const double tolerance =
            std::fmax(asked.tolerance > 0 ? asked.tolerance : asked.relative_tolerance, limits_.shared_tolerance);
        shift.sigma = limits_.shifts[s].offset - limits_.shifts[base_].offset;
        const double leave = std::fmin(tolerance, limits_.leave_tolerance);
        shift.target_rr = leave * leave * unit;
        shift.zeta = shift.ratio = shift.alpha_before = 1;
        shift.active = 1;
        const double target = tolerance * tolerance * unit;
        base.target_rr = s == 0 ? target : std::fmin(base.target_rr, target); // then all are there
    }
    for (int s = 0; s < shifts.count; ++s) // the base leaves last
        shifts.shift[base_].target_rr = std::fmin(shifts.shift[base_].target_rr, shifts.shift[s].target_rr);
    device_.copy_to_device(state_.data(), &base, sizeof base);
    device_.copy_to_device(shift_state_.data(), &shifts, sizeof shifts);
    const SpinorField &r = stages_[0].r[cg_kept_steps - 1]; // where the first iteration looks for it
    convert_spinor(device_, b, r, 1 / scale_, nullptr);
    for (const SpinorField &p : stages_[0].p)
        convert_spinor(device_, r, p, 1, nullptr);
    cg_start(device_, r, {nullptr, &stages_[0].p[base_]}, state_.data());
    return true;
}

// Until every shift has left, in one precision after the other.
CgStop MultiMassSolver::iterate(const CgProgress &progress, MultiMassReport &report) {
    double tightest = INFINITY;
    for (const ShiftLimits &shift : limits_.shifts)
        tightest = std::fmin(tightest, std::fmax(shift.tolerance > 0 ? shift.tolerance : shift.relative_tolerance,
                                                 limits_.shared_tolerance));
    for (size_t k = 0;; ++k) {
        const bool last = k + 1 == stages_.size();
        const double leave_at = last ? 0 : tightest * go_down_at(stages_[k + 1].spec.spinor);
        const int steps_before = report.steps;
        const CgStop stop = iterate_stage(stages_[k], leave_at, progress, report);
        add_work(stages_[k].spec, report.steps - steps_before, report);
        if (last || stop != CgStop::running)
            return stop;
        go_down(stages_[k], stages_[k + 1]);
    }
}

// `steps` iterations of one system, without direction and solution.
void MultiMassSolver::add_work(const OperatorSpec &spec, double steps, MultiMassReport &report) const {
    const size_t sites = x_[0].sites();
    report.flops += steps * (double(dslash_flops(Epilogue::plain, sites)) + dslash_flops(Epilogue::step, sites));
    report.bytes += steps * (double(dslash_bytes(spec.spinor, spec.link, spec.reals, Epilogue::plain, sites)) +
                             dslash_bytes(spec.spinor, spec.link, spec.reals, Epilogue::step, sites));
}

// The same vectors in a coarser precision; scalars stay what they are.
void MultiMassSolver::go_down(const Stage &from, Stage &to) {
    const int last = cg_kept_steps - 1;
    convert_spinor(device_, from.r[last], to.r[last], 1, nullptr);
    for (size_t s = 0; s < limits_.shifts.size(); ++s)
        convert_spinor(device_, from.p[s], to.p[s], 1, nullptr);
}

// Returns running when the residual has fallen below leave_at, relative to the source, or every shift has left.
CgStop MultiMassSolver::iterate_stage(Stage &stage, double leave_at, const CgProgress &progress,
                                      MultiMassReport &report) {
    const ShiftVectors vectors{stage.r, stage.p.data(), x_.data()};
    if (!stage.block || stage.block_scale != scale_ || stage.block_base != base_)
        stage.block = std::make_unique<Device::Sequence>(device_, [this, &stage, vectors, scale = scale_] {
            for (int k = 0; k < cg_kept_steps; ++k)
                step(stage, k);
            advance_shifts(device_, state_.data(), shift_state_.data());
            update_shifts(device_, vectors, shift_state_.data(), shifts(), scale);
        });
    stage.block_scale = scale_, stage.block_base = base_;
    const auto queue = [&](int slot) {
        stage.block->run();
        device_.copy_to_pinned_later(&seen_.get()[slot].base, state_.data(), sizeof(CgState));
        device_.copy_to_pinned_later(&seen_.get()[slot].shifts, shift_state_.data(), sizeof(ShiftState));
        device_.record(slot);
    };
    queue(0);
    for (int slot = 0;; slot = 1 - slot) {
        queue(1 - slot);
        device_.wait(slot);
        const Seen &seen = seen_.get()[slot];
        const double residual = std::sqrt(seen.base.rr) * scale_ / report.source_norm;
        if (progress)
            progress(seen.base.iterations, residual);
        int active = 0;
        for (int s = 0; s < seen.shifts.count; ++s)
            active += seen.shifts.shift[s].active;
        if (seen.base.stop == CgStop::running && active > 0 && residual >= leave_at)
            continue;
        device_.wait(1 - slot);
        const Seen &last = seen_.get()[1 - slot]; // the block queued meanwhile may have gone further
        report.steps = last.base.iterations;
        for (size_t s = 0; s < report.shifts.size(); ++s)
            report.shifts[s].shared_steps = last.shifts.shift[s].steps;
        return last.base.stop;
    }
}

double MultiMassSolver::true_residual(int s) {
    residual(device_, lattice_, parity_, full_, limits_.shifts[s].offset, source(), x_[s], full_between_, residual_,
             sum_.data());
    return sum_.to_host()[0];
}

// Residuals of all shifts that are not settled, and the start of their refinement. Returns how many there are.
int MultiMassSolver::open_batch(std::vector<bool> &settled, MultiMassReport &report) {
    std::vector<CgState> states(shifts());
    const double bb = report.source_norm * report.source_norm;
    int open = 0;
    for (size_t s = 0; s < limits_.shifts.size(); ++s) {
        const ShiftLimits &asked = limits_.shifts[s];
        if (settled[s] || asked.tolerance <= 0 || asked.relative_tolerance > 0)
            continue;
        const double rr = true_residual(static_cast<int>(s)), target = asked.tolerance * asked.tolerance * bb;
        CgReport &cg = report.shifts[s].cg;
        cg.source_norm = report.source_norm;
        cg.true_residual = std::sqrt(rr / bb);
        cg.relative_residual = 1; // not asked for
        ++cg.iterations;
        settled[s] = rr < target;
        if (settled[s] || !(rr < INFINITY))
            continue;
        CgState &state = states[s];
        state.shift = asked.offset;
        state.scale = unit_of(rr, residual_.sites());
        state.target_rr = std::fmax(0.8 * target, batch_reach * rr) / (state.scale * state.scale);
        state.iteration_limit = limits_.max_iterations;
        state.active = 1;
        convert_spinor(device_, residual_, batch_->r[cg_kept_steps - 1][s], 1 / state.scale, nullptr);
        ++open;
    }
    device_.copy_to_device(batch_->states.data(), states.data(), shifts() * sizeof(CgState));
    for (int s = 0; s < shifts(); ++s)
        if (states[s].active)
            cg_start(device_, batch_->r[cg_kept_steps - 1][s], {&batch_->p[s], &batch_->copy[s]},
                     batch_->states.data() + s);
    return open;
}

void MultiMassSolver::update_batch(bool stopped) {
    SolutionVectors vectors{};
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.r[k] = batch_->r[k].data();
    vectors.p = batch_->p, vectors.copy = batch_->copy.data(), vectors.x = x_.data();
    update_solutions(device_, vectors, batch_->states.data(), shifts(), cg_kept_steps, stopped);
}

void MultiMassSolver::run_batch(const CgProgress &progress, MultiMassReport &report) {
    Batch &batch = *batch_;
    if (!batch.chunk)
        batch.chunk = std::make_unique<Device::Sequence>(device_, [this, &batch] {
            for (int k = 0; k < cg_kept_steps; ++k) {
                const auto &before = batch.r[(k + cg_kept_steps - 1) % cg_kept_steps];
                DslashBatchCall call{};
                call.lattice = lattice_;
                call.fat = single_.fat, call.lng = single_.lng;
                call.count = shifts();
                call.cg = batch.states.data();
                call.along_p = k == 0;
                call.x = call.along_p ? batch.copy.data() : before.data();
                call.parity = 1 - parity_;
                call.in = call.x, call.out = batch.between.data();
                dslash_batch(device_, call, Epilogue::plain);
                call.parity = parity_;
                call.in = batch.between.data(), call.out = batch.r[k].data();
                call.z = before.data(), call.s = batch.image.data();
                dslash_batch(device_, call, Epilogue::step);
            }
            update_batch(false);
        });
    const size_t bytes = shifts() * sizeof(CgState);
    const auto queue = [&](int slot) {
        batch.chunk->run();
        device_.copy_to_pinned_later(batch.seen.get() + slot * shifts(), batch.states.data(), bytes);
        device_.record(slot);
    };
    queue(0);
    for (int slot = 0;; slot = 1 - slot) {
        queue(1 - slot);
        device_.wait(slot);
        const CgState *seen = batch.seen.get() + slot * shifts();
        bool active = false;
        double largest = 0;
        for (int s = 0; s < shifts(); ++s)
            if (seen[s].active) {
                active = true;
                largest = std::fmax(largest, std::sqrt(seen[s].rr) * seen[s].scale / report.source_norm);
            }
        if (active) {
            if (progress)
                progress(seen[base_].iterations, largest);
            continue;
        }
        device_.wait(1 - slot); // its copy of the states must not land later
        update_batch(true);
        for (size_t s = 0; s < limits_.shifts.size(); ++s) {
            report.shifts[s].cg.steps += seen[s].iterations;
            report.shifts[s].cg.iterations += seen[s].iterations;
            add_work({Precision::single, Precision::single, single_.lng->reals()}, seen[s].iterations, report);
            const double site_steps = double(seen[s].iterations) * source().sites();
            report.flops += update_solutions_flops * site_steps;
            report.bytes += update_solutions_bytes(Precision::single) * site_steps;
        }
        return;
    }
}

void MultiMassSolver::refine_together(std::vector<bool> &settled, const CgProgress &progress, MultiMassReport &report) {
    if (!batch_) {
        batch_ = std::make_unique<Batch>();
        const auto fields = [&](Precision p, int parity) {
            std::vector<SpinorField> made;
            for (int s = 0; s < shifts(); ++s)
                made.emplace_back(device_, p, lattice_.sites(parity), owner);
            return made;
        };
        for (std::vector<SpinorField> &r : batch_->r)
            r = fields(Precision::single, parity_);
        batch_->image = fields(Precision::single, parity_);
        batch_->copy = fields(Precision::single, parity_);
        batch_->between = fields(Precision::single, 1 - parity_);
        // The shared iteration has no more use for its directions.
        if (stages_[0].spec.spinor != Precision::double_)
            batch_->own_p = fields(Precision::double_, parity_);
        batch_->p = batch_->own_p.empty() ? stages_[0].p.data() : batch_->own_p.data();
        batch_->states = DeviceArray<CgState>(device_, shifts(), owner);
        batch_->seen = {static_cast<CgState *>(device_.allocate_pinned(2 * shifts() * sizeof(CgState))),
                        [&device = device_](CgState *p) { device.release_pinned(p); }};
    }
    for (int pass = 0; open_batch(settled, report) > 0 && pass < batch_passes; ++pass)
        run_batch(progress, report);
}

void MultiMassSolver::refine(int s, const CgProgress &progress, MultiMassReport &report) {
    const ShiftLimits &shift = limits_.shifts[s];
    CgLimits limits;
    limits.mass = 0.5 * std::sqrt(shift.offset);
    limits.tolerance = shift.tolerance;
    limits.relative_tolerance = shift.relative_tolerance;
    limits.max_iterations = limits_.max_iterations;
    limits.max_restarts = report.steps < limits_.max_iterations ? limits_.max_restarts : 0;
    device_.copy_on_device(refiner_.solution().data(), x_[s].data(), x_[s].bytes());
    CgReport &cg = report.shifts[s].cg;
    const int steps_before = cg.steps, iterations_before = cg.iterations;
    cg = refiner_.solve(limits, progress);
    if (cg.status == Status::ok || cg.status == Status::not_converged || cg.status == Status::precision_floor)
        device_.copy_on_device(x_[s].data(), refiner_.solution().data(), x_[s].bytes());
    report.flops += cg.flops;
    report.bytes += cg.bytes;
    cg.steps += steps_before, cg.iterations += iterations_before;
    if (report.status == Status::ok && cg.status != Status::ok) {
        report.status = cg.status;
        report.message = format("offset %g: %s", shift.offset, cg.message.c_str());
    }
}

MultiMassReport MultiMassSolver::solve(const MultiMassLimits &limits, const CgProgress &progress) {
    MultiMassReport report;
    const double begin = wall_seconds();
    limits_ = limits;
    report.shifts.resize(limits.shifts.size());
    if (limits.shifts.empty())
        return report;
    base_ = 0;
    for (size_t s = 1; s < limits.shifts.size(); ++s)
        if (limits.shifts[s].offset < limits.shifts[base_].offset)
            base_ = static_cast<int>(s);
    if (!start(report))
        return report;
    const CgStop stop = iterate(progress, report);
    report.iterations = report.steps + 1;
    report.shared_seconds = wall_seconds() - begin;
    // Vectors of the shifts, a pass for cg_kept_steps iterations: their residuals once for all shifts, p of the shared
    // precision (both counted as that of the start), x double.
    const double sites = source().sites(), shared_spinor = spinor_bytes(stages_[0].spec.spinor),
                 shift_spinors = 2.0 * (shared_spinor + spinor_bytes(Precision::double_));
    report.bytes += shared_spinor * sites * report.steps;
    for (const ShiftReport &shift : report.shifts) {
        report.flops += 24.0 * sites * shift.shared_steps;
        report.bytes += shift_spinors * sites * shift.shared_steps / cg_kept_steps;
    }
    if (stop == CgStop::nan_or_inf || stop == CgStop::not_positive) {
        report.status = stop == CgStop::nan_or_inf ? Status::nan_or_inf : Status::not_positive;
        report.message =
            format("%s at step %d of the shared iteration",
                   stop == CgStop::nan_or_inf ? "NaN or infinity" : "<p, A p> = 0 (a zero mode)", report.steps);
        return report;
    }
    std::vector<bool> settled(limits.shifts.size(), false);
    if (single_.fat != nullptr && limits.max_restarts > 0 && report.steps < limits.max_iterations)
        refine_together(settled, progress, report);
    for (int s = 0; s < static_cast<int>(limits.shifts.size()); ++s)
        if (!settled[s])
            refine(s, progress, report);
    report.seconds = wall_seconds() - begin;
    return report;
}

} // namespace milcgpu
