// The refinement of multi_mass.h: each shift from its own true residual to its own tolerance.
#include "gpu_kernels/solver/multi_mass.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

namespace {
constexpr const char *owner = "multi-mass vectors";
constexpr int residuals_together = 9; // most true residuals in one launch of D
} // namespace

// Stores b - A x of `count` shifts from `first` on in batch_->p. Returns their squared norms.
std::vector<double> MultiMassSolver::true_residuals(int first, int count) {
    const SpinorBlock x = x_.block().from(first).first(count), r = batch_->p.from(first).first(count);
    HalfCall call;
    call.out = r, call.x = x; // without the offset, which shifts do not share
    apply(device_, *full_, call, batch_->full_between.block().first(count), Epilogue::normal);
    Offsets offsets{};
    for (int k = 0; k < count; ++k)
        offsets.of[k] = limits_.shifts[first + k].offset;
    shifted_residuals(device_, source(), x, offsets, r, batch_->sums.data());
    return batch_->sums.to_host();
}

std::unique_ptr<MultiMassSolver::Batch> MultiMassSolver::make_batch() const {
    auto batch = std::make_unique<Batch>();
    const int n = shifts();
    for (SpinorField &r : batch->r)
        r = single_->vectors(device_, owner, n);
    batch->s = single_->vectors(device_, owner, n);
    batch->copy = single_->vectors(device_, owner, n);
    batch->between = single_->between(device_, owner, n);
    // The shared iteration has ended, so its directions can be overwritten.
    if (stages_[0].A->spec().spinor != Precision::double_)
        batch->own_p = full_->vectors(device_, owner, n);
    batch->p = batch->own_p ? batch->own_p : stages_[0].p;
    batch->full_between = full_->between(device_, owner, std::min(n, residuals_together));
    batch->sums = DeviceArray<double>(device_, residuals_together, owner);
    batch->states = DeviceArray<CgState>(device_, n, owner);
    return batch;
}

// Computes the true residuals of all shifts that are not done, and starts their refinement. Returns their number.
int MultiMassSolver::open_batch(std::vector<bool> &settled, MultiMassReport &report) {
    std::vector<CgState> states(shifts());
    const double bb = report.source_norm * report.source_norm;
    const SpinorField &r = batch_->r[cg_kept_steps - 1];
    const int count = static_cast<int>(limits_.shifts.size());
    std::vector<int> together;
    for (int s = 0; s < count; ++s)
        if (!settled[s] && limits_.shifts[s].tolerance > 0 && !(limits_.shifts[s].relative_tolerance > 0))
            together.push_back(s);
    std::vector<double> rr(count);
    for_each_run(together, full_->takes_several() ? residuals_together : 1, [&](int first, int some, int) {
        const std::vector<double> found = true_residuals(first, some);
        std::copy_n(found.begin(), some, rr.begin() + first);
    });
    int open = 0;
    for (const int s : together) {
        const ShiftLimits &asked = limits_.shifts[s];
        const double target = asked.tolerance * asked.tolerance * bb;
        CgReport &cg = report.shifts[s].cg;
        cg.source_norm = report.source_norm;
        cg.true_residual = std::sqrt(rr[s] / bb);
        cg.relative_residual = 1; // not requested
        ++cg.iterations;
        settled[s] = rr[s] < target;
        if (settled[s] || !(rr[s] < INFINITY))
            continue;
        CgState &state = states[s];
        state.waits = device_.waits();
        state.shift = asked.offset;
        state.sign = full_->sign();
        state.scale = unit_of(rr[s], full_->geometry().global_volume() / 2);
        state.target_rr = std::fmax(0.8 * target, ladder::single_reach * rr[s]) / (state.scale * state.scale);
        state.iteration_limit = limits_.max_iterations;
        state.active = 1;
        convert_spinor(device_, batch_->p[s], r[s], 1 / state.scale, nullptr);
        ++open;
    }
    device_.copy_to_device(batch_->states.data(), states.data(), shifts() * sizeof(CgState));
    for (int s = 0; s < shifts(); ++s)
        if (states[s].active)
            cg_start(device_, r[s], {batch_->p[s], batch_->copy[s]}, batch_->states.data() + s);
    return open;
}

// Updates the solutions of the first `count` shifts.
void MultiMassSolver::bring_up_batch(int count, bool stopped) {
    SolutionVectors vectors{};
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.r[k] = batch_->r[k];
    vectors.p = batch_->p.first(count), vectors.copy = batch_->copy, vectors.x = x_;
    update_solutions(device_, vectors, batch_->states.data(), cg_kept_steps, stopped);
}

// Masses in ascending order converge from the last one on. Launches then work on the first ones only: shifts that are
// done have no blocks, no part of messages, and no sums.
void MultiMassSolver::run_batch(const CgProgress &progress, MultiMassReport &report) {
    Batch &batch = *batch_;
    if (!batch.loop) {
        const auto chunk = [this, &batch](int count) {
            for (int k = 0; k < cg_kept_steps; ++k) {
                const SpinorBlock before = batch.r[(k + cg_kept_steps - 1) % cg_kept_steps].block().first(count);
                CgIteration it;
                it.A = single_.get();
                it.v = k == 0 ? batch.copy.block().first(count) : before;
                it.r = before, it.r_new = batch.r[k].block().first(count);
                it.s = batch.s.block().first(count), it.between = batch.between.block().first(count);
                it.state = batch.states.data();
                run_iteration(device_, it);
            }
            bring_up_batch(count, false);
        };
        std::vector<std::function<void()>> chunks;
        batch.sizes.clear();
        for (int count = shifts(), before = 0; count != before;
             before = count, count = std::min(count, count / 2 + 1)) {
            batch.sizes.push_back(count);
            chunks.push_back([chunk, count] { chunk(count); });
        }
        batch.loop = made_on_all_ranks(device_, "the start of the refinement", [&] {
            return std::make_unique<ChunkLoop>(
                device_, chunks, std::vector<ChunkLoop::Piece>{{batch.states.data(), batch.states.bytes()}},
                !device_.has_meanwhile()); // else the host exchanges vectors of several sources (halo.h)
        });
    }
    int in_turn = 0; // the next chunk
    const auto look = [&]() -> ChunkLoop::Look {
        const CgState *seen = batch.loop->seen<CgState>(0);
        bool active = false;
        double largest = 0;
        int iterations = 0, open = 0; // open: shifts up to the last one that is not done
        for (int s = 0; s < shifts(); ++s) {
            iterations += seen[s].iterations;
            if (seen[s].active) {
                active = true, open = s + 1;
                largest = std::fmax(largest, std::sqrt(seen[s].rr) * seen[s].scale / report.source_norm);
            }
        }
        if (active && progress)
            progress(seen[base_].iterations, largest);
        while (in_turn + 1 < static_cast<int>(batch.sizes.size()) && batch.sizes[in_turn + 1] >= open)
            ++in_turn;
        return {!active, iterations};
    };
    batch.loop->run(look, [&](int) { return in_turn; });
    bring_up_batch(shifts(), true);
    const CgState *seen = batch.loop->seen<CgState>(0);
    for (size_t s = 0; s < limits_.shifts.size(); ++s) {
        report.shifts[s].cg.steps += seen[s].iterations;
        report.shifts[s].cg.iterations += seen[s].iterations;
        add_work(*single_, seen[s].iterations, report);
        const double site_steps = double(seen[s].iterations) * source().sites();
        report.flops += update_solutions_flops * site_steps;
        report.bytes += update_solutions_bytes(Precision::single) * site_steps;
    }
}

void MultiMassSolver::allocate_refinement() {
    if (single_ != nullptr && !batch_)
        batch_ = made_on_all_ranks(device_, "memory for the refinement", [&] { return make_batch(); });
}

void MultiMassSolver::refine_together(std::vector<bool> &settled, const CgProgress &progress, MultiMassReport &report) {
    allocate_refinement();
    for (int pass = 0; open_batch(settled, report) > 0 && pass < ladder::passes_together; ++pass)
        run_batch(progress, report);
}

void MultiMassSolver::refine(int s, const CgProgress &progress, MultiMassReport &report) {
    const ShiftLimits &shift = limits_.shifts[s];
    CgLimits limits;
    limits.shift = shift.offset;
    limits.tolerance = shift.tolerance;
    limits.relative_tolerance = shift.relative_tolerance;
    limits.max_iterations = limits_.max_iterations;
    limits.max_restarts = report.steps < limits_.max_iterations ? limits_.max_restarts : 0;
    const SpinorField &x = refiner_.solution();
    device_.copy_on_device(x.data(), x_[s].data, x.bytes());
    CgReport &cg = report.shifts[s].cg;
    const int steps_before = cg.steps, iterations_before = cg.iterations;
    note_not_finite(cg, [&] { cg = refiner_.solve(limits, progress); });
    if (is_answer(cg.status))
        device_.copy_on_device(x_[s].data, x.data(), x.bytes());
    report.flops += cg.flops;
    report.bytes += cg.bytes;
    cg.steps += steps_before, cg.iterations += iterations_before;
    if (cg.status == Status::not_converged) { // the message counts the shared iterations, too
        CgReport all = cg;
        all.iterations += report.shifts[s].shared_steps, ++all.restarts;
        cg.message = why_it_ended_early(all, limits.tolerance, limits.relative_tolerance, full_->spec().spinor);
    }
}

} // namespace milcgpu
