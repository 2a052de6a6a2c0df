// The C interface to the multi-mass solver.
#include "milc_glue/solve/multi_mass_solves.h"
#include "gpu_kernels/algebra/blas.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/vectors.h"
#include "milc_glue/solve/kept_solver.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/staggered_family.h"
#include <algorithm>
#include <cmath>

using namespace milcgpu;

static_assert(max_shifts == 32, "the limit of milcgpu.h and members.h");

namespace {

// Tolerances of a rational function's terms: what matters is residue_i x_i.
double weighted(const milcgpu_multi_mass_spec &spec, int i) {
    if (spec.residues == nullptr || spec.residues[i] == 0 || spec.shifts[0].tolerance == 0)
        return spec.shifts[i].tolerance;
    return std::fmax(1e-14, std::fabs(spec.residues[0] / spec.residues[i]) * spec.shifts[0].tolerance);
}

} // namespace

MultiMassArguments milcgpu::checked_multi_mass(const milcgpu_multi_mass_spec &spec) {
    MultiMassArguments a{};
    a.parity = parity_index(spec.parity);
    a.shared = operator_of(spec.shared, "spec.shared");
    a.precise = spec.precise.precision == 0 ? OperatorSpec{Precision::double_, Precision::double_, 18}
                                            : operator_of(spec.precise, "spec.precise");
    a.sloppy = spec.sloppy.precision == 0 ? a.shared : operator_of(spec.sloppy, "spec.sloppy");
    check_pair(a.precise, a.sloppy);
    if (a.sloppy.spinor < a.shared.spinor)
        refuse(format("spec.sloppy is %s, finer than spec.shared, %s", milcgpu::name(a.sloppy.spinor),
                      milcgpu::name(a.shared.spinor)));
    for (int i = 0; i < spec.n_shifts; ++i) {
        const milcgpu_pole &shift = spec.shifts[i];
        if (!(shift.tolerance > 0 || shift.relative_tolerance > 0))
            refuse(format("spec.shifts[%d]: tolerance and relative_tolerance are 0: one must be above 0", i));
        a.limits.shifts.push_back({shift.offset, weighted(spec, i), shift.relative_tolerance});
    }
    check_iterations(spec.max_iterations, spec.max_restarts);
    if (spec.leave_tolerance > 0)
        a.limits.leave_tolerance = spec.leave_tolerance;
    a.limits.max_iterations = spec.max_iterations;
    a.limits.max_restarts = spec.max_restarts;
    a.limits.shared_tolerance = spec.shared_tolerance > 0               ? spec.shared_tolerance
                                : a.shared.spinor == Precision::double_ ? 0
                                : a.shared.spinor == Precision::single  ? 1e-6
                                                                        : 1e-3;
    return a;
}

std::vector<OperatorSpec> milcgpu::stages_of(const MultiMassArguments &a) {
    std::vector<OperatorSpec> stages = {a.shared};
    if (a.shared.spinor == Precision::double_ && a.sloppy.spinor == Precision::half)
        stages.push_back({Precision::single, Precision::single, a.sloppy.reals});
    if (!(a.sloppy.spinor == a.shared.spinor))
        stages.push_back(a.sloppy);
    return stages;
}

namespace {

MultiMassSolver &kept_masses(OperatorFamily &family, MassesOfCall &call, KeptSolver &kept) {
    const MultiMassArguments &a = call.a;
    const int n = static_cast<int>(a.limits.shifts.size());
    kept_solvers(family.context).busy_with_several = true;
    if (kept.multi_mass && kept.shared == a.shared && kept.multi_mass->shifts() >= n)
        return *kept.multi_mass;
    kept.multi_mass.reset(); // frees its memory first
    kept.block.reset();
    if (family.context.is_half_full_on_any_rank()) {
        kept_solvers(family.context).all.remove_if([&](const KeptSolver &solver) { return &solver != &kept; });
        for (milcgpu_links *links : family.context.handles)
            links->release_idle();
    }
    make_masses(family.device(), kept, a);
    return *kept.multi_mass;
}

} // namespace

void milcgpu::make_masses(Device &device, KeptSolver &kept, const MultiMassArguments &a) {
    std::vector<Operator> stages;
    for (OperatorSpec spec : stages_of(a))
        stages.push_back(kept.make(spec));
    // The masses are refined together, in single precision. A shared iteration in double alone needs no refinement, or
    // has reached the floor.
    OperatorSpec together{Precision::single, Precision::single, a.sloppy.reals};
    const Operator single = a.sloppy.spinor != Precision::double_ ? kept.make(together) : nullptr;
    const int n = static_cast<int>(a.limits.shifts.size());
    device.collective("memory for several masses", [&] {
        kept.multi_mass = std::make_unique<MultiMassSolver>(device, stages, kept.operators.full, single, n, *kept.cg);
    });
    kept.shared = a.shared;
}

Status milcgpu::solve_masses(OperatorFamily &family, MassesOfCall &call, const CallMeter &meter,
                             milcgpu_multi_mass_report &report) {
    MultiMassArguments &a = call.a;
    const int n = static_cast<int>(a.limits.shifts.size());
    if (n == 0)
        return Status::ok;
    const SolverInUse in_use(family, a.precise, a.sloppy);
    KeptSolver &kept = in_use.solver();
    MultiMassSolver &solver = kept_masses(family, call, kept);
    const MultiMassReport r = verified(
        family.context, [&family] { family.empty(); },
        [&](Verification &verification) {
            call.load(solver.source(), verification);
            return solver.solve(a.limits, call.progress);
        },
        [&](const MultiMassReport &of) { return solver.checked_regions(of.status == Status::ok); });
    fill_report(r, n, report);
    if (r.status != Status::ok)
        set_last_error(call.function, r.message.c_str());
    std::vector<int> solved;
    for (int k = 0; k < n; ++k)
        if (is_answer(r.shifts[k].cg.status))
            solved.push_back(k);
    // From here on nothing but the copies themselves can fail.
    family.device().collective("the copy of solutions", [&] {
        for (const int k : solved)
            call.write(k, solver.solution(k), k == solved.back());
    });
    meter.fill(report);
    family.context.log(2, [&] {
        return format("%s %s, %d shifts: %s, %d shared steps, %.4f s, %.1f GFLOPS", call.name, name(a.shared.spinor), n,
                      milcgpu_status_name(report.status), report.steps, report.seconds, report.gflops);
    });
    if (!call.keeps_solver)
        kept.multi_mass.reset();
    return r.status;
}

void milcgpu::fill_report(const MultiMassReport &r, int n_shifts, milcgpu_multi_mass_report &report) {
    report.status = static_cast<int>(r.status);
    report.iterations = r.iterations;
    report.steps = r.steps;
    report.source_norm = r.source_norm;
    report.shared_seconds = r.shared_seconds;
    fill_rates(r.seconds, r.flops, r.bytes, report);
    std::snprintf(report.message, sizeof report.message, "%s%s", r.message.c_str(), if_zero(r.status, r.source_norm));
    for (int i = 0; i < n_shifts && report.shifts != nullptr; ++i) {
        const CgReport &cg = r.shifts[i].cg;
        report.shifts[i] = {
            static_cast<int>(cg.status), r.shifts[i].shared_steps, cg.iterations, cg.steps, cg.true_residual,
            cg.relative_residual};
    }
}

namespace {

using Write = decltype(MassesOfCall::write);

// An entry. write_to(spec, call): what takes the solutions; it refuses what it cannot take.
template <class WriteTo>
milcgpu_status multi_mass(const char *function, milcgpu_links *links, const milcgpu_multi_mass_spec *given,
                          const milcgpu_field *source, milcgpu_multi_mass_report *report, const WriteTo &write_to) {
    milcgpu_multi_mass_report filled{};
    filled.struct_size = sizeof filled;
    filled.shifts = shifts_of(report);
    const milcgpu_status status = with_links(links, function, [&](milcgpu_context &context) {
        Device &device = *context.device;
        const CallMeter meter(device);
        MassesOfCall call{function, "multi-mass", {}, {}, {}, {}, true};
        HostField from{};
        milcgpu_multi_mass_spec spec{};
        same_on_all_ranks(context, function, [&](CallArguments &arguments) {
            spec = arguments.copy_of("spec", given);
            call.a = checked_multi_mass(spec);
            require_sizes(report, 1);
            filled.links_version = resident(*links).generation();
            call.write = write_to(spec, arguments);
            from = host_field(source, 6, "source");
            check_version(spec.links_version, *links->links);
        });
        call.progress = progress_of(context, spec);
        call.load = [&](const SpinorBlock &b, Verification &verification) {
            flip_if_planted(*links);
            device.collective("the loading of a source", [&] {
                context.reorder->to_device(from, call.a.parity, b);
                verification.loaded(b);
            });
        };
        StaggeredFamily family(*links, call.a.parity);
        return solve_masses(family, call, meter, filled);
    });
    return report_to_caller(status, filled, report);
}

} // namespace

extern "C" milcgpu_status milcgpu_staggered_multi_mass(milcgpu_links *links, const milcgpu_multi_mass_spec *spec,
                                                       const milcgpu_field *source, const milcgpu_field *solutions,
                                                       milcgpu_multi_mass_report *report) {
    return multi_mass("milcgpu_staggered_multi_mass", links, spec, source, report,
                      [&](const milcgpu_multi_mass_spec &full, CallArguments &) {
                          std::vector<HostField> fields;
                          if (full.n_shifts > 0)
                              require(solutions, "milcgpu_staggered_multi_mass", "solutions");
                          for (int i = 0; i < full.n_shifts; ++i)
                              fields.push_back(host_field(&solutions[i], 6, format("solutions[%d]", i).c_str()));
                          const int on = parity_index(full.parity);
                          require_apart(occupied(*links->context, "solutions", true, fields, on));
                          return Write(
                              [context = links->context, fields, parity = on](int i, const SpinorBlock &x, bool) {
                                  context->reorder->to_host(x, parity, fields[i]);
                              });
                      });
}

extern "C" milcgpu_status milcgpu_staggered_multi_mass_vectors(milcgpu_links *links,
                                                               const milcgpu_multi_mass_spec *spec,
                                                               const milcgpu_field *source, milcgpu_vectors *to,
                                                               int first, milcgpu_multi_mass_report *report) {
    return multi_mass("milcgpu_staggered_multi_mass_vectors", links, spec, source, report,
                      [&](const milcgpu_multi_mass_spec &full, CallArguments &call) {
                          require(to, "milcgpu_staggered_multi_mass_vectors", "to");
                          if (to->context != links->context)
                              refuse("to: vectors of another context than the links");
                          need_vectors(*to, call("first", first), full.n_shifts, "first");
                          return Write([to, first, filled = std::vector<int>(), parity = parity_index(full.parity)](
                                           int i, const SpinorBlock &x, bool last) mutable {
                              begin_filling(*to, first + i, 1, parity); // until all are written
                              convert_spinor(*to->context->device, x, to->parity[parity][first + i], 1, nullptr);
                              filled.push_back(first + i);
                              for (size_t k = 0; last && k < filled.size(); ++k)
                                  now_filled(*to, filled[k], 1, parity, false);
                          });
                      });
}
