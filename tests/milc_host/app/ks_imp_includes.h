/* Of ks_imp_rhmc: rational functions, and the source of a pseudofermion. */
#pragma once
#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"

typedef struct {
    int order;
    Real *res, *pole;
} params_ratfunc;
void grsource_imp_rhmc(field_offset dest, params_ratfunc *rf, int parity, su3_vector **multi_x, su3_vector *sumvec,
                       Real rsqmin, int niter, int prec, imp_ferm_links_t *fn, int naik_index, Real naik_epsilon);
