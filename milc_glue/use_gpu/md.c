/* Molecular dynamics: who has the newest fields. Gauge field and momenta stay on the device from one routine to the
 * next (updates.c, fermion_force.c); what MILC itself reads or writes in the sites is announced here. A routine that
 * MILC does asks for the host's copy first (milcgpu_need). Links on the device have phases in always; those in the sites
 * as phases_in says.
 *
 * In a trajectory of ks_imp_rhmc (update) every reader of solutions is known, too: these and the fermion links stay on
 * the device, and MILC's fields are filled only where somebody else reads them (milcgpu_need; links.h).
 */
#include "md.h"
#include "links.h"

#include "routines.h"

#ifndef MILCGPU_GLUE_md
void milcgpu_md_left(const char **left) {
    int r;
    for (r = MILCGPU_UPDATE_U; r <= MILCGPU_PLAQUETTE; r++)
        left[r] = MILCGPU_ABSENT;
}
void milcgpu_need_sites(int fields, const char *who) {
    (void)fields;
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
int milcgpu_keeps_solutions(void) { return 0; }
int milcgpu_md_defers(void) { return 0; }
su3_matrix *milcgpu_md_gauge_again(void) { return NULL; }
void milcgpu_md_gauge_done(su3_matrix *links) { (void)links; }
#else

/* Terms of all forces, and of the longest rational function. */
extern int n_order_naik_total __attribute__((weak)), max_rat_order __attribute__((weak));

/* While positive: rephase is called around something that does not read the sites but through these routines. */
static int quiet = 0;
/* While positive: a routine of MILC's works on the sites; of these: on the host's old copy, to be compared. */
static int own = 0, comparing = 0;
/* While positive: update() of ks_imp_rhmc. */
static int trajectory = 0;

milcgpu_plugin_lattice milcgpu_in_sites(void) {
    const int real = MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE;
    milcgpu_plugin_lattice l = {{lattice[0].link, real, sizeof(site)}, {lattice[0].mom, real, sizeof(site)}};
    return l;
}

int milcgpu_exponential_order(void) { return milcgpu_has(d_action_rhmc) ? 8 : milcgpu_has(update_h) ? 6 : 0; }

/* In ks_imp_rhmc; ks_imp_dyn reads links and solutions itself. */
int milcgpu_keeps_solutions(void) { return milcgpu_has(d_action_rhmc); }

/* Programs in which every reader of the sites is known; in others the host's copy is made new after every routine. */
static int stays(void) { return milcgpu_plugin_resident() && milcgpu_exponential_order() != 0; }

void milcgpu_need_sites(int fields, const char *who) {
    const int newer = milcgpu_plugin_newer_on_device(fields);
    const int phases = phases_in;
    if (comparing || fields == 0)
        return;
    if (!milcgpu_plugin_host_needs(fields, who))
        milcgpu_end_of_run();
    if ((newer & MILCGPU_LINKS) && phases == OFF) { /* they came with phases */
        phases_in = ON;
        milcgpu_original(rephase)(OFF);
    }
}

int milcgpu_put_phases_in(void) {
    if (phases_in == ON || milcgpu_plugin_newer_on_device(MILCGPU_LINKS))
        return 0;
    milcgpu_original(rephase)(ON);
    return 1;
}
void milcgpu_put_phases_back(int were_out) {
    if (were_out)
        milcgpu_original(rephase)(OFF);
}

int milcgpu_md_takes(milcgpu_routine routine, int can, const char *why, const char *who) {
    if (own || !milcgpu_takes_over())
        return 0;
    if (!can) {
        milcgpu_plugin_leaves(routine, why);
        return 0;
    }
    if (milcgpu_plugin_compare())
        milcgpu_need(MILCGPU_BOTH, who);
    return 1;
}

static int counted = 0;
void milcgpu_begin_own(milcgpu_routine routine, int reads, const char *who) {
    milcgpu_need(reads, who);
    if (own++ == 0 && (counted = milcgpu_plugin_active()))
        milcgpu_plugin_original(routine, 1);
}
void milcgpu_end_own(milcgpu_routine routine, int writes) {
    if (--own == 0 && counted)
        milcgpu_plugin_original(routine, 0);
    milcgpu_plugin_host_wrote(writes);
}

int milcgpu_finish(int one, const char *who) {
    if (milcgpu_plugin_compare())
        return 1;
    if (!stays())
        milcgpu_need(one, who);
    return 0;
}
double milcgpu_begin_compare(milcgpu_routine routine) {
    own++;
    comparing++;
    milcgpu_plugin_original(routine, 1);
    return -milcgpu_plugin_seconds();
}
double milcgpu_end_original(milcgpu_routine routine, double cpu_seconds) {
    cpu_seconds += milcgpu_plugin_seconds();
    milcgpu_plugin_original(routine, 0);
    own--;
    comparing--;
    return cpu_seconds;
}
void milcgpu_end_compare(milcgpu_routine routine, int one, const char *expected, double seconds, double cpu_seconds) {
    cpu_seconds = milcgpu_end_original(routine, cpu_seconds);
    milcgpu_judge(milcgpu_plugin_compare_gauge(routine, one, expected, seconds, cpu_seconds));
}

/* ---- fermion links ---------------------------------------------------------------------------------------------- */

/* The field that stands for the device's links while fermion links are made. */
static int restoring = 0;
static su3_matrix *lent = NULL;

int milcgpu_md_lends(su3_matrix *room) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    if (!restoring || !stays() || milcgpu_plugin_compare() || phases_in != ON || !milcgpu_plugin_load_links(&sites))
        return 0;
    lent = room;
    return 1;
}
int milcgpu_md_lent(const su3_matrix *links) { return lent != NULL && links == lent; }
void milcgpu_md_fill(su3_matrix *links) {
    if (!milcgpu_md_lent(links))
        return;
    lent = NULL;
    milcgpu_need_sites(MILCGPU_LINKS, "create_G_from_site");
    milcgpu_plugin_gather_links(lattice[0].link, sizeof(site), links);
}

int milcgpu_md_defers(void) {
    return trajectory && restoring && stays() && milcgpu_reads_are_known() && !milcgpu_plugin_compare();
}

static su3_matrix *lent_before;
static int were_out;
su3_matrix *milcgpu_md_gauge_again(void) {
    were_out = phases_in == OFF;
    lent_before = lent;
    if (were_out)
        rephase(ON);
    restoring++;
    return create_G_from_site();
}
void milcgpu_md_gauge_done(su3_matrix *links) {
    restoring--;
    lent = lent_before;
    free(links);
    if (were_out)
        rephase(OFF);
}

void __wrap_restore_fermion_links_from_site(fermion_links_t *fl, int prec) {
    restoring++;
    milcgpu_original(restore_fermion_links_from_site)(fl, prec);
    restoring--;
    lent = NULL;
}

/* ---- trajectory ------------------------------------------------------------------------------------------------- */

int __wrap_update(void) {
    const int forces = &n_order_naik_total != NULL ? n_order_naik_total : 0;
    const int longest = &max_rat_order != NULL ? max_rat_order : 0;
    int iterations;
    if (!milcgpu_keeps_solutions())
        return milcgpu_original(update)();
    trajectory++;
    if (milcgpu_takes_over() && stays())
        milcgpu_plugin_vectors_begin(forces > longest ? forces : longest, 0);
    iterations = milcgpu_original(update)();
    milcgpu_plugin_vectors_end();
    trajectory--;
    return iterations;
}

/* The sum of a rational function, of solutions that are on the device. 1: done. */
static int sum_on_device(su3_vector *dest, field_offset src, su3_vector **psim, const Real *residues, int order,
                         int parity) {
    milcgpu_field x[order], source = milcgpu_vector_field((su3_vector *)F_PT(&lattice[0], src));
    double weights[order];
    int k;
    for (k = 0; k < order; k++) {
        x[k] = milcgpu_vector_field(psim[k]);
        weights[k] = residues[k + 1];
    }
    source.pitch_bytes = sizeof(site);
    return milcgpu_plugin_vectors_sum(x, order, weights, parity, residues[0], source, milcgpu_vector_field(dest));
}

int __wrap_ks_rateval(su3_vector *dest, field_offset src, su3_vector **psim, Real *residues, int order, int parity) {
    if (trajectory && order > 0 && (parity == EVEN || parity == ODD) &&
        sum_on_device(dest, src, psim, residues, order, parity))
        return 0;
    milcgpu_need(MILCGPU_SOLUTIONS, "ks_rateval");
    return milcgpu_original(ks_rateval)(dest, src, psim, residues, order, parity);
}

/* The momenta's action is summed by MILC, in the same file. */
double __wrap_d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    double action;
    milcgpu_need(MILCGPU_MOMENTA, "d_action_rhmc");
    quiet++;
    action = milcgpu_original(d_action_rhmc)(multi_x, sumvec);
    quiet--;
    return action;
}
double __wrap_d_action(void) {
    double action;
    milcgpu_need(MILCGPU_MOMENTA, "d_action");
    quiet++;
    action = milcgpu_original(d_action)();
    quiet--;
    return action;
}
void __wrap_update_h(Real eps) {
    quiet++;
    milcgpu_original(update_h)(eps);
    quiet--;
}

/* ---- routines that read or write the sites ---------------------------------------------------------------------- */

/* Phases in and out are a matter of the host's copy. Where that is old and nobody reads it, only the word changes. */
void __wrap_rephase(int flag) {
    if (!own && quiet && milcgpu_plugin_newer_on_device(MILCGPU_LINKS) && flag != phases_in) {
        phases_in = flag;
        return;
    }
    milcgpu_need(MILCGPU_LINKS, "rephase");
    milcgpu_original(rephase)(flag);
}

void __wrap_gauge_field_copy(field_offset from, field_offset to) {
    if (from == F_OFFSET(link[0]))
        milcgpu_need(MILCGPU_LINKS, "gauge_field_copy");
    if (to == F_OFFSET(link[0]))
        milcgpu_need(MILCGPU_FERMION_LINKS, "gauge_field_copy");
    milcgpu_original(gauge_field_copy)(from, to);
    if (to == F_OFFSET(link[0]))
        milcgpu_plugin_host_wrote(MILCGPU_LINKS);
}

void __wrap_ranmom(void) {
    milcgpu_original(ranmom)();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}

/* The flag may say that the links stay as they are. */
gauge_file *__wrap_reload_lattice(int flag, milcgpu_file_name file) {
    gauge_file *loaded;
    milcgpu_need(MILCGPU_LINKS | MILCGPU_FERMION_LINKS, "reload_lattice");
    loaded = milcgpu_original(reload_lattice)(flag, file);
    milcgpu_plugin_host_wrote(MILCGPU_LINKS);
    return loaded;
}

void milcgpu_md_left(const char **left) {
    milcgpu_updates_left(left);
    milcgpu_fermion_force_left(left);
}
#endif
