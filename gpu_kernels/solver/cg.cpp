// The loop of conjugate gradient, from a solve down to one iteration. The algorithm without launches and precisions is
// reference::conjugate_gradient (tests/reference/staggered.cpp); a test compares steps and residuals with it. What a
// solve does between stretches of iterations is in files beside this one: true residuals and the end in
// cg_residuals.cpp, starts, reliable updates and changes of precision in cg_starts.cpp, vectors in cg_memory.cpp.
#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>

namespace milcgpu {

CgReport CgSolver::solve(const CgLimits &limits, const CgProgress &progress) {
    CgReport report;
    const double begin = wall_seconds();
    take(limits);
    device_.empty_sum_slots();
    if (!load_source(report)) {
        device_.fill_zero(x_.data(), x_.bytes());
        return report;
    }
    if (half_is_hopeless())
        change_to_finer();
    CgStop stop = CgStop::iteration_limit; // the first pass has no old direction
    for (;;) {
        const Residual residual = residual_after(stop, report);
        if (ended(residual, stop, report)) {
            finish(report, residual.full ? &residual : nullptr);
            break;
        }
        if (is_fresh(stop) || unit_.is_too_large(source_rr_, residual.rr) || !update_reliably(report))
            start_afresh(residual.rr, report);
        stop = iterate(progress, report);
        if (go_down(stop, report))
            stop = iterate(progress, report);
        if (report.status != Status::ok) {
            finish(report, nullptr);
            break;
        }
    }
    report.seconds = wall_seconds() - begin;
    return report;
}

// Iterates until the state on the device stops it, and updates the solution. A chunk is cg_kept_steps iterations, and
// is recorded once. The first iteration applies A to p, the others apply A to r. With a tolerance for the relative
// residual, each iteration updates x and computes that residual.
CgStop CgSolver::iterate(const CgProgress &progress, CgReport &report) {
    const bool relative = limits_.relative_tolerance > 0;
    const auto chunk = [this, relative] {
        for (int k = 0; k < cg_kept_steps; ++k) {
            const SpinorBlock r = sloppy_->before(k), r_new = sloppy_->r[k];
            const bool first = k == 0, last = k == cg_kept_steps - 1;
            CgIteration it;
            it.A = sloppy_->A.get();
            it.v = first ? direction_to_apply() : r, it.r = r, it.r_new = r_new;
            it.s = sloppy_->s, it.between = sloppy_->between;
            it.state = state_.data(), it.sums = &deferred_;
            it.previous_deferred = !relative && !first, it.defers = !relative && !last;
            it.v_is_sent = !relative, it.check_convergence = !relative;
            run_iteration(device_, it);
            if (relative) {
                bring_up(1, false);
                relative_residual(device_, r_new, x_, nullptr, state_.data(), sloppy_->A->geometry().global_volume());
            } else if (last) {
                bring_up(cg_kept_steps, false);
            }
        }
    };
    std::unique_ptr<ChunkLoop> &loop = sloppy_->loop[relative];
    if (!loop)
        loop = made_on_all_ranks(device_, "the start of the iteration", [&] {
            return std::make_unique<ChunkLoop>(device_, chunk,
                                               std::vector<ChunkLoop::Piece>{{state_.data(), sizeof(CgState)}},
                                               !sloppy_->A->needs_host());
        });
    if (!relative)
        sloppy_->A->send(device_, direction_to_apply());
    double residual = 0;
    loop->run([&]() -> ChunkLoop::Look {
        const CgState &seen = *loop->seen<CgState>(0);
        residual = std::sqrt(seen.rr) * unit_.scale / report.source_norm;
        if (progress)
            progress(report.steps + seen.iterations, residual);
        return {seen.stop != CgStop::running, seen.iterations};
    });
    last_ = *loop->seen<CgState>(0);
    report.steps += last_.iterations;
    report.iterations += last_.iterations;
    report.recursion_residual = residual;
    if (sloppy_->A->spec().link == Precision::half)
        report.steps_in_half += last_.iterations;
    if (below_ != nullptr)
        report.steps_in_precise += last_.iterations;
    note_breakdown(report);
    if (!relative) // else every iteration has updated x
        bring_up(0, true);
    return last_.stop;
}

// x += alpha p, p = r + beta p for the last `steps` iterations. stopped: for all iterations since the last such call.
void CgSolver::bring_up(int steps, bool stopped) {
    SolutionVectors vectors{};
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.r[k] = sloppy_->r[k];
    vectors.p = direction_, vectors.copy = sloppy_->copy, vectors.x = x_;
    const bool goes_on = steps == cg_kept_steps; // the next launch applies the direction
    update_solutions(device_, vectors, state_.data(), steps, stopped, goes_on ? sloppy_->A->send_out() : SendOut{});
}

void run_iteration(Device &device, const CgIteration &it) {
    HalfCall call;
    call.cg = it.state;
    call.along_p = it.v.data != it.r.data;
    call.check_convergence = it.check_convergence;
    call.in = it.v, call.out = it.between;
    if (it.sums != nullptr)
        call.pending = it.previous_deferred ? it.sums->step.data() : nullptr, call.defer = it.sums->plain.data();
    call.in_sent = it.v_is_sent, call.send_out = true;
    it.A->apply_half(device, call, Epilogue::plain);
    call.in = it.between, call.out = it.r_new;
    call.x = it.v, call.z = it.r, call.s = it.s;
    if (it.sums != nullptr)
        call.pending = it.sums->plain.data(), call.defer = it.defers ? it.sums->step.data() : nullptr;
    call.in_sent = true, call.send_out = it.defers;
    it.A->apply_half(device, call, Epilogue::step);
}

} // namespace milcgpu
