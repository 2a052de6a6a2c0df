#include "milc_glue/solve/kept_solver.h"

namespace milcgpu {

KeptSolvers &kept_solvers(milcgpu_context &context) {
    if (!context.solvers)
        context.solvers = std::make_unique<KeptSolvers>(context);
    return static_cast<KeptSolvers &>(*context.solvers);
}

void KeptSolvers::forget(const void *handle, uint64_t still_valid) {
    all.remove_if([&](const KeptSolver &s) { return s.handle == handle && s.tag != still_valid; });
}

bool KeptSolvers::release_idle() {
    for (auto oldest = all.rbegin(); oldest != all.rend(); ++oldest)
        if (&*oldest != busy) {
            context_.log(2, format("memory is short: an idle solver (%s/%s) is freed", name(oldest->precise.spinor),
                                   name(oldest->sloppy.spinor)));
            all.erase(std::next(oldest).base());
            return true;
        }
    if (busy == nullptr || busy_with_several || !(busy->multi_mass || busy->block))
        return false;
    context_.log(2, "memory is short: an idle solver for several masses or sources is freed");
    all.front().multi_mass.reset();
    all.front().block.reset();
    return true;
}

} // namespace milcgpu
