/* Molecular dynamics in the order in which ks_imp_rhmc calls it: accepted and rejected trajectories, measurements,
 * another lattice. Lines that begin with "trajectory" must be equal for the device and MILC's own; the program reads
 * from the sites what MILC's programs read there, after the same calls. */
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "../include/imp_ferm_links.h"
#include "checks.h"
#include "plugin.h"
#include <math.h>
#include <quark_action.h>
#include <signal.h>
#include <string.h>

void place(const char *name);

static const char *the_fault = "", *the_place = "";
static int armed; /* from the second step on, but from the first for places that begin with "first" */

/* Plants a fault once, before the next routine. "write" is a write by the program, without a notice. With
 * MILC_HOST_KILL the program is killed after that routine. */
void place(const char *name) {
    if (*the_fault != 0 && *the_place == 0 && getenv("MILC_HOST_KILL") != NULL)
        raise(SIGTERM);
    armed = armed || strcmp(name, "second") == 0;
    if ((!armed && strncmp(name, "first", 5) != 0) || strcmp(the_place, name) != 0)
        return;
    the_place = "";
    if (strcmp(the_fault, "write") == 0)
        lattice[7].link[TUP] = lattice[8].link[TUP];
    else if (strcmp(the_fault, "nan") == 0)
        lattice[7].link[TUP].e[0][0].real = NAN;
    else
        inject(the_fault);
}

/* Every bit of every number counts: the sum with random weights, relative to the norm. */
double digest(const Real *x, size_t pitch, size_t reals) {
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

extern double old_g, old_h, old_f;
void show_actions(su3_vector **x, su3_vector *sum) { /* sum: NULL: no fermions */
    const double all = d_action_rhmc(x, sum);
    printf("trajectory actions %.17g %.17g %.17g and their sum %.17g\n", old_g / volume, old_h / volume, old_f / volume,
           all / volume);
}

/* No routine of MILC reads the momenta in the sites, so they are requested; links are copied for create_G_from_site. */
void report(const char *what) {
    su3_matrix *links;
    Real *momenta = (Real *)malloc(sites_on_node * 4 * 9 * sizeof(Real));
    size_t i, k;
    show_actions(NULL, NULL);
    milcgpu_plugin_host_needs(MILCGPU_MOMENTA, "report");
    for (i = 0; i < 4 * sites_on_node; i++)
        for (k = 0; k < 9; k++)
            momenta[9 * i + k] = ((const Real *)&lattice[i / 4].mom[i % 4])[k];
    links = create_G_from_site();
    printf("trajectory %s: links %.17g momenta %.17g\n", what, digest((const Real *)links, 4 * sizeof *links, 72),
           digest(momenta, 36 * sizeof(Real), 36));
    free(momenta);
    free(links);
}

/* Reads fermion links as a measurement does. */
static void measure_fermion_links(void) {
    fn_links_t *fn;
    restore_fermion_links_from_site(fn_links, MILC_PRECISION);
    fn = LINKS_OF(fn_links, 0);
    printf("trajectory fermion links %.17g %.17g back %.17g %.17g\n",
           digest((const Real *)get_fatlinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_lnglinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_fatbacklinks(fn), 4 * sizeof(su3_matrix), 72),
           digest((const Real *)get_lngbacklinks(fn), 4 * sizeof(su3_matrix), 72));
}

static void random_sources(void) {
    su3_vector *source = (su3_vector *)malloc(sites_on_node * sizeof(su3_vector));
    z2rsource_plain_field(source, EVENANDODD);
    grsource_plain_field(source, ODD);
    printf("trajectory random source %.17g\n", digest((const Real *)source, sizeof *source, 6));
    free(source);
}

/* As in a measurement: loops, phases out, links read from the sites. */
void measure(void) {
    double space, time;
    d_plaquette(&space, &time);
    random_sources();
    printf("trajectory plaquettes with phases %.17g %.17g\n", space, time);
#ifndef MILC_HOST_MASTER
    g_measure_ks();
#endif
    rephase(OFF);
#ifdef MILC_HOST_MASTER
    g_measure();
#endif
    d_plaquette(&space, &time);
    printf("trajectory measured: plaquettes %.17g %.17g links %.17g\n", space, time,
           digest((const Real *)lattice[0].link, sizeof(site), 72));
    rephase(ON);
}

void new_lattice(const char *seed) {
    reload_lattice(FRESH, (file_name)seed);
    phases_in = OFF;
    rephase(ON);
    invalidate_fermion_links(fn_links);
}

extern int own_sources;

void trajectory(const char *fault, const char *at) {
    const Real eps = 0.05;
    nx = ny = nt = 4;
    nz = getenv("MILC_HOST_FEW_SITES") != NULL ? 2 : 4;
    make_lattice();
    fill_action(&fn_links->ap, &fn_links->aph);
    the_fault = fault, the_place = at;

    new_lattice("300");
    place("first lattice");
    update();
    measure_fermion_links();
    report("end");
    gauge_field_copy(F_OFFSET(old_link[0]), F_OFFSET(link[0]));
    invalidate_fermion_links(fn_links);
    measure();
    measure_fermion_links();

    /* Without actions in between, as in the R algorithm. */
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
    show_actions(NULL, NULL);
    measure();

    printf("sources of pseudofermions by MILC's own: %d\n", own_sources);

    new_lattice("301");
    create_fermion_links_from_site(MILC_PRECISION, 0, NULL); /* unread */
    invalidate_fermion_links(fn_links);
    place("another lattice");
    update_u(eps);
    imp_gauge_force_ks(eps, F_OFFSET(mom));
    report("another lattice");
}
