// D of a vector, and the residual of a solution, with vectors of the host.
#include "gpu_kernels/halo/halo.h"
#include "milc_glue/api/members.h"
#include "milc_glue/links/links_handle.h"
#include "milc_glue/links/verify.h"
#include "milc_glue/solve/solve_arguments.h"
#include <cmath>

using namespace milcgpu;

extern "C" milcgpu_status milcgpu_staggered_dslash(milcgpu_links *links, const milcgpu_storage *what, int parity,
                                                   const milcgpu_field *source, const milcgpu_field *destination) {
    return with_links(links, "milcgpu_staggered_dslash", [&](milcgpu_context &context) {
        Device &device = *context.device;
        OperatorSpec spec{};
        int to = 0;
        HostField from_field{}, to_field{};
        same_on_all_ranks(context, "milcgpu_staggered_dslash", [&](CallArguments &call) {
            spec = operator_of(call.copy_of("what", what), "what");
            resident(*links);
            to = parity_index(call("parity", parity));
            from_field = host_field(source, 6, "source"), to_field = host_field(destination, 6, "destination");
        });
        const HeldLinks held = links->links->held_version(spec.link, spec.reals);
        SpinorField in, out;
        device.collective("the source of D", [&] {
            in = SpinorField(device, spec.spinor, context.geometry, 1 - to, "dslash vectors");
            out = SpinorField(device, spec.spinor, context.geometry, to, "dslash vectors");
            context.reorder->to_device(from_field, 1 - to, in);
        });
        apply_dslash(context, held.pair, to, in, out);
        require_finite_dslash(context, to, in, out);
        device.collective("the result of D", [&] { context.reorder->to_host(out, to, to_field); });
        return Status::ok;
    });
}

milcgpu_status milcgpu::true_residuals(milcgpu_links *links, int parity, double mass, const milcgpu_field *source,
                                       const milcgpu_field *solution, double *result, double *relative) {
    return with_links(links, "milcgpu_staggered_residual", [&](milcgpu_context &context) {
        Device &device = *context.device;
        Operator A;
        SpinorField b, x, r, between;
        DeviceArray<double> sums;
        double shift = 0;
        same_on_all_ranks(context, "milcgpu_staggered_residual", [&](CallArguments &call) {
            call.given("residual", result);
            shift = shift_of_mass(call("mass", mass, a_mass));
            resident(*links);
            const int on = parity_index(call("parity", parity));
            A = full_operator(*links, on);
            const HostField source_field = host_field(source, 6, "source"),
                            x_field = host_field(solution, 6, "solution");
            constexpr const char *owner = "vectors of a residual";
            b = A->vectors(device, owner), x = A->vectors(device, owner), r = A->vectors(device, owner);
            between = A->between(device, owner);
            sums = DeviceArray<double>(device, 2, "sums of a residual");
            context.reorder->to_device(source_field, on, b);
            context.reorder->to_device(x_field, on, x);
        });
        double rr_bb[2];
        norm_squared(device, b, sums.data() + 1);
        device.copy_to_host(&rr_bb[1], sums.data() + 1, sizeof rr_bb[1]);
        if (rr_bb[1] < INFINITY)
            is_there(device, rr_bb[1], b, A->geometry(), A->parity(), 0, r, sums.data());
        residual(device, *A, shift, {b, x, between, r}, sums.data());
        device.copy_to_host(&rr_bb[0], sums.data(), sizeof rr_bb[0]);
        Verification(context, emptying(*links)).holds(A->checked_regions());
        if (!(rr_bb[0] < INFINITY && rr_bb[1] < INFINITY)) {
            require_finite(device, b, A->geometry(), A->parity(), "source");
            require_finite(device, x, A->geometry(), A->parity(), "solution");
            throw Error(Status::nan_or_inf, "the residual overflows: scale source and solution down");
        }
        if (relative != nullptr) {
            const double volume = context.geometry.global_volume();
            double sum = 0;
            relative_residual(device, r, x, sums.data(), nullptr, volume);
            device.copy_to_host(&sum, sums.data(), sizeof sum);
            *relative = std::sqrt(2 * sum / volume);
        }
        *result = rr_bb[0] == 0 ? 0 : std::sqrt(rr_bb[0] / rr_bb[1]);
        return Status::ok;
    });
}

extern "C" milcgpu_status milcgpu_staggered_residual(milcgpu_links *links, int parity, double mass,
                                                     const milcgpu_field *source, const milcgpu_field *solution,
                                                     double *result) {
    return true_residuals(links, parity, mass, source, solution, result, nullptr);
}
