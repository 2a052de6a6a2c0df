/* run_gradient_flow of wilson_flow, for the links of the sites, which have no phases there. The loop, the printed lines
 * and the values left in global variables are MILC's. */
#include "site_links.h"
#include <limits.h>

#include "routines.h"

#define IS_ADAPTIVE                                                                                                    \
    (GF_INTEGRATOR == INTEGRATOR_ADAPT_LUSCHER || GF_INTEGRATOR == INTEGRATOR_ADAPT_CF3 ||                             \
     GF_INTEGRATOR == INTEGRATOR_ADAPT_BS)

#if MILC_PRECISION == 1
#define NUMBER "%g"
#else
#define NUMBER "%.16g"
#endif

/* Prints MILC's lines. The ADAPT line has few digits of the time. */
static int say_point(void *labels, const milcgpu_flow_point *point) {
    const milcgpu_observables *const of = &point->of;
    if (point->steps == 0 && *(int *)labels) {
        node0_printf("#LABEL time Clover_t Clover_s Plaq_t Plaq_s Rect_t Rect_s charge\n");
#if IS_ADAPTIVE
        node0_printf("#LABEL2 time stepsize distance local_tol/distance\n");
#endif
        *(int *)labels = 0;
    }
    node0_printf("GFLOW: " NUMBER " " NUMBER " " NUMBER " " NUMBER " " NUMBER " " NUMBER " " NUMBER " " NUMBER "\n",
                 point->time, of->clover_t, of->clover_s, of->plaquette_t, of->plaquette_s, of->rectangle_t,
                 of->rectangle_s, of->charge);
#if IS_ADAPTIVE
    node0_printf("ADAPT: %g " NUMBER " " NUMBER " " NUMBER "\n", point->time, point->step, point->distance,
                 point->steps == 0 ? 0.0 : local_tol / point->distance);
#endif
    fflush(stdout);
    return 0;
}

static milcgpu_flow_spec spec_of_flow(void) {
    milcgpu_flow_spec spec;
    milcgpu_flow_defaults(&spec, sizeof spec);
    spec.action = stapleflag == WILSON ? MILCGPU_FLOW_WILSON : MILCGPU_FLOW_SYMANZIK;
    spec.integrator = GF_INTEGRATOR; /* the library's numbers are MILC's */
    spec.exp_order = exp_order;
    spec.step = stepsize;
    spec.stop = stoptime == AUTO_STOPTIME ? MILCGPU_FLOW_AUTO_STOP : stoptime;
#if IS_ADAPTIVE
    spec.tolerance = local_tol;
#endif
#ifdef ANISOTROPY
    spec.anisotropy = ani;
#endif
    spec.most_steps = INT_MAX; /* MILC has no limit */
    spec.signs = MILCGPU_SIGNS_OUT;
    spec.as_milc = 1;
    return spec;
}

static int flow(const milcgpu_flow_spec *spec) {
    milcgpu_flow_report report;
    int labels = 1;
    memset(&report, 0, sizeof report);
    if (!milcgpu_plugin_gradient_flow(links_of_sites(), spec, say_point, &labels, &report)) {
        if (!labels && this_node == 0)
            fprintf(stderr, "milcgpu: run_gradient_flow: ignore the GFLOW lines so far: MILC starts this flow again\n");
        return 0;
    }
    total_steps = report.last.steps;
    stepsize = report.last.step;
    node0_printf("Number of steps = %i\n", total_steps);
#if IS_ADAPTIVE
    dist = report.last.distance;
    steps_rejected = report.last.rejected;
    node0_printf("Number of rejected steps = %i\n", steps_rejected);
#endif
    fflush(stdout);
    return 1;
}

void __wrap_run_gradient_flow(void) {
    const milcgpu_flow_spec spec = spec_of_flow();
    milcgpu_output outputs[] = {
        output_of_links(),
        MILCGPU_MEMORY(&total_steps, sizeof total_steps),
        MILCGPU_MEMORY(&stepsize, sizeof stepsize),
#if IS_ADAPTIVE
        MILCGPU_MEMORY(&dist, sizeof dist),
        MILCGPU_MEMORY(&steps_rejected, sizeof steps_rejected),
#endif
    };
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_GRADIENT_FLOW, .name = "run_gradient_flow",
                                        MILCGPU_OUTPUTS(outputs), .compare = compare_site_links);
    call.why_own = MILCGPU_FLOW_OF_A_FILE != NULL ? MILCGPU_FLOW_OF_A_FILE
                   : exp_order < 1 ? "MILC's own: exp_order is below 1, which is the whole series for the library"
                                   : NULL;
    milcgpu_offload(&call, flow(&spec), milcgpu_original(run_gradient_flow)());
}
