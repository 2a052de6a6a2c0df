#include "gpu_kernels/solver/block_cg.h"
#include "gpu_kernels/algebra/convert_sources.h"
#include "gpu_kernels/algebra/dense.h"
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <algorithm>
#include <cmath>
#include <utility>

namespace milcgpu {

namespace {
constexpr const char *owner = "vectors of several sources";

// A residual may be nearly a combination of the others. Its pivot in the matrix <R, R>, relative to |r|^2, measures the
// part that is not. Below this number that part consists of rounding errors of precision p.
double weakest_pivot(Precision p) { return p == Precision::double_ ? 1e-14 : p == Precision::single ? 1e-12 : 1e-10; }

// The iteration is stuck if the residual has had no new minimum in this many steps: 16 times the steps in which
// conjugate gradient gains a factor of e in the worst case, for eigenvalues between `lowest` and 6.
int stall_after(double lowest) {
    return lowest > 0 ? static_cast<int>(std::fmin(20 / std::sqrt(lowest), 1e9)) + 100 : 1 << 30;
}

// For sources with different tolerances. As soon as one is done, it is left out if |r|^2 / target of the worst source
// is above this number. The worst then still has a factor of 10 to go in the residual, which takes longer than a
// restart.
constexpr double far_from_target = 100;
} // namespace

BlockCgSolver::BlockCgSolver(Device &device, const Operator &full, const Operator &sloppy, int sources,
                             CgSolver &single)
    : device_(device), full_(full), single_(single) {
    b_ = full->vectors(device, owner, sources);
    x_ = full->vectors(device, owner, sources);
    residual_ = full->vectors(device, owner, sources);
    full_between_ = full->between(device, owner, sources);
    sloppy_ = make_level(sloppy, sources);
    level_ = sloppy_.get();
    state_ = DeviceArray<BlockState>(device, 1, owner);
    gram_scratch_ = DeviceArray<double>(device, gram_scratch(sources, sources), owner);
    sums_ = DeviceArray<double>(device, sources, owner);
}

std::unique_ptr<BlockCgSolver::Level> BlockCgSolver::make_level(const Operator &A, int sources) const {
    auto level = std::make_unique<Level>();
    level->A = A;
    level->r = A->vectors(device_, owner, sources);
    for (SpinorField &p : level->p)
        p = A->vectors(device_, owner, sources);
    level->ap = A->vectors(device_, owner, sources);
    level->between = A->between(device_, owner, sources);
    return level;
}

void BlockCgSolver::allocate_changes() {
    if (spec().spinor == Precision::single && sources() >= ladder::descend_together_from)
        top_ = make_level(full_, sources());
}

std::vector<Region> BlockCgSolver::checked_regions(bool residual_alone) const {
    std::vector<Region> all = single_.checked_regions(residual_alone);
    join(all, full_->checked_regions());
    if (!residual_alone)
        join(all, sloppy_->A->checked_regions());
    return all;
}

// ---- the iteration ------------------------------------------------------------------------------------------------

void BlockCgSolver::gram_of_all_ranks(const SpinorBlock &x, const SpinorBlock &y, Complex<double> *on_device) {
    gram(device_, x, y, on_device, gram_scratch_.data(), &state_.data()->active);
    if (device_.ranks() == nullptr)
        return;
    BlockState::Matrix sums;
    const int count = x.sources * y.sources;
    device_.copy_to_host(sums, on_device, count * sizeof *sums);
    device_.add_over_ranks(&sums[0].re, 2 * count);
    device_.copy_to_device(on_device, sums, count * sizeof *sums);
}

// In a block the host adds the matrices of all ranks.
bool BlockCgSolver::without_host() const {
    return device_.ranks() == nullptr || (lock_step() && device_.peers() != nullptr && !device_.has_meanwhile());
}

// <x_i, x_j> of all sources; in lock-step i = j only.
void BlockCgSolver::products(const SpinorBlock &x, Complex<double> *x_x) {
    if (lock_step())
        sums_in_lock_step(device_, x, x_x, &state_.data()->active);
    else
        gram_of_all_ranks(x, x, x_x);
}

// Also <x_i, y_j> and <y_i, y_j>.
void BlockCgSolver::products(const SpinorBlock &x, const SpinorBlock &y, const ProductsTo &to) {
    if (lock_step())
        return sums_in_lock_step(device_, x, y, to, &state_.data()->active);
    if (to.x_x != nullptr)
        gram_of_all_ranks(x, x, to.x_x);
    if (to.x_y != nullptr)
        gram_of_all_ranks(x, y, to.x_y);
    if (to.y_y != nullptr)
        gram_of_all_ranks(y, y, to.y_y);
}

// A step along the directions level_->p[k], and the next directions. <R', R'> and beta follow from matrices of the step
// before the residuals change, so residuals and directions change in one launch. Most steps also compute <P, P>, <P, R>
// and <A P, R> from other matrices. To remove the rounding errors so far, the first of cg_kept_steps steps sums <P, P>,
// <P, R> and <R, R> over the sites, and every fourth step sums <A P, R>: where residuals fall fast, the errors of eight
// steps cost up to three more steps. The last step also takes a new basis. after_update: the directions follow true
// residuals, which are not orthogonal to the directions before, so this step sums all of them.
void BlockCgSolver::step(int k, bool after_update) {
    BlockState *const state = state_.data();
    const SpinorBlock p = some(level_->p[k]), r = some(level_->r), ap = some(level_->ap),
                      between = some(level_->between);
    const SpinorBlock next = some(level_->p[(k + 1) % cg_kept_steps]);
    const bool last = k == cg_kept_steps - 1, first = k == 0, sums = k % 4 == 3 || after_update;
    // Work that the halves of A do not need runs beside them.
    const bool beside = without_host();
    const auto aside = [&](const auto &work) { beside ? device_.aside(work) : work(); };
    if (first)
        aside([&] { products(p, r, {state->p_p, state->p_r, state->r_r}); });
    HalfCall call;
    call.gate = &state->active;
    call.in = p, call.out = between;
    level_->A->apply_half(device_, call, Epilogue::plain);
    aside([&] {
        products(between, state->bp_bp);
        block_step_length(device_, state, first ? From::sums : From::before);
    });
    call.in = between, call.out = ap, call.x = p, call.a = limits_.shift;
    level_->A->apply_half(device_, call, Epilogue::normal);
    if (beside)
        device_.rejoin();
    if (sums)
        products(ap, r, {state->ap_ap, state->ap_r, nullptr});
    else
        products(ap, state->ap_ap);
    block_direction(device_, state, sums ? From::sums : From::before, last);
    if (last)
        add_to_solutions(cg_kept_steps, false); // before p[0] changes
    TwoRotations step;
    step.x = ap, step.c = state->minus_alpha;
    step.y = r, step.m = last ? state->basis : nullptr;
    step.p = p, step.d = state->beta, step.z = next;
    (lock_step() ? step_in_lock_step : rotate_twice)(device_, step, &state->active);
}

void BlockCgSolver::add_to_solutions(int steps, bool stopped) {
    BlockSolutions vectors;
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.p[k] = some(level_->p[k]);
    vectors.x = x_, vectors.lock_step = lock_step();
    update_block_solutions(device_, vectors, state_.data(), steps, stopped);
}

// A loop of cg_kept_steps steps has several chunks, so that few steps are queued behind the last one. One more copy of
// the first chunk is for use after a reliable update.
ChunkLoop &BlockCgSolver::chunks() {
    if (level_->recorded_shift != limits_.shift ||
        level_->recorded_together != limits_.together) { // recorded launches have both
        for (std::unique_ptr<ChunkLoop> &loop : level_->loops)
            loop.reset();
        level_->recorded_shift = limits_.shift, level_->recorded_together = limits_.together;
    }
    std::unique_ptr<ChunkLoop> &loop = level_->loops[open_.size()];
    if (!loop) {
        const auto chunk = [this](int first, bool after_update) {
            for (int k = first; k < first + steps_a_chunk; ++k)
                step(k, after_update && k == 0);
        };
        std::vector<std::function<void()>> all;
        for (int first = 0; first < cg_kept_steps; first += steps_a_chunk)
            all.push_back([=] { chunk(first, false); });
        all.push_back([=] { chunk(0, true); });
        loop = made_on_all_ranks(device_, "the start of the iteration of several sources", [&] {
            return std::make_unique<ChunkLoop>(
                device_, all, std::vector<ChunkLoop::Piece>{{state_.data(), sizeof(BlockHead)}}, without_host());
        });
    }
    return *loop;
}

// Adds the work of this many steps: the operator with links read once for all sources, Gram matrices, both rotations,
// and the step's part of the update of solutions. In lock-step Gram matrices are numbers, and rotations are sums of two
// vectors.
void BlockCgSolver::add_work(int steps, SourcesReport &report) const {
    const double n = double(open_.size()), sites = level_->r.sites(), spinor = spinor_bytes(level_->A->spec().spinor);
    report.flops += steps * (n * level_->A->flops(Epilogue::normal) +
                             5 * dense_flops(int(n), lock_step() ? 1 : int(n), int(sites)));
    const double of_links = level_->A->bytes(Epilogue::normal) - level_->A->passes(Epilogue::normal) * spinor * sites;
    const double passes = level_->A->passes(Epilogue::normal) + 2 * 1 + 5 + 1;
    report.bytes +=
        steps * (of_links + n * sites * (passes * spinor + 2.0 * spinor_bytes(Precision::double_) / cg_kept_steps));
}

CgStop BlockCgSolver::iterate(bool after_update, const CgProgress &progress, SourcesReport &report) {
    ChunkLoop &loop = chunks();
    constexpr int in_turn = cg_kept_steps / steps_a_chunk;
    const auto which = [=](int k) { return after_update && k == 0 ? in_turn : k % in_turn; };
    const auto look = [&]() -> ChunkLoop::Look {
        const BlockHead &seen = *loop.seen<BlockHead>(0);
        double largest = 0;
        for (int j = 0; j < seen.sources; ++j)
            largest = std::fmax(largest, std::sqrt(seen.rr[j] / source_rr_[open_[j]]) * seen.scale[j]);
        if (progress)
            progress(report.steps_together + seen.iterations, largest);
        return {seen.active == 0, seen.iterations};
    };
    loop.run(look, which);
    const BlockHead &last = *loop.seen<BlockHead>(0);
    add_to_solutions(0, true);
    level_->last = (last.iterations + cg_kept_steps - 1) % cg_kept_steps;
    report.steps_together += last.iterations;
    add_work(last.iterations, report);
    for (int j = 0; j < last.sources; ++j) {
        CgReport &own = report.sources[open_[j]];
        own.recursion_residual = std::sqrt(last.rr[j] / source_rr_[open_[j]]) * last.scale[j];
        own.steps += last.iterations, own.iterations += last.iterations;
        own.steps_in_precise += level_ == top_.get() ? last.iterations : 0;
        own.steps_in_half += level_->A->spec().spinor == Precision::half ? last.iterations : 0;
    }
    return last.stop;
}

// ---- starts -------------------------------------------------------------------------------------------------------

void BlockCgSolver::put_head(const Open &open, const SourcesReport &report) {
    BlockHead head{};
    head.active = 1;
    head.stop = CgStop::running;
    head.sources = static_cast<int>(open.size());
    head.lock_step = lock_step();
    head.iteration_limit = steps_left(open.front(), report);
    const double down = level_ == top_.get() ? ladder::go_down_at(ladder::Masses::several, Precision::single) : 1;
    const auto tolerance = [&](int k) { return down * limits_.tolerances[k]; };
    const bool differ =
        std::any_of(open.begin(), open.end(), [&](int k) { return tolerance(k) != tolerance(open[0]); });
    head.leave = differ && level_ == sloppy_.get() && !separately() ? far_from_target : INFINITY;
    head.shift = limits_.shift;
    head.sign = level_->A->sign();
    head.stall = stall_after(level_->A->lowest(limits_.shift));
    const Precision p = level_->A->spec().spinor;
    head.weakest = weakest_pivot(p);
    double over_target = 0;
    for (const int k : open)
        over_target = std::fmax(over_target, report.sources[k].true_residual / tolerance(k));
    const double delta =
        limits_.reliable_delta > 0 ? limits_.reliable_delta
        : deflation_ != nullptr
            ? ladder::reliable_delta_with(full_->rounding(Precision::half) / deflation_->lowest(limits_.shift))
            : ladder::reliable_delta_of_several(p, over_target);
    const bool in_full = level_->A->spec() == full_->spec() && deflation_ == nullptr;
    head.reliable_factor = in_full || separately() ? 0 : delta * delta;
    for (int j = 0; j < head.sources; ++j) {
        const int k = open[j];
        const double target = tolerance(k) / scale_[k];
        head.target_rr[j] = 0.8 * target * target * source_rr_[k];
        head.iteration_limit = std::min(head.iteration_limit, steps_left(k, report));
        head.place[j] = k;
        head.scale[j] = scale_[k];
    }
    device_.copy_to_device(state_.data(), &head, sizeof head);
}

// Turns the residuals in level_->r into an orthonormal basis.
void BlockCgSolver::orthonormalize() {
    BlockState *const state = state_.data();
    const SpinorBlock r = some(level_->r);
    gram_of_all_ranks(r, r, state->r_r);
    block_start(device_, state);
    block_axpy(device_, r, state->basis, r);
}

// The first directions are the residuals level_->r.
void BlockCgSolver::start(const Open &open, const SourcesReport &report) {
    open_ = open;
    put_head(open, report);
    orthonormalize();
    const SpinorBlock r = some(level_->r), p = some(level_->p[0]);
    device_.copy_on_device(p.data, r.data, p.bytes());
}

// level_->r holds true residuals of the sources `open`, which are some of those that iterated before. Makes directions
// that are conjugate to the last ones.
void BlockCgSolver::update_reliably(const Open &open, SourcesReport &report) {
    BlockState *const state = state_.data();
    const SpinorBlock before = some(level_->p[level_->last]), ap = some(level_->ap);
    BlockRedirect how{};
    how.directions = static_cast<int>(open_.size());
    how.sources = static_cast<int>(open.size());
    for (int j = 0; j < how.sources; ++j)
        how.from[j] = static_cast<int>(std::find(open_.begin(), open_.end(), open[j]) - open_.begin());
    open_ = open;
    put_head(open, report);
    const SpinorBlock r = some(level_->r), p = some(level_->p[0]), moved = some(level_->p[level_->last == 0 ? 1 : 0]);
    orthonormalize();
    gram_of_all_ranks(ap, r, state->ap_r);
    block_redirect(device_, state, how);
    block_axpy(device_, before, state->beta, moved, r);
    if (moved.data != p.data)
        device_.copy_on_device(p.data, moved.data, p.bytes());
    ++report.reliable_updates;
    for (const int k : open)
        ++report.sources[k].reliable_updates;
}

// Returns true if this many sources start in double and go down to single later; allocates the vectors for that.
// Returns false if memory does not suffice, or if the tolerance is so loose that they would go down at once.
bool BlockCgSolver::prepare_descent(int sources) {
    if (limits_.together != Together::block || sources < ladder::descend_together_from || !full_->takes_several() ||
        !ladder::must_descend(*full_, *full_, sloppy_->A->spec().spinor, lowest_of(*full_, deflation_, limits_.shift),
                              ladder::descend_together_above))
        return false;
    const double tightest = *std::min_element(limits_.tolerances.begin(), limits_.tolerances.end());
    if (tightest * ladder::go_down_at(ladder::Masses::several, Precision::single) >= 1)
        return false;
    if (!top_)
        top_ = made_if_it_fits(device_, "memory for the descent", [&] { return make_level(full_, b_.sources()); });
    return top_ != nullptr;
}

// Goes from double to the precision below. The next directions are conjugate to the last ones in double.
void BlockCgSolver::go_down() {
    Level &from = *level_;
    level_ = sloppy_.get();
    level_->last = 1; // p[0] is for the next directions
    SourceScales as_they_are{};
    for (int j = 0; j < int(open_.size()); ++j)
        as_they_are.scale[j] = 1, as_they_are.from[j] = j;
    convert_sources(device_, from.p[from.last], some(level_->p[level_->last]), as_they_are, nullptr);
    convert_sources(device_, from.ap, some(level_->ap), as_they_are, nullptr);
}

// ---- a solve ------------------------------------------------------------------------------------------------------

// Returns the sources that iterate together: the ones that are finite and not zero.
BlockCgSolver::Open BlockCgSolver::load_sources(SourcesReport &report) {
    Open open;
    for (int k = 0; k < count(); ++k)
        norm_squared(device_, b_[k], sums_.data() + k);
    device_.copy_to_host(source_rr_.data(), sums_.data(), count() * sizeof source_rr_[0]);
    for (int k = 0; k < count(); ++k) {
        CgReport &own = report.sources[k];
        own.source_norm = std::sqrt(source_rr_[k]);
        own.restarts = 1;
        note_not_finite(own, [&] {
            if (is_there(device_, source_rr_[k], b_[k], full_->geometry(), full_->parity(), limits_.tolerances[k],
                         x_[k], sums_.data()))
                open.push_back(k);
            else
                device_.fill_zero(x_[k].data, x_[k].bytes());
        });
    }
    return open;
}

// Computes b - A x of the sources `open` into residual_, and in units of scale_ into level_->r. Returns |b - A x|^2.
// of_zero: all x are zero.
std::vector<double> BlockCgSolver::true_residuals(const Open &open, bool of_zero) {
    const int count = static_cast<int>(open.size());
    for_each_run(open, full_->takes_several() ? count : 1, [&](int first, int some, int done) {
        if (of_zero)
            device_.copy_on_device(residual_[done].data, b_[first].data, some * b_.block().source_bytes);
        else
            residual(device_, *full_, limits_.shift,
                     {b_.block().from(first).first(some), x_.block().from(first).first(some),
                      full_between_.block().first(some), residual_.block().from(done).first(some)},
                     nullptr);
    });
    SourceScales how{};
    for (int j = 0; j < count; ++j)
        how.scale[j] = scale_[open[j]] > 0 ? 1 / scale_[open[j]] : 0, how.from[j] = j;
    convert_sources(device_, residual_, level_->r.block().first(count), how, sums_.data());
    std::vector<double> rr(count);
    device_.copy_to_host(rr.data(), sums_.data(), count * sizeof rr[0]);
    return rr;
}

// rr: the true residuals of `all`, just computed. Returns the sources that have not reached their tolerance, and puts
// their residuals into level_->r. Sources without steps left go to `stopped` instead. Gain::not_counted: a deflation
// follows, with another true residual. stop: why the last steps ended. After source_done, a residual that has not
// fallen much is not counted against the other sources.
BlockCgSolver::Open BlockCgSolver::still_open(const Open &open, const std::vector<double> &all, CgStop stop, Gain gain,
                                              SourcesReport &report, Open &stopped) {
    Open left;
    SourceScales how{};
    bool in_place = true; // the residuals of `left` already are where they belong
    for (int j = 0; j < int(open.size()); ++j) {
        const int k = open[j];
        CgReport &own = report.sources[k];
        const double rr = all[j], tolerance = limits_.tolerances[k];
        own.true_residual = std::sqrt(rr / source_rr_[k]);
        own.relative_residual = 1; // not requested
        if (rr < tolerance * tolerance * source_rr_[k])
            continue;
        if (steps_left(k, report) <= 0) {
            stopped.push_back(k);
            continue;
        }
        if (gain == Gain::counted)
            gain_[k].note(rr, stop != CgStop::source_done);
        const int place = static_cast<int>(left.size());
        in_place = in_place && place == j && scale_[k] > 0;
        if (scale_[k] == 0 && rr < INFINITY)
            scale_[k] = unit_of(rr, full_->geometry().global_volume() / 2);
        how.scale[place] = 1 / scale_[k], how.from[place] = j;
        left.push_back(k);
    }
    if (!in_place && !left.empty())
        convert_sources(device_, residual_, level_->r.block().first(static_cast<int>(left.size())), how, nullptr);
    return left;
}

// Deflates the sources `open`; residual_ holds the residuals of `all` in order. Returns the sources that are still
// open. A deflation that does not help is the last one.
BlockCgSolver::Open BlockCgSolver::deflated(const Open &all, const Open &open, CgStop stop, SourcesReport &report,
                                            Open &stopped) {
    int place[most_block];
    const int n = static_cast<int>(open.size());
    std::vector<double> rr(n), after;
    for (int j = 0; j < n; ++j) {
        const double relative = report.sources[open[j]].true_residual;
        place[j] = static_cast<int>(std::find(all.begin(), all.end(), open[j]) - all.begin());
        rr[j] = relative * relative * source_rr_[open[j]];
        if (!(rr[j] > 0) || !(rr[j] < INFINITY)) // still_open() decides
            return still_open(open, true_residuals(open, false), stop, Gain::counted, report, stopped);
    }
    ++report.deflations;
    report.flops += deflation_->flops(n), report.bytes += deflation_->bytes(n);
    for (const int k : open)
        ++report.sources[k].deflations;
    if (!deflation_->add_if_it_helps(residual_, place, x_, open.data(), rr, limits_.shift,
                                     [&] { return after = true_residuals(open, false); })) {
        deflation_ = nullptr;
        for (CgReport &own : report.sources)
            own.deflation_off = true;
        after = true_residuals(open, false);
    }
    Open left = still_open(open, after, stop, Gain::counted, report, stopped);
    const double jump_limit = limits_.jump_limit > 0 ? limits_.jump_limit : ladder::jump_limit;
    if (deflation_ == nullptr &&
        ladder::half_is_hopeless(*level_->A, level_->A->lowest(limits_.shift), jump_limit)) // each in a finer precision
        stopped.insert(stopped.end(), left.begin(), left.end()), left.clear();
    return left;
}

void BlockCgSolver::solve_alone(int k, const CgProgress &progress, SourcesReport &report) {
    CgLimits limits;
    limits.shift = limits_.shift;
    limits.tolerance = limits_.tolerances[k];
    limits.relative_tolerance = limits_.relative_tolerance;
    limits.max_iterations = limits_.max_iterations[k];
    limits.max_restarts = steps_left(k, report) > 0 ? limits_.max_restarts : 0;
    limits.reliable_delta = limits_.reliable_delta;
    limits.jump_limit = limits_.jump_limit;
    limits.deflation = deflation_;
    const SpinorField &b = single_.source(), &x = single_.solution();
    device_.copy_on_device(b.data(), b_[k].data, b.bytes());
    device_.copy_on_device(x.data(), x_[k].data, x.bytes());
    CgReport &own = report.sources[k];
    const CgReport before = own;
    note_not_finite(own, [&] { own = single_.solve(limits, progress); });
    if (own.status == Status::ok || own.status == Status::not_converged || own.status == Status::precision_floor)
        device_.copy_on_device(x_[k].data, x.data(), x.bytes());
    report.flops += own.flops;
    report.bytes += own.bytes;
    own.steps += before.steps, own.iterations += before.iterations, own.restarts += before.restarts;
    own.steps_in_precise += before.steps_in_precise, own.steps_in_half += before.steps_in_half;
    own.reliable_updates += before.reliable_updates;
    own.deflations += before.deflations, own.deflation_off = own.deflation_off || before.deflation_off;
    if (own.status == Status::not_converged) // of all its iterations
        own.message = why_it_ended_early(own, limits.tolerance, limits.relative_tolerance, full_->spec().spinor);
}

SourcesReport BlockCgSolver::solve(const SourcesLimits &limits, const CgProgress &progress) {
    SourcesReport report;
    const double begin = wall_seconds();
    limits_ = limits;
    deflation_ = limits.deflation;
    report.sources.resize(count());
    source_rr_.assign(count(), 0), gain_.assign(count(), {}), scale_.assign(count(), 0);
    device_.empty_sum_slots();
    Open open = load_sources(report), alone;
    const bool together = count() > 1 && limits.relative_tolerance <= 0;
    if (!together)
        alone = std::exchange(open, {});
    CgStop stop = CgStop::running;
    level_ = prepare_descent(static_cast<int>(open.size())) ? top_.get() : sloppy_.get();
    for (bool first = true; !open.empty(); first = false) {
        const Open all = open;
        open = still_open(all, true_residuals(all, first && limits_.zero_guesses), stop,
                          deflation_ != nullptr ? Gain::not_counted : Gain::counted, report, alone);
        if (deflation_ != nullptr && !open.empty())
            open = deflated(all, open, stop, report, alone);
        const bool stuck = std::any_of(open.begin(), open.end(), [&](int k) {
            return gain_[k].is_over() || !(scale_[k] > 0) || !(gain_[k].best_rr < INFINITY);
        });
        if (stuck || stop == CgStop::nan_or_inf || stop == CgStop::not_positive || (separately() && !first)) {
            alone.insert(alone.end(), open.begin(), open.end());
            open.clear();
        } else if (!open.empty()) {
            if (first)
                start(open, report);
            else
                update_reliably(open, report);
            stop = iterate(!first, progress, report);
            if (level_ == top_.get() && stop == CgStop::target)
                go_down();
        }
    }
    for (const int k : alone)
        solve_alone(k, progress, report);
    for (int k = 0; k < count(); ++k) {
        const CgReport &own = report.sources[k];
        if (is_graver(own.status, report.status)) {
            report.status = own.status;
            report.message = format("source %d: %s", k, own.message.c_str());
        }
    }
    report.seconds = wall_seconds() - begin;
    return report;
}

} // namespace milcgpu
