#include "gpu_kernels/solver/cg.h"
#include <cmath>

namespace milcgpu {

namespace {

// Three times in a row the iteration believed in a gain of 2 in |r|^2, and evaluation did not show it: the precision
// has no more to give. (That the residual of conjugate gradient rises for a while means nothing.)
constexpr int patience = 3;

// Fall of the residual between evaluations. In half precision the residual's jump at an evaluation is what costs steps
// (2163 at 0.1, 1958 at 0.3 on a quenched 16^3 x 32 lattice, 1543 in double); in single it is too small to matter.
double default_delta(Precision sloppy) { return sloppy == Precision::half ? 0.3 : 0.1; }

// Links' rounding relative to the mass term (noise_of_links) above which updates in single precision cost steps, and
// the residual, as a multiple of the tolerance, at which single precision then takes over. Measured on quenched
// lattices at mass 0.002: at 1e6 a few steps more than in double, at 1e7 up to 15 % more.
constexpr double descend_above = 3e-3;
constexpr double go_down_at = 1e6;

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
    direction_ = field(Precision::double_);
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
    pending_sums_ = CgSums(device, lattice, parity);
    seen_ = {static_cast<CgState *>(device.allocate_pinned(2 * sizeof(CgState))),
             [&device](CgState *p) { device.release_pinned(p); }};
}

CgSolver::Level CgSolver::make_level(const OperatorSpec &spec, const LinkPair &links) {
    return {spec, links, SpinorField(device_, spec.spinor, lattice_.sites(1 - parity_), owner),
            SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner)};
}

std::unique_ptr<CgSolver::Sloppy> CgSolver::make_sloppy(const OperatorSpec &spec, const LinkPair &links) {
    auto sloppy = std::make_unique<Sloppy>();
    sloppy->spec = spec;
    sloppy->links = links;
    for (SpinorField &r : sloppy->r)
        r = SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner);
    if (!(spec == precise_->spec)) // else there is no reliable update
        sloppy->fresh_residual = SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner);
    sloppy->image = SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner);
    if (spec.spinor != Precision::double_)
        sloppy->copy = SpinorField(device_, spec.spinor, lattice_.sites(parity_), owner);
    sloppy->between = SpinorField(device_, spec.spinor, lattice_.sites(1 - parity_), owner);
    return sloppy;
}

size_t CgSolver::workspace_bytes(int sites, const OperatorSpec &precise, const OperatorSpec &sloppy) {
    const int copies = sloppy.spinor != Precision::double_, fresh_residuals = !(sloppy == precise);
    size_t reals = 5 * spinor_bytes(Precision::double_) +
                   (cg_kept_steps + 2 + copies + fresh_residuals) * spinor_bytes(sloppy.spinor);
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

CgSums::CgSums(Device &device, const Lattice &lattice, int parity)
    : plain(device, slots_of_sum(lattice.sites(1 - parity)), owner),
      step(device, 2 * slots_of_sum(lattice.sites(parity)), owner) {}

void iterate(Device &device, const CgIteration &it) {
    DslashCall call{};
    call.lattice = it.lattice;
    call.fat = it.links->fat, call.lng = it.links->lng;
    call.cg = it.state;
    call.along_p = it.v != it.r;
    call.judge = it.judge;
    call.parity = 1 - it.parity;
    call.in = it.v, call.out = it.between;
    call.pending = it.pending ? it.sums->step.data() : nullptr, call.defer = it.sums->plain.data();
    dslash(device, call, Epilogue::plain);
    call.parity = it.parity;
    call.in = it.between, call.out = it.r_new;
    call.x = it.v, call.z = it.r, call.s = it.s;
    call.pending = it.sums->plain.data(), call.defer = it.defer ? it.sums->step.data() : nullptr;
    dslash(device, call, Epilogue::step);
}

double CgSolver::read(const double *device_value) {
    double value;
    device_.copy_to_host(&value, device_value, sizeof value);
    return value;
}

// After residual(..., sums_[0]); the relative residual where it is asked for, else 1 as MILC reports it.
CgSolver::Residual CgSolver::read_residual(const Level &level) {
    double relative = 1;
    if (limits_.relative_tolerance > 0) {
        relative_residual(device_, level.residual, x_, sums_.data() + 1, nullptr, lattice_.volume());
        relative = std::sqrt(2 * read(sums_.data() + 1) / lattice_.volume());
    }
    return {read(sums_.data()), relative};
}

bool CgSolver::accepted(const Residual &r) const {
    return (limits_.tolerance <= 0 || r.rr < limits_.tolerance * limits_.tolerance * source_rr_) &&
           (limits_.relative_tolerance <= 0 || r.relative < limits_.relative_tolerance);
}

// Iteration k of a chunk: scalars stay on the device. Every cg_kept_steps of them x += alpha p, p = r + beta p, and the
// first of these goes along p.
void CgSolver::iterate_once(int k) {
    const SpinorField &r = sloppy_->before(k), &r_new = sloppy_->r[k];
    const bool relative = limits_.relative_tolerance > 0, first = k == 0, last = k == cg_kept_steps - 1;
    milcgpu::iterate(device_, {lattice_, parity_, &sloppy_->links, first ? &direction_copy() : &r, &r, &r_new,
                               &sloppy_->image, &sloppy_->between, !relative, state_.data(), &pending_sums_,
                               !relative && !first, !relative && !last});
    if (relative) { // it needs the solution of every iteration
        update_solution(1, false);
        relative_residual(device_, r_new, x_, nullptr, state_.data(), lattice_.volume());
    } else if (last) {
        update_solution(cg_kept_steps, false);
    }
}

void CgSolver::update_solution(int steps, bool stopped) {
    SolutionVectors vectors{};
    for (int k = 0; k < cg_kept_steps; ++k)
        vectors.r[k] = &sloppy_->r[k];
    vectors.p = &direction_, vectors.copy = &direction_copy(), vectors.x = &x_;
    update_solutions(device_, vectors, state_.data(), 1, steps, stopped);
}

// The part of the state that the host decides.
CgState CgSolver::begin_state(int iteration_limit, double target) const {
    CgState state{};
    state.shift = shift_;
    state.scale = scale_;
    state.target_rr = target;
    state.relative_target = limits_.relative_tolerance;
    const double delta = limits_.reliable_delta > 0 ? limits_.reliable_delta : default_delta(sloppy_->spec.spinor);
    state.reliable_factor = pure() ? 0 : delta * delta;
    state.iteration_limit = iteration_limit;
    return state;
}

// In the units of the sloppy system.
double CgSolver::target_rr() const {
    return limits_.tolerance > 0 ? limits_.tolerance * limits_.tolerance * source_rr_ / (scale_ * scale_) : INFINITY;
}

int CgSolver::steps_left(const CgReport &report) const {
    return std::min(limits_.max_iterations - report.iterations % limits_.max_iterations,
                    most_iterations() - report.iterations);
}

// Iterates until the device says stop. The host queues one chunk of cg_kept_steps ahead and looks at the chunk before:
// 100 microseconds of work or more, so that launches hide behind work and few steps are queued in vain.
CgStop CgSolver::iterate(const CgProgress &progress, CgReport &report) {
    std::unique_ptr<Device::Sequence> &chunk = sloppy_->chunk[limits_.relative_tolerance > 0];
    if (!chunk)
        chunk = std::make_unique<Device::Sequence>(device_, [this] {
            for (int k = 0; k < cg_kept_steps; ++k)
                iterate_once(k);
        });
    const auto queue = [&](int slot) {
        chunk->run();
        device_.copy_to_pinned_later(seen_.get() + slot, state_.data(), sizeof(CgState));
        device_.record(slot);
    };
    queue(0);
    for (int slot = 0;; slot = 1 - slot) {
        queue(1 - slot);
        device_.wait(slot);
        const CgState &seen = seen_.get()[slot];
        const double residual = std::sqrt(seen.rr) * scale_ / report.source_norm;
        if (progress)
            progress(report.steps + seen.iterations, residual);
        if (seen.stop == CgStop::running)
            continue;
        device_.wait(1 - slot); // the chunk queued in vain; its copy of the state must not land later
        last_ = seen;
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
    if (precise_->spec.spinor != Precision::double_)
        convert_spinor(device_, b_, precise_b_, 1, nullptr);
    return true;
}

// The precise level, where it is not double, rounds the solution to its precision: that is what the caller gets.
CgSolver::Residual CgSolver::true_residual(Level &level) {
    const bool in_double = level.spec.spinor == Precision::double_;
    if (!in_double) {
        convert_spinor(device_, x_, precise_x_, 1, nullptr);
        convert_spinor(device_, precise_x_, x_, 1, nullptr);
    }
    residual(device_, lattice_, parity_, level.links, shift_, in_double ? b_ : precise_b_, in_double ? x_ : precise_x_,
             level.between, level.residual, sums_.data());
    return read_residual(level);
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
    const auto add_work = [&](const OperatorSpec &s, double times, Epilogue second) {
        const bool step = second == Epilogue::step;
        report.flops += times * (dslash_flops(Epilogue::plain, sites) + dslash_flops(second, sites) +
                                 (step ? update_solutions_flops * sites : 0));
        report.bytes += times * (dslash_bytes(s.spinor, s.link, s.reals, Epilogue::plain, sites) +
                                 dslash_bytes(s.spinor, s.link, s.reals, second, sites) +
                                 (step ? update_solutions_bytes(s.spinor) * sites : 0));
    };
    const int below = report.steps - report.steps_in_precise;
    const int given_steps = sloppy_ == given_.get() ? below : report.steps_in_half;
    add_work(precise_->spec, report.steps_in_precise, Epilogue::step);
    add_work(given_->spec, given_steps, Epilogue::step);
    add_work(sloppy_->spec, below - given_steps, Epilogue::step);
    add_work(precise_->spec, 1 + report.restarts + report.reliable_updates, Epilogue::residual);
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
    cg_reliable_update(device_, sloppy_->fresh_residual, sloppy_->before(last_.iterations), sloppy_->start(),
                       {&direction_, &direction_copy()}, state_.data());
}

// After a reliable update: did the residual move by more than half precision may cost, and is there something finer?
bool CgSolver::jumped_too_far(CgReport &report) {
    CgState state;
    device_.copy_to_host(&state, state_.data(), sizeof state);
    const double jump = std::sqrt(state.jump / state.rr);
    report.largest_jump = std::fmax(report.largest_jump, jump);
    return jump > limits_.jump_limit && sloppy_->spec.spinor == Precision::half && finer_ != nullptr;
}

// The residual b - A x of a solution x changes by about |D dD x| when the links' rounding dD is put in: an element is
// off by q = scale epsilon / sqrt(12), dD by sqrt(8 * 6) q a colour vector (8 fat links of 6 terms), and D itself is
// about 2.5 on rough vectors. |x| is at most |r| / (4 m^2).
double CgSolver::noise_of_links(Precision p) const {
    const double epsilon = p == Precision::half ? 1.0 / 32768 : p == Precision::single ? 1.0 / (1 << 24) : 0;
    return 2.5 * std::sqrt(48.0) * given_->links.fat->scale * epsilon / std::sqrt(12.0) / shift_;
}

bool CgSolver::half_is_hopeless() const {
    return given_->spec.spinor == Precision::half && given_->links.fat->precision() == Precision::half &&
           finer_ != nullptr && noise_of_links(Precision::half) > std::fmax(1.0, limits_.jump_limit);
}

// Whether the solve is to start in the precise precision, and memory suffices for its vectors, which are then there.
bool CgSolver::prepare_descent() {
    if (precise_->spec.spinor != Precision::double_ || sloppy_->spec.spinor != Precision::single ||
        limits_.tolerance <= 0 || limits_.relative_tolerance > 0 || noise_of_links(Precision::single) <= descend_above)
        return false;
    try {
        if (!top_)
            top_ = make_sloppy(precise_->spec, precise_->links);
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
    }
    return top_ != nullptr;
}

void CgSolver::change_to_finer() {
    if (!fine_) {
        const FinerLevel finer = finer_();
        fine_ = make_sloppy(finer.spec, finer.links);
    }
    sloppy_ = fine_.get();
}

void CgSolver::start_sloppy(double target, const CgReport &report) {
    put(begin_state(steps_left(report), target));
    convert_spinor(device_, precise_->residual, sloppy_->start(), 1 / scale_, nullptr);
    cg_start(device_, sloppy_->start(), {&direction_, &direction_copy()}, state_.data());
}

// The iteration, and what it did added to the solution.
CgStop CgSolver::iterate_and_add(const CgProgress &progress, CgReport &report) {
    const int steps_before = report.steps;
    const CgStop stop = iterate(progress, report);
    if (sloppy_->spec.spinor == Precision::half)
        report.steps_in_half += report.steps - steps_before;
    if (stop == CgStop::nan_or_inf || stop == CgStop::not_positive) {
        report.status = stop == CgStop::nan_or_inf ? Status::nan_or_inf : Status::not_positive;
        report.message =
            format("%s at step %d; the solution returned is that of the last residual evaluation",
                   stop == CgStop::nan_or_inf ? "NaN or infinity" : "<p, A p> = 0 (a zero mode)", report.steps);
    }
    if (!(limits_.relative_tolerance > 0)) // else it is up to date
        update_solution(0, true);
    return stop;
}

// The first part of a solve that starts in the precise precision; the state is then that of the sloppy iteration.
// Returns running where that is to go on.
CgStop CgSolver::descend(const CgProgress &progress, CgReport &report) {
    Sloppy *below = sloppy_;
    sloppy_ = top_.get();
    start_sloppy(target_rr() * go_down_at * go_down_at, report);
    const int steps_before = report.steps;
    const CgStop stop = iterate_and_add(progress, report);
    report.steps_in_precise += report.steps - steps_before;
    sloppy_ = below;
    if (stop != CgStop::target)
        return stop;
    convert_spinor(device_, top_->before(last_.iterations), sloppy_->start(), 1, nullptr);
    convert_spinor(device_, direction_, sloppy_->copy, 1, nullptr);
    CgState state = begin_state(steps_left(report), target_rr());
    state.reliable_factor = 0;
    state.start(last_.rr, last_.pp);
    put(state);
    return CgStop::running;
}

// A stretch of sloppy iterations from precise_->residual, added to the solution. Returns why it ended.
CgStop CgSolver::advance(bool fresh, const CgProgress &progress, CgReport &report) {
    if (!fresh) {
        put(begin_state(steps_left(report), target_rr()));
        reliable_update();
        ++report.reliable_updates;
        if (jumped_too_far(report)) { // the direction is worth nothing then
            change_to_finer();
            fresh = true;
        }
    }
    if (fresh) {
        ++report.restarts;
        if (prepare_descent()) {
            const CgStop stop = descend(progress, report);
            if (stop != CgStop::running)
                return stop;
        } else {
            start_sloppy(target_rr(), report);
        }
    }
    return iterate_and_add(progress, report);
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
        const double believed = report.recursion_residual * report.recursion_residual * source_rr_;
        without_gain = residual.rr < 0.5 * best_rr ? 0 : without_gain + (believed < 0.5 * best_rr);
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
