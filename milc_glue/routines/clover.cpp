// Solves with MILC's clover matrix, D of Wilson fermions, contractions of Dirac fields.
#include "milc_glue/routines/clover.h"
#include "gpu_kernels/wilson/wilson.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include "milc_glue/routines/retry.h"
#include "milc_glue/routines/solve.h"
#include "milc_glue/solve/wilson_handle.h"

using namespace milcgpu;

namespace {

milcgpu_wilson_spec matrix_of(const milcgpu_plugin_clover_call &call) {
    milcgpu_wilson_spec spec{};
    spec.struct_size = sizeof spec;
    spec.kappa = call.kappa;
    spec.clover = call.clover;
    spec.even_odd = 1;
    return spec;
}

// Reals of a sloppy link: 18, 12 or 8, whichever is next to the reals of long links in MILCGPU_RECONSTRUCT; 12 by
// default if long links are packed.
int reals_of(const Plugin &p) {
    if (p.reconstruct >= 18)
        return 18;
    const bool asked = p.settings.is_given("MILCGPU_RECONSTRUCT");
    return asked && p.reconstruct < 12 ? 8 : 12;
}

milcgpu_solve_spec solve_of(const Plugin &p, const Policy &policy, const milcgpu_plugin_clover_call &call) {
    milcgpu_solve_spec how{};
    how.struct_size = sizeof how;
    how.parity = MILCGPU_EVEN;
    how.tolerance = call.tolerance;
    how.relative_tolerance = call.relative_tolerance;
    how.max_iterations = call.max_iterations;
    how.max_restarts = call.max_restarts;
    how.precise.precision = policy.precise;
    if (policy.sloppy != policy.precise)
        how.sloppy = {policy.sloppy, reals_of(p)};
    return how;
}

HostRecords records_of(const Plugin &p, const milcgpu_field &links) {
    const size_t bytes = p.bytes_of(72);
    return {links.data, static_cast<size_t>(p.sites), bytes, links.pitch_bytes != 0 ? links.pitch_bytes : bytes};
}

} // namespace

TrueResiduals milcgpu::clover_residuals(Plugin &p, const milcgpu_plugin_clover_call &call,
                                        const milcgpu_field &solution) {
    milcgpu_wilson *handle = nullptr;
    uint64_t moved = 0;
    const milcgpu_wilson_spec matrix = matrix_of(call);
    TrueResiduals of;
    milcgpu_status status = p.collective(p.wilson->ready(records_of(p, call.links), handle, moved));
    if (status == MILCGPU_OK)
        status = p.collective(
            true_residuals(handle, &matrix, MILCGPU_EVEN, &call.source, &solution, &of.residual, &of.relative));
    if (status != MILCGPU_OK && status != MILCGPU_NAN_OR_INF)
        throw Error(Status::device_lost, reason());
    return of;
}

extern "C" {

int milcgpu_plugin_clover_solve(const milcgpu_plugin_clover_call *given, milcgpu_solve_report *given_report) {
    const ReportForMilc<milcgpu_solve_report> report(given_report);
    return offloaded(MILCGPU_CLOVER_SOLVE, [&](Plugin &p, RoutineAccount &account) -> Done {
        milcgpu_plugin_clover_call of_start = *given, *const call = &of_start;
        p.running.append(": kappa %g", call->kappa);
        if (!(call->tolerance > 0) && !(call->relative_tolerance > 0))
            return left_to_milc;
        const milcgpu_wilson_spec matrix = matrix_of(*call);
        Retry retry(p, MILCGPU_CLOVER_SOLVE, call->mixed);
        Starts starts(*call);
        int iterations = 0;
        for (;;) {
            milcgpu_solve_spec how = solve_of(p, retry.policy(), *call);
            SolveLines lines(p, MILCGPU_CLOVER_SOLVE, call->tolerance, call->relative_tolerance);
            how.progress = [](void *user, int step, double residual) {
                static_cast<SolveLines *>(user)->log(step, residual);
            };
            how.user = &lines;
            const milcgpu_status status = with_links_dropped(MILCGPU_CLOVER_SOLVE, [&] {
                milcgpu_wilson *handle = nullptr;
                const milcgpu_status loaded = p.wilson->ready(records_of(p, call->links), handle, account.to_device);
                return loaded != MILCGPU_OK ? loaded
                                            : p.collective(milcgpu_wilson_solve(handle, &matrix, &how, &call->source,
                                                                                &call->solution, report));
            });
            iterations += report->iterations;
            add(account, *report);
            if (retry.is_answer(status)) {
                if (starts.again(1, report, &iterations))
                    continue;
                report->iterations = iterations;
                add_solution(account, *report, call->tolerance, call->relative_tolerance);
                return MILCGPU_OK;
            }
            // The memory of a policy grows with the bytes of its vectors.
            const auto bytes = [](const Policy &policy) {
                return spinor_bytes(static_cast<Precision>(policy.precise)) +
                       spinor_bytes(static_cast<Precision>(policy.sloppy));
            };
            if (!retry.again(
                    status, [&] { p.wilson->drop(); }, bytes))
                return status;
        }
    });
}

int milcgpu_plugin_wilson_dslash(milcgpu_field links, int sign, int parity, milcgpu_field source,
                                 milcgpu_field destination) {
    return offloaded(MILCGPU_WILSON_DSLASH, [&](Plugin &p, RoutineAccount &account) -> Done {
        milcgpu_storage what{};
        what.precision = p.real();
        const auto attempt = [&] {
            milcgpu_wilson *handle = nullptr;
            const milcgpu_status loaded = p.wilson->ready(records_of(p, links), handle, account.to_device);
            return loaded != MILCGPU_OK
                       ? loaded
                       : p.collective(milcgpu_wilson_dslash(handle, &what, sign, parity, &source, &destination));
        };
        const milcgpu_status status = with_reload(
            MILCGPU_WILSON_DSLASH, "The links are loaded again", [&] { p.wilson->drop(); }, attempt);
        if (status != MILCGPU_OK)
            return status;
        const bool both = parity == MILCGPU_EVEN_AND_ODD;
        const uint64_t bytes = p.bytes_of(24);
        const auto sites_of = [&](int on) { return static_cast<uint64_t>(both ? p.sites : p.sites_of(on)); };
        account.flops += 1320.0 * sites_of(parity);
        account.to_device += bytes * sites_of(MILCGPU_EVEN_AND_ODD - parity);
        account.to_host += bytes * sites_of(parity);
        return status;
    });
}

int milcgpu_plugin_dirac_mesons(int open, const milcgpu_dirac_meson_spec *spec, milcgpu_field src1, milcgpu_field src2,
                                double flops, double *correlators) {
    const milcgpu_routine routine = open != 0 ? MILCGPU_DIRAC_OPEN_MESON : MILCGPU_DIRAC_MESON;
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        const milcgpu_status status = with_links_dropped(routine, [&] {
            return p.collective((open != 0 ? milcgpu_dirac_open_mesons
                                           : milcgpu_dirac_mesons)(p.context, spec, 1, &src1, &src2, correlators));
        });
        if (status == MILCGPU_OK) {
            account.flops += flops;
            account.to_device += (src1.data == src2.data ? 1 : 2) * p.bytes_of(96) * static_cast<uint64_t>(p.sites);
        }
        return status;
    });
}

} // extern "C"
