// The handle of fat and long links, and the operators that use them.
#pragma once
#include "gpu_kernels/solver/normal_operator.h"
#include "milc_glue/api/checks.h"
#include "milc_glue/api/context.h"
#include "reorder/resident_links.h"

namespace milcgpu {
class Learning; // milc_glue/solve/learning.h
} // namespace milcgpu

struct milcgpu_links : milcgpu::Evictable {
    milcgpu_context *context;
    std::unique_ptr<milcgpu::ResidentLinks> links;
    uint64_t changes = 0; // versions that earlier sets of this handle counted
    // For each parity, for the content with this tag.
    std::shared_ptr<milcgpu::Learning> learning[2];
    uint64_t learning_of = 0;
    explicit milcgpu_links(milcgpu_context *of) : Evictable(*of, last), context(of) {
        context->handles.insert(this);
        register_here();
    }
    ~milcgpu_links() override { context->handles.erase(this); }
    bool release_idle() override { return links && links->drop_unused(); } // packed links that nobody reads
};

namespace milcgpu {

ResidentLinks &resident(milcgpu_links &links); // throws if the handle is empty
// Also throws if the links are of another context. what: the argument's name.
ResidentLinks &resident(milcgpu_context *context, milcgpu_links *links, const char *what = "links");
// An operator with links in the precision and reals of spec, which it holds; spec.reals becomes the number of reals
// that was granted.
Operator level_operator(milcgpu_links &links, int parity, OperatorSpec &spec);
// Whether links for several sites at once (LaneLinks) fit this rank's lattice, and are worth their memory: the device
// is not more than half full. Without them an operator has the same results.
bool has_room_for_lanes(const milcgpu_context &, const OperatorSpec &);
// out = D in for each source, on the sites of `parity`. Fills the ghosts of `in` first.
void apply_dslash(milcgpu_context &, const LinkPair &links, int parity, const SpinorBlock &in, const SpinorBlock &out);
// Throws Error(nan_or_inf) if out, which is D of the one source `in`, is not finite. The message names a place in `in`,
// or says that the result is too large.
void require_finite_dslash(milcgpu_context &, int parity, const SpinorBlock &in, const SpinorBlock &out);
// An operator with vectors in double and the links as loaded.
OperatorSpec full_spec(const milcgpu_links &links);
Operator full_operator(milcgpu_links &links, int parity);
// The links of a handle that was just created, or that will get new content in the precision `real`.
ResidentLinks &renewed(milcgpu_links &handle, Precision real);
// Call it after that content was written.
void forget_solvers(milcgpu_links &handle);
void check_version(uint64_t asked, const ResidentLinks &links); // throws if the links are stale

// guarded() for a call with such a handle: body(context).
template <class Body> milcgpu_status with_links(milcgpu_links *links, const char *function, const Body &body) {
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        return body(*links->context);
    });
}

} // namespace milcgpu
