// What a solve for Wilson fermions holds on the device, from the extents alone.
#include "gpu_kernels/solver/precision_ladder.h"
#include "milc_glue/solve/wilson.h"
#include <algorithm>

using namespace milcgpu;

MemoryPlan milcgpu_wilson::plan(const WilsonParameters &of, int method, const OperatorSpec &precise,
                                const OperatorSpec &sloppy, int sources) const {
    const OperatorSpec full = {Precision::double_, Precision::double_, 18};
    const auto field = [&](Precision p, int count = 1) {
        return Device::allocated_bytes(SpinorField::bytes_of(p, geometry(), count, wilson_components));
    };
    const auto link_bytes = [&](const OperatorSpec &spec) {
        return Device::allocated_bytes(LinkField::bytes_of(spec.link, spec.reals, geometry()));
    };
    const auto term_bytes = [&](Precision p) {
        return of.cku0 != 0 ? 2 * Device::allocated_bytes(CloverField::bytes_of(p, geometry())) : 0;
    };
    constexpr int of_system = 5; // EvenOdd
    MemoryPlan plan{};
    std::vector<OperatorSpec> have; // whose links and terms are counted
    const auto need = [&](const OperatorSpec &spec, size_t &links, size_t &terms) {
        const auto has = [&](const auto &same) { return std::any_of(have.begin(), have.end(), same); };
        if (!has([&](const OperatorSpec &o) { return o == spec; }))
            links += link_bytes(spec);
        if (!has([&](const OperatorSpec &o) { return o.spinor == spec.spinor; }))
            terms += term_bytes(spec.spinor);
        have.push_back(spec);
    };
    need(full, plan.links, plan.terms);
    need(precise, plan.packed, plan.terms);
    need(sloppy, plan.packed, plan.terms);
    plan.vectors = field(full.spinor) + sources * of_system * field(full.spinor); // with the middle of the matrix
    if (method == MILCGPU_WILSON_BICGSTAB) {
        plan.vectors += BicgstabSolver::workspace_bytes(geometry(), sloppy.spinor, wilson_components) +
                        (sloppy == full ? 0 : field(sloppy.spinor));
        return plan;
    }
    plan.vectors += CgSolver::workspace_bytes(geometry(), precise, sloppy, full.link, wilson_components) +
                    (precise == full ? 0 : field(precise.spinor)) + (sloppy == precise ? 0 : field(sloppy.spinor));
    if (sources > 1) {
        const OperatorSpec several = ladder::of_several(sloppy);
        need(several, plan.packed, plan.terms);
        plan.vectors += BlockCgSolver::workspace_bytes(geometry(), several, sources, wilson_components) +
                        field(full.spinor, sources);
        if (!(several == full))
            plan.vectors += field(several.spinor) + field(several.spinor, sources);
    }
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half) {
        need({Precision::single, Precision::single, sloppy.reals}, plan.more, plan.more);
        plan.more += CgSolver::later_bytes(geometry(), precise, sloppy, wilson_components) + field(Precision::single);
    }
    return plan;
}
