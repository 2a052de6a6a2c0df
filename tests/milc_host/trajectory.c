/* Molecular dynamics in the order in which ks_imp_rhmc calls it: trajectories that are accepted and rejected,
 * measurements, another lattice. Lines that begin with "trajectory" are the same whoever does the work; what is read
 * from the sites here is what MILC's programs read there, after the same calls. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include <math.h>
#include <quark_action.h>
#include <string.h>

void make_lattice(void);
void fill_action(ks_action_paths *asqtad, ks_action_paths_hisq *hisq);
void inject(const char *fault);
void place(const char *name);

enum { terms = 3 };
static const char *the_fault, *the_place;
static su3_vector *multi_x[terms];

/* A fault before the routine that is called next, once. "write" is the program's own: nobody announces it. */
void place(const char *name) {
    if (strcmp(the_place, name) != 0)
        return;
    the_place = "";
    if (strcmp(the_fault, "write") == 0)
        lattice[7].link[TUP] = lattice[8].link[TUP];
    else
        inject(the_fault);
}

/* Each bit of every number counts: the sum with random weights, relative to the norm. */
static double digest(const Real *x, size_t pitch, size_t reals) {
    double sum = 0, norm = 0;
    size_t i, k;
    srand(3);
    for (i = 0; i < sites_on_node; i++)
        for (k = 0; k < reals; k++) {
            const double value = ((const Real *)((const char *)x + i * pitch))[k];
            sum += ((double)rand() / RAND_MAX - 0.5) * value;
            norm += value * value;
        }
    return sum / sqrt(norm);
}

/* d_action_rhmc reads the momenta, create_G_from_site the links. */
static void report(const char *what) {
    su3_matrix *links;
    Real *momenta = (Real *)malloc(sites_on_node * 4 * 9 * sizeof(Real));
    size_t i, k;
    d_action_rhmc(multi_x, NULL);
    for (i = 0; i < 4 * sites_on_node; i++)
        for (k = 0; k < 9; k++)
            momenta[9 * i + k] = ((const Real *)&lattice[i / 4].mom[i % 4])[k];
    links = create_G_from_site();
    printf("trajectory %s: links %.17g momenta %.17g\n", what, digest((const Real *)links, 4 * sizeof *links, 72),
           digest(momenta, 36 * sizeof(Real), 36));
    free(momenta);
    free(links);
}

/* As a measurement does it: phases out, links out of the sites themselves. */
static void measure(void) {
    double space, time;
    rephase(OFF);
    d_plaquette(&space, &time);
    printf("trajectory measured: plaquettes %.17g %.17g links %.17g\n", space, time,
           digest((const Real *)lattice[0].link, sizeof(site), 72));
    rephase(ON);
}

void restore_fermion_links_from_site(fermion_links_t *fl, int prec) {
    info_t info = {0};
    su3_matrix *links;
    (void)prec;
    if (fl->valid)
        return;
    links = create_G_from_site();
    if (FERM_ACTION == HISQ) {
        if (fl->aux != NULL)
            destroy_hisq_links_milc(&fl->aph, fl->aux, fl->fn, fl->fn_deps);
        create_hisq_links_milc(&info, fl->fn, &fl->fn_deps, &fl->aux, &fl->aph, links, 0, 0);
    } else {
        destroy_fn_links(fl->fn[0]);
        fl->fn[0] = create_fn_links();
        load_fn_links_cpu(&info, fl->fn[0], &fl->ap, links, 0);
    }
    free(links);
    fl->valid = 1;
}

static void leapfrog(Real eps) {
    place("update");
    update_u(eps / 2);
    place("gauge");
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    update_h_fermion(eps, multi_x);
    update_u(eps / 2);
}

static void new_lattice(const char *seed) {
    reload_lattice(FRESH, seed);
    phases_in = OFF;
    rephase(ON);
    invalidate_fermion_links(fn_links);
}

void trajectory(const char *fault, const char *at) {
    const Real eps = 0.05;
    int t;
    nx = ny = nz = nt = 4;
    make_lattice();
    fill_action(&fn_links->ap, &fn_links->aph);
    for (t = 0; t < terms; t++)
        multi_x[t] = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    the_fault = fault, the_place = "";

    new_lattice("300");
    ranmom();
    report("start");
    gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0]));
    leapfrog(eps);
    the_place = at;
    leapfrog(eps);
    place("reunitarize");
    reunitarize_ks();
    place("action");
    report("end");
    gauge_field_copy(F_OFFSET(old_link[0]), F_OFFSET(link[0]));
    invalidate_fermion_links(fn_links);
    measure();

    /* Without actions in between, as the R algorithm does it. */
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    ranmom();
    update_u(eps);
    gauge_field_copy(F_OFFSET(link[0]), F_OFFSET(old_link[0]));
    update_u(eps);
    gauge_field_copy(F_OFFSET(old_link[0]), F_OFFSET(link[0]));
    update_u(eps);
    reload_lattice(CONTINUE, NULL);
    update_u(eps);
    place("plaquette");
    d_action_rhmc(multi_x, NULL);
    measure();

    new_lattice("301");
    place("another lattice");
    update_u(eps);
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    report("another lattice");
    for (t = 0; t < terms; t++)
        free(multi_x[t]);
}
