#include "gpu_kernels/solver/cg.h"
#include <cmath>

namespace milcgpu {

namespace {

// Steps queued between two looks of the host: 100 microseconds of work or more, so that launches hide behind work and
// few steps are queued in vain after the last one.
constexpr int chunk_steps = 8;

// Steps after which the partial solution is added up in the precise precision and starts from zero again. It grows far
// beyond the residual on light masses; left in single precision for long, its rounding would come back through A as a
// residual larger than the one that the iteration believes in.
constexpr int steps_per_drain = 16;

// Three evaluations in a row that do not gain a factor of 2 in |r|^2: the precision has no more to give.
constexpr int patience = 3;

constexpr const char *owner = "conjugate gradient vectors";

} // namespace

CgSolver::CgSolver(Device &device, const Lattice &lattice, int parity, const OperatorSpec &precise,
                   const LinkPair &precise_links, const OperatorSpec &sloppy, const LinkPair &sloppy_links,
                   const LinkPair &full_links, std::function<FinerLevel()> finer)
    : device_(device), lattice_(lattice), parity_(parity), finer_(std::move(finer)) {
    const int here = lattice.sites(parity);
    const auto field = [&](Precision p) { return SpinorField(device, p, here, owner); };
    b_ = field(Precision::double_);
    x_ = field(Precision::double_);
    full_ = make_level({Precision::double_, full_links.fat->precision(), 18}, full_links);
    precise_ = &full_;
    if (!(precise == full_.spec)) {
        lower_ = make_level(precise, precise_links);
        precise_ = &lower_;
    }
    if (precise.spinor != Precision::double_) {
        precise_b_ = field(precise.spinor);
        precise_x_ = field(precise.spinor);
    }
    given_ = make_sloppy(sloppy, sloppy_links);
    sloppy_ = given_.get();
    state_ = DeviceArray<CgState>(device, 1, "conjugate gradient scalars");
    sums_ = DeviceArray<double>(device, 2, "conjugate gradient scalars");
    seen_ = {static_cast<CgState *>(device.allocate_pinned(2 * sizeof(CgState))),
             [&device](CgState *p) { device.release_pinned(p); }};
}

CgSolver::Level CgSolver::make_level(const OperatorSpec &spec, const LinkPair &links) {
    return {spec, links, SpinorField(device_, spec.spinor, lattice_.sites(1 - parity_), owner),
            SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner)};
}

std::unique_ptr<CgSolver::Sloppy> CgSolver::make_sloppy(const OperatorSpec &spec, const LinkPair &links) {
    const auto field = [&](Precision p) { return SpinorField(device_, p, lattice_.sites(parity_), owner); };
    auto sloppy = std::make_unique<Sloppy>();
    sloppy->level = make_level(spec, links);
    sloppy->direction = field(spec.spinor);
    sloppy->partial = field(solution_precision(spec.spinor));
    sloppy->fresh_residual = field(spec.spinor);
    return sloppy;
}

size_t CgSolver::workspace_bytes(int sites, const OperatorSpec &precise, const OperatorSpec &sloppy) {
    size_t reals = 4 * spinor_bytes(Precision::double_) + 4 * spinor_bytes(sloppy.spinor) +
                   spinor_bytes(solution_precision(sloppy.spinor));
    if (precise.spinor != Precision::double_)
        reals += 4 * spinor_bytes(precise.spinor);
    return padded_stride(sites) * reals;
}

void residual(Device &device, const Lattice &lattice, int parity, const LinkPair &links, double shift,
              const SpinorField &b, const SpinorField &x, const SpinorField &between, const SpinorField &out,
              double *sum) {
    DslashCall call{};
    call.lattice = lattice;
    call.fat = links.fat, call.lng = links.lng;
    call.parity = 1 - parity;
    call.in = &x, call.out = &between;
    dslash(device, call, Epilogue::plain);
    call.parity = parity;
    call.in = &between, call.out = &out;
    call.x = &x, call.z = &b;
    call.a = shift, call.alpha = 1;
    call.sum = sum;
    dslash(device, call, Epilogue::residual);
}

double CgSolver::read(const double *device_value) {
    double value;
    device_.copy_to_host(&value, device_value, sizeof value);
    return value;
}

// After residual(..., sums_[0]); the relative residual where it is asked for, else 1 as MILC reports it.
CgSolver::Residual CgSolver::read_residual(const Level &level, const SpinorField &x) {
    double relative = 1;
    if (limits_.relative_tolerance > 0) {
        relative_residual(device_, level.residual, x, x, sums_.data() + 1, nullptr, lattice_.volume());
        relative = std::sqrt(2 * read(sums_.data() + 1) / lattice_.volume());
    }
    return {read(sums_.data()), relative};
}

bool CgSolver::accepted(const Residual &r) const {
    return (limits_.tolerance <= 0 || r.rr < limits_.tolerance * limits_.tolerance * source_rr_) &&
           (limits_.relative_tolerance <= 0 || r.relative < limits_.relative_tolerance);
}

// The iteration: scalars stay on the device, in *state.
//   D p                    1 link field, 2 spinors    curvature = shift |p|^2 + |D p|^2, alpha = |r|^2 / curvature
//   r -= alpha (shift p - D D p)      1 link field, 4 spinors    |r|^2
//   x += alpha p, p = r + beta p      5 spinors                  |p|^2; judged
void CgSolver::iterate_once() {
    CgState *state = state_.data();
    DslashCall call{};
    call.lattice = lattice_;
    const Level &level = sloppy_->level;
    const SpinorField &direction = sloppy_->direction, &partial = sloppy_->partial;
    call.fat = level.links.fat, call.lng = level.links.lng;
    call.cg = state;
    call.parity = 1 - parity_;
    call.in = &direction, call.out = &level.between;
    dslash(device_, call, Epilogue::plain);
    call.parity = parity_;
    call.in = &level.between, call.out = &level.residual;
    call.x = &direction, call.z = &level.residual;
    dslash(device_, call, Epilogue::residual);
    const bool relative = limits_.relative_tolerance > 0;
    cg_direction(device_, level.residual, direction, partial, state, !relative);
    if (relative)
        relative_residual(device_, level.residual, partial, solution_so_far(), nullptr, state, lattice_.volume());
}

// The part of the state that the host decides.
void CgSolver::begin_state(int iteration_limit) {
    CgState state{};
    const double unit = source_rr_ / (scale_ * scale_); // |b|^2 of the sloppy system
    state.shift = shift_;
    state.scale = scale_;
    state.target_rr = limits_.tolerance > 0 ? limits_.tolerance * limits_.tolerance * unit : INFINITY;
    state.relative_target = limits_.relative_tolerance;
    state.reliable_factor = pure() ? 0 : limits_.reliable_delta * limits_.reliable_delta;
    state.iteration_limit = iteration_limit;
    device_.copy_to_device(state_.data(), &state, sizeof state);
}

// Iterates until the device says stop. The host queues one chunk ahead and looks at the chunk before.
CgStop CgSolver::iterate(const CgProgress &progress, CgReport &report) {
    std::unique_ptr<Device::Sequence> &chunk = sloppy_->chunk[limits_.relative_tolerance > 0];
    if (!chunk)
        chunk = std::make_unique<Device::Sequence>(device_, [this] {
            for (int k = 0; k < chunk_steps; ++k)
                iterate_once();
        });
    int queued = 0;
    const bool drains = sloppy_->level.spec.spinor != Precision::double_;
    const auto queue = [&](int slot) {
        chunk->run();
        queued += chunk_steps;
        if (drains && queued % steps_per_drain == 0)
            drain(device_, sloppy_->partial, solution_so_far(), scale_);
        device_.copy_to_pinned_later(seen_.get() + slot, state_.data(), sizeof(CgState));
        device_.record(slot);
    };
    queue(0);
    for (int slot = 0;; slot = 1 - slot) {
        queue(1 - slot);
        device_.wait(slot);
        const CgState seen = seen_.get()[slot];
        const double residual = std::sqrt(seen.rr) * scale_ / report.source_norm;
        if (progress)
            progress(report.steps + seen.iterations, residual);
        if (seen.stop == CgStop::running)
            continue;
        device_.wait(1 - slot); // the chunk queued in vain; its copy of the state must not land later
        report.steps += seen.iterations;
        report.iterations += seen.iterations;
        report.recursion_residual = residual;
        return seen.stop;
    }
}

// Norm of the source and the unit of the sloppy system: a power of two that makes vectors of order 1, whatever the
// units of the source. False when the source is zero.
bool CgSolver::load_source(CgReport &report) {
    norm_squared(device_, b_, sums_.data());
    source_rr_ = read(sums_.data());
    if (!(source_rr_ < INFINITY))
        require_finite(device_, b_, parity_, "source");
    if (source_rr_ == 0)
        return false;
    report.source_norm = std::sqrt(source_rr_);
    scale_ = unit_of(source_rr_, b_.sites());
    if (precise_->spec.spinor != Precision::double_) {
        convert_spinor(device_, b_, precise_b_, 1, nullptr);
        convert_spinor(device_, x_, precise_x_, 1, nullptr);
    }
    return true;
}

CgSolver::Residual CgSolver::true_residual(Level &level) {
    const bool in_double = level.spec.spinor == Precision::double_;
    if (in_double && precise_x_.sites() != 0)
        convert_spinor(device_, precise_x_, x_, 1, nullptr);
    const SpinorField &x = in_double ? x_ : precise_x_;
    residual(device_, lattice_, parity_, level.links, shift_, in_double ? b_ : precise_b_, x, level.between,
             level.residual, sums_.data());
    return read_residual(level, x);
}

// Fills what is known at the end; the last word on the residual is in double, from the links as handed over.
void CgSolver::finish(CgReport &report, const Residual *last_full) {
    const Residual residual = last_full != nullptr ? *last_full : true_residual(full_);
    report.true_residual = std::sqrt(residual.rr / source_rr_);
    report.relative_residual = residual.relative;
    const bool stopped_early = report.status == Status::not_converged || report.status == Status::precision_floor;
    if (stopped_early && accepted(residual)) { // the precise level, coarser than double, could not tell
        report.status = Status::ok;
        report.message.clear();
    }
    const size_t sites = b_.sites();
    const auto add_work = [&](const OperatorSpec &s, double times) {
        report.flops += times * (dslash_flops(Epilogue::plain, sites) + dslash_flops(Epilogue::residual, sites));
        report.bytes += times * (dslash_bytes(s.spinor, s.link, s.reals, Epilogue::plain, sites) +
                                 dslash_bytes(s.spinor, s.link, s.reals, Epilogue::residual, sites));
    };
    const int given_steps = sloppy_ == given_.get() ? report.steps : report.steps_in_half;
    add_work(given_->level.spec, given_steps);
    add_work(sloppy_->level.spec, report.steps - given_steps);
    add_work(precise_->spec, 1 + report.restarts + report.reliable_updates);
    report.flops += 36.0 * report.steps * sites; // x += alpha p, p = r + beta p, |p|^2
    report.bytes += double(report.steps) * sites *
                    (3 * spinor_bytes(sloppy_->level.spec.spinor) + 2 * spinor_bytes(sloppy_->partial.precision()));
}

// What ends the solve after an evaluation of the residual, if anything does.
bool CgSolver::ended(const Residual &residual, CgStop stop, int without_gain, CgReport &report) const {
    const bool fresh = pure() || stop == CgStop::iteration_limit;
    if (accepted(residual))
        return true;
    if (without_gain >= patience) {
        report.status = Status::precision_floor;
        report.message =
            format("the true residual stays at %.1e of |source|: %s precision gives no more (tolerance %.1e, "
                   "relative %.1e). Ask for less, or for a higher precision",
                   std::sqrt(residual.rr / source_rr_), name(precise_->spec.spinor), limits_.tolerance,
                   limits_.relative_tolerance);
        return true;
    }
    if ((fresh && report.restarts >= limits_.max_restarts) || report.iterations >= most_iterations()) {
        report.status = Status::not_converged;
        report.message = format("%d iterations with %d restarts did not reach the tolerance %.1e (relative %.1e); the "
                                "solution so far is returned",
                                report.iterations, report.restarts, limits_.tolerance, limits_.relative_tolerance);
        return true;
    }
    return false;
}

void CgSolver::reliable_update() {
    convert_spinor(device_, precise_->residual, sloppy_->fresh_residual, 1 / scale_, nullptr);
    cg_reliable_update(device_, sloppy_->fresh_residual, sloppy_->level.residual, sloppy_->direction, sloppy_->partial,
                       state_.data());
}

// After a reliable update: did the residual move by more than half precision may cost, and is there something finer?
bool CgSolver::jumped_too_far(CgReport &report) {
    CgState state;
    device_.copy_to_host(&state, state_.data(), sizeof state);
    const double jump = std::sqrt(state.jump / state.rr);
    report.largest_jump = std::fmax(report.largest_jump, jump);
    return jump > limits_.jump_limit && sloppy_->level.spec.spinor == Precision::half && finer_ != nullptr;
}

// The residual b - A x of a solution x changes by about |D dD x| when the links' rounding dD is put in: an element is
// off by q = scale 2^-15 / sqrt(12), dD by sqrt(8 * 6) q a colour vector (8 fat links of 6 terms), and D itself is
// about 2.5 on rough vectors. |x| is at most |r| / (4 m^2).
bool CgSolver::half_is_hopeless() const {
    const LinkField &fat = *given_->level.links.fat;
    if (given_->level.spec.spinor != Precision::half || fat.precision() != Precision::half || finer_ == nullptr)
        return false;
    const double noise = 2.5 * std::sqrt(48.0) * fat.scale / 32768 / std::sqrt(12.0);
    return noise > std::fmax(1.0, limits_.jump_limit) * shift_;
}

void CgSolver::change_to_finer() {
    if (!fine_) {
        const FinerLevel finer = finer_();
        fine_ = make_sloppy(finer.spec, finer.links);
    }
    sloppy_ = fine_.get();
}

// A stretch of sloppy iterations from precise_->residual, added to the solution. Returns why it ended.
CgStop CgSolver::advance(bool fresh, const CgProgress &progress, CgReport &report) {
    const int limit = std::min(limits_.max_iterations - report.iterations % limits_.max_iterations,
                               most_iterations() - report.iterations);
    begin_state(limit);
    if (!fresh) {
        reliable_update();
        ++report.reliable_updates;
        if (jumped_too_far(report)) { // the direction is worth nothing then
            change_to_finer();
            fresh = true;
        }
    }
    if (fresh) {
        const SpinorField &residual = sloppy_->level.residual;
        convert_spinor(device_, precise_->residual, residual, 1 / scale_, nullptr);
        cg_start(device_, residual, sloppy_->direction, sloppy_->partial, state_.data());
        ++report.restarts;
    }
    const int steps_before = report.steps;
    const CgStop stop = iterate(progress, report);
    if (sloppy_->level.spec.spinor == Precision::half)
        report.steps_in_half += report.steps - steps_before;
    if (stop == CgStop::nan_or_inf || stop == CgStop::not_positive) {
        report.status = stop == CgStop::nan_or_inf ? Status::nan_or_inf : Status::not_positive;
        report.message =
            format("%s at step %d; the solution returned is that of the last residual evaluation",
                   stop == CgStop::nan_or_inf ? "NaN or infinity" : "<p, A p> = 0 (a zero mode)", report.steps);
    } else {
        drain(device_, sloppy_->partial, solution_so_far(), scale_);
    }
    return stop;
}

CgReport CgSolver::solve(const CgLimits &limits, const CgProgress &progress) {
    CgReport report;
    const double start = wall_seconds();
    limits_ = limits;
    sloppy_ = given_.get();
    shift_ = 4 * limits.mass * limits.mass;
    if (!load_source(report)) {
        device_.fill_zero(x_.data(), x_.bytes());
        return report;
    }
    if (half_is_hopeless())
        change_to_finer();
    double best_rr = INFINITY;
    int without_gain = 0;
    CgStop stop = CgStop::iteration_limit; // nothing before: start afresh
    for (;;) {
        Residual residual = true_residual(*precise_);
        bool full = precise_ == &full_;
        report.iterations += stop != CgStop::reliable_update;
        if (!(residual.rr < INFINITY)) {
            require_finite(device_, x_, parity_, "initial guess");
            report.status = Status::nan_or_inf;
            report.message = "the residual overflowed";
        } else if (accepted(residual) && !full) {
            residual = true_residual(full_);
            full = true;
        }
        without_gain = residual.rr < 0.5 * best_rr ? 0 : without_gain + 1;
        best_rr = std::fmin(best_rr, residual.rr);
        if (report.status == Status::ok && !ended(residual, stop, without_gain, report)) {
            stop = advance(pure() || stop == CgStop::iteration_limit, progress, report);
            full = false;
        }
        if (report.status != Status::ok || accepted(residual)) {
            finish(report, full ? &residual : nullptr);
            report.seconds = wall_seconds() - start;
            return report;
        }
    }
}

} // namespace milcgpu
