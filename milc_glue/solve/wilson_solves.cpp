// The C interface: solves with Wilson fermions, of one source and of several, and true residuals.
#include "gpu_kernels/algebra/blas.h"
#include "milc_glue/api/apart.h"
#include "milc_glue/solve/dry_run.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/wilson_calls.h"
#include <cmath>

using namespace milcgpu;

namespace {

// The even-odd system of M x = b in double, and what it gives for both parities.
class EvenOdd {
  public:
    EvenOdd(milcgpu_wilson &w, const WilsonParameters &of, const WilsonMatrix &M)
        : w_(w), M_(M), kappa_(of.kappa), clover_(w.clover(of.cku0, Precision::double_, 1 - M.parity())),
          b_(w, Precision::double_, "Wilson source"), x_(w, Precision::double_, "Wilson solution") {
        w.device().collective("memory for Wilson vectors", [&] {
            r_ = {w.device(), Precision::double_, w.geometry(), M.parity(), "Wilson residual", 1, wilson_components};
            sums_ = {w.device(), 2, "norm of a vector"};
        });
    }
    // The memory of b_ and x_ on both parities, and of r_.
    static size_t bytes(const Geometry &geometry) {
        return (2 * 2 + 1) * SpinorField::allocated_bytes(Precision::double_, geometry, 1, wilson_components);
    }
    WilsonVectors &source() { return b_; }
    const SpinorBlock &solution(int parity) const { return x_.on[parity]; }

    // r = b_p + kappa D_pq R_q^-1 b_q. From then on source_norm() is the norm of r or of b.
    // measure_all: the solve reduces b - M x on all sites, relative to b; else the residual on the sites of M.
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
    WilsonVectors b_, x_;
    SpinorField r_;
    DeviceArray<double> sums_;
    double source_norm_ = 0, norm_on_p_ = 0;
};

// If b - M x is still too large after a pass, the next pass is more exact; at most this many.
constexpr int most_passes = 6;

const WilsonMatrix &matrix_of(const KeptSolver &solver) {
    return static_cast<const WilsonNormal &>(*solver.operators.full).matrix();
}

// The sources of a call, solved by the even-odd system.
class WilsonSources : public SourcesOfCall {
  public:
    WilsonSources(milcgpu_wilson &w, const WilsonParameters &of, const milcgpu_wilson_spec &spec, SolveTask &task,
                  std::vector<HostField> sources, std::vector<HostField> solutions)
        : w_(w), of_(of), spec_(spec), task_(task), relative_(std::exchange(task.a.limits.relative_tolerance, 0)),
          sources_(std::move(sources)), solutions_(std::move(solutions)) {}
    void load(Group &group, Verification &verification) override {
        for (int k = 0; k < group.count; ++k) {
            group.look(k, [&] {
                load_one(group, k, verification);
                begin(group, k);
            });
            if (group.of[k].ended)
                w_.device().fill_zero(group.b[k].data, group.b[k].bytes());
        }
        verification.loaded(group.b);
    }
    void complete(Group &group) override {
        for (int k = 0; k < group.count; ++k)
            if (!group.of[k].ended)
                end_pass(group, k);
    }
    void write(const Group &group, int k) override {
        for (const int parity : {0, 1})
            w_.reorder.to_host(system_of(group, k).solution(parity), parity, solutions_[group.first + k]);
    }
    void allocate(KeptSolver &solver, int sources) override {
        while (static_cast<int>(solver.beside.size()) < sources)
            solver.beside.push_back(std::make_shared<EvenOdd>(w_, of_, matrix_of(solver)));
    }
    std::string needs(int sources) const override {
        const SolveArguments &a = task_.a;
        const MemoryPlan plan = w_.plan(of_, spec_.method, a.precise, a.sloppy, sources);
        return "a solve of Wilson fermions needs\n" + table_of(plan, w_.device().free_bytes());
    }
    std::string name() const override { return "Wilson solve"; }
    std::string parameters() const override { return format("kappa %g", of_.kappa); }

  private:
    static EvenOdd &system_of(const Group &group, int k) {
        return *static_cast<EvenOdd *>(group.solver.beside[k].get());
    }
    // The source of the system, and the guess.
    void load_one(Group &group, int k, Verification &verification) {
        const HostField &source = sources_[group.first + k], &guess = solutions_[group.first + k];
        const std::string number = task_.numbered ? format("[%d]", group.first + k) : "";
        const int parity = task_.a.parity;
        for (const int on : {0, 1}) {
            const SpinorBlock &b = system_of(group, k).source().on[on];
            w_.device().collective("the loading of a vector", [&] {
                w_.reorder.to_device(source, on, b);
                verification.loaded(b);
            });
            require_finite_vector(w_, b, on, ("source" + number).c_str());
        }
        w_.device().collective("the loading of a guess", [&] { w_.reorder.to_device(guess, parity, group.x[k]); });
        require_finite_vector(w_, group.x[k], parity, ("initial guess" + number).c_str());
    }
    // Makes the source of the iteration from the source of the system.
    void begin(Group &group, int k) {
        EvenOdd &system = system_of(group, k);
        SourceOnTheWay &source = group.of[k];
        system.make_source(spec_.even_odd == 0);
        source.tolerance = source.wanted > 0 ? source.wanted : relative_;
        if (group.solver.cg) {
            MatrixCall call;
            call.in = system.r(), call.out = group.b[k];
            matrix_of(group.solver).apply_dagger(w_.device(), call);
            source.tolerance *= 0.5; // M^dag r falls before r does
        } else {
            w_.device().copy_on_device(group.b.data, system.r().data, group.b.bytes());
            if (system.norm_on_p() > 0)
                source.tolerance = std::fmin(source.tolerance * system.source_norm() / system.norm_on_p(), 0.5);
        }
    }
    void end_pass(Group &group, int k) {
        SourceOnTheWay &source = group.of[k];
        CgReport &report = source.report;
        EvenOdd &system = system_of(group, k);
        const EvenOdd::Residuals now = system.complete(group.x[k], relative_ > 0);
        report.source_norm = system.source_norm();
        report.true_residual = now.residual;
        report.relative_residual = now.relative;
        // How far both residuals are from their tolerances; below 1 both are met.
        const double far = std::fmax(source.wanted > 0 ? now.residual / source.wanted : 0,
                                     relative_ > 0 ? now.relative / relative_ : 0);
        const bool finite = now.residual < INFINITY && now.relative < INFINITY;
        source.ended = true;
        if (is_answer(report.status) && finite && far < 1) {
            report.status = Status::ok;
            report.message.clear();
        } else if (report.status == Status::ok && !finite) {
            report.status = Status::nan_or_inf;
            report.message = "the residual overflowed";
        } else if (report.status == Status::ok && source.passes == most_passes) {
            report.status = Status::precision_floor;
        } else if (report.status == Status::ok) {
            source.tolerance *= 0.5 / far;
            source.ended = false;
        }
        // The solver's message names residual and tolerance of the system that it iterates on.
        if (source.ended && report.status != Status::ok && is_answer(report.status))
            report.message = why_it_ended_early(report, source.wanted, relative_, group.precise);
    }
    milcgpu_wilson &w_;
    WilsonParameters of_;
    const milcgpu_wilson_spec &spec_;
    const SolveTask &task_;
    double relative_; // tolerance of MILC's relative residual; 0: it is not tested
    std::vector<HostField> sources_, solutions_;
};

// Arguments of both calls that solve.
void check_solve(const milcgpu_solve_spec &how, const SolveArguments &a) {
    check_unused(how.mass == 0, "how->mass");
    check_unused(how.links_version == 0, "how->links_version");
    for (const OperatorSpec &of : {a.precise, a.sloppy})
        find_wilson(of.spinor, of.link, of.reals); // throws not_built
}

milcgpu_status solve_wilson(const SourcesCall &arguments, milcgpu_wilson &w, const milcgpu_wilson_spec *given_spec,
                            const milcgpu_solve_spec *given_how, const milcgpu_field *sources,
                            const milcgpu_field *solutions, std::vector<milcgpu_solve_report> &reports) {
    const char *const function = arguments.function;
    const int n = arguments.n, together = arguments.together;
    const bool numbered = arguments.numbered;
    WilsonParameters of{};
    SolveTask task{arguments, {}, {}, {}};
    std::vector<HostField> from, to;
    milcgpu_wilson_spec spec{};
    milcgpu_solve_spec how{};
    same_on_all_ranks(*w.context, function, [&](CallArguments &call) {
        spec = call.copy_of("spec", given_spec), how = call.copy_of("how", given_how);
        of = parameters_of(spec);
        call("together", together), call("n", n);
        if (spec.method == MILCGPU_WILSON_BICGSTAB && (together == MILCGPU_BLOCK || together == MILCGPU_LOCK_STEP))
            refuse(format("together is %d, but BiCGstab takes one source at a time: use MILCGPU_WILSON_CG, "
                          "MILCGPU_ONE_BY_ONE (%d) or for MILCGPU_TOGETHER_AUTO (%d)",
                          together, MILCGPU_ONE_BY_ONE, MILCGPU_TOGETHER_AUTO));
        if (!numbered)
            check_one_source(how);
        task.a = checked_sources(how, n, task.each);
        check_solve(how, task.a);
        if (n > 0) {
            call.given(numbered ? "sources" : "source", sources);
            call.given(numbered ? "solutions" : "solution", solutions);
        }
        for (int k = 0; k < n; ++k) {
            const std::string s = numbered ? format("s[%d]", k) : "";
            from.push_back(host_field(&sources[k], reals_of_vector, ("source" + s).c_str()));
            to.push_back(host_field(&solutions[k], reals_of_vector, ("solution" + s).c_str()));
        }
        need_links(w);
        if (numbered) {
            const Parity parity = spec.even_odd != 0 ? Parity(task.a.parity) : Parity();
            require_apart(occupied(*w.context, "sources", false, from, parity),
                          occupied(*w.context, "solutions", true, to, parity));
            call.of_entries = numbers_of(task.each);
        }
    });
    if (n == 0)
        return MILCGPU_OK;
    task.progress = progress_of(*w.context, how);
    WilsonFamily family(w, of, task.a.parity, spec.method);
    WilsonSources fields(w, of, spec, task, std::move(from), std::move(to));
    return static_cast<milcgpu_status>(solve_in_groups(family, fields, task, reports));
}

milcgpu_status residual(milcgpu_wilson &w, const milcgpu_wilson_spec *given, int parity, const milcgpu_field *source,
                        const milcgpu_field *solution, double *result, double *relative) {
    constexpr const char *function = "milcgpu_wilson_residual";
    WilsonParameters of{};
    milcgpu_wilson_spec spec{};
    HostField b{}, x{};
    int p = 0;
    same_on_all_ranks(*w.context, function, [&](CallArguments &call) {
        spec = call.copy_of("spec", given);
        of = parameters_of(spec);
        b = host_field(source, reals_of_vector, "source");
        x = host_field(solution, reals_of_vector, "solution");
        call.given("residual", result);
        p = parity_index(call("parity", parity));
        need_links(w);
    });
    OperatorSpec full = in_double;
    const auto M = w.matrix(of, p, full);
    EvenOdd system(w, of, *M);
    for (const int on : {0, 1})
        system.source().load(w, b, on, "source");
    system.make_source(spec.even_odd == 0);
    for (const int on : {0, 1}) {
        w.device().collective("the loading of a solution", [&] { w.reorder.to_device(x, on, system.solution(on)); });
        if (on == p || spec.even_odd == 0)
            require_finite_vector(w, system.solution(on), on, "solution");
    }
    const EvenOdd::Residuals of_x = spec.even_odd != 0 ? system.complete(system.solution(p), relative != nullptr)
                                                       : EvenOdd::Residuals{system.residual(), 1};
    Verification(*w.context, [&w] { w.clear(); }).holds(M->checked_regions());
    if (system.source_norm() > 0 && !(of_x.residual < INFINITY))
        throw Error(Status::nan_or_inf, "the residual overflows: scale source and solution down");
    *result = of_x.residual;
    if (relative != nullptr)
        *relative = of_x.relative;
    return MILCGPU_OK;
}

} // namespace

milcgpu_status milcgpu::true_residuals(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec, int parity,
                                       const milcgpu_field *source, const milcgpu_field *solution, double *result,
                                       double *relative) {
    return with_wilson(wilson, "milcgpu_wilson_residual", [&](milcgpu_wilson &w) {
        return ::residual(w, spec, parity, source, solution, result, relative);
    });
}

extern "C" {

milcgpu_status milcgpu_wilson_solve(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                    const milcgpu_solve_spec *how, const milcgpu_field *source,
                                    const milcgpu_field *solution, milcgpu_solve_report *report) {
    constexpr const char *function = "milcgpu_wilson_solve";
    std::vector<milcgpu_solve_report> filled;
    const milcgpu_status status = with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        w.device().collective(function, [&] {
            filled = empty_reports(1);
            require_sizes(report, 1);
        });
        return solve_wilson({function}, w, spec, how, source, solution, filled);
    });
    return hand_back_one(status, filled, report);
}

milcgpu_status milcgpu_wilson_solve_sources(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                            const milcgpu_solve_spec *how, int together, int n,
                                            const milcgpu_field *sources, const milcgpu_field *solutions,
                                            milcgpu_solve_report *reports) {
    constexpr const char *function = "milcgpu_wilson_solve_sources";
    return with_wilson(wilson, function, [&](milcgpu_wilson &w) {
        w.device().collective(function, [&] {
            check_together(together, n);
            require_sizes(reports, n);
        });
        std::vector<milcgpu_solve_report> filled = empty_reports(n);
        const milcgpu_status status =
            solve_wilson({function, n, together, true}, w, spec, how, sources, solutions, filled);
        copy_to_caller(filled, reports);
        return status;
    });
}

milcgpu_status milcgpu_wilson_residual(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec, int parity,
                                       const milcgpu_field *source, const milcgpu_field *solution, double *result) {
    return true_residuals(wilson, spec, parity, source, solution, result, nullptr);
}

} // extern "C"

// Clover terms: R and its inverse on the sites of the other parity.
MemoryPlan milcgpu_wilson::plan(const WilsonParameters &of, int method, const OperatorSpec &precise,
                                const OperatorSpec &sloppy, int sources) const {
    DryRun run;
    const LinkField none;
    ResidentField::Versions links;
    std::set<Precision> terms;
    const auto matrix = [&](const OperatorSpec &spec) {
        links.insert({spec.link, spec.reals}), terms.insert(spec.spinor);
        return std::make_shared<const WilsonMatrix>(run.device, geometry(), 0, spec, none, of.kappa);
    };
    const auto now = [&] {
        MemoryPlan plan{};
        plan.links = Device::allocated_bytes(LinkField::bytes_of(Precision::double_, 18, geometry()));
        plan.packed = ResidentField::bytes_of(links, Precision::double_, geometry());
        for (const Precision p : terms)
            plan.terms += of.cku0 != 0 ? 2 * Device::allocated_bytes(CloverField::bytes_of(p, geometry())) : 0;
        plan.vectors = run.device.used_bytes() + sources * EvenOdd::bytes(geometry());
        return plan;
    };
    if (method == MILCGPU_WILSON_BICGSTAB) {
        const auto full = matrix(in_double);
        const BicgstabSolver solver(run.device, {full, sloppy == in_double ? full : matrix(sloppy)});
        return now();
    }
    const OperatorMaker make = [&](OperatorSpec &spec) { return std::make_shared<const WilsonNormal>(matrix(spec)); };
    run.make_solver(make, in_double, precise, sloppy, sources);
    return run.plan(now);
}
