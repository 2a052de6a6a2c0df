// Plans of memory: what a solve takes on the device, from the extents alone, as numbers and as a table.
#pragma once
#include "gpu_kernels/solver/normal_operator.h"
#include "milc_glue/api/context.h"

namespace milcgpu {

// What a solve takes on the device, in bytes. All of it is there at once where links are loaded again between two
// solves. Where that does not fit, the solver that waits for the next solve is given back first.
struct MemoryPlan {
    size_t in_use, links, raw, packed, terms, vectors, deflation;
    size_t more; // beside it, where the solve has to change its precision on the way
    size_t total() const { return in_use + links + raw + packed + terms + vectors + deflation; }
};
// Links and vectors of a solve for one mass, with links for `others`. host: precision of the links as handed over.
// sources: at once.
MemoryPlan solve_plan(const Geometry &, Precision host, const std::vector<OperatorSpec> &others,
                      const OperatorSpec &precise, const OperatorSpec &sloppy, int sources = 1);
// Of the calls that the C interface plans. Throws Error(bad_argument) as these do.
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_solve_spec &);
MemoryPlan plan_of(const milcgpu_context &, int host_precision, const milcgpu_multi_mass_spec &);
std::string table_of(const MemoryPlan &plan, size_t free_bytes);
void fill_plan(const milcgpu_context &, MemoryPlan plan, char *text, size_t text_size, size_t *bytes);

} // namespace milcgpu
