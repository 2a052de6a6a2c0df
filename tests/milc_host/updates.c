/* Routines of molecular dynamics that call others. These are in another file, as in MILC, where the linker finds their
 * calls. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

void place(const char *name); /* trajectory.c */

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

static double momentum_action(void) {
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
    return sum;
}

/* Without the fermions. The momenta are read from the sites. */
double d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    double space, time, space_out, time_out, gauge, momenta;
    (void)multi_x;
    (void)sumvec;
    d_plaquette(&space, &time);
    rephase(OFF);
    gauge = beta / 3 * imp_gauge_action();
    d_plaquette(&space_out, &time_out);
    rephase(ON);
    momenta = momentum_action();
    printf("trajectory plaquettes %.17g %.17g with phases %.17g %.17g actions %.17g %.17g\n", space_out, time_out,
           space, time, gauge / volume, momenta / volume);
    return gauge + momenta;
}

void invalidate_fermion_links(fermion_links_t *fl) { fl->valid = 0; }

/* Solutions of a random source, one multi-mass call a set of eps_naik, D of them, and their force. */
int update_h_fermion(Real eps, su3_vector **x) {
    Real residues[3] = {1, -0.3, 1.5};
    su3_vector *source = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    int first = 0, set, t;
    size_t k;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    for (set = 0; set < (FERM_ACTION == HISQ ? fermion_links_get_n_naiks(fn_links) : 1); set++) {
        const int n = FERM_ACTION == HISQ ? n_orders_naik[set] : n_order_naik_total;
        ks_param ksp[3];
        quark_invert_control qic[3];
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
        srand(100 + set);
        for (k = 0; k < 6 * sites_on_node; k++)
            ((Real *)source)[k] = (Real)rand() / RAND_MAX - 0.5;
        ks_multicg_offset_field_cpu(source, x + first, ksp, n, qic, fn_links->fn[set]);
        place("dslash");
        for (t = first; t < first + n; t++)
            dslash_fn_field(x[t], x[t], ODD, fn_links->fn[set]);
        first += n;
    }
    free(source);
    place("fermion");
    eo_fermion_force_multi(eps, residues, x, first, MILC_PRECISION, fn_links);
    return 0;
}
