#include "gpu_kernels/solver/multi_mass.h"
#include <chrono>
#include <cmath>

namespace milcgpu {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr const char *owner = "multi-mass vectors";

} // namespace

MultiMassSolver::MultiMassSolver(Device &device, const Lattice &lattice, int parity, const OperatorSpec &shared,
                                 const LinkPair &links, int shifts, CgSolver &refiner)
    : device_(device), lattice_(lattice), parity_(parity), spec_(shared), links_(links), refiner_(refiner) {
    const int here = lattice.sites(parity);
    const auto field = [&](Precision p) { return SpinorField(device, p, here, owner); };
    for (int s = 0; s < shifts; ++s) {
        p_.push_back(field(shared.spinor));
        x_.push_back(field(Precision::double_));
    }
    for (SpinorField &r : r_)
        r = field(shared.spinor);
    direction_ = field(shared.spinor);
    between_ = SpinorField(device, shared.spinor, lattice.sites(1 - parity), owner);
    state_ = DeviceArray<CgState>(device, 1, owner);
    shift_state_ = DeviceArray<ShiftState>(device, 1, owner);
    seen_ = {static_cast<Seen *>(device.allocate_pinned(2 * sizeof(Seen))), [&device](Seen *p) { device.release_pinned(p); }};
}

// Iteration k of a block: 2 link fields, 2 + 4 spinors for D and the new residual (written beside the old one), 3 for the direction.
void MultiMassSolver::step(int k) {
    DslashCall call{};
    call.lattice = lattice_;
    call.fat = links_.fat, call.lng = links_.lng;
    call.cg = state_.data();
    call.parity = 1 - parity_;
    call.in = &direction_, call.out = &between_;
    dslash(device_, call, Epilogue::plain);
    call.parity = parity_;
    call.in = &between_, call.out = &r_[k];
    call.x = &direction_, call.z = &r_[(k + cg_kept_steps - 1) % cg_kept_steps];
    dslash(device_, call, Epilogue::residual);
    cg_direction(device_, r_[k], direction_, SpinorField(), state_.data(), true);
}

// False when the source is zero.
bool MultiMassSolver::start(MultiMassReport &report) {
    const SpinorField &b = source();
    const DeviceArray<double> sum(device_, 1, owner);
    norm_squared(device_, b, sum.data());
    const double bb = sum.to_host()[0];
    if (!(bb < INFINITY)) {
        const long long bad = first_not_finite(device_, b);
        throw Error(Status::nan_or_inf, format("source: site %lld of the %s sites (lexicographic order) holds NaN or infinity",
                                               bad, parity_ == 0 ? "even" : "odd"));
    }
    for (const SpinorField &x : x_)
        device_.fill_zero(x.data(), x.bytes());
    report.source_norm = std::sqrt(bb);
    if (bb == 0)
        return false;
    scale_ = std::ldexp(1.0, std::ilogb(report.source_norm / std::sqrt(double(b.sites()))));
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
        shift.target_rr = tolerance * tolerance * unit;
        shift.zeta = shift.ratio = shift.alpha_before = 1;
        shift.active = 1;
        base.target_rr = s == 0 ? shift.target_rr : std::fmin(base.target_rr, shift.target_rr); // then all are there
    }
    device_.copy_to_device(state_.data(), &base, sizeof base);
    device_.copy_to_device(shift_state_.data(), &shifts, sizeof shifts);
    const SpinorField &r = r_[cg_kept_steps - 1]; // where the first iteration looks for it
    convert_spinor(device_, b, r, 1 / scale_, nullptr);
    for (const SpinorField &p : p_)
        convert_spinor(device_, r, p, 1, nullptr);
    cg_start(device_, r, direction_, SpinorField(), state_.data());
    return true;
}

// Until every shift has left.
CgStop MultiMassSolver::iterate(const CgProgress &progress, MultiMassReport &report) {
    const ShiftVectors vectors{r_, p_.data(), x_.data()};
    if (!block_ || block_scale_ != scale_)
        block_ = std::make_unique<Device::Sequence>(device_, [this, vectors, scale = scale_] {
            for (int k = 0; k < cg_kept_steps; ++k)
                step(k);
            advance_shifts(device_, state_.data(), shift_state_.data());
            update_shifts(device_, vectors, shift_state_.data(), shifts(), scale);
        });
    block_scale_ = scale_;
    const auto queue = [&](int slot) {
        block_->run();
        device_.copy_to_pinned_later(&seen_.get()[slot].base, state_.data(), sizeof(CgState));
        device_.copy_to_pinned_later(&seen_.get()[slot].shifts, shift_state_.data(), sizeof(ShiftState));
        device_.record(slot);
    };
    queue(0);
    for (int slot = 0;; slot = 1 - slot) {
        queue(1 - slot);
        device_.wait(slot);
        const Seen seen = seen_.get()[slot];
        if (progress)
            progress(seen.base.iterations, std::sqrt(seen.base.rr) * scale_ / report.source_norm);
        int active = 0;
        for (int s = 0; s < seen.shifts.count; ++s)
            active += seen.shifts.shift[s].active;
        if (seen.base.stop == CgStop::running && active > 0)
            continue;
        device_.wait(1 - slot);
        const Seen last = seen_.get()[1 - slot]; // the block queued meanwhile may have gone further
        report.steps = last.base.iterations;
        for (size_t s = 0; s < report.shifts.size(); ++s)
            report.shifts[s].shared_steps = last.shifts.shift[s].steps;
        return last.base.stop;
    }
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
    cg = refiner_.solve(limits, progress);
    if (cg.status == Status::ok || cg.status == Status::not_converged || cg.status == Status::precision_floor)
        device_.copy_on_device(x_[s].data(), refiner_.solution().data(), x_[s].bytes());
    report.flops += cg.flops;
    if (report.status == Status::ok && cg.status != Status::ok) {
        report.status = cg.status;
        report.message = format("offset %g: %s", shift.offset, cg.message.c_str());
    }
}

MultiMassReport MultiMassSolver::solve(const MultiMassLimits &limits, const CgProgress &progress) {
    MultiMassReport report;
    const double begin = now();
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
    report.shared_seconds = now() - begin;
    const double sites = source().sites();
    report.flops = report.steps * (double(dslash_flops(Epilogue::plain, source().sites())) +
                                   dslash_flops(Epilogue::residual, source().sites()) + 24.0 * sites);
    for (const ShiftReport &shift : report.shifts)
        report.flops += 24.0 * sites * shift.shared_steps;
    if (stop == CgStop::nan_or_inf || stop == CgStop::not_positive) {
        report.status = stop == CgStop::nan_or_inf ? Status::nan_or_inf : Status::not_positive;
        report.message = format("%s at step %d of the shared iteration",
                                stop == CgStop::nan_or_inf ? "NaN or infinity" : "<p, A p> = 0 (a zero mode)", report.steps);
        return report;
    }
    for (int s = 0; s < static_cast<int>(limits.shifts.size()); ++s)
        refine(s, progress, report);
    report.seconds = now() - begin;
    return report;
}

} // namespace milcgpu
