// Plans of memory: the bytes of a solve, or of baryons, on the device, from the extents alone, as numbers and as a
// table.
#pragma once
#include "milc_glue/api/context.h"

namespace milcgpu {
struct SolveArguments;

// The bytes of a solve on the device. All are in use at once if links are loaded again between two solves; if that does
// not fit, the idle solver is freed first.
struct MemoryPlan {
    size_t in_use, links, raw, packed, terms, vectors, deflation;
    size_t tie_ups; // of a call that ties up baryons, beside its quarks, which are vectors
    size_t more;    // in addition, if the solve has to change its precision
    size_t total() const { return in_use + links + raw + packed + terms + vectors + deflation + tie_ups; }
};
// Links and vectors of a solve. host: the precision of the links as handed over. sources: solved at once.
MemoryPlan solve_plan(const Geometry &, Precision host, const SolveArguments &, int sources = 1);
// Plans of calls of the C interface. Throw Error(bad_argument) as these calls do.
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_solve_spec &);
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_multi_mass_spec &);
std::string table_of(const MemoryPlan &plan, size_t free_bytes);
void fill_plan(const milcgpu_context &, MemoryPlan plan, char *text, size_t text_size, size_t *bytes);

} // namespace milcgpu
