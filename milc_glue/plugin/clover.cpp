// Solves with MILC's clover matrix.
#include "gpu_kernels/wilson/wilson.h"
#include "milc_glue/plugin/mending.h"

namespace milcgpu {

milcgpu_status WilsonLinks::ready(const HostRecords &links, milcgpu_wilson *&handle, uint64_t &moved) {
    const uint64_t content = hash_records(links);
    handle = handle_;
    if (!agreed_(handle_ == nullptr || content_ != content))
        return MILCGPU_OK;
    drop();
    const milcgpu_field from = {const_cast<void *>(links.data), real_, links.pitch};
    milcgpu_status status = agreed_(milcgpu_wilson_create(context_, &handle_));
    if (status == MILCGPU_OK)
        status = agreed_(milcgpu_wilson_load(handle_, &from));
    if (status != MILCGPU_OK) {
        drop();
        return status;
    }
    moved += links.count * links.bytes;
    content_ = content;
    handle = handle_;
    return MILCGPU_OK;
}

bool WilsonLinks::drop() {
    milcgpu_wilson_destroy(handle_);
    return std::exchange(handle_, nullptr) != nullptr;
}

} // namespace milcgpu

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

// Reals of a sloppy link: 18, 12 or 8, whichever is next to what MILCGPU_RECONSTRUCT asks of long links; 12 by itself
// where long links are packed.
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
    how.tolerance = std::fmax(call.tolerance, 0.0);
    how.relative_tolerance = std::fmax(call.relative_tolerance, 0.0);
    how.max_iterations = call.max_iterations;
    how.max_restarts = call.max_restarts;
    how.precise.precision = policy.precise;
    if (policy.sloppy != policy.precise)
        how.sloppy = {policy.sloppy, 0, reals_of(p)};
    return how;
}

HostRecords records_of(const Plugin &p, const milcgpu_field &links) {
    const size_t bytes = p.bytes_of(72);
    return {links.data, static_cast<size_t>(p.sites), bytes, links.pitch_bytes != 0 ? links.pitch_bytes : bytes};
}

} // namespace

double milcgpu::clover_residual(Plugin &p, const milcgpu_plugin_clover_call &call, const milcgpu_field &solution) {
    milcgpu_wilson *handle = nullptr;
    uint64_t moved = 0;
    const milcgpu_wilson_spec matrix = matrix_of(call);
    double residual = NAN;
    if (p.agreed(p.wilson->ready(records_of(p, call.links), handle, moved)) != MILCGPU_OK ||
        p.agreed(milcgpu_wilson_residual(handle, &matrix, MILCGPU_EVEN, &call.source, &solution, &residual)) !=
            MILCGPU_OK)
        throw Error(Status::device_lost, reason());
    return residual;
}

extern "C" {

int milcgpu_plugin_clover_solve(const milcgpu_plugin_clover_call *call, milcgpu_solve_report *report) {
    return done_by(MILCGPU_CLOVER_SOLVE, [&] {
        Plugin &p = plugin();
        RoutineAccount &account = p.ledger[MILCGPU_CLOVER_SOLVE];
        const Stopwatch watch(account.seconds);
        const milcgpu_wilson_spec matrix = matrix_of(*call);
        Mending mending(p, MILCGPU_CLOVER_SOLVE, p.policy);
        int iterations = 0;
        for (;;) {
            const milcgpu_solve_spec how = solve_of(p, mending.policy(), *call);
            report->struct_size = sizeof *report;
            const milcgpu_status status = with_links_dropped(MILCGPU_CLOVER_SOLVE, [&] {
                milcgpu_wilson *handle = nullptr;
                const milcgpu_status loaded = p.wilson->ready(records_of(p, call->links), handle, account.to_device);
                return loaded != MILCGPU_OK ? loaded
                                            : p.agreed(milcgpu_wilson_solve(handle, &matrix, &how, &call->source,
                                                                            &call->solution, report));
            });
            iterations += report->iterations;
            add(account, *report);
            if (mending.is_answer(status)) {
                report->iterations = iterations;
                ++account.calls;
                return true;
            }
            // What a policy needs grows with the bytes of its vectors.
            const auto bytes = [](const Policy &policy) {
                return spinor_bytes(static_cast<Precision>(policy.precise)) +
                       spinor_bytes(static_cast<Precision>(policy.sloppy));
            };
            if (!mending.mends(
                    status, [&] { p.wilson->drop(); }, bytes)) {
                p.report_failure(MILCGPU_CLOVER_SOLVE, status);
                return false;
            }
        }
    });
}

} // extern "C"
