/* The trajectory of ks_imp_rhmc and ks_imp_dyn, and routines that read or write the sites. In a trajectory of
 * ks_imp_rhmc (update) every reader of solutions is known, too: these and the fermion links stay on the device, and
 * MILC's fields are filled only where somebody else reads them (milcgpu_need; links.h). */
#include "sites.h"

#include "routines.h"

/* Terms of all forces, and of the longest rational function. */
extern int n_order_naik_total __attribute__((weak)), max_rat_order __attribute__((weak));

void __wrap_restore_fermion_links_from_site(fermion_links_t *fl, int prec) {
    milcgpu_begin_fermion_links();
    milcgpu_original(restore_fermion_links_from_site)(fl, prec);
    milcgpu_end_fermion_links();
}

/* ---- trajectory ------------------------------------------------------------------------------------------------- */

int __wrap_update(void) {
    const int forces = &n_order_naik_total != NULL ? n_order_naik_total : 0;
    const int longest = &max_rat_order != NULL ? max_rat_order : 0;
    int iterations;
    if (!milcgpu_keeps_solutions())
        return milcgpu_original(update)();
    milcgpu_in_trajectory++;
    if (milcgpu_offloads() && milcgpu_sites_stay())
        milcgpu_plugin_vectors_begin(forces > longest ? forces : longest, 0);
    iterations = milcgpu_original(update)();
    milcgpu_plugin_vectors_end();
    milcgpu_in_trajectory--;
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
    if (milcgpu_in_trajectory && order > 0 && (parity == EVEN || parity == ODD) &&
        sum_on_device(dest, src, psim, residues, order, parity))
        return 0;
    milcgpu_need(MILCGPU_SOLUTIONS, "ks_rateval");
    return milcgpu_original(ks_rateval)(dest, src, psim, residues, order, parity);
}

/* The momenta's action is summed by MILC, in the same file. */
double __wrap_d_action_rhmc(su3_vector **multi_x, su3_vector *sumvec) {
    double action;
    milcgpu_need(MILCGPU_MOMENTA, "d_action_rhmc");
    milcgpu_only_offloaded_read++;
    action = milcgpu_original(d_action_rhmc)(multi_x, sumvec);
    milcgpu_only_offloaded_read--;
    return action;
}
double __wrap_d_action(void) {
    double action;
    milcgpu_need(MILCGPU_MOMENTA, "d_action");
    milcgpu_only_offloaded_read++;
    action = milcgpu_original(d_action)();
    milcgpu_only_offloaded_read--;
    return action;
}
void __wrap_update_h(Real eps) {
    milcgpu_only_offloaded_read++;
    milcgpu_original(update_h)(eps);
    milcgpu_only_offloaded_read--;
}

/* ---- routines that read or write the sites ---------------------------------------------------------------------- */

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
