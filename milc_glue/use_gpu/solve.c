/* ks_congrad_parity, ks_congrad_block_parity, ks_congrad_site, ks_congrad, ks_multicg_offset_field and dslash_fn_field.
 * These fill quark_invert_control, count iterations and total_iters, and print the timing lines as MILC's CPU routines
 * do. */
#include "solve_call.h"
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

/* MILC compares the relative residual, which is a square root, with relresid squared. */
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

/* i: number of the source in its block. */
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
        if (n > 1) /* sources may share a Krylov space, which does not restart as MILC does */
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
    } else { /* then MILC does not call the solver */
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

/* What MILC's own solvers read. */
enum { READS = MILCGPU_SOURCE | MILCGPU_SOLUTIONS | MILCGPU_FERMION_LINKS };
static const char a_solver[] = "a solver of MILC's";

/* After a failure: links that only the device had may be lost. Returns 1 if the call can be tried again with MILC's
 * links. */
static int links_made_again(void) { return milcgpu_fill_links() && milcgpu_offloads(); }

/* Without a tolerance, MILC's own routines end at once. */
int milcgpu_has_tolerance(double absolute, double relative) {
    return milcgpu_tolerance(absolute, MILC_PRECISION) > 0 || milcgpu_tolerance(relative, MILC_PRECISION) > 0;
}
static const char *why_own_solve(const quark_invert_control *qic, const imp_ferm_links_t *fn) {
    return fn == NULL                                          ? MILCGPU_NO_LINKS
           : qic->parity != EVEN && qic->parity != ODD         ? "MILC's own: it solves on both parities at once"
           : !milcgpu_has_tolerance(qic->resid, qic->relresid) ? MILCGPU_NO_TOLERANCE
                                                               : NULL;
}

/* One of `sources` sources that are solved together. */
typedef struct {
    su3_vector *src, *dest;
    quark_invert_control *qic;
    Real mass;
    imp_ferm_links_t *fn;
    int sources;
    milcgpu_plugin_solve_call call;
    milcgpu_solve_report report;
    int iterations; /* the device's; in the protocol's copy, MILC's */
    milcgpu_output outputs[4];
} one_solve;

static int compare_solve(const milcgpu_call *call) {
    const one_solve *const s = (const one_solve *)call->details;
    return milcgpu_plugin_compare_solve(&s->call, s->sources, s->iterations, call->seconds,
                                        milcgpu_field_of(s->outputs[0].theirs), *(const int *)s->outputs[3].theirs,
                                        call->cpu_seconds);
}
static milcgpu_call call_of(milcgpu_routine row, one_solve *s) {
    const milcgpu_output outputs[4] = {
        MILCGPU_MEMORY(s->dest, sites_on_node * sizeof(su3_vector)), MILCGPU_MEMORY(s->qic, sizeof *s->qic),
        MILCGPU_MEMORY(&total_iters, sizeof total_iters), MILCGPU_MEMORY(&s->iterations, sizeof s->iterations)};
    const milcgpu_call call = MILCGPU_MEMBERS(.row = row, .name = a_solver, .why_own = why_own_solve(s->qic, s->fn),
                                              .reads = READS, .outputs = s->outputs, .n_outputs = 4,
                                              .compare = compare_solve, .details = s, .again = links_made_again);
    memcpy(s->outputs, outputs, sizeof outputs);
    return call;
}
static void solve_by_milc(one_solve *s) {
    s->iterations = milcgpu_original(ks_congrad_parity_cpu)(s->src, s->dest, s->qic, s->mass, s->fn);
}

static const milcgpu_plugin_solve_call *describe(const milcgpu_call *call, one_solve *s) {
    s->call =
        milcgpu_solve_call(call->row, source_field(s->src), milcgpu_vector_field(s->dest), s->qic, s->mass, s->fn);
    return &s->call;
}
static int account(const milcgpu_call *call, one_solve *s) {
    milcgpu_account(&s->report, s->qic, milcgpu_seconds_so_far(call));
    s->iterations = s->report.iterations;
    return 1;
}

int __wrap_ks_congrad_parity_cpu(su3_vector *src, su3_vector *dest, quark_invert_control *qic, Real mass,
                                 imp_ferm_links_t *fn) {
    one_solve s = MILCGPU_MEMBERS(.src = src, .dest = dest, .qic = qic, .mass = mass, .fn = fn, .sources = 1);
    milcgpu_call call = call_of(MILCGPU_KS_CONGRAD, &s);
    milcgpu_offload(&call, milcgpu_plugin_solve(describe(&call, &s), &s.report) && account(&call, &s),
                    solve_by_milc(&s));
    return s.iterations;
}

static int account_block(const milcgpu_call *call, int n, one_solve *solves, const milcgpu_solve_report *reports,
                         quark_invert_control *qic) {
    int k;
    milcgpu_account_block(n, reports, qic, milcgpu_seconds_so_far(call));
    for (k = 0; k < n; k++)
        solves[k].iterations = reports[k].iterations;
    return 1;
}

/* Solves for all sources at once; qic gets the residuals of the worst. */
int __wrap_ks_congrad_block_parity_cpu(int nsrc, su3_vector **src, su3_vector **dest, quark_invert_control *qic,
                                       Real mass, imp_ferm_links_t *fn) {
    const int n = nsrc > 0 ? nsrc : 1;
    quark_invert_control of_source[n];
    one_solve solves[n];
    milcgpu_plugin_solve_call on_device[n];
    milcgpu_solve_report reports[n];
    milcgpu_call calls[n];
    int k, iterations = 0;
    if (milcgpu_declines(MILCGPU_KS_CONGRAD_BLOCK,
                         nsrc < 1 ? "MILC's own: there are no sources" : why_own_solve(qic, fn))) {
        milcgpu_need(READS, a_solver);
        return milcgpu_original(ks_congrad_block_parity_cpu)(nsrc, src, dest, qic, mass, fn);
    }
    for (k = 0; k < n; k++) {
        const one_solve s =
            MILCGPU_MEMBERS(.src = src[k], .dest = dest[k], .qic = &of_source[k], .mass = mass, .fn = fn, .sources = n);
        of_source[k] = *qic;
        solves[k] = s;
        solves[k].call = on_device[k] = milcgpu_solve_call(MILCGPU_KS_CONGRAD_BLOCK, milcgpu_vector_field(src[k]),
                                                           milcgpu_vector_field(dest[k]), qic, mass, fn);
        calls[k] = call_of(MILCGPU_KS_CONGRAD_BLOCK, &solves[k]);
    }
    milcgpu_offload_each(calls, n, k,
                         milcgpu_plugin_solve_sources(n, on_device, reports) &&
                             account_block(&calls[0], n, solves, reports, qic),
                         solve_by_milc(&solves[k]));
    for (k = 0; k < n; k++) {
        iterations += solves[k].iterations;
        if (!calls[k].done)
            keep_worse(k, &of_source[k], qic);
    }
    return iterations;
}

/* Source and solution are members of the sites; the device reads them there, with the stride of the sites. Returns 1 if
 * it is done. */
static int site_solve(field_offset src, field_offset dest, quark_invert_control *qic, Real mass, imp_ferm_links_t *fn,
                      int *iterations) {
    const int parity = qic->parity;
    int p, done = !milcgpu_declines(
               MILCGPU_KS_CONGRAD_SITE,
               fn == NULL ? MILCGPU_NO_LINKS
               : milcgpu_offloads() && milcgpu_plugin_compare()
                   ? "MILC's own in compare mode: it calls ks_congrad_parity on copies, which is compared"
                   : NULL);
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

/* ---- several masses ---------------------------------------------------------------------------------------------- */

/* One parity of a call. */
typedef struct {
    su3_vector *src, **psim;
    ks_param *ksp;
    int n; /* number of masses */
    quark_invert_control *qic;
    imp_ferm_links_t *fn;
    int parity;
    double since; /* start of MILC's call: as in MILC, the line with the seconds comes after the last parity */
    milcgpu_plugin_multi_mass_call call;
    int iterations; /* the device's; in the protocol's copy, MILC's */
} masses;

static int compare_masses(const milcgpu_call *call) {
    const masses *const m = (const masses *)call->details;
    milcgpu_field theirs[m->n];
    int j;
    for (j = 0; j < m->n; j++)
        theirs[j] = milcgpu_field_of(call->outputs[3 + j].theirs);
    return milcgpu_plugin_compare_multi_mass(&m->call, m->iterations, call->seconds, theirs,
                                             *(const int *)call->outputs[0].theirs, call->cpu_seconds);
}
static void multicg_by_milc(masses *m) {
    m->qic[0].parity = m->parity;
    m->iterations = milcgpu_original(ks_multicg_offset_field_cpu)(m->src, m->psim, m->ksp, m->n, m->qic, m->fn);
}

/* Does what MILC's routine does after a solve. */
static int account_masses(masses *m, const milcgpu_multi_mass_report *report, const milcgpu_shift_report *shifts) {
    const int another = m->qic[0].parity == EVENANDODD && m->parity == EVEN;
    quark_invert_control *const qic = m->qic;
    int j, low = 0, stopped; /* by the limit of iterations */
    for (j = 0; j < m->n; j++)
        if (m->ksp[j].offset < m->ksp[low].offset)
            low = j;
    m->iterations = report->source_norm == 0 ? 0 : report->iterations;
    total_iters += m->iterations;
    stopped = report->steps >= m->call.max_iterations && shifts[low].status != MILCGPU_OK;
    for (j = 0; j < m->n; j++) {
        const double residual = shifts[stopped ? low : j].true_residual;
        qic[j].final_rsq = qic[j].size_r = residual * residual;
        qic[j].final_relrsq = m->call.relative_tolerances[j] > 0 ? shifts[j].relative_residual : 0;
        qic[j].size_relr = stopped ? 0 : qic[j].final_relrsq;
        qic[j].final_iters = m->iterations;
        qic[j].final_restart = 0;
        qic[j].converged = shifts[j].status == MILCGPU_OK && !stopped;
    }
    if (!stopped && !another)
        print_time("multicg_offset", m->n, m->iterations, (1205 + 15 * m->n) * (qic[0].parity == EVENANDODD ? 2 : 1),
                   milcgpu_plugin_seconds() - m->since);
    if (report->status != MILCGPU_OK && this_node == 0)
        printf("ks_multicg_offset_field: CG NOT CONVERGED after %d iterations, res. = %e wanted %e\n", m->iterations,
               (double)qic[0].final_rsq, (double)(qic[0].resid * qic[0].resid));
    return 1;
}

/* One parity of the multi-mass CG. The device brings every mass to its own true residual, so MILC's refinement
 * afterwards, one solve for each mass, has nothing left to do. */
static int multicg(masses m) {
    const int n = m.n, limit = m.qic[0].max * m.qic[0].nrestart;
    double offsets[n], tolerances[n], relative_tolerances[n];
    milcgpu_field solutions[n];
    milcgpu_shift_report shifts[n];
    milcgpu_multi_mass_report report;
    milcgpu_output outputs[3 + n];
    const milcgpu_output others[3] = {MILCGPU_MEMORY(&m.iterations, sizeof m.iterations),
                                      MILCGPU_MEMORY(m.qic, n * sizeof *m.qic),
                                      MILCGPU_MEMORY(&total_iters, sizeof total_iters)};
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_KS_MULTICG, .name = a_solver, .outputs = outputs, .n_outputs = 3 + n,
                        .compare = compare_masses, .details = &m, .only_compared = 1, .again = links_made_again);
    int j;
    memcpy(outputs, others, sizeof others);
    for (j = 0; j < n; j++) {
        const milcgpu_output solution = MILCGPU_MEMORY(m.psim[j], sites_on_node * sizeof(su3_vector));
        outputs[3 + j] = solution;
        offsets[j] = m.ksp[j].offset;
        tolerances[j] = milcgpu_tolerance(m.qic[0].resid, MILC_PRECISION); /* MILC stops when either test is met */
        relative_tolerances[j] = tolerances[j] > 0 ? 0 : relative_limit(m.qic);
        solutions[j] = milcgpu_vector_field(m.psim[j]);
    }
    m.call.mixed = MILCGPU_MIXED_AUTO;
    m.call.fat = m.fn->fat;
    m.call.lng = m.fn->lng;
    m.call.parity = m.parity;
    m.call.n_shifts = n;
    m.call.offsets = offsets;
    m.call.tolerances = tolerances;
    m.call.relative_tolerances = relative_tolerances;
    m.call.max_iterations = limit > 2 ? limit - 1 : 1; /* MILC counts from 1, and takes at least one step */
    m.call.max_restarts = m.qic[0].nrestart;
    m.call.source = source_field(m.src);
    m.call.solutions = solutions;
    return milcgpu_offload(&call,
                           milcgpu_plugin_multi_mass(&m.call, shifts, &report) && account_masses(&m, &report, shifts),
                           multicg_by_milc(&m))
               ? m.iterations
               : -1;
}

static const char *why_own_masses(const ks_param *ksp, int n, const quark_invert_control *qic,
                                  const imp_ferm_links_t *fn) {
    int j;
    for (j = 0; j < n; j++)
        if (!(ksp[j].offset > 0))
            return "MILC's own: an offset is not above 0";
    return fn == NULL                                          ? MILCGPU_NO_LINKS
           : n < 1                                             ? "MILC's own: there are no masses"
           : !milcgpu_has_tolerance(qic->resid, qic->relresid) ? MILCGPU_NO_TOLERANCE
                                                               : NULL;
}

int __wrap_ks_multicg_offset_field_cpu(su3_vector *src, su3_vector **psim, ks_param *ksp, int num_offsets,
                                       quark_invert_control *qic, imp_ferm_links_t *fn) {
    masses m = MILCGPU_MEMBERS(.src = src, .psim = psim, .ksp = ksp, .n = num_offsets, .qic = qic, .fn = fn,
                               .since = milcgpu_plugin_seconds());
    milcgpu_call whole = MILCGPU_MEMBERS(.row = MILCGPU_KS_MULTICG, .name = a_solver, .reads = READS);
    int iterations = 0;
    whole.counted = !milcgpu_declines(MILCGPU_KS_MULTICG, why_own_masses(ksp, num_offsets, qic, fn));
    if (!whole.counted)
        iterations = -1;
    for (m.parity = EVEN; iterations >= 0 && m.parity >= ODD; m.parity--)
        if (qic[0].parity & m.parity)
            iterations = multicg(m);
    if (iterations >= 0)
        return iterations;
    milcgpu_by_original(
        &whole, iterations = milcgpu_original(ks_multicg_offset_field_cpu)(src, psim, ksp, num_offsets, qic, fn));
    return iterations;
}

/* ---- D ----------------------------------------------------------------------------------------------------------- */

typedef struct {
    const su3_vector *src;
    int parity;
} dslash;
static int compare_dslash(const milcgpu_call *call) {
    const dslash *const d = (const dslash *)call->details;
    int p, good = 1;
    for (p = EVEN; p >= ODD; p--)
        if (d->parity & p)
            good &= milcgpu_plugin_compare_dslash(p, d->src, call->outputs[0].data, call->outputs[0].theirs,
                                                  call->seconds, call->cpu_seconds);
    return good;
}
static int apply_dslash(const su3_vector *src, su3_vector *dest, int parity, const imp_ferm_links_t *fn) {
    int p, done = 1;
    for (p = EVEN; done && p >= ODD; p--)
        if (parity & p)
            done = milcgpu_plugin_dslash(fn->fat, fn->lng, p, milcgpu_vector_field(src), milcgpu_vector_field(dest));
    return done;
}
void __wrap_dslash_fn_field(su3_vector *src, su3_vector *dest, int parity, imp_ferm_links_t *fn) {
    const dslash d = {src, parity};
    milcgpu_output output[] = {MILCGPU_MEMORY(dest, sites_on_node * sizeof(su3_vector))};
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_DSLASH, .name = a_solver, .why_own = milcgpu_why_own_dslash(), .reads = READS,
                        MILCGPU_OUTPUTS(output), .compare = compare_dslash, .details = &d);
    if (fn == NULL)
        call.why_own = MILCGPU_NO_LINKS;
    else if (parity == EVENANDODD && src == dest)
        call.why_own = "MILC's own: D of both parities in place";
    milcgpu_offload(&call, apply_dslash(src, dest, parity, fn),
                    milcgpu_original(dslash_fn_field)(src, dest, parity, fn));
}
