// The C interface: D and M of Wilson fermions.
#include "milc_glue/links/verify.h"
#include "milc_glue/solve/solve_arguments.h"
#include "milc_glue/solve/wilson_calls.h"

using namespace milcgpu;

namespace {

OperatorSpec wilson_operator_of(const milcgpu_storage &given, const char *what) {
    const OperatorSpec spec = operator_of(given, what);
    find_wilson(spec.spinor, spec.link, spec.reals); // throws not_built
    return spec;
}

// Arguments of both calls.
struct WilsonOperation {
    const char *function;
    bool matrix;                     // M, not D
    const milcgpu_wilson_spec *spec; // of M
    const milcgpu_storage *what;
    int sign, parity;
};

// D or M on the sites of a parity, or on all.
milcgpu_status apply(const WilsonOperation &op, milcgpu_wilson *wilson, const milcgpu_field *source,
                     const milcgpu_field *destination) {
    return with_wilson(wilson, op.function, [&](milcgpu_wilson &w) {
        WilsonParameters of{};
        OperatorSpec as{};
        std::vector<int> to_parities;
        HostField from{}, to{};
        same_on_all_ranks(*w.context, op.function, [&](CallArguments &call) {
            if (op.matrix)
                of = parameters_of(call.copy_of("spec", op.spec));
            as = wilson_operator_of(call.copy_of("what", op.what), "what");
            if (call("sign", op.sign) != 1 && op.sign != -1)
                refuse(format("sign is %d: must be 1 or -1", op.sign));
            to_parities = parities_of(call("parity", op.parity));
            from = host_field(source, reals_of_vector, "source");
            to = host_field(destination, reals_of_vector, "destination");
            need_links(w);
        });
        const std::shared_ptr<const LinkField> links = w.version(as);
        const auto term = w.clover(of.cku0, as.spinor, milcgpu_wilson::none).term;
        WilsonVectors in(w, as.spinor, "Wilson vectors"), out(w, as.spinor, "Wilson vectors");
        for (const int p : {0, 1}) {
            const bool reads = op.matrix || to_parities.size() == 2 || p != to_parities[0];
            if (reads)
                in.load(w, from, p, "source");
        }
        for (const int p : to_parities) {
            const SpinorBlock &hops = in.on[1 - p];
            WilsonCall call = op.matrix ? call_on(w, *links, p, op.sign, hops, out.on[p], in.on[p], of.kappa)
                                        : call_on(w, *links, p, op.sign, hops, out.on[p]);
            call.clover = term.get();
            milcgpu::wilson(w.device(), call, Epilogue::plain);
            require_finite_vector(w, out.on[p], p, "result");
        }
        std::vector<Region> checked_regions = {links->region("links of Wilson fermions")};
        if (term)
            checked_regions.push_back(term->region("clover term"));
        Verification(*w.context, [&w] { w.clear(); }).holds(checked_regions);
        w.device().collective("the copy of results", [&] { // from here on nothing but the copies themselves can fail
            for (const int p : to_parities)
                w.reorder.to_host(out.on[p], p, to);
        });
        return Status::ok;
    });
}

} // namespace

extern "C" {

milcgpu_status milcgpu_wilson_dslash(milcgpu_wilson *wilson, const milcgpu_storage *what, int sign, int parity,
                                     const milcgpu_field *source, const milcgpu_field *destination) {
    return apply({"milcgpu_wilson_dslash", false, nullptr, what, sign, parity}, wilson, source, destination);
}

milcgpu_status milcgpu_wilson_matrix(milcgpu_wilson *wilson, const milcgpu_wilson_spec *spec,
                                     const milcgpu_storage *what, int sign, int parity, const milcgpu_field *source,
                                     const milcgpu_field *destination) {
    return apply({"milcgpu_wilson_matrix", true, spec, what, sign, parity}, wilson, source, destination);
}

} // extern "C"
