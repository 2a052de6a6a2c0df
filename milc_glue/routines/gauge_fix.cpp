// Gauge fixing, APE and HYP smearing and the gradient flow of links that MILC has on the host. What one routine has
// made stays on the device for the next (kept_gauge.h). Flows with adaptive steps are in double: rounding in single
// changes each step a little, and what is left for the last one much more.
#include "gpu_kernels/gauge/flow/gauge_fix.h"
#include "gpu_kernels/gauge/flow/flow_integrators.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

using namespace milcgpu;

namespace {

size_t pitch_of(const Plugin &p, const milcgpu_field &links) {
    return links.pitch_bytes != 0 ? links.pitch_bytes : p.bytes_of(72);
}

milcgpu_status load(Plugin &p, milcgpu_gauge *gauge, bool widened, const milcgpu_field &from) {
    if (!widened)
        return milcgpu_gauge_load(gauge, &from, -1); // MILC accepts any links
    const std::unique_ptr<double[]> wide(new (std::nothrow) double[size_t(72) * p.sites]);
    if (p.collective(wide == nullptr))
        return MILCGPU_NO_MEMORY;
    const size_t pitch = pitch_of(p, from);
#pragma omp parallel for if (p.sites >= few_sites)
    for (int i = 0; i < p.sites; ++i) {
        const float *site = reinterpret_cast<const float *>(static_cast<const unsigned char *>(from.data) + i * pitch);
        std::copy(site, site + 72, &wide[size_t(72) * i]);
    }
    const milcgpu_field compact = {wide.get(), MILCGPU_DOUBLE, 0};
    return milcgpu_gauge_load(gauge, &compact, -1);
}

// Writes all of MILC's own links or none: MILC's routine would continue from links that were changed in part.
milcgpu_status save_as_a_whole(Plugin &p, milcgpu_gauge *gauge, bool widened, const milcgpu_field &to) {
    const size_t bytes = widened ? 72 * sizeof(double) : p.bytes_of(72);
    const std::unique_ptr<unsigned char[]> made(new (std::nothrow) unsigned char[bytes * p.sites]);
    if (p.collective(made == nullptr))
        return MILCGPU_NO_MEMORY;
    const milcgpu_field compact = {made.get(), widened ? MILCGPU_DOUBLE : p.real(), 0};
    const milcgpu_status status = p.collective(milcgpu_gauge_save(gauge, &compact));
    const size_t pitch = pitch_of(p, to);
    if (status == MILCGPU_OK)
#pragma omp parallel for if (p.sites >= few_sites)
        for (int i = 0; i < p.sites; ++i) {
            unsigned char *const site = static_cast<unsigned char *>(to.data) + i * pitch;
            const unsigned char *const link = made.get() + i * bytes;
            if (widened)
                std::transform(reinterpret_cast<const double *>(link), reinterpret_cast<const double *>(link) + 72,
                               reinterpret_cast<float *>(site), [](double x) { return static_cast<float>(x); });
            else
                std::memcpy(site, link, bytes);
        }
    return status;
}

HostRecords records_of(const Plugin &p, const milcgpu_field &links) {
    return {links.data, static_cast<size_t>(p.sites), p.bytes_of(72), pitch_of(p, links)};
}

// Passes the kept handle, with the content of the host's links, to work(gauge), which says what it holds afterwards. A
// field that is not in MILC's precision is not kept.
template <class Work>
milcgpu_status on_gauge(Plugin &p, bool widened, const milcgpu_field &from, uint64_t &moved, const Work &work) {
    std::unique_ptr<KeptGauge> wide = widened ? std::make_unique<KeptGauge>(p.context, MILCGPU_DOUBLE, false) : nullptr;
    KeptGauge &gauge = widened ? *wide : *p.kept_gauge;
    const InUse use = gauge.use();
    bool exists = false, is_there = false;
    if (gauge.stays()) {
        const Collective::Words all = p.collective.on_all_ranks({gauge.exists(), gauge.has(records_of(p, from))});
        exists = all[0] != 0, is_there = all[1] != 0;
    }
    milcgpu_status status = exists ? MILCGPU_OK : p.collective(gauge.make());
    if (status == MILCGPU_OK && !is_there) {
        gauge.begin();
        status = p.collective(load(p, gauge.handle(), widened, from));
        moved += status == MILCGPU_OK ? (widened ? 72 * sizeof(double) : p.bytes_of(72)) * p.sites : 0;
    }
    gauge.begin();
    if (status == MILCGPU_OK)
        status = work(gauge);
    if (!gauge.stays())
        gauge.drop();
    return status;
}

// work(gauge): a call of the C interface on the links `from`. Its result is written to `to` if accept() returns true.
// widened: in double, though MILC is in single.
template <class Work, class Accept>
int on_links(milcgpu_routine routine, bool widened, const milcgpu_field &from, const milcgpu_field &to,
             const Work &work, const Accept &accept) {
    return offloaded(routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        bool accepted = false;
        const milcgpu_status status = with_links_dropped(routine, [&] {
            return on_gauge(p, widened, from, account.to_device, [&](KeptGauge &gauge) {
                milcgpu_status done = p.collective(work(gauge.handle(), account));
                accepted = done == MILCGPU_OK && !p.collective(!accept());
                if (accepted)
                    done = to.data == from.data ? save_as_a_whole(p, gauge.handle(), widened, to)
                                                : p.collective(milcgpu_gauge_save(gauge.handle(), &to));
                if (accepted && done == MILCGPU_OK && gauge.stays())
                    gauge.now_has(records_of(p, to));
                return done;
            });
        });
        if (status == MILCGPU_OK && !accepted)
            return left_to_milc;
        if (status == MILCGPU_OK)
            account.to_host += (widened ? 72 * sizeof(double) : p.bytes_of(72)) * p.sites;
        return status;
    });
}

// Smears the links `from`. work(gauge, report): the call of the C interface.
template <class Work>
int smeared(milcgpu_routine routine, const milcgpu_field &from, const milcgpu_field &to, const Work &work) {
    const auto counted = [&](milcgpu_gauge *gauge, RoutineAccount &account) {
        milcgpu_force_report report{};
        report.struct_size = sizeof report;
        const milcgpu_status status = work(gauge, &report);
        account.flops += report.flops;
        return status;
    };
    return on_links(routine, false, from, to, counted, [] { return true; });
}

} // namespace

extern "C" {

int milcgpu_plugin_gauge_fix(milcgpu_field links, const milcgpu_gauge_fix_spec *spec,
                             milcgpu_gauge_fix_report *given_report) {
    const ReportForMilc<milcgpu_gauge_fix_report> report(given_report);
    const auto work = [&](milcgpu_gauge *gauge, RoutineAccount &account) {
        const milcgpu_status status = milcgpu_gauge_fix(gauge, spec, report);
        account.flops += report->flops;
        return status == MILCGPU_NOT_CONVERGED ? MILCGPU_OK : status; // MILC accepts that, too
    };
    return on_links(MILCGPU_GAUGE_FIX, false, links, links, work, [&] {
        if (report->failed != 0)
            plugin().log(0, format("gaugefix: %llu links are too far from SU(3) to be made unitary",
                                   static_cast<unsigned long long>(report->failed)));
        return report->failed == 0;
    });
}

int milcgpu_plugin_ape_smear(milcgpu_field links, const milcgpu_ape_spec *spec, milcgpu_field to,
                             uint64_t *not_converged) {
    return smeared(MILCGPU_APE_SMEAR, links, to, [&](milcgpu_gauge *gauge, milcgpu_force_report *report) {
        return milcgpu_gauge_ape_smear(gauge, spec, not_converged, report);
    });
}

int milcgpu_plugin_hyp_smear(milcgpu_field links, const milcgpu_hyp_spec *spec, milcgpu_field to) {
    return smeared(MILCGPU_HYP_SMEAR, links, to, [&](milcgpu_gauge *gauge, milcgpu_force_report *report) {
        return milcgpu_gauge_hyp_smear(gauge, spec, report);
    });
}

int milcgpu_plugin_gradient_flow(milcgpu_field links, const milcgpu_flow_spec *spec, milcgpu_flow_callback callback,
                                 void *user, milcgpu_flow_report *given_report) {
    const ReportForMilc<milcgpu_flow_report> report(given_report);
    const auto work = [&](milcgpu_gauge *gauge, RoutineAccount &account) {
        const milcgpu_status status = milcgpu_gauge_flow(gauge, spec, callback, user, report);
        account.flops += report->flops;
        return status;
    };
    const FlowIntegrator *const integrator = flow_integrator(spec->integrator);
    const bool widened = !plugin().in_double() && integrator != nullptr && integrator->adaptive();
    return on_links(MILCGPU_GRADIENT_FLOW, widened, links, links, work, [&] {
        Plugin &p = plugin(); // MILC may call it for each step alone
        if (report->message[0] != 0 && std::exchange(p.step_logged, spec->step) != spec->step)
            p.log(0, format("%s: %s. It goes on, as MILC does", routine_name(MILCGPU_GRADIENT_FLOW), report->message));
        return true;
    });
}

} // extern "C"
