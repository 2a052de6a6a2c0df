// What a context keeps between calls: sets of links, solvers. And what of it goes when memory is short.
#include "milc_glue/api/context.h"
#include "gpu_kernels/blas/blas.h"
#include "gpu_kernels/halo/halo.h"
#include <cstring>

using namespace milcgpu;

void Evictable::register_here() { of_.evictable.insert(this); }
Evictable::~Evictable() { of_.evictable.erase(this); }

milcgpu_context::milcgpu_context() = default;
milcgpu_context::~milcgpu_context() = default;

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

ResidentLinks &milcgpu::renewed(milcgpu_links &handle, Precision real) {
    milcgpu_context &context = *handle.context;
    if (!handle.links || handle.links->host_real() != real) {
        context.forget(&handle);
        if (handle.links)
            handle.changes = handle.links->changes();
        handle.links.reset(); // its memory first
        context.device->collective("memory for links", [&] {
            handle.links = std::make_unique<ResidentLinks>(*context.device, context.map, context.geometry, real,
                                                           handle.changes, context.halo.get(), context.warn());
        });
    }
    return *handle.links;
}

void milcgpu::forget_solvers(milcgpu_links &handle) { handle.context->forget(&handle, handle.links->tag()); }

ResidentLinks &milcgpu::resident(milcgpu_links &links) {
    if (!links.links || links.links->empty())
        refuse("the links are empty: the last update failed");
    return *links.links;
}

ResidentLinks &milcgpu::resident(milcgpu_context *context, milcgpu_links *links) {
    require(links, "links", "the handle");
    if (links->context != context)
        refuse("the links belong to another context");
    return resident(*links);
}

namespace {

// Keeps the packed links that it works with.
struct HoldingOperator : StaggeredOperator {
    HeldLinks held;
    HoldingOperator(const milcgpu_context &context, int parity, const OperatorSpec &spec, const HeldLinks &links)
        : StaggeredOperator(context.geometry, parity, spec, links.pair, context.halo.get()), held(links) {}
};

} // namespace

Operator milcgpu::level_operator(milcgpu_links &links, int parity, OperatorSpec &spec) {
    const HeldLinks held = links.links->held_version(spec.link, spec.reals);
    spec.reals = held.pair.lng->reals(); // granted
    return std::make_shared<HoldingOperator>(*links.context, parity, spec, held);
}

void milcgpu::apply_dslash(milcgpu_context &context, const LinkPair &links, int parity, const SpinorBlock &in,
                           const SpinorBlock &out) {
    DslashCall call{};
    call.lattice = context.geometry.lattice();
    call.parity = parity;
    call.fat = links.fat, call.lng = links.lng;
    call.in = in, call.out = out;
    if (context.halo)
        call.exchange = context.halo->before_dslash(in, 1 - parity);
    dslash(*context.device, call, Epilogue::plain);
    context.device->collective("a look at D of a vector", [&] {
        if (first_not_finite(*context.device, out) < 0)
            return;
        const long long bad = first_not_finite(*context.device, in);
        throw Error(Status::nan_or_inf,
                    bad >= 0 ? format("source: site %lld of the %s sites (lexicographic order) holds NaN or infinity",
                                      bad, parity == 0 ? "odd" : "even")
                             : "D of the source holds NaN or infinity: the source or the links are too large");
    });
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

OperatorSpec milcgpu::full_spec(const milcgpu_links &links) {
    return {Precision::double_, links.links->host_real(), 18};
}

Operator milcgpu::full_operator(milcgpu_links &links, int parity) {
    OperatorSpec spec = full_spec(links);
    return level_operator(links, parity, spec);
}
