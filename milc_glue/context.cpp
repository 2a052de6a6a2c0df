// What a context keeps between calls: sets of links, solvers. And what of it goes when memory is short.
#include "milc_glue/context.h"

using namespace milcgpu;

bool milcgpu_context::give_back() {
    for (auto oldest = solvers.rbegin(); oldest != solvers.rend(); ++oldest)
        if (&*oldest != busy) {
            say(2, format("memory is short: an idle solver (%s/%s) is given back", name(oldest->precise.spinor),
                          name(oldest->sloppy.spinor)));
            solvers.erase(std::next(oldest).base());
            return true;
        }
    if (busy != nullptr && !busy_with_several && busy->multi_mass) {
        say(2, "memory is short: an idle multi-mass solver is given back");
        solvers.front().multi_mass.reset();
        return true;
    }
    bool any = false;
    for (milcgpu_links *handle : handles)
        any = (handle->links && handle->links->drop_unused()) || any;
    return any;
}

ResidentLinks &milcgpu::renewed(milcgpu_links &handle, Precision real) {
    milcgpu_context &context = *handle.context;
    if (!handle.links || handle.links->host_real() != real) {
        context.forget(&handle, 0);
        if (handle.links)
            handle.changes = handle.links->changes();
        handle.links.reset(); // its memory first
        handle.links =
            std::make_unique<ResidentLinks>(*context.device, context.map, context.geometry, real, handle.changes);
    }
    return *handle.links;
}

void milcgpu::forget_solvers(milcgpu_links &handle) { handle.context->forget(&handle, handle.links->generation()); }

ResidentLinks &milcgpu::resident(milcgpu_context *context, milcgpu_links *links) {
    require(links, "links", "the handle");
    if (links->context != context)
        refuse("the links belong to another context");
    if (!links->links || links->links->empty())
        refuse("the links are empty: the last update failed");
    return *links->links;
}

namespace {

constexpr size_t cached_solvers = 4;

// Keeps the packed links that it works with.
struct HoldingOperator : StaggeredOperator {
    HeldLinks held;
    HoldingOperator(const Geometry &geometry, int parity, const OperatorSpec &spec, const HeldLinks &links)
        : StaggeredOperator(geometry, parity, spec, links.pair), held(links) {}
};

} // namespace

Operator milcgpu::level_operator(milcgpu_links &links, int parity, OperatorSpec &spec) {
    const HeldLinks held = links.links->held_version(spec.link, spec.reals);
    spec.reals = held.pair.lng->reals(); // granted
    return std::make_shared<HoldingOperator>(links.context->geometry, parity, spec, held);
}

Operator milcgpu::full_operator(milcgpu_links &links, int parity) {
    const OperatorSpec spec{Precision::double_, links.links->host_real(), 18};
    return std::make_shared<StaggeredOperator>(links.context->geometry, parity, spec, links.links->full());
}

milcgpu_context::CachedSolver &milcgpu::cached_solver(milcgpu_context &context, milcgpu_links &links, int parity,
                                                      OperatorSpec &precise, OperatorSpec &sloppy) {
    CgOperators operators;
    operators.precise = level_operator(links, parity, precise);
    operators.sloppy = level_operator(links, parity, sloppy);
    operators.full = full_operator(links, parity);
    // Single precision with the same reals, where half is asked for beside something finer.
    if (sloppy.spinor == Precision::half && precise.spinor != Precision::half)
        operators.finer = [&links, parity, reals = sloppy.reals] {
            OperatorSpec spec{Precision::single, Precision::single, reals};
            return level_operator(links, parity, spec);
        };
    const std::string warnings = links.links->take_warnings();
    if (!warnings.empty())
        context.say(1, warnings.substr(0, warnings.size() - 1));
    const uint64_t version = links.links->generation();
    auto &solvers = context.solvers;
    context.busy_with_several = false;
    for (auto entry = solvers.begin(); entry != solvers.end(); ++entry)
        if (entry->parity == parity && entry->precise == precise && entry->sloppy == sloppy && entry->links == &links &&
            entry->version == version) {
            solvers.splice(solvers.begin(), solvers, entry);
            context.busy = &solvers.front();
            return solvers.front();
        }
    if (solvers.size() >= cached_solvers)
        solvers.pop_back();
    solvers.push_front({parity, precise, sloppy, &links, version, nullptr, nullptr, {}});
    context.busy = &solvers.front();
    try {
        solvers.front().solver = std::make_unique<CgSolver>(*context.device, operators);
    } catch (...) {
        context.busy = nullptr;
        solvers.pop_front();
        throw;
    }
    return solvers.front();
}
