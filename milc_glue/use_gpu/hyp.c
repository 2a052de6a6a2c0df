/* load_hyp_links of hvy_qpot: HYP smearing of a field of links without phases, in all directions or in space alone.
 * MILC's own routine does other requests: other projections, or another direction left out. */
#include "glue.h"

#include "../include/hyp_coeff.h"
#include <string.h>

#include "routines.h"

static int has_weight(Real alpha) { return alpha >= 0 && alpha <= 1; }

static const char *why_own(const su3_matrix *links, const su3_matrix *smeared, int dir_exclude,
                           const hyp_coeffs_t *hc) {
    return hc->proj_method != HYP_SU3_TR_MAX || hc->hits < 1 ? "MILC's own: only the projection by SU(2) hits is built"
           : dir_exclude != TUP && dir_exclude != NODIR
               ? "MILC's own: only smearing in space, and in all directions, is built"
           : !has_weight(hc->alpha1) || !has_weight(hc->alpha2) || !has_weight(hc->alpha3)
               ? "MILC's own: a weight is not from 0 to 1"
           : links == smeared ? "MILC's own: the links are smeared in place"
                              : NULL;
}

void __wrap_load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc) {
    milcgpu_output output[] = {MILCGPU_MEMORY(hyp_link, 4 * sites_on_node * sizeof(su3_matrix))};
    milcgpu_call call = MILCGPU_MEMBERS(.row = MILCGPU_HYP_SMEAR, .name = "load_hyp_links",
                                        .why_own = why_own(U_link, hyp_link, dir_exclude, hc), MILCGPU_OUTPUTS(output),
                                        .compare = milcgpu_compare_as_links);
    milcgpu_hyp_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.alpha1 = hc->alpha1, spec.alpha2 = hc->alpha2, spec.alpha3 = hc->alpha3;
    spec.times = 1;
    spec.directions = dir_exclude == TUP ? 3 : 4;
    spec.hits = hc->hits;
    spec.signs = MILCGPU_SIGNS_OUT;
    milcgpu_offload(&call, milcgpu_plugin_hyp_smear(milcgpu_field_of(U_link), &spec, milcgpu_field_of(hyp_link)),
                    milcgpu_original(load_hyp_links)(U_link, hyp_link, dir_exclude, hc));
}
