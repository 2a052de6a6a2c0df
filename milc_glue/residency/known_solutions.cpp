#include "milc_glue/residency/known_solutions.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

void KnownSolutions::remember(const milcgpu_plugin_multi_mass_call &call, const std::vector<HostRecords> &solutions,
                              const HostRecords &source, uint64_t links, bool resident,
                              const milcgpu_multi_mass_report &report) {
    known_.clear();
    const auto mirror_of = [&](const HostRecords &field) {
        Mirror mirror(field, Mirror::Look::whole);
        mirror.both_have();
        return mirror;
    };
    const Mirror of_source = mirror_of(source);
    for (int i = 0; i < call.n_shifts; ++i)
        if (report.shifts[i].status == MILCGPU_OK)
            known_.push_back({of_source, resident ? Mirror(solutions[i], Mirror::Look::whole) : mirror_of(solutions[i]),
                              resident, call.parity, 0.5 * std::sqrt(call.offsets[i]), links, report.source_norm == 0,
                              report.shifts[i]});
}

const KnownSolution *KnownSolutions::find(const milcgpu_plugin_solve_call &call, const HostRecords &source,
                                          const HostRecords &solution, double mass_error, bool on_device) const {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const KnownSolution &k) {
        return k.solution.is_at(solution.data) && k.source.is_at(source.data) && k.parity == call.parity &&
               std::fabs(k.mass - call.mass) <= mass_error * k.mass &&
               (call.tolerance <= 0 || k.report.true_residual < call.tolerance) &&
               (call.relative_tolerance <= 0 || k.report.relative_residual < call.relative_tolerance);
    });
    const bool there = found != known_.end() && (found->resident ? on_device : found->solution.is_same());
    return there && found->source.is_same() ? &*found : nullptr;
}

} // namespace milcgpu
