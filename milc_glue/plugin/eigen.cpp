// Eigenvectors for MILC: computed, taken from MILC's fields, and copied there when somebody reads them.
#include "milc_glue/solve/eigen.h"
#include "milc_glue/api/context.h"
#include "milc_glue/plugin/report_for_milc.h"
#include "milc_glue/plugin/state.h"
#include <cmath>
#include <cstring>

using namespace milcgpu;

namespace {

// Ritz ends where the eigenvalues of two of its turns differ by less than its tolerance. Eigenvalues are off by the
// square of |B v - l v| over the distance to the next. So a residual of half the root of the tolerance (measured, 8^4:
// MILC's have 5e-5 at 1e-8), relative to the largest eigenvalue, which is 20 or so. Below `least` single precision does
// not get.
double lanczos_tolerance(const milcgpu_plugin_eigen_call &call) {
    constexpr double factor = 0.5 / 20, least = 2e-6, most = 1e-3;
    const double asked = std::fabs(call.tolerance);
    return std::fmin(std::fmax(call.of_eigenvalues != 0 ? factor * std::sqrt(asked) : asked, least), most);
}

// Vectors in single, whose residuals MILC prints, take 24 bytes a site; those in 16 deflate as well.
bool fits(Plugin &p, milcgpu_eigen_spec spec) {
    constexpr double of_free = 0.9;
    size_t bytes = 0;
    spec.precision = MILCGPU_SINGLE;
    const bool here = milcgpu_eigenvectors_plan(p.context, &spec, &bytes) == MILCGPU_OK &&
                      static_cast<double>(bytes) < of_free * static_cast<double>(p.context->device->free_bytes());
    return !p.collective(!here);
}

struct UnderWay {
    const Plugin &plugin;
    double said_at = wall_seconds();
};
void progress(void *user, int done, int of) {
    UnderWay &lanczos = *static_cast<UnderWay *>(user);
    if (wall_seconds() - lanczos.said_at < 10)
        return;
    lanczos.said_at = wall_seconds();
    lanczos.plugin.log(1, format("%s: %d of %d Lanczos vectors", routine_name(MILCGPU_EIGENSOLVE), done, of));
}

uint64_t bytes_of(const Plugin &p, int parity, int count) {
    return static_cast<uint64_t>(count) * p.sites_of(parity) * p.bytes_of(6);
}

} // namespace

extern "C" {

int milcgpu_plugin_eigensolve(const milcgpu_plugin_eigen_call *call, double *values, double *residuals,
                              milcgpu_eigen_report *given_report) {
    const ReportForMilc<milcgpu_eigen_report> report(given_report);
    return done_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        RoutineAccount &account = p.ledger[MILCGPU_EIGENSOLVE];
        const Stopwatch watch(account.seconds);
        p.eigen->drop();
        p.eigenvectors_lost = false;
        const LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        if (links == nullptr)
            return false;
        UnderWay under_way{p};
        milcgpu_eigen_spec spec{};
        spec.struct_size = sizeof spec;
        spec.parity = call->parity;
        spec.count = call->count;
        spec.tolerance = lanczos_tolerance(*call);
        spec.precision = fits(p, spec) ? MILCGPU_SINGLE : MILCGPU_HALF;
        spec.progress = progress;
        spec.user = &under_way;
        milcgpu_status status = p.eigen->compute(links->handle, spec, call->vectors, *report);
        if (status == MILCGPU_NO_MEMORY) {
            p.log(1, format("%s: %s. Trying again in 16 bytes a site and vector, without the other sets of links",
                            routine_name(MILCGPU_EIGENSOLVE), reason().c_str()));
            while (p.links->drop_oldest(links))
                continue;
            spec.precision = MILCGPU_HALF;
            status = p.eigen->compute(links->handle, spec, call->vectors, *report);
        }
        account.flops += report->gflops * 1e9 * report->seconds;
        if (status != MILCGPU_OK) {
            report->count = 0;
            p.report_failure(MILCGPU_EIGENSOLVE, status);
            return false;
        }
        milcgpu_eigenvectors_values(p.eigen->handle(), values, residuals);
        for (int k = 0; p.poisons() && k < report->count; ++k) {
            const HostRecords field = p.parity_of({call->vectors[k], p.real(), 0}, call->parity);
            std::memset(const_cast<void *>(field.data), 0xFF, field.count * field.bytes);
        }
        if (report->count < call->count) {
            p.log(0, format("%s: %d of %d eigenvectors. %s", routine_name(MILCGPU_EIGENSOLVE), report->count,
                            call->count, report->message));
            return false;
        }
        ++account.calls;
        return true;
    });
}

int milcgpu_plugin_eigen_ready(const milcgpu_plugin_eigen_call *call) {
    return done_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        if (p.context == nullptr || p.eigenvectors_lost)
            return false;
        if (p.eigen->has(call->vectors, call->count, call->parity))
            return true;
        const LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        if (links == nullptr)
            return false;
        const milcgpu_status status = p.eigen->load(links->handle, call->vectors, call->count, call->parity);
        if (status != MILCGPU_OK) {
            p.log_failure(MILCGPU_EIGENSOLVE,
                          format("eigenvectors: %s. Solves go on without deflation", reason().c_str()));
            p.end_context_after(status);
            return false;
        }
        p.ledger[MILCGPU_EIGENSOLVE].to_device += bytes_of(p, call->parity, call->count);
        return true;
    });
}

int milcgpu_plugin_eigen_other_parity(const milcgpu_plugin_eigen_call *call) {
    return done_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        if (p.context == nullptr || p.eigen->handle() == nullptr)
            return false;
        const LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        const milcgpu_status status = links != nullptr ? p.eigen->make_other(links->handle) : MILCGPU_NO_MEMORY;
        if (status != MILCGPU_OK) {
            p.log_failure(MILCGPU_EIGENSOLVE, format("eigenvectors of the other parity: %s. Solves there go on without "
                                                     "deflation",
                                                     reason().c_str()));
            p.end_context_after(status);
        }
        return status == MILCGPU_OK;
    });
}

int milcgpu_plugin_eigen_on_device(void *const *vectors) {
    const Plugin &p = plugin();
    return p.eigen != nullptr && p.eigen->newest_on_device() && p.eigen->is_at(vectors);
}

int milcgpu_plugin_eigen_check(const milcgpu_plugin_eigen_call *call, const double *values, double *residuals,
                               double *norms) {
    return done_by(MILCGPU_EIGENSOLVE, [&] {
        Plugin &p = plugin();
        const Stopwatch watch(p.ledger[MILCGPU_EIGENSOLVE].seconds);
        const LinkSet *const links = p.links_for(MILCGPU_EIGENSOLVE, call->fat, call->lng);
        if (links == nullptr)
            return false;
        const milcgpu_status status = p.collective(look_at_eigenvectors(p.eigen->handle(), links->handle, call->parity,
                                                                        call->count, values, residuals, norms));
        if (status != MILCGPU_OK)
            p.report_failure(MILCGPU_EIGENSOLVE, status);
        return status == MILCGPU_OK;
    });
}

int milcgpu_plugin_eigen_need(void) {
    return common_answer_of("eigenvectors", "They are lost", 0, [&] {
        Plugin &p = plugin();
        if (p.eigenvectors_lost || p.eigen == nullptr || !p.eigen->newest_on_device())
            return !p.eigenvectors_lost;
        p.ledger[MILCGPU_EIGENSOLVE].to_host += bytes_of(p, p.eigen->parity(), p.eigen->count());
        const std::string why = p.eigen->to_host();
        p.eigenvectors_lost = !why.empty();
        if (p.eigenvectors_lost)
            p.log(0, "eigenvectors are on the GPU and lost: " + why);
        return !p.eigenvectors_lost;
    });
}

void milcgpu_plugin_eigen_host_wrote(void) {
    Plugin &p = plugin();
    p.eigenvectors_lost = false;
    if (p.eigen != nullptr)
        p.eigen->drop();
}

} // extern "C"
