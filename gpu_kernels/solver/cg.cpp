#include "gpu_kernels/solver/cg.h"
#include "gpu_kernels/solver/eigenvectors.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include <cmath>

namespace milcgpu {

namespace {
constexpr const char *owner = "conjugate gradient vectors";
} // namespace

void iterate(Device &device, const CgIteration &it) {
    HalfCall call;
    call.cg = it.state;
    call.along_p = it.v.data != it.r.data;
    call.check_convergence = it.check_convergence;
    call.in = it.v, call.out = it.between;
    if (it.sums != nullptr)
        call.pending = it.pending ? it.sums->step.data() : nullptr, call.defer = it.sums->plain.data();
    call.in_sent = it.sent, call.send_out = true;
    it.A->first_half(device, call);
    call.in = it.between, call.out = it.r_new;
    call.x = it.v, call.z = it.r, call.s = it.s;
    if (it.sums != nullptr)
        call.pending = it.sums->plain.data(), call.defer = it.defer ? it.sums->step.data() : nullptr;
    call.in_sent = true, call.send_out = it.defer;
    it.A->second_half(device, call, Epilogue::step);
}

// ---- vectors ------------------------------------------------------------------------------------------------------

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

namespace {

size_t field_bytes(const Geometry &geometry, int components, Precision p, int sources = 1) {
    return Device::allocated_bytes(SpinorField::bytes_of(p, geometry, sources, components));
}

// As in make_sloppy.
size_t sloppy_bytes(const Geometry &geometry, const OperatorSpec &precise, const OperatorSpec &sloppy, int components) {
    const int copies = sloppy.spinor != Precision::double_, fresh_residuals = !(sloppy == precise);
    return field_bytes(geometry, components, sloppy.spinor, cg_kept_steps) +
           (2 + copies + fresh_residuals) * field_bytes(geometry, components, sloppy.spinor);
}

} // namespace

size_t CgSolver::workspace_bytes(const Geometry &geometry, const OperatorSpec &precise, const OperatorSpec &sloppy,
                                 Precision full, int components) {
    const bool lower = !(precise == OperatorSpec{Precision::double_, full, 18});
    const int copies = precise.spinor != Precision::double_;
    return 5 * field_bytes(geometry, components, Precision::double_) +
           2 * (lower + copies) * field_bytes(geometry, components, precise.spinor) +
           sloppy_bytes(geometry, precise, sloppy, components) + DeferredSums::bytes(geometry) +
           Device::allocated_bytes(sizeof(CgState)) + Device::allocated_bytes(2 * sizeof(double));
}

size_t CgSolver::later_bytes(const Geometry &geometry, const OperatorSpec &precise, const OperatorSpec &sloppy,
                             int components) {
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
        return sloppy_bytes(geometry, precise, {Precision::single, Precision::single, sloppy.reals}, components);
    const bool descends = sloppy.spinor == Precision::single && precise.spinor == Precision::double_;
    return descends ? sloppy_bytes(geometry, precise, precise, components) : 0;
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
    for (size_t k = 0; report.checked_links && k < full_.A->checked_regions().size(); ++k)
        all[k].taken = limits_.checksums + k;
    return all;
}

// ---- residuals ----------------------------------------------------------------------------------------------------

double CgSolver::read(const double *device_value) const {
    double value;
    device_.copy_to_host(&value, device_value, sizeof value);
    return value;
}

// Computes the norm of the source. Returns false if the source is zero.
bool CgSolver::load_source(CgReport &report) {
    norm_squared(device_, b_, sums_.data());
    source_rr_ = read(sums_.data());
    if (!is_there(device_, source_rr_, b_, full_.A->parity(), limits_.tolerance, x_, sums_.data()))
        return false;
    report.source_norm = std::sqrt(source_rr_);
    if (precise_b_)
        convert_spinor(device_, b_, precise_b_, 1, nullptr);
    return true;
}

// If the precise level is not double, the solution is first rounded to its precision, because that is what the caller
// gets. The relative residual is computed if there is a tolerance for it; else it is 1, as MILC reports it.
// likely_the_last: also takes the checksums of the links as handed over, if the residual is computed with them.
CgSolver::Residual CgSolver::true_residual(Level &level, bool likely_the_last) {
    const bool check = &level == &full_ && likely_the_last && full_.A->takes_checksums();
    uint64_t *const checksums = check ? limits_.checksums : nullptr;
    const bool in_double = level.A->spec().spinor == Precision::double_;
    if (!in_double) {
        convert_spinor(device_, x_, precise_x_, 1, nullptr);
        convert_spinor(device_, precise_x_, x_, 1, nullptr);
    }
    residual(device_, *level.A, limits_.shift, in_double ? b_ : precise_b_, in_double ? x_ : precise_x_, level.between,
             level.residual, sums_.data(), checksums);
    double relative = 1;
    if (limits_.relative_tolerance > 0) {
        const double volume = level.A->geometry().global_volume();
        relative_residual(device_, level.residual, x_, sums_.data() + 1, nullptr, volume);
        relative = std::sqrt(2 * read(sums_.data() + 1) / volume);
    }
    return {read(sums_.data()), relative, checksums != nullptr};
}

// Deflates x, and returns its new residual. A deflation that raises the residual is taken back, and was the last one.
CgSolver::Residual CgSolver::deflated(const Residual &before, CgReport &report) {
    ++report.deflations;
    report.flops += deflation_->flops(1), report.bytes += deflation_->bytes(1);
    deflation_->add(precise_->residual, x_, before.rr, limits_.shift);
    const Residual after = true_residual(*precise_, false);
    if (after.rr < ladder::deflation_raises * before.rr)
        return after;
    deflation_->undo();
    deflation_ = nullptr;
    report.deflation_off = true;
    if (finer_ != nullptr && ladder::half_is_hopeless(*sloppy_->A, lowest(*sloppy_->A), limits_.jump_limit))
        change_to_finer();
    return true_residual(*precise_, false);
}

double CgSolver::lowest(const NormalOperator &A) const {
    return deflation_ != nullptr ? deflation_->lowest(limits_.shift) : A.lowest(limits_.shift);
}

bool CgSolver::accepted(const Residual &r) const {
    return (limits_.tolerance <= 0 || r.rr < limits_.tolerance * limits_.tolerance * source_rr_) &&
           (limits_.relative_tolerance <= 0 || r.relative < limits_.relative_tolerance);
}

// ---- an iteration -------------------------------------------------------------------------------------------------

// x += alpha p, p = r + beta p for the last `steps` iterations. stopped: for all iterations since the last such call.
void CgSolver::bring_up(int steps, bool stopped) {
    SolutionVectors vectors{};
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.r[k] = sloppy_->r[k];
    vectors.p = direction_, vectors.copy = sloppy_->copy, vectors.x = x_;
    const bool goes_on = steps == cg_kept_steps; // the next launch applies the direction
    update_solutions(device_, vectors, state_.data(), steps, stopped, goes_on ? sloppy_->A->send_out() : SendOut{});
}

// A chunk is cg_kept_steps iterations. The first applies A to p, the others to r. With a tolerance for the relative
// residual, each iteration updates x and computes that residual.
ChunkLoop &CgSolver::chunks() {
    const bool relative = limits_.relative_tolerance > 0;
    std::unique_ptr<ChunkLoop> &loop = sloppy_->loop[relative];
    if (loop)
        return *loop;
    const auto chunk = [this, relative] {
        for (int k = 0; k < cg_kept_steps; ++k) {
            const SpinorBlock r = sloppy_->before(k), r_new = sloppy_->r[k];
            const bool first = k == 0, last = k == cg_kept_steps - 1;
            milcgpu::iterate(device_, {sloppy_->A.get(), first ? direction_to_apply() : r, r, r_new, sloppy_->s,
                                       sloppy_->between, !relative, state_.data(), &deferred_, !relative && !first,
                                       !relative && !last, !relative});
            if (relative) {
                bring_up(1, false);
                relative_residual(device_, r_new, x_, nullptr, state_.data(), sloppy_->A->geometry().global_volume());
            } else if (last) {
                bring_up(cg_kept_steps, false);
            }
        }
    };
    device_.collective("the start of the iteration", [&] {
        loop = std::make_unique<ChunkLoop>(
            device_, chunk, std::vector<ChunkLoop::Piece>{{state_.data(), sizeof(CgState)}}, !sloppy_->A->needs_host());
    });
    return *loop;
}

// Iterates until the device says stop, and brings the solution up to date.
CgStop CgSolver::iterate(const CgProgress &progress, CgReport &report) {
    ChunkLoop &loop = chunks();
    if (!(limits_.relative_tolerance > 0))
        sloppy_->A->send(device_, direction_to_apply());
    double residual = 0;
    loop.run([&]() -> ChunkLoop::Look {
        const CgState &seen = *loop.seen<CgState>(0);
        residual = std::sqrt(seen.rr) * unit_.scale / report.source_norm;
        if (progress)
            progress(report.steps + seen.iterations, residual);
        return {seen.stop != CgStop::running, seen.iterations};
    });
    last_ = *loop.seen<CgState>(0);
    report.steps += last_.iterations;
    report.iterations += last_.iterations;
    report.recursion_residual = residual;
    if (sloppy_->A->spec().spinor == Precision::half)
        report.steps_in_half += last_.iterations;
    if (below_ != nullptr)
        report.steps_in_precise += last_.iterations;
    if (last_.stop == CgStop::nan_or_inf || last_.stop == CgStop::not_positive) {
        const bool nan = last_.stop == CgStop::nan_or_inf;
        report.status = nan ? Status::nan_or_inf : Status::not_positive;
        report.message = format("%s at step %d: there is no solution",
                                nan ? "NaN or infinity"
                                : sloppy_->A->sign() > 0
                                    ? "<p, A p> = 0 (a zero mode)"
                                    : "<p, A p> is not positive: the operator has a zero or negative eigenvalue",
                                report.steps);
    }
    if (!(limits_.relative_tolerance > 0)) // else every iteration has updated x
        bring_up(0, true);
    return last_.stop;
}

// ---- stretches ----------------------------------------------------------------------------------------------------

// In the units of the sloppy system.
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
    const double delta = limits_.reliable_delta > 0 ? limits_.reliable_delta
                         : deflation_ != nullptr    ? ladder::reliable_delta_deflated
                                                    : ladder::reliable_delta(sloppy_->A->spec().spinor);
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

// A reliable update. Returns false if the residual has changed too much for half precision. The solver has then changed
// to a finer precision, and must start with a new direction.
bool CgSolver::update_reliably(CgReport &report) {
    ++report.reliable_updates;
    put(begin_state(steps_left(report), target_rr()));
    if (!sloppy_->fresh_residual)
        device_.collective("memory for a deflated solve",
                           [&] { sloppy_->fresh_residual = sloppy_->A->vectors(device_, owner); });
    convert_spinor(device_, precise_->residual, sloppy_->fresh_residual, 1 / unit_.scale, nullptr);
    cg_reliable_update(device_, sloppy_->fresh_residual, sloppy_->before(last_.iterations), sloppy_->start(),
                       direction(), state_.data());
    CgState state;
    device_.copy_to_host(&state, state_.data(), sizeof state);
    const double jump = std::sqrt(state.jump / state.rr);
    if (deflation_ != nullptr) // which changes the residual by more than rounding does
        return true;
    report.largest_jump = std::fmax(report.largest_jump, jump);
    if (!(jump > limits_.jump_limit) || sloppy_->A->spec().spinor != Precision::half || finer_ == nullptr)
        return true;
    change_to_finer();
    return false;
}

void CgSolver::change_to_finer() {
    if (!fine_) {
        const Operator A = finer_();
        device_.collective("memory for a finer precision", [&] { fine_ = make_sloppy(A); });
    }
    sloppy_ = fine_.get();
}

// Whether the solve is to start in double and go down to single later. If so, allocates the vectors for it. Returns
// false if memory does not suffice.
bool CgSolver::prepare_descent() {
    if (limits_.tolerance <= 0 || limits_.relative_tolerance > 0 ||
        !ladder::must_descend(*precise_->A, *given_->A, sloppy_->A->spec().spinor, lowest(*given_->A)))
        return false;
    try {
        if (!top_)
            device_.collective("memory for the descent", [&] { top_ = make_sloppy(precise_->A); });
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
    }
    return top_ != nullptr;
}

// Goes from double to the precision below, with the same residual and direction. Returns false if the iteration in
// double ended for another reason than its target.
bool CgSolver::go_down(CgStop stop, const CgReport &report) {
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

// ---- a solve ------------------------------------------------------------------------------------------------------

std::string why_it_ended_early(const CgReport &report, double tolerance, double relative_tolerance, Precision precise) {
    std::string residual = format("%.1e of |source|", report.true_residual), asked = format("%.1e", tolerance);
    if (relative_tolerance > 0) {
        residual += format(", the relative one at %.1e", report.relative_residual);
        asked += format(", relative %.1e", relative_tolerance);
    }
    if (report.status == Status::precision_floor)
        return format(
            "the true residual stays at %s: %s precision gives no more (tolerance %s). Ask for less, or for a "
            "higher precision",
            residual.c_str(), name(precise), asked.c_str());
    if (report.broke_down)
        return format("BiCGstab broke down again and again in %d iterations, with the true residual at %s (tolerance "
                      "%s); the solution so far is returned. Take conjugate gradient",
                      report.iterations, residual.c_str(), asked.c_str());
    return format(
        "%d iterations with %d restarts did not reach the tolerance %s; the solution so far is returned, with "
        "the true residual at %s",
        report.iterations, report.restarts, asked.c_str(), residual.c_str());
}

// Whether the solve ends after a true residual. The status goes into the report, and the message in finish().
bool CgSolver::ended(const Residual &residual, CgStop stop, int without_gain, CgReport &report) const {
    const bool fresh = !has_updates() || stop == CgStop::iteration_limit;
    if (accepted(residual))
        return true;
    if (without_gain >= ladder::patience) {
        report.status = Status::precision_floor;
        return true;
    }
    if ((fresh && report.restarts >= limits_.max_restarts) || report.iterations >= most_iterations()) {
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

// Fills in the report. The residual that it states is computed in double, from the links as handed over.
void CgSolver::finish(CgReport &report, const Residual *last_full) {
    const Residual residual = last_full != nullptr ? *last_full : true_residual(full_, true);
    report.true_residual = std::sqrt(residual.rr / source_rr_);
    report.relative_residual = residual.relative;
    report.checked_links = residual.checked;
    const bool stopped_early = report.status == Status::not_converged || report.status == Status::precision_floor;
    if (stopped_early && accepted(residual)) // the precise level is coarser than double and did not see it
        report.status = Status::ok;
    else if (stopped_early)
        report.message =
            why_it_ended_early(report, limits_.tolerance, limits_.relative_tolerance, precise_->A->spec().spinor);
    count_work(report);
}

CgReport CgSolver::solve(const CgLimits &limits, const CgProgress &progress) {
    CgReport report;
    const double begin = wall_seconds();
    sloppy_ = given_.get();
    limits_ = limits;
    if (limits_.jump_limit <= 0)
        limits_.jump_limit = ladder::jump_limit;
    below_ = nullptr;
    deflation_ = limits_.deflation;
    device_.empty_sum_slots();
    if (!load_source(report)) {
        device_.fill_zero(x_.data(), x_.bytes());
        return report;
    }
    if (finer_ != nullptr && ladder::half_is_hopeless(*sloppy_->A, lowest(*sloppy_->A), limits_.jump_limit))
        change_to_finer();
    double best_rr = INFINITY;
    int without_gain = 0;
    CgStop stop = CgStop::iteration_limit; // the first pass starts without an old direction
    for (;;) {
        Residual residual = true_residual(*precise_, stop == CgStop::target);
        bool full = precise_ == &full_;
        report.iterations += stop != CgStop::reliable_update;
        if (deflation_ != nullptr && residual.rr > 0 && residual.rr < INFINITY && !accepted(residual))
            residual = deflated(residual, report);
        if (!(residual.rr < INFINITY)) {
            require_finite(device_, x_, full_.A->parity(), "initial guess");
            report.status = Status::nan_or_inf;
            report.message = "the residual overflowed";
        } else if (accepted(residual) && !full) {
            residual = true_residual(full_, true);
            full = true;
        }
        const double believed = report.recursion_residual * report.recursion_residual * source_rr_;
        without_gain = residual.rr < 0.5 * best_rr ? 0 : without_gain + (believed < 0.5 * best_rr);
        best_rr = std::fmin(best_rr, residual.rr);
        if (report.status == Status::ok && !ended(residual, stop, without_gain, report)) {
            const bool fresh = !has_updates() || stop == CgStop::iteration_limit;
            if (fresh || unit_.is_too_large(source_rr_, residual.rr) || !update_reliably(report))
                start_afresh(residual.rr, report);
            stop = iterate(progress, report);
            if (below_ != nullptr && go_down(stop, report))
                stop = iterate(progress, report);
            full = false;
        }
        if (report.status != Status::ok || accepted(residual)) {
            finish(report, full ? &residual : nullptr);
            report.seconds = wall_seconds() - begin;
            return report;
        }
    }
}

} // namespace milcgpu
