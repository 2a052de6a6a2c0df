// The C interface to Wilson fermions.
#include "milc_glue/wilson.h"
#include "gpu_kernels/blas/blas.h"
#include "milc_glue/fat_links.h"
#include "milc_glue/multi_mass.h"
#include <cmath>

using namespace milcgpu;

namespace {

constexpr int reals_of_vector = 6 * wilson_components;
constexpr int both_parities = 2;
constexpr OperatorSpec in_double = {Precision::double_, Precision::double_, 18};

} // namespace

// ---- links and operators --------------------------------------------------------------------------------------------

void milcgpu_wilson::clear() {
    loaded = false;
    solver_.reset();
    versions_.clear();
    clovers_.clear();
}

// In double where `to` is, else from that. Terms of another coefficient are given back first.
milcgpu_wilson::Term milcgpu_wilson::clover(double coefficient, Precision precision) {
    if (coefficient == 0)
        return nullptr;
    if (coefficient != clover_coefficient_) {
        solver_.reset();
        clovers_.clear();
        clover_coefficient_ = coefficient;
    }
    Term &kept = clovers_[{both_parities, precision}];
    if (!kept) {
        auto made = std::make_shared<CloverField>(device(), precision, geometry(), "clover term");
        if (precision == Precision::double_)
            make_clover(device(), geometry(), as_given_, coefficient, *made);
        else
            convert_clover(device(), *clover(coefficient, Precision::double_), *made);
        made->checksum = checksum(device(), made->block(0, 0), made->bytes());
        kept = std::move(made);
    }
    return kept;
}

milcgpu_wilson::Term milcgpu_wilson::even_odd_clover(double coefficient, int parity, Precision precision) {
    const Term both = clover(coefficient, Precision::double_);
    if (!both)
        return nullptr;
    Term &kept = clovers_[{parity, precision}];
    if (!kept) {
        auto made = std::make_shared<CloverField>(device(), precision, geometry(), "clover term");
        if (precision == Precision::double_) {
            convert_clover(device(), *both, *made);
            invert_clover(device(), *both, 1 - parity, *made);
        } else {
            convert_clover(device(), *even_odd_clover(coefficient, parity, Precision::double_), *made);
        }
        made->checksum = checksum(device(), made->block(0, 0), made->bytes());
        kept = std::move(made);
    }
    return kept;
}

void milcgpu_wilson::load(const HostField &host) {
    clear();
    LinkField given(device(), host.real, 18, geometry(), "links of Wilson fermions");
    links_to_device(device(), host, context->map, geometry(), given);
    statistics_ = checked_gauge_field(device(), geometry(), given, -1);
    as_given_ = host.real == Precision::double_ ? std::move(given)
                                                : pack_links(device(), given, statistics_, geometry(),
                                                             Precision::double_, 18, "links of Wilson fermions")
                                                      .field;
    as_given_.checksum = checksum(device(), as_given_.block(0, 0), as_given_.bytes());
    loaded = true;
}

std::shared_ptr<const LinkField> milcgpu_wilson::version(OperatorSpec &spec) {
    if (spec.link == Precision::double_ && spec.reals == 18)
        return {std::shared_ptr<const LinkField>(), &as_given_};
    const auto found = versions_.find({spec.link, spec.reals});
    if (found != versions_.end()) {
        spec.reals = found->second->reals();
        return found->second;
    }
    const std::pair<Precision, int> asked = {spec.link, spec.reals};
    PackedLinks packed =
        pack_links(device(), as_given_, statistics_, geometry(), spec.link, spec.reals, "links of Wilson fermions");
    if (spec.reals < 18 && !(packed.worst_error <= accepted_error(spec.link))) {
        context->say(1,
                     format("links of Wilson fermions: %d reals in %s precision do not hold these links (worst error "
                            "of an element %.1e of the links' size, accepted %.1e); 18 reals are used",
                            spec.reals, name(spec.link), packed.worst_error, accepted_error(spec.link)));
        packed.field = LinkField(); // its memory before that of the other
        spec.reals = 18;
        return versions_[asked] = version(spec);
    }
    packed.field.checksum = checksum(device(), packed.field.block(0, 0), packed.field.bytes());
    return versions_[asked] = std::make_shared<const LinkField>(std::move(packed.field));
}

std::shared_ptr<const WilsonMatrix> milcgpu_wilson::matrix(const WilsonAction &action, int parity, OperatorSpec &spec) {
    const std::shared_ptr<const LinkField> links = version(spec);
    const Term term = even_odd_clover(action.clover, parity, spec.spinor);
    auto made = std::make_unique<WilsonMatrix>(device(), geometry(), parity, spec, *links, action.kappa, term.get());
    // Links and clover term stay as long as the operator does.
    return {made.release(), [links, term](const WilsonMatrix *M) { delete M; }};
}

milcgpu_wilson::Solver &milcgpu_wilson::solver(Method method, const WilsonAction &action, int parity,
                                               OperatorSpec &precise, OperatorSpec &sloppy) {
    version(precise), version(sloppy); // what is granted
    if (solver_ && solver_->action == action && solver_->parity == parity && solver_->precise == precise &&
        solver_->sloppy == sloppy && (solver_->cg != nullptr) == (method == Method::cg))
        return *solver_;
    solver_.reset(); // its memory first
    auto made = std::make_unique<Solver>(Solver{action, parity, precise, sloppy, nullptr, nullptr, nullptr});
    const auto normal = [&](OperatorSpec spec) -> Operator {
        return std::make_shared<const WilsonNormal>(matrix(action, parity, spec));
    };
    OperatorSpec full = in_double;
    made->full = matrix(action, parity, full);
    if (method == Method::bicgstab) {
        OperatorSpec spec = sloppy;
        made->bicgstab = std::make_unique<BicgstabSolver>(
            device(), BicgOperators{made->full, sloppy == in_double ? made->full : matrix(action, parity, spec)});
        solver_ = std::move(made);
        return *solver_;
    }
    CgOperators operators;
    operators.full = std::make_shared<const WilsonNormal>(made->full);
    operators.precise = precise == in_double ? operators.full : normal(precise);
    operators.sloppy = sloppy == precise ? operators.precise : normal(sloppy);
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
        operators.finer = [this, action, parity, reals = sloppy.reals]() -> Operator {
            OperatorSpec finer = {Precision::single, Precision::single, reals};
            return std::make_shared<const WilsonNormal>(matrix(action, parity, finer));
        };
    made->cg = std::make_unique<CgSolver>(device(), operators);
    solver_ = std::move(made);
    return *solver_;
}

void milcgpu_wilson::require_unchanged(const std::vector<Region> &regions) {
    if (!context->verify)
        return;
    for (const Region &region : regions)
        if (checksum(device(), region.data, region.bytes) != region.expected) {
            clear();
            throw Error(Status::corrupted,
                        format("the device no longer holds the %s that were loaded: a bit flipped, or somebody wrote "
                               "there. The handle is empty now: load the links again",
                               region.name));
        }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

namespace {

WilsonAction action_of(const milcgpu_wilson_spec *spec, const char *function) {
    require(spec, function, "spec");
    require_size(spec->struct_size, sizeof *spec, "milcgpu_wilson_spec");
    if (!(spec->kappa > 0 && spec->kappa < 1))
        refuse(format("spec.kappa is %g: must be above 0 and below 1", spec->kappa));
    if (!(std::fabs(spec->clover) < INFINITY))
        refuse(format("spec.clover is %g: must be finite; 0: no clover term", spec->clover));
    return {spec->kappa, spec->clover};
}

OperatorSpec wilson_operator_of(const milcgpu_operator &given, const char *what) {
    const OperatorSpec spec = operator_of(given, what);
    find_wilson(spec.spinor, spec.link, spec.reals); // throws not_built
    return spec;
}

void check_sign(int sign) {
    if (sign != 1 && sign != -1)
        refuse(format("sign is %d: must be 1 or -1", sign));
}

// 0 even, 1 odd.
std::vector<int> parities_of(int parity) {
    if (parity == MILCGPU_EVEN_AND_ODD)
        return {0, 1};
    return {parity_index(parity)};
}

// Throws Error(nan_or_inf) that names the first site and spin with NaN or infinity, where there is one.
void require_finite_vector(Device &device, const SpinorBlock &x, int parity, const char *what) {
    const DeviceArray<double> sum(device, 1, "norm of a vector");
    norm_squared(device, x, sum.data());
    if (sum.to_host()[0] < INFINITY)
        return;
    for (int d = 0; d < x.components; ++d)
        require_finite(device, x.component(d), parity, format("%s, spin %d", what, d).c_str());
    throw Error(Status::nan_or_inf,
                format("%s: its norm overflows on %s sites; use smaller units", what, parity == 0 ? "even" : "odd"));
}

// Vectors of a call on both parities, in one precision.
struct Vectors {
    SpinorField on[2];
    Vectors(milcgpu_wilson &w, Precision precision, const char *owner) {
        for (int parity = 0; parity < 2; ++parity)
            on[parity] = SpinorField(w.device(), precision, w.geometry(), parity, owner, 1, wilson_components);
    }
    void load(milcgpu_wilson &w, const HostField &from, int parity, const char *what) {
        w.reorder.to_device(from, parity, on[parity]);
        require_finite_vector(w.device(), on[parity], parity, what);
    }
};

// out = D_sign in on `parity`, or, with `own`, own - factor D_sign in.
WilsonCall call_on(const milcgpu_wilson &w, const LinkField &links, int parity, int sign, const SpinorBlock &in,
                   const SpinorBlock &out) {
    WilsonCall call{};
    call.lattice = w.geometry().lattice();
    call.parity = parity;
    call.links = &links;
    call.form = WilsonForm::hop;
    call.sign = sign;
    call.in = in, call.out = out;
    return call;
}
WilsonCall call_on(const milcgpu_wilson &w, const LinkField &links, int parity, int sign, const SpinorBlock &in,
                   const SpinorBlock &out, const SpinorBlock &own, double factor) {
    WilsonCall call = call_on(w, links, parity, sign, in, out);
    call.form = WilsonForm::matrix;
    call.own = own, call.factor = factor;
    return call;
}

void need_links(const milcgpu_wilson &w) {
    if (!w.loaded)
        refuse("there are no links: load them first (milcgpu_wilson_load)");
}

// body(wilson) with its context's device current and its errors as a status.
template <class Body> milcgpu_status with_wilson(milcgpu_wilson *wilson, const char *function, const Body &body) {
    return guarded(wilson != nullptr ? wilson->context : nullptr, function, [&] {
        require(wilson, function, "wilson");
        return body(*wilson);
    });
}

// D (no kappa) or M on the sites of `parity`.
milcgpu_status apply(const char *function, milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                     const milcgpu_operator *what, int sign, int parity, const milcgpu_field *source,
                     const milcgpu_field *destination, bool matrix) {
    return with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        const WilsonAction action = matrix ? action_of(spec, function) : WilsonAction{0, 0};
        require(what, function, "what");
        OperatorSpec as = wilson_operator_of(*what, "what");
        check_sign(sign);
        const std::vector<int> to_parities = parities_of(parity);
        const HostField from = host_field(source, reals_of_vector, "source");
        const HostField to = host_field(destination, reals_of_vector, "destination");
        need_links(w);
        const std::shared_ptr<const LinkField> links = w.version(as);
        const milcgpu_wilson::Term term = w.clover(action.clover, as.spinor);
        Vectors in(w, as.spinor, "Wilson vectors"), out(w, as.spinor, "Wilson vectors");
        for (const int p : {0, 1}) {
            const bool reads = matrix || to_parities.size() == 2 || p != to_parities[0];
            if (reads)
                in.load(w, from, p, "source");
        }
        for (const int p : to_parities) {
            const SpinorBlock &hops = in.on[1 - p];
            WilsonCall call = matrix ? call_on(w, *links, p, sign, hops, out.on[p], in.on[p], action.kappa)
                                     : call_on(w, *links, p, sign, hops, out.on[p]);
            call.term = term.get();
            milcgpu::wilson(w.device(), call, Epilogue::plain);
            require_finite_vector(w.device(), out.on[p], p, "result");
        }
        std::vector<Region> regions = {links->region("links of Wilson fermions")};
        if (term)
            regions.push_back(term->region("clover term of Wilson fermions"));
        w.require_unchanged(regions);
        for (const int p : to_parities) // from here on nothing but the copies themselves can fail
            w.reorder.to_host(out.on[p], p, to);
        return Status::ok;
    });
}

// The even-odd system of M x = b in double, and what it gives for both parities.
class EvenOdd {
  public:
    EvenOdd(milcgpu_wilson &w, const WilsonMatrix &M, const WilsonAction &action)
        : w_(w), M_(M), kappa_(action.kappa), term_(w.clover(action.clover, Precision::double_)),
          mixed_(w.even_odd_clover(action.clover, M.parity(), Precision::double_)),
          b_(w, Precision::double_, "Wilson source"), x_(w, Precision::double_, "Wilson solution"),
          r_(w.device(), Precision::double_, w.geometry(), M.parity(), "Wilson residual", 1, wilson_components),
          sums_(w.device(), 2, "norm of a vector") {}
    Vectors &source() { return b_; }
    const SpinorBlock &solution(int parity) const { return x_.on[parity]; }

    // to = b_p + kappa D_pq R_q^-1 b_q
    void even_odd_source(const SpinorBlock &to) const {
        const int p = M_.parity(), q = 1 - p;
        if (mixed_)
            multiply_clover(w_.device(), *mixed_, q, b_.on[q], x_.on[q]);
        hop(p, mixed_ ? x_.on[q] : b_.on[q], to, b_.on[p], -kappa_);
    }
    // to = M_p^dag of that
    void normal_source(const SpinorBlock &to) const {
        even_odd_source(r_);
        MatrixCall call;
        call.in = r_, call.out = to;
        M_.apply_dagger(w_.device(), call);
    }
    // Both parities of x from x_p; returns |b - M x|.
    double complete(const SpinorBlock &x_p) const {
        const int p = M_.parity();
        convert_spinor(w_.device(), x_p, x_.on[p], 1, nullptr);
        hop(1 - p, x_.on[p], x_.on[1 - p], b_.on[1 - p], -kappa_);
        if (mixed_)
            multiply_clover(w_.device(), *mixed_, 1 - p, x_.on[1 - p], x_.on[1 - p]);
        double rr = 0;
        for (const int parity : {0, 1}) {
            WilsonCall call = call_on(w_, w_.as_given(), parity, 1, x_.on[1 - parity], r_, x_.on[parity], kappa_);
            call.x = x_.on[parity], call.z = b_.on[parity];
            call.a = 0, call.alpha = 1;
            call.term = term_.get();
            call.sum = sums_.data();
            wilson(w_.device(), call, Epilogue::residual);
            rr += sums_.to_host()[0];
        }
        return std::sqrt(rr);
    }
    double norm_of(const SpinorBlock &x) const {
        norm_squared(w_.device(), x, sums_.data());
        return std::sqrt(sums_.to_host()[0]);
    }
    double source_norm() const {
        for (const int parity : {0, 1})
            norm_squared(w_.device(), b_.on[parity], sums_.data() + parity);
        const std::vector<double> bb = sums_.to_host();
        return std::sqrt(bb[0] + bb[1]);
    }

  private:
    void hop(int parity, const SpinorBlock &in, const SpinorBlock &out, const SpinorBlock &own, double factor) const {
        wilson(w_.device(), call_on(w_, w_.as_given(), parity, 1, in, out, own, factor), Epilogue::plain);
    }
    milcgpu_wilson &w_;
    const WilsonMatrix &M_;
    double kappa_;
    milcgpu_wilson::Term term_, mixed_; // R; R on p and R^-1 on q
    Vectors b_, x_;
    SpinorField r_;
    DeviceArray<double> sums_;
};

// The normal equations are solved to `tolerance`, and where |b - M x| / |b| is not below it then, again to less, at
// most so many times.
constexpr int most_passes = 6;

void add(const CgReport &of_pass, CgReport &all) {
    const CgReport before = all;
    all = of_pass;
    all.iterations += before.iterations;
    all.steps += before.steps;
    all.restarts += before.restarts;
    all.reliable_updates += before.reliable_updates;
    all.steps_in_precise += before.steps_in_precise;
    all.steps_in_half += before.steps_in_half;
    all.largest_jump = std::fmax(all.largest_jump, before.largest_jump);
    all.seconds += before.seconds;
    all.flops += before.flops, all.bytes += before.bytes;
}

CgReport solve_even_odd(const EvenOdd &system, CgSolver &cg, const CgLimits &limits, const CgProgress &progress) {
    CgReport report;
    const double bb = system.source_norm();
    CgLimits of_pass = limits;
    of_pass.tolerance *= 0.5; // M^dag r falls before r does
    system.normal_source(cg.source());
    for (int pass = 1;; ++pass) {
        add(cg.solve(of_pass, progress), report);
        const double residual = system.complete(cg.solution());
        report.true_residual = bb > 0 ? residual / bb : residual > 0 ? INFINITY : 0;
        const bool usable = report.status == Status::ok || report.status == Status::not_converged ||
                            report.status == Status::precision_floor;
        if (usable && report.true_residual < limits.tolerance) {
            report.status = Status::ok;
            report.message.clear();
            break;
        }
        if (report.status != Status::ok)
            break;
        if (!(report.true_residual < INFINITY)) {
            report.status = Status::nan_or_inf;
            report.message = "the residual overflowed";
            break;
        }
        of_pass.tolerance *= 0.5 * limits.tolerance / report.true_residual;
        if (pass == most_passes) {
            report.status = Status::precision_floor;
            report.message = format("the normal equations are solved to %.1e, but |b - M x| / |b| stays at %.1e "
                                    "(tolerance %.1e): the precision gives no more. Ask for less, or for a higher "
                                    "precision",
                                    report.recursion_residual, report.true_residual, limits.tolerance);
            break;
        }
    }
    report.source_norm = bb;
    report.relative_residual = 1;
    return report;
}

// BiCGstab's own residual is that of the whole system: on the other parity there is none but rounding.
CgReport solve_even_odd(const EvenOdd &system, BicgstabSolver &solver, const CgLimits &limits,
                        const BicgProgress &progress) {
    CgReport report;
    const double bb = system.source_norm();
    system.even_odd_source(solver.source());
    BicgLimits of_pass;
    of_pass.max_iterations = limits.max_iterations, of_pass.max_restarts = limits.max_restarts;
    of_pass.reliable_delta = limits.reliable_delta;
    if (limits.jump_limit > 0)
        of_pass.jump_limit = limits.jump_limit;
    of_pass.tolerance = limits.tolerance * bb / system.norm_of(solver.source());
    for (int pass = 1;; ++pass) {
        if (!(of_pass.tolerance > 0 && of_pass.tolerance < INFINITY))
            of_pass.tolerance = limits.tolerance; // a source of zero
        const BicgReport r = solver.solve(of_pass, progress);
        CgReport of_this;
        of_this.status = r.status, of_this.message = r.message;
        of_this.iterations = of_this.steps = r.steps;
        of_this.restarts = r.restarts, of_this.reliable_updates = r.reliable_updates;
        of_this.recursion_residual = r.recursion_residual, of_this.largest_jump = r.largest_jump;
        of_this.seconds = r.seconds, of_this.flops = r.flops, of_this.bytes = r.bytes;
        add(of_this, report);
        const double residual = system.complete(solver.solution());
        report.true_residual = bb > 0 ? residual / bb : residual > 0 ? INFINITY : 0;
        const bool reached = report.true_residual < limits.tolerance;
        if (report.status == Status::precision_floor && reached) {
            report.status = Status::ok;
            report.message.clear();
        }
        if (report.status != Status::ok || reached)
            break;
        if (pass == most_passes || !(report.true_residual < INFINITY)) {
            const bool finite = report.true_residual < INFINITY;
            report.status = finite ? Status::precision_floor : Status::nan_or_inf;
            report.message = format("the residual of the even-odd system is below the tolerance %.1e, but |b - M x| / "
                                    "|b| stays at %.1e. Ask for less",
                                    limits.tolerance, report.true_residual);
            break;
        }
        of_pass.tolerance *= 0.5 * limits.tolerance / report.true_residual;
    }
    report.source_norm = bb;
    report.relative_residual = 1;
    return report;
}

void check_unused(bool unused, const char *what) {
    if (!unused)
        refuse(format("%s must be 0: calls for Wilson fermions do not take it", what));
}

milcgpu_status solve(const char *function, milcgpu_wilson::Method method, milcgpu_wilson &w,
                     const milcgpu_wilson_spec *spec, const milcgpu_solve_spec *how, const milcgpu_field *source,
                     const milcgpu_field *solution, milcgpu_solve_report &report) {
    const CallMeter meter(w.device());
    const WilsonAction action = action_of(spec, function);
    require(how, function, "how");
    SolveArguments a = checked_solve(*how);
    check_unused(how->mass == 0, "how->mass");
    check_unused(how->relative_tolerance == 0, "how->relative_tolerance");
    check_unused(how->links_version == 0, "how->links_version");
    for (const OperatorSpec &of : {a.precise, a.sloppy})
        find_wilson(of.spinor, of.link, of.reals); // throws not_built
    const HostField from = host_field(source, reals_of_vector, "source");
    const HostField to = host_field(solution, reals_of_vector, "solution");
    need_links(w);
    const bool bicgstab = method == milcgpu_wilson::Method::bicgstab;
    if (bicgstab && !(a.precise == in_double))
        refuse("how->precise: BiCGstab keeps solution and residuals in double with 18 reals a link; must be that");
    milcgpu_wilson::Solver &solver = w.solver(method, action, a.parity, a.precise, a.sloppy);
    EvenOdd system(w, *solver.full, action);
    const SpinorField &guess = bicgstab ? solver.bicgstab->solution() : solver.cg->solution();
    for (const int parity : {0, 1})
        system.source().load(w, from, parity, "source");
    w.reorder.to_device(to, a.parity, guess);
    require_finite_vector(w.device(), guess, a.parity, "initial guess");
    CgProgress progress;
    if (how->progress != nullptr)
        progress = [how](int step, double residual) { how->progress(how->user, step, residual); };
    a.limits.shift = 0;
    const CgReport r = bicgstab ? solve_even_odd(system, *solver.bicgstab, a.limits, progress)
                                : solve_even_odd(system, *solver.cg, a.limits, progress);
    w.require_unchanged(bicgstab ? solver.bicgstab->stands_on() : solver.cg->stands_on(false));
    fill_report(r, a, report);
    if (r.status != Status::ok)
        set_last_error(function, r.message.c_str());
    // From here on nothing but the copies themselves can fail.
    if (r.status == Status::ok || r.status == Status::not_converged || r.status == Status::precision_floor)
        for (const int parity : {0, 1})
            w.reorder.to_host(system.solution(parity), parity, to);
    meter.fill(report);
    w.context->tell(2, [&] {
        return format(
            "Wilson solve %s/%s kappa %g clover %g: %s, %d iterations, true residual %.2e, %.4f s, %.1f GFLOPS",
            name(a.precise.spinor), name(a.sloppy.spinor), action.kappa, action.clover,
            milcgpu_status_name(report.status), report.iterations, report.true_residual, report.seconds, report.gflops);
    });
    return static_cast<milcgpu_status>(r.status);
}

milcgpu_status multi_mass(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_multi_mass_spec *how,
                          const milcgpu_field *source, const milcgpu_field *solutions,
                          milcgpu_multi_mass_report &report) {
    constexpr const char *function = "milcgpu_wilson_multi_mass";
    const CallMeter meter(w.device());
    const WilsonAction action = action_of(spec, function);
    require(how, function, "how");
    MultiMassArguments a = checked_multi_mass(*how);
    check_unused(how->links_version == 0, "how->links_version");
    const std::vector<OperatorSpec> levels = stages_of(a);
    for (const OperatorSpec &of : levels)
        find_wilson(of.spinor, of.link, of.reals); // throws not_built
    find_wilson(a.precise.spinor, a.precise.link, a.precise.reals);
    find_wilson(a.sloppy.spinor, a.sloppy.link, a.sloppy.reals);
    const int n = how->n_shifts;
    if (n > 0)
        require(solutions, function, "solutions");
    std::vector<HostField> to;
    for (int k = 0; k < n; ++k) {
        check_unused(how->shifts[k].relative_tolerance == 0, format("shifts[%d].relative_tolerance", k).c_str());
        to.push_back(host_field(&solutions[k], reals_of_vector, format("solutions[%d]", k).c_str()));
    }
    const HostField from = host_field(source, reals_of_vector, "source");
    need_links(w);
    if (n == 0)
        return MILCGPU_OK;
    milcgpu_wilson::Solver &refiner = w.solver(milcgpu_wilson::Method::cg, action, a.parity, a.precise, a.sloppy);
    std::vector<Operator> stages;
    for (OperatorSpec level : levels)
        stages.push_back(std::make_shared<const WilsonNormal>(w.matrix(action, a.parity, level)));
    MultiMassSolver solver(w.device(), stages, std::make_shared<const WilsonNormal>(refiner.full), nullptr, n,
                           *refiner.cg);
    w.reorder.to_device(from, a.parity, solver.source());
    require_finite_vector(w.device(), solver.source(), a.parity, "source");
    CgProgress progress;
    if (how->progress != nullptr)
        progress = [how](int step, double residual) { how->progress(how->user, step, residual); };
    const MultiMassReport r = solver.solve(a.limits, progress);
    w.require_unchanged(solver.stands_on(false));
    fill_report(r, n, report);
    if (r.status != Status::ok)
        set_last_error(function, r.message.c_str());
    // From here on nothing but the copies themselves can fail.
    const bool nothing = r.status == Status::nan_or_inf || r.status == Status::not_positive;
    for (int k = 0; k < n && !nothing; ++k)
        w.reorder.to_host(solver.solution(k), a.parity, to[k]);
    meter.fill(report);
    return static_cast<milcgpu_status>(r.status);
}

milcgpu_status solve_by(milcgpu_wilson::Method method, const char *function, milcgpu_wilson *wilson,
                        const milcgpu_wilson_spec *spec, const milcgpu_solve_spec *how, const milcgpu_field *source,
                        const milcgpu_field *solution, milcgpu_solve_report *report) {
    milcgpu_solve_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        if (report != nullptr)
            require_size(report->struct_size, sizeof *report, "milcgpu_solve_report");
        return solve(function, method, w, spec, how, source, solution, filled);
    });
    return hand_back(status, filled, report);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_wilson_create(milcgpu_context *context, milcgpu_wilson **wilson) {
    constexpr const char *function = "milcgpu_wilson_create";
    if (wilson != nullptr)
        *wilson = nullptr;
    return guarded(context, function, [&] {
        require(context, function, "context");
        require(wilson, function, "wilson");
        if (context->geometry.is_cut())
            refuse("the lattice is cut over ranks: Wilson fermions need one rank that has all of it");
        *wilson = std::make_unique<milcgpu_wilson>(context).release();
        return Status::ok;
    });
}

void milcgpu_wilson_destroy(milcgpu_wilson *wilson) {
    if (wilson == nullptr)
        return;
    make_current_if_possible(*wilson->context);
    delete wilson;
}

milcgpu_status milcgpu_wilson_load(milcgpu_wilson *wilson, const milcgpu_field *links) {
    return with_wilson(wilson, "milcgpu_wilson_load", [&](milcgpu_wilson &w) {
        w.load(host_field(links, 72, "links"));
        return Status::ok;
    });
}

milcgpu_status milcgpu_wilson_dslash(milcgpu_wilson *wilson, const milcgpu_operator *what, int sign, int parity,
                                     const milcgpu_field *source, const milcgpu_field *destination) {
    return apply("milcgpu_wilson_dslash", wilson, nullptr, what, sign, parity, source, destination, false);
}

milcgpu_status milcgpu_wilson_matrix(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                     const milcgpu_operator *what, int sign, int parity, const milcgpu_field *source,
                                     const milcgpu_field *destination) {
    return apply("milcgpu_wilson_matrix", wilson, spec, what, sign, parity, source, destination, true);
}

milcgpu_status milcgpu_wilson_solve(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                    const milcgpu_solve_spec *how, const milcgpu_field *source,
                                    const milcgpu_field *solution, milcgpu_solve_report *report) {
    return solve_by(milcgpu_wilson::Method::cg, "milcgpu_wilson_solve", wilson, spec, how, source, solution, report);
}

milcgpu_status milcgpu_wilson_bicgstab(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                       const milcgpu_solve_spec *how, const milcgpu_field *source,
                                       const milcgpu_field *solution, milcgpu_solve_report *report) {
    return solve_by(milcgpu_wilson::Method::bicgstab, "milcgpu_wilson_bicgstab", wilson, spec, how, source, solution,
                    report);
}

milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report) {
    milcgpu_multi_mass_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_wilson(wilson, "milcgpu_wilson_multi_mass", [&](milcgpu_wilson &w) {
        if (report != nullptr) {
            require_size(report->struct_size, sizeof *report, "milcgpu_multi_mass_report");
            filled.shifts = report->shifts;
        }
        return multi_mass(w, spec, how, source, solutions, filled);
    });
    return hand_back(status, filled, report);
}

} // extern "C"
