/* A trajectory like update() of ks_imp_rhmc. Its callees are in other files, as in MILC. */
#include "../generic_ks/generic_ks_includes.h"

void show_actions(su3_vector **x, su3_vector *sum); /* trajectory.c */
void place(const char *name);                       /* trajectory.c */
double draw_phi(su3_vector **x, su3_vector *sum);   /* updates.c */
enum { terms = 3 };

void solve_all(su3_vector *source, su3_vector **x, int n, imp_ferm_links_t *fn); /* updates.c */

/* Uses only these of MILC's arguments. */
int ks_ratinv(field_offset src, su3_vector **psim, Real *roots, Real *residues, int order, int max_iterations,
              Real rsqmin, int prec, int parity, Real *final_rsq, imp_ferm_links_t *fn, int naik_index,
              Real naik_epsilon) {
    su3_vector *source = create_v_field_from_site_member(src);
    (void)roots, (void)residues, (void)max_iterations, (void)rsqmin, (void)prec, (void)parity, (void)final_rsq;
    (void)naik_index, (void)naik_epsilon;
    solve_all(source, psim, order, fn);
    free(source);
    return 0;
}

static void leapfrog(Real eps, su3_vector **x) {
    place("update");
    update_u(eps / 2);
    place("gauge");
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    update_h_fermion(eps, x);
    update_u(eps / 2);
}

void (*instead_of_update)(void); /* orders.c */

/* Makes a source, measures the action, takes two steps, measures the action. */
int update(void) {
    const Real eps = 0.05;
    su3_vector *x[terms], *sum = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    int t;
    if (instead_of_update != NULL) {
        free(sum);
        instead_of_update();
        return 0;
    }
    for (t = 0; t < terms; t++)
        x[t] = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    ranmom();
    printf("trajectory source %.17g\n", draw_phi(x, sum) / volume);
    show_actions(x, sum);
    gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0]));
    leapfrog(eps, x);
    place("second");
    leapfrog(eps, x);
    place("reunitarize");
    reunitarize_ks();
    place("action");
    show_actions(x, sum);
    for (t = 0; t < terms; t++)
        free(x[t]);
    free(sum);
    return 0;
}
