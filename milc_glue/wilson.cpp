// The C interface to Wilson fermions.
#include "milc_glue/wilson.h"
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/fat_links.h"
#include "milc_glue/multi_mass.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace milcgpu;

namespace {

constexpr int reals_of_vector = 6 * wilson_components;
constexpr OperatorSpec in_double = {Precision::double_, Precision::double_, 18};

} // namespace

// ---- links and operators --------------------------------------------------------------------------------------------

void milcgpu_wilson::clear() {
    loaded = false;
    solver_.reset();
    versions_.clear();
    clover_.clear();
}

void milcgpu_wilson::load(const HostField &host) {
    clear();
    LinkField given;
    device().agree("the loading of links", [&] {
        given = LinkField(device(), host.real, 18, geometry(), "links of Wilson fermions");
        links_to_device(device(), host, context->map, geometry(), given);
    });
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
    const std::pair<Precision, int> asked = {spec.link, spec.reals};
    const auto found = versions_.find(asked);
    if (found != versions_.end()) {
        if (found->second)
            return found->second;
        spec.reals = 18;
        return version(spec);
    }
    PackedLinks packed =
        pack_links(device(), as_given_, statistics_, geometry(), spec.link, spec.reals, "links of Wilson fermions");
    if (spec.reals < 18 && !(packed.worst_error <= accepted_error(spec.link))) {
        context->say(1,
                     format("links of Wilson fermions: %d reals in %s precision do not hold these links (worst error "
                            "of an element %.1e of the links' size, accepted %.1e); 18 reals are used",
                            spec.reals, name(spec.link), packed.worst_error, accepted_error(spec.link)));
        packed.field = LinkField(); // its memory before that of the other
        spec.reals = 18;
        versions_[asked] = nullptr;
        return version(spec);
    }
    packed.field.checksum = checksum(device(), packed.field.block(0, 0), packed.field.bytes());
    return versions_[asked] = std::make_shared<const LinkField>(std::move(packed.field));
}

std::shared_ptr<const CloverField> milcgpu_wilson::with_checksum(CloverField made) const {
    made.checksum = checksum(device(), made.block(0, 0), made.bytes());
    return std::make_shared<const CloverField>(std::move(made));
}

CloverVersion milcgpu_wilson::clover(double cku0, Precision precision, int divided) {
    if (cku0 == 0)
        return {};
    if (cku0 != cku0_) {
        solver_.reset(); // it has the others
        clover_.clear();
        cku0_ = cku0;
    }
    // R where `of` is none, else its inverse there. Held here while others are made.
    const auto one = [&](Precision in, int of, const auto &make) {
        std::shared_ptr<const CloverField> found = clover_[{in, of}];
        if (!found) {
            CloverField made;
            device().agree("memory for a clover term", [&] {
                made = {device(), in, geometry(), of == none ? "clover term" : "inverse of the clover term"};
            });
            make(made);
            found = with_checksum(std::move(made));
            clover_[{in, of}] = found;
        }
        return found;
    };
    const auto in_full = [&](int of) {
        return one(Precision::double_, of, [&](CloverField &made) {
            if (of == none) {
                WithMargin around(device(), context->geometry, context->halo.get(), Precision::double_);
                const LinkField &u = around.of(as_given_, clover_reach);
                return make_clover(device(), around.box(), u, cku0, made);
            }
            invert_clover(device(), *clover(cku0, Precision::double_, none).term, of, made);
        });
    };
    const auto version = [&](int of) {
        if (precision == Precision::double_)
            return in_full(of);
        return one(precision, of, [&](CloverField &made) { convert_clover(device(), *in_full(of), made); });
    };
    CloverVersion both;
    both.term = version(none);
    if (divided != none)
        both.inverse = version(divided);
    return both;
}

std::shared_ptr<const WilsonMatrix> milcgpu_wilson::matrix(const WilsonParameters &of, int parity, OperatorSpec &spec) {
    const std::shared_ptr<const LinkField> links = version(spec);
    const CloverVersion R = clover(of.cku0, spec.spinor, 1 - parity);
    std::unique_ptr<WilsonMatrix> made;
    device().agree("memory for a Wilson operator", [&] {
        made = std::make_unique<WilsonMatrix>(device(), geometry(), parity, spec, *links, of.kappa, R.pair(), halo());
    });
    // The links and the term stay as long as the operator does.
    return {made.release(), [links, R](const WilsonMatrix *M) { delete M; }};
}

milcgpu_wilson::Solver &milcgpu_wilson::solver(const WilsonParameters &of, int parity, int method,
                                               OperatorSpec &precise, OperatorSpec &sloppy) {
    version(precise), version(sloppy); // what is granted
    solver_in_use_ = true;
    if (solver_ && solver_->of == of && solver_->parity == parity && solver_->method == method &&
        solver_->precise == precise && solver_->sloppy == sloppy)
        return *solver_;
    solver_.reset(); // its memory first
    auto made =
        std::make_unique<Solver>(Solver{of, parity, method, precise, sloppy, nullptr, nullptr, nullptr, nullptr, {}});
    OperatorSpec full = in_double;
    made->full = matrix(of, parity, full);
    if (method == MILCGPU_WILSON_BICGSTAB) {
        OperatorSpec iterates = sloppy;
        const SharedMatrix M = sloppy == in_double ? made->full : matrix(of, parity, iterates);
        device().agree("memory for a solver", [&] {
            made->bicgstab = std::make_unique<BicgstabSolver>(device(), BicgOperators{made->full, M});
        });
    } else {
        const auto normal = [&](OperatorSpec spec) -> Operator {
            return std::make_shared<const WilsonNormal>(matrix(of, parity, spec));
        };
        CgOperators operators;
        operators.full = std::make_shared<const WilsonNormal>(made->full);
        operators.precise = precise == in_double ? operators.full : normal(precise);
        operators.sloppy = sloppy == precise ? operators.precise : normal(sloppy);
        if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
            operators.finer = [this, of, parity, reals = sloppy.reals]() -> Operator {
                OperatorSpec finer = {Precision::single, Precision::single, reals};
                return std::make_shared<const WilsonNormal>(matrix(of, parity, finer));
            };
        device().agree("memory for a solver", [&] { made->cg = std::make_unique<CgSolver>(device(), operators); });
    }
    solver_ = std::move(made);
    return *solver_;
}

bool milcgpu_wilson::give_back() {
    if (halo_ != nullptr)
        return false;
    if (solver_ && !solver_in_use_) {
        solver_.reset();
        context->say(2, "memory is short: an idle solver of Wilson fermions is given back");
        return true;
    }
    const size_t before = versions_.size() + clover_.size();
    const auto drop_unused = [](auto &kept) {
        for (auto entry = kept.begin(); entry != kept.end();)
            entry = entry->second.use_count() == 1 ? kept.erase(entry) : std::next(entry);
    };
    drop_unused(versions_);
    drop_unused(clover_);
    if (versions_.size() + clover_.size() == before)
        return false;
    context->say(2, "memory is short: packed links and clover terms of Wilson fermions are given back");
    return true;
}

void milcgpu_wilson::require_unchanged(const std::vector<Region> &regions) {
    if (!context->verify)
        return;
    try {
        device().agree("a look at links of Wilson fermions", [&] {
            for (const Region &region : regions)
                if (checksum(device(), region.data, region.bytes) != region.expected)
                    throw Error(Status::corrupted,
                                format("the device no longer holds the %s that were loaded: a bit flipped, or somebody "
                                       "wrote there. The handle is empty now: load the links again",
                                       region.name));
        });
    } catch (const Error &error) {
        if (error.status() == Status::corrupted)
            clear();
        throw;
    }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

namespace {

WilsonParameters parameters_of(const milcgpu_wilson_spec *spec, const char *function) {
    require(spec, function, "spec");
    require_size(spec->struct_size, sizeof *spec, "milcgpu_wilson_spec");
    if (!(spec->kappa > 0 && spec->kappa < 1))
        refuse(format("spec.kappa is %g: must be above 0 and below 1", spec->kappa));
    if (!(std::fabs(spec->clover) < 1e6))
        refuse(format("spec.clover is %g: must be a number of the size of 1; 0: Wilson fermions", spec->clover));
    if (spec->method != MILCGPU_WILSON_BICGSTAB && spec->method != MILCGPU_WILSON_CG)
        refuse(format("spec.method is %d: must be MILCGPU_WILSON_BICGSTAB (0) or MILCGPU_WILSON_CG (1)", spec->method));
    if (spec->even_odd != 0 && spec->even_odd != 1)
        refuse(format("spec.even_odd is %d: must be 0 or 1", spec->even_odd));
    return {spec->kappa, spec->kappa * spec->clover};
}

OperatorSpec wilson_operator_of(const milcgpu_operator &given, const char *what) {
    const OperatorSpec spec = operator_of(given, what);
    find_wilson(spec.spinor, spec.link, spec.reals); // throws not_built
    return spec;
}

// And what ranks must have alike of a spec.
Numbers with_parameters(Numbers numbers, const milcgpu_wilson_spec &spec) {
    numbers.insert(numbers.end(), {{"spec.kappa", spec.kappa},
                                   {"spec.clover", spec.clover},
                                   {"spec.method", double(spec.method)},
                                   {"spec.even_odd", double(spec.even_odd)}});
    return numbers;
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
    DeviceArray<double> sum;
    device.agree("room for a norm", [&] { sum = {device, 1, "norm of a vector"}; });
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
        w.device().agree("memory for Wilson vectors", [&] {
            for (int parity = 0; parity < 2; ++parity)
                on[parity] = SpinorField(w.device(), precision, w.geometry(), parity, owner, 1, wilson_components);
        });
    }
    void load(milcgpu_wilson &w, const HostField &from, int parity, const char *what) {
        w.device().agree("the loading of a vector", [&] { w.reorder.to_device(from, parity, on[parity]); });
        require_finite_vector(w.device(), on[parity], parity, what);
    }
};

// out = D_sign in on `parity`, or, with `own`, own - factor D_sign in.
WilsonCall call_on(const milcgpu_wilson &w, const LinkField &links, int parity, int sign, const SpinorBlock &in,
                   const SpinorBlock &out) {
    WilsonCall call{};
    call.lattice = w.halo() != nullptr ? w.halo()->lattice : w.geometry().lattice();
    call.halo = w.halo();
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
        const milcgpu_wilson::Call call(*wilson);
        return body(*wilson);
    });
}

// D (no kappa) or M on the sites of `parity`.
milcgpu_status apply(const char *function, milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                     const milcgpu_operator *what, int sign, int parity, const milcgpu_field *source,
                     const milcgpu_field *destination, bool matrix) {
    return with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        WilsonParameters of{};
        OperatorSpec as{};
        std::vector<int> to_parities;
        HostField from{}, to{};
        const auto look = [&] {
            if (matrix)
                of = parameters_of(spec, function);
            require(what, function, "what");
            as = wilson_operator_of(*what, "what");
            check_sign(sign);
            to_parities = parities_of(parity);
            from = host_field(source, reals_of_vector, "source");
            to = host_field(destination, reals_of_vector, "destination");
            need_links(w);
        };
        agreed(*w.context, function, look, [&] {
            return Numbers{{"spec.kappa", of.kappa},
                           {"spec.clover", of.cku0},
                           {"what", code_of(as)},
                           {"sign", double(sign)},
                           {"parity", double(parity)}};
        });
        const std::shared_ptr<const LinkField> links = w.version(as);
        const auto term = w.clover(of.cku0, as.spinor, milcgpu_wilson::none).term;
        Vectors in(w, as.spinor, "Wilson vectors"), out(w, as.spinor, "Wilson vectors");
        for (const int p : {0, 1}) {
            const bool reads = matrix || to_parities.size() == 2 || p != to_parities[0];
            if (reads)
                in.load(w, from, p, "source");
        }
        for (const int p : to_parities) {
            const SpinorBlock &hops = in.on[1 - p];
            WilsonCall call = matrix ? call_on(w, *links, p, sign, hops, out.on[p], in.on[p], of.kappa)
                                     : call_on(w, *links, p, sign, hops, out.on[p]);
            call.clover = term.get();
            milcgpu::wilson(w.device(), call, Epilogue::plain);
            require_finite_vector(w.device(), out.on[p], p, "result");
        }
        std::vector<Region> stands_on = {links->region("links of Wilson fermions")};
        if (term)
            stands_on.push_back(term->region("clover term"));
        w.require_unchanged(stands_on);
        w.device().agree("the copy of results", [&] { // from here on nothing but the copies themselves can fail
            for (const int p : to_parities)
                w.reorder.to_host(out.on[p], p, to);
        });
        return Status::ok;
    });
}

} // namespace

// The even-odd system of M x = b in double, and what it gives for both parities.
class milcgpu::EvenOdd {
  public:
    EvenOdd(milcgpu_wilson &w, const WilsonParameters &of, const WilsonMatrix &M)
        : w_(w), M_(M), kappa_(of.kappa), clover_(w.clover(of.cku0, Precision::double_, 1 - M.parity())),
          b_(w, Precision::double_, "Wilson source"), x_(w, Precision::double_, "Wilson solution") {
        w.device().agree("memory for Wilson vectors", [&] {
            r_ = {w.device(), Precision::double_, w.geometry(), M.parity(), "Wilson residual", 1, wilson_components};
            sums_ = {w.device(), 2, "norm of a vector"};
        });
    }
    Vectors &source() { return b_; }
    const SpinorBlock &solution(int parity) const { return x_.on[parity]; }

    // r = b_p + kappa D_pq R_q^-1 b_q, whose norm, or that of b, source_norm() is from then on.
    // measure_all: what is small is to be b - M x on all sites, relative to b there; else that on the sites of M.
    void make_source(bool measure_all) {
        const int p = M_.parity();
        divide(1 - p, b_.on[1 - p], x_.on[1 - p]);
        add_hop(p, x_.on[1 - p], b_.on[p], r_);
        norm_on_p_ = norm_of({r_});
        source_norm_ = measure_all ? norm_of({b_.on[0], b_.on[1]}) : norm_on_p_;
    }
    double source_norm() const { return source_norm_; }
    double norm_on_p() const { return norm_on_p_; } // of r
    const SpinorBlock &r() const { return r_; }
    // Both parities of x from x_p. residual: |b - M x| / source_norm(); relative: MILC's, if wanted.
    struct Residuals {
        double residual, relative;
    };
    Residuals complete(const SpinorBlock &x_p, bool wants_relative) const {
        const int p = M_.parity(), q = 1 - p;
        if (x_p.data != x_.on[p].data())
            convert_spinor(w_.device(), x_p, x_.on[p], 1, nullptr);
        add_hop(q, x_.on[p], b_.on[q], r_);
        divide(q, r_, x_.on[q]);
        Residuals of = {residual(), 1};
        if (wants_relative) {
            relative_residual_of_sites(w_.device(), r_, x_.on[p], sums_.data());
            of.relative = std::sqrt(2 * sums_.to_host()[0] / double(w_.geometry().global_volume()));
        }
        return of;
    }
    // |b - M x| / source_norm() of the solution as it is; r is b - M x on the sites of M then.
    double residual() const {
        const int p = M_.parity();
        double rr = 0;
        for (const int parity : {1 - p, p}) {
            WilsonCall call = call_on(w_, w_.as_given(), parity, 1, x_.on[1 - parity], r_, x_.on[parity], kappa_);
            call.clover = clover_.term.get();
            call.x = x_.on[parity], call.z = b_.on[parity];
            call.a = 0, call.alpha = 1;
            call.sum = sums_.data();
            wilson(w_.device(), call, Epilogue::residual);
            rr += sums_.to_host()[0];
        }
        return source_norm_ > 0 ? std::sqrt(rr) / source_norm_ : rr > 0 ? INFINITY : rr;
    }

  private:
    // out = own + kappa D in
    void add_hop(int parity, const SpinorBlock &in, const SpinorBlock &own, const SpinorBlock &out) const {
        wilson(w_.device(), call_on(w_, w_.as_given(), parity, 1, in, out, own, -kappa_), Epilogue::plain);
    }
    // out = R^-1 in
    void divide(int parity, const SpinorBlock &in, const SpinorBlock &out) const {
        if (clover_.inverse)
            multiply_clover(w_.device(), *clover_.inverse, parity, in, out);
        else
            convert_spinor(w_.device(), in, out, 1, nullptr);
    }
    double norm_of(const std::vector<SpinorBlock> &fields) const {
        double sum = 0;
        for (const SpinorBlock &field : fields) {
            norm_squared(w_.device(), field, sums_.data());
            sum += sums_.to_host()[0];
        }
        return std::sqrt(sum);
    }
    milcgpu_wilson &w_;
    const WilsonMatrix &M_;
    double kappa_;
    CloverVersion clover_;
    Vectors b_, x_;
    SpinorField r_;
    DeviceArray<double> sums_;
    double source_norm_ = 0, norm_on_p_ = 0;
};

namespace {

// One pass: the system that a method iterates on, solved to `tolerance` relative to its right-hand side.
CgReport pass_of(milcgpu_wilson::Solver &solver, const CgLimits &limits, double tolerance, const CgProgress &progress) {
    if (solver.cg) {
        CgLimits of_pass = limits;
        of_pass.tolerance = tolerance;
        of_pass.relative_tolerance = 0;
        return solver.cg->solve(of_pass, progress);
    }
    BicgLimits of_pass;
    of_pass.tolerance = tolerance;
    of_pass.max_iterations = limits.max_iterations, of_pass.max_restarts = limits.max_restarts;
    of_pass.reliable_delta = limits.reliable_delta;
    if (limits.jump_limit > 0)
        of_pass.jump_limit = limits.jump_limit;
    const BicgReport of = solver.bicgstab->solve(of_pass, progress);
    CgReport report;
    report.status = of.status;
    report.iterations = report.steps = of.steps;
    report.restarts = of.restarts, report.reliable_updates = of.reliable_updates;
    report.recursion_residual = of.recursion_residual, report.largest_jump = of.largest_jump;
    report.seconds = of.seconds, report.flops = of.flops, report.bytes = of.bytes;
    report.message = of.message;
    return report;
}

// Where b - M x is not small enough after a pass, the next one is to be more exact; so many at the most.
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

// The way of a source to its tolerances: passes, each to be more exact than the one before.
struct Way {
    EvenOdd &system;
    CgLimits limits;
    double tolerance = 0; // of the next pass
    CgReport report{};
    int passes = 0;
    bool ended = false;
};

// From the source of the system to that of what is iterated on.
void begin(milcgpu_wilson &w, const milcgpu_wilson::Solver &solver, bool measure_all, const SpinorBlock &source,
           Way &way) {
    EvenOdd &system = way.system;
    system.make_source(measure_all);
    way.tolerance = way.limits.tolerance > 0 ? way.limits.tolerance : way.limits.relative_tolerance;
    if (solver.cg) {
        MatrixCall call;
        call.in = system.r(), call.out = source;
        solver.full->apply_dagger(w.device(), call);
        way.tolerance *= 0.5; // M^dag r falls before r does
    } else {
        w.device().copy_on_device(source.data, system.r().data, source.bytes());
        if (system.norm_on_p() > 0)
            way.tolerance = std::fmin(way.tolerance * system.source_norm() / system.norm_on_p(), 0.5);
    }
}

// After a pass that has made x.
void end_pass(const CgReport &of_pass, const SpinorBlock &x, Way &way) {
    CgReport &report = way.report;
    const CgLimits &limits = way.limits;
    add(of_pass, report);
    ++way.passes;
    const EvenOdd::Residuals now = way.system.complete(x, limits.relative_tolerance > 0);
    report.source_norm = way.system.source_norm();
    report.true_residual = now.residual;
    report.relative_residual = now.relative;
    // How far both are from what was asked for; below 1 all is well.
    const double far = std::fmax(limits.tolerance > 0 ? now.residual / limits.tolerance : 0,
                                 limits.relative_tolerance > 0 ? now.relative / limits.relative_tolerance : 0);
    const bool finite = now.residual < INFINITY && now.relative < INFINITY;
    way.ended = true;
    if (is_answer(report.status) && finite && far < 1) {
        report.status = Status::ok;
        report.message.clear();
    } else if (report.status == Status::ok && !finite) {
        report.status = Status::nan_or_inf;
        report.message = "the residual overflowed";
    } else if (report.status == Status::ok && way.passes == most_passes) {
        report.status = Status::precision_floor;
        report.message =
            format("the system iterated on is solved to %.1e, but |b - M x| / |b| stays at %.1e "
                   "(tolerance %.1e, relative %.1e): the precision gives no more. Ask for less, or for "
                   "a higher precision",
                   report.recursion_residual, report.true_residual, limits.tolerance, limits.relative_tolerance);
    } else if (report.status == Status::ok) {
        way.tolerance *= 0.5 / far;
        way.ended = false;
    }
}

EvenOdd &system_of(milcgpu_wilson &w, milcgpu_wilson::Solver &solver, int k) {
    while (static_cast<int>(solver.systems.size()) <= k)
        solver.systems.push_back(std::make_shared<EvenOdd>(w, solver.of, *solver.full));
    return *solver.systems[k];
}

} // namespace

BlockCgSolver &milcgpu_wilson::several(Solver &of, int most) {
    if (of.several && of.several->sources() >= most)
        return *of.several;
    of.several.reset(); // its memory first
    const Operator full = std::make_shared<const WilsonNormal>(of.full);
    OperatorSpec spec = ladder::of_several(of.sloppy);
    const Operator A = spec == in_double ? full : std::make_shared<const WilsonNormal>(matrix(of.of, of.parity, spec));
    make_for_most(most, [&](int room) {
        device().agree("memory for several sources",
                       [&] { of.several = std::make_unique<BlockCgSolver>(device(), full, A, room, *of.cg); });
        try {
            system_of(*this, of, room - 1);
        } catch (const Error &) {
            of.several.reset();
            of.systems.clear();
            throw;
        }
    });
    return *of.several;
}

namespace {

void check_unused(bool unused, const char *what) {
    if (!unused)
        refuse(format("%s must be 0: calls for Wilson fermions do not take it", what));
}

// work(), where what does not fit is told with what the whole solve needs.
template <class Work> decltype(auto) planned(const milcgpu_wilson &w, const MemoryPlan &plan, const Work &work) {
    try {
        return work();
    } catch (const Error &error) {
        if (error.status() != Status::no_memory)
            throw;
        throw Error(Status::no_memory, format("a solve of Wilson fermions needs\n%s%s",
                                              table_of(plan, w.device().free_bytes()).c_str(), error.what()));
    }
}

// Arguments of both calls that solve.
void check_solve(const milcgpu_solve_spec &how, const SolveArguments &a) {
    check_unused(how.mass == 0, "how->mass");
    check_unused(how.links_version == 0, "how->links_version");
    for (const OperatorSpec &of : {a.precise, a.sloppy})
        find_wilson(of.spinor, of.link, of.reals); // throws not_built
}

template <class Spec> CgProgress progress_of(const Spec &how) {
    if (how.progress == nullptr)
        return {};
    return [&how](int step, double residual) { how.progress(how.user, step, residual); };
}

// The source of a system, and the guess to x. number: "[k]" of several.
void load(milcgpu_wilson &w, EvenOdd &system, const HostField &source, const HostField &guess,
          const std::string &number, int parity, const SpinorBlock &x) {
    for (const int on : {0, 1})
        system.source().load(w, source, on, ("source" + number).c_str());
    w.device().agree("the loading of a guess", [&] { w.reorder.to_device(guess, parity, x); });
    require_finite_vector(w.device(), x, parity, ("initial guess" + number).c_str());
}

milcgpu_status solve(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_solve_spec *how,
                     const milcgpu_field *source, const milcgpu_field *solution, milcgpu_solve_report &report) {
    constexpr const char *function = "milcgpu_wilson_solve";
    const CallMeter meter(w.device());
    WilsonParameters of{};
    SolveArguments a{};
    HostField from{}, to{};
    const auto look = [&] {
        of = parameters_of(spec, function);
        require(how, function, "how");
        a = checked_solve(*how);
        check_solve(*how, a);
        from = host_field(source, reals_of_vector, "source");
        to = host_field(solution, reals_of_vector, "solution");
        need_links(w);
    };
    agreed(*w.context, function, look, [&] { return with_parameters(numbers_of(a, *how), *spec); });
    const MemoryPlan plan = w.plan(of, spec->method, a.precise, a.sloppy, 1);
    milcgpu_wilson::Solver &solver = planned(
        w, plan, [&]() -> auto & { return w.solver(of, a.parity, spec->method, a.precise, a.sloppy); });
    EvenOdd &system = planned(
        w, plan, [&]() -> auto & { return system_of(w, solver, 0); });
    load(w, system, from, to, "", a.parity, solver.solution());
    const CgProgress progress = progress_of(*how);
    Way way{system, a.limits};
    begin(w, solver, spec->even_odd == 0, solver.source(), way);
    while (!way.ended)
        end_pass(pass_of(solver, a.limits, way.tolerance, progress), solver.solution(), way);
    const CgReport &r = way.report;
    w.require_unchanged(solver.stands_on());
    fill_report(r, a, report);
    if (r.status != Status::ok)
        set_last_error(function, r.message.c_str());
    // From here on nothing but the copies themselves can fail.
    if (is_answer(r.status))
        w.device().agree("the copy of a solution", [&] {
            for (const int parity : {0, 1})
                w.reorder.to_host(system.solution(parity), parity, to);
        });
    meter.fill(report);
    w.context->tell(2, [&] {
        return format("Wilson solve %s/%s kappa %g: %s, %d iterations, true residual %.2e, %.4f s, %.1f GFLOPS",
                      name(a.precise.spinor), name(a.sloppy.spinor), of.kappa, milcgpu_status_name(report.status),
                      report.iterations, report.true_residual, report.seconds, report.gflops);
    });
    return static_cast<milcgpu_status>(r.status);
}

// ---- several sources ------------------------------------------------------------------------------------------------

struct WilsonFields {
    std::vector<HostField> sources, solutions;
    OfEachSource limits;
};

// Sources first to first + count at once.
void solve_group(milcgpu_wilson &w, milcgpu_wilson::Solver &solver, const SolveArguments &a, bool measure_all,
                 Together together, const WilsonFields &fields, int first, int count, const CgProgress &progress,
                 std::vector<milcgpu_solve_report> &reports) {
    const CallMeter meter(w.device());
    BlockCgSolver &several = *solver.several;
    std::vector<Way> ways;
    std::vector<std::string> bad(count); // what there is of NaN or infinity in a source or its guess
    SourcesLimits limits;
    limits.shift = 0;
    limits.together = together;
    limits.max_restarts = a.limits.max_restarts;
    limits.reliable_delta = a.limits.reliable_delta, limits.jump_limit = a.limits.jump_limit;
    for (int k = 0; k < count; ++k) {
        const int number = first + k;
        ways.push_back({system_of(w, solver, k), a.limits});
        Way &way = ways.back();
        way.limits.tolerance = fields.limits.tolerances[number];
        limits.max_iterations.push_back(fields.limits.max_iterations[number]);
        try {
            load(w, way.system, fields.sources[number], fields.solutions[number], format("[%d]", number), a.parity,
                 several.solution(k));
            begin(w, solver, measure_all, several.source(k), way);
        } catch (const Error &error) {
            if (error.status() != Status::nan_or_inf)
                throw;
            bad[k] = error.what();
            way.report.status = Status::nan_or_inf;
            way.report.message = bad[k];
            way.ended = true;
        }
    }
    SourcesReport total;
    const auto open = [](const Way &way) { return !way.ended; };
    while (std::any_of(ways.begin(), ways.end(), open)) {
        limits.tolerances.clear();
        for (int k = 0; k < count; ++k) {
            limits.tolerances.push_back(ways[k].tolerance);
            if (ways[k].ended) // a zero source is left out
                w.device().fill_zero(several.source(k).data, several.source(k).bytes());
        }
        const SourcesReport of_pass = several.solve(limits, progress);
        total.seconds += of_pass.seconds;
        total.flops += of_pass.flops, total.bytes += of_pass.bytes;
        for (int k = 0; k < count; ++k)
            if (!ways[k].ended)
                end_pass(of_pass.sources[k], several.solution(k), ways[k]);
    }
    w.require_unchanged(several.stands_on(false));
    // From here on nothing but the copies themselves can fail.
    w.device().agree("the copy of solutions", [&] {
        for (int k = 0; k < count; ++k)
            for (const int parity : {0, 1})
                if (is_answer(ways[k].report.status))
                    w.reorder.to_host(ways[k].system.solution(parity), parity, fields.solutions[first + k]);
    });
    for (int k = 0; k < count; ++k) {
        milcgpu_solve_report &report = reports[first + k];
        fill_report(ways[k].report, a, report);
        meter.fill(report);
        report.seconds /= count;
        report.bytes_to_device /= count, report.bytes_to_host /= count;
        report.solver_seconds = total.seconds / count;
        if (total.seconds > 0) {
            report.gflops = total.flops / total.seconds * 1e-9;
            report.gbytes_per_second = total.bytes / total.seconds * 1e-9;
        }
    }
}

milcgpu_status solve_sources(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_solve_spec *how,
                             int together, int n, const milcgpu_field *sources, const milcgpu_field *solutions,
                             std::vector<milcgpu_solve_report> &reports) {
    constexpr const char *function = "milcgpu_wilson_solve_sources";
    WilsonParameters of{};
    bool bicgstab = false;
    WilsonFields fields;
    SolveArguments a{};
    const auto look = [&] {
        of = parameters_of(spec, function);
        require(how, function, "how");
        check_together(together, n);
        bicgstab = spec->method == MILCGPU_WILSON_BICGSTAB;
        if (bicgstab && (together == MILCGPU_BLOCK || together == MILCGPU_LOCK_STEP))
            refuse(format("together is %d, but BiCGstab takes one source at a time: ask for MILCGPU_WILSON_CG, for "
                          "MILCGPU_ONE_BY_ONE (%d) or for MILCGPU_TOGETHER_AUTO (%d)",
                          together, MILCGPU_ONE_BY_ONE, MILCGPU_TOGETHER_AUTO));
        a = checked_sources(*how, n, fields.limits);
        check_solve(*how, a);
        if (n > 0) {
            require(sources, function, "sources");
            require(solutions, function, "solutions");
        }
        for (int k = 0; k < n; ++k) {
            fields.sources.push_back(host_field(&sources[k], reals_of_vector, format("sources[%d]", k).c_str()));
            fields.solutions.push_back(host_field(&solutions[k], reals_of_vector, format("solutions[%d]", k).c_str()));
        }
        need_links(w);
    };
    agreed(*w.context, function, look, [&] {
        Numbers numbers = with_parameters(numbers_of(a, *how), *spec);
        numbers.insert(numbers.end(), {{"together", double(together)}, {"n", double(n)}});
        return numbers;
    });
    Numbers of_each; // as many on every rank now
    for (int k = 0; k < n; ++k)
        of_each.insert(of_each.end(), {{"a source's tolerance", fields.limits.tolerances[k]},
                                       {"a source's max_iterations", double(fields.limits.max_iterations[k])}});
    check_alike(*w.context, of_each);
    if (n == 0)
        return MILCGPU_OK;
    Status worst = Status::ok;
    std::string message;
    const auto count_in = [&](int k, const char *said) {
        const Status own = static_cast<Status>(reports[k].status);
        if (!is_graver(own, worst))
            return;
        worst = own;
        message = format("source %d: %s", k, said);
    };
    const auto end = [&] {
        if (worst != Status::ok)
            set_last_error(function, message.c_str());
        return static_cast<milcgpu_status>(worst);
    };
    const double vectors = 0.5 * wilson_components * double(w.geometry().global_volume()) / w.context->ranks->size();
    const bool pays = ladder::together_pays(n, vectors, a.sloppy.spinor == Precision::half, w.device().on_gpu());
    if (n == 1 || bicgstab || together == MILCGPU_ONE_BY_ONE || (together == MILCGPU_TOGETHER_AUTO && !pays)) {
        for (int k = 0; k < n; ++k) {
            const milcgpu_solve_spec own = spec_of_source(*how, k);
            milcgpu_wilson_solve(&w, spec, &own, &sources[k], &solutions[k], &reports[k]);
            count_in(k, milcgpu_last_error());
        }
        return end();
    }
    const MemoryPlan plan = w.plan(of, spec->method, a.precise, a.sloppy, sources_at_once(n));
    milcgpu_wilson::Solver &solver = planned(
        w, plan, [&]() -> auto & { return w.solver(of, a.parity, spec->method, a.precise, a.sloppy); });
    const int most = planned(w, plan, [&] { return w.several(solver, sources_at_once(n)).sources(); });
    const CgProgress progress = progress_of(*how);
    for (int first = 0; first < n; first += most) {
        const int count = std::min(most, n - first);
        solve_group(w, solver, a, spec->even_odd == 0,
                    together == MILCGPU_LOCK_STEP ? Together::lock_step : Together::block, fields, first, count,
                    progress, reports);
        for (int k = first; k < first + count; ++k)
            count_in(k, reports[k].message);
        w.context->tell(2, [&] {
            return format("Wilson solve of %d sources %s/%s kappa %g: %d iterations of the first, %.4f s, %.1f GFLOPS",
                          count, name(a.precise.spinor), name(a.sloppy.spinor), of.kappa, reports[first].iterations,
                          reports[first].seconds * count, reports[first].gflops);
        });
    }
    return end();
}

milcgpu_status residual(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, int parity, const milcgpu_field *source,
                        const milcgpu_field *solution, double *result) {
    constexpr const char *function = "milcgpu_wilson_residual";
    WilsonParameters of{};
    HostField b{}, x{};
    int p = 0;
    const auto look = [&] {
        of = parameters_of(spec, function);
        b = host_field(source, reals_of_vector, "source");
        x = host_field(solution, reals_of_vector, "solution");
        require(result, function, "residual");
        p = parity_index(parity);
        need_links(w);
    };
    agreed(*w.context, function, look, [&] { return with_parameters({{"parity", double(p)}}, *spec); });
    OperatorSpec full = in_double;
    const auto M = w.matrix(of, p, full);
    EvenOdd system(w, of, *M);
    for (const int on : {0, 1})
        system.source().load(w, b, on, "source");
    system.make_source(spec->even_odd == 0);
    for (const int on : {0, 1}) {
        w.device().agree("the loading of a solution", [&] { w.reorder.to_device(x, on, system.solution(on)); });
        if (on == p || spec->even_odd == 0)
            require_finite_vector(w.device(), system.solution(on), on, "solution");
    }
    const double value = spec->even_odd != 0 ? system.complete(system.solution(p), false).residual : system.residual();
    w.require_unchanged(M->stands_on());
    *result = value;
    return MILCGPU_OK;
}

milcgpu_status multi_mass(milcgpu_wilson &w, const milcgpu_wilson_spec *spec, const milcgpu_multi_mass_spec *how,
                          const milcgpu_field *source, const milcgpu_field *solutions,
                          milcgpu_multi_mass_report &report) {
    constexpr const char *function = "milcgpu_wilson_multi_mass";
    const CallMeter meter(w.device());
    WilsonParameters of{};
    MultiMassArguments a{};
    std::vector<OperatorSpec> levels;
    int n = 0;
    std::vector<HostField> to;
    HostField from{};
    const auto look = [&] {
        of = parameters_of(spec, function);
        require(how, function, "how");
        a = checked_multi_mass(*how);
        check_unused(how->links_version == 0, "how->links_version");
        levels = stages_of(a);
        for (const OperatorSpec &of : levels)
            find_wilson(of.spinor, of.link, of.reals); // throws not_built
        find_wilson(a.precise.spinor, a.precise.link, a.precise.reals);
        find_wilson(a.sloppy.spinor, a.sloppy.link, a.sloppy.reals);
        n = how->n_shifts;
        if (n > 0)
            require(solutions, function, "solutions");
        for (int k = 0; k < n; ++k) {
            check_unused(how->shifts[k].relative_tolerance == 0, format("shifts[%d].relative_tolerance", k).c_str());
            to.push_back(host_field(&solutions[k], reals_of_vector, format("solutions[%d]", k).c_str()));
        }
        from = host_field(source, reals_of_vector, "source");
        need_links(w);
    };
    agreed(*w.context, function, look, [&] { return with_parameters(numbers_of(a), *spec); });
    if (n == 0)
        return MILCGPU_OK;
    milcgpu_wilson::Solver &refiner = w.solver(of, a.parity, MILCGPU_WILSON_CG, a.precise, a.sloppy);
    std::vector<Operator> stages;
    for (OperatorSpec level : levels)
        stages.push_back(std::make_shared<const WilsonNormal>(w.matrix(of, a.parity, level)));
    OperatorSpec together = together_spec(a);
    const Operator single =
        refines_together(a) ? std::make_shared<const WilsonNormal>(w.matrix(of, a.parity, together)) : nullptr;
    std::optional<MultiMassSolver> made;
    w.device().agree("memory for several masses", [&] {
        made.emplace(w.device(), stages, std::make_shared<const WilsonNormal>(refiner.full), single, n, *refiner.cg);
        w.reorder.to_device(from, a.parity, made->source());
    });
    MultiMassSolver &solver = *made;
    require_finite_vector(w.device(), solver.source(), a.parity, "source");
    const MultiMassReport r = solver.solve(a.limits, progress_of(*how));
    w.require_unchanged(solver.stands_on(false));
    fill_report(r, n, report);
    if (r.status != Status::ok)
        set_last_error(function, r.message.c_str());
    // From here on nothing but the copies themselves can fail.
    const bool nothing = r.status == Status::nan_or_inf || r.status == Status::not_positive;
    w.device().agree("the copy of solutions", [&] {
        for (int k = 0; k < n && !nothing; ++k)
            w.reorder.to_host(solver.solution(k), a.parity, to[k]);
    });
    meter.fill(report);
    return static_cast<milcgpu_status>(r.status);
}

} // namespace

extern "C" {

milcgpu_status milcgpu_wilson_create(milcgpu_context *context, milcgpu_wilson **wilson) {
    constexpr const char *function = "milcgpu_wilson_create";
    if (wilson != nullptr)
        *wilson = nullptr;
    return guarded(context, function, [&] {
        require(context, function, "context");
        std::unique_ptr<milcgpu_wilson> made;
        context->device->agree(function, [&] {
            require(wilson, function, "wilson");
            made = std::make_unique<milcgpu_wilson>(context);
        });
        *wilson = made.release();
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
        HostField host{};
        w.device().agree("milcgpu_wilson_load", [&] { host = host_field(links, 72, "links"); });
        w.load(host);
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
    milcgpu_solve_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_wilson(wilson, "milcgpu_wilson_solve", [&](milcgpu_wilson &w) {
        w.device().agree("milcgpu_wilson_solve", [&] {
            if (report != nullptr)
                require_size(report->struct_size, sizeof *report, "milcgpu_solve_report");
        });
        return solve(w, spec, how, source, solution, filled);
    });
    return hand_back(status, filled, report);
}

milcgpu_status milcgpu_wilson_solve_sources(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                            const milcgpu_solve_spec *how, int together, int n,
                                            const milcgpu_field *sources, const milcgpu_field *solutions,
                                            milcgpu_solve_report *reports) {
    return with_wilson(wilson, "milcgpu_wilson_solve_sources", [&](milcgpu_wilson &w) {
        w.device().agree("milcgpu_wilson_solve_sources", [&] {
            for (int k = 0; k < n && reports != nullptr; ++k)
                require_size(reports[k].struct_size, sizeof *reports, "milcgpu_solve_report");
        });
        std::vector<milcgpu_solve_report> filled(std::max(n, 0));
        for (milcgpu_solve_report &report : filled)
            report.struct_size = sizeof report;
        const milcgpu_status status = solve_sources(w, spec, how, together, n, sources, solutions, filled);
        for (int k = 0; k < n && reports != nullptr; ++k)
            reports[k] = filled[k];
        return status;
    });
}

milcgpu_status milcgpu_wilson_residual(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec, int parity,
                                       const milcgpu_field *source, const milcgpu_field *solution, double *result) {
    return with_wilson(wilson, "milcgpu_wilson_residual",
                       [&](milcgpu_wilson &w) { return residual(w, spec, parity, source, solution, result); });
}

milcgpu_status milcgpu_wilson_multi_mass(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                         const milcgpu_multi_mass_spec *how, const milcgpu_field *source,
                                         const milcgpu_field *solutions, milcgpu_multi_mass_report *report) {
    milcgpu_multi_mass_report filled{};
    filled.struct_size = sizeof filled;
    const milcgpu_status status = with_wilson(wilson, "milcgpu_wilson_multi_mass", [&](milcgpu_wilson &w) {
        w.device().agree("milcgpu_wilson_multi_mass", [&] {
            if (report != nullptr) {
                require_size(report->struct_size, sizeof *report, "milcgpu_multi_mass_report");
                filled.shifts = report->shifts;
            }
        });
        return multi_mass(w, spec, how, source, solutions, filled);
    });
    return hand_back(status, filled, report);
}

} // extern "C"
