// Fat and long links behind a handle of the C interface, and the operators that are made of them.
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
    uint64_t changes = 0; // versions that earlier sets of this handle have counted
    // Of each parity, of the content with this tag.
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

ResidentLinks &resident(milcgpu_links &links); // throws where there are none
// Of another handle's context; what: the argument's name.
ResidentLinks &resident(milcgpu_context *context, milcgpu_links *links, const char *what = "links");
// With links in the precision and reals of spec, which stay as long as the operator does; spec.reals becomes what was
// granted.
Operator level_operator(milcgpu_links &links, int parity, OperatorSpec &spec);
// out = D in, on the sites of `parity`. The ghosts of `in` are filled first. Throws Error(nan_or_inf) that names a
// place in `in`, or else in the result, where that is not finite.
void apply_dslash(milcgpu_context &, const LinkPair &links, int parity, const SpinorBlock &in, const SpinorBlock &out);
// With vectors in double and the links as handed over.
OperatorSpec full_spec(const milcgpu_links &links);
Operator full_operator(milcgpu_links &links, int parity);
// The set of links behind a handle that has just been made or is to be given new content in `real`.
ResidentLinks &renewed(milcgpu_links &handle, Precision real);
// After that content has come.
void forget_solvers(milcgpu_links &handle);
void check_version(uint64_t asked, const ResidentLinks &links); // throws where links are stale

// guarded() of a call with such a handle: body(context).
template <class Body> milcgpu_status with_links(milcgpu_links *links, const char *function, const Body &body) {
    return guarded(links != nullptr ? links->context : nullptr, function, [&] {
        require(links, function, "links");
        return body(*links->context);
    });
}

} // namespace milcgpu
