/* The types, globals and routines of MILC's program of HYP-smeared Wilson loops that the glue uses, with MILC's names.
 * Tests copy this file to include/hyp_coeff.h, too. */
#ifndef HVY_QPOT_INCLUDES_H
#define HVY_QPOT_INCLUDES_H

#include "types.h"

typedef struct {
    short x, y, z, t;
    char parity;
    su3_matrix link[4];
} site;

#include "layout.h"

enum { HYP_U3, HYP_SU3, HYP_SU3_TR_MAX };
typedef struct {
    Real alpha1, alpha2, alpha3;
    int proj_method, hits;
} hyp_coeffs_t;
void load_hyp_links(su3_matrix *U_link, su3_matrix *hyp_link, int dir_exclude, hyp_coeffs_t *hc);

#endif
