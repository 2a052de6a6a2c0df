/* Molecular dynamics: forces, updates, actions. The gauge field and the momenta stay on the device between these
 * routines; what MILC itself reads or writes in the sites is announced here. A routine that MILC does asks for the
 * host's copy first (milcgpu_md_need). Links on the device have phases in always; those in the sites as phases_in says.
 */
#include "../include/umethod.h"
#include "glue.h"
#include <string.h>

#ifndef MILCGPU_SERVES_MD
void milcgpu_md_left(const char **left) {
    int r;
    for (r = MILCGPU_UPDATE_U; r <= MILCGPU_PLAQUETTE; r++)
        left[r] = MILCGPU_ABSENT;
}
void milcgpu_md_need(int what, const char *who) {
    (void)what;
    (void)who;
}
int milcgpu_md_lends(su3_matrix *room) {
    (void)room;
    return 0;
}
int milcgpu_md_lent(const su3_matrix *links) {
    (void)links;
    return 0;
}
void milcgpu_md_fill(su3_matrix *links) { (void)links; }
#else

void __real_update_u(Real) MILCGPU_ORIGINAL;
void __real_imp_gauge_force_ks(Real, field_offset) MILCGPU_ORIGINAL;
void __real_imp_gauge_force(Real, field_offset) MILCGPU_ORIGINAL;
void __real_eo_fermion_force_multi(Real, Real *, su3_vector **, int, int, fermion_links_t *) MILCGPU_ORIGINAL;
void __real_eo_fermion_force_oneterm_site(Real, Real, field_offset, int, fermion_links_t *) MILCGPU_ORIGINAL;
void __real_eo_fermion_force_twoterms_site(Real, Real, Real, field_offset, field_offset, int,
                                           fermion_links_t *) MILCGPU_ORIGINAL;
void __real_eo_fermion_force_twoterms_site_cpu(Real, Real, Real, field_offset, field_offset, int,
                                               fermion_links_t *) MILCGPU_ORIGINAL;
void __real_reunitarize_ks(void) MILCGPU_ORIGINAL;
double __real_imp_gauge_action(void) MILCGPU_ORIGINAL;
void __real_d_plaquette(double *, double *) MILCGPU_ORIGINAL;
void __real_rephase(int) MILCGPU_ORIGINAL;
void __real_gauge_field_copy(field_offset, field_offset) MILCGPU_ORIGINAL;
void __real_ranmom(void) MILCGPU_ORIGINAL;
void *__real_reload_lattice(int, const char *) MILCGPU_ORIGINAL;
double __real_d_action_rhmc(su3_vector **, su3_vector *) MILCGPU_ORIGINAL;
double __real_d_action(void) MILCGPU_ORIGINAL;
void __real_update_h(Real) MILCGPU_ORIGINAL;
void __real_restore_fermion_links_from_site(fermion_links_t *, int) MILCGPU_ORIGINAL;
int __real_update_h_fermion(Real, su3_vector **) MILCGPU_ORIGINAL; /* of ks_imp_rhmc alone */
int __real_update_h_rhmc(Real, su3_vector **) MILCGPU_ORIGINAL;
extern int n_order_naik_total __attribute__((weak)); /* of all actions there */

#define BOTH (MILCGPU_LINKS | MILCGPU_MOMENTA)

/* While positive: rephase is called around something that does not read the sites but through the routines below. */
static int quiet = 0;
/* While positive: a routine of MILC's works on the sites. */
static int own = 0;

static milcgpu_plugin_lattice in_sites(void) {
    const int real = MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE;
    milcgpu_plugin_lattice l = {{lattice[0].link, real, sizeof(site)}, {lattice[0].mom, real, sizeof(site)}};
    return l;
}

void milcgpu_md_need(int what, const char *who) {
    const int newer = milcgpu_plugin_newer_on_device(what);
    const int phases = phases_in;
    if (own) /* the host's copy is the one that MILC's routine works on */
        return;
    if (!milcgpu_plugin_host_needs(what, who))
        milcgpu_end_of_run();
    if ((newer & MILCGPU_LINKS) && phases == OFF) { /* they came with phases */
        phases_in = ON;
        __real_rephase(OFF);
    }
}

/* Links with phases in for the device to read, where it has not the newest: 1 where they were out. */
static int put_phases_in(void) {
    if (phases_in == ON || milcgpu_plugin_newer_on_device(MILCGPU_LINKS))
        return 0;
    __real_rephase(ON);
    return 1;
}
static void put_phases_back(int were_out) {
    if (were_out)
        __real_rephase(OFF);
}

/* The gauge action: plaquette, rectangle and bent loop, in this order, or the first of them; by lengths and numbers. */
static int known_action(milcgpu_loops *loops) {
    const int lengths[3] = {4, 6, 6}, numbers[3] = {6, 12, 16};
    double coefficients[3] = {0, 0, 0};
    int k;
#ifdef ANISOTROPY
    return 0;
#endif
    if (get_nreps() != 1 || get_nloop() > 3)
        return 0;
    for (k = 0; k < get_nloop(); k++) {
        if (get_loop_length()[k] != lengths[k] || get_loop_num()[k] != numbers[k])
            return 0;
        coefficients[k] = get_loop_coeff()[k][0];
    }
    loops->plaquette = coefficients[0];
    loops->rectangle = coefficients[1];
    loops->bent = coefficients[2];
    return 1;
}
#ifdef ANISOTROPY
#define COUPLING 0.0 /* not used: two couplings */
#else
#define COUPLING beta
#endif

/* Programs in which every reader of the sites is known; in others the host's copy is made new after every routine. */
static int stays(void) {
    return milcgpu_plugin_resident() && (__real_update_h_fermion != NULL || __real_update_h != NULL);
}

/* The field that stands for the device's links while fermion links are made. */
static int restoring = 0;
static su3_matrix *lent = NULL;

int milcgpu_md_lends(su3_matrix *room) {
    if (!restoring || !stays() || milcgpu_plugin_compare() || !milcgpu_plugin_newer_on_device(MILCGPU_LINKS) ||
        phases_in != ON)
        return 0;
    lent = room;
    return 1;
}
int milcgpu_md_lent(const su3_matrix *links) { return lent != NULL && links == lent; }
void milcgpu_md_fill(su3_matrix *links) {
    if (!milcgpu_md_lent(links))
        return;
    lent = NULL;
    milcgpu_md_need(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), links);
}
void __wrap_restore_fermion_links_from_site(fermion_links_t *fl, int prec) {
    restoring++;
    __real_restore_fermion_links_from_site(fl, prec);
    restoring--;
    lent = NULL;
}

/* Whether the device does this call. Both copies are equal afterwards if it is to be compared. */
static int takes(milcgpu_routine routine, int can, const char *why, const char *who) {
    if (own || !milcgpu_takes_over())
        return 0;
    if (!can) {
        milcgpu_plugin_leaves(routine, why);
        return 0;
    }
    if (milcgpu_plugin_compare())
        milcgpu_md_need(BOTH, who);
    return 1;
}

/* Before and after MILC's own routine works on the sites; the outermost of them is counted. */
static int counted = 0;
static void begin_own(milcgpu_routine routine, int reads, const char *who) {
    milcgpu_md_need(reads, who);
    if (own++ == 0 && (counted = milcgpu_plugin_active()))
        milcgpu_plugin_original(routine, 1);
}
static void end_own(milcgpu_routine routine, int writes) {
    if (--own == 0 && counted)
        milcgpu_plugin_original(routine, 0);
    milcgpu_plugin_host_wrote(writes);
}

/* What is left to do after the device has written `one`, in `seconds`. Returns 1 where MILC's routine is to run now, on
 * the host's old copy, between begin_compare and end_compare. */
static int finish(int one, const char *who) {
    if (milcgpu_plugin_compare())
        return 1;
    if (!stays())
        milcgpu_md_need(one, who);
    return 0;
}
static double begin_compare(milcgpu_routine routine) {
    own++;
    milcgpu_plugin_original(routine, 1);
    return -milcgpu_plugin_seconds();
}
/* The seconds of MILC's routine. */
static double end_original(milcgpu_routine routine, double cpu_seconds) {
    cpu_seconds += milcgpu_plugin_seconds();
    milcgpu_plugin_original(routine, 0);
    own--;
    return cpu_seconds;
}
static void end_compare(milcgpu_routine routine, int one, const char *expected, double seconds, double cpu_seconds) {
    cpu_seconds = end_original(routine, cpu_seconds);
    milcgpu_judge(milcgpu_plugin_compare_gauge(routine, one, expected, seconds, cpu_seconds));
}

/* ---- updates and gauge force ------------------------------------------------------------------------------------ */

void __wrap_update_u(Real eps) {
    /* The order of the exponential is that of the program. */
    const int order = __real_update_h_fermion != NULL ? 8 : __real_update_h != NULL ? 6 : 0;
    const milcgpu_plugin_lattice sites = in_sites();
    double seconds = -milcgpu_plugin_seconds();
    if (takes(MILCGPU_UPDATE_U, order != 0, "MILC's own: this program's order of the exponential is not known",
              "update_u") &&
        milcgpu_plugin_update_links(&sites, eps, order)) {
        invalidate_fermion_links(fn_links);
        seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
        if (order == 8)
            node0_printf("LINK_UPDATE: time = %e  mflops = %e\n", seconds,
                         5616.0 * volume / (1.0e6 * seconds * numnodes()));
#endif
        if (finish(MILCGPU_LINKS, "update_u")) {
            const double cpu_seconds = begin_compare(MILCGPU_UPDATE_U);
            __real_update_u(eps);
            end_compare(MILCGPU_UPDATE_U, MILCGPU_LINKS, NULL, seconds, cpu_seconds);
        }
        return;
    }
    begin_own(MILCGPU_UPDATE_U, BOTH, "update_u");
    __real_update_u(eps);
    end_own(MILCGPU_UPDATE_U, MILCGPU_LINKS);
}

typedef void (*gauge_force)(Real, field_offset);

static void gauge_force_by(gauge_force original, Real eps, field_offset mom_off) {
    const milcgpu_plugin_lattice sites = in_sites();
    milcgpu_loops loops;
    double seconds = -milcgpu_plugin_seconds();
    if (takes(MILCGPU_GAUGE_FORCE_KS, known_action(&loops) && mom_off == F_OFFSET(mom),
              "MILC's own: this gauge action has other loops, or powers of them", "imp_gauge_force")) {
        const int were_out = put_phases_in();
        const int done = milcgpu_plugin_gauge_force(&sites, &loops, COUPLING, eps);
        put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
#ifdef GFTIME
            node0_printf("GFTIME:   time = %e (Symanzik1) mflops = %e\n", seconds,
                         153004.0 * volume / (1e6 * seconds * numnodes()));
#endif
            if (finish(MILCGPU_MOMENTA, "imp_gauge_force")) {
                const double cpu_seconds = begin_compare(MILCGPU_GAUGE_FORCE_KS);
                original(eps, mom_off);
                end_compare(MILCGPU_GAUGE_FORCE_KS, MILCGPU_MOMENTA, NULL, seconds, cpu_seconds);
            }
            return;
        }
    }
    begin_own(MILCGPU_GAUGE_FORCE_KS, BOTH, "imp_gauge_force");
    original(eps, mom_off);
    end_own(MILCGPU_GAUGE_FORCE_KS, MILCGPU_MOMENTA);
}

void __wrap_imp_gauge_force_ks(Real eps, field_offset mom_off) {
    gauge_force_by(__real_imp_gauge_force_ks, eps, mom_off);
}
void __wrap_imp_gauge_force(Real eps, field_offset mom_off) { gauge_force_by(__real_imp_gauge_force, eps, mom_off); }

/* MILC's words for links that are no SU(3) matrices are MILC's to say. */
void __wrap_reunitarize_ks(void) {
    const milcgpu_plugin_lattice sites = in_sites();
    milcgpu_reunitarize_report report;
    double seconds = -milcgpu_plugin_seconds();
    if (takes(MILCGPU_REUNITARIZE, 1, NULL, "reunitarize_ks") && milcgpu_plugin_reunitarize(&sites, 0, &report) &&
        report.failed == 0) {
        seconds += milcgpu_plugin_seconds();
        if (finish(MILCGPU_LINKS, "reunitarize_ks")) {
            const double cpu_seconds = begin_compare(MILCGPU_REUNITARIZE);
            __real_reunitarize_ks();
            end_compare(MILCGPU_REUNITARIZE, MILCGPU_LINKS, NULL, seconds, cpu_seconds);
        }
        return;
    }
    begin_own(MILCGPU_REUNITARIZE, MILCGPU_LINKS, "reunitarize_ks");
    __real_reunitarize_ks();
    end_own(MILCGPU_REUNITARIZE, MILCGPU_LINKS);
}

/* ---- fermion force ---------------------------------------------------------------------------------------------- */

#if FERM_ACTION == HISQ
#define MOST_SETS MAX_NAIK
/* 0: MILC's own must do it, and *why says why. */
static int force_spec(milcgpu_force_spec *spec, milcgpu_fatlink_spec *links, milcgpu_force_set *sets, int terms,
                      fermion_links_t *fl, const char **why, const char **expected) {
    const ks_action_paths_hisq *ap = get_action_paths_hisq(fl);
    const int n = fermion_links_get_n_naiks(fl);
    const double *eps = fermion_links_get_eps_naik(fl);
    int k, sum = 0;
    *why = "MILC's own: this action's links, or its way to unitary ones, are none whose force the device has";
    if (!milcgpu_spec_of_hisq(ap, links) || ap->umethod == UNITARIZE_ROOT || ap->umethod == UNITARIZE_RATIONAL ||
        ap->ugroup != UNITARIZE_U3)
        return 0;
    for (k = 0; k < n; k++) {
        sets[k].eps_naik = k == 0 ? 0 : eps[k];
        sets[k].n_terms = n_orders_naik[k];
        sum += n_orders_naik[k];
        if (k > 0 && n_orders_naik[k] == 0 && eps[k] != 0)
            *expected = "MILC's routine adds the force of the set before to a set of eps_naik without terms";
    }
    *why = "MILC's own: the terms of the sets of eps_naik do not add up to all terms";
    if (sum != n_order_naik_total || sum > terms)
        return 0;
    spec->n_terms = sum;
    spec->n_sets = n;
    spec->sets = sets;
#ifdef HISQ_FORCE_FILTER
    spec->filter = HISQ_FORCE_FILTER;
#endif
    return 1;
}
#else
#define MOST_SETS 1
static int force_spec(milcgpu_force_spec *spec, milcgpu_fatlink_spec *links, milcgpu_force_set *sets, int terms,
                      fermion_links_t *fl, const char **why, const char **expected) {
    (void)sets;
    (void)expected;
    *why = "MILC's own: this action's links are not made of the six coefficients";
    spec->n_terms = terms;
    return milcgpu_spec_of_asqtad(&get_action_paths(fl)->p, links);
}
#endif

/* 1: done. report: of the device. */
static int fermion_force(Real eps, const double *residues, const milcgpu_field *x, int terms, fermion_links_t *fl,
                         milcgpu_force_report *report, const char **expected) {
    const milcgpu_plugin_lattice sites = in_sites();
    milcgpu_force_spec spec;
    milcgpu_fatlink_spec links;
    milcgpu_force_set sets[MOST_SETS];
    const char *why;
    int can;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.links = &links;
    spec.eps = eps;
    spec.residues = residues;
    *expected = NULL;
    can = force_spec(&spec, &links, sets, terms, fl, &why, expected);
    return takes(MILCGPU_FERMION_FORCE, can, why, "eo_fermion_force") &&
           milcgpu_plugin_fermion_force(&sites, &spec, x, report);
}

void __wrap_eo_fermion_force_multi(Real eps, Real *residues, su3_vector **xxx, int nterms, int prec,
                                   fermion_links_t *fl) {
    milcgpu_force_report report;
    const char *expected = NULL;
    double seconds = -milcgpu_plugin_seconds();
    double *weights = (double *)malloc((nterms + 1) * sizeof(double));
    milcgpu_field *x = (milcgpu_field *)malloc((nterms + 1) * sizeof(milcgpu_field));
    int k, done = 0;
    if (weights != NULL && x != NULL && nterms > 0) {
        for (k = 0; k < nterms; k++) {
            weights[k] = residues[k];
            x[k] = milcgpu_vector_field(xxx[k]);
        }
        done = fermion_force(eps, weights, x, nterms, fl, &report, &expected);
    }
    free(weights);
    free(x);
    if (!done) {
        milcgpu_need_vectors();
        begin_own(MILCGPU_FERMION_FORCE, BOTH, "eo_fermion_force_multi");
#if FERM_ACTION == HISQ
        /* Not filled where the links were made from the device's. */
        milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), get_hisq_auxiliary(fl)->U_link);
#endif
        __real_eo_fermion_force_multi(eps, residues, xxx, nterms, prec, fl);
        end_own(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA);
        return;
    }
    seconds += milcgpu_plugin_seconds();
#ifdef FFTIME
#if FERM_ACTION == HISQ
    node0_printf("FFTIME:  time = %e (HISQ MILC %s) terms = %d flops/site = %d mflops = %e\n", seconds,
                 MILC_PRECISION == 1 ? "F" : "D", nterms, (int)(report.flops / volume), report.flops / (1e6 * seconds));
#else
    node0_printf("FFTIME:  time = %e (FNMAT) terms = %d mflops = %e\n", seconds, nterms,
                 (966456.0 + 1440.0 * nterms) * volume / (1e6 * seconds * numnodes()));
#endif
#endif
#if FERM_ACTION == HISQ
    hisq_svd_counter += (int)report.svd_links;
    hisq_force_filter_counter += (int)report.filtered_links;
#endif
    if (finish(MILCGPU_MOMENTA, "eo_fermion_force_multi")) {
        const double cpu_seconds = begin_compare(MILCGPU_FERMION_FORCE);
        __real_eo_fermion_force_multi(eps, residues, xxx, nterms, prec, fl);
        end_compare(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, expected, seconds, cpu_seconds);
    }
}

/* In these the solutions go from the solver to D and to the force; nobody else reads them. */
static int update_h_with(int (*original)(Real, su3_vector **), Real eps, su3_vector **multi_x) {
    int iterations;
    const int resident = stays() && &n_order_naik_total != NULL && milcgpu_takes_over() &&
                         milcgpu_plugin_vectors_begin((void *const *)multi_x, n_order_naik_total);
    iterations = original(eps, multi_x);
    if (resident)
        milcgpu_plugin_vectors_end();
    return iterations;
}
int __wrap_update_h_fermion(Real eps, su3_vector **multi_x) {
    return update_h_with(__real_update_h_fermion, eps, multi_x);
}
int __wrap_update_h_rhmc(Real eps, su3_vector **multi_x) { return update_h_with(__real_update_h_rhmc, eps, multi_x); }

/* Of one or two members of the sites (ks_imp_dyn). */
static int site_force(Real eps, int terms, const double *weights, const field_offset *x, fermion_links_t *fl,
                      double *seconds) {
    milcgpu_force_report report;
    milcgpu_field fields[2];
    const char *expected;
    int k, done;
#if FERM_ACTION == HISQ
    return 0;
#endif
    for (k = 0; k < terms; k++) {
        fields[k] = milcgpu_vector_field((su3_vector *)F_PT(&lattice[0], x[k]));
        fields[k].pitch_bytes = sizeof(site);
    }
    *seconds = -milcgpu_plugin_seconds();
    done = fermion_force(eps, weights, fields, terms, fl, &report, &expected);
    *seconds += milcgpu_plugin_seconds();
#ifdef FFTIME
    if (done && terms == 2)
        node0_printf("FFTIME:  time = %e (asqtad3) terms = 2 mflops = %e\n", *seconds,
                     433968.0 * volume / (1e6 * *seconds * numnodes()));
#endif
    return done;
}

void __wrap_eo_fermion_force_oneterm_site(Real eps, Real weight, field_offset x_off, int prec, fermion_links_t *fl) {
    const double weights[1] = {weight};
    double seconds = 0;
    if (!site_force(eps, 1, weights, &x_off, fl, &seconds)) {
        begin_own(MILCGPU_FERMION_FORCE, BOTH, "eo_fermion_force_oneterm_site");
        __real_eo_fermion_force_oneterm_site(eps, weight, x_off, prec, fl);
        end_own(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA);
    } else if (finish(MILCGPU_MOMENTA, "eo_fermion_force_oneterm_site")) {
        const double cpu_seconds = begin_compare(MILCGPU_FERMION_FORCE);
        __real_eo_fermion_force_oneterm_site(eps, weight, x_off, prec, fl);
        end_compare(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, NULL, seconds, cpu_seconds);
    }
}

typedef void (*two_terms)(Real, Real, Real, field_offset, field_offset, int, fermion_links_t *);

static void two_terms_by(two_terms original, Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                         fermion_links_t *fl) {
    const double weights[2] = {w1, w2};
    const field_offset x[2] = {x1, x2};
    double seconds = 0;
    if (!site_force(eps, 2, weights, x, fl, &seconds)) {
        begin_own(MILCGPU_FERMION_FORCE, BOTH, "eo_fermion_force_twoterms_site");
        original(eps, w1, w2, x1, x2, prec, fl);
        end_own(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA);
    } else if (finish(MILCGPU_MOMENTA, "eo_fermion_force_twoterms_site")) {
        const double cpu_seconds = begin_compare(MILCGPU_FERMION_FORCE);
        original(eps, w1, w2, x1, x2, prec, fl);
        end_compare(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, NULL, seconds, cpu_seconds);
    }
}

void __wrap_eo_fermion_force_twoterms_site_cpu(Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                                               fermion_links_t *fl) {
    two_terms_by(__real_eo_fermion_force_twoterms_site_cpu, eps, w1, w2, x1, x2, prec, fl);
}
void __wrap_eo_fermion_force_twoterms_site(Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                                           fermion_links_t *fl) {
    two_terms_by(__real_eo_fermion_force_twoterms_site, eps, w1, w2, x1, x2, prec, fl);
}

/* ---- actions ---------------------------------------------------------------------------------------------------- */

double __wrap_imp_gauge_action(void) {
    const milcgpu_plugin_lattice sites = in_sites();
    milcgpu_loops loops;
    double action = 0, seconds = -milcgpu_plugin_seconds();
    if (takes(MILCGPU_GAUGE_ACTION, known_action(&loops),
              "MILC's own: this gauge action has other loops, or powers of them", "imp_gauge_action")) {
        const int were_out = put_phases_in();
        const int done = milcgpu_plugin_gauge_action(&sites, &loops, &action);
        put_phases_back(were_out);
        if (done) {
            seconds += milcgpu_plugin_seconds();
            if (milcgpu_plugin_compare()) {
                double cpu_seconds = begin_compare(MILCGPU_GAUGE_ACTION);
                const double cpu = __real_imp_gauge_action();
                cpu_seconds = end_original(MILCGPU_GAUGE_ACTION, cpu_seconds);
                milcgpu_judge(milcgpu_plugin_compare_number(MILCGPU_GAUGE_ACTION, action, cpu, seconds, cpu_seconds));
            }
            return action;
        }
    }
    begin_own(MILCGPU_GAUGE_ACTION, MILCGPU_LINKS, "imp_gauge_action");
    action = __real_imp_gauge_action();
    end_own(MILCGPU_GAUGE_ACTION, 0);
    return action;
}

/* On the device where the newest links are there: otherwise MILC's own costs less than the copy. Its links have phases
 * or not, as phases_in says. */
void __wrap_d_plaquette(double *space, double *time) {
    const milcgpu_plugin_lattice sites = in_sites();
    if (milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && takes(MILCGPU_PLAQUETTE, 1, NULL, "d_plaquette") &&
        milcgpu_plugin_plaquettes(&sites, space, time)) {
        if (phases_in == OFF) {
            *space = -*space;
            *time = -*time;
        }
        return;
    }
    milcgpu_md_need(MILCGPU_LINKS, "d_plaquette");
    __real_d_plaquette(space, time);
}

/* The momenta's action is summed by MILC, in the same file. */
double __wrap_d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    double action;
    milcgpu_md_need(MILCGPU_MOMENTA, "d_action_rhmc");
    quiet++;
    action = __real_d_action_rhmc(multi_x, sumvec);
    quiet--;
    return action;
}
double __wrap_d_action(void) {
    double action;
    milcgpu_md_need(MILCGPU_MOMENTA, "d_action");
    quiet++;
    action = __real_d_action();
    quiet--;
    return action;
}
void __wrap_update_h(Real eps) {
    quiet++;
    __real_update_h(eps);
    quiet--;
}

/* ---- routines that read or write the sites ---------------------------------------------------------------------- */

/* Phases in and out are a matter of the host's copy. Where that is old and nobody reads it, only the word changes. */
void __wrap_rephase(int flag) {
    if (!own && quiet && milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && flag != phases_in) {
        phases_in = flag;
        return;
    }
    milcgpu_md_need(MILCGPU_LINKS, "rephase");
    __real_rephase(flag);
}

void __wrap_gauge_field_copy(field_offset from, field_offset to) {
    if (from == F_OFFSET(link[0]))
        milcgpu_md_need(MILCGPU_LINKS, "gauge_field_copy");
    __real_gauge_field_copy(from, to);
    if (to == F_OFFSET(link[0]))
        milcgpu_plugin_host_wrote(MILCGPU_LINKS);
}

void __wrap_ranmom(void) {
    __real_ranmom();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}

/* Returns MILC's gauge_file *. The flag may say that the links stay as they are. */
void *__wrap_reload_lattice(int flag, const char *file) {
    void *loaded;
    milcgpu_md_need(MILCGPU_LINKS, "reload_lattice");
    loaded = __real_reload_lattice(flag, file);
    milcgpu_plugin_host_wrote(MILCGPU_LINKS);
    return loaded;
}

void milcgpu_md_left(const char **left) {
    const int has_force = __real_eo_fermion_force_multi != NULL || __real_eo_fermion_force_oneterm_site != NULL ||
                          __real_eo_fermion_force_twoterms_site != NULL ||
                          __real_eo_fermion_force_twoterms_site_cpu != NULL;
    const int has_gauge = __real_imp_gauge_force_ks != NULL || __real_imp_gauge_force != NULL;
    left[MILCGPU_UPDATE_U] = __real_update_u == NULL ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_GAUGE_FORCE_KS] = !has_gauge ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_FERMION_FORCE] = !has_force ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_REUNITARIZE] = __real_reunitarize_ks == NULL ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_GAUGE_ACTION] = __real_imp_gauge_action == NULL ? MILCGPU_ABSENT : NULL;
    left[MILCGPU_PLAQUETTE] = __real_d_plaquette == NULL ? MILCGPU_ABSENT : NULL;
}
#endif
