/* The trajectory of ks_imp_rhmc and ks_imp_dyn, and routines that read or write the sites. In a trajectory of
 * ks_imp_rhmc (update) every reader of solutions is known, too. So solutions and fermion links stay on the device, and
 * MILC's fields are filled only when another routine reads them (milcgpu_need; links.h). */
#include "reload.h"
#include "sites.h"
#include "solve_call.h"

#include "routines.h"

#include "random_momenta.h"

/* Terms of all forces together, and of the longest rational function. */
extern int n_order_naik_total __attribute__((weak)), max_rat_order __attribute__((weak));

void __wrap_restore_fermion_links_from_site(fermion_links_t *fl, int prec) {
    milcgpu_begin_fermion_links();
    milcgpu_original(restore_fermion_links_from_site)(fl, prec);
    milcgpu_end_fermion_links();
}
fermion_links_t *__wrap_create_fermion_links_from_site(int prec, int n_naiks, double *eps_naik) {
    fermion_links_t *fl;
    milcgpu_begin_fermion_links();
    fl = milcgpu_original(create_fermion_links_from_site)(prec, n_naiks, eps_naik);
    milcgpu_end_fermion_links();
    return fl;
}

/* ---- trajectory ------------------------------------------------------------------------------------------------- */

int __wrap_update(void) {
    const int forces = &n_order_naik_total != NULL ? n_order_naik_total : 0;
    const int longest = &max_rat_order != NULL ? max_rat_order : 0;
    int iterations;
    if (!milcgpu_keeps_solutions())
        return milcgpu_original(update)();
    milcgpu_running.trajectory++;
    milcgpu_plugin_trajectory(1);
    if (milcgpu_offloads() && milcgpu_sites_stay())
        milcgpu_plugin_vectors_begin(forces > longest ? forces : longest, 0);
    iterations = milcgpu_original(update)();
    milcgpu_plugin_vectors_end();
    milcgpu_plugin_trajectory(0);
    milcgpu_running.trajectory--;
    return iterations;
}

/* MILC's ks_ratinv solves with a copy of a member of its sites, on both parities. Beside the solves, this copy is most
 * of its work. In a trajectory the copy is deferred. */
int __wrap_ks_ratinv(field_offset src, su3_vector **psim, Real *roots, Real *residues, int order, int max_iterations,
                     Real rsqmin, int prec, int parity, Real *final_rsq, imp_ferm_links_t *fn, int naik_index,
                     Real naik_epsilon) {
    int iterations;
    milcgpu_running.ratinv++;
    iterations = milcgpu_original(ks_ratinv)(src, psim, roots, residues, order, max_iterations, rsqmin, prec, parity,
                                             final_rsq, fn, naik_index, naik_epsilon);
    milcgpu_running.ratinv--;
    milcgpu_plugin_drop_deferred(MILCGPU_SOURCE, NULL);
    return iterations;
}

su3_vector *__wrap_create_v_field_from_site_member(field_offset member) {
    su3_vector *copy;
    if (!milcgpu_running.ratinv || !milcgpu_running.trajectory || !milcgpu_offloads() || !milcgpu_sites_stay() ||
        milcgpu_plugin_compare())
        return milcgpu_original(create_v_field_from_site_member)(member);
    copy = (su3_vector *)milcgpu_room(sites_on_node * sizeof(su3_vector), "a source");
    milcgpu_defer_source(copy, (su3_vector *)F_PT(&lattice[0], member));
    return copy;
}

/* Sums a rational function of solutions that are on the device. Returns 1 if it is done. */
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
    if (milcgpu_running.trajectory && order > 0 && (parity == EVEN || parity == ODD) &&
        sum_on_device(dest, src, psim, residues, order, parity))
        return 0;
    milcgpu_need(MILCGPU_SOLUTIONS, "ks_rateval");
    return milcgpu_original(ks_rateval)(dest, src, psim, residues, order, parity);
}

#ifndef ANISOTROPY
/* The actions of the last call; MILC prints differences from them. */
extern double old_g __attribute__((weak)), old_h __attribute__((weak)), old_f __attribute__((weak)),
    old_a __attribute__((weak));

typedef struct {
    double ours, theirs;
} action_of_momenta;
static int sum_momenta(double *action) {
    const milcgpu_plugin_lattice sites = milcgpu_in_sites();
    return milcgpu_plugin_momentum_action(&sites, action);
}
static int compare_actions_of_momenta(const milcgpu_call *call) {
    const action_of_momenta *const action = (const action_of_momenta *)call->details;
    const double constant = 16. * volume; /* which both sums have: the rest may vanish */
    return milcgpu_compare_numbers(call, action->ours + constant, action->theirs + constant);
}
/* Returns 0 if MILC's own routine is to sum it. */
static int momentum_action(double *sum) {
    action_of_momenta action = {0, 0};
    milcgpu_call call =
        MILCGPU_MEMBERS(.row = MILCGPU_MOMENTUM_ACTION, .name = "d_action_rhmc", .stay = milcgpu_sites_stay,
                        .compare = hmom_action != NULL ? compare_actions_of_momenta : NULL, .details = &action,
                        .only_compared = 1);
    int done;
    call.why_own = fermion_action == NULL || &old_g == NULL || &old_h == NULL || &old_f == NULL || &old_a == NULL
                       ? "MILC's own: this program lacks a routine whose number it prints"
                   : phases_in != ON ? "MILC's own: the links have no phases"
                                     : NULL;
    done = milcgpu_offload(&call, sum_momenta(&action.ours), action.theirs = milcgpu_there(hmom_action)());
    *sum = action.ours;
    return done;
}

/* Like MILC's d_action_rhmc, which sums the action of the momenta in the same file, where the linker replaces no call.
 */
static double sum_actions(su3_vector **multi_x, su3_vector *sumvec, double of_momenta) {
    double seconds = -milcgpu_plugin_seconds(), space, time, of_links, of_fermions, all;
    d_plaquette(&space, &time); /* phases are in */
    node0_printf("PLAQUETTE ACTION: %e\n", (double)beta * volume * (space + time));
    of_links = beta / 3.0 * milcgpu_gauge_action_phases_in();
    of_fermions = milcgpu_there(fermion_action)(multi_x, sumvec);
    all = of_links + of_momenta + of_fermions;
    node0_printf("ACTION: g,h,f = %.14e  %.14e  %.14e  %.14e\n", of_links, of_momenta, of_fermions, all);
    node0_printf("DG = %e, DH = %e, DF = %e, D = %e\n", of_links - old_g, of_momenta - old_h, of_fermions - old_f,
                 all - old_a);
    old_g = of_links;
    old_h = of_momenta;
    old_f = of_fermions;
    old_a = all;
    seconds += milcgpu_plugin_seconds();
    node0_printf("ACTIONTIME: time = %e\n", seconds);
    return all;
}
#endif

double __wrap_d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    double action;
#ifndef ANISOTROPY
    double of_momenta;
    if (momentum_action(&of_momenta)) {
        milcgpu_running.only_offloaded_read++;
        action = sum_actions(multi_x, sumvec, of_momenta);
        milcgpu_running.only_offloaded_read--;
        return action;
    }
#endif
    milcgpu_need(MILCGPU_MOMENTA, "d_action_rhmc");
    milcgpu_running.only_offloaded_read++;
    action = milcgpu_original(d_action_rhmc)(multi_x, sumvec);
    milcgpu_running.only_offloaded_read--;
    return action;
}
double __wrap_d_action(void) {
    double action;
    milcgpu_need(MILCGPU_MOMENTA, "d_action");
    milcgpu_running.only_offloaded_read++;
    action = milcgpu_original(d_action)();
    milcgpu_running.only_offloaded_read--;
    return action;
}
void __wrap_update_h(Real eps) {
    milcgpu_running.only_offloaded_read++;
    milcgpu_original(update_h)(eps);
    milcgpu_running.only_offloaded_read--;
}

/* ---- routines that read or write the sites ---------------------------------------------------------------------- */

void __wrap_gauge_field_copy(field_offset from, field_offset to) {
    if (from == F_OFFSET(link[0]))
        milcgpu_need(MILCGPU_LINKS, "gauge_field_copy");
    if (to == F_OFFSET(link[0]))
        milcgpu_plugin_host_writes(MILCGPU_LINKS);
    milcgpu_original(gauge_field_copy)(from, to);
    if (to == F_OFFSET(link[0]))
        milcgpu_plugin_host_wrote(MILCGPU_LINKS);
}

void __wrap_ranmom(void) {
    draw_momenta();
    milcgpu_plugin_host_wrote(MILCGPU_MOMENTA);
}

/* The flag may say that the links stay as they are. */
gauge_file *__wrap_reload_lattice(int flag, milcgpu_file_name file) {
    gauge_file *loaded;
    milcgpu_need(MILCGPU_LINKS, "reload_lattice");
    milcgpu_plugin_host_writes(MILCGPU_LINKS);
    milcgpu_begin_warm(flag);
    loaded = milcgpu_original(reload_lattice)(flag, file);
    milcgpu_end_warm();
    milcgpu_plugin_host_wrote(MILCGPU_LINKS);
    return loaded;
}
