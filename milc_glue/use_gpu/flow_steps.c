/* stout_step_rk and fmunu_fmunu, of a wilson_flow that has no run_gradient_flow: one step of the flow of the links of
 * the sites, and what is measured of them. The loop over steps and the lines are MILC's. */
#include "site_links.h"

#include "routines.h"

/* 1: done. duration: 0: measure only. */
static int flow(Real duration, milcgpu_flow_report *report) {
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec);
    spec.action = stapleflag == WILSON ? MILCGPU_FLOW_WILSON : MILCGPU_FLOW_SYMANZIK;
    spec.exp_order = exp_order;
    spec.step = stepsize;
    spec.stop = duration;
    spec.signs = MILCGPU_SIGNS_OUT;
    spec.as_milc = 1;
    memset(report, 0, sizeof *report);
    return milcgpu_plugin_gradient_flow(links_of_sites(), &spec, NULL, NULL, report);
}
/* exp_order 0 is the whole series for the library. */
static int is_offloaded(void) { return milcgpu_offloads() && exp_order >= 1 && stepsize > 0; }

static double own_step(void) { return milcgpu_by_milc(MILCGPU_GRADIENT_FLOW, milcgpu_original(stout_step_rk)()); }

void __wrap_stout_step_rk(void) {
    milcgpu_flow_report report;
    su3_matrix *before = NULL;
    double seconds;
    if (!is_offloaded()) {
        own_step();
        return;
    }
    if (milcgpu_plugin_compare())
        before = copy_of_links();
    seconds = -milcgpu_plugin_seconds();
    if (!flow(stepsize, &report)) {
        own_step();
    } else if (before != NULL) {
        seconds += milcgpu_plugin_seconds();
        compare_with_own(MILCGPU_GRADIENT_FLOW, before, own_step, seconds);
    }
    free(before);
}

void __wrap_fmunu_fmunu(double *time, double *space, double *charge) {
    milcgpu_flow_report report;
    double seconds = -milcgpu_plugin_seconds(), theirs[3], cpu_seconds;
    if (!is_offloaded() || !flow(0, &report)) {
        milcgpu_by_milc(MILCGPU_GRADIENT_FLOW, milcgpu_original(fmunu_fmunu)(time, space, charge));
        return;
    }
    seconds += milcgpu_plugin_seconds();
    *time = report.last.of.clover_t;
    *space = report.last.of.clover_s;
    *charge = report.last.of.charge;
    if (!milcgpu_plugin_compare())
        return;
    cpu_seconds =
        milcgpu_by_milc(MILCGPU_GRADIENT_FLOW, milcgpu_original(fmunu_fmunu)(&theirs[0], &theirs[1], &theirs[2]));
    /* The charge may vanish. */
    milcgpu_judge(milcgpu_plugin_compare_number(MILCGPU_GRADIENT_FLOW, *time + 2 * *space + 3 + *charge / volume,
                                                theirs[0] + 2 * theirs[1] + 3 + theirs[2] / volume, seconds,
                                                cpu_seconds));
}
