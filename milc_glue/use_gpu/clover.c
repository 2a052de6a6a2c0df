/* bicgilu_cl_field and bicgilu_w_field: M x = b with the clover matrix and the links of the sites, with MILC's stopping
 * criteria and report. The source, which MILC's own routine overwrites, stays unchanged. Also dslash_w_field. */
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

typedef struct {
    milcgpu_plugin_clover_call call;
    int iterations;
} clover_solve;

static int solve_clover(const milcgpu_call *call, clover_solve *s, quark_invert_control *qic) {
    milcgpu_solve_report report;
    memset(&report, 0, sizeof report);
    if (!milcgpu_plugin_clover_solve(&s->call, &report))
        return 0;
    qic->size_r = report.recursion_residual * report.recursion_residual;
    qic->final_rsq = report.true_residual * report.true_residual;
    qic->size_relr = qic->final_relrsq = report.relative_residual * report.relative_residual;
    qic->final_iters = s->iterations = report.iterations;
    qic->final_restart = report.restarts;
    if (report.source_norm > 0)
        say_end(qic, report.iterations, milcgpu_seconds_so_far(call));
    return 1;
}
static int compare_clover(const milcgpu_call *call) {
    const clover_solve *const s = (const clover_solve *)call->details;
    return milcgpu_plugin_compare_clover(&s->call, s->iterations, call->seconds,
                                         milcgpu_field_of(call->outputs[0].theirs),
                                         *(const int *)call->outputs[3].theirs, call->cpu_seconds);
}

static const char *why_own(Real kappa, const quark_invert_control *qic) {
    const double absolute = milcgpu_tolerance(qic->resid, MILC_PRECISION),
                 relative = milcgpu_tolerance(qic->relresid, MILC_PRECISION);
    return kappa == 0 ? "MILC's own: kappa is 0" : !(absolute > 0) && !(relative > 0) ? MILCGPU_NO_TOLERANCE : NULL;
}

int __wrap_bicgilu_cl_field_cpu(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *parameters) {
    const dirac_clover_param *const dirac = (const dirac_clover_param *)parameters;
    clover_solve s = {.call = {.mixed = MILCGPU_MIXED_AUTO}};
    /* MILC's own routine overwrites the source. */
    milcgpu_output outputs[] = {MILCGPU_MEMORY(dest, FIELD_BYTES), MILCGPU_MEMORY(src, FIELD_BYTES),
                                MILCGPU_MEMORY(qic, sizeof *qic), MILCGPU_MEMORY(&s.iterations, sizeof s.iterations)};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_CLOVER_SOLVE, .name = "bicgilu_cl_field", .needs = MILCGPU_LINKS,
                                        .why_own = why_own(dirac->Kappa, qic), MILCGPU_OUTPUTS(outputs),
                                        .compare = compare_clover, .details = &s);
    s.call.links = links_of_sites();
    s.call.kappa = dirac->Kappa;
    s.call.clover = dirac->Clov_c / (dirac->U0 * dirac->U0 * dirac->U0);
    s.call.tolerance = milcgpu_tolerance(qic->resid, MILC_PRECISION);
    s.call.relative_tolerance = milcgpu_tolerance(qic->relresid, MILC_PRECISION);
    s.call.max_iterations = qic->max;
    s.call.max_restarts = qic->nrestart;
    s.call.source = milcgpu_field_of(src);
    s.call.solution = milcgpu_field_of(dest);
    milcgpu_offload(&call, solve_clover(&call, &s, qic),
                    s.iterations = milcgpu_original(bicgilu_cl_field_cpu)(src, dest, qic, parameters));
    return s.iterations;
}

/* MILC's own routine also calls bicgilu_cl_field_cpu in its own file, where the linker replaces no call. */
int __wrap_bicgilu_w_field(wilson_vector *src, wilson_vector *dest, quark_invert_control *qic, void *parameters) {
    dirac_clover_param without = {((dirac_wilson_param *)parameters)->Kappa, 0, 1};
    return __wrap_bicgilu_cl_field_cpu(src, dest, qic, &without);
}

/* In place the source is lost, so differences are relative to the result. */
static int compare_wilson_dslash(const milcgpu_call *call) {
    return milcgpu_plugin_compare_wilson_dslash(call->details, call->outputs[0].data, call->outputs[0].theirs,
                                                call->seconds, call->cpu_seconds);
}
void __wrap_dslash_w_field(wilson_vector *src, wilson_vector *dest, int isign, int parity) {
    milcgpu_output output[] = {MILCGPU_MEMORY(dest, FIELD_BYTES)};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_WILSON_DSLASH, .name = "dslash_w_field", .needs = MILCGPU_LINKS,
                                        .why_own = milcgpu_why_own_dslash(), MILCGPU_OUTPUTS(output),
                                        .compare = compare_wilson_dslash, .details = src);
    milcgpu_offload(
        &call,
        milcgpu_plugin_wilson_dslash(links_of_sites(), isign, parity, milcgpu_field_of(src), milcgpu_field_of(dest)),
        milcgpu_original(dslash_w_field)(src, dest, isign, parity));
}
