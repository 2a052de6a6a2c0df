/* Routines that MILC has in their own files, so that the linker can replace calls of them. MILC's own smearing
 * copies the links and says that it ran. */
#include "hvy_qpot_includes.h"

#include "../include/hyp_coeff.h"
#include "layout.c"
#include <string.h>

#ifndef MILC_HOST_WITHOUT
void load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc) {
    printf("MILC's own smearing: without %d, alpha2 %g\n", dir_exclude, hc->alpha2);
    memcpy(hyp_link, U_link, 4 * volume * sizeof(su3_matrix));
}
#endif
