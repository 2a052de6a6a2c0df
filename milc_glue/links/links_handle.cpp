#include "milc_glue/links/links_handle.h"
#include "gpu_kernels/algebra/blas.h"
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/machine/geometry/places.h"
#include "gpu_kernels/staggered/staggered_operator.h"
#include "milc_glue/api/members.h"
#include <algorithm>

using namespace milcgpu;

ResidentLinks &milcgpu::renewed(milcgpu_links &handle, Precision real) {
    milcgpu_context &context = *handle.context;
    if (!handle.links || handle.links->host_real() != real) {
        context.forget(&handle);
        if (handle.links)
            handle.changes = handle.links->changes();
        handle.links.reset(); // frees its memory first
        context.device->collective("memory for links", [&] {
            handle.links = std::make_unique<ResidentLinks>(*context.device, context.map, context.geometry, real,
                                                           handle.changes, context.halo.get(), context.warn());
        });
    }
    return *handle.links;
}

void milcgpu::forget_solvers(milcgpu_links &handle) {
    const uint64_t tag = handle.links->tag();
    handle.context->forget(&handle, tag);
    if (std::exchange(handle.learning_of, tag) != tag)
        handle.learning[0].reset(), handle.learning[1].reset();
}

ResidentLinks &milcgpu::resident(milcgpu_links &links) {
    if (!links.links || links.links->empty())
        refuse("the links are empty, because the last update failed: update them again");
    return *links.links;
}

ResidentLinks &milcgpu::resident(milcgpu_context *context, milcgpu_links *links, const char *what) {
    require(links, what, "the handle");
    if (links->context != context)
        refuse(format("%s: the handle belongs to another context than the call", what));
    return resident(*links);
}

namespace {

// An operator that holds the packed links that it works with.
struct HoldingOperator : StaggeredOperator {
    HeldLinks held;
    HoldingOperator(const milcgpu_context &context, int parity, const OperatorSpec &spec, const HeldLinks &links)
        : StaggeredOperator(context.geometry, parity, spec, links.pair, context.halo.get()), held(links) {}
};

} // namespace

bool milcgpu::has_room_for_lanes(const milcgpu_context &context, const OperatorSpec &spec) {
    return LaneLinks::fit(context.geometry, spec.link) && !context.device->is_half_full();
}

// All ranks or none.
static bool take_lanes(const milcgpu_links &links, const OperatorSpec &spec) {
    if (!StaggeredOperator::takes_lanes(spec))
        return false;
    if (links.links->has_lanes(spec.link))
        return true;
    const std::vector<int> room = links.context->ranks->gathered("room for links of several sites",
                                                                 int(has_room_for_lanes(*links.context, spec)));
    return std::all_of(room.begin(), room.end(), [](int there) { return there != 0; });
}

Operator milcgpu::level_operator(milcgpu_links &links, int parity, OperatorSpec &spec) {
    const OperatorSpec of_lanes = StaggeredOperator::of_lanes(spec);
    const bool lanes = take_lanes(links, of_lanes);
    if (lanes)
        spec = of_lanes;
    const HeldLinks held =
        lanes ? links.links->held_lanes(spec.link) : links.links->held_version(spec.link, spec.reals);
    spec.reals = held.pair.lng->reals(); // what was granted
    return std::make_shared<HoldingOperator>(*links.context, parity, spec, held);
}

void milcgpu::apply_dslash(milcgpu_context &context, const LinkPair &links, int parity, const SpinorBlock &in,
                           const SpinorBlock &out) {
    DslashCall call{};
    call.lattice = context.geometry.lattice();
    call.parity = parity;
    call.fat = links.fat, call.lng = links.lng, call.lanes = links.lanes;
    call.in = in, call.out = out;
    if (context.halo)
        call.exchange = context.halo->before_dslash(in, 1 - parity);
    dslash(*context.device, call, Epilogue::plain);
}

void milcgpu::require_finite_dslash(milcgpu_context &context, int parity, const SpinorBlock &in,
                                    const SpinorBlock &out) {
    context.device->collective("the check of D of a vector", [&] {
        if (first_not_finite(*context.device, out) < 0)
            return;
        const long long bad = first_not_finite(*context.device, in);
        throw Error(Status::nan_or_inf,
                    bad >= 0 ? format("source: the site %s holds NaN or infinity",
                                      place_of_site(context.geometry, 1 - parity, bad).c_str())
                             : "D of the source holds NaN or infinity: the source or the links are too large");
    });
}

OperatorSpec milcgpu::full_spec(const milcgpu_links &links) {
    return {Precision::double_, links.links->host_real(), 18, true};
}

Operator milcgpu::full_operator(milcgpu_links &links, int parity) {
    OperatorSpec spec = full_spec(links);
    return level_operator(links, parity, spec);
}

void milcgpu::check_version(uint64_t asked, const ResidentLinks &links) {
    if (asked != 0 && asked != links.generation())
        refuse(format("stale links: the solve asks for version %llu, the handle holds version %llu; update the links",
                      static_cast<unsigned long long>(asked), static_cast<unsigned long long>(links.generation())));
}

namespace {

// Returns true if the content changed. to: the argument `links`, which all ranks give.
bool update_links(milcgpu_links &handle, const void *to, const milcgpu_field *fat, const milcgpu_field *lng) {
    HostField fat_field{}, lng_field{};
    same_on_all_ranks(*handle.context, "an update of links", [&](CallArguments &call) {
        call.given("links", to);
        fat_field = host_field(fat, 72, "fat"), lng_field = host_field(lng, 72, "lng");
        if (fat_field.real != lng_field.real)
            refuse(format("fat links are in %s precision, long links in %s: both must have the same precision",
                          name(fat_field.real), name(lng_field.real)));
        call("the precision of links", int(fat_field.real));
    });
    const bool changed = renewed(handle, fat_field.real).update(fat_field, lng_field);
    forget_solvers(handle);
    return changed;
}

} // namespace

extern "C" {

milcgpu_status milcgpu_links_create(milcgpu_context *context, const milcgpu_field *fat, const milcgpu_field *lng,
                                    milcgpu_links **links) {
    if (links != nullptr)
        *links = nullptr;
    return guarded(context, "milcgpu_links_create", [&] {
        require(context, "milcgpu_links_create", "context");
        auto fresh = std::make_unique<milcgpu_links>(context);
        update_links(*fresh, links, fat, lng);
        *links = fresh.release();
        return Status::ok;
    });
}

milcgpu_status milcgpu_links_update(milcgpu_links *links, const milcgpu_field *fat, const milcgpu_field *lng,
                                    int *changed) {
    return with_links(links, "milcgpu_links_update", [&](milcgpu_context &) {
        const bool differ = update_links(*links, links, fat, lng);
        if (changed != nullptr)
            *changed = differ;
        return Status::ok;
    });
}

uint64_t milcgpu_links_version(const milcgpu_links *links) {
    return links != nullptr && links->links ? links->links->generation() : 0;
}

void milcgpu_links_destroy(milcgpu_links *links) {
    if (links == nullptr || !may_end(*links->context, "milcgpu_links_destroy"))
        return;
    links->context->forget(links);
    delete links;
}

} // extern "C"
