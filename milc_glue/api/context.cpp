// What a context keeps between calls: sets of links, solvers. And what of it goes when memory is short.
#include "milc_glue/api/context.h"
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/solve/kept_solver.h"
#include <cstring>

using namespace milcgpu;

void Evictable::register_here() { of_.evictable.insert(this); }
Evictable::~Evictable() { of_.evictable.erase(this); }

milcgpu_context::milcgpu_context() = default;
milcgpu_context::~milcgpu_context() = default;

void milcgpu_context::forget(const void *handle, uint64_t still_valid) {
    solvers.remove_if([&](const KeptSolver &s) { return s.handle == handle && s.tag != still_valid; });
}

bool milcgpu_context::release_idle() {
    if (release_more && release_more())
        return true;
    for (auto oldest = solvers.rbegin(); oldest != solvers.rend(); ++oldest)
        // On many ranks only staggered ones: the others are made and dropped by all ranks together.
        if (&*oldest != busy && (halo == nullptr || oldest->shelf == this)) {
            log(2, format("memory is short: an idle solver (%s/%s) is given back", name(oldest->precise.spinor),
                          name(oldest->sloppy.spinor)));
            solvers.erase(std::next(oldest).base());
            return true;
        }
    if (busy != nullptr && !busy_with_several && (busy->multi_mass || busy->block)) {
        log(2, "memory is short: an idle solver for several masses or sources is given back");
        solvers.front().multi_mass.reset();
        solvers.front().block.reset();
        return true;
    }
    bool any = false;
    for (Evictable *keeper : evictable)
        any = keeper->release_idle() || any;
    if (any)
        return true;
    for (milcgpu_links *handle : handles)
        any = (handle->links && handle->links->drop_unused()) || any;
    return any;
}

void milcgpu::require_same_on_all_ranks(milcgpu_context &context, const std::vector<RankNumber> &values) {
    const Ranks &ranks = *context.ranks;
    if (ranks.size() == 1 || values.empty()) // as many on all ranks
        return;
    std::vector<double> mine, all(values.size() * ranks.size());
    for (const RankNumber &value : values)
        mine.push_back(value.value);
    context.ranks->all_gather("a look at the arguments", mine.data(), all.data(), mine.size() * sizeof(double));
    for (size_t k = 0; k < all.size(); ++k) {
        const RankNumber &value = values[k % values.size()];
        const double first = all[k % values.size()];
        if (std::memcmp(&all[k], &first, sizeof first) != 0)
            refuse(format("%s is %.17g on %s and %.17g on rank 0: all ranks must ask for the same",
                          value.name.text().c_str(), all[k], ranks.name(static_cast<int>(k / values.size())).c_str(),
                          first));
    }
}
