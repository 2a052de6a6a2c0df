/* Routines of molecular dynamics that call others, which are in another file, as in MILC, so that the linker sees
 * the calls. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "ks_imp_includes.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

void place(const char *name); /* trajectory.c */

void site_force(Real eps); /* orders.c */

enum { terms = 3 };
static fermion_links_t all_links;
fermion_links_t *fn_links = &all_links;

void imp_gauge_force_ks(Real eps, field_offset mom_off) {
    rephase(OFF);
    imp_gauge_force_cpu(eps, mom_off);
    rephase(ON);
}

void reunitarize_ks(void) {
    rephase(OFF);
    reunitarize_cpu();
    rephase(ON);
}

double hmom_action(void) {
    double sum = 0;
    size_t i;
    int mu;
    for (i = 0; i < sites_on_node; i++)
        for (mu = 0; mu < 4; mu++) {
            const anti_hermitmat *h = &lattice[i].mom[mu];
            const double off[6] = {h->m01.real, h->m01.imag, h->m02.real, h->m02.imag, h->m12.real, h->m12.imag};
            const double diagonal[3] = {h->m00im, h->m11im, h->m22im};
            int k;
            for (k = 0; k < 6; k++)
                sum += off[k] * off[k];
            for (k = 0; k < 3; k++)
                sum += diagonal[k] * diagonal[k] / 2;
            sum -= 4;
        }
    g_vecdoublesum(&sum, 1);
    return sum;
}

/* Solutions of a source on even sites. */
void solve_all(su3_vector *source, su3_vector **x, int n, fn_links_t *fn) {
    ks_param ksp[terms];
    quark_invert_control qic[terms];
    int t;
    memset(ksp, 0, sizeof ksp);
    memset(qic, 0, sizeof qic);
    for (t = 0; t < n; t++) {
        ksp[t].offset = 0.3 + t;
        qic[t].prec = MILC_PRECISION;
        qic[t].max = 500;
        qic[t].nrestart = 5;
        qic[t].parity = EVEN;
        qic[t].resid = MILC_PRECISION == 1 ? 1e-6 : 1e-13;
    }
    ks_multicg_offset_field_cpu(source, x, ksp, n, qic, fn);
}

static Real residues[1 + terms] = {0.7, 1, -0.3, 1.5};

static fn_links_t *links_again(void) {
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    place("first links");
    place("links");
    return LINKS_OF(fn_links, 0);
}
static double norm_of(const su3_vector *sum) {
    double norm = 0;
    size_t i;
    int k;
    for (i = 0; i < even_sites_on_node; i++)
        for (k = 0; k < 6; k++)
            norm += ((const Real *)&sum[i])[k] * ((const Real *)&sum[i])[k];
    return norm;
}

/* A rational function of a member of the sites, on even sites, written to `sum` for fermion action and source.
 * Returns the norm of the sum. */
double rational(field_offset member, su3_vector **x, su3_vector *sum) {
    fn_links_t *fn = links_again();
    Real rsq;
    ks_ratinv(member, x, residues, residues, terms, 500, 0, MILC_PRECISION, EVEN, &rsq, fn, 0, 0);
    GIVE_BACK(fn);
    place("sum");
    ks_rateval(sum, member, x, residues, terms, EVEN);
    return norm_of(sum);
}

/* A rational function of new random vectors. */
double draw_phi(su3_vector **x, su3_vector *sum) {
    params_ratfunc rf = {terms, residues, residues};
    fn_links_t *fn = links_again();
    grsource_imp_rhmc(F_OFFSET(phi), &rf, EVEN, x, sum, 0, 500, MILC_PRECISION, fn, 0, 0);
    GIVE_BACK(fn);
    return norm_of(sum);
}

double old_g, old_h, old_f, old_a;

/* The action, if there is memory for solutions. */
double fermion_action(su3_vector **multi_x, su3_vector *sumvec) {
    return sumvec != NULL ? rational(F_OFFSET(phi), multi_x, sumvec) : 0;
}

/* Reads the momenta from the sites. */
double d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    rephase(OFF);
    old_g = beta / 3 * imp_gauge_action();
    rephase(ON);
    old_h = hmom_action();
    old_f = fermion_action(multi_x, sumvec);
    return old_a = old_g + old_h + old_f;
}

#ifndef MILC_HOST_MASTER
void g_measure_ks(void) {
    rephase(OFF);
    g_measure();
    rephase(ON);
}
#endif

void invalidate_fermion_links(fermion_links_t *fl) {
    if (FERM_ACTION == HISQ && fl->fn[0] != NULL)
        destroy_hisq_links_milc(&fl->aph, fl->aux, ALL_SETS(fl->fn), fl->fn_deps);
    else
        destroy_fn_links(fl->fn[0]);
    memset(fl->fn, 0, sizeof fl->fn);
    fl->fn_deps = NULL;
    fl->aux = NULL;
}

/* As in ks_imp_dyn. */
void update_h(Real eps) {
    invalidate_fermion_links(fn_links);
    rephase(OFF);
    imp_gauge_force(eps, F_OFFSET(mom));
    rephase(ON);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    site_force(eps);
}

/* Solutions of a random source by one multi-mass call for each set of eps_naik, D of them, and their force. */
int update_h_fermion(Real eps, su3_vector **x) {
    su3_vector *source = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    fn_links_t *fn;
    int first = 0, set, t;
    size_t k;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    for (set = 0; set < (FERM_ACTION == HISQ ? fermion_links_get_n_naiks(fn_links) : 1); set++) {
        const int n = FERM_ACTION == HISQ ? n_orders_naik[set] : n_order_naik_total;
        if (n == 0)
            continue;
        srand(100 + set);
        for (k = 0; k < 6 * sites_on_node; k++)
            ((Real *)source)[k] = (Real)rand() / RAND_MAX - 0.5;
        fn = LINKS_OF(fn_links, set);
        solve_all(source, x + first, n, fn);
        place("dslash");
        for (t = first; t < first + n; t++)
            dslash_fn_field(x[t], x[t], ODD, fn);
        GIVE_BACK(fn);
        first += n;
    }
    free(source);
    place("fermion");
    eo_fermion_force_multi(eps, residues + 1, x, first, MILC_PRECISION, fn_links);
    return 0;
}
