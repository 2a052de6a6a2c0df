/* Every order of two of the routines that read or write the gauge field, the momenta, solutions and fermion links,
 * each by the device and, if possible, by MILC's own: inside a trajectory of ks_imp_rhmc, which keeps fermion links
 * and solutions on the device, and outside, as in ks_imp_dyn. Lines that begin with "trajectory" must be equal for
 * either side. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

double digest(const Real *x, size_t pitch, size_t reals); /* trajectory.c */
void new_lattice(const char *seed);
void measure(void);
void show_actions(su3_vector **x, su3_vector *sum);
double rational(field_offset member, su3_vector **x, su3_vector *sum); /* updates.c */
extern void (*instead_of_update)(void);                                /* update.c */

enum { terms = 3 };
static const Real eps = 0.02;
static su3_vector *x[terms], *sum;
static int own; /* MILC's own does the next routine */

/* While MILC's own routine runs, the device does nothing. */
static void by(milcgpu_routine routine, int entering) {
    if (own)
        milcgpu_plugin_original(routine, entering);
}

static void update_links(void) {
    by(MILCGPU_UPDATE_U, 1);
    update_u(eps);
    by(MILCGPU_UPDATE_U, 0);
}
static void force_of_gauge(void) {
    by(MILCGPU_GAUGE_FORCE_KS, 1);
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    by(MILCGPU_GAUGE_FORCE_KS, 0);
}

/* The force of solutions that a trajectory keeps on the device, and of D of them. */
static void force_of_solutions(void) {
    Real residues[terms] = {1, -0.3, 1.5};
    fn_links_t *fn;
    rational(F_OFFSET(g_rand), x, sum);
    dslash_fn_field(x[0], x[0], ODD, LINKS_OF(fn_links, 0));
    dslash_fn_field(x[1], x[1], ODD, LINKS_OF(fn_links, 0));
    fn = LINKS_OF(fn_links, FERM_ACTION == HISQ);
    dslash_fn_field(x[2], x[2], ODD, fn);
    GIVE_BACK(fn);
    by(MILCGPU_FERMION_FORCE, 1);
    eo_fermion_force_multi(eps, residues, x, terms, MILC_PRECISION, fn_links);
    by(MILCGPU_FERMION_FORCE, 0);
}

/* As in ks_imp_dyn: for HISQ always MILC's own. */
void site_force(Real step) {
    const int orders[2] = {n_orders_naik[0], n_orders_naik[1]}, total = n_order_naik_total;
    n_orders_naik[0] = n_orders_naik[1] = 1;
    n_order_naik_total = 2;
    if (FERM_ACTION == HISQ)
        eo_fermion_force_twoterms_site(step, 1, 0.5, F_OFFSET(phi), F_OFFSET(g_rand), MILC_PRECISION, fn_links);
    else
        eo_fermion_force_twoterms_site_cpu(step, 1, 0.5, F_OFFSET(phi), F_OFFSET(g_rand), MILC_PRECISION, fn_links);
    n_orders_naik[0] = orders[0];
    n_orders_naik[1] = orders[1];
    n_order_naik_total = total;
}
static void force_of_sites(void) {
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    by(MILCGPU_FERMION_FORCE, 1);
    site_force(eps);
    if (FERM_ACTION != HISQ) { /* for HISQ it is MILC's own, as above */
        eo_fermion_force_twoterms_site(eps, 0.5, 1, F_OFFSET(g_rand), F_OFFSET(phi), MILC_PRECISION, fn_links);
        eo_fermion_force_oneterm_site(eps, 0.3, F_OFFSET(phi), MILC_PRECISION, fn_links);
    }
    by(MILCGPU_FERMION_FORCE, 0);
}
static void both_forces(void) { update_h(eps); }

/* Without a notice to the fermion links, as at the end of a step: MILC then has none, or old ones. */
static void make_unitary(void) {
    by(MILCGPU_REUNITARIZE, 1);
    reunitarize_ks();
    by(MILCGPU_REUNITARIZE, 0);
}
static void keep(void) { gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0])); }
static void reject(void) {
    gauge_field_copy(F_OFFSET(old_link[0]), F_OFFSET(link[0]));
    invalidate_fermion_links(fn_links);
}
static void reload(void) { new_lattice("300"); }
static void reload_none(void) { reload_lattice(CONTINUE, NULL); }
static void momenta(void) { ranmom(); }

static void actions(void) {
    by(MILCGPU_GAUGE_ACTION, 1);
    show_actions(NULL, NULL);
    by(MILCGPU_GAUGE_ACTION, 0);
}

static void show_links(fn_links_t *fn) {
    printf("trajectory links %.17g %.17g back %.17g %.17g\n",
           digest((const Real *)get_fatlinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_lnglinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_fatbacklinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_lngbacklinks(fn), 4 * sizeof(su3_matrix), 72));
}
/* Reads MILC's links, whatever they were made of. */
static void read_links(void) {
    fn_links_t *fn = LINKS_OF(fn_links, 0);
    if (fn == NULL)
        return;
    show_links(fn);
    if (FERM_ACTION == HISQ) {
        fn = LINKS_OF(fn_links, 1);
        show_links(fn);
        GIVE_BACK(fn);
    }
}
static void read_auxiliary(void) {
    hisq_auxiliary_t *aux = get_hisq_auxiliary(fn_links);
    if (aux != NULL)
        printf("trajectory auxiliary %.17g %.17g %.17g\n",
               digest((const Real *)aux->U_link, 4 * sizeof(su3_matrix), 72),
               digest((const Real *)aux->V_link, 4 * sizeof(su3_matrix), 72),
               digest((const Real *)aux->W_unitlink, 4 * sizeof(su3_matrix), 72));
}
static void make_links(void) {
    by(MILCGPU_HISQ_LINKS, 1);
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    by(MILCGPU_HISQ_LINKS, 0);
}
static void solve(void) {
    make_links();
    by(MILCGPU_KS_MULTICG, 1);
    printf("trajectory sum of solutions %.17g\n", rational(F_OFFSET(phi), x, sum) / volume);
    by(MILCGPU_KS_MULTICG, 0);
}
/* MILC's D with links that may be on the device alone. */
static void apply_d(void) {
    fn_links_t *fn = LINKS_OF(fn_links, 0);
    if (fn == NULL)
        return;
    if (FERM_ACTION == HISQ)
        fn = LINKS_OF(fn_links, 1);
    memset(sum, 0, sites_on_node * sizeof *sum);
    sum[3].c[1].real = 1;
    by(MILCGPU_DSLASH, 1);
    dslash_fn_field(sum, sum, ODD, fn);
    by(MILCGPU_DSLASH, 0);
    GIVE_BACK(fn);
    printf("trajectory D %.17g\n", digest((const Real *)sum, sizeof *sum, 6));
}

static const struct {
    const char *name;
    void (*run)(void);
    int own;
} all[] = {{"update", update_links, 0},
           {"MILC's update", update_links, 1},
           {"gauge force", force_of_gauge, 0},
           {"MILC's gauge force", force_of_gauge, 1},
           {"force", force_of_solutions, 0},
           {"MILC's force", force_of_solutions, 1},
           {"force of sites", force_of_sites, 0},
           {"MILC's force of sites", force_of_sites, 1},
           {"both forces", both_forces, 0},
           {"reunitarization", make_unitary, 0},
           {"MILC's reunitarization", make_unitary, 1},
           {"links kept", keep, 0},
           {"REJECT", reject, 0},
           {"reload", reload, 0},
           {"reload: continue", reload_none, 0},
           {"random momenta", momenta, 0},
           {"actions", actions, 0},
           {"MILC's actions", actions, 1},
           {"measurement", measure, 0},
           {"links", make_links, 0},
           {"MILC's links", make_links, 1},
           {"links read", read_links, 0},
           {"auxiliary links read", read_auxiliary, 0},
           {"solve", solve, 0},
           {"MILC's solve", solve, 1},
           {"D", apply_d, 0},
           {"MILC's D", apply_d, 1}};
enum { routines = sizeof all / sizeof *all };

static void run(int k) {
    printf("trajectory does %s\n", all[k].name);
    own = all[k].own;
    all[k].run();
}

/* Each pair once, the second of one the first of the next: 0 0 1 0 2 ... 1 1 2 1 3 ... */
static void all_pairs(void) {
    int a, b;
    for (a = 0; a < routines; a++) {
        run(a);
        for (b = a + 1; b < routines; b++) {
            run(a);
            run(b);
        }
    }
    run(0);
    actions();
    own = 0;
}

/* A program that keeps links without their auxiliary links. */
static void without_auxiliary(void) {
    invalidate_fermion_links(fn_links);
    fn_links->no_aux = 1;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    read_links();
    invalidate_fermion_links(fn_links);
    fn_links->no_aux = 0;
}

/* MILC writes links without a notice after others were made of them. */
static void write_unannounced(void) {
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    measure(); /* both copies are equal */
    lattice[7].link[TUP] = lattice[8].link[TUP];
    read_links();
}

/* Only paths of one link and of three: which fields are the newest does not depend on the paths, and MILC's own sums
 * of the longer paths would take most of the time. */
static void short_paths(ks_component_paths *paths) {
    asqtad_coeffs_t *const c = &paths->act_path_coeff;
    c->five_staple = c->seven_staple = c->lepage = 0;
}

void orders(const char *what) {
    size_t i;
    int t;
    nx = ny = nz = 2;
    nt = 4;
    make_lattice();
    fill_action(&fn_links->ap, &fn_links->aph);
    short_paths(&fn_links->ap.p);
    short_paths(&fn_links->aph.p1);
    short_paths(&fn_links->aph.p2);
    for (t = 0; t < terms; t++)
        x[t] = (su3_vector *)calloc(sites_on_node, sizeof(su3_vector));
    sum = (su3_vector *)calloc(sites_on_node, sizeof(su3_vector));
    srand(11);
    for (i = 0; i < sites_on_node; i++)
        for (t = 0; t < 6; t++) {
            ((Real *)&lattice[i].g_rand)[t] = (Real)rand() / RAND_MAX - 0.5;
            ((Real *)&lattice[i].phi)[t] = (Real)rand() / RAND_MAX - 0.5;
        }
    new_lattice("301");
    ranmom();
    keep();
    update_u(eps);
    instead_of_update = strcmp(what, "write") == 0 ? write_unannounced : all_pairs;
    if (strcmp(what, "dyn") == 0)
        all_pairs();
    else
        update();
    instead_of_update = without_auxiliary;
    update();
}
