#include "milc_glue/solve/dry_run.h"
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/solve/solve_driver.h"

namespace milcgpu {

void DryRun::make_solver(const OperatorMaker &make, const OperatorSpec &full, const OperatorSpec &precise,
                         const OperatorSpec &sloppy, int sources) {
    solver.make = [this, make](OperatorSpec &spec) {
        versions.insert({spec.link, spec.reals});
        return make(spec);
    };
    solver.precise = precise, solver.sloppy = sloppy;
    make_cg(device, solver, full);
    if (sources == 1)
        return;
    const Operator A = operator_of_several(solver, ladder::of_several(sloppy));
    solver.block = std::make_unique<BlockCgSolver>(device, solver.operators.full, A, sources, *solver.cg);
}

MemoryPlan DryRun::plan(const std::function<MemoryPlan()> &now) {
    MemoryPlan plan = now();
    solver.cg->allocate_changes();
    if (solver.block)
        solver.block->allocate_changes();
    plan.more = now().total() - plan.total();
    return plan;
}

} // namespace milcgpu
