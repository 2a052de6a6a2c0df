// The C interface: solves with Wilson fermions, of one source and of several, and true residuals.
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/verify.h"
#include "milc_glue/wilson_calls.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

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
    WilsonVectors &source() { return b_; }
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
    WilsonVectors b_, x_;
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
    report.broke_down = of.broke_down;
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
    Precision precise;    // of the solutions that a pass makes
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
    } else if (report.status == Status::ok) {
        way.tolerance *= 0.5 / far;
        way.ended = false;
    }
    // The pass names residual and tolerance of the system that it iterates on.
    if (way.ended && report.status != Status::ok && is_answer(report.status))
        report.message = why_it_ended_early(report, limits.tolerance, limits.relative_tolerance, way.precise);
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

// The source of a system, and the guess to x. number: "[k]" of several.
void load(milcgpu_wilson &w, Verification &verification, EvenOdd &system, const HostField &source,
          const HostField &guess, const std::string &number, int parity, const SpinorBlock &x) {
    for (const int on : {0, 1}) {
        const SpinorBlock &b = system.source().on[on];
        w.device().agree("the loading of a vector", [&] {
            w.reorder.to_device(source, on, b);
            verification.loaded(b);
        });
        require_finite_vector(w.device(), b, on, ("source" + number).c_str());
    }
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
    const CgProgress progress = progress_of(*w.context, *how);
    const CgReport r = verified(
        *w.context, w.emptying(),
        [&](Verification &verification) {
            load(w, verification, system, from, to, "", a.parity, solver.solution());
            Way way{system, a.limits, solver.cg ? a.precise.spinor : Precision::double_};
            begin(w, solver, spec->even_odd == 0, solver.source(), way);
            verification.loaded(solver.source());
            while (!way.ended)
                end_pass(pass_of(solver, a.limits, way.tolerance, progress), solver.solution(), way);
            return way.report;
        },
        [&](const CgReport &) { return solver.stands_on(); });
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
    SourcesLimits limits;
    limits.shift = 0;
    limits.together = together;
    limits.max_restarts = a.limits.max_restarts;
    limits.reliable_delta = a.limits.reliable_delta, limits.jump_limit = a.limits.jump_limit;
    for (int k = 0; k < count; ++k)
        limits.max_iterations.push_back(fields.limits.max_iterations[first + k]);
    std::vector<Way> ways;
    const auto load_all = [&](Verification &verification) {
        ways.clear();
        for (int k = 0; k < count; ++k) {
            const int number = first + k;
            ways.push_back({system_of(w, solver, k), a.limits, Precision::double_});
            Way &way = ways.back();
            way.limits.tolerance = fields.limits.tolerances[number];
            try {
                load(w, verification, way.system, fields.sources[number], fields.solutions[number],
                     format("[%d]", number), a.parity, several.solution(k));
                begin(w, solver, measure_all, several.source(k), way);
            } catch (const Error &error) {
                if (error.status() != Status::nan_or_inf)
                    throw;
                way.report.status = Status::nan_or_inf;
                way.report.message = error.what();
                way.ended = true;
            }
            if (way.ended)
                w.device().fill_zero(several.source(k).data, several.source(k).bytes());
        }
        verification.loaded(several.all_sources().first(count));
    };
    const auto solve = [&](Verification &verification) {
        load_all(verification);
        SourcesReport total;
        const auto open = [](const Way &way) { return !way.ended; };
        while (std::any_of(ways.begin(), ways.end(), open)) {
            limits.tolerances.clear();
            for (const Way &way : ways) // one that has ended is left out
                limits.tolerances.push_back(way.ended ? INFINITY : way.tolerance);
            const SourcesReport of_pass = several.solve(limits, progress);
            total.seconds += of_pass.seconds;
            total.flops += of_pass.flops, total.bytes += of_pass.bytes;
            for (int k = 0; k < count; ++k)
                if (!ways[k].ended)
                    end_pass(of_pass.sources[k], several.solution(k), ways[k]);
        }
        return total;
    };
    const SourcesReport total =
        verified(*w.context, w.emptying(), solve, [&](const SourcesReport &) { return several.stands_on(false); });
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
    const CgProgress progress = progress_of(*w.context, *how);
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
                        const milcgpu_field *solution, double *result, double *relative) {
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
    const EvenOdd::Residuals of_x = spec->even_odd != 0 ? system.complete(system.solution(p), relative != nullptr)
                                                        : EvenOdd::Residuals{system.residual(), 1};
    Verification(*w.context, w.emptying()).holds(M->stands_on());
    if (system.source_norm() > 0 && !(of_x.residual < INFINITY))
        throw Error(Status::nan_or_inf, "the residual overflows: use smaller units");
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
            check_together(together, n);
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
    return true_residuals(wilson, spec, parity, source, solution, result, nullptr);
}

} // extern "C"
