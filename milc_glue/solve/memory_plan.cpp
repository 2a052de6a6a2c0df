// Plans of memory as tables, and the plans of solves of staggered fermions and of baryons.
#include "milc_glue/solve/memory_plan.h"
#include "gpu_kernels/measure/tie_ups.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "milc_glue/api/members.h"
#include "milc_glue/api/milcgpu_baryons.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/dry_run.h"
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/multi_mass_solves.h"
#include "reorder/resident_links.h"

using namespace milcgpu;

std::string milcgpu::table_of(const MemoryPlan &plan, size_t free_bytes) {
    std::string table;
    const auto mib = [](size_t n) { return static_cast<double>(n) / 1048576.0; };
    const auto line = [&](size_t bytes, const char *what) {
        if (bytes != 0)
            table += format("%10.1f MiB  %s\n", mib(bytes), what);
    };
    line(plan.in_use, "in use");
    line(plan.links, "links as handed over");
    line(plan.raw, "raw copy of host links (while loading)");
    line(plan.packed, "packed links");
    line(plan.terms, "clover terms and their inverses");
    line(plan.vectors, "vectors");
    line(plan.deflation, "deflation, beside its eigenvectors");
    line(plan.tie_ups, "shifted quarks and sums of tie-ups");
    table += format("%10.1f MiB  in all, %.1f MiB free\n", mib(plan.total()), mib(free_bytes));
    line(plan.more, "more, if the solve has to change its precision");
    return table;
}

void milcgpu::fill_plan(const milcgpu_context &context, MemoryPlan plan, char *text, size_t text_size, size_t *bytes) {
    plan.in_use = context.device->used_bytes();
    const std::string table = table_of(plan, context.device->free_bytes());
    if (text != nullptr && text_size > 0)
        std::snprintf(text, text_size, "%s", table.c_str());
    if (bytes != nullptr)
        *bytes = plan.total();
}

namespace {

// A solve of staggered fermions.
class StaggeredRun : public DryRun {
  public:
    // with_lanes(spec): whether there is room for links of several sites.
    template <class WithLanes>
    StaggeredRun(const Geometry &geometry, Precision host, const SolveArguments &a, int sources,
                 const WithLanes &with_lanes)
        : geometry_(geometry), host_(host) {
        const OperatorMaker make = [this, parity = a.parity, with_lanes](OperatorSpec &spec) {
            const OperatorSpec of_lanes = StaggeredOperator::of_lanes(spec);
            if (StaggeredOperator::takes_lanes(of_lanes) && with_lanes(of_lanes))
                spec = of_lanes, lanes_.insert(spec.link);
            else
                packed_.insert({spec.link, spec.reals});
            return std::make_shared<const StaggeredOperator>(geometry_, parity, spec, LinkPair());
        };
        make_solver(make, {Precision::double_, host, 18}, a.precise, a.sloppy, sources); // full_spec()
    }
    StaggeredRun(const milcgpu_context &context, Precision host, const SolveArguments &a, int sources)
        : StaggeredRun(context.geometry, host, a, sources,
                       [&context](const OperatorSpec &spec) { return has_room_for_lanes(context, spec); }) {}
    MemoryPlan plan() {
        return DryRun::plan([this] {
            MemoryPlan plan{};
            plan.links = ResidentLinks::bytes_as_given(host_, geometry_);
            plan.raw = Device::allocated_bytes(size_t(geometry_.volume()) * 72 * real_bytes(host_)); // links_to_device
            plan.packed = ResidentLinks::packed_bytes(packed_, host_, geometry_);
            for (const Precision precision : lanes_)
                plan.packed += Device::allocated_bytes(LaneLinks::bytes_of(geometry_, precision));
            plan.vectors = device.used_bytes();
            return plan;
        });
    }

  private:
    Geometry geometry_;
    Precision host_;
    std::set<Precision> lanes_;
    ResidentField::Versions packed_;
};

Precision checked_host(int precision) { return host_precision_of(precision, "host_precision"); }

MemoryPlan plan_of_solve(const milcgpu_context &context, int host_precision, const milcgpu_solve_spec &spec,
                         const SolveArguments &a, int sources) {
    StaggeredRun run(context, checked_host(host_precision), a, sources);
    MemoryPlan plan = run.plan();
    if (spec.eigenvectors != nullptr) {
        need_eigenvectors(*spec.eigenvectors, context, a.parity);
        const size_t before = run.device.used_bytes();
        const Deflation deflation(run.device, *spec.eigenvectors->set, *run.solver.operators.full, sources);
        plan.deflation = run.device.used_bytes() - before;
    }
    return plan;
}

// plan(spec): the plan for a checked copy of the caller's struct.
template <class Spec, class Plan>
milcgpu_status give_plan(const char *function, milcgpu_context *context, const Spec *spec, char *text, size_t text_size,
                         size_t *bytes, const Plan &plan) {
    return guarded(context, function, [&] {
        require(context, function, "context");
        require(spec, function, "spec");
        fill_plan(*context, plan(full_copy(spec)), text, text_size, bytes);
        return Status::ok;
    });
}

} // namespace

MemoryPlan milcgpu::solve_plan(const Geometry &geometry, Precision host, const SolveArguments &a, int sources) {
    const auto fits = [&](const OperatorSpec &spec) { return LaneLinks::fit(geometry, spec.link); };
    return StaggeredRun(geometry, host, a, sources, fits).plan();
}

MemoryPlan milcgpu::plan_of(const milcgpu_context &context, int host_precision, const milcgpu_solve_spec &spec) {
    return plan_of_solve(context, host_precision, spec, checked_solve(spec), 1);
}

MemoryPlan milcgpu::plan_of(const milcgpu_context &context, int host_precision, const milcgpu_multi_mass_spec &spec) {
    const MultiMassArguments a = checked_multi_mass(checked_copy("spec", spec));
    StaggeredRun run(context, checked_host(host_precision), {a.parity, a.precise, a.sloppy, {}}, 1);
    if (!a.limits.shifts.empty()) {
        make_masses(run.device, run.solver, a);
        run.solver.multi_mass->allocate_refinement();
    }
    return run.plan();
}

extern "C" {

milcgpu_status milcgpu_memory_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                   char *text, size_t text_size, size_t *bytes) {
    return give_plan("milcgpu_memory_plan", context, spec, text, text_size, bytes,
                     [&](const milcgpu_solve_spec &full) { return plan_of(*context, host_precision, full); });
}

milcgpu_status milcgpu_sources_plan(milcgpu_context *context, int host_precision, const milcgpu_solve_spec *spec,
                                    int together, int n, char *text, size_t text_size, size_t *bytes) {
    return give_plan("milcgpu_sources_plan", context, spec, text, text_size, bytes,
                     [&](const milcgpu_solve_spec &full) {
                         check_together(together, n);
                         OfEachSource each;
                         const SolveArguments a = checked_sources(full, n, each);
                         const int at_once = sources_at_once(n, together, each.loose > 0);
                         return plan_of_solve(*context, host_precision, full, a, at_once);
                     });
}

milcgpu_status milcgpu_multi_mass_plan(milcgpu_context *context, int host_precision,
                                       const milcgpu_multi_mass_spec *spec, char *text, size_t text_size,
                                       size_t *bytes) {
    return give_plan("milcgpu_multi_mass_plan", context, spec, text, text_size, bytes,
                     [&](const milcgpu_multi_mass_spec &full) { return plan_of(*context, host_precision, full); });
}

milcgpu_status milcgpu_octets_plan(milcgpu_context *context, int precision, int quarks, int tie_ups, char *text,
                                   size_t text_size, size_t *bytes) {
    constexpr const char *function = "milcgpu_octets_plan";
    return guarded(context, function, [&] {
        require(context, function, "context");
        const Precision real = host_precision_of(precision, "precision");
        CallArguments call;
        call("quarks", quarks, from_to(1, 24));
        call("tie_ups", tie_ups, from_to(1, 262144));
        MemoryPlan plan{};
        plan.vectors = 2 * SpinorField::allocated_bytes(real, context->geometry, 3 * quarks) +
                       Device::allocated_bytes(sizeof(uint64_t)); // milcgpu_vectors
        for (const size_t array : tie_up_arrays(context->geometry, context->halo != nullptr, real, quarks, tie_ups))
            plan.tie_ups += Device::allocated_bytes(array);
        fill_plan(*context, plan, text, text_size, bytes);
        return Status::ok;
    });
}

} // extern "C"
