/* load_hyp_links of hvy_qpot: HYP smearing of a field of links without phases, in all directions or in space alone.
 * What else it may be asked for (other projections, another direction left out) is MILC's. */
#include "glue.h"

#include "../include/hyp_coeff.h"
#include <string.h>

#include "routines.h"

static int has_weight(Real alpha) { return alpha >= 0 && alpha <= 1; }

static double own(su3_matrix *links, su3_matrix *smeared, int dir_exclude, hyp_coeffs_t *hc) {
    return milcgpu_by_milc(MILCGPU_HYP_SMEAR, milcgpu_original(load_hyp_links)(links, smeared, dir_exclude, hc));
}

void __wrap_load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc) {
    milcgpu_hyp_spec spec;
    double seconds;
    if (hc->proj_method != HYP_SU3_TR_MAX || hc->hits < 1 || (dir_exclude != TUP && dir_exclude != NODIR) ||
        !has_weight(hc->alpha1) || !has_weight(hc->alpha2) || !has_weight(hc->alpha3) || U_link == hyp_link ||
        !milcgpu_offloads()) {
        milcgpu_original(load_hyp_links)(U_link, hyp_link, dir_exclude, hc);
        return;
    }
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.alpha1 = hc->alpha1, spec.alpha2 = hc->alpha2, spec.alpha3 = hc->alpha3;
    spec.times = 1;
    spec.directions = dir_exclude == TUP ? 3 : 4;
    spec.hits = hc->hits;
    spec.signs = MILCGPU_SIGNS_OUT;
    seconds = -milcgpu_plugin_seconds();
    if (!milcgpu_plugin_hyp_smear(milcgpu_field_of(U_link), &spec, milcgpu_field_of(hyp_link))) {
        own(U_link, hyp_link, dir_exclude, hc);
        return;
    }
    seconds += milcgpu_plugin_seconds();
    if (milcgpu_plugin_compare()) {
        su3_matrix *theirs = (su3_matrix *)milcgpu_spare_room(4 * sites_on_node * sizeof(su3_matrix), "a comparison");
        if (theirs != NULL) {
            const double cpu_seconds = own(U_link, theirs, dir_exclude, hc);
            void *ours_of[1] = {hyp_link}, *theirs_of[1] = {theirs};
            milcgpu_judge(milcgpu_plugin_compare_links(MILCGPU_HYP_SMEAR, 1, ours_of, theirs_of, seconds, cpu_seconds));
        }
        free(theirs);
    }
}
