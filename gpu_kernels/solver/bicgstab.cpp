#include "gpu_kernels/solver/bicgstab.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>

namespace milcgpu {

namespace {
constexpr const char *owner = "BiCGstab vectors";
constexpr int steps_a_chunk = 4; // iterations between two reads by the host
} // namespace

BicgstabSolver::BicgstabSolver(Device &device, const BicgOperators &operators) : device_(device), of_(operators) {
    const LinearOperator &full = *of_.full, &sloppy = *of_.sloppy;
    if (full.spec().spinor != Precision::double_)
        throw Error(Status::bad_argument, format("BiCGstab: true residuals are computed in double; the full operator "
                                                 "is in %s",
                                                 name(full.spec().spinor)));
    if (full.parity() != sloppy.parity() || full.components() != sloppy.components())
        throw Error(Status::bad_argument, "BiCGstab: both operators must act on the same parity and components");
    b_ = full.vectors(device, owner);
    x_ = full.vectors(device, owner);
    residual_ = full.vectors(device, owner);
    for (SpinorField *field : {&r_, &r0_, &p_, &v_, &t_, &fresh_})
        *field = sloppy.vectors(device, owner);
    gain_ = SpinorField(device, bicgstab_gain_precision(sloppy.spec().spinor), sloppy.geometry(), sloppy.parity(),
                        owner, 1, sloppy.components());
    vectors_ = {r_, r0_, p_, v_, t_, gain_};
    reserve_sums(device, r_.sites());
    state_ = DeviceArray<BicgState>(device, 1, "BiCGstab scalars");
    sum_ = DeviceArray<double>(device, 1, "BiCGstab scalars");
}

std::vector<Region> BicgstabSolver::checked_regions() const {
    std::vector<Region> all = of_.full->checked_regions();
    join(all, of_.sloppy->checked_regions());
    return all;
}

double BicgstabSolver::read(const double *device_value) const {
    double value;
    device_.copy_to_host(&value, device_value, sizeof value);
    return value;
}

// Computes the norm of the source. Returns false if the source is zero.
bool BicgstabSolver::load_source(double tolerance, CgReport &report) {
    norm_squared(device_, b_, sum_.data());
    source_rr_ = read(sum_.data());
    if (!is_there(device_, source_rr_, b_, of_.full->geometry(), of_.full->parity(), tolerance, x_, sum_.data()))
        return false;
    report.source_norm = std::sqrt(source_rr_);
    return true;
}

double BicgstabSolver::true_residual() {
    MatrixCall call;
    call.in = x_, call.out = residual_;
    of_.full->apply(device_, call);
    scaled_difference(device_, 1, 1, b_, residual_);
    norm_squared(device_, residual_, sum_.data());
    return read(sum_.data());
}

// ---- an iteration -------------------------------------------------------------------------------------------------

void BicgstabSolver::step() {
    BicgState *const state = state_.data();
    MatrixCall call;
    call.gate = &state->active;
    call.in = p_, call.out = v_, call.with = r0_;
    call.sums = state->shadow;
    of_.sloppy->apply(device_, call);
    bicgstab_half_step(device_, vectors_, state);
    call.in = r_, call.out = t_, call.with = r_;
    call.sums = state->stable;
    of_.sloppy->apply(device_, call);
    bicgstab_step(device_, vectors_, state);
    bicgstab_direction(device_, vectors_, state);
}

// Iterates until the device says stop, and adds the gain to the solution.
void BicgstabSolver::iterate(const CgProgress &progress, CgReport &report) {
    if (!loop_)
        loop_ = made_on_all_ranks(device_, "the start of the iteration", [&] {
            return std::make_unique<ChunkLoop>(
                device_,
                [this] {
                    for (int k = 0; k < steps_a_chunk; ++k)
                        step();
                },
                std::vector<ChunkLoop::Piece>{{state_.data(), sizeof(BicgState)}}, !of_.sloppy->needs_host());
        });
    loop_->run([&]() -> ChunkLoop::Look {
        const BicgState &seen = *loop_->seen<BicgState>(0);
        report.recursion_residual = std::sqrt(seen.rr) * unit_.scale / report.source_norm;
        if (progress)
            progress(steps_before_ + seen.iterations, report.recursion_residual);
        return {seen.stop != BicgStop::running, seen.iterations};
    });
    last_ = *loop_->seen<BicgState>(0);
    report.iterations = report.steps = steps_before_ + last_.iterations;
    if (last_.stop == BicgStop::nan_or_inf) {
        report.status = Status::nan_or_inf;
        report.message = format("NaN or infinity at step %d: there is no solution", report.steps);
        device_.fill_zero(gain_.data(), gain_.bytes());
    }
    bicgstab_collect(device_, unit_.scale, gain_, x_);
}

// ---- stretches ----------------------------------------------------------------------------------------------------

void BicgstabSolver::start_afresh(double rr, const CgLimits &limits, CgReport &report) {
    ++report.restarts;
    unit_.choose(source_rr_, rr, of_.full->geometry().global_volume() / 2);
    steps_before_ = report.steps;
    const Precision p = of_.sloppy->spec().spinor;
    BicgState state{};
    state.target_rr = limits.tolerance * limits.tolerance * source_rr_ / (unit_.scale * unit_.scale);
    const double delta = limits.reliable_delta > 0 ? limits.reliable_delta : ladder::reliable_delta(p);
    state.reliable_factor = of_.full->spec() == of_.sloppy->spec() ? 0 : delta * delta;
    const double lost = 0.01 * storage_epsilon(p);
    state.lost = lost * lost;
    state.iteration_limit = limits.max_iterations;
    device_.copy_to_device(state_.data(), &state, sizeof state);
    convert_spinor(device_, residual_, r_, 1 / unit_.scale, nullptr);
    device_.fill_zero(gain_.data(), gain_.bytes());
    bicgstab_start(device_, vectors_, state_.data());
}

// A reliable update, or a restart if the residual has changed too much for the old direction to be useful.
void BicgstabSolver::go_on_from_residual(double rr, const CgLimits &limits, CgReport &report) {
    convert_spinor(device_, residual_, fresh_, 1 / unit_.scale, nullptr);
    bicgstab_replace(device_, fresh_, vectors_, state_.data());
    BicgState state;
    device_.copy_to_host(&state, state_.data(), sizeof state);
    const double jump = std::sqrt(state.jump / state.rr);
    report.largest_jump = std::fmax(report.largest_jump, jump);
    if (jump > (limits.jump_limit > 0 ? limits.jump_limit : ladder::jump_limit))
        return start_afresh(rr, limits, report);
    ++report.reliable_updates;
}

// ---- a solve ------------------------------------------------------------------------------------------------------

// Whether the solve ends after a true residual. The reason goes into the report.
bool BicgstabSolver::ended(double rr, BicgStop stop, const ladder::Gain &gain, const CgLimits &limits,
                           CgReport &report) const {
    if (rr < limits.tolerance * limits.tolerance * source_rr_)
        return true;
    const double residual = std::sqrt(rr / source_rr_);
    if (gain.is_over() && stop == BicgStop::breakdown) {
        report.status = Status::not_converged;
        report.broke_down = true;
        report.message = format("BiCGstab breaks down at step %d: it would divide by a scalar product of 0, breakdown "
                                "number %d. Restarts do not get below |r| / |source| = %.1e. Use conjugate gradient",
                                report.steps, report.breakdowns, residual);
    } else if (gain.is_over()) {
        report.status = Status::precision_floor;
        report.message = format("the true residual stays at %.1e of |source|: it falls no further in double precision "
                                "(tolerance %.1e). Set a larger tolerance",
                                residual, limits.tolerance);
    } else if ((stop == BicgStop::iteration_limit && report.restarts >= limits.max_restarts) ||
               report.steps >= limits.max_iterations * limits.max_restarts) {
        report.status = Status::not_converged;
        report.message = format("%d iterations (starts: %d) did not reach the tolerance %.1e; the solution so far is "
                                "returned",
                                report.steps, report.restarts, limits.tolerance);
    }
    return report.status != Status::ok;
}

void BicgstabSolver::count_work(CgReport &report) const {
    const LinearOperator &A = *of_.sloppy;
    const double vectors = double(A.components()) * A.geometry().sites(A.parity());
    report.flops = report.steps * (2 * A.flops() + bicgstab_flops * vectors);
    report.bytes = report.steps * (2 * A.bytes() + bicgstab_bytes(A.spec().spinor) * vectors);
    const double residuals = 1 + report.restarts + report.reliable_updates;
    report.flops += residuals * of_.full->flops();
    report.bytes += residuals * of_.full->bytes();
}

CgReport BicgstabSolver::solve(const CgLimits &limits, const CgProgress &progress) {
    if (!(limits.tolerance > 0) || limits.max_iterations < 1 || limits.max_restarts < 1)
        throw Error(Status::bad_argument,
                    format("BiCGstab: tolerance %g, %d iterations, %d restarts; each must be positive",
                           limits.tolerance, limits.max_iterations, limits.max_restarts));
    CgReport report;
    const double begin = wall_seconds();
    device_.empty_sum_slots();
    if (!load_source(limits.tolerance, report)) {
        device_.fill_zero(x_.data(), x_.bytes());
        return report;
    }
    ladder::Gain gain;
    BicgStop stop = BicgStop::iteration_limit; // the first pass has no old direction
    for (;;) {
        const double rr = true_residual();
        report.true_residual = std::sqrt(rr / source_rr_);
        if (!(rr < INFINITY)) {
            require_finite(device_, x_, of_.full->geometry(), of_.full->parity(), "initial guess");
            report.status = Status::nan_or_inf;
            report.message = "the residual overflowed";
        }
        const double believed = report.recursion_residual * report.recursion_residual * source_rr_;
        gain.note(rr, believed < 0.5 * gain.best_rr || stop == BicgStop::breakdown);
        if (report.status != Status::ok || ended(rr, stop, gain, limits, report))
            break;
        if (stop == BicgStop::iteration_limit || stop == BicgStop::breakdown || unit_.is_too_large(source_rr_, rr))
            start_afresh(rr, limits, report);
        else
            go_on_from_residual(rr, limits, report);
        iterate(progress, report);
        stop = last_.stop;
        report.breakdowns += stop == BicgStop::breakdown;
    }
    count_work(report);
    report.seconds = wall_seconds() - begin;
    return report;
}

} // namespace milcgpu
