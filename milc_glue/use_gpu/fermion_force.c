/* The fermion force from fields (ks_imp_rhmc) or from members of the sites (ks_imp_dyn). */
#include "sites.h"
#include <string.h>

#include "routines.h"

#ifdef HISQ_FORCE_FILTER
#define FILTER HISQ_FORCE_FILTER
#else
#define FILTER 0
#endif

#if FERM_ACTION == HISQ
#define MOST_SETS MAX_NAIK
#define V_OF(fl) get_hisq_auxiliary(fl)->V_link
#else
#define MOST_SETS 1
#define V_OF(fl) NULL
#endif

/* A request of one of MILC's routines, and what the library needs for it. */
typedef struct {
    Real eps;
    int terms;
    const double *residues;
    const milcgpu_field *x;
    fermion_links_t *fl;
    milcgpu_force_spec spec;
    milcgpu_fatlink_spec links;
    milcgpu_force_set sets[MOST_SETS];
    milcgpu_force_report report;
    const char *expected; /* why the force differs from MILC's; NULL: it does not */
} force;

#if FERM_ACTION == HISQ
/* As in MILC's routine: sums the counts of all ranks. */
static void add_counts(const milcgpu_force_report *report) {
    int svd = (int)report->svd_links, filtered = (int)report->filtered_links;
    g_intsum(&svd);
    g_intsum(&filtered);
    hisq_svd_counter += svd;
    hisq_force_filter_counter += filtered;
}
/* Fills the library's structs. Returns why MILC's own routine does it; NULL: it is offloaded. */
static const char *fill_spec(force *f) {
    const ks_action_paths_hisq *ap = get_action_paths_hisq(f->fl);
    const int n = fermion_links_get_n_naiks(f->fl);
    const double *eps = fermion_links_get_eps_naik(f->fl);
    const char *why_own = milcgpu_spec_of_hisq(ap, &f->links);
    int k, sum = 0;
    if (why_own == NULL)
        why_own = milcgpu_own_hisq_force(ap->umethod, ap->ugroup);
    if (why_own != NULL)
        return why_own;
    for (k = 0; k < n; k++) {
        f->sets[k].eps_naik = k == 0 ? 0 : eps[k];
        f->sets[k].n_terms = n_orders_naik[k];
        sum += n_orders_naik[k];
        if (k > 0 && n_orders_naik[k] == 0 && eps[k] != 0)
            f->expected =
                "for a set of eps_naik without terms (a mass that only the condensate has), MILC's own "
                "routine adds the force of the set before it a second time. milcgpu computes the derivative of the "
                "action, so trajectories differ from those of MILC alone";
    }
    if (sum != n_order_naik_total || sum > f->terms)
        return "MILC's own: the terms of the sets of eps_naik do not add up to all terms";
    f->spec.n_terms = sum;
    f->spec.n_sets = n;
    f->spec.sets = f->sets;
    f->spec.filter = FILTER;
    return NULL;
}
#else
static const char *fill_spec(force *f) {
    f->spec.n_terms = f->terms;
    return milcgpu_spec_of_asqtad(&get_action_paths(f->fl)->p, &f->links) ? NULL : MILCGPU_NO_COEFFICIENTS;
}
#endif

static int compare_forces(const milcgpu_call *call) {
    const force *const f = (const force *)call->details;
    return milcgpu_plugin_compare_gauge(call->row, call->writes, f->expected, V_OF(f->fl), FILTER, call->seconds,
                                        call->cpu_seconds);
}

/* why_own: why MILC's own routine does it; NULL: decided by whether the library can do what `f` requests. */
static milcgpu_call force_call(force *f, const char *name, const char *why_own) {
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_FERMION_FORCE, .name = name, .writes = MILCGPU_MOMENTA,
                                        .stay = milcgpu_sites_stay, .compare = compare_forces, .details = f,
                                        /* MILC's own reads all of these. */ .reads =
                                            MILCGPU_BOTH | MILCGPU_SOLUTIONS | MILCGPU_FERMION_LINKS);
    f->spec.struct_size = sizeof f->spec;
    f->spec.links = &f->links;
    f->spec.eps = f->eps;
    f->spec.residues = f->residues;
    call.why_own = why_own != NULL ? why_own : f->terms < 1 ? "MILC's own: there are no terms" : fill_spec(f);
    return call;
}

static int by_device(force *f) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (!milcgpu_plugin_fermion_force(&sites, &f->spec, f->x, &f->report))
        return 0;
    if (f->expected != NULL && !milcgpu_plugin_compare()) /* a comparison logs it */
        milcgpu_plugin_says_once(MILCGPU_FERMION_FORCE, f->expected);
    return 1;
}

static int force_of_fields(const milcgpu_call *call, force *f) {
    if (!by_device(f))
        return 0;
#ifdef FFTIME
    const double seconds = milcgpu_seconds_so_far(call);
#if FERM_ACTION == HISQ
    node0_printf("FFTIME:  time = %e (HISQ MILC %s) terms = %d flops/site = %d mflops = %e\n", seconds,
                 MILC_PRECISION == 1 ? "F" : "D", f->terms, (int)(f->report.flops / sites_on_node),
                 f->report.flops / (1e6 * seconds));
#else
    node0_printf("FFTIME:  time = %e (FNMAT) terms = %d mflops = %e\n", seconds, f->terms,
                 (966456.0 + 1440.0 * f->terms) * volume / (1e6 * seconds * numnodes()));
#endif
#endif
#if FERM_ACTION == HISQ
    add_counts(&f->report);
#endif
    (void)call;
    return 1;
}

void __wrap_eo_fermion_force_multi(Real eps, Real *residues, su3_vector **xxx, int nterms, int prec,
                                   fermion_links_t *fl) {
    double weights[nterms > 0 ? nterms : 1];
    milcgpu_field x[nterms > 0 ? nterms : 1];
    force f = MILCGPU_MEMBERS(.eps = eps, .terms = nterms, .residues = weights, .x = x, .fl = fl);
    milcgpu_call call;
    int k;
    for (k = 0; k < nterms; k++) {
        weights[k] = residues[k];
        x[k] = milcgpu_vector_field(xxx[k]);
    }
    call = force_call(&f, "eo_fermion_force_multi", NULL);
    milcgpu_offload(&call, force_of_fields(&call, &f),
                    milcgpu_original(eo_fermion_force_multi)(eps, residues, xxx, nterms, prec, fl));
}

/* ---- one or two members of the sites (ks_imp_dyn) ---------------------------------------------------------------- */

static int force_of_sites(const milcgpu_call *call, force *f) {
    const int done = by_device(f);
#ifdef FFTIME
    if (done && f->terms == 2) {
        const double seconds = milcgpu_seconds_so_far(call);
        node0_printf("FFTIME:  time = %e (asqtad3) terms = 2 mflops = %e\n", seconds,
                     433968.0 * volume / (1e6 * seconds * numnodes()));
    }
#endif
    (void)call;
    return done;
}

/* original: MILC's own routine. */
#define OFFLOAD_SITE_FORCE(name, step, n, weights, offsets, links, original)                                           \
    do {                                                                                                               \
        milcgpu_field fields[2];                                                                                       \
        force f = MILCGPU_MEMBERS(.eps = step, .terms = n, .residues = weights, .x = fields, .fl = links);             \
        milcgpu_call call;                                                                                             \
        fields_of(offsets, n, fields);                                                                                 \
        call = force_call(&f, name, why_own_site_force);                                                               \
        milcgpu_offload(&call, force_of_sites(&call, &f), original);                                                   \
    } while (0)
#if FERM_ACTION == HISQ
static const char *const why_own_site_force = "MILC's own: the device has no HISQ force of vectors in the sites";
#else
static const char *const why_own_site_force = NULL;
#endif
static void fields_of(const field_offset *offsets, int n, milcgpu_field *fields) {
    int k;
    for (k = 0; k < n; k++) {
        fields[k] = milcgpu_vector_field((su3_vector *)F_PT(&lattice[0], offsets[k]));
        fields[k].pitch_bytes = sizeof(site);
    }
}

void __wrap_eo_fermion_force_oneterm_site(Real eps, Real weight, field_offset x, int prec, fermion_links_t *fl) {
    const double weights[1] = {weight};
    OFFLOAD_SITE_FORCE("eo_fermion_force_oneterm_site", eps, 1, weights, &x, fl,
                       milcgpu_original(eo_fermion_force_oneterm_site)(eps, weight, x, prec, fl));
}

typedef void (*two_terms)(Real, Real, Real, field_offset, field_offset, int, fermion_links_t *);

static void two_terms_by(two_terms original, Real eps, Real w1, Real w2, field_offset x1, field_offset x2, int prec,
                         fermion_links_t *fl) {
    const double weights[2] = {w1, w2};
    const field_offset x[2] = {x1, x2};
    OFFLOAD_SITE_FORCE("eo_fermion_force_twoterms_site", eps, 2, weights, x, fl,
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
