/* What the files of the glue share. They are compiled by MILC's make with MILC's headers and flags, since the sizes of
 * its structures differ between versions and precisions. Each __wrap_X takes the place of MILC's X at link time
 * (ld --wrap=X), and __real_X is MILC's own. What only some programs have (HISQ, the site routines) is a weak symbol.
 */
#ifndef MILCGPU_GLUE_H
#define MILCGPU_GLUE_H

#include "../generic_ks/generic_ks_includes.h"
#include "../include/fermion_links.h"
#include "plugin.h"
#include <quark_action.h>

#if defined(HAVE_QUDA) || defined(HAVE_GRID) || defined(HAVE_QOP) || defined(USE_CG_GPU) || defined(USE_FL_GPU)
#error "milcgpu takes over MILC's CPU routines: build with WANTQUDA=false, WANTGRID=false, WANTQOP=false"
#endif
#if FERM_ACTION != HISQ && FERM_ACTION != FN_TYPE
#error "milcgpu serves the improved staggered actions with fat and long links: asqtad and HISQ"
#endif

/* Whether to take over this call; starts the plugin at the first. */
int milcgpu_takes_over(void);

/* A field of colour vectors, and a member of the sites. */
static inline milcgpu_field milcgpu_vectors(const su3_vector *f) {
    milcgpu_field field = {(void *)f, MILC_PRECISION == 1 ? MILCGPU_SINGLE : MILCGPU_DOUBLE, 0};
    return field;
}

/* malloc, or the end of the run as MILC itself has it. */
void *milcgpu_room(size_t bytes, const char *what);

/* MILCGPU_COMPARE=strict: ends the run unless `good`. */
void milcgpu_judge(int good);

#endif
