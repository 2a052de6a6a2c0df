/* bicgilu_cl_field, bicgilu_w_field: M x = b with the clover matrix and the links of the sites. Their stopping criteria
 * and their report; the source, which MILC's own overwrites, is left as it is. And dslash_w_field. */
#include "site_links.h"

#include "routines.h"

#define FIELD_BYTES (sites_on_node * sizeof(wilson_vector))

/* MILC's line at the end of a solve. */
static void say_end(const quark_invert_control *qic, int iterations, double seconds) {
    if (iterations == 0) { /* node0_printf is an `if` */
        node0_printf("BICGILU: NO iterations taken size_r= %.2e rel %.2e\n", qic->final_rsq, qic->final_relrsq);
    }
#ifdef CGTIME
    else {
        node0_printf("CGTIME: time = %.2e (bicgilu) size_r= %.2e relr= %.2e iters= %d MF = %.1f\n", seconds,
                     qic->final_rsq, qic->final_relrsq, iterations,
                     8742.0 * iterations * even_sites_on_node / (seconds * 1e6));
    }
#endif
    (void)seconds;
    fflush(stdout);
}

int __wrap_bicgilu_cl_field_cpu(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *parameters) {
    const dirac_clover_param *const dirac = (const dirac_clover_param *)parameters;
    milcgpu_plugin_clover_call call;
    milcgpu_solve_report report;
    wilson_vector *source = NULL, *theirs = NULL;
    double seconds;
    milcgpu_need(MILCGPU_LINKS, "bicgilu_cl_field");
    if (dirac->Kappa == 0 || !milcgpu_offloads())
        return milcgpu_original(bicgilu_cl_field_cpu)(src, dest, qic, parameters);
    source = (wilson_vector *)milcgpu_copy_to_compare(src, FIELD_BYTES);
    theirs = source == NULL ? NULL : (wilson_vector *)milcgpu_copy_to_compare(dest, FIELD_BYTES);
    memset(&call, 0, sizeof call);
    call.mixed = MILCGPU_MIXED_AUTO;
    call.links = links_of_sites();
    call.kappa = dirac->Kappa;
    call.clover = dirac->Clov_c / (dirac->U0 * dirac->U0 * dirac->U0);
    call.tolerance = milcgpu_tolerance(qic->resid, MILC_PRECISION);
    call.relative_tolerance = milcgpu_tolerance(qic->relresid, MILC_PRECISION);
    call.max_iterations = qic->max;
    call.max_restarts = qic->nrestart;
    call.source = milcgpu_field_of(src);
    call.solution = milcgpu_field_of(dest);
    memset(&report, 0, sizeof report);
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_clover_solve(&call, &report)) {
        int iterations;
        free(source), free(theirs);
        milcgpu_by_milc(MILCGPU_CLOVER_SOLVE,
                        iterations = milcgpu_original(bicgilu_cl_field_cpu)(src, dest, qic, parameters));
        return iterations;
    }
    seconds += milcgpu_plugin_seconds();
    qic->size_r = report.recursion_residual * report.recursion_residual;
    qic->final_rsq = report.true_residual * report.true_residual;
    qic->size_relr = qic->final_relrsq = report.relative_residual * report.relative_residual;
    qic->final_iters = report.iterations;
    qic->final_restart = report.restarts;
    if (report.source_norm > 0)
        say_end(qic, report.iterations, seconds);
    if (theirs != NULL) {
        quark_invert_control own = *qic;
        int iterations;
        const double cpu_seconds =
            milcgpu_by_milc(MILCGPU_CLOVER_SOLVE,
                            iterations = milcgpu_original(bicgilu_cl_field_cpu)(source, theirs, &own, parameters));
        milcgpu_judge(milcgpu_plugin_compare_clover(&call, report.iterations, seconds, milcgpu_field_of(theirs),
                                                    iterations, cpu_seconds));
    }
    free(source), free(theirs);
    return report.iterations;
}

/* MILC's own calls bicgilu_cl_field_cpu, too, in its own file, where no other can take its place. */
int __wrap_bicgilu_w_field(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *parameters) {
    dirac_clover_param without = {((dirac_wilson_param *)parameters)->Kappa, 0, 1};
    return __wrap_bicgilu_cl_field_cpu(src, dest, qic, &without);
}

static double own_dslash(wilson_vector *src, wilson_vector *dest, int isign, int parity) {
    return milcgpu_by_milc(MILCGPU_WILSON_DSLASH, milcgpu_original(dslash_w_field)(src, dest, isign, parity));
}

void __wrap_dslash_w_field(wilson_vector *src, wilson_vector *dest, int isign, int parity) {
    wilson_vector *source = NULL, *theirs = NULL;
    double seconds;
    milcgpu_need(MILCGPU_LINKS, "dslash_w_field");
    if (!milcgpu_offloads() || !milcgpu_plugin_takes_dslash()) {
        milcgpu_original(dslash_w_field)(src, dest, isign, parity);
        return;
    }
    source = (wilson_vector *)milcgpu_copy_to_compare(src, FIELD_BYTES); /* src and dest may be one field */
    theirs = source == NULL ? NULL : (wilson_vector *)milcgpu_copy_to_compare(dest, FIELD_BYTES);
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_wilson_dslash(links_of_sites(), isign, parity, milcgpu_field_of(src), milcgpu_field_of(dest))) {
        own_dslash(src, dest, isign, parity);
    } else if (theirs != NULL) {
        seconds += milcgpu_plugin_seconds();
        const double cpu_seconds = own_dslash(source, theirs, isign, parity);
        milcgpu_judge(milcgpu_plugin_compare_wilson_dslash(source, dest, theirs, seconds, cpu_seconds));
    }
    free(source), free(theirs);
}
