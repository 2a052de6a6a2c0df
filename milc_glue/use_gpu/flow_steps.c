/* stout_step_rk and fmunu_fmunu, for a wilson_flow that has no run_gradient_flow: one step of the flow of the links of
 * the sites, and the measurement. The loop over steps and the printed lines are MILC's. */
#include "site_links.h"

#include "routines.h"

/* Returns 1 if it is done. duration 0: only measures. */
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

static milcgpu_call call_of(const char *name) {
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_GRADIENT_FLOW, .name = name);
    call.why_own = exp_order < 1     ? "MILC's own: exp_order is below 1, which is the whole series for the library"
                   : !(stepsize > 0) ? "MILC's own: the step is not above 0"
                                     : NULL;
    return call;
}

void __wrap_stout_step_rk(void) {
    milcgpu_flow_report report;
    milcgpu_output links = output_of_links();
    milcgpu_call call = call_of("stout_step_rk");
    call.outputs = &links;
    call.n_outputs = 1;
    call.compare = compare_site_links;
    milcgpu_offload(&call, flow(stepsize, &report), milcgpu_original(stout_step_rk)());
}

static int measure_by_device(double *numbers) {
    milcgpu_flow_report report;
    if (!flow(0, &report))
        return 0;
    numbers[0] = report.last.of.clover_t;
    numbers[1] = report.last.of.clover_s;
    numbers[2] = report.last.of.charge;
    return 1;
}
/* The charge may vanish. */
static double sum_of(const double *numbers) { return numbers[0] + 2 * numbers[1] + 3 + numbers[2] / volume; }
static int compare_measurements(const milcgpu_call *call) {
    return milcgpu_compare_numbers(call, sum_of((const double *)call->outputs[0].data),
                                   sum_of((const double *)call->outputs[0].theirs));
}
void __wrap_fmunu_fmunu(double *time, double *space, double *charge) {
    double numbers[3];
    milcgpu_output output = MILCGPU_MEMORY(numbers, sizeof numbers);
    milcgpu_call call = call_of("fmunu_fmunu");
    call.outputs = &output;
    call.n_outputs = 1;
    call.compare = compare_measurements;
    milcgpu_offload(&call, measure_by_device(numbers),
                    milcgpu_original(fmunu_fmunu)(&numbers[0], &numbers[1], &numbers[2]));
    *time = numbers[0];
    *space = numbers[1];
    *charge = numbers[2];
}
