// milcgpu_memory_plan: what links and a solve will take, from the extents alone.
#include "milc_glue/api/context.h"
#include <set>

using namespace milcgpu;

namespace {

// Versions of the links that are not the links as handed over. 0 reals: fat links.
using Packed = std::set<std::pair<Precision, int>>;

void add_packed(Packed &packed, Precision host, const std::vector<OperatorSpec> &levels) {
    for (const OperatorSpec &level : levels) {
        if (level.link != host)
            packed.insert({level.link, 0});
        if (level.link != host || level.reals != 18)
            packed.insert({level.link, level.reals});
    }
}

size_t links_bytes(const Geometry &geometry, Precision precision, int reals) {
    return Device::allocated_bytes(LinkField::bytes_of(precision, reals == 0 ? 18 : reals, geometry));
}

size_t bytes_of(const Geometry &geometry, const Packed &packed) {
    size_t bytes = 0;
    for (const auto &[precision, reals] : packed)
        bytes += links_bytes(geometry, precision, reals);
    return bytes;
}

} // namespace

MemoryPlan milcgpu::solve_plan(const Geometry &geometry, Precision host, const std::vector<OperatorSpec> &others,
                               const OperatorSpec &precise, const OperatorSpec &sloppy) {
    Packed packed, all;
    add_packed(packed, host, others);
    add_packed(packed, host, {precise, sloppy});
    all = packed;
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
        add_packed(all, host, {{Precision::single, Precision::single, sloppy.reals}});
    MemoryPlan plan{};
    plan.links = 2 * links_bytes(geometry, host, 18);
    plan.raw = Device::allocated_bytes(size_t(geometry.volume()) * 72 * real_bytes(host));
    plan.packed = bytes_of(geometry, packed);
    plan.vectors = CgSolver::workspace_bytes(geometry, precise, sloppy, host);
    plan.more = bytes_of(geometry, all) - plan.packed + CgSolver::later_bytes(geometry, precise, sloppy);
    return plan;
}

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
