/* ks_congrad_parity, ks_congrad_block_parity, ks_congrad_site, ks_congrad, ks_multicg_offset_field and dslash_fn_field.
 * quark_invert_control is filled, iterations and total_iters are counted, and the timing lines are printed as MILC's
 * CPU routines do it. */
#include "solve.h"
#include <math.h>
#include <string.h>

#include "routines.h"

static void print_time(const char *what, int masses, int iterations, double flops_a_site, double seconds) {
#ifdef CGTIME
    if (this_node == 0) {
        printf("CONGRAD5: time = %e (%s %s) masses = %d iters = %d mflops = %e\n", seconds, what,
               MILC_PRECISION == 1 ? "F" : "D", masses, iterations,
               flops_a_site * volume * iterations / (1.0e6 * seconds * numnodes()));
        fflush(stdout);
    }
#else
    (void)what, (void)masses, (void)iterations, (void)flops_a_site, (void)seconds;
#endif
}

su3_vector *milcgpu_copy_of(const su3_vector *f) {
    return (su3_vector *)milcgpu_copy_to_compare(f, sites_on_node * sizeof(su3_vector));
}

/* MILC tests the relative residual, which is a square root, against relresid squared. */
static double relative_limit(const quark_invert_control *qic) {
    const double asked = milcgpu_tolerance(qic->relresid, MILC_PRECISION);
    return asked * asked;
}

milcgpu_plugin_solve_call milcgpu_solve_call(milcgpu_routine routine, milcgpu_field source, milcgpu_field solution,
                                             const quark_invert_control *qic, Real mass, const imp_ferm_links_t *fn) {
    milcgpu_plugin_solve_call call = {routine, MILCGPU_MIXED_AUTO};
    call.fat = fn->fat;
    call.lng = fn->lng;
    call.parity = qic->parity;
    call.mass = mass;
    call.tolerance = milcgpu_tolerance(qic->resid, MILC_PRECISION);
    call.relative_tolerance = relative_limit(qic);
    call.max_iterations = qic->max;
    call.max_restarts = qic->nrestart;
    call.source = source;
    call.solution = solution;
    return call;
}

void milcgpu_account(const milcgpu_solve_report *report, quark_invert_control *qic, double seconds) {
    const int zero_source = report->iterations == 0;
    qic->final_rsq = report->true_residual * report->true_residual;
    qic->final_relrsq = zero_source ? 0 : report->relative_residual;
    qic->size_r = report->recursion_residual * report->recursion_residual;
    qic->size_relr = zero_source ? 1 : report->relative_residual;
    qic->final_iters = report->iterations;
    qic->final_restart = report->restarts;
    qic->converged = zero_source || !(report->status != MILCGPU_OK || report->iterations == qic->max * qic->nrestart ||
                                      report->restarts == qic->nrestart);
    total_iters += report->iterations;
    print_time("fn", 1, report->iterations, 1187, seconds);
}

/* Of the sources of a block, the i-th. */
static void keep_worse(int i, const quark_invert_control *one, quark_invert_control *qic) {
    if (i == 0 || (qic->final_rsq == qic->final_rsq && !(one->final_rsq <= qic->final_rsq))) /* NaN is the worst */
        *qic = *one;
}

int milcgpu_account_block(int n, const milcgpu_solve_report *reports, quark_invert_control *qic, double seconds) {
    const quark_invert_control asked = *qic;
    int i, iterations = 0;
    for (i = 0; i < n; i++) {
        quark_invert_control one = asked;
        milcgpu_account(&reports[i], &one, seconds / n);
        if (n > 1) /* they may share a Krylov space, which does not restart as MILC does */
            one.converged = reports[i].status == MILCGPU_OK;
        iterations += reports[i].iterations;
        keep_worse(i, &one, qic);
    }
    return iterations;
}

int milcgpu_account_parity(int parity, int n, const milcgpu_solve_report *reports, quark_invert_control *qic) {
    double seconds = 0, norm = 0;
    int k, iterations;
    for (k = 0; k < n; k++) {
        seconds += reports[k].seconds;
        norm += reports[k].source_norm;
    }
    qic->parity = parity;
    if (norm > 0) {
        iterations = milcgpu_account_block(n, reports, qic, seconds);
    } else { /* MILC does not call the solver then */
        qic->size_r = qic->final_rsq = qic->final_relrsq = 0;
        qic->size_relr = 1;
        qic->final_iters = qic->final_restart = iterations = 0;
        qic->converged = 1;
    }
    report_status(qic);
    return iterations;
}

static void fill_source(void *member, void *copy) {
    size_t i;
    for (i = 0; i < sites_on_node; i++)
        ((su3_vector *)copy)[i] = *(const su3_vector *)((const char *)member + i * sizeof(site));
}
void milcgpu_defer_source(su3_vector *copy, const su3_vector *member) {
    const void *const field = copy;
    const milcgpu_plugin_deferral source = {MILCGPU_SOURCE, 1, 0, &field, NULL, fill_source, NULL, (void *)member};
    if (!milcgpu_plugin_defer(&source))
        fill_source((void *)member, copy);
}

static milcgpu_field source_field(const su3_vector *src) {
    milcgpu_field field = milcgpu_vector_field(src);
    void *const member = milcgpu_plugin_deferred_self(MILCGPU_SOURCE, src);
    if (member != NULL) {
        field.data = member;
        field.pitch_bytes = sizeof(site);
    }
    return field;
}

/* For MILC's own routines. */
static void need_fields(void) {
    milcgpu_plugin_fulfil(MILCGPU_SOURCE, NULL);
    milcgpu_need(MILCGPU_SOLUTIONS | MILCGPU_FERMION_LINKS, "a solver of MILC's");
}

static int cpu_solve(milcgpu_routine routine, su3_vector *src, su3_vector *dest, quark_invert_control *qic, Real mass,
                     imp_ferm_links_t *fn) {
    int iterations;
    need_fields();
    milcgpu_by_milc(routine, iterations = milcgpu_original(ks_congrad_parity_cpu)(src, dest, qic, mass, fn));
    return iterations;
}

/* After a failure: links that only the device had, and may have no more. 1: it can be tried again with MILC's. */
static int links_made_again(void) { return milcgpu_fill_links() && milcgpu_offloads(); }

/* cpu_dest: the guess, and then MILC's solution of what `qic` asks. */
static void compare_solve(const milcgpu_plugin_solve_call *call, int sources, int iterations, double seconds,
                          su3_vector *src, su3_vector *cpu_dest, quark_invert_control qic, Real mass,
                          imp_ferm_links_t *fn) {
    const int counted = total_iters;
    double cpu_seconds = -milcgpu_plugin_seconds();
    const int cpu_iterations = cpu_solve(call->routine, src, cpu_dest, &qic, mass, fn);
    cpu_seconds += milcgpu_plugin_seconds();
    total_iters = counted;
    milcgpu_judge(milcgpu_plugin_compare_solve(call, sources, iterations, seconds, milcgpu_vector_field(cpu_dest),
                                               cpu_iterations, cpu_seconds));
}

int __wrap_ks_congrad_parity_cpu(su3_vector *src, su3_vector *dest, quark_invert_control *qic, Real mass,
                                 imp_ferm_links_t *fn) {
    const int possible = qic->parity == EVEN || qic->parity == ODD; /* one parity */
    milcgpu_plugin_solve_call call;
    milcgpu_solve_report report;
    su3_vector *cpu_dest;
    double seconds;
    if (fn == NULL || !milcgpu_offloads()) {
        need_fields();
        return milcgpu_original(ks_congrad_parity_cpu)(src, dest, qic, mass, fn);
    }
    call = milcgpu_solve_call(MILCGPU_KS_CONGRAD, source_field(src), milcgpu_vector_field(dest), qic, mass, fn);
    cpu_dest = possible ? milcgpu_copy_of(dest) : NULL;
    seconds = -milcgpu_plugin_seconds();
    if (!possible ||
        (!milcgpu_plugin_solve(&call, &report) && !(links_made_again() && milcgpu_plugin_solve(&call, &report)))) {
        free(cpu_dest);
        return cpu_solve(call.routine, src, dest, qic, mass, fn);
    }
    seconds += milcgpu_plugin_seconds();
    milcgpu_account(&report, qic, seconds);
    if (cpu_dest != NULL)
        compare_solve(&call, 1, report.iterations, seconds, src, cpu_dest, *qic, mass, fn);
    free(cpu_dest);
    return report.iterations;
}

/* All sources at once; the worst one's residuals stand for all. */
int __wrap_ks_congrad_block_parity_cpu(int nsrc, su3_vector **src, su3_vector **dest, quark_invert_control *qic,
                                       Real mass, imp_ferm_links_t *fn) {
    const quark_invert_control asked = *qic;
    const int most = nsrc > 0 ? nsrc : 1;
    milcgpu_plugin_solve_call calls[most];
    milcgpu_solve_report reports[most];
    su3_vector *cpu_dest[most];
    int i, iterations = 0, done = nsrc > 0 && (asked.parity == EVEN || asked.parity == ODD);
    double seconds;
    if (fn == NULL || !milcgpu_offloads()) {
        need_fields();
        return milcgpu_original(ks_congrad_block_parity_cpu)(nsrc, src, dest, qic, mass, fn);
    }
    for (i = 0; i < nsrc; i++) {
        calls[i] = milcgpu_solve_call(MILCGPU_KS_CONGRAD_BLOCK, milcgpu_vector_field(src[i]),
                                      milcgpu_vector_field(dest[i]), &asked, mass, fn);
        cpu_dest[i] = done ? milcgpu_copy_of(dest[i]) : NULL;
    }
    seconds = -milcgpu_plugin_seconds();
    done = done && (milcgpu_plugin_solve_sources(nsrc, calls, reports) ||
                    (links_made_again() && milcgpu_plugin_solve_sources(nsrc, calls, reports)));
    seconds += milcgpu_plugin_seconds();
    if (done)
        iterations = milcgpu_account_block(nsrc, reports, qic, seconds);
    for (i = 0; i < nsrc; i++) {
        quark_invert_control one = asked;
        if (!done) {
            iterations += cpu_solve(MILCGPU_KS_CONGRAD_BLOCK, src[i], dest[i], &one, mass, fn);
            keep_worse(i, &one, qic);
        } else if (cpu_dest[i] != NULL)
            compare_solve(&calls[i], nsrc, reports[i].iterations, seconds / nsrc, src[i], cpu_dest[i], asked, mass, fn);
        free(cpu_dest[i]);
    }
    return iterations;
}

/* Source and solution in `lattice`: they go to the device from there, with the sites' stride. 1: done. Not in compare
 * mode: MILC's routine then calls ks_congrad_parity on copies, which is compared. */
static int site_solve(field_offset src, field_offset dest, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                      int *iterations) {
    const int parity = qic->parity;
    int p, done = fn != NULL && milcgpu_offloads() && !milcgpu_plugin_compare();
    *iterations = 0;
    for (p = EVEN; done && p >= ODD; p--) { /* EVEN is 2, ODD is 1 */
        milcgpu_plugin_solve_call call;
        milcgpu_solve_report report;
        double seconds = -milcgpu_plugin_seconds();
        if (!(parity & p))
            continue;
        qic->parity = p;
        call = milcgpu_solve_call(MILCGPU_KS_CONGRAD_SITE, milcgpu_vector_field((su3_vector *)F_PT(lattice, src)),
                                  milcgpu_vector_field((su3_vector *)F_PT(lattice, dest)), qic, mass, fn);
        call.source.pitch_bytes = call.solution.pitch_bytes = sizeof(site);
        done = milcgpu_plugin_solve(&call, &report);
        if (done) {
            milcgpu_account(&report, qic, seconds + milcgpu_plugin_seconds());
            *iterations += qic->final_iters;
            report_status(qic);
        }
    }
    qic->parity = parity;
    return done;
}

int __wrap_ks_congrad_site(field_offset src, field_offset dest, quark_invert_control *qic, Real mass,
                           imp_ferm_links_t *fn) {
    int iterations;
    return site_solve(src, dest, qic, mass, fn, &iterations)
               ? iterations
               : milcgpu_original(ks_congrad_site)(src, dest, qic, mass, fn);
}

int __wrap_ks_congrad(field_offset src, field_offset dest, Real mass, int niter, int nrestart, Real rsqmin, int prec,
                      int parity, Real *final_rsq, imp_ferm_links_t *fn) {
    quark_invert_control qic;
    int iterations;
    memset(&qic, 0, sizeof qic);
    qic.prec = prec;
    qic.max = niter;
    qic.nrestart = nrestart;
    qic.parity = parity;
    qic.resid = sqrt(rsqmin);
    if (!site_solve(src, dest, &qic, mass, fn, &iterations))
        return milcgpu_original(ks_congrad)(src, dest, mass, niter, nrestart, rsqmin, prec, parity, final_rsq, fn);
    *final_rsq = qic.final_rsq;
    return iterations;
}

static int cpu_multicg(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets, quark_invert_control *qic,
                       imp_ferm_links_t *fn) {
    int iterations;
    need_fields();
    milcgpu_by_milc(MILCGPU_KS_MULTICG,
                    iterations = milcgpu_original(ks_multicg_offset_field_cpu)(src, psim, ksp, num_offsets, qic, fn));
    return iterations;
}

static void compare_multicg(const milcgpu_plugin_multi_mass_call *call, int iterations, double seconds, su3_vector *src,
                            ks_param *ksp, const quark_invert_control *qic, imp_ferm_links_t *fn) {
    const int n = call->n_shifts, counted = total_iters;
    su3_vector *cpu_psim[n];
    milcgpu_field fields[n];
    quark_invert_control cpu_qic[n];
    int i, room = 1, cpu_iterations;
    double cpu_seconds;
    memcpy(cpu_qic, qic, n * sizeof(quark_invert_control));
    for (i = 0; i < n; i++) {
        cpu_psim[i] = room ? milcgpu_copy_of(src) : NULL;
        room = cpu_psim[i] != NULL;
        fields[i] = milcgpu_vector_field(cpu_psim[i]);
    }
    if (room) {
        cpu_qic[0].parity = call->parity;
        cpu_seconds = -milcgpu_plugin_seconds();
        cpu_iterations = cpu_multicg(src, cpu_psim, ksp, n, cpu_qic, fn);
        cpu_seconds += milcgpu_plugin_seconds();
        total_iters = counted;
        milcgpu_judge(
            milcgpu_plugin_compare_multi_mass(call, iterations, seconds, fields, cpu_iterations, cpu_seconds));
    }
    for (i = 0; i < n; i++)
        free(cpu_psim[i]);
}

/* One parity of the multi-mass CG; every mass is brought to its own true residual here, so that the refinement that
 * MILC does afterwards, a solve a mass, finds nothing left to do. since: when MILC's call began; the line with its
 * seconds comes after the last parity, as MILC has it. */
static int multicg(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets, quark_invert_control *qic,
                   int parity, imp_ferm_links_t *fn, double since, int *iterations) {
    const int limit = qic[0].max * qic[0].nrestart, another = qic[0].parity == EVENANDODD && parity == EVEN;
    milcgpu_plugin_multi_mass_call call;
    milcgpu_multi_mass_report report;
    double offsets[num_offsets], tolerances[num_offsets], relative_tolerances[num_offsets], seconds;
    milcgpu_field solutions[num_offsets];
    milcgpu_shift_report shifts[num_offsets];
    int j, low = 0, stopped; /* by the limit */
    for (j = 0; j < num_offsets; j++) {
        offsets[j] = ksp[j].offset;
        tolerances[j] = milcgpu_tolerance(qic[0].resid, MILC_PRECISION); /* MILC stops when either test is met */
        relative_tolerances[j] = tolerances[j] > 0 ? 0 : relative_limit(qic);
        solutions[j] = milcgpu_vector_field(psim[j]);
        if (ksp[j].offset < ksp[low].offset)
            low = j;
    }
    call.mixed = MILCGPU_MIXED_AUTO;
    call.fat = fn->fat;
    call.lng = fn->lng;
    call.parity = parity;
    call.n_shifts = num_offsets;
    call.offsets = offsets;
    call.tolerances = tolerances;
    call.relative_tolerances = relative_tolerances;
    call.max_iterations = limit > 2 ? limit - 1 : 1; /* MILC counts from 1, and takes at least one step */
    call.max_restarts = qic[0].nrestart;
    call.source = source_field(src);
    call.solutions = solutions;
    if (!milcgpu_plugin_multi_mass(&call, shifts, &report) &&
        !(links_made_again() && milcgpu_plugin_multi_mass(&call, shifts, &report)))
        return 0;
    seconds = milcgpu_plugin_seconds() - since;
    *iterations = report.source_norm == 0 ? 0 : report.iterations;
    total_iters += *iterations;
    stopped = report.steps >= call.max_iterations && shifts[low].status != MILCGPU_OK;
    for (j = 0; j < num_offsets; j++) {
        const double residual = shifts[stopped ? low : j].true_residual;
        qic[j].final_rsq = qic[j].size_r = residual * residual;
        qic[j].final_relrsq = relative_tolerances[j] > 0 ? shifts[j].relative_residual : 0;
        qic[j].size_relr = stopped ? 0 : qic[j].final_relrsq;
        qic[j].final_iters = *iterations;
        qic[j].final_restart = 0;
        qic[j].converged = shifts[j].status == MILCGPU_OK && !stopped;
    }
    if (!stopped && !another)
        print_time("multicg_offset", num_offsets, *iterations,
                   (1205 + 15 * num_offsets) * (qic[0].parity == EVENANDODD ? 2 : 1), seconds);
    if (report.status != MILCGPU_OK && this_node == 0)
        printf("ks_multicg_offset_field: CG NOT CONVERGED after %d iterations, res. = %e wanted %e\n", *iterations,
               (double)qic[0].final_rsq, (double)(qic[0].resid * qic[0].resid));
    if (milcgpu_plugin_compare())
        compare_multicg(&call, *iterations, seconds, src, ksp, qic, fn);
    return 1;
}

int __wrap_ks_multicg_offset_field_cpu(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets,
                                       quark_invert_control *qic, imp_ferm_links_t *fn) {
    int j, p, iterations = 0, possible = fn != NULL && num_offsets > 0;
    double since;
    for (j = 0; possible && j < num_offsets; j++)
        possible = ksp[j].offset > 0;
    if (!possible || !milcgpu_offloads()) {
        need_fields();
        return milcgpu_original(ks_multicg_offset_field_cpu)(src, psim, ksp, num_offsets, qic, fn);
    }
    since = milcgpu_plugin_seconds();
    for (p = EVEN; p >= ODD; p--)
        if ((qic[0].parity & p) && !multicg(src, psim, ksp, num_offsets, qic, p, fn, since, &iterations))
            return cpu_multicg(src, psim, ksp, num_offsets, qic, fn);
    return iterations;
}

void __wrap_dslash_fn_field(su3_vector *src, su3_vector *dest, int parity, imp_ferm_links_t *fn) {
    su3_vector *cpu_dest = NULL;
    int p, parities = parity;
    double seconds;
    if (fn == NULL || !milcgpu_offloads() || !milcgpu_plugin_takes_dslash() || (parity == EVENANDODD && src == dest)) {
        need_fields();
        milcgpu_original(dslash_fn_field)(src, dest, parity, fn);
        return;
    }
    cpu_dest = milcgpu_copy_of(dest);
    if (cpu_dest != NULL) {
        const double cpu_seconds = milcgpu_by_milc(
            MILCGPU_DSLASH, milcgpu_original(dslash_fn_field)(src == dest ? cpu_dest : src, cpu_dest, parity, fn));
        seconds = -milcgpu_plugin_seconds();
        for (p = EVEN; parities && p >= ODD; p--)
            if ((parity & p) &&
                milcgpu_plugin_dslash(fn->fat, fn->lng, p, milcgpu_vector_field(src), milcgpu_vector_field(dest)))
                parities &= ~p;
        seconds += milcgpu_plugin_seconds();
        for (p = EVEN; !parities && p >= ODD; p--)
            if (parity & p)
                milcgpu_judge(milcgpu_plugin_compare_dslash(p, src, dest, cpu_dest, seconds, cpu_seconds));
        free(cpu_dest);
    } else
        for (p = EVEN; p >= ODD; p--)
            if ((parity & p) &&
                milcgpu_plugin_dslash(fn->fat, fn->lng, p, milcgpu_vector_field(src), milcgpu_vector_field(dest)))
                parities &= ~p;
    if (parities) { /* what the device did not do */
        need_fields();
        milcgpu_by_milc(MILCGPU_DSLASH, milcgpu_original(dslash_fn_field)(src, dest, parities, fn));
    }
}
