// Plans of memory as tables, and the plan of a solve.
#include "milc_glue/solve/memory_plan.h"
#include "milc_glue/api/members.h"
#include "milc_glue/solve/eigen_handle.h"
#include "milc_glue/solve/solve_arguments.h"

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
    table += format("%10.1f MiB  in all, %.1f MiB free\n", mib(plan.total()), mib(free_bytes));
    line(plan.more, "more, where the solve has to change its precision on the way");
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

MemoryPlan milcgpu::plan_of(const milcgpu_context &context, int host_precision, const milcgpu_solve_spec &spec) {
    const SolveArguments a = checked_solve(spec);
    MemoryPlan plan =
        solve_plan(context.geometry, host_precision_of(host_precision, "host_precision"), {}, a.precise, a.sloppy);
    plan.deflation = deflation_bytes(context, spec, 1);
    return plan;
}

extern "C" milcgpu_status milcgpu_memory_plan(milcgpu_context *context, int host_precision,
                                              const milcgpu_solve_spec *spec, char *text, size_t text_size,
                                              size_t *bytes) {
    return guarded(context, "milcgpu_memory_plan", [&] {
        require(context, "milcgpu_memory_plan", "context");
        require(spec, "milcgpu_memory_plan", "spec");
        fill_plan(*context, plan_of(*context, host_precision, full_copy(spec)), text, text_size, bytes);
        return Status::ok;
    });
}
