#include "milc_glue/plugin/known_solutions.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

namespace {

uint64_t hash_of(const HostRecords &field) {
    return field.pitch == field.bytes ? hash_bytes(field.data, field.count * field.bytes) : hash_records(field);
}

} // namespace

void KnownSolutions::remember(const milcgpu_plugin_multi_mass_call &call, const std::vector<HostRecords> &solutions,
                              const HostRecords &source, uint64_t links, bool zero_source, bool resident,
                              const milcgpu_shift_report *shifts) {
    known_.clear();
    const uint64_t source_hash = resident ? 0 : hash_of(source);
    for (int i = 0; i < call.n_shifts; ++i)
        if (shifts[i].status == MILCGPU_OK)
            known_.push_back({call.source.data, call.solutions[i].data, call.parity, 0.5 * std::sqrt(call.offsets[i]),
                              links, source_hash, resident ? 0 : hash_of(solutions[i]), zero_source, resident,
                              shifts[i]});
}

const KnownSolution *KnownSolutions::find(const milcgpu_plugin_solve_call &call, const HostRecords &source,
                                          const HostRecords &solution, double mass_error) const {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const KnownSolution &k) {
        return k.solution == call.solution.data && k.source == call.source.data && k.parity == call.parity &&
               std::fabs(k.mass - call.mass) <= mass_error * k.mass &&
               (call.tolerance <= 0 || k.report.true_residual < call.tolerance) &&
               (call.relative_tolerance <= 0 || k.report.relative_residual < call.relative_tolerance);
    });
    const bool same =
        found != known_.end() &&
        (found->resident || (found->source_hash == hash_of(source) && found->solution_hash == hash_of(solution)));
    return same ? &*found : nullptr;
}

} // namespace milcgpu
