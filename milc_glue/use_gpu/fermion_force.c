/* The fermion force, of fields (ks_imp_rhmc) or of members of the sites (ks_imp_dyn). */
#include "sites.h"
#include <string.h>

#include "routines.h"

/* MILC's own reads all there is. */
#define READS (MILCGPU_BOTH | MILCGPU_SOLUTIONS | MILCGPU_FERMION_LINKS)

#ifdef HISQ_FORCE_FILTER
#define FILTER HISQ_FORCE_FILTER
#else
#define FILTER 0
#endif

#if FERM_ACTION == HISQ
#define MOST_SETS MAX_NAIK
#define V_OF(fl) get_hisq_auxiliary(fl)->V_link
/* As MILC's routine does: those of all ranks. */
static void add_counts(const milcgpu_force_report *report) {
    int svd = (int)report->svd_links, filtered = (int)report->filtered_links;
    g_intsum(&svd);
    g_intsum(&filtered);
    hisq_svd_counter += svd;
    hisq_force_filter_counter += filtered;
}
/* 0: MILC's own must do it, and *why says why. */
static int force_spec(milcgpu_force_spec *spec, milcgpu_fatlink_spec *links, milcgpu_force_set *sets, int terms,
                      fermion_links_t *fl, const char **why, const char **expected) {
    const ks_action_paths_hisq *ap = get_action_paths_hisq(fl);
    const int n = fermion_links_get_n_naiks(fl);
    const double *eps = fermion_links_get_eps_naik(fl);
    int k, sum = 0;
    *why = milcgpu_spec_of_hisq(ap, links);
    if (*why == NULL)
        *why = milcgpu_own_hisq_force(ap->umethod, ap->ugroup);
    if (*why != NULL)
        return 0;
    for (k = 0; k < n; k++) {
        sets[k].eps_naik = k == 0 ? 0 : eps[k];
        sets[k].n_terms = n_orders_naik[k];
        sum += n_orders_naik[k];
        if (k > 0 && n_orders_naik[k] == 0 && eps[k] != 0)
            *expected = "for a set of eps_naik without terms, as of a mass that the condensate alone has, MILC's own "
                        "routine adds the force of the set before it once more. milcgpu's is the derivative of the "
                        "action, so trajectories differ from those of MILC alone";
    }
    *why = "MILC's own: the terms of the sets of eps_naik do not add up to all terms";
    if (sum != n_order_naik_total || sum > terms)
        return 0;
    spec->n_terms = sum;
    spec->n_sets = n;
    spec->sets = sets;
    spec->filter = FILTER;
    return 1;
}
#else
#define MOST_SETS 1
#define V_OF(fl) NULL
static int force_spec(milcgpu_force_spec *spec, milcgpu_fatlink_spec *links, milcgpu_force_set *sets, int terms,
                      fermion_links_t *fl, const char **why, const char **expected) {
    (void)sets;
    (void)expected;
    *why = MILCGPU_NO_COEFFICIENTS;
    spec->n_terms = terms;
    return milcgpu_spec_of_asqtad(&get_action_paths(fl)->p, links);
}
#endif

/* 1: done. report: of the device. */
static int fermion_force(Real eps, const double *residues, const milcgpu_field *x, int terms, fermion_links_t *fl,
                         milcgpu_force_report *report, const char **expected) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    milcgpu_force_spec spec;
    milcgpu_fatlink_spec links;
    milcgpu_force_set sets[MOST_SETS];
    const char *why;
    int can, done;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.links = &links;
    spec.eps = eps;
    spec.residues = residues;
    *expected = NULL;
    can = force_spec(&spec, &links, sets, terms, fl, &why, expected);
    done = milcgpu_offloads_sites(MILCGPU_FERMION_FORCE, can, why, "eo_fermion_force") &&
           milcgpu_plugin_fermion_force(&sites, &spec, x, report);
    if (done && *expected != NULL && !milcgpu_plugin_compare()) /* which says it */
        milcgpu_plugin_says_once(MILCGPU_FERMION_FORCE, *expected);
    return done;
}

void __wrap_eo_fermion_force_multi(Real eps, Real *residues, su3_vector **xxx, int nterms, int prec,
                                   fermion_links_t *fl) {
    milcgpu_force_report report;
    const char *expected = NULL;
    double seconds = -milcgpu_plugin_seconds();
    double *weights = (double *)malloc((nterms + 1) * sizeof(double));
    milcgpu_field *x = (milcgpu_field *)malloc((nterms + 1) * sizeof(milcgpu_field));
    int k, done = 0;
    if (!milcgpu_plugin_agreed(weights == NULL || x == NULL) && nterms > 0) {
        for (k = 0; k < nterms; k++) {
            weights[k] = residues[k];
            x[k] = milcgpu_vector_field(xxx[k]);
        }
        done = fermion_force(eps, weights, x, nterms, fl, &report, &expected);
    }
    free(weights);
    free(x);
    if (!done) {
        milcgpu_on_sites(MILCGPU_FERMION_FORCE, READS, MILCGPU_MOMENTA, "eo_fermion_force_multi",
                         milcgpu_original(eo_fermion_force_multi)(eps, residues, xxx, nterms, prec, fl));
        return;
    }
    seconds += milcgpu_plugin_seconds();
#ifdef FFTIME
#if FERM_ACTION == HISQ
    node0_printf("FFTIME:  time = %e (HISQ MILC %s) terms = %d flops/site = %d mflops = %e\n", seconds,
                 MILC_PRECISION == 1 ? "F" : "D", nterms, (int)(report.flops / sites_on_node),
                 report.flops / (1e6 * seconds));
#else
    node0_printf("FFTIME:  time = %e (FNMAT) terms = %d mflops = %e\n", seconds, nterms,
                 (966456.0 + 1440.0 * nterms) * volume / (1e6 * seconds * numnodes()));
#endif
#endif
#if FERM_ACTION == HISQ
    add_counts(&report);
#endif
    milcgpu_finish_force(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, "eo_fermion_force_multi", expected, V_OF(fl), FILTER,
                         seconds, milcgpu_original(eo_fermion_force_multi)(eps, residues, xxx, nterms, prec, fl));
}

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
        milcgpu_on_sites(MILCGPU_FERMION_FORCE, READS, MILCGPU_MOMENTA, "eo_fermion_force_oneterm_site",
                         milcgpu_original(eo_fermion_force_oneterm_site)(eps, weight, x_off, prec, fl));
    } else
        milcgpu_finish_sites(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, "eo_fermion_force_oneterm_site", NULL, seconds,
                             milcgpu_original(eo_fermion_force_oneterm_site)(eps, weight, x_off, prec, fl));
}

typedef void (*two_terms)(Real, Real, Real, field_offset, field_offset, int, fermion_links_t *);

static void two_terms_by(two_terms original, Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                         fermion_links_t *fl) {
    const double weights[2] = {w1, w2};
    const field_offset x[2] = {x1, x2};
    double seconds = 0;
    if (!site_force(eps, 2, weights, x, fl, &seconds)) {
        milcgpu_on_sites(MILCGPU_FERMION_FORCE, READS, MILCGPU_MOMENTA, "eo_fermion_force_twoterms_site",
                         original(eps, w1, w2, x1, x2, prec, fl));
    } else
        milcgpu_finish_sites(MILCGPU_FERMION_FORCE, MILCGPU_MOMENTA, "eo_fermion_force_twoterms_site", NULL, seconds,
                             original(eps, w1, w2, x1, x2, prec, fl));
}

void __wrap_eo_fermion_force_twoterms_site_cpu(Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                                               fermion_links_t *fl) {
    two_terms_by(milcgpu_original(eo_fermion_force_twoterms_site_cpu), eps, w1, w2, x1, x2, prec, fl);
}
void __wrap_eo_fermion_force_twoterms_site(Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                                           fermion_links_t *fl) {
    two_terms_by(milcgpu_original(eo_fermion_force_twoterms_site), eps, w1, w2, x1, x2, prec, fl);
}
